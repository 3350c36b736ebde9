"""Settings for a number of people, chosen on invented people (`envs.city`) alone."""

from __future__ import annotations

from typing import Any

from tacit.methods.imitation.pategail.critics import Critic
from tacit.methods.imitation.pategail.plan import Kind, Plan
from tacit.methods.imitation.pategail.rewards import Calibration
from tacit.methods.imitation.pategail.training import Ppo
from tacit.methods.imitation.policy import Layout

MANY = 5_000
"""From so many people on, critics take fewer steps and fewer rounds, for time's sake."""


def recipe(kind: Kind, people: int) -> Plan:
    """The plan of a kind for N people; `dataclasses.replace` changes it.

    Args:
        kind: what a round asks.
        people: N, public.
    """
    rounds = 30 if people < MANY else 20
    critic, calibration, layout = Critic(rate=0.003, steps=10), Calibration(kappa=0.25), Layout(times=8)
    common: dict[str, Any] = {"people": people, "kind": kind, "rounds": rounds, "critic": critic, "layout": layout}
    common["calibration"] = calibration
    if kind == "gradient":
        return Plan(**common, updates=1, clip=1.0, ppo=Ppo(hidden=(), rate=0.03))
    return Plan(**common, updates=2, clip=0.1 if kind == "linear" else None)
