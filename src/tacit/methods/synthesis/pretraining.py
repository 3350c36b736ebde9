"""Training of the denoiser on public rows, before any private row is read."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.errors import DataError
from tacit.hardware import torch_device
from tacit.methods.synthesis import curiosity
from tacit.methods.synthesis.diffusion import Denoiser, build_network, draw, row_losses, sample_encoded
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import TransitionsPlan
from tacit.methods.synthesis.settings import Pretraining
from tacit.methods.synthesis.training import PublicProgress, load_pretrained, on_cpu, train_publicly


@dataclass(frozen=True)
class Pretrained:
    """A starting point that owes nothing to private data."""

    encoder: Encoder  # the public constants of the encoding
    weights: Mapping[str, Tensor]  # the parameters of the network when training ended (on the CPU, as the average)
    average: Mapping[str, Tensor]  # their moving average, from which fine-tuning starts
    provenance: str  # where the public rows came from; "none" when there were none

    def model(self, plan: TransitionsPlan) -> Denoiser:
        """A fresh denoiser with the averaged weights."""
        model = Denoiser(self.encoder, build_network(plan, self.encoder.size))
        sizes = "the width, depth, harmonics and columns of this plan and spec"
        load_pretrained(model.network, self.average, where="Pretrained.model", expected=sizes)
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
) -> Pretrained:
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
        weights = on_cpu(dict(model.network.named_parameters()))
        return Pretrained(encoder, weights, weights, "none")
    batches = _batches(model, plan, config, columns, torch.Generator().manual_seed(seed))
    average = train_publicly(model.network, batches, lambda rows: row_losses(model, *rows).mean(), config, progress)
    return Pretrained(encoder, on_cpu(dict(model.network.named_parameters())), average, config.provenance)


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
        pool = curiosity.Pool(model, settings, plan.sampler, epoch=epoch, generator=generator)
        return lambda step, batch: torch.cat([batch, pool.draw(step)])
    novelty = curiosity.NoveltyScore.of(model, settings, generator)
    sampler = dataclasses.replace(plan.sampler, steps=settings.sampler_steps)

    def replace(step: int, batch: Tensor) -> Tensor:
        return curiosity.replace(batch, sample_encoded(model, len(batch), sampler, generator), novelty, settings)

    return replace
