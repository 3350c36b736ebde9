"""What the ledger costs a training step of the demo, and how its cost grows with the number of plans.

Run `python -m benchmarks.ledger`. One process trains the demo's synthesizer; `ratio_step` sets the process CPU time of
all ledger calls (claims with their durable writes, and the counts that the loop asks for) against that of the rest of
the loop. Ledgers of 1 to 1,600 plans, each described as the demo's, are then opened in turn: `open_1600_s` is the
median for 1,600, `open_exponent` the slope of log seconds over log plans from 100 to 1,600 (400, halfway, is printed
and does not change a fitted slope). `claim_ratio` is a claim under 1,600 plans over a claim under 1.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tacit.data.trajectories import Trajectories
from tacit.methods import synthesis
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds import maze
from tacit_worlds.maze_layouts import LAYOUTS

PLANS = (1, 100, 400, 1_600)
FIELDS = ("observations", "actions", "rewards", "next_observations", "terminations", "truncations")


class Timed(Ledger):
    """A ledger that adds up the process CPU time of the calls that a training loop makes."""

    seconds = 0.0

    def claim(self, plan_id: str, part: str, count: int) -> range:
        return self._timed(super().claim, plan_id, part, count)

    def claimed(self, plan_id: str, part: str) -> int:
        return self._timed(super().claimed, plan_id, part)

    def steps(self, plan_id: str, part: str) -> int:
        return self._timed(super().steps, plan_id, part)

    def _timed(self, call: Callable[..., Any], *arguments: Any) -> Any:
        start = time.process_time()
        try:
            return call(*arguments)
        finally:
            self.seconds += time.process_time() - start


def step_seconds(plan: synthesis.TransitionsPlan, folder: Path) -> tuple[float, float]:
    """CPU seconds a step of the training loop without its ledger, and of the ledger."""
    layout = LAYOUTS["umaze"]
    columns = maze.collect(layout, 1_000_000, agents=1_000, seed=0)
    data = Trajectories.from_arrays(
        **{name: columns[name] for name in FIELDS}, unit_ids=":transition", spec=maze.spec(layout), simulated=True
    )
    with Timed(folder / "demo.ledger", plan.unit, epsilon=10.0, delta=1e-7, composition=SUM) as ledger:
        vault = Vault(data, ledger)
        ledger.seconds, start = 0.0, time.process_time()
        synthesis.fit(plan, vault)
        whole = time.process_time() - start
    return (whole - ledger.seconds) / plan.steps, ledger.seconds / plan.steps


def of_plans(count: int, plan: synthesis.TransitionsPlan, folder: Path) -> Path:
    """A ledger with so many plans, whose costs are different numbers; each has a million steps."""
    path, description = folder / f"{count}.ledger", plans.describe(plan)
    with Ledger(path, plan.unit, epsilon=10.0, delta=1e-7, composition=SUM) as ledger:
        for i in range(count):
            share = (i + 1) / (count * (count + 1))
            ledger.reserve(
                f"{i:064x}", description, parts={"train": 1_000_000}, epsilon=10.0 * share, delta=1e-7 * share
            )
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    unit = Unit("transition", "add_or_remove", 1_000_000)
    plan = synthesis.TransitionsPlan(steps=arguments.steps).calibrate(unit=unit, epsilon=10.0, delta=1e-7)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        training, of_ledger = step_seconds(plan, folder)
        paths = {str(count): of_plans(count, plan, folder) for count in PLANS}
        opening = timing.cpu_seconds(
            {count: lambda path=path: Ledger(path).close() for count, path in paths.items()}, repeats=arguments.repeats
        )
        with Ledger(paths["1"]) as one, Ledger(paths["1600"]) as many:
            claiming = timing.cpu_seconds(
                {"1": lambda: one.claim("0" * 64, "train", 1), "1600": lambda: many.claim("0" * 64, "train", 1)},
                repeats=arguments.repeats,
                calls=20,
            )
    print(f"training  {1000 * training:8.3f} ms a step")
    print(f"ledger    {1000 * of_ledger:8.3f} ms a step")
    for count in paths:
        print(f"open, {count:>5s} plans   {1000 * statistics.median(opening[count]):8.2f} ms")
    for count in claiming:
        print(f"claim, {count:>5s} plans  {1000 * statistics.median(claiming[count]):8.3f} ms")
    timing.report(
        {
            "benchmark": "ledger",
            "ratio_step": of_ledger / training,
            "open_1600_s": statistics.median(opening["1600"]),
            "open_exponent": math.log(timing.ratio(opening, "1600", "100")) / math.log(16),
            "claim_ratio": timing.ratio(claiming, "1600", "1"),
            "at_most": {"ratio_step": 0.02, "open_1600_s": 0.3, "open_exponent": 1.1, "claim_ratio": 1.2},
            "steps": arguments.steps,
        }
    )


if __name__ == "__main__":
    main()
