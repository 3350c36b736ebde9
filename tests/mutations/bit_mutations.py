"""Mistakes with the digits of sums and noise, planted as those of `mutations.py`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tacit.privacy.gradients.accumulator import GradientSum
from tacit.privacy.mechanisms.smooth_sensitivity import RegularisedLoss
from tacit.privacy.noise import lattice, secret
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.records import SealedRecords
from tacit.privacy.vault.vault import Vault

Plant = Callable[[pytest.MonkeyPatch], None]


def _lattice(patch: pytest.MonkeyPatch, step: Callable[[float], float]) -> None:
    for module in (lattice, secret):
        patch.setattr(module, "step", step)


def no_lattice(patch: pytest.MonkeyPatch) -> None:
    """A noisy sum is released with all of its digits."""
    _lattice(patch, lambda scale: 0.0)


def lattice_finer_than_the_digits(patch: pytest.MonkeyPatch) -> None:
    """The step is 2^-32 of the noise, whose float32 digits end at 2^-24 of it."""
    real = lattice.step
    _lattice(patch, lambda scale: real(scale) * 2.0**-24)


def lattice_of_the_noises_own_digits(patch: pytest.MonkeyPatch) -> None:
    """The step is that of float32 noise near its standard deviation, so that larger noise takes even multiples only."""
    real = lattice.step
    _lattice(patch, lambda scale: real(scale) * 2.0**-15)


def rounded_after_the_division(patch: pytest.MonkeyPatch) -> None:
    """The mean, not the noisy sum, is rounded: to twelve decimals, whatever noise and population are."""
    no_lattice(patch)
    for door in ("noisy_sum", "noisy_gradient"):
        real = getattr(Vault, door)

        def broken(self: Vault, *given: Any, real: Any = real) -> Any:
            return real(self, *given).round(decimals=12)

        patch.setattr(Vault, door, broken)


def rounded_before_the_noise(patch: pytest.MonkeyPatch) -> None:
    """The sum is brought onto a lattice that is public, and the noise added to that keeps its own digits."""
    real = lattice.step

    def broken(total: Any, noise: Any, scale: float) -> Any:
        grid = real(scale) / 2**16
        return (np.rint(total / grid) * grid if grid else total) + noise

    patch.setattr(lattice, "round_to_lattice", broken)


def lattice_of_a_private_scale(patch: pytest.MonkeyPatch) -> None:
    """The step follows from the scale that the records call for, and not from the least there is."""
    real = RegularisedLoss._add_noise
    patch.setattr(
        RegularisedLoss, "_add_noise", lambda self, theta, scale, least, noise: real(self, theta, scale, scale, noise)
    )


def chunks_added_in_float32(patch: pytest.MonkeyPatch) -> None:
    """All units are summed into the same float32 numbers."""
    patch.setattr(GradientSum, "start_chunk", lambda self: None)


def noise_added_in_float32(patch: pytest.MonkeyPatch) -> None:
    """The sum is rounded to float32 before it gets its noise."""
    real, mean = lattice.round_to_lattice, SecretNoise.noisy_mean

    def broken(total: Any, noise: Any, scale: float) -> Any:
        return real((total.astype(np.float32) + noise.astype(np.float32)).astype(np.float64), np.zeros(1), scale)

    def broken_mean(self: SecretNoise, total: Any, *given: Any) -> Any:
        return mean(self, total.astype(np.float32), *given)

    patch.setattr(lattice, "round_to_lattice", broken)
    patch.setattr(SecretNoise, "noisy_mean", broken_mean)


def no_places_in_a_shared_pass(patch: pytest.MonkeyPatch) -> None:
    """Chunks that share a pass follow each other without a gap."""
    real = SealedRecords.sample_chunks

    def broken(self: SealedRecords, *given: Any, **options: Any) -> Iterator[Any]:
        for rows, places in real(self, *given, **options):
            ends = [0, *np.cumsum([stop - start for start, stop in places]).tolist()]
            held = np.concatenate([np.arange(*place) for place in places]) if places else slice(None)
            yield {name: column[held] for name, column in rows.items()}, list(itertools.pairwise(ends))

    patch.setattr(SealedRecords, "sample_chunks", broken)


GRADIENT, SUM = "released_bits", "released_bits_of_a_sum"

BITS: tuple[tuple[str, Plant, tuple[str, ...]], ...] = (
    ("no lattice", no_lattice, (SUM,)),  # of gradients, too: `tests/privacy/vault/test_released_bits.py`
    ("a lattice finer than the digits", lattice_finer_than_the_digits, (GRADIENT, SUM)),
    ("a lattice of the noise's own digits", lattice_of_the_noises_own_digits, (SUM,)),
    ("rounded after the division", rounded_after_the_division, (SUM,)),
    ("rounded before the noise", rounded_before_the_noise, (SUM,)),
    ("a lattice of a private scale", lattice_of_a_private_scale, ("released_bits_of_a_regression",)),
    ("chunks added in float32", chunks_added_in_float32, ("movement_of_a_gradient",)),
    ("no places in a shared pass", no_places_in_a_shared_pass, ("places_of_the_others",)),
    ("noise added in float32", noise_added_in_float32, ("movement_of_a_sum",)),
)
