"""Structured treatment of HIV (Adams et al., "Dynamic multidrug therapies for HIV", Math. Biosci. Eng. 1, 2004; as a
decision process: Ernst et al., "Clinical data based optimal STI strategies for HIV", CDC 2006), many patients at once.

A state is (T1, T2, T1*, T2*, V, E): healthy and infected cells of two kinds, free virus and immune effectors, per ml. A
step is five days (by default) under one of four treatments (none, RTI, PI, both; efficacies 0.7 and 0.3). Its reward,
in units of 1e5, is -0.1 V - 2e4 RTI^2 - 2e3 PI^2 + 1e3 E of the state after the step, clipped to `REWARD`. Observations
are log10 of the state. Nothing terminates; an episode is truncated after 200 steps (1,000 days).

Choices that the papers leave open. Starts: the unhealthy steady state of the papers, each number times 10^u with u
uniform in [-0.2, 0.2] (with a single start all patients would be alike). Rewards are clipped at 5 (of 1,000 steps under
`behaviour`, 4 are), so that a public bound of a sensible size exists: a patient whose immune system has won pays 3,500.
Q comes from fitted Q iteration, as in the paper of 2006; `behaviour` is the softmax of Q scaled to [0, 1] over the four
actions of each state; `target` does the same but takes the best action with probability 0.2. So the ratio of the two is
at most 0.8 + 0.2 (3 + 1/e) = 1.47 in a step, and never below 0.8; its mean square is 1.07.

The equations are stiff while many cells are being infected: the classical Runge-Kutta method needs steps of 0.01 day
(0.05 day, five times as much, stays finite and is wrong by far; 0.02 day fails when the virus is above about 1e6).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.envs.rollouts import Array, FloatArray, Policy, Stepped, require_physical, uniform_policy
from tacit.envs.rollouts import collect as _collect
from tacit.envs.rollouts import monte_carlo_values as _truth
from tacit_worlds.agents.q_learning import FourierQ, epsilon_greedy, fit, softmax

__all__ = ["ACTIONS", "FEATURE_HIGH", "FEATURE_LOW", "GAMMA", "HORIZON", "REWARD", "STEADY_STATE", "Hiv"]
__all__ += ["behaviour_policy", "collect", "integrate", "integrate_compiled", "integrate_numpy", "learned_q"]
__all__ += ["monte_carlo_values", "spec", "target_policy"]

ACTIONS = 4
DRUGS: Final = np.array([(0.0, 0.0), (0.7, 0.0), (0.0, 0.3), (0.7, 0.3)])
"""Efficacies (RTI, PI) of each action."""
STEADY_STATE = (163573.0, 5.0, 11945.0, 46.0, 63919.0, 24.0)
SPREAD = 0.2
GAMMA = 0.98
HORIZON = 200
SUBSTEP = 0.01
REWARD = (-1.0, 5.0)
SMALLEST, LARGEST = -5.0, 8.0
FEATURE_LOW = (4.0, -1.0, -2.0, -2.0, -1.0, 1.0)
FEATURE_HIGH = (6.0, 3.5, 5.5, 3.0, 6.5, 4.0)
"""Public bounds of log10 of a state that features scale from: where patients under changing treatment are."""
GREEDY_SHARE = 0.2

Integrate = Callable[[FloatArray, FloatArray, int, float], None]
"""`(state [N, 6], drugs [N, 2], steps, length)`: advances `state` in place by `steps` steps of `length` days."""


def spec() -> PublicSpec:
    """log10 of every number in [-5, 8], four actions, rewards in `REWARD`, no terminations, logged propensities."""
    return PublicSpec(
        observation=Box((SMALLEST,) * 6, (LARGEST,) * 6),
        action=Discrete(ACTIONS),
        reward=Box((REWARD[0],), (REWARD[1],)),
        source="physics",
        terminals=False,
        propensities=True,
    )


def integrate_numpy(state: FloatArray, drugs: FloatArray, steps: int, length: float) -> None:
    """The classical Runge-Kutta method in numpy; the reference of the compiled kernel and its stand-in.

    Args:
        state: [N, 6], changed in place.
        drugs: [N, 2] efficacies of RTI and PI.
        steps: how many steps.
        length: days of one step.
    """
    now, rti, pi = np.ascontiguousarray(state.T), drugs[:, 0], drugs[:, 1]
    for _ in range(steps):
        first = _rates(now, rti, pi)
        second = _rates(now + 0.5 * length * first, rti, pi)
        third = _rates(now + 0.5 * length * second, rti, pi)
        fourth = _rates(now + length * third, rti, pi)
        now += length / 6.0 * (first + 2.0 * (second + third) + fourth)
    state[:] = now.T


def _rates(state: FloatArray, rti: FloatArray, pi: FloatArray) -> FloatArray:
    """Rates of change per day, [6, N] of [6, N]."""
    t1, t2, infected1, infected2, v, e = state
    new1 = (1.0 - rti) * 8e-7 * v * t1
    new2 = (1.0 - 0.34 * rti) * 1e-4 * v * t2
    infected = infected1 + infected2
    return np.stack(
        [
            1e4 - 0.01 * t1 - new1,
            31.98 - 0.01 * t2 - new2,
            new1 - 0.7 * infected1 - 1e-5 * e * infected1,
            new2 - 0.7 * infected2 - 1e-5 * e * infected2,
            (1.0 - pi) * 70.0 * infected - 13.0 * v - (new1 + new2),
            1.0 + (0.3 * infected / (infected + 100.0) - 0.25 * infected / (infected + 500.0) - 0.1) * e,
        ]
    )


def _load_kernel() -> Integrate | None:
    try:
        return cast(Integrate, importlib.import_module("tacit_worlds._hiv").integrate)
    except ImportError:
        return None


integrate_compiled: Final = _load_kernel()
"""The C kernel (equal up to rounding, some 40 times as fast), or None where tacit was installed without a compiler."""
integrate: Final[Integrate] = integrate_compiled or integrate_numpy


@dataclass(frozen=True)
class Hiv:
    """The dynamics; a state is (T1, T2, T1*, T2*, V, E). Raises DataError where a parameter is not finite, one is
    negative, or a step has no length."""

    # what a full dose of RTI and of PI costs in the reward, times the squared efficacy
    penalties: tuple[float, float] = (2e4, 2e3)
    # standard deviation of normal noise on the efficacies of the drugs that are given, drawn for every patient and
    # step; efficacies stay within [0, 1], and the penalties are those without the noise
    efficacy_noise: float = 0.0
    days: float = 5.0  # length of a step, 20 in the experiments with experts

    def __post_init__(self) -> None:
        costs = {f"penalties[{i}]": self.penalties[i] for i in (0, 1)}
        require_physical("Hiv", {"days": self.days}, costs | {"efficacy_noise": self.efficacy_noise})

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        """[N, 6] around the unhealthy steady state."""
        return np.array(STEADY_STATE) * 10.0 ** generator.uniform(-SPREAD, SPREAD, (units, 6))

    def step(self, state: Array, action: npt.NDArray[np.int64], generator: np.random.Generator) -> Stepped:
        """States [N, 6] after the step and rewards [N]; nothing terminates, and only the efficacies may be random."""
        next_state, drugs = np.array(state, dtype=np.float64, order="C"), DRUGS[action]
        effect = drugs
        if self.efficacy_noise > 0.0:
            moved = drugs + generator.normal(0.0, self.efficacy_noise, drugs.shape)
            effect = np.where(drugs > 0.0, np.clip(moved, 0.0, 1.0), 0.0)
        integrate(next_state, effect, max(1, round(self.days / SUBSTEP)), SUBSTEP)
        rti, pi = self.penalties
        rewards = 1e3 * next_state[:, 5] - 0.1 * next_state[:, 4] - rti * drugs[:, 0] ** 2 - pi * drugs[:, 1] ** 2
        return next_state, np.clip(1e-5 * rewards, *REWARD), np.zeros(len(state), dtype=bool)

    def observe(self, state: Array) -> Array:
        """log10 of the states as float32."""
        return np.asarray(np.log10(np.maximum(state, 10.0**SMALLEST)), dtype=np.float32)


@lru_cache(maxsize=1)
def learned_q() -> FourierQ:
    """Q of 31 features an action (order 5, uncoupled), from 150 patients under random treatment and 150 under the first
    fit's best one; about a second with the C kernel and a minute without."""
    columns: list[dict[str, Array]] = []
    policy = uniform_policy(ACTIONS)
    for seed in (0, 1):
        columns.append(collect(policy, 150, seed=seed))
        q = fit(
            columns,
            actions=ACTIONS,
            low=FEATURE_LOW,
            high=FEATURE_HIGH,
            order=5,
            coupled=False,
            gamma=GAMMA,
            value=(REWARD[0] / (1.0 - GAMMA), REWARD[1] / (1.0 - GAMMA)),
        )
        policy = epsilon_greedy(q, 0.2)
    return q


