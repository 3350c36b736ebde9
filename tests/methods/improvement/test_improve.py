"""An improvement end to end: the promise, the policy, what it carries, and what is refused."""

import dataclasses

import numpy as np
import pytest
from small_clinic import CHOICE, MEMORY, PROBLEM, courses, open_vault, plan_of, value

from tacit import hub
from tacit.agents.policy_files import FeedForward
from tacit.errors import PlanError, PlanExhausted
from tacit.methods.improvement import Improvement, fit
from tacit.methods.off_policy_evaluation.policies import Network
from tacit.methods.off_policy_evaluation.targets import resolve
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.origins import Origin
from tacit.units import Unit


def released(folder, units=8_000, epsilon=4.0, seed=1):
    vault = open_vault(folder, units=units, seed=seed, noise=SecretNoise.for_tests(seed + 1))
    return improved(vault, epsilon)


def improved(vault, epsilon=4.0):
    return fit(plan_of().calibrate(unit=vault.unit, epsilon=epsilon, delta=1e-5), vault)


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return released(tmp_path_factory.mktemp("improve"))


def test_the_certificate_verifies_and_says_what_is_not_proven(release):
    assert release.certificate.verify().epsilon <= 4.0
    assert any("is not proven" in line for line in release.certificate.lines("assumptions"))


def test_the_ledger_saw_the_policy_before_anybody_judged_it(tmp_path):
    vault = open_vault(tmp_path, units=300)
    release = improved(vault, 1.0)
    (plan,) = vault.ledger.plans()
    assert plan.taught_by == "fold 0"
    hub.save(release, tmp_path / "policy")
    for one in (release, hub.load(tmp_path / "policy")):
        assert plan.policies == {Origin.of(one).released: {0}}
        assert isinstance(resolve(one, vault), Network)
    other = dataclasses.replace(release.value, theta=release.value.theta + 1)
    with pytest.raises(PlanError, match="released another policy"):
        resolve(Release(other, release.certificate), vault)


def test_the_better_action_is_advised(release):
    """In state 1 treatment 1 pays 6 more, and in state 0 1.5 more."""
    network = Network.of(release.value.feed_forward())
    np.testing.assert_array_equal(network.probabilities(np.array([[0.0], [1.0]])).argmax(axis=1), [1, 1])


def test_the_statement_holds(release):
    said = release.value.statement
    eta = said.advice
    gain = value((1 - eta) * CHOICE + eta * np.array([0.0, 1.0])) - value(CHOICE)
    assert said.verdict == "proven"
    assert 0 < said.gain_interval.low <= gain
    assert said.returns_interval.low <= value(CHOICE) <= said.returns_interval.high


def test_predict_carries_the_memory(release):
    value: Improvement = release.value
    seen = [np.array([[0.0], [1.0]]), np.array([[1.0], [1.0]]), np.array([[0.0], [1.0]])]
    state, played = None, []
    for observation in seen:
        actions, state = value.predict(observation, state)
        played.append(actions)
    held, count = state
    np.testing.assert_allclose(held, [[0.25], [1.0]])
    assert count.tolist() == [3, 3]
    direct, _ = value.actor().predict(held.astype(np.float32))
    np.testing.assert_array_equal(played[-1], direct)
    _, (again, counted) = value.predict(np.array([[1.0], [0.0]]), state, np.array([True, False]))
    np.testing.assert_allclose(again, [[1.0], [0.5]])
    assert counted.tolist() == [1, 4]
    one, _ = value.predict(np.array([1.0]))
    assert np.ndim(one) == 0


def test_a_release_survives_its_folder(release, tmp_path):
    hub.save(release, tmp_path / "policy", notes={"environment": "clinic"})
    again = hub.load(tmp_path / "policy")
    for name in ("theta", "clone", "changes"):
        np.testing.assert_array_equal(getattr(again.value, name), getattr(release.value, name))
    np.testing.assert_array_equal(again.value.moments.changes, release.value.moments.changes)
    assert again.value.statement == release.value.statement
    assert again.value.plan == release.value.plan
    assert again.value.memory == MEMORY
    assert "rates 0.5" in (tmp_path / "policy" / "README.md").read_text()


