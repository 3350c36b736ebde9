"""Sums over fragments: however many episodes and rows a unit has, what it adds is bounded by the clip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from vault_cases import SPEC, GivenParts, Silent, unit_of

from tacit.data.trajectories import Trajectories
from tacit.errors import MechanismError
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault import records
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.vault import Vault

LENGTHS = ((3,), (12, 1, 40), (7, 7, 7, 7), (1,), (5_000,), tuple([9] * 300))
"""Episodes of six people: short ones, one of 5,000 rows, one who came three hundred times."""


def people(lengths: Sequence[Sequence[int]]) -> Trajectories:
    """Rewards grow within an episode; who a person is tells the observation."""
    rows = [(i, e, t) for i, own in enumerate(lengths) for e, length in enumerate(own) for t in range(length)]
    unit, episode, time = np.array(rows).T
    observations = np.sin(1.7 * unit + episode)[:, None].astype(np.float32)
    return Trajectories.from_arrays(
        observations=observations,
        actions=time % 3,
        rewards=(time % 20 - 9.5).astype(np.float32),
        next_observations=observations,
        terminations=np.append(episode[1:] != episode[:-1], True),
        unit_ids=unit,
        episode_ids=1_000 * unit + episode,
        spec=SPEC,
        simulated=True,
    )


@dataclass(frozen=True)
class Sequences:
    """Squared error of a fragment's rewards from its observations and steps, over the rows that count."""

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        return {}

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        inputs = torch.cat([rows["observations"], rows["time"][..., None].float() / 100], dim=-1)
        error = (model(inputs)[..., 0] - rows["rewards"]).square() * rows["mask"]
        return error.sum((1, 2)) / rows["mask"].sum((1, 2)).clamp(min=1)


@dataclass(frozen=True)
class Longest:
    """How many rows of a unit's first fragment count."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: object) -> np.ndarray:
        return rows["mask"][:, 0].sum(axis=-1, keepdims=True).astype(np.float64)


@dataclass(frozen=True)
class Mixed:
    """Less the mean over all units."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: object) -> np.ndarray:
        return rows["rewards"][:, 0, :1] - rows["rewards"].mean()


def opened(folder: Path, lengths: Sequence[Sequence[int]], part: PoissonSum, name: str = "one") -> tuple[Vault, Run]:
    ledger = Ledger(folder / f"{name}.ledger", unit_of(100), epsilon=1e9, delta=1e-3, composition=SUM)
    vault = Vault(people(lengths), ledger, noise=Silent())
    return vault, vault.reserve(plans.account(GivenParts((part,)), unit=vault.unit, delta=1e-4))


def part_of(**fields: Any) -> PoissonSum:
    given = {
        "name": "sum",
        "steps": 5,
        "sampling_rate": 1.0,
        "clip_norm": 0.5,
        "noise_multiplier": 1.0,
        "rows_per_unit": 4,
    }
    return PoissonSum(**{**given, "horizon": 8, **fields})


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.usefixtures("no_lattice")
def test_whatever_somebody_owns_adds_at_most_the_clip(tmp_path: Path, lengths: tuple[int, ...]) -> None:
    for clip in (0.01, 1e4):
        part = part_of(clip_norm=clip)
        vault, run = opened(tmp_path, [lengths], part, f"{clip}")
        norm = float(vault.noisy_gradient(run, "sum", [net()], Sequences())[0].norm()) * 100
        assert norm == pytest.approx(0.01, rel=2e-4) if clip == 0.01 else 0.01 < norm < 1e4


@pytest.mark.parametrize("clip", [0.01, 1.0])
@pytest.mark.usefixtures("no_lattice")
def test_leaving_somebody_out_moves_the_sum_by_at_most_the_clip(tmp_path: Path, clip: float) -> None:
    """L is above any number of rows, so that nothing is left to chance; one person has everything twice."""
    everybody, part, model = (
        [(3,), (12, 1), (7, 7, 7), (12, 1, 12, 1)],
        part_of(clip_norm=clip, rows_per_unit=30),
        net(),
    )
    vault, run = opened(tmp_path, everybody, part)
    whole = vault.noisy_gradient(run, "sum", [model], Sequences())[0] * 100
    for i in range(4):
        vault, run = opened(tmp_path, [own if j != i else (1,) for j, own in enumerate(everybody)], part, f"{i}")
        other = vault.noisy_gradient(run, "sum", [model], Sequences())[0] * 100
        assert 0 < float((whole - other).norm()) <= 2 * clip * (1 + 1e-5)


@pytest.mark.usefixtures("no_lattice")
def test_rows_behind_an_end_teach_nothing(tmp_path: Path) -> None:
    """A person of one row and horizon 8: the gradient is that of the row."""
    vault, run = opened(tmp_path, [(1,)], part_of(clip_norm=1e6))
    model = net()
    found = vault.noisy_gradient(run, "sum", [model], Sequences())[0] * 100
    error = (model(torch.tensor([[0.0, 0.0]])) + 9.5).square().sum()
    expected = torch.cat([slope.flatten() for slope in torch.autograd.grad(error, list(model.parameters()))])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_sample_that_is_read_in_parts_adds_up_to_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for name, size in (("whole", records.READ_BYTES), ("parts", 1)):
        monkeypatch.setattr(records, "READ_BYTES", size)
        vault, run = opened(tmp_path, [(3,), (12, 1), (7, 7)], part_of(rows_per_unit=30, clip_norm=1.0), name)
        found.append(vault.noisy_gradient(run, "sum", [net()], Sequences()))
    torch.testing.assert_close(*found)


def test_callbacks_see_fragments_and_are_tried_on_them(tmp_path: Path) -> None:
    vault, run = opened(tmp_path, [(3,), (40,)], part_of(rows_per_unit=50, clip_norm=100.0))
    assert vault.noisy_sum(run, "sum", Longest())[0, 0] * 100 == pytest.approx(3 + 8)
    vault, run = opened(tmp_path, [(3,), (40,)], part_of(), "two")
    with pytest.raises(MechanismError, match=r"not finite|changes when another"):
        vault.noisy_sum(run, "sum", Mixed())
    assert vault.steps_left(run, "sum") == 5
