"""The budget of `tacit learn`: what would refuse the run later is told before anything long starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tacit.cli.budget import ledger_path, open_ledger, require_only
from tacit.cli.expert_commands import Learn
from tacit.cli.folders import RunFolder
from tacit.cli.learn_words import Plan
from tacit.errors import BudgetExceeded, LedgerError, PlanExhausted
from tacit.privacy import plan as plans
from tacit.privacy.filters import Charge, admits
from tacit.privacy.ledger import Ledger, LedgerView

LEDGER = "ledger"
"""In the folder of the run, where the experts are simulated."""
_COVERED = "a release that the budget covers"


def inside(command: Learn) -> bool:
    """Whether the ledger lies in the folder of the run: nobody's budget lasts longer than simulated experts."""
    return command.simulates and command.ledger is None


def require_payable(command: Learn, plan: Plan) -> None:
    """Refuse what the ledger would refuse after the records were read, or the policies played; nothing is written.

    Raises:
        LedgerError: the records have another ledger, or this one is void, damaged, or of another unit or budget.
        PlanExhausted: this very learning was begun before.
        BudgetExceeded: what is left does not pay for it.
    """
    assert plan.unit is not None
    assert plan.epsilon is not None
    assert plan.delta is not None
    budget = (command.budget_epsilon or plan.epsilon, command.budget_delta or plan.delta)
    charge = Charge(plans.bound(plan).epsilon, plan.delta)
    if inside(command):
        return
    require_only(command)
    path = ledger_path(command)
    if not path.exists():
        if not admits([charge], "sum", *budget):
            raise _too_much(path, budget)
        return
    view = Ledger.read(path)
    _require_alike(command, plan, view, path)
    known = {found.id: found for found in view.plans()}.get(plans.plan_id(plan))
    if known is not None:
        if known.claimed:
            raise _begun(path)
        return
    charges = [found.charge for found in view.state.plans.values()]
    if view.composition == "sum" and not admits([*charges, charge], "sum", view.epsilon, view.delta):
        epsilon, delta = view.spent()
        raise _too_much(path, (max(0.0, view.epsilon - epsilon), max(0.0, view.delta - delta)))


def _require_alike(command: Learn, plan: Plan, view: LedgerView, path: Path) -> None:
    where, unit = str(path), view.unit
    if view.void_reason is not None:
        raise LedgerError(
            f"the ledger of these experts is void ({view.void_reason})",
            where=where,
            expected="a ledger that still promises something: nothing learned from these records can be private now",
            remedy="learn from other experts' records, which have a ledger of their own",
        )
    if unit != plan.unit:
        raise LedgerError(
            f"the ledger of these records protects every {unit.name} of {unit.size:,} ({unit.relation})",
            where=where,
            expected="the same promise for as long as there is a budget",
            remedy=f'give --unit "{unit.name}" and --population {unit.size}',
        )
    for name, given, bound in (
        ("epsilon", command.budget_epsilon, view.epsilon),
        ("delta", command.budget_delta, view.delta),
    ):
        if given is not None and given != bound:
            raise LedgerError(
                f"--budget-{name} is {given:g}, and the budget of these experts was declared before",
                where=where,
                expected=f"{bound:g}: a budget never changes",
                remedy=f"leave --budget-{name} out",
            )


@contextmanager
def opened(command: Learn, plan: Plan, run: RunFolder) -> Iterator[Ledger]:
    """The budget of the experts: beside their folder, or in the run's where they are simulated."""
    assert plan.unit is not None
    assert plan.epsilon is not None
    if not inside(command):
        with open_ledger(dataclasses.replace(command, epsilon=plan.epsilon), plan.unit) as ledger:
            yield ledger
        return
    with Ledger(run.inside(LEDGER), plan.unit, epsilon=plan.epsilon, delta=command.delta) as ledger:
        yield ledger


@contextmanager
def spending(ledger: Ledger) -> Iterator[None]:
    """Say of a refusal of the ledger what it means on the command line."""
    try:
        yield
    except PlanExhausted:
        raise _begun(ledger.path) from None
    except BudgetExceeded:
        epsilon, delta = ledger.spent()
        left = max(0.0, ledger.epsilon - epsilon), max(0.0, ledger.delta - delta)
        raise _too_much(ledger.path, left) from None


def _begun(path: Path) -> PlanExhausted:
    what = "this very learning was begun before and is paid for, whether or not it came to its end"
    remedy = (
        "keep its release; if it was interrupted and the budget allows another, give another --seed, or slightly less "
        "--epsilon"
    )
    return PlanExhausted(what, where=str(path), expected=_COVERED, remedy=remedy)


def _too_much(path: Path, left: tuple[float, float]) -> BudgetExceeded:
    some = min(left) > 0
    return BudgetExceeded(
        f"the budget of these experts does not cover {'this' if some else 'another'} learning",
        where=str(path),
        expected=f"at most what is left of it, (epsilon {left[0]:.6g}, delta {left[1]:.3g})" if some else _COVERED,
        remedy="learn with less --epsilon and --delta" if some else "keep the earlier release: all of it is spent",
    )
