"""Texts as tokens of a public tokenizer, and the public vocabulary that a model may write."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from tacit.agents.language.models import LanguageModel


class Tokenizer:
    """Texts to tokens and back.

    Args:
        inner: a `tokenizers.Tokenizer`.
        special: tokens that stand for no text, which no public vocabulary holds.
    """

    def __init__(self, inner: Any, special: Iterable[int] = ()) -> None:
        self._inner = inner
        self.special = frozenset(special)

    @classmethod
    def byte_pairs(cls, tokens: Sequence[str], merges: Sequence[tuple[str, str]], *, digits: bool) -> Self:
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
    """A model with its tokenizer and the public words before every prompt.

    Args:
        model: restricted to a public vocabulary.
        tokenizer: of the model.
        prefix: public words that every text begins with; they are read and never shown.
    """

    model: LanguageModel
    tokenizer: Tokenizer
    prefix: str = ""

    @cached_property
    def before(self) -> Tensor:
        """Tokens [m] of the prefix."""
        return torch.tensor(self.tokenizer.encode(self.prefix), dtype=torch.int64)

    @cached_property
    def words(self) -> str:
        """SHA-256 of the vocabulary."""
        return hashlib.sha256(json.dumps(self.model.vocabulary.tolist()).encode()).hexdigest()

    def texts(self, prompts: Tensor, written: Tensor) -> list[str]:
        """Prompts [B, n] with what was written behind them [B, T] (places in the vocabulary), as texts."""
        whole = torch.cat([prompts, self.model.vocabulary[written]], dim=1)
        return [self.tokenizer.decode(tokens) for tokens in whole.tolist()]


def vocabulary(tokenizer: Tokenizer, public: Iterable[str], size: int) -> tuple[int, ...]:
    """The `size` most frequent tokens of public texts, the lower token first among equals; no special ones.

    Args:
        public: texts that are nobody's secret; never those of the people who are protected.
    """
    counts: Counter[int] = Counter()
    for text in public:
        counts.update(tokenizer.encode(text))
    order = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(sorted([token for token, _ in order if token not in tokenizer.special][:size]))
