"""Matching: which noisy tables are released beside a model, and weights under which its rows match them.

Every unit gives, for each table, the mean one-hot vector of its rows; all tables together are clipped once and released
by one noisy sum. What follows is post-processing of what was released: weights by iterative proportional fitting
("raking", Deming & Stephan 1940, doi:10.1214/aoms/1177731829), after each noisy table was drawn towards the synthetic
rows' own one by as much as its noise explains of their difference (James & Stein 1961).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import Box, PublicSpec
from tacit.errors import PlanError
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.privacy.mechanisms.contribution_sets import POSITIVE
from tacit.privacy.mechanisms.marginals import DIFFERENCES
from tacit.privacy.mechanisms.releases import Axis
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Clause, clause
from tacit.units import Unit
from tacit.validation import require_positive, require_valid, require_whole

if TYPE_CHECKING:
    from tacit.privacy.vault.base import Run
    from tacit.privacy.vault.vault import Vault


Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Columns = Mapping[str, NDArray[Any]]
Table = tuple[Axis, ...]
"""Columns that are counted together."""

_LEAST = 1e-12


@dataclass(frozen=True)
class Histograms:
    """What one unit adds: the mean one-hot vectors of its rows, table after table (a `Tally`)."""

    tables: tuple[Table, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bins of each table."""
        return tuple(math.prod(len(axis.edges) - 1 for axis in table) for table in self.tables)

    def cells(self, rows: Columns, state: None) -> list[Codes]:
        """The cell of every row in each table."""
        return cell_codes(self.tables, rows)


def release_histograms(vault: Vault, run: Run, part: str, tables: tuple[Table, ...]) -> Iterator[Floats]:
    """The sums of the histograms that are left, one after another, each [bins of all tables]."""
    contribution = Histograms(tables)
    while vault.steps_left(run, part):
        yield vault.noisy_sum(run, part, contribution)[0]


def cell_codes(tables: Sequence[Table], rows: Columns) -> list[Codes]:
    """The cell of every row in each table, in the shape of the rewards; what lies outside falls into outer bins."""
    bins = _bins({axis for table in tables for axis in table}, rows)
    codes = []
    for table in tables:
        code = bins[table[0]]
        for axis in table[1:]:
            code = code * (len(axis.edges) - 1) + bins[axis]
        codes.append(code)
    return codes


def project_to_simplex(counts: Floats, total: float) -> Floats:
    """The nearest counts (in L2) that are nowhere negative and add up to `total` > 0: PrivSyn's "Norm-Sub"."""
    highest = np.sort(counts.ravel())[::-1]
    levels = (np.cumsum(highest) - total) / np.arange(1, highest.size + 1)
    level = levels[np.flatnonzero(highest > levels)[-1]]
    return np.asarray(np.maximum(counts - level, 0.0))


def shrink_table(table: Floats, synthetic: Floats, deviation: float) -> Floats:
    """A noisy table, drawn towards the synthetic rows' own by the share of their difference that is noise."""
    difference = np.asarray(table - synthetic)
    squares = float(np.square(difference).sum())
    weight = 0.0 if squares == 0 else max(0.0, 1 - difference.size * deviation**2 / squares)
    return np.asarray(synthetic + weight * difference)


def match_weights(codes: Sequence[Codes], goals: Sequence[Floats], sweeps: int) -> Floats:
    """Weights [M] of rows that bring table after table to its goal, `sweeps` times."""
    # codes: of each table, the cell [M] of every row
    weights = np.full(len(codes[0]), 1 / len(codes[0]))
    for _ in range(sweeps):
        for code, goal in zip(codes, goals, strict=True):
            present = np.bincount(code, weights, len(goal))
            factor = np.where(present > _LEAST, goal / np.maximum(present, _LEAST), 0.0)
            if (total := present @ factor) > 0:  # else no row at all lies where this table has its shares
                weights *= (factor / total)[code]
    return np.asarray(weights)


def effective_size(weights: Floats) -> float:
    """How many equally weighted rows are as good as these (Kish 1965): 1 / sum of squared weights."""
    return float(1 / np.square(weights).sum())


