"""Adapters: few parameters that steer a frozen language model at the tokens that it writes.

An adapter is a frozen dataclass of public numbers; its parameters theta [P] are released values. `Bias` is one vector
that is added to the residual stream behind one layer. `LoRA` adds products of thin matrices to feed-forward layers: its
many parameters take noise each, and people's gradients agree less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from tacit.validation import require_positive, require_valid, require_whole

Matrix = Literal["up", "down"]
"""Of a feed-forward layer."""


@dataclass(frozen=True)
class ModelShape:
    """Public sizes of a model."""

    layers: int  # number of layers
    width: int  # of the residual stream
    inner: int  # width of a feed-forward layer
    heads: int  # of queries
    groups: int  # heads of keys and values
    tokens: int  # of the whole vocabulary
    base: float = 10_000.0  # of the rotary angles
    epsilon: float = 1e-5  # of the norms


@dataclass(frozen=True)
class Bias:
    """One vector behind layer `layer`, in units of `scale`: h <- h + scale theta, P = width."""

    layer: int = 20  # 0 is the first
    scale: float = 240.0  # public typical norm of the residual stream there (`residual_norm`)

    def __post_init__(self) -> None:
        require_whole(0, layer=self.layer)
        require_positive(scale=self.scale)

    @property
    def first_layer(self) -> int:
        """The first layer whose inputs depend on the parameters."""
        return self.layer + 1

    def initial_parameters(self, shape: ModelShape) -> Tensor:
        """The first parameters [P], at which the model is as it was."""
        require_valid("layer", self.layer, self.layer < shape.layers, f"one of the model's {shape.layers}")
        return torch.zeros(shape.width)

    def steer_residual(self, theta: Tensor, residual: Tensor) -> Tensor:
        """The residual stream [B, n, width] before layer `first`, for parameters [B or 1, P]."""
        return residual + self.scale * theta[:, None]

    def output_update(
        self, theta: Tensor, layer: int, name: Matrix, inputs: Tensor, shape: ModelShape
    ) -> Tensor | float:
        """What is added to the outputs of a feed-forward matrix: nothing."""
        return 0.0


@dataclass(frozen=True)
class LoRA:
    """Products B A of rank r beside the matrices `up` and `down` of some layers.

    A starts from a public draw and B at 0, so that the gradient of A is exactly 0 in the first round while all of A's
    coordinates get noise: the reason why `Bias` is the default.
    """

    layers: tuple[int, ...] = (20, 21)  # which
    rank: int = 1  # r
    scale: float = 1.0  # factor of the products
    seed: int = 0  # of A's public draw

    def __post_init__(self) -> None:
        require_valid("layers", self.layers, 0 < len(set(self.layers)) == len(self.layers), "different layers")
        require_whole(0, **{f"layers[{place}]": layer for place, layer in enumerate(self.layers)})
        require_whole(rank=self.rank)
        require_positive(scale=self.scale)

    @property
    def first_layer(self) -> int:
        """The first layer that the parameters change."""
        return min(self.layers)

    def initial_parameters(self, shape: ModelShape) -> Tensor:
        """The first parameters [P], at which the model is as it was."""
        expected = f"below {shape.layers}, the model's layers"
        require_valid("layers", self.layers, max(self.layers) < shape.layers, expected)
        generator = torch.Generator().manual_seed(self.seed)
        parts = []
        for _ in self.layers:
            for inputs, outputs in ((shape.width, shape.inner), (shape.inner, shape.width)):
                drawn = torch.randn(inputs * self.rank, generator=generator) / math.sqrt(inputs)
                parts += [drawn, torch.zeros(outputs * self.rank)]
        return torch.cat(parts)

    def steer_residual(self, theta: Tensor, residual: Tensor) -> Tensor:
        """The residual stream [B, n, width] before layer `first`, as it is."""
        return residual

    def output_update(
        self, theta: Tensor, layer: int, name: Matrix, inputs: Tensor, shape: ModelShape
    ) -> Tensor | float:
        """What is added to the outputs [B, n, out] of a feed-forward matrix, for parameters [B or 1, P]."""
        if layer not in self.layers:
            return 0.0
        thin, wide = (shape.width, shape.inner) if name == "up" else (shape.inner, shape.width)
        size = (shape.width + shape.inner) * self.rank
        begin = (2 * self.layers.index(layer) + (name == "down")) * size
        a, b = torch.split(theta[:, begin : begin + size], [thin * self.rank, wide * self.rank], dim=1)
        added: Tensor = self.scale * (inputs @ a.view(-1, thin, self.rank)) @ b.view(-1, self.rank, wide)
        return added


Adapter = Bias | LoRA


class Steering(NamedTuple):
    """An adapter with its parameters theta: [1, P], or [B, P] with a row for each text."""

    adapter: Adapter
    theta: Tensor
