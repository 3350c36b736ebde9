"""What one person adds to the release of movement: literal days, norm, and nothing of anybody else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.data.mobility.days import EXPLORE, HOME, STAY
from tacit.errors import PlanError
from tacit.methods.mobility.moves import (
    DAY_SIZE,
    DAY_SIZES,
    MoveContribution,
    MoveHistograms,
    Weights,
    day_bins,
    histograms,
    states,
)
from tacit.methods.mobility.simulator import StateLayout
from tacit_worlds.city import city

COARSE = StateLayout(times=1, stays=(1,))
AWAY, AT_HOME = 0, 1
OFFICE_DAY = np.array([[7] * 24 + [9] * 16 + [7] * 8])
DAY_AT_HOME = np.full((1, 48), 5)


def rows(people: list[np.ndarray], length: int = 3) -> dict[str, Any]:
    """Rows as a door gives them, of people with so many days each, with room for `length` days."""
    seen, after = np.zeros((2, len(people), length * 47), np.int64)
    mask, starts = np.zeros((2, len(people), length * 47), bool)
    for u, days in enumerate(people):
        for k, day in enumerate(days):
            at = slice(k * 47, (k + 1) * 47)
            seen[u, at], after[u, at], mask[u, at], starts[u, k * 47] = day[:-1], day[1:], True, True
    return {"observations": seen, "next_observations": after, "mask": mask, "starts": starts}


def test_a_day_of_work_step_by_step() -> None:
    (found,) = histograms(OFFICE_DAY, np.zeros(1, np.int64), 1, COARSE, whole_days=False)
    table = found.reshape(2, 5) * 47
    expected = np.zeros((2, 5))
    expected[AT_HOME, [STAY, EXPLORE]] = 30, 1
    expected[AWAY, [STAY, HOME]] = 15, 1
    np.testing.assert_allclose(table, expected, atol=1e-12)


def test_whole_days_fall_into_one_bin_of_each_histogram() -> None:
    cells, moves, motif = day_bins(np.concatenate([OFFICE_DAY, DAY_AT_HOME])).T
    assert cells.tolist() == [1, 0]  # two cells, one cell
    assert moves.tolist() == [17 + 2, 17]  # two moves, none
    assert motif.tolist() == [17 + 16 + 3, 17 + 16 + 1]  # 010 and 0; class 0 is no stop at all
    assert sum(DAY_SIZES) == DAY_SIZE == 59


def test_states_know_time_stay_and_home() -> None:
    layout = StateLayout(times=2, stays=(1, 2, 4))
    (found,) = states(OFFICE_DAY, layout)
    assert found[[0, 1, 3, 23]].tolist() == [1, 3, 5, 5]  # at home for 1, 2, 4 and 24 slots
    assert found[[24, 25]].tolist() == [6 + 0, 6 + 2]  # second half of the day, away for 1 and 2


@pytest.mark.parametrize("days", [1, 3])
def test_everybody_has_norm_one_however_many_days(days: int) -> None:
    vector = MoveHistograms(COARSE, Weights())
    found = vector(rows([np.repeat(OFFICE_DAY, days, axis=0), np.zeros((0, 48), np.int64)]))["vector"]
    assert found.shape == (2, vector.size) == (2, 10 + 59)
    assert np.linalg.norm(found[0]) == pytest.approx(1, abs=1e-12)
    assert not found[1].any()
    one = vector(rows([OFFICE_DAY]))["vector"]
    np.testing.assert_allclose(found[0], one[0], atol=1e-12)


def test_weights_scale_before_the_norm() -> None:
    plain, scaled = (MoveHistograms(COARSE, Weights(stay=stay, day=0.5)) for stay in (1.0, 0.5))
    a, b = (vector(rows([OFFICE_DAY]))["vector"][0] for vector in (plain, scaled))
    stay = np.arange(0, 10, 5)
    np.testing.assert_allclose(b[stay] / b[1 + 5], 0.5 * a[stay] / a[1 + 5], atol=1e-12)


def test_a_vector_is_the_same_bits_whoever_else_is_there() -> None:
    days = city(6, 3, seed=1).days
    people = [days.cells[days.person == u] for u in range(6)]
    add = MoveContribution(MoveHistograms(StateLayout(times=4), Weights()))
    together = add(add.summary(rows(people)))
    for u in range(6):
        alone = add(add.summary(rows([people[u]])))
        np.testing.assert_array_equal(together[u], alone[0])


def test_names_of_places_do_not_matter() -> None:
    moved = OFFICE_DAY * 1_000 + 3
    a, b = (histograms(one, np.zeros(1, np.int64), 1, StateLayout(times=8)) for one in (OFFICE_DAY, moved))
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("fields", [{"stay": 0.0}, {"stay": 1.5}, {"day": -0.1}, {"day": 2.0}])
def test_weights_out_of_range_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(PlanError, match="weights"):
        Weights(**fields)
