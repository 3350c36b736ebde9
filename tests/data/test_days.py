"""What days mean: every label by hand on small days, and properties on random ones."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.geolife import geolife

from tacit.data import Discrete
from tacit.data.mobility.days import (
    EXPLORE,
    HOME,
    LAST,
    MOTIFS,
    RETURN,
    SLOTS,
    STAY,
    Days,
    actions,
    days_of,
    distinct_counts,
    motif_classes,
    motif_sequences,
    move_counts,
    previous_symbols,
    stay_lengths,
    symbols,
)
from tacit.data.mobility.grids import RegularGrid
from tacit.errors import DataError

GRID = RegularGrid(39.0, 116.0, 40.0, 117.0, 0.1)


def day(*runs: tuple[int, int]) -> np.ndarray:
    """One day [1, 48] of (cell, slots); the last cell fills it up."""
    cells = [cell for cell, slots in runs for _ in range(slots)]
    return np.array([cells + [runs[-1][0]] * (SLOTS - len(cells))])


def random_days(seed: int, places: int = 5, days: int = 30) -> np.ndarray:
    rng = np.random.default_rng(seed)
    draw = rng.integers(0, places, (days, SLOTS)) * 7 + 3
    keep = rng.random((days, SLOTS)) < rng.random((days, 1))
    keep[:, 0] = False
    at = np.maximum.accumulate(np.where(keep, 0, np.arange(SLOTS)), axis=1)
    return np.take_along_axis(draw, at, axis=1)


# home 9, 4, 7, back to 4 (the last), 7 (last), home, 7 (last), 4 (return), home, home
WALK = day((9, 2), (4, 1), (7, 1), (4, 1), (7, 1), (9, 1), (7, 1), (4, 1), (9, 3))
LABELS = [STAY, EXPLORE, EXPLORE, LAST, LAST, HOME, LAST, RETURN, HOME, STAY, STAY]


def test_a_walk_by_hand() -> None:
    assert symbols(WALK)[0, :11].tolist() == [0, 0, 1, 2, 1, 2, 0, 2, 1, 0, 0]
    assert actions(WALK)[0, :11].tolist() == LABELS
    four = [RETURN if a == LAST else a for a in LABELS]
    assert actions(WALK, last=False)[0, :11].tolist() == four
    assert distinct_counts(WALK)[0, :5].tolist() == [1, 1, 2, 3, 3]
    assert stay_lengths(WALK)[0, :5].tolist() == [1, 2, 1, 1, 1]
    assert stay_lengths(WALK)[0, -1] == SLOTS - 9
    assert move_counts(WALK).tolist() == [8]
    assert previous_symbols(WALK)[0, :11].tolist() == [-1, -1, 0, 1, 2, 1, 2, 0, 2, 1, 1]


def test_home_goes_before_last_and_return() -> None:
    there_and_back = day((5, 1), (6, 1), (5, 1))
    assert actions(there_and_back)[0, :3].tolist() == [EXPLORE, HOME, STAY]


def test_a_last_place_is_the_one_before_the_present_stay() -> None:
    stayed = day((1, 1), (2, 1), (3, 4), (2, 1), (3, 1))
    assert actions(stayed)[0, :8].tolist() == [EXPLORE, EXPLORE, STAY, STAY, STAY, LAST, LAST, STAY]


@pytest.mark.parametrize(
    ("runs", "sequence"),
    [
        (((8, 48),), (0,)),
        (((8, 16), (3, 16), (8, 16)), (0, 1, 0)),
        (((8, 16), (3, 1), (8, 31)), (0,)),  # half an hour away is no stop, and the two stops at home are one
        (((3, 1), (8, 16), (2, 16), (8, 15)), (0, 1, 0)),  # nor is the half hour before the first
        (((1, 8), (2, 8), (3, 8), (2, 8), (4, 16)), (0, 1, 2, 1, 3)),
    ],
)
def test_motifs_of_stops(runs: tuple[tuple[int, int], ...], sequence: tuple[int, ...]) -> None:
    assert motif_classes(day(*runs)).tolist() == [motif_sequences().index(sequence)]


def test_the_public_list_of_motifs() -> None:
    listed = motif_sequences()
    assert listed[:8] == ((), (0,), (0, 1), (0, 1, 0), (0, 1, 2), (0, 1, 0, 1), (0, 1, 0, 2), (0, 1, 2, 0))
    assert [sum(len(s) == n for s in listed) for n in range(7)] == [1, 1, 1, 2, 5, 15, 35]
    assert len(set(listed)) == MOTIFS
    assert motif_sequences(77)[-1] == (0, 1, 2, 3, 4, 5)
    none = np.arange(SLOTS)[None]
    assert motif_classes(none).tolist() == [0]
    seven = day(*((cell, 4) for cell in (1, 2, 1, 2, 1, 2, 1)))
    assert motif_classes(seven).tolist() == [MOTIFS]
    assert motif_classes(day((1, 24), (2, 24)), classes=2).tolist() == [2]
    for wrong in (0, 78):
        with pytest.raises(DataError, match="motif classes"):
            motif_classes(none, classes=wrong)


def test_no_days_at_all() -> None:
    nothing = np.zeros((0, SLOTS), dtype=np.int64)
    assert [len(f(nothing)) for f in (symbols, actions, distinct_counts, stay_lengths, move_counts, motif_classes)] == [
        0
    ] * 6


@pytest.mark.parametrize("wrong", [np.zeros((2, 47), int), np.zeros(48, int), np.zeros((2, 48))])
def test_other_shapes_are_refused(wrong: np.ndarray) -> None:
    with pytest.raises(DataError, match="whole numbers"):
        actions(wrong)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12))
def test_labels_on_random_days(seed: int, places: int) -> None:
    days = random_days(seed, places)
    label, name, number, stay = actions(days), symbols(days), distinct_counts(days), stay_lengths(days)
    for cells, a, s, n, k in zip(days.tolist(), label, name, number, stay, strict=True):
        for t in range(SLOTS):
            assert n[t] == len(set(cells[: t + 1]))
            assert s[t] == len(set(cells[: cells.index(cells[t])]))
            assert all(c == cells[t] for c in cells[t + 1 - k[t] : t + 1])
            assert k[t] == t + 1 or cells[t - k[t]] != cells[t]
            if t + 1 == SLOTS:
                break
            now, then, past = cells[t], cells[t + 1], cells[: t + 1]
            other = [c for c in past if c != now]
            before = past[len(past) - 1 - k[t]] if other else None
            expected = STAY if then == now else HOME if then == cells[0] else LAST if then == before else None
            expected = (RETURN if then in past else EXPLORE) if expected is None else expected
            assert a[t] == expected
    assert (move_counts(days) == (label != STAY).sum(axis=1)).all()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_meaning_does_not_depend_on_the_names_of_cells_or_the_other_days(seed: int) -> None:
    days = random_days(seed)
    renamed = np.random.default_rng(seed + 1).permutation(10**6)[days]
    for f in (symbols, actions, distinct_counts, stay_lengths, move_counts, motif_classes):
        whole = f(days)
        assert (f(renamed) == whole).all()
        assert (f(days[3:4]) == whole[3:4]).all()


def test_records_of_days_and_back() -> None:
    cells = random_days(1, days=6)
    days = Days(cells, np.array([2, 0, 2, 5, 0, 2]), GRID)
    data = days.trajectories(simulated=True)
    assert data.spec.observation == Discrete(121)
    assert data.counts() == {"transitions": 6 * 47, "episodes": 6, "units": 3}
    order = [1, 4, 0, 2, 5, 3]
    columns = data.columns
    assert columns["observations"].reshape(6, 47).tolist() == cells[order, :-1].tolist()
    assert columns["actions"].reshape(6, 47).tolist() == actions(cells)[order].tolist()
    assert not columns["rewards"].any()
    assert not columns["terminations"].any()
    assert columns["truncations"].reshape(6, 47).sum(axis=0).tolist() == [0] * 46 + [6]


def rows_of(cells: list[np.ndarray], length: int) -> dict[str, np.ndarray]:
    """Rows [U, L] of people's days as a door gives them: the first L rows."""
    rows = {name: np.zeros((len(cells), length), np.int64) for name in ("observations", "next_observations")}
    rows |= {name: np.zeros((len(cells), length), bool) for name in ("starts", "mask")}
    for u, own in enumerate(cells):
        n = min(length, own.shape[0] * 47)
        rows["observations"][u, :n] = own[:, :-1].ravel()[:n]
        rows["next_observations"][u, :n] = own[:, 1:].ravel()[:n]
        rows["mask"][u, :n] = True
        rows["starts"][u, np.arange(0, n, 47)] = True
    return rows


