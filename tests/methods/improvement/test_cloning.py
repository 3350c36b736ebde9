"""The clone of those who did well: sums by hand, ends of returns, a step against a reference, and what it learns."""

import numpy as np
import pytest
from scipy.optimize import minimize
from small_clinic import MEMORY, PROBLEM, SPEC, courses, padded, plan_of

from tacit.methods.improvement.cloning import (
    CloneGeometry,
    CloneStep,
    ReturnTally,
    TeacherVisits,
    WeightedProducts,
    unit_weights,
)
from tacit.methods.improvement.moments import LoggedVisits, Scales, phi, softmax
from tacit.units import Unit

LISTED, CHANCES = courses()
ROWS = padded(LISTED)
VISITS = LoggedVisits.of(ROWS, PROBLEM, MEMORY)
SCALES = Scales(np.array([0.4]), np.array([0.5]), 2.5, -0.5, 1.6, float(len(LISTED)))
ENDS = (-4.0, 1.0)
PLAN = plan_of(noise_multiplier=1e-9, unit=Unit("patient", "add_or_remove", len(LISTED)))
SEEN = TeacherVisits(PLAN, SPEC)


def paid(course):
    return sum({(0, 0): -1.0, (0, 1): 0.5, (1, 0): -4.0, (1, 1): 2.0}[s, a] for s, a, _, _ in course)


WEIGHTS = np.clip((np.clip([paid(course) for course in LISTED], -9, 5) + 4) / 5, 0, 1)


def test_a_tally_has_a_unit_in_the_bin_of_its_return():
    tally = ReturnTally(PLAN, SEEN)(SEEN(ROWS), None)
    assert np.linalg.norm(tally, axis=1).max() < 1
    places = ((np.clip([paid(course) for course in LISTED], -9, 5) + 9) / 14 * 20 + 1e-6).astype(int)
    np.testing.assert_array_equal(tally.argmax(axis=1), np.minimum(places, 19))


@pytest.mark.parametrize(
    ("counts", "ends"),
    [
        (np.full(20, 5.0), (1.5, 3.6)),  # even from -9 to 5
        (np.r_[np.zeros(19), 100.0], (4.3, 5.0)),  # all at the top: the bin is split, not left
        (np.r_[100.0, np.zeros(19)], (-8.475, -7.775)),
        (np.zeros(20), (-9.0, -8.3)),  # nobody seen: everybody is above
    ],
)
def test_ends_are_where_a_quarter_and_a_tenth_are_above(counts, ends):
    plan = plan_of(noise_multiplier=1e-9, unit=Unit("patient", "add_or_remove", 100))
    scales = Scales(np.array([0.0]), np.array([1.0]), 2.5, 0.0, 1.0, 100.0)
    assert ReturnTally(plan, SEEN).read((1 - 2e-4) * counts / 100, scales) == pytest.approx(ends, abs=1e-6)


def test_noise_in_a_tally_cannot_make_shares_fall():
    counts = np.r_[np.zeros(17), 30.0, -40.0, 20.0]
    plan = plan_of(noise_multiplier=1e-9, unit=Unit("patient", "add_or_remove", 100))
    scales = Scales(np.array([0.0]), np.array([1.0]), 2.5, 0.0, 1.0, 100.0)
    first, last = ReturnTally(plan, SEEN).read((1 - 2e-4) * counts / 100, scales)
    assert -9.0 <= first < last == pytest.approx(4.65)


def test_weights_rise_between_the_ends():
    returns = VISITS.unit_returns(PROBLEM.return_range)
    np.testing.assert_allclose(unit_weights(returns, ENDS), WEIGHTS, atol=1e-6)
    assert unit_weights(returns, None).tolist() == [1.0] * len(LISTED)


def test_a_clone_alone_has_squares_where_the_noise_is_small():
    unit = Unit("patient", "add_or_remove", 2_000)
    plans = [
        plan_of(advises=advises, unit=unit, noise_multiplier=sigma)
        for advises, sigma in ((False, 1), (False, 30), (True, 30))
    ]
    # 1,000 teach; .92 of the precision is the clone's: signal-to-noise 959 and 32 of 3 features, 300 each are asked for
    assert [plan.squares for plan in plans] == [True, False, True]
    assert [plan.features for plan in plans] == [3, 2, 3]


def features_of(unit):
    return phi(SCALES.standardise(VISITS.memories[VISITS.unit == unit], (0,)))


