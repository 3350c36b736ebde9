"""Per-unit gradients of any model, by `torch.func.vmap(torch.func.grad)`.

Slower and larger than book-keeping (every unit's whole gradient is built), but it asks nothing of the layers: the loss
runs on one unit at a time, so units are apart by construction, and every trainable parameter's gradient is computed
afresh, however often it is used.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from tacit.errors import DoorError
from tacit.privacy.gradients.bookkeeping import Closed, Loss, checked_losses
from tacit.privacy.gradients.layers import Dense


def contribution(model: nn.Module, loss: Loss, rows: Mapping[str, Tensor]) -> Dense:
    """Every unit's gradient: parameter name -> [U, *shape], float32.

    Args:
        loss: as for book-keeping; it is called on one unit, rows [1, ...] -> [1], inside `vmap`.

    Raises:
        DoorError: `torch.func.vmap` cannot run the model or the loss.
    """
    closed = Closed(model, loss)
    parameters = {f"model.{name}": p.detach() for name, p in model.named_parameters() if p.requires_grad}

    def one(parameters: dict[str, Tensor], unit: Mapping[str, Tensor]) -> Tensor:
        losses = functional_call(closed, parameters, ({name: tensor[None] for name, tensor in unit.items()},))
        return checked_losses(losses, 1)[0]

    try:
        gradients = vmap(grad(one), in_dims=(None, 0), randomness="different")(parameters, rows)
    except (RuntimeError, ValueError, TypeError) as error:
        failure = type(error).__name__
    else:
        return Dense({name.removeprefix("model."): gradient for name, gradient in gradients.items()})
    kinds = sorted({type(m).__name__ for m in model.modules() if any(True for _ in m.parameters(recurse=False))})
    raise DoorError(
        f"per-unit gradients of {', '.join(kinds)} cannot be computed by torch.func.vmap ({failure})",
        where="model",
        expected="layers and a loss without data-dependent control flow or in-place statistics",
        remedy="build the model from Linear, LayerNorm, Embedding and Table, or make it run under torch.func.vmap",
    )


def bytes_of_one_unit(model: nn.Module, loss: Loss, rows: Mapping[str, Tensor]) -> int:
    """Memory that one unit needs: what its forward saves, and its gradient twice.

    Args:
        rows: one unit's rows, [1, ...].
    """
    held: dict[int, int] = {}
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def pack(tensor: Tensor) -> Tensor:
        held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss(model, {name: tensor.clone() for name, tensor in rows.items()})
    saved = sum(size for pointer, size in held.items() if pointer not in own)
    return saved + 8 * sum(p.numel() for p in model.parameters() if p.requires_grad)
