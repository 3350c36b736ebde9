"""Settings for a number of people, chosen on invented people (`envs.city`) alone."""

from __future__ import annotations

import math
from typing import Any

from tacit.methods.mobility.pategail.critics import Critic
from tacit.methods.mobility.pategail.embedding import Embedding
from tacit.methods.mobility.pategail.plan import Kind, Plan
from tacit.methods.mobility.pategail.training import Ppo
from tacit.methods.mobility.policy import Layout

FINE, MANY = 1_000, 5_000
"""Below N epsilon = FINE neither critics nor the policy see the time of day, whose rewards the noise would drown; from
FINE and from MANY people on there are fewer rounds, and at last fewer public days, for time's sake."""


def recipe(kind: Kind, people: int, epsilon: float = 2.0) -> Plan:
    """The plan of a kind for N people; `dataclasses.replace` changes it.

    Args:
        kind: what a round asks.
        people: N, public.
        epsilon: what the plan is going to be calibrated to, about; infinity for a plan without noise.
    """
    fine, many, free = people * epsilon >= FINE, people >= MANY, math.isinf(epsilon)
    common: dict[str, Any] = {"people": people, "kind": kind, "updates": 1, "days": 150 if many else 300}
    if kind == "linear":
        layout = Layout(times=8, stays=(1, 2, 4, 8), counts=(1, 2, 3, 5)) if fine else Layout(times=8)
        return Plan(**common | {"rounds": 30, "updates": 2}, layout=layout, clip=0.1)
    if many:
        rounds, steps, average = 10, 10, 0.8
    elif people >= FINE:
        rounds, steps, average = 25, 5, 0.85
    elif fine:
        rounds, steps, average = (100 if free else 40), 10, 0.9
    else:
        rounds, steps, average = 60, 5, 0.95
    common |= {"rounds": rounds, "critic": Critic(rate=0.003, steps=steps)}
    common |= {"embedding": Embedding(harmonics=3 if fine else 0)}
    if kind == "gradient":
        return Plan(**common, ppo=Ppo(hidden=(), rate=0.03, average=min(average, 0.9)), clip=0.2)
    common |= {"ppo": Ppo(average=average)}
    if kind == "table":
        layout = Layout(times=8, counts=(1, 2, 4)) if fine else Layout(counts=(1, 2, 4))
        return Plan(**common, layout=layout, clip=None if free else 2.0 if fine else 0.5)
    clip = None if free else 4.0 if fine else 1.0
    return Plan(**common, queries=512 if fine else 128, clip=clip, allocation="utility")
