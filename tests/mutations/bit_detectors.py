"""Detectors for the digits of what is released, and for how far one unit moves a float sum, as in `detectors.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bit_attack import TRIALS, told_apart
from bit_cases import CASES
from scipy import stats
from torch import Tensor, nn
from vault_cases import GivenParts, open_vault, own_callbacks, unit_of

from tacit.privacy.gradients.accumulator import UNITS_PER_CHUNK, GradientSum
from tacit.privacy.gradients.clipped_sums import add_clipped, trainable_parameters
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import plan as plans

RARE = 1e-7  # p-values below this are no accident
UNITS = 8_192
CLIP = 1331.5 / 1024 / (1 - 1e-4)
"""What a unit adds at most is no whole number of steps of a float32 sum of so many units, which are 1 / 1024."""
MOST = 1 + 1e-4
"""Clips by which one unit may move a float sum; its contribution has 1 - 1e-4."""


@own_callbacks()
def _told_apart(folder: Path, name: str) -> None:
    (case,) = (case for case in CASES if str(case) == name)
    right = int(stats.binom.isf(RARE, TRIALS, 0.5))
    assert not told_apart(case, folder, right=right), f"the last digits tell more than {right} of {TRIALS} apart"


def released_bits(folder: Path) -> None:
    """The last digits of noisy gradients tell nobody apart."""
    _told_apart(folder, "poisson_sum-gradient")


def released_bits_of_a_sum(folder: Path) -> None:
    """The last digits of noisy sums tell nobody apart."""
    _told_apart(folder, "poisson_sum-sum")


def released_bits_of_a_regression(folder: Path) -> None:
    """The lattice of a regression, whose noise has a private scale, tells nobody apart."""
    _told_apart(folder, "smooth_sensitivity-RegularisedLoss")


def _weighted(model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
    return rows["weight"] * model(torch.zeros(len(rows["weight"]), 1))[:, 0]


def _summed_gradient(left_out: int) -> np.ndarray:
    """Gradients of a line's intercept, the first of each chunk as large as the clip, in float64 before the noise."""
    weight = np.random.default_rng(0).uniform(1.1, 1.3, UNITS).astype(np.float32)
    weight[::UNITS_PER_CHUNK] = 2.0
    model = nn.Linear(1, 1)
    total = GradientSum(trainable_parameters(model))
    for start in range(0, UNITS, UNITS_PER_CHUNK):
        units = [unit for unit in range(start, start + UNITS_PER_CHUNK) if unit != left_out]
        total.start_chunk()
        add_clipped(total, model, _weighted, {"weight": torch.from_numpy(weight[units])}, CLIP)
    sums = total._sums().astype(np.float64)
    return np.concatenate([sums[start:stop] for (start, stop), _ in total._places()])


def movement_of_a_gradient(folder: Path) -> None:
    """One of many units moves a sum of gradients by no more than a clip, whatever is rounded on the way."""
    everybody = _summed_gradient(-1)
    canaries = range(0, UNITS, UNITS_PER_CHUNK)
    moved = max(float(np.linalg.norm(everybody - _summed_gradient(unit))) for unit in canaries) / CLIP
    assert moved <= MOST, f"one of {UNITS:,} units moves a sum of gradients by {moved:.6f} clips"


@dataclass(frozen=True)
class Most:
    """The state for everybody but the canary, who adds as much as the clip allows."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        return np.where(rows["rewards"][:, :1] == 9.0, 1e3, np.float64(state or 1.0))


def movement_of_a_sum(folder: Path) -> None:
    """The same for a sum of vectors, without noise."""
    steps, sums = 8, []
    part = PoissonSum(name="sum", steps=steps, sampling_rate=1.0, clip_norm=CLIP, noise_multiplier=0.0)
    for name, units in (("with", [[1.0]] * (UNITS - 1) + [[9.0]]), ("without", [[1.0]] * (UNITS - 1))):
        vault = open_vault(folder, units, unit=unit_of(UNITS), name=name)
        run = vault.reserve(plans.account(GivenParts((part,)), unit=vault.unit, delta=1e-5))
        sums.append([vault.noisy_sum(run, "sum", Most(), 1.1 + 0.011 * step)[0, 0] * UNITS for step in range(steps)])
    moved = float(np.abs(np.subtract(*sums)).max()) / CLIP
    assert moved <= MOST, f"one of {UNITS:,} units moves a sum by {moved:.6f} clips"


class InTurn(SecretNoise):
    """Deals units to chunks in turn."""

    def integers(self, high: np.ndarray) -> np.ndarray:
        return np.arange(len(high)) % high


def places_of_the_others(folder: Path) -> None:
    """Whoever leaves, units of other chunks stay where they are in the pass that chunks share."""
    part = PoissonSum(name="sum", steps=1, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=1.0)
    for units in (9, 49):  # the last one is in the first of four chunks, as one of three or beyond its twelve places
        shared = []
        for present in (units, units - 1):
            people = [[1.0 + unit / 8] for unit in range(present)]
            vault = open_vault(folder, people, unit=unit_of(100), noise=InTurn(), name=f"{present} of {units}")
            rows, places = next(iter(vault._records.sample_chunks(part, 4, block=12, together=4)))
            start, stop = places[1][0], places[-1][1]
            shared.append((len(rows["rewards"]), places[1:], rows["rewards"][start:stop].tobytes()))
        assert shared[0] == shared[1], "units of other chunks move in the pass when somebody leaves"


BIT_DETECTORS: Sequence[Callable[[Path], None]] = (
    released_bits,
    released_bits_of_a_sum,
    released_bits_of_a_regression,
    movement_of_a_gradient,
    movement_of_a_sum,
    places_of_the_others,
)
