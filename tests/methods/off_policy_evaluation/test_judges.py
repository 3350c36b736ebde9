"""Through real vaults: an interval is from people who did not teach the policy, or there is none, and words say why."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from small_mdp import BEHAVIOUR, PROBLEM, TARGET, Silent, exact_value, open_vault
from vault_cases import GivenParts

from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation.algorithm import Estimator, fit
from tacit.methods.off_policy_evaluation.features import OneHot
from tacit.methods.off_policy_evaluation.fitted_q import DoublyRobust, FittedQ
from tacit.methods.off_policy_evaluation.gpope import Gpope
from tacit.methods.off_policy_evaluation.importance import ImportanceSampling, OverlapPlan
from tacit.methods.off_policy_evaluation.policies import Behaviour, Callable, DiscretePolicy, LinearQ, Tabular, Uniform
from tacit.methods.off_policy_evaluation.problem import Evaluation
from tacit.methods.off_policy_evaluation.residual import ResidualRegression
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy
from tacit.methods.selection.algorithm import SelectionPlan
from tacit.methods.synthesis.plan import TransitionsPlan as SynthesisPlan
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.folds import FOLDS, Fold
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Label
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.origins import Origin, has_digest
from tacit.privacy.vault.vault import Vault

PLAN = ImportanceSampling(problem=PROBLEM)


HALF = PoissonSum(name="half", steps=1, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=2.0)


@dataclass(frozen=True)
class Own(Uniform):
    """A policy of a class of the user's own."""


@dataclass(frozen=True)
class Ones:
    """1 of everybody."""

    def __call__(self, rows: Any, state: Any) -> Any:
        return np.ones((len(rows["actions"]), 1))


def calibrated(vault: Vault, plan: Any = PLAN, epsilon: float = 2.0) -> Any:
    return plan.calibrate(unit=vault.unit, epsilon=epsilon, delta=1e-5)


def learned(
    vault: Vault, fold: Fold | None, policy: DiscretePolicy = TARGET, epsilon: float = 1.0
) -> Release[DiscretePolicy]:
    """A policy as a method would release it that read this fold alone, or everybody."""
    plan = calibrated(vault, dataclasses.replace(PLAN, fold=fold), epsilon).with_target(Behaviour())
    return run_through(vault, plan, policy)


def run_through(vault: Vault, plan: Any, policy: DiscretePolicy) -> Release[DiscretePolicy]:
    """All steps of the plan, and then this policy."""
    run = vault.reserve(plan)
    plan.estimate(vault, run, Behaviour(), None)
    return vault.release(run, policy, label=plan.label())


def own_row(release: Release[Evaluation]) -> dict[str, Any]:
    return next(dict(row) for row in release.certificate.releases if row["plan_id"] == release.certificate.plan_id)


def test_a_policy_that_fold_0_taught_is_judged_by_fold_1(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, distinct=True)
    release = fit(calibrated(vault), vault, learned(vault, 0))
    assert own_row(release)["fold"] == 1
    assert [vault.ledger.spent(fold)[0] for fold in (0, 1)] == pytest.approx([1.0, 2.0], rel=1e-3)
    assert release.certificate.total["epsilon"] == pytest.approx(2.0, rel=1e-3)
    interval = release.value.interval
    assert interval is not None
    assert (interval.level, release.value.standing) == (0.95, None)
    assert "evaluated: a policy released under this ledger, taught by fold 0" in release.certificate.lines(
        "assumptions"
    )
    (released,) = vault.ledger.plans()[0].policies
    assert release.certificate.plan["origin"] == {"plans": (vault.ledger.plans()[0].id,), "released": released}


def test_what_everybody_taught_gets_a_value_and_no_interval(tmp_path: Path) -> None:
    vault = open_vault(tmp_path)
    release = fit(calibrated(vault), vault, learned(vault, None))
    assert release.value.value is not None
    assert release.value.interval is None
    assert "everybody taught the policy" in str(release.value.standing)
    assert own_row(release)["fold"] is None
    again = Evaluation.from_json(release.value.to_json())
    assert again.standing == release.value.standing


