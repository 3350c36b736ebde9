"""The ledger: what was promised about one dataset, and which steps have been run, in a file that only grows."""

from __future__ import annotations

import contextlib
import json
import math
import operator
import os
import secrets
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, Self

from tacit import notebook
from tacit.errors import LedgerError, PlanError
from tacit.privacy.accounting.filters import SUM, Charge, Composition
from tacit.privacy.ledger.folds import FOLDS, Fold
from tacit.privacy.ledger.state import Entry, LedgerState, PlanSummary, Terms, canonical_json, replay
from tacit.privacy.ledger.store import Store, read_entries
from tacit.privacy.sentences import neighbours
from tacit.units import Unit

__all__ = ["SUM", "Composition", "Entry", "Ledger", "LedgerView", "PlanSummary"]

_ROUNDING = 1e-9  # by how much (relative) a recomputed cost may differ from the one that was charged


class LedgerView:
    """A ledger as it was when it was read: it needs no lock and writes nothing.

    Args:
        entries: the ledger's entries; chain and rules are checked.

    Raises:
        LedgerError: naming the first entry that breaks the chain or a rule.
    """

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries
        self.state = replay(entries)
        self.dataset_id, self.unit = self.state.bound_terms.dataset_id, self.state.bound_terms.unit
        self.terms, self.budgets, self.head = self.state.bound_terms, self.state.budgets, self.state.head
        self.epsilon = self.state.budget
        self.ceiling, self.delta, self.composition = self.terms.ceiling, self.terms.delta, self.terms.composition
        self.void_reason = self.state.void_reason

    def entries(self) -> list[Entry]:
        """All entries, oldest first."""
        return list(self._entries)

    def spent(self, fold: Fold | None = None) -> tuple[float, float]:
        """Total (epsilon, delta) charged to one fold, or (None) the larger of each, rounded up."""
        return self.state.spent(fold)

    def left(self, *, gaussian: bool = True) -> tuple[float, float]:
        """(epsilon, delta) of the largest plan that is still admitted: one that has a mu, or (False) one without."""
        return self.state.left(gaussian=gaussian)

    def plans(self) -> list[PlanSummary]:
        """One summary per plan that was reserved and not cancelled."""
        return self.state.summaries()

    def _repr_html_(self) -> str:
        """Unit, budget, charges and plans, for notebooks; no note."""
        return _ledger_html(self)

    def verify(self) -> None:
        """Check chain and rules of the entries again (reading the file checked its integrity and triggers)."""
        replay(self._entries)


