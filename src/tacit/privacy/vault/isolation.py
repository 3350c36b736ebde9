"""Isolation checks of callbacks, on invented rows before they may see records; and silence about what fails later."""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from tacit.data.spec import PublicSpec
from tacit.errors import MechanismError
from tacit.privacy.mechanisms.base import Clone, Contribution, Objective, Public, Rows, Sum, Summary, Work
from tacit.privacy.mechanisms.contribution_sets import POSITIVE
from tacit.privacy.mechanisms.kinds import VisitorPart
from tacit.privacy.mechanisms.responses import RandomizedResponses
from tacit.privacy.mechanisms.tallies import Tally, contribution_vectors
from tacit.privacy.vault import removal
from tacit.privacy.vault.invented import invented_crowd
from tacit.privacy.vault.memory import PLAIN, find_foreign, fingerprint, outline
from tacit.privacy.vault.removal import (
    CROWDS,
    FEW,
    Contributions,
    Harness,
    UnitContributions,
    VectorViews,
    silence_warnings,
)

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from tacit.privacy.mechanisms.above_threshold import AboveThreshold
    from tacit.privacy.mechanisms.device_sums import FederatedSum
    from tacit.privacy.mechanisms.votes import TeacherVotes


Value = TypeVar("Value")

_PASSED: dict[tuple[object, ...], tuple[object, int, int]] = {}
"""What was tried at length in this process, with the largest crowd and the width: another vault need not do it again.

Keys hold fingerprints, of which code is a part. The callbacks are held, so that no address stands for another array.
"""
_MOST_PASSED = 32


