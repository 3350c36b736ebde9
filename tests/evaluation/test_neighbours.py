"""Nearest records: a generator that copies is seen, and one that learnt the distribution is not accused."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import DataError
from tacit.evaluation.neighbours import nearest_records

Columns = dict[str, np.ndarray]


def table(rows: int, seed: int, discrete: bool = False) -> Columns:
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(rows, 2)).astype(np.float32)
    return {
        "observations": states,
        "actions": rng.integers(3, size=rows) if discrete else rng.normal(size=(rows, 1)).astype(np.float32),
        "rewards": rng.normal(size=rows).astype(np.float32),
        "next_observations": states + 0.01 * rng.normal(size=(rows, 2)).astype(np.float32),
    }


@pytest.mark.parametrize("discrete", [False, True])
def test_fresh_rows_of_the_same_distribution_are_nearer_to_neither(discrete: bool) -> None:
    found = nearest_records(table(1_000, 0, discrete), table(3_000, 1, discrete), table(2_000, 2, discrete))
    assert found.nearer_share.low <= 0.5 <= found.nearer_share.high
    assert found.copies == 0
    assert len(found.to_train) == len(found.to_holdout) == 1_000


def test_copies_are_counted_and_draw_the_share() -> None:
    train, synthetic = table(2_000, 1), table(1_000, 0)
    for name, column in synthetic.items():
        column[:300] = train[name][:300]
    found = nearest_records(synthetic, train, table(2_000, 2))
    assert found.copies == 300
    assert found.nearer_share.low > 0.55
    assert (found.to_train == 0).sum() == 300


def test_units_of_columns_do_not_matter_but_steps_do() -> None:
    """In millimetres as in metres; and a wrong step is far away although both states are common."""
    one, other = table(500, 0), table(500, 1)
    plain = nearest_records(one, other, table(500, 2))
    tables = [table(500, seed) for seed in (0, 1, 2)]
    for each in tables:
        each["rewards"] *= 1_000
    np.testing.assert_allclose(nearest_records(*tables).to_train, plain.to_train, rtol=1e-4)
    jumping = {**one, "next_observations": one["next_observations"] + np.float32(0.2)}
    assert np.median(nearest_records(jumping, other, table(500, 2)).to_train) > 5 * np.median(plain.to_train)


def test_a_constant_column_and_equal_tables_do_no_harm() -> None:
    tables = [{**table(200, seed), "rewards": np.zeros(200, np.float32)} for seed in (0, 1)]
    found = nearest_records(tables[0], tables[1], tables[1])
    assert found.nearer_share.value == 0.5
    assert np.isfinite(found.to_train).all()


def test_rows_are_drawn_and_other_columns_refused() -> None:
    assert len(nearest_records(table(300, 0), table(300, 1), table(300, 2), rows=50).to_train) == 50
    with pytest.raises(DataError, match="different columns"):
        nearest_records(table(10, 0, discrete=True) | {"actions": np.zeros((10, 2))}, table(10, 1), table(10, 2))
