"""PPO and A2C, the non-private peers of private policy gradients; several agents at once along a leading axis.

PPO is Schulman et al. 2017 (arXiv:1707.06347) with what has become common practice (Huang et al., "The 37
implementation details of proximal policy optimization", 2022): generalised advantages, normalised in each minibatch,
orthogonal starts, Adam whose rate falls to 0 along a line, one bound on the norm of the whole gradient, running
normalisation of observations and scaling of rewards. A2C is the same with one epoch, no clipped ratio, RMSprop and 5
steps (Huang et al., "A2C is a special case of PPO", arXiv:2205.09123).

All episodes of an agent share a critic and the running statistics, so neither can be learned from people in private.
An episode that is cut at the horizon keeps the value of its last state; only one that terminates is worth 0 after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.agents.heads import Head
from tacit.agents.networks import Adam, Mlp, RmsProp, clip_by_norm
from tacit.envs.rollouts import Domain
from tacit.errors import PlanError

Array = npt.NDArray[Any]
F32 = npt.NDArray[np.float32]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

_RANGE = 10.0  # normalised observations and scaled rewards are cut here


def advantages(
    rewards: Array, values: Array, following: Array, terminated: BoolArray, done: BoolArray, gamma: float, trace: float
) -> Array:
    """Generalised advantages (Schulman et al., arXiv:1506.02438, equation 16) of steps [T, ...]."""
    # rewards, values, following: [T, ...] rewards, values of the states and of the states after them; terminated: the
    # episode ended in the state after, which is worth 0; done: it ended or was cut, later steps belong to another one;
    # gamma, trace: discount and lambda
    td_error = rewards + gamma * np.where(terminated, 0.0, following) - values
    out, later = np.empty_like(td_error), np.zeros_like(td_error[0])
    for t in range(len(td_error) - 1, -1, -1):
        later = td_error[t] + gamma * trace * np.where(done[t], 0.0, later)
        out[t] = later
    return out


def normalize(observations: Array, mean: FloatArray, deviation: FloatArray) -> F32:
    """(observations [G, N, d] - mean [G, d]) / deviation [G, d], cut to [-10, 10]."""
    x = (observations - mean[:, None]) / deviation[:, None]
    return np.asarray(np.clip(x, -_RANGE, _RANGE), dtype=np.float32)


@dataclass
class RunningMoments:
    """Mean and variance [G, d] of all values seen so far, each agent's own; the prior is one standard normal value."""

    mean: FloatArray
    variance: FloatArray
    count: float = 1.0

    @classmethod
    def from_prior(cls, agents: int, size: int) -> RunningMoments:
        """Before any value."""
        return cls(np.zeros((agents, size)), np.ones((agents, size)))

    def add(self, values: Array) -> None:
        """Enter values [G, N, d]."""
        n = values.shape[1]
        total = self.count + n
        shift = values.mean(axis=1) - self.mean
        between = np.square(shift) * self.count * n / total
        self.variance = (self.variance * self.count + values.var(axis=1) * n + between) / total
        self.mean = self.mean + shift * (n / total)
        self.count = total

    @property
    def deviation(self) -> FloatArray:
        """Standard deviation [G, d]."""
        return np.asarray(np.sqrt(self.variance + 1e-8))


@dataclass(frozen=True, eq=False)
class RolloutRows:
    """The steps of a rollout, agent by agent: T steps of N episodes are rows [G, T * N]."""

    x: F32  # [G, T N, d] normalised observations
    actions: Array  # [G, T N, ...] actions that were played
    log_probability: F32  # [G, T N] of them
    advantage: F32  # advantage, goal: [G, T N] generalised advantages, and what the values should be
    value_target: F32


