"""What a method may run behind a door: its form, its trial on decoys, and silence about its failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from tacit.data.spec import PublicSpec
from tacit.errors import DoorError, TacitError
from tacit.privacy.decoys import decoy_rows, require_pure_form, try_on_decoys, try_on_fewer
from tacit.privacy.plan import PoissonSum

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

Rows = Mapping[str, np.ndarray]
Value = TypeVar("Value")


class Contribution(Protocol):
    """What one unit adds to a noisy sum: a frozen dataclass whose fields are public."""

    def __call__(self, rows: Rows, state: Any) -> np.ndarray:
        """Rows of U units, each column [U, L, ...] with `mask` [U, L] and `replicate` [U] -> contributions [U, d]."""


class Objective(Protocol):
    """A loss whose clipped per-unit gradients are summed: a frozen dataclass whose fields are public."""

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        """Random tensors for one step, each with leading axis `units` (secret, independent of the records)."""

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        """Columns [U, L, ...], `mask` [U, L] and the draws -> one loss a unit [U]."""


class Trials:
    """Tries callbacks on decoys before they may run on records, each once.

    Args:
        spec: the public bounds that decoys are drawn from.

    Attributes:
        foreign: names of the callbacks and layers that are not tacit's own; certificates list them as assumptions.
    """

    def __init__(self, spec: PublicSpec) -> None:
        self._spec = spec
        self._tried: set[tuple[object, ...]] = set()
        self._models: WeakKeyDictionary[object, set[tuple[object, ...]]] = WeakKeyDictionary()
        self.foreign: set[str] = set()

    def contribution(self, part: PoissonSum, contribution: Contribution, state: Any) -> int:
        """Try the callback on decoys (once a run and callback) and return the width of its vectors."""
        require_pure_form(contribution, where=part.name)
        rows = decoy_rows(self._spec, 1, part.rows_per_unit, seed=2)
        width = np.asarray(contribution({**rows, "replicate": np.zeros(1, np.int64)}, state)).shape
        if len(width) != 2:
            raise DoorError(f"shape {width}", where=part.name, expected="[units, d]", remedy="return a vector a unit")
        if (part, contribution) not in self._tried:

            def vectors(r: Rows, _: object = None) -> np.ndarray:
                return np.asarray(contribution({**r, "replicate": np.zeros(len(r["mask"]), np.int64)}, state))

            try_on_decoys(vectors, self._spec, part.rows_per_unit, where=part.name)
            try_on_fewer(vectors, self._spec, part.rows_per_unit, where=part.name)
            self._tried.add((part, contribution))
            self._name_foreign(contribution)
        return int(width[1])

    def objective(self, part: PoissonSum, model: nn.Module, objective: Objective) -> None:
        """Try the objective on decoys, once a model: a full step runs, losses stay apart, no statistics are kept."""
        import torch

        from tacit.privacy.gradients import clipped_sum

        if (part, objective) in self._models.setdefault(model, set()):
            return
        require_pure_form(objective, where=part.name)
        draws = objective.draw(torch.Generator().manual_seed(0), 5, part.rows_per_unit)
        device = next(model.parameters()).device

        def tensors(rows: Rows, kept: np.ndarray | None = None) -> dict[str, Tensor]:
            own = draws if kept is None else {name: tensor[torch.from_numpy(kept)] for name, tensor in draws.items()}
            both = {name: torch.from_numpy(np.asarray(column)) for name, column in rows.items()} | own
            return {name: tensor.to(device) for name, tensor in both.items()}

        def losses(rows: Rows, kept: np.ndarray | None = None) -> np.ndarray:
            with torch.no_grad():
                result: np.ndarray = objective.loss(model, tensors(rows, kept)).cpu().numpy()
            return result

        before = [buffer.clone() for buffer in model.buffers()]
        try_on_decoys(losses, self._spec, part.rows_per_unit, where=part.name)
        try_on_fewer(losses, self._spec, part.rows_per_unit, where=part.name)
        if any(not torch.equal(old, new) for old, new in zip(before, model.buffers(), strict=True)):
            raise DoorError(
                "the model's buffers change when rows pass through it",
                where=part.name,
                expected="a model without running statistics",
                remedy="use LayerNorm or GroupNorm instead of BatchNorm",
            )
        rows = decoy_rows(self._spec, 5, part.rows_per_unit, seed=2)
        clipped_sum(model, objective.loss, tensors(rows), part.clip)
        self._name_foreign(objective)
        kinds = {type(module) for module in model.modules()}
        self.foreign |= {k.__qualname__ for k in kinds if not k.__module__.startswith(("tacit.", "torch."))}
        self._models[model].add((part, objective))

    def _name_foreign(self, callback: object) -> None:
        if not type(callback).__module__.startswith("tacit."):
            self.foreign.add(type(callback).__qualname__)


def behind(part: str, step: Callable[[], Value]) -> Value:
    """Run a step; nothing record-dependent is raised, not even in a traceback's frames or an error's context."""
    try:
        return step()
    except KeyboardInterrupt:
        failure: BaseException = KeyboardInterrupt()
    except SystemExit as stop:
        failure = SystemExit(stop.code if isinstance(stop.code, int) else 1)
    except BaseException as error:
        failure = error.with_traceback(None) if _of_tacit(error) else _failed(part, type(error).__name__)
    failure.__cause__ = failure.__context__ = None
    raise failure


def _failed(part: str, kind: str) -> DoorError:
    return DoorError(
        f"the step failed behind the door ({kind}); it stays claimed and nothing was released",
        where=part,
        expected="a callback that runs on any rows within the public bounds",
        remedy="try the callback on invented rows of your own, where its whole message can be seen",
    )


def _of_tacit(error: BaseException) -> bool:
    """Whether it is one of tacit's own errors, raised by tacit's own code: those name public things only."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))
    return isinstance(error, TacitError) and module.startswith("tacit.")
