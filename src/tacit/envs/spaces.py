"""Where exploring leads: by rank among public places, or by a distance and a direction on a grid, or by gravity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.data.mobility.grids import EARTH_KM, Grid, grid_from_json, grid_json_error
from tacit.errors import DataError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_TRIES = 20
DIRECTIONS = 32
"""Of which gravity takes one."""
EVEN = 0.1
"""Share of the mean attraction that every block has besides its own, so that what noise hides is still reached."""
_AT_ONCE = 20_000


@dataclass(frozen=True, eq=False)
class RankLaw:
    """The k-th nearest place of a public vocabulary, with P(k) ~ k^-alpha for k = 1 .. ranks (PATEGAIL's simulator).

    The nearest place of a place is itself, as there; someone in a cell that is no place goes on from the place nearest
    to it. Distances are great circles.

    Raises DataError where the vocabulary is empty, repeats a cell or leaves the grid, or a number is out of range.
    """

    grid: Grid  # public grid
    places: IntArray  # cells of the vocabulary [V], each once
    alpha: float = 0.6  # exponent; a public constant or a released estimate
    ranks: int = 200  # how many neighbours, at most V
    _neighbours: IntArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        places = np.asarray(self.places, dtype=np.int64)
        inside = len(places) and places.min() >= 0 and places.max() < self.grid.size
        if not inside or len(np.unique(places)) != len(places) or not np.isfinite(self.alpha) or self.ranks < 1:
            what = "the vocabulary or a number is out of range"
            expected = "different cells of the grid, a finite alpha and ranks >= 1"
            remedy = "give the public vocabulary as cells of the same grid"
            raise DataError(what, where="RankLaw", expected=expected, remedy=remedy)
        order = np.sort(places)
        ranks = min(self.ranks, len(order))
        from scipy.spatial import KDTree

        points = _unit_vectors(self.grid.centres(order))
        near = KDTree(points).query(points, k=[*range(1, ranks + 1)])[1]
        object.__setattr__(self, "places", order)
        object.__setattr__(self, "_neighbours", near.astype(np.int64))

    def explore(self, cells: IntArray, rng: np.random.Generator) -> IntArray:
        """See `movement.Space`."""
        at = np.minimum(np.searchsorted(self.places, cells), len(self.places) - 1)
        unknown = self.places[at] != cells
        if unknown.any():
            from scipy.spatial import KDTree

            tree = KDTree(_unit_vectors(self.grid.centres(self.places)))
            at[unknown] = tree.query(_unit_vectors(self.grid.centres(cells[unknown])))[1]
        weights = np.cumsum(np.arange(1.0, self._neighbours.shape[1] + 1) ** -self.alpha)
        rank = np.searchsorted(weights, rng.random(len(cells)) * weights[-1], side="right")
        places: IntArray = self.places[self._neighbours[at, np.minimum(rank, len(weights) - 1)]]
        return places


@dataclass(frozen=True)
class UnboundedSpace:
    """A space where every exploration finds a new cell: for what does not depend on where places lie."""

    def explore(self, cells: IntArray, rng: np.random.Generator) -> IntArray:
        """See `movement.Space`."""
        return rng.integers(1, 2**56, len(cells))


@dataclass(frozen=True)
class JumpLaw:
    """A distance from bins of known probabilities, log-uniform in the bin, in a uniform direction. What leaves the grid
    or stays in the cell is drawn again, up to 20 times, and then nobody moves."""

    grid: Grid  # public grid
    edges: tuple[float, ...]  # [B + 1] rising edges of the bins, km, the first above 0
    probabilities: tuple[float, ...]  # [B] of the bins, which add up to 1

    def __post_init__(self) -> None:
        edges, numbers = np.array(self.edges, dtype=np.float64), np.array(self.probabilities, dtype=np.float64)
        rising = edges.ndim == 1 and len(edges) > 1 and edges[0] > 0 and bool((np.diff(edges) > 0).all())
        fits = numbers.shape == (len(edges) - 1,) and bool((numbers >= 0).all())
        if not rising or not fits or not np.isfinite(edges).all() or abs(numbers.sum() - 1) > 1e-6:
            expected = "edges in km that rise from above 0, and one probability for each bin, adding up to 1"
            remedy = "correct the edges, or divide the probabilities by their sum"
            raise DataError("the bins of distance are invalid", where="JumpLaw", expected=expected, remedy=remedy)
        object.__setattr__(self, "edges", tuple(edges.tolist()))
        object.__setattr__(self, "probabilities", tuple(numbers.tolist()))

    def explore(self, cells: IntArray, rng: np.random.Generator) -> IntArray:
        """See `movement.Space`."""
        reached = np.array(cells, dtype=np.int64)
        total, edges = np.cumsum(self.probabilities), np.array(self.edges)
        pending = np.arange(len(reached))
        for _ in range(_TRIES):
            if not len(pending):
                break
            bins = np.searchsorted(total, rng.random(len(pending)) * total[-1], side="right")
            bins = np.minimum(bins, len(total) - 1)
            km = edges[bins] * (edges[bins + 1] / edges[bins]) ** rng.random(len(pending))
            bearing = rng.random(len(pending)) * 2 * np.pi
            drawn = self.grid.cells(*_destinations(self.grid.centres(reached[pending]), km, bearing))
            accepted = (drawn >= 0) & (drawn != reached[pending])
            reached[pending[accepted]] = drawn[accepted]
            pending = pending[~accepted]
        return reached

    def to_json(self) -> dict[str, Any]:
        """JSON values for `from_json`."""
        grid = self.grid.to_json()
        return {"kind": "jumps", "grid": grid, "edges": [*self.edges], "probabilities": [*self.probabilities]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> JumpLaw:
        """The law that `to_json` wrote. Raises DataError of a missing, unknown or invalid field."""
        fields = dict(values) if isinstance(values, Mapping) else {}
        numbers = [fields.get(name) for name in ("edges", "probabilities")]
        whole = all(isinstance(v, list) and all(isinstance(n, (int, float)) for n in v) for v in numbers)
        if not whole or set(fields) != {"kind", "grid", "edges", "probabilities"} or fields["kind"] != "jumps":
            raise grid_json_error("law of jumps", "JumpLaw.from_json", "kind (jumps), grid, edges and probabilities")
        return cls(grid_from_json(fields["grid"]), tuple(fields["edges"]), tuple(fields["probabilities"]))


@dataclass(frozen=True, eq=False)
class GravityLaw:
    """A distance of a law, and of 32 even directions one in proportion to how many live where it ends.

    The attraction [G] (the released shares of homes, say) is of blocks, the cells of `grid.coarse_grid(factor)`; that
    of a cell is that of its block and a tenth of the mean one. Where no direction ends in another cell of the grid,
    `jumps` alone decides. It is the gravity model of trips (Zipf 1946, doi:10.2307/2087063), with distances that are
    measured in place of a power of them.
    """

    jumps: JumpLaw
    factor: int
    attraction: FloatArray

    def explore(self, cells: IntArray, rng: np.random.Generator) -> IntArray:
        """See `movement.Space`."""
        if len(cells) > _AT_ONCE:
            first, rest = cells[:_AT_ONCE], cells[_AT_ONCE:]
            return np.concatenate([self.explore(first, rng), self.explore(rest, rng)])
        grid, n = self.jumps.grid, len(cells)
        edges, chances = np.array(self.jumps.edges), np.array(self.jumps.probabilities)
        bins = rng.choice(len(chances), n, p=chances / chances.sum())
        lengths = edges[bins] * (edges[bins + 1] / edges[bins]) ** rng.random(n)
        km, here = np.repeat(lengths, DIRECTIONS), np.repeat(cells, DIRECTIONS)
        # evenly spaced from a random first one: fewer accidents than as many independent directions have
        bearing = 2 * np.pi * (rng.random((n, 1)) + np.arange(DIRECTIONS) / DIRECTIONS).ravel()
        ends = np.asarray(grid.cells(*_destinations(grid.centres(here), km, bearing)), np.int64)
        weights = np.zeros(len(ends))
        moves = (ends >= 0) & (ends != here)
        weights[moves] = (self.attraction + EVEN * self.attraction.mean())[grid.coarsen(ends[moves], self.factor)]
        total = np.cumsum(weights.reshape(n, DIRECTIONS), axis=1)
        taken = (total <= rng.random((n, 1)) * total[:, -1:]).sum(axis=1)
        lost = total[:, -1] <= 0
        reached: IntArray = ends.reshape(n, DIRECTIONS)[np.arange(n), np.minimum(taken, DIRECTIONS - 1)]
        reached[lost] = self.jumps.explore(cells[lost], rng)
        return reached


def _unit_vectors(points: FloatArray) -> FloatArray:
    """Unit vectors [n, 3] of points [n, 2] in degrees: their order by distance is that on the sphere."""
    lat, lon = np.radians(points[:, 0]), np.radians(points[:, 1])
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)


def _destinations(points: FloatArray, km: FloatArray, bearing: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Latitudes and longitudes [n] after `km` along great circles from points [n, 2]."""
    lat, lon, angle = np.radians(points[:, 0]), np.radians(points[:, 1]), km / EARTH_KM
    sine = np.sin(lat) * np.cos(angle) + np.cos(lat) * np.sin(angle) * np.cos(bearing)
    up = np.arcsin(np.clip(sine, -1.0, 1.0))
    east = lon + np.arctan2(np.sin(bearing) * np.sin(angle) * np.cos(lat), np.cos(angle) - np.sin(lat) * sine)
    return np.degrees(up), (np.degrees(east) + 180.0) % 360.0 - 180.0
