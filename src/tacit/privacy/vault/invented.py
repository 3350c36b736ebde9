"""Invented rows within the public bounds: what callbacks are tried on before they may see a record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar

import numpy as np

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import PlanError, TacitError
from tacit.privacy.mechanisms.base import RowsOf

Columns = dict[str, np.ndarray]
Value = TypeVar("Value")

Kind = Literal["any", "few", "equal", "edges", "outlying"]
"""Of a crowd: any rows; three kinds of units, whose rows hold two values each; all units alike; units of which each
stands at an end of the public bounds, in the middle, or at 0; one unit at an end and all others near the middle."""

NEAR = 0.01
"""Of the public range, how far from the middle all others are in a crowd with an outlier."""

MOST_EDGES = 1_000
"""Values of a discrete space that are all tried; of a larger one, so many at its two ends."""


def invented_rows(
    spec: PublicSpec, units: int, rows_per_unit: int, seed: int, rows_of: RowsOf = "drawn", horizon: int = 1
) -> Columns:
    """Random rows inside the public bounds, shape [units, rows_per_unit, ...] a column, with their mask.

    With `rows_of="first"` the rows of a unit are a few episodes, one after another, and "starts" tells where. With a
    horizon above 1 they are fragments, [units, rows_per_unit, horizon, ...], with the column "time".
    """
    rng = np.random.default_rng(seed)
    shape: tuple[int, ...] = (units, rows_per_unit) if horizon == 1 else (units, rows_per_unit, horizon)
    rows = {
        "observations": _draw(spec.observation, shape, rng),
        "actions": _draw(spec.action, shape, rng),
        "rewards": _draw(spec.reward, shape, rng)[..., 0],
        "next_observations": _draw(spec.observation, shape, rng),
        "terminations": rng.random(shape) < (0.5 if spec.terminals else 0.0),
        "truncations": rng.random(shape) < 0.1,
        "mask": np.ones(shape, bool),
    }
    if rows_per_unit > 1:
        rows["mask"][:, 1:] = rng.random((units, rows_per_unit - 1, *[1] * (len(shape) - 2))) < 0.7
    if isinstance(spec.observation, Box):
        _count_visits(rows, spec.observation)
    if horizon > 1:
        rows["mask"] &= np.arange(horizon) < rng.integers(1, horizon + 1, size=(units, rows_per_unit, 1))
        rows["time"] = rng.integers(0, 1_000, size=(units, rows_per_unit, 1)) + np.arange(horizon)
    if rows_of == "first":
        rows["mask"] = np.arange(rows_per_unit) < rng.integers(1, rows_per_unit + 1, size=(units, 1))
        rows["terminations"] &= rng.random(shape) < 0.2
        ends = rows["terminations"] | rows["truncations"] | (rng.random(shape) < 0.05)
        rows["starts"] = np.concatenate([np.ones((units, 1), bool), ends[:, :-1]], axis=1)
    if spec.propensities:
        rows["propensities"] = rng.uniform(0.05, 1.0, shape).astype(np.float32)
    return rows


def invented_crowd(
    spec: PublicSpec, units: int, rows_per_unit: int, seed: int, rows_of: RowsOf, horizon: int, kind: Kind
) -> Columns:
    """Invented rows of a crowd in which units, and values, may be equal, as those of `invented_rows`."""
    if kind == "any":
        return invented_rows(spec, units, rows_per_unit, seed, rows_of, horizon)
    distinct = {"few": 3, "equal": 1}.get(kind, units)
    rows = invented_rows(spec, distinct, rows_per_unit, seed, rows_of, horizon)
    rng, edge = np.random.default_rng(seed), (np.arange(units) + seed) % 4
    for name, values in _ends(spec).items():
        cells = rows[name]
        if kind == "few":
            rows[name] = cells.reshape(-1, *values.shape[1:])[rng.integers(2, size=rows["mask"].shape)]
        elif kind == "edges":
            ends = values[np.array([0, 1, -1, len(values) // 2])[edge] % len(values)].astype(cells.dtype)
            rows[name] = np.broadcast_to(
                ends.reshape(units, *[1] * (rows["mask"].ndim - 1), *ends.shape[1:]), cells.shape
            )
        elif kind == "outlying" and name != "propensities":
            rows[name] = _move_to_middle(cells, values)
            low, high = values.min(axis=0), values.max(axis=0)
            rows[name][0] = np.where((np.abs(high) >= np.abs(low)) == (seed % 2 == 0), high, low)  # first what counts
    return {name: column[np.arange(units) % distinct] for name, column in rows.items()}


def edge_rows(
    spec: PublicSpec, units: int, rows_per_unit: int, rows_of: RowsOf = "drawn", horizon: int = 1
) -> Iterator[Columns]:
    """Invented rows at the ends of the public bounds, in the middle and at 0; every value of a discrete space."""
    rows = invented_rows(spec, units, rows_per_unit, seed=3, rows_of=rows_of, horizon=horizon)
    rows["mask"] = np.ones_like(rows["mask"])
    cells = rows["mask"].size
    edges = _ends(spec)
    for start in range(0, max(map(len, edges.values())), cells):
        where = np.arange(start, start + cells)
        yield rows | {name: e[where % len(e)].reshape(rows[name].shape) for name, e in edges.items()}


def try_public(
    call: Callable[[], Value], fits: Callable[[Value], bool], what: str, *, where: str, expected: str, remedy: str
) -> Value:
    """What something public gives for invented arguments, before a plan is charged.

    Args:
        call: asks it.
        fits: whether its answer will do.
        what: is wrong where it will not, or where the call fails; where, expected, remedy: likewise, for the error.

    Raises:
        PlanError: it fails, or its answer will not do. Errors of tacit's own pass as they are.
    """
    failure = ""
    try:
        value = call()
        if fits(value):
            return value
    except TacitError:
        raise
    except Exception as error:
        failure = f" ({type(error).__name__})"
    raise PlanError(what + failure, where=where, expected=expected, remedy=remedy)


def _ends(spec: PublicSpec) -> Columns:
    """Of each column, values at the ends of its bounds, in the middle and at 0, [k, ...]."""
    columns = {"observations": spec.observation, "actions": spec.action, "rewards": spec.reward}
    ends = {name: _edges(space) for name, space in columns.items()}
    ends["next_observations"], ends["rewards"] = ends["observations"][::-1], ends["rewards"][:, 0]
    if spec.propensities:
        ends["propensities"] = np.array([1.0, np.finfo(np.float32).tiny], np.float32)
    return ends


def _move_to_middle(cells: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Cells moved to the middle of these ends, or of a discrete space to what is at neither end."""
    low, high = values.min(axis=0), values.max(axis=0)
    if cells.dtype.kind != "f":
        return np.asarray(np.minimum(cells.clip(1, max(1, high - 1)), high), cells.dtype)
    middle, flat = low + (high - low) / 2, cells.reshape(-1, *values.shape[1:])
    near = middle + NEAR * (cells - middle)
    return np.asarray(np.where((flat == np.rint(flat)).all(axis=0), np.rint(near), near), cells.dtype)


