"""What a unit adds to the noisy sums of an improvement, and what the sums then say: scales, and joint moments.

Of each row the columns' memories are standardised by the scales of the look, y_j, and cut at 3. Then

    phi = (1, y_j, (y_j^2 - 1) / sqrt 2)                        features of the policy, n numbers
    psi = (1, y_j, y_j y_k - 1[j = k])                          features of the value, m numbers

A unit adds, for each action a, over its rows with that action: the triangle of sum phi phi^T (entries off the
diagonal times sqrt 2, which keeps the norm), sum phi (gamma 1[not terminal] psi(s') - psi(s))^T, and sum phi r. The
blocks have weights and one clip: changes and rewards are smaller than products, and deserve less noise. A change of
psi is small where psi itself is not, so that noise takes less of it.

A plan that imitates asks for products alone, of phi or of (1, y_j). One that favours good returns multiplies a unit's
vector by a power of its mean return, moved to [0, 1] by the public range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.data.memory import Memory
from tacit.data.spec import Box, PublicSpec
from tacit.methods.improvement.plan import FIT, ImprovementPlan
from tacit.methods.off_policy_evaluation.logged import logged
from tacit.methods.off_policy_evaluation.policies import Behaviour
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.methods.off_policy_evaluation.scores import limits
from tacit.serialization import Json

Float64 = NDArray[np.float64]
Arrays = Mapping[str, np.ndarray]
FARTHEST = 3.0
"""Standard deviations at which a column is cut."""
LEAST_SPREAD = 0.01
"""The least standard deviation of a column, in multiples of half its public range; the noise may ask for more."""
SQUARES = 4.0
"""Weight of squared columns in the look."""


@dataclass(frozen=True, eq=False)
class Visits:
    """The T rows of U units that count, one after another.

    Args:
        units: U.
        unit: whose row it is, [T].
        course: which of the units' episodes, [T], counted from 0 over all of them.
        owner: whose episode it is, [C].
        seen, after: memories at the row and after it, [T, d].
        actions, rewards, discounts: [T].
        terminations: [T].
        propensities: of the logged actions, [T]; 1 where there are none.
    """

    units: int
    unit: NDArray[np.int64]
    course: NDArray[np.int64]
    owner: NDArray[np.int64]
    seen: Float64
    after: Float64
    actions: NDArray[np.int64]
    rewards: Float64
    discounts: Float64
    terminations: NDArray[np.bool_]
    propensities: Float64

    @classmethod
    def of(cls, rows: Arrays, problem: Problem, memory: Memory) -> Visits:
        """Of rows [U, L, ...] in order of time, cut to the problem's horizon and episodes."""
        log = logged(rows, problem, Behaviour())
        alive, starts = log.alive, log.starts[log.alive]
        seen, after = memory.courses(log.observations[alive], log.next_observations[alive], starts)
        unit = np.nonzero(alive)[0]
        given = rows.get("propensities")
        return cls(
            units=len(alive),
            unit=unit,
            course=np.cumsum(starts) - 1,
            owner=unit[starts],
            seen=seen,
            after=after,
            actions=log.actions[alive].reshape(-1).astype(np.int64),
            rewards=log.rewards[alive],
            discounts=log.discount(problem.gamma)[alive],
            terminations=log.terminations[alive],
            propensities=np.ones(len(unit)) if given is None else given[alive].astype(np.float64),
        )

    def paid(self, limits: tuple[float, float]) -> Float64:
        """Each episode's discounted return [C], moved into these limits."""
        return np.clip(np.bincount(self.course, self.discounts * self.rewards, len(self.owner)), *limits)

    def good(self, limits: tuple[float, float]) -> Float64:
        """Each unit's mean return within these limits, moved to [0, 1], [U]."""
        low, high = limits
        return self.means((self.paid(limits)[:, None] - low) / (high - low))[:, 0]

    def sums(self, values: Float64) -> Float64:
        """Each unit's sum of values [T, k], [U, k]."""
        return grouped(self.unit, values, self.units)

    def means(self, values: Float64) -> Float64:
        """Each unit's mean over its episodes of values [C, k], [U, k]; 0 for a unit without any."""
        count = np.bincount(self.owner, minlength=self.units)
        return grouped(self.owner, values, self.units) / np.maximum(count, 1)[:, None]


