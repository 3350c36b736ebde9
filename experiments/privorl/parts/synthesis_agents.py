"""The agents that learn from synthetic transitions, with their settings, and policies that need no learning.

Settings of `iql`, `td3_bc` and `edac` in mazes were chosen on public ones by the returns of what learned from synthetic
rows, and are too short: real rows teach them less than they could. Those of `LONG` were chosen on real rows of public
mazes (`tune_agents`, whose words hold the reasons). The half-cheetah's are the agents' defaults with the
weight of TD3+BC's paper.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit_worlds.agents.edac import EdacConfig
from tacit_worlds.agents.iql import IqlConfig
from tacit_worlds.agents.offline import RandomFourier
from tacit_worlds.agents.td3_bc import Td3BcConfig
from tacit_worlds.maze_evaluation import StraightController
from tacit_worlds.maze_layouts import MazeLayout

_WALLS, _NARROW_WALLS = (RandomFourier(64, bandwidth=(width, width, 0.3, 0.3)) for width in (1.0, 2.0))
MAZE: Mapping[str, Any] = {
    "iql": IqlConfig(
        steps=12_000,
        batch=128,
        width=64,
        inverse_temperature=10.0,
        target_rate=0.02,
        layer_norm=False,
        fall=0.3,
        features=_WALLS,
    ),
    "td3_bc": Td3BcConfig(steps=16_000, target_rate=0.02, features=_WALLS),
    "edac": EdacConfig(steps=8_000, features=_WALLS),
    "iql_long": IqlConfig(
        steps=24_000,
        batch=128,
        width=64,
        expectile=0.9,
        inverse_temperature=10.0,
        weight_cap=1e5,
        target_rate=0.05,
        layer_norm=False,
        fall=0.3,
        features=_NARROW_WALLS,
    ),
    "td3_bc_long": Td3BcConfig(steps=16_000, alpha=40.0, target_rate=0.05, features=_NARROW_WALLS),
    "edac_long": EdacConfig(steps=16_000, target_rate=0.05, features=_NARROW_WALLS),
}
AGENTS, LONG = ("iql", "td3_bc", "edac"), ("iql_long", "td3_bc_long", "edac_long")
LOCOMOTION: Mapping[str, Any] = {
    "iql": IqlConfig(batch=128, width=64, layer_norm=False, fall=0.3),
    "td3_bc": Td3BcConfig(alpha=1.0, steps=20_000, batch=256, width=128, target_rate=0.005, learning_rate=3e-4),
    "td3_bc_long": Td3BcConfig(alpha=2.5, steps=60_000, batch=256, width=128, target_rate=0.005, learning_rate=3e-4),
    "edac": EdacConfig(),
}

KITCHEN: Mapping[str, Any] = {
    "td3_bc_kitchen": Td3BcConfig(alpha=0.5, steps=20_000, batch=128, width=128, target_rate=0.005),
    "imitation_kitchen": Td3BcConfig(alpha=0.01, steps=20_000, batch=128, width=128, target_rate=0.005),
    "imitation_short_kitchen": Td3BcConfig(alpha=0.01, batch=128, width=128, target_rate=0.005),
    "imitation_long_kitchen": Td3BcConfig(
        alpha=0.01, steps=20_000, batch=128, width=128, target_rate=0.005, policy_every=1
    ),
    "iql_kitchen": IqlConfig(steps=20_000, batch=128, width=128, layer_norm=False, fall=0.3),
}
"""For demonstrations, tried on public ones by `tune_kitchen`; the value's weight of 0.01 is imitation."""


@dataclass(frozen=True)
class Push:
    """Always the same action: K = 8 of them, the eight directions."""

    members = 8

    def act(self, observations: npt.ArrayLike) -> npt.NDArray[np.float32]:
        directions = np.array([(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if x or y], np.float32)
        return np.broadcast_to(directions[:, None], (8, np.asarray(observations).shape[-2], 2))


@dataclass(frozen=True, eq=False)
class Untaught:
    """A policy that learns nothing: uniform actions."""

    actions: int  # numbers of one
    size: float  # the largest; 0 stands still
    rng: np.random.Generator  # of the actions
    members = 1

    def act(self, observations: npt.ArrayLike) -> npt.NDArray[np.float32]:
        shape = (*np.shape(observations)[:-1], self.actions)
        return self.rng.uniform(-self.size, self.size, shape).astype(np.float32)


TRIVIAL: Mapping[str, Callable[[MazeLayout], Push | StraightController]] = {
    "push": lambda layout: Push(),
    "straight": lambda layout: StraightController(layout.goal),
}
