"""Every kind of part that has a proof, and the one kind that is made of others.

A private selection is the best of a random number of runs, each a whole plan of its own (arXiv 2110.03620); its runs
are made by `vault.selection`. Proof page: `proofs/selection.md`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

from tacit.privacy.accounting.events import MAX_CANDIDATES, MAX_STOP, Event, Law, SelectionEvent, expected_runs, flatten
from tacit.privacy.mechanisms.above_threshold import AboveThreshold
from tacit.privacy.mechanisms.base import OwnProof, Part, Plan, RowsOf, compose_parts, kind_field, part_error
from tacit.privacy.mechanisms.device_sums import DeviceSum, LaplaceSum
from tacit.privacy.mechanisms.marginals import Marginals
from tacit.privacy.mechanisms.releases import NoisyHistogram, NoisyMaximum
from tacit.privacy.mechanisms.responses import RandomizedResponses
from tacit.privacy.mechanisms.smooth_sensitivity import RegularisedLoss, WeightedStates
from tacit.privacy.mechanisms.sums import FixedSizeSum, PoissonSum, UserSum
from tacit.privacy.mechanisms.votes import TeacherVotes
from tacit.privacy.sentences import Clause, clause
from tacit.serialization import Kinds, kinds_of, read
from tacit.units import Promise, Unit
from tacit.validation import require_valid

RunPart: TypeAlias = PoissonSum | NoisyHistogram | OwnProof | Marginals | TeacherVotes
"""Parts that a run of a selection may have, as certificates state them."""


@dataclass(frozen=True)
class StatedRun:
    """A run of a selection as a certificate states it: its parts, and of its plan the method alone."""

    method: str
    stated: tuple[RunPart, ...]
    source: ClassVar[str] = ""
    promise: ClassVar[Promise | None] = None

    @classmethod
    def of(cls, plan: Plan) -> Any:
        """The run of a plan."""
        parts: Any = tuple(part.certificate_form() for part in plan.parts())
        return cls(plan.method, parts)

    def parts(self) -> tuple[Part, ...]:
        """See `Plan`."""
        return self.stated


AnyRun: TypeAlias = Annotated[Plan, Kinds(StatedRun)]


@dataclass(frozen=True, kw_only=True)
class PrivateSelection(Part):
    """The best of a random number of runs.

    Args:
        name: the part's name inside its plan.
        candidates: the plans that may be run, each calibrated for the same unit.
        judge: the plan under which a run is judged; None where that takes no records.
        stop: 1 / gamma of the law of the number of runs, in [2, `MAX_STOP`].
        law: "logarithmic" or "geometric" (see `SelectionEvent`).

    Raises:
        PlanError: a parameter is outside its range, or a candidate has parts that cannot be run here.
    """

    kind: Literal["selection"] = kind_field("selection")
    name: str
    candidates: tuple[AnyRun, ...]
    judge: AnyRun | None
    stop: int
    law: Law
    steps: ClassVar[int] = 1
    rows_per_unit: ClassVar[int] = 0
    rows: ClassVar[RowsOf] = "drawn"

    def __post_init__(self) -> None:
        whole = type(self.stop) is int and 2 <= self.stop <= MAX_STOP
        require_valid(f"{self.name}.stop", self.stop, whole, f"a whole number from 2 to {MAX_STOP:,}")
        require_valid(f"{self.name}.law", self.law, self.law in get_args(Law), " or ".join(get_args(Law)))
        count = len(self.candidates)
        require_valid(f"{self.name}.candidates", count, 1 <= count <= MAX_CANDIDATES, f"1 to {MAX_CANDIDATES:,} plans")
        kinds = ", ".join(kind.__name__ for kind in PARTS if kind.in_selection)
        for plan in self.runs():
            valid = all(part.in_selection for part in plan.parts())
            names = [part.name for part in plan.parts()]
            require_valid(f"{self.name}: {plan.method}", names, valid, f"parts of kinds {kinds}")

    def runs(self) -> tuple[Plan, ...]:
        """All plans that may be run."""
        return self.candidates if self.judge is None else (*self.candidates, self.judge)

    @property
    def held_out(self) -> int:
        """What every run leaves out."""
        return min(part.held_out for plan in self.runs() for part in plan.parts())

    @property
    def event(self) -> Event:
        """The selection as an event: one step, whatever the number of runs."""
        judged = () if self.judge is None else self.judge.parts()
        leaves = (flatten(compose_parts((*plan.parts(), *judged))) for plan in self.candidates)
        return SelectionEvent(tuple(leaves), self.stop, self.law)

    def certificate_form(self) -> PrivateSelection:
        """See `Part`."""
        judge = None if self.judge is None else StatedRun.of(self.judge)
        return dataclasses.replace(self, candidates=tuple(map(StatedRun.of, self.candidates)), judge=judge)

    @property
    def run_count_text(self) -> str:
        """How many runs are made, in plain words."""
        return f"a secret number of runs, {expected_runs(self.stop, self.law):.4g} on average"

    def describe(self, unit: Unit) -> str:
        """See `Part`."""
        judged = () if self.judge is None else self.judge.parts()
        candidates = [
            f"candidate {i + 1}: " + "; ".join(f"{part.name}: {part.describe(unit)}" for part in plan.parts())
            for i, plan in enumerate(self.candidates)
        ]
        return (
            f"the best of {self.run_count_text} ({self.law} with stop {self.stop}), each of one of {len(candidates)} "
            "candidates. " + "; ".join([*candidates, *(f"each judged by: {part.describe(unit)}" for part in judged)])
        )

    def assumptions(self) -> tuple[Clause, ...]:
        """See `Part`."""
        return (clause("runs_secret"),)


PARTS: tuple[type[Part], ...] = (
    *(PoissonSum, FixedSizeSum, UserSum, DeviceSum, LaplaceSum, NoisyHistogram, NoisyMaximum, RegularisedLoss),
    *(WeightedStates, AboveThreshold, Marginals, TeacherVotes, RandomizedResponses, PrivateSelection),
)
"""Every kind of part that has a proof; no other is admitted to a ledger."""

StatedPart: TypeAlias = (
    RunPart | FixedSizeSum | UserSum | DeviceSum | LaplaceSum | AboveThreshold | RandomizedResponses | PrivateSelection
)
"""What certificates state of them: all kinds, those with a proof of their own as `OwnProof`."""

VisitorPart: TypeAlias = UserSum | RandomizedResponses
"""Parts that people are met for, one after another."""

_KINDS = tuple(kind for one in get_args(StatedPart) for kind in kinds_of(one))


def part_from_json(stated: Mapping[str, Any]) -> Part:
    """The part that a certificate, or a ledger, states.

    Raises:
        PlanError: there is no such part: its kind or a field is unknown or missing, or its numbers contradict each
            other.
    """
    kind = str(stated.get("kind"))
    if kind not in _KINDS:
        raise part_error(f"the field 'kind' is {kind[:80]!r}", "one of " + ", ".join(_KINDS))
    try:
        part: Part = read(StatedPart, stated)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise part_error("a field is missing, unknown or of another type", f"a part {kind!r}") from error
    return part
