"""What a unit adds: its moments by hand, a norm of at most 1, and that the sums are read back."""

import numpy as np
import pytest
from small_clinic import MEMORY, PROBLEM, SPEC, columns, courses, padded, plan_of

from tacit.errors import MechanismError
from tacit.methods.improvement import ImprovementPlan, Problem
from tacit.methods.improvement import moments as module
from tacit.methods.improvement.moments import JointMoments, LoggedVisits, ScaleMoments, Scales, group_sums, phi, psi
from tacit.privacy.noise.secret import SecretNoise
from tacit.units import Promise, Unit

LISTED, CHANCES = courses()
SCALES = Scales(np.array([0.4]), np.array([0.5]), 2.5, -0.5, 1.6, 30.0)


def calibrated(**settings):
    unit = Unit("patient", "add_or_remove", len(LISTED))
    return plan_of(noise_multiplier=1e-9, unit=unit, **settings)


def by_hand(course, plan):
    """One unit's moments, row by row."""
    held, total = None, np.zeros((2, 6 + 3 * 3 + 3))
    for k, (state, action, after, ended) in enumerate(course):
        held = float(state) if held is None else held + max(0.5, 1 / (k + 1)) * (state - held)
        following = held + max(0.5, 1 / (k + 2)) * (after - held)
        y, z = ((m - 0.4) / 0.5 for m in (held, following))
        f = np.array([1, y, (y * y - 1) / 2**0.5])
        change = (0 if ended else 1) * np.array([1, z, z * z - 1]) - np.array([1, y, y * y - 1])
        reward = {(0, 0): -1.0, (0, 1): 0.5, (1, 0): -4.0, (1, 1): 2.0}[state, action]
        triangle = [f[i] * f[j] * (1 if i == j else 2**0.5) for i in range(3) for j in range(i, 3)]
        block = np.concatenate([triangle, 3 * np.outer(f, change).ravel(), 2 * f * (reward + 0.5) / 1.6])
        total[action] += block
    flat = total.ravel() / (plan.clip * 2.5 * 3)
    return flat / max(1, np.linalg.norm(flat))


def test_moments_are_those_of_a_sum_by_hand():
    plan = calibrated()
    vectors = JointMoments(plan, SPEC)(padded(LISTED), SCALES)
    for course, vector in zip(LISTED, vectors, strict=True):
        np.testing.assert_allclose(vector, (1 - 2e-4) * by_hand(course, plan), atol=1e-6)


def test_no_vector_is_longer_than_1_and_the_clip_bites():
    rows = padded(LISTED)
    for vectors in (
        JointMoments(calibrated(clip=0.01), SPEC)(rows, SCALES),
        ScaleMoments(calibrated(), SPEC)(rows, None),
    ):
        assert np.linalg.norm(vectors, axis=1).max() < 1
    lengths = np.linalg.norm(JointMoments(calibrated(clip=0.01), SPEC)(rows, SCALES), axis=1)
    np.testing.assert_allclose(lengths, 1 - 2e-4)


