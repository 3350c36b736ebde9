"""A run: one plan that a ledger has admitted."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.errors import PlanError, PlanExhausted
from tacit.privacy.above_threshold import AboveThreshold
from tacit.privacy.accounting import Bound
from tacit.privacy.device_parts import DeviceSum, LaplaceSum
from tacit.privacy.parts import FixedSizeSum, Once, PoissonSum, Sum, UserSum
from tacit.privacy.plan import Plan

_SUMS = (PoissonSum, FixedSizeSum, UserSum, DeviceSum, LaplaceSum)


@dataclass(frozen=True)
class Run:
    """A plan that a ledger has admitted, by its id, with its certified price."""

    plan: Plan
    plan_id: str
    bound: Bound

    def sum_part(self, name: str) -> Sum:
        """The plan's part of this name, which must be a noisy sum."""
        for part in self.plan.parts():
            if part.name == name and isinstance(part, _SUMS):
                return part
        sums = [p.name for p in self.plan.parts() if isinstance(p, _SUMS)]
        raise _wrong_part(self.plan, name, sums)

    def once_part(self, name: str) -> Once:
        """The plan's part of this name, which must be a single release."""
        for part in self.plan.parts():
            if part.name == name and isinstance(part, Once):
                return part
        raise _wrong_part(self.plan, name, [p.name for p in self.plan.parts() if isinstance(p, Once)])

    def threshold_part(self, name: str) -> AboveThreshold:
        """The plan's part of this name, which must be a release of prefixes."""
        for part in self.plan.parts():
            if part.name == name and isinstance(part, AboveThreshold):
                return part
        raise _wrong_part(self.plan, name, [p.name for p in self.plan.parts() if isinstance(p, AboveThreshold)])


def exhausted(run: Run, part: str) -> PlanExhausted:
    """The error of a run that was begun or finished before and cannot be begun anew."""
    return PlanExhausted(
        "the plan was run before, and a claimed step is never run again",
        where=f"{run.plan.method} plan {run.plan_id}, part {part!r}",
        expected="a plan that is new to the ledger, or a training that is resumed",
        remedy="calibrate another plan within the ledger's budget, or resume a training from its own folder",
    )


def _wrong_part(plan: Plan, name: str, known: list[str]) -> PlanError:
    return PlanError(
        f"the plan has no such part {name!r} for this door",
        where=f"{plan.method} plan",
        expected=f"one of {known}",
        remedy="name a part of the plan",
    )
