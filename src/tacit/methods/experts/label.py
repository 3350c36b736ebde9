"""The words of the certificate."""

from __future__ import annotations

from tacit.privacy.mechanisms.base import Plan
from tacit.privacy.vault.base import Label

SUMS = "what is read of its rows enters each noisy sum as one bounded contribution"
"""How one expert counts where noisy sums are all that is released."""


def label(plan: Plan, covered: str, *, counts: str = SUMS, public: tuple[str, ...] = ()) -> Label:
    """The label of a release that reads experts' own logs.

    Args:
        plan: calibrated or priced.
        covered: what was released, and so everything computed from it.
        counts: how the rows of one expert count for it.
        public: what the caller declared to be public, one phrase each.
    """
    name = "expert" if plan.unit is None else plan.unit.name
    return Label(
        covered=(
            f"{covered}, and everything computed from it",
            f"everything of one {name}: {counts}, so that its decisions, what it met with and its returns are all "
            "covered",
        ),
        not_covered=(
            "the choice of hyper-parameters: it must have been made without looking at these records",
            "whatever the curator computes from the records outside the door (see the ledger's notes)",
            *(f"{what} (declared public by the user, not checked here)" for what in public),
        ),
        not_protected=(
            f"what most {name}s have in common: it is what is released",
            f"others who are in the rows of many {name}s, such as a patient who saw several of them",
            f"several {name}s who are one person, where ids do not show it",
            "every public parameter of the plan",
        ),
    )
