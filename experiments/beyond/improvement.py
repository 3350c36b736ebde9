"""A better policy from private logs, with a stated gain: clinics, clicks, stock, CartPole, HIV, coverage.

A run's key is WORLD/PEOPLE/EPSILON/SEED: fresh people, fresh noise, one plan, whose whole budget includes the
statement. "score" is the released policy on fresh people, "clone" the private clone, which draws its actions.

`clinic-untuned` has the defaults: no memory, and every column in both sets of features. Rates of memory, columns and
the plan's defaults were chosen on the clinics `other-1` to `other-4`, HIV and CartPole, with seeds from 70,000 on; none
is reported. CartPole and HIV are of `--method elite`. Nothing was chosen on clicks, purchases or stock. Coins and
halves of all clicks follow from the seed, so that `clicks`, -10 and -100 differ in the unit of reward alone.

A coverage row holds a policy and the world fixed: the scores of 50,000 patients are made once, and 2,000 data sets are
drawn from them, each with its own noise. The truth is the mean of their unclipped scores.
"""

import math
import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from scipy.stats import beta

from experiments.beyond import improvement_worlds as worlds
from experiments.beyond.improvement_worlds import EPISODES, World, world
from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import Json, Store, command_line, describe, markdown, store_of
from experiments.lib.vaults import calibrated
from tacit.methods.improvement import Improvement, ImprovementPlan, fit
from tacit.methods.improvement.moments import LoggedVisits
from tacit.methods.improvement.plan import FIT, SCORES, STATEMENT
from tacit.methods.improvement.planning import AdviceResult
from tacit.methods.improvement.statement import Statement, StatementScores, read_statement
from tacit.methods.off_policy_evaluation.scores import limits
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

SEEDS = tuple(range(800, 810))
MANY = tuple(range(800, 820))  # of clicks at epsilon 1, and of the clinic with 10,000 patients and noise
SHOP_SEEDS = tuple(range(800, 830))
"""Of the shop with noise, whose policies differ by 25 points from run to run; twenty were added to ten."""
PEOPLE = (2_000, 10_000)
EPSILONS = (0.5, 1.0, 4.0, math.inf)
LEAST = {  # what the mean score has to be at least, by patients and epsilon
    (2_000, 0.5): 74.5,
    (2_000, 1.0): 75.5,
    (2_000, 4.0): 78,
    (10_000, 0.5): 75,
    (10_000, 1.0): 78.5,
    (10_000, 4.0): 82,
}
PROVEN = {0.5: 15, 1.0: 19, 4.0: 19}  # in how many of 20 runs with 10,000 patients a gain has to be proven, by epsilon
CLICKS, SHOPS = 30_000, 5_000
SCALES = ("clicks", "clicks-10", "clicks-100")
RATE, HARM = 0.095, 0.02
"""What the mean click rate has to be, and the most that a run may lose of the best gain that there is."""
POOL, SETS, COVERED = 50_000, 2_000, 10_000
"""Patients whose scores are made once, data sets drawn from them, and patients of each."""
COVERED_SEED = SEEDS[0]  # of a row of coverage
OTHERS = ("other-5", "other-6", "clinic-untuned")  # clinics beside the clinic, and the clinic without settings
COVERAGE = {"clinic": 0.05, "clinic-narrow": 0.1, "other-5": 0.05}  # world -> share of the visits with advice
PHYSICAL: Mapping[str, tuple[float, float]] = {
    "cart_pole/4000/1": (190.0, 4.0),
    "hiv/2000/0.5": (160.0, 5.0),
    "hiv/2000/1": (170.0, 5.0),
    "hiv/2000/4": (173.0, 5.0),
    "hiv/10000/1": (173.0, 10.0),
}
"""What the mean return has to be at least, and the CPU seconds of a run at most, by setting."""
NOISELESS = ("cart_pole/4000", "hiv/2000", f"clicks/{CLICKS}", f"purchases/{CLICKS}", f"stock/{SHOPS}")
"""Settings that have rows without noise, too, as the clinic has."""


