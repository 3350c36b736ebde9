"""A policy's value by its units' scores: one noisy vector, a point and an interval that is valid for it.

On-policy a unit's score is its mean discounted return, and the interval is two-sided around the mean of the returns.

Off-policy, importance weights are heavy-tailed and every clip bites: a two-sided normal interval around the clipped
mean does not cover. But a clip can only lower the mean of scores that are not negative. With w_t the product of the
ratios up to step t, D = sum_{t<H} gamma^t, and c_low <= 0 <= c_high bounds of every reward, each unit has

    X_low  = sum_t gamma^t w_t (r_t - c_low)  >= 0,    E X_low  = J - c_low D
    X_high = sum_t gamma^t w_t (c_high - r_t) >= 0,    E X_high = c_high D - J

(per-decision importance sampling; Precup, Sutton and Singh, ICML 2000), where a step after the episode's termination
has reward 0 and the last weight. Lower bounds of the two clipped means bound J on both sides. A step that a truncation
cut off adds nothing to either, which can only lower them. Proof page: `proofs/off_policy_evaluation.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from tacit.data.spec import PublicSpec
from tacit.methods.off_policy_evaluation.intervals import NoisySums, Sides, bounds, share_bounds, unit_count
from tacit.methods.off_policy_evaluation.logged import LoggedEpisodes, cut_episodes
from tacit.methods.off_policy_evaluation.policies import Behaviour, DiscretePolicy, ModelledPolicy, Target
from tacit.methods.off_policy_evaluation.problem import Interval, Kind, Problem
from tacit.privacy.mechanisms.contribution_sets import Block, Blocks
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.vault import Vault
from tacit.validation import require_valid

Weighting = Literal["pdis", "wpdis"]

SHARES = (0.65, 0.25, 0.1)
"""Of the squared norm of a unit's vector: its scores, its presence (the count), its squared scores."""
POINT_SHARE = 0.5
"""Of the squared norm, where a further number about each unit is averaged as well."""
NUMBER_SHARES = (0.75, 0.25)
"""Of the squared norm of a `PointVector`: the number, the presence."""
FIT = 1 - 2e-4
"""Vectors are made this much shorter than the clip, so that it never touches them."""
LARGEST_WEIGHT = 1e15
MODELLED = (
    "about the mean of the clipped returns as the private model of the behaviour policy weighs them; the sampling of "
    "units and the noise are both counted, the model's error and what the clip takes are not"
)
"""What the interval says under a model of the behaviour policy."""
NAME = "scores"
"""What the scores' noisy sum is of, in the certificate's words."""


class Point(Protocol):
    """A further number about each unit whose mean is asked for: a frozen dataclass."""

    def __call__(self, log: LoggedEpisodes, state: Any) -> np.ndarray:
        """Numbers [U]; they are clipped to [-1, 1]."""


def score_blocks(*, on_policy: bool, with_point: bool = False) -> Blocks:
    """Of what the vectors of a `ScoreVector` consist."""
    share, squares, present = SHARES[0], SHARES[2], SHARES[1]
    rest, size = 1 - POINT_SHARE if with_point else 1.0, 1 if on_policy else 2
    point = (Block(kind="signed", share=POINT_SHARE, size=1),) if with_point else ()
    return (
        *point,
        Block(kind="signed" if on_policy else "positive", share=rest * share, size=size),
        Block(kind="constant", share=rest * present, size=1),
        Block(kind="squares", share=rest * squares, size=size, of=len(point)),
    )


