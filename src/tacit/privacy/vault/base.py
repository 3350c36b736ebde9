"""What every vault shares: the ledgers that pay, the plans they admitted, and the steps that were claimed."""

from __future__ import annotations

import threading
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tacit.errors import LedgerError, PlanError, PlanExhausted
from tacit.privacy.accounting.bounds import Bound
from tacit.privacy.certificate.certificate import Certificate, Release
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.state import CALLBACK, NONPRIVATE, POLICY
from tacit.privacy.mechanisms.base import Part, Plan, Sum, any_publishes_logs, certificate_parts
from tacit.privacy.mechanisms.kinds import part_from_json
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.sentences import Clause, clause
from tacit.privacy.sentences import Label as Label
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.invented import try_public
from tacit.privacy.vault.isolation import IsolationChecks, Value
from tacit.privacy.vault.memory import copy_plain_state
from tacit.privacy.vault.origins import acting_policy, digest, has_digest
from tacit.privacy.vault.selection import BestRun
from tacit.tracking import Tracker
from tacit.units import Promise

# A run: one plan that a ledger has admitted.


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
        parts = [part for part in self.plan.parts() if isinstance(part, kinds)]
        for part in parts:
            if part.name == name:
                return part
        what = f"the plan has no such part {name!r} for this mechanism"
        expected, remedy = f"one of {[part.name for part in parts]}", "name a part of the plan"
        raise PlanError(what, where=f"{self.plan.method} plan", expected=expected, remedy=remedy)

    def sum_part(self, name: str) -> Sum:
        """The plan's part of this name, which must be a noisy sum."""
        return self.part(name, Sum)  # type: ignore[type-abstract]


def exhausted_error(run: Run, part: str) -> PlanExhausted:
    """The error of a run that was begun or finished before and cannot be begun again."""
    return PlanExhausted(
        "the plan was run before, and a claimed step is never run again",
        where=f"{run.plan.method} plan {run.plan_id}, part {part!r}",
        expected="a plan that is new to the ledger, or a training that is resumed",
        remedy="calibrate another plan within the ledger's budget, or resume a training from its own folder",
    )


_ADMISSION = threading.RLock()
"""Plans are admitted one at a time, by whatever vault: one that is admitted may exclude the next."""