def rows() -> list[str]:
    settings = [("stock", SHOPS, epsilon) for epsilon in EPSILONS[:3]] + [("clicks", CLICKS, e) for e in (0.5, 4.0)]
    settings += [("purchases", CLICKS, epsilon) for epsilon in EPSILONS[:3]]
    settings += [("clinic", people, epsilon) for people in reversed(PEOPLE) for epsilon in EPSILONS]
    settings += [(name, 10_000, epsilon) for name in OTHERS for epsilon in EPSILONS[:3]]
    starts = [*PHYSICAL, *(f"{name}/{CLICKS}/1" for name in SCALES)]
    starts += [f"{name}/{people}/{epsilon:g}" for name, people, epsilon in settings]
    starts += [f"{start}/inf" for start in NOISELESS]
    keys = [f"{start}/{seed}" for start in starts for seed in seeds(start)]
    return keys + [f"coverage/{name}/{epsilon:g}/{COVERED_SEED}" for name in COVERAGE for epsilon in EPSILONS[:3]]


def seeds(start: str) -> tuple[int, ...]:
    if start.startswith("stock/") and not start.endswith("inf"):
        return SHOP_SEEDS
    many = start.startswith("clinic/10000/") and not start.endswith("inf")
    return MANY if many or start in {f"{name}/{CLICKS}/1" for name in SCALES} else SEEDS


def planned(here: World, **settings: Any) -> ImprovementPlan:
    return ImprovementPlan.of(here.spec, here.problem, **{**here.settings, **settings})


def configuration(key: str) -> Json:
    name, *rest = key.split("/")
    if name == "coverage":
        plan = planned(world(rest[0]), advice=COVERAGE[rest[0]])
        setting = {"pool": POOL, "sets": SETS, "people": COVERED, "judging": 0.5, "epsilon": rest[1]}
        return {"plan": describe(plan), **setting}
    return {"plan": describe(planned(world(name))), "people": rest[0], "epsilon": rest[1], "episodes": EPISODES}


store = store_of(__file__, configuration, "chosen on other clinics")


def improved(here: World, plan: ImprovementPlan, people: int, epsilon: float, seed: int) -> Improvement:
    """One run on fresh people with the library's own noise; coins and halves of clicks follow from the seed."""
    unit, delta = Unit("patient", "add_or_remove", people), 0.1 / people
    budget = 1.0 if math.isinf(epsilon) else epsilon  # a plan without noise promises nothing, and is admitted always
    plan = calibrated(plan, unit, epsilon, delta)
    fixed = here.judge is not None
    name = mock.patch("secrets.token_hex", lambda size=32: f"{seed:0{2 * size}x}") if fixed else nullcontext()
    with tempfile.TemporaryDirectory() as folder:
        with name:
            ledger = Ledger(Path(folder) / "ledger", unit, epsilon=budget, delta=delta, composition=SUM)
        with ledger:
            noise = SecretNoise.for_tests(seed) if fixed else None
            return fit(plan, Vault(here.data(people, seed), ledger, noise=noise)).value


def run_row(key: str, results: Store) -> None:
    name, *rest = key.split("/")
    if name == "coverage":
        values = coverage(rest[0], float(rest[1]), int(rest[2]))
        results.put(key, dataset=f"simulated {rest[0]}", seed=int(rest[2]), values=values)
    else:
        values = run(world(name), int(rest[0]), float(rest[1]), int(rest[2]))
        results.put(key, dataset=f"simulated {name}", seed=int(rest[2]), values=values)


