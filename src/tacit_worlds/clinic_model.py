"""What is known exactly about the clinic (`tacit_worlds.clinic`): the chances of a visit, and what treating is worth.

A patient is (kind, flag, severity, burden): which of three kinds the illness is of and whether there was an addiction
before, both for life; how severe the illness is, 1 to 6, where 0 is recovery and 7 a crisis, which end the course; and
how much side effects weigh, 0 to 4. Tables over patients have the shape [3, 2, 8, 5], called [patients] here.

In a visit severity falls or rises by one, and so does the burden, independently, with the chances of `SEVERITY` and
`BURDEN`. Drugs A, B and C help with one kind each; the intensive treatment with all, and weighs heavily; waiting lets
side effects fade; relief feels good at once and cures nothing, and patients who were addicted pay for it. A burden
makes falls rarer and rises more frequent, so that treating all the time is as wrong as never treating.

What is seen of a patient at a visit is the truth plus noise of that visit alone. So a policy that looks at the present
visit only acts, on average over the noise, as a policy of the true patient and the visit, and its value is exact up to
that average (`value`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]

TREATMENTS = ("wait", "relief", "drug A", "drug B", "drug C", "intensive")
WAIT, RELIEF, DRUGS, INTENSIVE = 0, 1, (2, 3, 4), 5
ACTIONS = len(TREATMENTS)
PATIENTS = (3, 2, 8, 5)
"""Numbers of kinds, flags, severities and burdens."""
CRISIS = PATIENTS[2] - 1
HORIZON = 24
"""Visits of the longest course."""

KIND_CHANCES, FLAG_CHANCE = (0.45, 0.35, 0.2), 0.15
FIRST_SEVERITY, FIRST_BURDEN = (0.0, 0.0, 0.0, 0.3, 0.4, 0.3, 0.0, 0.0), (0.7, 0.3, 0.0, 0.0, 0.0)
FALLS = (0.05, 0.03, 0.08, 0.08, 0.08, 0.6)
RISES = (0.15, 0.22, 0.18, 0.18, 0.18, 0.02)
RIGHT_FALLS, RIGHT_RISES = 0.5, 0.06
HINDERS, HARMS = 0.15, 0.06
"""Of each unit of burden: the share by which falls get rarer, and what is added to the chance of a rise."""
LIGHTER = (0.6, 0.2, 0.05, 0.05, 0.05, 0.0)
HEAVIER = (0.0, 0.3, 0.35, 0.35, 0.35, 0.6)
ADDICTED_HEAVIER = 0.75
"""What relief does to those who were addicted before."""
SUFFERING, SIDE_EFFECTS = 0.05, 0.1
COMFORT = (0.0, 0.25, 0.0, 0.0, 0.0, -0.1)
RECOVERY_PAYS, CRISIS_PAYS = 5.0, -5.0

SPREAD, CENTRES = (0.8, 0.7, 0.7, 0.6), ((1.0, 0.0), (-0.5, 0.75**0.5), (-0.5, -(0.75**0.5)))
"""Standard deviations of symptoms, both markers and the side effects' score; what the markers of each kind are."""
FARTHEST = 3.0
"""Standard deviations at which readings' noise is cut off."""
GOING = (*PATIENTS[:2], CRISIS - 1, PATIENTS[3])
"""Numbers of kinds, flags, severities and burdens of patients who are treated."""


def _severity() -> FloatArray:
    chances = np.zeros((*PATIENTS, ACTIONS, 3))
    burden = np.arange(PATIENTS[3])[:, None]
    for kind in range(PATIENTS[0]):
        falls, rises = np.array(FALLS), np.array(RISES)
        falls[DRUGS[kind]], rises[DRUGS[kind]] = RIGHT_FALLS, RIGHT_RISES
        chances[kind, ..., 0] = falls * (1.0 - HINDERS * burden)
        chances[kind, ..., 2] = rises + HARMS * burden
    chances[..., 1] = 1.0 - chances[..., 0] - chances[..., 2]
    return chances


def _burden() -> FloatArray:
    chances = np.zeros((PATIENTS[1], ACTIONS, 3))
    chances[..., 0], chances[..., 2] = LIGHTER, HEAVIER
    chances[1, RELIEF] = 0.0, 0.0, ADDICTED_HEAVIER
    chances[..., 1] = 1.0 - chances[..., 0] - chances[..., 2]
    return chances


def _rewards() -> FloatArray:
    severity, burden = np.arange(PATIENTS[2])[:, None, None], np.arange(PATIENTS[3])[:, None]
    ends = RECOVERY_PAYS * (severity == 0) + CRISIS_PAYS * (severity == CRISIS)
    return np.asarray(np.array(COMFORT) + ends - SUFFERING * severity - SIDE_EFFECTS * burden)


def _starts() -> FloatArray:
    flags = (1.0 - FLAG_CHANCE, FLAG_CHANCE)
    return np.asarray(np.einsum("k,f,s,b->kfsb", KIND_CHANCES, flags, FIRST_SEVERITY, FIRST_BURDEN))


