"""Golden epsilons: closed forms, published values and a table of sigmas computed by another implementation."""

from __future__ import annotations

import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant

from tacit.privacy import accounting


def dp_sgd(rate: float, sigma: float, steps: int) -> dp_event.DpEvent:
    step = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(sigma))
    return dp_event.SelfComposedDpEvent(step, steps)


def test_one_gaussian() -> None:
    """sigma = 1, delta = 1e-5 (Balle & Wang, 2018): 4.3772."""
    bound = accounting.epsilon(dp_event.GaussianDpEvent(1.0), delta=1e-5, relation="add_or_remove")
    assert round(bound.epsilon, 4) == round(bound.check_epsilon, 4) == 4.3772


def test_ten_thousand_steps() -> None:
    """q = 0.01, sigma = 1, T = 10,000, delta = 1e-5: PLD 6.188 to 6.191, Renyi 6.713."""
    event = dp_sgd(0.01, 1.0, 10_000)
    assert 6.188 <= accounting.epsilon(event, delta=1e-5, relation="add_or_remove").epsilon <= 6.191
    assert RdpAccountant().compose(event).get_epsilon(1e-5) == pytest.approx(6.713, abs=5e-4)


# Batch 128, 5 epochs, delta 1e-6: population, steps, sigma for epsilon 10, sigma for epsilon 1.
PRIVORL = {
    "umaze": (800_000, 31_250, 0.372, 0.610),
    "medium": (1_600_000, 62_500, 0.356, 0.573),
    "large": (3_200_000, 125_000, 0.343, 0.540),
    "kitchen": (109_560, 4_279, 0.429, 0.765),
    "halfcheetah": (161_600, 6_312, 0.416, 0.726),
}


@pytest.mark.parametrize(("population", "steps", "at_ten", "at_one"), PRIVORL.values(), ids=PRIVORL.keys())
def test_sigmas_of_privorl(population: int, steps: int, at_ten: float, at_one: float) -> None:
    """The sigma at which the target is met lies within 0.3 % of the table's, that is within its rounding."""
    for target, sigma in ((10.0, at_ten), (1.0, at_one)):
        certified = [
            accounting.epsilon(dp_sgd(128 / population, s, steps), delta=1e-6, relation="add_or_remove").epsilon
            for s in (sigma * 0.997, sigma * 1.003)
        ]
        assert certified[1] <= target <= certified[0]


# Population, batch, steps, delta, then (epsilon, sigma).
TIERS = [
    (80_000, 1_024, 1_000, 1e-6, ((1, 1.91), (3, 0.96), (10, 0.61))),
    (80_000, 4_096, 500, 1e-6, ((1, 4.97), (3, 1.97), (10, 0.93))),
    (800_000, 4_096, 2_000, 1e-7, ((1, 1.32), (3, 0.80), (10, 0.55))),
    (9_968, 256, 1_000, 1e-5, ((1, 3.17), (3, 1.36), (10, 0.75))),
    (800, 64, 500, 1e-4, ((1, 5.80), (3, 2.34), (10, 1.06))),
]


@pytest.mark.parametrize(("population", "batch", "steps", "delta", "rows"), TIERS)
def test_sigmas_of_the_cpu_tiers(
    population: int, batch: int, steps: int, delta: float, rows: tuple[tuple[float, float], ...]
) -> None:
    for target, sigma in rows:
        found = accounting.calibrate(
            lambda s: dp_sgd(batch / population, s, steps), epsilon=target, delta=delta, relation="add_or_remove"
        )
        assert found == pytest.approx(sigma, rel=8e-3)
