"""Formulas of the paper on private policy gradients (arXiv:2501.19080) that no plan uses: its clips, and its epsilon.

The clips are Propositions 4.5 to 4.7 with Markov's and Cantelli's inequalities, to compare with the exact quantiles of
`tacit.methods.policy_gradient.trust_region`; the rules for epsilon are those of its section B.1.
"""

import math

from tacit.methods.policy_gradient.trust_region import check_step, quantile_clip
from tacit.validation import require_valid


def l2_clip_markov(
    radius: float, confidence: float, *, learning_rate: float, noise: float, dimension: int, users: int = 1
) -> float:
    """Proposition 4.5, from the mean alone: smaller than `l2_clip`, 1.5 to 4.5 times in common cases."""
    check_step(confidence, noise, users)
    mean = users**2 + noise**2 * dimension
    return quantile_clip(radius, learning_rate, users, mean / (1 - confidence))


def kl_clip_markov(
    radius: float,
    confidence: float,
    *,
    learning_rate: float,
    noise: float,
    trace: float,
    largest: float,
    users: int = 1,
) -> float:
    """Proposition 4.7 as the paper has it, which needs the trace and the largest eigenvalue of F alone."""
    check_step(confidence, noise, users)
    require_valid("largest", largest, 0 < largest <= trace * (1 + 1e-9) < math.inf, "a number > 0, at most the trace")
    mean = users**2 * largest + noise**2 * trace
    return quantile_clip(radius, learning_rate, users, mean / (1 - confidence))


def gap_clip(
    gap: float, confidence: float, *, learning_rate: float, noise: float, gradient_norm: float, users: int = 1
) -> float:
    """Proposition 4.6 with the exact quantile: the largest C at which noise costs little, to first order."""
    from scipy.stats import norm

    # P(eta <g, noise> <= gap) >= confidence, so that the objective falls behind that of the step without clip and noise
    # by at most eta (1 - tau) |g|^2 + gap, tau |g| being the clipped norm. It says nothing on the first term, which
    # grows as C falls: it is no rule for choosing C. Infinite without noise.
    # learning_rate: eta > 0; users: N
    require_valid("confidence", confidence, 0.5 < confidence < 1, "a number in (0.5, 1)")
    return _gap(gap, learning_rate, noise, gradient_norm, users, float(norm.ppf(confidence)))


def gap_clip_cantelli(
    gap: float, confidence: float, *, learning_rate: float, noise: float, gradient_norm: float, users: int = 1
) -> float:
    """Proposition 4.6 as the paper has it, by Cantelli's inequality: smaller than `gap_clip`."""
    require_valid("confidence", confidence, 0 < confidence < 1, "a number in (0, 1)")
    return _gap(gap, learning_rate, noise, gradient_norm, users, math.sqrt(confidence / (1 - confidence)))


def _gap(gap: float, learning_rate: float, noise: float, gradient_norm: float, users: int, quantile: float) -> float:
    check_step(0.5, noise, users)
    for name, value in (("gap", gap), ("learning_rate", learning_rate), ("gradient_norm", gradient_norm)):
        require_valid(name, value, 0 < value < math.inf, "a finite number > 0")
    return gap * users / (learning_rate * noise * gradient_norm * quantile) if noise else math.inf


def classical_epsilon(sigma: float, delta: float) -> float:
    """sqrt(2 ln(1.25 / delta)) / sigma (Dwork & Roth 2014, Theorem A.1), a guarantee only where it is below 1."""
    _check_noise(sigma, delta)
    return math.sqrt(2 * math.log(1.25 / delta)) / sigma


def zhao_epsilon(sigma: float, delta: float) -> float:
    """sqrt(2) c / sigma + 1 / (2 sigma^2), c^2 = ln(2 / (sqrt(16 delta + 1) - 1)), for every epsilon.

    Source: Zhao et al., "Reviewing and improving the Gaussian mechanism" (arXiv:1911.12060), Theorem 5, solved for
    epsilon.

    Args:
        sigma: noise multiplier, > 0.
        delta: in (0, 1).
    """
    _check_noise(sigma, delta)
    c = math.sqrt(math.log(2 / (math.sqrt(16 * delta + 1) - 1)))
    return math.sqrt(2) * c / sigma + 1 / (2 * sigma**2)


def published_epsilon(sigma: float, delta: float) -> float:
    """The paper's rule: the classical formula where it gives less than 1, else that of Zhao et al."""
    classical = classical_epsilon(sigma, delta)
    return classical if classical < 1 else zhao_epsilon(sigma, delta)


def _check_noise(sigma: float, delta: float) -> None:
    require_valid("sigma", sigma, 0 < sigma < math.inf, "a finite number > 0")
    require_valid("delta", delta, 0 < delta < 1, "a number in (0, 1)")
