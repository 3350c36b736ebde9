"""Plans: what they promise in words, and that nothing is planned which no certificate could state."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from vault_cases import SumPlan, open_vault

from tacit.errors import PlanError
from tacit.methods.synthesis import TransitionsPlan
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.vault import plan as plans
from tacit.units import Promise, Unit

UNIT = Unit("person", "add_or_remove", 1_000)


def test_the_promise_in_words_is_true_at_every_epsilon() -> None:
    plan = plans.account(SumPlan(steps=4, noise_multiplier=2.0), unit=UNIT, delta=1e-5)
    assert plans.guarantee(plan).splitlines()[:4] == [
        "a noisy sum promises (4.377, 1e-05)-differential privacy to every person.",
        "How well anybody who sees the result, however much else they know, could tell whether any one person, "
        "with all their records, is in the data or not:",
        "  any test with 5 % false alarms catches at most 25.96 % of true cases.",  # mu = 1, exactly
        "Public population: 1,000.",
    ]
    weak = plans.account(SumPlan(steps=1, noise_multiplier=0.1), unit=UNIT, delta=1e-5)
    assert "catches at most 100 % of true cases" in plans.guarantee(weak)
    none = plans.account(SumPlan(steps=1, noise_multiplier=0.0), unit=UNIT, delta=1e-5)
    assert "promises NOTHING" in plans.guarantee(none)
    assert plans.guarantee(SumPlan()) == "a noisy sum: not calibrated yet, so nothing is promised"


def test_sums_of_more_units_than_are_proved_are_refused() -> None:
    few, many = (Unit("person", "add_or_remove", n * 10**8) for n in (2, 3))
    plans.account(SumPlan(steps=1, noise_multiplier=1.0), unit=few, delta=1e-10)
    with pytest.raises(PlanError, match="300,000,000"):
        plans.account(SumPlan(steps=1, noise_multiplier=1.0), unit=many, delta=1e-10)


def test_a_sampled_plan_is_put_into_words_by_its_own_trade_off() -> None:
    plan = plans.calibrate(SumPlan(steps=4, sampling_rate=0.1), unit=UNIT, epsilon=1.0, delta=1e-5)
    assert "catches at most 8.206 % of true cases" in plans.guarantee(plan)  # not 0.05 e + 1e-5 = 13.6 %


def test_an_epsilon_that_no_certificate_could_state_is_refused_before_anything_is_charged() -> None:
    fits = plans.calibrate(SumPlan(steps=1), unit=UNIT, epsilon=400.0, delta=1e-6)
    assert plans.certified_bound(fits).epsilon <= 400.0
    assert accounting.profile(plans.event(fits), "add_or_remove")
    with pytest.raises(PlanError, match="epsilon is too large for a certificate, which also states it at deltas down"):
        plans.calibrate(SumPlan(steps=1), unit=UNIT, epsilon=470.0, delta=1e-6)
    large = dataclasses.replace(fits, promise=Promise(UNIT, 485.0, 1e-6), noise_multiplier=0.0375)
    with pytest.raises(PlanError, match="choose a smaller epsilon"):
        plans.certified_bound(large)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("synthesis of transitions (MST)", "the name of its method is that of another method"),
        ("a method of mine", None),
    ],
)
def test_a_name_of_another_method_is_refused_before_anything_is_paid(
    tmp_path: Path, name: str, wrong: str | None
) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    borrowed = dataclasses.make_dataclass("Borrowed", [], bases=(SumPlan,), frozen=True, namespace={"method": name})
    plan = plans.account(borrowed(steps=1, noise_multiplier=50.0), unit=vault.unit, delta=1e-6)
    if wrong is None:
        vault.reserve(plan)
        return
    with pytest.raises(PlanError, match=wrong):
        vault.reserve(plan)
    assert vault.ledger.plans() == []


def test_a_plan_that_says_another_delta_than_it_promises_is_refused_before_it_is_paid_for(tmp_path: Path) -> None:
    class Mix:
        @property
        def delta(self) -> float:
            return 1e-9

    vault = open_vault(tmp_path, [[1.0], [2.0]])
    mixed = type("Mixed", (Mix, SumPlan), {})
    plan = plans.account(mixed(steps=1, noise_multiplier=50.0), unit=vault.unit, delta=1e-6)
    with pytest.raises(PlanError, match="another unit, epsilon or delta than it promises"):
        vault.reserve(plan)
    assert vault.ledger.plans() == []


@pytest.mark.parametrize("good", range(12))
def test_what_is_priced_is_what_may_run(tmp_path: Path, good: int) -> None:
    class Shifty(SumPlan):
        def parts(self) -> Any:
            calls.append(None)
            given = super().parts()
            return given if len(calls) <= good else (dataclasses.replace(given[0], noise_multiplier=0.5),)

    calls: list[None] = []
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    promise = plans.account(SumPlan(steps=1, noise_multiplier=50.0), unit=vault.unit, delta=1e-6).promise
    try:
        run = vault.reserve(Shifty(steps=1, noise_multiplier=50.0, promise=promise))
    except PlanError:
        return  # what it gave was not what it promised
    (admitted,) = [part for (name, _), part in vault._admitted.items() if name == run.plan_id]
    assert admitted.noise_multiplier == 50.0  # type: ignore[attr-defined]


def test_an_entry_that_calls_a_plan_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = TransitionsPlan(steps=100).calibrate(unit=UNIT, epsilon=1.0, delta=1e-6)
    plans.require_statable(plan)
    monkeypatch.setattr(TransitionsPlan, "method", "synthesis of transition")
    with pytest.raises(PlanError, match=r"the name of its method is not what its entry in `tacit.methods` says"):
        plans.require_statable(plan)


def test_a_plan_that_is_not_calibrated_is_refused_in_these_words(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    with pytest.raises(PlanError, match=r"the plan is not calibrated; .+ calibrate the plan with unit=vault.unit"):
        vault.reserve(SumPlan())
    assert vault.ledger.spent() == (0.0, 0.0)
