"""What a model must be behind the door: watched by nobody, of float32 parameters, and keeping units apart."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

from tacit.errors import DoorError

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_TENSOR_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def require_unwatched(model: nn.Module) -> None:
    """Refuse a model on which somebody else's hooks are: they would be called with private rows.

    Raises:
        DoorError: a module, a parameter or PyTorch as a whole has hooks.
    """
    everywhere = any(getattr(nn.modules.module, f"_global{name}", None) for name in _HOOKS)
    modules = (getattr(module, name, None) for module in model.modules() for name in _HOOKS)
    tensors = (getattr(tensor, name, None) for tensor in model.parameters() for name in _TENSOR_HOOKS)
    if everywhere or any(modules) or any(tensors):
        raise DoorError(
            "the model has hooks, which would see private rows",
            where="noisy_gradient",
            expected="a model that nobody watches, as a profiler or logger does",
            remedy="remove the hooks (handle.remove()) before the door is called",
        )


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that require gradients, by name.

    Raises:
        DoorError: there is none, or one is not initialised float32.
    """
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    for name, parameter in parameters.items():
        if parameter.dtype != torch.float32 or isinstance(parameter, nn.UninitializedParameter):
            raise DoorError(
                f"the parameter is {parameter.dtype}, or not initialised yet",
                where=name,
                expected="initialised float32 parameters: coarser rounding exceeds the slack of the clip",
                remedy="call model.float() and run lazy modules once on public rows; autocast inside the loss is fine",
            )
    if not parameters:
        raise DoorError(
            "no parameter requires a gradient", where="model", expected="at least one", remedy="unfreeze a layer"
        )
    return parameters


def require_apart(model: nn.Module) -> None:
    """Refuse layers that mix units or keep something of them, and arithmetic that is coarser than float32.

    Raises:
        DoorError: there is such a layer, or float32 products are set to lower precision.
    """
    if torch.get_float32_matmul_precision() != "highest":
        raise DoorError(
            "float32 matrix products are set to a lower precision",
            where="torch.get_float32_matmul_precision()",
            expected="'highest': sums must be rounded by less than the slack of the clip",
            remedy="call torch.set_float32_matmul_precision('highest'); use autocast inside the loss for speed",
        )
    devices = {"cpu", next(model.parameters()).device.type}
    if any(torch.is_autocast_enabled(device) for device in devices):
        raise DoorError(
            "autocast is on around the door",
            where="torch.autocast",
            expected="gradients in float32: coarser rounding exceeds the slack of the clip",
            remedy="leave the autocast region; use autocast inside the loss for speed",
        )
    for name, module in model.named_modules():
        kind = type(module).__name__
        if isinstance(module, _NormBase):
            statistics = module.training or (isinstance(module, _BatchNorm) and module.running_mean is None)
            if statistics and (isinstance(module, _BatchNorm) or module.track_running_stats):
                raise mixing(name, f"{kind}, which computes statistics over units")
        hooked = any(isinstance(hook, SpectralNorm) for hook in module._forward_pre_hooks.values())
        if isinstance(module, _SpectralNorm) or hooked:
            raise mixing(name, "spectral normalisation, whose buffers change in every pass")
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and (
            module.max_norm is not None or module.scale_grad_by_freq
        ):
            raise mixing(name, f"{kind} with max_norm or scale_grad_by_freq, which look at all units' rows")


def mixing(name: str, what: str) -> DoorError:
    """The error of a layer that does not treat every unit on its own."""
    return DoorError(
        what,
        where=name or "model",
        expected="layers that treat every unit on its own and keep nothing",
        remedy="use LayerNorm or GroupNorm, drop the option, or put the layer in eval mode",
    )
