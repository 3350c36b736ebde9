"""Imitation on the server: nearer to the release than the table, and never by more than the noise lets one know."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from tacit.data.mobility.days import Days, symbols
from tacit.data.mobility.grids import RegularGrid
from tacit.envs import movement
from tacit.envs.spaces import UnboundedSpace
from tacit.errors import PlanError
from tacit.evaluation.movement import divergences
from tacit.methods.mobility import moves
from tacit.methods.mobility.matching import Matching, match
from tacit.methods.mobility.moves import Weights, histograms
from tacit.methods.mobility.simulator import StateLayout, TablePolicy
from tacit_worlds.city import city

GRID = RegularGrid(0, 0, 1, 1, 0.1)
WEIGHTS = Weights()
QUICK = Matching(rounds=8, days=1_500)
COARSE, LARGE = StateLayout(times=4), StateLayout(times=8, counts=(1, 3, 5, 8), stays=(1, 2, 4, 8))


@functools.cache
def people(number: int = 300) -> Days:
    days = city(number, 6, seed=5, preset="geolife").days
    return Days(symbols(days.cells), days.person, GRID)


def release(layout: StateLayout, noise: float, seed: int = 0) -> np.ndarray:
    days = people()
    vectors = histograms(days.cells, days.person, 300, layout) * WEIGHTS.of(layout)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors.mean(axis=0) + np.random.default_rng(seed).normal(0, noise, vectors.shape[1]))


def scores(policy: movement.MovementPolicy) -> dict[str, float]:
    cells = movement.play(policy, UnboundedSpace(), np.zeros(4_000, np.int64), np.random.default_rng(9))
    return divergences.sequence_divergences(people(), Days(symbols(cells), np.arange(4_000), GRID))


@functools.cache
def fitted(layout: StateLayout, noise: float) -> TablePolicy:
    return match(release(layout, noise), noise, layout, WEIGHTS, QUICK, seed=1)


def table(layout: StateLayout, noise: float) -> TablePolicy:
    """What is known before anything is played."""
    values = moves.unscale(release(layout, noise), noise, layout, WEIGHTS)
    return TablePolicy(layout, moves.table(*values, layout)[None])


def angle(policy: TablePolicy, noise: float) -> float:
    """Between the vector of played days and the released one, in radians."""
    days = movement.play(policy, UnboundedSpace(), np.zeros(4_000, np.int64), np.random.default_rng(9))
    played = histograms(days, np.zeros(4_000, np.int64), 1, policy.layout)[0] * WEIGHTS.of(policy.layout)
    wanted = release(policy.layout, noise)
    return float(np.arccos(played @ wanted / np.linalg.norm(played) / np.linalg.norm(wanted)))


@pytest.mark.parametrize("layout", [COARSE, LARGE], ids=["fitted", "corrected"])
@pytest.mark.parametrize("noise", [0.0, 0.005])
def test_played_days_come_nearer_to_the_release(layout: StateLayout, noise: float) -> None:
    found = fitted(layout, noise)
    assert angle(found, noise) < 0.75 * angle(table(layout, noise), noise)
    assert found.kinds == 3


@pytest.mark.parametrize("layout", [COARSE, LARGE], ids=["fitted", "corrected"])
def test_days_are_more_like_people_s_than_the_table_s(layout: StateLayout) -> None:
    ours, theirs = scores(fitted(layout, 0.005)), scores(table(layout, 0.005))
    assert ours["SEQ"] < 0.7 * theirs["SEQ"]
    assert ours["SEQ"] < 0.015


def test_day_types_differ_in_how_much_they_stay() -> None:
    stay = fitted(COARSE, 0.0).table[:, :, 0].mean(axis=1)
    assert stay.max() - stay.min() > 0.1


def test_noise_without_people_leaves_a_sane_policy() -> None:
    noise = 5.0
    mean = np.random.default_rng(3).normal(0, noise, len(WEIGHTS.of(COARSE)))
    found = match(mean, noise, COARSE, WEIGHTS, QUICK)
    assert np.isfinite(found.table).all()
    np.testing.assert_allclose(found.table.sum(axis=2), 1.0)


def test_the_fit_is_a_function_of_the_release_and_the_seed() -> None:
    mean, quick = release(COARSE, 0.01), Matching(rounds=2, days=300)
    one, two, other = (match(mean, 0.01, COARSE, WEIGHTS, quick, seed=seed).table for seed in (4, 4, 5))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


def test_a_space_of_new_places_never_comes_back() -> None:
    cells = movement.play(
        movement.FixedPolicy((0.0, 1.0, 0.0, 0.0, 0.0)), UnboundedSpace(), np.zeros(50), np.random.default_rng(0)
    )
    assert (symbols(cells)[:, -1] == 47).all()


@pytest.mark.parametrize("fields", [{"rounds": 0}, {"days": 10}, {"kinds": 0}, {"spread": -1.0}, {"slack": 0.0}])
def test_settings_out_of_range_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match="matching"):
        Matching(**fields)
