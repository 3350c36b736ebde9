"""How far exploring leads: bins, vectors of norm 1, and the law read out of a noisy mean."""

import numpy as np
import pytest
from tests.geolife import GRID as CHINA
from tests.geolife import PEOPLE, geolife

from tacit.data.mobility.days import Days, actions, spec_of
from tacit.data.mobility.grids import RegularGrid, haversine_km
from tacit.envs.movement import FixedPolicy, play
from tacit.envs.spaces import JumpLaw
from tacit.evaluation.movement.measures import jensen_shannon
from tacit.methods.mobility.places import Distances, JumpSums, smooth_curve
from tacit.privacy.vault.invented import invented_rows

GRID = RegularGrid(0.0, 0.0, 2.0, 2.0, 0.1)  # cells of 11.1 km


def rows_of(days, people):
    """Rows of everybody as a door gives them."""
    most = np.bincount(days.person, minlength=people).max() * 47
    rows = {name: np.zeros((people, most), np.int64) for name in ("observations", "next_observations")}
    rows |= {name: np.zeros((people, most), bool) for name in ("mask", "starts")}
    used = np.zeros(people, int)
    for cells, person in zip(days.cells, days.person, strict=True):
        at = slice(used[person], used[person] + 47)
        rows["observations"][person, at], rows["next_observations"][person, at] = cells[:-1], cells[1:]
        rows["mask"][person, at], rows["starts"][person, used[person]] = True, True
        used[person] += 47
    return rows


def test_explores_are_counted_by_distance_and_returns_are_not():
    edges = (5.0, 20.0, 60.0, 100.0)
    # Cell 1 is 11 km from 0 and 3 is 33 km; 0 -> 1 -> 0 -> 3 -> 4 -> 20 (222 km east of 0, counted in the last bin).
    cells = np.array([[0, 1, 0, 3, 4, *[20] * 43], [5] * 48])
    rows = rows_of(Days(cells, np.array([0, 1]), GRID), 3)
    assert Distances(GRID, edges)(rows)["jumps"].tolist() == [[2, 1, 1], [0, 0, 0], [0, 0, 0]]
    found = JumpSums(GRID, edges)(Distances(GRID, edges)(rows))
    assert found == pytest.approx(np.array([[2, 1, 1], [0, 0, 0], [0, 0, 0]]) / 6**0.5)


def test_decoys_have_jumps_of_norm_at_most_one():
    sums = JumpSums.from_grid(GRID)
    rows = invented_rows(spec_of(GRID), 20, 300, seed=1, rows_of="first")
    norms = np.linalg.norm(sums(sums.summary(rows)), axis=1)
    assert ((norms == 0) | (np.abs(norms - 1) < 1e-12)).all()


def test_bins_reach_from_below_a_cell_to_the_diagonal():
    sums = JumpSums.from_grid(GRID)
    assert sums.size == 16
    assert 8 < sums.edges[0] < 11.1
    assert sums.edges[-1] == pytest.approx(21 * 11.1 * 2**0.5, rel=0.02)
    earth = RegularGrid(-60.0, -180.0, 60.0, 179.0, 1.0)
    assert JumpSums.from_grid(earth).edges[-1] == pytest.approx(3000)
    one = JumpSums.from_grid(RegularGrid(0.0, 0.0, 0.0, 0.0, 0.1))
    assert np.all(np.diff(one.edges) > 0)


def test_smoothing_keeps_what_is_certain_and_levels_what_is_not():
    curve = np.exp(-(np.linspace(-2, 2, 16) ** 2))
    assert smooth_curve(curve, 0.0) == pytest.approx(curve)
    assert smooth_curve(curve, 1e-3) == pytest.approx(curve, abs=5e-3)
    assert (smooth_curve(np.array([-1.0, 0.5] * 8), 0.0) >= 0).all()
    rng = np.random.default_rng(0)
    errors = [
        [
            np.square(f(curve + noise) - curve).sum()
            for f in (lambda y: smooth_curve(y, 0.3), lambda y: np.maximum(y, 0))
        ]
        for noise in rng.normal(0, 0.3, (30, 16))
    ]
    ours, plain = np.mean(errors, axis=0)
    assert ours < 0.6 * plain


def test_the_law_of_days_is_read_from_them():
    """Days played from a known law give it back without noise, up to the size of cells."""
    large = RegularGrid(0.0, 0.0, 30.0, 30.0, 0.1)
    edges, known = (40.0, 80.0, 160.0, 320.0, 640.0), (0.4, 0.1, 0.3, 0.2)
    starts = np.full(400, large.size // 2)
    policy, law = FixedPolicy((0.93, 0.07, 0.0, 0.0)), JumpLaw(large, edges, known)
    cells = play(policy, law, starts, np.random.default_rng(0))
    days = Days(cells, np.arange(400) % 40, large)
    sums = JumpSums(large, edges)
    counts = sums.summary(rows_of(days, 40))
    found = sums.read(sums(counts).mean(axis=0), 0.0)
    assert found.probabilities == pytest.approx(known, abs=0.04)
    assert found.edges == edges
    assert counts["jumps"].sum() == (actions(cells) == 1).sum()


def test_nobody_explores():
    sums = JumpSums.from_grid(GRID)
    assert sums.read(np.zeros(16), 0.0).probabilities == pytest.approx([1 / 16] * 16)
    assert sum(sums.read(np.full(16, -0.1), 0.1).probabilities) == pytest.approx(1)


def test_geolife_jumps_are_close_at_epsilon_two():
    days = geolife()["days"]
    sums = JumpSums.from_grid(CHINA)
    day, slot = np.nonzero(actions(days.cells) == 1)
    km = haversine_km(CHINA.centres(days.cells[day, slot]), CHINA.centres(days.cells[day, slot + 1]))
    counts = np.zeros((PEOPLE, sums.size))
    bins = np.clip(np.searchsorted(np.array(sums.edges), km, side="right") - 1, 0, sums.size - 1)
    np.add.at(counts, (days.person[day], bins), 1.0)
    noise = 1 / (0.502 * 0.15**0.5 * PEOPLE)
    mean, truth = sums({"jumps": counts}).mean(axis=0), counts.sum(axis=0)
    apart = []
    for seed in range(10):
        law = sums.read(mean + np.random.default_rng(seed).normal(0, noise, sums.size), noise)
        apart.append(jensen_shannon(np.array(law.probabilities), truth))
    assert np.mean(apart) < 0.04