class Episodes:
    """N running episodes of each of G agents, with the agents' running statistics of observations and returns."""

    def __init__(
        self,
        simulator: Domain,
        *,
        agents: int,
        environments: int,
        observation: int,
        horizon: int,
        generator: np.random.Generator,
    ) -> None:
        self._simulator, self._horizon, self._generator = simulator, horizon, generator
        self._shape = (agents, environments)
        self._state = simulator.starts(agents * environments, generator)
        self._age = np.zeros(agents * environments, dtype=np.int64)
        self._returns = np.zeros(agents * environments)
        self._return_moments = RunningMoments.from_prior(agents, 1)
        self.observation_moments = RunningMoments.from_prior(agents, observation)
        self._x = self._observe(self._state)

    def _observe(self, state: Array) -> F32:
        """What is seen of the states [G N], entered and normalised [G, N, d]."""
        observations = self._simulator.observe(state).reshape(*self._shape, -1)
        self.observation_moments.add(observations)
        return normalize(observations, self.observation_moments.mean, self.observation_moments.deviation)

    def rollout(
        self,
        steps: int,
        act: Callable[[F32], tuple[Array, F32]],
        values: Callable[[F32], F32],
        gamma: float,
        trace: float,
    ) -> RolloutRows:
        """Go on for T steps."""
        # steps: T; act: normalised observations [G, N, d] to actions [G, N, ...] and their log-probabilities [G, N];
        # values: normalised observations [G, M, d] to values [G, M]
        columns: dict[str, list[Array]] = {name: [] for name in ("x", "actions", "log", "paid", "end", "over", "after")}
        for _ in range(steps):
            actions, log_probability = act(self._x)
            row = {"x": self._x, "actions": actions, "log": log_probability, **self._step(actions, gamma)}
            for name, column in columns.items():
                column.append(row[name])
        joined = {name: _stack_by_agent(column) for name, column in columns.items()}
        state_values, next_values = values(joined["x"]), values(joined["after"])
        learnt: list[Array] = [joined["paid"], state_values, next_values, joined["end"], joined["over"]]
        rewards, value, next_value, terminated, done = (  # [T, G, N] of [G, T N]
            column.reshape(len(column), steps, -1).transpose(1, 0, 2) for column in learnt
        )
        estimates = advantages(rewards, value, next_value, terminated, done, gamma, trace)
        advantage = np.asarray(_stack_by_agent(list(estimates)), dtype=np.float32)
        return RolloutRows(joined["x"], joined["actions"], joined["log"], advantage, advantage + state_values)

    def _step(self, actions: Array, gamma: float) -> dict[str, Array]:
        """Move all episodes; scaled rewards, what happened, and the normalised observations after [G, N, d]."""
        played = actions.reshape(-1, *actions.shape[2:])
        state, rewards, terminated = self._simulator.step(self._state, played, self._generator)
        self._age += 1
        done = terminated | (self._age >= self._horizon)
        self._returns = gamma * self._returns + rewards
        self._return_moments.add(self._returns.reshape(*self._shape, 1))
        scaled_rewards = np.clip(rewards.reshape(self._shape) / self._return_moments.deviation, -_RANGE, _RANGE)
        self._returns[done] = 0.0
        next_observations = self._observe(state)
        self._state, self._x = state, next_observations
        if done.any():
            self._state[done] = self._simulator.starts(int(done.sum()), self._generator)
            self._age[done] = 0
            self._x = self._observe(self._state)
        return {
            "paid": scaled_rewards,
            "end": terminated.reshape(self._shape),
            "over": done.reshape(self._shape),
            "after": next_observations,
        }


def _stack_by_agent(column: list[Array]) -> Array:
    """[G, T N, ...] of T arrays [G, N, ...]."""
    stacked = np.stack(column, axis=1)
    return stacked.reshape(len(stacked), -1, *stacked.shape[3:])


