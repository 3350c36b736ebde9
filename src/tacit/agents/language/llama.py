"""Models like Llama: rotary angles, grouped keys, RMS norms and a gated feed-forward layer (arXiv:2302.13971).

Written out, so that what one text yields is computed from that text alone, and no library that trains models is needed.
`tests/agents/language` compares it with an independent computation; `transformers_models` has other architectures.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear, silu

from tacit import plain_files
from tacit.agents.language.adapters import ModelShape, Steering
from tacit.agents.language.models import Cache, Tokenizer
from tacit.errors import FileError


def load(path: str | os.PathLike[str]) -> tuple[Llama, Tokenizer]:
    """The model and the tokenizer of a GGUF file, of any quantisation that the package `gguf` can undo. Raises
    FileError where it is missing, damaged, or of another architecture than Llama's with tied embeddings."""
    path = Path(path)
    if not plain_files.is_plain_file(path):
        raise _file_error(path, "there is no such file")
    try:
        import gguf
    except ImportError as error:
        what, expected = "the package gguf is missing", "the packages of the extra `text`"
        raise FileError(what, where=str(path), expected=expected, remedy="run: pip install 'tacit[text]'") from error
    try:
        reader = gguf.GGUFReader(path)
        fields: dict[str, Any] = {name: field.contents() for name, field in reader.fields.items()}
        tensors = {tensor.name: tensor for tensor in reader.tensors}

        def weight(name: str) -> Tensor:
            tensor = tensors[name]
            return torch.from_numpy(np.array(gguf.dequantize(tensor.data, tensor.tensor_type), np.float32))

        if fields["general.architecture"] != "llama" or "output.weight" in tensors:
            raise ValueError("another architecture")
        shape = _shape(fields)
        layers = [_layer(weight, place, shape) for place in range(shape.layers)]
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        model = Llama.of(shape, weight("token_embd.weight"), layers, weight("output_norm.weight"), digest)
        return model, _tokenizer(fields)
    except (ValueError, KeyError, IndexError, TypeError, OSError, AttributeError, RuntimeError) as error:
        raise _file_error(path, "the file is damaged, or of another architecture") from error


def _shape(fields: Mapping[str, Any]) -> ModelShape:
    return ModelShape(
        layers=fields["llama.block_count"],
        width=fields["llama.embedding_length"],
        inner=fields["llama.feed_forward_length"],
        heads=fields["llama.attention.head_count"],
        groups=fields["llama.attention.head_count_kv"],
        tokens=len(fields["tokenizer.ggml.tokens"]),
        base=fields["llama.rope.freq_base"],
        epsilon=fields["llama.attention.layer_norm_rms_epsilon"],
    )


def _layer(weight: Callable[[str], Tensor], place: int, shape: ModelShape) -> LlamaLayer:
    def block_weight(name: str) -> Tensor:
        return weight(f"blk.{place}.{name}.weight")

    query, key = _unpermute(block_weight("attn_q"), shape.heads), _unpermute(block_weight("attn_k"), shape.groups)
    return LlamaLayer(
        attention_norm=block_weight("attn_norm"),
        query_key_value=torch.cat([query, key, block_weight("attn_v")]),
        attention_out=block_weight("attn_output"),
        feed_forward_norm=block_weight("ffn_norm"),
        gate_up=torch.cat([block_weight("ffn_gate"), block_weight("ffn_up")]),
        down=block_weight("ffn_down"),
    )


def _unpermute(matrix: Tensor, heads: int) -> Tensor:
    """Rows in the order of the paper's halves: the format keeps each pair of a rotation side by side."""
    return matrix.view(heads, -1, 2, matrix.shape[1]).transpose(1, 2).reshape(matrix.shape)


def _tokenizer(fields: Mapping[str, Any]) -> Tokenizer:
    if fields["tokenizer.ggml.model"] != "gpt2":
        raise ValueError("another tokenizer")
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    return Tokenizer.from_byte_pairs(
        fields["tokenizer.ggml.tokens"], merges, digits=fields["tokenizer.ggml.pre"] == "smollm"
    )


