"""A table of transitions as cells of public bins, and cells back to rows.

Columns are cut by what is known without the data, the same public knowledge that the diffusion model's encoder has:
a Box within its bounds, the change of a Box observation instead of its next value (scaled by `spec.difference`),
Discrete columns, categories and terminations by their values.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import DataError
from tacit.parameters import Option
from tacit.privacy.mechanisms.marginals import DIFFERENCES
from tacit.privacy.mechanisms.releases import Axis
from tacit.privacy.sentences import Clause, clause
from tacit.validation import require_valid

Decoding = Literal["uniform", "center"]
Codes = NDArray[np.int32]

MOST_BINS, MOST_BINS_IN_ALL = 2**16, 2**18
"""Bins of a continuous column, and of all columns together: whoever verifies a certificate makes them again."""

_NEXT = "next_observations"

_INNER = 2.0
"""Differences of so many typical steps on either side share the narrow bins."""

_EVEN = 0.25
"""Share of values spread by the bounds alone that are mixed into public ones, so that no part of the range is lost."""


@dataclass(frozen=True)
class Discretisation:
    """Public bins of every column of a table.

    Raises:
        PlanError: a value is out of range.
        DataError: the observation is a Box and `spec.difference` is not declared, or the edges do not fit the spec.
    """

    spec: PublicSpec
    """the public bounds."""
    bins: Option[int] = 32
    """bins of a continuous column. Bounds are cut evenly. Of the bins of a difference, three quarters are even over two
    typical steps on either side and the rest widen geometrically up to the range of the bounds."""
    decoding: Decoding = "uniform"
    """what a bin stands for in sampled rows: "uniform", a uniform value in it, and values on a bound (a clipped action)
    have a bin of their own; or "center", its middle."""
    edges: tuple[tuple[float, ...], ...] = ()
    """other edges for the continuous columns, in the order of `axes`, from public rows (`from_public`)."""
    provenance: str = ""
    """where those rows come from and why they contain no private record. Declared, printed in the certificate, never
    inferred."""

    def __post_init__(self) -> None:
        require_valid("bins", self.bins, type(self.bins) is int and self.bins >= 4, "a whole number >= 4")
        require_valid("bins", self.bins, self.bins <= MOST_BINS, f"at most {MOST_BINS:,}")
        valid = self._bin_count_bound() <= MOST_BINS_IN_ALL
        require_valid("spec", self._bin_count_bound(), valid, f"at most {MOST_BINS_IN_ALL:,} bins in all")
        require_valid("decoding", self.decoding, self.decoding in get_args(Decoding), " or ".join(get_args(Decoding)))
        declared = bool(self.provenance.strip()) == bool(self.edges)
        require_valid(
            "provenance", self.provenance, declared, "a sentence that says where public rows come from, if any do"
        )
        if isinstance(self.spec.observation, Box) and self.spec.difference is None:
            what = "the typical size of a step is not declared"
            expected = "in the spec a step for each number of the observation (in Python difference=)"
            remedy = "declare it, and import the records again"
            raise DataError(what, where="Discretisation", expected=expected, remedy=remedy)
        ends = [(edges[0], edges[-1]) for _, _, edges in self._continuous_columns()]
        if self.edges and [(edges[0], edges[-1]) for edges in self.edges] != ends:
            what = "the edges do not span the public bounds"
            expected = f"edges of {len(ends)} continuous columns, from bound to bound"
            remedy = "build it with Discretisation.from_public"
            raise DataError(what, where="Discretisation", expected=expected, remedy=remedy)

    @classmethod
    def from_public(
        cls, spec: PublicSpec, columns: Mapping[str, NDArray[Any]], *, provenance: str, bins: int = 32
    ) -> Discretisation:
        """Bins that hold about as many public rows each, with a quarter of rows spread by the bounds alone.

        The widening bins of a difference stay as they are.

        Args:
            spec: the public bounds of the *private* data.
            columns: public rows, never private ones: `observations`, `actions`, `next_observations` [T, d] (or [T],
                Discrete), `rewards` [T].
            provenance: where these rows come from and why they contain no private record.
            bins: of a continuous column; where public values repeat, there are fewer.
        """
        by_bounds = cls(spec, bins)
        edges = []
        for column, index, even in by_bounds._continuous_columns():
            if column == DIFFERENCES:
                values = np.subtract(columns["next_observations"], columns["observations"], dtype=np.float64)
            else:
                values = np.asarray(columns[column], np.float64)
            values = values[:, index] if values.ndim == 2 else values
            tail = _tail(bins) if column == DIFFERENCES else 0
            stop = len(even) - tail
            edges.append((*even[:tail], *_adapted_edges(values, np.asarray(even[tail:stop])), *even[stop:]))
        return cls(spec, bins, edges=tuple(edges), provenance=provenance)

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """One axis a scalar column, in the order observations, actions, rewards, next, terminations."""
        spec, axes = self.spec, []
        cuts = iter(self.edges or [edges for _, _, edges in self._continuous_columns()])
        spaces = {"observations": spec.observation, "actions": spec.action, "rewards": spec.reward}
        for column, space in spaces.items():
            if isinstance(space, Discrete):
                axes.append(_values(column, space.n))
                continue
            for i, (low, high, count) in enumerate(zip(*space.float32_bounds(), self._counts(space), strict=True)):
                axes.append(
                    _values(column, count, i, first=round(float(low)))
                    if count
                    else Axis(column, i, self._with_ends(next(cuts), low, high))
                )
        if isinstance(spec.observation, Box):
            for i, (count, static) in enumerate(zip(spec.observation.categories, spec.observation.static, strict=True)):
                if not static:  # of what never changes, nothing is counted twice
                    axes.append(_values(_NEXT, count, i) if count else Axis(DIFFERENCES, i, next(cuts)))
        else:
            axes.append(_values(_NEXT, spec.observation.n))
        return (*axes, *([_values("terminations", 2)] if spec.terminals else []))

    def _bin_count_bound(self) -> int:
        """At least as many bins as all axes have together; nothing is made for it."""
        count = 0
        for space in (self.spec.observation, self.spec.action, self.spec.reward, self.spec.observation):
            if isinstance(space, Box):
                count += sum(max(self.bins, labels) for labels in space.categories)
            else:
                count += space.n
        return count

    def _continuous_columns(self) -> list[tuple[str, int, tuple[float, ...]]]:
        """Each continuous column: its name, its coordinate and its edges by the bounds alone."""
        spec, columns = self.spec, []
        for column, space in (("observations", spec.observation), ("actions", spec.action), ("rewards", spec.reward)):
            if isinstance(space, Box):
                for i, (low, high, count) in enumerate(zip(space.low, space.high, self._counts(space), strict=True)):
                    if not count:
                        columns.append((column, i, tuple(np.linspace(low, high, self.bins + 1).tolist())))
        if isinstance(spec.observation, Box):
            assert spec.difference is not None
            extents = np.subtract(spec.observation.high, spec.observation.low).tolist()
            moves = zip(spec.observation.categories, spec.difference, extents, strict=True)
            for i, (count, step, extent) in enumerate(moves):
                if not count and not spec.observation.static[i]:
                    columns.append((DIFFERENCES, i, _widening_edges(step, extent, self.bins)))
        return columns

    def _counts(self, space: Box) -> list[int]:
        """For each dimension how many whole numbers it takes; 0 where they are more than bins, or no whole numbers."""
        dimensions = zip(space.low, space.high, space.whole, space.categories, strict=True)
        counts = [(round(high - low) + 1 if whole else 0, labels) for low, high, whole, labels in dimensions]
        return [count if count <= self.bins or labels else 0 for count, labels in counts]

    @property
    def shape(self) -> tuple[int, ...]:
        """Bins of every axis."""
        return tuple(len(axis.edges) - 1 for axis in self.axes)

    def decode(self, codes: Codes, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Cells [T, A] as columns of raw units inside the public bounds: those of a table, and `truncations`."""
        spec, rows = self.spec, len(codes)
        parts: dict[str, dict[int, NDArray[Any]]] = {}
        for axis, cell in zip(self.axes, codes.T, strict=True):
            parts.setdefault(axis.column, {})[axis.index] = self._draw_values(axis, cell, rng)
        changes = parts.pop(DIFFERENCES, {})
        numbers = {name: np.stack(list(columns.values()), axis=1) for name, columns in parts.items() if name != _NEXT}
        observations = clip_to_bounds(numbers["observations"], spec.observation)
        reached = {i: observations[:, i] + change for i, change in changes.items()} | parts.get(_NEXT, {})
        if isinstance(spec.observation, Box):
            reached |= {i: observations[:, i] for i in np.flatnonzero(spec.observation.static).tolist()}
        following = np.stack([reached[i] for i in sorted(reached)], axis=1)
        return {
            "observations": observations,
            "actions": clip_to_bounds(numbers["actions"], spec.action),
            "rewards": clip_to_bounds(numbers["rewards"], spec.reward)[:, 0],
            "next_observations": clip_to_bounds(following, spec.observation),
            "terminations": numbers["terminations"][:, 0] > 0.5 if spec.terminals else np.zeros(rows, bool),
            "truncations": np.zeros(rows, bool),
        }

    def public_clauses(self) -> tuple[Clause, ...]:
        """What the certificate does not cover: public rows that shaped the bins, if any did."""
        return (clause("bins_shaped", words=self.provenance),) if self.provenance else ()

    def _with_ends(self, edges: tuple[float, ...], low: np.float32, high: np.float32) -> tuple[float, ...]:
        """Edges with a bin of their own for values on either bound, if bins stand for ranges."""
        if self.decoding == "center":
            return edges
        after, before = float(np.nextafter(low, high)), float(high)
        last = max(edges[-1], math.nextafter(before, math.inf))
        return (edges[0], after, *(edge for edge in edges[1:-1] if after < edge < before), before, last)

    def _draw_values(self, axis: Axis, cell: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.float64]:
        edges, share = np.asarray(axis.edges), np.full(len(cell), 0.5)
        first = axis.edges[0]
        whole = first % 1 == 0.5 and axis.edges == tuple(first + i for i in range(len(axis.edges)))  # as of `_values`
        if self.decoding == "uniform" and not whole:
            share = rng.random(len(cell))
            if axis.column != DIFFERENCES:
                share[cell == 0], share[cell == len(edges) - 2] = 0.0, 1.0
        return np.asarray(edges[cell] + share * (edges[cell + 1] - edges[cell]))


