"""A certificate of a small release, and ways to break the doors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from vault_cases import Rewards, open_vault, priced

from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.gradients import clipping
from tacit.privacy.mechanisms.releases import Axis, NoisyHistogram
from tacit.privacy.noise.correlated import CorrelatedNoise
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import vault
from tacit.privacy.vault.base import Label

HISTOGRAM = NoisyHistogram(name="bins", axes=(Axis("rewards", 0, (-10.0, 0.0, 10.0)),), noise_multiplier=2.0)
"""A part that is no noisy sum."""

Plant = Callable[[pytest.MonkeyPatch], None]


def certificate(folder: Path, **fields: Any) -> Certificate:
    """Of a noisy sum over a few invented people."""
    opened = open_vault(folder, [[1.0], [2.0]], name="released")
    run = opened.reserve(priced(opened, **{"noise_multiplier": 1.0, "steps": 3} | fields))
    opened.noisy_sum(run, "sum", Rewards())
    found: Certificate = opened.release(run, 0.0, label=Label((), (), ())).certificate
    opened.ledger.close()
    return found


def no_clip(patch: pytest.MonkeyPatch) -> None:
    """Nobody's contribution is scaled."""
    patch.setattr(clipping, "coefficients", lambda norms, clip: norms * 0 + 1)


def half_sigma(patch: pytest.MonkeyPatch) -> None:
    """The noise of one neighbour definition, the account of the other."""
    real = vault._sigma
    patch.setattr(vault, "_sigma", lambda spec: real(spec) / 2)


def half_correlated(patch: pytest.MonkeyPatch) -> None:
    """The same for people who are met."""
    real = CorrelatedNoise.next_noise
    patch.setattr(CorrelatedNoise, "next_noise", lambda self, size, scale: real(self, size, scale / 2))


def forgotten_scale(patch: pytest.MonkeyPatch) -> None:
    """A fortieth of the noise, as where it is divided by the number of people twice."""
    real = vault._sigma
    patch.setattr(vault, "_sigma", lambda spec: real(spec) / 40)


def forgotten_share(patch: pytest.MonkeyPatch) -> None:
    """The same on devices, whose shares are variances."""
    real = SecretNoise.discrete_gaussian
    patch.setattr(SecretNoise, "discrete_gaussian", lambda self, size, variance: real(self, size, variance // 1_600))
