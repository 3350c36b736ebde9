"""A day of insulin doses for people with type 1 diabetes, many at once: the expanded Bergman minimal model, in the form
of the public simulator of Salas, Ferguson and Zweig ("Reinforcement learning for personalized medication dosing", 2019,
the environments Diabetic-v0 and -v1), which the paper on private policy gradients (arXiv 2501.19080) calls Dosing-0 and
Dosing-1.

The body is (G, X, I, S1, S2, Q): blood glucose (mg/dL), insulin at the tissue and in the plasma, two depots, glucose in
the gut. With the dose u (mU/min) and the meal d, per minute,

    G'  = -p1 (G - Gb) - si X G + (f kabs / Vg) Q + (f / Vg) d       X' = p2 (I - X)         I' = -ke I + u
    S1' = u - kemp S1        S2' = kemp (S1 - S2)        Q' = kemp S2 - kabs Q

(insulin feeds the gut: a quirk of the model, kept as it is). A decision holds for ten minutes and is integrated by the
classical Runge-Kutta method in 20 steps: 10 do for doses up to 8 and diverge for a lasting dose of 10. Its reward is
1 - tanh((G - 80) / 7)^2 of the new G, and -1 outside [65, 105]. Before the first of the 143 decisions of a day, ten
minutes pass under a first dose (3 in Dosing-0, a whole number from 0 to 6 in Dosing-1).

People see what they ate in the last ten minutes and the ten before, not what they will eat. Dosing-1 draws a day's
meals for every person: a base in [800, 1200] and up to six meals (`MEALS`), each a spike at its time, smoothed by the
Savitzky-Golay filter of 11 points and order 3 and never below the base. (The simulator's latest dinner is at 29.5 h,
evidently for 19.5 h, which we use.) Dosing-0 has one day for everybody. The simulator has a table of it; ours has the
same base, 1000, and the same three peaks, 1632, 1603 and 1593, but between them the simplest curve: up to a peak in a
straight line over half an hour, and down by a factor e every half an hour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import ndtr, ndtri

from tacit.data.spec import Box, PublicSpec
from tacit.envs.rollouts import Array, FloatArray, Stepped

HORIZON = 143
"""Decisions of a day, the largest return too: the 144 intervals of ten minutes less the first dose's."""
DOSE = (0.0, 10.0)
LOW = (40.0, 0.0, 0.0, 0.0, 0.0, 0.0, 700.0, 40.0, 700.0)
HIGH = (160.0, 80.0, 80.0, 45.0, 45.0, 600.0, 1700.0, 160.0, 1700.0)
"""Public scales of (G, X, I, S1, S2, Q, meal, previous G, previous meal): glucose from a severe low to twice the
normal, the rest what doses from 0 to 7 lead to. Policies clip to them; the simulation does not.
"""

GB, P1, P2, SI, KE, KABS, KEMP, F, VG = 291.0, 3.17e-2, 1.23e-2, 2.9e-2, 9e-2, 1.2e-2, 0.18, 0.8, 12.0
TARGET, WIDTH, LOWEST, HIGHEST = 80.0, 7.0, 65.0, 105.0
MINUTES, SUBSTEPS, GRID = 10.0, 20, 145
BASE, PEAKS, RISE = 1000.0, ((7.5, 1632.0), (13.0 + 2.0 / 3.0, 1603.0), (19.5, 1593.0)), 0.5
BASES = (800.0, 1200.0)
MEALS: Final = (
    (0.95, 7.0, 5.0, 9.0, 2500.0, 100.0),
    (0.2, 9.5, 9.0, 10.0, 1250.0, 50.0),
    (0.95, 12.0, 11.0, 13.0, 2800.0, 100.0),
    (0.2, 15.0, 14.0, 16.0, 1250.0, 50.0),
    (0.95, 18.0, 16.5, 19.5, 2800.0, 100.0),
    (0.2, 21.0, 20.0, 22.0, 1250.0, 50.0),
)
"""Probability, mean, earliest and latest hour (a truncated normal with standard deviation `SPREAD`), mean and standard
deviation of the amount.
"""
SPREAD = 10.0 / 6.0
SMOOTH: Final = (89.0 - 5.0 * np.arange(-5.0, 6.0) ** 2) / 429.0
"""The Savitzky-Golay filter of 11 points and order 3."""