class Ledger:
    """The append-only account of one dataset, one unit and one budget.

    Creates the file when it is absent (unit, epsilon, delta and composition are then required), else opens it; what is
    given must match what the ledger is bound to. One process holds it at a time.

    Args:
        path: the file, on a local disk. `<path>.lock` is kept beside it.
        unit: the protected unit with its relation and public population.
        epsilon, delta: the whole budget of the dataset; 0 < delta < 1 / population.
        composition: how plans add up. Which part of the budget is kept for sampled plans, only the curator knows.
        ceiling: the epsilon up to which `raise_budget` may ever raise the budget; by default no further than epsilon.

    Raises:
        PlanError: unit, budget or composition are missing at creation, or invalid.
        LedgerError: the ledger is damaged, older than the head recorded beside it, in use, on a network file system,
            not writable, or bound to something else.

    Attributes:
        dataset_id: the random name of the dataset (128 bits in hex); it says nothing about the records.
        unit, ceiling, delta, composition: what the ledger is bound to.

    Guarantee:
        If every reserved charge bounds its plan, and each step of a plan runs only after `claim` returned it, then
        everything released under the ledger is (ceiling, delta)-DP for the unit, however the plans were chosen and
        the budget was raised, unless `void_reason` is set. Proof and limits: `proofs/ledger.md`.

    Edge cases:
        A crash costs the claimed block. A second object, process or forked child is refused. Clocks do not matter. A
        ledger that alone was restored from a backup or removed is noticed by the head recorded in `<path>.lock` and
        by `require`; one restored together with that file and every checkpoint is not, nor is a copy used elsewhere
        until one branch's head is required of the other.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        unit: Unit | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        composition: Composition | None = None,
        ceiling: float | None = None,
    ) -> None:
        self._store = Store(path)
        try:
            if not self._store.path.exists():
                self._create(unit, epsilon, delta, composition, epsilon if ceiling is None else ceiling)
            self._reload()
            self.terms = bound = self._state.bound_terms
            self.dataset_id, self.unit, self.composition = bound.dataset_id, bound.unit, bound.composition
            self.ceiling, self.delta = bound.ceiling, bound.delta
            if epsilon not in self._state.budgets:  # as it began, was or is
                self._match(epsilon=epsilon)
            self._match(unit=unit, delta=delta, composition=composition, ceiling=ceiling)
            self._store.lock.record(self._state.head)
        except BaseException:
            self._store.close()
            raise

    @staticmethod
    def read(path: str | os.PathLike[str]) -> LedgerView:
        """The ledger as it is now, without the lock and without writing to it; verified.

        Raises:
            LedgerError: there is no ledger, or it is damaged.
        """
        return LedgerView(read_entries(Path(os.path.realpath(path))))

    @property
    def path(self) -> Path:
        """The file."""
        return self._store.path

    @property
    def epsilon(self) -> float:
        """The budget, as it was raised last."""
        return self._state.budget

    @property
    def budgets(self) -> tuple[float, ...]:
        """The budget as it began, and after each raise."""
        return self._state.budgets

    @property
    def head(self) -> str:
        """Hash of the newest entry; checkpoints and certificates carry it."""
        with self._exclusive_access():
            return self._state.head

    @property
    def void_reason(self) -> str | None:
        """Why the ledger promises nothing any more, or None."""
        with self._exclusive_access():
            return self._state.void_reason

    def reserve(
        self,
        plan_id: str,
        description: Mapping[str, Any],
        *,
        parts: Mapping[str, int],
        epsilon: float,
        delta: float,
        rdp: float | None = None,
        mu: float | None = None,
        diameter: float | None = None,
    ) -> None:
        """Charge a whole plan before its first step; the same plan again costs nothing.

        Args:
            plan_id: the plan's name in this ledger.
            description: public JSON values that fix the plan's mechanism; "method" is shown in summaries, the "fold" of
                each of its "parts" says who pays, and "evaluates" that it may judge a policy (`plan.may_evaluate`).
            parts: number of steps by part.
            epsilon, delta: the certified cost of all parts together. Infinite epsilon voids the ledger.
            rdp: the certified Rényi bound at the ledger's order, if it has one; charged to plans without a mu.
            mu: the plan is mu-GDP at every epsilon, where such a mu is known; charged where it adds up.
            diameter: of a plan on one fold (`filters.Charge`); None is 2.

        Raises:
            BudgetExceeded: the plan does not fit; nothing was charged.
            PlanError: the plan is invalid, or another plan (or an edited one) was reserved under this id.
            LedgerError: the entry could not be written; nothing was charged.

        Guarantee:
            A fully adaptive filter: sums of (epsilon, delta) (arXiv:1605.08294), of Rényi bounds at one order
            (arXiv:2008.11193) or of squared mus (arXiv:2210.17520), also while plans interleave (arXiv:2309.05901).
        """
        charge = self.composition.charged(Charge(epsilon, delta, rdp, mu, diameter))
        try:
            described = json.loads(canonical_json(dict(description)))
            payload = {
                "plan": plan_id,
                "description": described,
                "parts": {name: operator.index(steps) for name, steps in parts.items()},
                "epsilon": repr(charge.epsilon),
                "delta": repr(charge.delta),
                "rdp": None if charge.rdp is None else repr(charge.rdp),
                "mu": None if charge.mu is None else repr(charge.mu),
                **({} if charge.diameter is None else {"diameter": repr(charge.diameter)}),
            }
        except (TypeError, ValueError) as error:
            what = "the plan's description or parts are not plain JSON values"
            expected = "a dict of texts, finite numbers, booleans, lists and dicts, and whole numbers of steps"
            remedy = "describe the plan by its public parameters"
            raise PlanError(what, where=f"Ledger.reserve({plan_id!r})", expected=expected, remedy=remedy) from error
        with self._exclusive_access():
            reservation = self._state.plans.get(plan_id)
            if reservation is None:
                self._append("reserve", payload)
            elif (
                canonical_json(self._entries[reservation.seq - 1].payload["description"]) != canonical_json(described)
                or dict(reservation.parts) != payload["parts"]
                or _costs_more(charge, reservation.charge)
            ):
                what = f"plan {plan_id!r} is not the one that was reserved"
                expected = "the same description, parts and cost"
                remedy = "undo the edit, or reserve the edited plan under a new id (it is charged again)"
                raise PlanError(what, where="Ledger.reserve", expected=expected, remedy=remedy)

    def claim(self, plan_id: str, part: str, count: int) -> range:
        """Take the next steps of a part for good; they may run once this returns, and never again.

        Args:
            plan_id, part: which steps.
            count: how many, from 1; at most 1 % of the part (rounded up) is handed out at a time, fewer at its end.

        Returns:
            The claimed step numbers, contiguous, from 0 upwards over the life of the plan.

        Raises:
            PlanExhausted: every step was claimed.
            PlanError: the plan or part is unknown, or count is below 1.
            LedgerError: the claim could not be made durable; its steps must not run.

        Guarantee:
            No step number is returned twice, in this process or a later one: the claim is on the disk before that.
        """
        with self._exclusive_access():
            block = self._state.block(plan_id, part, operator.index(count))
            self._append("claim", {"plan": plan_id, "part": part, "start": block.start, "count": len(block)})
        return block

    def claimed(self, plan_id: str, part: str) -> int:
        """How many steps of the part were claimed."""
        with self._exclusive_access():
            return self._state.progress(plan_id, part)[0]

    def steps(self, plan_id: str, part: str) -> int:
        """How many steps the part has."""
        with self._exclusive_access():
            return self._state.progress(plan_id, part)[1]

    def raise_budget(self, epsilon: float) -> None:
        """Raise the budget, for good and with the date, up to the ceiling that was fixed at creation.

        Raises:
            LedgerError: epsilon is no number above the budget, or above the ceiling; nothing was changed.
        """
        try:
            raised = float(epsilon)
        except (TypeError, ValueError, OverflowError):
            raised = math.nan  # which is refused
        with self._exclusive_access():
            self._append("raise", {"epsilon": repr(raised)})

    def cancel(self, plan_id: str) -> None:
        """Take an untouched plan out; its charge comes back.

        Raises:
            PlanError: no such plan.  LedgerError: a step of it was claimed.
        """
        with self._exclusive_access():
            self._append("cancel", {"plan": plan_id})

    def void(self, reason: str) -> None:
        """Declare for good that the ledger promises nothing any more; the first reason stays."""
        with self._exclusive_access():
            self._append("void", {"reason": reason})

    def note(self, kind: str, text: str) -> None:
        """Record something that has no cost here, such as a curator's access outside the guarantee."""
        with self._exclusive_access():
            self._append("note", {"kind": kind, "text": text})

    def require(self, head: str) -> None:
        """Refuse to go on if `head` (from a checkpoint or certificate) is not in this ledger.

        Raises:
            LedgerError: the ledger is older than `head`, or another branch of a copy.
        """
        with self._exclusive_access():
            if all(entry.hash != head for entry in self._entries):
                what = "the ledger does not contain the head that was required of it"
                expected = "the ledger that the checkpoint or certificate was made with, at least as new"
                remedy = "put the newest copy of that ledger back; an older one would run claimed steps again"
                raise LedgerError(what, where=str(self._store.path), expected=expected, remedy=remedy)

    def entries(self) -> list[Entry]:
        """All entries, oldest first."""
        with self._exclusive_access():
            return list(self._entries)

    def spent(self, fold: Fold | None = None) -> tuple[float, float]:
        """Total (epsilon, delta) charged to one fold, or (None) the larger of each, rounded up.

        Epsilon is inf once a plan without privacy is in the ledger.
        """
        with self._exclusive_access():
            return self._state.spent(fold)

    def left(self, *, gaussian: bool = True) -> tuple[float, float]:
        """(epsilon, delta) of the largest plan that is still admitted: one that has a mu, or (False) one without."""
        with self._exclusive_access():
            return self._state.left(gaussian=gaussian)

    def plans(self) -> list[PlanSummary]:
        """One summary per plan that was reserved and not cancelled."""
        with self._exclusive_access():
            return self._state.summaries()

    def _repr_html_(self) -> str:
        """Unit, budget, charges and plans, for notebooks; no note."""
        return _ledger_html(self)

    def verify(self) -> None:
        """Read the file again and check everything: integrity, triggers, chain, sequence, filter, claims.

        Raises:
            LedgerError: naming the first entry that is not valid.
        """
        with self._exclusive_access():
            self._reload()

    def close(self) -> None:
        """Release the ledger; closing twice does nothing."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        (epsilon, delta), unit = self._state.spent(), self.unit
        spent = f"({epsilon:.6g}, {delta:.3g}) of ({self.epsilon:g}, {self.delta:.3g})"
        return f"Ledger({str(self._store.path)!r}: {spent} spent; {unit.name}, {unit.relation}, {unit.size:,})"

    def __reduce__(self) -> NoReturn:
        expected, remedy = "one object in one process", "pass its path, and open it in the process that uses it"
        raise LedgerError("a ledger cannot be pickled or copied", where="Ledger", expected=expected, remedy=remedy)

    def _create(
        self,
        unit: Unit | None,
        epsilon: float | None,
        delta: float | None,
        composition: Composition | None,
        ceiling: float | None,
    ) -> None:
        if unit is None or epsilon is None or delta is None or composition is None or ceiling is None:
            what = "there is no ledger yet, and its unit, budget or composition is missing"
            expected = "unit=, epsilon=, delta= and composition= to create one"
            remedy = "declare the unit and the whole budget of the dataset, or check the path"
            raise PlanError(what, where=str(self._store.path), expected=expected, remedy=remedy)
        terms = Terms(secrets.token_hex(16), unit, epsilon, ceiling, delta, composition)
        if self._store.lock.head is not None:
            what, expected = "the ledger is gone, but a head is recorded beside it", "the ledger that was here"
            remedy = "put it back; only if these are other records, remove the .lock file too"
            raise LedgerError(what, where=str(self._store.path), expected=expected, remedy=remedy)
        self._store.create(LedgerState().next_entry("create", terms.payload(), _now()))

    def _match(self, **given: Unit | float | Composition | None) -> None:
        for name, value in given.items():
            if value is not None and value != getattr(self, name):
                what, expected = f"the ledger is bound to another {name}", f"{name}={getattr(self, name)!r}"
                remedy = "use what it was created with; a ledger never changes what it promises"
                raise LedgerError(what, where=str(self._store.path), expected=expected, remedy=remedy)

    def _reload(self) -> None:
        self._fresh = False
        self._entries = self._store.open()
        self._state = replay(self._entries)
        self._fresh = True

    def _append(self, kind: str, payload: Mapping[str, Any]) -> None:
        entry = self._state.next_entry(kind, payload, _now())
        state = self._state.apply(entry)
        self._fresh = False  # whatever interrupts the next lines: the file decides what happened
        self._store.append(entry, previous=self._state.head)
        self._entries.append(entry)
        self._state = state
        self._fresh = True

    @contextlib.contextmanager
    def _exclusive_access(self) -> Iterator[None]:
        with self._store.exclusive_access():
            if not self._fresh:
                self._reload()
            yield


def _costs_more(new: Charge, old: Charge) -> bool:
    # What was charged stays. A plan of which a sharper proof has since found a mu is as private as its epsilon says.
    known = ((new.rdp, old.rdp), (new.mu, old.mu))
    pairs = [(new.epsilon, old.epsilon), (new.delta, old.delta)]
    pairs += [(math.inf if mine is None else mine, theirs) for mine, theirs in known if theirs is not None]
    pairs += [(old.diameter or 2.0, new.diameter or 2.0)]  # a smaller one costs more where the fold changes
    return any(mine > theirs * (1 + _ROUNDING) for mine, theirs in pairs)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _ledger_html(ledger: LedgerView | Ledger) -> str:
    epsilon, delta = ledger.spent()
    plans = [
        f"{plan.id}: {plan.method}, ({plan.epsilon:.6g}, {plan.delta:.3g}), {plan.claimed:,} of {plan.steps:,} steps"
        f"{plan.payer_text}"
        for plan in ledger.plans()
    ]
    each = [ledger.spent(fold) for fold in FOLDS]
    folds = [f"fold {fold}: ({epsilon:.6g}, {delta:.3g})" for fold, (epsilon, delta) in zip(FOLDS, each, strict=True)]
    whom = neighbours(ledger.unit.name, ledger.unit.relation, logs=False)
    rows = [
        ("protects", f"{whom} ({ledger.unit.relation}, public population {ledger.unit.size:,})"),
        (
            "budget",
            f"({ledger.epsilon:g}, {ledger.delta:.3g}), promised at most ({ledger.ceiling:g}, {ledger.delta:.3g})",
        ),
        ("spent", f"({epsilon:.6g}, {delta:.3g})" if each[0] == each[1] else folds),
        ("plans", plans or ["none"]),
        *([] if ledger.void_reason is None else [("VOID", f"nothing is promised any more: {ledger.void_reason}")]),
    ]
    return notebook.table(f"Ledger of the dataset {ledger.dataset_id}", rows)
