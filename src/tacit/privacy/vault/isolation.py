"""Isolation checks of callbacks, on invented rows before they may see records; and silence about what fails later."""

from __future__ import annotations

import builtins
import copy
import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import MechanismError
from tacit.privacy.mechanisms.base import Clone, Contribution, Objective, Public, Rows, RowsOf, Sum, Summary, Work

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from tacit.privacy.mechanisms.above_threshold import AboveThreshold
    from tacit.privacy.mechanisms.device_sums import FederatedSum
    from tacit.privacy.mechanisms.votes import TeacherVotes


Value = TypeVar("Value")

MOST_DRAWN = 1_024
"""Most units for which an objective draws at a time; fewer where the plan expects fewer in a step."""


class IsolationChecks:
    """Checks callbacks on invented rows before they may run on records, each once.

    Args:
        spec: the public bounds that invented rows are drawn from.

    Attributes:
        foreign: names of the callbacks and layers that are not tacit's own; certificates list them as assumptions.
    """

    def __init__(self, spec: PublicSpec) -> None:
        self._spec = spec
        self._widths: dict[tuple[object, ...], int] = {}
        self._models: WeakKeyDictionary[object, set[tuple[object, ...]]] = WeakKeyDictionary()
        self.foreign: set[str] = set()

    def contribution(self, part: Sum | TeacherVotes, contribution: Contribution, state: Any) -> int:
        """Check the callback on invented rows, once a part and callback, and return the width of its vectors."""
        require_pure_form(contribution, where=part.name)
        checked_width = self._widths.get((part, contribution))
        if checked_width is not None:
            return checked_width
        summary: Summary | None = getattr(contribution, "summary", None)
        if summary is not None:
            require_pure_form(summary, where=part.name)
            if part.rows != "first":
                raise MechanismError(
                    "the summary of a unit would be made from rows that are drawn again in every step",
                    where=part.name,
                    expected='a part with rows="first"',
                    remedy="declare it in the plan",
                )

        def vectors(rows: Rows, _: object = None) -> np.ndarray:
            seen = rows if summary is None else summary(rows)
            return np.asarray(contribution({**seen, "replicate": np.zeros(len(rows["mask"]), np.int64)}, state))

        shape = vectors(
            invented_rows(self._spec, 1, part.rows_per_unit, seed=2, rows_of=part.rows, horizon=part.horizon)
        ).shape
        if len(shape) != 2:
            raise MechanismError(
                f"shape {shape}", where=part.name, expected="[units, d]", remedy="return a vector a unit"
            )
        check_isolation(
            vectors, self._spec, part.rows_per_unit, where=part.name, rows_of=part.rows, horizon=part.horizon
        )
        check_fewer(vectors, self._spec, part.rows_per_unit, where=part.name, rows_of=part.rows, horizon=part.horizon)
        self.foreign |= foreign(contribution)
        self._widths[part, contribution] = int(shape[1])
        return int(shape[1])

    def work(self, part: FederatedSum, work: Work, public: Public) -> int:
        """Check what devices compute on invented rows, once a part and work: the state's beginning and two answers.

        Returns:
            The width of an answer.
        """
        require_pure_form(work, where=part.name)
        checked_width = self._widths.get((part, work))
        if checked_width is not None:
            return checked_width

        def vectors(rows: Rows, units: np.ndarray | None = None) -> np.ndarray:
            seeds = np.arange(len(rows["mask"]), dtype=np.uint64) if units is None else units.astype(np.uint64)
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

        check_isolation(vectors, self._spec, part.rows_per_unit, where=part.name, rows_of=part.rows)
        check_fewer(vectors, self._spec, part.rows_per_unit, where=part.name, rows_of=part.rows)
        self.foreign |= foreign(work)
        width = int(vectors(invented_rows(self._spec, 1, part.rows_per_unit, seed=2, rows_of=part.rows)).shape[1]) // 2
        self._widths[part, work] = width
        return width

    def clone(self, part: AboveThreshold, clone: Clone) -> None:
        """Check how experts are cloned, on invented rows."""
        require_pure_form(clone, where=part.name)

        def parameters(rows: Rows, _: object = None) -> np.ndarray:
            return np.asarray(clone(rows)["parameters"])

        check_isolation(parameters, self._spec, part.rows_per_unit, where=part.name, rows_of=part.rows)
        check_fewer(parameters, self._spec, part.rows_per_unit, where=part.name, rows_of=part.rows)
        rows = invented_rows(self._spec, 5, part.rows_per_unit, seed=2, rows_of=part.rows)
        part.require_floor(clone.experts(parameters(rows)).floor)
        self.foreign |= foreign(clone)

    def mechanism(self, mechanism: Any, where: str) -> None:
        """Check what a mechanism computes of each unit, on invented rows."""
        require_pure_form(mechanism, where=where)
        rows_per_unit, rows_of = mechanism.rows_per_unit, mechanism.rows

        def values(rows: Rows, _: object = None) -> np.ndarray:
            return np.asarray(mechanism.contributions(rows))

        check_isolation(values, self._spec, rows_per_unit, where=where, rows_of=rows_of)
        check_fewer(values, self._spec, rows_per_unit, where=where, rows_of=rows_of)
        self.foreign |= foreign(mechanism)

    def objective(self, part: Sum, model: nn.Module, objective: Objective) -> None:
        """Check the objective on invented rows, once a model: a step runs, losses stay apart, no statistic is kept."""
        import torch

        from tacit.privacy.gradients.clipped_sums import clipped_sum

        if (part, objective) in self._models.setdefault(model, set()):
            return
        require_pure_form(objective, where=part.name)
        draws = objective.draw(torch.Generator().manual_seed(0), 5, part.rows_per_unit)
        device = next(model.parameters()).device

        def tensors(rows: Rows, units: np.ndarray | None = None) -> dict[str, Tensor]:
            unit_draws = (
                draws if units is None else {name: tensor[torch.from_numpy(units)] for name, tensor in draws.items()}
            )
            both = {name: torch.from_numpy(np.asarray(column)) for name, column in rows.items()} | unit_draws
            return {name: tensor.to(device) for name, tensor in both.items()}

        shares = getattr(objective, "shares", None)

        def losses(rows: Rows, units: np.ndarray | None = None) -> np.ndarray:
            with torch.no_grad():
                inputs = tensors(rows, units)
                whole = inputs if shares is None else {**inputs, **shares(inputs)}
                result: np.ndarray = objective.loss(model, whole).cpu().numpy()
            return result

        before = [buffer.clone() for buffer in model.buffers()]
        check_isolation(
            losses, self._spec, part.rows_per_unit, where=part.name, rows_of=part.rows, horizon=part.horizon
        )
        check_fewer(losses, self._spec, part.rows_per_unit, where=part.name, rows_of=part.rows, horizon=part.horizon)
        if any(not torch.equal(old, new) for old, new in zip(before, model.buffers(), strict=True)):
            raise MechanismError(
                "the model's buffers change when rows pass through it",
                where=part.name,
                expected="a model without running statistics",
                remedy="use LayerNorm or GroupNorm instead of BatchNorm",
            )
        rows = invented_rows(self._spec, 5, part.rows_per_unit, seed=2, rows_of=part.rows, horizon=part.horizon)
        clipped_sum(model, objective.loss, tensors(rows), part.clip_norm, shares=shares)
        self.foreign |= foreign(objective)
        kinds = {type(module) for module in model.modules()}
        self.foreign |= {k.__qualname__ for k in kinds if not k.__module__.startswith(("tacit.", "torch."))}
        self._models[model].add((part, objective))


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
# depends on no other unit, so every callback is first run on random rows drawn from the *public* bounds: one unit at a
# time is exchanged for another, and the contributions of all other units must stay bit-identical. A callback that
# whitens over the batch, keeps running statistics or remembers rows between calls is caught here, or refused by its
# form.


