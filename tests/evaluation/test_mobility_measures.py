"""Measures of movement: divergences, the papers' figures bin for bin, floors, intervals and what a report says."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy
from tests.geolife import geolife

from tacit.data.mobility.days import Days
from tacit.data.mobility.grids import RegularGrid, haversine_km
from tacit.envs.movement import FixedPolicy, RankLaw, play
from tacit.errors import DataError
from tacit.evaluation.movement import divergences
from tacit.evaluation.movement.divergences import (
    compare_measures,
    map_advice,
    reference_divergences,
    robust_divergences,
    sequence_divergences,
)
from tacit.evaluation.movement.measures import DaysView, distance_bins, jensen_shannon

GRID = RegularGrid(0.0, 0.0, 9.0, 9.0, 0.5)


def wander(seed, days=40, people=8, cells=30):
    """Random days that stay with probability one half, of cells near the south-west."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(cells, size=(days, 48))
    for t in range(1, 48):
        stay = rng.random(days) < 0.5
        drawn[stay, t] = drawn[stay, t - 1]
    return Days(drawn, np.arange(days) % people, GRID)


def anywhere(days, seed):
    """One slot after another in a uniform cell, each day of another person: noise only."""
    return Days(np.random.default_rng(seed).integers(GRID.size, size=(days, 48)), np.arange(days), GRID)


def of(*days):
    return Days(np.array(days), np.arange(len(days)), GRID)


# -- the divergence ---------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 9), min_size=2, max_size=9), st.randoms())
def test_the_divergence_is_scipys(one, random):
    other = random.sample(one, len(one))
    if sum(one):
        p, q = np.array(one, float), np.array(other, float)
        assert jensen_shannon(p, q) == pytest.approx(jensenshannon(p, q) ** 2, abs=1e-12)
        smoothed = [x / (x.sum() + 1e-10) + 1e-10 for x in (p, q)]
        middle = sum(smoothed) / 2
        expected = sum(entropy(x, middle) / 2 for x in smoothed)
        assert jensen_shannon(p, q, smooth=1e-10) == pytest.approx(expected, abs=1e-12)


def test_the_divergence_at_its_ends():
    assert jensen_shannon(np.array([1.0, 0.0]), np.array([0.0, 5.0])) == pytest.approx(np.log(2))
    assert jensen_shannon(np.array([1.0, 3.0]), np.array([2.0, 6.0])) == 0
    assert jensen_shannon(np.zeros(2), np.array([0.0, 5.0])) == pytest.approx(np.log(2))
    assert jensen_shannon(np.zeros(2), np.zeros(2)) == 0
    half = 0.5 * np.log(4 / 3) + 0.25 * np.log(2 / 3) + 0.25 * np.log(2)
    assert jensen_shannon(np.array([1.0, 0.0]), np.array([1.0, 1.0])) == pytest.approx(half)


# -- the papers' figures ----------------------------------------------------------------------------------------------


def literal_reference(real, other):
    """The five figures as they are defined, one day and one slot after another."""

    def histogram(values, high, bins):
        return np.histogram(values, np.arange(0, high, float(high) / bins))[0]

    def statistics(days):
        degrees = days.grid.centres(days.cells)
        steps, radii, places, ranks = [], [], [], []
        for cells, points in zip(days.cells, degrees, strict=True):
            steps += [np.sum((points[t] - points[t + 1]) ** 2) for t in range(47)]
            radii.append(np.mean(np.sum((points - points.mean(axis=0)) ** 2, axis=1)))
            counts = Counter(cells.tolist())
            places.append(len(counts) / 48)
            ranks.append([n / 48 for _, n in counts.most_common(20)] + [0] * (20 - min(20, len(counts))))
        visits = np.bincount(days.cells.ravel(), minlength=days.grid.size) / days.cells.size
        mean = np.mean(ranks, axis=0)
        return {
            "Radius": histogram(radii, 2101.45, 1000),
            "DailyLoc": histogram(places, 1, 48),
            "Distance": histogram(steps, 2101.45, 1000),
            "G-rank": histogram(np.sort(visits)[::-1][:50], 1, 50),
            "I-rank": mean / mean.sum(),
        }

    ours, theirs = statistics(real), statistics(other)
    found = {}
    for name in ours:
        p, q = (x / (x.sum() + 1e-10) + 1e-10 for x in (ours[name], theirs[name]))
        found[name] = 0.5 * entropy(p, (p + q) / 2) + 0.5 * entropy(q, (p + q) / 2)
    return found


