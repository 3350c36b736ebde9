"""Whole episodes in a maze, each on its way to random cells: simulated records of which an episode, or a person with
several, is one protected unit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.data.trajectories import Trajectories
from tacit.envs.maze import collect, spec
from tacit.envs.maze_layouts import Layout
from tacit.errors import DataError

SHORTEST, LONGEST = 100, 300
"""Steps: an episode ends at the first target that is reached after the former, or at the latter."""

_AT_ONCE = 1_000


def goal_episodes(layout: Layout, episodes: int, *, episodes_per_person: int = 1, seed: int) -> Trajectories:
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
        raise DataError(
            "there are no episodes",
            where="goal_episodes",
            expected="at least one episode, and one a person",
            remedy="ask for more",
        )
    chunks = [_chunk(layout, min(_AT_ONCE, episodes - first), [seed, first]) for first in range(0, episodes, _AT_ONCE)]
    columns: dict[str, Any] = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
    ends = columns["truncations"]
    ids = np.concatenate([[0], np.cumsum(ends[:-1])])
    return Trajectories.from_arrays(
        **columns, unit_ids=ids // episodes_per_person, episode_ids=ids, spec=spec(layout), simulated=True
    )


def _chunk(layout: Layout, episodes: int, seed: list[int]) -> dict[str, npt.NDArray[Any]]:
    """`LONGEST` steps of every agent, of which those up to its first late enough target are kept."""
    mixed = int(np.random.SeedSequence(seed).generate_state(1)[0])
    columns = collect(layout, episodes * LONGEST, agents=episodes, seed=mixed)
    ends = columns["truncations"].reshape(episodes, LONGEST)
    last = np.argmax(ends & (np.arange(LONGEST) >= SHORTEST - 1), axis=1)
    kept = (np.arange(LONGEST) <= last[:, None]).ravel()
    columns["truncations"] = (np.arange(LONGEST) == last[:, None]).ravel()
    return {name: column[kept] for name, column in columns.items() if name != "episode_ids"}