def _tail(bins: int) -> int:
    """How many bins of a difference widen, on either side."""
    return max(1, bins // 8)


def _widening_edges(step: float, extent: float, bins: int) -> tuple[float, ...]:
    """The `bins + 1` edges of a difference of typical size `step`, from -extent to extent."""
    inner = min(_INNER * step, extent / 2)
    outer = _tail(bins)
    tail = [*np.geomspace(inner, extent, outer + 1)[1:-1].tolist(), extent]
    middle = np.linspace(-inner, inner, bins - 2 * outer + 1).tolist()
    return (*(-edge for edge in reversed(tail)), *middle, *tail)


def _adapted_edges(values: NDArray[np.float64], even: NDArray[np.float64]) -> tuple[float, ...]:
    """Quantiles of public values inside the bounds, mixed with values that are spread as the `even` edges are."""
    inside = values[(values > even[0]) & (values < even[-1])]
    shares = np.linspace(0.0, 1.0, len(even))
    count = max(4 * len(even), round(len(inside) * _EVEN / (1 - _EVEN)))
    spread = np.interp(np.linspace(0.0, 1.0, count), shares, even)
    inner = np.unique(np.quantile(np.concatenate([inside, spread]), shares[1:-1]).astype(np.float32))
    return (float(even[0]), *(edge for edge in inner.tolist() if even[0] < edge < even[-1]), float(even[-1]))


def _values(column: str, count: int, index: int = 0, *, first: int = 0) -> Axis:
    return Axis(column, index, tuple((first + np.arange(count + 1) - 0.5).tolist()))


def clip_to_bounds(values: NDArray[Any], space: Box | Discrete) -> NDArray[Any]:
    """Numbers [T, d] as values of a space: whole where these are, and inside its bounds; labels [T] of a Discrete."""
    if isinstance(space, Discrete):
        return values[:, 0].astype(np.int64)
    low, high = space.float32_bounds()
    values = np.where(space.whole, np.rint(values), values) if any(space.whole) else values
    return np.asarray(np.clip(values, low, high), np.float32)


def to_trajectories(columns: Mapping[str, NDArray[Any]], spec: PublicSpec) -> Trajectories:
    """Independent sampled transitions as a data set that belongs to nobody, one unit a row.

    Propensities are not synthesised: no behaviour policy chose these actions.

    Args:
        columns: `observations`, `actions`, `rewards`, `next_observations`, `terminations`, each of T rows.
        spec: the public bounds that they lie in.
    """
    columns = spec.raw(columns)
    return Trajectories.from_arrays(
        observations=columns["observations"],
        actions=columns["actions"],
        rewards=columns["rewards"],
        next_observations=columns["next_observations"],
        terminations=columns["terminations"],
        unit_ids=":transition",
        spec=dataclasses.replace(spec, propensities=False),
        simulated=True,
    )
