"""The door `select`: only the best run leaves, a run may do what its plan says and no more, and nothing is kept."""

from __future__ import annotations

import copy
import dataclasses
import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selection_cases import DELTA, Best, Itself, Sum, best_of, opened
from vault_cases import SumPlan, begun, open_vault, unit_of

from tacit.errors import CertificateError, MechanismError, PlanError, PlanExhausted
from tacit.methods import synthesis
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Label
from tacit.privacy.vault.selection import require_closed
from tacit.privacy.vault.vault import Vault

LABEL = Label((), (), ())


@dataclass(frozen=True)
class ByRecords:
    """Judges by a noisy sum of its own: the distance from what the records hold."""

    def __call__(self, value: float, plan: Any, vault: Vault) -> float:
        return -abs(value - Sum()(plan, vault))


@dataclass(frozen=True)
class Another:
    """Runs a plan of its own in the run's vault."""

    plan: Any

    def __call__(self, plan: Any, vault: Vault) -> float:
        return Sum()(self.plan, vault)


@dataclass(frozen=True)
class Twice:
    """Runs its plan twice."""

    def __call__(self, plan: Any, vault: Vault) -> float:
        return Sum()(plan, vault) + Sum()(plan, vault)


@dataclass(frozen=True)
class Peek:
    """Looks at the records."""

    def __call__(self, plan: Any, vault: Vault) -> float:
        return float(vault.nonprivate(lambda rows: rows["rewards"].sum(), reason="to see them"))


@dataclass(frozen=True)
class Undecided:
    """No score at all."""

    def __call__(self, value: float, plan: Any, vault: Any) -> float:
        return float("nan")


@dataclass(frozen=True)
class Diary:
    """Could keep every value."""

    seen: list[float] = field(default_factory=list)

    def __call__(self, plan: Any, vault: Vault) -> float:
        self.seen.append(Sum()(plan, vault))
        return self.seen[-1]


def test_the_best_run_leaves_with_its_score_and_candidate(tmp_path: Path) -> None:
    vault, plan, run = opened(tmp_path)
    best = vault.select(run, "best", Sum(), Itself())
    assert best.value == best.score
    assert best.candidate in (0, 1)
    release = vault.release(run, best.value, label=LABEL)
    release.certificate.verify()
    assert release.certificate.epsilon == pytest.approx(plan.epsilon, rel=1e-5)
    names = [one for one in release.certificate.lines("assumptions") if "Sum" in one or "Itself" in one]
    assert sum("that was not tried" in one for one in names) == 2


def test_callbacks_behind_the_doors_of_a_run_are_told_of(tmp_path: Path) -> None:
    vault, _, run = opened(tmp_path)
    release = vault.release(run, vault.select(run, "best", Sum(), Itself()).value, label=LABEL)
    assert any("the user's Rewards keeps units apart" in one for one in release.certificate.lines("assumptions"))


def test_the_ledger_holds_one_step_however_many_runs_there_were(tmp_path: Path) -> None:
    vault, plan, run = opened(tmp_path)
    before = len(vault.ledger.entries())
    vault.select(run, "best", Sum(), Itself())
    told = [entry.kind for entry in vault.ledger.entries()[before:]]
    assert sorted(told) == ["claim", "note", "note", "note"]  # Sum, Itself, and the runs' own Rewards
    assert vault.ledger.spent()[0] == pytest.approx(plan.epsilon, rel=1e-5)
    with pytest.raises(PlanExhausted):
        vault.select(run, "best", Sum(), Itself())


def test_a_judge_pays_from_the_same_promise(tmp_path: Path) -> None:
    vault, judged, run = opened(tmp_path, judge=SumPlan(steps=1, noise_multiplier=9.0))
    assert np.isfinite(vault.select(run, "best", Sum(), ByRecords()).score)
    alone = best_of(vault, *(SumPlan(steps=1, noise_multiplier=sigma) for sigma in (3.0, 2.0)))
    assert alone.epsilon < judged.epsilon


@pytest.mark.parametrize("attempt", [Twice(), Peek()], ids=lambda one: type(one).__name__)
def test_a_run_does_what_its_plan_says_and_no_more(tmp_path: Path, attempt: Any) -> None:
    vault, _, run = opened(tmp_path)
    with pytest.raises(MechanismError, match="no run of the selection came to an end"):
        vault.select(run, "best", attempt, Itself())


def test_a_run_may_not_run_another_plan_at_the_same_price(tmp_path: Path) -> None:
    vault, plan, run = opened(tmp_path)
    other = dataclasses.replace(plan.candidates[0], clip_norm=0.5)  # the same event, another plan
    with pytest.raises(MechanismError, match="no run of the selection came to an end"):
        vault.select(run, "best", Another(other), Itself())