@dataclass(frozen=True)
class PpoConfig:
    """Hyper-parameters; the defaults are PPO's, `PpoConfig.a2c` has those of A2C."""

    steps: int  # environment steps of one agent
    environments: int = 8  # episodes that run side by side for one agent
    rollout: int = 128  # steps of each of them between updates
    epochs: int = 4  # passes over the steps of a rollout
    minibatches: int = 4  # pieces of a pass
    ratio_clip: float | None = 0.2  # how far the ratio of probabilities counts from 1, or None for no bound
    gamma: float = 0.99  # discount
    trace: float = 0.95  # lambda of the generalised advantages
    entropy: float = 0.01  # weight of the entropy
    rate: float = 2.5e-4  # learning rate at the start; it falls to 0 along a line
    gradient_norm: float = 0.5  # largest Euclidean norm of an agent's gradient
    adam: bool = True  # Adam; otherwise RMSprop
    # advantages of a minibatch are shifted and scaled to mean 0 and standard deviation 1
    normalized_advantages: bool = True
    hidden: tuple[int, ...] = (64, 64)  # sizes of the hidden tanh layers of both networks

    def __post_init__(self) -> None:
        counts = (self.environments, self.rollout, self.epochs, self.minibatches, *self.hidden)
        positive = (self.rate, self.gradient_norm, 1.0 if self.ratio_clip is None else self.ratio_clip)
        sound = (
            min(counts) >= 1
            and self.steps >= self.environments * self.rollout
            and self.minibatches <= self.environments * self.rollout
            and all(value > 0.0 for value in positive)
            and 0.0 <= self.gamma < 1.0
            and 0.0 <= self.trace <= 1.0
            and self.entropy >= 0.0
        )
        if not sound:
            what = "a hyper-parameter is outside its range"
            expected = "counts >= 1, steps for one rollout at least, rates > 0, gamma in [0, 1), trace in [0, 1]"
            raise PlanError(what, where="PpoConfig", expected=expected, remedy="correct the value")

    @classmethod
    def a2c(cls, steps: int, *, environments: int = 16, rate: float = 7e-4, gamma: float = 0.99) -> PpoConfig:
        """Advantage actor-critic: one pass over 5 steps, no bound on the ratio, RMSprop."""
        return cls(
            steps,
            environments=environments,
            rollout=5,
            epochs=1,
            minibatches=1,
            ratio_clip=None,
            gamma=gamma,
            trace=1.0,
            rate=rate,
            adam=False,
            normalized_advantages=False,
        )


@dataclass(frozen=True, eq=False)
class PpoAgents:
    """G trained policies, as an actor that serves episodes of any of them. `mean` and `deviation` [G, d] normalise the
    observations that the network reads; theta [G, P] and free [G, e] are its and the head's parameters."""

    network: Mlp
    head: Head
    theta: F32
    free: F32
    mean: npt.NDArray[np.float64]
    deviation: npt.NDArray[np.float64]
    greedy: bool = False

    def __call__(self, observations: Array, replicate: Array, generator: np.random.Generator) -> Array:
        """Actions of observations [M, d], each of the agent `replicate` [M] in 0 .. G - 1."""
        order, counts = np.argsort(replicate, kind="stable"), np.bincount(replicate, minlength=len(self.theta))
        place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        owner = replicate[order]
        x = np.zeros((len(counts), int(counts.max(initial=1)), observations.shape[1]), dtype=np.float32)
        x[owner, place] = observations[order]
        outputs, _ = self.network.forward(self.theta, normalize(x, self.mean, self.deviation))
        played = self.head.greedy(outputs) if self.greedy else self.head.draw(outputs, self.free, generator)
        actions = np.empty((len(order), *played.shape[2:]), dtype=played.dtype)
        actions[order] = played[owner, place]
        return actions


def ratio_weights(log_ratio: F32, advantage: F32, clip: float | None) -> F32:
    """The slope of min(A r, A clip(r, 1 - clip, 1 + clip)) by log r: A r, or 0 where the bound is in force."""
    ratio = np.exp(log_ratio)
    weight = advantage * ratio
    if clip is None:
        return np.asarray(weight)
    bound = np.where(advantage > 0.0, ratio > 1.0 + clip, ratio < 1.0 - clip)
    return np.where(bound, np.float32(0.0), weight)


