"""The small MoveSim: causal, over the people's own places, and better than their transition matrix."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from experiments.pategail.mobility_neural import (
    Generator,
    Places,
    Settings,
    Simulator,
    by_likelihood,
    by_scores,
    chance,
    loss_of,
)
from experiments.pategail.mobility_runs import GEOLIFE, World

from tacit.data.mobility.days import SLOTS, Days
from tacit_worlds.city import city

PEOPLE = city(6, 10, seed=3, preset="geolife").days
SMALL = Settings(width=8, heads=2, batch=16, days=60, passes=1, rounds=1, discriminations=1)


@pytest.fixture
def places() -> Places:
    torch.manual_seed(0)
    return Places(PEOPLE)


def test_a_place_depends_on_the_day_so_far_alone(places: Places) -> None:
    generator, days = Generator(places, SMALL), places.days[:3].clone()
    before = generator(days[:, :-1])
    days[:, 20:] = 0
    np.testing.assert_allclose(generator(days[:, :-1])[:, :20].detach(), before[:, :20].detach(), atol=1e-5)
    np.testing.assert_allclose(generator(days[:, :20], last=1)[:, 0].detach(), before[:, 19].detach(), atol=1e-5)


def test_days_are_of_the_people_s_own_places(places: Places) -> None:
    made = Simulator(Generator(places, SMALL), places).generate(5, seed=1)
    assert made.cells.shape == (5, SLOTS)
    assert set(made.cells.ravel()) <= set(PEOPLE.cells.ravel())
    assert set(made.cells[:, 0]) <= set(PEOPLE.cells[:, 0])


def test_the_matrix_alone_has_the_loss_of_its_logarithms() -> None:
    """Everybody alternates between two places: a step costs nothing, a step that never occurred log(1 + 1 / 0.005)."""
    cells = np.tile([3, 9], (10, SLOTS // 2))
    alternating = Places(Days(cells, np.zeros(10, np.int64), PEOPLE.grid))
    assert chance(alternating, alternating.days) == pytest.approx(0.0, abs=1e-3)
    never = torch.zeros((1, SLOTS), dtype=torch.long)
    assert chance(alternating, never) == pytest.approx(math.log((240 + 0.01) / 0.005), rel=1e-2)


def test_both_phases_train(places: Places) -> None:
    generator = Generator(places, SMALL)
    before = loss_of(generator, places.days).item()
    (held_out,) = by_likelihood(generator, places, SMALL, seed=0)
    assert loss_of(generator, places.days).item() < before
    assert 0 < held_out < 2 * before
    weights = generator.place.weight.detach().clone()
    (right,) = by_scores(generator, places, SMALL, seed=0)
    assert 0 <= right <= 1
    assert not torch.equal(generator.place.weight, weights)


def test_a_perfect_simulator_is_nearer_than_halves_of_the_people() -> None:
    here = World(GEOLIFE, PEOPLE, PEOPLE, PEOPLE, "invented people")
    perfect, halves = here.perfect(), here.floor()["halves"]
    assert 0 < perfect["sequence"]["SEQ"] < halves["sequence"]["SEQ"]
    assert perfect["robust"].keys() == halves["robust"].keys()
