"""Planning on moments without noise: the clone's boundary, the points' means, a known best action, the layer."""

import numpy as np
import pytest
from small_clinic import SPEC, plan_of

from tacit.data.memory import Memory
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.methods.improvement import ImprovementPlan, Problem
from tacit.methods.improvement.cloning import CloneGeometry
from tacit.methods.improvement.moments import Moments, Scales, find_points, phi, psi
from tacit.methods.improvement.planning import StandardProblem, ValueModel, advise, noisy_copies
from tacit.units import Promise, Unit

PLANE = PublicSpec(Box((-9.0,) * 3, (9.0,) * 3), Discrete(2), Box((-1.0,), (1.0,)), "declared", propensities=True)
WIDE = StandardProblem(0.0, -np.inf, np.inf)
UNIT = Unit("patient", "add_or_remove", 40_000)


def plan(problem=None, **settings):
    problem = problem or Problem(gamma=1.0, horizon=4, return_range=(-4.0, 4.0))
    fields = {"memory": Memory((1.0,) * 3), "columns": (0, 2), "value_columns": (2,), "noise_multiplier": 1e-6}
    return ImprovementPlan.of(PLANE, problem, **{**fields, "promise": Promise(UNIT, 1.0, 0.1 / UNIT.size), **settings})


def moments(y, actions, rewards, change=None):
    f = phi(y)
    change = -psi(y[:, 1:]) if change is None else change
    masks = [actions == a for a in (0, 1)]
    return Moments(
        products=np.stack([f[m].T @ f[m] for m in masks]),
        changes=np.stack([f[m].T @ change[m] for m in masks]),
        rewards=np.stack([rewards[m] @ f[m] for m in masks]),
        noise=(1e-6, 1e-6, 1e-6),
        units=len(y),
    )


def points(found):
    total = found.products.sum(0)
    return find_points(total / total[0, 0], 2, 0.0)


