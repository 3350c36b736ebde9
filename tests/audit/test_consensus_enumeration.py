"""The consensus door's theorem on the exact law of tiny decision processes; planted mistakes break it.

Thresholds, scales and epsilons are those of `mechanisms.thresholds`, on a coarser grid (the theorem holds on any), so
that all values of the noise can be summed. The law is written from the algorithm (`consensus_law.py`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from consensus_law import Process, Rule, hockey_stick, law

from tacit.errors import PlanError
from tacit.privacy.mechanisms import thresholds as th
from tacit.privacy.mechanisms.thresholds import Floor, KappaStop, PMin, Thresholds

GRID = 16
NOTHING = 1e-9  # above the ends of the noise that are not summed, far below every delta here


@pytest.fixture(autouse=True)
def coarse_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(th, "GRID", GRID)


@functools.cache
def planned(floor: Floor, actions: int, experts: int, epsilon: float, delta: float) -> Thresholds:
    """`optimise` past its own cache, which does not know of another grid."""
    return th.optimise.__wrapped__(floor, actions=actions, experts=experts, epsilon=epsilon, delta=delta)


@dataclass(frozen=True)
class Case:
    """A process, experts (the first one is the one that leaves) and what one trajectory may cost."""

    process: Process
    policies: np.ndarray
    copies: np.ndarray
    floor: Floor
    epsilon: float
    delta: float
    horizon: int
    promised: int

    def thresholds(self) -> Thresholds:
        """As the plan has them."""
        return planned(self.floor, self.policies.shape[2], self.promised, self.epsilon, self.delta)

    def tests(self) -> Rule:
        kappa = self.floor.probability if isinstance(self.floor, KappaStop) else 0.0
        return Rule(self.thresholds(), GRID, kappa)


@dataclass(frozen=True)
class Found:
    """Largest delta with the first expert against without, at the claimed epsilon; and the other way round, at the
    epsilon of that direction, for which the theorem allows no delta at all."""

    removed: float
    added: float


def enumerated(case: Case, tests: Rule, undrawn: float = 0.0) -> Found:
    """The two divergences; `undrawn` copies of the first expert are counted and never drawn."""
    leaving = np.eye(len(case.copies))[0]
    m = int(case.copies.sum())
    run = partial(law, case.process, case.policies, tests=tests, horizon=case.horizon)
    large = run(copies=case.copies, slots=m, drawn=case.copies - undrawn * leaving)
    small = run(copies=case.copies - leaving, slots=m - 1, drawn=case.copies - (1 + undrawn) * leaving)
    assert large.sum() <= 1 + NOTHING
    assert small.sum() <= 1 + NOTHING
    claimed = case.thresholds()
    pure = 1 / claimed.step_scale + math.log(m / (m - 1))
    return Found(hockey_stick(large, small, case.epsilon), hockey_stick(small, large, pure))


def random_cases(count: int) -> Iterator[Case]:
    """Deterministic, random and deviant experts in turn, each process with both floors."""
    rng = np.random.default_rng(20)
    made = 0
    while made < count:
        states, actions, horizon = (int(n) for n in (rng.integers(1, 4), rng.integers(2, 4), rng.integers(1, 5)))
        if (states * actions) ** horizon * states > 2_500:
            continue
        process = Process(rng.dirichlet(np.ones(states)), rng.dirichlet(np.full(states + 1, 0.5), (states, actions)))
        m = int(rng.integers(10, 41))
        pure = _policies(rng, ("deterministic", "random", "deviant")[made % 3], m, states, actions)
        floor = float(rng.uniform(0.05, 0.9 / actions))
        epsilon, delta = float(np.exp(rng.uniform(0, 1.5))), float(np.exp(rng.uniform(-6, -2)))
        both = [
            Case(process, floor + (1 - actions * floor) * pure, np.ones(m), PMin(floor), epsilon, delta, horizon, m),
            Case(process, pure, np.ones(m), KappaStop(floor), epsilon, delta, horizon, m),
        ]
        try:
            for case in both:
                case.thresholds()
        except PlanError:
            continue
        yield from both
        made += 1


def _policies(rng: np.random.Generator, kind: str, m: int, states: int, actions: int) -> np.ndarray:
    """[m, S, A]; "deterministic": most agree; "deviant": all the same but the first, which differs somewhere."""
    if kind == "random":
        return rng.dirichlet(np.full(actions, 0.3), (m, states))
    common = rng.integers(actions, size=states)
    choice = np.where(rng.random((m, states)) < 0.85, common, rng.integers(actions, size=(m, states)))
    if kind == "deviant":
        choice[:] = common
        choice[0] = np.where(rng.random(states) < 0.5, common, (common + 1) % actions)
    return np.eye(actions)[choice]


def test_no_violation_on_random_processes() -> None:
    worst = 0.0
    for case in random_cases(150):
        found = enumerated(case, case.tests())
        assert found.removed <= case.delta
        assert found.added <= NOTHING
        worst = max(worst, found.removed / case.delta)
    assert worst > 0.01  # unsafe prefixes do come out: the cases reach what delta pays for


def test_the_law_against_a_hand_calculation() -> None:
    """Two experts, one state, one step, and noise so narrow that the test is sure."""
    process = Process(np.ones(1), np.array([[[1.0, 0.0], [0.0, 1.0]]]))
    policies, copies = np.array([[[0.9, 0.1]], [[0.8, 0.2]]]), np.ones(2)
    narrow = Rule(Thresholds(safe_count=0.1, threshold=1.5, threshold_scale=0.005, step_scale=0.005), GRID, 0.25)
    outputs = law(process, policies, copies, narrow, 1, 2)
    passed = 0.75 * 0.85  # no stop, and action 0, whose count 1.7 is above 1.5; action 1 has 0.3
    assert outputs == pytest.approx([1 - passed, passed, 0], abs=1e-12)
    assert law(process, policies, copies, narrow, 1, 10) == pytest.approx(outputs / 5)


def consensus(
    m: int,
    floor: Floor,
    epsilon: float,
    delta: float,
    *,
    agreed: int = 0,
    horizon: int = 1,
    deterministic: bool = False,
) -> Case:
    """m - 1 experts always take action 0; the first takes it in the `agreed` first steps, then action 1."""
    states = agreed + 2
    onward = np.zeros((states, 2, states + 1))
    for state in range(states):
        onward[state, :, min(state + 1, states - 1)] = 1
    policies = np.zeros((2, states, 2))
    policies[1, :, 0] = policies[0, :agreed, 0] = policies[0, agreed:, 1] = 1
    if isinstance(floor, PMin) and not deterministic:
        policies = floor.probability + (1 - 2 * floor.probability) * policies
    process = Process(np.eye(states)[0], onward)
    return Case(process, policies, np.array([1.0, m - 1]), floor, epsilon, delta, horizon, 10**6)


def without_tail(case: Case) -> Rule:
    """The threshold is theta + 1."""
    told = case.thresholds()
    return replace(case.tests(), thresholds=replace(told, threshold=told.safe_count + 1))


def reused_step_noise(case: Case) -> Rule:
    return replace(case.tests(), step_noise="reused")


def forgotten_floor_factor(case: Case) -> Rule:
    """theta solves epsilon = 1 / b1 + 1 / b2 + ln(1 + 1 / theta), and b1 and b2 are the best for that."""
    return replace(case.tests(), thresholds=replace(case, floor=PMin(0.5)).thresholds())


def halved_noise(case: Case) -> Rule:
    told = case.thresholds()
    return replace(
        case.tests(),
        thresholds=replace(told, threshold_scale=told.threshold_scale / 2, step_scale=told.step_scale / 2),
    )


def no_floor(case: Case) -> Rule:
    """kappa is 0; where the floor is the policies', they are deterministic in spite of it."""
    return replace(case.tests(), kappa=0.0)


