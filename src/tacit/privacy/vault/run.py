"""A run: one plan that a ledger has admitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from tacit.errors import PlanError, PlanExhausted
from tacit.privacy.accounting.bounds import Bound
from tacit.privacy.mechanisms.base import Part, Plan, Sum
from tacit.privacy.mechanisms.kinds import SUMS

Kind = TypeVar("Kind", bound=Part)


@dataclass(frozen=True)
class Run:
    """A plan that a ledger has admitted, by its id, with its certified price."""

    plan: Plan
    plan_id: str
    bound: Bound

    def part(self, name: str, *kinds: type[Kind]) -> Kind:
        """The plan's part of this name, which must be of one of these kinds.

        Raises:
            PlanError: there is no such part.
        """
        known = [part for part in self.plan.parts() if isinstance(part, kinds)]
        for part in known:
            if part.name == name:
                return part
        raise PlanError(
            f"the plan has no such part {name!r} for this door",
            where=f"{self.plan.method} plan",
            expected=f"one of {[part.name for part in known]}",
            remedy="name a part of the plan",
        )

    def sum_part(self, name: str) -> Sum:
        """The plan's part of this name, which must be a noisy sum."""
        return self.part(name, *SUMS)


def exhausted(run: Run, part: str) -> PlanExhausted:
    """The error of a run that was begun or finished before and cannot be begun anew."""
    return PlanExhausted(
        "the plan was run before, and a claimed step is never run again",
        where=f"{run.plan.method} plan {run.plan_id}, part {part!r}",
        expected="a plan that is new to the ledger, or a training that is resumed",
        remedy="calibrate another plan within the ledger's budget, or resume a training from its own folder",
    )