def test_a_score_that_is_no_number_is_the_worst(tmp_path: Path) -> None:
    vault, _, run = opened(tmp_path)
    with pytest.raises(MechanismError, match="no run of the selection came to an end"):
        vault.select(run, "best", Sum(), Undecided())


@pytest.mark.parametrize(
    "attempt",
    [
        Diary(),
        lambda plan, vault: 0.0,
        functools.partial(synthesis.fit, observe=print),
        functools.partial(synthesis.fit, folder=Path()),
        functools.partial(Sum()),
        [].append,
    ],
    ids=["diary", "lambda", "observer", "folder", "partial of another's", "bound method"],
)
def test_what_could_keep_runs_is_refused_before_anything_is_claimed(tmp_path: Path, attempt: Any) -> None:
    vault, _, run = opened(tmp_path)
    with pytest.raises(MechanismError):
        vault.select(run, "best", attempt, Itself())
    assert not vault.has_started(run)


def test_functions_of_tacit_may_be_run_with_their_starting_point() -> None:
    require_closed(synthesis.fit, "best")
    require_closed(functools.partial(synthesis.fit, pretrained=None, device="cpu"), "best")


def test_several_ledgers_are_refused(tmp_path: Path) -> None:
    from vault_cases import records

    from tacit.privacy.ledger.ledger import SUM, Ledger

    unit = unit_of(1_000)
    ledgers = [Ledger(tmp_path / f"{i}.ledger", unit, epsilon=1e6, delta=5e-4, composition=SUM) for i in range(2)]
    vault = Vault(records([[0.0]]), ledgers)
    plan = best_of(vault, SumPlan(steps=1, noise_multiplier=2.0))
    with pytest.raises(MechanismError, match="several ledgers"):
        vault.select(vault.reserve(plan), "best", Sum(), Itself())


def test_candidates_with_parts_of_other_doors_are_refused() -> None:
    from tacit.privacy.mechanisms.sums import FixedSizeSum

    @dataclass(frozen=True)
    class Fixed(SumPlan):
        def parts(self) -> tuple[Any, ...]:
            return (
                FixedSizeSum(name="sum", steps=1, batch_size=5, population=10, clip_norm=1.0, noise_multiplier=1.0),
            )

    with pytest.raises(PlanError, match="parts of kinds"):
        Best((Fixed(noise_multiplier=1.0),)).parts()


@pytest.mark.parametrize(("field_name", "value"), [("stop", 1), ("stop", 2.5), ("law", "poisson"), ("candidates", ())])
def test_parameters_out_of_range_are_refused(field_name: str, value: Any) -> None:
    fields = {"candidates": (SumPlan(noise_multiplier=1.0),), field_name: value}
    with pytest.raises(PlanError, match=field_name):
        Best(**fields).parts()


def test_an_edited_certificate_is_refused(tmp_path: Path) -> None:
    vault, _, run = opened(tmp_path)
    text = vault.release(begun(vault, run), 0.0, label=LABEL).certificate.to_json()
    quieter = copy.deepcopy(text["parts"][0]["candidates"])
    quieter[0]["stated"][0]["noise_multiplier"] = 9.0
    for edit in (
        {"stop": 10},
        {"law": "geometric"},
        {"candidates": quieter},
        {"name": "other"},
        {"unknown": 1},
    ):
        edited = copy.deepcopy(text)
        edited["parts"][0].update(edit)
        with pytest.raises(CertificateError):
            Certificate.from_json(edited).verify()


def test_a_reserve_is_not_read_by_a_run(tmp_path: Path) -> None:
    """What every run leaves out is what the selection leaves out."""
    from tacit.privacy.mechanisms.sums import PoissonSum

    @dataclass(frozen=True)
    class Leaves(SumPlan):
        left: int = 0

        def parts(self) -> tuple[Any, ...]:
            return (
                PoissonSum(
                    name="sum", steps=1, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=1.0, held_out=self.left
                ),
            )

    def reserve(*left: int) -> Any:
        return Best(tuple(Leaves(left=one) for one in left)).parts()[0].held_out

    assert (reserve(3, 2), reserve(2), reserve(0, 5)) == (2, 2, 0)


def test_plans_inside_a_plan_are_public_fields_with_their_methods(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[0.0]], unit=unit_of(1_000))
    plan = best_of(vault, SumPlan(steps=1, noise_multiplier=2.0))
    (inner,) = plans.public_fields(plan)["candidates"]
    assert inner["method"] == "a noisy sum"
    assert inner["plan"]["noise_multiplier"] == 2.0
    assert inner["plan"]["delta"] == DELTA