def test_sums_are_read_back():
    plan = calibrated(clip=10.0)
    joint = JointMoments(plan, SPEC)
    vectors = joint(padded(LISTED), SCALES)
    read = joint.read(vectors.mean(axis=0), SCALES)
    visits = LoggedVisits.of(padded(LISTED), PROBLEM, MEMORY)
    features = phi(SCALES.standardise(visits.memories, (0,)))
    for action in (0, 1):
        chosen = features[visits.actions == action]
        np.testing.assert_allclose(read.products[action], chosen.T @ chosen, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(
            read.rewards[action],
            (visits.rewards[visits.actions == action] + 0.5) / 1.6 @ chosen,
            rtol=1e-4,
            atol=1e-3,
        )
    assert read.noise[0] == pytest.approx(joint.clip_norm(SCALES) / (1 - 2e-4) * 1e-9 / (0.92 * 0.7) ** 0.5)
    assert read.noise[1] == pytest.approx(read.noise[0] / 3)
    assert read.noise[2] == pytest.approx(read.noise[0] / 2)
    assert read.units == 30.0


@pytest.mark.parametrize(("horizon", "gamma"), [(1, 1.0), (3, 0.0)])
def test_where_nothing_follows_a_decision_no_changes_are_asked_for(horizon, gamma):
    problem = Problem(gamma=gamma, horizon=horizon, return_range=(-4.0, 2.0))
    unit = Unit("patient", "add_or_remove", len(LISTED))
    plan = ImprovementPlan.of(SPEC, problem, noise_multiplier=1e-9, promise=Promise(unit, 1.0, 1e-4), clip=10.0)
    joint = JointMoments(plan, SPEC)
    rows = {name: column[:, :horizon] for name, column in padded(LISTED).items()}
    vectors = joint(rows, SCALES)
    assert vectors.shape == (len(LISTED), 2 * (6 + 3))
    read = joint.read(vectors.mean(axis=0), SCALES)
    assert read.changes.shape == (2, 3, 0)
    visits = LoggedVisits.of(rows, problem, plan.memory)
    paid = visits.rewards[visits.actions == 1]
    assert read.rewards[1, 0] == pytest.approx(((paid + 0.5) / 1.6).sum(), rel=1e-4)


def test_a_look_finds_mean_spread_and_rows():
    rows = padded(LISTED)
    look = ScaleMoments(calibrated(), SPEC)
    scales = look.read(look(rows, None).mean(axis=0) / 2)
    visits = LoggedVisits.of(rows, PROBLEM, MEMORY)
    means = np.array([visits.memories[visits.unit == u].mean() for u in range(len(LISTED))])
    squares = np.array([(((visits.memories[visits.unit == u] - 0.5) / 1.5) ** 2).mean() for u in range(len(LISTED))])
    assert scales.centre[0] == pytest.approx(means.mean(), abs=1e-4)
    spread = 1.5 * np.sqrt(squares.mean() - ((means.mean() - 0.5) / 1.5) ** 2)
    assert scales.spread[0] == pytest.approx(spread, abs=1e-3)
    assert scales.rows == pytest.approx(np.mean([len(course) for course in LISTED]), rel=1e-3)
    paid = [visits.rewards[visits.unit == u] for u in range(len(LISTED))]
    centre, square = np.mean([r.mean() for r in paid]), np.mean([((r + 1) ** 2).mean() for r in paid])
    assert scales.reward_centre == pytest.approx(centre, abs=1e-4)
    assert scales.reward_spread == pytest.approx(np.sqrt(square - (centre + 1) ** 2), rel=1e-3)


def test_a_look_at_few_of_the_population_is_the_same_look():
    """The public number may be far above how many there are, and a half has half of them: the count divides."""
    rows = padded(LISTED)
    look = ScaleMoments(calibrated(), SPEC)
    everybody, few = (look.read(look(rows, None).sum(axis=0) / len(LISTED) * share) for share in (0.5, 0.01))
    assert everybody.units == pytest.approx(len(LISTED) / 2)
    assert few.units == pytest.approx(len(LISTED) / 100, rel=1e-3)
    np.testing.assert_allclose(few.centre, everybody.centre, rtol=1e-3)
    assert few.reward_spread == pytest.approx(everybody.reward_spread, rel=1e-3)


def test_a_look_that_is_all_noise_stays_in_range():
    look = ScaleMoments(calibrated(), SPEC)
    scales = look.read(np.array([50.0, -9.0, 70.0, -8.0, -3.0, 0.1]))
    assert scales.centre[0] == 2.0  # the upper bound
    assert scales.spread[0] == pytest.approx(0.01 * 1.5, rel=1e-3)
    assert scales.rows == 1.0
    assert scales.reward_centre == 2.0
    assert scales.reward_spread == pytest.approx(0.01 * 3, rel=1e-3)


def test_features_by_hand():
    np.testing.assert_allclose(phi(np.array([[2.0, 0.0]])), [[1, 2, 0, 3 / 2**0.5, -1 / 2**0.5]])
    np.testing.assert_allclose(psi(np.array([[2.0, 3.0]])), [[1, 2, 3, 3, 6, 8]])


def test_grouped_sums_with_an_empty_group():
    sums = group_sums(np.array([2, 0, 2]), np.array([[1.0], [2.0], [4.0]]), 4)
    assert sums.ravel().tolist() == [2.0, 0.0, 5.0, 0.0]
    assert group_sums(np.zeros(0, np.int64), np.zeros((0, 2)), 3).tolist() == [[0.0, 0.0]] * 3


def test_memory_that_crosses_units_is_caught(tmp_path, monkeypatch):
    """A planted mistake: without the starts, a unit's first row remembers the unit before it."""
    from small_clinic import open_vault

    honest = module.Memory.memories
    monkeypatch.setattr(
        module.Memory, "memories", lambda self, seen, after, starts: honest(self, seen, after, starts & False)
    )
    vault = open_vault(tmp_path, noise=SecretNoise.for_tests(1))
    plan = plan_of().calibrate(unit=vault.unit, epsilon=1.0, delta=1e-4)
    with pytest.raises(MechanismError):
        vault.noisy_sum(vault.reserve(plan), "look", ScaleMoments(plan, vault.spec))


def test_columns_of_the_helper_are_rows_of_the_courses():
    assert columns(LISTED[:2], [5, 5])["unit_ids"].tolist() == [5] * (len(LISTED[0]) + len(LISTED[1]))
