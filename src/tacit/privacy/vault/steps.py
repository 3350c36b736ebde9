"""What one step adds up: the clipped contributions of a sample, on top of what the sum begins with.

In a `Vault` a sum begins with nothing, and the whole noise is added to it. On the ranks of a `ShardedVault` it begins
with the rank's share of the noise.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tacit.privacy.gradients import clipping
from tacit.privacy.mechanisms.base import Contribution, Objective, Sum
from tacit.privacy.mechanisms.contribution_sets import move_inside
from tacit.privacy.mechanisms.tallies import Tally, clipped_tallies
from tacit.privacy.noise.lattice import Float64, add_noise
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.isolation import draw_in_blocks
from tacit.privacy.vault.records import SealedRecords
from tacit.privacy.vault.removal import run_apart

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from tacit.privacy.gradients.accumulator import GradientSum


SPREAD = 2.0
"""Standard deviations of a chunk's number of units for which there are places in a pass that it shares."""

TOGETHER = 1 << 14
"""Rows, places of nobody included, of the chunks that share a pass."""


@dataclass(frozen=True)
class VectorStep:
    """One sum of clipped vectors, or of counted rows."""

    part: Sum  # of the plan
    work: Contribution | Tally  # rows of units -> a vector each, or a tally
    state: Any  # public, for the work
    size: int  # d, numbers of a vector

    def noisy_mean(
        self, records: SealedRecords, noise: SecretNoise, scale: float, divisor: float, replicates: int
    ) -> Float64:
        """The sum with N(0, scale^2) a coordinate, on the lattice, over the public divisor; [R, d]."""
        total = self.add_samples(records, noise, np.zeros((replicates, self.size)), divisor)
        return add_noise(total, scale, noise) / divisor

    def add_samples(self, records: SealedRecords, noise: SecretNoise, totals: Float64, expected: float) -> Float64:
        """`begun` [R, d] with the clipped sum of a fresh sample for each replicate; in place."""
        clip, replicates, residuals = self.part.clip_norm, len(totals), np.zeros_like(totals)
        if not callable(self.work):
            for rows, owner, replicate in records.sample_flat_rows(self.part):
                clipped_tallies(self.work, rows, self.state, clip, owner, replicate, totals, residuals)
            return np.add(totals, residuals, out=totals)
        for rows in records.sample_pieces(self.part, getattr(self.work, "summary", None), self.size):
            vectors = np.asarray(self.work(rows, self.state), np.float64)
            if vectors.shape != (len(rows["replicate"]), self.size):
                raise ValueError("not one vector a unit")
            vectors = move_inside(self.part.blocks, vectors, clip, self.part.name)
            clipping.clipped_sums(vectors, clip, rows["replicate"], replicates, totals, residuals)
        return np.add(totals, residuals, out=totals)

    def to_caller(self, mean: Float64) -> Float64:
        """The mean as the caller gets it."""
        return mean


