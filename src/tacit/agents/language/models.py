"""What a language model offers here: frozen weights, a cache of what was read, and logits of a public vocabulary.

Tokens of what a model reads are whole numbers below `shape.tokens`. Tokens that it writes are places in a public
vocabulary: a model that is `restricted` to V tokens gives V logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

from tacit.agents.language.adapters import Shape, Steering


@dataclass(frozen=True, eq=False)
class Cache:
    """Keys and values of the tokens that were read, which later tokens attend to."""

    keys: Tensor  # keys, values: [layers, B, heads, room, size] each; places from `length` on are of no account
    values: Tensor
    length: int  # how many tokens were read

    def extended(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer with those of n tokens more, [B, heads, length + n, size]."""
        # A cache with room keeps them, where no gradient is recorded.
        end = self.length + key.shape[2]
        if self.keys.shape[3] < end or key.requires_grad:
            before = (part[layer, :, :, : self.length] for part in (self.keys, self.values))
            key, value = (torch.cat(pair, dim=2) for pair in zip(before, (key, value), strict=True))
            return key, value
        self.keys[layer, :, :, self.length : end] = key
        self.values[layer, :, :, self.length : end] = value
        return self.keys[layer, :, :, :end], self.values[layer, :, :, :end]

    def repeated(self, times: int, room: int) -> Cache:
        """The same of [B * times] texts, each text `times` in a row, with places for `room` tokens more."""
        keys, values = (_wider(part[:, :, :, : self.length], times, room) for part in (self.keys, self.values))
        return Cache(keys, values, self.length)


def _wider(part: Tensor, times: int, room: int) -> Tensor:
    layers, texts, heads, length, size = part.shape
    wide = torch.empty(layers, texts * times, heads, length + room, size)
    wide[:, :, :, :length] = part.repeat_interleave(times, dim=1)
    return wide


class LanguageModel(Protocol):
    """A causal language model with frozen float32 weights on the CPU."""

    @property
    def shape(self) -> Shape:
        """Its sizes."""

    @property
    def digest(self) -> str:
        """SHA-256 of its file or weights, 64 hexadecimal digits; a restriction does not change it."""

    @property
    def vocabulary(self) -> Tensor:
        """Tokens that it may write, [V] int64; logits stand in this order."""

    def restricted(self, vocabulary: Sequence[int]) -> Self:
        """The same model, which writes these tokens alone."""

    def read(self, tokens: Tensor, after: Cache | None = None) -> Cache:
        """What later tokens attend to: tokens [B, n], behind those of a cache of B texts. No adapter steers them."""

    def residual_norm(self, tokens: Tensor, layer: int) -> float:
        """Median norm of the residual stream behind a layer, at the last of public tokens [B, n]: a `Bias.scale`."""

    def below(self, tokens: Tensor, cache: Cache, first: int) -> Tensor:
        """What the layers before `first` make of the tokens [B, n] int64 behind a cache: [B, n, width].

        No adapter whose first layer is `first` changes it.
        """

    def above(self, residual: Tensor, cache: Cache, steering: Steering) -> Tensor:
        """Logits [B, n, V] of what follows each token, from what `below` made of the tokens behind a cache.

        The logits of a text depend on that text, its cache and its row of the steering alone, and are differentiable in
        the steering's parameters.
        """
