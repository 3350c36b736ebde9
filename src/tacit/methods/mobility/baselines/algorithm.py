"""Fitting a baseline: noisy sums of its parts, each once, and a simulator out of what they released."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit.data.mobility.grids import Grid
from tacit.errors import PlanError
from tacit.methods.mobility.baselines.models import (
    Averages,
    BlockChain,
    Floats,
    Fractions,
    Moments,
    Transitions,
    block_chain,
    epr_policy,
    rhythm,
    table_policy,
)
from tacit.methods.mobility.baselines.plan import BaselinePlan
from tacit.methods.mobility.common import ZeroContribution, reserved
from tacit.methods.mobility.moves import MOVES_PART, Moves, Vector
from tacit.methods.mobility.places import JUMPS, STARTS, HomeSums, JumpSums, Starts
from tacit.methods.mobility.simulator import Simulator, TablePolicy
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.vault import Vault

FEWEST, MOST = 10, 60
"""Blocks of a chain, at least and at most."""


def fit(plan: BaselinePlan, vault: Vault | FederatedVault, *, grid: Grid) -> Release[Simulator | BlockChain]:
    """Run a calibrated plan once: a simulator of days.

    Args:
        plan: calibrated (or priced) for the vault's unit.
        vault: days as `Days.trajectories` makes them, and the ledger; of several ledgers the first one's simulator is
            released (`replicates` gives all).
        grid: the public grid of the days.

    Raises:
        PlanError: the plan is not calibrated, or the grid is not that of the records.
        PlanExhausted: the plan was run before under this ledger.
        BudgetExceeded: the ledger cannot pay.
    """
    run = reserved(plan, vault, grid, MOVES_PART)
    (first, *_) = _simulators(plan, vault, run, grid)
    return vault.release(run, first, label=plan.label())


def replicates(plan: BaselinePlan, vault: Vault, *, grid: Grid) -> list[Simulator | BlockChain]:
    """One simulator for each ledger of a vault over simulated records, all in one pass.

    Raises:
        PlanError, PlanExhausted, BudgetExceeded: as `fit`; or there are several ledgers for "markov", whose blocks are
            each ledger's own.
    """
    return _simulators(plan, vault, reserved(plan, vault, grid, MOVES_PART), grid)


def vocabulary(starts: Starts, size: int) -> tuple[tuple[int, ...], Floats]:
    """The blocks of largest released weight and their weights [K]; ties go by number."""
    weights = starts.probabilities
    chosen = np.argsort(-weights, kind="stable")[:size]
    return tuple(int(block) for block in chosen), np.asarray(weights[chosen])


def vocabulary_size(people: int, noise_multiplier: float) -> int:
    """K, by a public rule: its K^2 numbers hold as much noise as so many people can bear, 3 sqrt(N / sigma)."""
    wanted = math.inf if noise_multiplier == 0 else 3 * math.sqrt(people / noise_multiplier)
    return int(min(max(wanted, FEWEST), MOST))


def _simulators(
    plan: BaselinePlan, vault: Vault | FederatedVault, run: Run, grid: Grid
) -> list[Simulator | BlockChain]:
    people = vault.unit.size
    noise = {part.name: (part.noise_multiplier or 0.0) * part.clip_norm / people for part in plan.parts()}
    if plan.model == "markov" and len(vault.ledgers) > 1:
        what, remedy = "the blocks of a chain are each ledger's own", "run replicates of this model one after another"
        raise PlanError(what, where="mobility.baselines", expected="a vault with one ledger", remedy=remedy)

    def released(part: str, contribution: Any) -> Floats:
        return vault.noisy_sum(run, part, ZeroContribution(contribution) if plan.zero_contribution else contribution)

    homes = HomeSums.sized(grid, people, noise[STARTS])
    starts = [homes.read(mean, noise[STARTS]) for mean in released(STARTS, homes)]
    if plan.model == "markov":
        blocks, weights = vocabulary(starts[0], vocabulary_size(people, plan.noise_multiplier_of(MOVES_PART) or 0.0))
        statistic = Transitions(grid, starts[0].factor, blocks)
        (mean,) = released(MOVES_PART, Moves(Averages(statistic)))
        return [block_chain(statistic, weights, mean, noise[MOVES_PART])]
    jumps = JumpSums.sized(grid)
    laws = [jumps.read(mean, noise[JUMPS]) for mean in released(JUMPS, jumps)]
    policies = [policy(plan, mean, noise[MOVES_PART]) for mean in released(MOVES_PART, contribution(plan))]
    return [
        Simulator(grid, learned, start, law, plan.meaning)
        for learned, start, law in zip(policies, starts, laws, strict=True)
    ]


def contribution(plan: BaselinePlan) -> Moves:
    """What one person adds to the moves of a model other than "markov"."""
    if plan.model == "table":
        return Moves(Vector(plan.layout, plan.weights))
    return Moves(Averages(Fractions() if plan.model == "epr" else Moments()))


def policy(plan: BaselinePlan, mean: Floats, noise: float) -> TablePolicy:
    """The policy of a model other than "markov", of the released mean [d] with this much noise."""
    if plan.model == "table":
        return table_policy(mean, noise, plan.layout, plan.weights)
    return epr_policy(mean) if plan.model == "epr" else rhythm(mean, noise).policy()