def _count_visits(rows: Columns, space: Box) -> None:
    # Of every other unit, let columns of whole numbers rise by one from row to row, as numbers of visits do.
    counts, first = np.array(space.whole) & (np.array(space.categories) == 0), rows["observations"][::2, :1]
    steps = np.arange(rows["mask"].shape[1]).reshape(1, -1, *[1] * (first.ndim - 2))
    for name, ahead in (("observations", 0), ("next_observations", 1)):
        rows[name][::2, ..., counts] = np.minimum(first + steps + ahead, space.high)[..., counts]


def _edges(space: Box | Discrete) -> Any:
    """[k] values of a discrete space, or [k, d] points of a box."""
    if isinstance(space, Discrete):
        values = np.arange(min(space.n, MOST_EDGES))
        return values if space.n <= MOST_EDGES else np.concatenate([values, space.n - 1 - values])
    low, high = np.asarray(space.low), np.asarray(space.high)
    middle = low + (high - low) / 2
    middle = np.where(space.whole, np.floor(middle), middle)
    return np.stack([low, high, middle, np.clip(0.0, low, high)]).astype(np.float32)


def _draw(space: Box | Discrete, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    if isinstance(space, Discrete):
        return rng.integers(space.n, size=shape)
    low, high = np.asarray(space.low), np.asarray(space.high)
    values = low + (high + space.whole - low) * rng.random((*shape, low.size))
    return np.where(space.whole, np.floor(values), values).astype(np.float32)
