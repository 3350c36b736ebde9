"""CartPole with the paper's experts, smaller: does consensus fail, or do the stand-ins for its experts?

The paper trains six agents by PPO on every one of 1,000 variations of CartPole (gravity, force, mass), networks of 512,
256 and 64 units, and keeps the best three (appendix B.1). Here one agent a variation learns, with 100,000 steps and
networks of 64 and 64 units: 1,000 experts, delta 1/2,000. The same methods, recipes and seeds learn from as many
stand-ins, good and mixed, of `experts_table`, which are parametric controllers. Experts lie under
`runs/experts/ppo/`: a variation that is trained again gives the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np

from experiments.experts import experts_runs
from experiments.experts.experts_recipes import recipes
from experiments.experts.experts_runs import SIZES, Field
from experiments.experts.experts_table import Run, Values
from experiments.experts.paper_experts import Trained, Training, choose, train
from experiments.lib.check import Figure
from experiments.lib.configuration import Json, describe
from experiments.lib.queue import command_line
from experiments.lib.store import Store, store_of
from tacit.agents.stacked import StackedPolicies
from tacit_worlds.populations import Kind, Name

EXPERTS, CHUNK = 1_000, 20
WORLD: Name = "cart_pole"
FOLDER = experts_runs.KEPT / "ppo"
TRAINING = Training(steps=100_000, rates=(1e-3,), minibatches=(4,), hidden=(64, 64))
KINDS, SEEDS = ("ppo", "good", "mixed"), (200, 201, 202)
METHODS = ("votes", "return_weighted", "dpsgd_alone", "consensus_dpsgd", "consensus_only", "cql", "experts")


@dataclass(frozen=True)
class Paper(Field):
    """The experts that PPO trained, whose logs are another draw for every seed."""

    @cached_property
    def population(self) -> StackedPolicies:
        """The experts."""
        return choose(WORLD, [Trained.load(file(index)) for index in range(EXPERTS)], EXPERTS)


def file(index: int) -> Path:
    """Of a variation."""
    return FOLDER / f"{index:04d}.npz"


def field(kind: str, seed: int) -> Field:
    """A population of 1,000 experts."""
    made = Field if kind != "ppo" else Paper
    return made(WORLD, cast(Kind, kind), seed, EXPERTS, SIZES[WORLD])


def rows() -> list[str]:
    chunks = [f"train/{first}" for first in range(0, EXPERTS, CHUNK)]
    return chunks + [f"{kind}/{method}/{seed}" for seed in SEEDS for kind in KINDS for method in METHODS]


def configuration(key: str) -> Json:
    kind, method, *_ = key.split("/")
    if kind == "train":
        return {"world": experts_runs.physics(WORLD), "training": describe(TRAINING), "variations": CHUNK}
    here = describe(field(kind, SEEDS[0])) | {"world": experts_runs.physics(WORLD)}
    del here["seed"]
    experts = describe(TRAINING) if kind == "ppo" else None
    return {"field": here, "training": experts, "method": method, "ways": describe(ways())}


store = store_of(__file__, configuration, "experiments.experts.experts_recipes, chosen on seeds 0 to 7")


def ways() -> object:
    """The recipes of the table, for a third of its experts."""
    found = recipes(WORLD)
    return replace(found, consensus=replace(found.consensus, experts=EXPERTS))


def run_row(key: str, results: Store) -> None:
    """Train some variations, or learn from all experts."""
    kind, method, *rest = key.split("/")
    if kind == "train":
        first, values = (
            int(method),
            {"worth": [float(trained(index)) for index in range(int(method), int(method) + CHUNK)]},
        )
        results.put(key, dataset=f"variations {first} to {first + CHUNK - 1} of {WORLD}", seed=first, values=values)
    else:
        here = field(kind, int(rest[0]))
        for index in range(EXPERTS if kind == "ppo" else 0):
            trained(index)
        with here.logs() as logs:
            found: Values = Run(here, logs, ways()).values(method)
        results.put(key, dataset=here.words, seed=here.seed, values=found)
        values = found
    print(f"{key}: {values}", flush=True)


def trained(index: int) -> float:
    """The return of the expert of a variation on it; trained where it is missing."""
    path = file(index)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial.npz")
        train(WORLD, index, TRAINING).save(partial)
        partial.rename(path)
    return float(Trained.load(path).worth[0])


def figures() -> list[Figure]:
    """Recomputed from the raw rows: whether the experts are good on their own variations.

    Raises:
        LookupError: a row is missing or has another configuration.
    """
    results = store()
    worth = [one for key in rows() if key.startswith("train/") for one in results.values(key)["worth"]]
    for kind in KINDS:
        for method in METHODS:
            for seed in SEEDS:
                results.values(f"{kind}/{method}/{seed}")
    return [Figure("mean return of the experts on their variations, of at most 1,000", float(np.mean(worth)), 900.0)]


if __name__ == "__main__":
    command_line(__file__)
