"""A run: one plan that a ledger has admitted."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.errors import PlanError, PlanExhausted
from tacit.privacy.above_threshold import AboveThreshold
from tacit.privacy.accounting import Bound
from tacit.privacy.device_parts import DeviceSum, LaplaceSum
from tacit.privacy.marginals import Marginals
from tacit.privacy.parts import FixedSizeSum, Once, Part, PoissonSum, Sum, UserSum
from tacit.privacy.plan import Plan
from tacit.privacy.votes import TeacherVotes

_SUMS = (PoissonSum, FixedSizeSum, UserSum, DeviceSum, LaplaceSum)


@dataclass(frozen=True)
class Run:
    """A plan that a ledger has admitted, by its id, with its certified price."""

    plan: Plan
    plan_id: str
    bound: Bound

    def sum_part(self, name: str) -> Sum:
        """The plan's part of this name, which must be a noisy sum."""
        part = self._part(name, *_SUMS)
        assert isinstance(part, _SUMS)
        return part

    def once_part(self, name: str) -> Once:
        """The plan's part of this name, which must be a single release."""
        part = self._part(name, Once)
        assert isinstance(part, Once)
        return part

    def threshold_part(self, name: str) -> AboveThreshold:
        """The plan's part of this name, which must be a release of prefixes."""
        part = self._part(name, AboveThreshold)
        assert isinstance(part, AboveThreshold)
        return part

    def marginals_part(self, name: str) -> Marginals:
        """The plan's part of this name, which must be a budget for marginals."""
        part = self._part(name, Marginals)
        assert isinstance(part, Marginals)
        return part

    def votes_part(self, name: str) -> TeacherVotes:
        """The plan's part of this name, which must be votes of teachers."""
        part = self._part(name, TeacherVotes)
        assert isinstance(part, TeacherVotes)
        return part

    def _part(self, name: str, *kinds: type[Part]) -> Part:
        for part in self.plan.parts():
            if part.name == name and isinstance(part, kinds):
                return part
        raise _wrong_part(self.plan, name, [part.name for part in self.plan.parts() if isinstance(part, kinds)])


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
