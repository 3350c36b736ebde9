"""Mechanisms of which only (epsilon, delta) is known, and answers that are turned round: closed forms, and a grid.

Every (epsilon, delta)-DP mechanism is dominated by the one that reveals a bit with probability delta and answers by
randomised response otherwise (Kairouz, Oh & Viswanath, arXiv 1311.0776, Theorem 3.1); dominating pairs compose
adaptively (Zhu, Dong & Wang, arXiv 2106.08567, Theorem 10). So n_i mechanisms of each kind (epsilon_i, delta_i), in any
order and next to any other mechanism of profile D in one direction, have in that direction at most the profile

    delta(e) = r + (1 - r) sum_j P_j D(e - l_j),    1 - r = prod_i (1 - delta_i)^n_i,

with l_j = sum_i (2 k_i - n_i) epsilon_i the losses of their answers, k_i of the n_i being true, and P_j the product of
the binomial probabilities with rates 1 / (1 + exp(-epsilon_i)). Proof: unless a bit is revealed, which has the same
probability r under both neighbours, the answers and the rest are independent, the loss is the sum of theirs, and
E[(1 - exp(e - l - L))+] given l is D(e - l). With nothing beside them D(x) = (1 - exp(x))+, and for one kind this is
the optimal composition of Kairouz, Oh & Viswanath (Theorem 3.3): no better bound follows from the (epsilon, delta).

A `RandomizedResponseEvent` is that pair with delta 0 where a unit is replaced. Where it is left out a fair coin stands
in its place: with p = 1 / (1 + exp(-epsilon)) the losses are log(2 p) and log(2 (1 - p)), with probabilities p and
1 - p, and in the other direction their negatives, with 1/2 each. The directions are composed one by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln, log_expit, ndtri

from tacit.errors import AccountingError
from tacit.privacy.accounting.events import EpsilonDeltaEvent, Leaves, RandomizedResponseEvent
from tacit.privacy.accounting.peer import PrivacyLossDistribution, create_pmf
from tacit.units import Relation

Array = NDArray[np.float64]

MAX_ATOMS = 2**16
EpsilonDeltas = tuple[tuple[EpsilonDeltaEvent | RandomizedResponseEvent, int], ...]
"""Mechanisms with proofs of their own, under one relation: an answer that is turned round is one against a coin."""


@dataclass(frozen=True)
class Responses:
    """The losses of composed answers, in one direction, under the distribution that is sampled from."""

    revealed: float  # r, the probability that a bit is revealed; nothing is promised below it
    losses: Array  # [J], rising; of the answers
    masses: Array  # [J], their probabilities, given that no bit is revealed
    upper_tail: Array  # [J + 1]; above[k] is the sum of masses[k:]
    log_lower_tail: Array  # [J + 1]; the logarithm of the sum of masses[k:] * exp(-losses[k:])
    rounding: float  # an allowance for float64, relative for deltas and absolute for epsilons

    def profile(self, epsilon: Array | float) -> Array:
        """sum_j P_j (1 - exp(epsilon - l_j))+ at each epsilon, of either sign: delta, given that no bit is revealed."""
        first = np.searchsorted(self.losses, epsilon, side="right")
        return np.asarray(np.maximum(self.upper_tail[first] - np.exp(epsilon + self.log_lower_tail[first]), 0.0))

    def conditional_delta(self, delta: float) -> float:
        """The profile's value at which the whole delta is `delta`."""
        return (delta - self.revealed) / (1 - self.revealed)


def split(leaves: Leaves, relation: Relation) -> tuple[EpsilonDeltas, Leaves]:
    """(the mechanisms with a proof of their own, the others)."""
    kinds = EpsilonDeltaEvent | RandomizedResponseEvent
    own = [(leaf, count) for leaf, count in leaves if isinstance(leaf, kinds)]
    if relation == "replace_one":  # then an answer is exchanged for the other one
        own = [(EpsilonDeltaEvent(leaf.epsilon, leaf.delta), count) for leaf, count in own]
    return tuple(own), tuple(item for item in leaves if not isinstance(item[0], kinds))


def compose(leaves: EpsilonDeltas) -> tuple[Responses, ...]:
    """The composition in each direction, in which what is left out is there and is not; one where both are the same."""
    coins = any(isinstance(leaf, RandomizedResponseEvent) for leaf, _ in leaves)
    return tuple(_compose(leaves, swapped) for swapped in ((False, True) if coins else (False,)))


