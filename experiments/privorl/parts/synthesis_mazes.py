"""Mazes of the experiments on synthesis.

Private are a million transitions of the waypoint controller in D4RL's umaze, medium or large (simulated, so that
everything may be shown), public those of random mazes of the same outer size. A seed is a data set of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from experiments.lib.experiment import Json, describe
from experiments.lib.table_cache import Columns, defaults, kept, rows_of
from tacit.data.spec import PublicSpec
from tacit.envs.rollouts import Policies
from tacit.evaluation.dynamics import dynamics
from tacit_worlds import maze
from tacit_worlds.maze_evaluation import Starts, evaluate
from tacit_worlds.maze_layouts import LAYOUTS, MazeLayout
from tacit_worlds.maze_public import other_mazes, other_rows

STARTS: Mapping[str, Starts] = {"return": "all", "return_far": "far"}
"""Returns are from every cell (D4RL's evaluation), and from those far from the goal."""
EPISODES = 300  # of each of them


@dataclass(frozen=True)
class Maze:
    """One of D4RL's mazes."""

    name: str  # of the layout
    population: int = 1_000_000  # N
    public_rows: int = 400_000  # of other mazes of the same outer size
    provenance = "simulated: random mazes of the same outer size, with walls and goals of their own"

    @property
    def settings(self) -> Mapping[str, Any]:
        """In which its plan differs from the default one: more octaves for a maze of more walls."""
        return MappingProxyType({"harmonics": 4} if self.name == "large" else {})

    @property
    def layout(self) -> MazeLayout:
        return LAYOUTS[self.name]

    @property
    def delta(self) -> float:
        return 0.1 / self.population

    @property
    def spec(self) -> PublicSpec:
        return maze.spec(self.layout)

    @property
    def rows(self) -> Json:
        return {
            **describe(self),
            "layout": describe(self.layout),
            "spec": describe(self.spec),
            "provenance": self.provenance,
            "collect": defaults(maze.collect),
            "other_rows": defaults(other_rows),
        }

    @property
    def judge(self) -> Json:
        return {"starts": describe(STARTS), "episodes": EPISODES}

    def words(self, seed: int) -> str:
        """What the private rows are."""
        return f"simulated {self.name}, {self.population} transitions, seed {seed}"

    def private(self, seed: int) -> Columns:
        return rows_of(maze.collect(self.layout, self.population, seed=seed))

    def public(self, seed: int) -> Columns:
        name = f"{self.name}/public/{self.public_rows}/{seed}"

        def make() -> tuple[Columns, dict[str, Any]]:
            return rows_of(other_rows(self.layout, self.public_rows, seed=1_000 + seed)), {}

        return kept(name, self.rows, make)[0]

    def returns(self, policies: Policies, seed: int) -> dict[str, np.ndarray]:
        """Normalised returns [K] by name; `return` is the task's own."""
        return {
            name: evaluate(self.layout, policies, starts=starts, seed=seed, episodes=EPISODES)
            for name, starts in STARTS.items()
        }

    def errors(self, table: Columns) -> dict[str, float]:
        """Of a table's transitions against the simulator."""
        found = dynamics(
            table,
            step=lambda state, action: maze.step(state, action, self.layout),
            reward=lambda state, action, following: maze.reward(self.layout, state[:, :2]),
            in_wall=lambda position: maze.in_wall(self.layout, position),
        )
        return {
            "in_wall": found.in_wall,
            "next_position": found.next_position,
            "next_velocity": found.next_velocity,
            "reward_error": found.reward,
        }


@dataclass(frozen=True)
class Pooled(Maze):
    """A maze with public rows of sixteen others: many of two, on which a structure is chosen, and some of fourteen."""

    public_rows: int = 1_900_000
    # large, small: public mazes with many rows, and with some
    large: int = 2
    # large_rows, small_rows: of each of these
    large_rows: int = 600_000
    small: int = 14
    small_rows: int = 50_000

    def worlds(self, seed: int) -> list[Columns]:
        found = other_mazes(self.layout, self.large + self.small, seed=1_000 + seed)
        sizes = [self.large_rows] * self.large + [self.small_rows] * self.small
        pairs = zip(found, sizes, strict=True)
        return [rows_of(maze.collect(one, size, seed=2_000 + 100 * seed + i)) for i, (one, size) in enumerate(pairs)]

    def public(self, seed: int) -> Columns:
        def make() -> tuple[Columns, dict[str, Any]]:
            worlds = self.worlds(seed)
            return {name: np.concatenate([world[name] for world in worlds]) for name in worlds[0]}, {}

        return kept(f"{self.name}/pooled/{seed}", self.rows, make)[0]
