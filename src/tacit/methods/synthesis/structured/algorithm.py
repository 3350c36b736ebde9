"""Transitions from structured noisy tables.

Input: rows behind a vault, a structure that public rows or the spec decided, a calibrated plan
1. g <- vault.noisy_sum: three coarse bins of each action in fine cells of the observation               (guides.py)
2. m <- the expected action in every cell, from coarse cells to fine, beginning with public means        (guides.py)
3. t <- vault.noisy_sum: of every column, its bins by the bins of its parents, m among them              (structure.py)
4. laws <- the tables, finer only as far as noise lets them                                              (`laws.py`)
5. release m and the laws; drawing rows, column by column, is post-processing
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import PublicSpec
from tacit.errors import PlanError
from tacit.methods import load_class
from tacit.methods.synthesis.discretisation import to_trajectories
from tacit.methods.synthesis.laws import draw, estimate_laws
from tacit.methods.synthesis.plan import Progress, SynthesisPlan, label, require_provenance
from tacit.methods.synthesis.structured.columns import Floats, Rows
from tacit.methods.synthesis.structured.guides import PARTS, GuideMeans
from tacit.methods.synthesis.structured.structure import Structure, choose_structure, default_structure
from tacit.parameters import Option
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.contribution_sets import POSITIVE
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.mechanisms.tallies import Tally
from tacit.privacy.sentences import Label, clause
from tacit.privacy.vault.base import exhausted_error
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit.validation import require_valid, require_whole

if TYPE_CHECKING:
    from tacit.data.trajectories import Trajectories

GUIDES, TABLES, SMALL = "guides", "tables", "small_tables"
MOST_CELLS_IN_ALL = 2**24
WEIGHTS = {GUIDES: 1.0, TABLES: 1.0, SMALL: 0.1}
"""Of a table in the budget: those whose cells hold many rows bear more noise."""


@dataclass(frozen=True, kw_only=True)
class StructuredPlan(SynthesisPlan):
    """The public parameters of transitions from structured noisy tables.

    `noise_multiplier` is that of one Gaussian that costs as much as all sums together.
    """

    method: ClassVar[str] = "synthesis of transitions (structured tables)"
    source: ClassVar[str] = "Structured noisy tables of transitions (tacit)"

    structure: Structure
    """what is counted together, decided by the public spec or on public rows."""
    provenance: str = ""
    """where the public rows come from that decided the structure, and why they contain no private record. Declared,
    printed in the certificate, never inferred."""
    rows_per_unit: Option[int] = 1
    """rows of one unit that count at most."""
    clip_norm: float = 1.0
    """bound on the L2 norm of one unit's tables together, over the square root of their number; one row attains 1."""

    def __post_init__(self) -> None:
        require_whole(rows_per_unit=self.rows_per_unit)
        table = self.structure.table
        cells = sum(self.structure.size(i) for i in range(len(table.columns)))
        cells += sum(guide.size(table) for guide in self.structure.guides)
        require_valid("structure", cells, cells <= MOST_CELLS_IN_ALL, f"tables of at most {MOST_CELLS_IN_ALL:,} cells")
        if table.prediction or self.structure.guides:  # what the bounds alone do not decide
            require_provenance(self.provenance)
        require_valid("clip_norm", self.clip_norm, 0 < self.clip_norm <= 1, "a number in (0, 1]")
        super().__post_init__()

    @classmethod
    def choose(
        cls,
        spec: PublicSpec,
        *,
        unit: Unit,
        epsilon: float,
        worlds: Sequence[Rows] = (),
        provenance: str = "",
        **settings: Any,
    ) -> Self:
        """The plan whose structure public rows choose for the noise of this promise, or without these the bounds.

        Args:
            spec: the public bounds of the private data.
            unit: of the promise; delta is taken to be a tenth of one over its population.
            epsilon: of the promise.
            worlds: public rows, columns by name each, of worlds that differ in their laws (`split_worlds`).
            provenance: where these come from and why they contain no private record.
            settings: other fields.

        Raises:
            DataError: the observation is a Box and `spec.difference` is not declared.
        """
        plain = default_structure(spec, unit.size, 1.0)
        alone = cls(structure=plain).calibrate(unit=unit, epsilon=epsilon, delta=0.1 / unit.size)
        sigma = float(alone.noise_multiplier or 0.0)
        if worlds:
            structure = choose_structure(spec, worlds, rows=unit.size, multiplier=sigma)
        else:
            structure = default_structure(spec, unit.size, sigma * math.sqrt(len(plain.parents)))
        return cls(structure=structure, provenance=provenance, **settings)

    @property
    def spec(self) -> PublicSpec:
        """The public bounds."""
        return self.structure.table.spec

    def parts(self) -> tuple[PoissonSum, ...]:
        """The only touch of private rows: a noisy sum each over everybody."""
        named = {name: count for name, count in zip(WEIGHTS, self.structure.counts, strict=True) if count}
        whole, sigma = sum(WEIGHTS[name] * count for name, count in named.items()), self.noise_multiplier
        return tuple(
            PoissonSum(
                name=name,
                steps=1,
                sampling_rate=1.0,
                clip_norm=self.clip_norm * math.sqrt(count),
                noise_multiplier=None if sigma is None else sigma * math.sqrt(whole / (WEIGHTS[name] * count)),
                rows_per_unit=self.rows_per_unit,
                blocks=POSITIVE,
            )
            for name, count in named.items()
        )

    def label(self) -> Label:
        """The certificate's statements."""
        public = (clause("bins_shaped", words=self.provenance),) if self.provenance else ()
        return label(clause("histograms", tables=sum(self.structure.counts)), public=public, choices="bins_chosen")


