"""What the ledger costs a training step of the demo.

Run `python -m benchmarks.ledger`. One process trains the demo's synthesizer; the process CPU time of all ledger calls
(claims with their durable writes, and the counts that the loop asks for) is set against that of the whole loop.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tacit.data.trajectories import Trajectories
from tacit.envs import maze
from tacit.envs.maze_layouts import LAYOUTS
from tacit.methods import synthesis
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    layout = LAYOUTS["umaze"]
    columns = maze.collect(layout, 1_000_000, agents=1_000, seed=0)
    data = Trajectories.from_arrays(
        **{name: columns[name] for name in FIELDS}, unit_ids=":transition", spec=maze.spec(layout), simulated=True
    )
    unit = Unit("transition", "add_or_remove", 1_000_000)
    plan = synthesis.TransitionsPlan(steps=arguments.steps).calibrate(unit=unit, epsilon=10.0, delta=1e-7)
    with tempfile.TemporaryDirectory() as folder:
        ledger = Timed(Path(folder) / "demo.ledger", unit, epsilon=10.0, delta=1e-7)
        vault = Vault(data, ledger)
        ledger.seconds, start = 0.0, time.process_time()
        synthesis.fit(plan, vault)
        whole = time.process_time() - start
        ledger.close()
    training = whole - ledger.seconds
    print(f"training  {1000 * training / arguments.steps:8.3f} ms a step")
    print(f"ledger    {1000 * ledger.seconds / arguments.steps:8.3f} ms a step")
    timing.report(
        {
            "benchmark": "ledger",
            "ratio_step": ledger.seconds / training,
            "at_most": {"ratio_step": 0.02},
            "steps": arguments.steps,
        }
    )


if __name__ == "__main__":
    main()
