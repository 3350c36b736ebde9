"""What one person adds to a round: a gradient from own rows at the released parameters.

The vault clips the vector as a whole. Nothing is divided by the number of people, and nothing of a person is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.agents.features import Features
from tacit.agents.policies import Float32, Policy, ValueFunction

Rows = Mapping[str, NDArray[Any]]
Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Advantages:
    """The advantages of a plan: residual returns against a public baseline, then against the person's own fit."""

    gamma: float  # discount
    # lambda of generalised advantage estimation (Schulman et al., arXiv:1506.02438); 1 takes whole returns
    trace: float = 1.0
    # the constant reward r_c of the public baseline (see `residual_rewards`); None is no baseline
    reward_rate: float | None = None
    scale: float = 1.0  # public factor of the rewards
    # features on which each person's residual returns are fitted to take the fit away; None does not
    own: Features | None = None
    ridge: float = 0.005  # penalty of that fit, a row
    standardised: bool = True  # whether each person's advantages get mean 0 and standard deviation 1

    def __call__(self, rows: Rows, values: Float64 | None = None, following: Float64 | None = None) -> Float64:
        """Advantages [U, L], 0 where there is no row."""
        # rows: of U people; values: v(s_t) [U, L] of a critic of the (scaled) residual rewards, if there is one;
        # following: v(s_{t+1}) [U, L], likewise
        return self.finish(rows, self.errors(rows, values, following))

    def errors(self, rows: Rows, values: Float64 | None = None, following: Float64 | None = None) -> Float64:
        """Returns minus values [U, L]: what a critic is taught by, before the person's own fit."""
        rewards = self.scale * residual_rewards(rows, self.gamma, self.reward_rate)
        return traces(rows, rewards, self.gamma, self.trace, values, following)

    def finish(self, rows: Rows, errors: Float64) -> Float64:
        """Advantages from `errors`: less the own fit, and standardised."""
        if self.own is not None:
            errors = errors - fit_person_values(rows, errors, self.own, self.ridge)
        return standardise(errors, rows["mask"]) if self.standardised else errors


def residual_rewards(rows: Rows, gamma: float, rate: float | None) -> Float64:
    """Rewards minus those of a public guess: that everybody earns `rate` a step for ever, [U, L]."""
    # The guess is worth V = rate / (1 - gamma) in every state but 0 after a termination, so that the residual reward r
    # + gamma V(s') - V(s) is r - rate, and at a termination r - rate - gamma V besides. A cut by the public limit on
    # time is no termination: nothing is lost there that the guess had promised. With rate 1 (CartPole) the discounted
    # sum of a fall at time T is -gamma^(T - t) / (1 - gamma), and 0 for who stands until the limit.
    # rate: r_c, None leaves the rewards as they are
    rewards = np.where(rows["mask"], rows["rewards"], 0.0).astype(np.float64)
    if rate is None:
        return rewards
    lost_rewards = np.where(rows["terminations"], gamma * rate / (1 - gamma), 0.0)
    return np.where(rows["mask"], rewards - rate - lost_rewards, 0.0)


def traces(
    rows: Rows,
    rewards: Float64,
    gamma: float,
    trace: float,
    values: Float64 | None = None,
    following: Float64 | None = None,
) -> Float64:
    """Generalised advantages A_t = delta_t + gamma lambda A_{t+1} within each episode, [U, L]."""
    # delta_t = r_t + gamma v(s_{t+1}) - v(s_t), v = 0 after a termination. Without values and with lambda = 1 these are
    # discounted returns.
    mask = rows["mask"]
    deltas = np.where(mask, rewards, 0.0)
    if values is not None and following is not None:
        next_values = np.where(rows["terminations"], 0.0, gamma * following)
        deltas = np.where(mask, deltas + next_values - values, 0.0)
    continues = np.zeros(mask.shape)
    continues[:, :-1] = mask[:, 1:] & ~rows["starts"][:, 1:]
    by_time, weight = np.ascontiguousarray(deltas.T), np.ascontiguousarray(continues.T * (gamma * trace))
    for t in range(len(by_time) - 2, -1, -1):
        by_time[t] += weight[t] * by_time[t + 1]
    return np.ascontiguousarray(by_time.T)


def fit_person_values(rows: Rows, targets: Float64, features: Features, ridge: float) -> Float64:
    """Each person's ridge regression of own targets on own features and a constant, evaluated at own rows, [U, L]."""
    # It minimises sum_t (y_t - w . phi_t)^2 + ridge n |w|^2 over the person's n rows, and is forgotten at once.
    mask, fitted = rows["mask"], np.zeros(targets.shape)
    inputs, counts = features(rows["observations"][mask]), mask.sum(axis=1)
    for person, (n, end) in enumerate(zip(counts, np.cumsum(counts), strict=True)):
        x = np.ones((n, features.size + 1))
        x[:, 1:] = inputs[end - n : end]
        gram = x.T @ x
        gram.flat[:: gram.shape[0] + 1] += ridge * n
        fitted[person, :n] = x @ np.linalg.solve(gram, x.T @ targets[person, :n])
    return fitted


