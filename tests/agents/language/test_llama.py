"""Models like Llama against a second writing of them, and what a text shares with others: nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from reference import log_probabilities

from tacit.agents.language.adapters import Bias, LoRA, ModelShape, Steering
from tacit.agents.language.llama import Llama
from tacit.agents.language.sampling import (
    Completions,
    complete,
    divergence,
    invert_distribution,
    log_softmax,
    read_prompts,
    scores,
)

SHAPE = ModelShape(layers=3, width=32, inner=48, heads=4, groups=2, tokens=61, base=500.0, epsilon=1e-4)
MODEL = Llama.random(SHAPE, seed=1).with_vocabulary(range(7, 50))
BIAS = Bias(layer=1, scale=2.0)
PREFIX, PROMPTS = torch.tensor([3, 1]), torch.tensor([[5, 60, 8], [9, 2, 33]])
DRAWS = torch.from_numpy(np.random.default_rng(0).random((2, 3, 5), np.float32))
THETA = torch.from_numpy(np.random.default_rng(1).normal(0, 0.2, (1, 32)).astype(np.float32))


def done(theta: torch.Tensor = THETA) -> Completions:
    return complete(MODEL, PREFIX, PROMPTS, DRAWS, Steering(BIAS, theta))


def test_probabilities_are_those_of_a_second_writing() -> None:
    completions = done()
    found = log_softmax(MODEL, PREFIX, completions, Steering(BIAS, THETA))
    bias = 2.0 * THETA[0].double().numpy()
    for text in range(2):
        for k in range(3):
            written = MODEL.vocabulary[completions.written[text, k, :-1]].tolist()
            tokens = [*PREFIX.tolist(), *PROMPTS[text].tolist(), *written]
            expected = log_probabilities(MODEL, tokens, (1, 4, bias))[4:]  # from the prompt's last token on
            np.testing.assert_allclose(found[text, k].numpy(), expected, atol=2e-5)


def test_completions_invert_the_distribution_at_their_draws() -> None:
    completions = done()
    chances = log_softmax(MODEL, PREFIX, completions, Steering(BIAS, THETA)).exp().double().cumsum(-1)
    places = completions.written[..., None]
    assert (chances.gather(3, places)[..., 0] >= DRAWS - 1e-6).all()
    assert (chances.gather(3, (places - 1).clamp(min=0))[..., 0] * (places[..., 0] > 0) <= DRAWS + 1e-6).all()


def test_draws_are_inverted_at_literal_places() -> None:
    logits = torch.log(torch.tensor([[0.2, 0.3, 0.5]])).expand(5, 3)
    draws = torch.tensor([0.0, 0.19, 0.21, 0.5, 0.999])
    assert invert_distribution(logits, draws).tolist() == [0, 0, 1, 2, 2]


@pytest.mark.parametrize("places", [[0], [1], [1, 0], [1, 0, 0, 1] * 9])
def test_a_text_alone_or_in_a_batch_has_the_same_completions_and_gradients(places: list[int]) -> None:
    completions, weights = done(), DRAWS - 0.5
    wanted = scores(MODEL, PREFIX, completions, BIAS, THETA[0], weights)
    other = complete(MODEL, PREFIX, PROMPTS[places], DRAWS[places], Steering(BIAS, THETA))
    assert torch.equal(other.written, completions.written[places])
    found = scores(MODEL, PREFIX, other, BIAS, THETA[0], weights[places])
    torch.testing.assert_close(found, wanted[places], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("adapter", [BIAS, LoRA(layers=(1, 2), rank=2, scale=0.7)])
def test_gradients_are_those_of_finite_differences(adapter: Bias | LoRA) -> None:
    generator = torch.Generator().manual_seed(0)
    theta = adapter.initial_parameters(SHAPE)
    theta = theta + 0.1 * torch.randn(len(theta), generator=generator)
    completions = complete(MODEL, PREFIX, PROMPTS, DRAWS, Steering(adapter, theta[None]))
    direction = torch.randn(len(theta), generator=generator)

    def value(step: float) -> torch.Tensor:
        steering = Steering(adapter, (theta + step * direction)[None])
        chosen = log_softmax(MODEL, PREFIX, completions, steering).gather(3, completions.written[..., None])
        return (chosen[..., 0].double() * DRAWS).sum(dim=(1, 2))

    found = scores(MODEL, PREFIX, completions, adapter, theta, DRAWS) @ direction
    torch.testing.assert_close(found.double(), (value(2e-3) - value(-2e-3)) / 4e-3, rtol=2e-2, atol=2e-2)


def test_adapters_start_as_the_model_is_and_lora_has_no_slope_of_a() -> None:
    lora = LoRA(layers=(1,), rank=1)
    start = lora.initial_parameters(SHAPE)
    assert len(start) == 2 * (32 + 48)
    assert len(BIAS.initial_parameters(SHAPE)) == 32
    plain = log_softmax(MODEL, PREFIX, done(0 * THETA), Steering(BIAS, BIAS.initial_parameters(SHAPE)[None]))
    written = complete(MODEL, PREFIX, PROMPTS, DRAWS, Steering(lora, start[None]))
    assert torch.equal(written.written, done(0 * THETA).written)
    torch.testing.assert_close(log_softmax(MODEL, PREFIX, written, Steering(lora, start[None])), plain)
    slope = scores(MODEL, PREFIX, written, lora, start, DRAWS)
    assert not slope[:, :32].any()
    assert not slope[:, 80:128].any()
    assert slope[:, 32:80].any()


def test_the_divergence_is_that_of_the_distributions() -> None:
    completions = done()
    ours, theirs = (
        log_softmax(MODEL, PREFIX, completions, Steering(BIAS, theta)).double() for theta in (THETA, 0 * THETA)
    )
    expected = (ours.exp() * (ours - theirs)).sum(-1)
    found = divergence(MODEL, PREFIX, completions, Steering(BIAS, THETA))
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-3)
    assert (divergence(MODEL, PREFIX, completions, Steering(BIAS, 0 * THETA)) == 0).all()


def test_a_prefix_is_read_as_if_it_stood_before_the_prompt() -> None:
    whole = MODEL.read(torch.cat([PREFIX.expand(2, -1), PROMPTS[:, :-1]], dim=1))
    split = read_prompts(MODEL, PREFIX, PROMPTS)
    torch.testing.assert_close(split.keys, whole.keys)
    torch.testing.assert_close(split.values, whole.values)


def test_the_typical_norm_is_the_median_of_the_stream() -> None:
    tokens = torch.cat([PREFIX.expand(2, -1), PROMPTS], dim=1)
    cache = MODEL.read(tokens[:, :-1])
    stream = MODEL.run_lower_layers(tokens[:, -1:], cache, 2)
    assert MODEL.residual_norm(tokens, 1) == pytest.approx(float(stream.norm(dim=-1).median()))
