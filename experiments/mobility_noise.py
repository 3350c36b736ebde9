"""Published noise levels of federated imitation of mobility, with the epsilon that they honestly have.

    python -m experiments.mobility_noise              # resumable; minutes
    python -m experiments.mobility_noise --quick      # accounting of 83 people, one short run; under runs/quick/
    python -m experiments.check mobility_noise        # recompute the promised figures from the raw rows

PATEGAIL and PateGAIL++ ask 141 rewards in each of 50 updates, each a mean over N critics in an interval of length 1,
with Laplace noise of the scale that their tables call the noise. One person replaced moves a mean by 1/N, so that a
query is 1/(N b)-private and 7,050 of them are what is released. Delta is 1e-5. Cells:

- `epsilon/N/b`: `pure` composition, the certified figure and its check (two accountants), the Renyi ceiling, mu, what a
  test with 5 % false alarms catches at most, and the certified figure `with variance`: as many queries of the variance
  at twice the scale, as the papers describe them.
- `naive/b`: readings of the noise that are not epsilons.
- `run/b/seed`: the paper's mode on Geolife's 83 people with this noise; starts and jumps are real ones, noiseless, so
  that the certificate says `inf`; `rewards` is the epsilon of the rewards alone. And how close the days are.
- `free/seed`: PateGAIL++ from a cold start without any noise, by the papers' way of judging: days begin where the test
  days do, and exploring follows the papers' law of ranks on the observed places. Nothing is promised; the last average.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from dp_accounting import ComposedDpEvent, SelfComposedDpEvent
from dp_accounting.dp_event import DpEvent, LaplaceDpEvent

from experiments.check import Figure
from experiments.mobility_runs import DELTA, GEOLIFE, generated, world
from experiments.store import RESULTS, ROOT, Store
from tacit.envs import movement
from tacit.methods.imitation import pategail
from tacit.privacy import accounting, concentrated, power
from tacit.privacy.events import flatten

PEOPLE = (83, 9_481)
SCALES = (0.01, 0.1, 1.0)
SEEDS = (0, 1, 2, 3, 4)
FREE = {"Radius": 0.0699, "DailyLoc": 0.105, "Distance": 0.013, "G-rank": 0.037, "I-rank": 0.018}
"""Without noise: the paper's figures, but for G-rank that of real training days against real test days."""
BATCH, ROUNDS = 141, 50
QUERIES = BATCH * ROUNDS
BOUNDS = {0.01: (3_850.0, 3_930.0), 0.1: (88.0, 93.0), 1.0: (4.2, 4.6)}
"""Between what the certified epsilon has to be for 83 people."""
PUBLISHED = {0.01: "0.01", 0.1: "0.10", 1.0: "1.00"}
SOURCES = (
    "src/tacit/privacy/account*.py",
    "src/tacit/privacy/events.py",
    "src/tacit/privacy/concentrated.py",
    "src/tacit/privacy/laplace.py",
    "src/tacit/privacy/quadrature.py",
    "src/tacit/privacy/steps.py",
    "src/tacit/measure/mobility*.py",
    "src/tacit/methods/imitation/pategail/*.py",
    "experiments/mobility_runs.py",
    "experiments/mobility_noise.py",
)


def store(path: Path = RESULTS / "mobility_noise.json") -> Store:
    """The result file."""
    return Store(path, SOURCES, hyperparameters="the papers' 141 queries a round, 50 rounds")


def queries(people: int, scale: float, count: int = QUERIES) -> DpEvent:
    """Means over people with Laplace noise of this scale; neighbours differ by 1 in the sum."""
    return SelfComposedDpEvent(LaplaceDpEvent(scale * people), count)


