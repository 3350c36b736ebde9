"""Any `torch.nn.Module` as a `FunctionalNetwork` of `networks.py`, through `torch.func`; torch stays on one thread."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from tacit.agents.networks import Float32
from tacit.errors import PlanError

Result = TypeVar("Result")


@dataclass(frozen=True)
class TorchNetwork:
    """A module that maps rows [N, inputs] to [N, outputs], each row by itself.

    theta holds the module's parameters in the order of `named_parameters`, flattened; those with `requires_grad=False`
    are left out and stay as they are. The module is copied: what happens to it later changes nothing here. It has no
    buffers, batch statistics, dropout or parameters used in two places; parameters are float32. Raises PlanError where
    it is none of this, mixes rows, gives other numbers when it is called again, or does not run under `torch.func`.
    """

    module: nn.Module
    inputs: int

    def __post_init__(self) -> None:
        if not isinstance(self.module, nn.Module):
            raise _module_error("no torch.nn.Module was passed")
        for name, part in self.module.named_modules():
            rate = getattr(part, "dropout", 0.0)
            if isinstance(part, _REFUSED) or (isinstance(rate, float) and rate > 0.0):
                raise _module_error(f"{name or 'the module'} is a {type(part).__name__}")
        if any(True for _ in self.module.buffers()):
            raise _module_error("the module has buffers")
        named = list(self.module.named_parameters(remove_duplicate=False))
        if len({id(parameter) for _, parameter in named}) < len(named):
            raise _module_error("the module uses a parameter in two places")
        if any(parameter.dtype != torch.float32 for _, parameter in named):
            raise _module_error("the module's parameters are not all float32")
        object.__setattr__(self, "module", copy.deepcopy(self.module).cpu().train(False))
        if not self.parameters:
            raise _module_error("the module has no parameters to learn")
        self._check_module()

    @property
    def parameters(self) -> int:
        """P."""
        return sum(math.prod(shape) for _, shape in self._layout())

    @property
    def outputs(self) -> int:
        """Width of what is computed of a row."""
        row = np.zeros((1, 1, self.inputs), np.float32)
        return int(self.forward(self.initial_parameters(np.random.default_rng(0), 1), row)[0].shape[-1])

    def initial_parameters(self, generator: np.random.Generator, groups: int) -> Float32:
        """The module's own parameters for every group [groups, P]; nothing is drawn."""
        parameters = [p.detach().reshape(-1) for p in self.module.parameters() if p.requires_grad]
        return np.tile(torch.cat(parameters).numpy(), (groups, 1))

    def forward(self, theta: Float32, x: npt.NDArray[Any]) -> tuple[Float32, Tensor]:
        """Parameters [G, P] and rows [G, N, inputs] -> outputs [G, N, outputs] and the rows."""
        rows = _tensor(x)
        with _single_thread(), torch.no_grad():
            out: Float32 = vmap(self._apply)(_tensor(theta), rows).numpy()
        return out, rows

    def backward(self, theta: Float32, cache: Tensor, gradient: Float32, pieces: int = 1) -> Float32:
        """Gradients [G, pieces, P] with respect to theta (see `Network.backward`); the forward pass is run again."""

        def piece(parameters: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
            pull: Callable[[Tensor], tuple[Tensor]] = vjp(lambda vector: self._apply(vector, rows), parameters)[1]
            return pull(weights)[0]

        groups, rows = gradient.shape[:2]
        shape = (groups, pieces, rows // pieces, -1)
        with _single_thread():
            by_piece = vmap(vmap(piece, in_dims=(None, 0, 0)))
            gradients = by_piece(_tensor(theta), cache.reshape(shape), _tensor(gradient).reshape(shape))
        result: Float32 = gradients.detach().numpy()
        return result

    def _layout(self) -> list[tuple[str, torch.Size]]:
        return [(name, p.shape) for name, p in self.module.named_parameters() if p.requires_grad]

    def _apply(self, theta: Tensor, rows: Tensor) -> Tensor:
        parameters, start = {}, 0
        for name, shape in self._layout():
            end = start + math.prod(shape)
            parameters[name] = theta[start:end].reshape(shape)
            start = end
        result: Tensor = functional_call(self.module, parameters, (rows,))
        return result

    def _check_module(self) -> None:
        """Run the module on invented rows, both ways."""
        generator = np.random.default_rng(0)
        theta = self.initial_parameters(generator, 2)
        rows = generator.normal(size=(2, 4, self.inputs)).astype(np.float32)
        out, cache = _run_guarded(lambda: self.forward(theta, rows))
        if out.ndim != 3 or out.shape[:2] != (2, 4):
            raise _module_error("the module does not map rows [N, inputs] to [N, outputs]")
        _run_guarded(lambda: self.backward(theta, cache, np.ones_like(out), pieces=2))
        if not np.array_equal(out, _run_guarded(lambda: self.forward(theta, rows))[0]):
            raise _module_error("the module gives other numbers when it is called again")
        changed = rows.copy()
        changed[:, 0] = 1.0
        again, _ = _run_guarded(lambda: self.forward(theta, changed))
        if not np.allclose(out[:, 1:], again[:, 1:], rtol=1e-6, atol=0.0):
            raise _module_error("the module mixes rows")


_REFUSED = (nn.modules.batchnorm._NormBase, nn.modules.dropout._DropoutNd, nn.RReLU)


def _module_error(what: str) -> PlanError:
    return PlanError(
        what,
        where="TorchNetwork",
        expected="a module that maps float32 rows [N, inputs] to [N, outputs], each by itself and without randomness, "
        "buffers or shared parameters",
        remedy="use LayerNorm or GroupNorm for BatchNorm, leave dropout out, and give every layer its own parameters",
    )


def _run_guarded(step: Callable[[], Result]) -> Result:
    try:
        return step()
    except Exception as error:
        raise _module_error(f"the module does not run under torch.func ({type(error).__name__})") from error


def _tensor(array: npt.NDArray[Any]) -> Tensor:
    return torch.tensor(np.asarray(array, dtype=np.float32))


@contextmanager
def _single_thread() -> Iterator[None]:
    """Networks this small lose more to the hand-over between threads than they gain."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
