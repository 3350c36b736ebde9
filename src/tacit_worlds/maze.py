"""Maze2D without MuJoCo: the closed form of the force-driven ball, vectorised over agents.

The dynamics are those of D4RL's Maze2D (arXiv 2004.07219): a ball of radius 0.1 and density 1000, a motor of gear 100
and a damping of 1 on each axis, one Euler step of 0.01 s. Its walls have no friction; here a ball that meets one stops
on that axis (MuJoCo's soft contact lets it sink in by up to 0.004 and throws it back a little), and corners are square.

Rewards: a *dataset* row holds exp(-|position - goal|) of its own observation, as D4RL's files do; `MazeEnv.step` and
`rollout` pay exp(-|position - goal|) of the next observation, as Gymnasium's and D4RL's environments do. Nothing ever
terminates; a truncation marks the end of the way to a goal (in data) or of the horizon (in `MazeEnv`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from tacit.data.spec import Box, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import DataError
from tacit_worlds.maze_layouts import (
    CELL_ORIGIN,
    LAYOUTS,
    RADIUS,
    MazeLayout,
    blocked_zones,
    distances,
    free_cells,
    walls,
    zone,
    zone_edge,
)

__all__ = ["JITTER", "LAYOUTS", "LONGEST", "REACHED", "SHORTEST", "FloatArray", "MazeEnv", "MazeLayout", "MazeVector"]
__all__ += ["WaypointController", "collect", "controller_policy", "goal_episodes", "in_wall", "normalized_returns"]
__all__ += ["random_start", "reward", "rollout", "spec", "step"]


# The waypoint controller that makes Maze2D data: shortest ways on the grid, followed by a PD law (D4RL).


FloatArray = npt.NDArray[np.float64]

P_GAIN, D_GAIN = 10.0, -1.0
"""Gains of D4RL's `WaypointController`."""
REACHED = 0.1
"""Distance at which a waypoint, or the goal, counts as reached."""
JITTER = 0.2
"""A waypoint before the last one is its cell's point minus U(0, 0.2) on each axis."""


@lru_cache
def _next_cells(layout: MazeLayout) -> npt.NDArray[np.int64]:
    """[F, F] the free cell after i on a shortest way to j (j itself at the end)."""
    # The greedy policy of q-iteration with a reward at the goal only follows shortest ways, so counting steps gives the
    # same cells as D4RL's q-iteration does.
    cells, steps = free_cells(layout), distances(layout)
    adjacent = np.abs(cells[:, None] - cells[None, :]).sum(axis=2) == 1
    closer = adjacent[:, :, None] & (steps[None, :, :] == steps[:, None, :] - 1)
    next_cells: npt.NDArray[np.int64] = closer.argmax(axis=1)
    np.fill_diagonal(next_cells, np.arange(len(cells)))
    return next_cells


