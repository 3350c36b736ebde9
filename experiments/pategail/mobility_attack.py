"""Who can be told to be in a simulator? Membership inference on Geolife's 83 people.

Runs with random halves of the people (each in with probability 1/2; the population stays 83, and who is out adds
nothing, so that the bound is that of adding or removing one person). The attacker knows everybody's days, fits each
person's scores with and without her on the shadow runs (LiRA) and is judged on the target runs. Delta is 1e-5. A cell
is a block of runs of one method at one epsilon, with the members and every attack's scores:

- `likelihood` (white-box): of a person's actions under the released policy;
- `release` (white-box): a person's own direction in the released sums, all parts together;
- `nearest`, `overlap` (black-box): how near 2,000 generated days come to a person's, and how often they go there;
- `critics` (white-box): what noisy means of all rounds say of a person's critic, which the attacker trains again on
  the questions that the server asked; critics themselves never leave their devices;
- `copied starts`: how often days start where a person's start, if generated days copy the starts of real ones, as
  published simulators do; the policy is as private as ever.

`one_shot` and `table` run on people's vectors as the vault's doors compute them. `pategail` and `critics` run on the
devices, with fewer rounds than the recipe's.
"""

import functools
import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from experiments.lib.attacks import (
    MIN_PROBABILITY,
    AttackResult,
    Candidates,
    ContributionDirection,
    DayLikelihood,
    DayOverlap,
    Floats,
    NearestDay,
    Released,
    Score,
    attack,
    auc_bound,
    tpr_bound,
)
from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import Json, Store, command_line, grouped, markdown, store_of
from experiments.lib.shadows import Block, blocks, read, scored
from experiments.lib.vaults import calibrated
from experiments.pategail import mobility_shadows, mobility_ways
from experiments.pategail.mobility_runs import DELTA, GEOLIFE, described, unit, world
from experiments.pategail.mobility_shadows import InMemory, OnDevices
from experiments.pategail.mobility_ways import guaranteed
from tacit.evaluation.lower_bounds import Rate
from tacit.methods import mobility
from tacit.methods.mobility import pategail
from tacit.methods.mobility.baselines import contribution, policy
from tacit.methods.mobility.matching import match
from tacit.methods.mobility.moves import MOVES_PART
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.vault import plan as plans

EPSILONS = (1.0, 2.0, 10.0, math.inf)
FPR, POWER = 0.1, 0.4  # false alarm rate at which hits are counted, and what a method without privacy must show there
BLOCK = 32
RUNS = {"one_shot": (64, 64), "table": (64, 64), "pategail": (64, 32), "critics": (64, 32)}  # shadow and target runs
FEDERATED = {"pategail": (2.0, math.inf), "critics": (1.0, 10.0, math.inf)}
"""PateGAIL++, of which the policy is attacked, or critics' answers too; at these epsilons."""
WORDS = {
    "one_shot": "one-shot imitation",
    "table": "table of actions",
    "pategail": "PateGAIL++",
    "critics": "PateGAIL++, its server heard",
}
CATCHES = {"one_shot": "likelihood", "table": "likelihood", "critics": "critics"}
"""The attack that must find people where there is no noise."""
COPIED = (0,)  # the slots of a day at which copied starts are looked for
ROUNDS = 10  # of PateGAIL++ here


@dataclass(frozen=True, eq=False)
class OfCopied:
    """A score of the days whose starts are copied."""

    score: Score

    def __call__(self, released: Released) -> Floats:
        """[R, U]."""
        return self.score({"days": released["copied"]})


def planned(name: str, epsilon: float) -> Any:
    if name in FEDERATED:
        return replace(pategail.recipe("table", GEOLIFE), rounds=ROUNDS)
    return (mobility_ways.one_shot if name == "one_shot" else mobility_ways.table)(GEOLIFE, epsilon)


def method(name: str, epsilon: float) -> tuple[Any, float]:
    """A method's runs, and the mu that bounds every test."""
    here = world(GEOLIFE)
    plan = calibrated(planned(name, epsilon), here.unit, epsilon, DELTA)
    if name in FEDERATED:
        run: Any = OnDevices(plan, heard=name == "critics")
    elif name == "one_shot":
        moves = mobility.build_contributions(plan, here.days.grid)[MOVES_PART]
        noise = plan.noise_std(MOVES_PART)
        run = InMemory(
            plan, moves, lambda mean, seed: match(mean, noise, plan.layout, plan.weights, plan.matching, seed=seed)
        )
    else:
        (part,) = (part for part in plan.parts() if part.name == MOVES_PART)
        noise = (part.noise_multiplier or 0.0) * part.clip_norm / GEOLIFE
        run = InMemory(plan, contribution(plan), lambda mean, seed: policy(plan, mean, noise))
    return run, accounting.mu_gdp(plans.event(plan), "add_or_remove")


def scores(run: Any) -> dict[str, Score]:
    who = Candidates(world(GEOLIFE).days, GEOLIFE)
    found: dict[str, Score] = {"likelihood": DayLikelihood(who), "nearest": NearestDay(who), "overlap": DayOverlap(who)}
    if isinstance(run, OnDevices) and run.heard:
        found["critics"] = lambda released: np.asarray(released["critics"], np.float64)
    if isinstance(run, InMemory):
        found["copied starts"] = OfCopied(DayOverlap(who, slots=COPIED))
        found["release"] = ContributionDirection(run.own(), 1.0 if run._sums[MOVES_PART].noise else 0.0)
    return found


