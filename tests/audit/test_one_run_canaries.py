"""Audits from one run through the real door: 400 canaries at once, each pulling at a coordinate of its own.

The bound stays below the certificate and is close to it where that can be; the same code without clipping is refuted.
Noise is seeded, so that a test that passed cannot fail by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vault_cases import open_vault, priced, unit_of

from tacit.evaluation.one_run import OneRunBound, audit
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.gradients import clipping
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.noise.secret import SecretNoise

CANARIES, DELTA = 400, 1e-5


@dataclass(frozen=True)
class Apart:
    """Each unit pulls far beyond the clip at the coordinate that its reward (a share of 10) names."""

    size: int

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        named = np.rint(np.abs(rows["rewards"][:, 0]) / 10 * self.size).astype(int) % self.size
        return 1e3 * np.eye(self.size)[named]


def found(folder: Path, sigma: float) -> OneRunBound:
    """One noisy sum of the canaries that are in; the score of a canary is its coordinate."""
    present = np.random.default_rng(0).random(CANARIES) < 0.5
    units = [[10.0 * number / CANARIES] for number in np.flatnonzero(present)]
    vault = open_vault(folder, units, noise=SecretNoise.for_tests(7), unit=unit_of(1_000))
    run = vault.reserve(priced(vault, steps=1, noise_multiplier=sigma))
    return audit(vault.noisy_sum(run, "sum", Apart(CANARIES))[0], present, delta=DELTA)


def certified(sigma: float) -> float:
    event = PoissonSum(name="sum", steps=1, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=sigma).event
    return accounting.epsilon(event, delta=DELTA, relation="add_or_remove").epsilon


@pytest.mark.parametrize(("sigma", "least"), [(0.3, 2.0), (1.0, 0.5), (4.0, 0.0)])
def test_the_bound_is_below_the_certificate_and_has_power(tmp_path: Path, sigma: float, least: float) -> None:
    assert least <= found(tmp_path, sigma).epsilon <= certified(sigma)


def test_the_twin_that_clips_nothing_is_refuted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clipping, "coefficients", lambda norms, clip: norms * 0 + 1)
    lower = found(tmp_path, 4.0)
    assert lower.correct == lower.guesses
    assert lower.epsilon > 3 * certified(4.0)
