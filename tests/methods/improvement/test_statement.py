"""The statement: exact expectations in a process that is enumerated, a clip that only lowers, and words."""

import numpy as np
import pytest
from small_clinic import CHOICE, MEMORY, PAID, PROBLEM, courses, padded, plan_of, value

from tacit.data.memory import Memory
from tacit.methods.improvement.moments import LoggedVisits
from tacit.methods.improvement.plan import FIT, SCORES
from tacit.methods.improvement.statement import StatementScores
from tacit.methods.off_policy_evaluation.policies import Network
from tacit.units import Unit

LISTED, CHANCES = courses()
ADVICE = Network(((np.array([[0.0], [0.0]]), np.array([0.0, 1.0])),), greedy=True)
"""Always the second action, the better one here."""


def scores(eta=0.05, low=-9.0, high=5.0):
    return StatementScores(PROBLEM, Memory((1.0,)), ADVICE, eta, (low, high))


def mixed(eta):
    return (1 - eta) * CHOICE + eta * np.array([0.0, 1.0])


@pytest.mark.parametrize("eta", [0.05, 0.1, 0.5])
def test_the_mean_score_is_the_gain(eta):
    gain, paid = scores(eta).scores(LoggedVisits.of(padded(LISTED), PROBLEM, MEMORY))
    assert CHANCES.sum() == pytest.approx(1.0)
    assert CHANCES @ gain == pytest.approx(value(mixed(eta)) - value(CHOICE), abs=1e-6)
    assert CHANCES @ paid == pytest.approx(value(CHOICE), abs=1e-6)


def cautious(eta, caution):
    """The clone takes the second action with probability 0.04 in state 0 and 0.5 in state 1."""
    odds = np.log(0.04 / 0.96)
    clone = Network(((np.array([[0.0], [-odds]]), np.array([0.0, odds])),))
    return StatementScores(PROBLEM, Memory((1.0,)), ADVICE, eta, (-9.0, 5.0), clone, caution)


@pytest.mark.parametrize(("caution", "shares"), [(0.1, [0.4, 1.0]), (0.8, [0.05, 0.625]), (0.02, [1.0, 1.0])])
def test_with_caution_the_mean_score_is_the_gain_of_rarer_advice(caution, shares):
    gain, _ = cautious(0.5, caution).scores(LoggedVisits.of(padded(LISTED), PROBLEM, Memory((1.0,))))
    eta = 0.5 * np.array(shares)[:, None]
    truth = value((1 - eta) * CHOICE + eta * np.array([0.0, 1.0])) - value(CHOICE)
    assert CHANCES @ gain == pytest.approx(truth, abs=1e-6)


@pytest.mark.parametrize("eta", [0.05, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("low", [-9.0, -5.0, -2.0])
def test_a_clip_can_only_lower_the_gain(eta, low):
    vectors = scores(eta, low).__call__(padded(LISTED), None)
    clipped = CHANCES @ vectors[:, 0] / (FIT * SCORES[0] ** 0.5) * (5.0 - low)
    moved = np.clip([sum(PAID[s, a] for s, a, _, _ in course) for course in LISTED], low, 5.0)
    truth = _chances(mixed(eta)) @ moved - CHANCES @ moved
    assert clipped <= truth + 1e-6


def test_a_symmetric_clip_would_prove_too_much():
    """The trap: scores around the middle of the range, cut on both sides, are larger in the mean than the gain."""
    bad = Network(((np.array([[0.0], [0.0]]), np.array([1.0, 0.0])),), greedy=True)  # the worse action
    visits = LoggedVisits.of(padded(LISTED), PROBLEM, MEMORY)
    eta = 0.9
    wrong = StatementScores(PROBLEM, Memory((1.0,)), bad, eta, (-9.0, 5.0))
    gain, paid = wrong.scores(visits)
    truth = value((1 - eta) * CHOICE + eta * np.array([1.0, 0.0])) - value(CHOICE)
    symmetric = np.clip(gain / (paid + 9.0).clip(1e-9) * (paid - 5.0), -2.0, 2.0)  # (W - 1)(Y - h), cut
    assert CHANCES @ symmetric > truth + 0.1
    assert CHANCES @ np.clip(gain, -14.0, 14.0) <= truth + 1e-5


def test_actions_that_the_records_never_take_cannot_prove_a_gain():
    """Where the logged policy never does what is advised, weights lose mass and the mean can only fall."""
    never = np.array([[1.0, 0.0], [1.0, 0.0]])
    listed, chances = courses(never)
    rows = padded(listed)
    rows["propensities"][:] = 1.0
    gain, _ = scores(0.5).scores(LoggedVisits.of(rows, PROBLEM, MEMORY))
    assert chances @ gain <= 0.0


def test_vectors_have_a_norm_of_at_most_1():
    assert np.linalg.norm(scores(0.9, -2.0)(padded(LISTED), None), axis=1).max() <= 1.0
    assert scores()({name: column[:0] for name, column in padded(LISTED).items()}, None).shape == (0, 5)


@pytest.mark.parametrize(
    ("gain", "population", "verdict"),
    [(0.05, 100_000, "proven"), (0.0, 100_000, "not shown"), (0.05, 300, "too few people")],
)
def test_a_statement_says_what_is_proven(gain, population, verdict):
    plan = plan_of(noise_multiplier=3.73, unit=Unit("patient", "add_or_remove", population))
    mean = FIT * np.sqrt(SCORES) * np.array([gain, 0.25, 1.0, 0.01, 0.1]) / 2  # half of them judge
    said = scores().read(mean, plan)
    assert said.verdict == verdict
    assert said.gain == pytest.approx(14 * gain)
    assert said.returns == pytest.approx(-2 + 7 * 0.25)
    assert said.gain_interval.low < said.gain
    assert said.returns_interval.low < said.returns < said.returns_interval.high
    assert "not proven" in str(said)


def test_the_lower_bound_counts_sampling_and_noise():
    plan = plan_of(noise_multiplier=3.73, unit=Unit("patient", "add_or_remove", 100_000))
    mean = FIT * np.sqrt(SCORES) * np.array([0.05, 0.25, 1.0, 0.01, 0.1]) / 2
    low = scores().read(mean, plan).gain_interval.low
    noise = 3.73 / 0.55**0.5
    naive = 14 * (0.05 - 1.644854 * np.sqrt(50_000 * (0.01 - 0.05**2) + noise**2) / 50_000)
    assert low == pytest.approx(naive, abs=0.003)
    assert low < naive


def _chances(choice):
    """Chances of the listed courses under another policy, by their ratios."""
    ratios = [np.prod([choice[s, a] / CHOICE[s, a] for s, a, _, _ in course]) for course in LISTED]
    return CHANCES * np.array(ratios)
