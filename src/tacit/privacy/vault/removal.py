"""The harness of removal: units leave, come, are exchanged and change places, and what the others add has to stay.

The mechanisms bound what one unit adds to a sum. That bound is about the unit alone only if a unit's contribution
depends on no other unit, on how many there are, and on no place among them. So a callback is run on invented crowds
within the public bounds, and again on what is left of them. Whoever stays has to add the same.

*The page's rule* (`proofs/noisy_sum.md`): what is discrete of the others stays byte for byte, and their numbers stay to
within `ROUNDING` where nobody changed places, and `PLACE` where somebody did.
"""

from __future__ import annotations

import functools
import itertools
import math
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import PublicSpec
from tacit.errors import MechanismError
from tacit.privacy.gradients import clipping
from tacit.privacy.mechanisms.base import Rows, RowsOf
from tacit.privacy.mechanisms.contribution_sets import Blocks, move_inside
from tacit.privacy.mechanisms.tallies import Tally, require_cells
from tacit.privacy.vault.invented import Columns, Kind, edge_rows, invented_crowd


class _WhileStepsRun:
    """What a filter of warnings asks instead of a pattern: every warning matches while any thread runs a step."""

    # `warnings.catch_warnings` puts back what it found when it was entered, and all threads share one list of filters:
    # of two threads, the first to leave would let the other one's warnings out. So this filter is never taken away. It
    # holds for warnings of all threads, as a step may have its rows worked on by others.

    pattern = r"(?!)"
    """What libraries that copy filters (scikit-learn) read of one: an expression that nothing matches."""

    def __init__(self) -> None:
        self._lock, self._running = threading.Lock(), 0

    def match(self, text: str) -> bool:
        """Whether a step runs; called by `warnings`, in whose C code a filter's pattern may be any object."""
        return self._running > 0

    def enter(self) -> None:
        """A step begins: the filter is before all others, as whoever sets one puts it first."""
        with self._lock:
            self._running += 1
            filters: list[Any] = warnings.filters  # type: ignore[assignment]
            if not filters or filters[0] is not _FILTER:
                filters.insert(0, _FILTER)

    def leave(self) -> None:
        """A step ends."""
        with self._lock:
            self._running -= 1


_STEPS = _WhileStepsRun()
_FILTER = ("ignore", _STEPS, Warning, None, 0)


@contextmanager
def silence_warnings() -> Iterator[None]:
    """No warning is shown, logged or turned into an error, in any thread: whether one arises may depend on a record."""
    # What another thread changes in the filters of warnings while a step runs is not undone.
    _STEPS.enter()
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _STEPS.leave()


TIED: tuple[Kind, ...] = ("few", "equal", "edges", "outlying")

CROWDS = (1, 2, 5, 33, 300)
"""Numbers of units on which a callback is tried: odd and even, below and above 6, 32, 64, 128 and 256. The vaults hand
no user's callback more units at once than the largest."""

FEW = 5
"""Units of the small crowds, and at the edges of the public bounds."""

SEEDS = 8
"""Of the small crowds that a callback is tried on again and again."""

SMALL = 33
"""Units of the largest crowd with ties: who are alike, whose rows hold few values, or who stand at the edges."""

MOST_HELD = 2**28
"""Bytes of the rows and contributions of a crowd; where more units would take more, the largest crowd is smaller."""

ROUNDING = 1e-9
"""How far rounding in float64 may move a contribution where nobody changed places, in multiples of the largest: over
100,000 units less than the slack in the clip."""

PLACE = 1e-5
"""How far it may move where the others changed places, as products of matrices round a row by its place: what float32
leaves of some hundred terms."""

Vectors = NDArray[Any]


class UnitContributions(Protocol):
    """What each unit of a crowd adds, seen in several ways: as it is, and clipped."""

    # A coupling may hide in small vectors beside a large one, or above the clip.

    @property
    def units(self) -> int:
        """How many there are."""

    @property
    def nbytes(self) -> int:
        """Bytes of all units."""

    @property
    def finite(self) -> bool:
        """Whether every unit adds numbers."""

    def sizes(self) -> Sequence[float]:
        """The largest that a unit adds, in each way."""

    def select(self, units: NDArray[np.int64]) -> Sequence[Vectors]:
        """What these units add, in each way and in this order."""