SEVERITY: Final = _severity()
"""[patients, A, 3], the chances that severity falls, stays or rises."""
BURDEN: Final = _burden()
"""[2, A, 3] by flag, the same of the burden, which stays within 0 and 4."""
REWARDS: Final = _rewards()
"""[8, 5, A], what a visit pays, by the severity and burden after it."""
STARTS: Final = _starts()
"""[patients], the chances of a first visit."""

Policy = Callable[[Array], Array]


def action_values(next_values: FloatArray) -> FloatArray:
    """[patients, A], what each treatment is worth to each patient who is worth `after` [patients] at the next visit."""
    values = np.zeros((*PATIENTS, ACTIONS))
    for chance, severity, burden in _outcomes():
        continuation = np.where((severity > 0) & (severity < CRISIS), next_values[:, :, severity, burden], 0.0)
        values += chance * (REWARDS[severity, burden] + continuation[..., None])
    return values


def exact_value(policy: FloatArray) -> tuple[float, FloatArray]:
    """The mean return of a policy of the true patient ([H, patients, A] or [patients, A]), without error, and the
    chances [H, patients] of being at a visit as that patient (courses that are over are not)."""
    probabilities = np.broadcast_to(policy, (HORIZON, *PATIENTS, ACTIONS))
    occupancy, next_values = np.zeros((HORIZON + 1, *PATIENTS)), np.zeros(PATIENTS)
    occupancy[0] = STARTS
    for t in range(HORIZON):
        treated = occupancy[t][..., None] * probabilities[t]
        for chance, severity, burden in _outcomes():
            index: Any = (slice(None), slice(None), severity, burden)
            np.add.at(occupancy[t + 1], index, (treated * chance).sum(axis=-1))
        occupancy[t + 1, :, :, [0, CRISIS]] = 0.0
    for t in range(HORIZON - 1, -1, -1):
        next_values = (probabilities[t] * action_values(next_values)).sum(axis=-1)
    return float((STARTS * next_values).sum()), occupancy[:-1]


def optimal_value() -> tuple[float, FloatArray]:
    """The largest mean return of all policies, even of those that know the true patient, and action values [H,
    patients, A]."""
    values = np.zeros((HORIZON, *PATIENTS, ACTIONS))
    next_values = np.zeros(PATIENTS)
    for t in range(HORIZON - 1, -1, -1):
        values[t] = action_values(next_values)
        next_values = values[t].max(axis=-1)
    return float((STARTS * next_values).sum()), values


def readings(kind: Array, severity: Array, burden: Array, uniforms: Array) -> FloatArray:
    """What is measured of patients [N] at a visit: symptoms, two markers of the kind, and side effects, [N, 4]. The
    noise is normal, cut off at `FARTHEST` standard deviations, of `uniforms` [N, 4] in [0, 1)."""
    truth = np.column_stack([severity, np.array(CENTRES)[kind], burden])
    least = ndtr(-FARTHEST)
    return np.asarray(truth + np.array(SPREAD) * ndtri(least + uniforms * (1.0 - 2.0 * least)))


def value(policy: Policy, *, draws: int = 64, seed: int = 0, repeats: int = 8) -> tuple[float, float]:
    """The mean return of a policy of what is seen at the present visit, and its standard error.

    Only the noise of the readings is sampled; what patients do is computed exactly (`exact`). So the error is a
    fraction of that of as many simulated visits.

    Args:
        policy: observations [N, 6] to probabilities [N, A].
        draws: readings of every patient at every visit.
        seed: of the readings.
        repeats: how often all of it is done, at least 2; the standard error comes from these.
    """
    generator = np.random.default_rng(seed)
    returns = [exact_value(_mean_probabilities(policy, draws, generator))[0] for _ in range(repeats)]
    return float(np.mean(returns)), float(np.std(returns, ddof=1) / np.sqrt(repeats))


def _mean_probabilities(policy: Policy, draws: int, generator: np.random.Generator) -> FloatArray:
    """Mean probabilities [visits, patients, A] of a policy over `draws` readings of each patient."""
    kind, flag, severity, burden = np.indices(GOING).reshape(4, -1).repeat(draws, axis=1)
    probabilities = np.zeros((HORIZON, *PATIENTS, ACTIONS))
    for visit in range(HORIZON):
        observations = readings(kind, severity + 1, burden, generator.random((len(kind), 4)))
        observations = np.column_stack([observations, flag, np.full(len(kind), visit)]).astype(np.float32)
        mean = policy(observations).reshape(-1, draws, ACTIONS).mean(axis=1)
        probabilities[visit, :, :, 1:CRISIS] = mean.reshape(*GOING, ACTIONS)
    return probabilities


@lru_cache(maxsize=1)
def _outcomes() -> list[tuple[FloatArray, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """The nine outcomes of a visit: chances [patients, A], and severities and burdens [8, 5] after it."""
    # None of those whose course is over.
    severity, burden = np.indices(PATIENTS[2:])
    going = (severity > 0) & (severity < CRISIS)
    outcomes = []
    for i in range(3):
        for j in range(3):
            chance = SEVERITY[..., i] * BURDEN[:, None, None, :, j] * going[..., None]
            later = np.clip(severity + i - 1, 0, CRISIS), np.clip(burden + j - 1, 0, PATIENTS[3] - 1)
            outcomes.append((chance, *later))
    return outcomes
