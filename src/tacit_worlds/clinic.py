"""A clinic: people who come for courses of treatment, many at once; where a person is a whole history, not a row.

The illness has a kind that nobody sees and a severity that is felt but not seen exactly. At each of at most 24 visits a
doctor waits, gives relief, one of three drugs or the intensive treatment. A course terminates with recovery or with a
crisis; some people stop coming, which truncates it. Whether someone was addicted before is in the record: it is what
this person would least like to be known, it decides what relief does to them, and some doctors treat them worse for it.
`tacit_worlds.clinic_model` has all chances, and what follows from them exactly. Everything is invented: nobody should
be treated by it.

An observation is (symptoms, two markers of the kind, side effects, addiction 0 or 1, visit 0 .. 24): the first four
with the noise of that visit. An action is one of `TREATMENTS`. A visit pays -0.05 severity - 0.1 burden, the comfort
that relief gives (0.25) or the intensive treatment costs (0.1), and 5 for recovery or -5 for a crisis. Returns are not
discounted.

What policies are worth (`normalised` returns; 0 is a random treatment at every visit, 100 the best policy of all, which
knows the true kind, severity and burden): the best one found that sees only the present visit 84, the right drug all
the time 48, the best constant treatment 22, and whatever is best for the visit at hand, though it knows the truth, -2.
Earlier visits tell more about a patient than the present one alone, so the best policy with a memory is worth between
84 and 100. The eight default doctors are worth 36 to 56, and 46 on average.

Behaviour: doctors with habits of their own, each a log-linear policy (`doctors`); a person has one doctor for life.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from tacit.agents.features import Scaled
from tacit.agents.stacked import StackedPolicies
from tacit.data.columns import Column
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.envs.rollouts import Array, FloatArray, Policy, Stepped
from tacit.envs.rollouts import collect as _collect
from tacit.errors import DataError
from tacit_worlds import clinic_model as model
from tacit_worlds.clinic_model import ACTIONS, BURDEN, CRISIS, HORIZON, REWARDS, SEVERITY, SPREAD, STARTS, TREATMENTS

__all__ = ["ACTIONS", "HIGH", "HORIZON", "LOW", "REFERENCE", "TREATMENTS", "Clinic", "collect", "doctors", "evaluate"]
__all__ += ["normalized_returns", "protocol", "returns", "spec", "unstack_policies"]

COLUMNS = ("symptoms", "first_marker", "second_marker", "side_effects", "addicted", "visit")
LOW = (-2.5, -2.7, -3.0, -2.0, 0.0, 0.0)
HIGH = (9.5, 3.2, 3.0, 6.0, 1.0, float(HORIZON))
"""Public bounds of an observation: no reading leaves them, since the noise is cut off."""
REWARD = (-6.0, 5.5)
CONSTANT = 0.01
"""Typical step that is declared of a reading that never changes, the addiction: one must be above 0."""
REFERENCE = (-8.651253330188663, 1.1825597529326872)
"""Mean returns of a random treatment and of the best policy that knows the truth, both exact
(`tacit_worlds.clinic_model.exact_value` and `optimal_value`), which the normalised return maps to 0 and 100.
"""
DOCTORS = 8
LEAST = 0.02
"""Smallest probability that a doctor gives to a treatment."""
COURSES = (0.6, 0.25, 0.1, 0.05)
"""Chances of 1, 2, 3 and 4 courses in a person's history."""
LOST = 0.02
"""Chance that a person stops coming after a visit, whatever its outcome."""

KIND, FLAG, WEIGHT, SIDE, VISIT, READINGS = 0, 1, 2, 3, 4, slice(5, 9)
"""Columns of a state: kind, flag, severity, burden, visit, and what was measured."""
_BELOW_SEVERITY: Final = SEVERITY[..., :2].cumsum(axis=-1)
_BELOW_BURDEN: Final = BURDEN[..., :2].cumsum(axis=-1)
_CERTAIN: Final = np.eye(ACTIONS)