class WaypointController:
    """Drives N balls, each to its own goal cell, by jittered waypoints and a PD law."""

    def __init__(self, layout: MazeLayout, agents: int, generator: np.random.Generator) -> None:
        self._cells = free_cells(layout).astype(np.float64)
        self._next_cell = _next_cells(layout)
        self._index = np.full(walls(layout).shape, -1, dtype=np.int64)
        self._index[tuple(free_cells(layout).T)] = np.arange(len(self._cells))
        self._generator = generator
        self._target = np.zeros(agents, dtype=np.int64)
        self._cell = np.zeros(agents, dtype=np.int64)
        self._waypoint = np.zeros((agents, 2))

    def cell_index(self, positions: FloatArray) -> npt.NDArray[np.int64]:
        """Free-cell index [N] of positions [N, 2] (-1 inside a wall)."""
        row, column = np.floor(positions + CELL_ORIGIN).astype(np.int64).T
        index: npt.NDArray[np.int64] = self._index[row, column]
        return index

    def aim(self, positions: FloatArray, agents: npt.NDArray[np.int64], targets: npt.NDArray[np.int64]) -> None:
        """Gives the `agents` [M], now at `positions` [M, 2], new goal cells `targets` [M] (free-cell indices)."""
        self._target[agents] = targets
        self._advance(agents, self.cell_index(positions))

    def aim_at_random(self, positions: FloatArray, agents: npt.NDArray[np.int64]) -> None:
        """Gives the `agents` [M] new goal cells, uniform over the free cells other than their own."""
        cells = self.cell_index(positions)
        step = self._generator.integers(1, len(self._cells), size=len(agents))
        self.aim(positions, agents, (cells + step) % len(self._cells))

    def _advance(self, agents: npt.NDArray[np.int64], cells: npt.NDArray[np.int64]) -> None:
        target = self._target[agents]
        next_cells = self._next_cell[cells, target]
        jitter = self._generator.random((len(agents), 2)) * JITTER
        jitter[next_cells == target] = 0.0
        self._cell[agents] = next_cells
        self._waypoint[agents] = self._cells[next_cells] - jitter

    def act(self, state: FloatArray) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        """Actions [N, 2] in [-1, 1] for states [N, 4], and the indices of the agents that stand at their goal."""
        offset = self._waypoint - state[:, :2]
        action = np.clip(P_GAIN * offset + D_GAIN * state[:, 2:], -1.0, 1.0)
        reached = np.flatnonzero(np.einsum("nd,nd->n", offset, offset) < REACHED**2)
        final = self._cell[reached] == self._target[reached]
        passing = reached[~final]
        self._advance(passing, self._cell[passing])
        return action, reached[final]


Act = Callable[[FloatArray], npt.NDArray[Any]]

TIME_STEP = 0.01
MASS = 4.0 / 3.0 * np.pi * RADIUS**3 * 1000.0
DAMPING = 1.0
GEAR = 100.0
SPEED_CLIP = 5.0
SPEED_BOUND = (MASS * SPEED_CLIP + TIME_STEP * GEAR) / (MASS + TIME_STEP * DAMPING)
"""No velocity after a step exceeds this (5.22626)."""
ACTION_NOISE = 0.5
"""Standard deviation of the noise on the controller's actions in the data (D4RL's `--noisy`)."""


def step(state: npt.ArrayLike, action: npt.ArrayLike, layout: MazeLayout) -> FloatArray:
    """The true dynamics: the state [N, 4] (x, y, x velocity, y velocity) after one step of 0.01 s from `state` [N, 4]
    with `action` [N, 2], clipped to [-1, 1]. A ball that starts inside a wall moves as if the wall were not there."""
    current = np.asarray(state, dtype=np.float64)
    force = np.clip(np.asarray(action, dtype=np.float64), -1.0, 1.0)
    next_state = np.empty_like(current)
    velocity = next_state[:, 2:]
    np.clip(current[:, 2:], -SPEED_CLIP, SPEED_CLIP, out=velocity)
    velocity *= MASS / (MASS + TIME_STEP * DAMPING)
    velocity += force * (TIME_STEP * GEAR / (MASS + TIME_STEP * DAMPING))
    next_state[:, :2] = current[:, :2] + TIME_STEP * velocity

    blocked = blocked_zones(layout)
    rows, columns = blocked.shape
    flat = blocked.ravel()
    old = zone(current[:, :2])
    new = zone(next_state[:, :2])
    np.clip(old, 0, (rows - 1, columns - 1), out=old)
    np.clip(new, 0, (rows - 1, columns - 1), out=new)
    inside = flat[old[:, 0] * columns + old[:, 1]]
    hit = np.flatnonzero((flat[new[:, 0] * columns + old[:, 1]] | flat[new[:, 0] * columns + new[:, 1]]) & ~inside)
    for axis in (0, 1):
        at = old[hit]
        at[:, axis] = new[hit, axis]
        stop = flat[at[:, 0] * columns + at[:, 1]]
        stopped = hit[stop]
        away = new[stopped, axis] > old[stopped, axis]
        next_state[stopped, axis] = zone_edge(np.where(away, new[stopped, axis], old[stopped, axis]))
        velocity[stopped, axis] = 0.0
        moved = hit[~stop]
        old[moved, axis] = new[moved, axis]
    return next_state


