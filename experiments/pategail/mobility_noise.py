"""Published noise levels of federated imitation of mobility, with the epsilon that they honestly have.

PATEGAIL and PateGAIL++ ask 141 rewards in each of 50 updates, each a mean over N critics in an interval of length 1,
with Laplace noise of the scale that their tables call the noise. One person replaced moves a mean by 1/N.

- `epsilon/N/b`: pure composition, the certified figure and its check (two accountants), the Renyi ceiling, mu, what a
  test with 5 % false alarms catches at most, and `with_variance`: as many queries of the variance at twice the scale.
- `naive/b`: readings of the noise that are not epsilons.
- `run/N/way/b/seed`: the papers' mode with this noise; starts and jumps are real ones, so that the certificate says
  `inf`; `rewards` is the epsilon of the rewards alone, by an accountant up to 6,000 and by pure composition above.
- `free/seed`: PateGAIL++ from a cold start without any noise, by the papers' way of judging: days begin where the test
  days do, and exploring follows the papers' law of ranks on the observed places.
"""

import itertools
import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import Json, Store, command_line, store_of
from experiments.pategail.mobility_runs import DELTA, GEOLIFE, described, generated, unit, world
from experiments.pategail.mobility_ways import guaranteed
from tacit.envs import movement
from tacit.errors import AccountingError
from tacit.methods.mobility import pategail
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting import concentrated, tradeoff
from tacit.privacy.accounting.events import ComposedEvent, Event, LaplaceEvent, SelfComposedEvent, flatten
from tacit.units import Relation

PEOPLE = (83, 9_481)
SCALES = (0.01, 0.1, 1.0)
SEEDS = (0, 1, 2, 3, 4)
CITY = 200
WAYS: dict[str, dict[str, Any]] = {
    "PATEGAIL": {"variant": "PATEGAIL"},
    "PateGAIL++": {"variant": "PateGAIL++"},
    "PATEGAIL, sensitive": {"variant": "PATEGAIL", "sensitivity": True},
    "PateGAIL++, even": {"variant": "PateGAIL++", "sensitivity": False},
    "local, sensitive": {"variant": "PateGAIL++", "local": True},
    "local, even": {"variant": "PateGAIL++", "local": True, "sensitivity": False},
    "noise alone": {"variant": "PateGAIL++"},
}
"""Arguments of `PateGailPlan.paper`: both methods, each with the other's allocation, and PateGAIL++'s local mode."""
RUN_SEEDS = {83: (20, 21), CITY: (20,)}  # on which no setting of any row was chosen
RUNS = {  # the scales of each way
    83: {
        **dict.fromkeys(("PATEGAIL", "PateGAIL++"), (0.0, *SCALES)),
        **dict.fromkeys(("local, sensitive", "local, even"), SCALES),
        **dict.fromkeys(("PATEGAIL, sensitive", "PateGAIL++, even", "noise alone"), (0.1,)),
    },
    CITY: {**dict.fromkeys(("PATEGAIL", "PateGAIL++"), SCALES), "noise alone": (0.1,)},
}
FREE = {"Radius": 0.0699, "DailyLoc": 0.105, "Distance": 0.013, "G-rank": 0.037, "I-rank": 0.018}
"""Without noise: the paper's figures, but for G-rank that of real training days against real test days."""
FIVE_PERCENT = np.array([0.05])
BATCH, ROUNDS = 141, 50
QUERIES = BATCH * ROUNDS
VARIANCE = 2  # how much more noise a query of the variance has
RELATION: Relation = "add_or_remove"  # of the accounted queries
BOUNDS = {0.01: (3_850.0, 3_930.0), 0.1: (88.0, 93.0), 1.0: (4.2, 4.6)}
"""Between what the certified epsilon has to be for 83 people."""
PUBLISHED = {0.01: "0.01", 0.1: "0.10", 1.0: "1.00"}


def configuration(key: str) -> Json:
    kind, *rest = key.split("/")
    if kind == "naive":
        return {"people": GEOLIFE, "scale": float(rest[0])}
    if kind == "epsilon":
        asked = {"people": int(rest[0]), "scale": float(rest[1]), "queries": QUERIES}
        return asked | {"variance": VARIANCE, "relation": RELATION, "delta": DELTA}
    if kind == "run":
        people, way, scale, _ = rest
        plan = paper(int(people), way, float(scale))
        return {"data": described(int(people)), **guaranteed(plan, unit(int(people), "replace_one"), math.inf)}
    data = {"data": described(GEOLIFE)}
    law = {"type": "RankLaw", "alpha": movement.RankLaw.alpha, "ranks": movement.RankLaw.ranks}
    known = {"starts": "of the test days", "law": law}
    return data | known | guaranteed(free(), unit(GEOLIFE), math.inf)


