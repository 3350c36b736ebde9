"""How a round's budget is split among rewards, at equal rho: PateGAIL++ on Geolife's 83 people.

Every rule costs the same, whatever it does: answers are bounded after they are weighted. Rows, all else as in the
recipe for rewards of samples:

- `uniform`: every reward gets the same noise;
- `paper`: less noise for what looked generated in the round before (weights 1 - R + .05), as PateGAIL++ asks; the
  rewards of the round before are its pilot, which costs nothing;
- `mirrored`: the other way round, more noise for what looked generated: what the paper's direction is worth;
- `utility`: noise by how often a pair is played, which makes the error of the policy's gradient least;
- `noise`: rewards are noise alone, split evenly.

A cell is one (rule, epsilon, seed): five training seeds with noise of their own, the last averaged policy, none picked.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from experiments.lib.experiment import Figure, Json, Store, command_line, store_of
from experiments.pategail.mobility_runs import GEOLIFE, described, unit, world
from experiments.pategail.mobility_ways import changed, guaranteed
from tacit.methods.mobility import pategail

EPSILONS = (2.0, 10.0)
SEEDS = tuple(range(5))
RULES = ("uniform", "paper", "mirrored", "utility", "noise")
LEAST = 0.05
"""The weight of a reward of 0 under the rule `mirrored`."""


def plan(rule: str) -> pategail.PateGailPlan:
    """The recipe with this rule."""
    recipe = pategail.recipe("samples", GEOLIFE)
    if rule == "noise":
        return replace(recipe, allocation="uniform", zero_contribution=True)
    allocation: Any = "own" if rule == "mirrored" else rule
    return replace(recipe, allocation=allocation)


def mirrored(pilot: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Weights of rewards R in [0, 1]: R + `LEAST`."""
    return np.asarray(np.clip(pilot + 0.5, 0.0, 1.0) + LEAST)


def key(rule: str, epsilon: float, seed: int) -> str:
    return f"{rule}/{epsilon:g}/{seed}"


def configuration(key: str) -> Json:
    rule, epsilon, _ = key.split("/")
    weights = {"weights": {"rule": "R + least", "least": LEAST}} if rule == "mirrored" else {}
    return {"data": described(GEOLIFE), **weights, **guaranteed(plan(rule), unit(GEOLIFE), float(epsilon))}


store = store_of(__file__, configuration, "the recipe of PateGAIL++ for 83 people, chosen on the city")


def rows() -> list[str]:
    return [key(rule, epsilon, seed) for seed, epsilon, rule in itertools.product(SEEDS, EPSILONS, RULES)]


def column(results: Store, rule: str, epsilon: float, metrics: str = "sequence", name: str = "SEQ") -> np.ndarray:
    """One measure for every seed."""
    return np.array([results.values(key(rule, epsilon, seed))[metrics][name] for seed in SEEDS])


def figures() -> list[Figure]:
    results, out = store(), []
    for epsilon in EPSILONS:
        certified = [results.values(key(rule, epsilon, seed))["certified"] for rule in RULES for seed in SEEDS]
        out.append(Figure(f"epsilon {epsilon:g}: largest certified epsilon", max(certified), epsilon, at_least=False))
        even = column(results, "uniform", epsilon).mean()
        for rule in ("paper", "mirrored", "utility"):
            low = float((column(results, rule, epsilon) / even).mean())
            words = f"epsilon {epsilon:g}: SEQ of {rule} over that of uniform (no rule halves it)"
            out.append(Figure(words, low, 0.5))
    return out


def run_row(name: str, results: Store) -> None:
    rule, epsilon, seed = name.split("/")
    allocate = mirrored if rule == "mirrored" else None
    made = changed(plan(rule), world(GEOLIFE), float(epsilon), int(seed), allocate=allocate)
    results.put(name, dataset=world(GEOLIFE).words, seed=int(seed), values=made)


if __name__ == "__main__":
    command_line(__file__)
