"""Simulators of movement to compare with: the private table of actions, DP-EPR, a rhythm like TimeGeo, a chain.

What each baseline counts of a day, the simulator that is read out of people's noisy means, and the plan: which model,
how the budget is spread, and its run, noisy sums of its parts, each once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.data.mobility.days import EXPLORE, HOME, SLOTS, STAY, Days, actions, days_of, distinct_counts
from tacit.data.mobility.grids import Grid
from tacit.envs.movement import Invalid
from tacit.errors import PlanError
from tacit.methods.mobility import moves, places
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

__all__ = ["BaselinePlan", "Model", "fit", "fit_replicates"]

Rows = Mapping[str, NDArray[Any]]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Statistic(Protocol):
    """What is counted of a day: a frozen dataclass whose fields are public."""

    @property
    def size(self) -> int:
        """d."""

    def __call__(self, days: Ints) -> Floats:
        """Cells [n, 48] -> [n, d], each day alone."""


@dataclass(frozen=True)
class MeanStatistic:
    """Every person's mean of a statistic over her whole days, zero for a person without any; kept in the vault."""

    statistic: Statistic

    def __call__(self, rows: Rows) -> dict[str, Floats]:
        """Rows of U people -> "vector" [U, d]."""
        days, owner = days_of(rows)
        people = len(rows["mask"])
        totals = np.zeros((people, self.statistic.size))
        np.add.at(totals, owner, self.statistic(days))
        return {"vector": totals / np.maximum(np.bincount(owner, minlength=people), 1)[:, None]}


EPR_CLIP = 0.65
"""The largest norm of one person's fractions: half a day of stays and the rest evenly spread has .6."""
LEAST_SHARE = 1e-3
"""The least probability of an action that a release is read as."""


@dataclass(frozen=True)
class ActionFractions:
    """Of exploration and preferential return: fractions of the papers' four actions among a day's steps. Song, Koren,
    Wang & Barabasi (doi:10.1038/nphys1760), with a constant distribution over actions, which is what the published
    simulator of PATEGAIL plays when nothing is learnt."""

    size: ClassVar[int] = 4

    def __call__(self, days: Ints) -> Floats:
        """Cells [n, 48] -> [n, 4]."""
        taken = actions(days, last=False)
        return np.stack([(taken == action).mean(axis=1) for action in range(self.size)], axis=1)


def epr_policy(noisy: Floats) -> TablePolicy:
    """The policy of noisy mean fractions [4], the same in every state; none is read as less than `LEAST_SHARE`."""
    shares = np.maximum(noisy, 0.0)
    positive = np.maximum(shares / max(float(shares.sum()), 1e-12), LEAST_SHARE)
    everywhere = StateLayout(stays=(1,))
    return TablePolicy(everywhere, np.tile(positive / positive.sum(), (1, everywhere.size, 1)))


TIMEGEO_CLIP = 0.35
"""The largest norm of one person's shares of steps, which add up to about 2 in 34 numbers."""
BLOCKS = 8
"""Blocks of three hours in which the rhythm is constant."""
PLACES = (2, 3, 4, 6)
"""Numbers of places S, up to the next of them, by which explorations and returns are counted."""
_LEAST, _MOST = 1e-4, 0.95