class IsolationChecks:
    """Tries callbacks on invented crowds before they may run on records, and sees that they keep nothing.

    What is the user's is tried at length (`removal.Harness`) once for each part, each callback and each structure of
    its state or model, and on two small crowds before every step. It is compared with what it was before and after
    every step, and before a release (`memory.fingerprint`). What is tacit's own through and through
    (`memory.strangers`) is tried briefly, once: the tests try it at length.

    Args:
        spec: the public bounds that invented rows are drawn from.

    Attributes:
        foreign: names of the callbacks and layers that are not tacit's own; certificates list them as assumptions.
    """

    def __init__(self, spec: PublicSpec) -> None:
        self._spec = spec
        self._widths: dict[tuple[object, ...], int] = {}
        self._largest_crowds: dict[object, int] = {}
        self._models: WeakKeyDictionary[object, set[tuple[object, ...]]] = WeakKeyDictionary()
        self._callbacks: dict[bytes, object] = {}
        self._layers: WeakKeyDictionary[nn.Module, bytes] = WeakKeyDictionary()
        self._times = 0
        self.foreign_names: set[str] = set()

    def copy_for_run(self) -> IsolationChecks:
        """Checks of one run among several: `foreign_names` names what it meets; what is watched is watched by all."""
        checks = IsolationChecks(self._spec)
        checks._callbacks, checks._layers = self._callbacks, self._layers
        return checks

    def try_contribution(
        self, part: Sum | TeacherVotes | RandomizedResponses, contribution: Contribution | Tally, state: Any
    ) -> int:
        """Try the callback; the width of its vectors."""
        tallied = not callable(contribution)
        summary: Summary | None = None if tallied else getattr(contribution, "summary", None)
        if summary is not None:
            require_pure_form(summary, where=part.name)
            if part.rows != "first":
                what = "the summary of a unit would be made from rows that are drawn again in every step"
                expected, remedy = 'a part with rows="first"', "declare it in the plan"
                raise MechanismError(what, where=part.name, expected=expected, remedy=remedy)
        if tallied and part.horizon != 1:
            what, expected = "rows of fragments would be counted", "a part with horizon=1"
            raise MechanismError(what, where=part.name, expected=expected, remedy="declare it in the plan")
        places = part.users if isinstance(part, VisitorPart) else None
        clip, blocks = getattr(part, "clip_norm", None), getattr(part, "blocks", None)
        if tallied and blocks not in (None, POSITIVE):
            what, expected = "rows are counted in blocks that are no counts", "no blocks, or contribution_sets.POSITIVE"
            raise MechanismError(what, where=part.name, expected=expected, remedy="declare it in the plan")

        def vectors(rows: Rows, units: np.ndarray) -> UnitContributions:
            seen = rows if summary is None else summary(rows)
            public = {"replicate": np.zeros(len(units), np.int64)}
            if places is not None:
                public["place"] = units % places
            result = contribution_vectors(contribution, {**seen, **public}, state)
            if result.ndim != 2:
                what, expected = f"shape {result.shape}", "[units, d]"
                raise MechanismError(what, where=part.name, expected=expected, remedy="return a vector a unit")
            return VectorViews.clipped(result, clip, blocks)

        return self._try_callback(part, contribution, vectors, state, part.horizon, summary)

    def try_work(self, part: FederatedSum, work: Work, public: Public) -> int:
        """Try what devices compute: the state's beginning and two answers.

        Returns:
            The width of an answer.
        """

        def vectors(rows: Rows, units: np.ndarray) -> UnitContributions:
            seeds = units.astype(np.uint64)
            first, state = work(work.begin(rows, seeds), public, seeds + np.uint64(100))
            second, _ = work(state, public, seeds + np.uint64(200))
            if np.ndim(first) != 2 or np.shape(first) != np.shape(second):
                what, expected = f"answers of shapes {np.shape(first)} and {np.shape(second)}", "[units, d] every time"
                raise MechanismError(what, where=part.name, expected=expected, remedy="return a vector a person")
            clip, blocks = getattr(part, "clip_norm", None), part.blocks
            arrays = [np.asarray(answer, np.float64) for answer in (first, second)]
            both = [VectorViews.clipped(answer, clip, blocks).views for answer in arrays]
            return VectorViews([*both[0], *both[1]])

        return self._try_callback(part, work, vectors, public)

    def try_clone(self, part: AboveThreshold, clone: Clone) -> None:
        """Try how experts are cloned."""

        def parameters(rows: Rows, units: np.ndarray) -> UnitContributions:
            return VectorViews([np.asarray(clone(rows)["parameters"])])

        self._try_callback(part, clone, parameters)
        few = invented_crowd(self._spec, FEW, part.rows_per_unit, 2, part.rows, 1, "any")
        part.require_floor(clone.experts(np.asarray(clone(few)["parameters"])).floor)

    def try_mechanism(self, mechanism: Any, where: str) -> None:
        """Try what a mechanism computes of each unit."""

        def vectors(rows: Rows, units: np.ndarray) -> UnitContributions:
            return VectorViews([np.asarray(mechanism.contributions(rows))])

        self._try_callback(mechanism, mechanism, vectors)

    def _try_callback(
        self,
        part: Any,
        callback: Any,
        contributions: Contributions,
        state: Any = None,
        horizon: int = 1,
        summary: Summary | None = None,
    ) -> int:
        """Look at a callback before a step, and try it as its origin and what it went through before demand."""
        digest = self._watch(callback, part.name, summary)
        harness = Harness(contributions, self._spec, part.rows_per_unit, part.rows, horizon, part.name)
        key = (part, callback if digest is None else digest, outline(state))
        if digest is None:
            if key not in self._widths:
                self._widths[key] = _width(harness.try_briefly())
            return self._widths[key]
        trial, known = self._trial(part.name, callback, digest, state), key in self._widths
        width = self._try_at_length_once((key, self._spec, removal.CROWDS), part, callback, harness, trial, known=known)
        self.foreign_names |= foreign_names(callback, summary)
        return self._widths.setdefault(key, width)

    def _try_at_length_once(
        self,
        passed: tuple[object, ...],
        part: object,
        callback: object,
        harness: Harness,
        trial: AbstractContextManager[None],
        *,
        known: bool,
    ) -> int:
        """Try what is the user's: at length once a process, else on two small crowds. Its width, 0 where known."""
        added = None
        with trial:
            if known or passed in _PASSED:
                self._times += 1
                harness.try_again(self._times)
            else:
                added = harness.try_at_length()
        if added is not None:
            while len(_PASSED) >= _MOST_PASSED:
                del _PASSED[next(iter(_PASSED))]
            _PASSED[passed] = callback, harness.largest_crowd(added), _width(added)
        if known:
            return 0
        _, most, width = _PASSED[passed]
        self._largest_crowds[part] = min(most, self._largest_crowds.get(part, most))
        return width

    def try_objective(self, part: Sum, model: nn.Module, objective: Objective) -> None:
        """Try the objective: each unit's clipped gradient stays, whoever leaves, and no statistic is kept.

        A model that book-keeping cannot follow goes on through `torch.func`.

        Raises:
            MechanismError: the part has blocks, which gradients are not moved into.
        """
        if part.blocks is not None:
            what, expected = "gradients would have to lie in blocks", "a part without blocks"
            raise MechanismError(what, where=part.name, expected=expected, remedy="declare it in the plan")
        import torch

        from tacit.privacy.gradients.bookkeeping import BookkeepingError
        from tacit.privacy.gradients.clipped_sums import UnitGradients, clipped_sum, disable_bookkeeping

        digest = self._watch(objective, part.name, model)
        key = (part, objective if digest is None else digest, outline(model))
        known = key in self._models.setdefault(model, set())
        if digest is None and known:
            return
        if digest is not None and model not in self._layers:
            self._layers[model] = fingerprint(model)
        draws = objective.draw(torch.Generator().manual_seed(0), CROWDS[-1], part.rows_per_unit)
        device = next(model.parameters()).device
        shares = getattr(objective, "shares", None)

        def tensors(rows: Rows, units: np.ndarray) -> dict[str, Tensor]:
            inputs = {name: torch.from_numpy(np.ascontiguousarray(column)) for name, column in rows.items()}
            inputs |= {name: tensor[torch.from_numpy(units.copy())] for name, tensor in draws.items()}
            return {name: tensor.to(device) for name, tensor in inputs.items()}

        def gradients(rows: Rows, units: np.ndarray) -> UnitContributions:
            return UnitGradients(model, objective.loss, tensors(rows, units), part.clip_norm, shares)

        def losses(rows: Rows, units: np.ndarray) -> UnitContributions:
            inputs = tensors(rows, units)
            with torch.no_grad():
                whole = inputs if shares is None else {**inputs, **shares(inputs)}
                return VectorViews([objective.loss(model, whole).cpu().numpy()])

        def require_summed() -> None:
            few = invented_crowd(self._spec, FEW, part.rows_per_unit, 2, part.rows, part.horizon, "any")
            clipped_sum(model, objective.loss, tensors(few, np.arange(FEW)), part.clip_norm, shares=shares)

        bounds = (self._spec, part.rows_per_unit, part.rows, part.horizon, part.name)
        harness = Harness(gradients, *bounds)

        @contextmanager
        def trial() -> Iterator[None]:
            with self._trial(part.name, objective, digest, None, model), self._require_still(part.name, model):
                if not known:
                    with self._require_still(part.name, model):
                        Harness(losses, *bounds).require_unmixed()
                    try:
                        require_summed()
                    except BookkeepingError as reason:
                        disable_bookkeeping(model, reason)
                        require_summed()
                yield

        if digest is None:
            with trial():
                harness.try_briefly()
        else:
            passed = (key, self._layers.get(model), self._spec, removal.CROWDS)
            self._try_at_length_once(passed, part, (objective, model), harness, trial(), known=known)
        self.foreign_names |= foreign_names(objective, model)
        self._models[model].add(key)

    def largest_crowd(self, part: object, *callbacks: Any) -> int | None:
        """How many units callbacks of the user's may get at once: no more than any of the part's was tried on.

        Returns:
            None where all of it is tacit's own, and gets any number.
        """
        return self._largest_crowds[part] if find_foreign(*callbacks) else None

    def limit_units(self, part: Any, contribution: Any, width: int) -> Any:
        """A contribution, which was tried, as a vault calls it: a user's adds nothing of a unit on which it raises."""
        # width: numbers of a vector
        summary = getattr(contribution, "summary", None)
        most = self.largest_crowd(part, contribution, summary)
        if most is None:
            return contribution
        if not callable(contribution):
            return removal.LimitedTally(contribution, most)
        if summary is not None:
            one = invented_crowd(self._spec, 1, part.rows_per_unit, 2, part.rows, part.horizon, "any")
            blank = {name: np.zeros_like(column) for name, column in summary(one).items()}
            summary = removal.LimitedCallback(summary, most, blank)
        return removal.LimitedCallback(contribution, most, np.zeros((1, width)), summary)

    @contextmanager
    def watch_step(self, where: str, callback: object, state: Any = None, *models: nn.Module) -> Iterator[None]:
        """A step, in which no callback of the user's may write into anything that outlives it.

        Raises:
            MechanismError: it did; what the step made is not released.
        """
        if not find_foreign(callback, *models):
            yield
            return
        looked_at = () if state is None else (state,)
        before = [fingerprint(one) for one in looked_at], [fingerprint(model, still=True) for model in models]
        digest = None if self._memory(callback) else fingerprint(callback)
        yield
        self.require_unchanged(where, *models)
        after = [fingerprint(one) for one in looked_at], [fingerprint(model, still=True) for model in models]
        if after != before or (digest is not None and fingerprint(callback) != digest):
            raise _change_error(type(callback).__qualname__, where)

    def require_unchanged(self, where: str, *models: nn.Module) -> None:
        """Refuse to go on where a callback of the user's, or one of these models, is not what it was when it came.

        Args:
            where: what is named in the error.
            models: those that are looked at; if none is given, all.

        Raises:
            MechanismError: something that it holds or names has changed.
        """
        layers = [(self._layers[model], model) for model in models or tuple(self._layers) if model in self._layers]
        for memory, known in (*self._callbacks.items(), *layers):
            if fingerprint(known) != memory:
                raise _change_error(type(known).__qualname__, where)

    def _watch(self, callback: object, where: str, *inside: Any) -> bytes | None:
        """Look at a callback before each step; what it is now, if not all of it is tacit's own."""
        require_pure_form(callback, where)
        self.require_unchanged(where, *(model for model in inside if model in self._layers))
        return (self._memory(callback) or fingerprint(callback)) if find_foreign(callback, *inside) else None

    def _memory(self, callback: object) -> bytes | None:
        return next((memory for memory, known in self._callbacks.items() if known is callback), None)

    @contextmanager
    def _trial(
        self, where: str, callback: object, digest: bytes | None, state: Any, *models: nn.Module
    ) -> Iterator[None]:
        """Trials that must leave everything as it was. Those who fail them are forgotten: they saw no record."""
        new = digest is not None and digest not in self._callbacks
        state_digest = None if state is None else fingerprint(state)
        if new and digest is not None:
            self._callbacks[digest] = callback
        try:
            yield
            self.require_unchanged(where, *models)
            another = digest is not None and self._callbacks[digest] is not callback
            moved = another and fingerprint(callback) != digest
            if moved or (state_digest is not None and fingerprint(state) != state_digest):
                raise _change_error(type(callback).__qualname__, where)
        except BaseException:
            if new and digest is not None:
                self._callbacks.pop(digest, None)
            for model in models:
                self._layers.pop(model, None)
            raise

    @contextmanager
    def _require_still(self, where: str, model: nn.Module) -> Iterator[None]:
        """Trials in which no parameter and no buffer moves."""
        import torch

        before = [tensor.detach().clone() for tensor in (*model.parameters(), *model.buffers())]
        yield
        for old, new in zip(before, (*model.parameters(), *model.buffers()), strict=True):
            if not torch.equal(old, new):
                what = "the model's parameters or buffers change when rows pass through it"
                remedy = "use LayerNorm or GroupNorm instead of BatchNorm"
                raise MechanismError(what, where=where, expected="a model without running statistics", remedy=remedy)


