"""What a language model offers here: frozen weights, a cache of what was read, and logits of a public vocabulary.
Tokens of what a model reads are whole numbers below `shape.tokens`. Tokens that it writes are places in a public
vocabulary: a model that is `with_vocabulary` to V tokens gives V logits."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from tacit.agents.language.adapters import ModelShape, Steering


class Tokenizer:
    """Texts to tokens and back, by a `tokenizers.Tokenizer`; `special` tokens stand for no text, and no public
    vocabulary holds them."""

    def __init__(self, inner: Any, special: Iterable[int] = ()) -> None:
        self._inner = inner
        self.special = frozenset(special)

    @classmethod
    def from_byte_pairs(cls, tokens: Sequence[str], merges: Sequence[tuple[str, str]], *, digits: bool) -> Self:
        """GPT-2's byte pairs; with `digits` each digit is a token of its own."""
        import tokenizers
        from tokenizers import decoders, models, pre_tokenizers

        pieces: list[Any] = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
        pieces.append(pre_tokenizers.ByteLevel(add_prefix_space=False))
        inner = tokenizers.Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, list(merges)))
        inner.pre_tokenizer = pre_tokenizers.Sequence(pieces)
        inner.decoder = decoders.ByteLevel()
        return cls(inner, (i for i, token in enumerate(tokens) if token.startswith("<|")))

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, without special ones."""
        return list(self._inner.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        return str(self._inner.decode(list(tokens)))


@dataclass(frozen=True, eq=False)
class Writer:
    """A model, restricted to a public vocabulary, with its tokenizer and the public words before every prompt, which
    are never shown."""

    model: LanguageModel
    tokenizer: Tokenizer
    prefix: str = ""

    @cached_property
    def prefix_tokens(self) -> Tensor:
        """Tokens [m] of the prefix."""
        return torch.tensor(self.tokenizer.encode(self.prefix), dtype=torch.int64)

    @cached_property
    def vocabulary_digest(self) -> str:
        """SHA-256 of the vocabulary."""
        return hashlib.sha256(json.dumps(self.model.vocabulary.tolist()).encode()).hexdigest()

    def texts(self, prompts: Tensor, written: Tensor) -> list[str]:
        """Prompts [B, n] with what was written behind them [B, T] (places in the vocabulary), as texts."""
        token_rows = torch.cat([prompts, self.model.vocabulary[written]], dim=1)
        return [self.tokenizer.decode(tokens) for tokens in token_rows.tolist()]


def vocabulary(tokenizer: Tokenizer, public: Iterable[str], size: int) -> tuple[int, ...]:
    """The `size` most frequent tokens of public texts, the lower token first among equals; no special ones. The texts
    are nobody's secret; never those of the people who are protected."""
    counts: Counter[int] = Counter()
    for text in public:
        counts.update(tokenizer.encode(text))
    order = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(sorted([token for token, _ in order if token not in tokenizer.special][:size]))


@dataclass(frozen=True, eq=False)
class Cache:
    """Keys and values of the tokens that were read, which later tokens attend to."""

    keys: Tensor  # keys, values: [layers, B, heads, room, size] each; places from `length` on are of no account
    values: Tensor
    length: int  # how many tokens were read

    def extend(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
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

    def repeat(self, times: int, room: int) -> Cache:
        """The same of [B * times] texts, each text `times` in a row, with places for `room` tokens more."""
        keys, values = (_widen(part[:, :, :, : self.length], times, room) for part in (self.keys, self.values))
        return Cache(keys, values, self.length)


def _widen(part: Tensor, times: int, room: int) -> Tensor:
    layers, texts, heads, length, size = part.shape
    wide = torch.empty(layers, texts * times, heads, length + room, size)
    wide[:, :, :, :length] = part.repeat_interleave(times, dim=1)
    return wide


class LanguageModel(Protocol):
    """A causal language model with frozen float32 weights on the CPU."""

    @property
    def shape(self) -> ModelShape:
        """Its sizes."""

    @property
    def digest(self) -> str:
        """SHA-256 of its file or weights, 64 hexadecimal digits; a restriction does not change it."""

    @property
    def vocabulary(self) -> Tensor:
        """Tokens that it may write, [V] int64; logits stand in this order."""

    def with_vocabulary(self, vocabulary: Sequence[int]) -> Self:
        """The same model, which writes these tokens alone."""

    def read(self, tokens: Tensor, past: Cache | None = None) -> Cache:
        """What later tokens attend to: tokens [B, n], behind those of a cache of B texts. No adapter steers them."""

    def residual_norm(self, tokens: Tensor, layer: int) -> float:
        """Median norm of the residual stream behind a layer, at the last of public tokens [B, n]: a `Bias.scale`."""

    def run_lower_layers(self, tokens: Tensor, cache: Cache, first: int) -> Tensor:
        """What the layers before `first` make of the tokens [B, n] int64 behind a cache: [B, n, width]. No adapter
        whose first layer is `first` changes it."""

    def run_upper_layers(self, residual: Tensor, cache: Cache, steering: Steering) -> Tensor:
        """Logits [B, n, V] of what follows each token, from what the lower layers made of the tokens behind a cache.
        Those of a text depend on that text, its cache and its row of the steering alone, and are differentiable in the
        steering's parameters."""