def grouped(group: NDArray[np.int64], values: Float64, groups: int) -> Float64:
    """Sums of values [T, k] by group [T], [groups, k]."""
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(order) else order
    result = np.zeros((groups, values.shape[1]))
    if len(order):
        result[ordered[first]] = np.add.reduceat(values[order], first, axis=0)
    return result


@dataclass(frozen=True, eq=False)
class Scales(Json):
    """Where the columns lie, as the noisy look says.

    Args:
        centre, spread: mean and standard deviation of each of the policy's columns, [d].
        rows: how many rows a unit has, on average.
    """

    centre: np.ndarray
    spread: np.ndarray
    rows: float

    def standard(self, seen: Float64, columns: tuple[int, ...]) -> Float64:
        """Memories [T, D] -> y [T, d], cut at `FARTHEST`."""
        return np.asarray(np.clip((seen[:, columns] - self.centre) / self.spread, -FARTHEST, FARTHEST))


@dataclass(frozen=True, eq=False)
class Look:
    """Each unit's mean of (z, 4 z^2), z its columns scaled to [-1, 1] by their public bounds, and how many rows it has.

    Args:
        plan: columns, memory and problem.
        spec: public bounds.
    """

    plan: ImprovementPlan
    spec: PublicSpec

    def __call__(self, rows: Arrays, state: object) -> Float64:
        """Rows [U, L, ...] -> [U, 2 d + 1], of norm at most 1."""
        visits = Visits.of(rows, self.plan.problem, self.plan.memory)
        middle, half = self._bounds()
        z = (visits.seen[:, self.plan.columns] - middle) / half
        total = visits.sums(np.concatenate([z, SQUARES * z**2, np.ones((len(z), 1))], axis=1))
        count = total[:, -1:]
        vector = np.concatenate([total[:, :-1] / np.maximum(count, 1), count / self.plan.problem.rows_per_unit], axis=1)
        return _within(vector / self._clip)

    @property
    def _clip(self) -> float:
        return math.sqrt(len(self.plan.columns))

    def _bounds(self) -> tuple[Float64, Float64]:
        assert isinstance(self.spec.observation, Box)
        low, high = (
            np.array(ends)[list(self.plan.columns)] for ends in (self.spec.observation.low, self.spec.observation.high)
        )
        return (high + low) / 2, (high - low) / 2

    def read(self, mean: Float64) -> Scales:
        """What a noisy mean [2 d + 1] of the vectors says (post-processing)."""
        mean, d = mean * self._clip / FIT, len(self.plan.columns)
        middle, half = self._bounds()
        centre = np.clip(mean[:d], -1, 1)
        noise = self._clip / FIT / SQUARES / self.plan.snr * math.sqrt(self.plan.moments_share / self.plan.look_share)
        spread = np.sqrt(np.clip(mean[d : 2 * d] / SQUARES - centre**2, min(1.0, LEAST_SPREAD**2 + noise), 1))
        most = self.plan.problem.rows_per_unit
        return Scales(middle + half * centre, half * spread, float(np.clip(mean[-1] * most, 1, most)))


def phi(y: Float64, *, squares: bool = True) -> Float64:
    """Features of the policy, [T, 1 + 2 d] of y [T, d], or [T, 1 + d] without squares."""
    return np.concatenate([np.ones((len(y), 1)), y, *([(y**2 - 1) / math.sqrt(2)] if squares else [])], axis=1)


def psi(y: Float64) -> Float64:
    """Features of the value, [T, 1 + d + d (d + 1) / 2] of y [T, d]."""
    i, j = np.triu_indices(y.shape[1])
    return np.concatenate([np.ones((len(y), 1)), y, y[:, i] * y[:, j] - (i == j)], axis=1)


@dataclass(frozen=True, eq=False)
class Moments:
    """Noisy sums over all units, by action.

    Args:
        products: sum phi phi^T, [A, n, n].
        changes: sum phi (gamma psi' - psi)^T, [A, n, m]; m is 0 where the plan imitates.
        rewards: sum phi r, [A, n]; [A, 0] where the plan imitates.
        noise: standard deviations of the noise in an entry of each of the three (off the diagonal of the first less).
        units: N, the public population.
    """

    products: Float64
    changes: Float64
    rewards: Float64
    noise: tuple[float, float, float]
    units: int


