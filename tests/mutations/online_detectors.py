"""Detectors for people who are enrolled online, as those of `detectors.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import binom
from user_cases import Earned, Scripted, open_user_vault, priced, user_sum
from vault_cases import Silent

from tacit.errors import LedgerError
from tacit.privacy.vault.user_vault import UserVault

RARE = 1e-7  # p-values below this are no accident


def _actor(*_: Any) -> np.ndarray:
    return np.zeros(1)


def _close(vault: UserVault) -> None:
    vault.ledger.close()
    vault._register.close()


def neighbours_of_meetings(folder: Path) -> None:
    """Somebody comes again and again, twice at once and after a restart: all sums together move by one clip."""
    totals = []
    for name, answer in (("with", [8.0]), ("without", [])):
        own, sums = folder / name, []
        own.mkdir()
        rewards = {"canary": answer, "ann": [0.1], "bob": [0.1], "cy": [0.1]}
        rounds = [[["canary", "ann", "canary"]], [["bob", "canary"]], [["canary"]], [["cy", "canary"]]]
        plan = priced(user_sum(steps=8, clip_norm=1.0))
        for part in (rounds[:2], rounds[2:]):
            vault = open_user_vault(own, Scripted(part, rewards), noise=Silent())
            run = vault.reserve(plan)
            for _ in part:
                vault.enroll(run, _actor)
                sums.append(4 * float(vault.noisy_sum(run, "policy", Earned())[0, 0]))
                try:
                    sums.append(4 * float(vault.noisy_sum(run, "policy", Earned())[0, 0]))
                except LedgerError:
                    sums.append(0.0)
            _close(vault)
        totals.append(sums)
    moved = np.abs(np.subtract(*totals)).sum()
    assert moved <= 1.0 + 2**-7, f"one person moved the sums by {moved:.3g} clips"


def correlated_noise_law(folder: Path) -> None:
    """C times the noise of the sums, over the stated scale, is standard normal, in every step and after a restart."""
    steps, width, sigma, clip = 12, 2_000, 1.5, 0.5
    plan = priced(user_sum(steps=2 * steps, clip_norm=clip, noise_multiplier=sigma))
    for left in (2 * steps, steps):
        vault = open_user_vault(folder, Scripted([], {}))
        run = vault.reserve(plan)
        noise = []
        for _ in range(steps):
            vault.enroll(run, _actor)
            noise.append(4 * vault.noisy_sum(run, "policy", Earned(width))[0])
        _close(vault)
        k = np.arange(left)
        column = binom(2 * k, k) / 4.0**k
        strategy = np.array([[column[t - s] if t >= s else 0.0 for s in range(steps)] for t in range(steps)])
        white = strategy @ np.array(noise) / (sigma * clip * np.linalg.norm(column))
        assert stats.kstest(white.ravel(), "norm", method="asymp").pvalue > RARE, (
            f"the noise has {white.std():.3f} times its standard deviation"
        )
        together = abs((white[1:] * white[:-1]).sum()) / np.sqrt(white[1:].size)
        assert together < stats.norm.isf(RARE), "the noise is not what the factorisation says"
