"""A table of transitions as cells of public bins, and cells back to rows.

Columns are cut by what is known without the data, the same public knowledge that the diffusion model's encoder has:
a Box within its bounds, the change of a Box observation instead of its next value (scaled by `spec.difference`),
Discrete columns and terminations by their values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import DataError
from tacit.privacy.marginals import DIFFERENCES
from tacit.privacy.mechanisms.histogram import Axis
from tacit.privacy.parts import check

Decoding = Literal["uniform", "center"]
Codes = NDArray[np.int32]

_INNER = 2.0
"""Differences of so many typical steps on either side share the narrow bins."""


@dataclass(frozen=True)
class Cut:
    """Public bins of every column of a table.

    Args:
        spec: the public bounds.
        bins: bins of a continuous column. Bounds are cut evenly. Of the bins of a difference, three quarters are even
            over two typical steps on either side and the rest widen geometrically up to the range of the bounds.
        decoding: what a bin stands for in sampled rows: "uniform", a uniform value in it, and values on a bound (a
            clipped action) have a bin of their own; or "center", its middle.

    Raises:
        PlanError: a value is out of range.
        DataError: the observation is a Box and `spec.difference` is not declared.
    """

    spec: PublicSpec
    bins: int = 32
    decoding: Decoding = "uniform"

    def __post_init__(self) -> None:
        check("bins", self.bins, type(self.bins) is int and self.bins >= 4, "a whole number >= 4")
        check("decoding", self.decoding, self.decoding in get_args(Decoding), " or ".join(get_args(Decoding)))
        if isinstance(self.spec.observation, Box) and self.spec.difference is None:
            raise DataError(
                "the typical size of a step is not declared",
                where="Cut",
                expected="spec.difference, one positive number per observation dimension",
                remedy="declare PublicSpec(difference=...)",
            )

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """One axis a scalar column, in the order observations, actions, rewards, next, terminations."""
        spec = self.spec
        axes = [*self._space("observations", spec.observation), *self._space("actions", spec.action)]
        axes += self._space("rewards", spec.reward)
        if isinstance(spec.observation, Box):
            assert spec.difference is not None
            bounds = zip(spec.observation.low, spec.observation.high, spec.difference, strict=True)
            edges = [_widening(step, high - low, self.bins) for low, high, step in bounds]
            axes += [Axis(DIFFERENCES, i, tuple(e.tolist())) for i, e in enumerate(edges)]
        else:
            axes += self._space("next_observations", spec.observation)
        return (*axes, *([_values("terminations", 2)] if spec.terminals else []))

    @property
    def shape(self) -> tuple[int, ...]:
        """Bins of every axis."""
        return tuple(len(axis.edges) - 1 for axis in self.axes)

    def decode(self, codes: Codes, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Cells [T, A] as columns of raw units inside the public bounds: those of a table, and `truncations`."""
        spec, rows = self.spec, len(codes)
        parts: dict[str, list[NDArray[Any]]] = {}
        for axis, cell in zip(self.axes, codes.T, strict=True):
            parts.setdefault(axis.column, []).append(self._numbers(axis, cell, rng))
        numbers = {name: np.stack(columns, axis=1) for name, columns in parts.items()}
        observations = _within(numbers["observations"], spec.observation)
        following = numbers.get("next_observations")
        if following is None:
            following = observations + numbers[DIFFERENCES]
        return {
            "observations": observations,
            "actions": _within(numbers["actions"], spec.action),
            "rewards": _within(numbers["rewards"], spec.reward)[:, 0],
            "next_observations": _within(following, spec.observation),
            "terminations": numbers["terminations"][:, 0] > 0.5 if spec.terminals else np.zeros(rows, bool),
            "truncations": np.zeros(rows, bool),
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Cut:
        """The cut whose nested fields `privacy.plan.public_fields` wrote."""
        spaces = ("observation", "action", "reward")
        kinds = {name: "discrete" if "n" in fields["spec"][name] else "box" for name in spaces}
        spec = {**fields["spec"], **{name: {"kind": kinds[name], **fields["spec"][name]} for name in spaces}}
        return cls(**{**fields, "spec": PublicSpec.from_json(spec)})

    def _space(self, column: str, space: Box | Discrete) -> list[Axis]:
        if isinstance(space, Discrete):
            return [_values(column, space.n)]
        inner = zip(*space.single(), strict=True)
        bounds = zip(space.low, space.high, inner, strict=True)
        return [Axis(column, i, self._even(*bound)) for i, bound in enumerate(bounds)]

    def _even(self, low: float, high: float, inner: tuple[np.float32, np.float32]) -> tuple[float, ...]:
        edges = np.linspace(low, high, self.bins + 1).tolist()
        if self.decoding == "center":
            return tuple(edges)
        after, before = float(np.nextafter(inner[0], inner[1])), float(inner[1])
        return (edges[0], after, *edges[1:-1], before, max(high, math.nextafter(before, math.inf)))

    def _numbers(self, axis: Axis, cell: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.float64]:
        edges, share = np.asarray(axis.edges), np.full(len(cell), 0.5)
        if self.decoding == "uniform" and not _whole(axis):
            share = rng.random(len(cell))
            if axis.column != DIFFERENCES:
                share[cell == 0], share[cell == len(edges) - 2] = 0.0, 1.0
        return np.asarray(edges[cell] + share * (edges[cell + 1] - edges[cell]))


def _widening(step: float, extent: float, bins: int) -> NDArray[np.float64]:
    """Edges [bins + 1] of a difference of typical size `step`, from -extent to extent."""
    inner = min(_INNER * step, extent / 2)
    outer = max(1, bins // 8)
    tail = np.geomspace(inner, extent, outer + 1)[1:]
    return np.concatenate([-tail[::-1], np.linspace(-inner, inner, bins - 2 * outer + 1), tail])


def _values(column: str, count: int) -> Axis:
    return Axis(column, 0, tuple((np.arange(count + 1) - 0.5).tolist()))


def _whole(axis: Axis) -> bool:
    """Whether the axis is cut into the whole numbers 0, 1, ... as `_values` does."""
    return axis.edges == tuple(i - 0.5 for i in range(len(axis.edges)))


def _within(values: NDArray[Any], space: Box | Discrete) -> NDArray[Any]:
    if isinstance(space, Discrete):
        return values[:, 0].astype(np.int64)
    low, high = space.single()
    return np.asarray(np.clip(values, low, high), np.float32)
