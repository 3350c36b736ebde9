"""Whole people from structured tables, in two hospitals whose truth is known, beside AIM and PrivSyn.

A cell is HOSPITAL/PATIENTS/WAY/EPSILON/SEED. `real` is a second draw of patients, which no method can undercut;
`people` is tacit's method; rivals know steps, two consecutive visits a row, and `*_public` have bins of
a third, public hospital; `trivial` are real visits, each column permuted by itself; `noise` is `people` on one patient.
At epsilon inf nothing is promised and no noise is added (`NOISELESS`, two seeds).

`judge` holds a table against a large fresh draw. A table of whole people has owners and an order; one of steps has
neither, and is held against steps of the truth in which every patient weighs alike, as in the table.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from experiments.beyond.hospitals import DRUGS, GOAL, HOSPITALS, PLACES, SPEC, UNKNOWN, Linear, Rule, to_records
from experiments.lib import vaults
from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import BLANK, Json, Store, command_line, describe, markdown, spread, store_of
from experiments.lib.table_cache import metered
from tacit.evaluation.fidelity import FIELDS, total_variation
from tacit.evaluation.sequences import Sequences
from tacit.evaluation.structure import structure
from tacit.methods.synthesis import people
from tacit.methods.synthesis.baselines import aim, privsyn
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.units import Unit

STATIC = ("ward", "sex", "age")
EDGES = {  # bins of numbers, cut between the values that real ones take; what misses is a bin of its own
    "age": np.arange(17.5, 112, 4),
    "pressure": np.arange(62.5, 260, 5),
    "creatinine": np.arange(0.295, 6, 0.1),
    "gap": np.arange(0.5, 400, 10),
    "reward": (np.arange(-100, 1, 3) - 0.5) / GOAL,
}
LEVELS = np.array([110, 120, 130, 140, 150, 160, 175])  # of pressure, by which drugs are given
TRUTH, PLAYED, LEARNED, SWEEPS = (60_000, 999), (10_000, 99), 40_000, 3
"""Patients and seed of the truth, and of those who get a rule's drugs; steps that a rule learns from, and how often."""
MEASURES = (  # Errors: less is better. Of `gain`, what a learned rule has over the doctors, more is.
    *("effects", "static_changes", "visits", "lag_1", "lag_3", "missing", "impossible", "action_follows"),
    *("next_explained", "drug_given_pressure", "regression", *PLACES, "drug", "reward"),
)


@dataclass(frozen=True, eq=False)
class Table:
    """Visits or steps by name, NaN where a value misses."""

    now: dict[str, np.ndarray]
    following: dict[str, np.ndarray]  # the visits after those in `pairs`
    pairs: np.ndarray
    columns: Mapping[str, Any]  # of the pairs, as `tacit.evaluation.structure` takes them
    owners: np.ndarray | None  # of a table of whole people

    @classmethod
    def of(cls, columns: Mapping[str, Any], owners: np.ndarray | None = None) -> Table:
        """From columns of `SPEC`; rows of an owner are their visits in order."""
        rows = len(columns["rewards"])
        pairs = np.arange(rows) if owners is None else np.flatnonzero(owners[1:] == owners[:-1])
        own = {name: np.asarray(columns[name])[pairs] for name in FIELDS}
        now = {**_named(columns["observations"]), "drug": columns["actions"] * 1.0, "reward": columns["rewards"]}
        return cls(now, _named(own["next_observations"]), pairs, own, owners)

    def weighed(self, seed: int) -> Table:
        """As many steps, drawn so that every owner weighs alike."""
        owners = self.owners[self.pairs]
        weights = 1 / np.bincount(owners)[owners]
        some = np.random.default_rng(seed).choice(len(weights), len(weights), p=weights / weights.sum())
        return Table.of({name: column[some] for name, column in self.columns.items()})

    def steps(self) -> tuple[np.ndarray, ...]:
        """Pressure, creatinine (1 where it misses), drug and next pressure, of steps where the others are known."""
        x, c, drug = (self.now[name][self.pairs] for name in ("pressure", "creatinine", "drug"))
        y = self.following["pressure"]
        kept = ~np.isnan(x + y) & (drug < UNKNOWN)
        return x[kept], np.nan_to_num(c[kept], nan=1.0), drug[kept].astype(int), y[kept]