def test_the_same_plan_does_not_run_twice(tmp_path):
    vault = open_vault(tmp_path, noise=SecretNoise.for_tests(3))
    plan = plan_of().calibrate(unit=vault.unit, epsilon=1.0, delta=1e-5)
    fit(plan, vault)
    with pytest.raises(PlanExhausted):
        fit(plan, vault)


def test_what_was_said_before_raises_the_level(tmp_path):
    vault = open_vault(tmp_path, noise=SecretNoise.for_tests(3))
    plans = [plan_of(advice=share).calibrate(unit=vault.unit, epsilon=0.1, delta=1e-6) for share in (0.05, 0.1, 0.2)]
    levels = [fit(plan, vault).value.statement.gain_interval.level for plan in plans]
    assert levels == pytest.approx([0.95, 0.975, 1 - 0.05 / 3])
    with pytest.raises(PlanError, match="3 statements"):
        fit(plan_of(level=0.993).calibrate(unit=vault.unit, epsilon=0.1, delta=1e-6), vault)
    assert len(vault.ledger.plans()) == 3


def test_nothing_is_spent_on_records_that_do_not_fit(tmp_path):
    vault = open_vault(tmp_path)
    plan = plan_of(memory=type(MEMORY)((0.0, 1.0)), columns=(0,)).calibrate(unit=vault.unit, epsilon=1.0, delta=1e-5)
    with pytest.raises(PlanError, match="memory"):
        fit(plan, vault)
    assert not vault.ledger.plans()


def test_very_few_people_get_the_clone_of_all_which_draws_its_actions(tmp_path):
    """Its most frequent action pays less in state 0 than the other one: acting by it alone would do harm."""
    vault = open_vault(tmp_path, units=100, seed=6, noise=SecretNoise.for_tests(7))
    release = fit(plan_of(teachers="all").calibrate(unit=vault.unit, epsilon=0.5, delta=1e-5), vault)
    value = release.value
    assert value.plan.kappa == 0.0
    assert value.sampled
    np.testing.assert_array_equal(value.theta, value.clone)
    assert value.statement.verdict == "clone"
    assert "No advice is released" in str(value.statement)
    assert not value.actor().greedy
    assert not value.feed_forward().greedy
    network = Network.of(value.feed_forward())
    seen = np.zeros((4_000, 1))
    actions, _ = value.predict(seen, generator=np.random.default_rng(0))
    chance = network.probabilities(seen[:1])[0, 1]
    assert 0.01 < chance < 0.99
    assert abs(actions.mean() - chance) < 5 * np.sqrt(chance * (1 - chance) / 4_000)
    hub.save(release, tmp_path / "policy")
    assert hub.load(tmp_path / "policy").value.sampled
    assert "draws its actions" in (tmp_path / "policy" / "README.md").read_text()


def test_a_clone_of_the_best_takes_its_best_action_and_survives_its_folder(tmp_path):
    vault = open_vault(tmp_path, units=3_000, seed=2, noise=SecretNoise.for_tests(2))
    release = fit(plan_of(advises=False).calibrate(unit=vault.unit, epsilon=4.0, delta=1e-5), vault)
    assert not release.value.sampled
    assert release.value.moments is None
    second = Network.of(FeedForward.of(release.value.policy, release.value.clone, greedy=False))
    chances = second.probabilities(np.array([[0.0], [1.0]]))[:, 1]
    assert (chances > CHOICE[:, 1] + 0.05).all()  # those who did well take the better action more often
    assert release.value.actor().greedy
    hub.save(release, tmp_path / "policy")
    np.testing.assert_array_equal(hub.load(tmp_path / "policy").value.theta, release.value.theta)


def test_several_courses_are_an_assumption_of_the_statement(release):
    """Weights are of one course alone: who comes again must not depend on what was decided before."""
    lines = release.certificate.lines("assumptions")
    assert sum("how many courses a patient has" in line or "how many courses a unit has" in line for line in lines) == 1
    one = plan_of(problem=dataclasses.replace(PROBLEM, episodes_per_unit=1)).label().assumptions
    assert "courses_apart" not in {line["code"] for line in one}


def test_the_helper_process_sums_to_1():
    assert courses()[1].sum() == pytest.approx(1.0)
    assert Unit("patient", "add_or_remove", 3).size == 3
