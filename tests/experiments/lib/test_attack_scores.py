"""Scores of membership on small crowds: planted leaks are found, and private releases stay below their bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from experiments.lib.attacks import (
    AttackResult,
    Candidates,
    ContributionDirection,
    DayLikelihood,
    DayOverlap,
    NearestDay,
    Run,
    Score,
    attack,
    auc_bound,
    run_trials,
)

from tacit.data.mobility.days import SLOTS, STAY, Days, actions, distinct_counts
from tacit.data.mobility.grids import RegularGrid
from tacit.envs.movement import FixedPolicy, possible_actions
from tacit.methods.mobility.baselines import ActionFractions, epr_policy

GRID = RegularGrid(0.0, 0.0, 0.19, 0.19, 0.01)
PEOPLE, DAYS, DELTA = 24, 6, 1e-5


def crowd(seed: int = 0) -> Days:
    """People who each move about a few cells of their own, some often and some seldom."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(PEOPLE), DAYS)
    places = rng.integers(GRID.size, size=(PEOPLE, 6))
    places[:, 0] = np.arange(PEOPLE) * 7
    moves = rng.random((len(person), SLOTS)) < rng.uniform(0.05, 0.6, PEOPLE)[person, None]
    moves[:, 0] = False
    changed = np.maximum.accumulate(np.where(moves, np.arange(SLOTS), 0), axis=1)
    where = np.take_along_axis(rng.integers(6, size=(len(person), SLOTS)), changed, axis=1)
    where = np.where(changed == 0, 0, where)
    return Days(places[person[:, None], where], person, GRID)


CROWD = crowd()
CANDIDATES = Candidates(CROWD, PEOPLE)


@dataclass(frozen=True)
class Noisy:
    """Noisy mean fractions of actions of those who are present, the policy made of them, and no days."""

    mu: float

    def __call__(self, present: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        vectors = contributions()
        noise = np.random.default_rng(seed).normal(size=(len(present), vectors.shape[1])) / self.mu
        sums = present @ vectors + noise * np.isfinite(self.mu)
        policies = np.empty(len(sums), object)
        policies[:] = [epr_policy(row / PEOPLE) for row in sums]
        return {"sum": sums, "policy": policies}


def copies(present: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Days of present people as they are."""
    rng = np.random.default_rng(seed)
    return {"days": np.stack([CROWD.cells[rng.choice(np.flatnonzero(row[CROWD.person]), 60)] for row in present])}


def starts(present: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Days of nobody, but for where they start."""
    copied, rng = copies(present, seed)["days"], np.random.default_rng(seed)
    return {"days": np.where(np.arange(SLOTS) == 0, copied, rng.integers(GRID.size, size=copied.shape))}


def contributions() -> np.ndarray:
    """[U, 4] of norm 1 at most."""
    vectors = np.zeros((PEOPLE, 4))
    np.add.at(vectors, CROWD.person, ActionFractions()(CROWD.cells) / DAYS)
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1.0))


def result(run: Run, score: Score, shadows: int = 64, targets: int = 64) -> AttackResult:
    shadow, target = (run_trials(run, {"": score}, PEOPLE, runs=n, seed=s)[""] for s, n in ((1, shadows), (2, targets)))
    return attack(shadow, target, delta=DELTA)


@pytest.mark.parametrize("score", [NearestDay(CANDIDATES), DayOverlap(CANDIDATES)])
def test_copied_days_are_found(score: Score) -> None:
    found = result(copies, score)
    assert found.auc > 0.85
    assert found.exposed_auc > 0.95


def test_copied_starts_are_found() -> None:
    assert result(starts, DayOverlap(CANDIDATES, slots=(0,))).auc > 0.9


def test_own_directions_find_everybody_in_a_release_without_noise() -> None:
    """With as many numbers as people, and no noise, the members are the solution of linear equations."""
    vectors = np.random.default_rng(5).normal(size=(PEOPLE, 2 * PEOPLE))

    def run(present: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        return {"sum": present @ vectors}

    found = result(run, ContributionDirection(vectors, 0.0))
    assert found.auc == found.tpr == 1.0
    assert found.epsilon > 1.5


def test_own_directions_lose_nothing_where_people_do_not_overlap() -> None:
    """One-hot contributions: the others say nothing, and the attack reaches the bound."""

    def run(present: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        return {"sum": present + np.random.default_rng(seed).normal(size=present.shape)}

    found = result(run, ContributionDirection(np.eye(PEOPLE), 1.0), shadows=200, targets=200)
    assert found.auc == pytest.approx(auc_bound(1.0), abs=0.03)


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_private_fractions_stay_below_the_bound(mu: float) -> None:
    for score in (ContributionDirection(contributions(), 1 / mu), DayLikelihood(CANDIDATES)):
        found = result(Noisy(mu), score)
        assert found.auc_low < auc_bound(mu)
        assert found.mu <= mu


def test_the_likelihood_of_a_day_is_the_product_over_its_steps() -> None:
    """Home at home, and a return without a place to return to, are ruled out."""
    distribution = np.array([0.4, 0.3, 0.2, 0.1])
    found = CANDIDATES.log_likelihoods(FixedPolicy(tuple(distribution)))
    taken, seen = actions(CROWD.cells, last=False), distinct_counts(CROWD.cells)[:, :-1]
    home = CROWD.cells[:, :-1] == CROWD.cells[:, :1]
    left = 1 - 0.2 * home - 0.1 * (seen <= np.where(home, 1, 2))
    assert found == pytest.approx(np.log(distribution[taken] / left).sum(axis=1))


@dataclass(frozen=True)
class Moods:
    """Two types of day: one in which people stay, and one in which they go home or stay alike."""

    kinds: int = 2

    def probabilities(self, kind: np.ndarray, *state: object) -> np.ndarray:
        return np.array([[0.9, 0.025, 0.025, 0.025, 0.025], [0.4, 0.05, 0.4, 0.05, 0.1]])[kind]


def test_the_type_of_day_is_summed_out() -> None:
    table = Moods().probabilities(np.array([0, 1]))
    taken = actions(CROWD.cells)
    numbers = table[:, None, None, :] * possible_actions(CROWD.cells)
    chosen = np.take_along_axis(numbers, taken[None, ..., None], axis=3)[..., 0]
    each = np.log(chosen / numbers.sum(axis=3)).sum(axis=2)
    assert CANDIDATES.log_likelihoods(Moods()) == pytest.approx(np.logaddexp(*each) - np.log(2))
    quiet = (taken == STAY).mean(axis=1)
    assert np.corrcoef(quiet, CANDIDATES.log_likelihoods(Moods()))[0, 1] > 0.5


def test_the_nearest_day_by_hand() -> None:
    own = CROWD.cells[:2]
    days = np.array([own, own[::-1] + (np.arange(SLOTS) % 3 == 0)])
    found = NearestDay(Candidates(CROWD, PEOPLE, max_days=2))({"days": days})
    apart = (own[:, None] != days[1]).sum(axis=2).min(axis=1)
    assert found[0, 0] == 0
    assert found[1, 0] == -apart.mean()
