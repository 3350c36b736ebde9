"""What the answers of `tacit demo` are worth, over many demos: the policy, its gain, the rule and the courses.

    python -m experiments.beyond.demo_answers "demo/*"  # some cells

A cell is KIND/SEED. Of "demo" all three requests are made as the demo makes them: points of the policy and whether its
gain is proven, points of a learner from the courses and of one from the records. Of "rule" only the evaluation is made:
whether its interval has the change that the simulator knows exactly, how wide it is, and how far its middle is off.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Json, Store, command_line, describe, markdown, spread, store_of
from tacit import plain_files
from tacit.cli import demo
from tacit.data.trajectories import Trajectories
from tacit.study import file, simulators
from tacit.study.study import Study

DEMOS, RULES = tuple(range(300, 320)), tuple(range(1_000, 1_400))
TRUTH = 0.1124  # change of a course's return, of which `demo.CHANGE` is the points; a test of the demo recomputes it
IMPROVE = {"epsilon": 1.0, **demo.COURSES, **demo.COLUMNS, "environment": "clinic"}
EVALUATE = {"epsilon": 1.0, **demo.COURSES, **demo.RULE}
SYNTHESIZE = {"epsilon": 2.0}


def rows() -> list[str]:
    return [*(f"demo/{seed}" for seed in DEMOS), *(f"rule/{seed}" for seed in RULES)]


def configuration(key: str) -> dict[str, Json]:
    asked = [EVALUATE] if key.startswith("rule") else [IMPROVE, EVALUATE, SYNTHESIZE]
    return {"patients": demo.USUAL.patients, "labels": True, "requests": describe(asked), "truth": TRUTH}


store = store_of(__file__, configuration, "those of the demo")


def answers(kind: str, seed: int) -> dict[str, Any]:
    world = simulators.load("clinic")
    columns = world.collect(demo.USUAL.patients, seed=seed)
    people = Trajectories.from_arrays(**columns, spec=world.spec(labels=True), unit_name="patient", simulated=True)
    with tempfile.TemporaryDirectory() as folder:
        people.save(Path(folder) / "records")
        written = file.template("records", "patient", demo.USUAL.patients, demo.BUDGET, 0.0, None, {})
        plain_files.write(Path(folder) / file.NAME, written)
        study = Study.open(Path(folder) / file.NAME)
        improved = study.improve(**IMPROVE).value if kind == "demo" else None
        interval = study.evaluate(**EVALUATE).value.difference.interval
        found: dict[str, Any] = {"low": interval.low, "high": interval.high}
        if improved is not None:
            judge = demo.DemoJudge(world, demo.USUAL, seed)
            drawn = study.synthesize(**SYNTHESIZE).value.sample(demo.USUAL.patients, seed=seed).columns
            found |= {
                "policy": judge.of_improvement("", improved),
                "proven": improved.statement.verdict == "proven",
                "courses": judge.of_learner("", drawn),
                "records": judge.of_learner("", columns),
            }
    return found


def run_row(key: str, results: Store) -> None:
    kind, seed = key.split("/")
    values = answers(kind, int(seed))
    results.put(key, dataset=f"{demo.USUAL.patients} patients, seed {seed}", seed=int(seed), values=values)


def found(results: Store) -> dict[str, np.ndarray]:
    demos = [results.values(f"demo/{seed}") for seed in DEMOS if results.has(f"demo/{seed}")]
    every = demos + [results.values(f"rule/{seed}") for seed in RULES if results.has(f"rule/{seed}")]
    return {
        "policy": np.array([one["policy"] for one in demos]),
        "proven": np.array([one["proven"] for one in demos]),
        "share": np.array([one["courses"] / one["records"] for one in demos]),
        "covered": np.array([one["low"] <= TRUTH <= one["high"] for one in every]),
        "width": np.array([one["high"] - one["low"] for one in every]),
    }


def table(results: Store) -> str:
    values = found(results)
    if not len(values["policy"]):
        return "no rows yet"
    reached = int((values["policy"] >= 77).sum())
    lines = [
        ["policy, points", f"{spread(values['policy'], 1)}; at least 77 in {reached} of {len(values['policy'])}"],
        ["a gain is proven", f"{int(values['proven'].sum())} of {len(values['proven'])}"],
        [
            "learner from courses, share of one from records",
            f"{spread(values['share'], 2)}; least {values['share'].min():.2f}",
        ],
        ["the rule's interval has the truth", f"{int(values['covered'].sum())} of {len(values['covered'])}"],
        ["its width over the truth", f"{values['width'].mean() / TRUTH:.1f}"],
    ]
    demos, every = len(values["policy"]), len(values["covered"])
    return markdown((f"{demos} demos, and {every - demos} evaluations more",), lines)


def figures() -> Figures:
    results = store()
    for key in rows():
        results.values(key)
    values = found(results)
    yield at_least("demos of 20 whose policy has at least 77 points", float((values["policy"] >= 77).sum()), 18)
    yield at_least("demos of 20 with a proven gain", float(values["proven"].sum()), 18)
    yield at_least("least share of a learner from records", float(values["share"].min()), 0.9)
    yield at_least("share of intervals with the truth", float(values["covered"].mean()), 0.925)


if __name__ == "__main__":
    command_line(__file__)