store = store_of(__file__, configuration, "the papers' 141 queries a round, 50 rounds")


def rows() -> list[str]:
    accounted = [[f"naive/{b:g}", *(f"epsilon/{people}/{b:g}" for people in PEOPLE)] for b in SCALES]
    runs = [
        run_key(people, way, scale, seed)
        for turn, people in itertools.product(range(2), RUNS)
        for seed in RUN_SEEDS[people][turn : turn + 1]
        for way, scales in RUNS[people].items()
        for scale in scales
    ]
    return [*itertools.chain(*accounted), *(f"free/{seed}" for seed in SEEDS), *runs]


def run_key(people: int, way: str, scale: float, seed: int) -> str:
    return f"run/{people}/{way}/{scale:g}/{seed}"


def queries(people: int, scale: float, count: int = QUERIES) -> Event:
    """Means over people with Laplace noise of this scale; neighbours differ by 1 in the sum."""
    return SelfComposedEvent(LaplaceEvent(scale * people), count)


def honest(people: int, scale: float) -> dict[str, Any]:
    """What a level of noise costs."""
    event = queries(people, scale)
    bound = accounting.epsilon(event, delta=DELTA, relation=RELATION)
    both = ComposedEvent([event, queries(people, VARIANCE * scale)])
    return {
        "pure": QUERIES / (scale * people),
        "certified": bound.epsilon,
        "accountant": bound.accountant,
        "check": bound.check_epsilon,
        "check_accountant": bound.check_accountant,
        "renyi": concentrated.epsilon(flatten(event), RELATION, DELTA),
        "mu": accounting.mu_gdp(event, RELATION, delta=DELTA),
        "caught": 100 * (1 - float(tradeoff.miss_rates(event, RELATION, delta=DELTA, false_alarms=FIVE_PERCENT)[0])),
        "with_variance": accounting.epsilon(both, delta=DELTA, relation=RELATION).epsilon,
    }


def naive(scale: float) -> dict[str, float]:
    """What the noise is sometimes read as: a query's epsilon with a sensitivity of 1, and with 1/83."""
    return {"one_over_noise": 1 / scale, "per_query": 1 / (GEOLIFE * scale)}


def paper(people: int, way: str, scale: float) -> pategail.PateGailPlan:
    plan = pategail.PateGailPlan.paper(people, scale=scale, **WAYS[way])
    return replace(plan, rounds=ROUNDS, zero_contribution=way == "noise alone")


def of_rewards(plan: pategail.PateGailPlan, way: str) -> dict[str, Any]:
    """The epsilon of the rewards alone, and what says so; even noise by devices is as if a vault had drawn it."""
    if way == "local, sensitive" or plan.laplace == 0:
        return {"rewards": "inf", "by": "no guarantee"}
    known = replace(plan, starts="given", noise="server")
    try:
        epsilon = known.account(unit=unit(plan.people, "replace_one"), delta=DELTA).epsilon
    except AccountingError:
        (part,) = flatten(known.parts()[0].event)
        return {"rewards": 2 * part[1] / part[0].noise_multiplier, "by": "pure composition"}
    return {"rewards": epsilon, "by": "accountant"}


def play(people: int, way: str, scale: float, seed: int) -> dict[str, Any]:
    """One run of the papers' mode, judged as in `mobility_frontier`."""
    began, here = time.process_time(), replace(world(people), relation="replace_one")
    plan = paper(people, way, scale).account(unit=here.unit, delta=DELTA)
    with here.devices() as vault:
        release = pategail.fit(plan, vault, grid=here.days.grid, seed=seed)
    said = {"certified": str(plan.epsilon), **of_rewards(plan, way), "private": release.certificate.private}
    measured = here.measured([generated(release.value, here, seed)])[0]
    return {**said, **measured, "seconds": round(time.process_time() - began, 2)}


