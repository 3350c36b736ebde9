"""Where days begin and how far exploring leads: what a person adds, and what is read out of the noisy mean.

A day's home is the cell of its first slot. A person adds the histogram of her homes on public blocks, and that of the
distances of her steps to places that are new that day, in logarithmic bins. Each is scaled to norm 1: at a given noise
that is the most she can say, whatever her number of days. What is released is a distribution of homes over days, of
which every simulated day draws its own, and a law of distances whose direction is uniform.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.mobility.days import EXPLORE, SLOTS, actions, days_of
from tacit.data.mobility.grids import Grid, grid_from_json, grid_json_error, haversine_km
from tacit.envs.spaces import JumpLaw
from tacit.errors import DataError
from tacit.methods.mobility.blocks import (
    FARTHER,
    Level,
    block_factor,
    coarse_factor,
    estimate_probabilities,
    proximity_prior,
    scales,
    side_km,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Box = tuple[float, float, float, float]

STARTS = "starts"
"""The part's name."""
CLIP = 1.0
"""The norm of what every person adds."""
INSIDE = 0.9
"""Share of homes that a declared box is taken to hold before anything is released."""
WHOLE = 2**16
"""Most blocks of a distribution that nothing was released for."""
LEAST_NOISE = 1e-6
"""The noise that a release without noise is read with."""


