"""What a unit adds to the noisy sums of an improvement, and what the sums then say: scales, and joint moments.

Of each row the columns' memories and the reward are standardised by the scales of the look, y_j (cut at 3) and x. Then

    phi = (1, y_j, (y_j^2 - 1) / sqrt 2)                        features of the policy, n numbers
    psi = (1, y_j, y_j y_k - 1[j = k])                          features of the value, m numbers

A unit adds, for each action a, over its rows with that action: the triangle of sum phi phi^T (entries off the
diagonal times sqrt 2, which keeps the norm), sum phi (gamma 1[not terminal] psi(s') - psi(s))^T, and sum phi x. The
blocks have weights and one clip: changes and rewards are smaller than products, and deserve less noise. A change of
psi is small where psi itself is not, so that noise takes less of it. Where nothing follows a decision (a horizon or a
discount that ends there), there are no changes.

No number of the user's unit of reward is left in x: r and a r + b are the same rewards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.memory import Memory
from tacit.data.spec import Box, PublicSpec
from tacit.methods.improvement.plan import FIT, LOOK, MOMENTS, ImprovementPlan
from tacit.methods.off_policy_evaluation.intervals import unit_count
from tacit.methods.off_policy_evaluation.logged import cut_episodes
from tacit.methods.off_policy_evaluation.policies import Behaviour
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.serialization import Json

Float64 = NDArray[np.float64]
Arrays = Mapping[str, np.ndarray]
FARTHEST = 3.0
"""Standard deviations at which a column is cut."""
LEAST_SPREAD = 0.01
"""The least standard deviation of a column or reward, in multiples of half its public range; noise may ask for more."""
POINTS, WIDTH = 2_000, 1.1
"""How many public points there are, and the standard deviation of their columns before they are weighted."""
NEWTON, RIDGE = 30, 1e-3
"""Rounds of Newton's method for the points' weights, and their ridge beside what the noise makes necessary."""
SQUARES = 4.0
"""Weight of squared columns in the look."""


@dataclass(frozen=True, eq=False)
class LoggedVisits:
    """The T rows of U units that count, one after another."""

    units: int  # U
    unit: NDArray[np.int64]  # whose row it is, [T]
    episode: NDArray[np.int64]  # which of the units' episodes, [T], counted from 0 over all of them
    episode_unit: NDArray[np.int64]  # whose episode it is, [C]
    memories: Float64  # seen, after: memories at the row and after it, [T, d]
    next_memories: Float64
    actions: NDArray[np.int64]  # actions, rewards, discounts: [T]
    rewards: Float64
    discounts: Float64
    terminations: NDArray[np.bool_]  # [T]
    propensities: Float64  # of the logged actions, [T]; 1 where there are none

    @classmethod
    def of(cls, rows: Arrays, problem: Problem, memory: Memory) -> LoggedVisits:
        """Of rows [U, L, ...] in order of time, cut to the problem's horizon and episodes."""
        log = cut_episodes(rows, problem, Behaviour())
        alive, starts = log.alive, log.starts[log.alive]
        memories, next_memories = memory.memories(log.observations[alive], log.next_observations[alive], starts)
        unit = np.nonzero(alive)[0]
        propensities = rows.get("propensities")
        return cls(
            units=len(alive),
            unit=unit,
            episode=np.cumsum(starts) - 1,
            episode_unit=unit[starts],
            memories=memories,
            next_memories=next_memories,
            actions=log.actions[alive].reshape(-1).astype(np.int64),
            rewards=log.rewards[alive],
            discounts=log.discount(problem.gamma)[alive],
            terminations=log.terminations[alive],
            propensities=np.ones(len(unit)) if propensities is None else propensities[alive].astype(np.float64),
        )

    def returns(self, limits: tuple[float, float]) -> Float64:
        """Each episode's discounted return [C], moved into these limits."""
        return np.clip(np.bincount(self.episode, self.discounts * self.rewards, len(self.episode_unit)), *limits)

    def unit_returns(self, limits: tuple[float, float]) -> Float64:
        """Each unit's mean return over its episodes, [U], within these limits; the lower one without any episode."""
        return np.clip(self.means(self.returns(limits)[:, None])[:, 0], *limits)

    def side_by_side(self, values: NDArray[Any], longest: int) -> NDArray[Any]:
        """Each unit's values [T, k] as [U, longest, k]; 0 beside its last row."""
        result = np.zeros((self.units, longest, values.shape[1]), values.dtype)
        result[np.arange(longest) < np.bincount(self.unit, minlength=self.units)[:, None]] = values
        return result

    def sums(self, values: Float64) -> Float64:
        """Each unit's sum of values [T, k], [U, k]."""
        return group_sums(self.unit, values, self.units)

    def means(self, values: Float64) -> Float64:
        """Each unit's mean over its episodes of values [C, k], [U, k]; 0 for a unit without any."""
        count = np.bincount(self.episode_unit, minlength=self.units)
        return group_sums(self.episode_unit, values, self.units) / np.maximum(count, 1)[:, None]


