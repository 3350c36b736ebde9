"""What a synthetic table keeps of how columns depend on one another: the action on the state, what follows on both.
Marginal and Correlation see little of it. Looks at real rows and is not differentially private: outside
`vault.nonprivate` only for simulated or public data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import PublicSpec
from tacit.errors import DataError
from tacit.evaluation.fidelity import FIELDS, correlations, flatten
from tacit.evaluation.sequences import Sequences

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Columns = Mapping[str, NDArray[np.generic]]

ROWS = 100_000
"""Of either table, at most: random ones."""
LEVELS, MOST_AXES, MOST_CELLS = (4, 8, 16, 32), 4, 4_096
"""Bins of an axis, from coarse to fine, and how many axes and cells explain one column."""
_GAIN = 1e-3
"""Explained variance below which nothing more is cut."""
_VALUES = 16
"""Of a discrete column: its commonest ones are told apart."""
RARE, SIDES, _MOST_SIDES = 0.05, 32, 24
"""Share of the real rows that is rare; bins of an axis for impossible rows, and how many axes are looked at."""


@dataclass(frozen=True)
class KeptStructure:
    """Dependences of a synthetic table beside those of the real one; nan where there is nothing to explain. Cells are
    quantiles of the real rows, on the axes that explain most of a column there. Explained variance is adjusted for the
    number of cells (0 without dependence); a discrete column is one number a value."""

    action_explained: float  # share of an action's variance that the state's cell explains, mean over actions
    real_action_explained: float
    action_follows: float  # correlation of an action with the mean real action in its state's cell, mean over actions
    real_action_follows: float
    next_explained: float  # share of the variance of a state's change that the cell of state and action explains
    real_next_explained: float
    # error of the mean reward in the cells of the highest real rewards, which hold a twentieth of the real rows, over
    # the standard deviation of all real rewards. A cell that the synthetic rows leave empty has the mean real reward.
    rare_reward_error: float
    # share of rows whose state lies where no real one does, in the plane of the two columns where it is largest
    impossible: float


def structure(real: Columns, synthetic: Columns, *, spec: PublicSpec, seed: int = 0) -> KeptStructure:
    """Dependences of `synthetic` beside those of `real`.

    Args:
        real, synthetic: columns by name, as of `fidelity`.
        spec: names the columns, and says which are categories.
        seed: of the rows that are looked at.

    Raises:
        DataError: the tables differ in their columns, are empty or hold a value that is not finite.
    """
    flat = [flatten(columns, spec) for columns in (real, synthetic)]
    if len({tuple((name, column.dtype) for name, column in table.items()) for table in flat}) != 1:
        what, expected = "the two tables have different columns", "the same columns of the same kinds in both"
        remedy = "compare tables of one public specification"
        raise DataError(what, where="structure", expected=expected, remedy=remedy)
    states, actions, (reward,), following = (spec.names(field) for field in FIELDS)
    tables = []
    for table in flat:
        some = np.random.default_rng(seed).permutation(len(table[reward]))[:ROWS]
        tables.append({name: column[some] for name, column in table.items()})
    axes = {name: _axis(*(table[name] for table in tables)) for name in (*states, *actions)}
    chosen = [_explain([axes[name] for name in states], *_target(name, None, tables)) for name in actions]
    moves = zip(states, following, strict=True)
    moved = [_explain(list(axes.values()), *_target(after, before, tables)) for before, after in moves]
    paid = _explain(list(axes.values()), *_target(reward, None, tables))
    return KeptStructure(
        action_explained=_mean(chosen, "explained"),
        real_action_explained=_mean(chosen, "real_explained"),
        action_follows=_mean(chosen, "follows"),
        real_action_follows=_mean(chosen, "real_follows"),
        next_explained=_mean(moved, "explained"),
        real_next_explained=_mean(moved, "real_explained"),
        rare_reward_error=_mean([paid], "rare_error"),
        impossible=_impossible(*([table[name] for name in states] for table in tables)),
    )


def lag_closeness(real: Sequences, synthetic: Sequences) -> float:
    """Mean over columns of 1 - |r - r'| / 2, in [0, 1], r the correlation of a number with itself one row later in the
    same trajectory (0 of a column that never changes); nan where no trajectory has two rows, or no column is a
    number."""
    found = []
    for table in (real, synthetic):
        first = np.flatnonzero(table.owners[1:] == table.owners[:-1])
        columns = flatten(table.columns)
        kept = [c for name, c in columns.items() if c.dtype == np.float32 and not name.startswith("next_")]
        found.append([correlations([one[first], one[first + 1]])[0, 1] if len(first) else np.nan for one in kept])
    return float(np.mean(1.0 - np.abs(np.subtract(found[0], found[1])) / 2.0)) if found[0] else float("nan")


class _Axis(NamedTuple):
    real: list[Codes]  # at every level the bin of each row
    synthetic: list[Codes]
    bins: list[int]


def _axis(real: NDArray[np.generic], synthetic: NDArray[np.generic]) -> _Axis:
    if real.dtype == np.int64:
        values, counts = np.unique(real, return_counts=True)
        common = np.sort(values[np.argsort(-counts, kind="stable")[: LEVELS[-1]]])
        cuts = [common[1:].astype(np.float64)]
    else:
        cuts = [np.unique(np.quantile(real.astype(np.float64), np.linspace(0, 1, bins + 1)[1:-1])) for bins in LEVELS]
    here, there = ([np.searchsorted(edges, one, side="right") for edges in cuts] for one in (real, synthetic))
    return _Axis(here, there, [len(edges) + 1 for edges in cuts])


def _target(name: str, before: str | None, tables: Sequence[Columns]) -> tuple[Floats, Floats]:
    # [T, k] each: a column, or its change since `before`, as one number; a discrete one as one for a common value.
    columns = [table[name] for table in tables]
    if columns[0].dtype == np.int64:
        values, counts = np.unique(columns[0], return_counts=True)
        common = values[np.argsort(-counts, kind="stable")[:_VALUES]]
        real, synthetic = ((column[:, None] == common).astype(np.float64) for column in columns)
    else:
        since = [0.0 if before is None else table[before] for table in tables]
        pairs = zip(columns, since, strict=True)
        real, synthetic = (np.subtract(column, start, dtype=np.float64)[:, None] for column, start in pairs)
    return real, synthetic


class _Explained(NamedTuple):
    explained: float
    real_explained: float
    follows: float
    real_follows: float
    rare_error: float


def _explain(axes: Sequence[_Axis], real: Floats, synthetic: Floats) -> _Explained | None:
    # How cells of the axes explain a target [T, k], cut one after another where that explains most of the real one.
    if not (np.ptp(real, axis=0) > 0).any():
        return None
    real, synthetic = real - real.mean(axis=0), synthetic - real.mean(axis=0)
    chosen: dict[int, int] = {}
    best = 0.0
    while True:
        options = []
        for index, axis in enumerate(axes):
            level = chosen.get(index, -1) + 1
            wider = {**chosen, index: level}
            if level < len(axis.bins) and len(wider) <= MOST_AXES and _size(axes, wider) <= MOST_CELLS:
                options.append((_share(_code(axes, wider, "real"), real), index, level))
        if not options or max(options)[0] < best + _GAIN:
            break
        best, index, level = max(options)
        chosen[index] = level
    code, own = (_code(axes, chosen, kind) for kind in ("real", "synthetic"))
    size = _size(axes, chosen)
    counts, other = (np.bincount(codes, minlength=size) for codes in (code, own))
    means, found = (
        np.stack([np.bincount(codes, column, minlength=size) for column in target.T], axis=1)
        / np.maximum(count, 1)[:, None]
        for codes, target, count in ((code, real, counts), (own, synthetic, other))
    )
    order = np.argsort(-means[:, 0], kind="stable")
    order = order[counts[order] > 0]
    rare = order[: int(np.searchsorted(np.cumsum(counts[order]), RARE * len(real))) + 1]
    missed = np.abs(found[rare, 0] - means[rare, 0]) @ counts[rare] / counts[rare].sum()
    return _Explained(
        _share(own, synthetic),
        best,
        _correlate(synthetic, means[own]),
        _correlate(real, means[code]),
        float(missed / real[:, 0].std()),
    )


def _size(axes: Sequence[_Axis], chosen: Mapping[int, int]) -> int:
    return int(np.prod([axes[index].bins[level] for index, level in chosen.items()], dtype=np.int64))


def _code(axes: Sequence[_Axis], chosen: Mapping[int, int], kind: str) -> Codes:
    code: Codes = np.zeros(len(getattr(axes[0], kind)[0]), np.int64)
    for index, level in chosen.items():
        code = code * axes[index].bins[level] + getattr(axes[index], kind)[level]
    return code


def _share(code: Codes, target: Floats) -> float:
    # Share of the variance of a target [T, k] between cells, adjusted for their number.
    centred = target - target.mean(axis=0)
    total, counts = (centred**2).sum(), np.bincount(code)
    cells, rows = int((counts > 0).sum()), len(code)
    if total == 0 or cells >= rows:
        return 0.0
    between = sum((np.bincount(code, column) ** 2 / np.maximum(counts, 1)).sum() for column in centred.T)
    return float(max(0.0, 1.0 - (1.0 - between / total) * (rows - 1) / (rows - cells)))


def _correlate(target: Floats, means: Floats) -> float:
    a, b = target - target.mean(axis=0), means - means.mean(axis=0)
    norm = np.linalg.norm(a) * np.linalg.norm(b)
    return float((a * b).sum() / norm) if norm > 0 else 0.0


def _impossible(real: Sequence[NDArray[np.generic]], synthetic: Sequence[NDArray[np.generic]]) -> float:
    lows, highs = ([float(end(column)) for column in real] for end in (np.min, np.max))
    codes = []
    for table in (real, synthetic):
        scaled = [
            (column.astype(np.float64) - low) / ((high - low) or 1.0)
            for column, low, high in zip(table, lows, highs, strict=True)
        ]
        inside = [np.where((part >= 0) & (part <= 1), np.minimum(part * SIDES, SIDES - 1), SIDES) for part in scaled]
        codes.append([part.astype(np.int64) for part in inside])
    planes = list(combinations(range(min(len(real), _MOST_SIDES)), 2)) or [(0, 0)]
    worst = 0.0
    for first, second in planes:
        there, here = (part[first] * (SIDES + 1) + part[second] for part in codes)
        held = np.bincount(there, minlength=(SIDES + 1) ** 2) > 0
        worst = max(worst, float(np.mean(~held[here])))
    return worst


def _mean(found: Sequence[_Explained | None], name: str) -> float:
    values = [getattr(one, name) for one in found if one is not None]
    return float(np.mean(values)) if values else float("nan")
