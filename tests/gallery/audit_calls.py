"""Wrong calls of `tacit audit`; none of them spends anything."""

from __future__ import annotations

from pathlib import Path

from vault_cases import Rewards, open_vault, priced
from wrong_calls import WrongCall

from tacit.cli import declarations
from tacit.cli.audit import audit as command
from tacit.evaluation import audits
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.base import Label


def nothing_to_audit(folder: Path) -> None:
    command(declarations.AuditCommand())


def two_things_to_audit(folder: Path) -> None:
    command(declarations.AuditCommand(run=folder, all=True))


def an_audit_of_no_method(folder: Path) -> None:
    audits.audit("magic")


def an_audit_of_three_runs(folder: Path) -> None:
    command(declarations.AuditCommand(methods=("experts",), runs=3))


def an_audit_by_nobody(folder: Path) -> None:
    command(declarations.AuditCommand(methods=("experts",), jobs=0))


def an_audit_of_what_promises_nothing(folder: Path) -> None:
    vault = open_vault(folder, [[1.0]], noise=SecretNoise.for_tests(1))
    run = vault.reserve(priced(vault, noise_multiplier=1.0, steps=1))
    vault.noisy_sum(run, "sum", Rewards())
    vault.release(run, 0.0, label=Label((), (), ())).certificate.save(folder / "certificate.json")
    command(declarations.AuditCommand(run=folder))


def findings_where_something_is(folder: Path) -> None:
    command(declarations.AuditCommand(methods=("experts",), out=folder))


def findings_that_are_torn(folder: Path) -> None:
    path = folder / audits.FILE
    path.write_text('{"format": 2, "audi')
    audits.load(path)


AUDIT_CALLS: tuple[WrongCall, ...] = (
    nothing_to_audit,
    two_things_to_audit,
    an_audit_of_no_method,
    an_audit_of_three_runs,
    an_audit_by_nobody,
    an_audit_of_what_promises_nothing,
    findings_where_something_is,
    findings_that_are_torn,
)
