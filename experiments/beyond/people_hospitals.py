"""Whole people from structured tables, in two hospitals whose truth is known, beside AIM and PrivSyn.

    python -m experiments.beyond.people_hospitals "linear/20000/*/311"  # some cells

A cell is HOSPITAL/PATIENTS/WAY/EPSILON/SEED, and `people_judge` says what its table keeps. Ways:
real     a second draw of patients: what no method can undercut
people   tacit's method
aim      AIM with three columns at once, on steps: two consecutive visits a row, a patient weighs 1
privsyn  PrivSyn on the same rows
*_public both with bins by visits of a third, public hospital, in place of those by the bounds; people has nothing such
trivial  real visits, each column permuted by itself: no dependence, and no privacy
noise    the method on a vault with one patient

At epsilon inf nothing is promised and no noise is added: what the method loses by itself (`NOISELESS`, two seeds).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.beyond.hospitals import HOSPITALS, SPEC, Linear, to_records
from experiments.beyond.people_judge import EDGES, LEARNED, LEVELS, MEASURES, PLAYED, SWEEPS, TRUTH, Table, judge
from experiments.lib import vaults
from experiments.lib.experiment import BLANK, Figure, Json, Store, command_line, describe, markdown, spread, store_of
from experiments.lib.table_cache import metered
from tacit.evaluation.sequences import Sequences
from tacit.methods.synthesis import people
from tacit.methods.synthesis.baselines import aim, privsyn
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.units import Unit

SEEDS, DELTA = (311, 312, 313, 314, 315), 1e-6
MAIN = (("linear", 20_000, 2.0), ("nonlinear", 20_000, 2.0))
OTHERS = (("linear", 5_000, 2.0), ("linear", 20_000, 1.0), ("linear", 20_000, 8.0), ("nonlinear", 5_000, 2.0))
RIVALS, OPEN = ("aim", "privsyn", "aim_public", "privsyn_public"), ("real", "trivial")
"""Ways that know steps alone; those that promise nothing, whose epsilon is 0."""
WAYS = ("real", "people", *RIVALS, "trivial", "noise")
NOISELESS, NOISELESS_WAYS = tuple((*at[:2], math.inf) for at in MAIN), ("people",)
"""Without noise, of the first two seeds."""
SECOND, STEPS, BINS, ROWS = 10_000, 5, 40, 32
"""Added to a seed for the second draw of patients. Of rivals: synthetic steps a patient, bins, steps of a patient."""
PUBLIC, PUBLIC_DRAW = Linear(home=150.0, noise=7.0, starts=(155.0, 16.0), gaps=(2.0, 25.0)), (20_000, 77)


def planned(way: str) -> Any:
    """The plan of a way, before calibration."""
    if way not in RIVALS:
        return people.PeoplePlan(spec=SPEC)
    cut = _public_bins() if way.endswith("_public") else Discretisation(SPEC, BINS)
    if way.startswith("aim"):
        return aim.AimPlan(discretisation=cut, rows_per_unit=ROWS, cells=2**20, degree=3)
    return privsyn.PrivSynPlan(discretisation=cut, rows_per_unit=ROWS)


@functools.cache
def _public_bins() -> Discretisation:
    steps = to_records(PUBLIC.draw(*PUBLIC_DRAW), whole=False).columns
    return Discretisation.from_public(SPEC, steps, provenance="simulated: another hospital", bins=BINS)


def table(hospital: Linear, patients: int, way: str, epsilon: float, seed: int) -> Table:
    """A table of a way."""
    visits = hospital.draw(patients, seed + SECOND * (way == "real"))
    if way in OPEN:
        return Table.of(permuted(visits, seed) if way == "trivial" else visits, visits["unit_ids"])
    if way == "noise":
        visits = {name: column[visits["unit_ids"] == 0] for name, column in visits.items()}
    unit, module = (
        Unit("patient", "add_or_remove", patients),
        {"aim": aim, "privsyn": privsyn}.get(way.split("_")[0], people),
    )
    plan = planned(way)
    if math.isfinite(epsilon):
        plan = plan.calibrate(unit=unit, epsilon=epsilon, delta=DELTA)
    else:
        plan = dataclasses.replace(plan, noise_multiplier=0.0).account(unit=unit, delta=DELTA)
    with vaults.vault(to_records(visits, whole=way not in RIVALS), unit, epsilon, DELTA) as doors:
        made = module.fit(plan, doors, seed=seed).value
    if way in RIVALS:
        return Table.of(made.sample_columns(STEPS * patients, seed=seed))
    drawn = made.sample(patients, seed=seed)
    return Table.of(drawn.columns, Sequences.of(drawn).owners)


def permuted(visits: dict[str, Any], seed: int) -> dict[str, Any]:
    """Visits with every column permuted by itself, wards, sexes and ages among patients."""
    rng, owners, numbers = np.random.default_rng(seed), visits["unit_ids"], visits["observations"].copy()
    first = np.flatnonzero(np.diff(owners, prepend=-1))
    for places in ((0,), (1, 2), (3,)):
        numbers[:, places] = numbers[rng.permutation(first)][owners][:, places]
    for places in ((4, 5), (6, 7), (8,)):
        numbers[:, places] = numbers[rng.permutation(len(numbers))][:, places]
    following = np.where(visits["truncations"][:, None], numbers, np.roll(numbers, -1, axis=0))
    others = {name: rng.permutation(visits[name]) for name in ("actions", "rewards")}
    return {**visits, **others, "observations": numbers, "next_observations": following}


def key(hospital: str, patients: int, way: str, epsilon: float, seed: int) -> str:
    return f"{hospital}/{patients}/{way}/{0 if way in OPEN else epsilon:g}/{seed}"


def rows(seeds: Sequence[int] = SEEDS) -> list[str]:
    cells = [
        *itertools.product((*MAIN, *OTHERS), seeds, WAYS),
        *itertools.product(NOISELESS, seeds[:2], NOISELESS_WAYS),
    ]
    return list(dict.fromkeys(key(name, count, way, epsilon, seed) for (name, count, epsilon), seed, way in cells))


def configuration(key: str) -> dict[str, Json]:
    name, patients, way, epsilon, _ = key.split("/")
    public = describe([PUBLIC, PUBLIC_DRAW]) if way.endswith("_public") else None
    rival = {"discretisation": {"bins": BINS, "public": public}, "steps": STEPS}
    plan = {} if way in OPEN else describe(planned(way)) | (rival if way in RIVALS else {})
    promised = float(epsilon) if math.isfinite(float(epsilon)) else epsilon
    promise = None if way in OPEN else {"unit": "patient", "epsilon": promised, "delta": DELTA}
    return {
        "hospital": describe(HOSPITALS[name]),
        "patients": int(patients),
        "way": {"name": way, "plan": plan},
        "guarantee": promise,
        "judge": describe([EDGES, LEVELS, TRUTH, PLAYED, LEARNED, SWEEPS]),
    }


store = store_of(
    __file__,
    configuration,
    "defaults of the plans; of AIM and PrivSyn bins and rows of a patient on development seed 900",
)


def run_row(key: str, results: Store) -> None:
    name, patients, way, epsilon, seed = key.split("/")
    hospital = HOSPITALS[name]
    made, cost = metered(lambda: table(hospital, int(patients), way, float(epsilon), int(seed)))
    values, own = metered(lambda: judge(made, hospital))
    values |= {"cpu_s": {"table": cost["cpu_s"], "judge": own["cpu_s"]}}
    results.put(key, dataset=f"{patients} patients of the {name} hospital, seed {seed}", seed=int(seed), values=values)


Found = dict[tuple[str, str], list[float]]


def columns(results: Store, at: tuple[str, int, float], seeds: Sequence[int] = SEEDS) -> Found:
    """Of each way and measure the values of all seeds that there are; `share` is the gain over that of real rows."""
    found: Found = {}
    for way, seed in itertools.product(WAYS, seeds):
        own, real = (key(*at[:2], one, at[2], seed) for one in (way, "real"))
        if results.has(own):
            values = dict(results.values(own))
            if results.has(real):
                values["share"] = values["gain"] / results.values(real)["gain"]
            for measure in values.keys() & {*MEASURES, "share"}:
                found.setdefault((way, measure), []).append(values[measure])
    return found


def ahead(found: Found, rival: str) -> tuple[int, int]:
    """On how many measures people is ahead of a rival by mean, and how many both have."""
    shared = [one for one in (*MEASURES, "share") if ("people", one) in found and (rival, one) in found]
    better = {one: np.mean(found[rival, one]) - np.mean(found["people", one]) for one in shared}
    return sum(bool(-gap > 0 if one == "share" else gap > 0) for one, gap in better.items()), len(shared)


def words_of(results: Store) -> str:
    """Means over seeds with half of their 95 % intervals, and on how many measures people is ahead."""
    blocks = []
    for at in (*MAIN, *OTHERS, *NOISELESS):
        found = columns(results, at)
        shown = {one: spread(values, 3) if len(values) > 1 else f"{values[0]:.3f}" for one, values in found.items()}
        lines = [[name, *(shown.get((way, name), BLANK) for way in WAYS)] for name in (*MEASURES, "share")]
        ends = ["{} on {} of {}".format(way, *ahead(found, way)) for way in RIVALS]
        title = "{} hospital, {:,} patients, epsilon {:g}".format(*at).replace("epsilon inf", "no noise and no promise")
        blocks += [title, markdown(WAYS, lines), f"people is ahead of {', '.join(ends)} measures"]
    return "\n\n".join(blocks)


def figures() -> list[Figure]:
    """Errors of people, alone and beside those of the rivals."""
    results, found = store(), []
    for one in rows():
        results.values(one)
    for at in MAIN:
        means = {name: float(np.mean(values)) for name, values in columns(results, at).items()}
        found.append(Figure(f"{at[0]}: rms error of effects, mmHg", means["people", "effects"], 0.3, at_least=False))
        found.append(Figure(f"{at[0]}: share of real rows' gain by a rule", means["people", "share"], 0.9))
        for name, rival in itertools.product(("regression", "impossible"), RIVALS):
            ratio = means["people", name] / means[rival, name]
            found.append(Figure(f"{at[0]}: {name} error over that of {rival}", ratio, 0.8, at_least=False))
    return found


if __name__ == "__main__":
    command_line(__file__)
