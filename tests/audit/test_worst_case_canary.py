"""Audits through the real doors with the worst canary there is: they come close to the certified epsilon, never above.

The canary's contribution has the full norm C in one direction, nobody else's does, and the auditor looks along that
direction. Every step of a plan is then an independent trial of one step, whose certified price is known. Noise is
seeded, so that a test that passed cannot fail by chance; the stream that it comes from is the one of every run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from vault_cases import Rewards, open_vault, priced, unit_of

from tacit.evaluation.lower_bounds import LowerBounds, audit
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.vault import Vault

pytestmark = pytest.mark.usefixtures("own_callbacks")

OTHERS, CANARY = [[0.0], [0.0, 0.0]], [10.0, 10.0]
TIGHT, WIDE = 1e-5, 0.05  # where the Gaussian figure and the one that assumes nothing are compared


@dataclass(frozen=True)
class Along:
    """A loss whose gradient is `scale` times the unit's mean reward, in one direction of two."""

    scale: float = 1e3

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        """No random numbers."""
        return {}

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        """`model` maps [U, 2] to [U, 1] linearly; the gradient of its weight is (scale * reward, 0)."""
        reward = (rows["rewards"] * rows["mask"]).sum(1) / rows["mask"].sum(1).clamp(min=1)
        out: Tensor = model(torch.stack([self.scale * reward, torch.zeros_like(reward)], 1))[:, 0]
        return out


Door = Callable[[Vault, Run], float]


def sum_door(vault: Vault, run: Run) -> float:
    return float(vault.noisy_sum(run, "sum", Rewards(1e3))[0, 0])


def gradient_door(vault: Vault, run: Run) -> float:
    return float(vault.noisy_gradient(run, "sum", [LINEAR], Along())[0, 0])


LINEAR = nn.Linear(2, 1, bias=False)


def scores(folder: Path, door: Door, *, canary: bool, trials: int, rate: float, sigma: float, block: int) -> np.ndarray:
    """One score a step, in units of the noise's standard deviation: a sum along the canary's direction."""
    noise = SecretNoise.for_tests(20 + canary)
    units = [*OTHERS, CANARY] if canary else OTHERS
    vault = open_vault(folder, units, noise=noise, unit=unit_of(10), name=f"canary-{canary}")
    found = []
    for number in range(trials // block):
        clip = 1.0 + number / 1024  # each plan is another plan
        plan = priced(vault, steps=block, sampling_rate=rate, clip_norm=clip, noise_multiplier=sigma, rows_per_unit=2)
        run = vault.reserve(plan)
        found += [door(vault, run) * rate * vault.unit.size / (sigma * clip) for _ in range(block)]
    return np.array(found)


def audited(
    folder: Path, door: Door, *, trials: int, rate: float, sigma: float, block: int = 500
) -> dict[float, LowerBounds]:
    without, having = (
        scores(folder, door, canary=canary, trials=trials, rate=rate, sigma=sigma, block=block)
        for canary in (False, True)
    )
    return {delta: audit(without, having, delta=delta, confidence=0.95) for delta in (TIGHT, WIDE)}


def certified(delta: float, *, rate: float, sigma: float) -> float:
    event = PoissonSum(name="step", steps=1, sampling_rate=rate, clip_norm=1.0, noise_multiplier=sigma).event
    return accounting.epsilon(event, delta=delta, relation="add_or_remove").epsilon


@pytest.mark.parametrize(
    ("door", "trials", "share"),
    [
        (sum_door, 2_000, 0.7),
        pytest.param(gradient_door, 1_000, 0.6, marks=pytest.mark.slow),
        pytest.param(sum_door, 16_000, 0.7, marks=pytest.mark.slow),
        pytest.param(gradient_door, 4_000, 0.7, marks=pytest.mark.slow),
    ],
)
def test_at_full_participation_the_bound_is_close_to_the_certificate(
    tmp_path: Path, door: Door, trials: int, share: float
) -> None:
    found = audited(tmp_path, door, trials=trials, rate=1.0, sigma=1.0)
    promised = {delta: certified(delta, rate=1.0, sigma=1.0) for delta in (TIGHT, WIDE)}
    assert share * promised[TIGHT] <= found[TIGHT].gaussian_epsilon <= promised[TIGHT]
    assert (share - 0.2) * promised[WIDE] <= found[WIDE].epsilon <= promised[WIDE]
    if trials > 10_000:  # what assumes no Gaussian needs more trials
        assert 0.7 * promised[WIDE] <= found[WIDE].epsilon
    assert found[TIGHT].mu <= 1.0


@pytest.mark.parametrize(
    ("door", "trials"), [(sum_door, 2_000), pytest.param(gradient_door, 8_000, marks=pytest.mark.slow)]
)
def test_a_poisson_sample_hides_the_canary_as_much_as_promised(tmp_path: Path, door: Door, trials: int) -> None:
    found = audited(tmp_path, door, trials=trials, rate=0.3, sigma=0.5)
    promised = certified(WIDE, rate=0.3, sigma=0.5)
    unsampled = certified(WIDE, rate=1.0, sigma=0.5)
    assert 0.4 * promised <= found[WIDE].epsilon <= promised < 0.7 * unsampled
    assert found[TIGHT].epsilon <= certified(TIGHT, rate=0.3, sigma=0.5)


def test_the_audit_refutes_a_door_with_half_the_noise(tmp_path: Path) -> None:
    class Half(SecretNoise):
        def gaussian(self, size: int, scale: float = 1.0, out: np.ndarray | None = None) -> np.ndarray:
            return super().gaussian(size, scale / 2, out)

    worlds = []
    for canary in (False, True):
        units = [*OTHERS, CANARY] if canary else OTHERS
        vault = open_vault(tmp_path, units, noise=Half.for_tests(60 + canary), unit=unit_of(10), name=f"half-{canary}")
        run = vault.reserve(priced(vault, steps=500, noise_multiplier=1.0, rows_per_unit=2))
        worlds.append(np.array([sum_door(vault, run) for _ in range(500)]))
    found = audit(*worlds, delta=TIGHT, confidence=0.95)
    assert found.gaussian_epsilon > certified(TIGHT, rate=1.0, sigma=1.0)
