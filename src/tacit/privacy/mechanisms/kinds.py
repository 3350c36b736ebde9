"""Every kind of part that has a proof, by the name that certificates give it, and the one kind that is made of others.

A private selection is the best of a random number of runs, each a whole plan of its own (arXiv 2110.03620); its runs
are made by `vault.selection`. Proof page: `proofs/selection.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, get_args

from tacit.parameters import current_part
from tacit.privacy.accounting.events import MAX_CANDIDATES, MAX_STOP, Event, Law, SelectionEvent, expected_runs, flatten
from tacit.privacy.mechanisms.above_threshold import AboveThreshold, CertifiedPrefixes
from tacit.privacy.mechanisms.base import Part, Plan, Sum, Usual, certified_parts, composed, refused
from tacit.privacy.mechanisms.device_sums import DeviceSum, LaplaceSum
from tacit.privacy.mechanisms.marginals import Marginals
from tacit.privacy.mechanisms.releases import NoisyHistogram
from tacit.privacy.mechanisms.responses import RandomizedResponses
from tacit.privacy.mechanisms.sums import FixedSizeSum, Once, OwnProof, PoissonSum, UserSum
from tacit.privacy.mechanisms.votes import TeacherVotes
from tacit.units import Promise, Unit
from tacit.validation import check

INNER = (PoissonSum, Once, Marginals, TeacherVotes)
"""Kinds of part that a run of a selection may have."""


@dataclass(frozen=True, kw_only=True)
class Selection(Usual):
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

    name: str
    candidates: tuple[Plan, ...]
    judge: Plan | None
    stop: int
    law: Law
    steps: ClassVar[int] = 1
    kind: ClassVar[str] = "selection"
    sampler: ClassVar[str] = "as each run's own parts say"

    def __post_init__(self) -> None:
        whole = type(self.stop) is int and 2 <= self.stop <= MAX_STOP
        check(f"{self.name}.stop", self.stop, whole, f"a whole number from 2 to {MAX_STOP:,}")
        check(f"{self.name}.law", self.law, self.law in get_args(Law), " or ".join(get_args(Law)))
        count = len(self.candidates)
        check(f"{self.name}.candidates", count, 1 <= count <= MAX_CANDIDATES, f"1 to {MAX_CANDIDATES:,} plans")
        for plan in self.runs():
            valid = all(isinstance(part, INNER) for part in plan.parts())
            kinds = ", ".join(kind.__name__ for kind in INNER)
            check(f"{self.name}: {plan.method}", [part.name for part in plan.parts()], valid, f"parts of kinds {kinds}")

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
        leaves = (flatten(composed((*plan.parts(), *judged))) for plan in self.candidates)
        return SelectionEvent(tuple(leaves), self.stop, self.law)

    def certified(self) -> dict[str, Any]:
        """The part's parameters as the certificate states them."""
        return {
            "kind": self.kind,
            "name": self.name,
            "sampler": self.sampler,
            "steps": 1,
            "stop": self.stop,
            "law": self.law,
            "held_out": self.held_out,
            "candidates": [_certified(plan) for plan in self.candidates],
            "judge": None if self.judge is None else _certified(self.judge),
        }

    def describe(self, unit: Unit) -> str:
        """See `Part`."""
        return (
            f"the best of about {expected_runs(self.stop, self.law):.1f} runs on average (a {self.law} number that "
            f"stays secret) of {len(self.candidates):,} candidate plans"
        )

    @property
    def how_often(self) -> str:
        """How many runs are made, in plain words."""
        return f"a secret number of runs, {expected_runs(self.stop, self.law):.4g} on average"

    def contribution(self, unit: Unit) -> str:
        """See `Part`."""
        candidates = [
            f"candidate {i + 1}: " + "; ".join(part.contribution(unit) for part in plan.parts())
            for i, plan in enumerate(self.candidates)
        ]
        judged = () if self.judge is None else self.judge.parts()
        return (
            f"{self.name} ({self.kind}): the best of {self.how_often} ({self.law} with stop {self.stop}), each of one "
            f"of {len(candidates)} candidates. "
            + "; ".join([*candidates, *(f"each judged by: {part.contribution(unit)}" for part in judged)])
        )

    def assumptions(self) -> tuple[str, ...]:
        """See `Part`."""
        secret = "how many runs a selection made stays secret: nobody timed it, or saw its machine's load or"
        return (f"{secret} temporary files",)

    @classmethod
    def from_certified(cls, stated: Mapping[str, Any]) -> Self:
        """See `Usual`."""
        judge = stated["judge"]
        part = cls(
            name=stated["name"],
            candidates=tuple(_Run.of(run) for run in stated["candidates"]),
            judge=None if judge is None else _Run.of(judge),
            stop=stated["stop"],
            law=stated["law"],
        )
        for name in ("sampler", "steps", "held_out"):
            if getattr(part, name) != stated[name]:
                raise refused(f"the field {name!r} does not describe the numbers", repr(getattr(part, name)))
        return part


