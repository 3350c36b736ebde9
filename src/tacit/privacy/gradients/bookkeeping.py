"""One forward and one backward of a model, from which every layer's per-unit contribution is read by hooks.

Group-level book-keeping after Bu et al. (arXiv:2210.00038): a unit is any number of rows, and its rows lie together
(`units` is the leading axis, or its slow part). Hooks live for one pass only, and inside each layer's own forward its
parameters do not require gradients: no weight gradient is computed by autograd, and a parameter that autograd does
reach was used outside its layer and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from tacit.errors import MechanismError
from tacit.privacy.gradients.layers import DenseGradients, LayerContribution, contribution

Loss = Callable[[nn.Module, Mapping[str, Tensor]], Tensor]
"""`(model, rows) -> losses [U]`: every tensor in rows has leading axis U, and loss u depends on rows u alone."""


@dataclass(frozen=True, eq=False)
class Layer:
    """A supported module with its trainable parameters: own name ("weight") -> name in the model."""

    module: nn.Module
    parameters: Mapping[str, str]

    @property
    def name(self) -> str:
        """The full name of one of its parameters."""
        return next(iter(self.parameters.values()))


class BookkeepingError(MechanismError):
    """Book-keeping cannot know a parameter's per-unit gradient; `torch.func` may."""


_IN_FLIGHT = 1.25
"""Memory of a backward pass over what it saves or keeps: the gradients on their way between two layers."""

Collect = Callable[[Layer, Tensor, Tensor], None]


