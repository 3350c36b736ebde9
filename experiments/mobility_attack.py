"""Who can be told to be in a simulator? Membership inference on Geolife's 83 people.

    python -m experiments.mobility_attack              # resumable; 20 minutes of CPU
    python -m experiments.mobility_attack --quick      # the table at epsilon 2, few runs; under runs/quick/
    python -m experiments.check mobility_attack        # recompute the promised figures from the raw rows

Runs with random halves of the people (each in with probability 1/2; the population stays 83, and who is out adds
nothing, so that the bound is that of adding or removing one person). The attacker knows everybody's days, fits each
person's scores with and without her on the shadow runs (LiRA) and is judged on the target runs. Delta is 1e-5. A cell
is a block of runs of one method at one epsilon, with the members and every attack's scores:

- `likelihood` (white-box): of a person's actions under the released policy;
- `release` (white-box): a person's own direction in the released sums, all parts together;
- `nearest`, `overlap` (black-box): how near 2,000 generated days come to a person's, and how often they go there;
- `copied starts`: how often days start where a person's start, if generated days copy the starts of real ones, as
  published simulators do; the policy is as private as ever.

`one_shot` and `table` run on people's vectors as the vault's doors compute them. `pategail` runs on the devices,
with fewer rounds than the recipe's; its released rewards are attacked through the policy that they make.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments import mobility_shadows
from experiments.check import Figure
from experiments.configuration import Json
from experiments.mobility_runs import DELTA, GEOLIFE, World, described, unit, world
from experiments.mobility_shadows import InMemory, OnDevices
from experiments.mobility_ways import calibrated, guaranteed, one_shot, table
from experiments.store import RESULTS, ROOT, Store
from tacit.evaluation.attacks import (
    LEAST,
    Attack,
    Candidates,
    Floats,
    Likelihood,
    Nearest,
    Overlap,
    OwnDirection,
    Released,
    Score,
    Trials,
    attack,
    auc_bound,
    tpr_bound,
    trials,
)
from tacit.methods import mobility
from tacit.methods.mobility import pategail
from tacit.methods.mobility.baselines.algorithm import contribution, policy
from tacit.methods.mobility.matching import match
from tacit.methods.mobility.moves import MOVES_PART
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.vault import plan as plans

EPSILONS = (2.0, 10.0, math.inf)
BLOCK = 32
RUNS = {"one_shot": (64, 64), "table": (64, 64), "pategail": (64, 32)}
"""Shadow and target runs."""
COPIED = (0,)
"""The slots of a day at which copied starts are looked for."""
ROUNDS = 10
"""Of PateGAIL++ here, which is not run at epsilon 10."""


@dataclass(frozen=True, eq=False)
class OfCopied:
    """A score of the days whose starts are copied."""

    score: Score

    def __call__(self, released: Released) -> Floats:
        """[R, U]."""
        return self.score({"days": released["copied"]})


def planned(name: str, epsilon: float) -> Any:
    """A method's plan, not yet calibrated."""
    if name == "pategail":
        return replace(pategail.recipe("table", GEOLIFE), rounds=ROUNDS)
    return one_shot(GEOLIFE, epsilon) if name == "one_shot" else table(GEOLIFE, epsilon)


def method(name: str, epsilon: float) -> tuple[Any, float]:
    """A method's runs, and the mu that bounds every test."""
    here = world(GEOLIFE)
    plan = calibrated(planned(name, epsilon), here, epsilon)
    if name == "pategail":
        run: Any = OnDevices(plan)
    elif name == "one_shot":
        moves = mobility.works(plan, here.days.grid)[MOVES_PART]
        noise = plan.noise_of(MOVES_PART)
        run = InMemory(
            plan,
            moves,
            lambda mean, seed: match(mean, noise, plan.layout, plan.weights, plan.matching, seed=seed),
        )
    else:
        (part,) = (part for part in plan.parts() if part.name == MOVES_PART)
        noise = (part.noise_multiplier or 0.0) * part.clip_norm / GEOLIFE
        run = InMemory(plan, contribution(plan), lambda mean, seed: policy(plan, mean, noise))
    return run, accounting.mu_gdp(plans.event(plan), "add_or_remove")