def in_wall(layout: MazeLayout, position: npt.ArrayLike, *, tolerance: float = 0.005) -> npt.NDArray[np.bool_]:
    """[N], True where a ball at `position` [N, 2] overlaps a wall, or is outside, by more than `tolerance` on an axis.
    The default forgives MuJoCo's soft contact (0.004)."""
    xy = np.asarray(position, dtype=np.float64)
    blocked = blocked_zones(layout)
    inside = np.ones(len(xy), dtype=bool)
    for dx in (-tolerance, tolerance):
        for dy in (-tolerance, tolerance):
            index = zone(xy + np.array([dx, dy]))
            row, column = np.clip(index, 0, np.array(blocked.shape) - 1).T  # the border is wall
            inside &= blocked[row, column]
    return inside


def reward(layout: MazeLayout, position: npt.ArrayLike) -> FloatArray:
    """exp(-|position - goal|), in (0, 1], for positions [..., 2]."""
    offset = np.asarray(position, dtype=np.float64) - layout.goal_position
    return np.asarray(np.exp(-np.sqrt(np.square(offset).sum(axis=-1))))


def spec(layout: MazeLayout) -> PublicSpec:
    """What physics and the map tell about the rows without the data: positions between the outer walls, speeds under
    `SPEED_BOUND`, actions in [-1, 1], rewards in [0, 1]. `difference` is the standard deviation of a step if velocities
    and actions were uniform in their bounds."""
    rows, columns = len(layout.cells), len(layout.cells[0])
    lowest = 1.0 - CELL_ORIGIN + RADIUS
    highest = [size - 1.0 - CELL_ORIGIN - RADIUS for size in (rows, columns)]
    speed = TIME_STEP * SPEED_BOUND / np.sqrt(3.0)
    gain = TIME_STEP * GEAR / (MASS + TIME_STEP * DAMPING) / np.sqrt(3.0)
    return PublicSpec(
        observation=Box(
            (lowest, lowest, -SPEED_BOUND, -SPEED_BOUND), (highest[0], highest[1], SPEED_BOUND, SPEED_BOUND)
        ),
        action=Box((-1.0, -1.0), (1.0, 1.0)),
        reward=Box((0.0,), (1.0,)),
        source="physics",
        terminals=False,
        difference=(float(speed), float(speed), float(gain), float(gain)),
    )


def random_start(
    layout: MazeLayout, agents: int, generator: np.random.Generator, *, cells: npt.NDArray[np.int64] | None = None
) -> FloatArray:
    """[N, 4] starts as D4RL draws them: a uniform free cell (or one of `cells` [M, 2]), +-0.1, velocity N(0, 0.1^2)."""
    choice = free_cells(layout) if cells is None else cells
    state = np.empty((agents, 4))
    state[:, :2] = choice[generator.integers(len(choice), size=agents)] + generator.uniform(-0.1, 0.1, (agents, 2))
    state[:, 2:] = 0.1 * generator.standard_normal((agents, 2))
    return state