def run(here: World, people: int, epsilon: float, seed: int) -> dict[str, Any]:
    """The scores of advice and clone, the statement, and the seconds of the run alone."""
    began = time.process_time()
    here.collect(people, seed)
    collected = time.process_time() - began
    value = improved(here, planned(here), people, epsilon, seed)
    seconds = time.process_time() - began - 2 * collected
    said = value.statement
    shown = {"policy": worlds.spelled(value.actor())} if here.judge is not None else {}
    return {
        "score": here.score(value.actor(), value.memory, seed),
        "clone": here.score(value.actor(clone=True), value.memory, seed),
        **shown,
        "sampled": value.sampled,
        "kappa": value.plan.kappa,
        "sums": list(said.sums),
        "cpu_s": round(seconds, 2),
    }


@cache
def priced(name: str, people: int, epsilon: float) -> ImprovementPlan:
    return calibrated(planned(world(name)), Unit("patient", "add_or_remove", people), epsilon, 0.1 / people)


def statement(start: str, row: Json) -> Statement:
    """What the noisy sums of a run WORLD/PEOPLE/EPSILON prove."""
    name, people, epsilon = start.split("/")
    here, plan = world(name), priced(name, int(people), float(epsilon))
    return read_statement(tuple(row["sums"]), plan, limits(here.problem, here.spec), sampled=row["sampled"])


