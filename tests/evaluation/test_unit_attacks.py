"""Attacks on whole histories: canary people are told at full participation, and losses tell who was learned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from experiments.lib.unit_scores import UnitScores
from torch import Tensor, nn

from tacit.data.spec import Box, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.evaluation.canaries import UnitSampler, leap_histories
from tacit.evaluation.membership import attack, roc_area
from tacit.privacy.gradients.clipped_sums import clipped_sum
from tacit.privacy.mechanisms.sums import PoissonSum

SPEC = PublicSpec(
    observation=Box((-1.0,) * 6, (1.0,) * 6),
    action=Box((-1.0,), (1.0,)),
    reward=Box((-1.0,), (1.0,)),
    source="declared",
    difference=(0.05,) * 6,
)
PART = PoissonSum(
    name="sum", steps=4, sampling_rate=1.0, clip_norm=0.5, noise_multiplier=1.0, rows_per_unit=3, horizon=4
)


@dataclass(frozen=True)
class Moves:
    """Squared error of noisy moves, averaged over a unit's rows as a sum of their shares."""

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        return {"noise": torch.randn(units, rows_per_unit, 4, 6, generator=generator)}

    def shares(self, rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
        counted = rows["mask"].float()
        return {"share": counted / counted.sum((1, 2), keepdim=True)}

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        moves = rows["next_observations"] - rows["observations"] + 0.1 * rows["noise"]
        error: Tensor = model(rows["observations"]) - moves
        return (error.square().mean(-1) * rows["share"]).sum((1, 2))


def people(columns: Mapping[str, np.ndarray], chosen: np.ndarray | None = None) -> Trajectories:
    """The chosen people of some columns, or all."""
    kept = slice(None) if chosen is None else np.isin(columns["unit_ids"], np.flatnonzero(chosen))
    fields: dict[str, Any] = {name: column[kept] for name, column in columns.items()}
    return Trajectories.from_arrays(**fields, spec=SPEC, simulated=True)


def small_steps(count: int, rows: int, seed: int) -> dict[str, np.ndarray]:
    """People who hardly move, each from places of its own."""
    columns = leap_histories(SPEC, count, rows=rows, seed=seed)
    rng = np.random.default_rng(seed)
    columns["observations"] = rng.uniform(-1, 1, columns["observations"].shape).astype(np.float32)
    moved = columns["observations"] + 0.05 * rng.standard_normal(columns["observations"].shape)
    columns["next_observations"] = np.clip(moved, -1, 1).astype(np.float32)
    return columns


def net(width: int = 32) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, 6))


def test_a_person_of_canaries_is_one_episode_of_one_leap() -> None:
    columns = leap_histories(SPEC, 3, rows=5, seed=0)
    assert columns["unit_ids"].tolist() == np.repeat([0, 1, 2], 5).tolist()
    assert columns["truncations"].reshape(3, 5).sum(axis=1).tolist() == [1, 1, 1]
    by_person = columns["next_observations"].reshape(3, 5, 6)
    np.testing.assert_array_equal(by_person, np.repeat(by_person[:, :1], 5, axis=1))
    assert len(people(columns).episodes) == 4


def test_canary_people_are_told_as_well_as_the_noise_allows_and_not_better() -> None:
    """Four full-batch steps with noise sigma: mu is 2 / sigma, and the area under any test at most Phi(mu / sqrt 2)."""
    columns, rng, model = leap_histories(SPEC, 6, rows=9, seed=1), np.random.default_rng(2), net(64)
    generator = torch.Generator().manual_seed(3)
    public, others = people(small_steps(6, 20, 4)), people(small_steps(4, 20, 5))
    objective, size = Moves(), sum(p.numel() for p in model.parameters())
    areas = {}
    for sigma in (0.5, 2.0):
        values, present = [], rng.random((10, 6)) < 0.5
        for run, chosen in enumerate(present):
            seen = UnitScores(
                replace(PART, noise_multiplier=sigma), objective, people(columns), public, expected=50.0, seed=run
            )
            for step in range(PART.steps):
                total = torch.zeros(size)
                for known in (others, people(columns, chosen)):
                    add_everybody(total, model, objective, known, seed=1_000 * run + step)
                noisy = total + sigma * PART.clip_norm * torch.randn(size, generator=generator)
                seen(step, model, noisy / 50.0)
            values.append(seen.summed_scores())
        areas[sigma] = roc_area(np.array(values), present)
    assert areas[0.5] > 0.9
    assert areas[2.0] < 0.76 + 0.15  # Phi(1 / sqrt 2), and two and a half standard errors of 30 against 30


def add_everybody(total: Tensor, model: nn.Module, objective: Moves, known: Trajectories, seed: int) -> None:
    drawn = UnitSampler(PART, objective, known, seed=seed)
    total += clipped_sum(model, objective.loss, drawn.draw_rows(np.arange(drawn.units)), PART.clip_norm)


def unit_losses(model: nn.Module, objective: Moves, known: Trajectories, *, draws: int) -> npt.NDArray[np.float64]:
    """Each unit's loss, [1, U]: the mean over so many draws of rows and noise."""
    drawn = UnitSampler(PART, objective, known, seed=0)
    some = np.arange(drawn.units)
    losses = [objective.loss(model, drawn.draw_rows(some)).detach().double().numpy() for _ in range(draws)]
    return np.mean(losses, axis=0, keepdims=True)


@pytest.mark.parametrize("steps", [0, 400])
def test_who_was_learned_by_heart_has_a_lower_loss(steps: int) -> None:
    """Histories of one leap each, of which a wide network learns the members'."""
    columns, objective, model = leap_histories(SPEC, 80, rows=6, seed=7), Moves(), net(256)
    members, fresh = people(columns, np.arange(80) < 40), people(columns, np.arange(80) >= 40)
    adam = torch.optim.Adam(model.parameters(), lr=5e-3)
    own = {name: torch.tensor(column) for name, column in members.columns.items() if column.ndim == 2}
    for _ in range(steps):
        adam.zero_grad()
        (model(own["observations"]) + own["observations"] - own["next_observations"]).square().mean().backward()
        adam.step()
    one, other = (-unit_losses(model, objective, known, draws=4) for known in (members, fresh))
    assert one.shape == (1, 40)
    found = attack(one, other)
    assert found.auc > 0.85 if steps else abs(found.auc - 0.5) < 3 / math.sqrt(12 * 20)