@dataclass(frozen=True)
class GuideCounts:
    """Rows by cell of each guide and coarse bin of its action (a `Tally`)."""

    structure: Structure

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each table."""
        return tuple(guide.size(self.structure.table) for guide in self.structure.guides)

    def cells(self, rows: Rows, state: None) -> list[NDArray[np.int64]]:
        """The cell of every row in each table."""
        table = self.structure.table
        values = table.values(rows)
        return [guide.codes(table, values) for guide in self.structure.guides]


@dataclass(frozen=True)
class ColumnCounts:
    """Rows by the parents' cell and the bin of each column, of small tables or of the others (a `Tally`)."""

    structure: Structure
    small: bool

    @property
    def columns(self) -> list[int]:
        """Which columns."""
        return [i for i in range(len(self.structure.parents)) if self.structure.is_small(i) == self.small]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each table."""
        return tuple(self.structure.size(i) for i in self.columns)

    def cells(self, rows: Rows, state: Sequence[Floats]) -> list[NDArray[np.int64]]:
        """The cell of every row in each table; `state` are the means in the cells of each guide."""
        structure = self.structure
        values = structure.table.values(rows)
        means = guide_values(structure, values, state)
        found = []
        for i in self.columns:
            own = structure.table.columns[i].own
            found.append(structure.cells(i, values, means) * own.size + own.encode(values[i]))
        return found


def guide_values(structure: Structure, values: Sequence[Floats], means: Sequence[Floats]) -> list[Floats]:
    """Of each guide, the expected action of every row [N]."""
    pairs = zip(structure.guides, means, strict=True)
    return [mean[guide.cells(structure.table, values)] for guide, mean in pairs]


@dataclass(frozen=True, eq=False)
class StructuredSynthesizer:
    """Laws of transitions that have left the vault.

    Args:
        plan: the public parameters that they were made with.
        means: of each guide, the expected action in each of its cells.
        laws: of each column, its law in each cell of its parents, [cells, bins].
    """

    plan: StructuredPlan
    means: tuple[Floats, ...]
    laws: tuple[Floats, ...]

    def __repr__(self) -> str:
        return f"StructuredSynthesizer({len(self.laws)} columns, {sum(law.size for law in self.laws):,} cells)"

    def sample_columns(self, count: int, *, seed: int) -> dict[str, NDArray[Any]]:
        """`count` independent transitions as columns of raw units inside the public bounds; `seed` is public."""
        rng, structure = np.random.default_rng(seed), self.plan.structure
        values: list[Floats] = []
        means: list[Floats] = []
        for i, (column, law) in enumerate(zip(structure.table.columns, self.laws, strict=True)):
            if column.role == "action" and not means:
                means = guide_values(structure, values, self.means)
            known = values or [np.zeros(count)]
            values.append(column.own.draw(draw(law, structure.cells(i, known, means), rng), rng))
        return structure.table.rows(values)

    def sample(self, count: int, *, seed: int = 0) -> Trajectories:
        """`count` independent transitions as a data set that belongs to nobody, one unit a row."""
        return to_trajectories(self.sample_columns(count, seed=seed), self.plan.spec)

    def to_json(self) -> dict[str, Any]:
        """What `arrays` and the plan do not hold."""
        return {"plan": type(self.plan).__name__}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All laws and means, by their place."""
        laws = {f"law.{i}": law for i, law in enumerate(self.laws)}
        return laws | {f"mean.{i}": mean for i, mean in enumerate(self.means)}

    @classmethod
    def from_saved(
        cls, plan: Mapping[str, Any], fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> StructuredSynthesizer:
        """The value of which `privacy.plan.public_fields(plan)`, `to_json` and `arrays` were kept.

        Raises:
            KeyError, TypeError, ValueError, TacitError: something is missing or does not fit.
        """
        made_by = load_class("plan", fields["plan"]).from_json(plan)
        structure = made_by.structure
        laws = tuple(np.asarray(arrays[f"law.{i}"], np.float64) for i in range(len(structure.parents)))
        means = tuple(np.asarray(arrays[f"mean.{i}"], np.float64) for i in range(len(structure.guides)))
        shapes = [(int(np.prod(structure.shape(i))), structure.table.columns[i].own.size) for i in range(len(laws))]
        if [law.shape for law in laws] != shapes or not all(np.allclose(law.sum(axis=1), 1) for law in laws):
            raise ValueError("laws of another structure")
        if [mean.size * PARTS for mean in means] != [guide.size(structure.table) for guide in structure.guides]:
            raise ValueError("means of another structure")
        return cls(made_by, means, laws)


def fit(
    plan: StructuredPlan,
    vault: Vault,
    *,
    means: Sequence[GuideMeans] = (),
    seed: int = 0,
    progress: Progress | None = None,
) -> Release[StructuredSynthesizer]:
    """Learn a table of transitions under the plan's promise.

    Args:
        plan: calibrated for the vault's unit.
        vault: the private rows and their ledger.
        means: what public rows say of the structure's guides, one each (`public_means`).
        seed: not used: nothing is drawn outside the vault.
        progress: called after each sum.

    Raises:
        PlanError: the plan has other bounds than the private data declare, or guides without public means.
        PlanExhausted: the plan was begun before.
        BudgetExceeded: the ledger cannot pay for the plan.
    """
    structure = plan.structure
    if plan.spec != vault.spec:
        what = "the plan has other public bounds than the private data declare"
        expected, remedy = "the private data's own public spec", "choose the structure for vault.spec"
        raise PlanError(what, where=f"{plan.method} plan", expected=expected, remedy=remedy)
    if [one.guide for one in means] != list(structure.guides):
        what, expected = "the means are not of the structure's guides", "one of each guide"
        raise PlanError(what, where=f"{plan.method} plan", expected=expected, remedy="make them with public_means")
    run = vault.reserve(plan)
    parts = {part.name: part for part in plan.parts()}
    if vault.has_started(run):
        raise exhausted_error(run, next(iter(parts)))

    def release(name: str, tally: Tally, state: Any) -> list[Floats]:
        """The noisy tables of a part."""
        total: Floats = vault.noisy_sum(run, name, tally, state)[0] * parts[name].divisor(vault.unit)
        if progress is not None:
            progress(list(parts).index(name) + 1, len(parts))
        return np.split(total, np.cumsum(tally.sizes)[:-1])

    deviation = {name: part.noise_scale for name, part in parts.items()}
    guided: list[Floats] = []
    if GUIDES in parts:
        counts = release(GUIDES, GuideCounts(structure), None)
        guided = [public.means(one, deviation[GUIDES]) for public, one in zip(means, counts, strict=True)]
    laws: dict[int, Floats] = {}
    for name, small in ((TABLES, False), (SMALL, True)):
        if name in parts:
            tally = ColumnCounts(structure, small)
            for i, noisy in zip(tally.columns, release(name, tally, tuple(guided)), strict=True):
                laws[i] = estimate_laws(noisy, structure.shape(i), deviation[name], structure.ordinal(i))
    made = StructuredSynthesizer(plan, tuple(guided), tuple(laws[i] for i in sorted(laws)))
    return vault.release(run, made, label=plan.label())
