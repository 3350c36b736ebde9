"""The words of the certificate."""

from __future__ import annotations

from tacit.methods.mobility.baselines.plan import Plan
from tacit.methods.mobility.cautions import few
from tacit.privacy.vault.base import Label


def label(plan: Plan) -> Label:
    """The label of a plan's release.

    Args:
        plan: calibrated or priced.
    """
    name = "person" if plan.unit is None else plan.unit.name
    sums = ", ".join(part.name for part in plan.parts())
    return Label(
        covered=(
            f"one noisy sum each over every {name} ({sums}), the simulator, and everything generated with it",
            f"everything of one {name}: all days that are read enter each sum as one bounded contribution",
        ),
        not_covered=(
            "the choice of hyper-parameters: it must have been made without looking at these records",
            "whatever the curator computes from the records outside the door (see the ledger's notes)",
        ),
        not_protected=(
            f"what most {name}s have in common: it is what is released",
            f"several {name}s who are one person, where ids do not show it",
            "every public parameter of the plan, and the grid",
            *few(plan.unit, plan.noise_multiplier),
        ),
    )