@dataclass(frozen=True)
class _Run:
    """A run of a selection as a certificate states it: its parts, and of its plan the method alone."""

    method: str
    stated: tuple[Part, ...]
    source: str = ""
    promise: Promise | None = None

    @classmethod
    def of(cls, run: Mapping[str, Any]) -> Any:
        """The run of these JSON fields."""
        return cls(run["method"], tuple(part_of(part) for part in run["parts"]))

    def parts(self) -> tuple[Part, ...]:
        """See `Plan`."""
        return self.stated


def _certified(plan: Plan) -> dict[str, Any]:
    return {"method": plan.method, "parts": certified_parts(plan.parts())}


SUMS: tuple[type[Sum], ...] = (PoissonSum, FixedSizeSum, UserSum, DeviceSum, LaplaceSum)
MET = (UserSum, RandomizedResponses)
"""Kinds of part that people are met for, one after another."""
ADMITTED: tuple[type[Part], ...] = (
    *(*SUMS, Once, AboveThreshold, Marginals, TeacherVotes, RandomizedResponses, Selection),
)
"""Every kind of part that has a proof; no other is admitted to a ledger."""

KINDS: Mapping[str, Callable[[Mapping[str, Any]], Part]] = {
    PoissonSum.kind: PoissonSum.from_certified,
    FixedSizeSum.kind: FixedSizeSum.from_certified,
    UserSum.kind: UserSum.from_certified,
    DeviceSum.kind: DeviceSum.from_certified,
    LaplaceSum.kind: LaplaceSum.from_certified,
    NoisyHistogram.kind: lambda stated: Once(mechanism=NoisyHistogram.from_certified(stated)),
    "smooth_sensitivity": lambda stated: Once(mechanism=OwnProof.from_certified(stated)),
    "noisy_max": lambda stated: Once(mechanism=OwnProof.from_certified(stated)),
    CertifiedPrefixes.kind: CertifiedPrefixes.from_certified,
    Marginals.kind: Marginals.from_certified,
    TeacherVotes.kind: TeacherVotes.from_certified,
    RandomizedResponses.kind: RandomizedResponses.from_certified,
    Selection.kind: Selection.from_certified,
}
"""How the part is rebuilt that a certificate states, by its kind."""


def sums_of(parts: Sequence[Part]) -> tuple[Sum, ...]:
    """Those of the parts that are noisy sums."""
    return tuple(part for part in parts if isinstance(part, SUMS))


def part_of(stated: Mapping[str, Any]) -> Part:
    """The part that a certificate, or a ledger, states; a noise multiplier of None is no noise.

    Raises:
        PlanError: there is no such part: its kind or a field is unknown or missing, or its numbers contradict each
            other.
    """
    kind = str(stated.get("kind"))
    if kind not in KINDS:
        raise refused(f"the field 'kind' is {kind[:80]!r}", "one of " + ", ".join(KINDS))
    stated = current_part(stated)
    if "noise_multiplier" in stated and stated["noise_multiplier"] is None:
        stated = {**stated, "noise_multiplier": 0.0}
    try:
        return KINDS[kind](stated)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        fields = "a field is missing or of another type"
        raise refused(f"{fields} ({error})" if isinstance(error, KeyError) else fields, f"a part {kind!r}") from error
