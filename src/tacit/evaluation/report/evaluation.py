"""What the report of an evaluation says: public numbers alone, the value of a policy and the values of states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.methods.off_policy_evaluation.problem import Evaluation, Interval

Array = NDArray[np.float64]

_LINE, _SIDE, _LINES = 121, 41, 24
"""Points of a line, cells of a side of a surface, and lines at most."""


@dataclass(frozen=True)
class ValueLine:
    """Values [N] along one dimension of the observation.

    Attributes:
        label: the dimension.
        x: [N] positions on it; the numbers 0 .. N - 1 where the observation is discrete.
        values: [N].
        discrete: whether the observation is discrete.
    """

    label: str
    x: Array
    values: Array
    discrete: bool = False


@dataclass(frozen=True)
class ValueSurface:
    """Values over the public bounds of a two-dimensional observation, at the middles of equal cells.

    Attributes:
        labels: the two dimensions.
        low, high: [2] public bounds.
        values: [rows, columns]; columns run along the first dimension.
    """

    labels: tuple[str, str]
    low: Array
    high: Array
    values: Array


@dataclass(frozen=True)
class Overlap:
    """How alike behaviour and evaluated policy are, as a release of its own says.

    Attributes:
        edges: [B + 1] increasing edges of the bins, powers of ten of an episode's importance weight.
        shares: [B] share of episodes in each bin, noisy.
        words: what was found, in sentences.
    """

    edges: Array
    shares: Array
    words: tuple[str, ...]


@dataclass(frozen=True)
class EvaluationReport:
    """Everything that the report of an evaluation shows; it has no place for a record.

    Attributes:
        title: of the release.
        certificate: the release's certificate as `Certificate.to_json()` gives it, verified by the caller.
        verify: the shell commands with which a reader recomputes the promise.
        policy: the evaluated policy in words.
        limits: the public range of values.
        value: the policy's value, or None where the method gives a value function alone.
        interval: about the value, or None.
        lines: the value function, along each dimension of the observation.
        surface: the value function over two dimensions, or None.
        diagnostics: (name, words) of further public numbers.
        overlap: of the two policies, or None.
        costs: (name, value) pairs on run time and memory; for simulated records only.
    """

    title: str
    certificate: Mapping[str, Any]
    verify: tuple[str, ...]
    policy: str
    limits: tuple[float, float]
    value: float | None = None
    interval: Interval | None = None
    lines: tuple[ValueLine, ...] = ()
    surface: ValueSurface | None = None
    diagnostics: tuple[tuple[str, str], ...] = ()
    overlap: Overlap | None = None
    costs: tuple[tuple[str, str], ...] = ()


def value_lines(evaluation: Evaluation, spec: PublicSpec) -> tuple[ValueLine, ...]:
    """The value function for people: every state of a discrete observation; else along each dimension, with the others
    in the middle of their public bounds. None of an evaluation without a value function, nor of two dimensions, which
    `value_surface` shows; at most 24.
    """
    space = spec.observation
    if evaluation.theta is None or (isinstance(space, Box) and space.size == 2):
        return ()
    if isinstance(space, Discrete):
        states = np.arange(space.n)
        return (ValueLine("state", states.astype(np.float64), evaluation.values(states), discrete=True),)
    low, high = np.array(space.low), np.array(space.high)
    lines = []
    for index in range(min(space.size, _LINES)):
        points = np.tile((low + high) / 2, (_LINE, 1))
        points[:, index] = np.linspace(low[index], high[index], _LINE)
        values = evaluation.values(points.astype(np.float32))
        lines.append(ValueLine(_name(index, space.size), points[:, index], values))
    return tuple(lines)


def value_surface(evaluation: Evaluation, spec: PublicSpec) -> ValueSurface | None:
    """The value function over a two-dimensional observation; None for any other."""
    space = spec.observation
    if evaluation.theta is None or not isinstance(space, Box) or space.size != 2:
        return None
    low, high = np.array(space.low), np.array(space.high)
    middles = (np.arange(_SIDE) + 0.5) / _SIDE
    x, y = np.meshgrid(low[0] + middles * (high[0] - low[0]), low[1] + middles * (high[1] - low[1]))
    points = np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32)
    return ValueSurface((_name(0, 2), _name(1, 2)), low, high, evaluation.values(points).reshape(_SIDE, _SIDE))


def _name(index: int, size: int) -> str:
    return f"observation_{index}" if size > 1 else "observation"
