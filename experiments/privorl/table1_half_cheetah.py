"""Table I on half-cheetah with rows that teach something: one evaluation of rows that were frozen before it.

    python -m experiments.privorl.table1_half_cheetah --freeze  # collect the private rows and print their hash

Collector and agent are what `tune_half_cheetah` chose on robots of other masses and gravity. Without `FROZEN`, the hash
of the private rows, or with other rows, no cell is run. AIM's workload is all pairs: among the 10,660 sets of three of
41 columns it would choose for hours.
"""

import hashlib
import sys
from dataclasses import dataclass

import numpy as np

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Json, command_line, describe, store_of
from experiments.lib.statistics import iqm
from experiments.lib.table_cache import FIELDS, Columns, kept
from experiments.privorl.envs import half_cheetah
from experiments.privorl.parts.synthesis_domains import HalfCheetah
from experiments.privorl.parts.synthesis_returns import UNTAUGHT, OneTask
from experiments.privorl.tuning import tune_half_cheetah
from experiments.privorl.tuning.tune_half_cheetah import COLLECTORS, Collector

COLLECTOR, AGENT = "long", "td3_bc"  # what `tune_half_cheetah` chose
FROZEN: str | None = "5277a0828426dece17bca6a515758911ec1a7e8c7cfd99649c7917d7a2485a9f"
"""SHA-256 of the private rows, written down on 26 November 2026, before the first agent learned from them."""
SEEDS, EPSILONS = (10, 11, 12), (10.0, 1.0)
RIVALS = ("mst", "aim", "privsyn", "pate_gan", "pre_pate_gan")
WAYS = ("real", "raked", *RIVALS, "noise_only")
TRIVIAL = UNTAUGHT


@dataclass(frozen=True)
class Replay(HalfCheetah):
    """The rows of the collector that was chosen, one data set for all seeds (not D4RL's)."""

    collector: Collector = COLLECTORS[COLLECTOR]
    frozen: str | None = FROZEN
    name = "half_cheetah_replay"

    @property
    def rows(self) -> Json:
        return {name: one for name, one in super().rows.items() if name != "collect"}

    def private(self, seed: int) -> Columns:
        """The private rows; SystemExit where they are not frozen, or not the ones that were."""
        found = self.collected()
        if self.frozen is None or digest(found) != self.frozen:
            raise SystemExit(
                "half-cheetah: the private rows are not those that were frozen; "
                "run python -m experiments.privorl.table1_half_cheetah --freeze, and write the hash into FROZEN"
            )
        return found

    def collected(self) -> Columns:
        settings = {"collector": describe(self.collector), "population": self.population}
        name = f"{self.name}/private/{self.population}"
        return kept(name, settings, lambda: (self.collector.rows(half_cheetah.Robot(), self.population, 0), {}))[0]


def digest(rows: Columns) -> str:
    """SHA-256 of the columns of transitions, their types and sizes."""
    found = hashlib.sha256()
    for name in FIELDS:
        column = np.ascontiguousarray(rows[name])
        found.update(f"{name} {column.dtype.str} {column.shape}".encode())
        found.update(column.tobytes())
    return found.hexdigest()


TASK = OneTask(Replay(), AGENT, SEEDS, ((WAYS, EPSILONS),), actions=6, played="HalfCheetah-v5")
rows, configuration, together = TASK.rows, TASK.configuration, TASK.together
run_rows, column = TASK.run_rows, TASK.column
store = store_of(
    __file__,
    configuration,
    "chosen on robots of other masses and gravity (tune_half_cheetah); methods have their defaults",
)


def figures() -> Figures:
    """Whether real rows teach what they should, without which no row says anything."""
    real = iqm(column(store(), "real", 0.0))
    yield at_least(f"half-cheetah, {AGENT}: return of real rows", real, tune_half_cheetah.WANTED)


if __name__ == "__main__":
    if sys.argv[1:] == ["--freeze"]:
        print(digest(Replay().collected()))
    else:
        command_line(__file__)