def test_a_policy_whose_origin_nobody_declared_has_no_interval_once_there_is_a_release(tmp_path: Path) -> None:
    vault = open_vault(tmp_path)
    made = learned(vault, None)
    undeclared = fit(calibrated(vault), vault, TARGET)
    assert undeclared.value.interval is None
    assert "not declared" in str(undeclared.value.standing)
    from_it = fit(calibrated(vault, epsilon=1.5), vault, Uniform(2), origin=Origin.made_from(made))
    assert from_it.value.interval is None
    plan_id = made.certificate.plan_id
    words = f"a Uniform policy over 2 actions, made from the release {plan_id} of this ledger (declared by the user)"
    assert f"evaluated: {words}" in from_it.certificate.lines("assumptions")
    other = Tabular(np.array([[0.5, 0.5], [0.4, 0.6]]))
    public = fit(calibrated(vault), vault, other, origin=Origin.public())
    assert public.value.interval is not None
    assert "fixed without these records (declared by the user)" in " ".join(public.certificate.lines("assumptions"))


def test_a_policy_of_before_the_first_release_may_come_again(tmp_path: Path) -> None:
    vault = open_vault(tmp_path)
    first = fit(calibrated(vault, OverlapPlan(problem=PROBLEM)), vault, TARGET)
    second = fit(calibrated(vault), vault, Tabular(TARGET.table.copy()))
    assert first.value.standing is second.value.standing is None
    assert second.value.interval is not None
    assert second.value.interval.level == 0.95  # the first one was about this very policy


def test_a_declaration_is_not_taken_back(tmp_path: Path) -> None:
    vault = open_vault(tmp_path)
    made = learned(vault, None)
    fit(calibrated(vault), vault, TARGET, origin=Origin.made_from(made))
    again = fit(calibrated(vault, epsilon=1.0), vault, TARGET, origin=Origin.public())
    assert again.value.interval is None


def test_policies_after_evaluations_get_wider_intervals_until_there_is_none(tmp_path: Path) -> None:
    vault = open_vault(tmp_path)
    levels: list[float | None] = []
    for i in range(27):
        policy = Tabular(np.array([[0.5, 0.5], [0.01 * i + 0.3, 0.7 - 0.01 * i]]))
        release = fit(calibrated(vault), vault, policy, origin=Origin.public())
        levels.append(None if release.value.interval is None else release.value.interval.level)
    assert levels[:25] == pytest.approx([1 - 0.05 / (n + 1) for n in range(25)])
    assert levels[25:] == [None, None]
    second = vault.ledger.entries()[3].payload["description"]["plan"]
    assert second["level"] == pytest.approx(0.975)
    assert fit(calibrated(vault), vault, Behaviour()).value.interval is not None  # nobody chose that one


def test_a_release_is_as_old_as_its_plan(tmp_path: Path) -> None:
    """A policy that was there before an evaluation cannot have been chosen by it."""
    vault = open_vault(tmp_path)
    before = learned(vault, 0)
    fit(calibrated(vault), vault, Uniform(2), origin=Origin.public())
    after = learned(vault, 0, Tabular(np.array([[0.5, 0.5], [0.4, 0.6]])), epsilon=0.7)
    levels = [found.level for one in (before, after) if (found := fit(calibrated(vault), vault, one).value.interval)]
    assert levels == pytest.approx([0.95, 0.975])


def test_a_known_behaviour_policy_that_everybody_taught_leaves_no_interval(tmp_path: Path) -> None:
    vault = open_vault(tmp_path)
    for fold, judged in ((None, False), (0, True)):
        clone = learned(vault, fold, Tabular(np.array([[0.6, 0.4], [0.5, 0.5]])), epsilon=0.5 if judged else 0.6)
        found = fit(
            calibrated(vault, epsilon=1.0 + judged),
            vault,
            TARGET,
            behaviour=BehaviourPolicy(clone),
            origin=Origin.public(),
        )
        assert (found.value.interval is not None) == judged
        assert own_row(found).get("fold") == (1 if judged else None)


@pytest.mark.parametrize(
    "plan",
    [
        PLAN,
        ResidualRegression(problem=PROBLEM, features=OneHot(2), on_policy=False),
        FittedQ(problem=PROBLEM, features=OneHot(2)),
        DoublyRobust(problem=PROBLEM, features=OneHot(2)),
        Gpope(problem=PROBLEM, features=OneHot(2)),
    ],
    ids=lambda plan: type(plan).__name__,
)
def test_every_method_judges_by_the_free_fold_and_its_value_is_about_right(tmp_path: Path, plan: Estimator) -> None:
    vault = open_vault(tmp_path, units=4_000, distinct=True)
    plan = dataclasses.replace(plan, level=0.998)  # with the room below, so that no luck is in it
    release = fit(calibrated(vault, plan, epsilon=30.0), vault, learned(vault, 0))
    interval, value, truth = release.value.interval, release.value.value, exact_value(TARGET)
    assert interval is not None
    assert interval.low - 0.02 < truth < interval.high + 0.02
    assert interval.high - interval.low < 2.5
    assert value == pytest.approx(truth, abs=0.25)
    assert own_row(release).get("fold") == (None if isinstance(plan, DoublyRobust) else 1)