def _file_error(path: Path, what: str) -> FileError:
    expected = "a GGUF file of a Llama model with tied embeddings and byte pairs, such as SmolLM2-135M"
    remedy = "name such a file, or pass a model of your own to the method"
    return FileError(what, where=str(path), expected=expected, remedy=remedy)


@dataclass(frozen=True, eq=False)
class LlamaLayer:
    """Weights of one layer, [outputs, inputs] each: queries, keys and values in one matrix, gate and up in another."""

    attention_norm: Tensor
    query_key_value: Tensor
    attention_out: Tensor
    feed_forward_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, eq=False)
class Llama:
    """A frozen model; the embedding [tokens, width] is also the head (tied). `vocabulary` [V] are the tokens that are
    written, `head` [V, width] their rows of the embedding, `last` [width] is the last norm, `digest` SHA-256."""

    shape: ModelShape
    embedding: Tensor
    layers: tuple[LlamaLayer, ...]
    final_norm: Tensor
    vocabulary: Tensor
    head: Tensor
    digest: str

    @classmethod
    def of(cls, shape: ModelShape, embedding: Tensor, layers: Sequence[LlamaLayer], last: Tensor, digest: str) -> Self:
        """A model that writes its whole vocabulary."""
        return cls(shape, embedding, tuple(layers), last, torch.arange(len(embedding)), embedding, digest)

    @classmethod
    def random(cls, shape: ModelShape, seed: int = 0) -> Self:
        """A model with drawn weights, for tests and examples."""
        generator = torch.Generator().manual_seed(seed)

        def draw_matrix(outputs: int, inputs: int) -> Tensor:
            return torch.randn(outputs, inputs, generator=generator) / math.sqrt(inputs)

        width, key_width = shape.width, shape.width // shape.heads * shape.groups
        layers = [
            LlamaLayer(
                torch.ones(width),
                draw_matrix(width + 2 * key_width, width),
                draw_matrix(width, width),
                torch.ones(width),
                draw_matrix(2 * shape.inner, width),
                draw_matrix(width, shape.inner),
            )
            for _ in range(shape.layers)
        ]
        embedding = torch.randn(shape.tokens, width, generator=generator)
        digest = hashlib.sha256(embedding.numpy().tobytes() + repr(shape).encode()).hexdigest()
        return cls.of(shape, embedding, layers, torch.ones(width), digest)

    def with_vocabulary(self, vocabulary: Sequence[int]) -> Self:
        """See `LanguageModel`."""
        kept = torch.as_tensor(vocabulary, dtype=torch.int64)
        return replace(self, vocabulary=kept, head=self.embedding[kept].contiguous())

    @torch.no_grad()
    def read(self, tokens: Tensor, past: Cache | None = None) -> Cache:
        """See `LanguageModel`."""
        size = self.shape.width // self.shape.heads
        empty = torch.empty(self.shape.layers, len(tokens), self.shape.groups, tokens.shape[1], size)
        cache = Cache(empty, torch.empty_like(empty), 0) if past is None else past.repeat(1, tokens.shape[1])
        if tokens.shape[1]:
            self._run_layers(self.embedding[tokens], cache, range(self.shape.layers), None)
        return replace(cache, length=cache.length + tokens.shape[1])

    @torch.no_grad()
    def run_lower_layers(self, tokens: Tensor, cache: Cache, first: int) -> Tensor:
        """See `LanguageModel`."""
        return self._run_layers(self.embedding[tokens], cache, range(first), None)

    def run_upper_layers(self, residual: Tensor, cache: Cache, steering: Steering) -> Tensor:
        """See `LanguageModel`."""
        steered = steering.adapter.steer_residual(steering.theta, residual)
        hidden = self._run_layers(steered, cache, range(steering.adapter.first_layer, self.shape.layers), steering)
        return linear(_norm(hidden, self.final_norm, self.shape.epsilon), self.head)

    @torch.no_grad()
    def residual_norm(self, tokens: Tensor, layer: int) -> float:
        """Median norm of the residual stream behind a layer, at the last of public tokens [B, n]."""
        hidden = self.run_lower_layers(tokens[:, -1:], self.read(tokens[:, :-1]), layer + 1)
        return float(hidden.norm(dim=-1).median())

    def _run_layers(self, residual: Tensor, cache: Cache, places: range, steering: Steering | None) -> Tensor:
        """The residual stream [B, n, width] behind these layers."""
        n, end = residual.shape[1], cache.length + residual.shape[1]
        angles = _angles(self.shape, cache.length, end)
        future = torch.ones(n, end, dtype=torch.bool).triu(cache.length + 1)
        for place in places:
            layer = self.layers[place]
            inputs = _norm(residual, layer.attention_norm, self.shape.epsilon)
            query, key, value = self._split_heads(linear(inputs, layer.query_key_value), angles)
            key, value = cache.extend(place, key, value)
            residual = residual + linear(_attention(query, key, value, future), layer.attention_out)
            residual = residual + self._feed_forward(place, layer, residual, steering)
        return residual

    def _split_heads(self, joint: Tensor, angles: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries [B, groups, heads / groups, n, size], keys and values [B, groups, n, size]."""
        texts, n, _ = joint.shape
        size, groups = self.shape.width // self.shape.heads, self.shape.groups
        kept = groups * size
        query, key, value = torch.split(joint, [self.shape.width, kept, kept], dim=-1)
        query = query.view(texts, n, groups, -1, size).permute(0, 2, 3, 1, 4)
        key, value = (part.view(texts, n, groups, size).transpose(1, 2) for part in (key, value))
        return _rotate(query, angles), _rotate(key, angles), value

    def _feed_forward(self, place: int, layer: LlamaLayer, residual: Tensor, steering: Steering | None) -> Tensor:
        inputs = _norm(residual, layer.feed_forward_norm, self.shape.epsilon)
        gate, up = linear(inputs, layer.gate_up).chunk(2, dim=-1)
        if steering is None:
            return linear(silu(gate) * up, layer.down)
        adapter, theta = steering
        hidden = silu(gate) * (up + adapter.output_update(theta, place, "up", inputs, self.shape))
        return linear(hidden, layer.down) + adapter.output_update(theta, place, "down", hidden, self.shape)


def _norm(residual: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return residual * torch.rsqrt(residual.square().mean(-1, keepdim=True) + epsilon) * weight


def _angles(shape: ModelShape, first: int, end: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines [end - first, size / 2] of the rotary angles of these places."""
    size = shape.width // shape.heads
    rates = shape.base ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.arange(first, end, dtype=torch.float64)[:, None] * rates
    return angles.cos().float(), angles.sin().float()


def _rotate(part: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
    cosine, sine = angles
    left, right = part.chunk(2, dim=-1)
    return torch.cat([left * cosine - right * sine, right * cosine + left * sine], dim=-1)


def _attention(query: Tensor, key: Tensor, value: Tensor, future: Tensor) -> Tensor:
    """[B, n, width] of queries [B, g, h, n, size] and keys and values [B, g, m, size]; `future` [n, m] is not seen."""
    texts, groups, heads, n, size = query.shape
    scores = query.reshape(texts, groups, heads * n, size) @ key.transpose(2, 3) / math.sqrt(size)
    hidden = scores.view(texts, groups, heads, n, -1).masked_fill(future, -math.inf)
    mixed = hidden.softmax(-1).view(texts, groups, heads * n, -1) @ value
    return mixed.view(texts, groups, heads, n, size).permute(0, 3, 1, 2, 4).reshape(texts, n, -1)
