"""The server's side: policies of states without places, rollouts, generalised advantages and PPO, all of public values.

A policy network sees only (slot, distinct places, stay, at home), so the same states come again and again in thousands
of days. The clipped objective of PPO is, for rows of one state and action, their ratio's own times the sum of their
positive and of their negative advantages: it is computed of each distinct state once, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.agents.networks import Adam, Mlp, clip_by_norm
from tacit.envs import movement
from tacit.envs.spaces import UnboundedSpace
from tacit.methods.mobility.pategail.critics import ACTIONS, DECISIONS, Embedding
from tacit.methods.mobility.pategail.rewards import pair_codes
from tacit.methods.mobility.simulator import TablePolicy
from tacit.validation import require_valid

Array = NDArray[Any]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
IntArray = NDArray[np.int64]

_RETURNS = np.float32(5.0)
"""What the value network's output is multiplied by: about the size of the returns of a day."""


@dataclass(frozen=True, kw_only=True)
class Ppo:
    """Proximal policy optimisation (Schulman et al. 2017) with generalised advantages, of whole days.

    Args:
        hidden: widths of the hidden layers of the policy and of the value network.
        rate: of Adam.
        epochs: passes over a round's days, a step each.
        ratio_clip: how far the ratio of probabilities counts from 1.
        most_kl: the passes end when the policy has moved this far, in mean Kullback-Leibler divergence from the old.
        gamma: discount.
        trace: lambda of the advantages.
        entropy: weight of the entropy.
        value_steps: of Adam on the value network, a round.
        average: decay of the exponential moving average of the weights, whose last value is released.
    """

    hidden: tuple[int, ...] = (64,)
    rate: float = 0.005
    epochs: int = 20
    ratio_clip: float = 0.2
    most_kl: float = 0.03
    gamma: float = 0.99
    trace: float = 0.95
    entropy: float = 0.001
    value_steps: int = 20
    average: float = 0.9

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        for name in ("rate", "ratio_clip", "most_kl"):
            value = getattr(self, name)
            require_valid(f"ppo.{name}", value, 0 < value < math.inf, "a finite number > 0")
        for name in ("gamma", "trace"):
            require_valid(f"ppo.{name}", getattr(self, name), 0 <= getattr(self, name) <= 1, "a number in [0, 1]")
        require_valid("ppo.entropy", self.entropy, 0 <= self.entropy < math.inf, "a finite number >= 0")
        require_valid("ppo.average", self.average, 0 <= self.average < 1, "a number in [0, 1)")
        for name in ("epochs", "value_steps"):
            value = getattr(self, name)
            require_valid(f"ppo.{name}", value, type(value) is int and value >= 1, "a whole number >= 1")


@dataclass(frozen=True, eq=False)
class Rollouts:
    """Days of a policy, and the distinct states in which it acted."""

    codes: IntArray  # [D, 47] of state-action pairs
    states: IntArray  # [S] codes of the distinct states (with what was possible there)
    possible: Array  # [S, A]
    state_index: IntArray  # [D, 47] the state of each row as an index into `states`
    actions: IntArray  # [D, 47]
    old_probabilities: Float64  # [S, A] the policy's probabilities there