@dataclass(frozen=True)
class Homes:
    """The homes of a person's whole days, in order of time."""

    def __call__(self, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Rows [U, L] -> "homes" [U, L // 47], -1 after the last day."""
        people, length = np.asarray(rows["mask"]).shape
        cells, owner = days_of(rows)
        homes = np.full((people, max(1, length // (SLOTS - 1))), -1, np.int64)
        first = np.searchsorted(owner, np.arange(people))
        homes[owner, np.arange(len(owner)) - first[owner]] = cells[:, 0]
        return {"homes": homes}


@dataclass(frozen=True)
class HomeSums:
    """What a person adds: histograms of her homes on fine blocks and, where these are many, on blocks of blocks.

    Args:
        grid: the public grid.
        people: their public number.
        factor: fine blocks are the cells of `grid.coarse(factor)`.
        farther: None, or the factor of blocks of fine blocks that are counted as well, with the same weight: they show
            where the rare occupied fine blocks must be looked for.
        box: public (south, west, north, east) in degrees that is declared to hold nearly all homes, or None. It changes
            how a release is read, not what is released.
    """

    grid: Grid
    people: int
    factor: int
    farther: int | None
    box: Box | None = None

    def __post_init__(self) -> None:
        if self.box is not None:
            south, west, north, east = self.box
            if not (south < north and west < east and self.box_mask().any()):
                what = "the box holds no block of the grid"
                expected = "(south, west, north, east) in degrees, around the centre of a block at least"
                remedy = "check the order of the four numbers, or leave the box out"
                raise DataError(what, where="HomeSums", expected=expected, remedy=remedy)

    @classmethod
    def for_people(cls, grid: Grid, people: int, noise: float, *, box: Box | None = None) -> HomeSums:
        """The sums whose blocks fit the noise, by a public rule (see `blocks.block_factor`).

        Args:
            grid: the public grid.
            people: public number of people.
            noise: standard deviation of the mean's noise, noise multiplier / people.
            box: as the class.
        """
        factor = block_factor(grid, people, noise)
        # Where eight times the noise is well below all people, sums of fine blocks say where homes are just as well.
        many = grid.coarse_grid(factor).size > FARTHER**2 and FARTHER * noise > 0.05
        return cls(grid, people, factor, coarse_factor(grid.coarse_grid(factor)) if many else None, box)

    @property
    def summary(self) -> Homes:
        """What is kept of each person."""
        return Homes()

    @property
    def size(self) -> int:
        """d, the length of a person's vector."""
        return sum(self._sizes())

    def __call__(self, rows: Mapping[str, np.ndarray], state: object = None) -> np.ndarray:
        """[U, d], each row of norm 1, or 0 for a person without a whole day."""
        homes = np.asarray(rows["homes"], np.int64)
        person, day = np.nonzero(homes >= 0)
        block = self.grid.coarsen(homes[person, day], self.factor)
        sizes = self._sizes()
        vectors = np.zeros((len(homes), sum(sizes)))
        np.add.at(vectors, (person, block), 1.0)
        if self.farther is not None:
            parents = self._block_grid().coarsen(block, self.farther)
            np.add.at(vectors, (person, sizes[0] + parents), 1.0)
        vectors /= np.maximum(np.sqrt(np.einsum("ud,ud->u", vectors, vectors)), 1.0)[:, None]
        return vectors

    def read(self, mean: Floats, noise: float) -> StartDistribution:
        """The distribution of homes behind a noisy mean.

        Args:
            mean: [d], the released sum over people divided by their number.
            noise: its known standard deviation.
        """
        mean, noise = np.asarray(mean, np.float64).reshape(-1), max(noise, LEAST_NOISE)
        sizes, inside = self._sizes(), self.box_mask()
        share = INSIDE if not inside.all() else 1.0
        prior = np.asarray(share * inside / inside.sum() + (1 - share) * ~inside / max(1, int((~inside).sum())))
        fine = Level(mean[: sizes[0]], noise, np.zeros(sizes[0], np.int64))
        levels = [fine]
        if self.farther is not None:
            # A person's vector holds both levels at once: each is 1 / sqrt(2) of what it would be alone.
            parents = self._block_grid().coarsen(np.arange(sizes[0]), self.farther)
            above = Level(mean[sizes[0] :] * math.sqrt(2), noise * math.sqrt(2), np.zeros(sizes[1], np.int64))
            levels = [above, Level(fine.noisy_masses * math.sqrt(2), noise * math.sqrt(2), parents)]
        probabilities = estimate_probabilities(levels, prior, proximity_prior(self._block_grid(), prior))
        return StartDistribution(self.grid, self.factor, probabilities, self.people)

    def _block_grid(self) -> Grid:
        return self.grid.coarse_grid(self.factor)

    def _sizes(self) -> tuple[int, ...]:
        fine = self._block_grid()
        return (fine.size,) if self.farther is None else (fine.size, fine.coarse_grid(self.farther).size)

    def box_mask(self) -> NDArray[np.bool_]:
        """Which fine blocks have their centres in the box [G]."""
        fine = self._block_grid()
        if self.box is None:
            return np.ones(fine.size, np.bool_)
        south, west, north, east = self.box
        latitude, longitude = fine.centres(np.arange(fine.size)).T
        inside: NDArray[np.bool_] = (
            (latitude >= south) & (latitude <= north) & (longitude >= west) & (longitude <= east)
        )
        return inside


@dataclass(frozen=True, eq=False)
class StartDistribution:
    """A distribution of the first cells of days: a block by its probability, then one of its homes.

    A block has invented homes: uniform cells of it, as many as its share of `homes` (one at least), the k-th of them
    taken with probability ~ 1 / k (Zipf's law). So simulated days begin in about as few different cells as people's,
    in cells that nobody's record has named.

    Args:
        grid: the public grid.
        factor: blocks are the cells of `grid.coarse(factor)`.
        probabilities: of the blocks of `grid.coarse(factor)`, adding up to 1.
        homes: how many homes there are, the public number of people; 0 takes a new uniform cell for every day.
        seed: of the homes.

    Raises:
        DataError: they are not probabilities of the blocks.
    """

    grid: Grid
    factor: int
    probabilities: Floats
    homes: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        p = np.asarray(self.probabilities, np.float64)
        size = self.grid.coarse_grid(self.factor).size
        fits = p.shape == (size,) and bool((p >= 0).all()) and abs(p.sum() - 1) <= 1e-6
        if not fits or min(self.homes, self.seed) < 0:
            what = "the starts are no distribution over the blocks"
            expected = "one probability for each block, adding up to 1, and whole numbers >= 0 of homes and seed"
            remedy = "read them with HomeSums.read, or divide by their sum"
            raise DataError(what, where="Starts", expected=expected, remedy=remedy)
        object.__setattr__(self, "probabilities", p)

    @classmethod
    def uniform(cls, grid: Grid, *, box: Box | None = None) -> StartDistribution:
        """Uniform over the blocks with their centres in the public box, or over the whole grid: no release is needed.

        Blocks are single cells where the grid has at most `WHOLE` of them, else the smallest that are as few.

        Raises:
            DataError: the box holds no cell.
        """
        few = [factor for factor, _ in scales(grid) if grid.coarse_grid(factor).size <= WHOLE]
        inside = HomeSums(grid, 1, few[0], None, box).box_mask().astype(np.float64)
        return cls(grid, few[0], inside / inside.sum())

    def draw(self, n: int, rng: np.random.Generator) -> Ints:
        """Cells [n]."""
        total = np.cumsum(self.probabilities)
        blocks = np.searchsorted(total, rng.random(n) * total[-1], side="right")
        last = int(np.flatnonzero(self.probabilities)[-1])
        blocks = np.minimum(blocks, last)
        if self.homes == 0:
            return self.grid.draw_within(blocks, self.factor, rng)
        cells = np.zeros(n, np.int64)
        level = rng.random(n)
        order = np.argsort(blocks, kind="stable")
        for days in np.split(order, np.flatnonzero(np.diff(blocks[order])) + 1) if n else ():
            block = int(blocks[days[0]])
            number = max(1, round(self.homes * float(self.probabilities[block])))
            same = np.random.default_rng([self.seed, block])  # so that a block's homes are the same ones always
            homes = self.grid.draw_within(np.full(number, block), self.factor, same)
            weights = np.cumsum(1.0 / np.arange(1, len(homes) + 1))
            cells[days] = homes[np.searchsorted(weights, level[days] * weights[-1], side="right")]
        return cells

    def to_json(self) -> dict[str, Any]:
        """JSON values for `from_json`; probabilities to eight digits, blocks without any left out."""
        at = np.flatnonzero(self.probabilities)
        numbers = [float(f"{p:.8g}") for p in self.probabilities[at]]
        public = {"grid": self.grid.to_json(), "factor": self.factor, "homes": self.homes, "seed": self.seed}
        return {**public, "blocks": at.tolist(), "probabilities": numbers}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> StartDistribution:
        """The starts that `to_json` wrote.

        Raises:
            DataError: a field is missing or invalid.
        """
        try:
            grid, factor = grid_from_json(fields["grid"]), int(fields["factor"])
            p = np.zeros(grid.coarse_grid(factor).size)
            p[np.asarray(fields["blocks"], np.int64)] = np.asarray(fields["probabilities"], np.float64)
            return cls(grid, factor, p / p.sum(), int(fields["homes"]), int(fields["seed"]))
        except (KeyError, TypeError, ValueError, IndexError):
            expected = "grid, factor, homes, seed, blocks and probabilities"
            raise grid_json_error("distribution of starts", "Starts.from_json", expected) from None


JUMPS = "jumps"
"""The part's name."""
BINS = 16
FARTHEST_KM = 3000.0
NEAREST = 0.75
"""The least distance, in sides of a cell."""
SMOOTH = 2.0
"""Bins over which the law is taken to be smooth."""


@dataclass(frozen=True)
class Distances:
    """How often a person explores over distances of each bin.

    Args:
        grid: the public grid.
        edges: [B + 1] rising edges of the bins, km; what lies outside counts in the bin at that end.
    """

    grid: Grid
    edges: tuple[float, ...]

    def __call__(self, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Rows [U, L] -> "jumps" [U, B]."""
        cells, owner = days_of(rows)
        counts = np.zeros((len(rows["mask"]), len(self.edges) - 1))
        day, slot = np.nonzero(actions(cells) == EXPLORE)
        origin, destination = self.grid.centres(cells[day, slot]), self.grid.centres(cells[day, slot + 1])
        at = np.searchsorted(np.array(self.edges), haversine_km(origin, destination), side="right") - 1
        np.add.at(counts, (owner[day], np.clip(at, 0, len(self.edges) - 2)), 1.0)
        return {"jumps": counts}


@dataclass(frozen=True)
class JumpSums:
    """What a person adds: her histogram of distances of norm 1.

    Args:
        grid, edges: as for `Distances`.
    """

    grid: Grid
    edges: tuple[float, ...]

    @classmethod
    def from_grid(cls, grid: Grid) -> JumpSums:
        """Sixteen bins from just below the side of a cell to the grid's diagonal, at most 3,000 km."""
        low, diagonal = NEAREST * side_km(grid), side_km(grid) * math.sqrt(2 * grid.size)
        edges = np.geomspace(low, max(2 * low, min(FARTHEST_KM, diagonal)), BINS + 1)
        return cls(grid, tuple(float(edge) for edge in edges))

    @property
    def summary(self) -> Distances:
        """What is kept of each person."""
        return Distances(self.grid, self.edges)

    @property
    def size(self) -> int:
        """B, the length of a person's vector."""
        return len(self.edges) - 1

    def __call__(self, rows: Mapping[str, np.ndarray], state: object = None) -> np.ndarray:
        """[U, B], each row of norm 1, or 0 for a person who never explores."""
        counts = np.asarray(rows["jumps"], np.float64)
        norms = np.sqrt(np.square(counts).sum(axis=1, keepdims=True))
        return np.asarray(counts / np.maximum(norms, 1.0))

    def read(self, mean: Floats, noise: float) -> JumpLaw:
        """The law behind a noisy mean.

        Args:
            mean: [B], the released sum over people divided by their number.
            noise: its known standard deviation.
        """
        masses = smooth_curve(np.asarray(mean, np.float64).reshape(-1), noise)
        total = masses.sum()
        p = masses / total if total > 0 else np.full(len(masses), 1 / len(masses))
        return JumpLaw(self.grid, self.edges, tuple(float(x) for x in p))


def smooth_curve(observed: Floats, noise: float) -> Floats:
    """Posterior mean [B] >= 0 of a smooth curve seen with known noise.

    A Gaussian process over the bins around the mean of what is seen, with a squared exponential kernel of length
    `SMOOTH`; its scale is the one of a public ladder that makes what is seen most likely.
    """
    if noise <= 0:
        return np.maximum(observed, 0.0)
    bins = np.arange(len(observed))
    kernel = np.exp(-np.square(bins[:, None] - bins) / (2 * SMOOTH**2))
    level = max(float(observed.mean()), 0.0)
    best = None
    for scale in 2.0 ** np.arange(-8, 3) * max(level, noise):
        prior = scale**2 * kernel
        cholesky = np.linalg.cholesky(prior + noise**2 * np.eye(len(observed)))
        white = np.linalg.solve(cholesky, observed - level)
        score = -0.5 * float(white @ white) - float(np.log(np.diag(cholesky)).sum())
        if best is None or score > best[0]:
            best = score, level + prior @ np.linalg.solve(cholesky.T, white)
    assert best is not None
    return np.asarray(np.maximum(best[1], 0.0))
