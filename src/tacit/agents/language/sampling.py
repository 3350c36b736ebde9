"""Completions of many prompts at once, and what their probabilities say of an adapter's parameters.

Every token is decided by a draw that came with its prompt: a completion is a function of its prompt, its draws, the
model and the steering, and leaving a text out moves nobody else's draws. What a product of matrices rounds to depends
on how many rows it has, and a token is a decision: `alone` therefore writes in batches of one size, in which no place
rounds otherwise than another. No product has fewer than `LEAST` rows: those of fewer rows add up in another order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tacit.agents.language.adapters import Adapter, Steering
from tacit.agents.language.models import Cache, LanguageModel

MIN_ROWS = 16
"""Rows of a product at least; from here on the products of a row are the same, bit for bit, in batches of any size."""
BATCH_COMPLETIONS = 128
"""Completions that `alone` writes at once."""
_PLACE_INVARIANT: dict[tuple[object, ...], bool] = {}


@dataclass(frozen=True, eq=False)
class Completions:
    """K completions of each of B prompts."""

    prompts: Tensor  # tokens [B, n]
    written: Tensor  # [B, K, T] int64, places in the model's vocabulary
    residual: Tensor  # [B, K, T, width], what the layers below the adapter made of the tokens before each one written


@torch.no_grad()
def complete(model: LanguageModel, prefix: Tensor, prompts: Tensor, draws: Tensor, steering: Steering) -> Completions:
    """Completions of prompts, by inverting the distribution of every next token at its draw.

    Args:
        model: restricted to V tokens.
        prefix: public tokens [m] before every prompt; m may be 0.
        prompts: tokens [B, n], n >= 1.
        draws: [B, K, T] in [0, 1): K completions of T tokens a prompt.
        steering: from the last token of the prompt on; what stands before it is read as it is. Parameters [1, P].
    """
    count, times, length = draws.shape
    residuals, _, written = zip(*_steps(model, prefix, prompts, draws, steering), strict=True)
    return Completions(
        prompts,
        torch.stack(written, dim=1).view(-1, times, length)[:count],
        torch.cat(residuals, dim=1).view(-1, times, length, residuals[0].shape[-1])[:count],
    )


def complete_in_batches(
    model: LanguageModel, prefix: Tensor, prompts: Tensor, draws: Tensor, steering: Steering
) -> Iterator[Completions]:
    """Completions of some prompts after another, bit for bit those of `complete`, whoever else is asked for.

    Every product has the same number of rows, whoever is there: batches are filled up. So what a row rounds to depends
    on its own numbers and its place. Once for every size it is tried, on a public prompt in all places, whether places
    differ on this machine; if they do, prompts are completed one by one.
    """
    count, times, length = draws.shape
    size = max(1, BATCH_COMPLETIONS // times)
    sizes = len(model.vocabulary), len(prefix), prompts.shape[1], times, length
    key = (model.digest, *sizes, steering.adapter, torch.get_num_threads())
    if key not in _PLACE_INVARIANT:
        _PLACE_INVARIANT[key] = is_place_invariant(model, prefix, prompts.shape[1], size, times, length, steering)
    size = size if _PLACE_INVARIANT[key] else 1
    for start in range(0, count, size):
        indices = torch.arange(start, min(start + size, count))
        rows = indices[torch.arange(size) % len(indices)]
        done, n = complete(model, prefix, prompts[rows], draws[rows], steering), len(indices)
        yield Completions(done.prompts[:n], done.written[:n], done.residual[:n])


@torch.no_grad()
def is_place_invariant(
    model: LanguageModel, prefix: Tensor, tokens: int, texts: int, times: int, length: int, steering: Steering
) -> bool:
    """Whether every place of such a batch gives the same bits, tried on one public prompt in all of them."""
    # Which operations a row goes through does not depend on numbers: places that add up in another order show it in one
    # of the thousands of sums of a batch.
    prompts = torch.arange(tokens).remainder(model.shape.tokens).expand(texts, -1)
    draws = torch.linspace(0.05, 0.95, length).expand(texts, times, -1)
    for kept, logits, _ in _steps(model, prefix, prompts, draws, steering):
        for values in (kept, logits, _cumulative_probabilities(logits[:, 0])):
            if not torch.equal(values, values[:1].expand_as(values)):
                return False
    return True


def _steps(
    model: LanguageModel, prefix: Tensor, prompts: Tensor, draws: Tensor, steering: Steering
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Token by token: what the lower layers made of the one before, the logits, and the token."""
    # [N, 1, width], [N, 1, V] and [N]. N is the number of texts, filled up, times that of completions.
    count, times, length = draws.shape
    rows = batch_indices(count, prompts.shape[1], times)
    draws, last = draws[rows], prompts[rows]
    cache = read_prompts(model, prefix, last).repeat(times, length)
    token = last[:, -1:].repeat_interleave(times, dim=0)
    flat = draws.reshape(-1, length)
    for t in range(length):
        residual = model.run_lower_layers(token, cache, steering.adapter.first_layer)
        logits = model.run_upper_layers(residual, cache, steering)
        cache = replace(cache, length=cache.length + 1)
        written = invert_distribution(logits[:, 0], flat[:, t])
        yield residual, logits, written
        token = model.vocabulary[written][:, None]


