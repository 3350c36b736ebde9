"""Stacked multilayer perceptrons: K networks of one shape, one batched product per layer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["Layers", "approach", "detached", "network", "scalar"]

Layers = list[Tensor]  # weight [K, in, out], bias [K, 1, out], weight, ...


def network(layers: Layers, x: Tensor, *, norm: bool) -> Tensor:
    """Outputs [K, B, out] of K multilayer perceptrons for x [K, B, in]; `norm` puts a LayerNorm before every ReLU."""
    return torch.baddbmm(layers[-1], _hidden(layers, x, norm), layers[-2])


def scalar(layers: Layers, x: Tensor, *, norm: bool) -> Tensor:
    """`network` with one output, [K, B]: a product and a sum, five times as fast as a batched product of one column."""
    return (_hidden(layers, x, norm) * layers[-2].transpose(1, 2)).sum(-1) + layers[-1][..., 0]


def _hidden(layers: Layers, x: Tensor, norm: bool) -> Tensor:
    for weight, bias in zip(layers[:-2:2], layers[1:-2:2], strict=True):
        x = torch.baddbmm(bias, x, weight)
        if norm:
            x = F.layer_norm(x, x.shape[-1:])
        x = F.relu(x)
    return x


def detached(layers: Layers) -> Layers:
    """The same numbers (no copy) where no gradient arrives."""
    return [tensor.detach() for tensor in layers]


def approach(target: Layers, source: Layers, rate: float) -> None:
    """One step of a moving average: target += rate (source - target), in place."""
    torch._foreach_lerp_(target, detached(source), rate)
