"""Files of a small language model and of a small encoder of sentences."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import tokenizers
import torch
from safetensors.torch import save_file
from tokenizers import models, pre_tokenizers
from tokenizers.pre_tokenizers import ByteLevel

from tacit.agents.language.adapters import ModelShape
from tacit.agents.language.llama import Llama

WIDTH, HEADS, INNER = 8, 2, 12
WORDS = ["[UNK]", "good", "bad", "film", "a", "the", "very"]
TOKENS = [*sorted(ByteLevel.alphabet()), "in"]
SHAPE = ModelShape(layers=2, width=32, inner=64, heads=4, groups=2, tokens=len(TOKENS), base=1e4, epsilon=1e-5)
MODEL = Llama.random(SHAPE, seed=2)


def permuted(matrix: torch.Tensor, heads: int) -> np.ndarray:
    """Rows as llama.cpp's converter lays them out."""
    return matrix.view(heads, 2, -1, matrix.shape[1]).transpose(1, 2).reshape(matrix.shape).numpy()


def model_written(path: Path, architecture: str = "llama") -> None:
    """Write the model as a GGUF file."""
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
    writer.add_tensor("output_norm.weight", MODEL.final_norm.numpy())
    for place, layer in enumerate(MODEL.layers):
        query, key, value = layer.query_key_value.split([32, 16, 16])
        gate, up = layer.gate_up.chunk(2)
        arrays = {
            "attn_norm": layer.attention_norm.numpy(),
            "attn_q": permuted(query, SHAPE.heads),
            "attn_k": permuted(key, SHAPE.groups),
            "attn_v": value.numpy(),
            "attn_output": layer.attention_out.numpy(),
            "ffn_norm": layer.feed_forward_norm.numpy(),
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


def encoder_written(folder: Path) -> None:
    """Write a small encoder with drawn weights."""
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) / 2

    parts = {"word_embeddings": len(WORDS), "position_embeddings": 16, "token_type_embeddings": 2}
    weights = {f"embeddings.{name}.weight": drawn(rows, WIDTH) for name, rows in parts.items()}
    norms = ["embeddings.LayerNorm", "encoder.layer.0.attention.output.LayerNorm", "encoder.layer.0.output.LayerNorm"]
    for name in norms:
        weights |= {f"{name}.weight": 1 + drawn(WIDTH), f"{name}.bias": drawn(WIDTH)}
    shapes = {f"attention.self.{part}": (WIDTH, WIDTH) for part in ("query", "key", "value")}
    shapes |= {"attention.output.dense": (WIDTH, WIDTH), "intermediate.dense": (INNER, WIDTH)}
    for name, (rows, inputs) in (shapes | {"output.dense": (WIDTH, INNER)}).items():
        weights |= {f"encoder.layer.0.{name}.weight": drawn(rows, inputs), f"encoder.layer.0.{name}.bias": drawn(rows)}
    save_file(weights, folder / "model.safetensors")
    sizes = {"num_hidden_layers": 1, "num_attention_heads": HEADS, "layer_norm_eps": 1e-12}
    (folder / "config.json").write_text(json.dumps(sizes))
    inner = tokenizers.Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.save(str(folder / "tokenizer.json"))
