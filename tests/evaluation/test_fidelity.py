"""Fidelity against closed forms, scipy and numpy's own correlation."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from tacit.data import Column, PublicSpec
from tacit.data.spec import space_of
from tacit.errors import DataError
from tacit.evaluation.fidelity import (
    ceiling,
    correlations,
    fidelity,
    independent_columns,
    kolmogorov_smirnov,
    total_variation,
    uniform_table,
)
from tacit.evaluation.report.charts import category_chart
from tacit.evaluation.report.tables import _bins, _labels, _names


def table(rows: int, *, seed: int, shift: float = 0.0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    state = generator.normal(shift, 1.0, size=(rows, 2))
    action = generator.uniform(-1, 1, size=(rows, 1))
    columns = {
        "observations": state,
        "actions": action,
        "rewards": np.exp(-np.abs(state[:, 0])),
        "next_observations": state + 0.1 * action,
    }
    return {name: values.astype(np.float32) for name, values in columns.items()}


samples = hnp.arrays(
    np.float32, st.integers(2, 30), elements=st.sampled_from([-2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0])
)  # few values: many ties


@given(samples, samples)
def test_ks_equals_scipy_with_ties(a: np.ndarray, b: np.ndarray) -> None:
    expected = stats.ks_2samp(a, b, method="asymp").statistic
    assert kolmogorov_smirnov(a, b) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("n", "m", "shift"), [(1000, 777, 0.0), (50, 5000, 0.3), (2000, 2000, 9.0)])
def test_ks_equals_scipy_on_continuous_samples(n: int, m: int, shift: float) -> None:
    generator = np.random.default_rng(n)
    a = generator.normal(size=n).astype(np.float32)
    b = generator.normal(shift, 1.3, size=m).astype(np.float32)
    expected = stats.ks_2samp(a, b, method="asymp").statistic
    assert kolmogorov_smirnov(a, b) == pytest.approx(expected, abs=1e-12)
    assert kolmogorov_smirnov(a, b) == kolmogorov_smirnov(b, a)


def test_ks_of_literals() -> None:
    one = np.array([1, 2, 3, 4], dtype=np.float32)
    assert kolmogorov_smirnov(one, one) == 0.0
    assert kolmogorov_smirnov(one, one + 10) == 1.0
    assert kolmogorov_smirnov(one, np.array([2, 2], dtype=np.float32)) == 0.5  # F jumps 0 -> 1 at 2, from .25 to .5
    assert kolmogorov_smirnov(one, np.array([2.5], dtype=np.float32)) == 0.5


def test_total_variation_of_literals() -> None:
    assert total_variation(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])) == 0.25
    assert total_variation(np.array([0, 0]), np.array([7])) == 1.0


def test_fidelity_is_the_mean_of_its_parts() -> None:
    real, synthetic = table(500, seed=0), table(300, seed=1, shift=0.4)
    result = fidelity(real, synthetic)
    assert result.columns == (
        "observations[0]",
        "observations[1]",
        "actions[0]",
        "rewards",
        "next_observations[0]",
        "next_observations[1]",
    )
    a = np.column_stack([real[f].reshape(500, -1) for f in real])
    b = np.column_stack([synthetic[f].reshape(300, -1) for f in real])
    ks = [stats.ks_2samp(a[:, i], b[:, i], method="asymp").statistic for i in range(6)]
    assert result.marginal == pytest.approx(1 - np.mean(ks))
    assert result.marginals == pytest.approx([1 - k for k in ks])
    r, s = np.corrcoef(a, rowvar=False), np.corrcoef(b, rowvar=False)
    pairs = [1 - abs(r[i, j] - s[i, j]) / 2 for i in range(6) for j in range(i)]
    assert result.correlation == pytest.approx(np.mean(pairs), abs=1e-6)
    np.testing.assert_allclose(result.real, r, atol=1e-5)


def test_a_table_against_itself_is_perfect() -> None:
    real = table(50, seed=0)
    result = fidelity(real, real)
    assert (result.marginal, result.correlation) == (1.0, 1.0)


def test_columns_constant_in_the_real_table_are_dropped_from_correlation() -> None:
    real, synthetic = table(200, seed=0), table(200, seed=1)
    real["actions"] = np.ones((200, 1), dtype=np.float32)
    result = fidelity(real, synthetic)
    assert "actions[0]" not in result.paired_columns
    assert len(result.paired_columns) == 5
    assert np.isfinite(result.correlation)


def test_a_column_collapsed_in_the_synthetic_table_counts_as_uncorrelated() -> None:
    real = table(400, seed=0)
    collapsed = {**real, "rewards": np.full(400, 0.5, dtype=np.float32)}
    result = fidelity(real, collapsed)
    at = result.paired_columns.index("rewards")
    others = [i for i in range(len(result.paired_columns)) if i != at]
    lost = sum(abs(result.real[at, i]) / 2 for i in others)
    assert result.correlation == pytest.approx(1 - lost / 15)
    assert result.correlation < 1.0


def test_discrete_columns_use_total_variation_and_leave_correlation_alone() -> None:
    real, synthetic = table(4, seed=0), table(4, seed=1)
    real["actions"], synthetic["actions"] = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    result = fidelity(real, synthetic)
    assert result.marginals[result.columns.index("actions")] == 0.75
    assert "actions" not in result.paired_columns


def test_a_wholly_discrete_table_has_no_correlation() -> None:
    codes = np.array([0, 1, 2, 0])
    rows = {"observations": codes, "actions": codes, "rewards": np.zeros(4), "next_observations": codes}
    result = fidelity(rows, rows)
    assert result.marginal == 1.0
    assert np.isnan(result.correlation)


def test_the_ceiling_splits_into_disjoint_halves() -> None:
    distinct = {
        name: np.arange(9.0).reshape(9, -1) if name != "rewards" else np.arange(9.0)
        for name in ("observations", "actions", "rewards", "next_observations")
    }
    assert ceiling(distinct, seed=3).marginal < 1.0  # disjoint halves of distinct values always differ
    large = ceiling(table(40_000, seed=0), seed=0)
    assert 0.985 < large.marginal < 1.0
    assert large.correlation > 0.99
    assert ceiling(table(1000, seed=0), seed=5).marginal == ceiling(table(1000, seed=0), seed=5).marginal


def test_independent_columns_keep_marginals_and_lose_correlation() -> None:
    real = table(5000, seed=0)
    result = fidelity(real, independent_columns(real, seed=0))
    assert result.marginal == 1.0
    assert result.correlation < 0.95
    off = result.synthetic[~np.eye(len(result.paired_columns), dtype=bool)]
    assert np.abs(off).max() < 0.06


@pytest.mark.parametrize("scale", [1e-30, 1e25])
def test_correlation_survives_extreme_units(scale: float) -> None:
    x = np.array([0.0, 1.0, 2.0, 4.0])
    r = correlations([(x * scale).astype(np.float32), x])
    assert r[0, 1] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rewards": np.array([0.0, np.nan], dtype=np.float32)}, "NaN or infinity"),
        ({"rewards": np.zeros(3, dtype=np.float32)}, "wrong shape"),
        ({"observations": np.zeros((0, 2))}, "wrong shape"),
        ({"observations": np.zeros((2, 3))}, "different columns"),
        ({"actions": np.zeros(2, dtype=np.int64)}, "different columns"),
    ],
)
def test_bad_tables_are_refused(change: dict[str, np.ndarray], words: str) -> None:
    with pytest.raises(DataError, match=words):
        fidelity(table(2, seed=0), {**table(2, seed=0), **change})
    missing = table(2, seed=0)
    del missing["actions"]
    with pytest.raises(DataError, match="'actions' is missing"):
        fidelity(missing, table(2, seed=0))
    with pytest.raises(DataError, match="fewer than two rows"):
        ceiling(table(1, seed=0), seed=0)


def test_a_million_rows_take_seconds() -> None:
    real, synthetic = table(1_000_000, seed=0), table(1_000_000, seed=1)
    start = time.process_time()
    fidelity(real, synthetic)
    assert time.process_time() - start < 10.0


def test_declared_columns_are_named_and_categories_are_compared_as_such() -> None:
    ward = Column("ward", "category", labels=("north", "east", "south"))
    spec = PublicSpec(
        observation=space_of(Column("age", "integer", 18, 95), ward),
        action=space_of(Column("drug", "category", labels=("a", "b"))),
        reward=space_of(Column("score", low=0, high=1)),
        source="declared",
    )
    rows = {
        "observations": np.array([[20, 0], [30, 0], [40, 2], [50, 2]], np.float32),
        "actions": np.array([0, 1, 1, 1]),
        "rewards": np.array([0, 0.5, 0.5, 1], np.float32),
        "next_observations": np.array([[20, 0], [30, 0], [40, 2], [50, 2]], np.float32),
    }
    other = rows | {"observations": np.array([[20, 0], [30, 1], [40, 1], [50, 2]], np.float32)}
    found = fidelity(rows, other, spec=spec)
    assert found.columns == ("age", "ward", "drug", "score", "next_age", "next_ward")
    assert found.marginals == (1.0, 0.5, 1.0, 1.0, 1.0, 1.0)  # half of the wards changed: total variation .5
    assert found.paired_columns == ("age", "score", "next_age")
    drawn = uniform_table(spec, rows=2_000, seed=0)["observations"]
    assert set(drawn[:, 1].tolist()) == {0.0, 1.0, 2.0}
    assert (drawn[:, 0].min(), drawn[:, 0].max()) == (18, 95)
    assert _names(spec)[1] == ("ward", "")
    assert _labels(spec) == [(), ("north", "east", "south"), ("a", "b"), (), (), ("north", "east", "south")]
    assert all(
        f">{label}<" in category_chart(labels, None, np.ones(3), title="t", x_label="rows, %")
        for labels in _labels(spec)[1:2]
        for label in labels
    )
    observation = [((17.5, 95.5), 39), ((-0.5, 2.5), 3)]
    assert _bins(spec) == [*observation, ((-0.5, 1.5), 2), ((0.0, 1.0), 40), *observation]
