"""Noisy counts: pooling, totals and the simplex."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tacit.methods.synthesis.baselines.graphical import Measurement, pool_measurements, record_count
from tacit.methods.synthesis.baselines.privsyn import make_consistent
from tacit.methods.synthesis.table_matching import project_to_simplex


def test_repeated_measurements_are_averaged_by_their_precision() -> None:
    first, second = Measurement((0,), np.array([10.0, 20.0]), 1.0), Measurement((0,), np.array([16.0, 20.0]), 2.0)
    (one,) = pool_measurements([first, second])
    np.testing.assert_allclose(one.counts, [11.2, 20.0])
    assert one.deviation == pytest.approx(np.sqrt(0.8))
    assert record_count([first, Measurement((1,), np.full(4, 12.0), 1.0)]) == pytest.approx(
        (30 / 2 + 48 / 4) / (1 / 2 + 1 / 4)
    )
    assert record_count([Measurement((0,), np.array([-5.0]), 1.0)]) == 1.0


@given(arrays(float, st.integers(1, 30), elements=st.floats(-100, 100)), st.floats(0.1, 1_000))
def test_counts_on_the_simplex_are_the_nearest_ones(counts: np.ndarray, total: float) -> None:
    near = project_to_simplex(counts, total)
    assert near.min() >= 0
    assert near.sum() == pytest.approx(total)
    held = near > 0  # optimality: one shift for all that is left, and none that was cut off lay above it
    shift = (counts - near)[held]
    assert np.ptp(shift) < 1e-6
    assert (counts[~held] <= shift.max() + 1e-6).all()


def test_marginals_agree_where_they_meet() -> None:
    rng = np.random.default_rng(1)
    table = rng.multinomial(10_000, rng.dirichlet(np.ones(24))).reshape(4, 3, 2).astype(float)
    exact = {(0, 1): table.sum(2), (1, 2): table.sum(0), (0,): table.sum((1, 2)), (1,): table.sum((0, 2))}
    noise = {(0, 1): 30.0, (1, 2): 5.0, (0,): 5.0, (1,): 5.0}
    noisy = [Measurement(a, v + noise[a] * rng.standard_normal(v.shape), noise[a]) for a, v in exact.items()]
    counts = make_consistent(noisy)
    assert len({round(values.sum(), 6) for values in counts.values()}) == 1
    assert min(values.min() for values in counts.values()) >= 0
    np.testing.assert_allclose(counts[(0, 1)].sum(0), counts[(1, 2)].sum(1), atol=5.0)
    before = sum(np.abs(one.counts.sum(0) - table.sum((0, 2))).sum() for one in noisy[:1])
    after = np.abs(counts[(0, 1)].sum(0) - table.sum((0, 2))).sum()
    assert after < before