def test_the_reference_figures_are_those_of_their_definitions():
    far = Days(wander(2).cells * 11 % GRID.size, wander(2).person, GRID)
    for other in (wander(1), far, of([5] * 48), of(range(48), range(48))):
        expected = literal_reference(wander(0), other)
        assert reference_divergences(wander(0), other) == pytest.approx(expected, abs=1e-12)


def test_the_top_bin_of_daily_places_is_missing_and_the_last_two_share_one():
    whole, one_less, two_less = of(range(48)), of([0, *range(47)]), of([0, 0, *range(46)])
    assert reference_divergences(one_less, two_less)["DailyLoc"] == pytest.approx(0, abs=1e-9)
    # Of days with 48 places nothing is counted at all: the smoothed histogram is flat, and farther away than ln 2.
    assert reference_divergences(of([0] * 48), whole)["DailyLoc"] > np.log(2)


def test_geolife_has_the_floors_of_the_papers_measures():
    real = geolife()
    test = Days(real["test"], np.arange(len(real["test"])), real["grid"])
    found = reference_divergences(real["days"], test)
    expected = {"Radius": 0.0053, "DailyLoc": 0.0045, "Distance": 0.0036, "G-rank": 0.0372, "I-rank": 0.0002}
    assert found == pytest.approx(expected, abs=5.1e-5)
    assert sequence_divergences(real["days"], test)["SEQ"] == pytest.approx(0.0035, abs=5e-4)
    kilometres = robust_divergences(real["days"], test)
    expected = {"Distance km": 0.007, "Radius km": 0.029, "Visits": 0.010, "Slot visits": 0.027, "OD": 0.076}
    assert kilometres == pytest.approx(expected, abs=1.5e-3)


@pytest.mark.parametrize(
    ("numbers", "radius", "places", "shares", "ranks"),
    [
        ((1, 0, 0, 0), 0.041, 0.682, 0.022, 0.143),
        ((0, 1, 0, 0), 0.0265, 0.6915, 0.0512, 0.2698),
        ((0.54, 0.12, 0.17, 0.17), 0.036, 0.057, None, 0.0188),
    ],
)
def test_geolife_fixed_policies_score_as_published(numbers, radius, places, shares, ranks):
    real = geolife()
    test, grid = real["test"], real["grid"]
    vocabulary = np.union1d(real["days"].cells, test)
    cells = play(FixedPolicy(numbers), RankLaw(grid, vocabulary), test[:, 0], np.random.default_rng(0), invalid="stay")
    person = np.arange(len(test))
    found = reference_divergences(Days(test, person, grid), Days(cells, person, grid))
    assert found["Radius"] == pytest.approx(radius, abs=2.5e-3)
    assert found["DailyLoc"] == pytest.approx(places, abs=4e-3)
    assert found["I-rank"] == pytest.approx(ranks, abs=1.5e-3)
    if shares is not None:
        assert found["G-rank"] == pytest.approx(shares, abs=5e-4)


# -- the order of a day, and where ------------------------------------------------------------------------------------


def test_sequence_measures_of_two_days_by_hand():
    home = of([0] * 48)
    out = of([0] * 24 + [1] * 24)
    found = sequence_divergences(home, out)
    # One or two places; stays of 48, or of 24 twice; no move or one; 0 or 01: apart. Home is never reached: equal.
    apart = np.log(2)
    for name in ("DailyLoc", "StayLen", "NMove", "Motif"):
        assert found[name] == pytest.approx(apart)
    assert found["HomeArr"] == 0
    # 47 steps stay at home; of the other day's, step 24 explores and 46 stay.
    assert found["ActSlot"] == pytest.approx(1 / 47 * apart)
    p = np.array([46.0, 0, 0])
    assert found["Bigram"] == pytest.approx(jensen_shannon(p, np.array([44.0, 1, 1])))
    assert found["SEQ"] == pytest.approx(np.mean([found[m.name] for m in divergences.SETS["sequence"]]))


def test_home_arrivals_count_by_slot():
    early, late = of([0] * 4 + [1] * 4 + [0] * 40), of([0] * 4 + [1] * 40 + [0] * 4)
    assert sequence_divergences(early, late)["HomeArr"] == pytest.approx(np.log(2))
    assert sequence_divergences(early, late)["NMove"] == 0


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 1000))
def test_sequence_measures_do_not_see_geography(seed, other):
    real, days = wander(0), wander(seed)
    renamed = np.random.default_rng(other).permutation(GRID.size)
    there = Days(renamed[days.cells], days.person, GRID)
    assert sequence_divergences(real, there) == sequence_divergences(real, days)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(sorted(divergences.SETS)))