def _named(numbers: np.ndarray) -> dict[str, np.ndarray]:
    return {
        name: np.where(flag is not None and numbers[:, flag or 0] == 1, np.nan, numbers[:, place].astype(float))
        for name, (place, flag) in PLACES.items()
    }


@functools.cache
def truth(hospital: Linear, people: bool) -> Table:
    if not people:
        return truth(hospital, True).weighed(TRUTH[1])
    visits = hospital.draw(*TRUTH)
    return Table.of(visits, visits["unit_ids"])


def judge(table: Table, hospital: Linear, *, true: Table | None = None) -> dict[str, Any]:
    """`MEASURES` and `gain` of a table beside `true` (`truth` without a word), and what they are made of."""
    people = table.owners is not None
    true = truth(hospital, people) if true is None else true
    found, wanted = effects(table), effects(true)
    kept = structure(true.columns, table.columns, spec=SPEC)
    played = functools.partial(hospital.value, patients=PLAYED[0], seed=PLAYED[1])
    values: dict[str, Any] = {
        "effects": float(np.sqrt(np.mean((found - wanted) ** 2))),
        "static_changes": static_changes(table),
        "missing": float(np.mean(np.abs(_missing(table) - _missing(true)))),
        "impossible": kept.impossible,
        "action_follows": abs(kept.real_action_follows - kept.action_follows),
        "next_explained": abs(kept.real_next_explained - kept.next_explained),
        "drug_given_pressure": drug_given_pressure(table, true),
        "regression": regression_error(table, true),
        **{name: total_variation(*(_codes(name, one.now[name]) for one in (table, true))) for name in true.now},
        "gain": played(learn_rule(table)) - played(None),
        "drugs": found.round(2).tolist(),
    }
    for steps in (1, 3) if people else (1,):
        own = lag(table, steps)
        values |= {f"r_{steps}": own, f"lag_{steps}": abs(own - lag(true, steps))}
    if table.owners is not None:
        values["visits"] = total_variation(np.bincount(table.owners), np.bincount(true.owners))
    return values


def effects(table: Table) -> np.ndarray:
    """Mean change of the pressure until the next visit, of each drug; 0 of one that nobody got."""
    x, _, drug, y = table.steps()
    counts = np.bincount(drug, minlength=len(DRUGS))
    return np.bincount(drug, y - x, minlength=len(DRUGS)) / np.maximum(counts, 1)


def static_changes(table: Table) -> float:
    """Share of steps in which a ward, sex or age is another one."""
    pairs = [(table.now[name][table.pairs], table.following[name]) for name in STATIC]
    return float(np.mean(np.any([(a != b) & ~(np.isnan(a) & np.isnan(b)) for a, b in pairs], axis=0)))


def lag(table: Table, steps: int) -> float:
    """Correlation of a person's pressure with the one so many visits later."""
    x = table.now["pressure"]
    a, b = x[table.pairs], table.following["pressure"]
    if steps > 1:
        first = np.flatnonzero(table.owners[steps:] == table.owners[:-steps])
        a, b = x[first], x[first + steps]
    known = ~np.isnan(a + b)
    return float(np.corrcoef(a[known], b[known])[0, 1])


def drug_given_pressure(table: Table, true: Table) -> float:
    """Mean over levels of pressure of the distance of the drugs that are given there; 1 where a table has nobody."""
    levels = [np.searchsorted(LEVELS, one.now["pressure"], side="right") for one in (table, true)]
    known = [~np.isnan(one.now["pressure"]) for one in (table, true)]
    found = []
    for level in np.unique(levels[1][known[1]]):
        given = [one.now["drug"][k & (own == level)] for one, own, k in zip((table, true), levels, known, strict=True)]
        found.append(total_variation(*(drugs.astype(int) for drugs in given)) if len(given[0]) else 1.0)
    return float(np.mean(found))


