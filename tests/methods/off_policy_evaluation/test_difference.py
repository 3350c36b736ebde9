"""The difference to today's practice against an enumerated process: its scores, its bounds, its share of a plan."""

import numpy as np
import pytest
from small_mdp import (
    BEHAVIOUR,
    ENDS,
    MOVES,
    PROBLEM,
    REWARDS,
    SPEC,
    START,
    TARGET,
    Silent,
    enumerate_episodes,
    exact_value,
    open_vault,
    padded,
)

from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation import (
    Behaviour,
    BehaviourModel,
    DoublyRobust,
    Following,
    Gpope,
    ImportanceSampling,
    OneHot,
    ResidualRegression,
    Tabular,
    fit,
)
from tacit.methods.off_policy_evaluation.difference import DifferenceScores
from tacit.methods.off_policy_evaluation.logged import cut_episodes
from tacit.methods.off_policy_evaluation.problem import Evaluation
from tacit.methods.off_policy_evaluation.scores import limits
from tacit.privacy.noise.secret import SecretNoise

LIMITS = limits(PROBLEM, SPEC)
WIDTH = LIMITS[1] - LIMITS[0]
RISKY = Tabular(np.array([[0.0, 1.0], [0.0, 1.0]]))


def exact_difference(following, policy=TARGET):
    """J with a policy that is mixed in at the first visits, less J of practice, by backward induction."""
    value = np.zeros(2)
    for step in reversed(range(PROBLEM.horizon)):
        share = following.share if step < (following.visits or PROBLEM.horizon) else 0.0
        table = (1 - share) * BEHAVIOUR.table + share * policy.table
        value = (table * (REWARDS + PROBLEM.gamma * (1 - ENDS) * (MOVES @ value))).sum(axis=1)
    return float(START @ value) - exact_value(BEHAVIOUR)


def scores(following, policy=TARGET, clip=1e6):
    return DifferenceScores(PROBLEM, policy, None, following, LIMITS, clip)


def pairs(vector):
    """The pairs of every episode that practice can have, and their chances."""
    episodes, chances = enumerate_episodes()
    _, found = vector.pairs(cut_episodes(padded(episodes), PROBLEM, vector.policy))
    return found, chances


@pytest.mark.parametrize(("share", "visits"), [(0.05, None), (0.4, None), (1.0, None), (1.0, 1), (0.5, 2)])
def test_the_mean_scores_are_the_difference_and_its_opposite(share, visits):
    following = Following(share=share, visits=visits)
    found, chances = pairs(scores(following))
    truth = exact_difference(following) / WIDTH
    assert chances @ found == pytest.approx([truth, -truth], abs=1e-7)
    assert abs(truth) > 1e-3
    assert found.min() >= -1


@pytest.mark.parametrize("policy", [TARGET, RISKY])
def test_a_clip_can_only_lower_both(policy):
    following = Following(share=1.0)
    whole, chances = pairs(scores(following, policy))
    episodes, _ = enumerate_episodes()
    a, b, d = 0.8**0.5, 0.06**0.5, 0.14**0.5
    for clip in (1.0, 2.0):
        vectors = scores(following, policy, clip)(padded(episodes), None) / (1 - 2e-4)
        assert np.linalg.norm(vectors, axis=1).max() <= 1 + 1e-12
        assert vectors[:, 2] == pytest.approx(b)
        cut = vectors[:, :2] / a * clip
        assert vectors[:, 3:] == pytest.approx(d * (cut / clip) ** 2)
        assert (chances @ cut < chances @ whole).all()
        assert cut[np.linalg.norm(whole, axis=1) < clip] == pytest.approx(whole[np.linalg.norm(whole, axis=1) < clip])


def test_actions_that_practice_never_takes_prove_nothing(monkeypatch):
    monkeypatch.setattr("small_mdp.BEHAVIOUR", Tabular(np.array([[1.0, 0.0], [0.5, 0.5]])))
    following = Following(share=1.0)
    found, chances = pairs(scores(following, RISKY))
    gain, loss = chances @ found
    assert gain < 0
    assert gain + loss < -0.1  # the two bounds move apart


def test_episodes_of_one_unit_are_averaged():
    problem = type(PROBLEM)(gamma=0.9, horizon=3, episodes_per_unit=2)
    episodes, _ = enumerate_episodes()
    one, two = (scores(Following(share=0.3), clip=1.0)(padded([each]), None)[0] for each in episodes[:2])
    rows = padded([episodes[0], episodes[1]])
    joined = {name: values.reshape(1, -1, *values.shape[2:]) for name, values in rows.items()}
    both = DifferenceScores(problem, TARGET, None, Following(share=0.3), LIMITS, 1.0)(joined, None)[0]
    assert both[:2] == pytest.approx((one[:2] + two[:2]) / 2)


@pytest.mark.parametrize(
    ("following", "most", "clip"),
    [
        (Following(share=0.05), 10.0, 1.0),  # 3 sqrt(1.0025^3 - 1) = .26
        (Following(share=1.0, visits=1), 10.0, 3.0),
        (Following(share=1.0, visits=2), 10.0, 3 * 3**0.5),
        (Following(share=1.0, visits=2), 2.5, 2.5),
    ],
)
def test_the_clip_follows_from_public_numbers(following, most, clip):
    assert following.clip(SPEC, PROBLEM, most) == pytest.approx(clip)