def test_the_scores_of_the_two_folds_are_those_of_everybody(tmp_path: Path) -> None:
    """Without noise, and from the same records."""
    vault = open_vault(tmp_path, units=300, distinct=True, noise=Silent())
    plan, found = dataclasses.replace(calibrated(vault, epsilon=5.0), clip=10.0), []
    for fold in (None, 0, 1):
        own = dataclasses.replace(plan, fold=fold)
        own = own.with_target(TARGET, None, Origin.public())
        run = vault.reserve(own)
        found.append(own.estimate(vault, run, TARGET, None).value)
    everybody, first, second = found
    assert min(first, second) < everybody < max(first, second)


def test_a_clip_that_the_noise_chose_is_chosen_again_for_half_of_the_units(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, units=2_000)
    plan = calibrated(vault, epsilon=4.0)
    on_fold = calibrated(vault, dataclasses.replace(PLAN, fold=1), epsilon=4.0)
    assert plan.clip > on_fold.clip
    assert plan.with_fold(1) == on_fold
    own = calibrated(vault, dataclasses.replace(PLAN, clip=2.5), epsilon=4.0)
    assert (own.with_fold(1).clip, own.with_fold(1).fold) == (2.5, 1)


def test_methods_that_need_everybody_stay_as_they_are() -> None:
    both, sampled = DoublyRobust(problem=PROBLEM, features=OneHot(2)), ImportanceSampling(problem=PROBLEM)
    assert both.with_fold(1) is both
    assert both.judging_folds == {1}
    assert sampled.judging_folds == {0, 1}
    assert sampled.with_fold(1).judging_folds == {1}
    with pytest.raises(PlanError, match="fold"):
        dataclasses.replace(both, fold=1)


def test_an_origin_fits_the_policy(tmp_path: Path) -> None:
    vault = open_vault(tmp_path)
    made = learned(vault, 0)
    for policy, origin in ((made, Origin.public()), (TARGET, Origin(("x",), "0" * 16))):
        with pytest.raises(PlanError, match="an origin was declared"):
            fit(calibrated(vault), vault, policy, origin=origin)
    with pytest.raises(PlanError, match="holds no plan"):
        fit(calibrated(vault), vault, TARGET, origin=Origin.made_from("0" * 16))
    assert len(vault.ledger.plans()) == 1


@pytest.mark.parametrize("fixed_first", [False, True])
def test_a_policy_from_both_folds_is_taught_by_both_unless_the_ledger_saw_it_in_between(
    tmp_path: Path, fixed_first: bool
) -> None:
    """Whatever the plan's order is called: what counts is which sums had begun when the policy was entered."""
    vault = open_vault(tmp_path)
    first, second = (dataclasses.replace(HALF, name=f"on {fold}", fold=fold) for fold in FOLDS)
    run = vault.reserve(plans.account(GivenParts((first, second)), unit=vault.unit, delta=1e-5))
    vault.noisy_sum(run, "on 0", Ones())
    if fixed_first:
        vault.record_policy(run, TARGET)
    vault.noisy_sum(run, "on 1", Ones())
    release = vault.release(run, TARGET, label=Label(("sums",), (), ()))
    assert vault.ledger.plans()[0].taught_by == ("fold 0" if fixed_first else "everybody")
    found = fit(calibrated(vault), vault, release)
    assert (found.value.interval is not None) == fixed_first
    assert own_row(found).get("fold") == (1 if fixed_first else None)
    other = vault.release(run, BEHAVIOUR, label=Label(("sums",), (), ()))
    assert fit(calibrated(vault), vault, other).value.interval is None


def test_a_certificate_beside_another_policy_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    vault = open_vault(tmp_path)
    made = learned(vault, 0)
    for other in (BEHAVIOUR, Tabular(TARGET.table - [[1e-9, -1e-9], [0, 0]])):
        paired = Release(other, made.certificate)
        for policy, behaviour in ((paired, None), (TARGET, BehaviourPolicy(paired))):
            with pytest.raises(PlanError, match="released another policy"):
                fit(calibrated(vault), vault, policy, behaviour=behaviour)
    value = fit(calibrated(vault, epsilon=0.9), vault, Behaviour())
    with pytest.raises(PlanError, match="no policy over discrete actions"):
        fit(calibrated(vault), vault, value)  # type: ignore[arg-type]
    assert len(vault.ledger.plans()) == 2
    assert fit(calibrated(vault), vault, Release(Tabular(TARGET.table.copy()), made.certificate)).value.interval


