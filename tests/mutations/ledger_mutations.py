"""Mistakes around the ledger, its files and its certificates, planted as those of `mutations.py`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.methods.off_policy_evaluation import targets
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.gradients import clipping
from tacit.privacy.ledger import state as ledger_state
from tacit.privacy.ledger import store as ledger_lock
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.store import WriterLock
from tacit.privacy.vault.base import BaseVault
from tacit.privacy.vault.devices import Device
from tacit.privacy.vault.vault import Vault

Plant = Callable[[pytest.MonkeyPatch], None]


def metric_in_the_log(patch: pytest.MonkeyPatch) -> None:
    """The mean norm of what units contribute is logged, to watch the clip."""
    real = clipping.clipped_sums

    def clipped_sums(vectors: Any, *rest: Any) -> Any:
        logging.getLogger("training").info("mean norm %.3f", np.linalg.norm(vectors, axis=1).mean())
        return real(vectors, *rest)

    patch.setattr(clipping, "clipped_sums", clipped_sums)


def count_in_the_ledger(patch: pytest.MonkeyPatch) -> None:
    """Every step notes how many units are in the records."""
    real = Vault.noisy_sum

    def noisy_sum(self: Vault, *rest: Any) -> Any:
        self.ledger.note("batch", str(self._records.reader().units))
        return real(self, *rest)

    patch.setattr(Vault, "noisy_sum", noisy_sum)


def metric_on_the_screen(patch: pytest.MonkeyPatch) -> None:
    """The largest reward is printed, as a first look at the data."""
    real = Vault.reserve

    def reserve(self: Vault, plan: Any) -> Any:
        print("largest reward", self._records.reader()._data._columns["rewards"].max())
        return real(self, plan)

    patch.setattr(Vault, "reserve", reserve)


def two_steps_a_claim(patch: pytest.MonkeyPatch) -> None:
    """T steps are claimed and 2 T are run."""
    real, calls = BaseVault._take, [0]

    def take(self: Any, run: Any, part: Any, steps: int = 1) -> None:
        calls[0] += 1
        if calls[0] % 2:
            real(self, run, part, steps)

    patch.setattr(BaseVault, "_take", take)


def edited_plan_goes_on(patch: pytest.MonkeyPatch) -> None:
    """Whatever is reserved under a known id is the plan that was reserved under it."""
    real = Ledger.reserve

    def reserve(self: Ledger, plan_id: str, *rest: Any, **terms: Any) -> None:
        if plan_id not in self._state.plans:
            real(self, plan_id, *rest, **terms)

    patch.setattr(Ledger, "reserve", reserve)


def seeded_noise_unnoticed(patch: pytest.MonkeyPatch) -> None:
    """Noise from a seed that somebody may replay leaves the ledger as it is."""
    patch.setattr(BaseVault, "_void_if_seeded", lambda self: None)


def older_ledger_goes_on(patch: pytest.MonkeyPatch) -> None:
    """Nobody compares the ledger with the head beside it, or with the checkpoint's."""
    patch.setattr(WriterLock, "head", property(lambda self: None))
    patch.setattr(Ledger, "require", lambda self, head: None)


def two_writers_at_once(patch: pytest.MonkeyPatch) -> None:
    """The lock is not taken, and nobody looks whether somebody else has written."""
    real = ledger_lock._take
    patch.setattr(
        ledger_lock, "_take", lambda path, kind: real(Path(f"{path}.{np.random.default_rng().integers(2**60)}"), kind)
    )


def touched_plan_cancelled(patch: pytest.MonkeyPatch) -> None:
    """A plan gives its charge back after its first step."""

    def cancel(self: Any, payload: Any) -> Any:
        plan_id = payload["plan"]
        balance = self.balance.without_charge(self.plans[plan_id].charge, None)
        return ledger_state.replace(self, plans=self.plans.drop(plan_id), balance=balance)

    patch.setattr(ledger_state.LedgerState, "_cancel", cancel)


def ceiling_raised_later(patch: pytest.MonkeyPatch) -> None:
    """A budget that is raised above the ceiling raises the ceiling with it."""

    def raise_both(self: Any, payload: Any) -> Any:
        epsilon, terms = float(payload["epsilon"]), self.bound_terms
        terms = ledger_state.replace(terms, ceiling=max(epsilon, terms.ceiling))
        return ledger_state.replace(self, terms=terms, budgets=(*self.budgets, max(epsilon, self.budget)))

    patch.setattr(ledger_state.LedgerState, "_raise", raise_both)


def edited_certificate_believed(patch: pytest.MonkeyPatch) -> None:
    """A certificate is what it says."""
    patch.setattr(Certificate, "verify", lambda self, *_: self)


def missed_steps_stay_free(patch: pytest.MonkeyPatch) -> None:
    """A device that was away claims 1 % of what it missed, and answers."""
    real = Device.answer

    def answer(self: Device, plan_id: str, part: str, step: int, *rest: Any) -> Any:
        claim, done = self.ledger.claim, self.ledger.claimed(plan_id, part)

        def once(*asked: Any) -> range:
            return range(step + 1) if asked and claim(*asked) else range(0)

        self.ledger.claim = once if step > done else claim  # type: ignore[method-assign]
        try:
            return real(self, plan_id, part, step, *rest)
        finally:
            self.ledger.claim = claim  # type: ignore[method-assign]

    patch.setattr(Device, "answer", answer)


def policies_untried(patch: pytest.MonkeyPatch) -> None:
    """A policy meets its first observation when it is paid for."""
    patch.setattr(targets, "try_policy", lambda *_: None)


def contributions_untried(patch: pytest.MonkeyPatch) -> None:
    """What a step computes meets its first unit when it is paid for."""
    patch.setattr(BaseVault, "rehearse", lambda *_: None)


LEAKS = "nothing_but_releases"

LEDGER: tuple[tuple[str, Plant, tuple[str, ...]], ...] = (
    ("metric in the log", metric_in_the_log, (LEAKS,)),
    ("metric on the screen", metric_on_the_screen, (LEAKS,)),
    ("count in the ledger", count_in_the_ledger, (LEAKS,)),
    ("two steps a claim", two_steps_a_claim, ("steps_of_a_plan",)),
    ("edited plan goes on", edited_plan_goes_on, ("edited_plan",)),
    ("touched plan cancelled", touched_plan_cancelled, ("edited_plan",)),
    ("a ceiling raised later", ceiling_raised_later, ("promise_for_all_time",)),
    ("seeded noise unnoticed", seeded_noise_unnoticed, ("seed_replay",)),
    ("older ledger goes on", older_ledger_goes_on, ("restored_ledger",)),
    ("two writers at once", two_writers_at_once, ("second_writer",)),
    ("edited certificate believed", edited_certificate_believed, ("edited_certificate",)),
    ("missed steps stay free", missed_steps_stay_free, ("queries_repeated",)),
    ("policies untried", policies_untried, ("refused_at_no_cost",)),
    ("contributions untried", contributions_untried, ("rehearsed_at_no_cost",)),
)
