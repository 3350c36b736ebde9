"""Folds: on which of two fixed halves of the units a plan lies, what it costs there, and which half taught a policy.

A unit's fold is a function of the unit and of the ledger's `dataset_id`, which is drawn when the ledger is created and
never changes. Fold 0 is the one to learn from, fold 1 the one that judges. Everything here follows from a plan's parts
and the order of its steps as the ledger wrote them down, whatever its caller says. The proof is in `proofs/ledger.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tacit.privacy.accounting.filters import Charge, Composition, Total, admits, left, room, spent
from tacit.units import Relation

Fold = Literal[0, 1]
FOLDS: tuple[Fold, Fold] = (0, 1)
LEARNING, JUDGING = FOLDS
Teacher = Literal["everybody", "fold 0", "fold 1"]
"""Whom a release was learned from."""
EVERYBODY: Teacher = "everybody"


def part_folds(parts: Sequence[Any]) -> tuple[Fold, ...] | None:
    """The fold of each part of a plan, as a certificate states these; None where one is over everybody.

    Only sums without sampling, under Gaussian noise, are proved for a fold: any other part counts as over everybody.
    """
    found = list[Fold]()
    for part in parts:
        stated: Mapping[str, Any] = part if isinstance(part, Mapping) else {}
        fold: Any = stated.get("fold")
        proved = stated.get("kind") == "poisson_sum" and stated.get("sampling_rate") == 1
        if not proved or type(fold) is not int or fold not in FOLDS:
            return None
        found.append(fold)
    return tuple(found) or None


def plan_folds(parts: Sequence[Any]) -> frozenset[Fold] | None:
    """The folds on which the parts of a plan lie (see `places`); None where one is over everybody."""
    folds = part_folds(parts)
    return None if folds is None else frozenset(folds)


def single_fold(folds: frozenset[Fold] | None) -> Fold | None:
    """The one fold that pays for a plan on these folds; None where both do."""
    return next(iter(folds)) if folds is not None and len(folds) == 1 else None


def teacher_name(folds: frozenset[Fold] | None) -> Teacher:
    """These folds in a word: who taught what was learned from them."""
    fold = single_fold(folds)
    return EVERYBODY if fold is None else "fold 0" if fold == 0 else "fold 1"


def judged_folds(folds: frozenset[Fold] | None, *, evaluates: bool) -> tuple[Fold, ...]:
    """Where a plan on these folds says how good a policy is: all over if it evaluates, else where fold 1 judges."""
    if evaluates:
        return FOLDS if folds is None else tuple(sorted(folds))
    return (JUDGING,) if folds == frozenset(FOLDS) else ()


@dataclass(frozen=True)
class Balance:
    """What the plans of a ledger cost a unit of either fold, and one that goes from one to the other.

    Args:
        relation: of the ledger's unit.
        totals: of fold 0, of fold 1 and, where units are replaced, of a unit whose two versions are on different folds.

    Guarantee:
        If all totals stay within a budget, so does everything that the plans release (`proofs/ledger.md`).
    """

    relation: Relation
    totals: tuple[Total, ...]

    @classmethod
    def empty(cls, relation: Relation, composition: Composition) -> Balance:
        """That of no plan."""
        return cls(relation, (Total(composition),) * (3 if relation == "replace_one" else 2))

    def with_charge(self, charge: Charge, fold: Fold | None) -> Balance:
        """The balance with one plan more, which one fold pays or (None) both do."""
        pairs = zip(self.totals, self._shares(charge, fold), strict=True)
        return replace(self, totals=tuple(old if share is None else old.with_charge(share) for old, share in pairs))

    def without_charge(self, charge: Charge, fold: Fold | None) -> Balance:
        """The balance without one of its plans."""
        pairs = zip(self.totals, self._shares(charge, fold), strict=True)
        return replace(self, totals=tuple(old if share is None else old.without_charge(share) for old, share in pairs))

    def admits(self, epsilon: float, delta: float) -> bool:
        """Whether every total stays within the budget (see `filters.admits`)."""
        return all(admits(total, epsilon, delta) for total in self.totals)

    def room(self, charge: Charge, fold: Fold | None, epsilon: float, delta: float) -> int:
        """How many more plans of this cost, on one fold or (None) on both, stay within the budget."""
        each = zip(self.totals, self._shares(charge, fold), strict=True)
        return min(room(total, share, epsilon, delta) for total, share in each if share is not None)

    def left(self, epsilon: float, delta: float, *, gaussian: bool) -> tuple[float, float]:
        """(epsilon, delta) of the largest plan that all totals still cover (see `filters.left`)."""
        each = [left(total, epsilon, delta, gaussian=gaussian) for total in self.totals]
        return min(one for one, _ in each), min(one for _, one in each)

    def spent(self, delta: float, fold: Fold | None = None) -> tuple[float, float]:
        """Total (epsilon, delta) of one fold, or (None) the largest of each, rounded up (see `filters.spent`)."""
        each = [spent(total, delta) for total in (self.totals if fold is None else (self.totals[fold],))]
        return max(epsilon for epsilon, _ in each), max(delta for _, delta in each)

    def _shares(self, charge: Charge, fold: Fold | None) -> tuple[Charge | None, ...]:
        """What each total is charged."""
        # A unit that is exchanged for another may leave one fold and enter the other, and so meets the plans of both.
        if fold is None or not charge.finite:
            return (charge,) * len(self.totals)
        own: tuple[Charge | None, Charge | None] = (charge, None) if fold == 0 else (None, charge)
        return (*own, charge.moved) if self.relation == "replace_one" else own
