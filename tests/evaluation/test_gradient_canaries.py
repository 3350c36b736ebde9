"""Scores of canaries from public gradients: exact inner products, and traces that are found where they are planted."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from tacit.data.spec import Discrete
from tacit.errors import DataError
from tacit.evaluation.canaries import PICKS, GradientScores, inner_products, leap_canaries, matching_pursuit
from tacit.evaluation.membership import roc_area
from tacit.methods import synthesis
from tacit.methods.synthesis.diffusion import Denoiser, draw, row_losses
from tacit.methods.synthesis.pretraining import initial_model
from tacit_worlds import maze
from tacit_worlds.maze_layouts import LAYOUTS

SPEC = maze.spec(LAYOUTS["open"])
PLAN = synthesis.TransitionsPlan(width=24, depth=2)


def model_of() -> Denoiser:
    return initial_model(PLAN, synthesis.Encoder.from_bounds(SPEC), seed=0)


def gradients(model: Denoiser, clean: torch.Tensor, sigma: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """[N, P], a row at a time by autograd."""
    found = []
    for row in range(len(clean)):
        one = slice(row, row + 1)
        pieces = torch.autograd.grad(row_losses(model, clean[one], sigma[one], noise[one]).sum(), model.parameters())
        found.append(torch.cat([piece.flatten() for piece in pieces]))
    return torch.stack(found)


def test_inner_products_are_those_of_autograd() -> None:
    model, encoder = model_of(), synthesis.Encoder.from_bounds(SPEC)
    draws = draw(torch.Generator().manual_seed(1), 5, 1, encoder=encoder)
    rows = {name: torch.from_numpy(column) for name, column in leap_canaries(SPEC, 5, seed=2).items()}
    clean = encoder.encode(rows, draws["spread"][:, 0])
    sigma, noise = draws["sigma"][:, 0], draws["noise"][:, 0]
    own = gradients(model, clean, sigma, noise)
    vector = torch.randn(own.shape[1], generator=torch.Generator().manual_seed(3))
    products, kernel = inner_products(model, clean, sigma, noise, vector)
    torch.testing.assert_close(products, own @ vector, rtol=1e-3, atol=1e-2)
    torch.testing.assert_close(kernel, own @ own.T, rtol=1e-3, atol=1.0)
    assert all(p.grad is None for p in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("draws", [1, 3])
def test_who_adds_a_clipped_gradient_now_and_then_is_found_by_sums_and_by_pursuit(draws: int) -> None:
    """Steps of unit gradients of canaries that are in, drawn with other noise than the auditor's, and of fresh rows.

    With little noise both scores tell most canaries; with a lot of it neither knows anything.
    """
    model, encoder = model_of(), synthesis.Encoder.from_bounds(SPEC)
    canaries, public = leap_canaries(SPEC, 16, seed=5), maze.collect(LAYOUTS["open"], 400, agents=20, seed=6)
    present = np.arange(16) % 2 == 0
    generator = torch.Generator().manual_seed(7)

    def unit_gradients(columns: dict[str, np.ndarray]) -> torch.Tensor:
        draws = draw(generator, len(columns["rewards"]), 1, encoder=encoder)
        rows = {name: torch.from_numpy(column) for name, column in columns.items() if name != "truncations"}
        found = gradients(
            model, encoder.encode(rows, draws["spread"][:, 0]), draws["sigma"][:, 0], draws["noise"][:, 0]
        )
        return found / found.norm(dim=1, keepdim=True)

    few = {name: np.asarray(column)[:30] for name, column in public.items()}
    rest = {name: np.asarray(column)[200:204] for name, column in public.items()}
    quiet, loud = (GradientScores(PLAN, canaries, few, seed=8, draws=draws) for _ in range(2))
    for step in range(16):
        drawn = present & (np.random.default_rng([9, step]).random(16) < 0.25)
        total = unit_gradients(rest).sum(0)
        if drawn.any():
            total = total + unit_gradients({name: column[drawn] for name, column in canaries.items()}).sum(0)
        noise = torch.randn(len(total), generator=generator)
        quiet(step, model, total + 1e-3 * noise)
        loud(step, model, total + 1e3 * noise)

    assert min(roc_area(quiet.summed_scores(), present), roc_area(quiet.pursuit_scores(), present)) > 0.8
    assert max(roc_area(loud.summed_scores(), present), roc_area(loud.pursuit_scores(), present)) < 0.75


def test_pursuit_finds_who_a_vector_is_made_of_although_directions_overlap() -> None:
    """Six canaries of two directions each, all leaning on one: two of them make the vector, others seem to."""
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(12, 40, generator=generator) + 2 * torch.randn(40, generator=generator)
    directions /= directions.norm(dim=1, keepdim=True)
    vector = 9 * directions[2] - 2 * directions[3] - 5 * directions[8]
    kernel, products = directions @ directions.T, directions @ vector
    found = matching_pursuit(products, kernel, 2)
    alone = products.view(6, 2).square().sum(1)
    assert set(found.argsort()[-2:].tolist()) == {1, 4}
    assert set(alone.argsort()[-2:].tolist()) != {1, 4}
    assert int((found > 0).sum()) <= PICKS
    assert found.sum() <= vector.square().sum()


def test_leaps_stay_inside_the_bounds_and_go_far() -> None:
    rows = leap_canaries(SPEC, 200, seed=0)
    low, high = SPEC.observation.float32_bounds()  # type: ignore[union-attr]
    assert ((rows["next_observations"] >= low) & (rows["next_observations"] <= high)).all()
    typical = np.abs(rows["next_observations"] - rows["observations"]) / np.array(SPEC.difference)
    assert np.median(typical) > 5
    assert not np.array_equal(rows["rewards"], leap_canaries(SPEC, 200, seed=1)["rewards"])


def test_without_a_typical_step_there_is_no_leap() -> None:
    plain = dataclasses.replace(SPEC, difference=None)
    for spec in (plain, dataclasses.replace(plain, observation=Discrete(3))):
        with pytest.raises(DataError, match="typical size"):
            leap_canaries(spec, 10, seed=0)
