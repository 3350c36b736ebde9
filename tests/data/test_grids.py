"""Grids: where cells are, which cell a point is in, blocks of cells, JSON."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from tests.geolife import GRID, shared

from tacit.data.mobility.grids import H3Grid, RegularGrid, grid_from_json, haversine_km
from tacit.errors import DataError

SMALL = RegularGrid(39, 116, 39.3, 116.4, 0.1)


def test_cells_and_centres_by_hand() -> None:
    assert (SMALL.rows, SMALL.columns, SMALL.size) == (4, 5, 20)
    assert SMALL.centres([0, 4, 5, 19]).tolist() == [[39.0, 116.0], [39.0, 116.4], [39.1, 116.0], [39.3, 116.4]]
    assert SMALL.cells([39.04, 39.06, 39.3, 38.96], [116.0, 116.0, 116.44, 115.96]).tolist() == [0, 5, 19, 0]
    assert SMALL.cells([38.9, 39.36, 39.1, np.nan], [116.0, 116.0, 116.5, 116.0]).tolist() == [-1] * 4


def test_every_centre_is_in_its_cell() -> None:
    for grid in (SMALL, RegularGrid.of_metres((39.4, 115.7, 41.1, 117.4), 500), RegularGrid(10, 10, 11, 11, 0.3, 0.7)):
        cells = np.arange(grid.size)
        assert (grid.cells(*grid.centres(cells).T) == cells).all()


def test_metres_are_metres() -> None:
    grid = RegularGrid.of_metres((39.8, 116.2, 40.2, 116.6), 500)
    middle = grid.rows // 2 * grid.columns + grid.columns // 2
    here, north, east = grid.centres([middle, middle + grid.columns, middle + 1])
    assert haversine_km(here, north) == pytest.approx(0.5, abs=1e-4)
    assert haversine_km(here, east) == pytest.approx(0.5, abs=2e-3)


def test_blocks_of_cells() -> None:
    coarse = SMALL.coarse_grid(2)
    assert (coarse.rows, coarse.columns) == (2, 3)
    cells = np.arange(SMALL.size)
    blocks = SMALL.coarsen(cells, 2)
    assert blocks.reshape(4, 5).tolist() == [[0, 0, 1, 1, 2], [0, 0, 1, 1, 2], [3, 3, 4, 4, 5], [3, 3, 4, 4, 5]]
    assert (coarse.cells(*SMALL.centres(cells).T) == blocks).all()
    assert coarse.centres([0]).tolist() == [[39.05, 116.05]]
    drawn = SMALL.draw_within(np.repeat(np.arange(6), 200), 2, np.random.default_rng(0))
    assert (SMALL.coarsen(drawn, 2) == np.repeat(np.arange(6), 200)).all()
    assert set(drawn.tolist()) == set(cells.tolist())


def test_blocks_of_a_large_grid_agree_with_its_coarse_grid() -> None:
    coarse = GRID.coarse_grid(20)
    cells = np.random.default_rng(0).integers(0, GRID.size, 20_000)
    blocks = GRID.coarsen(cells, 20)
    assert blocks.max() < coarse.size
    far = haversine_km(coarse.centres(blocks), GRID.centres(cells))
    assert far.max() < 20


@pytest.mark.parametrize("grid", [SMALL, RegularGrid.of_metres((39.4, 115.7, 41.1, 117.4), 500)])
def test_json_and_hash(grid: RegularGrid) -> None:
    back = grid_from_json(json.loads(json.dumps(grid.to_json())))
    assert back == grid
    assert hash(back) == hash(grid)


@pytest.mark.parametrize("values", [{}, {"kind": "hexagon"}, {"kind": "regular", "south": 1}, None])
def test_bad_json_is_refused(values: object) -> None:
    with pytest.raises(DataError, match="not those of a grid"):
        grid_from_json(values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "box", [(2, 0, 1, 1, 0.1), (0, 0, 91, 1, 0.1), (0, 0, 1, 1, 0), (0, 0, 1, 1, 0.1, -1), (0, 0, np.nan, 1, 0.1)]
)
def test_bad_boxes_are_refused(box: tuple[float, ...]) -> None:
    with pytest.raises(DataError, match="RegularGrid"):
        RegularGrid(*box)


def test_hexagons() -> None:
    pytest.importorskip("h3")
    grid = H3Grid(39.8, 116.2, 40.0, 116.5, 8)
    cells = np.arange(grid.size)
    centres = grid.centres(cells)
    assert 500 < grid.size < 1_500  # 22 km x 26 km at 0.7 km2
    assert (grid.cells(*centres.T) == cells).all()
    assert (centres >= [39.8, 116.2]).all()
    assert (centres <= [40.0, 116.5]).all()
    assert (np.diff(grid.indexes(cells).astype(np.int64)) > 0).all()
    assert grid.cells([0.0, 39.9, np.nan, 100.0], [116.3, 117.5, 116.3, 116.3]).tolist() == [-1] * 4
    assert grid.cells([], []).shape == (0,)
    back = grid_from_json(json.loads(json.dumps(grid.to_json())))
    assert back == grid
    assert hash(back) == hash(grid)


def test_blocks_of_hexagons() -> None:
    pytest.importorskip("h3")
    grid = H3Grid(39.8, 116.2, 40.0, 116.5, 8)
    coarse = grid.coarse_grid(2)
    blocks = grid.coarsen(np.arange(grid.size), 2)
    assert set(blocks.tolist()) == set(range(coarse.size))
    assert grid.size / coarse.size < 49
    assert haversine_km(coarse.centres(blocks), grid.centres(np.arange(grid.size))).max() < 5
    assert grid.coarse_grid(1).coarsen(grid.coarsen(np.arange(grid.size), 1), 1).tolist() == blocks.tolist()
    drawn = grid.draw_within(np.repeat(np.arange(coarse.size), 400), 2, np.random.default_rng(0))
    assert (grid.coarsen(drawn, 2) == np.repeat(np.arange(coarse.size), 400)).all()
    assert len(np.unique(drawn)) > 0.99 * grid.size
    assert coarse == grid_from_json(coarse.to_json())


@pytest.mark.parametrize("fields", [(1, 1, 0, 2, 8), (1, 1, 2, 2, 16), (1, 1, 2, 2, 8.0), (1, 1, 1.00001, 1.00001, 3)])
def test_bad_hexagons_are_refused(fields: tuple[float, ...]) -> None:
    pytest.importorskip("h3")
    with pytest.raises(DataError, match="Grid"):
        H3Grid(*fields)  # type: ignore[arg-type]


def test_hexagons_need_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("h3", "h3.api", "h3.api.basic_int"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(DataError, match="not installed"):
        H3Grid(10.0, 10.0, 10.5, 10.5, 5)


def test_distances() -> None:
    assert haversine_km([0, 0], [0, 90]) == pytest.approx(6371.0088 * np.pi / 2)
    # Paris to London, 343.6 km on the mean sphere
    assert haversine_km([48.8566, 2.3522], [51.5074, -0.1278]) == pytest.approx(343.56, abs=0.05)
    assert haversine_km([[1, 1], [2, 2]], [1, 1])[0] == 0


def test_every_place_of_geolife_is_a_cell_of_its_own() -> None:
    with np.load(shared("geolife_cells.npz")) as file:
        places = file["cell_latlon"]
    cells = GRID.cells(*places.astype(np.float64).T)
    assert len(np.unique(cells)) == len(places)
    assert (GRID.centres(cells).astype(np.float32) == places).all()
