"""Llama models and their tokenizers out of GGUF files, the format of llama.cpp; weights become float32."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tacit import plain_files
from tacit.agents.language.adapters import Shape
from tacit.agents.language.llama import Layer, Llama
from tacit.agents.language.texts import Tokenizer
from tacit.errors import FileError


def load(path: str | os.PathLike[str]) -> tuple[Llama, Tokenizer]:
    """The model and the tokenizer of a GGUF file.

    Args:
        path: of the file; any quantisation that the package `gguf` can undo.

    Raises:
        FileError: the file is missing, damaged, or of another architecture than Llama's with tied embeddings.
    """
    path = Path(path)
    if not plain_files.plain(path):
        raise _unsuited(path, "there is no such file")
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
        model = Llama.of(shape, weight("token_embd.weight"), layers, weight("output_norm.weight"), _digest(path))
        return model, _tokenizer(fields)
    except (ValueError, KeyError, IndexError, TypeError, OSError, AttributeError, RuntimeError) as error:
        raise _unsuited(path, "the file is damaged, or of another architecture") from error


def _shape(fields: Mapping[str, Any]) -> Shape:
    return Shape(
        layers=fields["llama.block_count"],
        width=fields["llama.embedding_length"],
        inner=fields["llama.feed_forward_length"],
        heads=fields["llama.attention.head_count"],
        groups=fields["llama.attention.head_count_kv"],
        tokens=len(fields["tokenizer.ggml.tokens"]),
        base=fields["llama.rope.freq_base"],
        epsilon=fields["llama.attention.layer_norm_rms_epsilon"],
    )


def _layer(weight: Callable[[str], Tensor], place: int, shape: Shape) -> Layer:
    def named(name: str) -> Tensor:
        return weight(f"blk.{place}.{name}.weight")

    query, key = _unpermuted(named("attn_q"), shape.heads), _unpermuted(named("attn_k"), shape.groups)
    return Layer(
        before=named("attn_norm"),
        attend=torch.cat([query, key, named("attn_v")]),
        out=named("attn_output"),
        between=named("ffn_norm"),
        gate_up=torch.cat([named("ffn_gate"), named("ffn_up")]),
        down=named("ffn_down"),
    )


def _unpermuted(matrix: Tensor, heads: int) -> Tensor:
    """Rows in the order of the paper's halves: the format keeps each pair of a rotation side by side."""
    return matrix.view(heads, -1, 2, matrix.shape[1]).transpose(1, 2).reshape(matrix.shape)


def _tokenizer(fields: Mapping[str, Any]) -> Tokenizer:
    if fields["tokenizer.ggml.model"] != "gpt2":
        raise ValueError("another tokenizer")
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    return Tokenizer.byte_pairs(
        fields["tokenizer.ggml.tokens"], merges, digits=fields["tokenizer.ggml.pre"] == "smollm"
    )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unsuited(path: Path, what: str) -> FileError:
    expected = "a GGUF file of a Llama model with tied embeddings and byte pairs, such as SmolLM2-135M"
    remedy = "name such a file, or pass a model of your own to the method"
    return FileError(what, where=str(path), expected=expected, remedy=remedy)