def batch_indices(texts: int, tokens: int, times: int) -> Tensor:
    """Which of so many texts stand in a batch: all, and the first ones again where products would be too small.

    Args:
        texts: B >= 1.
        tokens: of a prompt.
        times: completions of a prompt.
    """
    return torch.arange(max(texts, -(-MIN_ROWS // min(max(1, tokens - 1), times)))) % texts


def read_prompts(model: LanguageModel, prefix: Tensor, prompts: Tensor) -> Cache:
    """The cache [B] of a public prefix [m] and of prompts [B, n] up to their last tokens, which are not read."""
    if not len(prefix):
        return model.read(prompts[:, :-1])
    return model.read(prompts[:, :-1], model.read(prefix[None]).repeat(len(prompts), 0))


def invert_distribution(logits: Tensor, draws: Tensor) -> Tensor:
    """The places [B] at which the distributions of logits [B, V], added up, pass the draws [B]."""
    total = _cumulative_probabilities(logits)
    return torch.searchsorted(total, draws[:, None].double(), right=True)[:, 0].clamp(max=logits.shape[-1] - 1)


def _cumulative_probabilities(logits: Tensor) -> Tensor:
    return logits.double().softmax(-1).cumsum(-1)


@torch.no_grad()
def encode_completions(
    model: LanguageModel, prefix: Tensor, prompts: Tensor, written: Tensor, first: int
) -> Completions:
    """Completions [B, K, T] that somebody else wrote, with what the lower layers make of them.

    Args:
        model, prefix, prompts: as for `complete`.
        written: the completions, places in the vocabulary.
        first: the first layer that an adapter changes.
    """
    texts, times, length = written.shape
    last = prompts[:, -1:].repeat_interleave(times, dim=0)
    tokens = torch.cat([last, model.vocabulary[written.flatten(0, 1)[:, :-1]]], dim=1)
    residual = model.run_lower_layers(tokens, read_prompts(model, prefix, prompts).repeat(times, length), first)
    return Completions(prompts, written, residual.view(texts, times, length, -1))


def log_softmax(model: LanguageModel, prefix: Tensor, completions: Completions, steering: Steering) -> Tensor:
    """Log-probabilities [B, K, T, V] at the places of completions, differentiable in the steering [1 or B K, P]."""
    texts, times, length, _ = completions.residual.shape
    cache = read_prompts(model, prefix, completions.prompts).repeat(times, 0)
    logits = model.run_upper_layers(completions.residual.reshape(texts * times, length, -1), cache, steering)
    return logits.log_softmax(-1).view(texts, times, length, -1)


def scores(
    model: LanguageModel, prefix: Tensor, completions: Completions, adapter: Adapter, theta: Tensor, weights: Tensor
) -> Tensor:
    """sum_{k, t} w_kt grad log pi(y_kt | y_k1 .. y_k,t-1) of every prompt, [B, P].

    The parameters are laid out once for every prompt, so that one pass yields each prompt's own gradient.

    Args:
        model, prefix: as for `complete`.
        completions: B prompts.
        adapter, theta: parameters [P].
        weights: [B, K, T].
    """
    texts, times, _ = weights.shape
    leaves = theta.expand(texts, -1).clone().requires_grad_()
    wide = leaves.repeat_interleave(times, dim=0)
    chosen = log_softmax(model, prefix, completions, Steering(adapter, wide)).gather(3, completions.written[..., None])
    (gradient,) = torch.autograd.grad((chosen[..., 0] * weights).sum(), leaves)
    return gradient


@torch.no_grad()
def divergence(model: LanguageModel, prefix: Tensor, completions: Completions, steering: Steering) -> Tensor:
    """KL(steered || reference) [B, K, T] of every next token, at the places of completions of the steered model."""
    start = steering.adapter.initial_parameters(model.shape)[None]
    ours, theirs = (
        log_softmax(model, prefix, completions, Steering(steering.adapter, theta)) for theta in (steering.theta, start)
    )
    return (ours.exp() * (ours - theirs)).sum(-1)
