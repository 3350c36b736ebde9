"""One person's day as a Gymnasium environment, by the rules of `movement`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from tacit.data.mobility.days import LAST, SLOTS, STAY
from tacit.data.mobility.grids import Grid
from tacit.envs.movement import Invalid, Space, StartSampler, Walk
from tacit.errors import DataError


class MovementEnv(gymnasium.Env[npt.NDArray[np.int64], np.int64]):
    """One person's day.

    The observation is (slot, different cells so far, slots in the present cell, cell), the reward 0; the day is
    truncated at its last slot. `info["possible"]` [actions] int8 says which actions are possible, and an impossible one
    is a stay.

    Args:
        grid: public grid of the cells.
        space: where exploring leads.
        starts: where days begin; `reset(options={"start": cell})` says it for one day.
        actions: 5, or 4 without `LAST`.
        invalid: what an impossible action is (`movement`); it also decides what a return and an explore are.

    Raises:
        DataError: the number of actions is neither 4 nor 5, or a start is outside the grid.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self, grid: Grid, space: Space, starts: StartSampler, *, actions: int = 5, invalid: Invalid = "mask"
    ) -> None:
        if actions not in (4, 5):
            what, expected = "the number of actions is neither 4 nor 5", "4 (the papers') or 5 (with last)"
            raise DataError(what, where="MovementEnv", expected=expected, remedy="leave it at 5")
        self.observation_space = gymnasium.spaces.MultiDiscrete([SLOTS, SLOTS + 1, SLOTS + 1, grid.size])
        self.action_space = gymnasium.spaces.Discrete(actions)
        self._grid, self._space, self._starts, self._masked = grid, space, starts, invalid == "mask"
        self._walk = Walk(np.zeros(1, dtype=np.int64), masked=self._masked)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.int64], dict[str, Any]]:
        """The first slot of a day."""
        super().reset(seed=seed)
        cell = (options or {}).get("start")
        start = self._starts.draw(1, self.np_random) if cell is None else np.array([cell])
        if not 0 <= int(start[0]) < self._grid.size:
            what, expected = "the start is outside the grid", "a cell of the grid"
            raise DataError(what, where="MovementEnv.reset", expected=expected, remedy="take starts on the same grid")
        self._walk = Walk(start.astype(np.int64), masked=self._masked)
        return self._observe()

    def step(self, action: np.int64) -> tuple[npt.NDArray[np.int64], float, bool, bool, dict[str, Any]]:
        """One half-hour."""
        number = int(self.action_space.n)  # type: ignore[attr-defined]
        chosen = np.array([action], dtype=np.int64)
        taken = chosen if self._walk.possible_actions(number)[0, int(action)] else np.array([STAY])
        self._walk.step(taken, self._space, self.np_random, five=number > LAST)
        observation, info = self._observe()
        return observation, 0.0, False, self._walk.t == SLOTS - 1, info

    def _observe(self) -> tuple[npt.NDArray[np.int64], dict[str, Any]]:
        walk = self._walk
        observation = np.array([walk.t, walk.distinct[0], walk.stay[0], walk.cells[0, walk.t]], dtype=np.int64)
        number = int(self.action_space.n)  # type: ignore[attr-defined]
        return observation, {"possible": walk.possible_actions(number)[0].astype(np.int8)}
