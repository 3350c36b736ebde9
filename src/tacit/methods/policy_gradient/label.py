"""The words of the certificate."""

from __future__ import annotations

from tacit.methods.policy_gradient.plan import Plan
from tacit.privacy.vault.base import Label


def label(plan: Plan, *, start: str, critic: str | None = None, information: str | None = None) -> Label:
    """The label of a plan's release.

    Args:
        plan: calibrated or priced.
        start: what the first parameters were.
        critic, information: where a public critic and the Fisher information of public records come from, if used.
    """
    name = "person" if plan.unit is None else plan.unit.name
    often = "once" if plan.participations == 1 else f"at most {plan.participations:,} times"
    covered = (
        f"all {plan.rounds:,} policies, whether or not the run was interrupted, and everything computed from them",
        f"everything of one {name}: all rows of a meeting, at most {plan.horizon:,} decisions, enter as one "
        f"contribution, and a {name} contributes {often}",
        f"joint privacy: what all other people were served with, taken together, tells no more of a {name} than the "
        "released policies do, because it is a function of these and of their own records (the billboard lemma)",
    )
    not_covered = (
        f"the first parameters: {start}",
        "the choice of hyper-parameters: it must have been made without looking at these people's records",
        f"what a {name} is served with: it is a function of own records, and seen by whoever sees their actions",
        "whatever the curator computes from the records outside the door (see the ledger's notes)",
        *(
            f"{what}: {source} (declared public by the user, not checked here)"
            for what, source in (("the critic", critic), ("the Fisher information of the trust region", information))
            if source
        ),
    )
    not_protected = (
        "what is true of the population rather than of one person",
        "who came when, to whoever serves or watches them, and every public parameter of the plan",
        f"several {name}s that belong to one person, where ids do not show it; somebody without an id adds nothing",
    )
    assumptions = (
        "a meeting's people do not act on each other, and the actor knows nothing of a person but what was released "
        "and their own observations",
    )
    if plan.critic != "shared":
        return Label(covered, not_covered, not_protected, assumptions)
    broken = (
        "anything: epsilon is infinite. The critic is taught by everybody without noise, and every later person's "
        "contribution depends on it, so that one person's records reach all later policies"
    )
    nothing = ("nothing: the parts below are stated, and no part of them is a guarantee",)
    return Label(nothing, (broken, *not_covered), not_protected, assumptions)
