"""A classifier tells tables apart as well as can be told, and equal ones not at all."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.lib.two_samples import ColumnFeatures, two_sample_test
from scipy.stats import norm

from tacit.errors import DataError
from tacit.evaluation.fidelity import independent_columns

Columns = dict[str, np.ndarray]


def table(rows: int, seed: int, *, shift: float = 0.0) -> Columns:
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(rows, 2)).astype(np.float32)
    return {
        "observations": states,
        "actions": rng.integers(3, size=rows),
        "rewards": rng.normal(shift, 1.0, rows).astype(np.float32),
        "next_observations": states + rng.normal(size=(rows, 2)).astype(np.float32),
    }


def test_equal_distributions_are_not_told_apart() -> None:
    found = two_sample_test(table(2_000, 0), table(3_000, 1), steps=100, confidence=0.999)
    assert found.accuracy.low <= 0.5 <= found.accuracy.high
    assert (found.training_rows, found.held_out_rows) == (2_000, 2_000)


def test_a_shift_is_told_as_often_as_can_be() -> None:
    """Unit normals whose means are 2 apart: the best test is right with probability Phi(1) = 0.841."""
    found = two_sample_test(table(8_000, 0), table(8_000, 1, shift=2.0), steps=300, width=16, confidence=0.999)
    assert found.accuracy.low <= norm.cdf(1.0) <= found.accuracy.high + 0.01
    assert found.accuracy.value > 0.82


def test_a_dependence_is_told_although_every_column_is_right() -> None:
    real = table(2_000, 0)
    real["rewards"] = (real["actions"] - 1.0).astype(np.float32)
    found = two_sample_test(real, independent_columns(real, seed=1), steps=200, confidence=0.999)
    assert found.accuracy.low > 0.7  # of three rewards and three actions, a third agrees by chance: 5/6 is best


def test_rows_of_one_trajectory_do_not_give_each_other_away() -> None:
    """Both tables hold trajectories of one distribution; each stays near a place of its own."""
    generator = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 50)
    tables = []
    for seed in (1, 2):
        own = table(2_000, seed)
        own["observations"] = (5 * generator.normal(size=(40, 2))[groups] + 0.01 * own["observations"]).astype(
            np.float32
        )
        tables.append(own)
    leaking = two_sample_test(*tables, steps=400)
    held = two_sample_test(*tables, real_groups=groups, synthetic_groups=groups, steps=400, confidence=0.999)
    assert leaking.accuracy.low > 0.6
    assert held.accuracy.low <= 0.5 <= held.accuracy.high
    assert held.held_out_rows == 40  # a row a trajectory that was held out


def test_the_seed_and_the_number_of_rows_decide() -> None:
    one, again = (two_sample_test(table(300, 0), table(300, 1), steps=20, rows=100, seed=3) for _ in range(2))
    assert one == again
    assert one.held_out_rows == 100


def test_features_are_standard_or_one_hot() -> None:
    fitted = ColumnFeatures.fit({"a": np.array([0, 4], np.float32), "b": np.array([5, 7]), "c": np.ones(2, np.float32)})
    new = {"a": np.array([2, 4, 0], np.float32), "b": np.array([7, 5, 6]), "c": np.full(3, 1.5, np.float32)}
    assert fitted.size == 4
    assert fitted.apply(new).tolist() == [[0.0, 0.5, 0.0, 1.0], [1.0, 0.5, 1.0, 0.0], [-1.0, 0.5, 0.0, 0.0]]
    with pytest.raises(DataError, match="different columns"):
        fitted.apply({"a": new["a"], "b": new["b"]})


def test_tables_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(DataError, match="different columns"):
        two_sample_test(table(50, 0), table(50, 1) | {"actions": np.zeros((50, 1), np.float32)})
    with pytest.raises(DataError, match="too few rows or groups"):
        two_sample_test(table(50, 0), table(19, 1))
    with pytest.raises(DataError, match="too few rows or groups"):
        two_sample_test(table(50, 0), table(50, 1), real_groups=np.arange(50) // 5)
    with pytest.raises(DataError, match="do not fit the rows"):
        two_sample_test(table(50, 0), table(50, 1), real_groups=np.arange(49))