def test_whole_days_among_rows() -> None:
    days = random_days(2, days=6)
    rows = rows_of([days[:2], days[:0], days[2:6]], 3 * 47)
    cells, person = days_of(rows)
    assert person.tolist() == [0, 0, 2, 2, 2]
    assert cells.tolist() == days[:5].tolist()
    cut, person = days_of(rows_of([days[:2], days[:0], days[2:6]], 2 * 47 + 46))
    assert person.tolist() == [0, 0, 2, 2]
    assert cut.tolist() == days[:4].tolist()
    assert days_of(rows_of([days[:1]], 46))[0].shape == (0, SLOTS)


def test_rows_of_no_day_are_left_out() -> None:
    days = random_days(3, days=3)
    rows = rows_of([days], 3 * 47)
    rows["starts"][0, 47 + 20] = True  # an episode that ends early and one of 27 rows
    cells, _ = days_of(rows)
    assert cells.tolist() == days[[0, 2]].tolist()
    rows = rows_of([days], 3 * 47)
    rows["starts"][0, 47] = False  # one of 94 rows
    assert days_of(rows)[0].tolist() == days[[2]].tolist()
    rows = rows_of([days], 3 * 47)
    rows["mask"][0, 60] = False  # a hole
    assert days_of(rows)[0].tolist() == days[[0, 2]].tolist()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_random_rows_give_each_person_their_own_days_or_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = {name: rng.integers(0, 121, (4, 150)) for name in ("observations", "next_observations")}
    rows["mask"] = np.arange(150) < rng.integers(0, 151, (4, 1))
    rows["starts"] = (rng.random((4, 150)) < 0.01) & rows["mask"]
    rows["starts"][:2, ::47] = True
    cells, person = days_of(rows)
    for u in range(4):
        alone, _ = days_of({name: values[u : u + 1] for name, values in rows.items()})
        assert cells[person == u].tolist() == alone.tolist()
    for u in range(4):
        begins = [*np.flatnonzero(rows["starts"][u] & rows["mask"][u]), int(rows["mask"][u].sum())]
        assert (person == u).sum() == sum(b - a == 47 for a, b in pairwise(begins))


@pytest.mark.parametrize(
    ("cells", "person", "match"),
    [
        (np.zeros((2, SLOTS), int), [0], "one code for each day"),
        (np.zeros((2, SLOTS), int), [0, -1], "negative"),
        (np.full((1, SLOTS), 121), [0], "outside the grid"),
        (np.full((1, SLOTS), -1), [0], "outside the grid"),
    ],
)
def test_bad_days_are_refused(cells: np.ndarray, person: list[int], match: str) -> None:
    with pytest.raises(DataError, match=match):
        Days(cells, np.array(person), GRID)


def test_days_show_no_cell() -> None:
    assert repr(Days(WALK, np.array([3]), GRID)) == f"Days(grid={GRID!r})"


def test_the_shares_of_actions_of_geolife() -> None:
    days = geolife()["days"].cells
    four = np.bincount(actions(days, last=False).ravel()) / (len(days) * 47)
    np.testing.assert_allclose(four, [0.540, 0.140, 0.135, 0.184], atol=5e-4)
    five = np.bincount(actions(days).ravel())
    assert 0.5 < five[LAST] / (five[LAST] + five[RETURN]) < 0.56
    assert abs(distinct_counts(days)[:, -1].mean() - 7.6) < 0.01
