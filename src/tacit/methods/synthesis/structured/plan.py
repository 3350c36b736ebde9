"""The plan of transitions from structured noisy tables: a few noisy sums of counted rows over everybody."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from tacit.data.spec import PublicSpec
from tacit.methods.synthesis.plan import SynthesisPlan, label, require_provenance
from tacit.methods.synthesis.structured.columns import Rows
from tacit.methods.synthesis.structured.structure import Structure, choose_structure, default_structure
from tacit.parameters import Option
from tacit.privacy.mechanisms.contribution_sets import POSITIVE
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Label, clause
from tacit.units import Unit
from tacit.validation import require_valid, require_whole

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
