"""The attack on the last digits of a release (I. Mironov, CCS 2012), through the real vault.

The attacker knows everybody's records, the clip and the vector g that the target would add; all others add exactly 0
where the target adds something, as with a rare category. Where float32 noise happens to be close to -g, the sum is
small and ends in zeros, since both have the digits of numbers of the size of g; noise alone of that size does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn
from vault_cases import open_vault, priced, unit_of

from tacit.privacy.vault.vault import Vault

WIDTH = 2_048
STEPS = 10
POPULATION = 1_024
RARE = 7.0
"""The reward of the target, which nobody else has."""
RIGHT = int(stats.binom.isf(1e-9, 36, 0.5))
"""Of 36 guesses, more right ones than this are no chance."""

Release = Callable[[Vault, Any], np.ndarray]


def pattern() -> np.ndarray:
    """What the target adds, before the clip: numbers of many sizes and digits."""
    return np.random.default_rng(5).normal(size=WIDTH).astype(np.float32)


@dataclass(frozen=True)
class OneHot:
    """A linear model of one-hot categories: only the target has the second one."""

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        return {}

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        rare = (rows["rewards"] == RARE).float()
        out = model(torch.stack([1.0 - rare, rare], dim=-1).flatten(0, 1)).view(*rare.shape, WIDTH)
        return ((out * torch.from_numpy(pattern())).sum(-1) * rows["mask"]).sum(1)


def gradient(vault: Vault, run: Any) -> np.ndarray:
    """The coordinates of the rare category, [WIDTH]."""
    model = nn.Linear(2, WIDTH, bias=False)
    flat = vault.noisy_gradient(run, "sum", [model], OneHot())[0]
    return flat.view(WIDTH, 2)[:, 1].double().numpy()


@dataclass(frozen=True)
class Vector:
    """The same as a contribution."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        rare = (rows["rewards"][:, :1] == RARE) & rows["mask"][:, :1]
        return rare * pattern().astype(np.float64)[None]


def total(vault: Vault, run: Any) -> np.ndarray:
    return np.asarray(vault.noisy_sum(run, "sum", Vector())[0])


def exponent(numbers: np.ndarray) -> np.ndarray:
    """e of m 2^e with m in [1/2, 1)."""
    return np.asarray(np.frexp(numbers)[1])


def present(numbers: np.ndarray, own: np.ndarray) -> bool:
    """The attacker's guess: a noisy g that is far smaller than g ends in zeros, k of them; noise does in 2^-k."""
    zeros = exponent(own) - 1 - exponent(numbers)
    small = (zeros >= 1) & (numbers != 0)
    grid = np.ldexp(1.0, exponent(own[small]) - 25)
    return bool(zeros[small].sum() >= 2 and np.all(np.mod(numbers[small], grid) == 0))


def guessed_right(folder: Path, release: Release, sigma: float, trials: int = 36) -> int:
    clipped = pattern() / np.linalg.norm(pattern().astype(np.float64)) * (1 - 1e-4)
    right = 0
    for trial in range(trials):
        there = trial % 2 == 0
        units = [[float(i % 5)] for i in range(40)] + ([[RARE]] if there else [])
        vault = open_vault(folder, units, unit=unit_of(POPULATION), name=f"{trial}")
        run = vault.reserve(priced(vault, noise_multiplier=sigma, steps=STEPS, clip_norm=1.0))
        numbers = np.concatenate([release(vault, run) for _ in range(STEPS)]) * POPULATION
        right += present(numbers, np.tile(clipped, STEPS)) == there
    return right
