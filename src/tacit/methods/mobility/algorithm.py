"""One-shot imitation, the default: one private release of what people do, and a simulator that imitates it for free.

Input: people's days behind a vault; a calibrated plan (layout, weights, matching, shares of the budget)
1. x_i <- histograms of person i's days: (bucket of state, action), different cells, moves and motif of whole days,
          scaled by public weights and to norm 1                                          (moves.py)
2. y   <- (sum_i x_i + noise) / N                                                         (vault.noisy_sum)
3. where days begin and how far exploring leads: two sums more of norm 1                  (places.py)
4. table <- y's histogram, with public masses of time, shrunk by the known noise          (moves.py)
5. for a few rounds: play days of the policy (table + latent day type), m <- the vector they would have released;
          critic C^-1 (y / w - m), the policy takes a Gauss-Newton step for it           (matching.py)
6. simulator <- policy, homes and distances; of 32 directions one is taken in proportion to the homes in it, where
          there are people enough                                                        (envs/spaces.py)

Steps 4 to 6 touch no record. The three sums together are one Gaussian mechanism of the plan's noise multiplier.
Proof page: `proofs/noisy_sum.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.mobility.grids import Grid
from tacit.errors import PlanError
from tacit.methods.mobility.matching import match
from tacit.methods.mobility.moves import MOVES_PART, MoveContribution, MoveHistograms
from tacit.methods.mobility.places import JUMPS, STARTS, HomeSums, JumpSums, StartDistribution
from tacit.methods.mobility.plan import OneShotPlan, ZeroContribution, reserve_run
from tacit.methods.mobility.simulator import Simulator
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.vault import Vault

if TYPE_CHECKING:
    from tacit.privacy.mechanisms.base import Contribution

FloatArray = NDArray[np.float64]


def fit(plan: OneShotPlan, vault: Vault | FederatedVault, *, grid: Grid, seed: int = 0) -> Release[Simulator]:
    """Run a calibrated plan once: a simulator of days.

    Args:
        plan: calibrated (or priced) for the vault's unit.
        vault: days as `Days.trajectories` makes them, or the devices that hold them, and one ledger.
        grid: the public grid of the days.
        seed: of the days that are played to fit the simulator; it is public.

    Raises:
        PlanError: the plan is not calibrated, the grid is not that of the records, or there are several ledgers.
        PlanExhausted: the plan was run before under this ledger.
        BudgetExceeded: the ledger cannot pay.
    """
    if len(vault.ledgers) > 1:
        what = f"{len(vault.ledgers)} ledgers, and one simulator is released"
        expected, remedy = "a vault with one ledger", "use mobility.replicates for simulated records"
        raise PlanError(what, where="mobility.fit", expected=expected, remedy=remedy)
    run = reserve_run(plan, vault, grid, MOVES_PART)
    (simulator,) = _fit_all(plan, vault, run, grid, seed)
    return vault.release(run, simulator, label=plan.label())


def fit_replicates(plan: OneShotPlan, vault: Vault, *, grid: Grid, seed: int = 0) -> list[Simulator]:
    """One simulator for each ledger of a vault over simulated records, all in one pass over these.

    Raises:
        PlanError, PlanExhausted, BudgetExceeded: as `fit`.
    """
    return _fit_all(plan, vault, reserve_run(plan, vault, grid, MOVES_PART), grid, seed)


def build_contributions(plan: OneShotPlan, grid: Grid) -> dict[str, Contribution]:
    """What each person adds to each part of a calibrated plan: what `fit` sends to the devices."""
    assert plan.layout is not None
    assert plan.weights is not None
    moves = MoveContribution(MoveHistograms(plan.layout, plan.weights))
    contributions: dict[str, Any] = {MOVES_PART: moves, JUMPS: JumpSums.from_grid(grid)}
    if plan.shares.starts:
        contributions[STARTS] = HomeSums.for_people(grid, plan.unit.size, plan.noise_std(STARTS), box=plan.box)
    return {
        part.name: ZeroContribution(contributions[part.name]) if plan.zero_contribution else contributions[part.name]
        for part in plan.parts()
    }


def _fit_all(plan: OneShotPlan, vault: Vault | FederatedVault, run: Run, grid: Grid, seed: int) -> list[Simulator]:
    sums = build_contributions(plan, grid)
    released: dict[str, FloatArray] = {name: vault.noisy_sum(run, name, work) for name, work in sums.items()}
    assert plan.layout is not None
    assert plan.weights is not None
    jumps, simulators = JumpSums.from_grid(grid), []
    starts = [StartDistribution.uniform(grid, box=plan.box)] * len(vault.ledgers)
    if STARTS in released:
        noise = plan.noise_std(STARTS)
        homes = HomeSums.for_people(grid, vault.unit.size, noise, box=plan.box)
        starts = [homes.read(mean, noise) for mean in released[STARTS]]
    for k, mean in enumerate(released[MOVES_PART]):
        noise = plan.noise_std(MOVES_PART)
        policy = match(mean, noise, plan.layout, plan.weights, plan.matching, seed=seed + k)
        law = jumps.read(released[JUMPS][k], plan.noise_std(JUMPS))
        simulators.append(Simulator(grid, policy, starts[k], law, gravity=plan.exploring == "gravity"))
    return simulators
