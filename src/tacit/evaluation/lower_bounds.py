"""Lower bounds on epsilon from an attack's results: an audit can refute a guarantee, and never prove one.

An attack gives scores to outputs of a mechanism that ran without a canary unit and with it. Whatever the attack, its
false alarms and misses bound the mechanism's privacy from below (Kairouz, Oh & Viswanath, arXiv:1311.0776, theorem 2.1;
Nasr et al., arXiv:2302.07956), up to the chance that the counts are off, which the confidence states.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from tacit.errors import DataError
from tacit.privacy.accounting.accountants import gaussian_epsilon

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Counts:
    """What a test (alarm or no alarm) did on outputs that it had not been chosen on."""

    false_alarms: int  # alarms among `without` outputs made without the canary
    outputs_without: int
    hits: int  # alarms among `having` outputs made with it
    outputs_with: int

    def __post_init__(self) -> None:
        if not (0 <= self.false_alarms <= self.outputs_without > 0 and 0 <= self.hits <= self.outputs_with > 0):
            what = "the counts of an audit do not fit together"
            expected = "0 <= alarms <= outputs, with at least one output on each side"
            remedy = "count the alarms of one fixed test on fresh outputs"
            raise DataError(what, where="audit.Counts", expected=expected, remedy=remedy)


@dataclass(frozen=True)
class LowerBounds:
    """Lower bounds, each valid on its own with the stated confidence."""

    epsilon: float  # from the rates of one test, whatever the mechanism is
    # mu, gaussian_epsilon: if the mechanism is mu-GDP, a lower bound on its mu, and that mu's epsilon at `delta`
    mu: float
    gaussian_epsilon: float
    delta: float  # delta, confidence: at which they hold
    confidence: float


@dataclass(frozen=True)
class Rate:
    """A share of trials, and its interval: exact in `rate`, elsewhere from resampled runs."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}]"


def rate(events: int, trials: int, *, confidence: float = 0.95) -> Rate:
    """How often something happened, with Clopper & Pearson's two-sided interval for its probability."""
    if not 0 <= events <= trials > 0:
        raise _data_error("the counts of a rate do not fit together", "0 <= events <= trials, with at least one trial")
    error = _error_rate(confidence) / 2
    return Rate(events / trials, lowest_rate(events, trials, error), highest_rate(events, trials, error))


def highest_rate(events: int, trials: int, error: float) -> float:
    """The largest probability under which at most `events` of `trials` happen with probability >= `error`."""
    # Source: C. Clopper & E. Pearson, Biometrika 26 (1934) 404; one-sided, so it fails with probability <= `error`.
    return 1.0 if events >= trials else float(special.betaincinv(events + 1, trials - events, 1 - error))


def lowest_rate(events: int, trials: int, error: float) -> float:
    """The smallest probability under which at least `events` of `trials` happen with probability >= `error`."""
    return 1.0 - highest_rate(trials - events, trials, error)


def epsilon_lower_bound(counts: Counts, *, delta: float, confidence: float) -> float:
    """The epsilon that no (epsilon, delta)-DP mechanism below it could have let this test exceed."""
    # (epsilon, delta)-DP bounds hit rate <= exp(epsilon) * false alarm rate + delta, and the same for the test with
    # alarm and silence, canary and no canary exchanged (arXiv:1311.0776). Only the first is used: negate and exchange
    # the scores for the other, and choose between them before seeing the counts.
    # delta: in [0, 1); returns: At least 0 and finite: n outputs without a false alarm still allow a rate of about 3 /
    # n at 95 %
    error = _error_rate(confidence) / 2
    hit = lowest_rate(counts.hits, counts.outputs_with, error)
    false = highest_rate(counts.false_alarms, counts.outputs_without, error)
    return max(0.0, math.log((hit - delta) / false)) if hit > delta else 0.0


def mu_lower_bound(counts: Counts, *, confidence: float) -> float:
    """The mu that no mu-GDP mechanism below it could have let this test exceed, at least 0."""
    # mu-GDP bounds Phi^-1(hit rate) <= Phi^-1(false alarm rate) + mu (Dong, Roth & Su, arXiv:1905.02383, section 2.2;
    # for audits: arXiv:2302.07956, section 4.3).
    error = _error_rate(confidence) / 2
    hit = lowest_rate(counts.hits, counts.outputs_with, error)
    false = highest_rate(counts.false_alarms, counts.outputs_without, error)
    if hit <= 0 or false >= 1:
        return 0.0
    return max(0.0, float(special.ndtri(hit) - special.ndtri(false)))


def audit(without: npt.ArrayLike, having: npt.ArrayLike, *, delta: float, confidence: float = 0.95) -> LowerBounds:
    """Bounds from an attack's scores, higher where it believes in the canary.

    Every other score of each side chooses the threshold (and for `epsilon` also the direction) that gives the highest
    bound; the rest, untouched, is what the bounds are computed from. So the choice costs no confidence.

    Args:
        without: [M] scores of independent outputs made without the canary.
        having: [N] scores of independent outputs made with it.
        delta: at which epsilon is bounded, in (0, 1).
        confidence: of each bound, in (0, 1).

    Raises:
        DataError: fewer than two finite scores on a side, or delta or confidence out of range.
    """
    _error_rate(confidence)
    absent, present = _scores(without), _scores(having)
    if not 0 < delta < 1:
        raise _data_error("delta is not between 0 and 1", "0 < delta < 1")
    train, test = (absent[::2], present[::2]), (absent[1::2], present[1::2])

    def epsilon_at(counts: Counts) -> float:
        return epsilon_lower_bound(counts, delta=delta, confidence=confidence)

    sides = []
    for swap in (False, True):
        threshold = _best_threshold(_orient(train, swap), epsilon_at)
        chosen = epsilon_at(_count(_orient(train, swap), threshold))
        sides.append((chosen, epsilon_at(_count(_orient(test, swap), threshold))))
    threshold = _best_threshold(train, lambda counts: mu_lower_bound(counts, confidence=confidence))
    mu = mu_lower_bound(_count(test, threshold), confidence=confidence)
    return LowerBounds(
        max(sides, key=lambda side: side[0])[1], mu, gaussian_epsilon(delta, mu) if mu else 0.0, delta, confidence
    )


def _best_threshold(scores: tuple[Scores, Scores], bound: Callable[[Counts], float], grid: int = 200) -> float:
    """The threshold on a grid of quantiles of both sides whose counts give the highest bound."""
    candidates = np.unique(np.quantile(np.concatenate(scores), np.linspace(0, 1, grid)))
    return float(max(candidates, key=lambda threshold: bound(_count(scores, threshold))))


def _count(scores: tuple[Scores, Scores], threshold: float) -> Counts:
    absent, present = scores
    return Counts(int((absent > threshold).sum()), absent.size, int((present > threshold).sum()), present.size)


def _orient(scores: tuple[Scores, Scores], swap: bool) -> tuple[Scores, Scores]:
    """The same attack, or the one that raises an alarm where the canary seems absent."""
    absent, present = scores
    return (-present, -absent) if swap else (absent, present)


def _scores(values: npt.ArrayLike) -> Scores:
    scores = np.asarray(values, np.float64).ravel()
    if scores.size < 2 or not np.isfinite(scores).all():
        raise _data_error("there are too few scores, or one is not finite", "at least two finite scores on each side")
    return scores


def _error_rate(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise _data_error("the confidence is not between 0 and 1", "0 < confidence < 1, such as 0.95")
    return 1 - confidence


def _data_error(what: str, expected: str) -> DataError:
    return DataError(what, where="audit", expected=expected, remedy="correct the arguments of the audit")
