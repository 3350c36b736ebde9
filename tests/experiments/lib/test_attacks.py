"""The machinery of membership inference on releases whose privacy is known exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from experiments.lib.attacks import (
    RankedScores,
    Trials,
    attack,
    auc_bound,
    bootstrap_runs,
    likelihood_ratios,
    roc_area,
    run_trials,
    tpr_bound,
)

from experiments.lib import attacks
from tacit.errors import DataError
from tacit.privacy.accounting.accountants import gaussian_epsilon

PEOPLE, DELTA = 20, 1e-5


@dataclass(frozen=True)
class Sums:
    """The sum of one-hot vectors of those who are present, with noise 1 / mu."""

    mu: float

    def __call__(self, present: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        noise = np.random.default_rng(seed).normal(0, 1 / self.mu, present.shape)
        return {"sum": present + noise * math.isfinite(self.mu)}


def own(released: attacks.Released) -> np.ndarray:
    """Everybody's own coordinate, in a unit of its own for each person."""
    return np.asarray(released["sum"] * np.linspace(1, 1e4, PEOPLE) - 7.0)


def found(mu: float, runs: int = 64, targets: int = 400) -> attacks.AttackResult:
    shadow, target = (
        run_trials(Sums(mu), {"own": own}, PEOPLE, runs=count, seed=seed)["own"]
        for seed, count in ((1, runs), (2, targets))
    )
    return attack(shadow, target, delta=DELTA)


def test_a_release_without_noise_is_told_for_certain() -> None:
    result = found(math.inf)
    assert result.auc == result.exposed_auc == result.tpr == 1.0
    assert result.epsilon > 3.5  # some 200 runs a side allow log(200 / 3.7)
    assert auc_bound(math.inf) == tpr_bound(math.inf, 0.01) == 1.0


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_the_attack_on_a_gaussian_comes_close_to_the_bound_and_never_above(mu: float) -> None:
    result = found(mu)
    assert auc_bound(mu) - 0.04 < result.auc_high
    assert result.auc_low < auc_bound(mu)
    assert result.auc == pytest.approx(auc_bound(mu), abs=0.02)
    assert 0.6 * tpr_bound(mu, 0.01) < result.tpr < 1.2 * tpr_bound(mu, 0.01)
    assert (0.3 * mu if mu >= 1 else 0.0) <= result.mu < mu  # 400 runs do not show half a mu
    assert result.epsilon < gaussian_epsilon(DELTA, mu)


def test_a_release_that_depends_on_nobody_is_a_coin() -> None:
    def run(present: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        return {"sum": np.random.default_rng(seed).normal(size=present.shape)}

    shadow, target = (run_trials(run, {"own": own}, PEOPLE, runs=200, seed=seed)["own"] for seed in (1, 2))
    result = attack(shadow, target, delta=DELTA)
    assert result.auc_low < 0.5 < result.auc_high
    assert result.epsilon == 0.0
    assert result.mu < 0.3


def test_scores_of_absence_tell_as_much() -> None:
    """A score that is lower for present people is turned round by the shadow runs."""
    shadow, target = (
        run_trials(Sums(2.0), {"not": lambda released: -own(released)}, PEOPLE, runs=200, seed=seed)["not"]
        for seed in (1, 2)
    )
    assert attack(shadow, target, delta=DELTA).auc == pytest.approx(auc_bound(2.0), abs=0.03)


def test_members_are_half_of_the_people_and_each_block_has_its_own_seed() -> None:
    seeds: list[int] = []

    def run(present: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        seeds.append(seed)
        return {"sum": present.astype(float)}

    result = run_trials(run, {"own": own}, PEOPLE, runs=50, seed=3, together=16)["own"]
    assert result.present.shape == result.scores.shape == (50, PEOPLE)
    assert 0.4 < result.present.mean() < 0.6
    assert len(seeds) == len(set(seeds)) == 4


def test_area_and_hits_by_hand() -> None:
    scores, present = np.array([3.0, 1.0, 2.0, 1.0, 0.0]), np.array([True, True, False, False, False])
    assert roc_area(scores, present) == pytest.approx((3 + 1.5) / 6)
    ranked = RankedScores.of(scores, present)
    assert [ranked.hit_rate(fpr) for fpr in (0.01, 0.34, 0.67)] == [0.5, 0.5, 1.0]


def test_runs_that_count_twice_are_as_runs_that_stand_twice() -> None:
    """Against scores that are repeated and ranked again, ties among them."""
    rng = np.random.default_rng(0)
    scores, present = rng.integers(6, size=(9, 7)).astype(float), rng.random((9, 7)) < 0.5
    times = np.array([0, 2, 1, 0, 3, 1, 1, 0, 1])
    stand = np.repeat(np.arange(9), times)
    flat, inside = scores[stand].ravel(), present[stand].ravel()
    above = (flat[inside][:, None] > flat[~inside]) + (flat[inside][:, None] == flat[~inside]) / 2
    ranked = RankedScores.of(scores, present)
    assert ranked.roc_area(times) == pytest.approx(above.mean(), rel=1e-12)
    for fpr in (0.0, 0.1, 0.3, 0.9, 1.0):
        absent = np.sort(flat[~inside])[::-1]
        threshold = absent[min(int(fpr * absent.size), absent.size - 1)]
        assert ranked.hit_rate(fpr, times) == (flat[inside] > threshold).mean()


def test_an_interval_over_runs_is_that_of_their_mean() -> None:
    """A hundred runs, half of which find everybody: 0.5 with a standard error of 0.05, however many people."""
    scores = np.repeat(np.arange(100) % 2, 30).reshape(100, 30).astype(float)
    judged = Trials(np.ones((100, 30), bool), scores)
    found = bootstrap_runs(lambda ranked, times: float((times @ scores[:, 0]) / times.sum()), judged, draws=4_000)
    assert found.value == 0.5
    assert [found.low, found.high] == pytest.approx([0.402, 0.598], abs=0.015)
    same = bootstrap_runs(RankedScores.roc_area, Trials(np.tile([True, False], (8, 1)), np.tile([1.0, 0.0], (8, 1))))
    assert (same.low, same.value, same.high) == (1.0, 1.0, 1.0)


def test_bad_arguments_are_named() -> None:
    present = np.zeros((4, 3), bool)
    with pytest.raises(DataError, match="do not fit"):
        Trials(present, np.zeros((4, 2)))
    with pytest.raises(DataError, match="do not fit"):
        Trials(present, np.full((4, 3), np.nan))
    with pytest.raises(DataError, match="too few shadow runs"):
        likelihood_ratios(Trials(present, np.zeros((4, 3))), Trials(present, np.zeros((4, 3))))
    with pytest.raises(DataError, match="one side"):
        roc_area(np.zeros(4), np.ones(4, bool))
    with pytest.raises(DataError, match="a score has shape"):
        run_trials(Sums(1.0), {"wrong": lambda released: released["sum"][:, :2]}, PEOPLE, runs=4, seed=0)
