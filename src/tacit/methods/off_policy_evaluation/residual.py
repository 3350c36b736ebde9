"""Residual return regression: a value function from clipped residual returns, without a step size.

Input: units behind a vault, a calibrated plan (K rounds, the shares of the budget)
1. centre    theta <- the constant V of the noisy mean return; off-policy where nothing terminates, of a noisy pair
             (mean residual at lambda 1, how much a level moves it)
2. Gram      G <- noisy mean of the units' Gram matrices, of known size
3. for k = 1 .. K:
4.     h     <- min(h, multiplier * noisy mean of min(|x_i|, h)),  x_i = b_i - A_i theta
5.     x     <- noisy mean of clip(x_i, h)
6.     theta <- theta + gain x       (the Kalman gain of the known noise; see `statistics.update`)
7. level     off-policy theta <- theta + a constant, from such a pair again: one number bears a clip as wide as the
             range, and so has the tail that a round's clip cuts off
8. value     on-policy the noisy mean return of step 1, else what V says of the return over the horizon; with its
             interval (scores.py)

A unit's x_i is the sum over its visits of phi(s_t) times the residual return e_t (`statistics.BellmanStatistics`).
Residuals are far smaller than returns, so clip and noise shrink from round to round, and repeated rounds undo the bias
of the clip. Everything is a Gaussian over all units, so the whole plan costs exactly one Gaussian of noise multiplier
`noise_multiplier`. Proof page: `proofs/noisy_sum.md`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacit.data.spec import PublicSpec
from tacit.methods.off_policy_evaluation import scores
from tacit.methods.off_policy_evaluation.algorithm import GaussianEstimator
from tacit.methods.off_policy_evaluation.features import AnyFeatures, Features, Smoothness, covariance, gram_blocks
from tacit.methods.off_policy_evaluation.logged import LoggedEpisodes, cut_episodes, horizon_values
from tacit.methods.off_policy_evaluation.policies import Behaviour, DiscretePolicy, Target
from tacit.methods.off_policy_evaluation.problem import Evaluation, Problem
from tacit.methods.off_policy_evaluation.scores import ScoreVector
from tacit.methods.off_policy_evaluation.statistics import (
    BellmanStatistics,
    Stats,
    apply,
    constant,
    gram_norm,
    read_gram,
    update,
)
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy
from tacit.privacy.mechanisms.contribution_sets import POSITIVE, Block, Blocks
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Clause, clause
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit.validation import require_valid, require_whole

LOW_BUDGET = 60.0
"""Below this many units per noise multiplier the centre gets more of the budget and the filter trusts it more."""
INFLATION = 0.1
"""Share of the prior covariance that is added after every round: a clipped round is not as sure as it looks."""
LEVEL_CLIP, LEVEL_WEIGHT = 0.5, 3.0
"""Where a unit's part of a level and its weight are cut, in multiples of the range's width and of 1 without ratios."""
LEVEL_TAU = 0.25
"""Standard deviation of the level about the middle of the range, in multiples of the range, a public guess."""
SHIFT_TAU = 0.05
"""The same of what the rounds leave of it."""
RETURN_TAU = 0.1
"""The same about the mean return of the records, where that is the centre."""
LEAST_SHRINKAGE = 0.02
"""A round divides the clip by 50 at most, or by as much as the noise can tell."""
RANGES = 24
"""Candidates of the range finder: the widest range, its half, and so on."""


@dataclass(frozen=True, kw_only=True)
class ResidualShares:
    """How the budget (the precision 1 / sigma^2) is split; the rounds get what is left.

    Args:
        scores: the returns' mean, second moment and count; on-policy also the centre.
        centre: the centre by itself, where it is one (off-policy, or with the range finder).
        level: the level after the rounds, off-policy.
        gram: the Gram matrix.
        scale: the clips of all rounds.
        range: the range finder.
    """

    scores: float = 0.1
    centre: float = 0.1
    level: float = 0.1
    gram: float = 0.2
    scale: float = 0.1
    range: float = 0.1


@dataclass(frozen=True, kw_only=True)
class ResidualRegression(GaussianEstimator):
    """Residual return regression, the default method: a value function, the value and its interval.

    Raises:
        PlanError: a value is out of range, or the shares leave nothing for the rounds.
    """

    method: ClassVar[str] = "off-policy evaluation (residual return regression)"
    source: ClassVar[str] = "tacit; the problem is that of Xie, Thomas and Miklau (arXiv:1902.00174)"

    features: AnyFeatures
    """phi."""
    on_policy: bool
    """whether the policy that made the records is evaluated (`Behaviour()`)."""
    trace: float = 1.0
    """lambda of the residual returns, 1 for full returns (with the full products of ratios off-policy)."""
    rounds: int = 12
    """K, how often the values are corrected."""
    multiplier: float | None = None
    """clip of a round in multiples of the mean norm. None is 1.2 for tabular features on-policy, 2 where residuals
    have heavy tails (off-policy, or with other features), and 4 where both holds."""
    tau: float | None = None
    """standard deviation of V about its mean in multiples of the range, a public guess. None is 0.25, or 0.1 where the
    calibrated budget is low."""
    shares: ResidualShares | None = None
    """of the budget; None chooses by the calibrated budget."""
    prior: Smoothness | None = None
    """public smoothness over tabular states, or None."""
    range_finder: bool = False
    """find the range of returns privately where `problem.return_range` is None."""

    def __post_init__(self) -> None:
        require_valid("trace", self.trace, 0 <= self.trace <= 1, "a number in [0, 1]")
        require_whole(rounds=self.rounds)
        for name in ("multiplier", "tau"):
            value = getattr(self, name)
            require_valid(name, value, value is None or 0 < value < math.inf, "None or a finite number > 0")
        valid = self.prior is None or self.features.tabular
        require_valid("prior", self.prior, valid, "None unless features are tabular")
        super().__post_init__()
        fields = self._split()
        positive = all(share > 0 for share in fields.values())
        require_valid("shares", self.shares, positive, "positive shares that leave something for the rounds")
        self.parts()

    @property
    def finds_range(self) -> bool:
        """Whether the range finder is used."""
        return self.range_finder and self.problem.return_range is None

    def sums(self) -> tuple[PoissonSum, ...]:
        """Noisy sums over all units, whose precisions add up to 1 / noise_multiplier^2."""
        sigma, fields = self.own_noise, self._split()
        level = [Block(kind=kind, share=0.5, size=1) for kind in ("signed", "positive")]
        blocks: dict[str, Blocks] = {
            "scores": scores.score_blocks(on_policy=self.on_policy, with_point=not self.shared_centre),
            "gram": gram_blocks(self.features),
            "scale": (Block(kind="positive", size=1),),
            "level": tuple(level),
            "range": POSITIVE,
        }
        return tuple(
            self.problem.part(name, sigma and sigma / math.sqrt(share / steps), steps=steps, blocks=blocks.get(name))
            for name, share in fields.items()
            for steps in [self.rounds if name in ("scale", "round") else 1]
        )

    def calibrate(self, *, unit: Unit, epsilon: float, delta: float) -> ResidualRegression:
        """The plan with the least noise that keeps (epsilon, delta) for this unit (`privacy.vault.plan.calibrate`).

        Fields that are None are chosen here by units per noise multiplier, which is public.
        """
        plan = plans.calibrate(self, unit=unit, epsilon=epsilon, delta=delta)
        assert plan.own_noise is not None
        low = unit.size < LOW_BUDGET * plan.own_noise
        low_shares = ResidualShares(scores=0.3 if self.shared_centre else 0.1, centre=0.2)
        shares = self.shares or (low_shares if low else ResidualShares())
        tau = self.tau or (0.1 if low else 0.25)
        return plans.calibrate(
            dataclasses.replace(self, shares=shares, tau=tau), unit=unit, epsilon=epsilon, delta=delta
        )

    @property
    def covered_clauses(self) -> tuple[Clause, ...]:
        """All of its noisy sums."""
        levels = () if self.on_policy else (clause("level_sums"),)
        return (clause("residual_sums", rounds=self.rounds), *levels)

    def require(self, target: Target, behaviour: BehaviourPolicy | None, spec: PublicSpec) -> None:
        """Refuse a policy that is not of the kind that the plan is for."""
        expected = "the policy that made the records" if self.on_policy else "another policy than that of the records"
        valid = self.on_policy == isinstance(target, Behaviour)
        require_valid("on_policy", self.on_policy, valid, f"a plan for {expected}")

    def estimate(self, vault: Vault, run: Run, target: Target, behaviour: DiscretePolicy | None) -> Evaluation:
        """V, the value and its interval; the diagnostics hold "centre" and "clips"."""
        alike = not (self.on_policy or self.features.tabular or vault.spec.terminals)
        bellman = BellmanStatistics(self.problem, target, behaviour, self.features, self.trace, alike)
        summary = ResidualStatistics(bellman)
        limits = _find_limits(self, vault, run, summary)
        middle, half = (limits[0] + limits[1]) / 2, (limits[1] - limits[0]) / 2
        vector = ScoreVector(self.problem, target, behaviour, vault.spec, 1.0)
        if self.shared_centre:
            noisy_scores = scores.release(vault, run, vector)
            value = centre = noisy_scores.value()
            theta, clips = _run_rounds(self, vault, run, summary, limits, centre)
        else:
            level = LevelVector(summary, level_length(self.problem, terminals=vault.spec.terminals), 2 * half)
            if level.length == 0 or self.on_policy or vault.spec.terminals:
                noisy = float(scores.noisy_mean(vault, run, "centre", CentreScore(summary), limits)[0])
                centre, doubt = middle + half * min(max(noisy, -1.0), 1.0), RETURN_TAU * 2 * half
            else:
                start = self.features.constant(middle)
                shift, doubt = _find_level(vault, run, "centre", level, start, LEVEL_TAU * 2 * half)
                centre = min(max(middle + shift, limits[0]), limits[1])
            theta, clips = _run_rounds(self, vault, run, summary, limits, centre)
            if level.length > 0 and not self.on_policy:
                shift, _ = _find_level(vault, run, "level", level, theta, math.hypot(doubt, SHIFT_TAU * 2 * half))
                theta = theta + self.features.constant(shift)
            vector = dataclasses.replace(vector, point=StartValue(self.problem, self.features, limits))
            noisy_scores = scores.release(vault, run, vector, state=theta)
            assert noisy_scores.point is not None
            value = middle + half * noisy_scores.point
        return Evaluation(
            method=self.method,
            value=value,
            interval=noisy_scores.interval(self.level),
            theta=theta,
            features=self.features,
            limits=limits,
            diagnostics={"centre": centre, "clips": clips},
        )

    def _split(self) -> dict[str, float]:
        shares = self.shares or ResidualShares()
        fields = {"scores": shares.scores, "gram": shares.gram, "scale": shares.scale}
        if not self.shared_centre:
            fields["centre"] = shares.centre
        if not self.on_policy:
            fields["level"] = shares.level
        if self.finds_range:
            fields["range"] = shares.range
        return fields | {"round": 1 - sum(fields.values())}

    @property
    def shared_centre(self) -> bool:
        """Whether the scores' mean return is the centre, and the value too: on-policy, in a known range."""
        return self.on_policy and not self.finds_range


