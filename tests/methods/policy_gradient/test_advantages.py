"""Advantages by hand, against slow loops and against a least-squares solver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.agents.features import Quadratic, Scaled
from tacit.methods.policy_gradient.contributions import (
    Advantages,
    fit_person_values,
    residual_rewards,
    standardise,
    traces,
)

SCALED = Scaled((-1.0,), (1.0,))


def slots(*people: Any, length: int = 6) -> dict[str, np.ndarray]:
    """Rows of people given as lists of episodes, each (rewards, how it ends: "fall", "limit" or None)."""
    rows: dict[str, np.ndarray] = {
        name: np.zeros((len(people), length), bool) for name in ("terminations", "truncations", "mask", "starts")
    }
    rows["rewards"] = np.zeros((len(people), length), np.float32)
    rows["observations"] = np.random.default_rng(0).uniform(-1, 1, (len(people), length, 1)).astype(np.float32)
    for u, episodes in enumerate(people):
        t = 0
        for rewards, end in episodes:
            rows["starts"][u, t] = True
            rows["rewards"][u, t : t + len(rewards)] = rewards
            t += len(rewards)
            rows["terminations"][u, t - 1] = end == "fall"
            rows["truncations"][u, t - 1] = end == "limit"
        rows["mask"][u, :t] = True
    return rows


def test_discounted_returns_by_hand() -> None:
    rows = slots([([1, 2, 4], "fall")], [([1.0], None), ([8, 8], "limit")])
    returns = traces(rows, residual_rewards(rows, 0.5, None), 0.5, 1.0)
    assert returns.tolist() == [[3, 4, 4, 0, 0, 0], [1, 12, 8, 0, 0, 0]]


def test_the_public_baseline_says_nothing_of_who_stands_and_punishes_who_falls() -> None:
    gamma, rows = 0.9, slots([([1] * 6, "limit")], [([1] * 3, "fall")], [([1] * 2, "fall"), ([1] * 4, "limit")])
    found = traces(rows, residual_rewards(rows, gamma, 1.0), gamma, 1.0)
    fall = -np.array([gamma**3, gamma**2, gamma]) / (1 - gamma)  # -gamma^(T - t) / (1 - gamma)
    assert found[0] == pytest.approx(np.zeros(6))
    assert found[1] == pytest.approx([*fall, 0, 0, 0])
    assert found[2] == pytest.approx([*fall[1:], 0, 0, 0, 0])


def test_the_public_baseline_rewards_who_arrives() -> None:
    gamma, rows = 0.9, slots([([-1, -1, 0], "fall")], [([-1] * 6, "limit")])
    found = traces(rows, residual_rewards(rows, gamma, -1.0), gamma, 1.0)
    arrived = 1 + gamma / (1 - gamma)  # the reward 0 is one better than -1, and all the later -1 are spared
    assert found[0, :3] == pytest.approx([gamma**2 * arrived, gamma * arrived, arrived])
    assert found[1] == pytest.approx(np.zeros(6))


def test_the_baseline_only_shifts_returns_by_a_function_of_time_left() -> None:
    """Residual returns are returns minus V before the end and minus what V gives at a cut."""
    gamma, rows = 0.8, slots([([3, -1, 2], "fall")], [([3, -1, 2], "limit")])
    plain = traces(rows, residual_rewards(rows, gamma, None), gamma, 1.0)
    shifted = traces(rows, residual_rewards(rows, gamma, 2.0), gamma, 1.0)
    worth, left = 2.0 / (1 - gamma), np.array([3, 2, 1])
    assert plain[0, :3] - shifted[0, :3] == pytest.approx(np.full(3, worth))
    assert plain[1, :3] - shifted[1, :3] == pytest.approx(worth * (1 - gamma**left))


def test_generalised_advantages_are_those_of_a_slow_loop() -> None:
    rng, gamma, trace = np.random.default_rng(1), 0.9, 0.7
    rows = slots([([1, 2, 3], "fall"), ([4, 5], "limit")], [([1, 1, 1, 1, 1, 1], None)])
    values, following = rng.normal(size=(2, 2, 6))
    found = traces(rows, residual_rewards(rows, gamma, None), gamma, trace, values, following)
    for u in range(2):
        after = 0.0
        for t in reversed(range(int(rows["mask"][u].sum()))):
            last = t + 1 == rows["mask"][u].sum() or rows["starts"][u, t + 1]
            later = 0.0 if rows["terminations"][u, t] else following[u, t]
            delta = rows["rewards"][u, t] + gamma * later - values[u, t]
            after = delta + (0.0 if last else gamma * trace * after)
            assert found[u, t] == pytest.approx(after)
    assert not found[0, 5:].any()


def test_lambda_one_is_the_return_minus_the_value() -> None:
    rows, gamma = slots([([1, 2, 3, 4], "fall")]), 0.9
    values = np.random.default_rng(2).normal(size=(1, 6))
    following = np.roll(values, -1, axis=1)
    rewards = residual_rewards(rows, gamma, None)
    with_values = traces(rows, rewards, gamma, 1.0, values, following)
    assert with_values[0, :4] == pytest.approx((traces(rows, rewards, gamma, 1.0) - values)[0, :4])


def test_the_own_fit_solves_a_penalised_least_squares_problem() -> None:
    rows = slots([([0] * 5, None)], [([0] * 2, None)])
    targets = np.where(rows["mask"], np.random.default_rng(3).normal(size=(2, 6)), 0.0)
    fitted = fit_person_values(rows, targets, Quadratic((-1.0,), (1.0,)), 0.01)
    for u, n in enumerate((5, 2)):
        x = rows["observations"][u, :n, 0].astype(np.float64)
        design = np.stack([np.ones(n), x, x**2], axis=1)
        wide = np.concatenate([design, np.sqrt(0.01 * n) * np.eye(3)])
        weights = np.linalg.lstsq(wide, np.concatenate([targets[u, :n], np.zeros(3)]), rcond=None)[0]
        assert fitted[u, :n] == pytest.approx(design @ weights, rel=1e-5, abs=1e-6)
        assert not fitted[u, n:].any()


def test_standardised_by_hand() -> None:
    mask = np.array([[True] * 4, [True, True, False, False], [True, False, False, False], [False] * 4])
    values = np.array([[1.0, 1, 3, 3], [5, 7, 99, 99], [4, 9, 9, 9], [1, 1, 1, 1]])
    found = standardise(values, mask)
    assert found == pytest.approx(np.array([[-1.0, -1, 1, 1], [-1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]), abs=1e-6)


def test_all_together() -> None:
    rows = slots([([1] * 6, "limit")], [([1] * 4, "fall")], [([2, 2], "fall")])
    plain = Advantages(gamma=0.5, scale=3.0, standardised=False)
    assert plain(rows)[2].tolist() == [9, 6, 0, 0, 0, 0]
    whole = Advantages(gamma=0.9, reward_rate=1.0, own=SCALED)
    found = whole(rows)
    assert not found[0].any()  # who stands adds nothing
    assert found[1, :4].mean() == pytest.approx(0.0, abs=1e-9)
    assert found[1, :4].std() == pytest.approx(1.0, abs=1e-6)
    assert found == pytest.approx(whole.finish(rows, whole.errors(rows)))


@pytest.mark.parametrize("own", [None, SCALED])
def test_a_person_is_the_same_bits_whoever_else_is_there(own: Scaled | None) -> None:
    rows = slots([([1, 5, 2], "fall")], [([1] * 6, None)], [([2, 2], "limit"), ([1, 3], "fall")])
    how = Advantages(gamma=0.9, reward_rate=0.5, own=own)
    for person in range(3):
        alone = {name: column[[person]] for name, column in rows.items()}
        assert np.array_equal(how(alone)[0], how(rows)[person])