@dataclass(frozen=True, eq=False)
class Observed:
    """The first cells of given days, as the papers start simulated ones."""

    cells: np.ndarray

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return self.cells[rng.permutation(len(self.cells))[np.arange(n) % len(self.cells)]]


def free() -> pategail.PateGailPlan:
    return replace(pategail.recipe("samples", GEOLIFE, math.inf), starts="given", noise_multiplier=0.0)


def without_noise(seed: int) -> dict[str, Any]:
    """One run without noise, judged by the papers' five measures and by the others."""
    here = world(GEOLIFE)
    plan = free().account(unit=here.unit, delta=DELTA)
    places = np.unique(np.concatenate([here.days.cells.ravel(), here.test.cells.ravel()]))
    known = {"starts": Observed(here.test.cells[:, 0]), "space": movement.RankLaw(here.days.grid, places)}
    with here.devices() as vault:
        release = pategail.fit(plan, vault, grid=here.days.grid, seed=seed, **known)
    return here.measured([generated(release.value, here, seed)])[0]


def figures() -> Figures:
    results = store()
    for scale, (low, high) in BOUNDS.items():
        row = results.values(f"epsilon/83/{scale:g}")
        words = f"83 people, noise {PUBLISHED[scale]}"
        yield at_least(f"{words}: certified epsilon", row["certified"], low)
        yield at_most(f"{words}: certified epsilon", row["certified"], high)
        yield at_least(f"{words}: the check's epsilon", row["check"], low)
        yield at_most(f"{words}: accountants apart, percent", apart(row), 0.5)
    for people, scale in itertools.product(PEOPLE, SCALES):
        row = results.values(f"epsilon/{people}/{scale:g}")
        words = f"{people:,} people, noise {PUBLISHED[scale]}: pure composition over the certified epsilon"
        yield at_least(words, row["pure"] / row["certified"], 1.0)
    runs = [results.values(key) for key in rows() if key.startswith("run/")]
    false = float(sum(row["private"] or row["certified"] != "inf" for row in runs))
    yield at_most("runs with copied starts whose certificate promises anything", false, 0.0)

    def mean(people: int, way: str, scale: float) -> float:
        keys = [run_key(people, way, scale, seed) for seed in RUN_SEEDS[people]]
        return float(np.mean([results.values(key)["reference"]["DailyLoc"] for key in keys]))

    for way, most in (("PATEGAIL", 158.0), ("PateGAIL++", 271.0)):
        spent = float(results.values(run_key(GEOLIFE, way, 0.1, 20))["rewards"])
        yield at_most(f"83 people, noise 0.10: epsilon of the rewards of {way}", spent, most)
    ratio = mean(GEOLIFE, "PateGAIL++", 0.1) / mean(GEOLIFE, "PATEGAIL", 0.1)
    words = "Geolife, noise 0.10: DailyLoc of PateGAIL++ over that of PATEGAIL (the paper has 0.71)"
    yield at_most(words, ratio, 0.71)
    for way in ("PATEGAIL", "PateGAIL++"):
        ratio = mean(GEOLIFE, way, 0.1) / mean(GEOLIFE, "noise alone", 0.1)
        words = f"Geolife, noise 0.10: DailyLoc of {way} over that of its noise alone"
        yield at_most(words, ratio, 1.0)
    free = [results.values(f"free/{seed}")["reference"] for seed in SEEDS]
    for name, bound in FREE.items():
        words = f"Geolife, no noise, cold start, the papers' starts and ranks: {name}, mean over {len(SEEDS)} seeds"
        yield at_most(words, float(np.mean([row[name] for row in free])), bound)


def apart(row: dict[str, Any]) -> float:
    """By how many percent the certified figure is above its check."""
    return 100 * abs(math.log(row["certified"] / row["check"]))


def run_row(key: str, results: Store) -> None:
    kind, *rest = key.split("/")
    if kind in ("naive", "epsilon"):
        values = naive(float(rest[0])) if kind == "naive" else honest(int(rest[0]), float(rest[1]))
        return results.put(key, dataset="none", seed=0, values=values)
    seed = int(rest[-1])
    people, way, scale = (int(rest[0]), rest[1], float(rest[2])) if kind == "run" else (GEOLIFE, "", 0.0)
    values = play(people, way, scale, seed) if kind == "run" else without_noise(seed)
    results.put(key, dataset=world(people).words, seed=seed, values=values)


if __name__ == "__main__":
    command_line(__file__)
