"""Public judges of texts: a frozen sentence encoder and a linear head, taught on public texts with labels. The encoder
is BERT's (arXiv:1810.04805) with the mean of its outputs, as MiniLM has it (arXiv:2002.10957). Texts are read side by
side without padding: each attends to itself alone, and its value depends on nothing else."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, linear

from tacit import plain_files
from tacit.errors import FileError

MAX_TOKENS = 128
"""Tokens of a text that are read."""
BATCH_TOKENS = 256
"""Tokens that are passed through the encoder at once, at least one text's."""
HEAD = "head.json"
"""The file of a judge's head, beside the encoder's `model.safetensors`, `config.json` and `tokenizer.json`."""


class Reward(Protocol):
    """A public value of texts."""

    @property
    def digest(self) -> str:
        """SHA-256 of what it consists of, 64 hexadecimal digits."""

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """The value [n] of each text, from that text alone."""


class TextEncoder:
    """A frozen encoder of sentences: weights by the names of a BERT model, a `tokenizers.Tokenizer`, and the file's
    SHA-256."""

    def __init__(
        self, weights: Mapping[str, Tensor], layers: int, heads: int, epsilon: float, tokenizer: Any, digest: str
    ) -> None:
        self._weights, self._tokenizer, self.digest = weights, tokenizer, digest
        self._layers, self._heads, self._epsilon = layers, heads, epsilon

    @property
    def width(self) -> int:
        """Of an embedding."""
        return len(self._weights["embeddings.LayerNorm.weight"])

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> TextEncoder:
        """The encoder in a folder with `model.safetensors`, `config.json` and `tokenizer.json`. Raises FileError where
        one is missing, damaged or of another kind."""
        folder = Path(folder)
        try:
            import tokenizers
            from safetensors.torch import load_file

            config = json.loads(plain_files.read_text(folder / "config.json"))
            inner = tokenizers.Tokenizer.from_str(plain_files.read_text(folder / "tokenizer.json"))
            inner.no_padding()
            inner.enable_truncation(MAX_TOKENS)
            model = folder / "model.safetensors"
            if not plain_files.is_plain_file(model):
                raise ValueError("no file of weights")
            weights = {name: part.float() for name, part in load_file(model).items() if part.is_floating_point()}
            with model.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            sizes = config["num_hidden_layers"], config["num_attention_heads"], config["layer_norm_eps"]
            return cls(weights, *sizes, inner, digest)
        except Exception as error:  # what a damaged file leads to in other libraries' parsers: no list would be whole
            what = "the folder holds no sentence encoder, or the packages of the extra `text` are missing"
            expected = "model.safetensors, config.json and tokenizer.json of a BERT model, such as all-MiniLM-L6-v2"
            remedy = "name such a folder, and run: pip install 'tacit[text]'"
            raise FileError(what, where=str(folder), expected=expected, remedy=remedy) from error

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Embeddings [n, width] of norm 1."""
        ids = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        rows: list[Tensor] = []
        begin = 0
        for end in range(1, len(ids) + 1):
            if end == len(ids) or sum(map(len, ids[begin : end + 1])) > BATCH_TOKENS:
                rows.append(self._embed(ids[begin:end]))
                begin = end
        if not rows:
            return np.zeros((0, self.width))
        return torch.cat(rows).double().numpy()

    def _embed(self, ids: Sequence[Sequence[int]]) -> Tensor:
        lengths = torch.tensor([len(one) for one in ids])
        text = torch.arange(len(ids)).repeat_interleave(lengths)
        places = torch.cat([torch.arange(len(one)) for one in ids])
        weights = self._weights
        hidden = weights["embeddings.word_embeddings.weight"][torch.tensor([i for one in ids for i in one])]
        hidden = hidden + weights["embeddings.position_embeddings.weight"][places]
        hidden = self._norm(hidden + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        other_text = text[:, None] != text
        for place in range(self._layers):
            hidden = self._layer(hidden, other_text, f"encoder.layer.{place}")
        total = torch.zeros(len(ids), hidden.shape[1]).index_add_(0, text, hidden)
        mean: Tensor = total / lengths[:, None]
        scaled: Tensor = mean / torch.linalg.vector_norm(mean, dim=1, keepdim=True)
        return scaled

    def _layer(self, hidden: Tensor, other_text: Tensor, name: str) -> Tensor:
        query, key, value = (
            self._linear(hidden, f"{name}.attention.self.{part}").view(len(hidden), self._heads, -1).transpose(0, 1)
            for part in ("query", "key", "value")
        )
        scores = (query @ key.transpose(1, 2) / math.sqrt(query.shape[2])).masked_fill(other_text, -math.inf)
        mixed = (scores.softmax(-1) @ value).transpose(0, 1).reshape(len(hidden), -1)
        between = self._norm(
            hidden + self._linear(mixed, f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm"
        )
        inner = gelu(self._linear(between, f"{name}.intermediate.dense"))
        return self._norm(between + self._linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def _linear(self, hidden: Tensor, name: str) -> Tensor:
        return linear(hidden, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _norm(self, hidden: Tensor, name: str) -> Tensor:
        return layer_norm(
            hidden, hidden.shape[-1:], self._weights[f"{name}.weight"], self._weights[f"{name}.bias"], self._epsilon
        )


@dataclass(frozen=True, eq=False)
class TextJudge:
    """Log-odds that a text is of the kind that the labels of public texts call good: slope [width] and offset."""

    encoder: TextEncoder
    slope: NDArray[np.float64]
    offset: float

    @property
    def digest(self) -> str:
        """SHA-256 of the encoder's and of the head."""
        return hashlib.sha256(f"{self.encoder.digest} {_head_json(self)}".encode()).hexdigest()

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """See `Reward`: log-odds [n]."""
        return np.asarray(self.encoder(texts) @ self.slope + self.offset)

    @classmethod
    def fit(
        cls, encoder: TextEncoder, texts: Sequence[str], labels: Sequence[int], *, penalty: float = 1.0
    ) -> TextJudge:
        """Logistic regression on public texts.

        Args:
            encoder: of sentences.
            texts, labels: public; a label is 1 for a good text, 0 for another.
            penalty: of the slopes' squares, against the sum of log-losses.
        """
        from scipy.optimize import minimize

        rows, targets = encoder(texts), np.asarray(labels, np.float64)

        def loss(theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            odds = rows @ theta[:-1] + theta[-1]
            error = 1 / (1 + np.exp(-odds)) - targets
            slopes = np.append(rows.T @ error + penalty * theta[:-1], error.sum())
            return float((np.logaddexp(0, odds) - targets * odds).sum() + penalty / 2 * theta[:-1] @ theta[:-1]), slopes

        solution = minimize(loss, np.zeros(rows.shape[1] + 1), jac=True, method="L-BFGS-B", options={"maxiter": 500}).x
        return cls(encoder, solution[:-1], float(solution[-1]))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the head to a JSON file; in the encoder's folder, `load` finds it as head.json."""
        Path(path).write_text(_head_json(self) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | os.PathLike[str], head: str | os.PathLike[str] | None = None) -> TextJudge:
        """The judge of an encoder's folder, with the head that `save` wrote; None is head.json in the folder. Raises
        FileError where a file is missing, damaged or of another kind."""
        encoder, path = TextEncoder.load(folder), Path(folder) / HEAD if head is None else Path(head)
        try:
            values = json.loads(plain_files.read_text(path))
            slope = np.array(values["slope"], np.float64)
            if slope.shape != (encoder.width,) or not np.isfinite(slope).all():
                raise ValueError("another width")
            return cls(encoder, slope, float(values["offset"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            what, expected = "the head is missing, damaged or of another width", "the file that TextJudge.save wrote"
            remedy = "teach one on public texts: TextJudge.fit(TextEncoder.load(folder), texts, labels).save(path)"
            raise FileError(what, where=str(path), expected=expected, remedy=remedy) from error


def _head_json(judge: TextJudge) -> str:
    return json.dumps({"slope": judge.slope.tolist(), "offset": judge.offset})
