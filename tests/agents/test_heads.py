"""Action heads: probabilities against SciPy, slopes against finite differences, and what is played."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tacit.agents import heads
from tacit.agents.heads import Categorical, Gaussian, Head
from tacit.data.spec import Box, Discrete
from tacit.errors import PlanError
from tacit.serialization import read, to_json

NARROW = Gaussian((-1.0, 0.0), (1.0, 4.0), (0.0, 3.0), 0.5)
LEARNED = dataclasses.replace(NARROW, learned_std=True)


def objective(head: Head, outputs: Any, free: Any, actions: Any, weight: Any, entropy: float) -> float:
    """sum_n weight log p + entropy H, with the entropy from its definition."""
    total = float((weight * head.log_probability(outputs, free, actions)).sum())
    if isinstance(head, Categorical):
        p = np.exp(outputs.astype(np.float64))
        p /= p.sum(axis=2, keepdims=True)
        return total - entropy * float((p * np.log(p)).sum())
    spread = np.log(0.5) + (free if free.size else np.zeros((1, 2)))
    return total + entropy * outputs.shape[1] * float((spread + 0.5 * np.log(2 * np.pi * np.e)).sum())


@pytest.mark.parametrize("entropy", [0.0, 0.7])
@pytest.mark.parametrize("head", [Categorical(3), NARROW, LEARNED], ids=["categorical", "gaussian", "learned"])
def test_slopes_are_those_of_log_probability_and_entropy(head: Head, entropy: float) -> None:
    rng = np.random.default_rng(1)
    outputs = rng.normal(size=(1, 5, head.outputs)).astype(np.float32)
    free = rng.normal(scale=0.3, size=(1, head.parameters)).astype(np.float32)
    weight = rng.normal(size=(1, 5)).astype(np.float32)
    actions = head.draw(outputs, free, rng)
    if not isinstance(head, Categorical):
        actions[0, 0], actions[0, 1] = (-1.0, 4.0), (1.0, 0.0)  # on the bounds
    by_outputs, by_free = head.slopes(outputs, free, actions, weight, entropy)
    step = 0.02
    for array, slopes in ((outputs, by_outputs), (free, by_free)):
        for at in np.ndindex(array.shape):
            up, down = array.copy(), array.copy()
            up[at] += step
            down[at] -= step
            ends = (
                [(o, f) for o, f in ((up, free), (down, free))]
                if array is outputs
                else [(outputs, up), (outputs, down)]
            )
            high, low = (objective(head, o, f, actions, weight, entropy) for o, f in ends)
            assert slopes[at] == pytest.approx((high - low) / (2 * step), rel=2e-2, abs=5e-3)


def test_an_entropy_of_each_row_counts_for_that_row_alone() -> None:
    head, free, weight = Categorical(2), np.zeros((1, 0), np.float32), np.zeros((1, 2), np.float32)
    outputs = np.array([[[1.0, 0.0], [1.0, 0.0]]], np.float32)
    slope, _ = head.slopes(outputs, free, np.zeros((1, 2), int), weight, np.array([[1.0, 0.0]]))
    p = 1 / (1 + np.exp(-1))
    assert slope[0, 0] == pytest.approx([-p * (1 - p), p * (1 - p)])  # -p (log p + H), log p - log q = 1
    assert slope[0, 1] == pytest.approx([0.0, 0.0])


def test_categorical_literals() -> None:
    head, free = Categorical(2), np.zeros((1, 0), np.float32)
    outputs = np.log(np.array([[[1.0, 3.0]]], np.float32))
    assert head.log_probability(outputs, free, np.array([[1]]))[0, 0] == pytest.approx(np.log(0.75))
    slope, own = head.slopes(outputs, free, np.array([[1]]), np.array([[2.0]], np.float32))
    assert slope[0, 0] == pytest.approx([-0.5, 0.5])
    assert own.shape == (1, 0)
    assert outputs[0, 0] == pytest.approx(np.log([1.0, 3.0]))  # not changed in place
    assert head.greedy(outputs).tolist() == [[1]]


def test_categorical_draws_follow_the_probabilities() -> None:
    outputs = np.broadcast_to(np.log([0.2, 0.5, 0.3]).astype(np.float32), (2, 20_000, 3))
    drawn = Categorical(3).draw(outputs, np.zeros((2, 0), np.float32), np.random.default_rng(2))
    counts = np.bincount(drawn.ravel(), minlength=3)
    assert drawn.dtype == np.int64
    assert stats.chisquare(counts, 40_000 * np.array([0.2, 0.5, 0.3])).pvalue > 1e-4


def test_the_clipped_law_has_mass_one_and_a_score_of_mean_zero() -> None:
    head = Gaussian((-0.5,), (0.25,), (0.0,), 0.8)
    grid = np.linspace(-0.5, 0.25, 2_001)[1:-1].astype(np.float32)
    actions = np.concatenate([[-0.5, 0.25], grid])[None, :, None].astype(np.float32)
    outputs, free = np.full(actions.shape, 0.3, np.float32), np.zeros((1, 0), np.float32)
    mass = np.exp(head.log_probability(outputs, free, actions)[0].astype(np.float64))
    mass[2:] *= 0.75 / 2_000
    score, _ = head.slopes(outputs, free, actions, np.ones(actions.shape[:2], np.float32))
    assert mass.sum() == pytest.approx(1.0, abs=1e-3)
    assert mass[0] == pytest.approx(stats.norm.cdf(-0.5, 0.3, 0.8), rel=1e-5)
    assert mass[1] == pytest.approx(stats.norm.sf(0.25, 0.3, 0.8), rel=1e-5)
    assert (mass * score[0, :, 0]).sum() == pytest.approx(0.0, abs=2e-3)


def test_far_beyond_a_bound_the_score_is_finite() -> None:
    outputs = np.full((1, 1, 2), 1e4, np.float32)
    score, _ = NARROW.slopes(
        outputs, np.zeros((1, 0), np.float32), np.array([[[-1.0, 0.0]]]), np.ones((1, 1), np.float32)
    )
    assert np.isfinite(score).all()
    assert (score < 0).all()


def test_gaussian_actions_stay_in_bounds_and_have_the_stated_spread() -> None:
    head, outputs = Gaussian((-9.0,), (9.0,), (1.0,), 0.5, learned_std=True), np.full((1, 50_000, 1), 2.0, np.float32)
    drawn = head.draw(outputs, np.full((1, 1), np.log(2.0), np.float32), np.random.default_rng(3))
    assert drawn.dtype == np.float32
    assert (drawn.mean(), drawn.std()) == pytest.approx((3.0, 1.0), abs=0.02)
    assert head.greedy(outputs)[0, 0] == pytest.approx([3.0])
    narrow = NARROW.draw(np.zeros((1, 4_000, 2), np.float32), np.zeros((1, 0), np.float32), np.random.default_rng(4))
    assert narrow.min(axis=(0, 1)) == pytest.approx([-1.0, narrow[..., 1].min()])
    assert narrow.max(axis=(0, 1)) == pytest.approx([1.0, 4.0])


def test_heads_of_spaces_and_back_from_json() -> None:
    box = Box((-1.0, 0.0), (1.0, 4.0))
    assert heads.default_head(Discrete(4)) == Categorical(4)
    assert heads.default_head(box) == Gaussian((-1.0, 0.0), (1.0, 4.0), (0.0, 2.0), 0.5)
    for head, space in ((Categorical(4), Discrete(4)), (NARROW, box)):
        assert heads.is_compatible(head, space)
        assert not heads.is_compatible(head, Discrete(5))
        assert read(Categorical | Gaussian, to_json(head)) == head
    assert not heads.is_compatible(Categorical(2), box)


@pytest.mark.parametrize("values", [{"kind": "beta"}, {"actions": 2}, {"kind": "categorical", "n": 2}, {"kind": ["x"]}])
def test_other_json_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        read(Categorical | Gaussian, values)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Categorical(1),
        lambda: Categorical(2.0),  # type: ignore[arg-type]
        lambda: Gaussian((0.0,), (1.0,), (2.0,), 0.5),
        lambda: Gaussian((0.0,), (np.inf,), (2.0,), 0.5),
        lambda: Gaussian((0.0,), (1.0, 2.0), (0.5,), 0.5),
        lambda: Gaussian((0.0,), (1.0,), (0.5,), 0.0),
    ],
)
def test_invalid_heads_are_refused(make: Any) -> None:
    with pytest.raises(PlanError, match="policy"):
        make()
