"""From noisy masses to a policy: literal numbers, limits without noise and with nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.methods.mobility import moves
from tacit.methods.mobility.moves import Weights, histograms
from tacit.methods.mobility.simulator import StateLayout
from tacit_worlds.city import city

LAYOUT = StateLayout(times=4)
WEIGHTS = Weights()
SCALE = WEIGHTS.of(LAYOUT)


def released(factor: float = 1.0) -> np.ndarray:
    days = city(200, 5, seed=2, preset="geolife").days
    return histograms(days.cells, days.person, 200, LAYOUT).mean(axis=0) * SCALE * factor


def rows_of(mean: np.ndarray) -> np.ndarray:
    masses = (mean / SCALE)[: LAYOUT.size * 5].reshape(-1, 5)
    return np.asarray(masses / masses.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("factor", [1.0, 0.4])
def test_without_noise_the_table_is_the_people_s_own_whatever_the_clip(factor: float) -> None:
    mean = released(factor)
    found = moves.table(*moves.unscale(mean, 0.0, LAYOUT, WEIGHTS), LAYOUT)
    np.testing.assert_allclose(found, rows_of(mean), atol=2e-4)


def test_a_release_that_is_all_noise_has_one_row() -> None:
    rng = np.random.default_rng(0)
    mean = released() + rng.normal(0, 50.0, len(SCALE))
    found = moves.table(*moves.unscale(mean, 50.0, LAYOUT, WEIGHTS), LAYOUT)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_allclose(found, np.broadcast_to(found[0], found.shape), atol=1e-3)


def test_shrinkage_beats_the_raw_rows_under_noise() -> None:
    truth, errors = rows_of(released()), []
    for seed in range(5):
        noisy = released() + np.random.default_rng(seed).normal(0, 0.003, len(SCALE))
        values, sd = moves.unscale(noisy, 0.003, LAYOUT, WEIGHTS)
        raw = np.maximum(values[: truth.size].reshape(-1, 5), 1e-4)
        raw = raw / raw.sum(axis=1, keepdims=True)
        errors.append([np.abs(found - truth).mean() for found in (moves.table(values, sd, LAYOUT), raw)])
    shrunk, plain = np.mean(errors, axis=0)
    assert shrunk < 0.6 * plain


def test_the_gap_to_known_masses_goes_where_the_noise_is() -> None:
    layout = StateLayout(times=1, stays=(1,))
    masses = np.array([[0.2, 0.1, 0.0, 0.0, 0.0], [0.4, 0.1, 0.0, 0.0, 0.0]])
    found = moves.impose_block_masses(masses, np.array([3.0, 1.0, 0.0, 0.0, 0.0]), layout)
    np.testing.assert_allclose(found - masses, np.array([[0.075, 0.025, 0, 0, 0]] * 2))
    assert found.sum() == pytest.approx(1)


def test_one_level_keeps_the_part_of_the_difference_that_is_not_noise() -> None:
    layout = StateLayout(times=1, stays=(1,))  # two buckets: away and at home
    masses = np.array([[0.40, 0.10, 0.0, 0.0, 0.0], [0.20, 0.30, 0.0, 0.0, 0.0]])
    exact = moves.shrink_policy(masses, np.zeros(5), layout)
    np.testing.assert_allclose(exact[:, 0], [0.8, 0.4], atol=1e-3)
    variance = np.array([1e-3, 1e-3, 0.0, 0.0, 0.0])
    # parent (.6, .4); rows are .2 off, their noise is (.16 + .36) * 1e-3 / .25 = .00208 and .00208 in variance
    kept = (0.04 - 0.00208) / 0.04
    found = moves.shrink_policy(masses, variance, layout)
    np.testing.assert_allclose(found[:, 0], 0.6 + kept * np.array([0.2, -0.2]), atol=1e-3)


def test_the_common_factor_is_read_from_all_histograms() -> None:
    mean = released(0.3)
    assert moves.common_factor(*moves.unscale(mean, 1e-3, LAYOUT, WEIGHTS), LAYOUT) == pytest.approx(0.3)
    table_alone = Weights(day=0.0)
    values, sd = moves.unscale(mean[: LAYOUT.size * 5], 1e-3, LAYOUT, table_alone)
    assert moves.common_factor(values, sd, LAYOUT) == pytest.approx(0.3)