TAIL = [
    consensus(10, KappaStop(0.3), 4.0, 1e-4),
    consensus(7, PMin(0.05), 4.0, 1e-6, horizon=2),
]
REUSED = [
    consensus(38, KappaStop(0.02), 2.0, 1e-3, agreed=1, horizon=3),
    consensus(44, PMin(0.02), 2.0, 1e-3, agreed=1, horizon=3),
]
FORGOTTEN = [
    consensus(26, KappaStop(0.002), 2.0, 1e-3),
    consensus(26, PMin(0.002), 2.0, 1e-3),
]
HALVED = [
    consensus(100, KappaStop(0.02), 1.0, 1e-3, agreed=1),
    consensus(112, PMin(0.02), 1.0, 1e-3, agreed=1),
]
FLOORLESS = [
    consensus(200, KappaStop(0.1), 1.0, 1e-3, agreed=1, horizon=2),
    consensus(200, PMin(0.1), 1.0, 1e-3, agreed=1, horizon=2, deterministic=True),
]
PLANTED = [
    *((without_tail, case, 7) for case in TAIL),
    *((reused_step_noise, case, 30) for case in REUSED),
    *((forgotten_floor_factor, case, 15) for case in FORGOTTEN),
    *((no_floor, case, 4.9) for case in FLOORLESS),
]


@pytest.mark.parametrize(("mistake", "case", "times"), PLANTED)
def test_a_planted_mistake_exceeds_the_claimed_delta(mistake, case: Case, times: float) -> None:
    """By this factor; the right tests do not, if the experts keep the floor."""
    assert enumerated(case, mistake(case)).removed > times * case.delta
    if mistake is not no_floor or isinstance(case.floor, KappaStop):
        assert enumerated(case, case.tests()).removed <= case.delta


@pytest.mark.parametrize("case", HALVED)
def test_half_the_noise_breaks_the_direction_without_delta(case: Case) -> None:
    assert enumerated(case, halved_noise(case)).added > 1e-3
    assert enumerated(case, case.tests()).added <= NOTHING


def test_without_a_floor_delta_is_one_over_m() -> None:
    """Whatever epsilon: the prefix before the step at which one of m experts stands alone."""
    case = FLOORLESS[0]
    large = law(case.process, case.policies, case.copies, no_floor(case), 2, 200)
    small = law(case.process, case.policies, case.copies - [1, 0], no_floor(case), 2, 199)
    assert hockey_stick(large, small, 20.0) == pytest.approx(1 / 200, rel=1e-6)


def test_experts_that_are_counted_must_be_drawn() -> None:
    """100 experts without a trajectory do as the one who leaves: they lift its count, and nobody shows its steps."""
    case = replace(consensus(100, KappaStop(0.1), 1.0, 1e-3, horizon=2), copies=np.array([101.0, 100.0]))
    assert enumerated(case, case.tests(), undrawn=100).removed > 3 * case.delta
    assert enumerated(case, case.tests()).removed <= case.delta
