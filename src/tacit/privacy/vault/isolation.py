"""Trials of callbacks on decoys before they may see records, and silence about what fails behind a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from tacit.data.spec import PublicSpec
from tacit.errors import DoorError
from tacit.privacy.mechanisms.base import Sum
from tacit.privacy.mechanisms.callbacks import Clone, Contribution, Objective, Public, Rows, Summary, Work
from tacit.privacy.vault.decoys import decoy_rows, foreign, quiet, require_pure_form, try_on_decoys, try_on_fewer

if TYPE_CHECKING:
    from torch import Tensor, nn

    from tacit.privacy.mechanisms.above_threshold import AboveThreshold
    from tacit.privacy.mechanisms.device_sums import FederatedSum
    from tacit.privacy.mechanisms.votes import TeacherVotes

Value = TypeVar("Value")


class Trials:
    """Tries callbacks on decoys before they may run on records, each once.

    Args:
        spec: the public bounds that decoys are drawn from.

    Attributes:
        foreign: names of the callbacks and layers that are not tacit's own; certificates list them as assumptions.
    """

    def __init__(self, spec: PublicSpec) -> None:
        self._spec = spec
        self._widths: dict[tuple[object, ...], int] = {}
        self._models: WeakKeyDictionary[object, set[tuple[object, ...]]] = WeakKeyDictionary()
        self.foreign: set[str] = set()

    def contribution(self, part: Sum | TeacherVotes, contribution: Contribution, state: Any) -> int:
        """Try the callback on decoys, once a part and callback, and return the width of its vectors."""
        require_pure_form(contribution, where=part.name)
        known = self._widths.get((part, contribution))
        if known is not None:
            return known
        summary: Summary | None = getattr(contribution, "summary", None)
        if summary is not None:
            require_pure_form(summary, where=part.name)
            if part.rows != "first":
                raise DoorError(
                    "the summary of a unit would be made from rows that are drawn anew in every step",
                    where=part.name,
                    expected='a part with rows="first"',
                    remedy="declare it in the plan",
                )

        def vectors(rows: Rows, _: object = None) -> np.ndarray:
            seen = rows if summary is None else summary(rows)
            return np.asarray(contribution({**seen, "replicate": np.zeros(len(rows["mask"]), np.int64)}, state))

        shape = vectors(
            decoy_rows(self._spec, 1, part.rows_per_unit, seed=2, rows_of=part.rows, horizon=part.horizon)
        ).shape
        if len(shape) != 2:
            raise DoorError(f"shape {shape}", where=part.name, expected="[units, d]", remedy="return a vector a unit")
        try_on_decoys(vectors, self._spec, part.rows_per_unit, where=part.name, rows_of=part.rows, horizon=part.horizon)
        try_on_fewer(vectors, self._spec, part.rows_per_unit, where=part.name, rows_of=part.rows, horizon=part.horizon)
        self.foreign |= foreign(contribution)
        self._widths[part, contribution] = int(shape[1])
        return int(shape[1])

    def work(self, part: FederatedSum, work: Work, public: Public) -> int:
        """Try what devices compute on decoys, once a part and work: the state's beginning and two answers.

        Returns:
            The width of an answer.
        """
        require_pure_form(work, where=part.name)
        known = self._widths.get((part, work))
        if known is not None:
            return known

        def vectors(rows: Rows, units: np.ndarray | None = None) -> np.ndarray:
            seeds = np.arange(len(rows["mask"]), dtype=np.uint64) if units is None else units.astype(np.uint64)
            first, own = work(work.begin(rows, seeds), public, seeds + np.uint64(100))
            second, _ = work(own, public, seeds + np.uint64(200))
            if np.ndim(first) != 2 or np.shape(first) != np.shape(second):
                raise DoorError(
                    f"answers of shapes {np.shape(first)} and {np.shape(second)}",
                    where=part.name,
                    expected="[units, d] every time",
                    remedy="return a vector a person",
                )
            return np.concatenate([first, second], axis=1)

        try_on_decoys(vectors, self._spec, part.rows_per_unit, where=part.name, rows_of=part.rows)
        try_on_fewer(vectors, self._spec, part.rows_per_unit, where=part.name, rows_of=part.rows)
        self.foreign |= foreign(work)
        width = int(vectors(decoy_rows(self._spec, 1, part.rows_per_unit, seed=2, rows_of=part.rows)).shape[1]) // 2
        self._widths[part, work] = width
        return width

    def clone(self, part: AboveThreshold, clone: Clone) -> None:
        """Try how experts are cloned on decoys."""
        require_pure_form(clone, where=part.name)

        def parameters(rows: Rows, _: object = None) -> np.ndarray:
            return np.asarray(clone(rows)["parameters"])

        try_on_decoys(parameters, self._spec, part.rows_per_unit, where=part.name, rows_of=part.rows)
        try_on_fewer(parameters, self._spec, part.rows_per_unit, where=part.name, rows_of=part.rows)
        decoys = decoy_rows(self._spec, 5, part.rows_per_unit, seed=2, rows_of=part.rows)
        part.require_floor(clone.experts(parameters(decoys)).floor)
        self.foreign |= foreign(clone)

    def mechanism(self, mechanism: Any, where: str) -> None:
        """Try what a mechanism computes of each unit on decoys."""
        require_pure_form(mechanism, where=where)
        rows_per_unit, rows_of = mechanism.rows_per_unit, mechanism.rows

        def values(rows: Rows, _: object = None) -> np.ndarray:
            return np.asarray(mechanism.contributions(rows))

        try_on_decoys(values, self._spec, rows_per_unit, where=where, rows_of=rows_of)
        try_on_fewer(values, self._spec, rows_per_unit, where=where, rows_of=rows_of)
        self.foreign |= foreign(mechanism)

    def objective(self, part: Sum, model: nn.Module, objective: Objective) -> None:
        """Try the objective on decoys, once a model: a full step runs, losses stay apart, no statistics are kept."""
        import torch

        from tacit.privacy.gradients.per_unit import clipped_sum

        if (part, objective) in self._models.setdefault(model, set()):
            return
        require_pure_form(objective, where=part.name)
        draws = objective.draw(torch.Generator().manual_seed(0), 5, part.rows_per_unit)
        device = next(model.parameters()).device

        def tensors(rows: Rows, kept: np.ndarray | None = None) -> dict[str, Tensor]:
            own = draws if kept is None else {name: tensor[torch.from_numpy(kept)] for name, tensor in draws.items()}
            both = {name: torch.from_numpy(np.asarray(column)) for name, column in rows.items()} | own
            return {name: tensor.to(device) for name, tensor in both.items()}

        shares = getattr(objective, "shares", None)

        def losses(rows: Rows, kept: np.ndarray | None = None) -> np.ndarray:
            with torch.no_grad():
                own = tensors(rows, kept)
                whole = own if shares is None else {**own, **shares(own)}
                result: np.ndarray = objective.loss(model, whole).cpu().numpy()
            return result

        before = [buffer.clone() for buffer in model.buffers()]
        try_on_decoys(losses, self._spec, part.rows_per_unit, where=part.name, rows_of=part.rows, horizon=part.horizon)
        try_on_fewer(losses, self._spec, part.rows_per_unit, where=part.name, rows_of=part.rows, horizon=part.horizon)
        if any(not torch.equal(old, new) for old, new in zip(before, model.buffers(), strict=True)):
            raise DoorError(
                "the model's buffers change when rows pass through it",
                where=part.name,
                expected="a model without running statistics",
                remedy="use LayerNorm or GroupNorm instead of BatchNorm",
            )
        rows = decoy_rows(self._spec, 5, part.rows_per_unit, seed=2, rows_of=part.rows, horizon=part.horizon)
        clipped_sum(model, objective.loss, tensors(rows), part.clip, shares=shares)
        self.foreign |= foreign(objective)
        kinds = {type(module) for module in model.modules()}
        self.foreign |= {k.__qualname__ for k in kinds if not k.__module__.startswith(("tacit.", "torch."))}
        self._models[model].add((part, objective))


def behind(part: str, step: Callable[[], Value], failed: Callable[[str, str], DoorError] | None = None) -> Value:
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
    except SystemExit as stop:
        failure = SystemExit(stop.code if isinstance(stop.code, int) else 1)
    except BaseException as error:
        failure = error.with_traceback(None) if _public(error) else (failed or _failed)(part, type(error).__name__)
    failure.__cause__ = failure.__context__ = None
    raise failure


def _failed(part: str, kind: str) -> DoorError:
    return DoorError(
        f"the step failed behind the door ({kind}); it stays claimed and nothing was released",
        where=part,
        expected="a callback that runs on any rows within the public bounds",
        remedy="try the callback on invented rows of your own, where its whole message can be seen",
    )


def _public(error: BaseException) -> bool:
    """Whether it is a DoorError that the privacy core's own code met in its own work: those name public things only.

    One that a callback met on the way may repeat an argument of the callback's, as other errors of tacit may (`check`
    does), and a callback's arguments are records.
    """
    trace, own = error.__traceback__, True
    while trace is not None:
        own = own and str(trace.tb_frame.f_globals.get("__name__")).startswith(("tacit.privacy.", "torch."))
        trace = trace.tb_next
    return isinstance(error, DoorError) and own
