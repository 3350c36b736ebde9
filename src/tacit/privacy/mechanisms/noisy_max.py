"""The best of K candidates by their summed scores: the exponential mechanism, drawn by Gumbel noise.

Source: F. McSherry, K. Talwar, "Mechanism design via differential privacy" (FOCS 2007). Proof page:
`proofs/noisy_max.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.accounting.events import EpsilonDeltaDpEvent
from tacit.privacy.mechanisms.base import RowsOf
from tacit.privacy.mechanisms.callbacks import Summary
from tacit.privacy.mechanisms.sums import EVERY_UNIT, Proved
from tacit.privacy.noise.secret import SecretNoise
from tacit.units import Unit
from tacit.validation import check

GRID = 2**20
"""Scores are rounded down to multiples of 1 / GRID, so that their sums are exact whatever the order."""


@dataclass(frozen=True, kw_only=True)
class NoisyMaximum(Proved):
    """The index of one of K candidates, shape [1]: k with probability proportional to exp(c q_k).

    q_k is the sum over units of the unit's score for candidate k, a number in [0, 1]; c = epsilon under
    `add_or_remove`, where a unit can only raise all scores, and epsilon / 2 under `replace_one`.

    Guarantee: (epsilon, 0)-differential privacy for one unit under the unit's relation; see the proof page.

    Edge cases:
        | case | what happens |
        |---|---|
        | a score that is NaN | counts as 0 |
        | a score outside [0, 1], or infinite | is moved onto the nearer end |
        | no records | every candidate with probability 1 / K |
        | scores of the wrong shape | refused on decoys |

    Args:
        name: the part's name inside its plan.
        scores: a unit's first rows -> (keys "scores") its scores, [U, K]; a frozen dataclass.
        candidates: K.
        epsilon: in [1e-6, 500].
        rows_per_unit: how many of a unit's rows are read, in order of time.

    Raises:
        PlanError: a parameter is out of range.
    """

    kind: ClassVar[str] = "noisy_max"
    rows: ClassVar[RowsOf] = "first"

    name: str
    scores: Summary
    candidates: int
    epsilon: float
    rows_per_unit: int

    def __post_init__(self) -> None:
        check("candidates", self.candidates, self.candidates >= 2, "at least 2")
        check("epsilon", self.epsilon, 1e-6 <= self.epsilon <= 500, "a number from 1e-6 to 500")
        check("rows_per_unit", self.rows_per_unit, self.rows_per_unit >= 1, "a whole number >= 1")

    @property
    def size(self) -> int:
        """Numbers of one unit's contribution."""
        return self.candidates

    @property
    def event(self) -> EpsilonDeltaDpEvent:
        """(epsilon, 0), by the proof page."""
        return EpsilonDeltaDpEvent(self.epsilon, 0.0)

    def certified(self) -> dict[str, Any]:
        """The parameters as the certificate states them."""
        return {
            "kind": self.kind,
            "sampler": EVERY_UNIT[1],
            "name": self.name,
            "steps": 1,
            "rows_per_unit": self.rows_per_unit,
            "rows": self.rows,
            "epsilon": self.epsilon,
            "delta": 0.0,
            "candidates": self.candidates,
            "scores": "in [0, 1]",
        }

    def contributions(self, rows: Mapping[str, np.ndarray]) -> NDArray[np.float64]:
        """Rows [U, L, ...] -> [U, K], each unit's scores in [0, 1], multiples of 1 / GRID.

        Raises:
            ValueError: the scores are not [U, K].
        """
        scores = np.asarray(self.scores(rows)["scores"], np.float64)
        if scores.shape != (len(rows["mask"]), self.candidates):
            raise ValueError(f"scores of shape {scores.shape}")
        return np.asarray(np.floor(np.clip(np.nan_to_num(scores, posinf=1.0), 0.0, 1.0) * GRID) / GRID, np.float64)

    def release(self, chunks: Iterable[Mapping[str, np.ndarray]], noise: SecretNoise, unit: Unit) -> NDArray[np.int64]:
        """The chosen index of the units in `chunks`.

        -ln of a standard exponential is standard Gumbel noise, and argmax_k (c q_k + Gumbel) has the stated law.
        """
        total = np.zeros(self.candidates)
        for rows in chunks:
            total += self.contributions(rows).sum(axis=0)
        rate = self.epsilon if unit.relation == "add_or_remove" else self.epsilon / 2
        return np.array([np.argmax(rate * total - np.log(noise.exponential(self.candidates)))], np.int64)
