"""Training on public trajectories, before any private row is read."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.data.spec import Box, PublicSpec
from tacit.errors import DataError
from tacit.hardware import torch_device
from tacit.methods.synthesis.diffusion import Denoiser
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import Curiosity, Pretraining
from tacit.methods.synthesis.pretraining import NoveltyScore
from tacit.methods.synthesis.training import MovingAverage, PublicProgress, load_pretrained, train_publicly
from tacit.methods.synthesis.trajectories.fragments import windows
from tacit.methods.synthesis.trajectories.models import (
    FragmentLoss,
    FragmentModel,
    StartLoss,
    fragment_model,
    start_model,
)
from tacit.methods.synthesis.trajectories.networks import ContextFeatures
from tacit.methods.synthesis.trajectories.plan import TrajectoriesPlan

if TYPE_CHECKING:
    from tacit.data.trajectories import Trajectories

Rows = dict[str, Tensor]

LEVELS = (3e-5, 3e-3)
"""Deviations of the noise of shares that public worlds are seen through where no plan's own is known yet: those of
10,000 people at epsilon 20 and of 1,000 at 1, roughly."""

START_STEPS = 3_000
"""Of the model of first observations at most: it learns sooner than that of fragments."""

FEW, REPEATS = 64, 100
"""A number with no more public values than this, each as often as that on average, takes these alone."""

LEAST_STEP = 1e-6
"""Smallest typical step, as a share of the range: of columns that never change."""


@dataclass(frozen=True)
class PretrainedModels:
    """A starting point that owes nothing to private data."""

    encoder: Encoder  # the public constants of the encoding
    starts: Mapping[str, Tensor]  # starts, fragments: averaged parameters of the two models' networks, on the CPU
    fragments: Mapping[str, Tensor]
    provenance: str  # where the public trajectories came from; "none" when there were none

    def models(self, plan: TrajectoriesPlan) -> tuple[Denoiser, FragmentModel]:
        """Fresh models of first observations and of fragments with these weights, in a world of even spread."""
        models = start_model(plan, self.encoder), fragment_model(plan, self.encoder)
        for model, weights in zip(models, (self.starts, self.fragments), strict=True):
            sizes = "the sizes of this plan's networks and the columns of this spec"
            load_pretrained(model.network, weights, where="trajectories.PretrainedDenoiser.models", expected=sizes)
        return models


def public_encoder(spec: PublicSpec, public: Trajectories | Sequence[Trajectories]) -> Encoder:
    """An encoder whose constants come from public trajectories, the typical steps among them.

    These are root mean squares, in the place of those that the spec may declare: a physical limit of a step is often
    far above what is usual, and whatever is small beside its scale is lost in the model's error. A column that changes
    by a constant, such as the number of a visit, has a scale too. A number that takes few public values keeps to them.

    Args:
        spec: the public bounds of the private data.
        public: of nobody who is among the private ones; of one world or several.
    """
    declared, worlds = spec, _worlds(public)
    columns = {name: np.concatenate([world.columns[name] for world in worlds]) for name in worlds[0].columns}
    if isinstance(spec.observation, Box):
        change = np.subtract(columns["next_observations"], columns["observations"], dtype=np.float64)
        least = LEAST_STEP * np.subtract(spec.observation.high, spec.observation.low)
        steps = np.maximum(np.sqrt(np.square(change).mean(axis=0)), least)
        declared = dataclasses.replace(spec, difference=tuple(steps.tolist()))
    numbers = np.asarray(columns["observations"]).T if isinstance(spec.observation, Box) else ()
    atoms = tuple(_atoms(column) for column in (*numbers, np.asarray(columns["rewards"])))
    return dataclasses.replace(Encoder.from_public(declared, columns), spec=spec, atoms=atoms)


def _atoms(column: NDArray[np.generic]) -> tuple[float, ...]:
    """The values of a public column, rising; () where these are not few, or seldom come again."""
    least = REPEATS * FEW
    if len(np.unique(column[:: max(1, len(column) // least)])) > FEW:
        return ()
    values = np.unique(column.astype(np.float32))
    return tuple(values.tolist()) if len(values) <= min(FEW, len(column) // REPEATS) else ()


def pretrain(
    plan: TrajectoriesPlan,
    encoder: Encoder,
    public: Trajectories | Sequence[Trajectories] | None,
    *,
    seed: int,
    progress: PublicProgress | None = None,
    device: str = "cpu",
) -> PretrainedModels:
    """Train on public trajectories as `plan.pretraining` says; with None, return random weights.

    Args:
        plan: its networks, noise law and pre-training.
        encoder: the public constants, of the private data's own bounds (`public_encoder`).
        public: whole trajectories of nobody who is among the private ones; None without pre-training. Several sets are
            several worlds, each of which the networks see by its own histograms if the plan has `local_context`: with
            as much noise as the private ones will have, or, before the plan is calibrated, with more or less of it, so
            that one starting point does for every promise.
        seed: of the weights, the batches and the noise. Public: no private row is involved.
        progress: called after each step of the model of fragments.
        device: where the networks are trained.

    Raises:
        DataError: the plan pre-trains and there are no trajectories, or the other way round, or their observations or
            actions have other shapes than the private ones.
        HardwareError: there is no such device.
        SealedError: the trajectories are sealed in a vault.
    """
    config, where = plan.pretraining, torch_device(device, where="trajectories.pretrain")
    if (config is None) != (public is None):
        raise _error("public trajectories and plan.pretraining do not go together", "both, or neither")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        starts, fragments = start_model(plan, encoder).to(where), fragment_model(plan, encoder).to(where)
    provenance = "none"
    if config is None or public is None:
        averages = [MovingAverage(model.network, decay=0.0).state() for model in (starts, fragments)]
    else:
        worlds = _worlds(public)
        spaces = {
            (spec.observation.width, spec.action.width) for spec in (encoder.spec, *(world.spec for world in worlds))
        }
        if len(spaces) != 1:
            expected = "one set of columns for both"
            raise _error("the public trajectories have other shapes than the private data", expected)
        generator, provenance = torch.Generator().manual_seed(seed), config.provenance
        objective, begins = FragmentLoss.of(plan, fragments.codec), StartLoss(encoder, plan.P_mean, plan.P_std)
        batches = _fragments(visit_worlds(plan, fragments, worlds, generator), plan, config, objective, generator)
        if config.curiosity is not None:
            batches = _add_curiosity(batches, fragments, objective, plan, config.curiosity, generator)
        fewer = dataclasses.replace(config, steps=min(config.steps, max(START_STEPS, config.warmup + 1)))
        first = _starts(visit_worlds(plan, starts, worlds, generator), config, begins, generator)
        averages = [_train(starts, begins, first, fewer, None), _train(fragments, objective, batches, config, progress)]
    return PretrainedModels(encoder, averages[0], averages[1], provenance)


def _train(
    model: Denoiser | FragmentModel,
    objective: StartLoss | FragmentLoss,
    batches: Iterable[Rows],
    config: Pretraining,
    progress: PublicProgress | None,
) -> dict[str, Tensor]:
    device = next(model.parameters()).device

    def loss(rows: Rows) -> Tensor:
        return objective.loss(model, {name: tensor.to(device) for name, tensor in rows.items()}).mean()

    return train_publicly(model.network, batches, loss, config, progress)


def _worlds(public: Trajectories | Sequence[Trajectories]) -> Sequence[Trajectories]:
    return public if isinstance(public, Sequence) else [public]


def visit_worlds(
    plan: TrajectoriesPlan, model: Denoiser | FragmentModel, worlds: Sequence[Trajectories], generator: torch.Generator
) -> Iterator[Trajectories]:
    """Random worlds, by their numbers of rows, each after the model has seen it, through noise of its own."""
    # With so much noise as the calibrated plan's histograms have; before calibration with any in `LEVELS`.
    rows = torch.tensor([float(world.episodes[-1]) for world in worlds])
    around, noise = model.network.around, np.random.default_rng(generator.initial_seed())
    assert isinstance(around, ContextFeatures)
    seen = around.world
    shares = [] if seen is None else [seen.matching.public_shares(world.columns) for world in worlds]
    deviation = share_noise(plan)
    while True:
        chosen = int(torch.multinomial(rows, 1, generator=generator)) if len(worlds) > 1 else 0
        if seen is not None:
            level = math.exp(noise.uniform(*np.log(LEVELS))) if deviation is None else deviation
            noisy = [share + noise.normal(0.0, level, share.shape) for share in shares[chosen]]
            around.set_world(seen.world_tables(noisy))
        yield worlds[chosen]


def share_noise(plan: TrajectoriesPlan) -> float | None:
    """The standard deviation of the noise of shares in a calibrated plan's histograms; None before calibration."""
    if plan.matching is None or plan.promise is None or plan.parts()[-1].noise_multiplier is None:
        return None
    uniform = np.concatenate([np.full(size, 1 / size) for size in plan.matching.sizes])
    released = plan.noisy_histograms(uniform, plan.matching.steps)
    return None if released is None else released.shares()[1]