def test_products_are_those_of_the_weighted_units():
    products = WeightedProducts(PLAN, SEEN)
    vectors = products(SEEN(ROWS), (ENDS, SCALES))
    assert np.linalg.norm(vectors, axis=1).max() < 1
    geometry = products.read(vectors.mean(axis=0), SCALES)
    expected = np.zeros((3, 3))
    for unit, weight in enumerate(WEIGHTS):
        f = features_of(unit)
        mean = f.T @ f / len(f)
        expected += weight * mean / max(1, weight * np.linalg.norm(mean) / (0.4 * 3))
    assert geometry.total == pytest.approx(expected[0, 0], rel=1e-4)
    np.testing.assert_allclose(geometry.metric.T @ (expected / expected[0, 0]) @ geometry.metric, np.eye(3), atol=0.05)
    assert geometry.weights.sum() == pytest.approx(1.0)


def test_a_step_is_the_gradient_of_the_units_own_likelihood():
    theta = np.array([[0.3, -0.3], [-0.2, 0.2], [0.1, -0.1]])
    metric = np.diag([1.0, 0.5, 2.0])
    vectors = CloneStep(PLAN, SEEN)(SEEN(ROWS), (ENDS, SCALES, metric, theta))
    for unit, weight in enumerate(WEIGHTS):
        z, taken = features_of(unit) @ metric, VISITS.actions[VISITS.unit == unit]
        gradient = sum(
            np.outer(row, np.eye(2)[action] - softmax(row @ theta)) for row, action in zip(z, taken, strict=True)
        )
        gradient = weight * np.ravel(gradient) / len(z) / 0.2
        np.testing.assert_allclose(vectors[unit], (1 - 2e-4) * gradient / max(1, np.linalg.norm(gradient)), atol=1e-6)
    assert np.linalg.norm(vectors, axis=1).max() < 1


def test_the_curvature_is_the_second_derivative_at_the_points():
    generator = np.random.default_rng(0)
    y, weights = generator.normal(size=(40, 1)), generator.dirichlet(np.ones(40))
    geometry = CloneGeometry(np.diag([1.0, 0.5, 2.0]), y, weights, 1.0)
    theta, z = generator.normal(size=(3, 2)), phi(y) @ geometry.metric

    def gradient(at):
        chosen = np.eye(2)[(y[:, 0] > 0).astype(int)]
        return ((z * weights[:, None]).T @ (softmax(z @ at.reshape(3, 2)) - chosen)).ravel()

    step = 1e-6
    columns = [
        (gradient(theta.ravel() + step * e) - gradient(theta.ravel() - step * e)) / (2 * step) for e in np.eye(6)
    ]
    np.testing.assert_allclose(geometry.curvature(theta), np.stack(columns, axis=1), atol=1e-6)


def test_steps_reach_the_most_likely_clone():
    """Against SciPy, where no clip bites: units of one row each, and the maximum of the penalised likelihood."""
    theta, step = np.zeros((3, 2)), CloneStep(PLAN, SEEN)
    products = WeightedProducts(PLAN, SEEN)
    geometry = products.read(products(SEEN(ROWS), (ENDS, SCALES)).mean(axis=0), SCALES)
    for _ in range(60):
        vectors = step(SEEN(ROWS), (ENDS, SCALES, geometry.metric, theta))
        theta = step.step(theta, vectors.mean(axis=0), geometry)
    z = phi(SCALES.standardise(VISITS.memories, (0,))) @ geometry.metric
    found = softmax(z @ theta)[:, 1]
    # What the clip leaves of each unit: its weight is cut so that its gradient has a norm of at most 0.2.
    residual = np.eye(2)[VISITS.actions] - softmax(z @ theta)
    outer = (z[:, :, None] * residual[:, None, :]).reshape(len(z), -1)
    gradients = VISITS.sums(outer) / np.bincount(VISITS.unit)[:, None]
    cut = np.minimum(WEIGHTS, 0.2 / np.maximum(np.linalg.norm(gradients, axis=1), 1e-12))
    per_row = (cut / np.bincount(VISITS.unit))[VISITS.unit]

    def loss(flat):
        p = softmax(z @ flat.reshape(3, 2))
        return -(per_row * np.log(p[np.arange(len(p)), VISITS.actions])).sum()

    best = minimize(loss, np.zeros(6), method="BFGS").x.reshape(3, 2)
    np.testing.assert_allclose(found, softmax(z @ best)[:, 1], atol=0.02)


def test_noise_draws_the_steps_to_nothing():
    loud = plan_of(noise_multiplier=1e6, unit=Unit("patient", "add_or_remove", len(LISTED)))
    geometry = CloneGeometry(np.eye(3), np.zeros((5, 1)), np.full(5, 0.2), 10.0)
    gradient = np.full(6, 1e-3)
    gradient[1::2] *= -1
    assert np.abs(CloneStep(loud, SEEN).step(np.zeros((3, 2)), gradient, geometry)).max() < 1e-6