BODY, TIME, BEFORE, MEAL, MEAL_BEFORE, BASE_AT, SPIKES = slice(0, 6), 6, 7, 8, 9, 10, slice(11, 17)
AMOUNTS = slice(17, 23)
"""Columns of a state; Dosing-0 has the first ten."""


def spec() -> PublicSpec:
    """Nine bounded numbers, a dose in [0, 10], rewards in [-1, 1], no terminations."""
    return PublicSpec(
        observation=Box(LOW, HIGH),
        action=Box((DOSE[0],), (DOSE[1],)),
        reward=Box((-1.0,), (1.0,)),
        source="physics",
        terminals=False,
    )


@dataclass(frozen=True)
class Dosing:
    """The dynamics of Dosing-1, where everybody has meals of their own, or of Dosing-0 with `personal=False`."""

    personal: bool = True

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        """[N, 23] or [N, 10], ten minutes into the day."""
        state = np.zeros((units, 23 if self.personal else 10))
        state[:, 0] = generator.uniform(LOWEST, HIGHEST, units)
        state[:, 1:6] = generator.normal((33.33, 33.33, 25.0, 25.0, 250.0), 5.0, (units, 5))
        dose = np.full(units, 3.0)
        if self.personal:
            dose = generator.integers(7, size=units).astype(np.float64)
            state[:, BASE_AT] = generator.uniform(*BASES, units)
            state[:, SPIKES], state[:, AMOUNTS] = _draw_meals(state[:, BASE_AT], generator)
        state[:, MEAL] = self._meal(state)
        return self._advance(state, dose)

    def step(self, state: Array, action: Array, generator: np.random.Generator) -> Stepped:
        """States ten minutes later, rewards [N] and no ends [N], for doses [N, 1] or [N]; nothing is random."""
        next_state = self._advance(state, np.clip(np.asarray(action, dtype=np.float64).reshape(len(state)), *DOSE))
        glucose = next_state[:, 0]
        rewards = 1.0 - np.tanh((glucose - TARGET) / WIDTH) ** 2
        rewards[(glucose < LOWEST) | (glucose > HIGHEST)] = -1.0
        return next_state, rewards, np.zeros(len(state), dtype=np.bool_)

    def observe(self, state: Array) -> Array:
        """[N, 9] float32: the body, the meal of the last ten minutes, glucose and meal ten minutes before."""
        observations = np.empty((len(state), 9), dtype=np.float32)
        observations[:, :6], observations[:, 6] = state[:, BODY], state[:, MEAL]
        observations[:, 7], observations[:, 8] = state[:, BEFORE], state[:, MEAL_BEFORE]
        return observations

    def _advance(self, state: Array, dose: FloatArray) -> Array:
        next_state = np.array(state)
        next_state[:, TIME] += 1.0
        next_state[:, BEFORE], next_state[:, MEAL_BEFORE] = state[:, 0], state[:, MEAL]
        next_state[:, MEAL] = self._meal(next_state)
        next_state[:, BODY] = integrate(state[:, BODY], dose, next_state[:, MEAL])
        return next_state

    def _meal(self, state: Array) -> FloatArray:
        """The meals [N] at the states' places on the grid."""
        if not self.personal:
            return _SAME_DAY[np.minimum(state[:, TIME], GRID - 1.0).astype(np.int64)]
        return meal_curve(state[:, TIME], state[:, BASE_AT], state[:, SPIKES], state[:, AMOUNTS])


def meal_curve(time: FloatArray, base: FloatArray, spikes: FloatArray, amounts: FloatArray) -> FloatArray:
    """A personal day's meals [N] at places `time` [N] of the grid: amounts [N, 6] above the base [N] at the whole
    places `spikes` [N, 6], smoothed, and never below the base."""
    offset = np.abs(time[:, None] - spikes)
    weight = np.where(offset < 5.5, (89.0 - 5.0 * offset**2) / 429.0, 0.0)  # the Savitzky-Golay filter of 11, 3
    return np.asarray(base + np.maximum((weight * amounts).sum(axis=1), 0.0))


