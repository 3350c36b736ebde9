"""The plan of an improvement: one Gaussian, a public trust in the model, and what is refused."""

import pytest
from small_clinic import PROBLEM, SPEC, plan_of

from tacit.data.memory import Memory
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import PlanError
from tacit.methods.improvement import ImprovementPlan, Problem
from tacit.privacy.accounting import bounds
from tacit.privacy.certificate.plan import plan_from_json as rebuilt
from tacit.privacy.vault.plan import event, public_fields
from tacit.units import Unit

UNIT = Unit("patient", "add_or_remove", 10_000)


def test_the_sums_of_each_half_are_one_gaussian():
    plan = plan_of(advises=True).calibrate(unit=UNIT, epsilon=1.0, delta=1e-5)
    assert plan.noise_multiplier == pytest.approx(3.7307, rel=1e-4)  # that of a single sum at this promise
    *learning, statement = plan.parts()
    assert [part.name for part in learning] == ["look", "tally", "products", "step", "moments"]
    assert ({part.fold for part in learning}, statement.fold) == ({0}, 1)  # nobody who teaches judges
    precision = sum(part.steps / part.noise_multiplier**2 for part in learning)
    assert precision == pytest.approx(1 / plan.noise_multiplier**2)
    look = learning[0]
    assert look.noise_multiplier == pytest.approx(plan.noise_multiplier / 0.08**0.5)
    assert statement.noise_multiplier == plan.noise_multiplier
    assert bounds.epsilon(event(plan), delta=1e-5, relation="add_or_remove").epsilon <= 1.0
    assert [part.steps for part in plan.parts()] == [1, 1, 1, 20, 1, 1]
    assert all(part.sampling_rate == 1.0 for part in plan.parts())


@pytest.mark.parametrize(
    ("settings", "names"),
    [({"advises": False}, ["tally", "products", "step"]), ({"teachers": "all"}, ["products", "step", "moments"])],
)
def test_what_is_not_asked_leaves_its_share_to_the_rest(settings, names):
    plan = plan_of(noise_multiplier=2.0, unit=UNIT, **settings)
    look, *learning = plan.parts()[:-1]
    assert (look.name, [part.name for part in learning]) == ("look", names)
    precision = sum(part.steps / part.noise_multiplier**2 for part in (look, *learning))
    assert precision == pytest.approx(0.25)


def test_a_return_of_one_decision_is_luck_so_that_all_teach_alike():
    luck = ImprovementPlan.of(SPEC, Problem(gamma=1.0, horizon=1))
    assert (luck.teachers, luck.clone_share, luck.snr_scale) == ("all", 0.1, 3.3)
    assert ImprovementPlan.of(SPEC, Problem(gamma=1.0, horizon=1), snr_scale=20.0).snr_scale == 20.0
    assert ImprovementPlan.of(SPEC, Problem(gamma=1.0, horizon=2)).teachers == "best"
    assert ImprovementPlan.of(SPEC, Problem(gamma=1.0, horizon=1), teachers="best").teachers == "best"


@pytest.mark.parametrize(
    ("population", "settings", "advises"),
    [
        (600, {}, False),
        (600, {"teachers": "all"}, True),
        (600, {"advises": True}, True),
        (600_000, {}, True),
        (600_000, {"advises": False}, False),
    ],
)
def test_the_noise_says_whether_a_model_departs_from_the_clone(population, settings, advises):
    unit = Unit("patient", "add_or_remove", population)
    calibrated = plan_of(**settings).calibrate(unit=unit, epsilon=1.0, delta=1e-7)
    priced = plan_of(**settings, noise_multiplier=4.0).account(unit=unit, delta=1e-7)
    assert (calibrated.advises, priced.advises) == (advises, advises)
    assert calibrated.promise.epsilon <= 1.0


@pytest.mark.parametrize(("gamma", "horizon", "advises"), [(1.0, 24, True), (1.0, 25, False), (0.95, 500, True)])
def test_no_model_departs_from_the_clone_where_more_visits_count_than_are_planned(gamma, horizon, advises):
    problem = Problem(gamma=gamma, horizon=horizon, return_range=(-9.0, 5.0))
    unit = Unit("patient", "add_or_remove", 600_000)
    assert plan_of(problem=problem).calibrate(unit=unit, epsilon=1.0, delta=1e-7).advises == advises


