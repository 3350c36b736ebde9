"""The words of the certificate."""

from __future__ import annotations

from tacit.methods.mobility.cautions import few
from tacit.methods.mobility.pategail.plan import Plan
from tacit.privacy.vault.base import Label


def label(plan: Plan) -> Label:
    """The label of a plan's release.

    Args:
        plan: calibrated or priced.
    """
    name = "person" if plan.unit is None else plan.unit.name
    not_covered: tuple[str, ...] = (
        "the choice of hyper-parameters: it must have been made without looking at these records",
        "whatever the curator computes from the records outside the door (see the ledger's notes)",
    )
    if plan.starts == "given":
        not_covered += ("where days begin and exploring leads (declared public by the user, not checked here)",)
    if plan.allocation == "own":
        not_covered += ("the split of a round's budget (the user's function of released values, at no cost)",)
    not_protected = (
        f"what most {name}s have in common: it is what is released",
        f"several {name}s who are one person, where ids do not show it",
        "every public parameter of the plan, and the grid",
        *(few(plan.unit, plan.noise_multiplier, plan.noise, plan.floor) if plan.starts == "private" else ()),
    )
    assumptions = (f"a {name}'s critic is trained on that {name}'s own days and on public values alone",)
    if plan.starts == "copied":
        broken = "anything: epsilon is infinite. Where days begin and how far people go is taken without noise"
        nothing = ("nothing: the parts below are stated, and no part of them is a guarantee",)
        return Label(nothing, (broken, *not_covered), not_protected, assumptions)
    covered = (
        f"all {plan.rounds:,} noisy rewards, the policy, and everything generated with it",
        f"everything of one {name}: all days that are read enter each sum as one bounded answer, and the critic, which "
        "is trained on them, is seen by nobody",
    )
    return Label(covered, not_covered, not_protected, assumptions)