def resample(weights: Floats, count: int, rng: np.random.Generator) -> Codes:
    """Indices [count] of rows, each as often as its weight says up to one, in random order."""
    heights = np.cumsum(weights)
    at = (rng.random() + np.arange(count)) / count * heights[-1]
    return rng.permutation(np.minimum(np.searchsorted(heights, at, side="right"), len(weights) - 1))


def _bins(axes: Iterable[Axis], rows: Columns) -> dict[Axis, Codes]:
    """The bin of every row along each axis; the values of a column are looked up once, among all its edges."""
    by_column: dict[tuple[str, int], list[Axis]] = {}
    for axis in axes:
        by_column.setdefault((axis.column, axis.index), []).append(axis)
    bins = {}
    for (column, index), alike in by_column.items():
        inner = [np.asarray(axis.edges[1:-1]) for axis in alike]
        every = np.unique(np.concatenate(inner))
        place = np.searchsorted(every, _values(rows, column, index), side="right")
        for axis, edges in zip(alike, inner, strict=True):
            bins[axis] = np.append(0, np.searchsorted(edges, every, side="right"))[place]
    return bins


def _values(rows: Columns, column: str, index: int) -> NDArray[Any]:
    """One coordinate of a column, in the shape of the rewards."""

    def coordinate(values: NDArray[Any]) -> NDArray[Any]:
        return values[..., index] if values.ndim > rows["rewards"].ndim else values

    if column == DIFFERENCES:
        return np.asarray(coordinate(rows["next_observations"]) - coordinate(rows["observations"]))
    return coordinate(rows[column])


PART = "histograms"

MOST_TABLES = 48
"""Pairs of columns are counted by default as long as there are no more tables than this: the noise grows with them."""

AT_ONCE = 10_000
"""Units that are read for one sum by default."""


