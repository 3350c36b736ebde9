"""Mistakes about folds: who pays, who taught, and who may judge."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tacit.privacy.ledger import state
from tacit.privacy.ledger.folds import Balance
from tacit.privacy.vault import origins
from tacit.privacy.vault import plan as plans


def charge_of_a_fold_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Plans on fold 1 alone are charged to nobody."""
    real = Balance._shares

    def shares(self: Balance, charge: Any, fold: Any) -> Any:
        return (None, None) if fold == 1 else real(self, charge, fold)

    patch.setattr(Balance, "_shares", shares)


def movers_deltas_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Who is exchanged for somebody of the other fold is taken to meet the plans of one fold alone."""

    def shares(self: Balance, charge: Any, fold: Any) -> Any:
        return (charge, charge) if fold is None else (charge, None) if fold == 0 else (None, charge)

    patch.setattr(Balance, "_shares", shares)


def fold_of_the_parts_ignored(patch: pytest.MonkeyPatch) -> None:
    """Whatever its parts read, fold 0 taught a release."""
    patch.setattr(state, "part_folds", lambda parts: (0,) * len(parts))


def order_taken_for_granted(patch: pytest.MonkeyPatch) -> None:
    """Of a plan on both folds, fold 0 teaches and fold 1 judges, in whatever order they were read."""
    real = origins.teachers
    patch.setattr(origins, "teachers", lambda ledger, origin: frozenset({min(real(ledger, origin))}))


def certificates_believed(patch: pytest.MonkeyPatch) -> None:
    """Whatever lies beside a certificate is the policy that was released with it."""
    real = origins.teachers

    def teachers(ledger: Any, origin: Any) -> Any:
        released = next(digest for plan in ledger.plans() if plan.id in origin.plans for digest in plan.policies)
        return real(ledger, dataclasses.replace(origin, released=released))

    patch.setattr(origins, "teachers", teachers)


def teachers_judge(patch: pytest.MonkeyPatch) -> None:
    """An interval although everybody taught the policy."""
    patch.setattr(origins, "teachers", lambda *_: frozenset())


def undeclared_is_public(patch: pytest.MonkeyPatch) -> None:
    """A policy of which nothing was declared is taken for public."""
    real = origins.assess_standing

    def standing(ledger: Any, known: Any, **more: Any) -> Any:
        return real(ledger, [*known, origins.Origin.public()], **more)

    from tacit.methods.off_policy_evaluation import algorithm

    patch.setattr(algorithm, "assess_standing", standing)


def evaluations_by_their_own_word(patch: pytest.MonkeyPatch) -> None:
    """A plan evaluates where its class says so."""
    patch.setattr(plans, "may_evaluate", lambda plan: getattr(plan, "evaluates", True))


def evaluations_not_counted(patch: pytest.MonkeyPatch) -> None:
    """However many evaluations came before, the interval is as wide as that of the first."""
    patch.setattr(origins, "corrected_level", lambda level, count: level)


def policies_as_old_as_their_reservation(patch: pytest.MonkeyPatch) -> None:
    """A release counts as made when its plan was reserved, whatever was seen before the plan was run."""
    real = state.LedgerState.summaries

    def summaries(self: Any) -> Any:
        return [dataclasses.replace(plan, began=at, ended=at) for at, plan in enumerate(real(self), start=1)]

    patch.setattr(state.LedgerState, "summaries", summaries)


def classes_by_their_names(patch: pytest.MonkeyPatch) -> None:
    """A policy of a class of the user's own is known again by its name, whatever it reads now."""
    from tacit.methods.off_policy_evaluation import targets

    patch.setattr(targets, "has_digest", lambda value: True)


def difference_whoever_judges(patch: pytest.MonkeyPatch) -> None:
    """The difference has its interval where the value has none."""
    from tacit.methods.off_policy_evaluation.difference import Following

    real = Following.estimate
    patch.setattr(
        Following, "estimate", lambda self, *about, level: real(self, *about, level=0.95 if level is None else level)
    )


def difference_by_everybody(patch: pytest.MonkeyPatch) -> None:
    """The difference is summed over all, whoever judges the value."""
    from tacit.methods.off_policy_evaluation import DoublyRobust

    real = DoublyRobust.parts
    patch.setattr(
        DoublyRobust,
        "parts",
        lambda plan: tuple(
            dataclasses.replace(part, fold=None) if part.name == "difference" else part for part in real(plan)
        ),
    )


FOLDS = (
    ("a fold's charge forgotten", charge_of_a_fold_forgotten, ("budget_of_folds",)),
    ("movers' deltas forgotten", movers_deltas_forgotten, ("budget_of_folds",)),
    ("the parts' fold ignored", fold_of_the_parts_ignored, ("judged_by_others",)),
    ("order taken for granted", order_taken_for_granted, ("teachers_of_both_folds",)),
    ("certificates believed", certificates_believed, ("teachers_of_both_folds",)),
    ("teachers judge", teachers_judge, ("judged_by_others",)),
    ("difference whoever judges", difference_whoever_judges, ("judged_by_others",)),
    ("difference by everybody", difference_by_everybody, ("judged_by_others",)),
    ("undeclared is public", undeclared_is_public, ("judged_by_others",)),
    ("evaluations by their own word", evaluations_by_their_own_word, ("judged_by_others",)),
    ("evaluations not counted", evaluations_not_counted, ("judged_by_others",)),
    ("policies as old as their reservation", policies_as_old_as_their_reservation, ("judged_by_others",)),
    ("classes by their names", classes_by_their_names, ("judged_by_others",)),
)
