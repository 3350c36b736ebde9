"""From a plan, a ledger and a method's own words to a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tacit.errors import LedgerError
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.mechanisms.base import Plan, certified_parts, publish_logs
from tacit.privacy.mechanisms.kinds import part_of
from tacit.privacy.vault import plan as plans


@dataclass(frozen=True)
class Label:
    """A method's own words for its certificate.

    Args:
        covered: data accesses that the promise covers.
        not_covered: data accesses that it does not.
        not_protected: what a reader could wrongly believe to be protected.
        assumptions: what the method assumes beyond the certificate's standing assumptions.
    """

    covered: tuple[str, ...]
    not_covered: tuple[str, ...]
    not_protected: tuple[str, ...]
    assumptions: tuple[str, ...] = ()


def certify(
    plan: Plan,
    plan_id: str,
    ledger: Ledger,
    label: Label,
    *,
    simulated: bool,
    callbacks: Sequence[str],
    assumptions: Sequence[str] = (),
) -> Certificate:
    """The certificate of a run: what was promised, computed from the plan's own event.

    Args:
        simulated: whether the records are declared simulated.
        callbacks: names of callbacks that are the user's own.
        assumptions: those of the vault, beyond the method's.

    Raises:
        LedgerError: the ledger has not admitted this plan, or the plan is not the one that it admitted.
    """
    if plan_id != plans.plan_id(plan) or all(other.id != plan_id for other in ledger.plans()):
        raise LedgerError(
            "the plan is not one that the ledger admitted",
            where=f"{plan.method} plan",
            expected="the run that Vault.reserve returned",
            remedy="release a value with the run whose doors it came from",
        )
    assert plan.unit is not None
    assert plan.delta is not None
    own = [
        f"the user's {name} keeps units apart and keeps nothing: it was tried on decoys, not proved"
        for name in callbacks
    ]
    return Certificate.build(
        method=plan.method,
        source=plan.source,
        unit=plan.unit,
        event=plans.event(plan),
        parts=certified_parts(plan.parts()),
        delta=plan.delta,
        plan_id=plan_id,
        plan=plans.public_fields(plan),
        ledger_head=ledger.head,
        dataset_id=ledger.dataset_id,
        simulated=simulated,
        void_reason=ledger.void_reason,
        releases=[
            {"plan_id": other.id, "method": other.method, "epsilon": other.epsilon, "delta": other.delta}
            for other in ledger.plans()
        ],
        budget=(ledger.epsilon, ledger.delta),
        epsilon_target=plan.epsilon,
        composition="sum" if ledger.composition == "sum" else f"Renyi DP at order {ledger.composition.order:g}",
        covered=list(label.covered),
        not_covered=list(label.not_covered),
        assumptions=[*label.assumptions, *own, *assumptions],
        not_protected=[*label.not_protected, *_logs_elsewhere(ledger, plan_id)],
    )


def _logs_elsewhere(ledger: Ledger, plan_id: str) -> list[str]:
    """Where another plan of the ledger protects policies alone: what the total then does not protect."""
    held = {other.id for other in ledger.plans()} - {plan_id}
    found = {
        entry.payload["plan"]
        for entry in ledger.entries()
        if entry.kind == "reserve"
        and entry.payload["plan"] in held
        and publish_logs([part_of(part) for part in entry.payload["description"].get("parts", ())])
    }
    return [
        f"logs, from the release of plan {other}, which the total of this ledger counts: it protects policies alone"
        for other in sorted(found)
    ]
