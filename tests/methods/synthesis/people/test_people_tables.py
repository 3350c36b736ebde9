"""Laws from noisy tables, densities from noisy histograms: closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from tacit.methods.synthesis.laws import draw, estimate_laws, forget_tail, forget_unseen
from tacit.methods.synthesis.people.densities import Cut, Density, Normal, fine_grid, quantile_cut


def test_without_noise_a_law_is_its_table() -> None:
    table = np.array([[30.0, 10], [5, 15], [0, 40]])
    for ordinal in (True, False):
        laws = estimate_laws(table.ravel(), [3], 1e-9, [ordinal])
        np.testing.assert_allclose(laws, [[0.75, 0.25], [0.25, 0.75], [0, 1]], atol=1e-6)
    np.testing.assert_allclose(
        estimate_laws(np.array([3.0, 1, 0, 4]), [], 1e-9, []), [[0.375, 0.125, 0, 0.5]], atol=1e-6
    )


def test_cells_that_the_noise_hides_are_like_their_neighbours() -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat([[0.9, 0.1], [0.2, 0.8]], 8, axis=0)  # 16 ordered parents, of two kinds
    noisy = 200 * truth + rng.normal(0, 40, truth.shape)
    laws = estimate_laws(noisy.ravel(), [16], 40.0, [True])
    positive = np.clip(noisy, 1e-9, None)
    alone = positive / positive.sum(axis=1, keepdims=True)
    assert np.abs(laws - truth).mean() < 0.5 * np.abs(alone - truth).mean()
    np.testing.assert_allclose(laws.sum(axis=1), 1)
    assert (laws >= 0).all()


def test_nothing_but_noise_is_an_even_law() -> None:
    laws = estimate_laws(np.full(12, -1.0), [3], 100.0, [True])
    np.testing.assert_allclose(laws, 0.25)


def test_values_that_nobody_has_are_forgotten() -> None:
    table = np.array([[100.0, 3, 60], [80, -2, 70]])
    kept = forget_unseen(table.ravel(), 3, 2.0).reshape(2, 3)
    assert kept[:, [0, 2]].tolist() == table[:, [0, 2]].tolist()
    assert (kept[:, 1] <= -6).all()
    assert estimate_laws(kept.ravel(), [2], 2.0, [True])[:, 1].max() < 1e-3


def test_where_nobody_and_no_noise_is_a_law_is_its_neighbours() -> None:
    laws = estimate_laws(np.array([3.0, 1, 0, 0]), [2], 0.0, [True])
    np.testing.assert_allclose(laws, [[0.75, 0.25], [0.75, 0.25]], atol=1e-9)


def test_a_tail_that_noise_explains_holds_nobody() -> None:
    table = np.array([90.0, 40, 30, -4, 5, 4, -3, 2])
    assert forget_tail(table, 4.0).tolist() == [90, 40, 30, 0, 0, 0, 0, 0]
    assert forget_tail(table, 0.5).tolist() == table.tolist()
    assert forget_tail(np.array([0.0, 0, 0, 40]), 5.0).tolist() == [0, 0, 0, 40]
    assert forget_tail(np.array([-9.0, 3, 2]), 5.0).tolist() == [-9, 0, 0]
    noise = np.random.default_rng(0).normal(0, 7, (400, 64))
    noise[:, 4] += 537  # all have five visits: the noise adds a tail to few
    longest = np.array([np.flatnonzero(forget_tail(one, 7.0)).max() for one in noise])
    assert (longest > 4).mean() < 0.1


def test_draws_follow_the_law_of_their_cell() -> None:
    laws = np.array([[0.2, 0.8], [1.0, 0.0]])
    values = draw(laws, np.repeat([0, 1], [10_000, 100]), np.random.default_rng(0))
    assert abs(values[:10_000].mean() - 0.8) < 0.02
    assert values[10_000:].max() == 0


@pytest.mark.parametrize("whole", [False, True])
def test_a_density_without_noise_has_the_histogram_s_quantiles(whole: bool) -> None:
    values = np.random.default_rng(0).normal(80, 10, 100_000)
    values = np.rint(values) if whole else values
    edges = fine_grid(0, 200, whole=whole)
    density = Density.of(edges, np.histogram(values, edges)[0].astype(float), 0.0)
    np.testing.assert_allclose(density.quantiles(4), np.quantile(values, [0.25, 0.5, 0.75]), atol=0.7)
    inside = density.draw_between(np.full(1000, 70.0), np.full(1000, 90.0), np.random.default_rng(1).random(1000))
    assert ((inside >= 70) & (inside <= 90)).all()
    assert abs(inside.mean() - 80) < 1


def test_a_density_of_noise_alone_is_even() -> None:
    noise = np.random.default_rng(0).normal(0, 10, 64)
    density = Density.of(np.linspace(0, 64, 65), noise, 10.0)
    assert np.diff(density.cumulative).min() >= 0
    assert (density.cumulative[0], round(density.cumulative[-1], 9)) == (0, 1)


def test_ends_that_noise_explains_hold_nobody_and_a_true_tail_stays() -> None:
    edges = np.arange(20.0)
    counts = np.array([2.0, -1, 5, 2, -2, 1, 1200, 400, 200, 100, 50, 20, 6, -3, 2, 4, -1, 7, -2])
    shares = np.diff(Density.within_reach(edges, counts, 2.0).cumulative)
    assert shares[[0, 1, 2, 15, 16, 17, 18]].tolist() == [0] * 7  # four cells beyond those that noise does not explain
    assert shares[6:12] == pytest.approx(np.array([1200, 400, 200, 100, 50, 20]) / 1976, abs=5e-3)
    counts[17] = 40.0  # more than noise: some have that value
    assert np.diff(Density.within_reach(edges, counts, 2.0).cumulative)[17] == pytest.approx(40 / 2012, abs=2e-3)
    alone = Density.within_reach(edges, np.append(300.0, 0 * counts[1:]), 2.0)
    assert alone.cumulative[4:] == (1.0,) * 16
    assert Density.within_reach(edges, 0 * counts, 2.0) == Density.of(edges, 0 * counts, 2.0)


def test_noise_seldom_gives_anybody_a_value_that_nobody_is_near() -> None:
    edges = np.linspace(-5, 11, 201)
    clean = 20_000 * np.diff(ndtr(edges))
    noisy = clean + np.random.default_rng(0).normal(0, 17, (200, 200))
    within, without = (
        np.array([np.interp(0.99, density(edges, one, 17.0).cumulative, edges) for one in noisy])
        for density in (Density.within_reach, Density.of)
    )
    assert (within > 3.5).mean() < 0.04
    assert (without > 3.5).mean() > 0.1
    assert np.median(within) == pytest.approx(2.33, abs=0.06)
    plateau = np.append(19_000.0, np.full(100, 10.0))  # each cell drowns in noise, and all together do not
    wide = Density.within_reach(np.arange(102.0), plateau + noisy[0, :101] - clean[:101], 17.0)
    assert wide.cumulative[51] == pytest.approx(19_500 / 20_000, abs=0.015)
    exact = [density(edges, clean, 0.0).quantiles(4) for density in (Density.within_reach, Density.of)]
    assert exact[0] == pytest.approx(exact[1])


def test_codes_are_bins_and_atoms() -> None:
    even = Density((0.0, 1.0, 2.0, 3.0, 4.0), (0.0, 0.25, 0.5, 0.75, 1.0))
    cut = quantile_cut(even, 4, atom=0.0)
    assert cut.edges == pytest.approx((0, 1, 2, 3, 4))
    assert cut.size == 5
    assert cut.encode(np.array([0.0, 0.5, 3.9, 9.0, -1.0])).tolist() == [4, 0, 3, 3, 0]
    drawn = cut.draw(np.array([4, 4, 1]), np.random.default_rng(0))
    assert drawn[:2].tolist() == [0, 0]
    assert 1 <= drawn[2] <= 2
    residual = Cut((-1.0, 0.0, 1.0), Normal(0.5))
    values = residual.draw(np.repeat([0, 1], 500), np.random.default_rng(0))
    assert values[:500].max() <= 0 <= values[500:].min()
