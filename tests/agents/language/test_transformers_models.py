"""Models of `transformers` give what the same weights give in `llama`."""

from __future__ import annotations

import pytest
import torch

from tacit.agents.language.adapters import Bias, LoRA, ModelShape, Steering
from tacit.agents.language.llama import Llama
from tacit.agents.language.sampling import complete, log_softmax, scores
from tacit.errors import PlanError

transformers = pytest.importorskip("transformers")
SHAPE = ModelShape(layers=3, width=32, inner=48, heads=4, groups=2, tokens=61, base=500.0, epsilon=1e-4)
OURS = Llama.random(SHAPE, seed=1)
BIAS = Bias(layer=1, scale=2.0)
PREFIX, PROMPTS = torch.tensor([3, 1]), torch.tensor([[5, 60, 8], [9, 2, 33]])


def theirs() -> torch.nn.Module:
    """A model of transformers with our weights."""
    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=61,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        rms_norm_eps=1e-4,
        tie_word_embeddings=True,
    )
    module = transformers.LlamaForCausalLM(config)
    weights = {
        "model.embed_tokens.weight": OURS.embedding,
        "model.norm.weight": OURS.final_norm,
        "lm_head.weight": OURS.embedding,
    }
    for place, layer in enumerate(OURS.layers):
        query, key, value = torch.split(layer.query_key_value, [32, 16, 16])
        gate, up = layer.gate_up.chunk(2)
        own = {"self_attn.q_proj": query, "self_attn.k_proj": key, "self_attn.v_proj": value}
        own |= {
            "self_attn.o_proj": layer.attention_out,
            "mlp.gate_proj": gate,
            "mlp.up_proj": up,
            "mlp.down_proj": layer.down,
        }
        own |= {"input_layernorm": layer.attention_norm, "post_attention_layernorm": layer.feed_forward_norm}
        weights |= {f"model.layers.{place}.{name}.weight": weight for name, weight in own.items()}
    module.load_state_dict(weights)
    return module


def test_the_same_weights_write_the_same_and_have_the_same_gradients() -> None:
    from tacit.agents.language.transformers_models import CausalModel

    model, ours = (one.with_vocabulary(range(7, 50)) for one in (CausalModel.of(theirs()), OURS))
    draws = torch.rand(2, 3, 5, generator=torch.Generator().manual_seed(0))
    theta = 0.2 * torch.randn(1, 32, generator=torch.Generator().manual_seed(1))
    steering = Steering(BIAS, theta)
    found, expected = (complete(one, PREFIX, PROMPTS, draws, steering) for one in (model, ours))
    assert torch.equal(found.written, expected.written)
    chances = (log_softmax(m, PREFIX, d, steering) for m, d in ((model, found), (ours, expected)))
    torch.testing.assert_close(*chances, atol=2e-5, rtol=1e-4)
    slopes = (scores(m, PREFIX, d, BIAS, theta[0], draws) for m, d in ((model, found), (ours, expected)))
    torch.testing.assert_close(*slopes, atol=1e-4, rtol=1e-3)
    tokens = torch.cat([PREFIX.expand(2, -1), PROMPTS], dim=1)
    assert model.residual_norm(tokens, 1) == pytest.approx(ours.residual_norm(tokens, 1), rel=1e-4)


def test_other_adapters_are_refused() -> None:
    from tacit.agents.language.transformers_models import CausalModel

    model = CausalModel.of(theirs())
    cache = model.read(PROMPTS)
    for adapter in (LoRA(layers=(1,)), Bias(layer=2)):
        with pytest.raises(PlanError):
            model.run_upper_layers(
                model.run_lower_layers(PROMPTS, cache, 0),
                cache,
                Steering(adapter, adapter.initial_parameters(SHAPE)[None]),
            )