def _draw_meals(base: FloatArray, generator: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Places and amounts above the base, [N, 6] each, of every person's meals; a meal that is left out has 0."""
    chance, mean, earliest, latest, amount, spread = np.array(MEALS).T
    size = (len(base), len(MEALS))
    eaten = generator.random(size) < chance
    low, high = ndtr((earliest - mean) / SPREAD), ndtr((latest - mean) / SPREAD)
    hours = mean + SPREAD * ndtri(generator.uniform(low, high, size))
    spikes = np.round(6.0 * hours) + 1.0
    above = np.maximum(np.round(generator.normal(amount, spread, size)), 0.0) - base[:, None]
    replaced = (spikes[:, :-1] == spikes[:, 1:]) & eaten[:, 1:]  # a snack at the place of the meal before it
    eaten[:, :-1] &= ~replaced
    return spikes, np.where(eaten, above, 0.0)


def integrate(body: FloatArray, dose: FloatArray, meal: FloatArray, substeps: int = SUBSTEPS) -> FloatArray:
    """The bodies [N, 6] ten minutes later, by the classical Runge-Kutta method.

    All but G is linear with constant coefficients, so that X and Q at every stage of every substep are one matrix times
    (X, I, S1, S2, Q, u); and G' is linear in G, so that a substep maps G to a G + b. This is the method itself, up to
    rounding, without its loop over stages.

    Args:
        body: (G, X, I, S1, S2, Q).
        dose: [N] mU/min, constant over the ten minutes.
        meal: [N].
        substeps: how many steps.
    """
    length = MINUTES / substeps
    stages, last = (_STAGES, _LAST) if substeps == SUBSTEPS else _linear_maps(substeps)
    inputs = np.concatenate([body[:, 1:], dose[:, None]], axis=1).T
    tissue, gut = (stages @ inputs).reshape(2, 4, substeps, len(body))
    tissue *= -SI
    tissue -= P1  # the rate of G at each stage: slope G + level
    gut *= F * KABS / VG
    gut += P1 * GB + F / VG * meal
    slope, level = tissue[0], gut[0]
    total, height = slope.copy(), level.copy()
    for stage, step, weight in ((1, 0.5, 2.0), (2, 0.5, 2.0), (3, 1.0, 1.0)):
        level = gut[stage] + tissue[stage] * (step * length * level)
        slope = tissue[stage] * (1.0 + step * length * slope)
        total += weight * slope
        height += weight * level
    total *= length / 6.0
    total += 1.0
    height *= length / 6.0
    glucose = body[:, 0]
    for factor, added in zip(total, height, strict=True):
        glucose = glucose * factor + added
    return np.concatenate([glucose[:, None], (last @ inputs).T], axis=1)


def _linear_maps(substeps: int) -> tuple[FloatArray, FloatArray]:
    """(X, Q) at the stages of every substep, and (X, I, S1, S2, Q) at the end, as maps of (X, I, S1, S2, Q, u)."""
    # [2 * 4 * substeps, 6], four stages a substep, and [5, 6]
    rates = np.zeros((6, 6))
    rates[0, 0], rates[0, 1] = -P2, P2
    rates[1, 1], rates[1, 5] = -KE, 1.0
    rates[2, 2], rates[2, 5] = -KEMP, 1.0
    rates[3, 2], rates[3, 3] = KEMP, -KEMP
    rates[4, 3], rates[4, 4] = KEMP, -KABS
    identity, move = np.eye(6), MINUTES / substeps * rates
    second = identity + 0.5 * move
    third = identity + 0.5 * move @ second
    fourth = identity + move @ third
    whole = identity + move @ (identity + 2.0 * second + 2.0 * third + fourth) / 6.0
    now, seen = identity, np.empty((2, 4, substeps, 6))
    for k in range(substeps):
        for i, stage in enumerate((identity, second, third, fourth)):
            seen[:, i, k] = (stage @ now)[[0, 4]]
        now = whole @ now
    return seen.reshape(-1, 6), now[:5]


def _shared_meals() -> FloatArray:
    """Dosing-0's meals [145]; the curves of the three meals do not reach each other."""
    hours, curve = np.arange(GRID) / 6.0, np.full(GRID, BASE)
    for peak, height in PEAKS:
        after = hours - peak
        shape = np.where(after < 0.0, np.clip(1.0 + after / RISE, 0.0, 1.0), np.exp(-np.maximum(after, 0.0) / RISE))
        curve += (height - BASE) * shape
    return curve


_STAGES, _LAST = _linear_maps(SUBSTEPS)
_SAME_DAY: Final = _shared_meals()
