"""Private-PGM on random cliques: the marginals of every column, of random pairs and of random triples.

The baseline "PGM" of the PrivORL paper. Which marginals are measured is drawn from a public seed and not from the data,
so all noise is Gaussian; a third of the budget each goes to columns, pairs and triples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import ClassVar, Self

import numpy as np

from tacit.data.spec import PublicSpec
from tacit.methods.synthesis.baselines import graphical
from tacit.methods.synthesis.baselines.graphical import Clique, model_cells
from tacit.methods.synthesis.baselines.plan import Measurements, TablePlan, TableSynthesizer
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.methods.synthesis.plan import Progress
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.vault import Vault
from tacit.validation import require_whole


@dataclass(frozen=True, kw_only=True)
class PgmPlan(TablePlan):
    """Private-PGM on random pairs and triples."""

    method: ClassVar[str] = "synthesis of transitions (PGM)"
    source: ClassVar[str] = "Graphical-model based estimation and inference for differential privacy (arXiv:1901.09136)"
    choices: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ("mbi",)

    discretisation: Discretisation
    """the public bins of the columns; those of the paper where the command line makes the plan."""
    pairs: int = 50
    """pairs of columns at most; one that would make inference larger than `cells` is passed over."""
    triples: int = 10
    """triples of columns at most, likewise."""
    cells: int = 2**18
    """largest model: cells of the cliques of its junction tree."""
    cliques_seed: int = 0
    """of the public draw of pairs and triples."""
    iterations: int = 500
    """of mirror descent (post-processing)."""

    def __post_init__(self) -> None:
        require_whole(0, pairs=self.pairs, triples=self.triples, cliques_seed=self.cliques_seed)
        require_whole(cells=self.cells, iterations=self.iterations)
        super().__post_init__()

    @classmethod
    def paper(cls, spec: PublicSpec) -> Self:
        """The PrivORL paper's own setting: four bins a column that stand for their middles."""
        return cls(discretisation=Discretisation(spec, bins=4, decoding="center"))

    @classmethod
    def of(cls, discretisation: Discretisation) -> Self:
        """The paper's setting: four bins a column, whatever the bins here are."""
        return cls.paper(discretisation.spec)

    @cached_property
    def cliques(self) -> tuple[tuple[Clique, ...], ...]:
        """What is measured: columns, pairs and triples; a group that is empty is left out."""
        shape, rng = self.discretisation.shape, np.random.default_rng(self.cliques_seed)
        groups: list[list[Clique]] = [[(column,) for column in range(len(shape))]]
        for size, most in ((2, self.pairs), (3, self.triples)):
            chosen: list[Clique] = []
            everything = list(combinations(range(len(shape)), size))
            for index in rng.permutation(len(everything)):
                present = [clique for group in groups for clique in group]
                if len(chosen) < most and model_cells(shape, [*present, *chosen, everything[index]]) <= self.cells:
                    chosen.append(everything[index])
            groups.append(chosen)
        return tuple(tuple(group) for group in groups if group)

    @property
    def quanta(self) -> int:
        """Equal shares for the groups that their cliques divide evenly."""
        sizes = [len(group) for group in self.cliques]
        return len(sizes) * math.lcm(*sizes)


def fit(plan: PgmPlan, vault: Vault, *, seed: int = 0, progress: Progress | None = None) -> Release[TableSynthesizer]:
    """Make a synthesizer under the plan's promise; arguments and errors as of `mst.fit`."""
    graphical.require_mbi()
    measurements = Measurements(plan, vault, progress)
    share = plan.quanta // len(plan.cliques)
    measured = [measurements.marginal(clique, share // len(group)) for group in plan.cliques for clique in group]
    tree = graphical.estimate(plan.discretisation.shape, measured, iterations=plan.iterations)
    return measurements.release(tree)