@dataclass(frozen=True)
class VectorViews:
    """Vectors of units, [U, ...] in each way."""

    views: Sequence[Vectors]

    @classmethod
    def clipped(cls, vectors: Vectors, clip: float | None, blocks: Blocks | None = None) -> VectorViews:
        """Vectors [U, d], and these moved into their blocks and clipped."""
        if clip is None:
            return cls((vectors,))
        return cls((vectors, clipping.clip_rows(move_inside(blocks, vectors, clip, "a trial"), clip)))

    @property
    def units(self) -> int:
        return len(self.views[0]) if self.views[0].ndim else -1

    @property
    def nbytes(self) -> int:
        return sum(view.nbytes for view in self.views)

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.views[0]).all())

    def sizes(self) -> list[float]:
        return [float(np.abs(_zero_non_finite(view)).max(initial=0.0)) for view in self.views]

    def select(self, units: NDArray[np.int64]) -> list[Vectors]:
        return [_zero_non_finite(view[units]) for view in self.views]


def _zero_non_finite(vectors: Vectors) -> Vectors:
    """Vectors as a mechanism counts them: one that is not finite is zero."""
    if vectors.dtype.kind != "f" or np.isfinite(vectors).all():
        return vectors
    return np.where(
        np.isfinite(vectors.reshape(len(vectors), -1)).all(axis=1).reshape(-1, *[1] * (vectors.ndim - 1)), vectors, 0.0
    )


Contributions = Callable[[Rows, NDArray[np.int64]], UnitContributions]
"""(rows, which of the invented units these are, from which their coins follow) -> what each of them adds."""