def group_sums(group: NDArray[np.int64], values: Float64, groups: int) -> Float64:
    """Sums of values [T, k] by group [T], [groups, k]; those of a group in the order of its rows."""
    from scipy.sparse import csr_matrix

    rows = np.arange(len(group))
    return np.asarray(csr_matrix((np.ones(len(group)), (group, rows)), shape=(groups, len(group))) @ values)


@dataclass(frozen=True, eq=False)
class Scales(Json):
    """Where the columns and the rewards lie, as the noisy look says."""

    centre: np.ndarray  # centre, spread: mean and standard deviation of each of the policy's columns, [d]
    spread: np.ndarray
    rows: float  # how many rows a unit has, on average
    # reward_centre, reward_spread: mean and standard deviation of a reward, in the records' own unit
    reward_centre: float
    reward_spread: float
    units: float  # how many units the learning fold has

    def standardise(self, memories: Float64, columns: tuple[int, ...]) -> Float64:
        """Memories [T, D] -> y [T, d], cut at `FARTHEST`."""
        return self.standardise_columns(memories[:, columns])

    def standardise_columns(self, memories: NDArray[np.floating[Any]]) -> Float64:
        """Memories of the policy's columns alone, [T, d] -> y [T, d]."""
        return np.asarray(np.clip((memories - self.centre) / self.spread, -FARTHEST, FARTHEST))

    def standardise_rewards(self, rewards: Float64) -> Float64:
        """Rewards [T] -> x [T], without a unit."""
        return np.asarray((rewards - self.reward_centre) / self.reward_spread)