def test_divergences_are_symmetric_and_blind_to_order(seed, metrics):
    real, days = wander(0), wander(seed, days=25)
    order = np.random.default_rng(seed).permutation(25)
    mixed = Days(days.cells[order], days.person[order], GRID)
    found = divergences.divergences(real, days, metrics=metrics)
    assert divergences.divergences(mixed, real, metrics=metrics) == pytest.approx(found, abs=1e-12)
    assert all(0 <= value <= np.log(2) for value in found.values())
    assert divergences.divergences(days, mixed, metrics=metrics) == pytest.approx(dict.fromkeys(found, 0), abs=1e-12)


def test_distances_have_a_bin_of_their_own_for_none_and_open_ends():
    ratio = (3000 / 0.5) ** (1 / 60)
    km = np.array([0.0, 0.3, 0.5, 0.5 * ratio * 1.001, 2999.0, 3000.0, 9000.0])
    assert distance_bins(km).tolist() == [0, 1, 1, 2, 60, 60, 60]


def test_radius_of_gyration_is_in_kilometres():
    cells = np.array([0, 1])
    apart = float(haversine_km(GRID.centres(cells)[0], GRID.centres(cells)[1]))
    days = of([0, 1] * 24)
    counts = next(m for m in divergences.SETS["robust"] if m.name == "Radius km").count(DaysView(days)).codes
    assert counts.tolist() == distance_bins(np.array([apart / 2])).tolist()


def test_trips_and_slots_see_the_direction_and_the_hour():
    there, back = of([0] * 24 + [40] * 24), of([40] * 24 + [0] * 24)
    found = robust_divergences(there, back)
    assert [found["OD"], found["Slot visits"]] == pytest.approx([np.log(2)] * 2)
    assert found["Visits"] == found["Distance km"] == 0


@pytest.mark.parametrize("metrics", sorted(divergences.SETS))
def test_a_view_says_the_same_as_its_days(metrics):
    real, first, second = wander(0), wander(1), wander(2)
    plain = [divergences.divergences(real, days, metrics=metrics) for days in (first, second)]
    view = divergences.DaysView(real)
    assert divergences.divergences(view, first, metrics=metrics) == plain[0]
    assert divergences.divergences(view, second, metrics=metrics) == plain[1]
    table = divergences.divergence_table(view, {"x": first}, metrics=metrics, floors=2, bootstrap=5)
    assert table == divergences.divergence_table(real, {"x": first}, metrics=metrics, floors=2, bootstrap=5)


# -- floors and intervals ---------------------------------------------------------------------------------------------


def test_a_table_has_floors_and_intervals_around_its_values():
    real = wander(0, days=200, people=20)
    found = divergences.divergence_table(
        real, {"same": real, "other": wander(1)}, metrics="sequence", floors=8, bootstrap=40
    )
    assert [row.name for row in found.rows] == ["floor", "same", "other"]
    assert found.measures[-1] == "SEQ"
    assert found.row("other").values["SEQ"].value == sequence_divergences(real, wander(1))["SEQ"]
    for row in found.rows:
        assert all(0 <= v.low <= v.value <= v.high for v in row.values.values())
    assert found.row("same").values["SEQ"].value == 0
    assert found.row("floor").values["SEQ"].value > 0
    again = divergences.divergence_table(
        real, {"same": real, "other": wander(1)}, metrics="sequence", floors=8, bootstrap=40
    )
    assert again == found