class PpoLearner:
    """A policy and a value network, their optimisers, and the moving average of the policy's weights.

    Args:
        config: hyper-parameters.
        embedding: of the states.
        last: whether going back to the last place is an action of its own.
        seed: of the first weights, which are public.
    """

    def __init__(self, config: Ppo, embedding: Embedding, *, last: bool = True, seed: int = 0) -> None:
        self.config, self.embedding, self.last = config, embedding, last
        self.actions = ACTIONS if last else ACTIONS - 1
        inputs, generator = embedding.state_size, np.random.default_rng(seed)
        self.policy = Mlp((inputs, *config.hidden, self.actions), gain=0.01)
        self.value = Mlp((inputs, *config.hidden, 1), gain=0.1)
        self.theta, self.phi = self.policy.initial_parameters(generator, 1), self.value.initial_parameters(generator, 1)
        self.mean, self.rounds = np.zeros_like(self.theta), 0
        self._theta, self._phi = _adam(self.theta), _adam(self.phi)
        self._all = embedding.embed_states(np.arange(embedding.states))

    def arrays(self) -> dict[str, Array]:
        """Weights, their average, and the optimisers' moments and steps, by name."""
        weights = {"theta": self.theta, "phi": self.phi, "mean": self.mean}
        for name, adam in (("theta", self._theta), ("phi", self._phi)):
            weights |= {f"{name}.first": adam.first, f"{name}.second": adam.second}
        return {**weights, "steps": np.array([self.rounds, self._theta.steps, self._phi.steps])}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Take up what `arrays` gave."""
        self.theta, self.phi, self.mean = arrays["theta"], arrays["phi"], arrays["mean"]
        self.rounds, *steps = (int(count) for count in arrays["steps"])
        self._theta = Adam(arrays["theta.first"], arrays["theta.second"], steps[0])
        self._phi = Adam(arrays["phi.first"], arrays["phi.second"], steps[1])

    def table(self, *, averaged: bool = False) -> TablePolicy:
        """The policy as it is, or the moving average of its weights, in every state."""
        theta = self.theta
        if averaged and self.rounds and self.config.average:
            theta = self.mean / np.float32(1.0 - self.config.average**self.rounds)
        logits = self.policy.forward(theta, self._all[None])[0][0].astype(np.float64)
        return TablePolicy(self.embedding.layout, _softmax(logits, np.ones(logits.shape, np.bool_))[None])

    def play(self, count: int, rng: np.random.Generator) -> Rollouts:
        """`count` days of the policy as it is."""
        policy = self.table()
        cells = movement.play(policy, UnboundedSpace(), np.zeros(count, np.int64), rng)
        codes = pair_codes(cells, self.embedding, self.last)
        states, actions = np.divmod(codes, ACTIONS)
        possible = movement.possible_actions(cells, actions=self.actions)
        key = (states << self.actions) + (possible << np.arange(self.actions)).sum(axis=2)
        keys, first, at = np.unique(key, return_index=True, return_inverse=True)
        masks = possible.reshape(-1, self.actions)[first]
        old = policy.table[0, keys >> self.actions] * masks
        return Rollouts(
            codes, keys >> self.actions, masks, at.reshape(states.shape), actions, old / old.sum(1)[:, None]
        )

    def learn(self, days: Rollouts, rewards: Float64, asked_mask: Array | None = None) -> None:
        """One round of PPO."""
        # rewards: [D, 47]; seen: rows [D, 47] that count, None for all
        config, count = self.config, len(days.states)
        x = self._all[days.states][None]
        advantages, goals = self._advantages(x, days.state_index, rewards)
        asked_mask = np.ones(rewards.shape, np.bool_) if asked_mask is None else asked_mask
        at, chosen = days.state_index[asked_mask], days.actions[asked_mask]
        a, goal = advantages[asked_mask], goals[asked_mask]
        a = (a - a.mean()) / (a.std() + 1e-8)
        cell, size = at * self.actions + chosen, count * self.actions
        up = np.bincount(cell, np.maximum(a, 0), size).reshape(count, -1) / len(a)
        down = np.bincount(cell, np.minimum(a, 0), size).reshape(count, -1) / len(a)
        share = np.bincount(at, minlength=count) / len(a)
        target = np.bincount(at, goal, count) / np.maximum(share * len(a), 1)
        for _ in range(config.epochs):
            outputs, cache = self.policy.forward(self.theta, x)
            new = _softmax(outputs[0].astype(np.float64), days.possible)
            logs = np.log(np.maximum(new, 1e-12))
            moved = (days.old_probabilities * (np.log(np.maximum(days.old_probabilities, 1e-12)) - logs)).sum(axis=1)
            if (share * moved).sum() > config.most_kl:
                break
            ratio = new / np.maximum(days.old_probabilities, 1e-12)
            weight = ratio * (up * (ratio < 1 + config.ratio_clip) + down * (ratio > 1 - config.ratio_clip))
            slope = weight - new * weight.sum(axis=1, keepdims=True)
            slope -= config.entropy * share[:, None] * new * (logs - (new * logs).sum(axis=1, keepdims=True))
            self._climb(self.policy.backward(self.theta, cache, slope.astype(np.float32)[None])[:, 0])
        for _ in range(config.value_steps):
            values, cache = self.value.forward(self.phi, x)
            error = share[:, None] * (target[:, None] - _RETURNS * values[0]) / _RETURNS
            by_phi = self.value.backward(self.phi, cache, error.astype(np.float32)[None])[:, 0]
            self._phi.ascend(self.phi, by_phi, 2 * config.rate)
        self._remember()

    def climb(self, slope: Float64) -> None:
        """One round of gradient mode: a step of Adam along a given policy gradient [P]."""
        self._climb(slope.astype(np.float32)[None])
        self._remember()

    def slopes(self, days: Rollouts, codes: IntArray) -> Float64:
        """The policy gradient [T, P] that a reward of 1 for each of the sorted pairs `codes` [T] would give."""
        # sum over the rows of the pair of the trace sum_{t <= k} (gamma lambda)^(k - t) grad log pi(a_t | s_t), a mean
        # over days; for a policy without hidden layers.
        width = self.embedding.state_size + 1
        x = np.ones((len(days.states), width))
        x[:, :-1] = self._all[days.states]
        score = np.eye(self.actions)[days.actions] - days.old_probabilities[days.state_index]
        gradients = np.zeros((len(codes), width * self.actions))
        trace = np.zeros((len(days.codes), width * self.actions))
        for t in range(DECISIONS):
            trace *= self.config.gamma * self.config.trace
            trace += (x[days.state_index[:, t], :, None] * score[:, t, None]).reshape(trace.shape)
            np.add.at(gradients, np.searchsorted(codes, days.codes[:, t]), trace)
        return gradients / len(days.codes)

    def _advantages(self, x: Float32, at: IntArray, rewards: Float64) -> tuple[Float64, Float64]:
        """Generalised advantages and the goals of the value network, [D, 47] each; a day is worth 0 after its end."""
        values = (_RETURNS * self.value.forward(self.phi, x)[0][0, :, 0]).astype(np.float64)[at]
        next_values = np.concatenate([values[:, 1:], np.zeros((len(values), 1))], axis=1)
        advantages = rewards + self.config.gamma * next_values - values
        for t in range(DECISIONS - 2, -1, -1):
            advantages[:, t] += self.config.gamma * self.config.trace * advantages[:, t + 1]
        return advantages, advantages + values

    def _climb(self, slope: Float32) -> None:
        self._theta.ascend(self.theta, clip_by_norm(slope, 1.0), self.config.rate)

    def _remember(self) -> None:
        self.rounds += 1
        self.mean = np.float32(self.config.average) * self.mean + np.float32(1 - self.config.average) * self.theta


def _softmax(logits: Float64, possible: Array) -> Float64:
    masked = np.where(possible, logits, -np.inf)
    weight = np.exp(masked - masked.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def _adam(theta: Float32) -> Adam:
    return Adam(np.zeros_like(theta), np.zeros_like(theta))
