"""Callbacks that fail on somebody's records: nothing outside the vault depends on whether any did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from user_cases import LENGTH, Scripted, open_user_vault, user_sum
from user_cases import priced as priced_for_users
from vault_cases import GivenParts, Silent, open_vault, priced, unit_of

from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.vault import plan as plans

RARE = np.float32(9.8765)


@dataclass(frozen=True)
class Exact:
    """Counts a reward in two tables, and names no cell, or fails, on a rare one."""

    fails: bool
    sizes: tuple[int, ...] = (2, 3)

    def cells(self, rows: Mapping[str, np.ndarray], state: Any) -> list[np.ndarray]:
        rare = rows["rewards"] == RARE
        if self.fails and rare.any():
            raise ValueError(str(rows["rewards"]))
        cell = (rows["rewards"] > 0).astype(int) + 5 * rare
        return [cell, cell + 1]


@pytest.mark.parametrize("fails", [True, False])
def test_a_row_that_a_tally_fails_on_counts_in_the_first_cells(tmp_path: Path, fails: bool) -> None:
    vault = open_vault(tmp_path, [[1.0], [-1.0], [float(RARE)]], noise=Silent())
    run = vault.reserve(priced(vault, noise_multiplier=1.0, clip_norm=2.0))
    total = vault.noisy_sum(run, "sum", Exact(fails))[0] * 100
    np.testing.assert_allclose(total, [2, 1, 1, 1, 1], atol=0.02)


@dataclass(frozen=True)
class SignAndSize:
    """Sign and size of a reward, of no rare one."""

    def __call__(self, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        reward = rows["rewards"][:, :1]
        if (reward == RARE).any():
            raise LookupError(str(reward))
        return {"sign": np.sign(reward).astype(np.int64), "size": np.abs(reward)}


@dataclass(frozen=True)
class Summarised:
    """What is made of a summary."""

    summary: SignAndSize = SignAndSize()

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        return rows["sign"] + rows["size"]


@pytest.mark.parametrize("units", [[[0.5], [float(RARE)], [0.25]], [[float(RARE)]]])
def test_of_whom_a_summary_fails_zeros_are_kept(tmp_path: Path, units: list[list[float]]) -> None:
    vault = open_vault(tmp_path, units, noise=Silent())
    part = PoissonSum(
        name="sum", steps=2, sampling_rate=1.0, clip_norm=9.0, noise_multiplier=1.0, rows_per_unit=1, rows="first"
    )
    run = vault.reserve(plans.account(GivenParts((part,)), unit=vault.unit, delta=1e-4))
    for _ in range(2):
        total = vault.noisy_sum(run, "sum", Summarised())[0, 0] * 100
        assert total == pytest.approx(2.75 if len(units) > 1 else 0.0, abs=0.05)


@dataclass(frozen=True)
class Breaking:
    """An objective that fails on a rare reward after it has written into everybody's."""

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        return {}

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        if bool((rows["rewards"] == float(RARE)).any()):
            rows["rewards"].mul_(2)
            raise ValueError(str(rows["rewards"]))
        return (model(rows["observations"].flatten(0, 1)).view_as(rows["rewards"]) * rows["rewards"]).sum(1)


@pytest.mark.parametrize("others", [2, 700])
def test_an_objective_that_fails_on_somebody_adds_nothing_of_them(tmp_path: Path, others: int) -> None:
    units = [[0.125 * (i % 5)] for i in range(others)]
    gradients = []
    for name, rewards in (("gone", units), ("there", [*units[:2], [float(RARE)], *units[2:]])):
        vault = open_vault(tmp_path, rewards, noise=Silent(), unit=unit_of(1_000), name=name)
        run = vault.reserve(priced(vault, noise_multiplier=1.0, clip_norm=9.0))
        gradient = vault.noisy_gradient(run, "sum", [nn.Linear(1, 1)], Breaking())[0]
        gradients.append(float(gradient[1]) * 1_000)  # of the intercept: the sum of the rewards
    assert gradients[0] == pytest.approx(sum(reward for (reward,) in units), abs=0.05, rel=2e-4)
    assert gradients[1] == pytest.approx(gradients[0], abs=0.05, rel=2e-4)


@dataclass(frozen=True)
class Earned:
    """The sum of somebody's rewards; fails on a rare one."""

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        if (rows["rewards"] == RARE).any():
            raise ValueError(str(rows["rewards"]))
        return (rows["rewards"] * rows["mask"]).sum(1)[:, None]


def test_nobody_hears_of_a_failure_on_people_who_are_met(tmp_path: Path) -> None:
    users = Scripted([[["ann", "bob", "eve"]]], {"ann": [1.0], "bob": [float(RARE)] * LENGTH, "eve": [0.5]})
    vault = open_user_vault(tmp_path, users, noise=Silent())
    run = vault.reserve(priced_for_users(user_sum(clip_norm=2.0)))
    vault.enroll(run, print)
    assert vault.noisy_sum(run, "policy", Earned())[0, 0] * 4 == pytest.approx(1.5, abs=0.01)
