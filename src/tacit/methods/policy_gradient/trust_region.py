"""The clipping norm for which one private step stays inside a trust region.

A step is theta' - theta = (eta / N)(sum of N contributions of norm at most C + C s z), z standard normal in d
dimensions. `noise` below is s: the standard deviation of the noise in the *sum* of this one step, a coordinate, in
clips. For independent noise it is the plan's noise multiplier; for correlated noise it is larger and known beforehand
(sensitivity times the norm of the step's row of the inverse factor, times the multiplier). All is public, so that a
norm of each step's own costs no privacy.

Propositions are those of the paper "Differentially Private Policy Gradient" (arXiv:2501.19080), of which 4.4 and 4.7
are used here with exact quantiles: the 4.5 and 4.7 of the paper are Markov's inequality. In place of one user and
noise sigma (the paper) stand N users with noise s, which is one user with noise s / N who is N times as large.

`coverage` statements hold whatever the contributions are: the size of the step grows stochastically with the norm of
their sum, which is N C at most. Where it is smaller the step stays inside more often.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.roots import find_root
from tacit.validation import require_valid

POINTS = 4096
"""At how many points a characteristic function is summed."""


def l2_quantile(confidence: float, *, noise: float, dimension: int, users: int = 1) -> float:
    """The quantile of |N u + s z|^2 for a unit vector u: the squared length of a step in units of eta C / N."""
    from scipy.stats import ncx2

    # It is s^2 times a non-central chi-square with d degrees of freedom and non-centrality (N / s)^2; N^2 without
    # noise.
    check_step(confidence, noise, users)
    require_valid("dimension", dimension, dimension >= 1, "a whole number >= 1")
    if noise == 0:
        return float(users**2)
    return float(noise**2 * ncx2.ppf(confidence, dimension, (users / noise) ** 2))


def kl_quantile(confidence: float, eigenvalues: Sequence[float], *, noise: float, users: int = 1) -> float:
    """The quantile of (N u + s z)' F (N u + s z) for a unit vector u along F's largest eigenvalue."""
    # That is the worst direction in every test, which is no proof. The distribution is that of a sum of independent
    # non-central chi-squares with the eigenvalues as weights (`weighted_quantile`).
    check_step(confidence, noise, users)
    weights = _spectrum(eigenvalues)
    if noise == 0:
        return float(users**2 * weights.max())
    shift = np.zeros(len(weights))
    shift[np.argmax(weights)] = (users / noise) ** 2
    return noise**2 * weighted_quantile(confidence, weights, shift)


def moment_quantile(confidence: float, weights: np.ndarray, shift: np.ndarray) -> float:
    """Approximate quantile of sum_i w_i X_i, X_i independent chi-squares of one degree of freedom, non-centrality
    m_i."""
    from scipy.stats import ncx2

    # Source: Liu, Tang & Zhang (Computational Statistics & Data Analysis 53, 2009): a shifted and scaled non-central
    # chi-square of the same mean, variance, skewness and, where possible, kurtosis. Exact for equal weights. Over
    # random spectra it lies within 2.5 % of the quantile from confidence 0.7 to 0.99, but up to 5 % below it at 0.6 and
    # 7 % at 0.5, as it does for the two or three large eigenvalues of a small policy.
    # weights: [n] >= 0, not all 0; shift: [n] m_i >= 0
    mean, second, third, fourth = _cumulants(weights, shift)
    skew, kurtosis = third / second**1.5, fourth / second**2
    if skew**2 > kurtosis * (1 + 1e-12):
        scale = 1 / (skew - math.sqrt(skew**2 - kurtosis))
        centre = skew * scale**3 - scale**2
        freedom = scale**2 - 2 * centre
    else:
        scale, centre, freedom = 1 / skew, 0.0, 1 / skew**2
    standard = (ncx2.ppf(confidence, freedom, centre) - freedom - centre) / (math.sqrt(2) * scale)
    return float(mean + standard * math.sqrt(2 * second))


def weighted_quantile(confidence: float, weights: np.ndarray, shift: np.ndarray) -> float:
    """The quantile that `moment_quantile` approximates, within 0.1 %: the approximation is corrected by the
    integral."""
    # Source: Imhof (Biometrika 48, 1961), whose integral is summed at equal distances (Davies, Biometrika 60, 1973).
    # The sum is that of the density's images 2 pi / distance apart, all but one beyond the tail; it is cut where the
    # terms have fallen below 2e-5.
    # confidence: in [0.5, 0.99]; weights: [n] >= 0, not all 0; shift: [n] m_i >= 0
    require_valid("confidence", confidence, 0.5 <= confidence <= 0.99, "a number in [0.5, 0.99]")
    guess = moment_quantile(confidence, weights, shift)
    mean, second, *_ = _cumulants(weights, shift)
    step = math.pi / (mean + 10 * math.sqrt(2 * second) + 40 * weights.max())
    index = np.arange(POINTS) + 0.5
    scaled = 2 * step * index[:, None] * weights[weights > 0]
    pull = shift[weights > 0] / (1 + scaled**2)
    phase = 0.5 * (np.arctan(scaled) + scaled * pull).sum(axis=1)
    height = np.exp(-(0.25 * np.log1p(scaled**2) + 0.5 * scaled**2 * pull).sum(axis=1)) / (math.pi * index)

    def excess(value: float) -> float:
        return 0.5 - confidence - float(np.sin(phase - step * value * index) @ height)

    return find_root(excess, 0.9 * guess, 1.15 * guess, tolerance=1e-6 * guess)


def l2_clip(
    radius: float, confidence: float, *, learning_rate: float, noise: float, dimension: int, users: int = 1
) -> float:
    """Proposition 4.4: the largest C with P(|theta' - theta|^2 / 2 <= radius) >= confidence, reached at |g| >= C."""
    quantile = l2_quantile(confidence, noise=noise, dimension=dimension, users=users)
    return quantile_clip(radius, learning_rate, users, quantile)


def kl_clip(
    radius: float,
    confidence: float,
    *,
    learning_rate: float,
    noise: float,
    eigenvalues: Sequence[float],
    users: int = 1,
) -> float:
    """Proposition 4.7 with the quantile in place of Markov: P((theta' - theta)' F (theta' - theta) / 2 <= radius)."""
    # confidence: in [0.5, 0.99]; learning_rate: eta > 0; eigenvalues: of the Fisher information F, in any order, those
    # that are 0 may be left out; users: N, how many contributions a step is the mean of
    quantile = kl_quantile(confidence, eigenvalues, noise=noise, users=users)
    return quantile_clip(radius, learning_rate, users, quantile)


@dataclass(frozen=True)
class L2:
    """A trust region in the parameters: |theta' - theta|^2 / 2 <= radius with this probability (Proposition 4.4).

    Args:
        radius: > 0.
        confidence: in (0, 1).
    """

    radius: float
    confidence: float = 0.6

    def __post_init__(self) -> None:
        _check_region(self.radius, self.confidence, 0.0)

    def clip(
        self,
        *,
        learning_rate: float,
        noise: float,
        dimension: int,
        users: int = 1,
        eigenvalues: Sequence[float] | None = None,
    ) -> float:
        """C for one step; `eigenvalues` have no part in it."""
        return l2_clip(
            self.radius, self.confidence, learning_rate=learning_rate, noise=noise, dimension=dimension, users=users
        )


@dataclass(frozen=True)
class KL:
    """A trust region in the policy: KL(new, old) <= radius with this probability, to second order (Proposition 4.7).

    Args:
        radius: > 0, in nats.
        confidence: in [0.5, 0.99].
        ridge: added to each of the d eigenvalues; > 0 keeps C finite where the policy has become deterministic.
    """

    radius: float
    confidence: float = 0.6
    ridge: float = 1e-3

    def __post_init__(self) -> None:
        _check_region(self.radius, self.confidence, 0.5)
        require_valid("confidence", self.confidence, self.confidence <= 0.99, "a number in [0.5, 0.99]")
        require_valid("ridge", self.ridge, 0 <= self.ridge < math.inf, "a finite number >= 0")

    def clip(
        self,
        *,
        learning_rate: float,
        noise: float,
        dimension: int,
        users: int = 1,
        eigenvalues: Sequence[float] | None = None,
    ) -> float:
        """C for one step.

        Raises:
            PlanError: there are no eigenvalues, more than `dimension` of them, or a negative or infinite one.
        """
        count = 0 if eigenvalues is None else len(eigenvalues)
        valid = 1 <= count <= dimension
        require_valid("eigenvalues", count, valid, f"from 1 to {dimension} eigenvalues of the information")
        assert eigenvalues is not None
        whole = np.full(dimension, self.ridge)
        whole[:count] += np.asarray(eigenvalues, np.float64)
        return kl_clip(
            self.radius,
            self.confidence,
            learning_rate=learning_rate,
            noise=noise,
            eigenvalues=whole.tolist(),
            users=users,
        )


TrustRegion = L2 | KL


def quantile_clip(radius: float, learning_rate: float, users: int, quantile: float) -> float:
    require_valid("radius", radius, 0 < radius < math.inf, "a finite number > 0")
    require_valid("learning_rate", learning_rate, 0 < learning_rate < math.inf, "a finite number > 0")
    return math.sqrt(2 * radius / quantile) * users / learning_rate


def _spectrum(eigenvalues: Sequence[float]) -> np.ndarray:
    weights = np.asarray(eigenvalues, np.float64)
    fine = weights.ndim == 1 and len(weights) > 0 and bool(np.isfinite(weights).all() and (weights >= 0).all())
    valid = fine and bool(weights.max() > 0)
    require_valid("eigenvalues", weights.tolist()[:4], valid, "finite numbers >= 0, one of them > 0 (or a ridge)")
    return weights


def _cumulants(weights: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """[4] sum_i w_i^k (1 + k m_i) for k = 1 to 4: the cumulants but for constants."""
    order = np.arange(1, 5)[:, None]
    return np.asarray((weights**order * (1 + order * shift)).sum(axis=1))


def check_step(confidence: float, noise: float, users: int) -> None:
    require_valid("confidence", confidence, 0 < confidence < 1, "a number in (0, 1)")
    require_valid("users", users, users >= 1, "a whole number >= 1")
    valid = noise == 0 or 1e-4 * users <= noise < math.inf
    require_valid("noise", noise, valid, "0, or a finite number >= users / 10,000")


def _check_region(radius: float, confidence: float, least: float) -> None:
    require_valid("radius", radius, 0 < radius < math.inf, "a finite number > 0")
    require_valid("confidence", confidence, least <= confidence < 1 and confidence > 0, f"a number from {least:g} to 1")
