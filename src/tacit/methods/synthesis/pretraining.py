"""Training of the denoiser on public rows, before any private row is read."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.errors import DataError, PlanError
from tacit.hardware import torch_device
from tacit.methods.synthesis import curiosity
from tacit.methods.synthesis.diffusion import Denoiser, draw, row_losses, sample_encoded
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.networks import MovingAverage, build_network, load_parameters, on_cpu
from tacit.methods.synthesis.plan import Plan
from tacit.methods.synthesis.settings import Pretraining, scheduled

Progress = Callable[[int, int, float], None]
"""Called after each step with (steps done, steps in all, loss of the public batch)."""


@dataclass(frozen=True)
class Pretrained:
    """A starting point that owes nothing to private data.

    Args:
        encoder: the public constants of the encoding.
        weights: the parameters of the network when training ended (on the CPU, as the average).
        average: their moving average, from which fine-tuning starts.
        provenance: where the public rows came from; "none" when there were none.
    """

    encoder: Encoder
    weights: Mapping[str, Tensor]
    average: Mapping[str, Tensor]
    provenance: str

    def model(self, plan: Plan) -> Denoiser:
        """A fresh denoiser with the averaged weights.

        Raises:
            PlanError: the weights are of a network of another size than the plan's.
        """
        model = Denoiser(self.encoder, build_network(plan, self.encoder.size))
        own = {name: value.shape for name, value in model.network.named_parameters()}
        if own != {name: value.shape for name, value in self.average.items()}:
            raise PlanError(
                "the pre-trained weights are those of another network",
                where="Pretrained.model",
                expected="the width, depth, harmonics and columns of this plan and spec",
                remedy="pre-train with the plan that is fine-tuned",
            )
        load_parameters(model.network, self.average)
        return model


def initial_model(plan: Plan, encoder: Encoder, *, seed: int) -> Denoiser:
    """A denoiser with random weights that depend on the seed alone (the global random state is left as it was)."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Denoiser(encoder, build_network(plan, encoder.size))


def pretrain(
    plan: Plan,
    encoder: Encoder,
    columns: Mapping[str, npt.NDArray[Any]] | None,
    *,
    seed: int,
    progress: Progress | None = None,
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
        raise DataError(
            "public rows and plan.pretraining do not go together",
            where="synthesis.pretrain",
            expected="both, or neither",
            remedy="pass the rows that plan.pretraining declares, or pretraining=None without rows",
        )
    where = torch_device(device, where="synthesis.pretrain")
    model = initial_model(plan, encoder, seed=seed).to(where)
    if config is None or columns is None:
        weights = on_cpu(dict(model.network.named_parameters()))
        return Pretrained(encoder, weights, weights, "none")
    return _train(model, plan, config, columns, seed, progress)


def _train(
    model: Denoiser,
    plan: Plan,
    config: Pretraining,
    rows: Mapping[str, npt.NDArray[Any]],
    seed: int,
    progress: Progress | None,
) -> Pretrained:
    """AdamW on batches of encoded public rows, some of them generated where curiosity asks for it."""
    encoder, network, device = model.encoder, model.network, next(model.parameters()).device
    generator = torch.Generator().manual_seed(seed)
    average = MovingAverage(network, decay=config.ema, every=config.ema_every)
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=config.learning_rate, betas=config.betas, weight_decay=config.weight_decay, fused=True
    )
    total, table = len(rows["rewards"]), {key: torch.tensor(np.asarray(column)) for key, column in rows.items()}
    explore = _explorer(model, plan, config, total, generator) if config.curiosity else None
    for step in range(config.steps):
        optimizer.param_groups[0]["lr"] = scheduled(
            config.learning_rate, step, config.steps, config.warmup, config.schedule
        )
        chosen = torch.randint(total, (config.batch,), generator=generator)
        spread = torch.randn(config.batch, encoder.bounded_size, generator=generator)
        clean = encoder.encode({key: column[chosen].to(device) for key, column in table.items()}, spread.to(device))
        if explore is not None:
            clean = explore(step, clean)
        draws = draw(generator, len(clean), 1, encoder=encoder, P_mean=plan.P_mean, P_std=plan.P_std)
        sigma, noise = draws["sigma"][:, 0].to(device), draws["noise"][:, 0].to(device)
        loss = row_losses(model, clean, sigma, noise).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), config.clip)
        optimizer.step()
        average.update(network)
        if progress is not None:
            progress(step + 1, config.steps, loss.item())
    weights = on_cpu(dict(network.named_parameters()))
    return Pretrained(encoder, weights, average.state(), config.provenance)


def _explorer(
    model: Denoiser, plan: Plan, config: Pretraining, total: int, generator: torch.Generator
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
