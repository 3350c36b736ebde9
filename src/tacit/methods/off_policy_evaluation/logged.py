"""The rows of each unit as episodes with importance ratios."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tacit.methods.off_policy_evaluation.policies import (
    Behaviour,
    DiscretePolicy,
    Tabular,
    Target,
    behaviour_error,
    row_probabilities,
)
from tacit.methods.off_policy_evaluation.problem import Problem

LARGEST_LOG_RATIO = 50.0
_SMALLEST = 1e-30


@dataclass(frozen=True, eq=False)
class LoggedEpisodes:
    """Rows of U units in order of time, each array [U, L] or [U, L, ...]; what is not alive must not count."""

    alive: np.ndarray  # the row counts: it exists, and lies within the horizon and the number of episodes
    starts: np.ndarray  # the row is the first of an episode
    follows: np.ndarray  # the row's successor in the same episode is the next column, and counts
    step: np.ndarray  # index of the row in its episode, from 0
    rewards: np.ndarray  # float64, 0 where not alive
    terminations: np.ndarray  # the episode truly ends here: the next state has value 0
    ratio: np.ndarray  # pi(a|s) / pi_b(a|s), float64; 1 on-policy and where not alive; its logarithm is capped to 50
    observations: np.ndarray  # observations, next_observations, actions: as recorded
    next_observations: np.ndarray
    actions: np.ndarray
    episodes: np.ndarray  # how many episodes of each unit count, [U], at least 1

    def discount(self, gamma: float) -> np.ndarray:
        """gamma^step, [U, L]."""
        return np.asarray((gamma ** np.arange(self.step.shape[1])).take(self.step))

    @property
    def lengths(self) -> np.ndarray:
        """tau, the number of counting rows of the episode that each row belongs to, [U, L], at least 1."""
        units, rows = self.alive.shape
        episode = np.cumsum(self.starts, axis=1) - 1
        counts = np.zeros((units, rows), np.int64)
        np.add.at(counts, (np.arange(units)[:, None], episode), self.alive)
        return np.maximum(1, np.take_along_axis(counts, episode, axis=1))


def cut_episodes(
    rows: Mapping[str, np.ndarray], problem: Problem, policy: Target, behaviour: DiscretePolicy | None = None
) -> LoggedEpisodes:
    """Cut rows to the problem's horizon and episodes, and weigh them.

    An episode counts only if the horizon fits into the rows that are read from its start on. Whether it does is decided
    by the episodes before it: long episodes are not cut where short ones are not.

    Args:
        rows: columns [U, L, ...] with `mask` and `starts`, each unit's first rows in order of time.
        problem: the horizon and the episodes of a unit that count.
        policy: the evaluated policy.
        behaviour: the known behaviour policy; None uses the column `propensities`.

    Raises:
        PlanError: the rows have no propensities although the policy is not the behaviour itself.
    """
    mask = rows["mask"]
    starts = rows["starts"].copy()
    starts[:, 0] = True
    columns = np.arange(mask.shape[1])
    episode_starts = np.maximum.accumulate(starts * columns, axis=1)
    step = columns - episode_starts
    counted = episode_starts <= problem.rows_per_unit - problem.horizon  # the rows that are read hold the whole episode
    if problem.episodes_per_unit > 1:
        counted &= np.cumsum(starts, axis=1, dtype=np.int32) <= problem.episodes_per_unit
    alive = mask & counted & (step < problem.horizon)
    terminations = rows["terminations"] & alive
    follows = np.zeros_like(alive)
    follows[:, :-1] = alive[:, :-1] & alive[:, 1:] & ~starts[:, 1:] & ~terminations[:, :-1]
    ratio = _ratio(rows, policy, behaviour)
    np.copyto(ratio, 1.0, where=~alive)
    return LoggedEpisodes(
        alive=alive,
        starts=starts,
        follows=follows,
        step=step,
        rewards=np.multiply(rows["rewards"], alive, dtype=np.float64),
        terminations=terminations,
        ratio=ratio,
        observations=rows["observations"],
        next_observations=rows["next_observations"],
        actions=rows["actions"],
        episodes=np.maximum(1, (starts & alive).sum(axis=1)),
    )


def horizon_values(log: LoggedEpisodes, problem: Problem, values: np.ndarray, next_values: np.ndarray) -> np.ndarray:
    """What a value function says of the return over the horizon: V(s_0) less gamma^H V(s_H) if an episode reaches H."""
    # V has no horizon of its own. What it says comes later is taken as often as the records themselves come there,
    # without ratios: off-policy an approximation, of a term that gamma^H makes small.
    # problem: the horizon H and gamma; here, after: V of the observations and next observations, [U, L]; returns: [U],
    # the mean over a unit's episodes
    first = log.alive & (log.step == 0)
    last = log.alive & (log.step == problem.horizon - 1) & ~log.terminations
    each = np.where(first, values, 0.0) - problem.gamma**problem.horizon * np.where(last, next_values, 0.0)
    return np.asarray(each.sum(axis=1) / log.episodes)


def _ratio(rows: Mapping[str, np.ndarray], policy: Target, behaviour: DiscretePolicy | None) -> np.ndarray:
    shape = rows["mask"].shape
    if isinstance(policy, Behaviour):
        return np.ones(shape)
    if behaviour is None and "propensities" not in rows:
        raise behaviour_error()
    target = _action_probabilities(policy, rows)
    propensities = rows["propensities"] if behaviour is None else _action_probabilities(behaviour, rows)
    ratio: np.ndarray = np.maximum(propensities, _SMALLEST, dtype=np.float64)
    np.divide(np.maximum(target, _SMALLEST), ratio, out=ratio)
    np.clip(ratio, math.exp(-LARGEST_LOG_RATIO), math.exp(LARGEST_LOG_RATIO), out=ratio)
    np.copyto(ratio, 0.0, where=~(target > 0))
    return ratio


def _action_probabilities(policy: DiscretePolicy, rows: Mapping[str, np.ndarray]) -> np.ndarray:
    """The policy's probability of each recorded action, [U, L]; 1 where there is no row."""
    actions = rows["actions"].reshape(rows["mask"].shape).astype(np.int64, copy=False)
    observations, there = rows["observations"], rows["mask"]
    if type(policy) is Tabular:
        return policy.action_probabilities(observations, actions)
    result = np.ones(there.shape)
    chosen = np.take_along_axis(row_probabilities(policy, observations[there]), actions[there][:, None], axis=1)
    result[there] = chosen[:, 0]
    return result