def settings(methods: Sequence[str] = tuple(RUNS), epsilons: Sequence[float] = EPSILONS) -> list[tuple[str, float]]:
    pairs = itertools.product(methods, epsilons)
    return [(name, epsilon) for name, epsilon in pairs if epsilon in FEDERATED.get(name, EPSILONS)]


def wanted(name: str, epsilon: float, least: bool = False) -> list[Block]:
    """The blocks of a method at an epsilon; with `least` one on each side."""
    return blocks(name, epsilon, *((1, 1) if least else (runs // BLOCK for runs in RUNS[name])))


def values(block: Block, run: Any, mu: float) -> dict[str, Any]:
    began = time.process_time()
    digits = {"likelihood": 5, "release": 5}
    found = scored(block, run, scores(run), GEOLIFE, runs=BLOCK, together=8, digits=digits)
    seconds = round((time.process_time() - began) / BLOCK, 3)
    return {"mu": "inf" if math.isinf(mu) else mu, **found, "seconds": seconds}


def configuration(key: str) -> Json:
    block = Block.of(key)
    attacks = {
        "days": Candidates.max_days,
        "slots": len(DayOverlap.slots),
        "starts": list(COPIED),
        "least": MIN_PROBABILITY,
    }
    return {
        "runs": BLOCK,
        "generated": mobility_shadows.GENERATED,
        "attacks": attacks
        | ({"critics": {"trained": 2, "distrust": mobility_shadows.DISTRUST}} if block.setting == "critics" else {}),
        **_guaranteed(block.setting, block.epsilon),
    }


store = store_of(__file__, configuration, "defaults and recipes of the methods, chosen on invented people")


@functools.cache
def _guaranteed(name: str, epsilon: float) -> Json:
    data = {name: one for name, one in described(GEOLIFE).items() if name != "measures"}
    return {"data": data, **guaranteed(planned(name, epsilon), unit(GEOLIFE), epsilon)}


def rows() -> list[str]:
    return [block.key for name, epsilon in settings() for block in wanted(name, epsilon)]


def attacked(results: Store, name: str, epsilon: float, least: bool = False) -> dict[str, AttackResult]:
    found = read(results, wanted(name, epsilon, least))
    return {one: attack(*sides, delta=DELTA, fpr=FPR) for one, sides in found.items()}


def mu_of(results: Store, name: str, epsilon: float) -> float:
    return float(results.values(wanted(name, epsilon)[0].key)["mu"])


def complete(results: Store) -> list[tuple[str, float]]:
    return [pair for pair in settings() if all(results.has(block.key) for block in wanted(*pair))]


def figures() -> Figures:
    results = store()
    for name, epsilon in complete(results):
        mu, words = mu_of(results, name, epsilon), f"{name}, epsilon {epsilon:g}"
        found = attacked(results, name, epsilon)
        for one, result in found.items():
            if one == "copied starts":
                yield at_least(f"{words}, copied starts: AUC", result.auc, 0.8)
            elif math.isfinite(mu):
                yield at_most(f"{words}, {one}: AUC, lower end", result.auc_low, auc_bound(mu))
                most = tpr_bound(mu, FPR)
                yield at_most(f"{words}, {one}: TPR at {FPR:.0%} FPR, lower end", result.tpr_low, most)
                yield at_most(f"{words}, {one}: audited mu", result.mu, mu)
                yield at_most(f"{words}, {one}: audited epsilon", result.epsilon, epsilon)
        if math.isinf(epsilon) and name in CATCHES:
            one = CATCHES[name]
            yield at_least(f"{words}, {one}: TPR at {FPR:.0%} FPR, lower end", found[one].tpr_low, POWER)


COLUMNS = (
    *("epsilon", "attack", "AUC", "at most", "TPR at 10 % FPR", "at most"),
    *("AUC of the most exposed", "epsilon >=", "mu >="),
)


def lines(results: Store, name: str, epsilon: float, least: bool = False) -> list[list[str]]:
    mu = mu_of(results, name, epsilon)
    found = []
    for one, result in attacked(results, name, epsilon, least).items():
        bound = 1.0 if one == "copied starts" else auc_bound(mu)
        most = 1.0 if one == "copied starts" else tpr_bound(mu, result.fpr)
        hits = Rate(result.tpr, result.tpr_low, result.tpr_high)
        area = f"{result.auc:.3f} [{result.auc_low:.3f}, {result.auc_high:.3f}]"
        told = [f"{bound:.3f}", str(hits), f"{most:.1%}", f"{result.exposed_auc:.3f}"]
        found.append([WORDS[name], f"{epsilon:g}", one, area, *told, f"{result.epsilon:.2f}", f"{result.mu:.2f}"])
    return found


def table(results: Store) -> str:
    return markdown(COLUMNS, (line for pair in complete(results) for line in lines(results, *pair)), "method")


def together(keys: Sequence[str]) -> list[list[str]]:
    return grouped(keys, lambda key: (Block.of(key).setting, Block.of(key).epsilon))


def run_rows(keys: Sequence[str], results: Store) -> None:
    first = Block.of(keys[0])
    run, mu = method(first.setting, first.epsilon)
    for block in map(Block.of, keys):
        results.put(block.key, dataset=world(GEOLIFE).words, seed=block.seed, values=values(block, run, mu))


if __name__ == "__main__":
    command_line(__file__)
