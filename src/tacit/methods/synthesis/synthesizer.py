"""The released synthesizer: public weights that rows are sampled from, at no further cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tacit.hardware import torch_device
from tacit.methods.synthesis.diffusion import Denoiser, sample
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.networks import ResidualMLP, build_network, load_parameters
from tacit.methods.synthesis.plan import Plan
from tacit.methods.synthesis.rows import as_trajectories
from tacit.methods.synthesis.settings import Sampler

if TYPE_CHECKING:
    from tacit.data.trajectories import Trajectories


@dataclass(frozen=True, eq=False)
class Synthesizer:
    """A denoiser of transitions that has left the vault.

    Args:
        plan: the public parameters it was trained with.
        encoder: the public constants of its rows.
        weights: the averaged parameters of its network, by name.
    """

    plan: Plan
    encoder: Encoder
    weights: Mapping[str, Tensor]

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
        """`count` independent transitions as columns of raw units inside the public bounds.

        Args:
            count: how many rows.
            seed: of the sampling; public, since sampling is post-processing.
            sampler: another sampler than the plan's.
            device: where the network runs, `cpu` or an accelerator such as `cuda`. A seed gives the same random
                numbers everywhere; the rows differ by rounding.

        Raises:
            HardwareError: there is no such device.
        """
        generator, where = torch.Generator().manual_seed(seed), torch_device(device, where="Synthesizer.sample_columns")
        rows = sample(self.model().to(where), count, sampler or self.plan.sampler, generator)
        columns = {name: column.cpu().numpy() for name, column in rows.items()}
        return {**columns, "truncations": np.zeros(count, bool)}

    def sample(self, count: int, *, seed: int = 0, sampler: Sampler | None = None, device: str = "cpu") -> Trajectories:
        """`count` independent transitions as a data set (see `rows.as_trajectories`)."""
        columns = self.sample_columns(count, seed=seed, sampler=sampler, device=device)
        return as_trajectories(columns, self.encoder.spec)
