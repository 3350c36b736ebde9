"""Lower bounds on epsilon from one training run: many canaries at once, each of them in or out by a coin of its own.

Source: T. Steinke, M. Nasr & M. Jagielski, "Privacy Auditing with One (1) Training Run" (arXiv:2305.08846). The auditor
sees what was released and guesses, for as many canaries as it likes, whether they were in. A mechanism that is
epsilon-DP lets each guess be right with probability at most e^epsilon / (1 + e^epsilon), whatever was found out about
the other canaries, so the number of right guesses is no larger than a binomial one; delta adds what theorem 5.2 there
allows. What is found bounds privacy from below and proves nothing.

Guesses may all say "in". Let S_i be 1 where canary i is in and -1 where it is out, and T any function of the output
into {-1, 0, 1}^m with at most k values that are not 0 (0: no guess). Given the output, and given the coins before the
i-th, (epsilon, 0)-DP bounds the odds of S_i by e^epsilon *either way*, for the coin was fair. So a guess is right with
probability at most e^epsilon / (1 + e^epsilon) whichever sign it has, whether or not the guesses before were, and by
induction over i the number of right ones is at most a Binomial(k, .) one, stochastically. The output alone decides who
is guessed and with which sign; nothing asks for as many "out" as "in". Kind and number of the guesses are chosen later,
by how many were right: each of them is tested at an error of its own, and these add up to the whole (union bound).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from tacit.errors import DataError
from tacit.roots import find_root

Columns = Mapping[str, NDArray[Any]]
SHARES = (1.0, 0.5, 0.25, 0.125)
"""For which shares of the canaries guesses are tried: sure of few, or less sure of more."""
KINDS = ("both", "in")
"""Of what guesses are: as many "in" as "out"; or "in" alone, as where a trace is either seen or not."""
_COINS = 0x636F696E
MAX_EPSILON = 30.0
"""No audit looks for an epsilon above this: it would take more canaries than there are records."""


@dataclass(frozen=True)
class OneRunBound:
    """What an audit found."""

    epsilon: float  # lower bound at `delta`, for the relation of adding or removing one unit; 0 if nothing was found
    canaries: int  # how many there were, in or out
    kind: str  # of the guesses that gave the bound, one of `KINDS`
    guesses: int  # guesses, right: how many they were
    correct: int
    delta: float  # delta, confidence: at which it holds
    confidence: float


def plant(columns: Columns, canaries: Columns, *, seed: int) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
    """Private rows with a random half of the canaries behind them, each in with probability 1/2.

    Args:
        columns: rows [T, ...] by name.
        canaries: rows [m, ...] with (at least) the same names; values are brought to the types of `columns`.
        seed: of the coins, which are a stream of their own: an adversary who crafts canaries from the same seed learns
        nothing
            of them. An auditor must not use it for anything that is trained.

    Returns:
        The rows, and who is in, [m].
    """
    present = np.random.default_rng([seed, _COINS]).random(len(canaries["rewards"])) < 0.5
    rows = {
        name: np.concatenate([column, canaries[name][present].astype(np.asarray(column).dtype)])
        for name, column in columns.items()
    }
    return rows, present


def audit(
    scores: NDArray[np.generic], present: NDArray[np.bool_], *, delta: float, confidence: float = 0.95
) -> OneRunBound:
    """A lower bound on epsilon from the scores of canaries, higher where a canary seems to be in.

    For each share of `SHARES`, half of it, those with the highest scores, are guessed to be in; and for the kind "both"
    as many, those with the lowest, to be out. Each of these eight ways to guess is tested at an eighth of the error, so
    that choosing the best of them costs no confidence.

    Args:
        scores: [m], made from what was released alone, never from `present`; ties are broken by position.
        present: [m], who was in, by independent fair coins. Canaries of several independent runs may be joined: each of
            them is a unit of one run only.
        delta: at which epsilon is bounded, in [0, 1).
        confidence: of the bound, in (0, 1).

    Raises:
        DataError: the shapes differ, there are fewer than 8 canaries or scores that are not finite, or delta or the
            confidence is out of range.
    """
    values, truth = np.asarray(scores, np.float64), np.asarray(present, np.bool_)
    canaries = len(values)
    if values.ndim != 1 or truth.shape != values.shape or canaries < 8 or not np.isfinite(values).all():
        raise _error("scores and canaries do not fit", "one finite score a canary, of at least 8")
    if not (0 <= delta < 1 and 0 < confidence < 1):
        raise _error("delta or the confidence is out of range", "0 <= delta < 1 and 0 < confidence < 1")
    order, error = np.argsort(values, kind="stable"), (1 - confidence) / (len(SHARES) * len(KINDS))
    results = []
    for share in SHARES:
        each = max(1, int(share * canaries / 2))
        inside, outside = int(truth[order[-each:]].sum()), int((~truth[order[:each]]).sum())
        for kind, guesses, correct in zip(KINDS, (2 * each, each), (inside + outside, inside), strict=True):
            bound = lower_bound(guesses, correct, canaries, delta=delta, error=error)
            results.append(OneRunBound(bound, canaries, kind, guesses, correct, delta, confidence))
    return max(results, key=lambda result: result.epsilon)


def lower_bound(guesses: int, correct: int, canaries: int, *, delta: float, error: float) -> float:
    """The largest epsilon under which so many right guesses have a probability of at most `error`; 0 if none has."""

    def excess(epsilon: float) -> float:
        return p_value(guesses, correct, canaries, epsilon=epsilon, delta=delta) - error

    if excess(0.0) > 0:
        return 0.0
    return float(find_root(excess, 0.0, MAX_EPSILON, tolerance=1e-12)) if excess(MAX_EPSILON) > 0 else MAX_EPSILON


def p_value(guesses: int, correct: int, canaries: int, *, epsilon: float, delta: float) -> float:
    """An upper bound on the chance of at least `correct` right guesses if the mechanism is (epsilon, delta)-DP. With
    f(v) = P[Binomial(guesses, e^epsilon / (1 + e^epsilon)) >= v] it is f(correct) + 2 canaries delta max_i (f(correct -
    i) - f(correct)) / i (arXiv:2305.08846, theorem 5.2), at most 1. Raises DataError unless 0 <= correct <= guesses <=
    canaries and epsilon >= 0."""
    if not (0 <= correct <= guesses <= canaries and epsilon >= 0):
        raise _error("the counts of guesses do not fit together", "0 <= right <= guesses <= canaries, epsilon >= 0")
    chance = float(special.expit(epsilon))
    at_least = float(stats.binom.sf(correct - 1, guesses, chance))
    if delta == 0 or correct == 0:
        return min(1.0, at_least)
    fewer = np.arange(1, correct + 1)
    below = stats.binom.sf(correct - fewer - 1, guesses, chance) - at_least
    return min(1.0, at_least + 2 * canaries * delta * float((below / fewer).max()))


def max_detectable_epsilon(guesses: int, *, confidence: float = 0.95) -> float:
    """What `audit` says at delta 0 where all of so many guesses are right: its power. Each of its ways to guess is
    tested at its share of the error, and the likeliest mechanism has error^(1 / guesses) = e^epsilon / (1 +
    e^epsilon)."""
    if guesses < 1 or not 0 < confidence < 1:
        raise _error("there is no guess, or the confidence is out of range", "guesses >= 1 and 0 < confidence < 1")
    each = math.log((1 - confidence) / (len(SHARES) * len(KINDS))) / guesses
    return max(0.0, each - math.log(-math.expm1(each)))


def _error(what: str, expected: str) -> DataError:
    return DataError(what, where="one_run", expected=expected, remedy="correct the arguments of the audit")
