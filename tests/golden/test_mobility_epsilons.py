"""Golden epsilons of noisy rewards: the noise levels of published federated imitation, and concentrated sums."""

from __future__ import annotations

import math

import pytest
from scipy.integrate import quad
from scipy.stats import norm

from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting import quadrature
from tacit.privacy.accounting.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    SelfComposedEvent,
    ZcdpEvent,
)


def rewards(people: int, scale: float, queries: int) -> Event:
    """Queries with Laplace noise of this scale on the mean over people of rewards in an interval of length 1."""
    return SelfComposedEvent(LaplaceEvent(scale * people), queries)


# People, queries a round, rounds, scale on the mean; what the certified epsilon at delta 1e-5 lies between.
LEVELS = [
    (83, 141, 50, 0.01, 3_850, 3_930),
    (83, 141, 50, 0.1, 88, 93),
    (83, 141, 50, 1.0, 4.2, 4.6),
    (83, 64, 50, 0.1, 49.5, 50.5),
    (83, 512, 100, 0.1, 465, 475),
    (9_481, 141, 50, 0.01, 3.75, 3.85),
    (9_481, 141, 50, 0.1, 0.295, 0.305),
    (9_481, 512, 100, 0.01, 12.3, 12.5),
]


@pytest.mark.parametrize(("people", "batch", "rounds", "scale", "low", "high"), LEVELS)
def test_published_noise_levels(people: int, batch: int, rounds: int, scale: float, low: float, high: float) -> None:
    event = rewards(people, scale, batch * rounds)
    bound = accounting.epsilon(event, delta=1e-5, relation="add_or_remove")
    assert low <= bound.check_epsilon * (1 - 1e-3)
    assert bound.epsilon <= high
    assert bound.epsilon < batch * rounds / (scale * people)  # pure composition
    if bound.epsilon < 100:
        profile = accounting.profile(event, "add_or_remove")
        assert dict(profile)[1e-5] == bound.epsilon


def test_a_range_of_one_is_two_clips_of_a_half() -> None:
    """Rewards in [-1/2, 1/2]: replacing a person moves the sum by 1, two clips; the figures are those above."""
    halves = SelfComposedEvent(LaplaceEvent(0.1 * 83 / 0.5), 7_050)
    replaced = accounting.epsilon(halves, delta=1e-5, relation="replace_one").epsilon
    assert replaced == accounting.epsilon(rewards(83, 0.1, 7_050), delta=1e-5, relation="add_or_remove").epsilon


def test_next_to_private_starts() -> None:
    """A Gaussian release of the starts beside them: by integrating the profile of the rewards over its loss."""
    event, mu = rewards(83, 1.0, 7_050), 0.5
    both = accounting.epsilon(
        ComposedEvent([event, GaussianEvent(1 / mu)]), delta=1e-5, relation="add_or_remove"
    ).epsilon
    (grid,) = quadrature.estimate(((LaplaceEvent(83.0), 7_050),), "add_or_remove")

    def beside(loss: float) -> float:
        return float(grid.profile(both - loss)) * float(norm.pdf(loss, mu**2 / 2, mu))

    assert quad(beside, -5, 7, epsabs=1e-9, limit=200)[0] == pytest.approx(1e-5, rel=0.02)


# rho, delta, epsilon of the optimal conversion, by minimising over orders to 30 digits; and of the Gaussian.
CURVES = [(0.1, 1e-5, 1.91424, 1.76006), (0.5, 1e-5, 4.72839, 4.37718), (2.0, 1e-5, 10.72482, 9.99726)]


@pytest.mark.parametrize(("rho", "delta", "epsilon", "gaussian"), CURVES)
def test_concentrated_sums(rho: float, delta: float, epsilon: float, gaussian: float) -> None:
    found = accounting.epsilon(ZcdpEvent(rho), delta=delta, relation="add_or_remove")
    assert found.epsilon == pytest.approx(epsilon, abs=2e-5)
    assert found.check_epsilon == pytest.approx(epsilon, abs=2e-5)
    exact = accounting.epsilon(GaussianEvent(1 / math.sqrt(2 * rho)), delta=delta, relation="add_or_remove")
    assert exact.check_epsilon == pytest.approx(gaussian, abs=1e-5)
    assert exact.epsilon < found.epsilon