@dataclass(frozen=True, kw_only=True)
class TableMatching:
    """Which tables (noisy histograms) are released besides the model; synthetic rows get weights that match them.

    Args:
        discretisation: public bins of every column: the tables of one column each.
        joint: tables of several columns.
        rows_per_unit: rows of one unit that count at most; which ones is drawn.
        clip_norm: bound on the L2 norm of one unit's tables together, over the square root of their number. (One row
            has a norm of exactly that root; a mean over many different rows a far smaller one.)
        noise: how much noisier the histograms are than the gradients: the ratio of noise multipliers, each over what
            its steps and rate leave of it, sigma / (rate sqrt(steps)). At 3 the gradients get about 5 % more noise for
            a promise than without histograms.
        steps, sampling_rate: sums of the histograms, each over a Poisson sample at this rate. One sum over everybody is
            the least noisy.
        pool: synthetic rows to be weighted, at least; never fewer than twice those asked for.
        sweeps: of proportional fitting over all tables.
    """

    discretisation: Discretisation
    joint: tuple[Table, ...] = ()
    rows_per_unit: int = 64
    clip_norm: float = 0.3
    noise: float = 3.0
    steps: int = 1
    sampling_rate: float = 1.0
    pool: int = 250_000
    sweeps: int = 20

    def __post_init__(self) -> None:
        require_whole(steps=self.steps, rows_per_unit=self.rows_per_unit, pool=self.pool, sweeps=self.sweeps)
        require_positive(clip_norm=self.clip_norm, noise=self.noise)
        require_valid("sampling_rate", self.sampling_rate, 0 < self.sampling_rate <= 1, "a probability in (0, 1]")
        known = [(axis.column, axis.index) for axis in self.discretisation.axes]
        axes = [axis for table in self.joint for axis in table]
        recorded = all(type(axis) is Axis and (axis.column, axis.index) in known for axis in axes)
        require_valid("joint", len(self.joint), recorded and all(self.joint), "tables of columns that the records have")

    @classmethod
    def of(
        cls,
        spec: PublicSpec,
        *,
        bins: int = 32,
        coarse: int = 8,
        population: int | None = None,
        public: Columns | None = None,
        provenance: str = "",
        **settings: Any,
    ) -> TableMatching:
        """The default tables: every column, and pairs that matter.

        These are, as far as there are at most `MOST_TABLES`: every two coordinates of the observation, every one of
        them with every one of the action, with the reward, and every action with every change of the observation.

        Args:
            spec: the public bounds of the private data.
            bins: of a continuous column by itself.
            coarse: of each continuous column of a pair.
            population: public number of units. Where there are more than `AT_ONCE`, sums are over Poisson samples of so
                many, as many sums as would meet everybody once on average. None: one sum over everybody.
            public: public rows, never private ones, by whose quantiles columns are cut; None cuts by the bounds alone.
            provenance: where these rows come from and why they contain no private record.
            settings: other fields of `TableMatching`.

        Raises:
            DataError: the observation is a Box and `spec.difference` is not declared.
            PlanError: a value is out of range.
        """
        fine, axes = _discretise(spec, bins, coarse, public, provenance)
        observation, action, reward, change = (_axes(axes, *names) for names in _COLUMNS)
        kinds = (
            list(combinations(observation, 2)),
            list(product(observation, action)),
            list(product(observation, reward)),
            list(product(action, change)),
        )
        joint: list[Table] = []
        for pairs in kinds:
            if len(fine.axes) + len(joint) + len(pairs) > MOST_TABLES:
                break
            joint += pairs
        return cls(discretisation=fine, joint=tuple(joint), **_sums(population), **settings)

    @classmethod
    def plane(
        cls,
        spec: PublicSpec,
        *,
        bins: int = 32,
        coarse: int = 8,
        cells: int = 4,
        population: int | None = None,
        public: Columns | None = None,
        provenance: str = "",
        **settings: Any,
    ) -> TableMatching:
        """Tables for a point that moves in the plane: observations (x, y, v_x, v_y), two actions or more.

        Besides every column: positions, velocities, positions with the reward, each velocity with its change and with
        each action; and on a plane of `cells` x `cells`, places with velocities and places with actions.

        Args:
            spec, bins, coarse, population, public, provenance, settings: as of `of`.
            cells: of either coordinate where places meet velocities or actions.

        Raises:
            PlanError: the observation has other than four coordinates, the action fewer than two, or as `of`.
            DataError: as `of`.
        """
        flat = isinstance(spec.observation, Box) and spec.observation.size == 4
        require_valid("observation", spec.observation.size, flat, "(x, y, v_x, v_y)")
        pushed = isinstance(spec.action, Box) and spec.action.size >= 2
        require_valid("action", spec.action.size, pushed, "one along x, one along y, and any others")
        fine, axes = _discretise(spec, bins, coarse, public, provenance)
        x, y, vx, vy = _axes(axes, "observations")
        action, reward, change = (_axes(axes, *names) for names in _COLUMNS[1:])
        broad = _discretise(spec, bins, cells, public, provenance)[1]
        place, motion, act = _axes(broad, "observations")[:2], _axes(broad, "observations")[2:], _axes(broad, "actions")
        joint: list[Table] = [(x, y), (vx, vy), (x, y, *reward), (*place, *motion), (*place, *act)]
        joint += [*product((vx, vy), action), *zip((vx, vy), change[2:], strict=True)]
        joint += zip(action[:2], change[2:], strict=True)
        return cls(discretisation=fine, joint=tuple(joint), **_sums(population), **settings)

    def require(self, spec: PublicSpec) -> None:
        """Raise a PlanError unless the bins were cut by these public bounds of the private data."""
        if self.discretisation.spec != spec:
            what = "the histograms cut columns by other public bounds than the private data declare"
            expected, remedy = "bins of the private data's own public spec", "take TableMatching.of(vault.spec)"
            raise PlanError(what, where="TableMatching", expected=expected, remedy=remedy)

    def covered_clause(self) -> Clause:
        """What the promise covers, for the certificate."""
        return clause("histograms", tables=len(self.tables))

    @property
    def tables(self) -> tuple[Table, ...]:
        """All tables: those of one column each first."""
        return (*((axis,) for axis in self.discretisation.axes), *self.joint)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bins of each table."""
        return Histograms(self.tables).sizes

    def part(self, noise_multiplier: float | None) -> PoissonSum:
        """The touch of private rows."""
        return PoissonSum(
            name=PART,
            steps=self.steps,
            sampling_rate=self.sampling_rate,
            clip_norm=self.clip_norm * math.sqrt(len(self.tables)),
            noise_multiplier=noise_multiplier,
            rows_per_unit=self.rows_per_unit,
            blocks=POSITIVE if self.sampling_rate == 1 else None,
        )

    def tied_part(self, gradients: PoissonSum) -> PoissonSum:
        """The touch of private rows, its noise tied to that of the gradients."""
        sigma = gradients.noise_multiplier
        if sigma is None:
            return self.part(None)
        left = (self.sampling_rate * math.sqrt(self.steps)) / (gradients.sampling_rate * math.sqrt(gradients.steps))
        return self.part(self.noise * sigma * left)

    def public_shares(self, columns: Columns) -> list[Floats]:
        """The exact shares of public rows in all tables."""
        return self.shares(cell_codes(self.tables, columns))

    def shares(self, codes: Sequence[Codes]) -> list[Floats]:
        """The exact shares of rows whose cells [M] in all tables are known."""
        return [np.bincount(code, minlength=size) / len(code) for code, size in zip(codes, self.sizes, strict=True)]


@dataclass(frozen=True, eq=False)
class NoisyHistograms:
    """Released histograms, and what they tell of the rows."""

    matching: TableMatching  # their tables
    part: PoissonSum  # the query that they were released by
    unit: Unit  # whom it protects
    values: Floats  # [sum of `matching.sizes`], the mean of noisy sums of `part`
    sums: int  # how many these were; fewer than the part's steps where an interruption lost some

    def shares(self) -> tuple[list[Floats], float]:
        """The tables as noisy shares of the rows, and the standard deviation of a share's noise."""
        # What all units add to one table is the same for every table, clipped as they are together; it is estimated
        # from all of them.
        assert self.part.noise_multiplier is not None
        sizes = self.matching.sizes
        tables = np.split(np.asarray(self.values, np.float64), np.cumsum(sizes)[:-1])
        deviation = (
            self.part.noise_multiplier * self.part.clip_norm / self.part.divisor(self.unit) / math.sqrt(self.sums)
        )
        total = float(np.average([table.sum() for table in tables], weights=1 / np.array(sizes)))
        total = max(total, deviation, np.finfo(np.float64).tiny)
        return [table / total for table in tables], deviation / total

    def weights(self, columns: Columns) -> Floats:
        """Weights [M], adding up to 1, under which M synthetic rows in raw units agree with the histograms."""
        matching, (tables, deviation) = self.matching, self.shares()
        codes = cell_codes(matching.tables, columns)
        pairs = zip(tables, matching.shares(codes), strict=True)
        goals = [project_to_simplex(shrink_table(table, synthetic, deviation), 1.0) for table, synthetic in pairs]
        return match_weights(codes, goals, matching.sweeps)


_COLUMNS = (("observations",), ("actions",), ("rewards",), (DIFFERENCES, "next_observations"))


def _discretise(
    spec: PublicSpec, bins: int, coarse: int, public: Columns | None, provenance: str
) -> tuple[Discretisation, tuple[Axis, ...]]:
    if public is None:
        return Discretisation(spec, bins), Discretisation(spec, coarse, "center").axes
    edges = [Discretisation.from_public(spec, public, provenance=provenance, bins=count) for count in (bins, coarse)]
    return edges[0], Discretisation(spec, coarse, "center", edges[1].edges, provenance).axes


def _sums(population: int | None) -> dict[str, Any]:
    if population is None or population <= AT_ONCE:
        return {}
    return {"steps": math.ceil(population / AT_ONCE), "sampling_rate": AT_ONCE / population}


def _axes(axes: Sequence[Axis], *columns: str) -> list[Axis]:
    return [axis for axis in axes if axis.column in columns]
