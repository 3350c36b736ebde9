"""Raking without a model: independent columns, weighted to agree with noisy histograms of several columns.

Every column is drawn by itself from its own released histogram; the rows are then weighted as those of a diffusion
model would be. Without tables of several columns these are "independent columns", the plainest synthesizer of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.data.trajectories import Trajectories
from tacit.methods.synthesis.histograms import asked, resampled, simplex
from tacit.methods.synthesis.label import BINS, synthesizer_label
from tacit.methods.synthesis.raking import PART, Raking
from tacit.methods.synthesis.rows import as_trajectories
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Label, exhausted
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit


@dataclass(frozen=True, kw_only=True)
class RakingPlan(plans.Promising):
    """The public parameters of raking without a model.

    Args:
        raking: the tables; its `noise` has no meaning here.
        noise_multiplier: sigma of the histograms; None until the plan is calibrated.
        unit, epsilon, delta: the promise; None until the plan is calibrated.

    Raises:
        PlanError: a value is out of range.
    """

    method: ClassVar[str] = "synthesis of transitions (raking alone)"
    source: ClassVar[str] = "Deming & Stephan 1940, doi:10.1214/aoms/1177731829"

    raking: Raking
    noise_multiplier: float | None = None
    unit: Unit | None = None
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        self.parts()
        if self.unit is not None:
            self.raking.require_memory(self.unit)
        if self.unit is not None and self.delta is not None:
            plans.check_delta(self.delta, self.unit)

    def parts(self) -> tuple[PoissonSum]:
        """The only touch of private rows."""
        return (self.raking.part(self.noise_multiplier),)


@dataclass(frozen=True, eq=False)
class RakedColumns:
    """Histograms that have left the vault, and the rows that can be drawn from them.

    Args:
        plan: the public parameters that they were made with.
        histograms: [sum of `plan.raking.sizes`].

    Raises:
        ValueError: there are not as many numbers.
    """

    plan: RakingPlan
    histograms: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.histograms.shape != (sum(self.plan.raking.sizes),):
            raise ValueError("the histograms have other bins than the plan")

    def sample_columns(self, count: int, *, seed: int) -> dict[str, NDArray[Any]]:
        """`count` rows of a larger sample, drawn by their weights, as columns of raw units inside the public bounds.

        Args:
            count: how many rows.
            seed: of the sampling; public, since sampling is post-processing.
        """
        raking, (part,), unit = self.plan.raking, self.plan.parts(), self.plan.unit
        assert unit is not None
        rng, drawn = np.random.default_rng(seed), max(raking.pool, 2 * count)
        shares = raking.shares(self.histograms, part, unit, sums=raking.steps)[0][: len(raking.cut.axes)]
        codes = [rng.choice(share.size, drawn, p=simplex(share, 1.0)) for share in shares]
        rows = raking.cut.decode(np.stack(codes, axis=1).astype(np.int32), rng)
        chosen = resampled(raking.weights(self.histograms, rows, part, unit, sums=raking.steps), count, rng)
        return {name: column[chosen] for name, column in rows.items()}

    def sample(self, count: int, *, seed: int = 0) -> Trajectories:
        """`count` rows as a data set that belongs to nobody, one unit a row."""
        return as_trajectories(self.sample_columns(count, seed=seed), self.plan.raking.cut.spec)

    def to_json(self) -> dict[str, Any]:
        """What `arrays` and the plan do not hold: nothing."""
        return {}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All numbers, by name."""
        return {PART: self.histograms}

    @classmethod
    def from_saved(
        cls, plan: Mapping[str, Any], fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> RakedColumns:
        """The synthesizer of which `privacy.plan.public_fields(plan)`, `to_json` and `arrays` were kept.

        Raises:
            KeyError, ValueError, TacitError: something is missing or does not fit.
        """
        return cls(RakingPlan.from_json(plan), np.asarray(arrays[PART], np.float64))


def fit(plan: RakingPlan, vault: Vault) -> Release[RakedColumns]:
    """Make a synthesizer under the plan's promise.

    Args:
        plan: calibrated for the vault's unit.
        vault: the private rows and their ledger.

    Raises:
        PlanError: the plan cuts by other bounds than the private data declare.
        PlanExhausted: the plan was begun before.
        BudgetExceeded: the ledger cannot pay for the plan.
    """
    plan.raking.require(vault.spec)
    run = vault.reserve(plan)
    if vault.touched(run):
        raise exhausted(run, PART)
    sums = list(asked(vault, run, PART, plan.raking.tables))
    return vault.release(run, RakedColumns(plan, np.mean(sums, axis=0)), label=_label(plan))


def _label(plan: RakingPlan) -> Label:
    return synthesizer_label(
        plan.unit,
        touches=(plan.raking.words(plan.raking.steps),),
        sampled="everything sampled from the released histograms",
        public=plan.raking.shaped(),
        choices=BINS,
    )
