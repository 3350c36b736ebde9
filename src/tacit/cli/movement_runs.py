"""What runs behind `tacit imitate`: a calibrated plan over days, by the door that serves it."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path

from tacit.cli.console import progress
from tacit.cli.movement_commands import Imitate
from tacit.cli.movement_words import Plan
from tacit.data.mobility.days import Days
from tacit.data.mobility.grids import Grid
from tacit.methods import mobility
from tacit.methods.mobility import Simulator, baselines, pategail
from tacit.methods.mobility.baselines.models import BlockChain
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.vault import Vault

Generator = Simulator | BlockChain
Released = Release[Simulator] | Release[BlockChain] | Release[Simulator | BlockChain]


def require_packages(command: Imitate) -> None:
    """Refuse a method whose packages are not installed, before the ledger pays for it.

    Raises:
        ModuleNotFoundError: checkpoints need torch.
    """
    if command.method == "pategail":
        importlib.import_module("tacit.privacy.ledger.checkpoint")


def vault_of(plan: Plan, days: Days, ledger: Ledger, *, simulated: bool) -> Vault | FederatedVault:
    """The vault whose doors the plan needs: one over devices where these add noise or keep critics.

    Raises:
        DataError: there are more people than the population.
    """
    data = days.trajectories(simulated=simulated)
    if isinstance(plan, pategail.Plan) or (isinstance(plan, mobility.Plan) and plan.noise != "server"):
        return FederatedVault(StackedDevices(data), ledger)
    return Vault(data, ledger)


def fitted(
    plan: Plan,
    vault: Vault | FederatedVault,
    grid: Grid,
    *,
    seed: int,
    told: str,
    folder: Path | None = None,
    resume: bool = False,
) -> Released:
    """The release of a plan.

    Args:
        plan: calibrated.
        vault: what `vault_of` opened for it.
        grid: of the days.
        seed: of the days that are played.
        told: what progress says.
        folder, resume: where a method of many rounds keeps its checkpoints, and whether it goes on from there.

    Raises:
        PlanExhausted, BudgetExceeded: the ledger refuses.
    """
    with progress(told) as advance:
        if isinstance(plan, pategail.Plan):
            assert isinstance(vault, FederatedVault)
            return pategail.fit(plan, vault, grid=grid, seed=seed, folder=folder, resume=resume, progress=advance)
        if isinstance(plan, mobility.Plan):
            return mobility.fit(plan, vault, grid=grid, seed=seed)
        return baselines.fit(plan, vault, grid=grid)


def again(plan: Plan, days: Days, *, seed: int, told: str) -> Generator:
    """What another plan makes of simulated days, under a ledger that is thrown away."""
    assert plan.unit is not None
    assert plan.epsilon is not None
    assert plan.delta is not None
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger(Path(folder, "ledger"), plan.unit, epsilon=plan.epsilon, delta=plan.delta) as ledger,
    ):
        vault = vault_of(plan, days, ledger, simulated=True)
        return fitted(plan, vault, days.grid, seed=seed, told=told).value