Columns = dict[str, np.ndarray]

MOST_EDGES = 1_000
"""Values of a discrete space that are all tried; of a larger one, so many at its two ends."""

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
    """The value itself, and all that the fields of dataclasses and the entries of tuples in it hold."""
    yield value
    if isinstance(value, tuple):
        for entry in value:
            yield from inside(entry)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from inside(getattr(value, field.name, None))


def read_only(value: Any) -> Any:
    """The same public value, into whose arrays no callback can write what it knows of people.

    Arrays are replaced by views, in tuples, mappings and dataclasses too; anything else stays as it is.
    """
    if isinstance(value, np.ndarray):
        view = value.view(np.ndarray)
        view.flags.writeable = False
        return view
    if type(value) is tuple:
        return tuple(read_only(entry) for entry in value)
    if isinstance(value, Mapping):
        return {name: read_only(entry) for name, entry in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        duplicate = copy.copy(value)
        for field in dataclasses.fields(value):
            object.__setattr__(duplicate, field.name, read_only(getattr(value, field.name)))
        return duplicate
    return value


def foreign(callback: object) -> set[str]:
    """Names of the classes and functions in a callback that are not tacit's own (nor Python's, NumPy's, PyTorch's)."""
    names = set()
    for value in inside(callback):
        named: Any = value if isinstance(value, type) or hasattr(value, "__qualname__") else type(value)
        module = getattr(named, "__module__", None) or type(named).__module__
        if not f"{module}.".startswith(_KNOWN):
            names.add(str(named.__qualname__))
    return names


@contextmanager
def quiet() -> Iterator[None]:
    """No warning is shown, logged or turned into an error: whether one arises may depend on a record."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


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


def edge_rows(
    spec: PublicSpec, units: int, rows_per_unit: int, rows_of: RowsOf = "drawn", horizon: int = 1
) -> Iterator[Columns]:
    """Invented rows at the ends of the public bounds, in the middle and at 0; every value of a discrete space."""
    rows = invented_rows(spec, units, rows_per_unit, seed=3, rows_of=rows_of, horizon=horizon)
    rows["mask"] = np.ones_like(rows["mask"])
    cells = rows["mask"].size
    columns = {"observations": spec.observation, "actions": spec.action, "rewards": spec.reward}
    edges = {name: _edges(space) for name, space in columns.items()}
    edges["next_observations"], edges["rewards"] = edges["observations"][::-1], edges["rewards"][:, 0]
    if spec.propensities:
        edges["propensities"] = np.array([1.0, np.finfo(np.float32).tiny], np.float32)
    for start in range(0, max(map(len, edges.values())), cells):
        where = np.arange(start, start + cells)
        yield rows | {name: e[where % len(e)].reshape(rows[name].shape) for name, e in edges.items()}


def check_isolation(
    contributions: Callable[[Mapping[str, np.ndarray]], np.ndarray],
    spec: PublicSpec,
    rows_per_unit: int,
    where: str,
    rows_of: RowsOf = "drawn",
    horizon: int = 1,
    units: int = 5,
) -> None:
    """Run `contributions` (rows -> one vector or scalar a unit) on invented rows and refuse any coupling between units.

    A contribution may differ by `ROUNDING` of the largest one: matrix products round a row by its place among others.

    At the edges of the public bounds its result need not be finite, but it has to run there (its own error is raised
    here, if it does not): inside the vault, that it fails would tell something about the records.

    Raises:
        MechanismError: the result has no leading unit axis, is not finite on ordinary rows, differs between two
            calls on the same rows, or changes for a unit whose own rows did not change.
    """
    rows = invented_rows(spec, units, rows_per_unit, seed=0, rows_of=rows_of, horizon=horizon)
    other_rows = invented_rows(spec, units, rows_per_unit, seed=1, rows_of=rows_of, horizon=horizon)
    base = contributions(rows)
    if base.ndim == 0 or base.shape[0] != units or not np.isfinite(base).all():
        raise _refusal(f"the callback returned shape {base.shape}, or values that are not finite", where)
    if not np.array_equal(base, contributions(rows)):
        raise _refusal("the callback gives different results for the same rows", where)
    for unit in range(units):
        exchanged = {name: column.copy() for name, column in rows.items()}
        for name in exchanged:
            exchanged[name][unit] = other_rows[name][unit]
        result = contributions(exchanged)
        keep = np.arange(units) != unit
        unchanged = result.shape == base.shape and bool(
            (np.abs(result[keep] - base[keep]) <= ROUNDING * np.abs(base).max()).all()
        )
        if not unchanged:
            raise _refusal("one unit's contribution changes when another unit's rows do", where)
    with quiet():
        for edge in edge_rows(spec, units, rows_per_unit, rows_of, horizon):
            if contributions(edge).shape != base.shape:
                raise _refusal("the callback's shape is another one on rows at the edges of the public bounds", where)


def check_fewer(
    contributions: Callable[[Mapping[str, np.ndarray], np.ndarray], np.ndarray],
    spec: PublicSpec,
    rows_per_unit: int,
    where: str,
    rows_of: RowsOf = "drawn",
    horizon: int = 1,
    units: int = 5,
) -> None:
    """Take one invented unit out at a time: what the others contribute must stay, up to rounding.

    Exchanging units (`check_isolation`) leaves their number as it was, and so cannot show a callback that divides by
    it.

    Args:
        contributions: (rows, which units these are) -> one vector or scalar a unit.

    Raises:
        MechanismError: the others' contributions change.
    """
    rows = invented_rows(spec, units, rows_per_unit, seed=0, rows_of=rows_of, horizon=horizon)
    base = contributions(rows, np.arange(units))
    for unit in range(units):
        remaining = np.flatnonzero(np.arange(units) != unit)
        result = contributions({name: column[remaining] for name, column in rows.items()}, remaining)
        close = 1e-3 * np.abs(base[remaining]) + 1e-5 * np.abs(base).max()
        if result.shape != base[remaining].shape or not (np.abs(result - base[remaining]) <= close).all():
            raise _refusal("a unit's contribution depends on how many units there are", where)


def _edges(space: Box | Discrete) -> Any:
    """[k] values of a discrete space, or [k, d] points of a box."""
    if isinstance(space, Discrete):
        values = np.arange(min(space.n, MOST_EDGES))
        return values if space.n <= MOST_EDGES else np.concatenate([values, space.n - 1 - values])
    low, high = np.asarray(space.low), np.asarray(space.high)
    return np.stack([low, high, low + (high - low) / 2, np.clip(0.0, low, high)]).astype(np.float32)


def _refusal(what: str, where: str) -> MechanismError:
    return MechanismError(
        what,
        where=where,
        expected="one finite contribution a unit, computed from that unit's rows alone",
        remedy="remove batch statistics, running averages and other sharing between units",
    )


def _draw(space: Box | Discrete, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    if isinstance(space, Discrete):
        return rng.integers(space.n, size=shape)
    low, high = np.asarray(space.low), np.asarray(space.high)
    return (low + (high - low) * rng.random((*shape, low.size))).astype(np.float32)
