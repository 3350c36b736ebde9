"""The privacy formulas that the paper on private policy gradients uses (arXiv:2501.19080, section B.1), to compare.

Plans are never priced by them: `tacit.privacy.accounting.bounds` has the exact Gaussian, which needs less noise.
"""

from __future__ import annotations

import math

from tacit.validation import check


def classical_epsilon(sigma: float, delta: float) -> float:
    """sqrt(2 ln(1.25 / delta)) / sigma (Dwork & Roth 2014, Theorem A.1), a guarantee only where it is below 1.

    Args:
        sigma: noise multiplier, > 0.
        delta: in (0, 1).
    """
    _check(sigma, delta)
    return math.sqrt(2 * math.log(1.25 / delta)) / sigma


def zhao_epsilon(sigma: float, delta: float) -> float:
    """sqrt(2) c / sigma + 1 / (2 sigma^2), c^2 = ln(2 / (sqrt(16 delta + 1) - 1)), for every epsilon.

    Source: Zhao et al., "Reviewing and improving the Gaussian mechanism" (arXiv:1911.12060), Theorem 5, solved for
    epsilon.

    Args:
        sigma: noise multiplier, > 0.
        delta: in (0, 1).
    """
    _check(sigma, delta)
    c = math.sqrt(math.log(2 / (math.sqrt(16 * delta + 1) - 1)))
    return math.sqrt(2) * c / sigma + 1 / (2 * sigma**2)


def published_epsilon(sigma: float, delta: float) -> float:
    """The paper's rule: the classical formula where it gives less than 1, else that of Zhao et al."""
    classical = classical_epsilon(sigma, delta)
    return classical if classical < 1 else zhao_epsilon(sigma, delta)


def _check(sigma: float, delta: float) -> None:
    check("sigma", sigma, 0 < sigma < math.inf, "a finite number > 0")
    check("delta", delta, 0 < delta < 1, "a number in (0, 1)")