def regression_error(table: Table, true: Table) -> float:
    """RMSE in mmHg, over true steps, between regressions of the next pressure that are learned on both."""
    weights = []
    for x, c, drug, y in (table.steps(), true.steps()):
        given, scaled = np.eye(len(DRUGS))[drug], ((x - 140) / 20)[:, None]
        rows = np.concatenate([given, given * scaled, given * (c > 1.5)[:, None], scaled**2], axis=1)
        weights.append(np.linalg.solve(rows.T @ rows + 1e-3 * np.eye(rows.shape[1]), rows.T @ y))
    return float(np.sqrt(np.mean((rows @ (weights[0] - weights[1])) ** 2)))


def learn_rule(table: Table) -> Rule:
    """Drugs that bring the pressure to the goal, by fitted Q with trees on at most `LEARNED` steps."""
    x, c, drug, y = table.steps()
    some = np.random.default_rng(0).permutation(len(x))[:LEARNED]
    x, c, drug, y = x[some], c[some], drug[some], y[some]

    def inputs(x: np.ndarray, c: np.ndarray, drug: np.ndarray) -> np.ndarray:
        return np.column_stack([x, np.minimum(c, 3), np.eye(len(DRUGS))[drug]])

    def worth(x: np.ndarray, c: np.ndarray) -> np.ndarray:
        return np.array([model.predict(inputs(x, c, np.full(len(x), drug))) for drug in range(len(DRUGS))])

    later = np.zeros(len(x))
    for _ in range(SWEEPS):
        model = HistGradientBoostingRegressor(max_iter=60, min_samples_leaf=min(100, 1 + len(x) // 20), random_state=0)
        model.fit(inputs(x, c, drug), 0.9 * later - np.abs(y - GOAL) / GOAL)
        later = worth(y, c).max(axis=0)
    return lambda pressure, creatinine: worth(pressure, creatinine).argmax(axis=0)


def _missing(table: Table) -> np.ndarray:
    unknown = [np.isnan(table.now[name]) for name in ("pressure", "creatinine")]
    return np.mean([*unknown, table.now["drug"] == UNKNOWN], axis=1)


def _codes(name: str, values: np.ndarray) -> np.ndarray:
    codes = np.digitize(values, EDGES[name]) if name in EDGES else np.nan_to_num(values)
    return np.where(np.isnan(values), len(EDGES.get(name, DRUGS)) + 1, codes).astype(int)


SEEDS, DELTA = (411, 412, 413, 414, 415), 1e-6
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
    visits = hospital.draw(patients, seed + SECOND * (way == "real"))
    if way in OPEN:
        return Table.of(permuted(visits, seed) if way == "trivial" else visits, visits["unit_ids"])
    if way == "noise":
        visits = {name: column[visits["unit_ids"] == 0] for name, column in visits.items()}
    unit = Unit("patient", "add_or_remove", patients)
    module = {"aim": aim, "privsyn": privsyn}.get(way.split("_")[0], people)
    plan = vaults.calibrated(planned(way), unit, epsilon, DELTA)
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


def figures() -> Figures:
    results = store()
    for one in rows():
        results.values(one)
    for at in MAIN:
        means = {name: float(np.mean(values)) for name, values in columns(results, at).items()}
        yield at_most(f"{at[0]}: rms error of effects, mmHg", means["people", "effects"], 0.3)
        yield at_least(f"{at[0]}: share of real rows' gain by a rule", means["people", "share"], 0.9)
        for name, rival in itertools.product(("regression", "impossible"), RIVALS):
            ratio = means["people", name] / means[rival, name]
            yield at_most(f"{at[0]}: {name} error over that of {rival}", ratio, 0.8)


if __name__ == "__main__":
    command_line(__file__)
