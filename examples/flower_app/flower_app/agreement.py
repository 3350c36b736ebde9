"""What devices and server agree on before anybody is asked. Devices run this code, so that no server can change it."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from types import ModuleType
from typing import Any

from flwr.app import Context

from tacit import Composition, Ledger, Unit
from tacit.methods import mobility
from tacit.methods.mobility import pategail
from tacit_worlds.city import GRID

PEOPLE = 1_000
"""The declared population: at most so many devices may ever be connected."""
SIMULATED = True
"""False as soon as one device holds a real person's days."""
DAYS = 20
"""Most days of one person that are read."""
ROUNDS = 30
"""How often everybody's critic is asked."""
EPSILON, DELTA = 2.0, 1e-5
UNIT = Unit("person", "add_or_remove", PEOPLE)
METHODS: dict[str, ModuleType] = {"one-shot": mobility, "linear": pategail}
"""One sum of what everybody does, or rounds in which everybody's linear critic is asked."""


@functools.cache
def plan(method: str) -> Any:
    """The plan of a run, with the noise that its promise needs; the server adds it, and sees answers in the clear."""
    if method == "one-shot":
        return mobility.OneShotPlan(days=DAYS).calibrate(unit=UNIT, epsilon=EPSILON, delta=DELTA)
    recipe = dataclasses.replace(pategail.recipe("linear", PEOPLE, EPSILON), rounds=ROUNDS)
    return recipe.calibrate(unit=UNIT, epsilon=EPSILON, delta=DELTA)


def works(method: str) -> Any:
    """What a device computes for each part of the plan."""
    return METHODS[method].build_contributions(plan(method), GRID)


def folder(context: Context) -> Path:
    """Where a device keeps what is hers: in a folder of her own choice, or in a simulation in one beside all others."""
    own = context.node_config.get("folder")
    person = context.node_config["partition-id"]
    return Path(str(context.run_config["folder"])) / f"device{person}" if own is None else Path(str(own))


def ledger(at: Path) -> Ledger:
    """A device's or the server's: it pays for one run, which samples nobody, and refuses a second one."""
    return Ledger(at / "ledger", UNIT, epsilon=EPSILON, delta=DELTA, composition=Composition(sampled=0))
