"""Detectors around the ledger, its files and its certificates, as those of `detectors.py`."""

from __future__ import annotations

import contextlib
import io
import logging
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from user_cases import Scripted, open_user_vault
from vault_cases import Rewards, begun, open_vault, priced, records, unit_of

from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.data.spec import Discrete
from tacit.errors import BudgetExceeded, LedgerError, PlanError, PlanExhausted, TacitError
from tacit.methods.off_policy_evaluation import BehaviourPolicy, ImportanceSampling, Problem, Tabular, Uniform, fit
from tacit.methods.policy_gradient.algorithm import fit as train
from tacit.methods.policy_gradient.plan import PolicyGradientPlan
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.base import Label
from tacit.privacy.vault.vault import Vault

UNITS, POPULATION = [[0.5], [1.0, 2.0], [-0.5]], 10


def nothing_but_releases(folder: Path) -> None:
    """What is printed, logged, warned of, noted and left in files is the same with and without somebody."""
    told = []
    for name, units in (("with", [*UNITS, [9.0, 9.0]]), ("without", UNITS)):
        own, screen, log = folder / name, io.StringIO(), io.StringIO()
        own.mkdir()
        handler, root = logging.StreamHandler(log), logging.getLogger()
        level = root.level
        root.addHandler(handler)
        root.setLevel(logging.DEBUG)
        try:
            with (
                contextlib.redirect_stdout(screen),
                contextlib.redirect_stderr(screen),
                warnings.catch_warnings(record=True) as warned,
            ):
                vault = open_vault(own, units, unit=unit_of(POPULATION))
                run = vault.reserve(priced(vault, noise_multiplier=1.0, rows_per_unit=2))
                for _ in range(3):
                    vault.noisy_sum(run, "sum", Rewards())
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
        noted = [(e.kind, {k: v for k, v in e.payload.items() if k != "dataset_id"}) for e in vault.ledger.entries()]
        vault.ledger.close()
        files = sorted((path.name, path.stat().st_size) for path in own.iterdir())
        told.append((screen.getvalue(), log.getvalue(), len(warned), noted, files))
    for what, one, other in zip(("screen", "log", "warnings", "ledger", "files"), *told, strict=True):
        assert one == other, f"somebody shows in the {what}"


def steps_of_a_plan(folder: Path) -> None:
    """A plan of five steps releases five, and the ledger says so after each."""
    vault = open_vault(folder, UNITS, unit=unit_of(POPULATION))
    run, released = vault.reserve(priced(vault, noise_multiplier=1.0, steps=5)), 0
    with contextlib.suppress(PlanExhausted):
        for _ in range(12):
            vault.noisy_sum(run, "sum", Rewards())
            released += 1
            assert vault.ledger.claimed(run.plan_id, "sum") >= released, "more steps ran than were claimed"
    assert released == 5, f"{released} steps of a plan of 5"


def edited_plan(folder: Path) -> None:
    """A known id with other terms is refused, and a plan that was begun is never given back."""
    vault = open_vault(folder, UNITS, unit=unit_of(POPULATION), epsilon=100.0)
    run = vault.reserve(priced(vault, noise_multiplier=1.0, steps=2))
    terms = {"parts": {"sum": 2}, "epsilon": 50.0, "delta": 1e-4}
    try:
        vault.ledger.reserve(run.plan_id, {"method": "another"}, **terms)  # type: ignore[arg-type]
    except PlanError:
        pass
    else:
        raise AssertionError("an edited plan passes for the one that was reserved")
    vault.noisy_sum(run, "sum", Rewards())
    spent = vault.ledger.spent()
    with contextlib.suppress(LedgerError):
        vault.ledger.cancel(run.plan_id)
    assert vault.ledger.spent() == spent, "a plan that was begun gave its charge back"


def promise_for_all_time(folder: Path) -> None:
    """However often the budget is raised, and whatever was admitted before, all plans stay below the first ceiling."""
    for ceiling in (None, 2.0):  # without one, the budget of 1 is the ceiling
        own, path = ceiling or 1.0, folder / f"{ceiling}.ledger"
        unit, costs = unit_of(1_000), 0.0
        with Ledger(path, unit, epsilon=1.0, delta=1e-5, composition=SUM, ceiling=ceiling) as ledger:
            for number, epsilon in enumerate((1.0, 1.5, 2.0, 2.5, 4.0, 100.0)):
                with contextlib.suppress(LedgerError):
                    ledger.raise_budget(epsilon)
                for plan in range(8):
                    with contextlib.suppress(BudgetExceeded):
                        described = {"method": "sums"}
                        ledger.reserve(f"{number} {plan}", described, parts={"s": 1}, epsilon=0.25, delta=1e-8)
                        costs += 0.25
            assert costs == own, f"plans of {costs} were admitted under a ceiling of {own}"
        with Ledger(path, ceiling=own) as again:
            assert again.epsilon == own, f"the budget is {again.epsilon} above a ceiling of {own}"


