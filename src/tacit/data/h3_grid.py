"""A public grid of H3's hexagons (extra `h3`)."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.data.grids import RegularGrid
from tacit.errors import DataError

__all__ = ["H3Grid"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_KM = 111.2  # of a degree, at most
_KM2 = tuple(4_357_449.4 / 7**resolution for resolution in range(16))
"""Mean area of a hexagon of each resolution, km2."""
_MOST = 50_000_000


@dataclass(frozen=True)
class H3Grid:
    """The hexagons of one resolution whose centres are in a box, in order of their H3 index.

    Args:
        south, west, north, east: the box, degrees.
        resolution: of H3, 0 .. 15 (9: 0.1 km2, 8: 0.7 km2, 7: 5 km2).
        of: None, or the finer resolution whose hexagons in the box are covered: the cells are then their ancestors.

    Raises:
        DataError: the box is empty or not on the earth, a resolution is out of range, or no hexagon is inside.
    """

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
            raise self._invalid("a resolution is not a whole number")
        if not 0 <= self.resolution <= fine <= 15 or not self.south < self.north or not self.west < self.east:
            raise self._invalid("a resolution is out of range or the box is empty")
        across = (self.north - self.south) * (self.east - self.west) * _KM**2
        if across / _KM2[fine] > _MOST:
            raise self._invalid(f"more than {_MOST:,} hexagons are in the box")
        if not len(_hexagons(self)):
            raise self._invalid("no hexagon has its centre in the box")

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(_hexagons(self))

    def indexes(self, cells: npt.ArrayLike) -> npt.NDArray[np.uint64]:
        """H3 indexes [n] of cells [n]."""
        found: npt.NDArray[np.uint64] = _hexagons(self)[np.asarray(cells, dtype=np.int64)]
        return found

    def centres(self, cells: npt.ArrayLike) -> FloatArray:
        """Latitude and longitude [n, 2] of the centres of cells [n]."""
        return _centres(self)[np.asarray(cells, dtype=np.int64)]

    def cells(self, lat: npt.ArrayLike, lon: npt.ArrayLike) -> IntArray:
        """Cells [n] of points, -1 for a point outside the grid and for NaN."""
        h3 = _h3()
        lat, lon = np.asarray(lat, dtype=np.float64), np.asarray(lon, dtype=np.float64)
        found = np.full(lat.shape, -1, dtype=np.int64)
        near = (np.abs(lat) <= 90) & (np.abs(lon) <= 180)
        points, index = np.unique(np.stack([lat[near], lon[near]], axis=1), axis=0, return_inverse=True)
        hexagons = (h3.latlng_to_cell(a, b, self.resolution) for a, b in points.tolist())
        found[near] = _places(self, np.fromiter(hexagons, np.uint64, len(points)))[index]
        return found

    def coarse(self, factor: int) -> H3Grid:
        """The ancestors `factor` resolutions up; the areas are 7^factor times as large.

        Raises:
            DataError: there is no such resolution.
        """
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
    def _invalid(what: str) -> DataError:
        return DataError(
            what,
            where="H3Grid",
            expected="a box in degrees, south < north and west < east, and resolutions of H3 from 0 to 15",
            remedy="give the public box of the region, such as H3Grid(39.4, 115.7, 41.1, 117.4, 8)",
        )


@functools.lru_cache(maxsize=8)
def _hexagons(grid: H3Grid) -> npt.NDArray[np.uint64]:
    """Rising H3 indexes [size] of the cells."""
    h3 = _h3()
    corners = [(grid.south, grid.west), (grid.south, grid.east), (grid.north, grid.east), (grid.north, grid.west)]
    fine = grid.resolution if grid.of is None else grid.of
    found = h3.h3shape_to_cells(h3.LatLngPoly(corners), fine)
    if fine != grid.resolution:
        found = {h3.cell_to_parent(cell, grid.resolution) for cell in found}
    return np.sort(np.fromiter(found, np.uint64, len(found)))


@functools.lru_cache(maxsize=8)
def _centres(grid: H3Grid) -> FloatArray:
    h3 = _h3()
    return np.array([h3.cell_to_latlng(cell) for cell in _hexagons(grid).tolist()], dtype=np.float64)


@functools.lru_cache(maxsize=8)
def _ancestors(grid: H3Grid, factor: int) -> IntArray:
    coarse = grid.coarse(factor)
    parents = (_h3().cell_to_parent(cell, coarse.resolution) for cell in _hexagons(grid).tolist())
    return _places(coarse, np.fromiter(parents, np.uint64, grid.size))


def _places(grid: H3Grid, hexagons: npt.NDArray[np.uint64]) -> IntArray:
    """Cells [n] of H3 indexes [n], -1 for those outside."""
    known = _hexagons(grid)
    at = np.minimum(np.searchsorted(known, hexagons), len(known) - 1)
    return np.where(known[at] == hexagons, at, -1)


def _h3() -> Any:
    try:
        import h3.api.basic_int as h3
    except ImportError:
        h3 = None
    if h3 is None:
        raise DataError(
            "the package h3 is not installed",
            where="H3Grid",
            expected="h3 4",
            remedy="run `pip install 'tacit[h3]'`, or use a RegularGrid",
        )
    return h3
