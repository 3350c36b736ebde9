"""The privacy figures of the paper that introduced expert-level privacy, beside the honest ones (arXiv:2411.13598).

The paper was first to ask that an expert's policy be hidden in what is learnt offline, and to publish without noise
what many experts would have done alike. Three steps of its accounting do not carry its figures; they are kept here for
comparison, and no plan of this library is priced by them:

- Training (appendix B.2) tosses a coin in every step: with probability p a noisy batch from all experts, else a
  noiseless one from released prefixes. The published accountant counts every step as one over a sample of rate p B / m.
  But whether a step was noisy shows, so that the coin hides nobody: there are p times as many noisy steps, each over a
  sample of rate B / m. What is claimed is too small by a factor of about sqrt(1 / p), more at large epsilon.
- Theorem 5.6 adds the epsilons of the two stages, "shown trivially by sequential composition". That holds where the two
  stages use different trajectories of every expert, not where training goes on with the tails of the trajectories whose
  heads were released (`proofs/experts.md`). With a reserve that is set apart beforehand not only the sum holds but the
  joint composition, which is smaller.
- The prefixes' delta grows with the length T of a trajectory (a union over its steps). The event that it pays for can
  happen only once in a trajectory, so T may be left out (`proofs/above_threshold.md`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dp_accounting.dp_event import DpEvent, GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from scipy.optimize import brentq

from tacit.privacy.accounting import accountants
from tacit.privacy.accounting import table as accounting_checks
from tacit.validation import check

MOST_STEPS = 10**9


@dataclass(frozen=True, kw_only=True)
class MixedTraining:
    """Algorithm 3: in each step, with probability p, a noisy gradient from B of m experts, else a noiseless one.

    Args:
        experts: m.
        batch: B, how many experts a noisy step takes one transition from.
        noisy_share: p in (0, 1], the probability of a noisy step. (The paper's Table 1 has p for some tasks and 1 - p
            for others.)
        noise_multiplier: sigma > 0, the noise's standard deviation over the clip.

    Raises:
        PlanError: a value is out of range.
    """

    experts: int
    batch: int
    noisy_share: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        check("batch", self.batch, 1 <= self.batch <= self.experts, f"from 1 to {self.experts}")
        check("noisy_share", self.noisy_share, 0 < self.noisy_share <= 1, "a probability in (0, 1]")
        check("noise_multiplier", self.noise_multiplier, 0.1 <= self.noise_multiplier < math.inf, "a number >= 0.1")

    @property
    def rate(self) -> float:
        """B / m, the rate at which one noisy step samples experts."""
        return self.batch / self.experts

    def noisy(self, steps: int) -> int:
        """How many of so many steps are noisy on average, rounded up: K of a fixed schedule that stands for them."""
        return math.ceil(self.noisy_share * steps - 1e-9)

    def event(self, steps: int) -> DpEvent:
        """The honest event of so many steps: K noisy ones, each over a Poisson sample of rate B / m."""
        return _sampled(self.rate, self.noise_multiplier, self.noisy(steps))

    def published_epsilon(self, steps: int, delta: float) -> float:
        """What the published accounting says of so many steps: all noisy, each over a sample of rate p B / m."""
        return _estimate(self.noisy_share * self.rate, self.noise_multiplier, steps, delta)

    def honest_epsilon(self, steps: int, delta: float) -> float:
        """Epsilon of `event(steps)`, an estimate that is quick for millions of steps; `accounting` certifies it."""
        return _estimate(self.rate, self.noise_multiplier, self.noisy(steps), delta)

    def published_steps(self, epsilon: float, delta: float) -> int:
        """How many steps the published accounting allows: the paper trains until it says epsilon."""
        return _steps(self.noisy_share * self.rate, self.noise_multiplier, epsilon, delta)

    def honest_steps(self, epsilon: float, delta: float) -> int:
        """How many noisy steps epsilon really allows."""
        return _steps(self.rate, self.noise_multiplier, epsilon, delta)

    def limit_epsilon(self, noisy: int, delta: float) -> float:
        """Epsilon of so many noisy steps in the limit of many small ones: mu-GDP, mu = q sqrt(K (e^(1/sigma^2) - 1)).

        Source: central limit theorem of Bu, Dong, Long & Su (arXiv:1911.11607). No bound: a check of the others.
        """
        mu = self.rate * math.sqrt(noisy * math.expm1(self.noise_multiplier**-2))
        return accountants.gaussian_epsilon(delta, mu)


def published_release(trajectories: int, horizon: int, epsilon: float, delta: float) -> tuple[float, float]:
    """(epsilon, delta) of the released prefixes as published: basic composition, and T in delta.

    Args:
        trajectories: n_r.
        horizon: T.
        epsilon: of one run of the sparse vector technique; as much again pays for the prefix itself.
        delta: by which one unstable step passes for a stable one.
    """
    return 2 * trajectories * epsilon, trajectories * horizon * delta


def published_total(release: tuple[float, float], training: tuple[float, float]) -> tuple[float, float]:
    """(epsilon, delta) of both stages as Theorem 5.6 adds them up."""
    return release[0] + training[0], release[1] + training[1]


def _sampled(rate: float, sigma: float, steps: int) -> DpEvent:
    gaussian = GaussianDpEvent(sigma)
    return SelfComposedDpEvent(PoissonSampledDpEvent(rate, gaussian) if rate < 1 else gaussian, steps)


def _estimate(rate: float, sigma: float, steps: int, delta: float) -> float:
    """By `accounting`'s check, centred quadrature: it goes beyond the steps that a certificate may have."""
    check("steps", steps, 1 <= steps <= MOST_STEPS, f"from 1 to {MOST_STEPS:,}")
    one = _sampled(rate, sigma, 1).event
    return accounting_checks.fourier(((one, steps),), "add_or_remove", delta)


def _steps(rate: float, sigma: float, epsilon: float, delta: float) -> int:
    """The most steps whose estimate is at most epsilon; 0 where one is more."""

    def excess(log_steps: float) -> float:
        return _estimate(rate, sigma, round(math.exp(log_steps)), delta) - epsilon

    if excess(0.0) > 0:
        return 0
    mu = brentq(lambda mu: accountants.gaussian_epsilon(delta, mu) - epsilon, 1e-3, 50.0)
    low = high = max(2 * math.log(mu / rate) - math.log(math.expm1(sigma**-2)), 0.0)  # in the limit of small steps
    while excess(low) > 0:
        low = max(low - 0.1, 0.0)
    while excess(high) <= 0:
        high += 0.1
    steps = round(math.exp(brentq(excess, low, high, xtol=1e-7)))
    while _estimate(rate, sigma, steps, delta) > epsilon:
        steps -= 1
    return steps
