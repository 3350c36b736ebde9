"""The privacy formula of the paper that introduced GPOPE, kept for comparison: it is no bound (arXiv 1902.00174)."""

from __future__ import annotations

import math

from tacit.errors import PlanError

_LEAST_SIGMA = 0.04  # below it e^(1/s^2) overflows


def published_epsilon(trajectories: int, iterations: int, sigma: float, delta: float) -> float:
    """epsilon at delta as Lemma 1 and the tail bound of arXiv 1902.00174 give it. Plans are never priced by it.

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

    Raises:
        PlanError: an argument is out of range.
    """
    if not (trajectories >= 1 and iterations >= 1 and 0 < sigma < math.inf and 0 < delta < 1):
        raise _bad("trajectories >= 1, iterations >= 1, a finite sigma > 0 and 0 < delta < 1")
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

    Raises:
        PlanError: an argument is out of range.
    """
    if not (trajectories >= 1 and iterations >= 1 and 0 < epsilon < math.inf and 0 < delta < 1):
        raise _bad("trajectories >= 1, iterations >= 1, a finite epsilon > 0 and 0 < delta < 1")
    log = math.log(1 / delta)
    a = (epsilon / (math.sqrt(log) + math.sqrt(log + epsilon))) ** 2
    c = 2 * trajectories**2 * a / iterations
    return 1 / math.sqrt(math.log1p(c / 4) if c <= 4 else math.log(c / 2))


def _bad(expected: str) -> PlanError:
    return PlanError(
        "an argument is out of range",
        where="off_policy_evaluation.published",
        expected=expected,
        remedy="correct the arguments",
    )