@dataclass(frozen=True)
class GradientStep:
    """One sum of clipped per-unit gradients."""

    part: Sum  # of the plan
    models: Sequence[nn.Module]  # one a replicate, of P trainable parameters each
    objective: Objective  # one loss a unit
    max_units: int | None = None  # how many units it takes at once, if it is the user's: no more than it was tried on

    @property
    def size(self) -> int:
        """P, numbers of a gradient."""
        return sum(p.numel() for p in self.models[0].parameters() if p.requires_grad)

    def noisy_mean(
        self, records: SealedRecords, noise: SecretNoise, scale: float, divisor: float, replicates: int
    ) -> Tensor:
        """The sum with N(0, scale^2) a coordinate, on the lattice, over the public divisor; [R, P] float32."""
        import torch

        means = [total.noisy_mean(scale, divisor, noise) for total in self._sums(records, noise, None, divisor)]
        return torch.stack(means) if len(means) > 1 else means[0][None]

    def add_samples(self, records: SealedRecords, noise: SecretNoise, totals: Float64, expected: float) -> Float64:
        """`begun` [R, P] with the clipped sum of a fresh sample for each replicate."""
        return np.stack([total.total() for total in self._sums(records, noise, totals, expected)])

    def to_caller(self, mean: Float64) -> Tensor:
        """The mean as the caller gets it: float32, where the models are."""
        import torch

        return torch.from_numpy(mean.astype(np.float32)).to(self.device)

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return next(self.models[0].parameters()).device

    @property
    def setting(self) -> tuple[object, ...]:
        """All that the next step of the same models may share with this one: everything but the weights that learn."""
        tensors = (tensor for model in self.models for tensor in (*model.parameters(), *model.buffers()))
        still = (tensor._version for tensor in tensors if not tensor.requires_grad)
        modes = (module.training for model in self.models for module in model.modules())
        return (self.part, self.objective, *map(id, self.models), *still, *modes)

    def weights(self) -> npt.NDArray[np.float32]:
        """The weights that learn, model after model, [R P]."""
        import torch

        return np.asarray(torch.cat([p.detach().flatten() for p in self._trainable()]).cpu().numpy())

    def load_weights(self, weights: npt.NDArray[np.float32]) -> None:
        """Take up what `weights` gave."""
        import torch

        with torch.no_grad():
            parts = torch.split(torch.from_numpy(weights), [p.numel() for p in self._trainable()])
            for p, part in zip(self._trainable(), parts, strict=True):
                p.copy_(part.view_as(p))

    def _trainable(self) -> list[nn.Parameter]:
        return [p for model in self.models for p in model.parameters() if p.requires_grad]

    def to_device(self, kind: str, index: int) -> GradientStep:
        """The step with copies of the models on a device of this kind, of those that are there by its number."""
        import torch

        device = torch.device(kind) if kind == "cpu" else torch.device(kind, index % torch.accelerator.device_count())
        return replace(self, models=tuple(copy.deepcopy(model).to(device) for model in self.models))

    def _sums(
        self, records: SealedRecords, noise: SecretNoise, totals: Float64 | None, expected: float
    ) -> list[GradientSum]:
        import torch

        from tacit.privacy.gradients.accumulator import UNITS_PER_CHUNK, GradientSum
        from tacit.privacy.gradients.clipped_sums import add_clipped, secret_generator, trainable_parameters

        part, objective = self.part, self.objective
        chunks = math.ceil(expected / UNITS_PER_CHUNK)
        block = math.ceil(expected / chunks + SPREAD * math.sqrt(expected / chunks))  # of most chunks, one is enough
        alone = len(self.models) > 1 or self.max_units is not None
        size = 1 if alone else TOGETHER // (block * part.rows_per_unit * part.horizon)
        first = [None] * len(self.models) if totals is None else totals
        pairs = zip(self.models, first, strict=True)
        sums = [GradientSum(trainable_parameters(model), begin) for model, begin in pairs]
        generator = secret_generator(noise)
        for rows, together in records.sample_chunks(part, chunks, block=block, together=size):
            starts = np.searchsorted(rows["replicate"], np.arange(len(sums) + 1)).tolist()
            for model, total, start, stop in zip(self.models, sums, starts, starts[1:], strict=False):
                tensors = {name: torch.from_numpy(column[start:stop]) for name, column in rows.items()}
                tensors |= draw_in_blocks(objective, generator, stop - start, part.rows_per_unit, block)
                tensors = {name: tensor.to(self.device) for name, tensor in tensors.items()}
                shares = getattr(objective, "shares", None)
                if together:
                    add_clipped(total, model, objective.loss, tensors, part.clip_norm, shares=shares, chunks=together)
                    continue
                total.start_chunk()
                if self.max_units is None:
                    add_clipped(total, model, objective.loss, tensors, part.clip_norm, shares=shares)
                else:
                    self._add_apart(total, model, tensors, self.max_units)
        return sums

    def _add_apart(self, total: GradientSum, model: nn.Module, tensors: Mapping[str, Tensor], max_units: int) -> None:
        # Add the clipped gradients of an objective of the user's; a unit on which it raises adds nothing.
        from tacit.privacy.gradients.clipped_sums import add_clipped

        loss, shares = self.objective.loss, getattr(self.objective, "shares", None)

        def add(piece: dict[str, Tensor], _: int) -> bool:
            copies = {name: tensor.clone() for name, tensor in piece.items()}  # into which the objective may write
            with total.all_or_nothing():
                add_clipped(total, model, loss, copies, self.part.clip_norm, shares=shares)
            return True

        for _ in run_apart(add, tensors, max_units, False):
            pass  # each piece has added itself
