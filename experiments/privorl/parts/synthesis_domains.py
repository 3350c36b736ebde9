"""The tasks of the experiments on synthesis: private rows, public rows of other worlds, and how a policy is judged.

Mazes are those of `synthesis_mazes`. The half-cheetah's rows are collected by our own agent while
it learns: they are not D4RL's. `Own` holds the rows of a user's own file in place of the simulated ones.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from experiments.lib.experiment import Json, describe
from experiments.lib.one_step import one_step_errors
from experiments.lib.table_cache import Columns, defaults, kept, rows_of
from experiments.privorl.envs import half_cheetah, kitchen, kitchen_controller
from experiments.privorl.parts.synthesis_mazes import Maze
from tacit.data import overlap
from tacit.data.sources import d4rl
from tacit.data.spec import PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.envs.rollouts import Policies
from tacit.errors import DataError
from tacit.units import Unit

Values = dict[str, np.ndarray]


def unit(here: Domain) -> Unit:
    return Unit("transition", "add_or_remove", here.population)


@dataclass(frozen=True)
class HalfCheetah:
    """MuJoCo's half-cheetah: what our own agent did while it learned, one data set for all seeds (not D4RL's)."""

    population: int = 200_000
    public_rows: int = 200_000
    name = "half_cheetah"
    provenance = "simulated: other bodies (masses, gravity, friction) and other policies"
    settings = MappingProxyType({"sampling_rate": 0.04})
    judge = MappingProxyType({"episodes": 10})

    @property
    def delta(self) -> float:
        return 0.1 / self.population

    @property
    def spec(self) -> PublicSpec:
        return half_cheetah.spec()

    @property
    def rows(self) -> Json:
        return {
            **describe(self),
            "spec": describe(self.spec),
            "provenance": self.provenance,
            "collect": defaults(half_cheetah.collect),
            "other_rows": defaults(half_cheetah.other_rows),
        }

    def words(self, seed: int) -> str:
        return f"half-cheetah replay of our own agent (not D4RL's), {self.population} transitions"

    def private(self, seed: int) -> Columns:
        return self._kept("private", lambda: half_cheetah.collect(self.population, seed=0))

    def public(self, seed: int) -> Columns:
        return self._kept("public", lambda: half_cheetah.other_rows(self.public_rows, seed=1_000))

    def _kept(self, kind: str, make: Any) -> Columns:
        name = f"{self.name}/{kind}/{self.population}"
        return kept(name, self.rows, lambda: (rows_of(make()), {}))[0]

    def returns(self, policies: Policies, seed: int) -> Values:
        return {"return": half_cheetah.evaluate(policies, seed=seed, **self.judge)}

    def errors(self, table: Columns) -> dict[str, float]:
        some = {name: column[:10_000] for name, column in table.items()}
        found = one_step_errors(some, half_cheetah.step)
        return {"next_state": found.next_state, "reward_error": found.reward}


@dataclass(frozen=True)
class Kitchen:
    """FrankaKitchen: demonstrations by a scripted controller, one set for all seeds (not D4RL's)."""

    population: int = 20_000
    public_rows: int = 20_000
    name = "kitchen"
    provenance = "simulated: other people in the same kitchen, who do other tasks in another order"
    settings = MappingProxyType({"sampling_rate": 0.04})
    judge = MappingProxyType({"tasks": kitchen.PARTIAL, "episodes": 10})

    @property
    def delta(self) -> float:
        return 0.1 / self.population

    @property
    def spec(self) -> PublicSpec:
        return kitchen.spec()

    @property
    def rows(self) -> Json:
        return {
            **describe(self),
            "spec": describe(self.spec),
            "provenance": self.provenance,
            "own": describe(kitchen_controller.OWN),
            "other": describe(kitchen_controller.OTHER),
            "controller": describe(kitchen_controller.PATHS),
        }

    def words(self, seed: int) -> str:
        return f"kitchen demonstrations by a scripted controller (not D4RL's), {self.population} transitions"

    def private(self, seed: int) -> Columns:
        return self._kept("private", self.population, kitchen_controller.OWN, 0)

    def public(self, seed: int) -> Columns:
        return self._kept("public", self.public_rows, kitchen_controller.OTHER, 1_000)

    def _kept(self, kind: str, rows: int, menu: kitchen_controller.Menu, seed: int) -> Columns:
        settings = {
            "menu": describe(menu),
            "controller": describe(kitchen_controller.PATHS),
            "style": describe(kitchen_controller.Style()),
        }
        make = functools.partial(kitchen_controller.collect, rows, menu=menu, seed=seed)
        return kept(f"kitchen/{kind}/{rows}", settings, lambda: (rows_of(make()), {}))[0]

    def returns(self, policies: Policies, seed: int) -> Values:
        return {"return": kitchen.evaluate(policies, seed=seed, **self.judge)}

    def errors(self, table: Columns) -> dict[str, float]:
        return {}


@dataclass(frozen=True)
class Own:
    """A user's own rows of a known task: D4RL's HDF5 files or a Minari data set that is public."""

    task: Domain  # gives bounds and evaluation
    data: str  # file of the rows that play the private ones
    others: str | None  # file of public rows; None takes the task's simulated ones
    population: int  # public number of transitions

    @property
    def name(self) -> str:
        return f"own_{self.task.name}"

    @property
    def delta(self) -> float:
        return 0.1 / self.population

    @property
    def spec(self) -> PublicSpec:
        return self.task.spec

    @property
    def provenance(self) -> str:
        return self.task.provenance if self.others is None else f"the user's file {Path(self.others).name}"

    @property
    def rows(self) -> Json:
        files = {"data": Path(self.data).name, "others": None if self.others is None else Path(self.others).name}
        return {"type": type(self).__name__, "population": self.population, **files, "task": self.task.rows}

    @property
    def judge(self) -> Json:
        return self.task.judge

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.task.settings

    def words(self, seed: int) -> str:
        return f"{self.data}, as {self.task.name}"

    def private(self, seed: int) -> Columns:
        return read(self.data, self.spec)

    def public(self, seed: int) -> Columns:
        """Public rows to pre-train on; those of a file are refused where they are among the private ones."""
        if self.others is None:
            return self.task.public(seed)
        rows = read(self.others, self.spec)
        if overlap.find_overlap(rows, self.private(seed), self.spec).suspicious:
            raise DataError(
                "public rows are also among those of --data",
                where=self.others,
                expected="no more equal rows than chance gives",
                remedy="pre-train on other people's rows, or on none",
            )
        return rows

    def returns(self, policies: Policies, seed: int) -> Values:
        return self.task.returns(policies, seed)

    def errors(self, table: Columns) -> dict[str, float]:
        return self.task.errors(table)


@functools.lru_cache(maxsize=4)
def read(source: str, spec: PublicSpec) -> Columns:
    """Rows of a D4RL file (.hdf5, .h5) or else of a local Minari data set, by its id."""
    if Path(source).suffix in (".hdf5", ".h5"):
        return rows_of(d4rl.read_columns(Path(source)))
    data = Trajectories.from_minari(source, unit=":transition", spec=spec, simulated=True)
    return rows_of(data.columns)


Domain = Maze | HalfCheetah | Kitchen | Own
DOMAINS: Mapping[str, Domain] = {
    **{name: Maze(name) for name in ("umaze", "medium", "large")},
    "half_cheetah": HalfCheetah(),
    "kitchen": Kitchen(),
}