def _fragments(
    worlds: Iterator[Trajectories],
    plan: TrajectoriesPlan,
    config: Pretraining,
    objective: FragmentLoss,
    generator: torch.Generator,
) -> Iterator[Rows]:
    """Batches of random fragments of a world as units of one fragment each, [B, 1, H + 2, ...], with their draws."""
    for world in worlds:
        chosen = torch.randint(int(world.episodes[-1]), (config.batch,), generator=generator).numpy()
        rows = windows(world.columns, world.episodes, chosen, plan.horizon + 2)
        rows = {name: tensor[:, None] for name, tensor in rows.items()}
        yield rows | objective.draw(generator, config.batch, 1)


def _starts(
    worlds: Iterator[Trajectories], config: Pretraining, objective: StartLoss, generator: torch.Generator
) -> Iterator[Rows]:
    """Batches of random episodes' first rows, [B, 1, ...], with their draws."""
    there = torch.ones(config.batch, 1, dtype=torch.bool)
    for world in worlds:
        columns, first = world.columns, world.episodes[:-1]
        chosen = first[torch.randint(len(first), (config.batch,), generator=generator).numpy()]
        rows = {name: torch.from_numpy(np.asarray(column)[chosen])[:, None] for name, column in columns.items()}
        yield rows | {"mask": there, "starts": there} | objective.draw(generator, config.batch, 1)