def _answers(
    leaf: EpsilonDeltaEvent | RandomizedResponseEvent, swapped: bool
) -> tuple[tuple[float, float], tuple[float, float]]:
    # (loss, logarithm of its probability) of both answers, the larger loss first, given that no bit is revealed
    yes, no = float(log_expit(leaf.epsilon)), float(log_expit(-leaf.epsilon))
    if isinstance(leaf, EpsilonDeltaEvent):
        return (leaf.epsilon, yes), (-leaf.epsilon, no)
    half = -math.log(2)
    return ((half - no, half), (half - yes, half)) if swapped else ((yes - half, yes), (no - half, no))


@lru_cache(maxsize=64)
def _compose(leaves: EpsilonDeltas, swapped: bool) -> Responses:
    # that of none has the loss 0
    steps: dict[tuple[tuple[float, float], tuple[float, float]], int] = {}
    for leaf, count in leaves:
        if leaf.epsilon > 0:
            answers = _answers(leaf, swapped)
            steps[answers] = steps.get(answers, 0) + count
    if math.prod(count + 1 for count in steps.values()) > MAX_ATOMS:
        what = "too many mechanisms with proofs of their own are composed"
        expected = f"at most {MAX_ATOMS:,} different sums of their losses"
        remedy = "give them fewer steps or fewer different epsilons"
        raise AccountingError(what, where="accounting", expected=expected, remedy=remedy)
    losses, logs = np.zeros(1), np.zeros(1)
    for ((more, log_more), (less, log_less)), count in steps.items():
        true = np.arange(count + 1, dtype=np.float64)
        ways = gammaln(count + 1) - gammaln(true + 1) - gammaln(count - true + 1)
        log_masses = ways + true * log_more + (count - true) * log_less
        each = count * (more + less) / 2 + (2 * true - count) * (more - less) / 2
        losses = np.add.outer(losses, each).ravel()
        logs = np.add.outer(logs, log_masses).ravel()
    order = np.argsort(losses, kind="stable")
    losses, logs = losses[order], logs[order]
    masses = np.exp(logs)
    above = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
    log_below = np.append(np.logaddexp.accumulate((logs - losses)[::-1])[::-1], -np.inf)
    rounding = 1e-14 * sum(count for _, count in leaves)
    return Responses(delta_floor(leaves), losses, masses, above, log_below, rounding)


def delta_floor(leaves: Leaves | EpsilonDeltas) -> float:
    """r, below which nothing is promised; 0 where no mechanism has a proof of its own with a delta."""
    deltas = [(leaf.delta, count) for leaf, count in leaves if isinstance(leaf, EpsilonDeltaEvent)]
    if len(deltas) == 1 and deltas[0][1] == 1:
        return float(deltas[0][0])
    return -math.expm1(math.fsum(count * math.log1p(-delta) for delta, count in deltas))


def epsilon(leaves: EpsilonDeltas, delta: float) -> float:
    """The smallest epsilon >= 0 that holds at delta, for these mechanisms alone: exactly one end of a linear piece."""
    return max(_epsilon(responses, delta) for responses in compose(leaves))


def _epsilon(responses: Responses, delta: float) -> float:
    require(responses.revealed, delta)
    share = responses.conditional_delta(delta)
    if share <= 0:
        return float(responses.losses[-1])
    if responses.profile(0.0) <= share:
        return 0.0
    k = int(np.argmax(responses.profile(responses.losses) <= share))  # between losses k - 1 and k, linear in exp(e)
    value = math.log(max(responses.upper_tail[k] - share, 0.0)) - float(responses.log_lower_tail[k])
    return float(min(max(value, 0.0) * (1 + 1e-14) + responses.rounding, responses.losses[-1]))


def delta(leaves: EpsilonDeltas, epsilon: float | Array) -> Array:
    """The smallest delta that holds at each epsilon >= 0, for these mechanisms alone: at least their own."""
    hidden = 1 - delta_floor(leaves)
    profiles = [(1 + responses.rounding) * responses.profile(epsilon) for responses in compose(leaves)]
    return np.asarray(delta_floor(leaves) + hidden * np.max(profiles, axis=0))


def require(least: float, delta: float) -> None:
    """Raise an AccountingError where delta is below the one that the mechanisms' own proofs leave."""
    if delta < least:
        what = "delta is below that of the mechanism's own proof"
        expected, remedy = f"delta >= {least:g}", "choose a larger delta, or give the mechanism a smaller one"
        raise AccountingError(what, where="accounting", expected=expected, remedy=remedy)