def coverage(name: str, epsilon: float, seed: int) -> dict[str, Any]:
    """How often the lower bound of the gain, and the interval of the returns, hold the truth."""
    here = world(name)
    value = improved(here, planned(here, advice=COVERAGE[name]), COVERED, epsilon, seed)
    advised = AdviceResult(value.policy, value.theta, value.clone, value.changes, value.sampled)
    scores = StatementScores.of(value.plan, here.spec, advised)
    gains, vectors = [], []
    for chunk in range(10):
        rows = padded(here.collect(POOL // 10, 10_000 + chunk), here.problem.rows_per_unit)
        visits = LoggedVisits.of(rows, scores.problem, scores.memory)
        gains.append(visits.means(np.stack(scores.scores(visits), axis=1)))
        vectors.append(scores(rows, None))
    truth, pool = np.concatenate(gains).mean(axis=0), np.concatenate(vectors)
    generator = np.random.default_rng(seed)
    sigma = value.plan.noise_std(STATEMENT)
    held = np.zeros(2, np.int64)
    for _ in range(SETS):
        judging = generator.binomial(COVERED, 0.5)  # the others teach
        total = pool[generator.integers(len(pool), size=judging)].sum(axis=0)
        noisy = (total + sigma * generator.standard_normal(len(total))) / COVERED
        said = scores.read(noisy, value.plan)
        low, high = said.returns_interval.low, said.returns_interval.high
        held += said.gain_interval.low <= truth[0], low <= truth[1] <= high
    clipped = float(pool[:, 0].mean() / (FIT * math.sqrt(SCORES[0])) * (scores.limits[1] - scores.limits[0]))
    return {
        "gain": float(truth[0]),
        "clipped_gain": clipped,
        "covered": int(held[0]),
        "returns_covered": int(held[1]),
        "sets": SETS,
        "least": least(int(held[0])),
    }


def least(covered: int) -> float:
    """The exact lower 99 % limit of the coverage (Clopper and Pearson)."""
    return float(beta.ppf(0.01, covered, SETS - covered + 1)) if covered else 0.0


def padded(columns: Any, length: int) -> dict[str, np.ndarray]:
    """Flat columns as rows [U, L, ...] of each unit, as a vault hands them to a contribution; units in order."""
    unit, episode = columns["unit_ids"], columns["episode_ids"]
    first = np.flatnonzero(np.r_[True, unit[1:] != unit[:-1]])
    place = np.arange(len(unit)) - np.repeat(first, np.diff(np.r_[first, len(unit)]))
    kept, row = place < length, np.cumsum(np.r_[False, unit[1:] != unit[:-1]])
    fields = {name: column for name, column in columns.items() if name not in ("unit_ids", "episode_ids")}
    fields |= {"mask": np.ones(len(unit), bool), "starts": np.r_[True, episode[1:] != episode[:-1]]}
    result = {}
    for name, column in fields.items():
        result[name] = np.zeros((row[-1] + 1, length, *column.shape[1:]), column.dtype)
        result[name][row[kept], place[kept]] = column[kept]
    return result


def of_runs(results: Store, start: str, value: str) -> list[Any]:
    return [results.values(f"{start}/{seed}")[value] for seed in seeds(start)]


def figures() -> Figures:
    results = store()
    for (people, epsilon), bound in LEAST.items():
        start = f"clinic/{people}/{epsilon:g}"
        score, clone = (float(np.mean(of_runs(results, start, value))) for value in ("score", "clone"))
        yield at_least(f"clinic, {people:,} patients, epsilon {epsilon:g}: score", score, bound)
        yield at_least(f"clinic, {people:,} patients, epsilon {epsilon:g}: above the clone", score - clone, -2.0)
        if people == 10_000:
            of_runs(results, start, "sums")
            proven = sum(said.verdict == "proven" for said in _said(results, start))
            what = f"clinic, epsilon {epsilon:g}: of {len(MANY)} runs prove a gain"
            yield at_least(what, float(proven), float(PROVEN[epsilon]))
            yield at_most(f"clinic, epsilon {epsilon:g}: CPU s", max(of_runs(results, start, "cpu_s")), 4.0)
    yield from _of_clicks(results)
    for name in COVERAGE:
        for epsilon in EPSILONS[:3]:
            row = results.values(f"coverage/{name}/{epsilon:g}/{COVERED_SEED}")
            yield at_least(f"{name}, epsilon {epsilon:g}: coverage, lower 99 % limit", row["least"], 0.935)
    for start, (bound, seconds) in PHYSICAL.items():
        yield at_least(f"{start}: mean return", float(np.mean(of_runs(results, start, "score"))), bound)
        yield at_most(f"{start}: CPU s", max(of_runs(results, start, "cpu_s")), seconds)


def _of_clicks(results: Store) -> Figures:
    """The figures of clicks: good, harmless, and the same in every unit."""
    spelled = []
    for name in SCALES:
        start = f"{name}/{CLICKS}/1"
        rates = of_runs(results, start, "score")
        spelled.append(of_runs(results, start, "policy"))
        yield at_least(f"{name}, epsilon 1: mean click rate", float(np.mean(rates)), RATE)
        floor = worlds.LOGGED_RATE - HARM * (worlds.BEST_RATE - worlds.LOGGED_RATE)
        yield at_least(f"{name}, epsilon 1: least click rate", float(min(rates)), floor)
    alike = sum(len(set(three)) == 1 for three in zip(*spelled, strict=True))
    yield at_least("clicks, runs with one policy in three units", float(alike), float(len(MANY)))


# Tables of the page of results; a cell without rows says so.


def _made(results: Store, start: str, value: str) -> list[Any]:
    return [results.values(f"{start}/{seed}")[value] for seed in seeds(start) if results.has(f"{start}/{seed}")]


def _said(results: Store, start: str) -> list[Statement]:
    keys = [f"{start}/{seed}" for seed in seeds(start)]
    return [statement(start, results.values(key)) for key in keys if results.has(key)]


def mean(found: list[float], digits: int = 1, *, wanted: int = len(SEEDS)) -> str:
    """A cell of a table: the mean over the seeds that have rows."""
    few = f" ({len(found)} runs)" if len(found) < wanted else ""
    return f"{np.mean(found):.{digits}f}{few}" if found else "not run"


BESIDE = (  # worlds beside the clinic: people, words, and what a score is multiplied by
    ("clicks", CLICKS, "users, clicks per thousand", 1_000),
    ("purchases", CLICKS, "users, clicks that buy per thousand", 1_000),
    ("stock", SHOPS, "shops, stock", 1),
    ("other-5", 10_000, "patients of another clinic", 1),
    ("other-6", 10_000, "patients of a third clinic", 1),
    ("clinic-untuned", 10_000, "patients, no settings", 1),
)


def scores(results: Store) -> str:
    """The released policy and the clone, a line a number of patients, and the worlds beside the clinic."""
    heads = [f"epsilon {epsilon:g}" for epsilon in EPSILONS]
    settings = [("clinic", people, "patients", 1) for people in PEOPLE]
    lines = []
    for name, people, words, factor in (*settings, *BESIDE):
        for value in ("score", "clone"):
            starts = [f"{name}/{people}/{epsilon:g}" for epsilon in EPSILONS]
            cells = [mean([factor * one for one in _made(results, start, value)]) for start in starts]
            lines.append([f"{people:,} {words}, {'policy' if value == 'score' else value}", *cells])
    return markdown(heads, lines)


def units(results: Store) -> str:
    """Clicks paid 1, 10 and 100 times: rates, the harm, and how often it is one policy."""
    lines = []
    for name in SCALES:
        start = f"{name}/{CLICKS}/1"
        rates, said = _made(results, start, "score"), _said(results, start)
        if rates:
            low, proven = [one.gain_interval.low for one in said], sum(one.verdict == "proven" for one in said)
            sampled = sum(_made(results, start, "sampled"))
            cells = [f"{np.mean(rates):.4f}", f"{min(rates):.4f}", f"{np.mean(low):.4g}", f"{proven} of {len(rates)}"]
            lines.append([name, *cells, f"{sampled} of {len(rates)}"])
    return markdown(["mean rate", "least rate", "mean lower bound", "proven", "clones"], lines) if lines else "not run"


def physical(results: Store) -> str:
    lines = []
    for start in (*PHYSICAL, *(f"{start}/inf" for start in NOISELESS[:2])):
        name, people, epsilon = start.split("/")
        made = _made(results, start, "score")
        cells = [mean(made), f"{min(made):.1f}" if made else "not run", f"{PHYSICAL.get(start, ('',))[0]}"]
        lines.append([f"{name}, {int(people):,} people, epsilon {epsilon}", *cells])
    return markdown(["mean return", "least", "aim"], lines)


def statements(results: Store) -> str:
    """The lower bound of the gain, and how often it proves something."""
    lines = []
    settings = [("clinic", people, "patients") for people in PEOPLE]
    for name, people, words in (*settings, *(beside[:3] for beside in BESIDE)):
        cells = []
        for epsilon in EPSILONS[:3]:
            start = f"{name}/{people}/{epsilon:g}"
            said = _said(results, start)
            lows, verdicts = [one.gain_interval.low for one in said], [one.verdict for one in said]
            proven, clones = verdicts.count("proven"), verdicts.count("clone")
            without = f", {clones} clones" if clones else ""
            cells.append(f"{np.mean(lows):.3g}; {proven} of {len(lows)}{without}" if lows else "not run")
        lines.append([f"{people:,} {words.split(',')[0]}", *cells])
    return markdown([f"epsilon {epsilon:g}" for epsilon in EPSILONS[:3]], lines)


def covered(results: Store) -> str:
    """Coverage of the gain's lower bound and of the returns' interval."""
    lines = []
    for name, advice in COVERAGE.items():
        for epsilon in EPSILONS[:3]:
            key = f"coverage/{name}/{epsilon:g}/{COVERED_SEED}"
            if not results.has(key):
                continue
            row = results.values(key)
            cells = [f"{row['gain']:.3f}", f"{row['clipped_gain']:.3f}", f"{row['covered'] / row['sets']:.4f}"]
            cells += [f"{row['least']:.4f}", f"{row['returns_covered'] / row['sets']:.4f}"]
            lines.append([f"{name}, eta {advice:g}, epsilon {epsilon:g}", *cells])
    heads = ["gain", "gain after the clip", "coverage of the bound", "its lower 99 % limit", "coverage of the returns"]
    return markdown(heads, lines)


if __name__ == "__main__":
    command_line(__file__)
