"""Settings for a number of people, chosen on invented people (`envs.city`) alone."""

from __future__ import annotations

from typing import Any

from tacit.methods.imitation.pategail.critics import Critic
from tacit.methods.imitation.pategail.embedding import Embedding
from tacit.methods.imitation.pategail.plan import Kind, Plan
from tacit.methods.imitation.pategail.training import Ppo
from tacit.methods.imitation.policy import Layout

FEW, MANY = 300, 5_000
"""Below FEW people neither critics nor the policy see the time of day, whose rewards the noise would drown; from MANY
on there are fewer rounds and fewer public days, for time's sake."""


def recipe(kind: Kind, people: int) -> Plan:
    """The plan of a kind for N people; `dataclasses.replace` changes it.

    Args:
        kind: what a round asks.
        people: N, public.
    """
    few, many = people < FEW, people >= MANY
    rounds, days = (20, 150) if many else (60, 300)
    common: dict[str, Any] = {"people": people, "kind": kind, "rounds": rounds, "days": days, "updates": 1}
    if kind == "linear":
        fine = Layout(times=8) if few else Layout(times=8, stays=(1, 2, 4, 8), counts=(1, 2, 3, 5))
        return Plan(**common | {"rounds": 30, "updates": 2, "layout": fine, "clip": 0.1})
    common |= {"critic": Critic(rate=0.003, steps=10 if many else 5), "ppo": Ppo(average=0.85 if many else 0.95)}
    common |= {"embedding": Embedding(harmonics=0 if few else 3)}
    if kind == "gradient":
        return Plan(**common | {"ppo": Ppo(hidden=(), rate=0.03, average=0.85 if many else 0.9)}, clip=0.2)
    if kind == "table":
        layout = Layout(counts=(1, 2, 4)) if few else Layout(times=8, counts=(1, 2, 4))
        return Plan(**common, layout=layout, clip=0.5 if few else 2.0)
    return Plan(**common, queries=128 if few else 512, clip=1.0 if few else 2.0, allocation="utility")