def _width(added: UnitContributions) -> int:
    return int(added.select(np.arange(1))[0][0].size)


def _change_error(name: str, where: str) -> MechanismError:
    what = f"{name} changed between two calls or within one, or something that it names or was given did"
    expected = "fields, globals, closures, defaults, caches, attributes and states that stay as they are"
    remedy = "pass what changes as the callback's state, and compute tables before the first call"
    return MechanismError(what, where=where, expected=expected, remedy=remedy)


def run_silently(
    part: str, step: Callable[[], Value], make_error: Callable[[str, str], MechanismError] | None = None
) -> Value:
    """Run a step; nothing record-dependent is raised or warned of, not even in an error's context or traceback."""
    # failed: the error for a part and the name of what was raised, None is that of a callback
    try:
        with silence_warnings():
            return step()
    except KeyboardInterrupt:
        failure: BaseException = KeyboardInterrupt()
    except SystemExit:
        failure = SystemExit(1)
    except BaseException as error:
        failure = error.with_traceback(None) if _is_public(error) else (make_error or _step_error)(part, _kind(error))
    failure.__cause__ = failure.__context__ = None
    raise failure


def _kind(error: BaseException) -> str:
    """The name of the built-in exception that it is: a class made at run time may have a record's value as its name."""
    return str(next(kind.__name__ for kind in type(error).__mro__ if vars(builtins).get(kind.__name__) is kind))


