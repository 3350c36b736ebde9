"""Random Fourier features of states (Tancik et al. 2020, arXiv:2006.10739; for values Yang et al. 2022, ICLR).

A small network learns what changes slowly first. Where a wall cuts the space, values do not change slowly: an agent
without features takes the way through the wall for progress.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.errors import PlanError

__all__ = ["Fourier"]


@dataclass(frozen=True)
class Fourier:
    """Inputs sin(z w) and cos(z w) beside the standardised state z, with frequencies w that are drawn once a member.

    Args:
        count: F, frequencies: 2 F more inputs.
        bandwidth: standard deviation of the normal frequencies along each dimension of the state, in radians per
            standard deviation of that dimension; 0 leaves a dimension out.

    Raises:
        PlanError: no frequency, a negative or infinite bandwidth, or none above 0.
    """

    count: int
    bandwidth: tuple[float, ...]

    def __post_init__(self) -> None:
        width = np.asarray(self.bandwidth, np.float64)
        wide = bool(np.isfinite(width).all() and (width >= 0.0).all() and width.any())
        for name, sound, expected in (
            ("count", self.count >= 1, "a count of at least 1"),
            ("bandwidth", wide, "a finite number >= 0 for each dimension, one of them above 0"),
        ):
            if not sound:
                raise PlanError(
                    f"{name} is {getattr(self, name)!r}",
                    where="Fourier",
                    expected=expected,
                    remedy=f"choose another {name}, or pass features=None",
                )

    def frequencies(self, dimensions: int, generators: list[torch.Generator]) -> Tensor:
        """[K, d, F], those of a member from its own generator.

        Raises:
            PlanError: the states have another number of dimensions.
        """
        if dimensions != len(self.bandwidth):
            raise PlanError(
                f"{len(self.bandwidth)} bandwidths for states of {dimensions} dimensions",
                where="Fourier",
                expected="one bandwidth for each dimension",
                remedy="give each dimension its bandwidth, or pass features=None",
            )
        width = torch.tensor(self.bandwidth)[:, None]
        return torch.stack([torch.randn(dimensions, self.count, generator=g) * width for g in generators])


def with_waves(states: Tensor, frequencies: Tensor | None) -> Tensor:
    """States [K, B, d] and, beside them, their features: [K, B, d + 2 F]."""
    if frequencies is None:
        return states
    angles = states @ frequencies
    return torch.cat([states, angles.sin(), angles.cos()], -1)


def with_waves_of_arrays(
    states: npt.NDArray[np.float32], frequencies: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """The same of arrays."""
    angles = states @ frequencies
    return np.concatenate([states, np.sin(angles), np.cos(angles)], axis=-1)
