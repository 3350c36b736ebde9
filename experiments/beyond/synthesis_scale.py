"""What structured tables and whole people cost by the number of rows, each row in a process of its own.

A key is METHOD/ROWS/COLUMNS for single steps, drawn uniformly, every row a unit, with the default structure at epsilon
1; and people/PATIENTS/9 for the linear hospital at epsilon 2. Memory is the process's peak, and what it was before the
fit: the records themselves are in both.
"""

import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

from experiments.beyond import people_hospitals
from experiments.beyond.hospitals import Linear, to_records
from experiments.lib import vaults
from experiments.lib.check import Figures, at_most
from experiments.lib.experiment import BLANK, Json, Store, command_line, describe, markdown, store_of
from tacit.data import PublicSpec, Trajectories
from tacit.data.spec import Box
from tacit.methods.synthesis import people, structured
from tacit.units import Unit

SEED, EPSILONS, DELTA = 0, {"structured": 1.0, "people": 2.0}, 1e-9
KEYS = (
    *(f"structured/{rows}/6" for rows in (1_000_000, 3_000_000, 10_000_000)),
    "structured/1000000/40",
    "people/1000000/9",
)
HEADS = ("plan, CPU s", "fit, CPU s", "CPU s a million rows", "records, MiB", "peak, MiB", "numbers released")


def spec_of(columns: int) -> PublicSpec:
    n = (columns - 2) // 2
    bounds = Box((0,) * n, (1,) * n), Box((-1,), (1,)), Box((0,), (1,))
    return PublicSpec(*bounds, "declared", difference=(0.1,) * n, terminals=False)


def drawn(method: str, count: int, columns: int) -> Trajectories:
    if method == "people":
        return to_records(Linear().draw(count, SEED), whole=True)
    spec, rng = spec_of(columns), np.random.default_rng(SEED)
    seen = rng.random((count, spec.observation.size), dtype=np.float32)
    actions = rng.uniform(-1, 1, (count, 1)).astype(np.float32)
    following = np.clip(seen + np.float32(0.05) * actions, 0, 1)
    arrays: dict[str, Any] = {"observations": seen, "actions": actions, "next_observations": following}
    arrays |= {"rewards": seen[:, 0], "terminations": np.zeros(count, bool)}
    return Trajectories.from_arrays(**arrays, unit_ids=":transition", spec=spec, simulated=True)


def measure(key: str) -> dict[str, Any]:
    method, count, columns = key.split("/")
    data, epsilon = drawn(method, int(count), int(columns)), EPSILONS[method]
    unit = Unit("patient" if method == "people" else "transition", "add_or_remove", int(count))
    before, began = peak(), time.process_time()
    raw: Any = people_hospitals.planned("people")
    if method == "structured":
        raw = structured.StructuredPlan.choose(data.spec, unit=unit, epsilon=epsilon)
    plan = raw.calibrate(unit=unit, epsilon=epsilon, delta=DELTA)
    planned = time.process_time()
    module: Any = {"structured": structured, "people": people}[method]
    with vaults.vault(data, unit, epsilon, DELTA) as doors:
        made = module.fit(plan, doors).value
    cpu_s = {"plan": round(planned - began, 2), "fit": round(time.process_time() - planned, 2)}
    numbers = sum(array.size for array in made.arrays().values())
    rows = len(data.columns["rewards"])
    return {"rows": rows, "cpu_s": cpu_s, "before_mib": before, "peak_mib": peak(), "numbers": numbers}


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 2**10


def configuration(key: str) -> dict[str, Json]:
    method, count, columns = key.split("/")
    records = describe(Linear() if method == "people" else spec_of(int(columns)))
    plan = describe(people_hospitals.planned("people")) if method == "people" else "chosen without public rows"
    promise = {"epsilon": EPSILONS[method], "delta": DELTA}
    return {"method": method, "units": int(count), "records": records, "plan": plan, "guarantee": promise}


store = store_of(__file__, configuration, "defaults of the plans")


def rows() -> list[str]:
    return list(KEYS)


def run_row(key: str, results: Store) -> None:
    words = [sys.executable, "-m", "experiments.beyond.synthesis_scale", "--measure", key]
    made = subprocess.run(words, check=True, capture_output=True, text=True)
    values = json.loads(made.stdout.splitlines()[-1])
    results.put(key, dataset=f"simulated: {key}, seed {SEED}", seed=SEED, values=values)


def table(results: Store) -> str:
    lines = []
    for key in KEYS:
        method, count, columns = key.split("/")
        name = f"{method}, {int(count):,} {'people' if method == 'people' else 'rows'}, {columns} columns"
        if not results.has(key):
            lines.append([name, *[BLANK] * len(HEADS)])
            continue
        found = results.values(key)
        plan, fit = found["cpu_s"]["plan"], found["cpu_s"]["fit"]
        seconds = [f"{plan:.1f}", f"{fit:.1f}", f"{1e6 * fit / found['rows']:.2f}"]
        lines.append([name, *seconds, *(f"{found[one]:,}" for one in ("before_mib", "peak_mib", "numbers"))])
    return markdown(HEADS, lines)


def figures() -> Figures:
    results = store()
    each = [results.values(key)["cpu_s"]["fit"] / results.values(key)["rows"] for key in KEYS if key.endswith("/6")]
    for key in KEYS:
        results.values(key)
    yield at_most("structured: CPU of a row of ten million over one of a million", each[-1] / each[0], 1.5)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:  # in a process of its own, whose memory is measured
        print(json.dumps(measure(sys.argv[2])))
    else:
        command_line(__file__)