def _find_limits(plan: ResidualRegression, vault: Vault, run: Run, summary: ResidualStatistics) -> tuple[float, float]:
    """The range of values: the public one, or the smallest halving of it that the noisy histogram says is enough."""
    low, high = plan.problem.value_range(vault.spec)
    if not plan.finds_range:
        return low, high
    widest = max(-low, high)
    counts = scores.noisy_mean(vault, run, "range", RangeIndicator(summary, widest))
    above = np.cumsum(counts)  # the share of units whose largest return is beyond each next halving
    noise = scores.noise(vault, run, "range") * np.sqrt(np.arange(1, RANGES + 1))
    significant = above > np.maximum(0.02, np.minimum(3 * noise, 0.5))
    enough = int(np.argmax(significant)) if significant.any() else 0
    width = widest * 2.0**-enough * (1 if plan.on_policy else 2)
    return max(low, -width), min(high, width)


def _run_rounds(
    plan: ResidualRegression,
    vault: Vault,
    run: Run,
    summary: ResidualStatistics,
    limits: tuple[float, float],
    centre: float,
) -> tuple[np.ndarray, list[float]]:
    n, tabular, width = plan.features.size, plan.features.tabular, limits[1] - limits[0]
    norm = gram_norm(plan.problem, plan.features, alike=summary.bellman.alike)
    released = norm * scores.noisy_mean(vault, run, "gram", GramVector(summary))
    gram = read_gram(released, norm * scores.noise(vault, run, "gram"), tabular=tabular, n=n)
    usual = 1.2 if plan.on_policy and tabular else 2.0 if plan.on_policy or tabular else 4.0
    multiplier, tau = plan.multiplier or usual, plan.tau or 0.25
    prior = covariance(plan.features, tau * width, vault.spec, plan.prior, falling=not plan.on_policy)
    size, residual = ResidualSize(summary), ResidualVector(summary)
    theta, spread, clip, clips = plan.features.constant(centre), prior, width / 2, []
    scale_noise, noise = scores.noise(vault, run, "scale"), scores.noise(vault, run, "round")
    for _ in range(plan.rounds):
        mean = float(scores.noisy_mean(vault, run, "scale", size, (theta, clip))[0])
        clip *= min(max(multiplier * mean, LEAST_SHRINKAGE, min(scale_noise, 1.0)), 1.0)
        clips.append(clip)
        x = clip * scores.noisy_mean(vault, run, "round", residual, (theta, clip))
        change, spread = update(gram, spread, x, clip * noise)
        spread = spread + INFLATION * prior
        theta = theta + change
        if tabular:
            theta = np.clip(theta, *limits)
    return theta, clips