def honest(people: int, scale: float) -> dict[str, Any]:
    """What a level of noise costs."""
    event = queries(people, scale)
    bound = accounting.epsilon(event, delta=DELTA, relation="add_or_remove")
    both = ComposedDpEvent([event, queries(people, 2 * scale)])
    return {
        "pure": QUERIES / (scale * people),
        "certified": bound.epsilon,
        "accountant": bound.accountant,
        "check": bound.check_epsilon,
        "check_accountant": bound.check_accountant,
        "renyi": concentrated.epsilon(flatten(event), "add_or_remove", DELTA),
        "mu": accounting.mu_gdp(event, "add_or_remove", delta=DELTA),
        "caught": power.caught(event, "add_or_remove", bound.epsilon, DELTA),
        "with_variance": accounting.epsilon(both, delta=DELTA, relation="add_or_remove").epsilon,
    }


def naive(scale: float) -> dict[str, float]:
    """What the noise is sometimes read as: a query's epsilon with a sensitivity of 1, and with 1/83."""
    return {"one_over_noise": 1 / scale, "per_query": 1 / (83 * scale)}


def play(scale: float, seed: int, rounds: int = ROUNDS) -> dict[str, Any]:
    """One run of the paper's mode with this noise, judged as in `experiments.mobility_frontier`."""
    here = replace(world(GEOLIFE), relation="replace_one")
    plan = replace(pategail.Plan.paper(GEOLIFE, scale=scale), rounds=rounds).price(unit=here.unit, delta=DELTA)
    known = replace(pategail.Plan.paper(GEOLIFE, scale=scale, starts="given"), rounds=rounds)
    with here.devices() as vault:
        release = pategail.fit(plan, vault, grid=here.days.grid, seed=seed)
    rewards = known.price(unit=here.unit, delta=DELTA).epsilon
    said = {"certified": str(plan.epsilon), "rewards": rewards, "private": release.certificate.private}
    return {**said, **here.measured([generated(release.value, here, seed)])[0]}


@dataclass(frozen=True, eq=False)
class Observed:
    """The first cells of given days, as the papers start simulated ones."""

    cells: np.ndarray

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """See `movement.Starts`."""
        return self.cells[rng.permutation(len(self.cells))[np.arange(n) % len(self.cells)]]


def without_noise(seed: int, rounds: int | None = None) -> dict[str, Any]:
    """One run without noise, judged by the papers' five measures and by the others."""
    here = world(GEOLIFE)
    plan = replace(pategail.recipe("samples", GEOLIFE, math.inf), starts="given", noise_multiplier=0.0)
    plan = replace(plan, rounds=rounds or plan.rounds).price(unit=here.unit, delta=DELTA)
    places = np.unique(np.concatenate([here.days.cells.ravel(), here.test.cells.ravel()]))
    known = {"starts": Observed(here.test.cells[:, 0]), "space": movement.RankLaw(here.days.grid, places)}
    with here.devices() as vault:
        release = pategail.fit(plan, vault, grid=here.days.grid, seed=seed, **known)
    return here.measured([generated(release.value, here, seed)])[0]


def figures() -> list[Figure]:
    """Every promised figure, recomputed from the raw rows."""
    results, found = store(), []
    for scale, (low, high) in BOUNDS.items():
        row = results.fresh(f"epsilon/83/{scale:g}")
        words = f"83 people, noise {PUBLISHED[scale]}"
        found += [
            Figure(f"{words}: certified epsilon", row["certified"], low),
            Figure(f"{words}: certified epsilon", row["certified"], high, at_least=False),
            Figure(f"{words}: the check's epsilon", row["check"], low),
            Figure(f"{words}: accountants apart, percent", apart(row), 0.5, at_least=False),
        ]
    for people, scale in itertools.product(PEOPLE, SCALES):
        row = results.fresh(f"epsilon/{people}/{scale:g}")
        words = f"{people:,} people, noise {PUBLISHED[scale]}: pure composition over the certified epsilon"
        found.append(Figure(words, row["pure"] / row["certified"], 1.0))
    for scale, seed in itertools.product(SCALES, SEEDS):
        row = results.fresh(f"run/{scale:g}/{seed}")
        words = f"noise {PUBLISHED[scale]}, seed {seed}: the certificate of copied starts promises anything"
        found.append(Figure(words, float(row["private"] or row["certified"] != "inf"), 0.0, at_least=False))
    free = [results.fresh(f"free/{seed}")["reference"] for seed in SEEDS]
    for name, bound in FREE.items():
        words = f"Geolife, no noise, cold start, the papers' starts and ranks: {name}, mean over {len(SEEDS)} seeds"
        found.append(Figure(words, float(np.mean([row[name] for row in free])), bound, at_least=False))
    return found