@dataclass(frozen=True, eq=False)
class ScaleMoments:
    """Each unit's mean of (z, 4 z^2, x, x^2), how many rows it has, and its presence. z are its columns and x its
    rewards, scaled to [-1, 1] by their public bounds."""

    plan: ImprovementPlan  # columns, memory and problem
    spec: PublicSpec  # public bounds

    def __call__(self, rows: Arrays, state: object) -> Float64:
        """Rows [U, L, ...] -> [U, 2 d + 4], of norm at most 1."""
        visits = LoggedVisits.of(rows, self.plan.problem, self.plan.memory)
        middle, half = self._bounds()
        z = (visits.memories[:, self.plan.columns] - middle) / half
        low, high = self._rewards()
        x = ((visits.rewards - (low + high) / 2) / ((high - low) / 2))[:, None]
        total = visits.sums(np.concatenate([z, SQUARES * z**2, x, x**2, np.ones((len(z), 1))], axis=1))
        count = total[:, -1:]
        mean = total[:, :-1] / np.maximum(count, 1)
        vector = np.concatenate([mean, count / self.plan.problem.rows_per_unit, np.ones((len(mean), 1))], axis=1)
        return clip_norms(vector / self._clip)

    @property
    def _clip(self) -> float:
        return math.sqrt(len(self.plan.columns) + 2)

    def _bounds(self) -> tuple[Float64, Float64]:
        assert isinstance(self.spec.observation, Box)
        low, high = (
            np.array(ends)[list(self.plan.columns)] for ends in (self.spec.observation.low, self.spec.observation.high)
        )
        return (high + low) / 2, (high - low) / 2

    def _rewards(self) -> tuple[float, float]:
        return self.spec.reward.low[0], self.spec.reward.high[0]

    def read(self, mean: Float64) -> Scales:
        """What a noisy sum [2 d + 4] of the vectors, over the public population, says (post-processing)."""
        # Units that were cut to the norm weigh less in every number alike, so that the noisy presence divides them all.
        total, d = mean * self.plan.population * self._clip / FIT, len(self.plan.columns)
        noise = self.plan.noise_std(LOOK) * self._clip / FIT
        units = unit_count(float(total[-1]), noise, self.plan.expected_units)
        total = total / units
        middle, half = self._bounds()
        centre = np.clip(total[:d], -1, 1)
        floor = min(1.0, LEAST_SPREAD**2 + noise / units / SQUARES)
        spread = np.sqrt(np.clip(total[d : 2 * d] / SQUARES - centre**2, floor, 1))
        low, high = self._rewards()
        reward_mean = float(np.clip(total[2 * d], -1, 1))
        floor = min(1.0, LEAST_SPREAD**2 + noise / units)
        reward_spread = math.sqrt(min(1.0, max(floor, float(total[2 * d + 1]) - reward_mean**2)))
        max_rows = self.plan.problem.rows_per_unit
        return Scales(
            centre=middle + half * centre,
            spread=half * spread,
            rows=float(np.clip(total[-2] * max_rows, 1, max_rows)),
            reward_centre=(low + high + (high - low) * reward_mean) / 2,
            reward_spread=(high - low) / 2 * reward_spread,
            units=units,
        )


def phi(y: Float64, *, squares: bool = True) -> Float64:
    """Features of the policy, [T, 1 + 2 d] of y [T, d]; [T, 1 + d] without squares."""
    return np.concatenate([np.ones((len(y), 1)), y, *([(y**2 - 1) / math.sqrt(2)] if squares else [])], axis=1)


def psi(y: Float64) -> Float64:
    """Features of the value, [T, 1 + d + d (d + 1) / 2] of y [T, d]."""
    i, j = np.triu_indices(y.shape[1])
    return np.concatenate([np.ones((len(y), 1)), y, y[:, i] * y[:, j] - (i == j)], axis=1)


@dataclass(frozen=True, eq=False)
class Moments:
    """Noisy sums over all units, by action."""

    products: Float64  # sum phi phi^T, [A, n, n]
    changes: Float64  # sum phi (gamma psi' - psi)^T, [A, n, m]; m is 0 where nothing follows a decision
    rewards: Float64  # sum phi x, [A, n]
    # standard deviations of the noise in an entry of each of the three (off the diagonal of the first less)
    noise: tuple[float, float, float]
    units: float  # how many units the sums are over, as the noisy look says


