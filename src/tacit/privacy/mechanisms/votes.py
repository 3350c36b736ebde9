"""Votes of teachers, each with units of its own: one unit can change one vote (PATE, arXiv:1610.05755).

The units are dealt out to k teachers at random, once a run. A teacher is a small discriminator that learns its own
units' rows against rows that are public, and then says of public rows whether they look real (`teachers.py`). Only
noisy counts of these votes leave the vault.

Proof page: `proofs/teachers.md`.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar

from tacit.privacy.accounting.events import Event, GaussianEvent, SelfComposedEvent
from tacit.privacy.mechanisms.base import RowsOf, Usual, calibrated
from tacit.units import Unit
from tacit.validation import check


@dataclass(frozen=True, kw_only=True)
class TeacherVotes(Usual):
    """T batches of noisy counts of votes.

    Args:
        name: the part's name inside its plan.
        steps: T, how many batches may ever be released.
        queries: b, rows that are voted on in one batch.
        teachers: k.
        noise_multiplier: sigma; a count of votes gets N(0, b sigma^2). None until calibrated; 0 is no noise.
        width: of the two hidden layers of a teacher.
        updates: steps of Adam that every teacher takes before it votes on a batch.
        batch_size: own rows of one such step.
        learning_rate: of Adam.

    Raises:
        PlanError: a parameter is outside its range.
    """

    name: str
    steps: int
    queries: int
    teachers: int
    noise_multiplier: float | None = None
    width: int = 32
    updates: int = 1
    batch_size: int = 8
    learning_rate: float = 1e-3
    rows_per_unit: ClassVar[int] = 1
    rows: ClassVar[RowsOf] = "drawn"
    horizon: ClassVar[int] = 1
    sharp: ClassVar[bool] = False
    kind: ClassVar[str] = "teacher_votes"
    sampler: ClassVar[str] = (
        "every unit, every step; each unit belongs to one of the teachers, dealt out at random once a run"
    )

    def __post_init__(self) -> None:
        for name in ("steps", "queries", "teachers", "width", "updates", "batch_size"):
            value = getattr(self, name)
            check(f"{self.name}.{name}", value, type(value) is int and value >= 1, "a whole number >= 1")
        sigma = self.noise_multiplier
        valid = sigma is None or (math.isfinite(sigma) and sigma >= 0)
        check(f"{self.name}.noise_multiplier", sigma, valid, "a finite number >= 0, or None until calibrated")
        rate = self.learning_rate
        check(f"{self.name}.learning_rate", rate, math.isfinite(rate) and rate > 0, "a finite number > 0")

    @property
    def event(self) -> Event:
        """The part as an event: a Gaussian a batch, data-independent."""
        return SelfComposedEvent(GaussianEvent(calibrated(self.noise_multiplier, self.name)), self.steps)

    def certified(self) -> dict[str, Any]:
        """The part's parameters as the certificate states them."""
        fields = dataclasses.asdict(self)
        return {"kind": self.kind, "sampler": self.sampler, **fields, "rows_per_unit": 1, "rows": self.rows}

    def describe(self, unit: Unit) -> str:
        """See `Part`."""
        sigma = calibrated(self.noise_multiplier, self.name)
        return (
            f"{self.steps:,} batches of {self.queries:,} public rows on which {self.teachers:,} teachers vote, each of "
            f"them taught by units of its own, noise of standard deviation {sigma * math.sqrt(self.queries):.4g} on "
            "every count"
        )

    def contribution(self, unit: Unit) -> str:
        """See `Part`."""
        scale = calibrated(self.noise_multiplier, self.name) * math.sqrt(self.queries)
        return (
            f"{self.name} ({self.kind}): {self.steps:,} batches of {self.queries:,} counts of votes; one {unit.name} "
            f"teaches one of {self.teachers:,} teachers and moves each count by at most 1 with one of its rows, under "
            f"noise of standard deviation {scale:.6g} a count"
        )
