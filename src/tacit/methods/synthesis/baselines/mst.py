"""MST (arXiv:2108.04978): the marginals of every column and of the pairs of a spanning tree that the data chose.

A third of the budget measures each column, a third chooses the tree by the exponential mechanism, a third measures its
pairs; a graphical model through `mbi` is fitted to all of it. The authors' code merges rare bins in between; here bins
stay as the public cut has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from tacit.methods.synthesis.baselines import graphical
from tacit.methods.synthesis.baselines.graphical import Clique, Measurement, record_count
from tacit.methods.synthesis.baselines.plan import Measurements, TablePlan, TableSynthesizer
from tacit.methods.synthesis.plan import Progress
from tacit.methods.synthesis.table_matching import project_to_simplex
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.marginals import MarginalChoice
from tacit.privacy.vault.vault import Vault
from tacit.validation import require_whole


@dataclass(frozen=True, kw_only=True)
class MstPlan(TablePlan):
    """MST on public bins."""

    method: ClassVar[str] = "synthesis of transitions (MST)"
    source: ClassVar[str] = "Winning the NIST Contest (arXiv:2108.04978)"
    choices: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("mbi",)

    iterations: int = 1_000
    """of mirror descent (post-processing)."""

    def __post_init__(self) -> None:
        require_whole(iterations=self.iterations)
        super().__post_init__()

    @property
    def quanta(self) -> int:
        """Three equal shares that A columns and the A - 1 edges of a tree divide evenly."""
        columns = len(self.discretisation.shape)
        return 3 * columns * (columns - 1)


def fit(plan: MstPlan, vault: Vault, *, seed: int = 0, progress: Progress | None = None) -> Release[TableSynthesizer]:
    """Make a synthesizer under the plan's promise.

    Args:
        plan: calibrated for the vault's unit.
        vault: the private rows and their ledger.
        seed: not used: nothing in MST is drawn outside the vault.
        progress: called after each measurement.

    Raises:
        PlanError: `mbi` is missing, or the plan cuts by other bounds than the private data declare.
        PlanExhausted: the plan was begun before.
        BudgetExceeded: the ledger cannot pay for the plan.
    """
    graphical.require_mbi()
    measurements = Measurements(plan, vault, progress)
    shape = plan.discretisation.shape
    columns = len(shape)
    measured = [measurements.marginal((column,), columns - 1) for column in range(columns)]
    pairs = _spanning_tree(measurements, measured, columns)
    measured += [measurements.marginal(pair, columns) for pair in pairs]
    tree = graphical.estimate(shape, measured, iterations=plan.iterations)
    return measurements.release(tree)


def _spanning_tree(measurements: Measurements, singles: list[Measurement], quanta: int) -> list[Clique]:
    """Kruskal's algorithm with noisy choices: pairs that independent columns fit worst, joining part by part."""
    total = record_count(singles)
    counts = [project_to_simplex(single.counts, total) for single in singles]
    home = list(range(len(singles)))
    pairs: list[Clique] = []
    while len(set(home)) > 1:
        joining = tuple(pair for pair in combinations(range(len(home)), 2) if home[pair[0]] != home[pair[1]])
        chosen = 0
        if len(joining) > 1:
            expected = [np.outer(counts[a], counts[b]) / total for a, b in joining]
            even, none = [1.0] * len(joining), [0.0] * len(joining)
            chosen = int(measurements(MarginalChoice(joining, expected, even, none, quanta))[0])
        a, b = joining[chosen]
        home = [home[a] if part == home[b] else part for part in home]
        pairs.append((a, b))
    return pairs
