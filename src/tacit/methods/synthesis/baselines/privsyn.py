"""PrivSyn (arXiv:2012.15128): the dependent pairs of columns, and records that are moved until they have them.

A tenth of the budget measures how far each pair is from independence, a tenth the columns, and the rest the marginals
that are worth their noise; pairs that hang together are measured together where that stays small.
Marginals are made consistent as in section 4.3 (after CALM, Zhang et al. 2018); records are moved by the gradual update
of section 5.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.methods.synthesis.baselines.graphical import Array, Clique, Measurement, record_count
from tacit.methods.synthesis.baselines.plan import Measurements, SyntheticRecords, TablePlan, TableSynthesizer
from tacit.methods.synthesis.discretisation import Codes
from tacit.methods.synthesis.plan import Progress
from tacit.methods.synthesis.table_matching import project_to_simplex
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.marginals import Dependence
from tacit.privacy.vault.vault import Vault
from tacit.validation import require_whole

_FINENESS = 20
"""Quanta of the marginal of one column; all others are whole numbers of them, too."""


@dataclass(frozen=True, kw_only=True)
class PrivSynPlan(TablePlan):
    """PrivSyn on public bins."""

    method: ClassVar[str] = "synthesis of transitions (PrivSyn)"
    source: ClassVar[str] = "PrivSyn: Differentially Private Data Synthesis (arXiv:2012.15128)"
    choices: ClassVar[bool] = False

    cells: int = 5_000
    """largest marginal that pairs are combined into (the paper's gamma)."""
    records: int = 200_000
    """size of the synthetic table."""
    rounds: int = 60
    """rounds of its gradual update (post-processing)."""

    def __post_init__(self) -> None:
        require_whole(cells=self.cells, records=self.records, rounds=self.rounds)
        super().__post_init__()

    @property
    def quanta(self) -> int:
        """A tenth of them is `_FINENESS` a column."""
        return 10 * _FINENESS * len(self.discretisation.shape)


def fit(
    plan: PrivSynPlan, vault: Vault, *, seed: int = 0, progress: Progress | None = None
) -> Release[TableSynthesizer]:
    """Make a synthesizer under the plan's promise.

    Args:
        plan: calibrated for the vault's unit.
        vault: the private rows and their ledger.
        seed: of the gradual update, which is post-processing.
        progress: called after each measurement.

    Raises:
        PlanError: the plan cuts by other bounds than the private data declare.
        PlanExhausted: the plan was begun before.
        BudgetExceeded: the ledger cannot pay for the plan.
    """
    measurements = Measurements(plan, vault, progress)
    shape = plan.discretisation.shape
    pairs = tuple(combinations(range(len(shape)), 2))
    distances = measurements(Dependence(pairs, plan.quanta // 10))
    singles = [measurements.marginal((column,), _FINENESS) for column in range(len(shape))]
    chosen = select(shape, pairs, distances, math.sqrt(2 / math.pi) * measurements.deviation(measurements.left))
    cliques = combine_pairs(shape, chosen, plan.cells)
    shares = _shares(shape, cliques, measurements.left)
    measured = [measurements.marginal(axes, quanta) for axes, quanta in zip(cliques, shares, strict=True)]
    counts = make_consistent([*singles, *measured])
    goals = {axes: counts[axes] for axes in cliques}
    columns = [counts[(column,)] for column in range(len(shape))]
    rng = np.random.default_rng(seed)
    codes = gradual_update(columns, goals, count=plan.records, rounds=plan.rounds, rng=rng)
    return measurements.release(SyntheticRecords(codes))


def select(shape: Sequence[int], pairs: Sequence[Clique], distances: Array, noise: float) -> list[Clique]:
    """The pairs whose measurement lowers the expected error (algorithm 1, "DenseMarg"), greedily."""
    # A pair that is left out errs by its distance from independence. Those that are measured share the budget in
    # proportion to c^(2/3) for c cells, so that their errors are noise S^(3/2) in all, with S the sum of c^(2/3).
    sizes = np.array([(shape[a] * shape[b]) ** (2 / 3) for a, b in pairs])
    held = np.zeros(len(pairs), bool)
    error = float(distances.sum())
    while not held.all():
        errors = noise * (sizes[held].sum() + sizes) ** 1.5 + distances[~held].sum() - distances
        best = int(np.argmin(np.where(held, np.inf, errors)))
        if errors[best] >= error:
            break
        held[best], error = True, float(errors[best])
    return [pair for pair, taken in zip(pairs, held, strict=True) if taken]


def combine_pairs(shape: Sequence[int], pairs: Sequence[Clique], cells: int) -> list[Clique]:
    """The pairs, where possible inside larger marginals of at most `cells` cells (algorithm 2)."""
    # A larger marginal has only chosen pairs, and shares at most two columns with those taken before it.
    joined = set(pairs)
    cliques, grown = [], [*pairs]
    while grown:
        longer = [(*c, n) for c in grown for n in range(c[-1] + 1, len(shape)) if all((m, n) in joined for m in c)]
        grown = [clique for clique in longer if math.prod(shape[column] for column in clique) <= cells]
        cliques += grown
    taken: list[Clique] = []
    covered: set[int] = set()
    for clique in sorted(cliques, key=lambda clique: (-len(clique), clique)):
        if len(covered & set(clique)) <= 2:
            taken.append(clique)
            covered |= set(clique)
    return [*taken, *(pair for pair in pairs if not any(set(pair) <= set(clique) for clique in taken))]


def _shares(shape: Sequence[int], cliques: Sequence[Clique], quanta: int) -> list[int]:
    """Whole quanta for each marginal, nearly in proportion to (its cells)^(2/3), none without."""
    sizes = np.array([math.prod(shape[column] for column in clique) ** (2 / 3) for clique in cliques])
    ends = np.cumsum(sizes / max(sizes.sum(), 1e-300) if len(sizes) else sizes) * (quanta - len(cliques))
    return [1 + int(share) for share in np.diff(np.floor(ends + 1e-9), prepend=0.0)]


_ROUNDS = 3


def make_consistent(measured: Sequence[Measurement]) -> dict[Clique, Array]:
    """Counts of every measured marginal that add up to one total, nowhere negative, and nearly agree where they
    meet."""
    total = record_count(measured)
    counts = {measurement.axes: measurement.counts for measurement in measured}
    meets = {tuple(sorted(set(a.axes) & set(b.axes))) for a, b in combinations(measured, 2)} - {()}
    for _ in range(_ROUNDS):
        for shared in sorted(meets, key=lambda clique: (len(clique), clique)):
            counts |= _reconcile(shared, [one for one in measured if set(shared) <= set(one.axes)], counts)
        counts = {axes: project_to_simplex(values, total) for axes, values in counts.items()}
    return counts


def _reconcile(shared: Clique, holders: Sequence[Measurement], counts: dict[Clique, Array]) -> dict[Clique, Array]:
    """The holders' counts after each took over the average of their sums over `shared`, weighted by precision."""
    sums, spreads = [], []
    for holder in holders:
        axes = tuple(i for i, column in enumerate(holder.axes) if column not in shared)
        sums.append(counts[holder.axes].sum(axis=axes))
        spreads.append(math.prod(holder.counts.shape[i] for i in axes))
    weights = np.array([holder.precision / spread for holder, spread in zip(holders, spreads, strict=True)])
    mean = np.tensordot(weights / weights.sum(), np.stack(sums), 1)
    result = {}
    for holder, margin, cells in zip(holders, sums, spreads, strict=True):
        sizes = [n if column in shared else 1 for column, n in zip(holder.axes, holder.counts.shape, strict=True)]
        result[holder.axes] = counts[holder.axes] + ((mean - margin) / cells).reshape(sizes)
    return result


_DECAY, _EVERY = 0.84, 20
"""The size of an update shrinks by this factor, once in so many rounds (the authors' code)."""


def gradual_update(
    singles: list[Array], marginals: Mapping[Clique, Array], *, count: int, rounds: int, rng: np.random.Generator
) -> Codes:
    """Records [count, A] whose marginals come near the wanted ones, starting from independent columns."""
    columns = [rng.choice(len(wanted), count, p=wanted / wanted.sum()) for wanted in singles]
    codes: Codes = np.stack(columns, axis=1).astype(np.int32)
    goals = {axes: wanted * (count / wanted.sum()) for axes, wanted in marginals.items()}
    for turn in range(rounds):
        for axes, goal in goals.items():
            _update(codes, axes, goal, _DECAY ** (turn // _EVERY), rng)
    return codes


def _update(codes: Codes, axes: Clique, goal: Array, step: float, rng: np.random.Generator) -> None:
    """Move records from cells with too many to cells with too few."""
    # A cell grows by at most `step` of its own size (an empty one by `step` of its goal), so that later marginals can
    # still be met. Half of the moved records become copies of one that lies in the cell they move to; the others keep
    # their other columns.
    short = np.min_scalar_type(goal.size - 1)  # short whole numbers sort faster
    cells = np.ravel_multi_index(tuple(codes[:, axis] for axis in axes), goal.shape).astype(short)
    present, wanted = np.bincount(cells, minlength=goal.size), goal.ravel()
    missing = np.maximum(wanted - present, 0.0)
    added = np.where(present > 0, np.minimum(missing, step * present), step * missing)
    if added.sum() < 1:
        return
    moved = np.flatnonzero(rng.random(len(codes)) < _leaving_shares(present, wanted, float(added.sum()))[cells])
    ends = np.cumsum(added / added.sum())
    to = np.minimum(np.searchsorted(ends, rng.random(len(moved)), "right"), goal.size - 1)
    copied = (rng.random(len(moved)) < 0.5) & (present[to] > 0)
    order = np.argsort(cells, kind="stable")
    places = np.cumsum(present)[to] - present[to] + (rng.random(len(moved)) * present[to]).astype(np.int64)
    codes[moved[copied]] = codes[order[places[copied]]]
    for axis, values in zip(axes, np.unravel_index(to[~copied], goal.shape), strict=True):
        codes[moved[~copied], axis] = values


def _leaving_shares(present: NDArray[np.int64], wanted: Array, total: float) -> Array:
    """The share of each cell's records that leave: up to its excess, evenly limited so that `total` leave in all."""
    share = np.maximum(present - wanted, 0.0) / np.maximum(present, 1)
    low, high = 0.0, 1.0
    for _ in range(30):
        limit = (low + high) / 2
        low, high = (limit, high) if present @ np.minimum(share, limit) < total else (low, limit)
    return np.minimum(share, high)