def scores(run: Any) -> dict[str, Score]:
    """The attacks on a method."""
    who = Candidates(world(GEOLIFE).days, GEOLIFE)
    found: dict[str, Score] = {"likelihood": Likelihood(who), "nearest": Nearest(who), "overlap": Overlap(who)}
    if isinstance(run, InMemory):
        found["copied starts"] = OfCopied(Overlap(who, slots=COPIED))
        found["release"] = OwnDirection(run.own(), 1.0 if run._sums[MOVES_PART].noise else 0.0)
    return found


@dataclass(frozen=True)
class Cell:
    """A block of shadow or target runs."""

    method: str
    epsilon: float
    side: str
    block: int

    @property
    def key(self) -> str:
        """Its name."""
        return f"{self.method}/{self.epsilon:g}/{self.side}/{self.block}"

    @property
    def seed(self) -> int:
        """Of its members and runs: of its own."""
        return 10_000 + 2 * self.block + (self.side == "target")


def settings(methods: Sequence[str] = tuple(RUNS), epsilons: Sequence[float] = EPSILONS) -> list[tuple[str, float]]:
    """Every method with its epsilons."""
    return [pair for pair in itertools.product(methods, epsilons) if pair != ("pategail", 10.0)]


def cells(name: str, epsilon: float, least: bool = False) -> list[Cell]:
    """The cells of a method at an epsilon; with `least` one block on each side."""
    sides = zip(("shadow", "target"), RUNS[name], strict=True)
    return [Cell(name, epsilon, s, block) for s, runs in sides for block in range(1 if least else runs // BLOCK)]


def values(cell: Cell, run: Any, mu: float, here: World) -> dict[str, Any]:
    """Members and scores of a block."""
    began = time.process_time()
    found = trials(run, scores(run), GEOLIFE, runs=BLOCK, seed=cell.seed, together=8)
    present = next(iter(found.values())).present
    digits = {name: 5 if name in ("likelihood", "release") else 4 for name in found}
    rows = {n: [[float(f"{x:.{digits[n]}g}") for x in row] for row in one.scores] for n, one in found.items()}
    members = ["".join("01"[int(p)] for p in row) for row in present]
    seconds = round((time.process_time() - began) / BLOCK, 3)
    return {"mu": "inf" if math.isinf(mu) else mu, "members": members, "scores": rows, "seconds": seconds}


def store(path: Path = RESULTS / "mobility_attack.json") -> Store:
    """The result file."""
    return Store(path, configuration, hyperparameters="defaults and recipes of the methods, chosen on invented people")


def configuration(key: str) -> Json:
    """What a row was made with, its seed aside: shadow and target runs differ in nothing else."""
    name, epsilon, _, _ = key.split("/")
    return {
        "runs": BLOCK,
        "generated": mobility_shadows.GENERATED,
        "attacks": {"days": Candidates.most, "slots": len(Overlap.slots), "starts": list(COPIED), "least": LEAST},
        **_guaranteed(name, float(epsilon)),
    }


@functools.cache
def _guaranteed(name: str, epsilon: float) -> Json:
    data = {name: one for name, one in described(GEOLIFE).items() if name != "measures"}
    return {"data": data, **guaranteed(planned(name, epsilon), unit(GEOLIFE), epsilon)}


def rows() -> list[str]:
    """The keys of all rows, in the order in which they are made."""
    return [cell.key for name, epsilon in settings() for cell in cells(name, epsilon)]


def attacked(results: Store, name: str, epsilon: float, least: bool = False) -> dict[str, Attack]:
    """Every attack's result, from the raw scores.

    Raises:
        LookupError: a row is missing or has another configuration.
    """
    sides: dict[str, dict[str, list[Any]]] = {"shadow": {}, "target": {}}
    members: dict[str, list[Any]] = {"shadow": [], "target": []}
    for cell in cells(name, epsilon, least):
        row = results.values(cell.key)
        members[cell.side] += [[bit == "1" for bit in word] for word in row["members"]]
        for attack_name, found in row["scores"].items():
            sides[cell.side].setdefault(attack_name, []).extend(found)

    def of(side: str, attack_name: str) -> Trials:
        return Trials(np.array(members[side]), np.array(sides[side][attack_name], float))

    return {one: attack(of("shadow", one), of("target", one), delta=DELTA) for one in sides["shadow"]}


def mu_of(results: Store, name: str, epsilon: float) -> float:
    """The bound of a method's promise."""
    return float(results.values(Cell(name, epsilon, "shadow", 0).key)["mu"])


def figures() -> list[Figure]:
    """Every promised figure, recomputed from the raw rows."""
    results, out = store(), []
    for name, epsilon in settings():
        mu, words = mu_of(results, name, epsilon), f"{name}, epsilon {epsilon:g}"
        for one, found in attacked(results, name, epsilon).items():
            if one == "copied starts":
                out.append(Figure(f"{words}, copied starts: AUC", found.auc, 0.8))
            elif math.isfinite(mu):
                out.append(Figure(f"{words}, {one}: AUC, lower end", found.auc_low, auc_bound(mu), at_least=False))
                out.append(Figure(f"{words}, {one}: audited mu", found.mu, mu, at_least=False))
                out.append(Figure(f"{words}, {one}: audited epsilon", found.epsilon, epsilon, at_least=False))
    return out


def lines(results: Store, name: str, epsilon: float, least: bool = False) -> list[str]:
    """A method's rows of the table, in Markdown."""
    mu = mu_of(results, name, epsilon)
    found = []
    for one, result in attacked(results, name, epsilon, least).items():
        bound = 1.0 if one == "copied starts" else auc_bound(mu)
        most = 1.0 if one == "copied starts" else tpr_bound(mu, result.fpr)
        found.append(
            f"| {name} | {epsilon:g} | {one} | {result.auc:.3f} [{result.auc_low:.3f}, {result.auc_high:.3f}] "
            f"| {bound:.3f} | {result.tpr:.3f} | {most:.3f} "
            f"| {result.exposed_auc:.3f} | {result.epsilon:.2f} | {result.mu:.2f} |"
        )
    return found


COLUMNS = (
    *("method", "epsilon", "attack", "AUC", "at most", "TPR at 1 % FPR", "at most"),
    *("AUC of the most exposed", "epsilon >=", "mu >="),
)
HEAD = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|"


def run_row(key: str, results: Store) -> None:
    """Make one row at full size."""
    name, epsilon, side, block = key.split("/")
    fill([Cell(name, float(epsilon), side, int(block))], results)


def fill(wanted: Sequence[Cell], results: Store) -> None:
    """Make some blocks of one method at one epsilon."""
    run, mu = method(wanted[0].method, wanted[0].epsilon)
    here = world(GEOLIFE)
    for cell in wanted:
        results.put(cell.key, dataset=here.words, seed=cell.seed, values=values(cell, run, mu, here))


def main(arguments: Sequence[str]) -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--methods", nargs="+", choices=list(RUNS), default=list(RUNS))
    options = parser.parse_args(arguments)
    results = store((ROOT / "runs" / "quick" if options.quick else RESULTS) / "mobility_attack.json")
    methods = [m for m in options.methods if not options.quick or m == "table"]
    epsilons = EPSILONS[:1] if options.quick else EPSILONS
    for name, epsilon in settings(methods, epsilons):
        missing = [cell for cell in cells(name, epsilon, options.quick) if not results.has(cell.key)]
        if missing:
            fill(missing, results)
        print("\n".join([HEAD, *lines(results, name, epsilon, options.quick)]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
