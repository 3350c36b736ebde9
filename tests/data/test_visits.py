"""Visits of a deployment become rows; nothing of a person shows in an error or in print."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.visits import Visit, visit_rows
from tacit.errors import DataError

PUMP = PublicSpec(Box((0.0, 0.0), (9.0, 9.0)), Box((0.0,), (5.0,)), Box((-1.0,), (1.0,)), "declared")
QUIZ = PublicSpec(Discrete(4), Discrete(3), Box((0.0,), (1.0,)), "declared")


def pump(n: int, terminated: bool = False) -> Visit:
    return Visit(np.arange(2.0 * (n + 1)).reshape(n + 1, 2), 0.5 * np.arange(n), np.full(n, 0.25), terminated)


def test_rows_by_hand() -> None:
    visits = {"ann": pump(2, terminated=True), "bob": pump(1), "cid": pump(7), "late": pump(2)}
    rows = visit_rows(visits, [["bob", "nobody", "ann"], ["cid", ""]], PUMP, 3)
    assert rows["mask"].sum(axis=1).tolist() == [1, 0, 2, 3, 0]
    assert rows["observations"][2].tolist() == [[0.0, 1.0], [2.0, 3.0], [0.0, 0.0]]
    assert rows["next_observations"][2].tolist() == [[2.0, 3.0], [4.0, 5.0], [0.0, 0.0]]
    assert rows["actions"].shape == (5, 3, 1)
    assert rows["actions"][3, :, 0].tolist() == [0.0, 0.5, 1.0]
    assert rows["rewards"].tolist() == [[0.25, 0, 0], [0, 0, 0], [0.25, 0.25, 0], [0.25] * 3, [0, 0, 0]]
    assert np.argwhere(rows["terminations"]).tolist() == [[2, 1]]
    assert np.argwhere(rows["truncations"]).tolist() == [[0, 0], [3, 2]]


def test_a_visit_as_long_as_the_horizon_may_terminate_and_a_longer_one_not() -> None:
    rows = visit_rows({"a": pump(3, True), "b": pump(4, True)}, [["a", "b"]], PUMP, 3)
    assert rows["terminations"][:, 2].tolist() == [True, False]
    assert rows["truncations"][:, 2].tolist() == [False, True]


def test_discrete_values_outside_their_space_and_numbers_that_are_not_finite() -> None:
    visit = Visit(np.array([0, 3, 7, 1.5]), np.array([2, -4, np.nan]), np.array([np.nan, 1e300, 1.0]))
    rows = visit_rows({"a": visit}, [["a"]], QUIZ, 3)
    assert rows["observations"].tolist() == [[0, 3, -1]]
    assert rows["next_observations"].tolist() == [[3, -1, -1]]
    assert rows["actions"].tolist() == [[2, -1, -1]]
    assert rows["actions"].dtype == np.int64
    assert np.isnan(rows["rewards"][0, 0])
    assert np.isinf(rows["rewards"][0, 1])


def test_nobody_and_nothing() -> None:
    assert {column.shape for column in visit_rows({}, [[]], QUIZ, 5).values()} == {(0, 5)}
    stayed_away = Visit(np.zeros((1, 2)), np.zeros(0), np.zeros(0))
    assert not visit_rows({"a": stayed_away}, [["a"]], PUMP, 5)["mask"].any()


@pytest.mark.parametrize(
    "arguments",
    [
        ([["81234"], [5.0]], [0.0], [0.0, 81234.0]),
        ([[1.0, 2.0]], [81234.0], [81234.0]),
        ([["sick of 81234"], [1.0]], [0.0], [0.0]),
        ([[1.0, 81234.0], [1.0]], [0.0], [0.0]),
        ([1.0, 81234.0], [0.0], [[0.0]]),
        ([1.0, None], [0.0], [81234.0, [2.0]]),
    ],
)
def test_a_visit_that_does_not_fit_is_refused_without_its_values(arguments: tuple[Any, Any, Any]) -> None:
    with pytest.raises(DataError) as caught:
        Visit(*arguments)
    assert "81234" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_visit_of_another_width_has_no_rows() -> None:
    assert pump(2).fits(PUMP)
    assert not pump(2).fits(QUIZ)
    assert visit_rows({"a": pump(2)}, [["a"]], QUIZ, 3)["mask"].sum() == 0


def test_a_visit_shows_nothing_in_print() -> None:
    assert repr(pump(3)) == "Visit(...)"


def test_ids_that_are_no_text_are_refused() -> None:
    ids: Any = {600: pump(2)}
    with pytest.raises(DataError, match="is not text"):
        visit_rows(ids, [["600"]], PUMP, 3)
