"""The words of the certificate."""

from __future__ import annotations

from tacit.methods.mobility.cautions import few
from tacit.methods.mobility.plan import Plan
from tacit.privacy.vault.base import Label


def label(plan: Plan) -> Label:
    """The label of a plan's release.

    Args:
        plan: calibrated or priced.
    """
    name = "person" if plan.unit is None else plan.unit.name
    sums = ", ".join(part.name for part in plan.parts())
    covered = (
        f"one noisy sum each over every {name} ({sums}), the simulator that is fitted to them, and every day that is "
        "generated with it",
        f"everything of one {name}: the first {plan.days:,} days, homes and first cells of days included, enter each "
        "sum as one bounded contribution",
    )
    declared = (f"the box {plan.box}, which is declared to hold nearly all homes",) if plan.box else ()
    uniform = ("where days begin: uniform in the declared box or grid, nothing of it is released",)
    not_covered = (
        "the choice of hyper-parameters: it must have been made without looking at these records",
        "whatever the curator computes from the records outside the door (see the ledger's notes)",
        "the public grid, and the rules by which days were made of points",
        *(f"{what} (declared public by the user, not checked here)" for what in declared),
        *(() if plan.shares.starts else uniform),
    )
    not_protected = (
        f"what most {name}s have in common: it is what is released",
        f"others who are in the days of many {name}s, such as a place that all of them visit",
        f"several {name}s who are one person, where ids do not show it",
        "every public parameter of the plan",
        *few(plan.unit, plan.noise_multiplier, plan.noise, plan.floor),
    )
    return Label(covered, not_covered, not_protected)
