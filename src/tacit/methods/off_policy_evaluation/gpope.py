"""GPOPE: gradient-perturbed GTD2 (Xie, Thomas, Miklau, "Privacy preserving off-policy evaluation", arXiv:1902.00174,
algorithm 1), with the accounting that its sampler has.

Input: units behind a vault, a calibrated plan (N, h, sigma, beta)
1. for i = 1 .. N:
2.     every unit of the step's sample gives B = [-A^T w ; A theta + C w - b], clipped as one vector to norm h
3.     g <- vault.noisy_sum: the mean of the clipped vectors, with noise N(0, (sigma h)^2) in their sum
4.     [theta ; w] <- [theta ; w] - beta_i g
5. theta is the mean of the last iterates (post-processing)

A, b, C are a unit's means over the steps of each of its episodes (`statistics.BellmanStatistics`, trace "gtd").
The paper's mode (one unit of m in every step) is here to be compared with; the full batch is more accurate at the same
epsilon. Proof page: `proofs/noisy_sum.md`, and `proofs/fixed_size_sampling.md` for the paper's sampler.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import PublicSpec
from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation import scores
from tacit.methods.off_policy_evaluation.algorithm import GaussianEstimator
from tacit.methods.off_policy_evaluation.features import AnyFeatures, Features
from tacit.methods.off_policy_evaluation.policies import DiscretePolicy, Target
from tacit.methods.off_policy_evaluation.problem import Evaluation, Problem
from tacit.methods.off_policy_evaluation.statistics import BellmanStatistics, Stats
from tacit.parameters import Option
from tacit.privacy.mechanisms.base import Part
from tacit.privacy.mechanisms.sums import FixedSizeSum
from tacit.privacy.sentences import Clause, clause
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit.validation import require_fraction, require_valid, require_whole

PART = "gtd2"

Mode = Literal["full_batch", "poisson", "paper"]
"""Who takes part in a step: every unit; each with probability batch / population; or `batch` of the population's
places without replacement (the paper's sampler with batch 1), for the relation replace_one."""

Schedule = Literal["constant", "diminishing"]
"""beta_i = beta, or beta / i."""
_LEAST_SIGMA = 0.04  # below it e^(1/s^2) overflows


@dataclass(frozen=True, kw_only=True)
class Gpope(GaussianEstimator):
    """GPOPE's public parameters.

    `noise_multiplier` is sigma of one step in the sampled modes; in the full batch it is of all of the plan's noise
    together, and `sigma` is that of one step.
    """

    method: ClassVar[str] = "GPOPE"
    source: ClassVar[str] = "Xie, Thomas, Miklau, arXiv:1902.00174, algorithm 1, accounted as its sampler runs"

    features: AnyFeatures
    """phi, n numbers a state."""
    mode: Mode = "full_batch"
    """see `Mode`."""
    steps: int = 100
    """N, iterations."""
    batch_size: int = 1
    """expected units of a step (mode poisson) or exact places (mode paper); of no meaning for the full batch."""
    clip_norm: Option[float | None] = None
    """h, the largest norm of one unit's stacked 2n-vector; by default a hundredth of what one step's reward can
    be, times sqrt(n) where features are not indicators."""
    step_size: float | None = None
    """beta; None takes one that the public range, the clip and the noise give (`resolve_step_size`)."""
    schedule: Schedule = "constant"
    """see `Schedule`."""
    tail: float = 0.5
    """the share of the last iterates whose mean is released, in (0, 1]."""
    value_share: float = 0.2
    """of the precision (1 / noise^2), what the policy's scalar value and its interval get; the full batch only, the
    sampled modes give a value function alone."""

    def __post_init__(self) -> None:
        fits = self.mode in ("full_batch", "poisson", "paper")
        require_valid("mode", self.mode, fits, "full_batch, poisson or paper")
        fits = self.schedule in ("constant", "diminishing")
        require_valid("schedule", self.schedule, fits, "constant or diminishing")
        require_whole(batch_size=self.batch_size)
        for name in ("behaviour_model", "following"):
            sampled = self.mode != "full_batch" and getattr(self, name) is not None
            require_valid(name, self.mode, not sampled, "none in a sampled mode")
        require_valid("tail", self.tail, 0 < self.tail <= 1, "a number in (0, 1]")
        require_fraction(value_share=self.value_share)
        super().__post_init__()
        for name in ("clip_norm", "step_size"):
            value = getattr(self, name)
            valid = value is None or (math.isfinite(value) and 0 < value <= 1e6)
            require_valid(name, value, valid, "a number in (0, 1e6], or None for the public default")
        if self.promise is not None:
            require_valid("batch_size", self.batch_size, self.batch_size <= self.unit.size, "at most the population")
        if self.mode == "full_batch" or self.promise is not None:
            self.parts()

    @classmethod
    def paper(
        cls, *, problem: Problem, features: Features, population: int, steps: int, epsilon: float, delta: float
    ) -> Gpope:
        """The paper's algorithm with the paper's noise; `account` says what it costs (see `published_sigma`)."""
        sigma = published_sigma(population, steps, epsilon, delta)
        return cls(problem=problem, features=features, mode="paper", steps=steps, noise_multiplier=sigma)

    def sums(self) -> tuple[Part, ...]:
        """N noisy sums of stacked directions, each unit's divided by h (the clip is 1); and scores in the full batch.

        Raises:
            PlanError: a sampled mode has no unit yet, whose population the sampler needs.
        """
        sigma = None if self.own_noise is None else self.sigma
        every = self.problem.part(PART, sigma, steps=self.steps)
        if self.mode == "full_batch":
            if not self.value_share:
                return (every,)
            noise = self.own_noise and self.own_noise / math.sqrt(self.value_share)
            return every, self.problem.part(scores.NAME, noise)
        if self.mode == "poisson":
            return (dataclasses.replace(every, sampling_rate=self.batch_size / self.unit.size),)
        return (
            FixedSizeSum(
                name=PART,
                steps=self.steps,
                batch_size=self.batch_size,
                population=self.unit.size,
                clip_norm=1.0,
                noise_multiplier=sigma,
                rows_per_unit=self.problem.rows_per_unit,
                rows="first",
            ),
        )

    @property
    def covered_clauses(self) -> tuple[Clause, ...]:
        """The gradients, and the scores if there are any."""
        return (clause("gtd_sums", steps=self.steps), *([clause("scores_sum")] if len(self.sums()) > 1 else []))

    def estimate(self, vault: Vault, run: Run, target: Target, behaviour: DiscretePolicy | None) -> Evaluation:
        """V and, in the full batch, the value with an interval; the diagnostics hold "step_size" and "clip_norm"."""
        clip, beta = self.resolve_clip(vault.spec), self.resolve_step_size(vault.spec)
        summary = BellmanStatistics(self.problem, target, behaviour, self.features, "gtd")
        clip_of_mean = clip * vault.unit.size / scores.expected_units(vault, run)
        iterates = Iterates(self, np.zeros((len(vault.ledgers), 2 * self.features.size)))
        for _ in range(self.steps):
            iterates.update(clip_of_mean * vault.noisy_sum(run, PART, Direction(summary, clip), iterates.x), beta)
        noisy_scores = None
        if len(self.sums()) > 1:
            noisy_scores = scores.release_value_scores(vault, run, self.problem, target, behaviour)
        return Evaluation(
            method=self.method,
            value=None if noisy_scores is None else noisy_scores.value(),
            interval=None if noisy_scores is None else noisy_scores.interval(self.level),
            theta=iterates.mean[0],
            features=self.features,
            limits=self.problem.value_range(vault.spec),
            diagnostics={"step_size": beta, "clip_norm": clip},
        )

    def calibrate(self, *, unit: Unit, epsilon: float, delta: float) -> Gpope:
        """The plan with the least noise that keeps (epsilon, delta) for this unit (`privacy.vault.plan.calibrate`).

        Raises:
            PlanError: epsilon or delta is out of range, or delta >= 1 / population.
            AccountingError: mode paper under add_or_remove, for which there is no certified bound.
        """
        return plans.calibrate(self, unit=unit, epsilon=epsilon, delta=delta)

    def account(self, *, unit: Unit, delta: float) -> Gpope:
        """The plan at the noise multiplier it has, with the epsilon that this honestly costs."""
        return plans.account(self, unit=unit, delta=delta)

    def resolve_clip(self, spec: PublicSpec) -> float:
        """h: the plan's own, or 0.01 max |r| sqrt(max |phi|^2), with max |phi|^2 taken as 1 or, not tabular, n."""
        if self.clip_norm is not None:
            return self.clip_norm
        size = 1 if self.features.tabular else self.features.size
        return 0.01 * max(abs(spec.reward.low[0]), abs(spec.reward.high[0])) * math.sqrt(size)

    def resolve_step_size(self, spec: PublicSpec) -> float:
        """beta: the plan's own, or the largest under which both hold, from public numbers alone.

        With D the norm of the parameters that give every state the value at the far end of the public range: all
        clipped steps in one direction go no further than D, and the noise alone goes about D / 8.

        Raises:
            PlanError: it depends on the noise, and the plan is not calibrated.
        """
        if self.step_size is not None:
            return self.step_size
        farthest = max(abs(end) for end in self.problem.value_range(spec))
        distance = float(np.linalg.norm(self.features.constant(farthest)))
        noise = self.sigma / self.divisor * math.sqrt(self.features.size * float(np.square(self.weights).sum()))
        return distance / (self.resolve_clip(spec) * max(float(self.weights.sum()), 8 * noise))

    @property
    def divisor(self) -> int:
        """Units of one step, as the public expects: what a noisy sum is divided by."""
        return self.unit.size if self.mode == "full_batch" else self.batch_size

    @property
    def sigma(self) -> float:
        """Standard deviation of one step's noise over the clip.

        Raises:
            PlanError: the plan is not calibrated.
        """
        require_valid("noise_multiplier", None, self.own_noise is not None, "a number, as calibrate sets it")
        assert self.own_noise is not None
        if self.mode != "full_batch":
            return self.own_noise
        return self.own_noise * math.sqrt(self.steps / (1 - self.value_share))

    @property
    def weights(self) -> NDArray[np.float64]:
        """beta_i / beta, [N]."""
        return np.ones(self.steps) if self.schedule == "constant" else 1 / np.arange(1.0, self.steps + 1)

    @property
    def first_averaged(self) -> int:
        """Index of the first iterate of the mean that is released."""
        return self.steps - max(1, math.ceil(self.tail * self.steps))


def direction(stats: Stats, x: np.ndarray) -> np.ndarray:
    """B = [-A^T w ; A theta + C w - b], the paper's (4.1).

    Args:
        stats: statistics with trace "gtd" (see `BellmanStatistics`), arrays [..., n, n] or [..., L, n].
        x: theta beside w, [..., S, 2n], S iterates at once; its leading axes broadcast against those of `stats`.

    Returns:
        [..., S, 2n], in the statistics' own precision.
    """
    theta, w = np.split(x, 2, axis=-1)
    if "A" in stats:
        A, b = stats["A"], np.asarray(stats["b"][..., None, :])
        back, forward = w @ A, theta @ _transpose(A)
        forward += w @ stats["C"]  # C is symmetric
    else:
        Z, D, phi, b = stats["Z"], stats["D"], stats["phi"], np.zeros(1, np.float32)
        back = (w @ _transpose(Z)) @ D
        forward = (theta @ _transpose(D) - stats["r"][..., None, :]) @ Z + (w @ _transpose(phi)) @ phi
    n = forward.shape[-1]
    stacked = np.empty((*forward.shape[:-1], 2 * n), forward.dtype)
    np.negative(back, out=stacked[..., :n])
    np.subtract(forward, b, out=stacked[..., n:])
    return stacked


@dataclass(frozen=True)
class Direction:
    """Each unit's direction over h, [U, 2n], from its statistics and the replicates' iterates.

    The state is theta beside w, [R, 2n].
    """

    summary: BellmanStatistics
    clip_norm: float

    def __call__(self, rows: Stats, state: np.ndarray) -> np.ndarray:
        """Statistics [U, ...] with `replicate` [U] -> [U, 2n]."""
        x = state.astype(np.float32)[rows["replicate"], None, :]
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(direction(rows, x)[:, 0] / self.clip_norm)


class Iterates:
    """theta and w from zero, and the sum of the last theta, in the precision of the numbers they start from.

    Args:
        plan: schedule and tail.
        zeros: of the shape of theta beside w, [..., 2n].
    """

    def __init__(self, plan: Gpope, zeros: np.ndarray) -> None:
        self.x = zeros.copy()
        self._weights = [float(weight) for weight in plan.weights]
        self._first, self._done = plan.first_averaged, 0
        self._sum = np.zeros_like(self._theta)

    def update(self, gradient: np.ndarray, beta: float | np.ndarray) -> None:
        """One step against a noisy mean of directions, [..., 2n]."""
        self.x -= gradient * (beta * self._weights[self._done])
        self._done += 1
        if self._done > self._first:
            self._sum += self._theta

    @property
    def mean(self) -> np.ndarray:
        """The mean of the theta so far that are to be averaged, [..., n]."""
        return self._sum / (self._done - self._first)

    @property
    def _theta(self) -> np.ndarray:
        return self.x[..., : self.x.shape[-1] // 2]


def _transpose(matrices: np.ndarray) -> np.ndarray:
    return np.swapaxes(matrices, -1, -2)


def published_epsilon(trajectories: int, iterations: int, sigma: float, delta: float) -> float:
    """epsilon at delta as Lemma 1 and the tail bound of arXiv 1902.00174 give it: no bound, never used for a price.

        epsilon = min over lambda > 0 of [N lambda (lambda + 1) / (2 m^2) c + ln(1 / delta)] / lambda
                = a + 2 sqrt(a ln(1 / delta)),    a = N c / (2 m^2),    c = min(4 (e^(1/s^2) - 1), 2 e^(1/s^2))

    The paper was first to bring gradient perturbation to off-policy evaluation, and two steps of its proof were later
    found not to carry the formula. Lemma 1 keeps the term of order 1/m^2 of the sampling bound of arXiv 1808.00087,
    Theorem 9, as m is large; but the terms left out grow as m^-j e^(j(j-1)/(2 s^2)), and the best lambda (65 at
    m = N = 1,000, s = 1) lies far beyond s^2 log m, where they are small. And with m fixed and one trajectory
    exchanged, the clipped step moves by up to 2h, from +h to -h, where the proof has h. For s = 1, m = N = 1,000 and
    delta = 1e-5 it gives 0.357; the mechanism's epsilon lies between 3.20 and 3.29. From s = 2 on it happens to be
    above the truth for m = N = 1,000. `tacit.privacy.accounting.bounds` has the bound.

    Args:
        trajectories: m >= 1.
        iterations: N >= 1, each on one trajectory drawn uniformly.
        sigma: s > 0, the noise's standard deviation over the clip h.
        delta: in (0, 1).
    """
    if not (trajectories >= 1 and iterations >= 1 and 0 < sigma < math.inf and 0 < delta < 1):
        raise _plan_error("trajectories >= 1, iterations >= 1, a finite sigma > 0 and 0 < delta < 1")
    if sigma < _LEAST_SIGMA:
        return math.inf
    c = min(4 * math.expm1(sigma**-2), 2 * math.exp(sigma**-2))
    a = iterations * c / (2 * trajectories**2)
    return a + 2 * math.sqrt(a * math.log(1 / delta))


def published_sigma(trajectories: int, iterations: int, epsilon: float, delta: float) -> float:
    """The sigma at which `published_epsilon` is epsilon: what a reader of the paper would have run.

    Args:
        trajectories: m >= 1.
        iterations: N >= 1.
        epsilon: the target, > 0.
        delta: in (0, 1).
    """
    if not (trajectories >= 1 and iterations >= 1 and 0 < epsilon < math.inf and 0 < delta < 1):
        raise _plan_error("trajectories >= 1, iterations >= 1, a finite epsilon > 0 and 0 < delta < 1")
    log = math.log(1 / delta)
    a = (epsilon / (math.sqrt(log) + math.sqrt(log + epsilon))) ** 2
    c = 2 * trajectories**2 * a / iterations
    return 1 / math.sqrt(math.log1p(c / 4) if c <= 4 else math.log(c / 2))


def _plan_error(expected: str) -> PlanError:
    what = "an argument is out of range"
    return PlanError(what, where="off_policy_evaluation.published", expected=expected, remedy="correct the arguments")
