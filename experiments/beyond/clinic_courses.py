"""What a learner returns that is trained on synthetic patients of the clinic, whose episodes end and follow each other.

    python -m experiments.beyond.clinic_courses "10000/people/*/91[0-4]"  # some cells

A cell is PATIENTS/WAY/EPSILON/SEED. `real` are the records themselves, `people` is tacit's default (whole patients),
`noise` the same on the records of one patient, and `trivial` the records, each column permuted by itself. The learner
is discrete CQL with the settings of `tacit demo`. Seeds below 10 chose what `people` does now.
"""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import BLANK, Json, Store, command_line, describe, markdown, spread, store_of
from experiments.lib.table_cache import metered
from experiments.lib.vaults import vault
from tacit.cli.demo import USUAL, DemoJudge
from tacit.data.trajectories import Trajectories
from tacit.methods.synthesis import people
from tacit.methods.synthesis.baselines import aim, privsyn
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.study import simulators
from tacit.units import Unit

SEEDS, DELTA = tuple(range(910, 920)), 1e-6
SETTINGS = ((10_000, 2.0), (10_000, 1.0), (2_000, 2.0))
WAYS, OPEN = ("real", "people", "privsyn", "aim", "trivial", "noise"), ("real", "trivial")
MODULES: Mapping[str, Any] = {"people": people, "noise": people, "privsyn": privsyn, "aim": aim}


def planned(way: str) -> Any:
    spec = simulators.load("clinic").spec()
    if way == "privsyn":
        return privsyn.PrivSynPlan(discretisation=Discretisation(spec))
    if way == "aim":
        return aim.AimPlan(discretisation=Discretisation(spec), cells=2**20, degree=3)
    return people.PeoplePlan(spec=spec)


def steps(patients: int, way: str, epsilon: float, seed: int) -> Mapping[str, Any]:
    world = simulators.load("clinic")
    records: dict[str, Any] = world.collect(patients, seed=seed)
    if way == "real":
        return records
    if way == "trivial":
        rng = np.random.default_rng(seed)
        permuted = {name: rng.permutation(records[name]) for name in ("actions", "rewards", "terminations")}
        shown = {name: records[name].copy() for name in ("observations", "next_observations")}
        for values, place in itertools.product(shown.values(), range(len(world.LOW))):
            values[:, place] = rng.permutation(values[:, place])
        return {**records, **permuted, **shown}
    if way == "noise":
        records = {name: column[records["unit_ids"] == 0] for name, column in records.items()}
    unit = Unit("patient", "add_or_remove", patients)
    data = Trajectories.from_arrays(**records, spec=world.spec(), unit_name="patient", simulated=True)
    plan = planned(way).calibrate(unit=unit, epsilon=epsilon, delta=DELTA)
    with vault(data, unit, epsilon, DELTA) as door:
        made = MODULES[way].fit(plan, door, seed=seed).value
    if way in ("privsyn", "aim"):
        drawn: Mapping[str, Any] = made.sample_columns(22 * patients, seed=seed)  # about as many as there are
    else:
        drawn = made.sample(patients, seed=seed).columns
    return drawn


def key(patients: int, way: str, epsilon: float, seed: int) -> str:
    return f"{patients}/{way}/{0 if way in OPEN else epsilon:g}/{seed}"


def rows() -> list[str]:
    cells = itertools.product(SETTINGS, SEEDS, WAYS)
    return list(dict.fromkeys(key(patients, way, epsilon, seed) for (patients, epsilon), seed, way in cells))


def configuration(key: str) -> dict[str, Json]:
    patients, way, epsilon, _ = key.split("/")
    promise = None if way in OPEN else {"unit": "patient", "epsilon": float(epsilon), "delta": DELTA}
    plan = {} if way in OPEN else describe(planned(way))
    return {"patients": int(patients), "way": {"name": way, "plan": plan}, "guarantee": promise}


store = store_of(__file__, configuration, "defaults of the plans; what people do was chosen on seeds 0 to 5")


def run_row(key: str, results: Store) -> None:
    patients, way, epsilon, seed = key.split("/")
    made, cost = metered(lambda: steps(int(patients), way, float(epsilon), int(seed)))
    judge = DemoJudge(simulators.load("clinic"), USUAL, int(seed))
    points, own = metered(lambda: judge.of_learner(way, made))
    values = {"points": points, "cpu_s": {"steps": cost["cpu_s"], "learner": own["cpu_s"]}}
    results.put(key, dataset=f"{patients} patients of the clinic, seed {seed}", seed=int(seed), values=values)


def points(results: Store, patients: int, way: str, epsilon: float) -> list[float]:
    keys = (key(patients, way, epsilon, seed) for seed in SEEDS)
    return [results.values(one)["points"] for one in keys if results.has(one)]


def table(results: Store) -> str:
    lines = []
    for patients, epsilon in SETTINGS:
        found = (points(results, patients, way, epsilon) for way in WAYS)
        cells = [f"{spread(values, 1)} ({min(values):.0f})" if len(values) > 1 else BLANK for values in found]
        lines.append([f"{patients:,}, epsilon {epsilon:g}", *cells])
    return markdown(WAYS, lines)


def figures() -> Figures:
    results = store()
    for patients, epsilon in SETTINGS:
        means = {way: float(np.mean(points(results, patients, way, epsilon))) for way in WAYS}
        at = f"{patients:,} patients, epsilon {epsilon:g}"
        yield at_least(f"{at}: share of a learner from records", means["people"] / means["real"], 0.9)
        for rival in ("privsyn", "aim"):
            yield at_least(f"{at}: points above {rival}", means["people"] - means[rival], 0.0)


if __name__ == "__main__":
    command_line(__file__)