def spec(*, labels: bool = False) -> PublicSpec:
    """Six bounded numbers, six treatments, rewards in [-6, 5.5], terminations, logged propensities. With `labels`, what
    numbers stand for is said too: addiction is a label that never changes, a visit a whole number.

    `difference` has root mean squares that follow from the model alone: a reading changes by the noise of two visits
    and by the moves of the truth, which have the mean chance over all patients who are treated and all treatments; a
    visit is one later.
    """
    columns = tuple(Column(name, low=low, high=high) for name, low, high in zip(COLUMNS, LOW, HIGH, strict=True))
    if labels:
        addicted = Column("addicted", "category", labels=("no", "yes"), static=True)
        columns = (*columns[:4], addicted, Column("visit", "integer", low=0, high=HORIZON))
    treatment = Column("treatment", "category", labels=tuple(TREATMENTS))
    moves = 1.0 - np.array([SEVERITY[:, :, 1:CRISIS, ..., 1].mean(), 1.0, 1.0, BURDEN[..., 1].mean()])
    return PublicSpec(
        observation=Box(LOW, HIGH, columns),
        action=Discrete(ACTIONS, (treatment,)),
        reward=Box((REWARD[0],), (REWARD[1],)),
        source="environment",
        difference=(*np.sqrt(2.0 * np.square(SPREAD) + moves).tolist(), CONSTANT, 1.0),
        propensities=True,
    )


@dataclass(frozen=True)
class Clinic:
    """The dynamics; a state is a row of nine numbers, of which `observe` shows six. Every patient takes the same number
    of random numbers one after another, so that patients who are stepped together have the same bits as patients who
    are stepped one by one with the same generator."""

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        """[N, 9], people at the first visit of a course."""
        uniforms = generator.random((units, 2))
        return self.admit(_inverse_cdf(uniforms[:, 0], STARTS.sum(axis=(1, 2, 3))), uniforms[:, 1], generator)

    def admit(self, kind: Array, luck: Array, generator: np.random.Generator) -> Array:
        """[N, 9], the first visit of people of these kinds [N], addicted if `luck` [N] is below its chance. A person's
        further courses have the kind and the luck of the first."""
        uniforms = generator.random((len(kind), 6))
        state = np.zeros((len(kind), 9))
        state[:, KIND] = kind
        state[:, FLAG] = luck < STARTS[:, 1].sum()
        state[:, WEIGHT] = _inverse_cdf(uniforms[:, 0], STARTS.sum(axis=(0, 1, 3)))
        state[:, SIDE] = _inverse_cdf(uniforms[:, 1], STARTS.sum(axis=(0, 1, 2)))
        return _measure(state, uniforms[:, 2:])

    def step(self, state: Array, action: Array, generator: np.random.Generator) -> Stepped:
        """States [N, 9] at the next visit, rewards [N], and whether the course ended [N], for treatments [N]."""
        kind, flag, severity, burden = (state[:, i].astype(np.int64) for i in (KIND, FLAG, WEIGHT, SIDE))
        uniforms, treatment = generator.random((len(state), 6)), np.asarray(action, dtype=np.int64)
        thresholds = _BELOW_SEVERITY[kind, flag, severity, burden, treatment]
        severity = np.clip(severity - 1 + (uniforms[:, :1] >= thresholds).sum(axis=1), 0, CRISIS)
        thresholds = _BELOW_BURDEN[flag, treatment]
        burden = np.clip(burden - 1 + (uniforms[:, 1:2] >= thresholds).sum(axis=1), 0, REWARDS.shape[1] - 1)
        next_state = state.copy()
        next_state[:, WEIGHT], next_state[:, SIDE] = severity, burden
        next_state[:, VISIT] += 1.0
        terminated = (severity == 0) | (severity == CRISIS)
        return _measure(next_state, uniforms[:, 2:]), REWARDS[severity, burden, treatment], terminated

    def observe(self, state: Array) -> Array:
        """[N, 6] float32: symptoms, two markers, side effects, addiction, visit (24 from there on)."""
        observations = np.empty((len(state), 6), dtype=np.float32)
        observations[:, :4], observations[:, 4] = state[:, READINGS], state[:, FLAG]
        observations[:, 5] = np.minimum(state[:, VISIT], HORIZON)
        return observations


