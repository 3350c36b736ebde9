"""Mazes of the experiments on synthesis.

Private are a million transitions of the waypoint controller in D4RL's umaze, medium or large (simulated, so that
everything may be shown), public those of random mazes of the same outer size. A seed is a data set of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from experiments.synthesis_cache import Columns, kept, rows_of
from tacit.data.spec import PublicSpec
from tacit.envs import maze
from tacit.envs.evaluation import Policies
from tacit.envs.maze_layouts import LAYOUTS, Layout
from tacit.envs.maze_public import other_rows
from tacit.measure.dynamics import dynamics
from tacit.measure.utility import evaluate


@dataclass(frozen=True)
class Maze:
    """One of D4RL's mazes.

    Args:
        name: of the layout.
        population: N.
        public_rows: of other mazes of the same outer size.
    """

    name: str
    population: int = 1_000_000
    public_rows: int = 400_000
    provenance = "simulated: random mazes of the same outer size, with walls and goals of their own"
    sources = ("src/tacit/envs/maze*.py", "experiments/synthesis_mazes.py")
    judges = ("src/tacit/envs/maze.py", "src/tacit/measure/utility.py", "src/tacit/measure/dynamics.py")

    @property
    def settings(self) -> Mapping[str, Any]:
        """In which its plan differs from the default one: more octaves for a maze of more walls."""
        return MappingProxyType({"harmonics": 4} if self.name == "large" else {})

    @property
    def layout(self) -> Layout:
        """Its walls and its goal."""
        return LAYOUTS[self.name]

    @property
    def delta(self) -> float:
        """A tenth of one over the population."""
        return 0.1 / self.population

    @property
    def spec(self) -> PublicSpec:
        """From its outer walls and the physics."""
        return maze.spec(self.layout)

    def words(self, seed: int) -> str:
        """What the private rows are."""
        return f"simulated {self.name}, {self.population} transitions, seed {seed}"

    def private(self, seed: int) -> Columns:
        """The private rows."""
        return rows_of(maze.collect(self.layout, self.population, seed=seed))

    def public(self, seed: int) -> Columns:
        """Public rows to pre-train on, collected once."""
        name = f"{self.name}/public/{self.public_rows}/{seed}"

        def make() -> tuple[Columns, dict[str, Any]]:
            return rows_of(other_rows(self.layout, self.public_rows, seed=1_000 + seed)), {}

        return kept(name, self.sources, make)[0]

    def returns(self, policies: Policies, seed: int) -> dict[str, np.ndarray]:
        """From every cell (D4RL's evaluation), and from those far from the goal."""
        return {
            "return": evaluate(self.layout, policies, starts="all", seed=seed),
            "return_far": evaluate(self.layout, policies, starts="far", seed=seed),
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