def draw_in_blocks(
    objective: Objective, generator: torch.Generator, units: int, rows_per_unit: int, block: int
) -> dict[str, Tensor]:
    """An objective's random draws for the units of a sample, whose number is private."""
    # Guarantee: `draw` is asked for blocks of a public size, of which the last is cut; what it draws for a unit cannot
    # depend on how many there are.
    import torch

    blocks = [objective.draw(generator, block, rows_per_unit) for _ in range(-(-units // block))]
    if len(blocks) == 1:
        return {name: tensor[:units] for name, tensor in blocks[0].items()}
    return {name: torch.cat([part[name] for part in blocks])[:units] for name in (blocks[0] if blocks else ())}


def _step_error(part: str, kind: str) -> MechanismError:
    what = f"the step failed inside the vault ({kind}); it stays claimed and nothing was released"
    expected = "a callback that runs on any rows within the public bounds"
    remedy = "try the callback on invented rows of your own, where its whole message can be seen"
    return MechanismError(what, where=part, expected=expected, remedy=remedy)


def _is_public(error: BaseException) -> bool:
    """Whether it is a MechanismError that the privacy core's own code met in its own work: it names public things."""
    # one that a callback met may repeat an argument of the callback's, as other errors do, and these are records
    trace, core_only = error.__traceback__, True
    while trace is not None:
        core_only = core_only and str(trace.tb_frame.f_globals.get("__name__")).startswith(("tacit.privacy.", "torch."))
        trace = trace.tb_next
    return isinstance(error, MechanismError) and core_only


# What a callback may be, and what in it is the user's own.


def require_pure_form(callback: object, where: str) -> None:
    """Refuse callbacks that can carry hidden state."""
    # Accepted: an instance of a frozen dataclass that is defined at module level; its fields are public configuration.
    kind = type(callback)
    frozen = dataclasses.is_dataclass(callback) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    growing = any(isinstance(value, list | dict | set | bytearray) for value in walk_fields(callback))
    if not frozen or growing or "<locals>" in kind.__qualname__:
        what = f"{kind.__qualname__} can carry state between calls"
        expected = "an instance of a frozen dataclass defined at module level"
        remedy = "write the callback as a frozen dataclass whose fields are its public parameters"
        raise MechanismError(what, where=where, expected=expected, remedy=remedy)


def walk_fields(value: object) -> Iterator[object]:
    """The value itself, and all that the fields of dataclasses and the entries of tuples in it hold."""
    # Tuples of numbers and texts alone, such as edges of bins, are not gone through.
    yield value
    if isinstance(value, tuple):
        for entry in () if PLAIN.issuperset(map(type, value)) else value:
            yield from walk_fields(entry)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from walk_fields(getattr(value, field.name, None))


def foreign_names(*values: object) -> set[str]:
    """Names of the classes and functions in a callback that are not tacit's own (nor Python's, NumPy's, PyTorch's)."""
    return {str(kind.__qualname__) for kind in find_foreign(*values) if not str(kind.__module__).startswith("torch.")}