def test_a_released_policy_of_a_class_of_the_users_own_is_declared(tmp_path: Path) -> None:
    vault = open_vault(tmp_path)
    made = learned(vault, 0, Own(2))
    assert vault.ledger.plans()[0].policies == {}
    with pytest.raises(PlanError, match=r"made_from\(release\)"):
        fit(calibrated(vault), vault, made)
    found = fit(calibrated(vault), vault, made.value, origin=Origin.made_from(made))
    assert own_row(found)["fold"] == 1


class Quiet(ImportanceSampling):
    """An evaluation by a class of a user's own, which says that it is none."""

    evaluates: ClassVar[bool] = False


@pytest.mark.parametrize(
    ("plan", "counts"),
    [
        (Quiet(problem=PROBLEM), True),
        (GivenParts((HALF,)), True),
        (SelectionPlan(candidates=(SynthesisPlan(),)), False),
        (SelectionPlan(candidates=(SynthesisPlan(), Quiet(problem=PROBLEM))), True),
        (SelectionPlan(candidates=(SynthesisPlan(),), judge=OverlapPlan(problem=PROBLEM)), True),
        (SynthesisPlan(), False),
        (OverlapPlan(problem=PROBLEM), True),
    ],
    ids=str,
)
def test_whether_a_plan_evaluates_follows_from_what_it_runs(plan: Any, counts: bool) -> None:
    assert plans.may_evaluate(plan) == counts


@pytest.mark.parametrize("callback", [Ones(), None], ids=["the user's", "tacit's"])
def test_a_callback_of_the_users_own_counts_as_an_evaluation(tmp_path: Path, callback: Any) -> None:
    """Even in a plan of tacit's own, it may have asked how good a policy is."""
    vault = open_vault(tmp_path)
    plan = SynthesisPlan(steps=2, warmup=0, sampling_rate=0.5).calibrate(unit=vault.unit, epsilon=1.0, delta=1e-5)
    run = vault.reserve(plan)
    if callback is None:
        vault.ledger.claim(run.plan_id, plan.parts()[0].name, 1)
    else:
        vault.noisy_sum(run, plan.parts()[0].name, callback)
    found = fit(calibrated(vault), vault, TARGET, origin=Origin.public()).value.interval
    assert found is not None
    assert found.level == pytest.approx(0.95 if callback is None else 0.975)


def test_a_function_may_change_behind_its_name() -> None:
    assert has_digest(TARGET)
    assert has_digest(None)
    assert has_digest(LinearQ(OneHot(2), np.zeros((2, 2))))
    assert not has_digest(Callable("json:loads", 2))


def test_a_plan_that_was_reserved_early_and_run_late_comes_after_what_was_seen_meanwhile(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, distinct=True)
    early = calibrated(vault, dataclasses.replace(PLAN, fold=0), 1.0)
    early = early.with_target(Behaviour())
    vault.reserve(early)
    fit(calibrated(vault, dataclasses.replace(PLAN, fold=1), 1.5), vault, Uniform(2), origin=Origin.public())
    interval = fit(calibrated(vault), vault, run_through(vault, early, TARGET)).value.interval
    assert interval is not None
    assert interval.level == pytest.approx(0.975)


def test_a_class_of_the_users_own_is_new_every_time_since_it_may_read_what_changes(tmp_path: Path) -> None:
    vault = open_vault(tmp_path)

    def own(share: float) -> Any:
        class Own(Uniform):
            def probabilities(self, observations: Any) -> Any:
                return np.tile([share, 1 - share], (len(observations), 1))

        return Own(2)

    def level(policy: Any, epsilon: float) -> float:
        interval = fit(calibrated(vault, epsilon=epsilon), vault, policy, origin=Origin.public()).value.interval
        assert interval is not None
        return interval.level

    assert not has_digest(own(0.5))
    assert level(own(0.5), 1.0) == 0.95
    assert level(Uniform(2), 1.0) == pytest.approx(0.975)
    assert level(own(0.4), 1.1) == pytest.approx(1 - 0.05 / 3)  # the name is that of the first one
    assert level(Uniform(2), 1.1) == pytest.approx(0.975)
