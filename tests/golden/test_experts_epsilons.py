"""Golden figures of expert-level privacy: prefixes composed, both stages together, and Kairouz, Oh & Viswanath."""

from __future__ import annotations

import math

import pytest
from scipy.optimize import brentq

from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting.events import (
    ComposedEvent,
    EpsilonDeltaEvent,
    Event,
    GaussianEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
)

M = 3_000

# epsilon of the release, n_r, and the epsilon of one trajectory by basic composition and by the optimal one,
# at delta 1 / (2 m), half of it for the trajectories' own deltas.
TRAJECTORIES = [
    (5.0, 25, 0.200, 0.265),
    (5.0, 100, 0.050, 0.126),
    (10.0, 25, 0.400, 0.478),
    (7.5, 20, 0.375, 0.423),
    (1.0, 5, 0.200, 0.2003),
]


def prefixes(count: int, epsilon: float) -> Event:
    return SelfComposedEvent(EpsilonDeltaEvent(epsilon, 1 / (4 * M * count)), count)


@pytest.mark.parametrize(("total", "count", "basic", "optimal"), TRAJECTORIES)
def test_epsilon_of_one_trajectory(total: float, count: int, basic: float, optimal: float) -> None:
    delta = 1 / (2 * M)

    def excess(epsilon: float) -> float:
        event = prefixes(count, epsilon)
        return accounting.epsilon(event, delta=delta, relation="add_or_remove").epsilon - total

    found = brentq(excess, basic, 2.6 * basic, xtol=1e-6)
    assert found == pytest.approx(optimal, abs=6e-4)
    slack = delta / 2
    advanced = math.sqrt(2 * count * math.log(1 / slack)) * basic + count * basic * math.expm1(basic)
    assert (advanced > total) == (count <= 25)  # advanced composition is worse than basic for so few
    assert accounting.epsilon(prefixes(count, basic), delta=delta, relation="add_or_remove").epsilon <= total


def test_25_prefixes_and_dp_sgd_together() -> None:
    """25 releases at 4.98 and 22,000 steps at sigma 10 for 4.90 make 7.36 at delta 1 / 3,000, not 9.9."""
    release = prefixes(25, 0.264)
    step = PoissonSampledEvent(256 / M, GaussianEvent(10.0))
    training = SelfComposedEvent(step, 22_000)
    alone = [accounting.epsilon(e, delta=1 / (2 * M), relation="add_or_remove") for e in (release, training)]
    assert [bound.epsilon for bound in alone] == pytest.approx([4.98, 4.90], abs=1.5e-2)
    both = accounting.epsilon(ComposedEvent([release, training]), delta=1 / M, relation="add_or_remove")
    assert both.epsilon == pytest.approx(7.36, abs=5e-3)
    assert both.check_epsilon == pytest.approx(both.epsilon, rel=1e-3)


@pytest.mark.parametrize(("k", "epsilon", "i"), [(10, 0.1, 2), (25, 0.264, 5), (100, 0.05, 20)])
def test_the_optimal_composition_in_closed_form(k: int, epsilon: float, i: int) -> None:
    """Kairouz, Oh & Viswanath (arXiv 1311.0776), Theorem 3.3, by exact binomials."""
    target = (k - 2 * i) * epsilon
    tilde = 1e-7
    excess = (
        math.fsum(
            math.comb(k, j) * (math.exp((k - j) * epsilon) - math.exp((k - 2 * i + j) * epsilon)) for j in range(i)
        )
        / (1 + math.exp(epsilon)) ** k
    )
    exact = 1 - (1 - tilde) ** k * (1 - excess)
    event = SelfComposedEvent(EpsilonDeltaEvent(epsilon, tilde), k)
    assert accounting.delta(event, epsilon=target, relation="add_or_remove") == pytest.approx(exact, rel=1e-8)
    bound = accounting.epsilon(event, delta=exact, relation="add_or_remove")
    assert (bound.epsilon, bound.check_epsilon) == pytest.approx((target, target), abs=1e-4)