@dataclass(frozen=True)
class Harness:
    """Crowds on which the contributions of a part are tried."""

    contributions: Contributions  # what is tried
    spec: PublicSpec  # the public bounds
    rows_per_unit: int  # rows_per_unit, rows_of, horizon: of the part
    rows_of: RowsOf
    horizon: int
    where: str  # what is named in errors

    def try_briefly(self) -> UnitContributions:
        """One small crowd and what is left of it, in another order: for tacit's own, which the tests try at length."""
        # returns: what its units add
        rows = self._crowd("any", FEW, 0)
        base = self._run_ordinary(rows, FEW)
        self._require_same_alone(base, rows, np.array([4, 2, 1]), base.sizes())
        return base

    def try_again(self, times: int) -> None:
        """Two small crowds, other ones from step to step: for what is the user's, before each of them."""
        seed, leavers = times % SEEDS, _exchanges(FEW)
        leaves = leavers[times % len(leavers)]
        rows, others = (self._crowd("any", FEW, 2 * seed + one) for one in (0, 1))
        base = self._run_ordinary(rows, FEW)
        self._require_unaffected(base, rows, others, leaves, base.sizes())
        self._require_same_alone(base, rows, np.flatnonzero(leaves)[::-1], base.sizes())
        with silence_warnings():
            alike = self._crowd(TIED[times % len(TIED)], FEW, seed)
            tied = self._run_callback(alike, np.arange(FEW))
            sizes = list(map(max, tied.sizes(), base.sizes()))
            self._require_same_alone(tied, alike, np.flatnonzero(~leaves)[::-1], sizes)

    def require_unmixed(self) -> None:
        """One small crowd, of which some are exchanged."""
        rows, others = (self._crowd("any", FEW, one) for one in (0, 1))
        base = self._run_ordinary(rows, FEW)
        for leaves in _exchanges(FEW):
            self._require_unaffected(base, rows, others, leaves, base.sizes())

    def try_at_length(self) -> UnitContributions:
        """All crowds, and rows at the edges of the public bounds."""
        # There the result need not be finite, but the callback has to run (its own error is raised here, if it does
        # not): inside the vault, that it fails would tell something about the records.
        # returns: what the units of a small crowd add
        everybody = np.arange(FEW)
        few = self._crowd("any", FEW, 2)
        first = self._run_ordinary(few, FEW)
        self._require_same(
            first, self.contributions(few, everybody), "the callback gives different results for the same rows"
        )
        most = self.largest_crowd(first)
        sizes = sorted({min(units, most) for units in CROWDS}, key=FEW.__ne__)  # most mistakes show in a few rows
        for units in sizes:
            self._try_removals("any", units, 0)
        for kind, units in itertools.product(TIED, sizes):
            if FEW <= units <= SMALL:
                self._try_removals(kind, units, 0, first.sizes())
        what = "the callback's shape is another one on rows at the edges of the public bounds"
        shapes = [one.shape for one in first.select(everybody)]
        with silence_warnings():
            for edge in edge_rows(self.spec, FEW, self.rows_per_unit, self.rows_of, self.horizon):
                added = self.contributions(edge, everybody).select(everybody)
                if [one.shape for one in added] != shapes:
                    raise self._trial_error(what)
        self._require_same(
            first,
            self.contributions(few, everybody),
            "the callback gives different results for the same rows, after others",
        )
        return first

    def largest_crowd(self, few: UnitContributions) -> int:
        """Units of the largest crowd, given what `FEW` of them add; the callback must not get more at once."""
        held = few.nbytes + sum(column.nbytes for column in self._crowd("any", FEW, 2).values())
        return min(CROWDS[-1], max(FEW, MOST_HELD * FEW // held))

    def _try_removals(self, kind: Kind, units: int, seed: int, usual_sizes: Sequence[float] = ()) -> None:
        """A crowd, and what becomes of it when units leave, are exchanged, or stand in another order."""
        # usual: sizes of what units usually add: where all are alike, rounding alone may be left of it
        rows, others = (self._crowd(kind, units, 2 * seed + one) for one in (0, 1))
        everybody = np.arange(units)
        orders = [
            everybody[::-1],
            everybody[1:],
            everybody[:-1],
            *(everybody[:size] for size in CROWDS if size < units),
        ]
        with silence_warnings():
            ordinary = kind not in ("edges", "outlying")
            base = self._run_ordinary(rows, units) if ordinary else self._run_callback(rows, everybody)
            sizes = list(map(max, base.sizes(), usual_sizes or base.sizes()))
            for leaves in _exchanges(units):
                self._require_unaffected(base, rows, others, leaves, sizes)
                self._require_same_alone(base, rows, np.flatnonzero(~leaves), sizes)
            for stay in orders if units > 1 else ():
                self._require_same_alone(base, rows, stay, sizes)

    def _run_callback(self, rows: Rows, units: NDArray[np.int64]) -> UnitContributions:
        added = self.contributions({name: column.copy() for name, column in rows.items()}, units)
        if added.units != len(units):
            raise self._trial_error(f"the callback returned {added.units} rows")
        return added

    def _require_unaffected(
        self, base: UnitContributions, rows: Rows, others: Rows, leaves: NDArray[np.bool_], sizes: Sequence[float]
    ) -> None:
        """Where some are exchanged, the others add what they added before."""
        mixed, stay = {name: column.copy() for name, column in rows.items()}, np.flatnonzero(~leaves)
        for name, column in mixed.items():
            column[leaves] = others[name][leaves]
        kept = self._run_callback(mixed, np.arange(len(leaves)))
        self._require_near(sizes, base.select(stay), kept.select(stay), ROUNDING)

    def _require_same_alone(
        self, base: UnitContributions, rows: Rows, stay: NDArray[np.int64], sizes: Sequence[float]
    ) -> None:
        """Those who stay add alone, in this order, what they added among the others."""
        alone = self._run_callback({name: column[stay] for name, column in rows.items()}, stay)
        self._require_near(sizes, base.select(stay), alone.select(np.arange(len(stay))), PLACE)

    def _crowd(self, kind: Kind, units: int, seed: int) -> Columns:
        return _crowd(self.spec, units, self.rows_per_unit, seed, self.rows_of, self.horizon, kind)

    def _run_ordinary(self, rows: Rows, units: int) -> UnitContributions:
        """What units with ordinary rows add: a finite row each."""
        added = self._run_callback(rows, np.arange(units))
        if not added.finite:
            raise self._trial_error("the callback returned values that are not finite")
        return added

    def _require_near(
        self, sizes: Sequence[float], before: Sequence[Vectors], after: Sequence[Vectors], slack: float
    ) -> None:
        for size, one, other in zip(sizes, before, after, strict=True):
            near = slack * size if one.dtype.kind == "f" else 0.0
            if one.shape != other.shape or not (np.abs(one - other) <= near).all():
                what = "one unit's contribution changes when another unit's rows do, or when others leave or come"
                raise self._trial_error(what)

    def _require_same(self, one: UnitContributions, other: UnitContributions, what: str) -> None:
        everybody = np.arange(FEW)
        if not all(map(np.array_equal, one.select(everybody), other.select(everybody))):
            raise self._trial_error(what)

    def _trial_error(self, what: str) -> MechanismError:
        expected = "one finite contribution a unit, computed from that unit's rows alone"
        remedy = "remove batch statistics, running averages, places in the batch and other sharing between units; and "
        remedy += (
            "layers that draw random numbers, such as Dropout: use weight decay, or draw in the objective's `draw`"
        )
        return MechanismError(what, where=self.where, expected=expected, remedy=remedy)


@dataclass(frozen=True)
class LimitedCallback:
    """A user's contribution or summary as a vault calls it: with no more units at once than it was tried on."""

    # A unit on which it raises, or returns what does not fit, counts as `blank`: nobody sees that anybody did.

    callback: Any  # the user's
    max_units: int  # units of the largest crowd
    blank: Any = field(compare=False)  # zeros of one unit, [1, ...]: an array, or of a summary one a name
    summary: LimitedCallback | None = None  # of a contribution, if it has one

    def __call__(self, rows: Rows, *state: Any) -> Any:
        def run(piece: Rows, units: int) -> Any:
            found = self.callback({name: column.copy() for name, column in piece.items()}, *state)
            if not isinstance(self.blank, Mapping):
                return _fitted(found, self.blank, units)
            return {name: _fitted(found[name], zeros, units) for name, zeros in self.blank.items()}

        found = list(run_apart(run, rows, self.max_units, self.blank))
        if isinstance(self.blank, Mapping):
            return {name: np.concatenate([one[name] for one in found]) for name in self.blank}
        return np.concatenate(found)


@dataclass(frozen=True)
class LimitedTally:
    """A user's tally as a vault calls it: with no more rows at once than units of one row that it was tried on."""

    # A row on which it raises, or of which it names a cell that is not there, counts in the first cell of each table.

    callback: Tally  # the user's
    max_units: int  # units of the largest crowd

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each table."""
        return self.callback.sizes

    def cells(self, rows: Rows, state: Any) -> list[Vectors]:
        """Of each table, the cell of every row."""

        def run(piece: Rows, count: int) -> list[Vectors]:
            copies = {name: column.copy() for name, column in piece.items()}
            return require_cells(self.callback, copies, state, count)

        found = run_apart(run, rows, self.max_units, [np.zeros(1, np.int64) for _ in self.sizes])
        return [np.concatenate(table) for table in zip(*found, strict=True)]


def run_apart(
    run: Callable[[dict[str, Any], int], Any], rows: Mapping[str, Any], max_units: int, blank: Any
) -> Iterator[Any]:
    """What `run` makes of rows, so many units at most at once; where it raises, of each unit, or `blank` of who raises.

    Args:
        run: of a piece of the rows and how many units it has; it leaves nothing behind where it raises.
        rows: arrays or tensors of units, [U, ...] each.
        max_units: how many units it gets at once.
        blank: what it would return of one unit that adds nothing.

    Guarantee: what comes of a unit depends on that unit alone, as long as `run` keeps units apart. Memory that runs
    out, an interrupt and an exit go through: they end the step.
    """
    for piece, units in pieces(rows, max_units):
        try:
            whole = run(piece, units)
        except MemoryError:
            raise
        except Exception:  # of which nothing is kept: its words, and that it was there, may be about one unit
            whole = None
        if whole is not None:
            yield whole
            continue
        for one, count in pieces(piece, 1) if units else ():
            try:
                alone = run(one, count)
            except MemoryError:
                raise
            except Exception:
                alone = blank
            yield alone


def _fitted(found: Any, zeros: Vectors, units: int) -> Vectors:
    # What a callback returned, in the shape and type of what it returned on invented rows; ValueError if it cannot.
    array = np.asarray(found, zeros.dtype)
    if array.shape != (units, *zeros.shape[1:]):
        raise ValueError("not one row a unit")
    return array


def pieces(rows: Mapping[str, Any], max_units: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Arrays, or tensors, in pieces of so many units at most; and how many these are."""
    units = len(next(iter(rows.values())))
    for start in range(0, max(units, 1), max_units):
        stop = min(start + max_units, units)
        yield {name: column[start:stop] for name, column in rows.items()}, stop - start


_crowd = functools.lru_cache(maxsize=128)(invented_crowd)


@functools.cache
def _exchanges(units: int) -> NDArray[np.bool_]:
    """Which units leave in each trial, bool [trials, units]; any unit, while any given other one stays."""
    # Each unit gets another half of the trials, and no half holds another: as few trials as there can be (Sperner
    # 1928).
    trials = next(k for k in itertools.count() if math.comb(k, k // 2) >= units)
    halves = itertools.islice(itertools.combinations(range(trials), trials // 2), units)
    leaves = np.zeros((trials, units), bool)
    for unit, half in enumerate(halves):
        leaves[list(half), unit] = True
    return leaves
