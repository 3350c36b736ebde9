"""What an agent trained on a table is worth in the real (here: simulated) task, and intervals over seeds."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from tacit.envs.evaluation import Policies
from tacit.envs.maze import normalised, random_start, rollout
from tacit.envs.maze_layouts import Layout, far_cells

Starts = Literal["all", "far"]


def evaluate(
    layout: Layout, policies: Policies, *, starts: Starts, seed: int, episodes: int = 300
) -> npt.NDArray[np.float64]:
    """Mean normalised return of each policy in a maze, [K]: 0 is D4RL's random policy, 100 its controller.

    Args:
        layout: the maze; episodes last its horizon and never end early (D4RL's dense evaluation).
        policies: K of them, all from the same starts.
        starts: `all` draws them from every free cell as D4RL does; `far` only from cells whose shortest way to the
            goal is at least half the longest one, where a policy that runs straight at the goal meets walls.
        seed: of the starts.
        episodes: how many starts.
    """
    cells = far_cells(layout) if starts == "far" else None
    first = random_start(layout, episodes, np.random.default_rng(seed), cells=cells)
    returns = rollout(layout, policies.act, np.broadcast_to(first, (policies.members, *first.shape)))
    return np.asarray(normalised(layout, returns).mean(axis=-1))


def interval(values: npt.ArrayLike, *, confidence: float = 0.95) -> tuple[float, float, float]:
    """Mean and two-sided t-interval of the mean of independent runs: (mean, low, high); infinite for a single run."""
    numbers = np.asarray(values, np.float64)
    mean = float(numbers.mean())
    if numbers.size < 2:
        return mean, -math.inf, math.inf
    quantile = float(stats.t.ppf(0.5 + confidence / 2, numbers.size - 1))
    half = quantile * float(numbers.std(ddof=1)) / math.sqrt(numbers.size)
    return mean, mean - half, mean + half