CLONE = np.array([[0.0, 0.0], [-1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
"""Of the actions that `drawn` gives: log odds 2 y."""
NOWHERE = CloneGeometry(np.eye(5), np.zeros((1, 2)), np.ones(1), 1.0)
"""Not looked at where there are moments."""


def advantages(found, asked, standard=WIDE):
    y, weight = points(found)
    return ValueModel.of(found, y, weight, standard, asked).advantages(y, weight)


def scales_of(centre=(0.0, 0.0), spread=(1.0, 1.0)):
    return Scales(np.array(centre), np.array(spread), 3.0, 0.0, 1.0, 40_000.0)


def drawn(seed=0):
    generator = np.random.default_rng(seed)
    actions = generator.integers(0, 2, 40_000)
    y = generator.normal(size=(40_000, 2)) + np.where(actions[:, None] == 1, [1.0, 0.0], [-1.0, 0.0])
    return y, actions


def test_points_have_the_noisy_means():
    generator = np.random.default_rng(1)
    y = np.stack([generator.normal(0.3, 0.9, 40_000), generator.normal(-0.2, 1.05, 40_000)], axis=1)
    found, weight = points(moments(y, np.arange(40_000) % 2, np.zeros(40_000)))
    assert weight.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(weight @ phi(found), phi(y).mean(axis=0), atol=0.02)


def test_the_better_action_of_a_bandit_is_found():
    y, actions = drawn()
    rewards = np.where(actions == 1, 1.0, -1.0) * y[:, 1]  # the second action is better where y_1 > 0
    found = moments(y, actions, rewards)
    better = advantages(found, plan())
    np.testing.assert_allclose(better[:, 1] - better[:, 0], [0.0, 0.0, 2.0, 0.0, 0.0], atol=0.05)


def test_a_delayed_reward_is_planned_for():
    """Action 1 leads to where every further step pays: with a value, it is better; its own reward is worse."""
    generator = np.random.default_rng(2)
    y = np.stack([generator.normal(size=40_000), generator.choice([-1.0, 1.0], 40_000)], axis=1)
    actions = generator.integers(0, 2, 40_000)
    rewards = (y[:, 1] > 0) - 0.25 * (actions == 1)
    going = generator.random(40_000) < 0.75
    after = np.where(actions == 1, 1.0, -1.0)[:, None]
    change = going[:, None] * psi(after) - psi(y[:, 1:])
    found = moments(y, actions, rewards, change)
    better = advantages(found, plan(problem=Problem(gamma=1.0, horizon=40)))
    advantage = phi(y) @ (better[:, 1] - better[:, 0])
    assert advantage.mean() > 0.2


def test_noise_makes_the_advice_cautious():
    y, actions = drawn()
    found = moments(y, actions, y[:, 1] * np.where(actions == 1, 1.0, -1.0))
    loud = Moments(found.products, found.changes, found.rewards, (1e-6, 1e-6, 1e6), found.units)
    better = advantages(loud, plan())
    assert np.abs(better).max() < 0.05


@pytest.mark.parametrize("kappa_scale", [1e12, 300.0])
def test_the_written_policy_is_the_one_that_was_planned(kappa_scale):
    y, actions = drawn()
    found = moments(y, actions, y[:, 1] * np.where(actions == 1, 1.0, -1.0))
    scales = scales_of((1.0, -2.0), (2.0, 0.5))
    asked = plan(snr_scale=kappa_scale)
    advised = advise(found, scales, CLONE, NOWHERE, asked, PLANE)
    seen = np.random.default_rng(3).uniform(-9, 9, (500, 3))
    features = phi(scales.standardise(seen, (0, 2)))
    expected = CLONE
    played = advised.policy.network.forward(advised.clone, advised.policy.features(seen[None].astype(np.float32)))[0][0]
    np.testing.assert_allclose(played, features @ expected, atol=1e-3)
    if kappa_scale == 1e12:
        np.testing.assert_array_equal(advised.advice, advised.clone)
        assert np.trace(advised.changes) == pytest.approx(1.0)
    else:
        copies = [advantages(copy, asked, StandardProblem(0.0, -4.0, 4.0)) for copy in noisy_copies(found)]
        expected = expected + asked.kappa * np.mean(copies, axis=0)
        played = advised.policy.network.forward(advised.advice, advised.policy.features(seen[None].astype(np.float32)))
        np.testing.assert_allclose(played[0][0], features @ expected, atol=0.02)
        assert advised.changes[0, 1] > 0.1
        assert advised.changes.sum() == pytest.approx(1.0)


def test_columns_without_use_do_not_matter():
    y, actions = drawn()
    advised = advise(moments(y, actions, y[:, 0]), scales_of(), CLONE, NOWHERE, plan(), PLANE)
    seen = np.zeros((2, 3), np.float32)
    seen[1, 1] = 8.0
    chosen = advised.policy.network.forward(advised.advice, advised.policy.features(seen[None]))[0][0]
    np.testing.assert_array_equal(chosen[0], chosen[1])


def test_nothing_but_noise_gives_finite_parameters():
    generator = np.random.default_rng(4)
    noise = 1e4
    loud = Moments(
        *(noise * generator.normal(size=shape) for shape in ((2, 3, 3), (2, 3, 3), (2, 3))), (noise,) * 3, 50
    )
    loud = Moments((loud.products + loud.products.swapaxes(1, 2)) / 2, loud.changes, loud.rewards, loud.noise, 50)
    asked = plan_of(noise_multiplier=1e-9, unit=Unit("patient", "add_or_remove", 50))
    scales = Scales(np.zeros(1), np.ones(1), 2.0, 0.0, 1.0, 50.0)
    advised = advise(loud, scales, CLONE[:3], NOWHERE, asked, SPEC)
    assert np.isfinite(advised.advice).all()
    assert np.isfinite(advised.changes).all()


@pytest.mark.parametrize(("teachers", "sampled"), [("all", True), ("best", False)])
def test_where_the_model_sees_no_gain_the_clone_is_the_policy(teachers, sampled):
    y, actions = drawn()
    rewards = np.where(y[:, 0] > 0, 1.0, -1.0) * np.where(actions == 1, -1.0, 1.0)  # what most do is the worse
    found = moments(y, actions, rewards)
    advised = advise(found, scales_of(), CLONE, NOWHERE, plan(teachers=teachers, snr_scale=1e12), PLANE)
    assert advised.sampled == sampled
    np.testing.assert_array_equal(advised.advice, advised.clone)


def test_copies_have_the_noise_of_the_sums_once_more():
    nothing = Moments(np.zeros((40, 9, 9)), np.zeros((40, 9, 6)), np.zeros((40, 9)), (3.0, 2.0, 0.5), 50)
    copies = noisy_copies(nothing)
    products = np.concatenate([copy.products for copy in copies])
    np.testing.assert_array_equal(products, products.swapaxes(1, 2))
    i, j = np.triu_indices(9, 1)
    kinds = (products[:, range(9), range(9)], products[:, i, j])
    others = (np.concatenate([getattr(copy, name) for copy in copies]) for name in ("changes", "rewards"))
    for numbers, expected in zip((*kinds, *others), (3.0, 3.0 / 2**0.5, 2.0, 0.5), strict=True):
        assert numbers.std() == pytest.approx(expected, rel=0.03)  # of 5,760 numbers or more
        assert abs(numbers.mean()) < 0.06 * expected
    again = noisy_copies(nothing)
    np.testing.assert_array_equal(again[-1].rewards, copies[-1].rewards)  # the advice is a function of what is released


def test_what_planning_makes_of_noise_is_averaged_away():
    """Where actions change nothing, all that a model plans is noise, and the mean over copies has less of it."""
    y, actions = drawn()
    still = moments(y, actions, np.zeros(len(y)))
    asked = plan(problem=Problem(gamma=1.0, horizon=24))
    generator, single, averaged = np.random.default_rng(6), [], []
    for _ in range(6):
        noise = 1_500.0 * generator.normal(size=still.changes.shape)
        noisy = Moments(still.products, still.changes + noise, still.rewards, (1e-6, 1_500.0, 300.0), still.units)
        single.append(np.abs(phi(y) @ advantages(noisy, asked)).mean())
        copies = [advantages(copy, asked) for copy in noisy_copies(noisy)]
        averaged.append(np.abs(phi(y) @ np.mean(copies, axis=0)).mean())
    assert np.mean(averaged) < 0.8 * np.mean(single)


def test_a_gain_has_the_mean_and_the_spread_of_the_posterior():
    y, weight = np.array([[0.5, 0.0], [-1.0, 2.0]]), np.array([0.25, 0.75])
    generator = np.random.default_rng(5)
    theta, roots = generator.normal(size=(5, 2)), generator.normal(size=(2, 5, 5))
    covariances = roots @ roots.swapaxes(1, 2)
    chances = np.array([[0.9, 0.1], [0.4, 0.6]])
    scores = np.array([[0.0, 1.0], [2.0, 1.0]])  # the second action at the first point, the first one at the second
    found = ValueModel(theta, covariances).gain(y, weight, scores, chances)
    moved = 0.25 * 0.9 * phi(y)[0] - 0.75 * 0.6 * phi(y)[1]  # from the first action to the second
    expected = moved @ (theta[:, 1] - theta[:, 0]), np.sqrt(moved @ covariances.sum(0) @ moved)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("teachers", "noise", "kept"),
    [
        ("all", 1.0, True),
        ("all", 2e3, True),
        ("all", 1e4, False),
        ("best", 1.0, True),
        ("best", 2e3, True),
        ("best", 1e4, False),
    ],
)
def test_advice_has_to_be_above_its_own_noise(teachers, noise, kept):
    y, actions = drawn()
    found = moments(y, actions, y[:, 0] * np.where(actions == 1, 1.0, -1.0))
    found = Moments(found.products, found.changes, found.rewards, (noise,) * 3, found.units)
    advised = advise(found, scales_of(), CLONE, NOWHERE, plan(teachers=teachers), PLANE)
    assert (not np.array_equal(advised.advice, advised.clone)) == kept


def test_a_clone_alone_is_taken_at_its_word():
    geometry = CloneGeometry(np.eye(5), np.array([[1.0, 0.0], [-2.0, 0.0]]), np.array([0.25, 0.75]), 1.0)
    advised = advise(None, scales_of(), CLONE, geometry, plan(advises=False), PLANE)
    np.testing.assert_array_equal(advised.advice, advised.clone)
    assert advised.changes.tolist() == [[0.75, 0.0], [0.0, 0.25]]
    assert not advised.sampled
