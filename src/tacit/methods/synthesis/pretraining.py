"""Training of the denoiser on public rows, before any private row is read, and curiosity about generated ones.

Curiosity is random network distillation (PrivORL sections V-A, V-B; Burda et al. 2018). Only generated rows are scored,
and scores are learned from generated rows: it reads no private row.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tacit.errors import DataError
from tacit.hardware import torch_device
from tacit.methods.synthesis.diffusion import (
    Denoiser,
    Denoising,
    build_network,
    draw,
    generated_loss,
    row_losses,
    sample_encoded,
)
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import Curiosity, Pretraining, Sampler, TransitionsPlan
from tacit.methods.synthesis.training import PublicProgress, copy_to_cpu, load_pretrained, train_publicly
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


def replace_rows(batch: Tensor, generated: Tensor, novelty: NoveltyScore, curiosity: Curiosity) -> Tensor:
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


class GeneratedGradient:
    """FineCur: what novel generated rows add to each step, outside the private sum and its public divisor.
    Post-processing of public weights with public random numbers; after an interruption it begins again."""

    def __init__(self, model: Denoiser, objective: Denoising, plan: TransitionsPlan, settings: Curiosity) -> None:
        self.model, self.objective, self.clip = model, objective, plan.clip_norm
        self.expected = plan.parts()[0].divisor(plan.unit)
        self.generator, epoch = torch.Generator().manual_seed(0), math.ceil(1 / plan.sampling_rate)
        self.pool = Pool(model, settings, plan.sampler, epoch=epoch, generator=self.generator)

    def gradient(self, step: int) -> Tensor:
        """The sum of the rows' clipped gradients over the expected number of units, [P]."""
        clean = self.pool.draw(step)
        draws = self.objective.draw(self.generator, len(clean), 1)
        rows = {"clean": clean} | {name: draws[name][:, 0].to(clean.device) for name in ("sigma", "noise")}
        return clipped_sum(self.model, generated_loss, rows, self.clip, scale=1 / self.expected)


@dataclass(frozen=True)
class PretrainedDenoiser:
    """A starting point that owes nothing to private data."""

    encoder: Encoder  # the public constants of the encoding
    weights: Mapping[str, Tensor]  # the parameters of the network when training ended (on the CPU, as the average)
    average: Mapping[str, Tensor]  # their moving average, from which fine-tuning starts
    provenance: str  # where the public rows came from; "none" when there were none

    def model(self, plan: TransitionsPlan) -> Denoiser:
        """A fresh denoiser with the averaged weights."""
        model = Denoiser(self.encoder, build_network(plan, self.encoder.size))
        sizes = "the width, depth, harmonics and columns of this plan and spec"
        load_pretrained(model.network, self.average, where="PretrainedDenoiser.model", expected=sizes)
        return model


def initial_model(plan: TransitionsPlan, encoder: Encoder, *, seed: int) -> Denoiser:
    """A denoiser with random weights that depend on the seed alone (the global random state is left as it was)."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Denoiser(encoder, build_network(plan, encoder.size))


def pretrain(
    plan: TransitionsPlan,
    encoder: Encoder,
    columns: Mapping[str, npt.NDArray[Any]] | None,
    *,
    seed: int,
    progress: PublicProgress | None = None,
    device: str = "cpu",
) -> PretrainedDenoiser:
    """Train on public rows as `plan.pretraining` says; with None, return random weights (the ablation "NonPre").

    Args:
        plan: its network, noise law and pre-training.
        encoder: the public constants.
        columns: public rows (keys as in `Encoder.encode`, first dimension T); None without pre-training.
        seed: of the weights, the batches and the noise. Public: no private row is involved.
        progress: called after each step.
        device: where the network is trained, `cpu` or an accelerator such as `cuda`. Random numbers are drawn on the
            CPU, so a seed gives the same numbers everywhere (the weights differ by rounding).

    Raises:
        DataError: the plan pre-trains and there are no rows, or the other way round.
        HardwareError: there is no such device.
    """
    config = plan.pretraining
    if (config is None) != (columns is None):
        what, expected = "public rows and plan.pretraining do not go together", "both, or neither"
        remedy = "pass the rows that plan.pretraining declares, or pretraining=None without rows"
        raise DataError(what, where="synthesis.pretrain", expected=expected, remedy=remedy)
    where = torch_device(device, where="synthesis.pretrain")
    model = initial_model(plan, encoder, seed=seed).to(where)
    if config is None or columns is None:
        weights = copy_to_cpu(dict(model.network.named_parameters()))
        return PretrainedDenoiser(encoder, weights, weights, "none")
    batches = _batches(model, plan, config, columns, torch.Generator().manual_seed(seed))
    average = train_publicly(model.network, batches, lambda rows: row_losses(model, *rows).mean(), config, progress)
    return PretrainedDenoiser(encoder, copy_to_cpu(dict(model.network.named_parameters())), average, config.provenance)


def _batches(
    model: Denoiser,
    plan: TransitionsPlan,
    config: Pretraining,
    columns: Mapping[str, npt.NDArray[Any]],
    generator: torch.Generator,
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Encoded public rows, some of them generated where curiosity asks for it, their noise levels and their noise."""
    encoder, device = model.encoder, next(model.parameters()).device
    total, table = len(columns["rewards"]), {key: torch.tensor(np.asarray(column)) for key, column in columns.items()}
    explore = _explorer(model, plan, config, total, generator) if config.curiosity else None
    for step in range(config.steps):
        chosen = torch.randint(total, (config.batch,), generator=generator)
        spread = torch.randn(config.batch, encoder.bounded_size, generator=generator)
        clean = encoder.encode({key: column[chosen].to(device) for key, column in table.items()}, spread.to(device))
        if explore is not None:
            clean = explore(step, clean)
        draws = draw(generator, len(clean), 1, encoder=encoder, P_mean=plan.P_mean, P_std=plan.P_std)
        yield clean, draws["sigma"][:, 0].to(device), draws["noise"][:, 0].to(device)


def _explorer(
    model: Denoiser, plan: TransitionsPlan, config: Pretraining, total: int, generator: torch.Generator
) -> Callable[[int, Tensor], Tensor]:
    """(step, encoded real batch) -> the batch that curiosity trains on."""
    settings = config.curiosity
    assert settings is not None
    epoch = math.ceil(total / config.batch)
    if settings.mode == "append_pool":
        pool = Pool(model, settings, plan.sampler, epoch=epoch, generator=generator)
        return lambda step, batch: torch.cat([batch, pool.draw(step)])
    novelty = NoveltyScore.of(model, settings, generator)
    sampler = dataclasses.replace(plan.sampler, steps=settings.sampler_steps)
    return lambda step, batch: replace_rows(
        batch, sample_encoded(model, len(batch), sampler, generator), novelty, settings
    )
