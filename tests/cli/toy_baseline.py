"""Independent columns: a baseline synthesizer as somebody would add one, with this file and one entry of `METHODS`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacit.methods.synthesis.baselines.plan import Measurements, SyntheticRecords, TablePlan, TableSynthesizer
from tacit.methods.synthesis.plan import Progress
from tacit.methods.synthesis.table_matching import project_to_simplex
from tacit.parameters import Option
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.vault import Vault


@dataclass(frozen=True, kw_only=True)
class ToyPlan(TablePlan):
    """Every column by itself."""

    method: ClassVar[str] = "synthesis of transitions (independent columns)"
    source: ClassVar[str] = "a test of tacit's"
    choices: ClassVar[bool] = False

    records: Option[int] = 500
    """how many records are drawn from the noisy marginals."""

    @property
    def quanta(self) -> int:
        """One for each column."""
        return len(self.discretisation.shape)


def fit(plan: ToyPlan, vault: Vault, *, seed: int = 0, progress: Progress | None = None) -> Release[TableSynthesizer]:
    """Make a synthesizer under the plan's promise."""
    ask, rng = Measurements(plan, vault, progress), np.random.default_rng(seed)
    shares = [project_to_simplex(ask.marginal((column,), 1).counts, 1.0) for column in range(plan.quanta)]
    codes = [rng.choice(share.size, plan.records, p=share) for share in shares]
    return ask.release(SyntheticRecords(np.stack(codes, axis=1).astype(np.int32)))
