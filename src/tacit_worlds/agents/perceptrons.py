"""Stacked multilayer perceptrons: K networks of one shape, one batched product a layer, and their gradients by hand.

Between two layers stand a ReLU and, where asked for, LayerNorm without gain or shift before it. Backpropagation is two
steps: `layer_slopes` takes derivatives in the outputs down to every layer, `parameter_slopes` multiplies them with what
entered there. No graph is built: for networks this small autograd costs as much as the arithmetic.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

Layers = list[Tensor]  # weight [K, in, out], bias [K, 1, out], weight, ...

_NARROW = 8  # columns, below which a product is many times as fast transposed
_SMALL = 1e-5  # is added to a variance, as by torch's LayerNorm


def layer_views(theta: Tensor, sizes: tuple[int, ...]) -> Layers:
    """Layers between `sizes`, the widths from the inputs to the outputs, as views of parameters [K, P]."""
    shapes = [shape for fan_in, fan_out in itertools.pairwise(sizes) for shape in ((fan_in, fan_out), (1, fan_out))]
    parts = torch.split(theta, [rows * columns for rows, columns in shapes], 1)
    return [part.view(-1, *shape) for part, shape in zip(parts, shapes, strict=True)]


@dataclass(frozen=True)
class NetworkStack:
    """K networks that learn."""

    theta: Tensor  # their parameters [K, P], changed in place
    sizes: tuple[int, ...]  # widths from the inputs to the outputs

    @cached_property
    def layers(self) -> Layers:
        """Views of the parameters."""
        return layer_views(self.theta, self.sizes)

    def copy(self) -> NetworkStack:
        """The same numbers, which stay as they are."""
        return NetworkStack(self.theta.clone(), self.sizes)

    def soft_update(self, other: NetworkStack, rate: float) -> None:
        """One step of a moving average, in place: theta += rate (other's - theta)."""
        self.theta.lerp_(other.theta, rate)


@dataclass(frozen=True)
class Trace:
    """What passed through K networks."""

    inputs: list[Tensor]  # rows that entered each layer, [K, B, in]
    outputs: Tensor  # [K, B, out]
    # of each hidden layer with LayerNorm, what is normalised, about its mean, [K, B, out], and by which factor, [K, B,
    # 1]; empty without LayerNorm
    centred: list[tuple[Tensor, Tensor]]


def forward(layers: Layers, x: Tensor, *, norm: bool) -> Trace:
    """Rows x [K, B, in] through K networks; `norm` puts a LayerNorm before every ReLU."""
    inputs, centred = [x], []
    for weight, bias in zip(layers[:-2:2], layers[1:-2:2], strict=True):
        if norm:  # a mean over the units is linear in the weights: it is taken off these, which are fewer than the rows
            x = torch.baddbmm(_subtract_mean(bias), x, _subtract_mean(weight))
            length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
            factor = torch.rsqrt(length.square() / x.shape[-1] + _SMALL)
            centred.append((x, factor))
            x = (x * factor).relu_()
        else:
            x = torch.baddbmm(bias, x, weight).relu_()
        inputs.append(x)
    return Trace(inputs, product(x, layers[-2]) + layers[-1], centred)


def network_outputs(layers: Layers, x: Tensor, *, norm: bool) -> Tensor:
    """Outputs [K, B, out] of K networks for x [K, B, in]; `norm` as in `forward`."""
    return forward(layers, x, norm=norm).outputs


def forward_critics(q: Layers, s: Tensor, a: Tensor, *, norm: bool) -> Trace:
    """All N critics [K N, ...] of K members, of states [K, B, d] and actions [K, B, d_a]: outputs [K N, B, 1]."""
    return forward(q, torch.cat([s, a], -1).repeat_interleave(len(q[0]) // len(s), dim=0), norm=norm)


def backward(layers: Layers, trace: Trace, slope: Tensor) -> Tensor:
    """Derivatives [K, P] in all parameters, for `slope` [K, B, out], those in the outputs."""
    return parameter_slopes(trace.inputs, layer_slopes(layers, trace, slope))


def layer_slopes(layers: Layers, trace: Trace, slope: Tensor) -> list[Tensor]:
    """Derivatives [K, B, out] in what each layer's product gives, for `slope`, those in the outputs."""
    slopes = [slope]
    for i in range(len(trace.inputs) - 1, 0, -1):
        slope = relu_backward(trace.inputs[i], product(slope, layers[2 * i].mT))
        if trace.centred:
            x, factor = trace.centred[i - 1]
            shape, zero, wanted = x.shape[-1:], torch.zeros_like(factor), [True, False, False]
            slope = torch.ops.aten.native_layer_norm_backward(slope, x, shape, zero, factor, None, None, wanted)[0]
        slopes.append(slope)
    return slopes[::-1]


def parameter_slopes(inputs: list[Tensor], slopes: list[Tensor], constant: Tensor | None = None) -> Tensor:
    """Derivatives [K, P] in all parameters, from the rows that entered each layer and its `layer_slopes`."""
    # `constant` [K, B, 1] is what the biases were multiplied with, 1 where it is left out.
    parts = []
    for x, slope in zip(inputs, slopes, strict=True):
        parts += [product(x.mT, slope), slope.sum(1) if constant is None else product(constant.mT, slope)]
    return torch.cat([part.flatten(1) for part in parts], 1)


def input_slopes(layers: Layers, slopes: list[Tensor], count: int) -> Tensor:
    """Derivatives [K, B, count] in the last `count` inputs, from the `layer_slopes`."""
    return product(slopes[0], layers[0][:, -count:].mT)


def relu_backward(hidden: Tensor, slope: Tensor) -> Tensor:
    """`slope`, in place 0 where a unit is off (ReLU's own derivative: one pass)."""
    masked: Tensor = torch.ops.aten.threshold_backward.grad_input(slope, hidden, 0.0, grad_input=slope)
    return masked


def product(a: Tensor, b: Tensor) -> Tensor:
    """Batched product of a [K, n, k] and b [K, k, m], in the form that is fast where m or k is small."""
    if a.shape[-1] == 1:
        return a * b
    return torch.bmm(b.mT, a.mT).mT if b.shape[-1] < _NARROW else torch.bmm(a, b)


def _subtract_mean(tensor: Tensor) -> Tensor:
    return tensor - tensor.mean(-1, keepdim=True)