@dataclass(frozen=True, eq=False)
class Joint:
    """Each unit's joint moments; the state is the scales as (centre, spread, rows).

    Args:
        plan: columns, memory, problem, weights and clip.
        spec: public bounds.
    """

    plan: ImprovementPlan
    spec: PublicSpec

    def __call__(self, rows: Arrays, state: tuple[Float64, Float64, Float64]) -> Float64:
        """Rows [U, L, ...] -> [U, A (n (n + 1) / 2 + n m + n)], or [U, A n (n + 1) / 2]; of norm at most 1."""
        scales, plan = Scales(state[0], state[1], float(state[2])), self.plan
        visits = Visits.of(rows, plan.problem, plan.memory)
        y = scales.standard(visits.seen, plan.columns)
        features = phi(y, squares=self.squares)
        i, j = np.triu_indices(features.shape[1])
        blocks = [features[:, i] * features[:, j] * np.where(i == j, 1, math.sqrt(2))]
        if not plan.imitates:
            places = [plan.columns.index(column) for column in plan.value_columns]
            after = scales.standard(visits.after, plan.columns)
            going = plan.problem.gamma * ~visits.terminations
            change = going[:, None] * psi(after[:, places]) - psi(y[:, places])
            blocks += [
                plan.change_weight * (features[:, :, None] * change[:, None, :]).reshape(len(features), -1),
                plan.reward_weight / self.largest_reward * features * visits.rewards[:, None],
            ]
        actions = self.spec.action.size
        group = visits.unit * actions + visits.actions
        total = grouped(group, np.concatenate(blocks, axis=1), visits.units * actions)
        weight = visits.good(limits(plan.problem, self.spec))[:, None] ** plan.favour if plan.favour else 1.0
        return _within(weight * total.reshape(visits.units, -1) / self.clip_norm(scales))

    @property
    def size(self) -> int:
        """n, the number of features of the policy."""
        return 1 + (2 if self.squares else 1) * len(self.plan.columns)

    @property
    def squares(self) -> bool:
        """Whether squares are among the features of the policy."""
        return self.plan.imitate != "linear"

    @property
    def largest_reward(self) -> float:
        """The public bound of a reward's size."""
        return max(abs(self.spec.reward.low[0]), abs(self.spec.reward.high[0]))

    def clip_norm(self, scales: Scales) -> float:
        """Largest norm of a unit's moments: public. A row's products have a norm of about n."""
        return self.plan.clip * scales.rows * self.size

    def read(self, mean: Float64, scales: Scales, units: int) -> Moments:
        """What a noisy mean of the vectors says (post-processing).

        Args:
            mean: [A (n (n + 1) / 2 + n m + n)], or [A n (n + 1) / 2].
            scales: that the vectors were made with.
            units: the population that the sum was divided by.
        """
        n, d = self.size, len(self.plan.value_columns)
        actions, m = self.spec.action.size, 0 if self.plan.imitates else 1 + d + d * (d + 1) // 2
        clip = self.clip_norm(scales) / FIT
        sums = (mean * units * clip).reshape(actions, -1)
        i, j = np.triu_indices(n)
        triangle, changes, rewards = np.split(sums, [len(i), len(i) + n * m], axis=1)
        products = np.zeros((actions, n, n))
        products[:, i, j] = products[:, j, i] = triangle / np.where(i == j, 1, math.sqrt(2))
        weights = 1.0, self.plan.change_weight, self.plan.reward_weight / self.largest_reward
        sigma = clip * units / self.plan.snr
        return Moments(
            products=products,
            changes=changes.reshape(actions, n, m) / weights[1],
            rewards=rewards / weights[2],
            noise=(sigma, sigma / weights[1], sigma / weights[2]),
            units=units,
        )


def _within(vectors: Float64) -> Float64:
    """Vectors [U, k] cut to norm 1, and a little shorter."""
    return np.asarray(FIT * vectors / np.maximum(1, np.linalg.norm(vectors, axis=1, keepdims=True)))
