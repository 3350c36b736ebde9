"""What a curator may want to know about an evaluation, computed from the records WITHOUT privacy: for the curator's
eyes, through `Vault.nonprivate`, and for simulated records."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import PublicSpec
from tacit.methods.off_policy_evaluation import Behaviour, DiscretePolicy, Evaluation, Problem
from tacit.methods.off_policy_evaluation.policies import Target

Table = Mapping[str, NDArray[np.generic]]
Float64 = NDArray[np.float64]

MAX_LOG_WEIGHT = 500.0


def diagnostics(
    rows: Table,
    evaluation: Evaluation,
    problem: Problem,
    spec: PublicSpec,
    policy: Target,
    behaviour: DiscretePolicy | None = None,
) -> dict[str, float]:
    """Figures that tell whether an evaluation can be trusted; not private.

    Args:
        rows: columns of the records, in the order of time within each episode.
        evaluation: the result.
        problem: what was asked.
        spec: the public bounds.
        policy: the evaluated policy.
        behaviour: the known behaviour policy; None takes the logged propensities.

    Returns:
        episodes (runs of rows up to an end, or to a row that does not go on from the one before), returns_outside_range
        (share of episodes whose return leaves the public range), rewards_at_bounds (share of rows). Where the
        probabilities of logged actions are known also mean_ratio (of the rows; about 1 if these are right),
        largest_ratio, effective_episodes ((sum w)^2 / sum w^2 of the episodes' weights),
        weighted_returns_outside_range (what a clip there would cut) and, with a value function, mspbe (`mspbe`).
    """
    starts = _episode_starts(rows)
    rewards = np.asarray(rows["rewards"], np.float64)
    lengths = np.diff(np.append(starts, len(rewards)))
    episode = np.repeat(np.arange(len(starts)), lengths)
    step = np.arange(len(rewards)) - np.repeat(starts, lengths)
    within_horizon = step < problem.horizon
    discounted = np.where(within_horizon, problem.gamma ** np.minimum(step, problem.horizon) * rewards, 0.0)
    returns = np.asarray(np.bincount(episode, discounted, len(starts)), np.float64)
    low, high = problem.value_range(spec)

    def share_outside(values: Float64) -> float:
        return float(((values < low - 1e-6) | (values > high + 1e-6)).mean())

    figures = {
        "episodes": float(len(starts)),
        "returns_outside_range": share_outside(returns),
        "rewards_at_bounds": float(np.isin(rows["rewards"], np.concatenate(spec.reward.float32_bounds())).mean()),
    }
    if behaviour is None and "propensities" not in rows and not isinstance(policy, Behaviour):
        return figures
    ratio = importance_ratios(rows, policy, behaviour)
    with np.errstate(divide="ignore"):
        logs = np.bincount(episode[within_horizon], np.log(ratio[within_horizon]), len(starts))
    weights = np.exp(np.minimum(logs, MAX_LOG_WEIGHT))
    figures |= {
        "mean_ratio": float(ratio.mean()),
        "largest_ratio": float(ratio.max()),
        "effective_episodes": float(weights.sum() ** 2 / max(float(np.square(weights).sum()), 1e-300)),
        "weighted_returns_outside_range": share_outside(weights * returns),
    }
    if evaluation.theta is not None:
        figures["mspbe"] = mspbe(rows, evaluation, problem.gamma, ratio)
    return figures


def mspbe(rows: Table, evaluation: Evaluation, gamma: float, ratio: Float64) -> float:
    """The mean squared projected Bellman error of a value function over the rows, (b - A theta)^T C^+ (b - A theta)."""
    # A = mean of rho phi (phi - gamma phi')^T, b = mean of rho phi r, C = mean of phi phi^T; phi' is 0 after a
    # termination and bootstraps after a truncation (Sutton et al., ICML 2009). A constant value function may have a
    # small one: a small figure alone says little.
    assert evaluation.theta is not None
    assert evaluation.features is not None
    phi = np.asarray(evaluation.features(np.asarray(rows["observations"])), np.float64)
    next_phi = np.asarray(evaluation.features(np.asarray(rows["next_observations"])), np.float64)
    next_phi = np.where(np.asarray(rows["terminations"])[:, None], 0.0, next_phi)
    theta = evaluation.theta
    delta = np.asarray(rows["rewards"], np.float64) + gamma * next_phi @ theta - phi @ theta
    error = phi.T @ (ratio * delta) / len(phi)
    gram = phi.T @ phi / len(phi)
    return float(error @ np.linalg.pinv(gram, hermitian=True) @ error)


def importance_ratios(rows: Table, policy: Target, behaviour: DiscretePolicy | None) -> Float64:
    """pi(a | s) over the behaviour policy's probability of the logged action, of every row [T]."""
    actions = np.asarray(rows["actions"])
    if isinstance(policy, Behaviour):
        return np.ones(len(actions))
    observations = np.asarray(rows["observations"])
    taken_actions = (np.arange(len(actions)), actions.astype(np.int64))
    target_probability = policy.probabilities(observations)[taken_actions]
    logged = rows["propensities"] if behaviour is None else behaviour.probabilities(observations)[taken_actions]
    return np.asarray(target_probability / np.maximum(np.asarray(logged, np.float64), 1e-300))


def _episode_starts(rows: Table) -> NDArray[np.int64]:
    episode_ends = np.asarray(rows["terminations"]) | np.asarray(rows["truncations"])
    gap = np.asarray(rows["observations"])[1:] != np.asarray(rows["next_observations"])[:-1]
    new = episode_ends[:-1] | (gap if gap.ndim == 1 else gap.any(axis=1))
    return np.concatenate([[0], np.flatnonzero(new) + 1]).astype(np.int64)
