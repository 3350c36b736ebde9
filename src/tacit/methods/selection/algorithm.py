"""Repeat and select ("Hyperparameter Tuning with Renyi Differential Privacy", arXiv:2110.03620, algorithm 1).

Input: candidates P_1 .. P_m, a judge, a law of K; private records behind a vault
1. draw K from the law; it depends on nothing, and stays secret                           (privacy/vault/selection.py)
2. for k = 1 .. K:
3.     draw j uniformly; v <- run P_j on the records; s <- the judge's score of v
4.     keep (v, j, s) if s is larger than any before
5. release what was kept
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit.methods.selection.plan import PART, Plan
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.base import Label, exhausted
from tacit.privacy.vault.selection import Attempt, Judge
from tacit.privacy.vault.vault import Vault


@dataclass(frozen=True)
class Choice:
    """Which candidate was best.

    Args:
        candidate: its place in the plan's candidates, from 0.
        score: the judge's score of its run.
    """

    candidate: int
    score: float


def select(plan: Plan, vault: Vault, *, attempt: Attempt, judge: Judge) -> tuple[Release[Any], Choice]:
    """Run candidates a secret number of times, and release the best run.

    Args:
        plan: calibrated for the vault's unit.
        vault: the private records and their ledger.
        attempt: makes a run, such as `synthesis.fit` or `functools.partial(synthesis.fit, pretrained=start)`.
        judge: a frozen dataclass that scores a run, such as `synthesis.Closeness()`.

    Returns:
        What the best run would have released, under the certificate of the whole selection; and which one it was.

    Raises:
        PlanExhausted: the plan was begun before. It cannot be resumed: how far it came would tell how often it ran.
        BudgetExceeded: the ledger cannot pay for the plan.
        DoorError: a callback could keep something of runs that are not released, or every run failed.
    """
    run = vault.reserve(plan)
    if vault.touched(run):
        raise exhausted(run, PART)
    best = vault.select(run, PART, attempt, judge)
    return vault.release(run, best.value, label=_label(plan)), Choice(best.candidate, best.score)


def _label(plan: Plan) -> Label:
    starts = {getattr(one, "pretraining", None) for one in plan.candidates} - {None}
    public = sorted(
        f"public pre-training: {start.provenance} (declared by the user, not checked here)"
        for start in starts
        if start is not None
    )
    return Label(
        covered=(
            f"all runs of the {len(plan.candidates):,} candidates, their judgement, and the choice of the best",
            "which candidate that was, and its score",
            "everything sampled, trained or computed from the released value",
        ),
        not_covered=(
            *public,
            "the candidates themselves: they must have been chosen without looking at the private records",
            "whatever the curator computes from the records outside the doors (see the ledger's notes)",
        ),
        not_protected=(
            f"what is true of the population rather than of one {plan.unit.name if plan.unit else 'unit'}",
            "that these records were used at all, by whom, and every public parameter of the plan",
            "several units that belong to one person, where the declared unit is less than a person",
        ),
    )