def standardise(advantages: Float64, mask: NDArray[np.bool_]) -> Float64:
    """Each person's advantages with mean 0 and standard deviation 1 over own rows; 0 where they do not vary."""
    count = np.maximum(mask.sum(axis=1, keepdims=True), 1)
    centred = np.where(mask, advantages - np.where(mask, advantages, 0.0).sum(axis=1, keepdims=True) / count, 0.0)
    spread = np.sqrt((centred**2).sum(axis=1, keepdims=True) / count)
    return np.asarray(centred / (spread + 1e-8))


_BLOCK = 512  # rows that are passed through a network at once: their activations stay in the processor's cache


@dataclass(frozen=True, eq=False)
class RoundInputs:
    """What a round's contributions may use: released or public values."""

    theta: Float32  # parameters of the policy that people were served with, [R, P]
    phi: Float32 | None  # parameters of the critic [R, Q], if there is one
    # factor of every contribution before the vault's constant clip, [R]: a trust region whose clip is c in this round
    # stretches by clip / c, and what is released is shrunk by c / clip
    stretch: Float64
    round: int = 0  # 0 .. T - 1.
    previous: Float32 | None = None  # the policy's noisy mean that was released last, [R, P]; None in the first round


@dataclass(frozen=True)
class EpisodeGradient:
    """One policy gradient a person: sum_t A_t grad log pi(a_t | s_t), at the released parameters."""

    policy: Policy  # whose score is taken
    advantages: Advantages  # from the person's own rows (and the critic's values)
    entropy: float = 0.0  # coefficient of the entropy of the policy in each of the person's states
    critic: ValueFunction | None = None  # None; or the critic whose values the advantages use
    # 0 leaves the critic's own gradient out; otherwise it is appended, times kappa, so that one clip bounds both
    # together (a private critic)
    kappa: float = 0.0

    def __call__(self, rows: Rows, state: RoundInputs) -> Float64:
        """[U, P], or [U, P + Q] with a private critic."""
        values = critic_values(self.critic, rows, state)
        errors = self.advantages.errors(rows, *values)
        weights = self.advantages.finish(rows, errors)
        vectors = np.empty((len(errors), self.policy.parameters))
        for people, n in blocks(rows["mask"]):
            theta = state.theta[rows["replicate"][people]]
            observations, actions = rows["observations"][people, :n], rows["actions"][people, :n]
            vectors[people] = self.policy.gradient(theta, observations, actions, weights[people, :n], self.entropy)
        if self.critic is not None and self.kappa:
            critic_slopes = CriticGradient(self.critic, self.advantages).slopes(rows, state, errors)
            vectors = np.concatenate([vectors, self.kappa * critic_slopes], axis=1)
        return np.asarray(vectors * state.stretch[rows["replicate"]][:, None])


@dataclass(frozen=True)
class CriticGradient:
    """One gradient of the critic a person: the mean over own rows of (return - v(s_t)) grad v(s_t)."""

    critic: ValueFunction  # the value function
    advantages: Advantages  # how returns are made

    def __call__(self, rows: Rows, state: RoundInputs) -> Float64:
        """[U, Q]."""
        return self.slopes(rows, state, self.advantages.errors(rows, *critic_values(self.critic, rows, state)))

    def slopes(self, rows: Rows, state: RoundInputs, errors: Float64) -> Float64:
        """[U, Q] for given errors [U, L]."""
        assert state.phi is not None
        vectors = np.empty((len(errors), self.critic.network.parameters))
        for people, n in blocks(rows["mask"]):
            phi = state.phi[rows["replicate"][people]]
            observations = rows["observations"][people, :n]
            vectors[people] = self.critic.gradient(phi, observations, errors[people, :n] / n)
        return vectors


def blocks(mask: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.int64], int]]:
    """(people, n): everybody once, in groups of equal length n, few enough for their rows to be handled at once."""
    # Groups are of equal length so that each person's numbers come out of products over own rows alone.
    lengths = mask.sum(axis=1)
    for n in np.unique(lengths):
        people = np.flatnonzero(lengths == n)
        size = max(1, _BLOCK // int(n))
        for start in range(0, len(people), size):
            yield people[start : start + size], int(n)


def critic_values(
    critic: ValueFunction | None, rows: Rows, state: RoundInputs
) -> tuple[Float64, Float64] | tuple[None, None]:
    """The critic's values of own observations and of those that followed, [U, L] each."""
    if critic is None:
        return None, None
    assert state.phi is not None
    values: list[NDArray[Any]] = [np.zeros(rows["mask"].shape), np.zeros(rows["mask"].shape)]
    for people, n in blocks(rows["mask"]):
        phi = state.phi[rows["replicate"][people]]
        for out, name in zip(values, ("observations", "next_observations"), strict=True):
            out[people, :n] = critic(phi, rows[name][people, :n])
    return values[0], values[1]
