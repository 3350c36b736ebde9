"""The curator of a study: holds the records, whose they are, what pays for releases of them, and who is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.study.narration import Narrator
from tacit.study.words import Budget
from tacit.units import Relation, Unit

if TYPE_CHECKING:
    from tacit.study.account import Account, VerbPhrases
    from tacit.study.records import Lead, Source


@dataclass(frozen=True, kw_only=True)
class Curator:
    """What every verb of a study needs to know of it.

    Args:
        source: the records; only their public parts are known.
        relation, population: what neighbouring data sets differ in, and how many units there could be; None where
            nobody declared it, and every promise is refused.
        ledger: file of the budget, where it does not lie beside the records.
        budget: what was declared of it.
        narrator: is told what is promised and how far a run is.
        lead: makes vaults, over the shards of several processes where there are.
    """

    source: Source
    relation: Relation
    population: int | None
    ledger: Path | None
    budget: Budget
    narrator: Narrator
    lead: Lead

    @property
    def unit(self) -> Unit:
        """Whom every promise is made to.

        Raises:
            PlanError: the population is missing or below 2.
        """
        made = None if self.source.movement is None else self.source.movement.people
        return Unit(self.source.unit, self.relation, self.population or made or 0)

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the study itself was told, as the options of a run."""
        return {
            **(self.source.settings or {"data": None if self.source.path is None else self.source.name}),
            "unit": self.source.column or self.source.unit,
            **({} if self.source.column in (None, self.source.unit) else {"unit_name": self.source.unit}),
            "population": self.population,
            "relation": self.relation,
            "ledger": self.ledger,
            **self.budget.declared,
        }

    def delta(self, delta: float | None) -> float:
        """The slack of a promise: as asked for, else a tenth of 1 / population."""
        return 1 / (10 * self.unit.size) if delta is None else delta

    def account(self, words: VerbPhrases, epsilon: float, delta: float, *, resumes: bool = False) -> Account:
        """What pays for one release.

        Args:
            words: how refusals are worded.
            epsilon, delta: the promise.
            resumes: whether a run that was interrupted goes on.
        """
        from tacit.study.account import Account

        return Account(
            sources=() if self.source.path is None else (self.source.path, *self.source.other_files),
            unit=self.unit,
            id_column=self.source.column,
            epsilon=epsilon,
            delta=delta,
            phrases=words,
            ledger=self.ledger,
            budget=self.budget,
            simulated=self.source.path is None,
            resumes=resumes,
            narrator=self.narrator,
        )
