"""The yardstick of alignment: its settings are tries, its model is ours, and its divergence is exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from experiments.dppg.alignment_trl import TARGETS, TRIES
from torch import Tensor

from experiments.dppg import alignment_trl
from tacit.agents.language.adapters import Bias, ModelShape, Steering
from tacit.agents.language.llama import Llama
from tacit.agents.language.models import Cache, Tokenizer, Writer
from tacit.agents.language.sampling import complete
from tacit.methods.alignment import AlignmentPlan

SHAPE = ModelShape(layers=3, width=32, inner=48, heads=4, groups=2, tokens=61, base=500.0, epsilon=1e-4)
VOCABULARY = [4, 9, 10, 11, 30, 44, 60]
BASE, TUNED = (Llama.random(SHAPE, seed=seed).with_vocabulary(VOCABULARY) for seed in (1, 2))


def logits(model: Llama, tokens: Tensor) -> Tensor:
    bias = Bias(layer=0, scale=1.0)
    empty: Cache = model.read(tokens[:, :0])
    return model.run_upper_layers(
        model.run_lower_layers(tokens, empty, 1), empty, Steering(bias, bias.initial_parameters(SHAPE)[None])
    )


def test_settings_are_tries_and_a_configuration_holds_no_seed() -> None:
    keys = alignment_trl.rows()
    assert len(set(keys)) == len(keys)
    assert alignment_trl.CHOSEN in TRIES
    for size, people in alignment_trl.PEOPLE.items():
        asked = alignment_trl.configuration(f"{size}/0")
        assert asked == alignment_trl.configuration(f"{size}/1")
        assert (asked["people"], asked["steps"]) == (people, people // 16)
    tries = [key for key in keys if key.startswith("tune/")]
    assert [alignment_trl.settings_of(key) for key in tries] == list(TRIES)
    assert len({str(alignment_trl.configuration(key)) for key in keys}) == len(keys)
    assert alignment_trl.settings_of("untrained/0") is None


def test_the_model_that_trl_trains_writes_the_vocabulary_with_our_logits_and_comes_back() -> None:
    pytest.importorskip("transformers")
    order = alignment_trl.numbered(BASE)
    assert order[: len(VOCABULARY)].tolist() == VOCABULARY
    assert sorted(order.tolist()) == list(range(SHAPE.tokens))
    module, tokens = alignment_trl.theirs(BASE, order), torch.tensor([[5, 60, 8, 9], [9, 2, 33, 1]])
    number = torch.argsort(order)
    torch.testing.assert_close(module(number[tokens]).logits, logits(BASE, tokens), atol=2e-5, rtol=1e-4)
    again = alignment_trl.ours(module, BASE, order)
    assert torch.equal(logits(again, tokens), logits(BASE, tokens))
    module(number[tokens]).logits.sum().backward()
    assert sum(weight.numel() for weight in module.parameters()) == sum(
        weight.numel()
        for weight in (
            BASE.embedding,
            BASE.final_norm,
            *(part for layer in BASE.layers for part in vars(layer).values()),
        )
    )


def test_the_tokenizer_reads_numbers_and_writes_them() -> None:
    pytest.importorskip("tokenizers")
    inner = alignment_trl.numerals(61)
    assert inner.encode("0 10 59 <end>").ids == [0, 10, 59, 60]
    assert inner.decode([3, 33]) == "3 33"


def test_weights_are_drawn_back_along_a_line() -> None:
    for share, expected in ((0.0, BASE), (1.0, TUNED)):
        found = alignment_trl.between(BASE, TUNED, share)
        for one, other in zip(found.layers, expected.layers, strict=True):
            assert all(torch.equal(part, getattr(other, name)) for name, part in vars(one).items())
        assert torch.equal(found.head, expected.head)
    half = alignment_trl.between(BASE, TUNED, 0.5)
    torch.testing.assert_close(half.layers[1].down, (BASE.layers[1].down + TUNED.layers[1].down) / 2)
    assert half.vocabulary.tolist() == VOCABULARY


@pytest.mark.parametrize("whole", [0.2, 0.5, 2.0])
def test_weights_are_drawn_back_to_a_divergence_that_the_whole_way_passes(
    whole: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alignment_trl, "_base", lambda: BASE)
    monkeypatch.setattr(alignment_trl, "between", lambda base, tuned, share: share)
    monkeypatch.setattr(
        alignment_trl, "public", lambda share, _: {"kl": whole * (share if share != TUNED else 1) ** 2.4}
    )
    found = alignment_trl.shares(TUNED, [])
    assert found.keys() == {name for name, kl in TARGETS.items() if kl < whole}
    for name, share in found.items():
        assert whole * share**2.4 == pytest.approx(TARGETS[name], rel=0.01)


def test_the_divergence_is_that_of_every_next_token_at_what_the_tuned_model_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("tokenizers")
    tokenizer = Tokenizer.from_byte_pairs([chr(65 + i) for i in range(61)], [], digits=False)
    near = alignment_trl.between(BASE, TUNED, 0.1)
    monkeypatch.setattr(alignment_trl.world, "writer", lambda: Writer(BASE, tokenizer, ""))
    monkeypatch.setattr(alignment_trl, "PLAN", replace(AlignmentPlan(), adapter=Bias(layer=0), tokens=5))
    prompts = torch.tensor([[5, 60, 8], [9, 2, 33]])
    draws = torch.from_numpy(np.random.default_rng(0).random((2, 1, 5), np.float32))
    done, kl = alignment_trl.written(near, prompts, draws)
    steering = Steering(Bias(layer=0), torch.zeros(1, 32))
    expected = complete(near, torch.tensor([], dtype=torch.int64), prompts, draws, steering).written
    assert torch.equal(done.written, expected)
    whole = torch.cat([prompts, BASE.vocabulary[expected[:, 0]]], dim=1)
    ahead, behind = (logits(one, whole)[:, 2:-1].log_softmax(-1) for one in (near, BASE))
    assert kl == pytest.approx(float((ahead.exp() * (ahead - behind)).sum(-1).mean()), rel=1e-4)