@dataclass(frozen=True, eq=False)
class PpoObjective:
    """The networks, where their parameters [G, P + e + Q] lie, and the objective's slope."""

    actor: Mlp
    critic: Mlp
    head: Head
    config: PpoConfig

    def split(self, theta: F32) -> tuple[F32, F32, F32]:
        """Parameters of the actor [G, P], of the head [G, e] and of the critic [G, Q]."""
        p, e = self.actor.parameters, self.head.parameters
        return theta[:, :p], theta[:, p : p + e], theta[:, p + e :]

    def initial_parameters(self, generator: np.random.Generator, agents: int) -> F32:
        free = np.zeros((agents, self.head.parameters), dtype=np.float32)
        networks = self.actor.initial_parameters(generator, agents), self.critic.initial_parameters(generator, agents)
        return np.concatenate([networks[0], free, networks[1]], axis=1)

    def values(self, theta: F32, x: F32) -> F32:
        """[G, N] for x [G, N, d]."""
        return np.asarray(self.critic.forward(self.split(theta)[2], x)[0][..., 0])

    def slope(self, theta: F32, rows: RolloutRows) -> F32:
        """Slope [G, P + e + Q], by theta, of the mean over the rows of min(A r, A clip(r)) + entropy H - (V - goal)^2 /
        4, r the ratio of the new probability to the old one."""
        by_actor, free, by_critic = self.split(theta)
        count = rows.value_target.shape[1]
        outputs, cache = self.actor.forward(by_actor, rows.x)
        log_ratio = self.head.log_probability(outputs, free, rows.actions) - rows.log_probability
        weight = ratio_weights(log_ratio, rows.advantage, self.config.ratio_clip) / np.float32(count)
        by_outputs, by_free = self.head.slopes(outputs, free, rows.actions, weight, self.config.entropy / count)
        values, critic_cache = self.critic.forward(by_critic, rows.x)
        by_values = (rows.value_target[..., None] - values) / np.float32(2 * count)
        parts = (
            self.actor.backward(by_actor, cache, by_outputs)[:, 0],
            by_free,
            self.critic.backward(by_critic, critic_cache, by_values)[:, 0],
        )
        return np.concatenate(parts, axis=1)


def learn(
    simulator: Domain,
    head: Head,
    config: PpoConfig,
    *,
    observation: int,
    horizon: int,
    agents: int = 1,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> PpoAgents:
    """Train agents that share nothing but the generator; the same arguments give the same parameters.

    Args:
        simulator: the environment.
        head: the distribution over actions.
        config: hyper-parameters.
        observation: d.
        horizon: steps after which an episode is cut.
        agents: G.
        seed: of everything random.
        progress: called with (steps done, steps) of one agent.

    Raises:
        PlanError: the parameters diverged.
    """
    generator = np.random.default_rng(seed)
    sizes = (observation, *config.hidden)
    learner = PpoObjective(Mlp((*sizes, head.outputs), gain=0.01), Mlp((*sizes, 1), gain=1.0), head, config)
    theta = learner.initial_parameters(generator, agents)
    optimizer = Adam(np.zeros_like(theta), np.zeros_like(theta)) if config.adam else RmsProp(np.zeros_like(theta))
    episodes = Episodes(
        simulator,
        agents=agents,
        environments=config.environments,
        observation=observation,
        horizon=horizon,
        generator=generator,
    )
    size = config.environments * config.rollout
    updates = config.steps // size

    def act(x: F32) -> tuple[Array, F32]:
        by_actor, free, _ = learner.split(theta)
        outputs, _ = learner.actor.forward(by_actor, x)
        actions = head.draw(outputs, free, generator)
        return actions, head.log_probability(outputs, free, actions)

    for k in range(updates):
        rows = episodes.rollout(config.rollout, act, lambda x: learner.values(theta, x), config.gamma, config.trace)
        for batch in _batches(rows, config, generator):
            slope = clip_by_norm(learner.slope(theta, batch), config.gradient_norm)
            optimizer.ascend(theta, slope, config.rate * (1.0 - k / updates))
        if progress is not None:
            progress((k + 1) * size, config.steps)
    if not np.isfinite(theta).all():
        what, expected = "the parameters diverged", "a smaller rate"
        raise PlanError(what, where="ppo.learn", expected=expected, remedy="lower rate= of the PpoConfig")
    by_actor, free, _ = learner.split(theta)
    moments = episodes.observation_moments
    return PpoAgents(learner.actor, head, by_actor.copy(), free.copy(), moments.mean, moments.deviation)


def _batches(rows: RolloutRows, config: PpoConfig, generator: np.random.Generator) -> Iterator[RolloutRows]:
    """The minibatches of all epochs, advantages normalised in each; rows that do not fill one are left out."""
    count = rows.value_target.shape[1]
    size = count // config.minibatches
    for _ in range(config.epochs):
        order = generator.permutation(count)
        for k in range(config.minibatches):
            at = order[k * size : (k + 1) * size]
            advantage = rows.advantage[:, at]
            if config.normalized_advantages:
                spread = advantage.std(axis=1, keepdims=True) + np.float32(1e-8)
                advantage = (advantage - advantage.mean(axis=1, keepdims=True)) / spread
            log_probability, value_target = rows.log_probability[:, at], rows.value_target[:, at]
            yield RolloutRows(rows.x[:, at], rows.actions[:, at], log_probability, advantage, value_target)