def behaviour_policy() -> Policy:
    """The policy that the logs come from: the softmax of Q, scaled to [0, 1] over the actions of each state."""
    q = learned_q()

    def scaled_q(observations: Array) -> FloatArray:
        values = q(observations)
        values -= values.min(axis=1, keepdims=True)
        return np.asarray(values / np.maximum(values.max(axis=1, keepdims=True), 1e-12))

    return softmax(scaled_q, 1.0)


def target_policy() -> Policy:
    """The policy to evaluate: the best action with probability 0.2, else as `behaviour`."""
    usual, best = behaviour_policy(), epsilon_greedy(learned_q(), 0.0)
    return lambda observations: (1.0 - GREEDY_SHARE) * usual(observations) + GREEDY_SHARE * best(observations)


def collect(policy: Policy, units: int, *, seed: int, horizon: int = HORIZON) -> dict[str, Array]:
    """One episode of each of `units` patients under `policy`; the columns of `tacit.envs.rollouts.collect`."""
    return _collect(Hiv(), policy, units, seed=seed, horizon=horizon)


def monte_carlo_values(
    policy: Policy, states: Array, *, rollouts: int, horizon: int = 500, gamma: float = GAMMA, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Values [S] of the states [S, 6] and their standard errors (`tacit.envs.rollouts.monte_carlo_values`)."""
    return _truth(Hiv(), policy, states, rollouts=rollouts, horizon=horizon, gamma=gamma, seed=seed)
