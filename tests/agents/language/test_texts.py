"""Tokens of texts, public vocabularies, and judges of texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from small_files import HEADS, INNER, WIDTH, WORDS, encoder_written
from tokenizers.pre_tokenizers import ByteLevel

from tacit.agents.language.judges import TextEncoder, TextJudge
from tacit.agents.language.models import Tokenizer, vocabulary
from tacit.errors import FileError


def bytes_of() -> Tokenizer:
    tokens = [*sorted(ByteLevel.alphabet()), "th", "<|end|>"]
    return Tokenizer.from_byte_pairs(tokens, [("t", "h")], digits=True)


def test_texts_go_to_tokens_and_back() -> None:
    tokenizer = bytes_of()
    text = "the film of 2024: très bon"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode("th")) == 1
    assert tokenizer.special == {257}


def test_a_vocabulary_has_the_most_frequent_tokens_the_lower_first_among_equals() -> None:
    tokenizer = bytes_of()
    a, b, c = (tokenizer.encode(letter)[0] for letter in "abc")
    assert vocabulary(tokenizer, ["cab", "ca", "a"], 2) == (a, c)
    assert vocabulary(tokenizer, ["cab"], 2) == (a, b)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small encoder."""
    encoder_written(tmp_path)
    return tmp_path


def test_an_encoder_is_the_one_of_torch(folder: Path) -> None:
    encoder = TextEncoder.load(folder)
    found = encoder(["the film"])
    weights = {name: part.double() for name, part in encoder._weights.items()}
    layer = torch.nn.TransformerEncoderLayer(
        WIDTH, HEADS, INNER, dropout=0.0, activation="gelu", layer_norm_eps=1e-12, batch_first=True, dtype=torch.float64
    )
    own = "encoder.layer.0."
    joint = {
        kind: [weights[f"{own}attention.self.{p}.{kind}"] for p in ("query", "key", "value")]
        for kind in ("weight", "bias")
    }
    state = {"self_attn.in_proj_weight": torch.cat(joint["weight"]), "self_attn.in_proj_bias": torch.cat(joint["bias"])}
    names = {
        "self_attn.out_proj": "attention.output.dense",
        "linear1": "intermediate.dense",
        "linear2": "output.dense",
        "norm1": "attention.output.LayerNorm",
        "norm2": "output.LayerNorm",
    }
    for theirs, ours in names.items():
        state |= {f"{theirs}.{kind}": weights[f"{own}{ours}.{kind}"] for kind in ("weight", "bias")}
    layer.load_state_dict(state)
    ids = torch.tensor([WORDS.index("the"), WORDS.index("film")])
    stream = weights["embeddings.word_embeddings.weight"][ids] + weights["embeddings.position_embeddings.weight"][:2]
    stream = stream + weights["embeddings.token_type_embeddings.weight"][0]
    norm = weights["embeddings.LayerNorm.weight"], weights["embeddings.LayerNorm.bias"]
    stream = torch.nn.functional.layer_norm(stream, (WIDTH,), *norm, 1e-12)
    expected = layer(stream[None])[0].mean(dim=0).detach()
    np.testing.assert_allclose(found[0], (expected / expected.norm()).numpy(), atol=1e-6)


def test_texts_side_by_side_do_not_see_each_other(folder: Path) -> None:
    encoder = TextEncoder.load(folder)
    together = encoder(["the film", "very bad a film", "good"])
    for place, text in enumerate(["the film", "very bad a film", "good"]):
        np.testing.assert_allclose(together[place], encoder([text])[0], atol=1e-6)


def test_a_judge_learns_labels_and_comes_back_from_its_file(folder: Path) -> None:
    texts = ["good film", "very good", "bad film", "very bad"]
    judge = TextJudge.fit(TextEncoder.load(folder), texts, [1, 1, 0, 0], penalty=0.01)
    assert (judge(texts) > 0).tolist() == [True, True, False, False]
    judge.save(folder / "head.json")
    loaded = TextJudge.load(folder)
    assert loaded.digest == judge.digest
    np.testing.assert_array_equal(loaded(texts), judge(texts))
    rows = judge.encoder(texts)
    error = 1 / (1 + np.exp(-judge(texts))) - [1, 1, 0, 0]
    np.testing.assert_allclose(rows.T @ error + 0.01 * judge.slope, 0, atol=1e-4)  # where the loss is least


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "head.json"])
def test_missing_files_are_refused(folder: Path, name: str) -> None:
    (folder / "head.json").write_text('{"slope": [0, 0, 0, 0, 0, 0, 0, 0], "offset": 1.0}')
    assert TextJudge.load(folder)(["film"]).tolist() == [1.0]
    (folder / name).unlink()
    with pytest.raises(FileError):
        TextJudge.load(folder)
