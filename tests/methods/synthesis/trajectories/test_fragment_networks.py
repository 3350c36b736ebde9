"""The networks: padding has no part, no row sees what it must not, and per-unit gradients are the true ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import pytest
import torch
from torch import Tensor
from trajectory_cases import clinic_courses, codec_of, maze_episodes, small, waiting_rooms

from tacit.data.trajectories import Trajectories
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.trajectories.fragments import Condition, windows
from tacit.methods.synthesis.trajectories.models import (
    AutoregressiveRows,
    FragmentDenoiser,
    FragmentLoss,
    FragmentModel,
    draw_categories,
    fragment_model,
)
from tacit.methods.synthesis.trajectories.plan import TrajectoriesPlan
from tacit.privacy.gradients.clipped_sums import _layers, clipped_sum

PLANS = {
    "transformer": small(),
    "unet": small(network="unet"),
    "autoregressive": small(network="autoregressive", rows_per_token=1, mixture=2),
    "components": small(tokens="components", rows_per_token=1),
}
DATA = {"maze": maze_episodes(10), "clinic": clinic_courses(20), "discrete": waiting_rooms(20)}


def batch_of(
    plan: TrajectoriesPlan, data: Trajectories, units: int = 4
) -> tuple[FragmentModel, FragmentLoss, dict[str, Tensor]]:
    torch.manual_seed(0)
    model = fragment_model(plan, Encoder.from_bounds(data.spec))
    objective = FragmentLoss.of(plan, model.codec)
    chosen = np.random.default_rng(0).integers(data.episodes[-1], size=units * 2)
    rows = windows(data.columns, data.episodes, chosen, plan.horizon + 2)
    rows = {name: tensor.unflatten(0, (units, 2)) for name, tensor in rows.items()}  # type: ignore[no-untyped-call]
    return model, objective, rows | objective.draw(torch.Generator().manual_seed(0), units, 2)


@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("where", DATA)
def test_per_unit_gradients_are_fast_and_add_up(kind: str, where: str) -> None:
    model, objective, rows = batch_of(PLANS[kind], DATA[where])
    assert _layers(model) is not None, "a layer without a fast per-unit gradient"
    found = clipped_sum(model, objective.loss, rows, 1e6)
    objective.loss(model, rows).sum().backward()  # type: ignore[no-untyped-call]
    expected = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-4)


def test_endings_are_learned_beside_where_fragments_begin_and_rows_just_there() -> None:
    data, plan = DATA["maze"], dataclasses.replace(PLANS["transformer"], ending_noise=0.5)
    model, objective, rows = batch_of(plan, data)
    assert rows["moved"].std().item() == pytest.approx(0.5, rel=0.3)
    there = rows | {"moved": torch.zeros_like(rows["moved"])}
    plain = {name: tensor for name, tensor in rows.items() if name != "moved"}
    torch.testing.assert_close(objective.loss(model, there), objective.loss(model, plain))
    grads = []
    for given in (rows, plain):
        model.zero_grad()
        objective.loss(model, given).sum().backward()  # type: ignore[no-untyped-call]
        grads.append({name: p.grad for name, p in model.network.named_parameters() if p.grad is not None})
    differ = {name for name, grad in grads[0].items() if not torch.allclose(grad, grads[1][name])}
    assert differ
    assert all(name.startswith("endings.") for name in differ)


@pytest.mark.parametrize("kind", ["transformer", "unet", "components"])
def test_what_stands_behind_an_end_changes_no_loss(kind: str) -> None:
    data = DATA["discrete"]
    model, objective, rows = batch_of(PLANS[kind], data)
    hidden = ~rows["mask"]
    hidden[..., 0] = False
    changed: Mapping[str, Tensor] = rows | {
        "rewards": torch.where(hidden, -1.0, rows["rewards"]),
        "actions": torch.where(hidden, 2, rows["actions"]),
        "next_observations": torch.where(hidden, 0, rows["next_observations"]),
    }
    torch.testing.assert_close(objective.loss(model, changed), objective.loss(model, rows))


def condition_of(model: FragmentModel, count: int = 3, ending: int = 0) -> Condition:
    codec = model.codec
    return Condition(
        first=torch.zeros(count, codec.state_size),
        previous=torch.zeros(count, codec.step_size),
        begins=torch.ones(count),
        time=torch.zeros(count),
        ending=torch.full((count,), ending),
    )


def test_a_row_is_drawn_from_those_before_it_alone() -> None:
    torch.manual_seed(0)
    model = AutoregressiveRows(PLANS["autoregressive"], codec_of(DATA["maze"]))
    condition, steps = condition_of(model), torch.randn(3, 8, model.codec.step_size)
    law = model._law(condition, steps)
    steps[:, 5] += 1.0
    changed = model._law(condition, steps)
    assert torch.equal(law[:, :6], changed[:, :6])
    assert not torch.allclose(law[:, 6:], changed[:, 6:])


def test_the_law_of_a_row_is_a_density() -> None:
    """Of one discrete field and a reward: summed over the field and integrated over the reward it is 1."""
    torch.manual_seed(0)
    model = AutoregressiveRows(PLANS["autoregressive"], codec_of(DATA["discrete"]))
    size, codec = 2_000, model.codec
    total = torch.zeros(())
    reward = torch.linspace(-40, 40, size)
    for action in range(3):
        for following in range(4):
            steps = torch.zeros(size, codec.horizon, codec.step_size)
            steps[:, 0] = -1.0
            steps[:, 0, action], steps[:, 0, 3], steps[:, 0, 4 + following] = 1.0, reward, 1.0
            losses = model.step_losses(condition_of(model, size), steps, torch.zeros(0), torch.zeros(0))
            total = total + (-losses[:, 0] * codec.step_size).exp().sum() * (80 / (size - 1))
    assert float(total.detach()) == pytest.approx(1.0, abs=1e-2)


@pytest.mark.parametrize("kind", PLANS)
def test_samples_are_finite_and_seeded(kind: str) -> None:
    torch.manual_seed(0)
    model = fragment_model(PLANS[kind], Encoder.from_bounds(DATA["clinic"].spec))
    condition = condition_of(model, ending=5)
    first, second = (
        model.sample_steps(condition, PLANS[kind].sampler, torch.Generator().manual_seed(1)) for _ in range(2)
    )
    assert first.shape == (3, 8, model.codec.step_size)
    assert first.isfinite().all()
    assert torch.equal(first, second)


def test_noise_at_rows_that_are_not_there_does_not_reach_the_others() -> None:
    torch.manual_seed(0)
    model = FragmentDenoiser(PLANS["transformer"], codec_of(DATA["maze"]))
    condition = condition_of(model, ending=3)
    clean, noise = torch.randn(3, 8, model.codec.step_size), torch.randn(3, 1, 8, model.codec.step_size)
    other = noise.clone()
    other[:, :, 3:] = 9.0
    sigma = torch.ones(3, 1)
    losses, changed = (model.step_losses(condition, clean, sigma, one)[:, :3] for one in (noise, other))
    torch.testing.assert_close(losses, changed)


def test_categories_are_drawn_with_their_probabilities() -> None:
    scores = torch.tensor([0.5, 0.3, 0.2]).log().expand(20_000, 3)
    shares = torch.bincount(draw_categories(scores, torch.Generator().manual_seed(0)), minlength=3) / 20_000
    torch.testing.assert_close(shares, torch.tensor([0.5, 0.3, 0.2]), atol=0.02, rtol=0)


def test_the_loss_is_a_sum_over_fragments_with_their_shares() -> None:
    model, objective, rows = batch_of(small(), DATA["maze"])
    shared = {**rows, **objective.shares(rows)}
    whole = objective.loss(model, shared)
    parts = [objective.loss(model, {name: t[:, i : i + 1] for name, t in shared.items()}) for i in range(2)]
    torch.testing.assert_close(torch.stack(parts).sum(0), whole, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(objective.loss(model, rows), whole)
    few = clipped_sum(model, objective.loss, rows, 0.5, shares=objective.shares, memory_bytes=1)
    torch.testing.assert_close(few, clipped_sum(model, objective.loss, rows, 0.5), rtol=1e-3, atol=1e-5)