@dataclass(frozen=True, eq=False)
class ResidualStatistics:
    """What is kept of each unit: `BellmanStatistics`, its plain mean return and its largest one from any step."""

    bellman: BellmanStatistics

    def __call__(self, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Rows [U, L, ...] -> the Bellman statistics, "returns" [U] and "largest" [U]."""
        problem = self.bellman.problem
        log = cut_episodes(rows, problem, Behaviour())
        rest, largest = np.zeros(len(log.alive)), np.zeros(len(log.alive))
        for t in reversed(range(log.alive.shape[1])):
            rest = log.rewards[:, t] + problem.gamma * rest * log.follows[:, t]
            largest = np.maximum(largest, np.abs(rest))
        return {**self.bellman(rows), "returns": scores.returns(log, problem.gamma), "largest": largest}


@dataclass(frozen=True, eq=False)
class RangeIndicator:
    """The range finder: which halving of the widest range holds a unit's largest return, as an indicator."""

    summary: ResidualStatistics
    widest: float

    def __call__(self, rows: Stats, state: object) -> np.ndarray:
        """[U, RANGES]; the first is for the widest range itself."""
        fraction, exponent = np.frexp(np.minimum(rows["largest"] / self.widest, 1.0))
        halvings = np.where(fraction > 0, (fraction == 0.5) - exponent, RANGES)
        return np.eye(RANGES)[np.minimum(halvings, RANGES - 1)]


@dataclass(frozen=True, eq=False)
class CentreScore:
    """The plain return, scaled from the state's range (low, high) to [-1, 1]."""

    summary: ResidualStatistics

    def __call__(self, rows: Stats, state: tuple[float, float]) -> np.ndarray:
        """[U, 1]."""
        low, high = state
        return np.asarray(np.clip((2 * rows["returns"] - low - high) / (high - low), -1, 1)[:, None])


def level_length(problem: Problem, *, terminals: bool) -> float:
    """What a level weighs in the mean residual without ratios: the mean of 1 - gamma^(steps left); at most 1."""
    return 1.0 if terminals else 1 - problem.gamma * problem.discounted_length / problem.horizon


def _find_level(
    vault: Vault, run: Run, part: str, vector: LevelVector, theta: np.ndarray, doubt: float
) -> tuple[float, float]:
    """The constant that the values lack, of this standard deviation before, and its standard deviation after."""
    residual, weight = vector.scales * scores.noisy_mean(vault, run, part, vector, theta)
    residual_noise, weight_noise = vector.scales * max(scores.noise(vault, run, part), 1e-9)
    weight = max(weight, 0.0)
    gain = doubt**2 * weight / (doubt**2 * (weight**2 + weight_noise**2) + residual_noise**2)
    return float(gain * residual), doubt * math.sqrt(1 - gain * weight)


@dataclass(frozen=True, eq=False)
class LevelVector:
    """The mean residual at lambda 1 for the state theta, and the weight of a level in it, in multiples of `scales`."""

    summary: ResidualStatistics
    length: float  # see `level_length`
    width: float  # of the range

    @property
    def scales(self) -> np.ndarray:
        """Where the two numbers are cut, times sqrt 2."""
        return math.sqrt(2) * self.length * np.array([LEVEL_CLIP * self.width, LEVEL_WEIGHT])

    def __call__(self, rows: Stats, state: np.ndarray) -> np.ndarray:
        """[U, 2], of norm at most 1."""
        slopes, constants = rows["level"][:, :-1].astype(np.float64), rows["level"][:, -1]
        weights = slopes @ self.summary.bellman.features.constant(1.0)
        pair = np.stack([constants - slopes @ state, weights], axis=1) / self.scales
        return np.asarray(np.clip(pair, [-math.sqrt(0.5), 0.0], math.sqrt(0.5)))


@dataclass(frozen=True, eq=False)
class GramVector:
    """The Gram matrix in multiples of `statistics.gram_norm`."""

    summary: ResidualStatistics

    def __call__(self, rows: Stats, state: object) -> np.ndarray:
        """[U, n] or [U, n (n + 1) / 2]."""
        bellman = self.summary.bellman
        return np.asarray(rows["gram"] / gram_norm(bellman.problem, bellman.features, alike=bellman.alike))


@dataclass(frozen=True, eq=False)
class ResidualVector:
    """x_i(theta) / h, for the state (theta, h)."""

    summary: ResidualStatistics

    def __call__(self, rows: Stats, state: tuple[np.ndarray, float]) -> np.ndarray:
        """[U, n]."""
        theta, clip = state
        return np.asarray((constant(rows).astype(np.float64) - apply(rows, theta)) / clip)


@dataclass(frozen=True, eq=False)
class ResidualSize:
    """min(|x_i(theta)| / h, 1), for the state (theta, h)."""

    summary: ResidualStatistics

    def __call__(self, rows: Stats, state: tuple[np.ndarray, float]) -> np.ndarray:
        """[U, 1]."""
        sizes = np.linalg.norm(ResidualVector(self.summary)(rows, state), axis=1, keepdims=True)
        return np.asarray(np.minimum(sizes, 1.0))


@dataclass(frozen=True)
class StartValue:
    """What V says of the return over the horizon (`logged.within_horizon`), scaled from the limits to [-1, 1]. The
    state is theta."""

    problem: Problem
    features: Features
    limits: tuple[float, float]

    def __call__(self, log: LoggedEpisodes, state: np.ndarray) -> np.ndarray:
        """[U], the mean over the unit's episodes."""
        low, high = self.limits
        first = log.alive & (log.step == 0)
        last = log.alive & (log.step == self.problem.horizon - 1)

        def values(observations: np.ndarray, wanted: np.ndarray) -> np.ndarray:
            result = np.zeros(wanted.shape)
            phi = self.features(observations[wanted])
            result[wanted] = np.clip(np.einsum("ni,i->n", phi, state, dtype=np.float64), low, high)
            return result

        start_values, end_values = values(log.observations, first), values(log.next_observations, last)
        mean = np.clip(horizon_values(log, self.problem, start_values, end_values), low, high)
        return np.asarray((2 * mean - low - high) / (high - low))
