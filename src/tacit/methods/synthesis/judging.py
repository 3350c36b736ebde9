"""How close a synthesizer's rows are to the records, by noisy histograms: the judge of a private selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.methods.synthesis.baselines import raking_alone
from tacit.methods.synthesis.baselines.raking_alone import RakingPlan
from tacit.methods.synthesis.histograms import codes_of
from tacit.privacy.vault.vault import Vault


@dataclass(frozen=True)
class Closeness:
    """Minus the mean over tables of the squared distance between the records' noisy shares and the rows' own.

    The noise adds the same to every candidate's score on average, so it changes nobody's rank.

    Args:
        rows: how many are sampled from each synthesizer.
        seed: of the sampling; public.
    """

    rows: int = 20_000
    seed: int = 0

    def __call__(self, value: Any, plan: RakingPlan, vault: Vault) -> float:
        """The score of a value with `sample_columns`, by histograms that are asked anew under the plan."""
        raking, (part,), unit = plan.raking, plan.parts(), vault.unit
        released = raking_alone.fit(plan, vault).value.histograms
        shares, _ = raking.shares(released, part, unit, sums=raking.steps)
        codes = codes_of(raking.tables, value.sample_columns(self.rows, seed=self.seed))
        distances = [
            np.square(share - np.bincount(code, minlength=len(share)) / len(code)).sum()
            for share, code in zip(shares, codes, strict=True)
        ]
        return -float(np.mean(distances))
