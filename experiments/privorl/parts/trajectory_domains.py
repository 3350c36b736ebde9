"""The tasks of the experiments on whole trajectories: people with episodes, public others, and how agents are judged.

In a maze a person is one episode of the waypoint controller on its way to random cells; public are episodes in random
mazes of the same outer size. In the clinic a person is a patient's whole history, one to four courses of treatment;
public are other patients of other doctors. All are simulated, so that everything may be shown.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.lib.experiment import Json, describe
from experiments.lib.table_cache import Columns, defaults, kept
from experiments.privorl.parts import synthesis_returns as returns
from experiments.privorl.parts.synthesis_mazes import Maze
from experiments.privorl.parts.synthesis_ways import Scale
from tacit.agents.discrete_offline import train
from tacit.agents.features import Scaled
from tacit.agents.learners import CQL
from tacit.agents.networks import Mlp
from tacit.data.spec import PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.evaluation.report.tables import simulator_errors
from tacit.evaluation.sequences import Sequences
from tacit.methods.synthesis import TableMatching
from tacit.units import Unit
from tacit_worlds import clinic, maze
from tacit_worlds.agents.q_learning import epsilon_greedy
from tacit_worlds.maze import LONGEST
from tacit_worlds.maze_evaluation import world
from tacit_worlds.maze_public import other_mazes

DELTA = 1e-6


def unit(here: People) -> Unit:
    return Unit("person", "add_or_remove", here.population)


@dataclass(frozen=True)
class MazePeople:
    """One episode a person."""

    layout: str  # of the maze
    population: int = 10_000  # of people
    mazes: int = 128  # random public ones of the same outer size
    public_episodes: int = 64  # in each of them
    samples: int = 1_500  # synthetic trajectories
    longest = LONGEST  # public number of steps of an episode
    episodes = 1  # of a person, as a rule
    agents = ("iql", "td3_bc")
    provenance = Maze.provenance

    @property
    def name(self) -> str:
        """The layout, and the number of people where it is not the usual one."""
        return self.layout if self.population == 10_000 else f"{self.layout}_{self.population}"

    @property
    def _maze(self) -> Maze:
        return Maze(self.layout)

    @property
    def spec(self) -> PublicSpec:
        return self._maze.spec

    @property
    def others(self) -> Json:
        walks = {"shortest": maze.SHORTEST, "longest": LONGEST, "collect": defaults(maze.collect)}
        own = {"mazes": self.mazes, "episodes": self.public_episodes, "provenance": self.provenance}
        return {"layout": describe(self._maze.layout), "walks": walks, "public": own}

    @property
    def rows(self) -> Json:
        return {"type": type(self).__name__, "population": self.population, "episodes": self.episodes, **self.others}

    def judge(self, agent: str, scale: Scale) -> dict[str, Json]:
        return {"agent": describe(returns.config(self.layout, agent, scale)), "judge": describe(self._maze.judge)}

    def people(self, seed: int) -> Trajectories:
        return maze.goal_episodes(self._maze.layout, self.population, seed=seed)

    def worlds(self, seed: int) -> list[Trajectories]:
        """Public trajectories to begin with, world by world."""

        def make() -> tuple[Columns, dict[str, Any]]:
            layouts = other_mazes(self._maze.layout, self.mazes, seed=1_000 + seed)
            each = [
                maze.goal_episodes(layout, self.public_episodes, seed=1_000 + seed + index)
                for index, layout in enumerate(layouts)
            ]
            parts = [{name: np.asarray(one.columns[name]) for name in _NAMES} for one in each]
            found = {name: np.concatenate([part[name] for part in parts]) for name in _NAMES}
            return {**found, _WORLDS: np.cumsum([0, *(len(part["rewards"]) for part in parts)])}, {}

        own = f"{self.layout}/public worlds/{self.mazes}/{self.public_episodes}/{seed}"
        columns, _ = kept(own, self.others, make)
        return _split(columns, self.spec)

    def public(self, seed: int) -> Trajectories:
        return _together(self.worlds(seed), self.spec)

    def matching(self, seed: int | None) -> TableMatching:
        """The tables of histograms, cut by the public rows of a seed, or by the bounds alone."""
        return _plane(self, seed)

    def judged(self, agent: str, tables: Sequence[Columns], seed: int, scale: Scale) -> list[float]:
        """From all starts; the agents of all tables learn in one stack."""
        policies = returns.train(self.layout, agent, tables, seed, scale)
        return [float(self._maze.returns(policy, seed)["return"][0]) for policy in policies]

    def errors(self, table: Columns) -> dict[str, float]:
        """Of single rows against the simulator."""
        return self._maze.errors(table)

    def errors_along(self, sequences: Sequences) -> dict[str, float]:
        """Of the steps inside fragments and at their seams, and how far the simulator has gone elsewhere in the end."""
        found = simulator_errors(world(self._maze.layout), sequences)
        if found is None:
            return {}
        drift = found.drift[np.isfinite(found.drift)]
        return {
            "inside": found.inner_error,
            "at_seams": found.stitch_error,
            "gap": found.stitch_gap,
            "drift": float(drift[min(99, len(drift) - 1)]) if len(drift) else float("nan"),
        }


@dataclass(frozen=True)
class Patients:
    """A patient's courses of treatment."""

    population: int = 10_000  # of patients
    staffs: int = 32  # of other doctors
    public_patients: int = 100  # of each of them
    samples: int = 10_000  # synthetic courses
    name = "clinic"
    longest = clinic.HORIZON
    episodes = 2
    agents = ("cql",)
    provenance = "simulated: other patients, under other doctors"

    @property
    def spec(self) -> PublicSpec:
        return dataclasses.replace(clinic.spec(), propensities=False)

    @property
    def others(self) -> Json:
        courses = {"horizon": clinic.HORIZON, "lost": clinic.LOST, "doctors": clinic.DOCTORS}
        own = {"staffs": self.staffs, "patients": self.public_patients, "provenance": self.provenance}
        return {"courses": courses, "public": own}

    @property
    def rows(self) -> Json:
        return {"type": type(self).__name__, "population": self.population, "episodes": self.episodes, **self.others}

    def judge(self, agent: str, scale: Scale) -> dict[str, Json]:
        assert agent == "cql"
        learned = {"learner": describe(_CQL), "network": describe(_NETWORK), "features": describe(_FEATURES)}
        steps, episodes = _lengths(scale)
        return {"agent": {**learned, **defaults(train), "steps": steps}, "judge": {"episodes": episodes}}

    def people(self, seed: int) -> Trajectories:
        columns = clinic.collect(self.population, seed=seed)
        columns.pop("propensities")
        given: dict[str, Any] = columns
        return Trajectories.from_arrays(**given, spec=self.spec, simulated=True)

    def worlds(self, seed: int) -> list[Trajectories]:
        first = 1_000 * (1 + seed)
        found = []
        for other in range(first, first + self.staffs):
            columns = clinic.collect(self.public_patients, seed=other, staff=clinic.doctors(seed=other))
            found.append(_belonging_to_nobody(columns, self.spec))
        return found

    def public(self, seed: int) -> Trajectories:
        return _together(self.worlds(seed), self.spec)

    def matching(self, seed: int | None) -> TableMatching:
        return general_matching(self, seed)

    def judged(self, agent: str, tables: Sequence[Columns], seed: int, scale: Scale) -> list[float]:
        steps, episodes = _lengths(scale)

        def policy(table: Columns) -> Any:
            theta = train(_CQL, _NETWORK, _FEATURES, table, steps=steps, seed=seed)
            return epsilon_greedy(lambda seen: _NETWORK.forward(theta[None], _FEATURES(seen)[None])[0][0], 0.0)

        found = clinic.evaluate([policy(table) for table in tables], episodes=episodes, seed=seed)
        return [float(one) for one in found]

    def errors(self, table: Columns) -> dict[str, float]:
        """The true state of a patient is not in the rows."""
        return {}

    def errors_along(self, sequences: Sequences) -> dict[str, float]:
        return {}


