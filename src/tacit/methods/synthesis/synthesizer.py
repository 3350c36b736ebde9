"""The released synthesizer: public weights that rows are sampled from, at no further cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.hardware import torch_device
from tacit.methods.synthesis.diffusion import Denoiser, ResidualMLP, build_network, sample
from tacit.methods.synthesis.discretisation import as_trajectories
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import TransitionsPlan
from tacit.methods.synthesis.raking import resampled
from tacit.methods.synthesis.settings import Sampler
from tacit.methods.synthesis.training import load_parameters

if TYPE_CHECKING:
    from tacit.data.trajectories import Trajectories


@dataclass(frozen=True, eq=False)
class Synthesizer:
    """A denoiser of transitions that has left the vault.

    Args:
        plan: the public parameters it was trained with.
        encoder: the public constants of its rows.
        weights: the averaged parameters of its network, by name.
        histograms: the released tables of `plan.raking`, one after another, [sum of its sizes]; None where the plan has
            none, or where an interruption lost them after they were paid for: then rows are not weighted.
        sums: of how many noisy sums they are the mean; fewer than the plan's where an interruption lost some.
    """

    plan: TransitionsPlan
    encoder: Encoder
    weights: Mapping[str, Tensor]
    histograms: NDArray[np.float64] | None = None
    sums: int = 0

    def __repr__(self) -> str:
        parameters = sum(tensor.numel() for tensor in self.weights.values())
        raked = "" if self.histograms is None else ", raked"
        return f"Synthesizer({parameters:,} parameters, rows of {self.encoder.size} numbers{raked})"

    def network(self) -> ResidualMLP:
        """A network of the plan's size, with random weights."""
        return build_network(self.plan, self.encoder.size)

    def model(self) -> Denoiser:
        """The denoiser with its released weights."""
        model = Denoiser(self.encoder, self.network())
        load_parameters(model.network, self.weights)
        return model

    def sample_columns(
        self, count: int, *, seed: int, sampler: Sampler | None = None, device: str = "cpu"
    ) -> dict[str, np.ndarray]:
        """`count` transitions as columns of raw units inside the public bounds.

        They are independent, or, with released histograms, rows of a larger sample that are drawn by their weights
        (`NoisyHistograms.weights`), so that some occur repeatedly.

        Args:
            count: how many rows.
            seed: of the sampling; public, since sampling is post-processing.
            sampler: another sampler than the plan's.
            device: where the network runs, `cpu` or an accelerator such as `cuda`. A seed gives the same random
                numbers everywhere; the rows differ by rounding.

        Raises:
            HardwareError: there is no such device.
        """
        where = torch_device(device, where="Synthesizer.sample_columns")
        released = self.plan.released(self.histograms, self.sums)
        drawn = count if released is None else max(released.raking.pool, 2 * count)
        generator = torch.Generator().manual_seed(seed)
        rows = sample(self.model().to(where), drawn, sampler or self.plan.sampler, generator)
        columns = {name: column.cpu().numpy() for name, column in rows.items()}
        if released is not None:
            chosen = resampled(released.weights(columns), count, np.random.default_rng(seed))
            columns = {name: column[chosen] for name, column in columns.items()}
        return {**columns, "truncations": np.zeros(count, bool)}

    def sample(self, count: int, *, seed: int = 0, sampler: Sampler | None = None, device: str = "cpu") -> Trajectories:
        """`count` transitions as a data set (see `sample_columns` and `rows.as_trajectories`)."""
        columns = self.sample_columns(count, seed=seed, sampler=sampler, device=device)
        return as_trajectories(columns, self.encoder.spec)
