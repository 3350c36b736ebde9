"""Public grids of places: what a cell is, and where, is known without any record; hexagons need the extra `h3`. Cells
are numbered `0 .. size - 1`; latitudes and longitudes are in degrees (WGS 84), distances in km on a sphere."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tacit.errors import DataError

EARTH_KM = 6371.0088
"""Mean radius of the earth."""

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Grid(Protocol):
    """What the library asks of a grid; every grid is frozen, hashable and goes to JSON and back."""

    @property
    def size(self) -> int:
        """Number of cells."""

    def centres(self, cells: npt.ArrayLike) -> FloatArray:
        """Latitude and longitude [n, 2] of the centres of cells [n]."""

    def cells(self, lat: npt.ArrayLike, lon: npt.ArrayLike) -> IntArray:
        """Cells [n] of points, -1 for a point outside the grid and for NaN."""

    def coarse_grid(self, factor: int) -> Grid:
        """The coarser public grid, of which each cell is a block of this one."""

    def coarsen(self, cells: npt.ArrayLike, factor: int) -> IntArray:
        """Cells [n] of `coarse(factor)` that hold the cells [n]."""

    def draw_within(self, blocks: npt.ArrayLike, factor: int, rng: np.random.Generator) -> IntArray:
        """A uniform cell [n] of each of the blocks [n], which are cells of `coarse(factor)`."""

    def to_json(self) -> dict[str, Any]:
        """JSON values for `grid_from_json`."""


@dataclass(frozen=True)
class RegularGrid:
    """Cells in rows and columns around points of equal steps in degrees.

    The centre of cell 0 is (south, west); centres go on by `step` to the north and by `width` (None: `step`) to the
    east as far as `north` and `east` (both included when they are whole steps away). A cell reaches half a step to each
    side. Cell `row * columns + column` is in row `row` from the south. Raises DataError where the box is empty or not
    on the earth, or a step is not positive.
    """

    south: float
    west: float
    north: float
    east: float
    step: float
    width: float | None = None

    def __post_init__(self) -> None:
        numbers = {name: v for name, v in asdict(self).items() if name != "width" or v is not None}
        for name, value in numbers.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise self._error(f"{name} is not a finite number")
            object.__setattr__(self, name, float(value))
        if self.step <= 0 or self._width <= 0:
            raise self._error("a step is not positive")
        if not (-90 <= self.south <= self.north <= 90 and -180 <= self.west <= self.east <= 180):
            raise self._error("the box is empty or not on the earth")

    @classmethod
    def of_metres(cls, box: tuple[float, float, float, float], metres: float) -> RegularGrid:
        """Cells of about `metres` by `metres` over the box (south, west, north, east), square at its middle
        latitude."""
        south, west, north, east = box
        step = metres / 1000.0 / (math.radians(1.0) * EARTH_KM)
        return cls(south, west, north, east, step, step / math.cos(math.radians((south + north) / 2)))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return math.floor((self.north - self.south) / self.step + 1e-6) + 1

    @property
    def columns(self) -> int:
        """Number of columns."""
        return math.floor((self.east - self.west) / self._width + 1e-6) + 1

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.rows * self.columns

    def centres(self, cells: npt.ArrayLike) -> FloatArray:
        """Latitude and longitude [n, 2] of the centres of cells [n], to 10 decimals."""
        row, column = np.divmod(np.asarray(cells, dtype=np.int64), self.columns)
        points: FloatArray = np.stack([self.south + row * self.step, self.west + column * self._width], axis=-1)
        return points.round(10)

    def cells(self, lat: npt.ArrayLike, lon: npt.ArrayLike) -> IntArray:
        """Cells [n] of points, -1 for a point outside the grid and for NaN."""
        with np.errstate(invalid="ignore"):
            row = np.floor((np.asarray(lat, dtype=np.float64) - self.south) / self.step + 0.5)
            column = np.floor((np.asarray(lon, dtype=np.float64) - self.west) / self._width + 0.5)
            inside = (row >= 0) & (row < self.rows) & (column >= 0) & (column < self.columns)
            cell = np.where(inside, row * self.columns + column, -1.0)
        return cell.astype(np.int64)

    def coarse_grid(self, factor: int) -> RegularGrid:
        """Blocks of `factor` x `factor` cells from the south-west; those of the last row and column may be cut."""
        step, width = self.step * factor, self._width * factor
        south, west = self.south + (factor - 1) / 2 * self.step, self.west + (factor - 1) / 2 * self._width
        rows, columns = -(-self.rows // factor), -(-self.columns // factor)
        # the centre of a cut block may lie outside the box, never outside the earth by more than a clip
        north, east = min(south + (rows - 1) * step, 90.0), min(west + (columns - 1) * width, 180.0)
        return RegularGrid(min(south, north), min(west, east), north, east, step, width)

    def coarsen(self, cells: npt.ArrayLike, factor: int) -> IntArray:
        """Cells [n] of `coarse(factor)` that hold the cells [n]."""
        row, column = np.divmod(np.asarray(cells, dtype=np.int64), self.columns)
        blocks: IntArray = (row // factor) * -(-self.columns // factor) + column // factor
        return blocks

    def draw_within(self, blocks: npt.ArrayLike, factor: int, rng: np.random.Generator) -> IntArray:
        """A uniform cell [n] of each of the blocks [n], which are cells of `coarse(factor)`."""
        block_row, block_column = np.divmod(np.asarray(blocks, dtype=np.int64), -(-self.columns // factor))
        low_row, low_column = block_row * factor, block_column * factor
        row = rng.integers(low_row, np.minimum(low_row + factor, self.rows))
        column = rng.integers(low_column, np.minimum(low_column + factor, self.columns))
        drawn: IntArray = row * self.columns + column
        return drawn

    def to_json(self) -> dict[str, Any]:
        """JSON values for `grid_from_json`."""
        return {"kind": "regular", **asdict(self)}

    @property
    def _width(self) -> float:
        return self.step if self.width is None else self.width

    @staticmethod
    def _error(what: str) -> DataError:
        expected = "south <= north in [-90, 90], west <= east in [-180, 180] and positive steps, all in degrees"
        remedy = "give the public box of the region, such as RegularGrid(39.4, 115.7, 41.1, 117.4, 0.01)"
        return DataError(what, where="RegularGrid", expected=expected, remedy=remedy)


def grid_from_json(values: Mapping[str, Any]) -> Grid:
    """The grid that `to_json` wrote. Raises DataError of a missing, unknown or invalid field."""
    kinds: dict[Any, type[Any]] = {"regular": RegularGrid, "h3": H3Grid}
    fields = dict(values) if isinstance(values, Mapping) else {}
    kind = kinds.get(fields.pop("kind", None))
    if kind is not None and set(fields) == set(kind.__dataclass_fields__):
        grid: Grid = kind(**fields)
        return grid
    raise grid_json_error("grid", "grid_from_json", f"kind (one of {', '.join(kinds)}) and the fields of that grid")


def grid_json_error(what: str, where: str, expected: str) -> DataError:
    """The error of JSON values that are not those of a grid, or of what lies on one."""
    remedy = f"use the JSON that to_json of the {what} wrote"
    return DataError(f"the values are not those of a {what}", where=where, expected=expected, remedy=remedy)


def haversine_km(a: npt.ArrayLike, b: npt.ArrayLike) -> FloatArray:
    """Great-circle distances in km between points `[..., 2]` of (lat, lon) in degrees; shapes broadcast."""
    p, q = np.radians(np.asarray(a, dtype=np.float64)), np.radians(np.asarray(b, dtype=np.float64))
    rise = np.sin((q[..., 0] - p[..., 0]) / 2) ** 2
    turn = np.cos(p[..., 0]) * np.cos(q[..., 0]) * np.sin((q[..., 1] - p[..., 1]) / 2) ** 2
    distances: FloatArray = 2 * EARTH_KM * np.arcsin(np.sqrt(np.clip(rise + turn, 0.0, 1.0)))
    return distances


_KM = 111.2  # of a degree, at most
_KM2 = tuple(4_357_449.4 / 7**resolution for resolution in range(16))
"""Mean area of a hexagon of each resolution, km2."""
_MOST = 50_000_000


@dataclass(frozen=True)
class H3Grid:
    """The hexagons of one resolution (0 .. 15; 9: 0.1 km2, 8: 0.7 km2, 7: 5 km2) whose centres are in a box, in order
    of their H3 index. With `of`, a finer resolution, they are the ancestors of its hexagons in the box. Raises
    DataError where the box is empty or not on the earth, a resolution is out of range, or no hexagon is inside."""

    south: float
    west: float
    north: float
    east: float
    resolution: int
    of: int | None = None

    def __post_init__(self) -> None:
        RegularGrid(self.south, self.west, self.north, self.east, 1.0)  # refuses what is no box
        fine = self.resolution if self.of is None else self.of
        if not all(isinstance(v, int) and not isinstance(v, bool) for v in (fine, self.resolution)):
            raise self._error("a resolution is not a whole number")
        if not 0 <= self.resolution <= fine <= 15 or not self.south < self.north or not self.west < self.east:
            raise self._error("a resolution is out of range or the box is empty")
        across = (self.north - self.south) * (self.east - self.west) * _KM**2
        if across / _KM2[fine] > _MOST:
            raise self._error(f"more than {_MOST:,} hexagons are in the box")
        if not len(_hexagons(self)):
            raise self._error("no hexagon has its centre in the box")

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(_hexagons(self))

    def indexes(self, cells: npt.ArrayLike) -> npt.NDArray[np.uint64]:
        """H3 indexes [n] of cells [n]."""
        hexagons: npt.NDArray[np.uint64] = _hexagons(self)[np.asarray(cells, dtype=np.int64)]
        return hexagons

    def centres(self, cells: npt.ArrayLike) -> FloatArray:
        """Latitude and longitude [n, 2] of the centres of cells [n]."""
        return _centres(self)[np.asarray(cells, dtype=np.int64)]

    def cells(self, lat: npt.ArrayLike, lon: npt.ArrayLike) -> IntArray:
        """Cells [n] of points, -1 for a point outside the grid and for NaN."""
        h3 = _h3()
        lat, lon = np.asarray(lat, dtype=np.float64), np.asarray(lon, dtype=np.float64)
        cell = np.full(lat.shape, -1, dtype=np.int64)
        on_earth = (np.abs(lat) <= 90) & (np.abs(lon) <= 180)
        points, index = np.unique(np.stack([lat[on_earth], lon[on_earth]], axis=1), axis=0, return_inverse=True)
        hexagons = (h3.latlng_to_cell(a, b, self.resolution) for a, b in points.tolist())
        cell[on_earth] = _places(self, np.fromiter(hexagons, np.uint64, len(points)))[index]
        return cell

    def coarse_grid(self, factor: int) -> H3Grid:
        """The ancestors `factor` resolutions up, 7^factor times as large. Raises DataError where there is no such
        resolution."""
        fine = self.resolution if self.of is None else self.of
        return H3Grid(self.south, self.west, self.north, self.east, self.resolution - factor, fine)

    def coarsen(self, cells: npt.ArrayLike, factor: int) -> IntArray:
        """Cells [n] of `coarse(factor)` that are the ancestors of cells [n]."""
        return _ancestors(self, factor)[np.asarray(cells, dtype=np.int64)]

    def draw_within(self, blocks: npt.ArrayLike, factor: int, rng: np.random.Generator) -> IntArray:
        """A uniform cell [n] of each of the blocks [n], which are cells of `coarse(factor)`."""
        block = np.asarray(blocks, dtype=np.int64)
        ancestors = _ancestors(self, factor)
        order = np.argsort(ancestors, kind="stable")
        ends = np.cumsum(np.bincount(ancestors))
        drawn: IntArray = order[rng.integers(np.append(0, ends)[block], ends[block])]
        return drawn

    def to_json(self) -> dict[str, Any]:
        """JSON values for `grid_from_json`."""
        return {"kind": "h3", **asdict(self)}

    @staticmethod
    def _error(what: str) -> DataError:
        expected = "a box in degrees, south < north and west < east, and resolutions of H3 from 0 to 15"
        remedy = "give the public box of the region, such as H3Grid(39.4, 115.7, 41.1, 117.4, 8)"
        return DataError(what, where="H3Grid", expected=expected, remedy=remedy)


@functools.lru_cache(maxsize=8)
def _hexagons(grid: H3Grid) -> npt.NDArray[np.uint64]:
    """Rising H3 indexes [size] of the cells."""
    h3 = _h3()
    corners = [(grid.south, grid.west), (grid.south, grid.east), (grid.north, grid.east), (grid.north, grid.west)]
    fine = grid.resolution if grid.of is None else grid.of
    hexagons = h3.h3shape_to_cells(h3.LatLngPoly(corners), fine)
    if fine != grid.resolution:
        hexagons = {h3.cell_to_parent(cell, grid.resolution) for cell in hexagons}
    return np.sort(np.fromiter(hexagons, np.uint64, len(hexagons)))


@functools.lru_cache(maxsize=8)
def _centres(grid: H3Grid) -> FloatArray:
    h3 = _h3()
    return np.array([h3.cell_to_latlng(cell) for cell in _hexagons(grid).tolist()], dtype=np.float64)


@functools.lru_cache(maxsize=8)
def _ancestors(grid: H3Grid, factor: int) -> IntArray:
    coarse = grid.coarse_grid(factor)
    parents = (_h3().cell_to_parent(cell, coarse.resolution) for cell in _hexagons(grid).tolist())
    return _places(coarse, np.fromiter(parents, np.uint64, grid.size))


def _places(grid: H3Grid, hexagons: npt.NDArray[np.uint64]) -> IntArray:
    """Cells [n] of H3 indexes [n], -1 for those outside."""
    indexes = _hexagons(grid)
    at = np.minimum(np.searchsorted(indexes, hexagons), len(indexes) - 1)
    return np.where(indexes[at] == hexagons, at, -1)


def _h3() -> Any:
    try:
        import h3.api.basic_int as h3
    except ImportError:
        h3 = None
    if h3 is None:
        expected, remedy = "h3 4", "run `pip install 'tacit[h3]'`, or use a RegularGrid"
        raise DataError("the package h3 is not installed", where="H3Grid", expected=expected, remedy=remedy)
    return h3