@pytest.mark.parametrize("metrics", ["reference", "sequence", "robust"])
def test_people_count_once_however_many_days_they_have(metrics):
    days, simulated = wander(3, days=12, people=1), wander(4)
    person = np.array([0] * 1 + [1] * 2 + [2] * 3 + [3] * 6)
    one_each = np.repeat(np.arange(12), (6 / np.array([1, 2, 3, 6]))[person].astype(int))  # six days of everybody
    real, level = Days(days.cells, person, GRID), Days(days.cells[one_each], person[one_each], GRID)
    expected = divergences.divergences(level, simulated, metrics=metrics)
    assert divergences.divergences(real, simulated, metrics=metrics, weigh="people") == pytest.approx(expected)
    assert divergences.divergences(level, simulated, metrics=metrics, weigh="people") == pytest.approx(expected)
    assert divergences.divergences(real, simulated, metrics=metrics) != pytest.approx(expected)
    halves = {"metrics": metrics, "weigh": "people", "floors": 5, "bootstrap": 3, "seed": 1}
    found, wanted = (divergences.divergence_table(one, {"s": simulated}, **halves).rows for one in (real, level))
    for row, other in zip(found, wanted, strict=True):
        assert {n: e.value for n, e in row.values.items()} == pytest.approx(
            {n: e.value for n, e in other.values.items()}
        )
        assert {n: e.high for n, e in row.values.items()} == pytest.approx({n: e.high for n, e in other.values.items()})
    with pytest.raises(DataError, match="do not count alike; expected days or people"):
        divergences.divergences(real, simulated, metrics=metrics, weigh="homes")


def test_people_are_drawn_with_all_their_days():
    cells = np.zeros((40, 48), np.int64)
    cells[20:, 24:] = 1  # the second half of the days leaves home
    several = Days(cells, np.arange(40), GRID)
    two = Days(cells, np.arange(40) // 20, GRID)
    wide, narrow = (
        divergences.divergence_table(real, {"x": several}, metrics="sequence", bootstrap=200).rows[0].values["DailyLoc"]
        for real in (two, several)
    )
    assert wide.value == narrow.value == 0
    assert wide.high > 5 * narrow.high


def test_halves_of_people_are_disjoint():
    """Two people without a place in common are as far apart as can be."""
    days = Days(np.repeat([[3], [44]], 48, axis=1), np.array([7, 9]), GRID)
    found = divergences.divergence_table(days, {}, metrics="robust", floors=3)
    assert found.row("floor").values["Slot visits"].value == pytest.approx(np.log(2))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sequence_divergences(of([0] * 48), Days(np.zeros((0, 48), int), np.zeros(0, int), GRID)), "no day"),
        (lambda: divergences.divergence_table(of([0] * 48), {}, metrics="robust", floors=2), "fewer than two people"),
        (lambda: divergences.divergence_table(wander(0), {}, metrics="robust", bootstrap=-1), "bootstrap -1"),
        (lambda: divergences.divergences(wander(0), wander(1), metrics="nice"), "no set of measures 'nice'"),
        (lambda: divergences.divergence_table(wander(0), {}, metrics="robust").row("x"), "no row 'x'"),
        (lambda: compare_measures(wander(0), wander(1), metrics="robust", floors=0), "floors is 0"),
        (lambda: map_advice(-1.0, 5), "noise -1.0"),
    ],
)
def test_what_cannot_be_measured_is_said(call, words):
    with pytest.raises(DataError, match=words):
        call()


def test_days_on_another_grid_are_refused():
    other = RegularGrid(0.0, 0.0, 9.0, 9.0, 0.25)
    with pytest.raises(DataError, match="different grids"):
        robust_divergences(wander(0), Days(wander(0).cells, wander(0).person, other))


# -- the report -------------------------------------------------------------------------------------------------------


def test_lines_tell_close_days_from_far_ones_and_from_noise():
    real = wander(0, days=300, people=30)
    control = anywhere(300, seed=5)
    close = compare_measures(real, wander(1, days=300), metrics="sequence", control=control, floors=5, bootstrap=30)
    assert {line.verdict for line in close if line.measure == "SEQ"} == {"as close as other people"}
    noise = anywhere(300, seed=6)
    far = {line.measure: line for line in compare_measures(real, noise, metrics="sequence", control=control, floors=5)}
    assert far["SEQ"].verdict == "no better than noise"
    alone = compare_measures(real, noise, metrics="sequence", floors=5, bootstrap=10)
    assert {line.verdict for line in alone if line.measure == "SEQ"} == {"farther than other people"}
    assert all(line.control is None for line in alone)


def test_advice_on_maps_follows_the_noise():
    slots, trips = map_advice(0.0625, 8)
    assert (slots.relative_error, slots.usable, slots.most_cells) == (0.5, True, 8)
    assert (trips.cells, trips.relative_error, trips.usable) == (64, 4.0, False)
    assert "can be read" in slots.to_sentence()
    assert "do not read single cells" in trips.to_sentence()
    assert "at most 8 cells" in trips.to_sentence()
    assert all(advice.usable for advice in map_advice(0.0, 10**6))