@dataclass(frozen=True, eq=False)
class JointMoments:
    """Each unit's joint moments; the state is the scales."""

    plan: ImprovementPlan  # columns, memory, problem, weights and clip
    spec: PublicSpec  # public bounds

    def __call__(self, rows: Arrays, state: Scales) -> Float64:
        """Rows [U, L, ...] -> [U, A (n (n + 1) / 2 + n m + n)], of norm at most 1."""
        plan, scales = self.plan, state
        visits = LoggedVisits.of(rows, plan.problem, plan.memory)
        y = scales.standardise(visits.memories, plan.columns)
        right = [phi(y)]
        if plan.has_next_states:
            places = [plan.columns.index(column) for column in plan.value_columns]
            next_columns = scales.standardise(visits.next_memories, plan.columns)
            discounts = plan.problem.gamma * ~visits.terminations
            right.append(discounts[:, None] * psi(next_columns[:, places]) - psi(y[:, places]))
        right.append(scales.standardise_rewards(visits.rewards)[:, None])
        side_by_side, n = visits.side_by_side(np.concatenate(right, axis=1), rows["mask"].shape[1]), plan.features
        taken = visits.side_by_side(visits.actions[:, None] + 1, rows["mask"].shape[1]) - 1  # -1 beside the last visit
        by_action = [side_by_side[:, :, :n] * (taken == action) for action in range(self.spec.action.size)]
        sums = np.stack([np.matmul(left.transpose(0, 2, 1), side_by_side) for left in by_action], axis=1)
        i, j = np.triu_indices(n)
        blocks = [
            sums[:, :, i, j] * np.where(i == j, 1, math.sqrt(2)),
            plan.change_weight * sums[:, :, :, n:-1].reshape(*sums.shape[:2], -1),
            plan.reward_weight * sums[:, :, :, -1],
        ]
        return clip_norms(np.concatenate(blocks, axis=2).reshape(visits.units, -1) / self.clip_norm(scales))

    def clip_norm(self, scales: Scales) -> float:
        """Largest norm of a unit's moments: public. A row's products have a norm of about n."""
        return self.plan.clip * scales.rows * self.plan.features

    def read(self, mean: Float64, scales: Scales) -> Moments:
        """What a noisy sum of the vectors, over the public population, says (post-processing)."""
        # mean: [A (n (n + 1) / 2 + n m + n)]
        n, d = self.plan.features, len(self.plan.value_columns)
        actions, m = self.spec.action.size, 1 + d + d * (d + 1) // 2 if self.plan.has_next_states else 0
        clip = self.clip_norm(scales) / FIT
        sums = (mean * self.plan.population * clip).reshape(actions, -1)
        i, j = np.triu_indices(n)
        triangle, changes, rewards = np.split(sums, [len(i), len(i) + n * m], axis=1)
        products = np.zeros((actions, n, n))
        products[:, i, j] = products[:, j, i] = triangle / np.where(i == j, 1, math.sqrt(2))
        sigma = clip * self.plan.noise_std(MOMENTS)
        return Moments(
            products=products,
            changes=changes.reshape(actions, n, m) / self.plan.change_weight,
            rewards=rewards / self.plan.reward_weight,
            noise=(sigma, sigma / self.plan.change_weight, sigma / self.plan.reward_weight),
            units=scales.units,
        )


def softmax(logits: Float64) -> Float64:
    """Probabilities [..., A] of logits [..., A]."""
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=-1, keepdims=True))


def find_points(products: Float64, columns: int, noise: float) -> tuple[Float64, Float64]:
    """Public points y [K, d] and their weights [K], which sum to 1: of maximum entropy given noisy means.

    Args:
        products: noisy mean of phi phi^T over rows, [n, n].
        columns: d.
        noise: standard deviation of the noise in an entry.
    """
    y = np.clip(WIDTH * np.random.default_rng(0).standard_normal((POINTS, columns)), -FARTHEST, FARTHEST)
    i, j = np.triu_indices(columns)
    statistics = psi(y)[:, 1:]
    wanted = np.concatenate([products[0, 1 : 1 + columns], products[1 + i, 1 + j] - (i == j)])
    ridge = noise**2 + RIDGE
    slopes = np.zeros(len(wanted))
    for _ in range(NEWTON):
        weight = softmax(statistics @ slopes)
        mean = weight @ statistics
        curvature = (statistics * weight[:, None]).T @ statistics - np.outer(mean, mean)
        change = np.linalg.solve(curvature + ridge * np.eye(len(slopes)), wanted - mean - ridge * slopes)
        slopes += change / max(1.0, float(np.linalg.norm(change)))
    return y, softmax(statistics @ slopes)


def clip_norms(vectors: Float64) -> Float64:
    """Vectors [U, k] cut to norm 1, and a little shorter; in place."""
    norm = np.sqrt(np.einsum("uk,uk->u", vectors, vectors))
    vectors *= (FIT / np.maximum(1, norm))[:, None]
    return vectors