_NAMES = (*("observations", "actions", "rewards", "next_observations", "terminations"), "truncations")
_WORLDS = "worlds"
_FEATURES, _NETWORK = Scaled(clinic.LOW, clinic.HIGH), Mlp((6, 64, 64, clinic.ACTIONS))
_CQL = CQL(alpha=0.1, gamma=0.99, reward_scale=0.2)


def _lengths(scale: Scale) -> tuple[int, int]:
    """Steps of discrete CQL, and episodes in which it is judged."""
    return (100, 100) if scale.quick else (3_000, 4_000)


@functools.cache
def _plane(here: MazePeople, seed: int | None) -> TableMatching:
    public = None if seed is None else here.public(seed).columns
    return TableMatching.plane(here.spec, population=here.population, public=public, provenance=here.provenance)


def general_matching(here: People, seed: int | None) -> TableMatching:
    public = None if seed is None else here.public(seed).columns
    return TableMatching.of(here.spec, population=here.population, public=public, provenance=here.provenance)


def _split(columns: Columns, spec: PublicSpec) -> list[Trajectories]:
    """Worlds, whose rows begin at the numbers `columns[_WORLDS]`."""
    bounds = itertools.pairwise(columns[_WORLDS])
    return [_belonging_to_nobody({name: columns[name][a:b] for name in _NAMES}, spec) for a, b in bounds]


def _together(worlds: Sequence[Trajectories], spec: PublicSpec) -> Trajectories:
    return _belonging_to_nobody(
        {name: np.concatenate([np.asarray(one.columns[name]) for one in worlds]) for name in _NAMES}, spec
    )


def _belonging_to_nobody(columns: Mapping[str, np.ndarray[Any, Any]], spec: PublicSpec) -> Trajectories:
    given: dict[str, Any] = {name: columns[name] for name in _NAMES}
    return Trajectories.from_arrays(**given, unit_ids=":episode", spec=spec, simulated=True)


People = MazePeople | Patients
DOMAINS: dict[str, People] = {
    here.name: here
    for here in (MazePeople("umaze"), MazePeople("medium"), Patients(), MazePeople("umaze", population=2_000))
}