@pytest.mark.parametrize(("share", "visits"), [(0.1, None), (1.0, 1)])
def test_intervals_cover_sampling_and_noise(share, visits):
    following = Following(share=share, visits=visits)
    vector = scores(following, clip=following.clip(SPEC, PROBLEM, 10.0))
    episodes, chances = enumerate_episodes()
    vectors, truth = vector(padded(episodes), None), exact_difference(following)
    generator, units, noise, held = np.random.default_rng(3), 2_000, 8.0, 0
    widths = []
    for _ in range(300):
        total = generator.multinomial(units, chances / chances.sum()) @ vectors + generator.normal(size=5) * noise
        found = vector.read(total, noise=noise, population=units, expected=units, level=0.9)
        held += found.interval.low <= truth <= found.interval.high
        widths.append(found.interval.high - found.interval.low)
    assert held >= 263  # 90 % of 300, less 1.4 standard deviations
    assert np.mean(widths) < 0.2 * WIDTH


@pytest.mark.parametrize(
    "plan",
    [
        ImportanceSampling(problem=PROBLEM, following=Following(share=0.2)),
        ResidualRegression(problem=PROBLEM, features=OneHot(2), on_policy=False, following=Following(share=0.2)),
    ],
)
def test_a_plan_gives_value_and_difference_within_one_budget(tmp_path, plan):
    vault = open_vault(tmp_path, units=4000, seed=1, noise=SecretNoise.for_tests(1))
    plan = plan.calibrate(unit=vault.unit, epsilon=2.0, delta=1e-5)
    assert sum(part.steps / part.noise_multiplier**2 for part in plan.parts()) == pytest.approx(
        1 / plan.noise_multiplier**2
    )
    release = fit(plan, vault, TARGET)
    found, truth = release.value.difference, exact_difference(plan.following)
    assert found.interval.low <= found.value <= found.interval.high
    assert found.interval.low <= truth <= found.interval.high
    assert found.extent == "in 20 % of the visits"
    assert found.interval.high - found.interval.low < (release.value.interval.high - release.value.interval.low) / 3
    assert Evaluation.from_json(release.value.to_json()).difference == found
    assert release.certificate.epsilon <= 2.0
    release.certificate.verify()
    assert "following the policy in 20 % of the visits" in str(plan)
    assert {"code": "difference_sum", "extent": "in 20 % of the visits"} in release.certificate.to_json()["covered"]


def test_who_judges_the_value_judges_the_difference(tmp_path):
    robust = DoublyRobust(problem=PROBLEM, features=OneHot(2), following=Following())
    assert {part.name: part.fold for part in robust.parts()}["difference"] == 1
    on_half = ImportanceSampling(problem=PROBLEM, following=Following()).with_fold(0)
    assert {part.fold for part in on_half.parts()} == {0}


def test_there_is_no_interval_where_teachers_would_judge(tmp_path):
    vault = open_vault(tmp_path, units=1000, seed=1, noise=Silent())
    first = ImportanceSampling(problem=PROBLEM).calibrate(unit=vault.unit, epsilon=1.0, delta=1e-5)
    fit(first, vault, TARGET)
    plan = ImportanceSampling(problem=PROBLEM, following=Following())
    undeclared = fit(plan.calibrate(unit=vault.unit, epsilon=1.0, delta=1e-5), vault, RISKY).value
    assert undeclared.interval is None
    assert undeclared.difference.interval is None
    assert "taught" in str(undeclared.difference)


@pytest.mark.parametrize("fields", [{"share": 0.0}, {"share": 1.5}, {"visits": 0}, {"budget": 1.0}])
def test_values_out_of_range_are_refused(fields):
    with pytest.raises(PlanError):
        Following(**fields)


def test_what_cannot_be_compared_is_refused(tmp_path):
    with pytest.raises(PlanError, match="beside a model"):
        ImportanceSampling(problem=PROBLEM, following=Following(), behaviour_model=BehaviourModel.of(SPEC))
    with pytest.raises(PlanError, match="sampled mode"):
        Gpope(problem=PROBLEM, features=OneHot(2), mode="poisson", following=Following())
    vault = open_vault(tmp_path)
    plan = ImportanceSampling(problem=PROBLEM, following=Following())
    with pytest.raises(PlanError, match="no probabilities"):
        fit(plan.calibrate(unit=vault.unit, epsilon=1.0, delta=1e-4), vault, Behaviour())
    assert not vault.ledger.plans()


@pytest.mark.parametrize(
    ("following", "extent"),
    [
        (Following(), "in 5 % of the visits"),
        (Following(share=1.0), "in every visit"),
        (Following(share=1.0, visits=2), "in the first 2 visits"),
        (Following(share=0.5, visits=1), "in 50 % of the first visit"),
    ],
)
def test_the_extent_in_words(following, extent):
    assert following.extent == extent
