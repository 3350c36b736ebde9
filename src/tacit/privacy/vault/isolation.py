"""Isolation checks of callbacks, on invented rows before they may see records; and silence about what fails later."""

from __future__ import annotations

import builtins
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from tacit.data.spec import PublicSpec
from tacit.errors import MechanismError
from tacit.privacy.mechanisms.base import Clone, Contribution, Objective, Public, Rows, RowsOf, Sum, Summary, Work
from tacit.privacy.mechanisms.kinds import MET
from tacit.privacy.mechanisms.responses import RandomizedResponses
from tacit.privacy.mechanisms.tallies import Tally, vectors_of
from tacit.privacy.vault.invented import Columns, edge_rows, invented_rows
from tacit.privacy.vault.memory import PLAIN, fingerprint, outline
from tacit.privacy.vault.silence import quiet

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from tacit.privacy.mechanisms.above_threshold import AboveThreshold
    from tacit.privacy.mechanisms.device_sums import FederatedSum
    from tacit.privacy.mechanisms.votes import TeacherVotes


Value = TypeVar("Value")


class IsolationChecks:
    """Checks callbacks on invented rows before they may run on records, and that they keep nothing of what they see.

    A callback is tried once for each part and each structure of its state, an objective once for each structure of its
    model. One that is not tacit's own is compared with what it was (`memory.fingerprint`): after its trials, before
    every later step of any callback, and before a release.

    Args:
        spec: the public bounds that invented rows are drawn from.

    Attributes:
        foreign: names of the callbacks and layers that are not tacit's own; certificates list them as assumptions.
    """

    def __init__(self, spec: PublicSpec) -> None:
        self._spec = spec
        self._widths: dict[tuple[object, ...], int] = {}
        self._models: WeakKeyDictionary[object, set[tuple[object, ...]]] = WeakKeyDictionary()
        self._callbacks: dict[object, tuple[object, bytes]] = {}
        self._layers: WeakKeyDictionary[nn.Module, bytes] = WeakKeyDictionary()
        self.foreign: set[str] = set()

    def of_a_run(self) -> IsolationChecks:
        """Checks of one run among several: `foreign` names what it meets; what is watched is watched by all."""
        own = IsolationChecks(self._spec)
        own._callbacks, own._layers = self._callbacks, self._layers
        return own

    def contribution(
        self, part: Sum | TeacherVotes | RandomizedResponses, contribution: Contribution | Tally, state: Any
    ) -> int:
        """Check the callback on invented rows; the width of its vectors."""
        self._watch(contribution, part.name)
        key = (part, contribution, outline(state))
        if key not in self._widths:
            tallied = not callable(contribution)
            summary: Summary | None = None if tallied else getattr(contribution, "summary", None)
            if summary is not None:
                require_pure_form(summary, where=part.name)
                if part.rows != "first":
                    raise MechanismError(
                        "the summary of a unit would be made from rows that are drawn again in every step",
                        where=part.name,
                        expected='a part with rows="first"',
                        remedy="declare it in the plan",
                    )

            if tallied and part.horizon != 1:
                raise MechanismError(
                    "rows of fragments would be counted",
                    where=part.name,
                    expected="a part with horizon=1",
                    remedy="declare it in the plan",
                )

            places = part.users if isinstance(part, MET) else None

            def vectors(rows: Rows, units: np.ndarray) -> np.ndarray:
                seen = rows if summary is None else summary(rows)
                public = {"replicate": np.zeros(len(units), np.int64)}
                if places is not None:
                    public["place"] = units % places
                result = vectors_of(contribution, {**seen, **public}, state)
                if result.ndim != 2:
                    raise MechanismError(
                        f"shape {result.shape}", where=part.name, expected="[units, d]", remedy="return a vector a unit"
                    )
                return result

            work = 0 if foreign(contribution) else int(getattr(contribution, "work", 0))
            with self._trial(part.name, contribution):
                self._check(vectors, part, part.horizon, work)
            self._widths[key] = vectors(self._invented(part, 1, part.horizon), np.arange(1)).shape[1]
        return self._widths[key]

    def work(self, part: FederatedSum, work: Work, public: Public) -> int:
        """Check what devices compute on invented rows: the state's beginning and two answers.

        Returns:
            The width of an answer.
        """
        self._watch(work, part.name)
        key = (part, work, outline(public))
        if key not in self._widths:

            def vectors(rows: Rows, units: np.ndarray) -> np.ndarray:
                seeds = units.astype(np.uint64)
                first, state = work(work.begin(rows, seeds), public, seeds + np.uint64(100))
                second, _ = work(state, public, seeds + np.uint64(200))
                if np.ndim(first) != 2 or np.shape(first) != np.shape(second):
                    raise MechanismError(
                        f"answers of shapes {np.shape(first)} and {np.shape(second)}",
                        where=part.name,
                        expected="[units, d] every time",
                        remedy="return a vector a person",
                    )
                return np.concatenate([first, second], axis=1)

            with self._trial(part.name, work):
                self._check(vectors, part)
            self._widths[key] = vectors(self._invented(part, 1), np.arange(1)).shape[1] // 2
        return self._widths[key]

    def clone(self, part: AboveThreshold, clone: Clone) -> None:
        """Check how experts are cloned, on invented rows."""
        self._watch(clone, part.name)

        def parameters(rows: Rows, _: np.ndarray) -> np.ndarray:
            return np.asarray(clone(rows)["parameters"])

        with self._trial(part.name, clone):
            self._check(parameters, part)
        part.require_floor(clone.experts(parameters(self._invented(part, FEW), np.arange(FEW))).floor)

    def mechanism(self, mechanism: Any, where: str) -> None:
        """Check what a mechanism computes of each unit, on invented rows."""
        self._watch(mechanism, where)
        with self._trial(where, mechanism):
            self._check(lambda rows, _: np.asarray(mechanism.contributions(rows)), mechanism)

    def objective(self, part: Sum, model: nn.Module, objective: Objective) -> None:
        """Check the objective on invented rows: a step runs, losses stay apart, no statistic is kept.

        A model that book-keeping cannot follow goes on through `torch.func`.
        """
        import torch

        from tacit.privacy.gradients.bookkeeping import Unsuited
        from tacit.privacy.gradients.clipped_sums import clipped_sum, one_by_one

        self._watch(objective, part.name, model)
        key = (part, objective, outline(model))
        if key in self._models.setdefault(model, set()):
            return
        layers = {type(module) for module in model.modules()}
        own = {kind.__qualname__ for kind in layers if not kind.__module__.startswith(("tacit.", "torch."))}
        if own and model not in self._layers:
            self._layers[model] = fingerprint(model)
        draws = objective.draw(torch.Generator().manual_seed(0), CROWDS[-1], part.rows_per_unit)
        device = next(model.parameters()).device
        shares = getattr(objective, "shares", None)

        def tensors(rows: Rows, units: np.ndarray) -> dict[str, Tensor]:
            drawn = {name: tensor[: len(units)] for name, tensor in draws.items()}
            both = {name: torch.from_numpy(np.asarray(column)) for name, column in rows.items()} | drawn
            return {name: tensor.to(device) for name, tensor in both.items()}

        def losses(rows: Rows, units: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                inputs = tensors(rows, units)
                whole = inputs if shares is None else {**inputs, **shares(inputs)}
                result: np.ndarray = objective.loss(model, whole).cpu().numpy()
            return result

        def weights() -> list[Tensor]:
            return [*model.parameters(), *model.buffers()]

        before = [tensor.detach().clone() for tensor in weights()]
        with self._trial(part.name, objective, model):
            self._check(losses, part, part.horizon)
            if any(not torch.equal(old, new) for old, new in zip(before, weights(), strict=True)):
                raise MechanismError(
                    "the model's parameters or buffers change when rows pass through it",
                    where=part.name,
                    expected="a model without running statistics",
                    remedy="use LayerNorm or GroupNorm instead of BatchNorm",
                )
            inputs = tensors(self._invented(part, FEW, part.horizon), np.arange(FEW))
            try:
                clipped_sum(model, objective.loss, inputs, part.clip_norm, shares=shares)
            except Unsuited as reason:
                one_by_one(model, reason)
                clipped_sum(model, objective.loss, inputs, part.clip_norm, shares=shares)
        self.foreign |= own
        self._models[model].add(key)

    def require_unchanged(self, where: str, *models: nn.Module) -> None:
        """Refuse to go on where a callback of the user's, or one of these models, is not what it was when it came.

        Args:
            where: what is named in the error.
            models: those that are looked at; if none is given, all.

        Raises:
            MechanismError: something that it holds or names has changed.
        """
        looked_at = models or tuple(self._layers)
        layers = [(model, self._layers[model]) for model in looked_at if model in self._layers]
        for known, memory in (*self._callbacks.values(), *layers):
            if fingerprint(known) != memory:
                raise MechanismError(
                    f"{type(known).__qualname__} changed between two calls, or something that it names did",
                    where=where,
                    expected="fields, globals, closures, defaults, caches and attributes that stay as they are",
                    remedy="pass what changes as the callback's state, and compute tables before the first call",
                )

    def _watch(self, callback: object, where: str, *models: nn.Module) -> None:
        """Look at a callback before each step: its form, and whether any callback kept something."""
        require_pure_form(callback, where)
        self.require_unchanged(where, *models)
        if foreign(callback) and self._callbacks.get(callback, (None,))[0] is not callback:
            self._callbacks[callback] = callback, fingerprint(callback)

    @contextmanager
    def _trial(self, where: str, callback: object, *models: nn.Module) -> Iterator[None]:
        """Trials that must leave everything as it was. Those who fail them are forgotten: they saw no record."""
        try:
            yield
            self.require_unchanged(where, *models)
        except BaseException:
            self._callbacks.pop(callback, None)
            for model in models:
                self._layers.pop(model, None)
            raise
        self.foreign |= foreign(callback)

    def _check(
        self, contributions: Callable[[Rows, np.ndarray], np.ndarray], part: Any, horizon: int = 1, work: int = 0
    ) -> None:
        check_isolation(
            contributions,
            self._spec,
            part.rows_per_unit,
            where=part.name,
            rows_of=part.rows,
            horizon=horizon,
            work=work,
        )

    def _invented(self, part: Any, units: int, horizon: int = 1) -> Columns:
        return invented_rows(self._spec, units, part.rows_per_unit, seed=2, rows_of=part.rows, horizon=horizon)


def behind(part: str, step: Callable[[], Value], failed: Callable[[str, str], MechanismError] | None = None) -> Value:
    """Run a step; nothing record-dependent is raised or warned of, not even in an error's context or traceback.

    Args:
        part: what is named in an error.
        step: what is run.
        failed: the error for a part and the name of what was raised; None is that of a callback.
    """
    try:
        with quiet():
            return step()
    except KeyboardInterrupt:
        failure: BaseException = KeyboardInterrupt()
    except SystemExit:
        failure = SystemExit(1)
    except BaseException as error:
        failure = error.with_traceback(None) if _public(error) else (failed or _failed)(part, _kind(error))
    failure.__cause__ = failure.__context__ = None
    raise failure


def _kind(error: BaseException) -> str:
    """The name of the built-in exception that it is: a class made at run time may have a record's value as its name."""
    return str(next(kind.__name__ for kind in type(error).__mro__ if vars(builtins).get(kind.__name__) is kind))


def draws_in_blocks(
    objective: Objective, generator: torch.Generator, units: int, rows_per_unit: int, block: int
) -> dict[str, Tensor]:
    """An objective's random draws for the units of a sample, whose number is private.

    Guarantee: `draw` is asked for blocks of a public size, of which the last is cut; what it draws for a unit cannot
    depend on how many there are.
    """
    import torch

    blocks = [objective.draw(generator, block, rows_per_unit) for _ in range(-(-units // block))]
    if len(blocks) == 1:
        return {name: tensor[:units] for name, tensor in blocks[0].items()}
    return {name: torch.cat([part[name] for part in blocks])[:units] for name in (blocks[0] if blocks else ())}


def _failed(part: str, kind: str) -> MechanismError:
    return MechanismError(
        f"the step failed inside the vault ({kind}); it stays claimed and nothing was released",
        where=part,
        expected="a callback that runs on any rows within the public bounds",
        remedy="try the callback on invented rows of your own, where its whole message can be seen",
    )


def _public(error: BaseException) -> bool:
    """Whether it is a MechanismError that the privacy core's own code met in its own work: those name public things
    only.

    One that a callback met on the way may repeat an argument of the callback's, as other errors of tacit may (`check`
    does), and a callback's arguments are records.
    """
    trace, core_only = error.__traceback__, True
    while trace is not None:
        core_only = core_only and str(trace.tb_frame.f_globals.get("__name__")).startswith(("tacit.privacy.", "torch."))
        trace = trace.tb_next
    return isinstance(error, MechanismError) and core_only


# Isolation checks: a callback is tried on invented records before it may run on private ones.
#
# The mechanisms bound what one unit adds to a sum. That bound is about the unit alone only if a unit's contribution
# depends on no other unit, so every callback is first run on random rows drawn from the *public* bounds: units are
# exchanged for others, and the contributions of those that stay must stay. A callback that whitens over the batch is
# caught here; one that remembers rows between calls is refused by its form or by what it holds (`memory`).


CROWDS = (1, 2, 5, 33, 300)
"""Numbers of units on which a callback is tried: odd and even, below and above 6, 32, 64, 128 and 256."""

FEW = 5
"""Units on which it is tried again, and at the edges of the public bounds."""

MOST_HELD = 2**28
"""Bytes of the rows, contributions and declared work of a crowd; where more units would take more, the largest crowd is
smaller."""

ROUNDING = 1e-9
"""How far rounding in float64 may move a contribution, in multiples of the largest: over 100,000 units less than the
slack in the clip."""
_KNOWN = ("tacit.", "builtins.", "numpy.", "torch.")


def require_pure_form(callback: object, where: str) -> None:
    """Refuse callbacks that can carry hidden state.

    Accepted: an instance of a frozen dataclass that is defined at module level; its fields are public configuration.

    Raises:
        MechanismError: the callback is a closure, a lambda, a bound method or a mutable object, or holds a list, a
            dict or a set, into which rows could be put.
    """
    kind = type(callback)
    frozen = dataclasses.is_dataclass(callback) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    growing = any(isinstance(value, list | dict | set | bytearray) for value in inside(callback))
    if not frozen or growing or "<locals>" in kind.__qualname__:
        raise MechanismError(
            f"{kind.__qualname__} can carry state between calls",
            where=where,
            expected="an instance of a frozen dataclass defined at module level",
            remedy="write the callback as a frozen dataclass whose fields are its public parameters",
        )


def inside(value: object) -> Iterator[object]:
    """The value itself, and all that the fields of dataclasses and the entries of tuples in it hold.

    Tuples of numbers and texts alone, such as edges of bins, are not gone through.
    """
    yield value
    if isinstance(value, tuple):
        for entry in () if PLAIN.issuperset(map(type, value)) else value:
            yield from inside(entry)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from inside(getattr(value, field.name, None))


def foreign(callback: object) -> set[str]:
    """Names of the classes and functions in a callback that are not tacit's own (nor Python's, NumPy's, PyTorch's)."""
    names = set()
    for value in inside(callback):
        named: Any = value if isinstance(value, type) or hasattr(value, "__qualname__") else type(value)
        module = getattr(named, "__module__", None) or type(named).__module__
        if not f"{module}.".startswith(_KNOWN):
            names.add(str(named.__qualname__))
    return names


def check_isolation(
    contributions: Callable[[Rows, np.ndarray], np.ndarray],
    spec: PublicSpec,
    rows_per_unit: int,
    where: str,
    rows_of: RowsOf = "drawn",
    horizon: int = 1,
    work: int = 0,
) -> None:
    """Run `contributions` on invented rows of every number of units in `CROWDS`, and refuse any coupling between units.

    Units are exchanged for others, so that each is once exchanged while any given other one stays: what those give
    who stay may differ by `ROUNDING` of the largest contribution, as matrix products round a row by its place.
    Between crowds it may differ by what float32 rounds, 1e-3 of itself and 1e-5 of the largest one.

    At the edges of the public bounds the result need not be finite, but the callback has to run there (its own error
    is raised here, if it does not): inside the vault, that it fails would tell something about the records.

    Args:
        contributions: (rows, which of the invented units these are) -> one vector or scalar a unit.
        work: bytes that pass through memory for one unit, beside its rows and its contribution.

    Raises:
        MechanismError: the result has no leading unit axis, is not finite on ordinary rows, differs between two
            calls on the same rows, or changes for a unit whose own rows did not change.
    """
    few = invented_rows(spec, FEW, rows_per_unit, seed=2, rows_of=rows_of, horizon=horizon)
    first = contributions(few, np.arange(FEW))
    if not np.array_equal(first, contributions(few, np.arange(FEW)), equal_nan=True):
        raise _refusal("the callback gives different results for the same rows", where)
    held = first.nbytes + sum(column.nbytes for column in few.values())
    most = min(CROWDS[-1], max(FEW, MOST_HELD * FEW // (held + FEW * work)))
    everybody, exchanged = (
        invented_rows(spec, most, rows_per_unit, seed=seed, rows_of=rows_of, horizon=horizon) for seed in (0, 1)
    )
    given: dict[int, np.ndarray] = {}
    for units in sorted({min(units, most) for units in CROWDS}, key=FEW.__ne__):  # most mistakes show in a few rows
        rows = {name: column[:units] for name, column in everybody.items()}
        base = given[units] = contributions(rows, np.arange(units))
        if base.ndim == 0 or base.shape[0] != units or not np.isfinite(base).all():
            raise _refusal(f"the callback returned shape {base.shape}, or values that are not finite", where)
        for leaves in _exchanges(units):
            mixed = {name: column.copy() for name, column in rows.items()}
            for name, column in mixed.items():
                column[leaves] = exchanged[name][:units][leaves]
            result = contributions(mixed, np.arange(units))
            near = ROUNDING * np.abs(base).max()
            if result.shape != base.shape or not (np.abs(result[~leaves] - base[~leaves]) <= near).all():
                raise _refusal("one unit's contribution changes when another unit's rows do", where)
    for fewer, more in itertools.pairwise(given[units] for units in sorted(given)):
        same = more[: len(fewer)]
        close = 1e-3 * np.abs(same) + 1e-5 * np.abs(more).max()
        if fewer.shape != same.shape or not (np.abs(fewer - same) <= close).all():
            raise _refusal("a unit's contribution depends on how many units there are", where)
    with quiet():
        for edge in edge_rows(spec, FEW, rows_per_unit, rows_of, horizon):
            if contributions(edge, np.arange(FEW)).shape != first.shape:
                raise _refusal("the callback's shape is another one on rows at the edges of the public bounds", where)
    if not np.array_equal(first, contributions(few, np.arange(FEW)), equal_nan=True):
        raise _refusal("the callback gives different results for the same rows, after others", where)


@functools.cache
def _exchanges(units: int) -> np.ndarray:
    """Which units are exchanged in each trial, bool [trials, units]; any unit, while any given other one stays.

    Each unit gets another half of the trials, and no half holds another: as few trials as there can be (Sperner 1928).
    """
    trials = next(k for k in itertools.count() if math.comb(k, k // 2) >= units)
    halves = itertools.islice(itertools.combinations(range(trials), trials // 2), units)
    leaves = np.zeros((trials, units), bool)
    for unit, half in enumerate(halves):
        leaves[list(half), unit] = True
    return leaves


def _refusal(what: str, where: str) -> MechanismError:
    return MechanismError(
        what,
        where=where,
        expected="one finite contribution a unit, computed from that unit's rows alone",
        remedy="remove batch statistics, running averages and other sharing between units",
    )
