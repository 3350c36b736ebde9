"""What epsilon must at least be: audits of whole methods, over a grid of certified epsilons.

A cell holds what `tacit.evaluation.audits.audit` found of one method (a small plan at delta 1e-5, canaries made for it,
the real doors): the certified epsilon, and lower bounds at 95 % confidence by one canary and everything that left the
doors, by one canary and the release alone after shadow runs, and by many canaries in one run. Noise is the library's
own: a second run finds other figures of about the same size.
"""

import dataclasses
import functools
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import Json, Store, command_line, describe, store_of
from experiments.lib.plots import IMAGES, Curve, Panel, draw
from tacit.evaluation.audits import Effort, audit, library
from tacit.evaluation.audits.running import CASES
from tacit.evaluation.report.charts import ChartAxis

EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0)
FEWER = {  # methods whose audits take minutes, and where they are audited
    "transitions": (1.0, 2.0, 8.0),
    "evaluation": (1.0, 2.0, 8.0),
    "movement": (1.0, 2.0, 8.0),
    "trajectories": (1.0, 8.0),
    "movement-federated": (8.0,),
}
CANARIES = (  # settings of `library`, whose canaries all methods share
    *("POPULATION", "ROOM", "DRAWS", "HISTORY", "STATES", "DECISIONS", "LOUD", "PLACES_SPEC"),
    *("SIGNS", "LOGGED", "SIGNS_SPEC", "DEVICES", "GRID", "DAYS"),
)
METHODS = (  # whole methods with small plans, in the order of the page
    *("transitions", "trajectories", "policy-gradient", "policy-votes", "gpope", "evaluation", "movement"),
    *("movement-federated", "experts"),
)
DELTA, CONFIDENCE = 1e-5, 0.95
EFFORT = Effort(fused=800, single=300, crowded=1)
SHOWN = 8.0  # where at least half of what is certified must be found
WAYS = {"certified": "certified", "gaussian": "one canary, Gaussian", "canary": "one canary"}
WAYS |= {"one run": "many canaries, one run", "release": "the release alone"}


@dataclass(frozen=True)
class Cell:
    """One method at one epsilon."""

    method: str
    epsilon: float

    @property
    def key(self) -> str:
        return f"{self.method}/{self.epsilon:g}"


def cells() -> list[Cell]:
    first = [Cell(method, SHOWN) for method in METHODS]
    more = (Cell(m, e) for e in EPSILONS for m in METHODS if e != SHOWN and e in FEWER.get(m, EPSILONS))
    return [*first, *more]


def run(cell: Cell, jobs: int) -> dict[str, Any]:
    began = time.perf_counter()
    terms: dict[str, Any] = {"delta": DELTA, "effort": EFFORT, "confidence": CONFIDENCE}
    found = audit(cell.method, epsilon=cell.epsilon, jobs=jobs, **terms)
    ways: dict[str, Any] = {finding.way: dataclasses.asdict(finding) for finding in found.findings}
    bounds = {name: round(way["epsilon"], 4) for name, way in ways.items()}
    if ways["canary"]["by_law"] is not None:
        bounds["gaussian"] = round(ways["canary"]["by_law"], 4)
    return {
        "certified": round(found.epsilon, 6),
        "bounds": bounds,
        "confidence": found.confidence,
        "runs": ways["canary"]["runs"],
        "canaries": ways.get("one run", {}).get("canaries", 0),
        "seconds": round(time.perf_counter() - began, 1),
    }


@functools.cache
def configuration(key: str) -> Json:
    method, epsilon = key.split("/")
    case = CASES[method]()
    plan = case.plan(float(epsilon), DELTA, 1)
    return {
        "plan": describe(dataclasses.replace(plan, noise_multiplier=None, promise=None)),
        "guarantee": {"epsilon": float(epsilon), "delta": DELTA, "unit": describe(case.unit)},
        "case": {name: getattr(case, name) for name in ("runs_per_pass", "crowd", "run_factor", "published")},
        "canaries": {name: describe(getattr(library, name)) for name in CANARIES},
        "effort": describe(EFFORT),
        "confidence": CONFIDENCE,
    }


store = store_of(__file__, configuration, "small plans of each method; canaries made by hand, no search")


def rows() -> list[str]:
    return [cell.key for cell in cells()]


def figures() -> Figures:
    results = store()
    for cell in cells():
        row = results.values(cell.key)
        best = max(row["bounds"].values())
        yield at_most(f"{cell.key}: audited epsilon under the certified", best, row["certified"])
        if cell.epsilon == SHOWN:
            yield at_least(f"{cell.key}: audited epsilon over half of it", best, row["certified"] / 2)


def plot(results: Store, path: Path = IMAGES / "audits.svg") -> None:
    panels = []
    for method in METHODS:
        kept = [e for e in EPSILONS if results.has(Cell(method, e).key)]
        if not kept:
            continue
        rows = [results.values(Cell(method, e).key) for e in kept]
        curves = [Curve(WAYS["certified"], kept, [row["certified"] for row in rows], flat=True)]
        for way in list(WAYS)[1:]:
            found = [row["bounds"].get(way, 0.0) for row in rows]
            if all(way in row["bounds"] for row in rows):
                curves.append(Curve(WAYS[way], kept, found, spread=[(bound, bound) for bound in found]))
        axes = (
            ChartAxis("certified epsilon", min(EPSILONS), max(EPSILONS), log=True),
            ChartAxis(method, 0.0, max(EPSILONS)),
        )
        panels.append(Panel(method, "certified epsilon", curves, axes))
    draw(panels, "Audited against certified epsilon, every method", path, columns=2, legend=3)


def run_row(key: str, results: Store, jobs: int | None = None) -> None:
    method, epsilon = key.split("/")
    made = run(Cell(method, float(epsilon)), jobs or len(os.sched_getaffinity(0)))
    results.put(key, dataset="invented canaries", seed=0, values=made)


if __name__ == "__main__":
    command_line(__file__)
