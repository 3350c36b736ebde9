"""What the baselines' plans and runs do alike: one budget of quanta for noisy marginals of a publicly cut table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PlanError
from tacit.methods.synthesis.baselines.counts import Measured
from tacit.methods.synthesis.baselines.tree import Clique
from tacit.methods.synthesis.cut import Cut
from tacit.methods.synthesis.label import BINS, synthesizer_label
from tacit.privacy.mechanisms.marginals import Marginal, Marginals, Query
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Label, Run, exhausted
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

PART = "marginals"

Progress: TypeAlias = Callable[[int, int], None]
"""Called after each measurement with (quanta spent, quanta in all), both public."""


@dataclass(frozen=True, kw_only=True)
class TablePlan(plans.Promising):
    """The public parameters of a baseline that knows the private table by noisy marginals alone.

    Args:
        cut: the public bins of the columns.
        rows_per_unit: rows of one unit that count at most.
        noise_multiplier: sigma of one quantum of the budget; None until the plan is calibrated.
        unit, epsilon, delta: the promise; None until the plan is calibrated.

    Raises:
        PlanError: a value is out of range.
    """

    method: ClassVar[str]
    source: ClassVar[str]
    choices: ClassVar[bool]

    cut: Cut
    rows_per_unit: int = 1
    noise_multiplier: float | None = None
    unit: Unit | None = None
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        self.parts()
        if self.unit is not None and self.delta is not None:
            plans.check_delta(self.delta, self.unit)

    @property
    @abstractmethod
    def quanta(self) -> int:
        """T, the number of equal quanta that the budget is cut into."""

    def parts(self) -> tuple[Marginals, ...]:
        """The only touch of private rows."""
        part = Marginals(
            name=PART,
            steps=self.quanta,
            axes=self.cut.axes,
            noise_multiplier=self.noise_multiplier,
            choices=self.choices,
            rows_per_unit=self.rows_per_unit,
        )
        return (part,)


class Measurements:
    """A run's budget for marginals, spent one measurement after another.

    Args:
        plan: calibrated for the vault's unit; reserved here.
        vault: the private rows and their ledger.
        progress: called after each measurement.

    Raises:
        PlanError: the plan cuts by other bounds than the private data declare.
        PlanExhausted: the plan was begun before.
        BudgetExceeded: the ledger cannot pay for the plan.
    """

    def __init__(self, plan: TablePlan, vault: Vault, progress: Progress | None) -> None:
        if plan.cut.spec != vault.spec:
            raise PlanError(
                "the plan cuts columns by other public bounds than the private data declare",
                where=f"{plan.method} plan",
                expected="a cut of the private data's own public spec",
                remedy="build the plan with Cut(vault.spec, ...)",
            )
        self.run: Run = vault.reserve(plan)
        if vault.touched(self.run):
            raise exhausted(self.run, PART)
        self._vault, self._progress = vault, progress
        self._total, self._sigma, self.left = plan.quanta, plan.noise_multiplier or 0.0, plan.quanta

    def deviation(self, quanta: int) -> float:
        """Standard deviation of a cell of a marginal that takes so many quanta."""
        return self._sigma / float(np.sqrt(quanta))

    def marginal(self, axes: Clique, quanta: int) -> Measured:
        """The noisy counts of some columns."""
        return Measured(axes, self(Marginal(axes, quanta)), self.deviation(quanta))

    def __call__(self, query: Query) -> NDArray[Any]:
        """The noisy answer to one query, paid for."""
        answer = self._vault.measure(self.run, PART, query)
        self.left -= query.quanta
        if self._progress is not None:
            self._progress(self._total - self.left, self._total)
        return answer


def label(plan: TablePlan) -> Label:
    """The certificate's words for a table that is known by its noisy marginals."""
    choices = " and choices between them" if plan.choices else ""
    return synthesizer_label(
        plan.unit,
        touches=(f"all noisy marginals{choices}, within {plan.quanta:,} quanta",),
        sampled="everything sampled from the released tables",
        public=plan.cut.shaped(),
        choices=BINS,
    )
