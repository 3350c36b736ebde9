"""The synthetic city has the aggregates it promises, and its days tell the truth about its people."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tacit.data.mobility.days import SLOTS, actions, distinct_counts, motif_classes, move_counts
from tacit.data.mobility.grids import RegularGrid, haversine_km
from tacit.errors import DataError
from tacit_worlds.city import ARCHETYPES, GRID, City, city, draw_neighbours, draw_waypoints, geography, grid_distance


@functools.cache
def town(preset: str, people: int = 1_500, heterogeneity: float = 1.0) -> City:
    return city(people, 20, 3, preset=preset, heterogeneity=heterogeneity)  # type: ignore[arg-type]


def per_person(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, 20).mean(axis=1)


def test_aggregates_of_geolife() -> None:
    days = town("geolife").days.cells
    label = actions(days, last=False)
    shares = np.bincount(label.ravel()) / label.size
    np.testing.assert_allclose(shares, [0.540, 0.140, 0.135, 0.184], atol=0.025)
    assert abs(distinct_counts(days)[:, -1].mean() - 7.6) < 0.3
    assert (move_counts(days) == 0).mean() < 0.01
    typical = np.percentile(per_person(distinct_counts(days)[:, -1]), [5, 50, 95])  # of the 83 people: 3.8, 7.2, 13.3
    assert typical[0] < 5.5
    assert typical[2] > 10


def test_aggregates_of_telecom() -> None:
    days = town("telecom").days.cells
    assert 0.87 <= (actions(days) == 0).mean() <= 0.92
    assert 2.5 < distinct_counts(days)[:, -1].mean() < 5
    shares = np.bincount(motif_classes(days), minlength=61) / len(days)
    assert shares[60] < 0.1
    assert (shares[[1, 3]] > 0.15).all()  # days at home, and days there and back


def test_people_are_where_they_live_and_work() -> None:
    made = town("telecom")
    cells = made.days.cells.reshape(-1, 20, SLOTS)
    nights = cells[:, :, :10]
    mode = np.array([np.bincount(own.ravel()).argmax() for own in nights])
    assert (mode == made.home).mean() > 0.95
    worker = np.flatnonzero((made.archetype == ARCHETYPES.index("worker")) & (made.work != made.home))
    share = (cells[worker, :, 20:32] == made.work[worker, None, None]).mean()
    assert 0.5 < share < 5 / 7
    assert (made.work[made.archetype == ARCHETYPES.index("home")] == -1).all()
    assert (made.work[made.archetype != ARCHETYPES.index("home")] >= 0).all()


def test_homes_follow_density_and_work_is_near() -> None:
    made = town("telecom")
    land = made.geography
    assert land.density.sum() == pytest.approx(1)
    coarse = 12
    blocks = GRID.coarse_grid(coarse).size
    lived = np.bincount(GRID.coarsen(made.home, coarse), minlength=blocks) / len(made.home)
    meant = np.bincount(GRID.coarsen(np.arange(GRID.size), coarse), weights=land.density, minlength=blocks)
    assert np.abs(lived - meant).sum() / 2 < 0.08
    employed = made.work >= 0
    points = GRID.centres(np.arange(GRID.size))
    km = haversine_km(points[made.home[employed]], points[made.work[employed]])
    strangers = haversine_km(points[made.home[employed]], points[np.roll(made.work[employed], 1)])
    assert km.mean() < 0.8 * strangers.mean()


def test_activity_and_flicker_show_in_the_days() -> None:
    made = town("geolife")
    places, changes = per_person(distinct_counts(made.days.cells)[:, -1]), per_person(move_counts(made.days.cells))
    assert np.corrcoef(np.log(made.activity), places)[0, 1] > 0.3
    assert np.corrcoef(made.flicker, changes)[0, 1] > 0.7
    free = made.archetype == ARCHETYPES.index("home")
    late = actions(made.days.cells).reshape(-1, 20, 47)
    assert (late[free, :, 18:30] == 0).mean() != (late[~free, :, 18:30] == 0).mean()


def test_heterogeneity() -> None:
    same, apart_ = town("geolife", 400, 0.0), town("geolife", 400, 1.0)
    for name in ("activity", "rho", "gamma", "flicker", "favourites"):
        assert np.ptp(getattr(same, name)) < 1e-12
        assert np.ptp(getattr(apart_, name)) > 0
    spread = [np.std(per_person(move_counts(made.days.cells))) for made in (same, apart_)]
    assert spread[1] > 1.5 * spread[0]


def test_outliers_move_in_every_slot_of_every_day() -> None:
    made = city(30, 5, 0, outliers=3)
    assert made.outlier.tolist() == [False] * 27 + [True] * 3
    rows = made.outlier[made.days.person]
    assert (move_counts(made.days.cells[rows]) == SLOTS - 1).all()
    assert move_counts(made.days.cells[~rows]).max() < SLOTS - 1
    cells = np.unique(made.days.cells[rows])
    assert (made.geography.density[cells] <= np.quantile(made.geography.density, 0.06)).all()
    assert (city(30, 5, 0).days.cells[~rows] == made.days.cells[~rows]).all()


def test_a_seed_is_a_city_and_the_ground_is_public() -> None:
    a, b, c = city(40, 3, 1), city(40, 3, 1), city(40, 3, 2)
    assert (a.days.cells == b.days.cells).all()
    assert (a.days.cells != c.days.cells).mean() > 0.5
    assert (a.geography.density == c.geography.density).all()
    assert (geography(layout=1).density != a.geography.density).any()
    assert (a.days.person == np.repeat(np.arange(40), 3)).all()


def test_people_beyond_a_chunk_are_played_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit_worlds.city.CHUNK", 16)
    made = city(40, 4, 0)
    nights = made.days.cells.reshape(40, 4, SLOTS)[:, :, :8]
    assert (np.array([np.bincount(own.ravel()).argmax() for own in nights]) == made.home).mean() > 0.8


def test_another_grid() -> None:
    grid = RegularGrid(10, 20, 10.02, 20.5, 0.01)
    made = city(50, 2, 0, grid=grid)
    assert made.days.grid == grid
    assert made.days.cells.max() < grid.size
    assert city(3, 1, 0, grid=RegularGrid(10, 20, 10, 20, 0.01)).days.cells.max() == 0


def test_near_cells_by_hand() -> None:
    grid, rng = RegularGrid(0, 0, 4, 4, 1), np.random.default_rng(0)
    assert grid_distance(np.array([0, 0]), np.array([6, 4]), grid).tolist() == [1, 4]
    assert set(draw_waypoints(np.zeros(50, dtype=int), np.full(50, 4), grid, rng).tolist()) == {1, 2, 3}
    around = [draw_neighbours(np.full(200, c), grid, rng) for c in range(grid.size)]
    assert all((grid_distance(np.full(200, c), near, grid) == 1).all() for c, near in enumerate(around))
    assert all(np.bincount(near).max() > 100 for near in around)


@pytest.mark.parametrize(
    "arguments",
    [
        {"people": 0},
        {"people": 5, "days": 0},
        {"people": 5, "outliers": 6},
        {"people": 5, "seed": -1},
        {"people": 5, "heterogeneity": -0.5},
        {"people": 5, "preset": "village"},
    ],
)
def test_bad_arguments_are_refused(arguments: dict) -> None:
    with pytest.raises(DataError, match="city"):
        city(**arguments)
