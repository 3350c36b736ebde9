"""The baseline DP-Transformer: a causal transformer that draws the rows of a fragment one by one.

It is trained behind the same door, on the same fragments, conditions and endings as PrivORL-j; only the law of the rows
is another one: that of a row, given the rows before it, is a mixture of products, in which each number is normal and
each discrete field categorical. (The paper's is a mean squared error around one prediction, which has no spread.)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from tacit.data.spec import Discrete
from tacit.methods.synthesis.settings import Sampler
from tacit.methods.synthesis.trajectories.fragments import Condition, FragmentEncoder
from tacit.methods.synthesis.trajectories.networks import FragmentNetwork
from tacit.methods.synthesis.trajectories.plan import Plan

LEAST_SCALE, MOST_SCALE = 0.02, 5.0
"""Bounds of a normal's standard deviation, in standardised units."""


class RowByRow(nn.Module):
    """The law of each row of a fragment, given the rows before it."""

    def __init__(self, plan: Plan, codec: FragmentEncoder) -> None:
        super().__init__()
        self.codec, self.mixture = codec, plan.mixture
        spec = codec.encoder.spec
        spaces = (spec.action, spec.reward, spec.observation)
        kinds = [space.n if isinstance(space, Discrete) else 0 for space in spaces]
        self.fields = tuple(zip(codec.step_sizes, kinds, strict=True))
        each = 1 + sum(size if kind else 2 * size for size, kind in self.fields)
        self.network = FragmentNetwork(plan, codec, plan.mixture * each)

    def _law(self, condition: Condition, steps: Tensor) -> Tensor:
        """Parameters [B, H, mixture, ...] of the law of each row, from the rows before it in `steps` [B, H, S]."""
        places = self.codec.places(condition.first, steps)
        before = torch.cat([condition.previous[:, None], steps[:, :-1]], dim=1)
        flags = self.codec.flags(condition.ending)
        found = self.network(condition, torch.zeros_like(condition.time), before, places, flags)
        return torch.unflatten(found, -1, (self.mixture, -1))

    def step_losses(self, condition: Condition, clean: Tensor, sigma: Tensor, noise: Tensor) -> Tensor:
        """Minus the log-density of each row over the S columns, [B, H], for `clean` [B, H, S]; no noise has a part."""
        law = self._law(condition, clean)
        total, start = law[..., 0].log_softmax(-1), 1
        for (size, kind), part in zip(
            self.fields, torch.split(clean, list(self.codec.step_sizes), dim=-1), strict=True
        ):
            part = part[..., None, :]
            if kind:
                scores = law[..., start : start + size].log_softmax(-1)
                total, start = total + (scores * (part > 0)).sum(-1), start + size
                continue
            mean, scale = _normal(law[..., start : start + 2 * size])
            density = ((part - mean) / scale).square() / 2 + scale.log() + math.log(2 * math.pi) / 2
            total, start = total - density.sum(-1), start + 2 * size
        return -total.logsumexp(-1) / self.codec.step_size

    @torch.no_grad()
    def sample_steps(self, condition: Condition, sampler: Sampler, generator: torch.Generator) -> Tensor:
        """Encoded steps [B, H, S] of fragments under their conditions; the sampler has no part."""
        count = len(condition.first)
        steps = condition.first.new_zeros(count, self.codec.horizon, self.codec.step_size)
        for row in range(self.codec.horizon):
            law = self._law(condition, steps)[:, row]
            chosen = drawn(law[..., 0], generator)
            steps[:, row] = self._row(law[torch.arange(count), chosen], generator)
        return steps

    def _row(self, law: Tensor, generator: torch.Generator) -> Tensor:
        """A draw [B, S] from one product of the mixture each, [B, ...]."""
        parts, start = [], 1
        for size, kind in self.fields:
            if kind:
                parts.append(2.0 * one_hot(drawn(law[:, start : start + size], generator), size) - 1)
                start += size
                continue
            mean, scale = _normal(law[:, start : start + 2 * size])
            fresh = torch.randn(mean.shape, generator=generator, device=generator.device).to(mean.device)
            parts.append(mean + scale * fresh)
            start += 2 * size
        return torch.cat(parts, dim=-1)


def drawn(scores: Tensor, generator: torch.Generator) -> Tensor:
    """[B] of the K categories with log-odds `scores` [B, K]."""
    uniform = torch.rand(scores.shape, generator=generator, device=generator.device).clamp_(min=1e-30).to(scores.device)
    return (scores - (-uniform.log()).log()).argmax(-1)


def _normal(law: Tensor) -> tuple[Tensor, Tensor]:
    mean, raw = law.chunk(2, dim=-1)
    return mean, raw.exp().clamp(LEAST_SCALE, MOST_SCALE)
