"""Votes of teachers, each with units of its own: one unit can change one vote (PATE, arXiv:1610.05755).

The units are dealt out to k teachers at random, once a run. A teacher is a small discriminator that learns its own
units' rows against rows that are public, and then says of public rows whether they look real (`teachers.py`). Only
noisy counts of these votes leave the vault.

Proof page: `proofs/teachers.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from tacit.privacy.accounting.events import Event, GaussianEvent, SelfComposedEvent
from tacit.privacy.mechanisms.base import Part, RowsOf, kind_field, require_calibrated, require_noise, require_whole
from tacit.units import Unit
from tacit.validation import require_valid


@dataclass(frozen=True, kw_only=True)
class TeacherVotes(Part):
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

    kind: Literal["teacher_votes"] = kind_field("teacher_votes")
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
    diameter: ClassVar[float] = 1.0  # a unit that replaces another teaches the same teacher
    in_selection: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_whole(self, "steps", "queries", "teachers", "width", "updates", "batch_size")
        require_noise(self)
        rate = self.learning_rate
        require_valid(f"{self.name}.learning_rate", rate, math.isfinite(rate) and rate > 0, "a finite number > 0")

    @property
    def event(self) -> Event:
        """The part as an event: a Gaussian a batch, data-independent."""
        sigma = require_calibrated(self.noise_multiplier, self.name)
        return SelfComposedEvent(GaussianEvent(sigma, self.diameter), self.steps)

    def describe(self, unit: Unit) -> str:
        """See `Part`."""
        scale = require_calibrated(self.noise_multiplier, self.name) * math.sqrt(self.queries)
        return (
            f"{self.steps:,} batches of {self.queries:,} counts of votes; one {unit.noun} teaches one of "
            f"{self.teachers:,} teachers, dealt out at random once a run, and moves each count by at most 1 with one "
            f"of its rows, under noise of standard deviation {scale:.6g} a count"
        )
