"""PrivSyn (arXiv:2012.15128): the dependent pairs of columns, and records that are moved until they have them.

A tenth of the budget measures how far each pair is from independence, a tenth the columns, and the rest the marginals
that are worth their noise; pairs that hang together are measured together where that stays small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from tacit.methods.synthesis.baselines.consistency import consistent
from tacit.methods.synthesis.baselines.gum import gradual_update
from tacit.methods.synthesis.baselines.plan import Measurements, Progress, TablePlan, label
from tacit.methods.synthesis.baselines.released import Records, TableSynthesizer
from tacit.methods.synthesis.baselines.tree import Array, Clique
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.marginals import Dependence
from tacit.privacy.vault.vault import Vault
from tacit.validation import check

_FINENESS = 20
"""Quanta of the marginal of one column; all others are whole numbers of them, too."""


@dataclass(frozen=True, kw_only=True)
class PrivSynPlan(TablePlan):
    """PrivSyn on public bins.

    Args:
        cut, rows_per_unit, noise_multiplier, unit, epsilon, delta: see `TablePlan`.
        cells: largest marginal that pairs are combined into (the paper's gamma).
        records, rounds: size of the synthetic table, and rounds of its gradual update (post-processing).

    Raises:
        PlanError: a value is out of range.
    """

    method: ClassVar[str] = "synthesis of transitions (PrivSyn)"
    source: ClassVar[str] = "PrivSyn: Differentially Private Data Synthesis (arXiv:2012.15128)"
    choices: ClassVar[bool] = False

    cells: int = 5_000
    records: int = 200_000
    rounds: int = 60

    def __post_init__(self) -> None:
        for name in ("cells", "records", "rounds"):
            value = getattr(self, name)
            check(name, value, type(value) is int and value >= 1, "a whole number >= 1")
        super().__post_init__()

    @property
    def quanta(self) -> int:
        """A tenth of them is `_FINENESS` a column."""
        return 10 * _FINENESS * len(self.cut.shape)


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
    ask = Measurements(plan, vault, progress)
    shape = plan.cut.shape
    pairs = tuple(combinations(range(len(shape)), 2))
    distances = ask(Dependence(pairs, plan.quanta // 10))
    singles = [ask.marginal((column,), _FINENESS) for column in range(len(shape))]
    chosen = select(shape, pairs, distances, math.sqrt(2 / math.pi) * ask.deviation(ask.left))
    cliques = combined(shape, chosen, plan.cells)
    measured = [
        ask.marginal(axes, quanta) for axes, quanta in zip(cliques, _shares(shape, cliques, ask.left), strict=True)
    ]
    counts = consistent([*singles, *measured])
    goals = {axes: counts[axes] for axes in cliques}
    columns = [counts[(column,)] for column in range(len(shape))]
    rng = np.random.default_rng(seed)
    codes = gradual_update(columns, goals, count=plan.records, rounds=plan.rounds, rng=rng)
    return vault.release(ask.run, TableSynthesizer(plan, Records(codes)), label=label(plan))


def select(shape: Sequence[int], pairs: Sequence[Clique], distances: Array, noise: float) -> list[Clique]:
    """The pairs whose measurement lowers the expected error (algorithm 1, "DenseMarg"), greedily.

    A pair that is left out errs by its distance from independence. Those that are measured share the budget in
    proportion to c^(2/3) for c cells, so that their errors are noise S^(3/2) in all, with S the sum of c^(2/3).

    Args:
        distances: noisy distance of each pair, in records.
        noise: expected error of one cell if a single marginal had the whole budget.
    """
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


def combined(shape: Sequence[int], pairs: Sequence[Clique], cells: int) -> list[Clique]:
    """The pairs, where possible inside larger marginals of at most `cells` cells (algorithm 2).

    A larger marginal has only chosen pairs, and shares at most two columns with those taken before it.
    """
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