@dataclass(frozen=True)
class RhythmMoments:
    """Of the TimeGeo-like model: shares of a day's 47 steps, 34 numbers. By block: at home and staying, leaving home,
    away (8 each); moving on from away to another place, and home; and, of steps with a choice between a new place and
    one of the day's others, explorations and returns by places S (4 each)."""

    size: ClassVar[int] = 3 * BLOCKS + 2 + 2 * len(PLACES)

    def __call__(self, days: Ints) -> Floats:
        """Cells [n, 48] -> [n, 34]."""
        taken, places = actions(days, last=False), distinct_counts(days)[:, :-1]
        home, stays = days[:, :-1] == days[:, :1], taken == STAY
        flags = np.stack([home & stays, home & ~stays, ~home]).astype(np.float64)
        starts = np.searchsorted(np.arange(SLOTS - 1) * BLOCKS // SLOTS, np.arange(BLOCKS))
        blocks = np.moveaxis(np.add.reduceat(flags, starts, axis=2), 0, 1).reshape(len(days), 3 * BLOCKS)
        elsewhere = ~home & ~stays & (taken != HOME)
        away = np.stack([elsewhere.sum(axis=1), (~home & (taken == HOME)).sum(axis=1)], axis=1)
        choice = (places > np.where(home, 1, 2)) & ~stays & (taken != HOME)
        group = np.searchsorted(PLACES, places, side="right") - 1
        chosen = [
            (choice & (group == g) & ((taken == EXPLORE) == new)).sum(axis=1)
            for new in (True, False)
            for g in range(len(PLACES))
        ]
        return np.concatenate([blocks, away, np.stack(chosen, axis=1)], axis=1) / (SLOTS - 1)


@dataclass(frozen=True)
class Rhythm:
    """A model after TimeGeo: a daily rhythm, bursts away from home, preferential return. Jiang, Yang, Gupta, Veneziano,
    Athavale & Gonzalez (PNAS 2016, doi:10.1073/pnas.1524261113): somebody at home leaves with the probability n_w P(t)
    of the time of day, somebody away moves on with beta_1 times as much, and then to another place, rather than home,
    with beta_2 times as much; another place is a new one with probability rho S^-gamma after S places. TimeGeo fits
    these to each person; here they are the population's, from means of people's own shares of steps, and places are
    remembered for a day."""

    leave: tuple[float, ...]  # n_w P(t), the probability of leaving home in each block
    burst: float  # beta_1; a person away moves with beta_1 n_w P(t)
    onward: float  # beta_2; and then to another place with beta_2 n_w P(t)
    rho: float  # rho, gamma: a new place with probability rho S^-gamma after S places
    gamma: float

    def policy(self) -> TablePolicy:
        """The model as a policy of the four actions; a person without another place to return to explores."""
        places = np.arange(1, SLOTS + 1)
        layout = StateLayout(times=BLOCKS, counts=tuple(places.tolist()), stays=(1,))
        home = np.array([False, True])
        rate = np.asarray(self.leave)[:, None, None]
        moving = np.where(home, rate, np.minimum(self.burst * rate, _MOST))
        elsewhere = np.where(home, 1.0, np.minimum(self.onward * rate, _MOST))
        new = np.minimum(self.rho * places[:, None] ** -self.gamma, 1.0)
        new = np.where(places[:, None] > np.where(home, 1, 2), new, 1.0)
        moved = moving * elsewhere
        shape = (BLOCKS, SLOTS, 2)
        columns = (1 - moving, moved * new, moving * (1 - elsewhere), moved * (1 - new))
        table = np.stack([np.broadcast_to(column, shape) for column in columns], axis=-1)
        return TablePolicy(layout, table.reshape(1, layout.size, 4))


def rhythm(noisy: Floats, noise: float) -> Rhythm:
    """The model of noisy mean moments [34] with this much noise, by the method of moments."""
    # The rhythm is drawn to its mean as far as noise explains it (James and Stein). beta_1 makes the moves from away,
    # and beta_2 those of them that go to another place, as many as they are at the released times of being away; rho
    # and gamma have the largest binomial likelihood on a public grid. Negative shares are read as none.
    staying, leaving, away = noisy[: 3 * BLOCKS].reshape(3, BLOCKS)
    onward, homeward = np.maximum(noisy[3 * BLOCKS : 3 * BLOCKS + 2], 0.0)
    new, old = np.maximum(noisy[3 * BLOCKS + 2 :], 0.0).reshape(2, len(PLACES))
    leave, away = _rhythm(staying, leaving, noise), np.maximum(away, 0.0)
    burst = (onward + homeward) / max(float(away @ leave), 1e-6)
    beta = onward / max(burst * float(away @ leave**2), 1e-6)
    rho, gamma = _exploration(new, old)
    return Rhythm(tuple(float(p) for p in leave), float(burst), float(beta), rho, gamma)


def _rhythm(staying: Floats, leaving: Floats, noise: float) -> Floats:
    """Probabilities of leaving home [8] from shares of staying and leaving."""
    home = staying + leaving
    rate = float(np.clip(leaving.sum() / max(home.sum(), 1e-3), _LEAST, _MOST))
    apart = leaving - rate * home
    explained = BLOCKS * noise**2 * ((1 - rate) ** 2 + rate**2) / max(float(apart @ apart), 1e-12)
    spread = max(0.0, 1.0 - explained) * apart / np.maximum(home, max(home.mean(), 1e-3) / 2)
    return np.asarray(np.clip(rate + spread, _LEAST, _MOST))


def _exploration(new: Floats, old: Floats) -> tuple[float, float]:
    from scipy import special

    rho, gamma = (axis.ravel() for axis in np.meshgrid(np.linspace(0.05, 1.0, 20), np.linspace(0.0, 2.0, 41)))
    chance = np.clip(rho[:, None] * np.asarray(PLACES, float) ** -gamma[:, None], 1e-3, 1 - 1e-3)
    best = int(np.argmax((special.xlogy(new, chance) + special.xlogy(old, 1 - chance)).sum(axis=1)))
    return float(rho[best]), float(gamma[best])


MARKOV_CLIP = 0.25
"""The largest norm of one person's shares of transitions."""
STAYING = 0.3
"""What steps within a block count: they are by far the most, and one person's take up room for what else there is."""
THRESHOLD = 3.0
"""Shares below so many standard deviations of the noise may be noise."""


@dataclass(frozen=True)
class BlockTransitions:
    """Shares of a day's 47 steps that lead from one block to another, of those within the vocabulary; those that stay
    in a block count `STAYING` each. The first number is the share of all that lead to another block."""

    grid: Grid  # the public grid
    factor: int  # cells along the side of a block
    # the K blocks, public: those of largest weight in the release of where days start, so that no list of visited
    # places is taken from records
    vocabulary: tuple[int, ...]

    @property
    def size(self) -> int:
        """1 + K^2."""
        return 1 + len(self.vocabulary) ** 2

    def __call__(self, days: Ints) -> Floats:
        """Cells [n, 48] -> [n, 1 + K^2], rows by where a step begins."""
        blocks, size = self.grid.coarsen(days, self.factor), len(self.vocabulary)
        order = np.argsort(self.vocabulary)
        sorted_vocabulary = np.asarray(self.vocabulary)[order]
        place = np.minimum(np.searchsorted(sorted_vocabulary, blocks), size - 1)
        names = np.where(sorted_vocabulary[place] == blocks, order[place], -1)
        origin, destination = names[:, :-1], names[:, 1:]
        day, step = np.nonzero((origin >= 0) & (destination >= 0))
        cell = day * size**2 + origin[day, step] * size + destination[day, step]
        counts = np.bincount(cell, minlength=len(days) * size**2).reshape(len(days), size, size) / (SLOTS - 1)
        moving = counts.sum(axis=(1, 2)) - np.trace(counts, axis1=1, axis2=2)
        counts = counts * (1 - (1 - STAYING) * np.eye(size))
        return np.concatenate([moving[:, None], counts.reshape(len(days), size**2)], axis=1)


@dataclass(frozen=True, eq=False)
class BlockChain:
    """The simulator: days of blocks, each block a uniform cell of it that is drawn again for every day."""

    grid: Grid  # grid, factor, vocabulary: as for `BlockTransitions`
    factor: int
    vocabulary: tuple[int, ...]
    starts: Floats  # [K] probabilities of the first block
    matrix: Floats  # [K, K] probabilities of the next block

    def generate(self, days: int, *, seed: int = 0) -> Days:
        """So many days, each of a person of its own."""
        rng = np.random.default_rng(seed)
        upto = np.cumsum(self.matrix, axis=1)
        upto[:, -1] = 1.0
        visited = np.empty((days, SLOTS), np.int64)
        visited[:, 0] = rng.choice(len(self.starts), size=days, p=self.starts)
        for slot in range(1, SLOTS):
            visited[:, slot] = (rng.random(days)[:, None] >= upto[visited[:, slot - 1]]).sum(axis=1)
        blocks = np.tile(np.asarray(self.vocabulary), days)
        cells = self.grid.draw_within(blocks, self.factor, rng).reshape(days, -1)
        return Days(np.take_along_axis(cells, visited, axis=1), np.arange(days), self.grid)


def block_chain(statistic: BlockTransitions, starts: Floats, noisy: Floats, noise: float) -> BlockChain:
    """The chain of noisy mean shares [1 + K^2] with this much noise, and of the blocks' released weights [K]."""
    # Shares that may be noise are left out. As much weight as one of them could have goes to a common law instead: to
    # stay as often as everybody does, and else to go to a block by its weight.
    size = len(statistic.vocabulary)
    weights = np.maximum(starts, 0.0) + 1e-12
    weights /= weights.sum()
    scale, doubt = 1 - (1 - STAYING) * np.eye(size), max(THRESHOLD * noise, 1e-12)
    released = noisy[1:].reshape(size, size)
    staying = max(float(np.trace(released)) / STAYING, 1e-3)
    common = staying * np.eye(size) + max(float(noisy[0]), 1e-3) * weights
    common /= common.sum(axis=1, keepdims=True)
    shares = np.where(released > doubt, released, 0.0) / scale
    matrix = (shares + doubt * common) / (shares.sum(axis=1, keepdims=True) + doubt)
    return BlockChain(statistic.grid, statistic.factor, statistic.vocabulary, weights, matrix)


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