@pytest.mark.parametrize(
    ("population", "noise", "kappa"),
    [(390, 1.0, 0.0), (594, 1.0, 2.0), (2_376, 4.0, 2.0), (20_000_000, 1.0, 10.0), (600, 0.0, 10.0)],
)
@pytest.mark.parametrize("teachers", ["best", "all"])
def test_trust_in_the_model_follows_from_public_numbers(population, noise, kappa, teachers):
    unit = Unit("patient", "add_or_remove", population)  # 3 features, each of a scale of 33
    plan = plan_of(noise_multiplier=noise * (0.92 * 0.7) ** 0.5, unit=unit, teachers=teachers)
    assert plan.kappa == pytest.approx(kappa)


@pytest.mark.parametrize(("population", "kappa"), [(390, 0.0), (594, 2.0), (5_940, 20.0), (20_000_000, 50.0)])
def test_a_model_of_one_decision_is_trusted_further(population, kappa):
    unit = Unit("patient", "add_or_remove", population)
    problem = Problem(gamma=1.0, horizon=1, return_range=(-9.0, 5.0))
    plan = plan_of(noise_multiplier=(0.92 * 0.7) ** 0.5, unit=unit, problem=problem, teachers="best", snr_scale=33.0)
    assert plan.kappa == pytest.approx(kappa)


def test_a_clone_alone_trusts_no_model():
    plan = plan_of(noise_multiplier=1.0, unit=UNIT, advises=False)
    assert plan.kappa == 0.0
    assert plan.snr == pytest.approx(5_000 * 0.92**0.5)
    assert "the likeliest action of the private clone" in str(plan)


def test_the_expected_half_width_is_that_of_the_noise():
    plan = plan_of().calibrate(unit=UNIT, epsilon=1.0, delta=1e-5)
    sigma = plan.parts()[-1].noise_multiplier
    assert plan.half_width == pytest.approx(1.644854 * sigma / 5_000 / 0.8**0.5, rel=1e-5)
    assert "from noise alone" in str(plan)
    assert f"kappa {plan.kappa:.3g}" in str(plan)


def test_a_plan_without_a_unit_has_no_ratio():
    with pytest.raises(PlanError, match="not calibrated"):
        _ = plan_of().kappa
    assert "not calibrated" in str(plan_of())


@pytest.mark.parametrize(
    "settings",
    [
        {"columns": ()},
        {"columns": (1,)},
        {"columns": (0, 0)},
        {"value_columns": ()},
        {"value_columns": (3,)},
        {"advice": 0.0},
        {"advice": 1.0},
        {"caution": 1.0},
        {"caution": -0.1},
        {"level": 0.4},
        {"look_share": 1.0},
        {"clip": 0.0},
        {"pessimism": -1.0},
        {"teachers": "worst"},
        {"teachers": "all", "advises": False},
        {"clone_share": 1.0},
        {"snr_scale": float("inf")},
    ],
)
def test_values_out_of_range_are_refused(settings):
    with pytest.raises(PlanError):
        plan_of(**settings)


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        (
            PublicSpec(Box((0.0,) * 2, (1.0,) * 2), Discrete(2), Box((0.0,), (1.0,)), "declared", propensities=True),
            "fit",
        ),
        (
            PublicSpec(Box((0.0,), (1.0,)), Box((0.0,), (1.0,)), Box((0.0,), (1.0,)), "declared"),
            "cont",
        ),
        (PublicSpec(Box((0.0,), (1.0,)), Discrete(2), Box((0.0,), (1.0,)), "declared"), "no propensities"),
    ],
)
def test_records_that_do_not_fit_are_refused(spec, what):
    with pytest.raises(PlanError, match=what):
        plan_of().require(spec)


def test_discrete_observations_are_refused():
    spec = PublicSpec(Discrete(4), Discrete(2), Box((0.0,), (1.0,)), "declared", propensities=True)
    with pytest.raises(PlanError, match="discrete"):
        ImprovementPlan.of(spec, PROBLEM)


def test_a_plan_is_rebuilt_from_its_certificate():
    plan = plan_of(advice=0.1).calibrate(unit=UNIT, epsilon=1.0, delta=1e-5)
    assert rebuilt(plan.method, public_fields(plan)) == plan


def test_defaults_take_every_column_and_no_memory():
    plan = ImprovementPlan.of(SPEC, Problem(gamma=1.0, horizon=3))
    assert (plan.columns, plan.value_columns, plan.memory) == ((0,), (0,), Memory((1.0,)))
