"""The plan of a baseline, which model and how the budget is spread, and its run: noisy sums of its parts, each once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from tacit.data.mobility.days import SLOTS
from tacit.data.mobility.grids import Grid
from tacit.envs.movement import Invalid
from tacit.errors import PlanError
from tacit.methods.mobility import moves, places
from tacit.methods.mobility.baselines.models import (
    EPR_CLIP,
    MARKOV_CLIP,
    TIMEGEO_CLIP,
    ActionFractions,
    BlockChain,
    BlockTransitions,
    Floats,
    MeanStatistic,
    RhythmMoments,
    block_chain,
    epr_policy,
    rhythm,
)
from tacit.methods.mobility.moves import MOVES_PART, MoveContribution, MoveHistograms, Weights
from tacit.methods.mobility.places import JUMPS, STARTS, HomeSums, JumpSums, StartDistribution
from tacit.methods.mobility.plan import ZeroContribution, few_people_clause, label, reserve_run
from tacit.methods.mobility.simulator import Simulator, StateLayout, TablePolicy
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Label, clause
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.vault import Vault
from tacit.validation import require_valid

Model = Literal["table", "epr", "markov", "timegeo"]

SHARES = {MOVES_PART: 0.55, STARTS: 0.30, JUMPS: 0.15}
"""Of rho; a chain of blocks needs no jumps, and gets their share."""
CLIPS = {"table": moves.CLIP, "epr": EPR_CLIP, "markov": MARKOV_CLIP, "timegeo": TIMEGEO_CLIP}
"""The largest norm of what one person adds to the moves: public constants, never taken from records."""


@dataclass(frozen=True, kw_only=True)
class BaselinePlan(plans.PrivatePlan):
    """A baseline simulator under the promise of the one-shot method: same unit, same starts and jumps, same budget."""

    method: ClassVar[str] = "baseline simulator of movement"
    source: ClassVar[str] = (
        "exploration and preferential return (doi:10.1038/nphys1760), TimeGeo (doi:10.1073/pnas.1524261113)"
    )

    model: Model = "epr"
    """"table", a policy of (time, cells, stay, at home) by its own counts; "epr", four numbers; "timegeo", a rhythm
    with bursts and preferential return; "markov", a chain over coarse blocks."""
    days: int = 100
    """most days of one person that are read."""
    layout: StateLayout = field(default_factory=StateLayout)
    """of the states of the table."""
    weights: Weights = field(default_factory=lambda: Weights(day=0.0))
    """of what the table is counted from."""
    invalid: Invalid | None = None
    """what an impossible action means when days are played; None is the papers' "stay" for the four numbers, whose
    share of going home counts nights at home in no way, and "mask" else."""
    zero_contribution: bool = False
    """people add nothing: the control that shows what noise alone looks like."""
    noise_multiplier: float | None = None
    """of the whole plan, seen as one Gaussian; None until calibrated."""

    def __post_init__(self) -> None:
        require_valid("model", self.model, self.model in get_args(Model), " or ".join(get_args(Model)))
        require_valid("days", self.days, type(self.days) is int and self.days >= 1, "a whole number >= 1")
        fits = self.weights.day == 0
        require_valid("weights.day", self.weights.day, fits, "0: a table has no histograms of whole days")
        valid = self.invalid is None or self.invalid in get_args(Invalid)
        require_valid("invalid", self.invalid, valid, " or ".join(get_args(Invalid)))
        self.parts()

    def parts(self) -> tuple[PoissonSum, ...]:
        """The sums that are released, each once and over everybody."""
        clips = {MOVES_PART: CLIPS[self.model], STARTS: places.CLIP}
        if self.model != "markov":
            clips[JUMPS] = places.CLIP
        return tuple(
            PoissonSum(
                name=name,
                steps=1,
                sampling_rate=1.0,
                clip_norm=clip,
                noise_multiplier=self.part_noise_multiplier(name),
                rows_per_unit=self.days * (SLOTS - 1),
                rows="first",
            )
            for name, clip in clips.items()
        )

    def part_noise_multiplier(self, part: str) -> float | None:
        """Noise multiplier of a part: with its share of rho, sigma / sqrt(share)."""
        share = SHARES[part] + (SHARES[JUMPS] if (self.model, part) == ("markov", MOVES_PART) else 0.0)
        return None if self.noise_multiplier is None else self.noise_multiplier / math.sqrt(share)

    def label(self) -> Label:
        """The clauses of the certificate of a calibrated or priced plan."""
        sums = clause("sums_over_all", parts=", ".join(part.name for part in self.parts()))
        cautions = few_people_clause(self.unit if self.promise else None, self.noise_multiplier)
        return label((sums, clause("days_of_one")), cautions=cautions)


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
    run = reserve_run(plan, vault, grid, MOVES_PART)
    (first, *_) = _fit_simulators(plan, vault, run, grid)
    return vault.release(run, first, label=plan.label())


def fit_replicates(plan: BaselinePlan, vault: Vault, *, grid: Grid) -> list[Simulator | BlockChain]:
    """One simulator for each ledger of a vault over simulated records, all in one pass.

    Raises:
        PlanError, PlanExhausted, BudgetExceeded: as `fit`; or there are several ledgers for "markov", whose blocks are
            each ledger's own.
    """
    return _fit_simulators(plan, vault, reserve_run(plan, vault, grid, MOVES_PART), grid)


def vocabulary(starts: StartDistribution, size: int) -> tuple[tuple[int, ...], Floats]:
    """The blocks of largest released weight and their weights [K]; ties go by number."""
    weights = starts.probabilities
    chosen = np.argsort(-weights, kind="stable")[:size]
    return tuple(int(block) for block in chosen), np.asarray(weights[chosen])


def _fit_simulators(
    plan: BaselinePlan, vault: Vault | FederatedVault, run: Run, grid: Grid
) -> list[Simulator | BlockChain]:
    people = vault.unit.size
    noise = {part.name: (part.noise_multiplier or 0.0) * part.clip_norm / people for part in plan.parts()}
    if plan.model == "markov" and len(vault.ledgers) > 1:
        what, remedy = "the blocks of a chain are each ledger's own", "run replicates of this model one after another"
        raise PlanError(what, where="mobility.baselines", expected="a vault with one ledger", remedy=remedy)

    def release_mean(part: str, contribution: Any) -> Floats:
        return vault.noisy_sum(run, part, ZeroContribution(contribution) if plan.zero_contribution else contribution)

    homes = HomeSums.for_people(grid, people, noise[STARTS])
    starts = [homes.read(mean, noise[STARTS]) for mean in release_mean(STARTS, homes)]
    if plan.model == "markov":
        # K, by a public rule: its K^2 numbers hold as much noise as so many people can bear, 3 sqrt(N / sigma).
        multiplier = plan.part_noise_multiplier(MOVES_PART)
        wanted = 3 * math.sqrt(people / multiplier) if multiplier else math.inf
        blocks, weights = vocabulary(starts[0], int(min(max(wanted, FEWEST), MOST)))
        statistic = BlockTransitions(grid, starts[0].factor, blocks)
        (mean,) = release_mean(MOVES_PART, MoveContribution(MeanStatistic(statistic)))
        return [block_chain(statistic, weights, mean, noise[MOVES_PART])]
    jumps = JumpSums.from_grid(grid)
    laws = [jumps.read(mean, noise[JUMPS]) for mean in release_mean(JUMPS, jumps)]
    policies = [policy(plan, mean, noise[MOVES_PART]) for mean in release_mean(MOVES_PART, contribution(plan))]
    invalid = plan.invalid or ("stay" if plan.model == "epr" else "mask")
    return [
        Simulator(grid, learned, start, law, invalid)
        for learned, start, law in zip(policies, starts, laws, strict=True)
    ]


def contribution(plan: BaselinePlan) -> MoveContribution:
    """What one person adds to the moves of a model other than "markov"."""
    if plan.model == "table":
        return MoveContribution(MoveHistograms(plan.layout, plan.weights))
    return MoveContribution(MeanStatistic(ActionFractions() if plan.model == "epr" else RhythmMoments()))


def policy(plan: BaselinePlan, mean: Floats, noise: float) -> TablePolicy:
    """The policy of a model other than "markov", of the released mean [d] with this much noise."""
    if plan.model == "table":
        values, deviations = moves.unscale(mean, noise, plan.layout, plan.weights)
        return TablePolicy(plan.layout, moves.table(values, deviations, plan.layout)[None])
    return epr_policy(mean) if plan.model == "epr" else rhythm(mean, noise).policy()