@dataclass(frozen=True, eq=False)
class ScoreVector:
    """Each unit's vector (a u, b, d u^2), of norm at most 1, as a contribution; a point's number before it. u is one
    number in [-1, 1] on-policy, and a pair in [0, 1]^2 of norm at most 1 off-policy."""

    problem: Problem  # discount, horizon, episodes
    policy: Target  # the evaluated policy
    behaviour: DiscretePolicy | None  # the known behaviour policy, or None for logged propensities
    spec: PublicSpec  # public bounds of the rewards
    clip: float  # the largest weighted score, in multiples of what it could be without weights
    point: Point | None = None  # the further number, or None

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        """Rows [U, L, ...] -> [U, 3] on-policy, [U, 5] off-policy; one more with a point."""
        if not len(rows["mask"]):  # an empty half of the units: features and policies need not know what to do
            return np.zeros((0, 1 + 2 * len(self.offsets_and_scales()[0]) + (self.point is not None)))
        log = cut_episodes(rows, self.problem, self.policy, self.behaviour)
        if isinstance(self.policy, Behaviour):
            (offset,), (scale,) = self.offsets_and_scales()
            u = np.clip((returns(log, self.problem.gamma) - offset) / scale, -1, 1)[:, None]
        else:
            pair = np.stack(bound_scores(log, self.problem, self.spec), axis=1) / np.array(self.offsets_and_scales()[1])
            u = pair / np.maximum(1, np.linalg.norm(pair, axis=1, keepdims=True))
        a, b, d = np.sqrt(SHARES)
        vector = np.concatenate([a * u, np.full((len(u), 1), b), d * u**2], axis=1)
        if self.point is not None:
            number = np.clip(self.point(log, state), -1, 1)[:, None]
            vector = np.concatenate([math.sqrt(POINT_SHARE) * number, math.sqrt(1 - POINT_SHARE) * vector], axis=1)
        return np.asarray(FIT * vector, np.float64)

    def offsets_and_scales(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(offsets, scales), public: on-policy J = offset + scale E u; off-policy J is at least offset + scale E u of
        the first and at most offset - scale E u of the second."""
        low, high = limits(self.problem, self.spec)
        if isinstance(self.policy, Behaviour):
            return ((low + high) / 2,), ((high - low) / 2,)
        length = self.problem.discounted_length
        min_reward, max_reward = self.problem.reward_range(self.spec)
        offsets = min_reward * length, max_reward * length
        largest = np.array([high - offsets[0], offsets[1] - low])
        smallest = np.array([low - offsets[0], offsets[1] - high])  # >= 0, as the limits lie between the offsets
        ends = np.array([[1.0, smallest[1] / largest[1]], [smallest[0] / largest[0], 1.0]])
        longest = np.linalg.norm(ends, axis=1).max()  # of the pair where every weight is 1: nothing is clipped there
        return offsets, (self.clip * longest * largest[0], self.clip * longest * largest[1])


@dataclass(frozen=True, eq=False)
class PointVector:
    """Each unit's number and its presence, [U, 2], of norm at most 1: for records that no ratio can be made of."""

    problem: Problem  # discount, horizon, episodes
    point: Point  # the number

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        """Rows [U, L, ...] -> [U, 2]."""
        number = np.clip(self.point(cut_episodes(rows, self.problem, Behaviour()), state), -1, 1)
        return np.asarray(FIT * np.sqrt(NUMBER_SHARES) * np.stack([number, np.ones(len(number))], axis=1))


@dataclass(frozen=True, kw_only=True)
class Scores:
    """What the noisy vector says: public, and so is everything computed from it."""

    # on-policy one set of sums; off-policy those of X_low and X_high, in multiples of the clip
    sums: tuple[NoisySums, ...]
    offsets: tuple[float, ...]  # offsets, scales: as `ScoreVector.offsets_and_scales` gives them
    scales: tuple[float, ...]
    limits: tuple[float, float]  # the public range of the value
    point: float | None = None  # the mean of the point's number, in [-1, 1], or None
    modelled: bool = False  # whether the ratios are those to a private model of the behaviour policy

    @property
    def on_policy(self) -> bool:
        """Whether the value is the mean return of the records themselves."""
        return len(self.sums) == 1

    def value(self, weighting: Weighting = "wpdis") -> float:
        """The estimate, within the limits: the mean return; off-policy per-decision importance sampling."""
        # weighting: off-policy, `pdis` is the clipped mean of X_low, `wpdis` divides it by the mean weight, which is
        # X_low + X_high over (c_high - c_low) D and would be 1 without the clip: less bias and less variance
        means = [sums.mean * scale for sums, scale in zip(self.sums, self.scales, strict=True)]
        width = self.offsets[-1] - self.offsets[0]
        if not self.on_policy and weighting == "wpdis":
            means[0] *= width / sum(means) if sum(means) > 0 else 1.0
        return float(min(max(self.offsets[0] + means[0], self.limits[0]), self.limits[1]))

    def interval(self, level: float) -> Interval:
        """The two-sided interval at this level; off-policy from two lower bounds at half of 1 - level each."""
        # Under a model of the behaviour policy, whose weights need not have the mean 1, that of their weighted mean.
        if self.modelled:
            return self._weighted_mean(level, "both")
        if self.on_policy:
            ends = bounds(self.sums[0], level=level, sides="both")
            low, high = (self.offsets[0] + self.scales[0] * end for end in ends)
            words = "the sampling of units and the noise are both counted; normal approximation with room for skewness"
        else:
            first, second = (bounds(sums, level=(1 + level) / 2, sides="lower")[0] for sums in self.sums)
            low, high = self.offsets[0] + self.scales[0] * first, self.offsets[1] - self.scales[1] * second
            words = (
                "between two one-sided bounds, each from weighted scores that are not negative and so can only be "
                "lowered by the clip; the sampling of units and the noise are both counted"
            )
        low, high = float(max(low, self.limits[0])), float(min(high, self.limits[1]))
        if low > high:  # the noise contradicts itself, or the range
            low, high = self.limits
        return Interval(low=low, high=high, level=level, kind="two_sided", words=words)

    def _weighted_mean(self, level: float, sides: Sides) -> Interval:
        """Of `value("wpdis")`: the sampling of units and the noise are counted, and nothing else is."""
        scales = self.scales[0], self.scales[1]
        ends = share_bounds(self.sums[0], self.sums[1], scales, level=level, sides=sides)
        width = self.offsets[1] - self.offsets[0]
        low, high = (min(max(self.offsets[0] + width * end, self.limits[0]), self.limits[1]) for end in ends)
        kind: Kind = "two_sided" if sides == "both" else "lower"
        return Interval(low=low, high=high, level=level, kind=kind, words=MODELLED)

    def lower_bound(self, level: float) -> Interval:
        """The one-sided lower bound at this level; the upper end is the public range's."""
        if self.modelled:
            return self._weighted_mean(level, "lower")
        low = self.offsets[0] + self.scales[0] * bounds(self.sums[0], level=level, sides="lower")[0]
        return Interval(
            low=min(max(low, self.limits[0]), self.limits[1]),
            high=self.limits[1],
            level=level,
            kind="lower",
            words="a lower bound that the clip can only lower; the sampling of units and the noise are both counted",
        )


def clip_for(units: float, noise_multiplier: float) -> float:
    """A clip for so many units under this noise (both public): wider where the noise is small, from 1 to 10."""
    # Chosen on random decision processes, and looked at on mountain car and HIV treatment with other seeds than the
    # experiments use: the two bounds are closest at about 2 to 4 for 1,000 units at epsilon 1 and at about 1 at 0.1.
    return round(min(10.0, max(1.0, units / (100 * max(noise_multiplier, 1e-9)))), 1)


def release(vault: Vault, run: Run, vector: ScoreVector, *, state: Any = None) -> Scores:
    """Release the scores through the run's part "scores"."""
    part = run.sum_part(NAME)
    assert part.noise_multiplier is not None
    released = vault.noisy_sum(run, NAME, vector, state)[0] * vault.unit.size
    expected = vault.unit.size / (1 if part.fold is None else 2)
    return read(released, vector, part.noise_multiplier, vault.unit.size, expected)


def release_mean(vault: Vault, run: Run, vector: PointVector, *, state: Any) -> float:
    """The mean of the vector's number, in [-1, 1], through the run's part "scores"."""
    size, roots = expected_units(vault, run), np.sqrt(NUMBER_SHARES)
    total, count = noisy_mean(vault, run, NAME, vector, state) * size / (FIT * roots)
    unit_estimate = unit_count(float(count), noise(vault, run, NAME) * size / (FIT * float(roots[1])), size)
    return min(1.0, max(-1.0, float(total) / unit_estimate))


def release_value_scores(
    vault: Vault, run: Run, problem: Problem, target: Target, behaviour: DiscretePolicy | None
) -> Scores:
    """Release the scores alone, at the clip that suits the run's noise: for methods that estimate V by other parts."""
    clip = clip_for(expected_units(vault, run), run.sum_part(NAME).noise_multiplier or 0.0)
    return release(vault, run, ScoreVector(problem, target, behaviour, vault.spec, clip))


def expected_units(vault: Vault, run: Run) -> float:
    """How many units a plan's sums are over, as the public expects: half of them where all of it is on one fold."""
    return vault.unit.size / (1 if getattr(run.plan, "fold", None) is None else 2)


def noisy_mean(vault: Vault, run: Run, part: str, contribution: Any, state: Any = None) -> np.ndarray:
    """The noisy sum of a part over the units that are expected to take part, [d]."""
    return np.asarray(
        vault.noisy_sum(run, part, contribution, state)[0] * (vault.unit.size / expected_units(vault, run))
    )


def noise(vault: Vault, run: Run, part: str) -> float:
    """Standard deviation of the noise in each number of a `noisy_mean`."""
    sigma = run.sum_part(part).noise_multiplier
    assert sigma is not None
    return sigma / expected_units(vault, run)


def read(
    noisy: np.ndarray, vector: ScoreVector, noise_multiplier: float, population: int, expected: float | None = None
) -> Scores:
    """The scores in a noisy sum [d] of the vectors (post-processing).

    Args:
        noisy: the sum.
        vector: of which contributions.
        noise_multiplier: of the sum.
        population: a public number that the number of units cannot exceed.
        expected: how many units the public expects, for point estimates; by default the population.
    """
    offsets, scales = vector.offsets_and_scales()
    scale, number = FIT, None
    if vector.point is not None:
        number, noisy, scale = noisy[0] / (FIT * math.sqrt(POINT_SHARE)), noisy[1:], FIT * math.sqrt(1 - POINT_SHARE)
    weights = scale * np.sqrt(np.repeat(SHARES, (len(offsets), 1, len(offsets))))
    floor = -1.0 if isinstance(vector.policy, Behaviour) else 0.0
    sums = NoisySums.read(noisy, weights, noise_multiplier, population, floor, expected)
    if number is not None:
        units = unit_count(sums[0].count, sums[0].noise[1], expected or population)
        number = min(1.0, max(-1.0, float(number) / units))
    return Scores(
        sums=tuple(sums),
        offsets=offsets,
        scales=scales,
        limits=limits(vector.problem, vector.spec),
        point=number,
        modelled=isinstance(vector.behaviour, ModelledPolicy),
    )


def limits(problem: Problem, spec: PublicSpec) -> tuple[float, float]:
    """The public range of returns: the problem's, as far as the reward's bounds allow.

    Raises:
        PlanError: no return within the reward's bounds is in the problem's range.
    """
    length, (min_reward, max_reward) = problem.discounted_length, problem.reward_range(spec)
    low = max(problem.value_range(spec)[0], min_reward * length)
    high = min(problem.value_range(spec)[1], max_reward * length)
    expected = f"a range that meets [{min_reward * length}, {max_reward * length}]"
    require_valid("return_range", problem.return_range, low < high, expected)
    return low, high


def returns(log: LoggedEpisodes, gamma: float) -> np.ndarray:
    """Each unit's discounted return, the mean over its episodes, [U]."""
    return np.asarray((log.discount(gamma) * log.rewards).sum(axis=1) / log.episodes)


def weights(log: LoggedEpisodes) -> np.ndarray:
    """w_t, the product of the ratios from the episode's start to each step, [U, L]; capped to 1e15."""
    result, continues = log.ratio.T.copy(), np.logical_not(log.starts.T, order="C")
    for t, weight in enumerate(result):
        if t:
            np.multiply(weight, result[t - 1], out=weight, where=continues[t])
        np.minimum(weight, LARGEST_WEIGHT, out=weight)
    return np.asarray(result.T * log.alive)


def bound_scores(log: LoggedEpisodes, problem: Problem, spec: PublicSpec) -> tuple[np.ndarray, np.ndarray]:
    """(X_low, X_high) of the module's text, each the mean over a unit's episodes, [U] and >= 0."""
    discounted = log.discount(problem.gamma)
    discounted *= weights(log)
    units, ends = np.nonzero(log.terminations)
    # after each termination, sum of gamma^(k - t) over the steps k that were left before the horizon
    lengths = np.concatenate([[0.0], np.cumsum(problem.gamma ** np.arange(problem.horizon))])
    after_termination = discounted[units, ends] * (problem.gamma * lengths[problem.horizon - 1 - log.step[units, ends]])
    total = discounted.sum(axis=1) + np.bincount(units, after_termination, minlength=len(discounted))
    rewards = np.einsum("ul,ul->u", discounted, log.rewards)
    min_reward, max_reward = problem.reward_range(spec)
    low, high = rewards - min_reward * total, max_reward * total - rewards
    return np.maximum(low, 0) / log.episodes, np.maximum(high, 0) / log.episodes
