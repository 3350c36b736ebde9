"""What every mechanism of a plan offers: its privacy event, its words, and its form in a certificate.

A plan lists its parts; each part is one kind of query of the records. A new kind is a class with the members of `Part`,
and an entry in `plan.KINDS`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Protocol, get_args

from dp_accounting import ComposedDpEvent, DpEvent

from tacit.errors import PlanError
from tacit.privacy.accounting.events import parallel
from tacit.units import Relation, Unit
from tacit.validation import check

RowsOf = Literal["drawn", "first"]
"""Which of a unit's rows a contribution is made from: drawn anew in every step, or its first ones in order of time."""

EVERY_RELATION: tuple[Relation, ...] = get_args(Relation)


class Part(Protocol):
    """One kind of query of a plan: a frozen dataclass of public parameters."""

    @property
    def name(self) -> str:
        """The part's name inside its plan."""

    @property
    def steps(self) -> int:
        """How often the query may ever be answered."""

    @property
    def fold(self) -> Literal[0, 1] | None:
        """The fixed half of the units that takes part; None where all do."""

    @property
    def event(self) -> DpEvent:
        """The part as a `dp_accounting` event."""

    def certified(self) -> dict[str, Any]:
        """The part's parameters as the certificate states them."""

    def describe(self, unit: Unit) -> str:
        """What the part does, in plain words, for the guarantee of its plan."""

    @property
    def relations(self) -> tuple[Relation, ...]:
        """Relations between neighbours under which the part has a proof."""

    def validate(self, unit: Unit) -> None:
        """Raise a PlanError if a number of the part contradicts the unit's population."""


class Sum(Part, Protocol):
    """A part that releases noisy sums of bounded contributions."""

    @property
    def clip(self) -> float:
        """C, the largest norm of one unit's contribution to one sum."""

    @property
    def noise_multiplier(self) -> float | None:
        """sigma; None until calibrated."""

    @property
    def rows_per_unit(self) -> int:
        """How many of a unit's rows (or fragments) one contribution is made from at most."""

    @property
    def rows(self) -> RowsOf:
        """Which rows these are."""

    @property
    def horizon(self) -> int:
        """Rows of a fragment; 1 where single rows are read."""

    @property
    def reserve(self) -> int:
        """How many of a unit's episodes are left out."""

    def expected(self, unit: Unit) -> float:
        """How many units take part in one step, as the public expects: what a sum is divided by."""


class Mechanism(Protocol):
    """A single release with a proof page: a frozen dataclass of `tacit.privacy.mechanisms`."""

    @property
    def name(self) -> str:
        """The part's name inside its plan."""

    @property
    def rows_per_unit(self) -> int:
        """How many of a unit's rows are read at most."""

    @property
    def rows(self) -> RowsOf:
        """Which rows these are."""

    @property
    def event(self) -> DpEvent:
        """The release as a `dp_accounting` event."""

    def certified(self) -> dict[str, Any]:
        """The parameters as the certificate states them."""


class Plan(Protocol):
    """What every method's plan offers to the vault."""

    method: ClassVar[str]
    source: ClassVar[str]

    @property
    def unit(self) -> Unit | None:
        """Whom the plan protects; None until calibrated."""

    @property
    def epsilon(self) -> float | None:
        """The promised epsilon; None until calibrated."""

    @property
    def delta(self) -> float | None:
        """The promised delta; None until calibrated."""

    def parts(self) -> tuple[Part, ...]:
        """Every touch of records that the plan allows, in any order; charged as a whole."""


def composed(parts: Sequence[Part]) -> DpEvent:
    """All parts as one event: composed, those of the two halves in parallel."""
    events = [part.event for part in parts if part.fold is None]
    halves = [[part.event for part in parts if part.fold == fold] for fold in (0, 1)]
    if any(halves):
        events.append(parallel([ComposedDpEvent(half) for half in halves if half]))
    return ComposedDpEvent(events)


def certified_parts(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """What the certificate states of each part."""
    return [part.certified() for part in parts]


def check_sum(part: Sum) -> None:
    """Raise a PlanError unless what all kinds of sums have is in range."""
    name, sigma = part.name, part.noise_multiplier
    check(f"{name}.steps", part.steps, part.steps >= 1 and part.steps == int(part.steps), "a whole number >= 1")
    check(f"{name}.clip", part.clip, math.isfinite(part.clip) and part.clip > 0, "a finite number > 0")
    valid = sigma is None or (math.isfinite(sigma) and sigma >= 0)
    check(f"{name}.noise_multiplier", sigma, valid, "a finite number >= 0, or None until calibrated")
    scale = part.clip * (sigma or 1.0)
    held = 2.0**-40 <= scale <= 2.0**40
    check(f"{name}.clip times noise", scale, held, "a scale of the noise that float32 holds")
    read = type(part.rows_per_unit) is int and part.rows_per_unit >= 1
    check(
        f"{name}.rows_per_unit", part.rows_per_unit, read, "a whole number >= 1: nobody teaches anything without a row"
    )
    check(f"{name}.rows", part.rows, part.rows in get_args(RowsOf), " or ".join(get_args(RowsOf)))
    long = type(part.horizon) is int and (part.horizon == 1 or (part.horizon > 1 and part.rows == "drawn"))
    check(f"{name}.horizon", part.horizon, long, 'a whole number >= 1, and 1 with rows="first"')


def calibrated(sigma: float | None, name: str) -> float:
    """The noise multiplier, if there is one already."""
    if sigma is None:
        raise PlanError(
            f"{name} has no noise multiplier yet",
            where="plan",
            expected="a calibrated plan",
            remedy="call plan.calibrate(unit=..., epsilon=..., delta=...)",
        )
    return sigma