class MazeVector:
    """N balls in one maze, stepped together from first states [N, 4]."""

    def __init__(self, layout: MazeLayout, state: npt.ArrayLike) -> None:
        self.layout = layout
        self.state = np.array(state, dtype=np.float64)

    def step(self, action: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """States [N, 4] after `action` [N, 2], and the rewards [N] of these next states."""
        self.state = step(self.state, action, self.layout)
        return self.state, reward(self.layout, self.state[:, :2])


def rollout(layout: MazeLayout, act: Act, starts: npt.ArrayLike, *, horizon: int | None = None) -> FloatArray:
    """Returns (undiscounted sums of rewards) of a policy over the layout's horizon.

    Args:
        layout: the maze.
        act: maps observations [K, N, 4] (float32 values) to actions [K, N, 2]; K is the number of policies.
        starts: [K, N, 4] first states, or [N, 4] for one policy.
        horizon: steps; the layout's own by default.

    Returns:
        [K, N] (or [N]).
    """
    first = np.asarray(starts, dtype=np.float64)
    shape = first.shape[:-1]
    maze = MazeVector(layout, first.reshape(-1, 4))
    total = np.zeros(len(maze.state))
    for _ in range(layout.horizon if horizon is None else horizon):
        _, rewards = maze.step(np.asarray(act(maze.state.reshape(first.shape))).reshape(-1, 2))
        total += rewards
    return total.reshape(shape)


def controller_policy(layout: MazeLayout, starts: npt.ArrayLike, *, seed: int) -> Act:
    """The waypoint controller, sent from `starts` [N, 4] to the evaluation goal: the yardstick of a good return."""
    first = np.asarray(starts, dtype=np.float64)
    controller = WaypointController(layout, len(first), np.random.default_rng(seed))
    goal = controller.cell_index(np.broadcast_to(layout.goal_position, (len(first), 2)))
    controller.aim(first[:, :2], np.arange(len(first)), goal)
    return lambda state: controller.act(state)[0]


def normalized_returns(layout: MazeLayout, returns: npt.ArrayLike) -> FloatArray:
    """100 (R - random) / (controller - random), with the layout's reference returns."""
    low, high = layout.reference
    return np.asarray(100.0 * (np.asarray(returns, dtype=np.float64) - low) / (high - low))


def collect(
    layout: MazeLayout, steps: int, *, agents: int = 1024, seed: int, noise: float = ACTION_NOISE
) -> dict[str, npt.NDArray[Any]]:
    """Transitions of the waypoint controller on its ways between random goals.

    Every agent starts as in `random_start` and goes on without a reset: when its goal is reached it gets a new one, and
    the row is marked as truncated (D4RL's `timeouts`). Rows are in the order agent, time.

    Args:
        layout: the maze; its goal only sets the reward.
        steps: rows in all.
        agents: balls that move together.
        seed: of the starts, goals, waypoints and action noise; the same arguments give the same rows.
        noise: standard deviation of the noise on the actions, before they are clipped to [-1, 1].

    Returns:
        observations [T, 4] f32, actions [T, 2] f32, rewards [T] f32 (of the row's own observation), next_observations
        [T, 4] f32, terminations [T] bool (False), truncations [T] bool, episode_ids [T] int64 (one per goal).
    """
    agents = min(agents, steps)
    length = -(-steps // agents)
    generator = np.random.default_rng(seed)
    controller = WaypointController(layout, agents, generator)
    maze = MazeVector(layout, random_start(layout, agents, generator))
    controller.aim_at_random(maze.state[:, :2], np.arange(agents))
    states = np.empty((agents, length + 1, 4), dtype=np.float32)
    actions = np.empty((agents, length, 2), dtype=np.float32)
    truncations = np.zeros((agents, length), dtype=bool)
    states[:, 0] = maze.state
    for t in range(length):
        action, arrived = controller.act(maze.state)
        actions[:, t] = action = np.clip(action + noise * generator.standard_normal((agents, 2)), -1.0, 1.0)
        truncations[arrived, t] = True
        maze.step(action)
        states[:, t + 1] = maze.state
        controller.aim_at_random(maze.state[arrived, :2], arrived)
    truncations[:, -1] = True
    observations = states[:, :-1].reshape(-1, 4)[:steps]
    ends = truncations.reshape(-1)[:steps]
    ends[-1] = True
    return {
        "observations": observations,
        "actions": actions.reshape(-1, 2)[:steps],
        "rewards": reward(layout, observations[:, :2]).astype(np.float32),
        "next_observations": states[:, 1:].reshape(-1, 4)[:steps],
        "terminations": np.zeros(steps, dtype=bool),
        "truncations": ends,
        "episode_ids": np.concatenate([[0], np.cumsum(ends[:-1])]),
    }


class MazeEnv(gymnasium.Env[npt.NDArray[np.float32], npt.NDArray[np.float32]]):
    """One ball in one maze (a `MazeLayout`, or the name of one in `LAYOUTS`), as a Gymnasium environment. Observation
    (x, y, x velocity, y velocity) float32 [4]; action float32 [2] in [-1, 1]; the reward of a step is exp(-|position -
    goal|) of the observation that the step returns. Episodes are truncated at the layout's horizon."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(self, layout: MazeLayout | str = "umaze") -> None:
        self.layout = layout if isinstance(layout, MazeLayout) else _find_layout(LAYOUTS, layout)
        bounds = spec(self.layout)
        assert isinstance(bounds.observation, Box)
        self.observation_space = gymnasium.spaces.Box(
            np.array(bounds.observation.low, dtype=np.float32), np.array(bounds.observation.high, dtype=np.float32)
        )
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._state = np.zeros((1, 4))
        self._elapsed = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """A start as in `random_start`; `options={"cell": (row, column)}` fixes the cell."""
        super().reset(seed=seed)
        cell = (options or {}).get("cell")
        cells = None if cell is None else np.array([cell], dtype=np.int64)
        self._state = random_start(self.layout, 1, self.np_random, cells=cells)
        self._elapsed = 0
        return self._observe(), {}

    def step(
        self, action: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """One step of 0.01 s."""
        self._state = step(self._state, np.asarray(action)[None], self.layout)
        self._elapsed += 1
        step_reward = float(reward(self.layout, self._state[0, :2]))
        return self._observe(), step_reward, False, self._elapsed >= self.layout.horizon, {}

    def _observe(self) -> npt.NDArray[np.float32]:
        """The state; a ball that touches a wall may be a rounding beyond it."""
        space = self.observation_space
        assert isinstance(space, gymnasium.spaces.Box)
        return np.asarray(np.clip(self._state[0].astype(np.float32), space.low, space.high))


def _find_layout(layouts: Mapping[str, MazeLayout], name: str) -> MazeLayout:
    if name not in layouts:
        what, expected = f"there is no layout {name!r}", f"one of {', '.join(layouts)}"
        raise DataError(what, where="MazeEnv", expected=expected, remedy="choose one of these or pass a Layout")
    return layouts[name]


# Whole episodes in a maze, each on its way to random cells: simulated records of which an episode, or a person with
# several, is one protected unit.


SHORTEST, LONGEST = 100, 300
"""Steps: an episode ends at the first target that is reached after the former, or at the latter."""

_AT_ONCE = 1_000


def goal_episodes(layout: MazeLayout, episodes: int, *, episodes_per_person: int = 1, seed: int) -> Trajectories:
    """Episodes of the waypoint controller, which goes from a random start to one random cell after another.

    An episode is truncated at the first target that is reached after `SHORTEST` steps or more, at the latest after
    `LONGEST` (about 160 steps in the mean, by the maze); nothing terminates. Rows are those of `maze.collect`.

    Args:
        layout: the maze; its goal only sets the reward.
        episodes: how many.
        episodes_per_person: so many in a row belong to one person, whose number is the unit id; the last person may
            own fewer.
        seed: of everything; the same arguments give the same rows.

    Raises:
        DataError: a number is below 1.
    """
    if min(episodes, episodes_per_person) < 1:
        what, expected = "there are no episodes", "at least one episode, and one a person"
        raise DataError(what, where="goal_episodes", expected=expected, remedy="ask for more")
    firsts = range(0, episodes, _AT_ONCE)
    chunks = [_collect_chunk(layout, min(_AT_ONCE, episodes - first), [seed, first]) for first in firsts]
    columns: dict[str, Any] = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
    ends = columns["truncations"]
    ids = np.concatenate([[0], np.cumsum(ends[:-1])])
    return Trajectories.from_arrays(
        **columns, unit_ids=ids // episodes_per_person, episode_ids=ids, spec=spec(layout), simulated=True
    )


def _collect_chunk(layout: MazeLayout, episodes: int, seed: list[int]) -> dict[str, npt.NDArray[Any]]:
    """`LONGEST` steps of every agent, of which those up to its first late enough target are kept."""
    mixed = int(np.random.SeedSequence(seed).generate_state(1)[0])
    columns = collect(layout, episodes * LONGEST, agents=episodes, seed=mixed)
    ends = columns["truncations"].reshape(episodes, LONGEST)
    last = np.argmax(ends & (np.arange(LONGEST) >= SHORTEST - 1), axis=1)
    inside = (np.arange(LONGEST) <= last[:, None]).ravel()
    columns["truncations"] = (np.arange(LONGEST) == last[:, None]).ravel()
    return {name: column[inside] for name, column in columns.items() if name != "episode_ids"}
