"""Thresholds of the consensus door: formulas, tails, the optimum, and the planning table of the derivation."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import binom

from tacit.errors import PlanError
from tacit.privacy.mechanisms.thresholds import (
    GRID,
    KappaStop,
    PMin,
    Thresholds,
    expected_length,
    longest_prefix,
    optimise,
    overflow,
    overflow_delta,
    smallest_holdout,
    tail,
    trajectory_epsilon,
)


def test_epsilon_of_the_two_floors() -> None:
    thresholds = Thresholds(safe_count=50.0, threshold=100.0, threshold_scale=4.0, step_scale=2.0)
    floored = 1 / 4 + 1 / 2 + math.log(1 + 0.8 / (0.1 * 50))
    stopped = 1 / 4 + math.log(math.exp(1 / 2) + 1 / (0.25 * 50))
    assert trajectory_epsilon(thresholds, PMin(0.1), actions=3, experts=1000) == pytest.approx(floored)
    assert trajectory_epsilon(thresholds, KappaStop(0.25), actions=3, experts=1000) == pytest.approx(stopped)


def test_the_other_direction_counts_where_it_is_the_larger() -> None:
    thresholds = Thresholds(safe_count=1e9, threshold=1e9, threshold_scale=1e6, step_scale=10.0)
    assert trajectory_epsilon(thresholds, PMin(0.5), actions=2, experts=2) == pytest.approx(0.1 + math.log(2))


@pytest.mark.parametrize(("b1", "b2"), [(3, 3), (3, 5), (7, 2), (1, 1), (40, 41)])
def test_the_tail_against_a_convolution(b1: int, b2: int) -> None:
    """At scales of a few steps of the grid, sums over both noises."""
    edge = 40 * max(b1, b2)
    j = np.arange(-edge, edge + 1)
    a, b = math.exp(-1 / b1), math.exp(-1 / b2)
    joint = np.outer((1 - a) / (1 + a) * a ** np.abs(j), (1 - b) / (1 + b) * b ** np.abs(j))
    for t in (0, 1, 5, 4 * b1):
        brute = joint[j[None, :] - j[:, None] >= t].sum()
        found = tail(b1 / GRID, b2 / GRID, t / GRID)
        assert brute * (1 - 1e-12) <= found <= brute * (1 + 1e-10)


def test_the_tail_of_wide_noise_is_that_of_continuous_laplace() -> None:
    assert tail(20.0, 20.0, 100.0) == pytest.approx(0.5 * math.exp(-5) * (1 + 2.5), rel=1e-6)
    two = (400 * math.exp(-5) - 900 * math.exp(-100 / 30)) / (2 * (400 - 900))
    assert tail(20.0, 30.0, 100.0) == tail(30.0, 20.0, 100.0) == pytest.approx(two, rel=1e-6)


def test_the_tail_is_smooth_where_the_scales_meet() -> None:
    near = [tail(20.0, 20.0 + d / GRID, 300.0) for d in (-2, -1, 0, 1, 2)]
    assert all(x < y for x, y in itertools.pairwise(near))
    assert near[4] / near[0] < 1 + 1e-5


def test_the_tail_far_out_and_at_zero() -> None:
    assert tail(5.0, 5.0, 0.0) == pytest.approx(0.5, rel=1e-6)
    assert 0 < tail(5.0, 5.0, 1e6) < 1e-299


GOLDEN = [  # m = 3,000 and delta_1 = 1 / 6,000 over n trajectories, basic composition; threshold and longest prefix
    (0.2, 25, PMin(0.01), 2, 1093, 100),
    (0.2, 25, PMin(0.05), 2, 444, 37),
    (0.2, 25, PMin(0.02), 4, 700, 23),
    (0.2, 25, KappaStop(0.02), 2, 707, 200),
    (0.05, 100, PMin(0.05), 2, 1908, 8),
    (0.05, 100, PMin(0.02), 4, 2997, 0),
    (0.2, 5, PMin(0.01), 2, 1043, 105),
    (0.2, 5, PMin(0.05), 2, 412, 38),
    (0.2, 5, PMin(0.02), 4, 658, 24),
    (0.2, 5, KappaStop(0.02), 2, 666, 200),
]


@pytest.mark.parametrize(("epsilon", "trajectories", "floor", "actions", "threshold", "length"), GOLDEN)
def test_the_planning_table(epsilon, trajectories, floor, actions, threshold, length) -> None:
    public = {"actions": actions, "experts": 3000}
    found = optimise(floor, **public, epsilon=epsilon, delta=1 / 6000 / trajectories)
    assert threshold - 3 <= found.threshold <= threshold
    assert longest_prefix(found, floor, **public, horizon=200) == length


@pytest.mark.parametrize("floor", [PMin(0.01), PMin(0.25), KappaStop(0.02), KappaStop(0.5)])
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 2.0])
def test_the_promise_is_kept_exactly_and_on_the_grid(floor, epsilon: float) -> None:
    found = optimise(floor, actions=3, experts=100_000, epsilon=epsilon, delta=1e-7)
    assert trajectory_epsilon(found, floor, actions=3, experts=100_000) <= epsilon
    assert tail(found.threshold_scale, found.step_scale, found.threshold - found.safe_count - 1) <= 1e-7
    for number in (found.safe_count, found.threshold, found.threshold_scale, found.step_scale):
        assert number * GRID == int(number * GRID)


@pytest.mark.parametrize("floor", [PMin(0.05), KappaStop(0.05)])
def test_no_other_choice_is_much_better(floor) -> None:
    best = optimise(floor, actions=2, experts=3000, epsilon=0.3, delta=1e-6)
    for first, second in itertools.product(np.linspace(0.02, 0.96, 48), repeat=2):
        if first + second > 0.97:
            continue
        scales = 1 / (0.3 * first), 1 / (0.3 * second)
        spare = 0.3 * (1 - first - second)
        more = 0.9 / 0.05 if isinstance(floor, PMin) else 1.0 / (0.05 * math.exp(0.3 * second))
        safe = (more if isinstance(floor, KappaStop) else 0.95 / 0.05) / math.expm1(spare)
        assert tail(*scales, best.threshold - 1e-3 - 1 - safe if best.threshold > safe + 1.001 else 0.0) > 1e-6


def test_more_privacy_needs_more_agreement() -> None:
    cases = [
        optimise(PMin(0.05), actions=2, experts=3000, epsilon=e, delta=d).threshold
        for e, d in ((1.0, 1e-4), (0.5, 1e-4), (0.5, 1e-6), (0.25, 1e-6))
    ]
    assert cases == sorted(cases)
    assert len(set(cases)) == 4


def test_an_unreachable_threshold_says_which_knob_to_turn() -> None:
    with pytest.raises(PlanError, match=r"unreachable threshold.*4,682.*more epsilon, process fewer.*larger floor"):
        optimise(PMin(0.01), actions=2, experts=3000, epsilon=0.05, delta=1 / 6000 / 100)


@pytest.mark.parametrize(
    "wrong",
    [{"experts": 1}, {"actions": 1}, {"epsilon": 0.0}, {"epsilon": math.inf}, {"delta": 0.0}, {"epsilon": 1e-9}],
)
def test_wrong_parameters(wrong: dict) -> None:
    with pytest.raises(PlanError):
        optimise(PMin(0.05), **{"actions": 2, "experts": 3000, "epsilon": 0.3, "delta": 1e-6} | wrong)


def test_wrong_floors() -> None:
    for wrong in (0.0, 0.6, math.nan):
        with pytest.raises(PlanError, match="floor"):
            PMin(wrong)
    for wrong in (0.0, 1.0, math.nan):
        with pytest.raises(PlanError, match="floor"):
            KappaStop(wrong)
    with pytest.raises(PlanError, match="floor"):
        optimise(PMin(0.4), actions=3, experts=3000, epsilon=0.3, delta=1e-6)


def test_a_floor_of_another_kind_is_refused() -> None:
    """Whatever only looks like one would be priced as a stop by chance that nobody makes."""

    @dataclass(frozen=True)
    class Likeness(KappaStop):
        pass

    with pytest.raises(PlanError, match="floor"):
        optimise(Likeness(0.1), actions=2, experts=3000, epsilon=0.3, delta=1e-6)


def test_the_longest_prefix_by_hand() -> None:
    thresholds = Thresholds(safe_count=1.0, threshold=700.0, threshold_scale=4.0, step_scale=4.0)
    kept = [1000 * 0.9**k >= 700 for k in range(1, 30)]
    assert longest_prefix(thresholds, PMin(0.05), actions=3, experts=1000, horizon=50) == sum(kept) == 3
    assert longest_prefix(thresholds, PMin(0.05), actions=3, experts=1000, horizon=2) == 2
    assert longest_prefix(thresholds, KappaStop(0.1), actions=3, experts=1000, horizon=50) == 50
    assert longest_prefix(thresholds, KappaStop(0.1), actions=3, experts=699, horizon=50) == 0


def test_the_expected_length_by_simulation() -> None:
    thresholds = Thresholds(safe_count=1.0, threshold=700.0, threshold_scale=80.0, step_scale=120.0)
    rng = np.random.default_rng(5)
    for floor, agreement in ((PMin(0.01), 1.0), (KappaStop(0.05), 0.98)):
        often, rare = (0.98, 0.01) if isinstance(floor, PMin) else (1.0, 0.0)
        kept = agreement * often + (1 - agreement) * rare
        level = 700 + rng.laplace(scale=80.0, size=(20_000, 1))
        counts = 1000 * kept ** np.arange(1, 31)
        on = (counts + rng.laplace(scale=120.0, size=(20_000, 30)) >= level) & (rng.random((20_000, 30)) < kept)
        if isinstance(floor, KappaStop):
            on &= rng.random((20_000, 30)) >= 0.05
        simulated = np.cumprod(on, axis=1).sum(axis=1).mean()
        public = {"actions": 3, "experts": 1000, "horizon": 30, "agreement": agreement}
        assert expected_length(thresholds, floor, **public) == pytest.approx(simulated, abs=0.35)


def test_sure_agreement_without_stops_lasts_to_the_horizon() -> None:
    sure = Thresholds(safe_count=1.0, threshold=10.0, threshold_scale=1.0, step_scale=1.0)
    stopped = sum(0.9**k for k in range(1, 21))
    assert expected_length(sure, KappaStop(0.1), actions=2, experts=10**6, horizon=20) == pytest.approx(stopped)


def test_overflow_is_above_the_chance_of_it() -> None:
    """Three draws of two experts: the law by hand; and the union over a binomial tail."""
    assert overflow(3, 2, 3) >= 1 / 4  # all three the same, two experts being the fewest
    assert overflow(100, 5, 3000) == pytest.approx(4.9e-9, rel=0.01)
    assert overflow(100, 5, 3000) >= 3000 * binom.sf(5, 100, 1 / 3000)
    assert overflow(5, 5, 3000) == 0
    assert overflow(5, 0, 3000) == 1


def test_the_reserve_is_the_smallest_that_pays() -> None:
    found = smallest_holdout(25, 3000, 10.0, 1e-6, limit=10**6)
    assert overflow_delta(25, found, 3000, 10.0) <= 1e-6 < overflow_delta(25, found - 1, 3000, 10.0)
    assert overflow_delta(25, 4, 3000, 2.0) == pytest.approx(2 * (1 + math.exp(2)) * overflow(25, 4, 3000))
    assert smallest_holdout(3, 2, 10.0, 1e-12, limit=10**6) == 3  # as many as there are draws: no overflow at all
