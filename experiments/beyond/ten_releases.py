"""Ten releases from one clinic inside one budget: how good each is by the rule that its ledger adds plans up by.

A key is RULE/SEED. A clinic of 2,000 patients improves its rule of treatment, evaluates its doctors, and hands out
synthetic rows, in turn, until there are ten releases: (4, 2.5e-4)-DP together. Under "sum" each has a tenth of both;
under "gaussian" each has the epsilon with which ten fit as one Gaussian (`Composition(0)`). "alone" gives each the
whole budget, which only the first could have; "nothing" reads no record. Measured are the policy's score, the bound of
its proven gain, the error and the width of the mean return, and the marginal fidelity of PrivSyn's rows, in percent.
"""

import tempfile
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

import tacit
from experiments.beyond.improvement_worlds import world
from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import Json, Store, command_line, markdown, store_of
from tacit.evaluation.fidelity import FIELDS, fidelity, uniform_table
from tacit.privacy.accounting import gaussian
from tacit_worlds import clinic

PEOPLE, EPSILON = 2_000, 4.0
DELTA, RUN_DELTA = 0.5 / PEOPLE, 0.05 / PEOPLE
TURNS = ("improve", "evaluate", "synthesize")
RELEASES = tuple(TURNS[i % 3] for i in range(10))
RULES = ("sum", "gaussian", "alone", "nothing")
SEEDS = tuple(range(300, 310))
ROWS = 10_000
COMMON: dict[str, Any] = {"gamma": 1.0, "horizon": clinic.HORIZON, "episodes_per_unit": 4, "range": (-9.0, 5.0)}
SEEN: dict[str, Any] = {
    "memory": ("0:0.7", "3:0.7", "1:mean", "2:mean"),
    "columns": ("0", "1", "2", "3"),
    "value_columns": ("0", "3"),
}


def rows() -> list[str]:
    return [f"{rule}/{seed}" for seed in SEEDS for rule in RULES]


def budget(rule: str) -> dict[str, float]:
    """Of the ledger, by the words of `Study`."""
    return {"budget_epsilon": EPSILON, "budget_delta": DELTA, "budget_sampled": float(rule == "sum")}


@cache
def epsilon(rule: str) -> float:
    """Of one release at `RUN_DELTA`."""
    if rule == "nothing":
        return 0.0
    if rule == "sum":
        return EPSILON / len(RELEASES)
    whole = gaussian.mu_of(Fraction(repr(EPSILON)), Fraction(repr(DELTA)))
    squared = whole**2 / (len(RELEASES) if rule == "gaussian" else 1)
    return float(gaussian.epsilon_of(squared, Fraction(repr(RUN_DELTA)))) * (1 - 1e-6)


def configuration(key: str) -> Json:
    rule = key.split("/")[0]
    shared = {"people": PEOPLE, "releases": list(RELEASES), "rows": ROWS, "world": "clinic"}
    words = {**COMMON, **SEEN, "range": list(COMMON["range"])}
    return {
        **shared,
        "epsilon": epsilon(rule),
        **budget(rule),
        "words": {k: list(v) if isinstance(v, tuple) else v for k, v in words.items()},
    }


store = store_of(__file__, configuration, "defaults")


def run_row(key: str, results: Store) -> None:
    rule, seed = key.split("/")[0], int(key.split("/")[1])
    here = world("clinic")
    data, truth = here.data(PEOPLE, seed), mean_return()
    columns = {name: value for name, value in here.collect(PEOPLE, seed).items() if name in FIELDS}
    found: dict[str, list[float]] = {name: [] for name in ("improve", "proven", "evaluate", "width", "synthesize")}
    if rule == "nothing":
        low, high = COMMON["range"]
        uniform = fidelity(columns, uniform_table(here.spec, rows=ROWS, seed=seed), spec=here.spec)
        found = {"improve": [0.0], "proven": [0.0], "evaluate": [abs((low + high) / 2 - truth)], "width": [high - low]}
        found["synthesize"] = [100 * uniform.marginal]
        results.put(key, dataset="simulated clinic", seed=seed, values={**found, "spent": [0.0, 0.0]})
        return
    with tempfile.TemporaryDirectory() as folder:
        for number, verb in enumerate(RELEASES):
            ledger = Path(folder, f"ledger{number if rule == 'alone' else ''}")
            data = here.data(PEOPLE, seed) if rule == "alone" else data  # which one vault holds
            study = tacit.Study(data, unit="person", population=PEOPLE, ledger=ledger, **budget(rule))
            # The same plan twice is one plan, so that each asks for a millionth less than the one before.
            words: dict[str, Any] = {"epsilon": epsilon(rule) * (1 - 1e-6 * number), "delta": RUN_DELTA}
            if verb == "improve":
                better = study.improve(**words, **COMMON, **SEEN).value
                found["improve"].append(here.score(better.actor(), better.memory, seed + number))
                found["proven"].append(better.statement.gain_interval.low)
            elif verb == "evaluate":
                said = study.evaluate(**words, **COMMON, method="wpdis").value
                found["evaluate"].append(abs(said.value - truth))
                found["width"].append(said.interval.high - said.interval.low)
            else:
                made = study.synthesize(**words, method="privsyn").value.sample(ROWS, seed=seed).columns
                found["synthesize"].append(100 * fidelity(columns, made, spec=here.spec).marginal)
        spent = study.ledger.spent() if study.ledger is not None else (0.0, 0.0)
    results.put(key, dataset="simulated clinic", seed=seed, values={**found, "spent": list(spent)})


@cache
def mean_return() -> float:
    """The doctors' mean return: what is estimated from people whom no row holds, with hardly any noise."""
    found = []
    for seed in range(50_000, 50_020):
        with tempfile.TemporaryDirectory() as folder:
            budget = {"budget_epsilon": 400.0, "budget_sampled": 0.0}
            people = world("clinic").data(PEOPLE, seed)
            study = tacit.Study(people, unit="person", population=PEOPLE, ledger=Path(folder, "ledger"), **budget)
            found.append(study.evaluate(epsilon=400.0, delta=RUN_DELTA, **COMMON, method="wpdis").value.value)
    return float(np.mean(found))


def means(results: Store, rule: str, value: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([np.mean(results.values(f"{rule}/{seed}")[value]) for seed in SEEDS])


def figures() -> Figures:
    results = store()
    largest = max(results.values(f"{rule}/{seed}")["spent"][0] for rule in RULES for seed in SEEDS)
    yield at_most("epsilon of all releases of a ledger", largest, EPSILON)
    for value, sign in (("improve", 1), ("width", -1), ("synthesize", 1)):
        gained = sign * (means(results, "gaussian", value) - means(results, "sum", value))
        yield at_least(f"{value}: gained by one Gaussian, mean of {len(SEEDS)} seeds", float(gained.mean()), 0.0)


def table(results: Store) -> str:
    """Each utility by rule: mean over seeds, with the half width of a 95 % interval, and the paired difference."""
    found = []
    quantile = student.ppf(0.975, len(SEEDS) - 1) / len(SEEDS) ** 0.5
    for value in ("improve", "proven", "evaluate", "width", "synthesize"):
        each = [means(results, rule, value) for rule in RULES]
        each.append(each[1] - each[0])
        found.append([value, *(f"{one.mean():.3g} ± {quantile * one.std(ddof=1):.2g}" for one in each)])
    head = [f"{rule} (epsilon {epsilon(rule):.3g} each)" for rule in RULES[:3]]
    return markdown([*head, "nothing", "gaussian - sum"], found)


if __name__ == "__main__":
    command_line(__file__)
