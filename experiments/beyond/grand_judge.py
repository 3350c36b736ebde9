"""The grand judge: what a table teaches a mean of many agents, which spreads far less than what one agent learns.

Eight TD3+BC agents learn from a table, and one policy acts with the mean action of all of them at four checkpoints. A
single agent says little: on the same rows its return has a spread of 7 to 53. Four of the agents make `grand_a`, the
others `grand_b`. IQL gains nothing from a mean: its agents are single ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.lib.table_cache import Columns
from experiments.privorl.parts.synthesis_fits import Scale
from tacit_worlds.agents.offline import OfflinePolicies, Watch, train_tables
from tacit_worlds.maze_evaluation import evaluate
from tacit_worlds.maze_layouts import MazeLayout

AGENTS, CHECKPOINTS, EPISODES = {"grand": 8, "iql_long": 4}, (10_000, 12_000, 14_000, 16_000), 150
"""How many agents of a kind a table teaches (those of `grand` are `td3_bc_long`), and the starts that they share."""
KINDS = {"grand": "td3_bc_long", "iql_long": "iql_long"}


@dataclass(frozen=True, eq=False)
class MeanPolicies:
    """One policy for each group of policies: it acts with the mean of their actions."""

    groups: Sequence[OfflinePolicies]

    @property
    def members(self) -> int:
        return len(self.groups)

    def act(self, observations: npt.ArrayLike) -> npt.NDArray[np.float32]:
        states = np.asarray(observations)
        return np.stack([group.act(own).mean(axis=0) for group, own in zip(self.groups, states, strict=True)])


def pooled(checkpoints: Sequence[OfflinePolicies], agents: slice) -> OfflinePolicies:
    """These agents at all checkpoints as policies side by side."""
    names = checkpoints[0].arrays
    return OfflinePolicies({name: np.concatenate([one.arrays[name][agents] for one in checkpoints]) for name in names})


def checkpoints_of(steps: int) -> tuple[int, ...]:
    """`CHECKPOINTS`, or as large shares of another number of steps."""
    return tuple(steps * one // CHECKPOINTS[-1] for one in CHECKPOINTS)


def judge(
    kind: str, layout: MazeLayout, tables: Sequence[Columns], config: Any, *, seed: int, starts: int, scale: Scale
) -> list[dict[str, Any]]:
    """What each table teaches, all agents in one stack.

    Args:
        kind: of `AGENTS`.
        layout: of the maze.
        tables: of rows.
        config: of the agents.
        seed: of the first agent; the others follow.
        starts: seed of the starts.
        scale: how much is computed.
    """
    count, episodes = (4, 4) if scale.quick else (AGENTS[kind], EPISODES)
    wanted = checkpoints_of(config.steps)
    kept: list[list[OfflinePolicies]] = []

    def look(done: int, policies: list[OfflinePolicies]) -> None:
        if done in wanted:
            kept.append(policies)

    watch = Watch(int(np.gcd.reduce(wanted)), look) if kind == "grand" else None
    last = train_tables(tables, config, seeds=list(range(seed, seed + count)), watch=watch)
    found = []
    for index, policies in enumerate(last):
        single = evaluate(layout, policies, starts="all", seed=starts, episodes=episodes)
        values: dict[str, Any] = {"single": float(single.mean()), "singles": np.round(single, 2).tolist()}
        if kind == "grand":
            own, half = [policies[index] for policies in kept], count // 2
            groups = [pooled(own, agents) for agents in (slice(count), slice(half), slice(half, count))]
            together = evaluate(layout, MeanPolicies(groups), starts="all", seed=starts, episodes=episodes)
            values |= dict(zip(("grand", "grand_a", "grand_b"), together.tolist(), strict=True))
        found.append(values)
    return found


def settings(scale: Scale) -> dict[str, Any]:
    """How a table is judged."""
    return {"agents": AGENTS, "checkpoints": CHECKPOINTS, "starts": "all", "episodes": EPISODES, "quick": scale.quick}


def spread(first: npt.ArrayLike, again: npt.ArrayLike) -> float:
    """Pooled standard deviation of one group's figure, from pairs of groups on the same tables, [T] each."""
    difference = np.subtract(first, again, dtype=np.float64)
    return float(np.sqrt(np.mean(difference**2) / 2.0))
