"""PrivORL-j ("PrivORL: Differentially Private Synthetic Dataset for Offline RL", section V), with its guarantee kept.

Input: public trajectories, private ones behind a vault, a calibrated plan (T, T_0, q, C, sigma, L, H, K)
1. pre-train both models on the public trajectories                        (pretraining.py; no private row)
2. for t = 1 .. T_0:                                                       (where episodes begin)
3.     g_t <- vault.noisy_gradient over the first rows of a Poisson(q) sample of units
4.     theta_0 <- Adam(theta_0, g_t)
5. for t = 1 .. T:                                                         (how they go on)
6.     g_t <- vault.noisy_gradient: every unit of a Poisson(q) sample gives the gradient of its mean loss over L
          fragments of H rows and K noise draws, clipped to C; their sum gets N(0, (sigma C)^2)
7.     theta <- Adam(theta, g_t)
8. with matching: h <- vault.noisy_sum: every unit gives the mean histograms of its rows, clipped together; with
   local context this comes first, and both models see h around every place from then on (networks.py)
9. release the averages and h; stitching trajectories and weighting them is post-processing (stitching.py)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.hardware import torch_device
from tacit.methods.synthesis.diffusion import Denoiser, chains
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import Progress, Sampler
from tacit.methods.synthesis.table_matching import resample
from tacit.methods.synthesis.training import Observe, Training, starting_point
from tacit.methods.synthesis.trajectories import stitching
from tacit.methods.synthesis.trajectories.models import FragmentLoss, FragmentModel, StartLoss
from tacit.methods.synthesis.trajectories.networks import ContextFeatures
from tacit.methods.synthesis.trajectories.plan import FRAGMENTS, STARTS, TrajectoriesPlan
from tacit.methods.synthesis.trajectories.pretraining import PretrainedModels, pretrain
from tacit.methods.synthesis.trajectories.stitching import PopulatedBins, Stitched, stitch, trajectory_weights
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.base import Objective
from tacit.privacy.vault.vault import Vault
from tacit.validation import require_whole

if TYPE_CHECKING:
    from tacit.data.trajectories import Trajectories


BATCH = 2_000
"""Trajectories that are stitched at a time."""
CANDIDATES, MOST_CANDIDATES = 6, 10_000
"""Trajectories for each one that is taken of them, as long as these are no more than so many in all; at least 2."""


@dataclass(frozen=True, eq=False)
class TrajectorySynthesizer:
    """Models of first observations and of fragments that have left the vault.

    Args:
        plan: the public parameters they were trained with.
        encoder: the public constants of their rows.
        starts, fragments: the averaged parameters of their networks, by name.
        histograms: the released tables of `plan.matching`, one after another; None where the plan has none, or where an
            interruption lost them after they were paid for: then trajectories are not weighted.
        sums: of how many noisy sums they are the mean; fewer than the plan's where an interruption lost some.
    """

    plan: TrajectoriesPlan
    encoder: Encoder
    starts: Mapping[str, Tensor]
    fragments: Mapping[str, Tensor]
    histograms: NDArray[np.float64] | None = None
    sums: int = 0
    draws_trajectories: ClassVar[bool] = True

    def __repr__(self) -> str:
        parameters = sum(tensor.numel() for part in (self.starts, self.fragments) for tensor in part.values())
        matched = "" if self.histograms is None else ", matched"
        return f"Synthesizer({parameters:,} parameters, fragments of {self.plan.horizon} steps{matched})"

    def models(self) -> tuple[Denoiser, FragmentModel]:
        """The models of first observations and of fragments with their released weights."""
        models = PretrainedModels(self.encoder, self.starts, self.fragments, "released").models(self.plan)
        for model in models:
            show(self.plan, model, self.histograms, self.sums)
        return models

    def sample_trajectories(
        self, count: int, *, seed: int, sampler: Sampler | None = None, device: str = "cpu"
    ) -> Stitched:
        """`count` trajectories as columns of raw units inside the public bounds.

        They are independent, or, with released histograms, taken from a larger sample so that their rows agree with
        these (`stitching.trajectory_weights`).

        Args:
            count: how many trajectories; at least 1.
            seed: of the sampling; public, since sampling is post-processing.
            sampler: another sampler than the plan's.
            device: where the networks run. A seed gives the same random numbers everywhere; rows differ by rounding.

        Raises:
            HardwareError: there is no such device.
            PlanError: there is nothing to sample, or the model gives values that are not finite.
        """
        require_whole(count=count)
        generator = torch.Generator().manual_seed(seed)
        where = torch_device(device, where="Synthesizer.sample_trajectories")
        sampler, released = sampler or self.plan.sampler, self.plan.noisy_histograms(self.histograms, self.sums)
        if released is None:
            return self._draw_stitched(count, 0, sampler, generator, where)
        stitched = self._draw_stitched(candidate_count(count), released.matching.pool, sampler, generator, where)
        weights = trajectory_weights(released, stitched, count=count, episodes=self.plan.episodes_per_unit)
        return stitching.pick_trajectories(stitched, resample(weights, count, np.random.default_rng(seed)))

    def sample_columns(
        self, count: int, *, seed: int, sampler: Sampler | None = None, device: str = "cpu"
    ) -> dict[str, NDArray[Any]]:
        """`count` transitions as columns of raw units, in no order: rows of independent trajectories.

        With released histograms each row is drawn by a weight of its own (`NoisyHistograms.weights`), so that some
        occur repeatedly. Rows agree with the histograms much better than whole trajectories can, in which some rows are
        always where nobody is: agents, which look at single rows, learn from these.

        Args:
            count: how many rows; at least 1.
            seed, sampler, device: as of `sample_trajectories`.

        Raises:
            HardwareError, PlanError: as of `sample_trajectories`.
        """
        require_whole(count=count)
        where = torch_device(device, where="Synthesizer.sample_columns")
        released = self.plan.noisy_histograms(self.histograms, self.sums)
        generator, rng = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
        pool = count if released is None else max(released.matching.pool, 2 * count)
        columns = self._draw_stitched(1, pool, sampler or self.plan.sampler, generator, where).columns
        if released is None:
            chosen = rng.choice(len(columns["rewards"]), count, replace=False)
        else:
            chosen = resample(released.weights(columns), count, rng)
        return {name: column[chosen] for name, column in columns.items()}

    def _draw_stitched(
        self, count: int, rows: int, sampler: Sampler, generator: torch.Generator, device: torch.device
    ) -> Stitched:
        """Independent trajectories, at least so many, with at least so many rows in all."""
        starts, fragments = self.models()
        starts.to(device), fragments.to(device)
        released = self.plan.noisy_histograms(self.histograms, self.sums)
        parts, length = list[Stitched](), self.plan.longest
        populated = None if released is None else PopulatedBins.of(released.matching, *released.shares())
        trajectories = grown = 0

        def draw(indices: Tensor) -> tuple[Tensor]:
            first = chains(starts, (len(indices), fragments.codec.state_size), sampler, generator, device)
            return (fragments.codec.decode_observation(first),)

        def count_missed(indices: Tensor, first: tuple[Tensor, ...]) -> Tensor:
            return torch.zeros_like(indices) if populated is None else populated.is_empty(first[0]).long()

        while trajectories < count or grown < rows:
            size = min(BATCH, max(count - trajectories, -(-(rows - grown) // length)))
            first = stitching.redraw_missed(draw, count_missed, torch.arange(size, device=device))[0]
            parts.append(stitch(fragments, first, sampler, generator, populated=populated))
            trajectories, grown = trajectories + size, grown + int(parts[-1].episodes[-1])
            length = max(1, grown // trajectories)
        return _concatenate(parts)

    def sample(self, count: int, *, seed: int = 0, sampler: Sampler | None = None, device: str = "cpu") -> Trajectories:
        """`count` independent trajectories as a data set that belongs to nobody, one unit a trajectory."""
        return to_trajectories(self.sample_trajectories(count, seed=seed, sampler=sampler, device=device), self.encoder)


def show(
    plan: TrajectoriesPlan, model: Denoiser | FragmentModel, histograms: NDArray[np.float64] | None, sums: int
) -> None:
    """Let a model see the private world as released histograms tell it, if the plan has it look."""
    # histograms: released tables, None without any
    around, released = model.network.around, plan.noisy_histograms(histograms, sums)
    if plan.local_context is None or released is None:
        return
    assert isinstance(around, ContextFeatures)
    assert around.world is not None
    around.set_world(around.world.world_tables(released.shares()[0]))


def to_trajectories(stitched: Stitched, encoder: Encoder) -> Trajectories:
    """Sampled trajectories as a data set; propensities are not synthesised: no behaviour policy chose these actions."""
    from tacit.data.trajectories import Trajectories

    owner = np.repeat(np.arange(len(stitched.episodes) - 1), np.diff(stitched.episodes))
    columns: dict[str, Any] = encoder.spec.raw(stitched.columns)
    spec = dataclasses.replace(encoder.spec, propensities=False)
    return Trajectories.from_arrays(**columns, unit_ids=owner, episode_ids=owner, spec=spec, simulated=True)


def candidate_count(count: int) -> int:
    """Of how many trajectories `count` are taken."""
    return max(2 * count, min(CANDIDATES * count, MOST_CANDIDATES))


def _concatenate(parts: list[Stitched]) -> Stitched:
    offsets = np.cumsum([0, *(part.episodes[-1] for part in parts)])
    names = parts[0].columns
    return Stitched(
        columns={name: np.concatenate([part.columns[name] for part in parts]) for name in names},
        episodes=np.concatenate(
            [[0], *(part.episodes[1:] + offset for part, offset in zip(parts, offsets, strict=False))]
        ),
        stitches=np.concatenate([part.stitches + offset for part, offset in zip(parts, offsets, strict=False)]),
    )


def fit(
    plan: TrajectoriesPlan,
    vault: Vault,
    *,
    pretrained: PretrainedModels | None = None,
    folder: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    observe: Observe | None = None,
    device: str = "cpu",
) -> Release[TrajectorySynthesizer]:
    """Train a synthesizer of trajectories under the plan's promise.

    Args:
        plan: calibrated for the vault's unit.
        vault: the private rows and their ledger.
        pretrained: the starting point that `plan.pretraining` declares (`trajectories.pretrain`); None without one.
        folder: where checkpoints go, after every block of claimed steps (at most 1 % of them).
        resume: go on from `folder`'s checkpoint, or from the start where a run was stopped before its first one; steps
            that were claimed but not kept are lost, never run again.
        progress: called after each step, of either model.
        observe: sees every noisy gradient, for audits and learning curves: it costs no privacy.
        device: where the networks are trained; the noise is always drawn on the CPU, from the vault's secret source.

    Raises:
        HardwareError: there is no such device.
        PlanError: the pre-training is not the one that the plan declares.
        PlanExhausted: the plan was begun or finished already, and this is not a resumption.
        BudgetExceeded: the ledger cannot pay for the plan.
    """
    where = torch_device(device, where="trajectories.fit")
    begins, fragments = starting_point(
        plan, vault, pretrained, lambda encoder: pretrain(plan, encoder, None, seed=0), where="trajectories"
    ).models(plan)
    models = {STARTS: begins.to(where), FRAGMENTS: fragments.to(where)}
    objectives: dict[str, Objective] = {
        STARTS: StartLoss(begins.encoder, plan.P_mean, plan.P_std),
        FRAGMENTS: FragmentLoss.of(plan, fragments.codec),
    }
    training = Training(plan, vault, models, folder=folder, resume=resume, progress=progress)
    if plan.local_context is not None:
        training.release_histograms()
        for model in models.values():
            show(plan, model, *training.histograms)
    for part in training.trained:
        rate = partial(plan.learning_rate_at, part.name)
        training.descend(part.name, objectives[part.name], learning_rate=rate, observe=observe)
    training.release_histograms()
    weights = training.average(STARTS), training.average(FRAGMENTS)
    return training.release(TrajectorySynthesizer(plan, begins.encoder, *weights, *training.histograms))