class ModelWithLoss(nn.Module):
    """A model together with a loss, as one module, so that `torch.func.functional_call` can exchange its parameters."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, rows: Mapping[str, Tensor]) -> Tensor:
        """The losses [U]."""
        return self.loss(self.model, rows)


def contributions(
    model: nn.Module, loss: Loss, rows: Mapping[str, Tensor], layers: list[Layer]
) -> list[LayerContribution]:
    """Each layer's contribution to every unit's gradient, in the order of `layers`."""
    units = len(next(iter(rows.values())))
    by_layer: dict[Layer, LayerContribution] = {}

    def collect(layer: Layer, a: Tensor, g: Tensor) -> None:
        by_layer[layer] = contribution(layer.module, a, g, units, frozenset(layer.parameters))

    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    with _hooks(layers, units, collect) as anchor:
        losses = require_losses(loss(model, rows), units)
        strays = _differentiate(losses, torch.ones_like(losses), [anchor, *parameters.values()])[1:]
    for name, stray in zip(parameters, strays, strict=True):
        if stray is not None:
            raise parameter_error(name, "is used outside its own layer's forward")
    for layer in layers:
        if layer not in by_layer:
            raise parameter_error(layer.name, "got no gradient in this pass", MechanismError)
    return [by_layer[layer] for layer in layers]


def probe(model: nn.Module, loss: Loss, rows: Mapping[str, Tensor], layers: list[Layer]) -> tuple[int, bool]:
    """Check on real rows that every layer keeps the units apart, and measure the memory of one unit.

    Differentiates the losses of every other unit only. A layer whose gradient is not zero at the remaining units' rows
    mixes units (batch statistics), shares rows between them, or is not unit-major (time first); its norms would
    be those of something else than a unit. The parameters are replaced by perturbed copies, so that layers that were
    initialised to zero hide nothing.

    Returns:
        Bytes that one unit holds until its clipped gradient is summed, and whether every layer gave evidence.

    Raises:
        MechanismError: a layer mixes units, or see `contributions`.
    """
    units = len(next(iter(rows.values())))
    rows = {name: tensor.clone() for name, tensor in rows.items()}
    perturbed = {f"model.{name}": _perturb(p, seed) for seed, (name, p) in enumerate(model.named_parameters())}
    parameter_pointers = {p.untyped_storage().data_ptr() for p in perturbed.values()}
    held: dict[int, int] = {}
    inputs: dict[int, int] = {}
    evidence: set[Layer] = set()
    extra = 0

    def pack(tensor: Tensor) -> Tensor:
        held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    def collect(layer: Layer, a: Tensor, g: Tensor) -> None:
        nonlocal extra
        inputs[a.untyped_storage().data_ptr()] = a.untyped_storage().nbytes()
        extra += contribution(layer.module, a, g, units, frozenset(layer.parameters)).bytes
        by_unit = g.reshape(units, -1)
        remaining_units = by_unit[1::2]
        if ((remaining_units != 0) & remaining_units.isfinite()).any():
            raise parameter_error(layer.name, "has rows that belong to several units, or are not laid out unit by unit")
        if (by_unit[::2] != 0).any():
            evidence.add(layer)

    saved = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with saved, _hooks(layers, units, collect) as anchor:
        losses = torch.func.functional_call(ModelWithLoss(model, loss), perturbed, (rows,))
        weights = torch.zeros_like(require_losses(losses, units))
        weights[::2] = 1.0
        _differentiate(losses, weights, [anchor])
    before = sum(size for pointer, size in {**held, **inputs}.items() if pointer not in parameter_pointers)
    after = extra + sum(inputs.values())  # what autograd saved is freed while contributions are made
    return max(1, int(_IN_FLIGHT * max(before, after)) // units), len(evidence) == len(layers)


def require_losses(losses: Tensor, units: int) -> Tensor:
    """`losses`, if it is one differentiable loss a unit."""
    if losses.shape != (units,) or not losses.dtype.is_floating_point or not losses.requires_grad:
        kind = "that depend on the parameters" if losses.requires_grad else "cut off from the parameters"
        what = f"the loss returned {losses.dim()} axes, {losses.dtype}, {kind}"
        expected = "one differentiable loss a unit, shape [units]"
        remedy = "average over a unit's rows inside the loss, and do not detach"
        raise MechanismError(what, where="loss", expected=expected, remedy=remedy)
    return losses


def parameter_error(parameter: str, what: str, kind: type[MechanismError] = BookkeepingError) -> MechanismError:
    """The error of a parameter whose per-unit gradient cannot be known."""
    expected = "every trainable parameter in exactly one call of its layer a step, on rows laid out unit by unit"
    remedy = "give each use its own layer, freeze what is unused, expand shared rows per unit (or use Table)"
    return kind(f"the parameter {what}", where=parameter, expected=expected, remedy=remedy)


def _differentiate(losses: Tensor, weights: Tensor, inputs: list[Tensor]) -> tuple[Tensor | None, ...]:
    # of a sum, which has the same bits: given the weights as its gradient, torch would import SymPy for a second
    result: tuple[Tensor | None, ...] = torch.autograd.grad((losses * weights).sum(), inputs, allow_unused=True)
    return result


def _perturb(parameter: Tensor, seed: int) -> Tensor:
    generator = torch.Generator(parameter.device).manual_seed(seed)
    noise = torch.empty_like(parameter).normal_(0.0, 0.02, generator=generator)
    return (parameter.detach() + noise).requires_grad_(parameter.requires_grad)


@contextmanager
def _hooks(layers: list[Layer], units: int, collect: Collect) -> Iterator[Tensor]:
    """Hooks on `layers` for one pass, handing (layer, input, output gradient) to `collect`."""
    # Yields the anchor: a zero that is added to outputs which nothing else would make differentiable.
    parameters = [p for layer in layers for p in layer.module.parameters(recurse=False) if p.requires_grad]
    anchor = torch.zeros((), device=parameters[0].device, requires_grad=True)
    visited: set[nn.Module] = set()

    def forward_hook(layer: Layer) -> Callable[..., Tensor | None]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> Tensor | None:
            _set_requires_grad(module, layer=layer, value=True)
            if not torch.is_grad_enabled():
                return None
            a = (args[0] if args else next(iter(kwargs.values()))).detach()
            if module in visited:
                raise parameter_error(layer.name, "is used in more than one call of its layer")
            if output.dim() == 0 or a.dim() == 0 or a.shape[0] % units or output.shape[0] % units:
                raise parameter_error(layer.name, "meets an input whose leading axis is not a multiple of the units")
            visited.add(module)
            replaced = None if output.requires_grad else output + anchor
            tapped = output if replaced is None else replaced
            version = a._version

            def receive(g: Tensor) -> None:
                if a._version != version:
                    raise parameter_error(layer.name, "belongs to a layer whose input was overwritten in place")
                collect(layer, a, g.detach())

            tapped.register_hook(receive)  # type: ignore[no-untyped-call]
            return replaced

        return hook

    with ExitStack() as stack, torch.enable_grad():
        for layer in layers:
            before = partial(_set_requires_grad, layer=layer, value=False)
            stack.callback(layer.module.register_forward_pre_hook(before).remove)
            stack.callback(layer.module.register_forward_hook(forward_hook(layer), with_kwargs=True).remove)
        try:
            yield anchor
        finally:
            for parameter in parameters:
                parameter.requires_grad_(True)


def _set_requires_grad(module: nn.Module, _: object = None, *, layer: Layer, value: bool) -> None:
    for name in layer.parameters:
        module._parameters[name].requires_grad_(value)  # type: ignore[union-attr]


# Per-unit gradients of any model, by `torch.func.vmap(torch.func.grad)`.
#
# Slower and larger than book-keeping (every unit's whole gradient is built), but it asks nothing of the layers: the
# loss runs on one unit at a time, so units are apart by construction, and every trainable parameter's gradient is
# computed afresh, however often it is used.


def dense_contribution(model: nn.Module, loss: Loss, rows: Mapping[str, Tensor]) -> DenseGradients:
    """Every unit's gradient: parameter name -> [U, *shape], float32."""
    # loss: as for book-keeping, it is called on one unit, rows [1, ...] -> [1], inside `vmap`
    closed = ModelWithLoss(model, loss)
    parameters = {f"model.{name}": p.detach() for name, p in model.named_parameters() if p.requires_grad}

    def unit_loss(parameters: dict[str, Tensor], unit: Mapping[str, Tensor]) -> Tensor:
        losses = functional_call(closed, parameters, ({name: tensor[None] for name, tensor in unit.items()},))
        return require_losses(losses, 1)[0]

    try:
        gradients = vmap(grad(unit_loss), in_dims=(None, 0), randomness="different")(parameters, rows)
    except (RuntimeError, ValueError, TypeError) as error:
        failure = type(error).__name__
    else:
        return DenseGradients({name.removeprefix("model."): gradient for name, gradient in gradients.items()})
    kinds = sorted({type(m).__name__ for m in model.modules() if any(True for _ in m.parameters(recurse=False))})
    what = f"per-unit gradients of {', '.join(kinds)} cannot be computed by torch.func.vmap ({failure})"
    expected = "layers and a loss without data-dependent control flow or in-place statistics"
    remedy = "build the model from Linear, LayerNorm, Embedding and Table, or make it run under torch.func.vmap"
    raise MechanismError(what, where="model", expected=expected, remedy=remedy)


def functional_unit_bytes(model: nn.Module, loss: Loss, rows: Mapping[str, Tensor]) -> int:
    """Memory that one unit needs: what its forward saves, and its gradient twice."""
    # rows: one unit's rows, [1, ...]
    held: dict[int, int] = {}
    parameter_pointers = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def pack(tensor: Tensor) -> Tensor:
        held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss(model, {name: tensor.clone() for name, tensor in rows.items()})
    saved = sum(size for pointer, size in held.items() if pointer not in parameter_pointers)
    return saved + 8 * sum(p.numel() for p in model.parameters() if p.requires_grad)
