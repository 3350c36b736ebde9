"""The beginning of every run that asks people once."""

from __future__ import annotations

from tacit.data.grids import Grid
from tacit.errors import PlanError
from tacit.privacy.mechanisms.base import Plan
from tacit.privacy.vault.base import Run, exhausted
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.vault import Vault


def reserved(plan: Plan, vault: Vault | FederatedVault, grid: Grid, part: str) -> Run:
    """The plan's run, paid for and not begun before.

    Args:
        plan: calibrated or priced.
        vault: of days on the grid.
        grid: public.
        part: named where the plan was run before.

    Raises:
        PlanError: the records are no days on this grid. PlanExhausted: the plan was run before under this ledger.
        BudgetExceeded: the ledger cannot pay.
    """
    if getattr(vault.spec.observation, "n", None) != grid.size:
        raise PlanError(
            "the records are not days on this grid",
            where=f"{plan.method} plan",
            expected="the grid of the days, whose cells the observations are",
            remedy="pass days.grid",
        )
    run = vault.reserve(plan)
    if vault.touched(run):
        raise exhausted(run, part)
    return run