def pessimistic_pld(leaves: EpsilonDeltas, interval: float) -> Any:
    """Their privacy loss distribution on a grid of losses, composed by `dp_accounting`; its delta is an upper bound."""
    # Each answer's mass is split between the two grid values beside its loss so that both distributions of the pair
    # keep theirs (connect the dots, Doroshenko et al., arXiv 2207.04380): a pair that dominates the true one, and is
    # the true one where epsilon is a multiple of the interval.
    total = None
    for leaf, count in leaves:
        directions = (False, True)[: 1 + isinstance(leaf, RandomizedResponseEvent)]
        pmfs = [create_pmf(_cells(leaf, swapped, interval), interval, leaf.delta, True) for swapped in directions]
        distribution = PrivacyLossDistribution(*pmfs)
        composed = distribution.self_compose(count) if count > 1 else distribution
        total = composed if total is None else total.compose(composed)
    return total


def _cells(leaf: EpsilonDeltaEvent | RandomizedResponseEvent, swapped: bool, interval: float) -> dict[int, float]:
    cells: dict[int, float] = {}
    for loss, log_mass in _answers(leaf, swapped):
        left, mass = math.floor(loss / interval), math.exp(log_mass)
        right_mass = mass * min(max(math.expm1(left * interval - loss) / math.expm1(-interval), 0.0), 1.0)
        for cell, part in ((left, mass - right_mass), (left + 1, right_mass)):
            if part > 0:
                cells[cell] = cells.get(cell, 0.0) + (1 - leaf.delta) * part
    return cells


def variance(leaves: EpsilonDeltas) -> float:
    """Variance of the sum of the answers' losses, in the direction in which it is larger."""

    def one(swapped: bool) -> float:
        pairs = [(count, *_answers(leaf, swapped)) for leaf, count in leaves]
        return math.fsum(n * (a[0] - b[0]) ** 2 * math.exp(a[1] + b[1]) for n, a, b in pairs)

    return max(one(False), one(True))


def width(leaves: EpsilonDeltas) -> float:
    """Distance of the largest sum of the answers' losses from the smallest."""
    ends = [(count, *_answers(leaf, False)) for leaf, count in leaves]
    return math.fsum(count * (more[0] - less[0]) for count, more, less in ends)


def grid_interval(leaves: EpsilonDeltas) -> float:
    """A grid for these mechanisms alone: epsilon itself for one kind, which is exact, else fine beside the spread."""
    kinds = {leaf.epsilon for leaf, _ in leaves if leaf.epsilon > 0}
    if len(kinds) <= 1 and all(isinstance(leaf, EpsilonDeltaEvent) for leaf, _ in leaves):
        return float(next(iter(kinds), 1.0))
    steps = sum(count for _, count in leaves)
    fine = min(math.sqrt(1.2e-3 / steps), 1e-4) * math.sqrt(variance(leaves))
    return max(fine, width(leaves) / 2**22)


def mu(leaves: EpsilonDeltas) -> float:
    """The mu for which they compose to no less than mu-GDP at every epsilon; inf unless all of their deltas are 0."""
    # Exact for one: the trade-off curve of randomised response has its corner at p = 1 / (1 + e^epsilon), where the
    # Gaussian's with mu = -2 Phi^-1(p) passes, and a convex curve lies below its chords. Gaussian privacy composes by
    # sqrt(sum mu^2) (Dong, Roth & Su, arXiv 1905.02383, Corollary 3.3). Against a coin the corner is at (p, 1/2) or
    # (1/2, p), where the Gaussian's with half of that mu passes.
    if any(leaf.delta > 0 for leaf, _ in leaves):
        return math.inf
    squares = (
        count * ((1 + isinstance(leaf, EpsilonDeltaEvent)) * float(ndtri(expit(-leaf.epsilon)))) ** 2
        for leaf, count in leaves
    )
    return math.sqrt(math.fsum(squares))


def renyi(leaves: EpsilonDeltas, order: float) -> float:
    """The Renyi divergence of their answers, given that no bit is revealed; that of the whole is inf with a delta."""

    def log_moment(answers: tuple[tuple[float, float], ...]) -> float:
        (low, high) = sorted((order - 1) * loss + log_mass for loss, log_mass in answers)
        return max(high + math.log1p(math.exp(low - high)), 0.0)

    both = ([(count, log_moment(_answers(leaf, swapped))) for leaf, count in leaves] for swapped in (False, True))
    return max(math.fsum(count * moment for count, moment in one) for one in both) / (order - 1)