def seed_replay(folder: Path) -> None:
    """Noise that somebody can draw again voids the ledger."""
    vault = open_vault(folder, UNITS, unit=unit_of(POPULATION), noise=SecretNoise.for_tests(1))
    assert vault.ledger.void_reason is not None, "seeded noise passes for secret noise"


def restored_ledger(folder: Path) -> None:
    """A ledger that alone was put back from an older copy is refused, by its lock file and by all who saw its head."""
    vault = open_vault(folder, UNITS, unit=unit_of(POPULATION))
    run, path = vault.reserve(priced(vault, noise_multiplier=1.0, steps=3)), vault.ledger.path
    shutil.copy(path, folder / "copy")
    vault.noisy_sum(run, "sum", Rewards())
    head = vault.ledger.head
    vault.ledger.close()
    shutil.copy(folder / "copy", path)
    for needless in (False, True):
        if needless:
            path.with_name(path.name + ".lock").unlink()
        try:
            with Ledger(path) as older:
                older.require(head)
        except LedgerError:
            continue
        raise AssertionError("an older ledger goes on")


def second_writer(folder: Path) -> None:
    """A second vault over the same ledger is refused while the first one lives."""
    first = open_vault(folder, UNITS, unit=unit_of(POPULATION))
    try:
        Vault(records(UNITS), Ledger(first.ledger.path))
    except LedgerError:
        return
    raise AssertionError("two writers hold one ledger")


def edited_certificate(folder: Path) -> None:
    """A certificate whose epsilon, delta or unit was edited is refused."""
    vault = open_vault(folder, UNITS, unit=unit_of(POPULATION))
    plan = priced(vault, noise_multiplier=1.0, steps=2)
    release = vault.release(begun(vault, vault.reserve(plan)), None, label=Label((), (), ()))
    record = release.certificate.to_json()
    Certificate.from_json(record).verify()
    for name, value in (("epsilon", 0.1), ("delta", 1e-9), ("unit", {**record["unit"], "population": 10**6})):
        with contextlib.suppress(TacitError):
            Certificate.from_json({**record, name: value}).verify()
            raise AssertionError(f"an edited {name} is believed")


def refused_at_no_cost(folder: Path) -> None:
    """A table of probabilities is refused by records of numbers, and the ledger is as it was."""
    vault = open_vault(folder, UNITS, unit=unit_of(POPULATION))
    plan = ImportanceSampling(problem=Problem(gamma=1.0, horizon=2, return_range=(0.0, 1.0)))
    plan = plan.calibrate(unit=vault.unit, epsilon=1.0, delta=1e-3)
    actions = vault.spec.action.n if isinstance(vault.spec.action, Discrete) else 1
    table = Tabular(np.full((3, actions), 1 / actions))
    with contextlib.suppress(Exception):
        fit(plan, vault, table, behaviour=BehaviourPolicy(Uniform(actions), "declared"))
    assert not list(vault.ledger.plans()), "an evaluation was paid for that cannot be made"


@dataclass(frozen=True)
class Forward(Mlp):
    """A network without a way back."""

    def backward(self, *given: Any, **options: Any) -> Any:
        raise RuntimeError


def rehearsed_at_no_cost(folder: Path) -> None:
    """A policy that has no gradient is refused, and the ledger is as it was."""
    vault = open_user_vault(folder, Scripted([], {}))
    start = Policy.default(vault.spec, ())
    policy = Policy(start.features, Forward(start.network.sizes), start.head)  # type: ignore[attr-defined]
    plan = PolicyGradientPlan(rounds=1, users=4, horizon=4, critic="none", noise_multiplier=2.0)
    with contextlib.suppress(Exception):
        train(plan.account(unit=vault.unit, delta=1e-3), vault, policy)
    assert not list(vault.ledger.plans()), "a run was paid for that cannot be made"


LEDGER_DETECTORS = (
    nothing_but_releases,
    steps_of_a_plan,
    edited_plan,
    promise_for_all_time,
    seed_replay,
    restored_ledger,
    second_writer,
    edited_certificate,
    refused_at_no_cost,
    rehearsed_at_no_cost,
)