def doctors(count: int = DOCTORS, *, seed: int = 0) -> StackedPolicies:
    """`count` doctors with habits of their own: log-linear policies of an observation, at least 0.02 for each
    treatment; the first of them do not depend on their number. They differ in how far they trust the markers, in which
    drugs they like, when they pause for side effects, when they go for the intensive treatment, how readily they give
    relief, and how much less they give to the addicted."""
    chance = np.random.default_rng(seed).random((count, 8))
    trust, pause, bold, relief, stigma = (
        low + (high - low) * chance[:, i]
        for i, (low, high) in enumerate(((1.0, 4.0), (0.5, 4.0), (0.5, 1.5), (-4.0, 1.0), (0.0, 3.0)))
    )
    gains, taste = np.zeros((count, 6, ACTIONS)), np.zeros((count, ACTIONS))
    for drug, centre, liked in zip(model.DRUGS, model.CENTRES, chance[:, 5:].T, strict=True):
        gains[:, 1:3, drug] = trust[:, None] * centre
        gains[:, 4, drug] = -stigma
        taste[:, drug] = liked
    gains[:, 3, model.WAIT], taste[:, model.WAIT] = pause, -0.5 * pause
    gains[:, 0, model.INTENSIVE], taste[:, model.INTENSIVE] = bold, -6.0 * bold
    taste[:, model.RELIEF] = relief
    middle, half = (np.array(HIGH) + LOW) / 2.0, (np.array(HIGH) - LOW) / 2.0
    weights = (gains * half[:, None]).astype(np.float32)
    biases = (taste + np.einsum("i,nia->na", middle, gains)).astype(np.float32)
    return StackedPolicies(Scaled(LOW, HIGH), (6, ACTIONS), ((weights, biases),), float("nan"), least=LEAST)


def protocol(observations: Array) -> FloatArray:
    """A rule as a hospital writes it, probabilities [N, 6] for observations [N, 6]; worth 71. Wait while side effects
    score 1 or more. Else give drug A if the first marker is 0.25 or more, drug B if the second one is 0 or more, and
    drug C otherwise."""
    first, second, side_effects = observations[:, 1], observations[:, 2], observations[:, 3]
    drug = np.where(first >= 0.25, model.DRUGS[0], np.where(second >= 0.0, model.DRUGS[1], model.DRUGS[2]))
    return _CERTAIN[np.where(side_effects >= 1.0, model.WAIT, drug)]


def unstack_policies(policies: StackedPolicies) -> list[Policy]:
    """Stacked policies one by one, as functions of observations: doctors, or what was learned (`Stacked.from_mlp`)."""
    return [_single_policy(policies.take(slice(i, i + 1))) for i in range(policies.count)]


def _single_policy(policy: StackedPolicies) -> Policy:
    return lambda observations: policy.probabilities(observations, np.zeros(len(observations), np.int64))


@dataclass(frozen=True, eq=False)
class _Ward:
    """The clinic with given first states; what is seen of a patient has the number of the doctor at its end."""

    state: Array
    doctor: Array

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        return np.column_stack([self.state, self.doctor])

    def step(self, state: Array, action: npt.NDArray[np.int64], generator: np.random.Generator) -> Stepped:
        next_state, rewards, terminated = Clinic().step(state[:, :-1], action, generator)
        return np.column_stack([next_state, state[:, -1]]), rewards, terminated

    def observe(self, state: Array) -> Array:
        return np.column_stack([Clinic().observe(state[:, :-1]), state[:, -1].astype(np.float32)])


