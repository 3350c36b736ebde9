"""The server's learner: advantages, the exact clipped objective, gradient mode, and rewards that are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tacit.data.mobility import days
from tacit.envs import movement
from tacit.envs.spaces import UnboundedSpace
from tacit.errors import PlanError
from tacit.methods.mobility.pategail.critics import ACTIONS, DECISIONS, Embedding
from tacit.methods.mobility.pategail.training import Ppo, PpoLearner

EMBEDDING = Embedding()


def reward(codes: np.ndarray, action: int) -> np.ndarray:
    return (codes % ACTIONS == action).astype(np.float64) - 0.5


def share(learner: PpoLearner, action: int, *, averaged: bool = False) -> float:
    policy = learner.table(averaged=averaged)
    cells = movement.play(policy, UnboundedSpace(), np.zeros(200, np.int64), np.random.default_rng(5))
    return float((days.actions(cells) == action).mean())


@pytest.mark.parametrize("action", [days.STAY, days.HOME, days.EXPLORE])
def test_ppo_improves_on_a_known_reward(action: int) -> None:
    learner, rng = PpoLearner(Ppo(hidden=(16,), average=0.5), EMBEDDING), np.random.default_rng(0)
    before = share(learner, action)
    for _ in range(8):
        played = learner.play(50, rng)
        learner.learn(played, reward(played.codes, action))
    assert share(learner, action) > before + 0.1
    assert before < share(learner, action, averaged=True) <= share(learner, action) + 0.05


def test_gradient_mode_improves_on_a_known_reward() -> None:
    learner, rng = PpoLearner(Ppo(hidden=(), rate=0.03), EMBEDDING), np.random.default_rng(0)
    before = share(learner, days.STAY)
    for _ in range(10):
        played = learner.play(50, rng)
        codes = np.unique(played.codes)
        learner.climb(reward(codes, days.STAY) @ learner.slopes(played, codes))
    assert share(learner, days.STAY) > before + 0.1


def test_slopes_are_the_policy_gradient() -> None:
    """Against sum_t A_t grad log pi(a_t | s_t) with rewards to come, day by day."""
    config = Ppo(hidden=(), gamma=0.9, trace=1.0)
    learner = PpoLearner(config, EMBEDDING)
    played = learner.play(3, np.random.default_rng(1))
    codes = np.unique(played.codes)
    rewards = np.random.default_rng(2).normal(size=len(codes))
    found = rewards @ learner.slopes(played, codes)
    each = rewards[np.searchsorted(codes, played.codes)]
    expected = np.zeros((EMBEDDING.state_size + 1, ACTIONS))
    for day in range(3):
        for t in range(DECISIONS):
            to_come = sum(config.gamma ** (k - t) * each[day, k] for k in range(t, DECISIONS))
            at = played.state_index[day, t]
            score = np.eye(ACTIONS)[played.actions[day, t]] - played.old_probabilities[at]
            x = np.append(EMBEDDING.embed_states(played.states[at]), 1.0)
            expected += to_come * np.outer(x, score)
    np.testing.assert_allclose(found, expected.ravel() / 3, atol=1e-9)


def test_advantages_are_generalised() -> None:
    """With a value of 0 everywhere they are discounted sums with the factor gamma lambda, and the goals the same."""
    config = Ppo(hidden=(4,), gamma=0.9, trace=0.5)
    learner = PpoLearner(config, EMBEDDING)
    learner.phi[:] = 0.0
    played = learner.play(4, np.random.default_rng(1))
    rewards = np.random.default_rng(2).normal(size=(4, DECISIONS))
    x = EMBEDDING.embed_states(played.states)[None]
    found, goals = learner._advantages(x, played.state_index, rewards)
    factor = (config.gamma * config.trace) ** np.arange(DECISIONS)
    for t in (0, 20, DECISIONS - 1):
        np.testing.assert_allclose(found[:, t], rewards[:, t:] @ factor[: DECISIONS - t])
    np.testing.assert_allclose(goals, found)


def test_a_step_of_distinct_states_is_that_of_all_rows() -> None:
    """One epoch changes the weights as the clipped objective of PPO over all rows does, up to rounding."""
    torch = pytest.importorskip("torch")
    config = Ppo(hidden=(), epochs=1, entropy=0.0, most_kl=10.0)
    learner = PpoLearner(config, EMBEDDING)
    learner.theta += np.random.default_rng(0).normal(scale=0.3, size=learner.theta.shape).astype(np.float32)
    played = learner.play(20, np.random.default_rng(1))
    other = played.old_probabilities * np.random.default_rng(3).uniform(
        0.5, 1.5, played.old_probabilities.shape
    )  # so that some ratios are clipped
    played = replace(played, old_probabilities=other / other.sum(axis=1, keepdims=True))
    rewards = np.random.default_rng(2).normal(size=(20, DECISIONS))
    x = EMBEDDING.embed_states(played.states)
    advantages, _ = learner._advantages(x[None], played.state_index, rewards)
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)

    flat = torch.tensor(learner.theta[0], dtype=torch.float64, requires_grad=True)
    weight = flat.view(EMBEDDING.state_size + 1, ACTIONS)
    rows = torch.tensor(x[played.state_index.ravel()], dtype=torch.float64)
    logits = rows @ weight[:-1] + weight[-1]
    logits = logits.masked_fill(~torch.tensor(played.possible[played.state_index.ravel()]), -torch.inf)
    chosen = torch.tensor(played.actions.ravel())
    new = torch.softmax(logits, dim=1)[torch.arange(len(chosen)), chosen]
    ratio = new / torch.tensor(played.old_probabilities[played.state_index, played.actions].ravel())
    a = torch.tensor(advantages.ravel())
    torch.minimum(ratio * a, ratio.clamp(0.8, 1.2) * a).mean().backward()

    learner.learn(played, rewards)
    slope = flat.grad.numpy()
    expected = slope / max(1.0, float(np.linalg.norm(slope)))
    np.testing.assert_allclose(learner._theta.first[0] / 0.1, expected, atol=1e-5)  # the first moment of Adam


def test_rows_that_were_not_asked_do_not_count() -> None:
    learner, rng = PpoLearner(Ppo(hidden=(8,)), EMBEDDING), np.random.default_rng(0)
    played = learner.play(20, rng)
    rewards, seen = reward(played.codes, days.STAY), np.zeros(played.codes.shape, np.bool_)
    seen[:3] = True
    other = rewards.copy()
    other[3:] = 7.0
    first, second = (PpoLearner(Ppo(hidden=(8,)), EMBEDDING) for _ in range(2))
    first.learn(played, rewards, seen)
    second.learn(played, other, seen)
    assert np.array_equal(first.theta, second.theta)


def test_the_policy_stops_at_the_bound_on_its_divergence() -> None:
    moved = {}
    for bound in (1e-6, 10.0):
        learner = PpoLearner(Ppo(hidden=(8,), most_kl=bound, epochs=30), EMBEDDING)
        start = learner.theta.copy()
        played = learner.play(20, np.random.default_rng(0))
        learner.learn(played, reward(played.codes, days.STAY))
        moved[bound] = float(np.abs(learner.theta - start).max())
    assert moved[1e-6] < 0.1 * moved[10.0]


def test_the_average_is_of_the_weights() -> None:
    learner = PpoLearner(replace(Ppo(hidden=(4,)), average=0.75), EMBEDDING)
    seen = []
    for _ in range(3):
        learner.climb(np.random.default_rng(0).normal(size=learner.theta.shape[1]))
        seen.append(learner.theta.copy())
    weights = 0.75 ** np.array([2, 1, 0])
    expected = sum(w * theta for w, theta in zip(weights, seen, strict=True)) / weights.sum()
    np.testing.assert_allclose(learner.mean / (1 - 0.75**3), expected, rtol=1e-5)


def test_four_actions_are_enough_for_the_papers() -> None:
    learner = PpoLearner(Ppo(hidden=(4,)), EMBEDDING, last=False)
    played = learner.play(30, np.random.default_rng(0))
    assert played.actions.max() < days.LAST
    assert learner.table().table.shape[2] == 4


@pytest.mark.parametrize("fields", [{"rate": 0.0}, {"epochs": 0}, {"average": 1.0}, {"gamma": 2.0}, {"entropy": -1.0}])
def test_ppo_refuses_what_is_out_of_range(fields: dict[str, float]) -> None:
    with pytest.raises(PlanError):
        Ppo(**fields)  # type: ignore[arg-type]
