"""Which plans may share records with a release of prefixes: what is drawn from a reserve is used for nothing else.

The guarantee of `AboveThreshold` with the source "logs" is about the experts' policies; the trajectories are its own
randomness. A second look at them, by whatever plan, would share that randomness, and the two would not compose
(`proofs/experts.md`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tacit.data.spec import PublicSpec
from tacit.errors import DoorError, PlanError
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.mechanisms.above_threshold import AboveThreshold
from tacit.privacy.mechanisms.base import Plan
from tacit.privacy.mechanisms.kinds import part_of
from tacit.privacy.vault import plan as plans
from tacit.units import Unit


def require_apart(plan: Plan, ledger: Ledger) -> None:
    """Raise a PlanError if, with the plans that the ledger has admitted, a reserve would be read twice."""
    identity = plans.plan_id(plan)
    parts = [*(part_of(stated) for stated in admitted(ledger, identity)), *plan.parts()]
    drawn = [part for part in parts if part.publishes_logs]
    if not drawn:
        return
    most = max(part.reserve for part in drawn)
    if len(drawn) > 1 or any(part.reserve < most for part in parts if not part.publishes_logs):
        raise PlanError(
            "trajectories of the experts' reserve would be used twice",
            where=f"{plan.method} plan",
            expected=f"one release of prefixes from logs for a dataset, and reserve >= {most} in every other part",
            remedy='use the source "clones", or give the other parts that reserve',
        )


def require_answerable(part: AboveThreshold, spec: PublicSpec, *, asked: bool) -> None:
    """Raise a PlanError unless a release of prefixes fits what is public of the vault.

    Args:
        part: the release.
        spec: the public bounds of the records.
        asked: whether there are policies that can be asked.
    """
    actions = getattr(spec.action, "n", None)
    if part.actions != actions:
        raise _refused(f"the plan counts on {part.actions} actions", f"the records' {actions}", "the number of actions")
    if part.source == "logs" and not asked:
        ways = 'clones: clone= of a plan, or source="clones" of a part'
        raise _refused("there are no policies that can be asked", "Vault(data, ledger, experts=...)", ways)


def too_few(part: AboveThreshold, unit: Unit) -> DoorError:
    """The error where there are fewer experts than a release of prefixes takes for granted."""
    least = f", each with {part.reserve} trajectories or more" if part.reserve else ""
    return DoorError(
        f"there are fewer {unit.name}s than the plan takes for granted: nothing was released, and the ledger is void, "
        "because this error tells something about the records",
        where=f"part {part.name!r}",
        expected=f"at least {part.experts:,}{least}: a number that is known without the records",
        remedy="plan with a number that is sure to be there",
    )


def admitted(ledger: Ledger, identity: str) -> Iterable[Mapping[str, Any]]:
    """The parts of all plans that the ledger holds beside this one, as they were written when they were reserved."""
    held = {other.id for other in ledger.plans()} - {identity}
    for entry in ledger.entries():
        if entry.kind == "reserve" and entry.payload["plan"] in held:
            yield from entry.payload["description"].get("parts", ())


def _refused(what: str, expected: str, remedy: str) -> PlanError:
    return PlanError(what, where="AboveThreshold", expected=expected, remedy=f"use {remedy}")
