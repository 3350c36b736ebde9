"""Mechanisms of which only (epsilon, delta) is known, and their composition: closed forms, and a pessimistic grid.

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
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from numpy.typing import NDArray
from scipy.special import expit, gammaln, log_expit, ndtri

from tacit.errors import AccountingError
from tacit.privacy.accounting.events import EpsilonDeltaEvent, Leaves

Array = NDArray[np.float64]

MAX_ATOMS = 2**16
EpsilonDeltas = tuple[tuple[EpsilonDeltaEvent, int], ...]


@dataclass(frozen=True)
class Responses:
    """The losses of composed randomised responses under the distribution that is sampled from."""

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


def epsilon_delta_leaves(leaves: Leaves) -> EpsilonDeltas:
    """The mechanisms with a proof of their own."""
    return tuple((leaf, count) for leaf, count in leaves if isinstance(leaf, EpsilonDeltaEvent))


def split(leaves: Leaves) -> tuple[EpsilonDeltas, Leaves]:
    """(the mechanisms with a proof of their own, the others)."""
    return epsilon_delta_leaves(leaves), tuple(item for item in leaves if not isinstance(item[0], EpsilonDeltaEvent))


@lru_cache(maxsize=64)
def compose(leaves: EpsilonDeltas) -> Responses:
    """The composition of mechanisms with (epsilon, delta) proofs of their own; that of none has the loss 0."""
    steps: dict[float, int] = {}
    for leaf, count in leaves:
        if leaf.epsilon > 0:
            steps[leaf.epsilon] = steps.get(leaf.epsilon, 0) + count
    if math.prod(count + 1 for count in steps.values()) > MAX_ATOMS:
        what = "too many mechanisms with proofs of their own are composed"
        expected = f"at most {MAX_ATOMS:,} different sums of their losses"
        remedy = "give them fewer steps or fewer different epsilons"
        raise AccountingError(what, where="accounting", expected=expected, remedy=remedy)
    losses, logs = np.zeros(1), np.zeros(1)
    for epsilon, count in steps.items():
        true = np.arange(count + 1, dtype=np.float64)
        ways = gammaln(count + 1) - gammaln(true + 1) - gammaln(count - true + 1)
        log_masses = ways + true * log_expit(epsilon) + (count - true) * log_expit(-epsilon)
        losses = np.add.outer(losses, (2 * true - count) * epsilon).ravel()
        logs = np.add.outer(logs, log_masses).ravel()
    order = np.argsort(losses, kind="stable")
    losses, logs = losses[order], logs[order]
    masses = np.exp(logs)
    above = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
    log_below = np.append(np.logaddexp.accumulate((logs - losses)[::-1])[::-1], -np.inf)
    rounding = 1e-14 * sum(count for _, count in leaves)
    return Responses(_delta_floor(leaves), losses, masses, above, log_below, rounding)


def delta_floor(leaves: Leaves) -> float:
    """r, below which nothing is promised; 0 where no mechanism has a proof of its own with a delta."""
    return _delta_floor(epsilon_delta_leaves(leaves))


def _delta_floor(leaves: EpsilonDeltas) -> float:
    if len(leaves) == 1 and leaves[0][1] == 1:
        return float(leaves[0][0].delta)
    return -math.expm1(math.fsum(count * math.log1p(-leaf.delta) for leaf, count in leaves))


def epsilon(leaves: EpsilonDeltas, delta: float) -> float:
    """The smallest epsilon >= 0 that holds at delta, for these mechanisms alone: exactly one end of a linear piece."""
    responses = compose(leaves)
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
    responses = compose(leaves)
    hidden = 1 - responses.revealed
    return np.asarray(responses.revealed + hidden * (1 + responses.rounding) * responses.profile(epsilon))


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
        cells: dict[int, float] = {}
        for loss, mass in ((leaf.epsilon, expit(leaf.epsilon)), (-leaf.epsilon, expit(-leaf.epsilon))):
            left = math.floor(loss / interval)
            right_mass = mass * min(max(math.expm1(left * interval - loss) / math.expm1(-interval), 0.0), 1.0)
            for cell, part in ((left, mass - right_mass), (left + 1, right_mass)):
                if part > 0:
                    cells[cell] = cells.get(cell, 0.0) + (1 - leaf.delta) * part
        distribution = PrivacyLossDistribution.create_from_rounded_probability(cells, leaf.delta, interval)
        composed = distribution.self_compose(count) if count > 1 else distribution
        total = composed if total is None else total.compose(composed)
    return total


def variance(leaves: EpsilonDeltas) -> float:
    """Variance of the sum of the answers' losses."""
    return float(
        sum(count * 4 * leaf.epsilon**2 * expit(leaf.epsilon) * expit(-leaf.epsilon) for leaf, count in leaves)
    )


def width(leaves: EpsilonDeltas) -> float:
    """Distance of the largest sum of the answers' losses from the smallest."""
    return math.fsum(2 * count * leaf.epsilon for leaf, count in leaves)


def grid_interval(leaves: EpsilonDeltas) -> float:
    """A grid for these mechanisms alone: epsilon itself for one kind, which is exact, else fine beside the spread."""
    kinds = {leaf.epsilon for leaf, _ in leaves if leaf.epsilon > 0}
    if len(kinds) <= 1:
        return float(next(iter(kinds), 1.0))
    steps = sum(count for _, count in leaves)
    fine = min(math.sqrt(1.2e-3 / steps), 1e-4) * math.sqrt(variance(leaves))
    return max(fine, width(leaves) / 2**22)


def mu(leaves: EpsilonDeltas) -> float:
    """The mu for which they compose to no less than mu-GDP at every epsilon; inf unless all of their deltas are 0."""
    # Exact for one: the trade-off curve of randomised response has its corner at p = 1 / (1 + e^epsilon), where the
    # Gaussian's with mu = -2 Phi^-1(p) passes, and a convex curve lies below its chords. Gaussian privacy composes by
    # sqrt(sum mu^2) (Dong, Roth & Su, arXiv 1905.02383, Corollary 3.3).
    if any(leaf.delta > 0 for leaf, _ in leaves):
        return math.inf
    return 2 * math.sqrt(math.fsum(count * float(ndtri(expit(-leaf.epsilon))) ** 2 for leaf, count in leaves))


def renyi(leaves: EpsilonDeltas, order: float) -> float:
    """The Renyi divergence of their answers, given that no bit is revealed; that of the whole is inf with a delta."""
    total = 0.0
    for leaf, count in leaves:
        yes, no = float(log_expit(leaf.epsilon)), float(log_expit(-leaf.epsilon))
        log_moment = np.logaddexp(order * yes + (1 - order) * no, order * no + (1 - order) * yes)
        total += count * max(float(log_moment), 0.0) / (order - 1)
    return total