def apart(row: dict[str, Any]) -> float:
    """By how many percent the certified figure is above its check."""
    return 100 * abs(math.log(row["certified"] / row["check"]))


def table(results: Store) -> str:
    """The levels of noise as Markdown."""
    lines = [
        "| N | noise | pure | certified | check | Renyi | with the variance | caught at 5 % false alarms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for people, scale in itertools.product(PEOPLE, SCALES):
        row = results.fresh(f"epsilon/{people}/{scale:g}")
        numbers = [f"{row[name]:.4g}" for name in ("pure", "certified", "check", "renyi", "with_variance")]
        lines.append(f"| {people:,} | {PUBLISHED[scale]} | {' | '.join(numbers)} | {row['caught']:.3g} % |")
    return "\n".join(lines)


def runs_table(results: Store) -> str:
    """The paper's mode at each level: its published measures and the order of a day, means over seeds."""
    names = ("Radius", "DailyLoc", "Distance", "G-rank", "I-rank")
    lines = [f"| noise | epsilon of the rewards | {' | '.join(names)} | SEQ |", "|---" * (len(names) + 3) + "|"]
    for scale in SCALES:
        rows = [results.fresh(f"run/{scale:g}/{seed}") for seed in SEEDS]
        found = [float(np.mean([row["reference"][name] for row in rows])) for name in names]
        found.append(float(np.mean([row["sequence"]["SEQ"] for row in rows])))
        lines.append(f"| {PUBLISHED[scale]} | {rows[0]['rewards']:.4g} | {' | '.join(f'{x:.4f}' for x in found)} |")
    free = [results.fresh(f"free/{seed}") for seed in SEEDS]
    found = [float(np.mean([row["reference"][name] for row in free])) for name in names]
    found.append(float(np.mean([row["sequence"]["SEQ"] for row in free])))
    lines.append(f"| none, ours | inf | {' | '.join(f'{x:.4f}' for x in found)} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Run what is missing or stale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    results = store((ROOT / "runs" / "quick" if options.quick else RESULTS) / "mobility_noise.json")
    people = PEOPLE[:1] if options.quick else PEOPLE
    for scale in SCALES:
        if not results.has(f"naive/{scale:g}"):
            results.put(f"naive/{scale:g}", dataset="none", seed=0, values=naive(scale))
        for number in people:
            key = f"epsilon/{number}/{scale:g}"
            if not results.has(key):
                results.put(key, dataset="none", seed=0, values=honest(number, scale))
    for scale, seed in ((1.0, 0),) if options.quick else itertools.product(SCALES, SEEDS):
        key = f"run/{scale:g}/{seed}"
        if not results.has(key):
            results.put(
                key, dataset=world(GEOLIFE).words, seed=seed, values=play(scale, seed, 2 if options.quick else ROUNDS)
            )
    for seed in SEEDS[:1] if options.quick else SEEDS:
        if not results.has(f"free/{seed}"):
            values = without_noise(seed, 2 if options.quick else None)
            results.put(f"free/{seed}", dataset=world(GEOLIFE).words, seed=seed, values=values)
    if not options.quick:
        print(f"{table(results)}\n\n{runs_table(results)}")


if __name__ == "__main__":
    main(sys.argv[1:])
