"""The exact law of consensus prefixes on tiny decision processes, written from the algorithm and not from the door.

Noise is summed over the grid and not integrated: on a coarse grid (the theorem holds on any) every probability is exact
up to the ends of the noise, which are cut where they are below 1e-11.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tacit.privacy.mechanisms.thresholds import Thresholds

Array = np.ndarray
FAR = 26.0  # scales; e^-26 is 5e-12


@dataclass(frozen=True)
class Process:
    """States S, actions A: `starts` [S], `transitions` [S, A, S + 1], where the last is the episode's end."""

    starts: Array
    transitions: Array


@dataclass(frozen=True)
class Rule:
    """What the tests of one trajectory use.

    Args:
        thresholds: the threshold and its noise.
        grid: steps of the grid in one expert.
        kappa: the probability of a stop before every test.
        step_noise: "fresh" at every step, or the planted mistake "reused".
        down: weights are multiplied by it before they are rounded down; 1 where a coarse grid stands for a fine one.
    """

    thresholds: Thresholds
    grid: int
    kappa: float
    step_noise: Literal["fresh", "reused"] = "fresh"
    down: float = 1 - 2.0**-30


def law(
    process: Process, policies: Array, copies: Array, tests: Rule, horizon: int, slots: int, drawn: Array | None = None
) -> Array:
    """The probability of every output, in an order that does not depend on the experts.

    Args:
        process: the environment.
        policies: [m, S, A].
        copies: how many experts have each policy, [m].
        tests: see `Rule`.
        horizon: T.
        slots: of how many the expert is drawn; those without one release nothing, which is not among the outputs.
        drawn: the copies that can be drawn, all of them unless the mistake is to count others too.

    Returns:
        [outputs]: first those that stop before the first step (one a first state), then those that stop before the
        second, and so on; a prefix includes the state after its last step.
    """
    passing = (_reused if tests.step_noise == "reused" else _fresh)(tests)
    states = policies.shape[1]
    drawn = copies if drawn is None else drawn
    state = np.flatnonzero(process.starts)
    weights, chance = np.ones((len(policies), len(state))), process.starts[state]
    lots, lot = passing.start(), np.zeros(len(state), int)
    outputs = []
    for k in range(horizon + 1):
        likely = drawn @ weights
        through = passing.chance(lots)[lot]  # h, [nodes]
        running = (state < states) & (k < horizon)
        whole = chance * likely * through
        if not running.any():
            outputs.append(whole)
            break
        after = weights[:, running, None] * policies[:, state[running]]  # [m, nodes, A]
        grid = np.floor(after * tests.down * tests.grid)
        lots, failing = passing.step(lots, lot[running], np.tensordot(copies, grid, 1).astype(np.int64))
        cut = tests.kappa * likely[running] * through[running]
        cut += (1 - tests.kappa) * (np.tensordot(drawn, after, 1) * failing).sum(1)
        whole[running] = chance[running] * cut
        outputs.append(whole)
        onward = (1 - tests.kappa) * chance[running, None, None] * process.transitions[state[running]]
        node, action, state = np.nonzero(onward)  # [nodes, A, S + 1]: what the environment may do
        chance, weights = onward[node, action, state], after[:, node, action]
        lot = node * policies.shape[2] + action
    return np.concatenate(outputs) / slots


def hockey_stick(first: Array, second: Array, epsilon: float) -> float:
    """sup over sets of outputs of first(set) - e^epsilon second(set)."""
    return float(np.maximum(first - np.exp(epsilon) * second, 0).sum())


@dataclass(frozen=True)
class _Passing:
    """How the chance of having passed all tests so far goes on: an array of `lots`, one row a distinct history."""

    start: Callable[[], Array]
    chance: Callable[[Array], Array]
    step: Callable[[Array, Array, Array], tuple[Array, Array]]


def _fresh(tests: Rule) -> _Passing:
    """Lots: the chance of rho and of passing all tests so far, [lots, values of rho]."""
    bar, rho, density, scale = _noise(tests)

    def step(lots: Array, lot: Array, counts: Array) -> tuple[Array, Array]:
        before = lots[lot]  # [nodes, rho]
        distinct, where = np.unique(counts, return_inverse=True)
        passed = _at_least(bar + rho - distinct[:, None], scale)[where].reshape(*counts.shape, -1)
        after = before[:, None] * passed
        failing = before.sum(1)[:, None] - after.sum(2)
        return after.reshape(-1, len(rho)), failing

    return _Passing(lambda: density[None], lambda lots: lots.sum(1), step)


def _reused(tests: Rule) -> _Passing:
    """Lots: the smallest count so far, [lots, 1]; all tests pass if nu - rho reaches the bar less that count."""
    bar, rho, density, scale = _noise(tests)

    def chance(lots: Array) -> Array:
        distinct, where = np.unique(lots[:, 0], return_inverse=True)
        return np.where(lots[:, 0] > 2**59, 1.0, (_at_least(bar + rho - distinct[:, None], scale) @ density)[where])

    def step(lots: Array, lot: Array, counts: Array) -> tuple[Array, Array]:
        after = np.minimum(lots[lot], counts)
        failing = chance(lots)[lot][:, None] - chance(after.reshape(-1, 1)).reshape(after.shape)
        return after.reshape(-1, 1), failing

    return _Passing(lambda: np.full((1, 1), 2**60), chance, step)


def _noise(tests: Rule) -> tuple[int, Array, Array, float]:
    """The threshold, the values of rho and their probabilities, and the scale of nu; in steps of the grid."""
    told = tests.thresholds
    wide = told.threshold_scale * tests.grid
    rho = np.arange(-round(FAR * wide), round(FAR * wide) + 1)
    density = np.tanh(0.5 / wide) * np.exp(-np.abs(rho) / wide)
    return round(told.threshold * tests.grid), rho, density, told.step_scale * tests.grid


def _at_least(value: Array, scale: float) -> Array:
    """P[nu >= value]."""
    far = np.exp(-np.abs(np.where(value > 0, value, 1 - value)) / scale) / (1 + np.exp(-1 / scale))
    return np.where(value > 0, far, 1 - far)
