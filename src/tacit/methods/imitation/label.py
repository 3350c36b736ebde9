"""The words of the certificate."""

from __future__ import annotations

from tacit.methods.imitation.plan import Plan
from tacit.privacy.labels import Label

FEW = 1_000
"""Below so many people for each unit of noise, maps of where trips go are not to be used."""


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
        *few(plan),
    )
    return Label(covered, not_covered, not_protected)


def few(plan: Plan) -> tuple[str, ...]:
    """What a small population must not use the simulator for."""
    if plan.unit is None or (plan.noise_multiplier or 0.0) * FEW <= plan.unit.size:
        return ()
    return (
        f"NOT TO BE USED: maps, origin-destination tables and visits by time of day. {plan.unit.size:,} "
        f"{plan.unit.name}s at this noise tell how people move, not where: starts and trips are spread over blocks by "
        "the noise",
    )