def collect(
    patients: int,
    *,
    seed: int,
    staff: StackedPolicies | None = None,
    unit: Literal["patient", "doctor"] = "patient",
    lost: float = LOST,
) -> dict[str, Array]:
    """The histories of people who were treated by `staff`, one to four courses each, every course an episode.

    A person keeps kind, addiction and doctor. A course is truncated after 24 visits, or after any visit with chance
    `lost`, unless it terminated there.

    Args:
        patients: how many people.
        seed: of everything random; the same arguments give the same rows.
        staff: policies of six numbers, `doctors()` by default; each person gets one of them at random.
        unit: whose numbers `unit_ids` has: the people's (0 .. patients - 1) or their doctors'; the rows are the same.
        lost: chance of not coming again, in [0, 1).

    Returns:
        Columns for `Trajectories.from_arrays` in the order person, course, visit: observations and next_observations
        [T, 6] f32, actions [T] int64, rewards [T] f32, terminations and truncations [T] bool, propensities [T] f32 (the
        doctor's probability of the treatment that was given), unit_ids and episode_ids [T] int64.

    Raises:
        DataError: there is nobody, the unit is unknown, or the chance is out of range.
    """
    if patients < 1 or unit not in ("patient", "doctor") or not 0.0 <= lost < 1.0:
        what = "there is nobody, the unit is unknown or lost is no chance"
        expected, remedy = "patients of at least 1, unit patient or doctor, lost in [0, 1)", "correct the argument"
        raise DataError(what, where="clinic.collect", expected=expected, remedy=remedy)
    staff = doctors() if staff is None else staff
    generator = np.random.default_rng(seed)
    uniforms = generator.random((patients, 3))
    doctor = generator.integers(staff.count, size=patients)
    owner = np.repeat(np.arange(patients), 1 + _inverse_cdf(uniforms[:, 2], np.array(COURSES)))
    kind = _inverse_cdf(uniforms[:, 0], STARTS.sum(axis=(1, 2, 3)))
    state = Clinic().admit(kind[owner], uniforms[owner, 1], generator)
    course_lengths = generator.geometric(lost, len(owner)) if lost else np.full(len(owner), HORIZON)
    columns = _collect(
        _Ward(state, doctor[owner]),
        lambda seen: staff.probabilities(seen[:, :-1], seen[:, -1].astype(np.int64)),
        len(owner),
        seed=int(generator.integers(2**62)),
        horizon=HORIZON,
    )
    course, visit = columns["episode_ids"], columns["observations"][:, 5].astype(np.int64) + 1
    for name in ("observations", "next_observations"):
        columns[name] = columns[name][:, :-1]
    columns["unit_ids"] = (owner if unit == "patient" else doctor[owner])[course]
    columns["truncations"] |= ~columns["terminations"] & (visit == course_lengths[course])
    return {name: column[visit <= course_lengths[course]] for name, column in columns.items()}


def returns(policy: Policy, episodes: int, *, seed: int) -> FloatArray:
    """Undiscounted returns [episodes] of fresh people; those of one seed have the same starts under all policies.

    Args:
        policy: observations [N, 6] to probabilities [N, 6].
        episodes: how many people, one whole course each.
        seed: of everything random.
    """
    columns = _collect(Clinic(), policy, episodes, seed=seed, horizon=HORIZON)
    return np.bincount(columns["unit_ids"], columns["rewards"], minlength=episodes).astype(np.float64)


def normalized_returns(returns: npt.ArrayLike) -> FloatArray:
    """100 (R - random) / (best - random), with the exact values of `REFERENCE`."""
    low, high = REFERENCE
    return np.asarray(100.0 * (np.asarray(returns, dtype=np.float64) - low) / (high - low))


def evaluate(policies: Sequence[Policy], *, episodes: int = 1_000, seed: int) -> FloatArray:
    """Mean normalised return of each policy over whole courses of fresh people, [K]; all meet the same starts.

    The standard deviation of one normalised return is 35 to 45. `tacit_worlds.clinic_model.value` has a smaller error
    for policies that have no state of their own.

    Args:
        policies: K functions of observations [N, 6] to probabilities [N, 6]; `each` makes them of stacked ones.
        episodes: how many people.
        seed: of everything random.
    """
    return np.array([normalized_returns(returns(policy, episodes, seed=seed)).mean() for policy in policies])


def _inverse_cdf(uniforms: FloatArray, probabilities: FloatArray) -> npt.NDArray[np.int64]:
    """Numbers [N] with these probabilities from uniform ones [N]."""
    return np.asarray(np.searchsorted(probabilities.cumsum()[:-1], uniforms, side="right"), dtype=np.int64)


def _measure(state: Array, uniforms: FloatArray) -> Array:
    """The states with the readings of their visit, from uniform numbers [N, 4]; changed in place."""
    kind = state[:, KIND].astype(np.int64)
    state[:, READINGS] = model.readings(kind, state[:, WEIGHT], state[:, SIDE], uniforms)
    return state