class BaseVault:
    """Ledgers that admit plans and hand out their steps, each once.

    Args:
        ledger: one ledger, or for simulated records R of them, for R independent replicates in one pass.
        simulated: whether no person is behind the records.
        kinds: the kinds of part that the vault's mechanisms serve.
        noise: a seeded source for tests only; it voids the ledgers.
        tracker: is shown figures of every value that leaves a mechanism, and nothing else.

    Raises:
        LedgerError: several ledgers for records that are not simulated, or ledgers that differ in unit.
    """

    _checks: IsolationChecks

    def __init__(
        self,
        ledger: Ledger | Sequence[Ledger],
        *,
        simulated: bool,
        kinds: tuple[type[Part], ...],
        noise: SecretNoise | None,
        tracker: Tracker | None = None,
    ) -> None:
        ledgers = (ledger,) if isinstance(ledger, Ledger) else tuple(ledger)
        if (
            not ledgers
            or len({ledger.unit for ledger in ledgers}) != 1
            or len({ledger.dataset_id for ledger in ledgers}) != len(ledgers)
        ):
            raise vault_error("the ledgers are missing, repeated or bound to different units", "one ledger a replicate")
        if len(ledgers) > 1 and not simulated:
            raise vault_error(
                "several ledgers for one private dataset", "one ledger a dataset: each would spend the budget again"
            )
        self.ledgers = ledgers
        self.unit = ledgers[0].unit
        self.simulated = simulated
        self._kinds = kinds
        self._noise = noise or SecretNoise()
        self._tracker = tracker
        self._admitted: dict[tuple[str, str], Part] = {}
        self._claimed: dict[tuple[str, str], range] = {}
        self._known_names: set[tuple[str, str, str]] = set()
        self._lock = threading.RLock()

    def _void_if_seeded(self) -> None:
        """Void the ledgers if somebody could know the noise."""
        if self._noise.seeded or type(self._noise) is not SecretNoise:
            for ledger in self.ledgers:
                ledger.void(
                    "noise that is seeded, or not the library's own: anyone who can draw it again can subtract it"
                )

    @property
    def callbacks(self) -> frozenset[str]:
        """Names of the user's own callbacks that were tried here."""
        return frozenset(self._checks.foreign_names)

    @property
    def ledger(self) -> Ledger:
        """The first (for private records the only) ledger."""
        return self.ledgers[0]

    def __reduce__(self) -> tuple[object, ...]:
        raise vault_error("a vault cannot be copied or pickled", "one process and one vault a dataset")

    def reserve(self, plan: Plan) -> Run:
        """Charge the whole plan; the same plan again reopens what it has left, at no cost.

        Raises:
            PlanError: the plan is not calibrated, was edited, names another unit than the ledger, or has a part that no
                mechanism of this vault serves.
            BudgetExceeded: the ledger cannot pay; nothing was charged.
        """
        promise = plan.promise
        if promise is not None and Promise(plan.unit, plan.epsilon, plan.delta) != promise:
            what, expected = "the plan says another unit, epsilon or delta than it promises", "those of its promise"
            raise PlanError(what, where=f"{plan.method} plan", expected=expected, remedy="leave them out of its class")
        if promise is None or plan.unit != self.unit:
            what = "is not calibrated" if promise is None else f"protects {plan.unit}, the ledger {self.unit}"
            expected = "the ledger's own unit, relation and population"
            remedy = "calibrate the plan with unit=vault.unit"
            raise PlanError(f"the plan {what}", where=f"{plan.method} plan", expected=expected, remedy=remedy)
        with _ADMISSION:
            return self._admit(plan)

    def rehearse(self, part: Any, contribution: Any, state: Any) -> None:
        """Try on invented units what a step of a part is going to compute, before its plan is charged.

        Args:
            part: of the plan, a sum.
            contribution: to it, with its `state`.

        Raises:
            MechanismError, PlanError: it couples units, has the wrong shape, or fails.
        """

        try_public(
            lambda: self._checks.try_contribution(part, contribution, copy_plain_state(state, where=part.name)),
            lambda _: True,
            f"{type(contribution).__name__} fails",
            where=part.name,
            expected="policies, critics and networks that run on any rows within the public bounds",
            remedy="try them on invented rows of your own",
        )

    def _admit(self, plan: Plan) -> Run:
        self._require_fit(plan)
        parts = plan.parts()  # once: what is priced is what may run
        bound = plans.certified_bound(plan, parts)
        plans.require_statable(plan)
        identity, described = plans.plan_id(plan), plans.describe(plan)
        steps = {part.name: part.steps for part in parts}
        for ledger in self.ledgers:
            charge = plans.price(plan, ledger.composition, parts)
            ledger.reserve(
                identity,
                described,
                parts=steps,
                epsilon=charge.epsilon,
                delta=charge.delta,
                rdp=charge.rdp,
                mu=charge.mu,
                diameter=charge.diameter,
            )
        self._admitted |= {(identity, part.name): part for part in parts}
        if self._tracker is not None:
            spent = dict(zip(("ledger/epsilon", "ledger/delta"), self.ledger.spent(), strict=True))
            self._tracker.log(len(self.ledger.plans()), spent)
        return Run(plan, identity, bound)

    def _require_fit(self, plan: Plan) -> None:
        """Raise a PlanError unless the mechanisms of this vault serve every part."""
        if not all(isinstance(part, self._kinds) for part in plan.parts()):
            what = f"the plan has a part that a {type(self).__name__} does not serve"
            expected = f"parts of the kinds {', '.join(kind.__name__ for kind in self._kinds)}"
            remedy = "open the vault that the method's page names"
            raise PlanError(what, where=f"{plan.method} plan", expected=expected, remedy=remedy)

    def steps_left(self, run: Run, part: str) -> int:
        """How many steps of this part may still run."""
        held = self._claimed.get((run.plan_id, part), range(0))
        return len(held) + self.ledger.steps(run.plan_id, part) - self.ledger.claimed(run.plan_id, part)

    def has_started(self, run: Run) -> bool:
        """Whether any step of the run has been claimed, now or in an earlier process."""
        return any(self.ledger.claimed(run.plan_id, part.name) for part in run.plan.parts())

    def next_step(self, run: Run, part: str) -> int:
        """The index of the step that the next call of the mechanism will run, claiming its block if need be.

        Raises:
            PlanExhausted: every step has been claimed.
        """
        held = self._claimed.get((run.plan_id, part), range(0))
        if not held:
            block = max(1, self.ledger.steps(run.plan_id, part) // 100)
            ranges = {ledger.claim(run.plan_id, part, block) for ledger in self.ledgers}
            if len(ranges) != 1:
                raise vault_error("the replicates' ledgers are at different steps", "ledgers that began together")
            held = self._claimed[run.plan_id, part] = ranges.pop()
        return held.start

    def is_block_end(self, run: Run, part: str) -> bool:
        """Whether every claimed step has been run: the moment at which a checkpoint loses nothing."""
        return not self._claimed.get((run.plan_id, part), range(0))

    def record_policy(self, run: Run, policy: Any) -> None:
        """Enter in the ledger which policy the run has arrived at: whom it reads afterwards did not teach that policy.

        One that is no policy of tacit's classes over discrete actions is known by no digest, and not entered.
        """
        if has_digest(policy):
            self._remember(run, {digest(policy)}, POLICY)

    def _certify(self, run: Run, value: Value, label: Label, assumptions: Sequence[Clause]) -> Release[Value]:
        """A value that came out of the run, with its certificate; `assumptions` are the vault's own."""
        self._checks.require_unchanged("release")
        self._require_started(run)
        if (policy := acting_policy(value)) is not None:
            self.record_policy(run, policy)
        certificate = certify(
            run.plan,
            run.plan_id,
            self.ledger,
            label,
            simulated=self.simulated,
            callbacks=sorted(self._remembered_names(run)),
            assumptions=assumptions,
        )
        return Release(value, certificate)

    def _require_started(self, run: Run) -> None:
        # Refuse to certify what cannot have come out of the run: it is not the ledger's, or nothing was asked yet.
        plan, where = run.plan, f"{run.plan.method} plan {run.plan_id}"
        if run.plan_id != plans.plan_id(plan) or all(summary.id != run.plan_id for summary in self.ledger.plans()):
            what = "the plan is not one that the ledger admitted"
            expected, remedy = "the run that Vault.reserve returned", "release a value with the run it came from"
            raise LedgerError(what, where=where, expected=expected, remedy=remedy)
        if not self.has_started(run):
            what = "no step of the run was claimed, so that no value can have come out of it"
            expected = "a value that was computed from what the run's mechanism calls returned"
            remedy = "ask for it first, by noisy_sum or another mechanism call, and release what you compute from that"
            raise LedgerError(what, where=where, expected=expected, remedy=remedy)

    def _take(self, run: Run, part: Part, steps: int = 1) -> None:
        """Use up so many claimed steps of a part that this vault admitted, in this process; all of them or none."""
        if self._admitted.get((run.plan_id, part.name)) != part:
            raise vault_error("the run is not as this vault admitted it", "the run that reserve returned, unchanged")
        with self._lock:
            for ledger in self.ledgers:
                ledger.claimed(run.plan_id, part.name)  # refuses a forked child, which shares the held block
            if steps > 1 and (left := self.steps_left(run, part.name)) < steps:
                raise PlanExhausted(
                    f"{left:,} steps are left of the part {part.name!r}",
                    where=f"{run.plan.method} plan {run.plan_id}",
                    expected=f"the {steps:,} that were asked for",
                    remedy="ask for fewer, or declare more in another plan within the ledger's budget",
                )
            for _ in range(steps):
                step = self.next_step(run, part.name)
                held = self._claimed[run.plan_id, part.name]
                self._claimed[run.plan_id, part.name] = range(step + 1, held.stop)

    def _track_release(self, run: Run, part: str, value: Value) -> Value:
        """A value that has left the mechanism of this part; the tracker is shown figures of it."""
        if self._tracker is not None:
            done = self.ledger.steps(run.plan_id, part) - self.steps_left(run, part)
            self._tracker.log(done, figures(part, value))
        return value

    def _remember(self, run: Run, names: Set[str], kind: str = CALLBACK) -> None:
        """Enter what is the user's own in the ledgers, so that the certificates of later processes name it too."""
        new = {name for name in names if (run.plan_id, kind, name) not in self._known_names}
        for name in sorted(new - self._remembered_names(run, kind)) if new else ():
            for ledger in self.ledgers:
                ledger.note(kind, f"{run.plan_id} {name}")
        self._known_names |= {(run.plan_id, kind, name) for name in new}

    def _remembered_names(self, run: Run, kind: str = CALLBACK) -> set[str]:
        """What was the user's own in this plan, now or in an earlier process."""
        notes = (entry.payload for entry in self.ledger.entries() if entry.kind == "note")
        texts = (note["text"].partition(" ") for note in notes if note["kind"] == kind)
        return {name for plan_id, _, name in texts if plan_id == run.plan_id}


def vault_error(what: str, expected: str) -> LedgerError:
    """The error of a vault that would not keep its promise."""
    return LedgerError(what, where="Vault", expected=expected, remedy="open one vault over one dataset and its ledger")


def figures(name: str, value: Any) -> dict[str, float]:
    """What a tracker is shown of a released value."""
    # returns: of an array or tensor NAME/length (Euclidean, over all replicates) and NAME/largest (absolute); of
    # prefixes NAME/count (those that are not empty) and NAME/steps; of a selection NAME/candidate and NAME/score
    if isinstance(value, BestRun):
        return {f"{name}/candidate": float(value.candidate), f"{name}/score": value.score}
    if isinstance(value, list):
        steps = np.concatenate([prefixes.lengths for prefixes in value])
        return {f"{name}/count": float((steps > 0).sum()), f"{name}/steps": float(steps.sum())}
    host = value.detach().cpu().numpy() if hasattr(value, "detach") else value
    numbers = np.abs(np.asarray(host, np.float64).reshape(-1))
    return {f"{name}/length": float(np.linalg.norm(numbers)), f"{name}/largest": float(numbers.max(initial=0.0))}


# From a plan, a ledger and a method's own words to a certificate.


def certify(
    plan: Plan,
    plan_id: str,
    ledger: Ledger,
    label: Label,
    *,
    simulated: bool,
    callbacks: Sequence[str],
    assumptions: Sequence[Clause] = (),
) -> Certificate:
    """The certificate of a run: what was promised, computed from the plan's own event."""
    releases = [
        {
            "plan_id": one.id,
            "method": one.method,
            "epsilon": one.epsilon,
            "delta": one.delta,
            "rdp": one.rdp,
            "mu": one.mu,
            "fold": one.fold,
            **({} if one.diameter is None else {"diameter": one.diameter}),
        }
        for one in ledger.plans()
    ]
    callback_clauses = [clause("kept_apart", words=name) for name in callbacks]
    looks = sum(entry.kind == "note" and entry.payload["kind"] == NONPRIVATE for entry in ledger.entries())
    return Certificate.build(
        method=plan.method,
        source=plan.source,
        unit=plan.unit,
        event=plans.event(plan),
        parts=certificate_parts(plan.parts()),
        delta=plan.delta,
        plan_id=plan_id,
        plan=plans.public_fields(plan),
        ledger_head=ledger.head,
        dataset_id=ledger.dataset_id,
        simulated=simulated,
        void_reason=ledger.void_reason,
        releases=releases,
        budget=(ledger.epsilon, ledger.delta),
        ceiling=ledger.ceiling,
        epsilon_target=plan.epsilon,
        composition=ledger.composition,
        covered=label.covered,
        not_covered=[*label.not_covered, *([clause("looks", looks=looks)] if looks else [])],
        assumptions=[*label.assumptions, *callback_clauses, *assumptions],
        not_protected=[*label.not_protected, *_other_log_clauses(ledger, plan_id)],
    )


def _other_log_clauses(ledger: Ledger, plan_id: str) -> list[Clause]:
    """Where another plan of the ledger protects policies alone: what the total then does not protect."""
    held = {plan.id for plan in ledger.plans()} - {plan_id}
    reserved = (entry.payload for entry in ledger.entries() if entry.kind == "reserve")
    plan_ids = {
        payload["plan"]
        for payload in reserved
        if payload["plan"] in held
        and any_publishes_logs([*map(part_from_json, payload["description"].get("parts", ()))])
    }
    return [clause("logs_elsewhere", plan=identity) for identity in sorted(plan_ids)]
