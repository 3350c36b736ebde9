"""Random network distillation: which generated rows are novel (PrivORL sections V-A, V-B; Burda et al. 2018).

Only generated rows are scored, and scores are learned from generated rows: curiosity reads no private row.
"""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor, nn

from tacit.methods.synthesis.diffusion import Denoiser, Denoising, generated_loss, sample_encoded
from tacit.methods.synthesis.plan import TransitionsPlan
from tacit.methods.synthesis.settings import Curiosity, Sampler
from tacit.privacy.gradients.clipped_sums import clipped_sum

FEATURES = 32
"""Output width of both networks (the paper's appendix F-B)."""


class NoveltyScore:
    """How badly a trained predictor imitates a fixed random target on a row: high where few rows have been seen.

    Target: D -> 128 -> 64 -> 32 with weights N(0, 0.1^2) and zero biases; predictor: D -> 64 -> 32; ReLU.

    Args:
        size: width D of an encoded row.
        learning_rate: of the predictor (Adam).
        generator: for the initial weights; they are drawn on the CPU.
        device: where rows are scored.
    """

    def __init__(
        self, size: int, *, learning_rate: float, generator: torch.Generator, device: torch.device | None = None
    ) -> None:
        self.target = nn.Sequential(
            nn.Linear(size, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, FEATURES)
        ).requires_grad_(False)
        self.predictor = nn.Sequential(nn.Linear(size, 64), nn.ReLU(), nn.Linear(64, FEATURES))
        for name, value in self.target.named_parameters():
            value.normal_(0, 0.1, generator=generator) if name.endswith("weight") else value.zero_()
        with torch.no_grad():
            for layer in (self.predictor[0], self.predictor[2]):
                assert isinstance(layer, nn.Linear)
                bound = layer.in_features**-0.5
                layer.weight.uniform_(-bound, bound, generator=generator)
                layer.bias.uniform_(-bound, bound, generator=generator)
        self.target.to(device), self.predictor.to(device)
        self.optimizer = torch.optim.Adam(self.predictor.parameters(), lr=learning_rate, fused=True)

    @classmethod
    def of(cls, model: Denoiser, settings: Curiosity, generator: torch.Generator) -> NoveltyScore:
        """A fresh score of the rows that a model generates."""
        device = next(model.parameters()).device
        return cls(model.encoder.size, learning_rate=settings.learning_rate, generator=generator, device=device)

    def _errors(self, rows: Tensor) -> Tensor:
        errors: Tensor = (self.predictor(rows) - self.target(rows)).square().mean(dim=-1)
        return errors

    @torch.no_grad()
    def score(self, rows: Tensor) -> Tensor:
        """Equation 4 for each of the rows [B, D] -> [B]. Changes nothing, so the order of rows does not matter."""
        return self._errors(rows)

    def update(self, rows: Tensor) -> None:
        """One optimiser step of the predictor on the rows."""
        self.optimizer.zero_grad(set_to_none=True)
        self._errors(rows).mean().backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()


def most_novel(novelty: NoveltyScore, generated: Tensor, count: int) -> Tensor:
    """The `count` rows of `generated` with the highest scores; the predictor learns from all of them afterwards."""
    chosen = generated[novelty.score(generated).topk(count).indices]
    novelty.update(generated)
    return chosen


def replace(batch: Tensor, generated: Tensor, novelty: NoveltyScore, curiosity: Curiosity) -> Tensor:
    """The paper's update of a batch [B, D]: the floor(rate B) most novel of B generated rows take others' places."""
    count = int(curiosity.rate * len(batch))
    return torch.cat([batch[: len(batch) - count], most_novel(novelty, generated, count)])


class Pool:
    """The authors' code: rows that are generated once an epoch, the novel ones kept, and a few drawn in each step.

    Args:
        model: generates the rows with the weights that it has at the time.
        settings: `pool`, `rate` and `appended`.
        sampler: how rows are generated.
        epoch: steps between two pools.
        generator: of all random numbers.
    """

    def __init__(
        self, model: Denoiser, settings: Curiosity, sampler: Sampler, *, epoch: int, generator: torch.Generator
    ) -> None:
        self.model, self.settings, self.epoch, self.generator = model, settings, epoch, generator
        self.sampler = dataclasses.replace(sampler, steps=settings.sampler_steps)
        self.novelty = NoveltyScore.of(model, settings, generator)
        self.kept: Tensor | None = None

    def draw(self, step: int) -> Tensor:
        """`appended` distinct random rows of the pool that is in force at a step, [appended, D]."""
        settings = self.settings
        if self.kept is None or step % self.epoch == 0:
            generated = sample_encoded(self.model, settings.pool, self.sampler, self.generator)
            self.kept = most_novel(self.novelty, generated, int(settings.rate * settings.pool))
        return self.kept[torch.randperm(len(self.kept), generator=self.generator)[: settings.appended]]


class Generated:
    """FineCur: what novel generated rows add to each step, outside the private sum and its public divisor.
    Post-processing of public weights with public random numbers; after an interruption it begins again."""

    def __init__(self, model: Denoiser, objective: Denoising, plan: TransitionsPlan, settings: Curiosity) -> None:
        assert plan.unit is not None
        self.model, self.objective, self.clip = model, objective, plan.clip_norm
        self.expected = plan.parts()[0].expected(plan.unit)
        self.generator, epoch = torch.Generator().manual_seed(0), math.ceil(1 / plan.sampling_rate)
        self.pool = Pool(model, settings, plan.sampler, epoch=epoch, generator=self.generator)

    def gradient(self, step: int) -> Tensor:
        """The sum of the rows' clipped gradients over the expected number of units, [P]."""
        clean = self.pool.draw(step)
        draws = self.objective.draw(self.generator, len(clean), 1)
        rows = {"clean": clean} | {name: draws[name][:, 0].to(clean.device) for name in ("sigma", "noise")}
        return clipped_sum(self.model, generated_loss, rows, self.clip, scale=1 / self.expected)