def _add_curiosity(
    batches: Iterator[Rows],
    model: FragmentModel,
    objective: FragmentLoss,
    plan: TrajectoriesPlan,
    settings: Curiosity,
    generator: torch.Generator,
) -> Iterator[Rows]:
    """The paper's curiosity on fragments: the most novel generated ones take the place of real ones."""
    # Each is generated under the condition of a real one and replaces that one. Its novelty is the mean over its rows.
    codec, sampler = model.codec, dataclasses.replace(plan.sampler, steps=settings.sampler_steps)
    device = next(model.parameters()).device
    novelty = NoveltyScore(codec.step_size, learning_rate=settings.learning_rate, generator=generator, device=device)
    for rows in batches:
        on_device = {name: tensor.to(device) for name, tensor in rows.items()}
        condition, clean, mask = codec.cut(on_device, on_device["spread"])
        flat, there = condition.transform(lambda tensor: tensor[:, 0]), mask[:, 0]
        steps = model.sample_steps(flat, sampler, generator)
        score = (novelty.score(steps) * there).sum(1) / there.sum(1).clamp(min=1)
        novelty.update(steps[there])
        count = int(settings.rate * len(score))
        taken = score.topk(count).indices
        clean[taken, 0] = steps[taken]
        yield rows | {"clean": clean}


def _error(what: str, expected: str) -> DataError:
    remedy = "pass the trajectories that plan.pretraining declares, or pretraining=None without any"
    return DataError(what, where="trajectories.pretrain", expected=expected, remedy=remedy)
