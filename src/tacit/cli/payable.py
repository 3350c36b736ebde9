"""The budget of a run that releases all at once: what would refuse it later is told before anything long starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tacit.cli.budget import Budget, ledger_path, open_ledger, require_only
from tacit.cli.folders import RunFolder
from tacit.errors import BudgetExceeded, LedgerError, PlanExhausted
from tacit.privacy.accounting.filters import Charge, admits
from tacit.privacy.ledger.ledger import Ledger, LedgerView
from tacit.privacy.mechanisms.base import Plan
from tacit.privacy.vault import plan as plans
from tacit.units import Unit

LEDGER = "ledger"
"""In the folder of the run, where nobody is behind the records."""
_COVERED = "a release that the budget covers"


class Spends(Budget, Protocol):
    """A command that makes its records up, or spends from their ledger."""

    @property
    def simulates(self) -> bool:
        """Whether nobody is behind the records."""


@dataclass(frozen=True)
class Words:
    """How a command's refusals are worded.

    Args:
        people: whose budget it is.
        doing: what the command does, as a noun.
        done: what came out of the records.
        do: what to do instead, followed by "with less --epsilon", or by "from other people's records".
        anew: how another release of the same records is asked for.
    """

    people: str
    doing: str
    done: str
    do: str
    anew: str


def inside(command: Spends) -> bool:
    """Whether the ledger lies in the folder of the run: nobody's budget lasts longer than simulated records."""
    return command.simulates and command.ledger is None


def require_alike(command: Spends, unit: Unit, words: Words) -> None:
    """Refuse a ledger of other records or other terms, before a plan is calibrated.

    Raises:
        LedgerError: the records have another ledger, or this one is void, damaged, or of another unit or budget.
    """
    if inside(command):
        return
    require_only(command)
    path = ledger_path(command)
    if path.exists():
        _require_alike(command, unit, Ledger.read(path), path, words)


def require_payable(command: Spends, plan: Plan, words: Words, *, resumed: bool = False) -> None:
    """Refuse what the ledger would refuse after the records were read, or played; nothing is written.

    Args:
        command, plan, words: what is to be paid for.
        resumed: whether the plan goes on from its own checkpoint.

    Raises:
        LedgerError: the records have another ledger, or this one is void, damaged, or of another unit or budget.
        PlanExhausted: this very plan was begun before.
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
            raise _too_much(path, budget, words)
        return
    view = Ledger.read(path)
    _require_alike(command, plan.unit, view, path, words)
    known = {found.id: found for found in view.plans()}.get(plans.plan_id(plan))
    if known is not None:
        if known.claimed and not resumed:
            raise _begun(path, words)
        return
    charges = [found.charge for found in view.state.plans.values()]
    if view.composition == "sum" and not admits([*charges, charge], "sum", view.epsilon, view.delta):
        epsilon, delta = view.spent()
        raise _too_much(path, (max(0.0, view.epsilon - epsilon), max(0.0, view.delta - delta)), words)


def _require_alike(command: Spends, given: Unit, view: LedgerView, path: Path, words: Words) -> None:
    where, unit = str(path), view.unit
    if view.void_reason is not None:
        raise LedgerError(
            f"the ledger of these {words.people} is void ({view.void_reason})",
            where=where,
            expected=f"a ledger that still promises something: nothing {words.done} these records can be private now",
            remedy=f"{words.do} from other {words.people}' records, which have a ledger of their own",
        )
    if unit != given:
        raise LedgerError(
            f"the ledger of these records protects every {unit.name} of {unit.size:,} ({unit.relation})",
            where=where,
            expected="the same promise for as long as there is a budget",
            remedy=f'give --unit "{unit.name}" and --population {unit.size}',
        )
    for name, asked, bound in (
        ("epsilon", command.budget_epsilon, view.epsilon),
        ("delta", command.budget_delta, view.delta),
    ):
        if asked is not None and asked != bound:
            raise LedgerError(
                f"--budget-{name} is {asked:g}, and the budget of these {words.people} was declared before",
                where=where,
                expected=f"{bound:g}: a budget never changes",
                remedy=f"leave --budget-{name} out",
            )


@contextmanager
def opened(command: Any, plan: Plan, run: RunFolder) -> Iterator[Ledger]:
    """The budget of the records: beside them, or in the run's folder where nobody is behind them.

    Args:
        command: a `Spends` that is a dataclass.
        plan: calibrated.
        run: the folder of the run.
    """
    assert plan.unit is not None
    assert plan.epsilon is not None
    if not inside(command):
        with open_ledger(dataclasses.replace(command, epsilon=plan.epsilon), plan.unit) as ledger:
            yield ledger
        return
    with Ledger(run.inside(LEDGER), plan.unit, epsilon=plan.epsilon, delta=command.delta) as ledger:
        yield ledger


@contextmanager
def spending(ledger: Ledger, words: Words) -> Iterator[None]:
    """Say of a refusal of the ledger what it means on the command line."""
    try:
        yield
    except PlanExhausted:
        raise _begun(ledger.path, words) from None
    except BudgetExceeded:
        epsilon, delta = ledger.spent()
        left = max(0.0, ledger.epsilon - epsilon), max(0.0, ledger.delta - delta)
        raise _too_much(ledger.path, left, words) from None


def _begun(path: Path, words: Words) -> PlanExhausted:
    what = f"this very {words.doing} was begun before and is paid for, whether or not it came to its end"
    remedy = f"keep its release; if it was interrupted and the budget allows another, {words.anew}"
    return PlanExhausted(what, where=str(path), expected=_COVERED, remedy=remedy)


def _too_much(path: Path, left: tuple[float, float], words: Words) -> BudgetExceeded:
    some = min(left) > 0
    return BudgetExceeded(
        f"the budget of these {words.people} does not cover {'this' if some else 'another'} {words.doing}",
        where=str(path),
        expected=f"at most what is left of it, (epsilon {left[0]:.6g}, delta {left[1]:.3g})" if some else _COVERED,
        remedy=f"{words.do} with less --epsilon and --delta"
        if some
        else "keep the earlier release: all of it is spent",
    )
