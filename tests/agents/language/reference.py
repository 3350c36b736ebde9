"""A Llama model written again, in float64 and one text at a time: rotations as complex numbers, loops over heads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.agents.language.llama import Llama

Float64 = NDArray[np.float64]


def log_probabilities(model: Llama, tokens: list[int], bias: tuple[int, int, Float64] | None = None) -> Float64:
    """log-probabilities [n, V] of what follows each token.

    Args:
        model: with any vocabulary.
        tokens: of one text [n].
        bias: (layer, first place, vector): what is added behind a layer from a place on.
    """
    shape = model.shape
    size = shape.width // shape.heads
    stream = model.embedding.double().numpy()[tokens]
    angles = np.outer(np.arange(len(tokens)), shape.base ** (-2 * np.arange(size // 2) / size))
    for number, layer in enumerate(model.layers):
        weights = {
            name: getattr(layer, name).double().numpy()
            for name in ("query_key_value", "attention_out", "gate_up", "down")
        }
        inputs = _norm(stream, shape.epsilon) * layer.attention_norm.double().numpy()
        query, key, value = np.split(
            inputs @ weights["query_key_value"].T, [shape.width, shape.width + shape.groups * size], axis=1
        )
        mixed = np.zeros_like(stream)
        for head in range(shape.heads):
            group = head // (shape.heads // shape.groups)
            q = _turned(query[:, head * size : (head + 1) * size], angles)
            k, v = (part[:, group * size : (group + 1) * size] for part in (key, value))
            scores = q @ _turned(k, angles).T / np.sqrt(size)
            scores[np.triu_indices(len(tokens), 1)] = -np.inf
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
            mixed[:, head * size : (head + 1) * size] = shares / shares.sum(axis=1, keepdims=True) @ v
        stream = stream + mixed @ weights["attention_out"].T
        inputs = _norm(stream, shape.epsilon) * layer.feed_forward_norm.double().numpy()
        gate, up = np.split(inputs @ weights["gate_up"].T, 2, axis=1)
        stream = stream + (gate / (1 + np.exp(-gate)) * up) @ weights["down"].T
        if bias is not None and bias[0] == number:
            stream[bias[1] :] += bias[2]
    logits = _norm(stream, shape.epsilon) * model.final_norm.double().numpy() @ model.head.double().numpy().T
    return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))


def _norm(stream: Float64, epsilon: float) -> Float64:
    return np.asarray(stream / np.sqrt((stream**2).mean(axis=1, keepdims=True) + epsilon))


def _turned(part: Float64, angles: Float64) -> Float64:
    left, right = np.split(part, 2, axis=1)
    turned = (left + 1j * right) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], axis=1)
