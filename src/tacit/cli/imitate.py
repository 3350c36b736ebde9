"""`tacit imitate`: where people were in, a simulator of movement with its certificate out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from tacit import hub
from tacit.cli import movement_report, movement_sources, outcome, payable
from tacit.cli.budget import ledger_path
from tacit.cli.console import Interrupted, progress, say
from tacit.cli.folders import RunFolder, require_free
from tacit.cli.generate import cautions
from tacit.cli.movement_commands import Imitate
from tacit.cli.movement_options import require_sound
from tacit.cli.movement_runs import Released, fitted, require_packages, vault_of
from tacit.cli.movement_words import Plan, planned, region, require_answerable, unit
from tacit.data.mobility.days import Days
from tacit.data.mobility.grids import Grid
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.vault.vault import Vault

FOLDER, CHECKPOINT = "simulator", "checkpoint"
SIMULATED = "The people are simulated: nobody is behind them, and the certificate and the report say so."
WORDS = payable.Words(
    people="people", doing="imitation", done="made of", do="imitate", anew="give slightly less --epsilon"
)


def imitate(command: Imitate) -> None:
    """Plan, promise, imitate, release, report.

    Raises:
        TacitError: see the exit codes of `tacit.cli.app.main`; nothing is spent before the imitation begins.
    """
    require_sound(command)
    unit(command)
    settings = {k: v for k, v in dataclasses.asdict(command).items() if k not in ("resume", "dry_run", "out")}
    if not command.dry_run:
        require_free(command.out, resume=command.resume)
        if (command.out / "run.json").exists():
            RunFolder(command.out).require_same("imitate", settings)
        movement_sources.require_there(command)
        require_packages(command)
    grid = None if command.dry_run and command.grid is not None else region(command)
    with progress("Calibrating the noise"):
        plan = planned(command)
    if grid is not None:
        require_answerable(plan, grid)
    released = (command.out / FOLDER).exists()
    if not command.dry_run and not released:
        payable.require_payable(command, plan, WORDS, resumed=command.resume and _kept(command.out))
    _promise(command, plan, grid)
    if command.dry_run:
        say("Dry run: no file was opened and nothing was spent.")
        return
    assert grid is not None
    with RunFolder.attempt(command.out, "imitate", settings, resume=command.resume) as run:
        _produce(command, plan, grid, run)


def _promise(command: Imitate, plan: Plan, grid: Grid | None) -> None:
    say(str(plan))
    if grid is not None:
        say(f"Public grid: {grid.size:,} cells.")
    say(
        f"Protected: everything of one {command.unit}. Not protected: what most {command.unit}s have in common, and "
        "the rules by which records became days."
    )
    if movement_sources.nobody(command):
        say(SIMULATED)


def _produce(command: Imitate, plan: Plan, grid: Grid, run: RunFolder) -> None:
    watch = outcome.Stopwatch()
    release: Released
    if run.read()["finished"]:
        say("The run was finished already.")
        release = hub.load(run.inside(FOLDER))
    else:
        nobody = movement_sources.nobody(command)
        if run.inside(FOLDER).exists():
            release = hub.load(run.inside(FOLDER))
            days = movement_sources.days(command, grid) if nobody else None
        else:
            days = movement_sources.days(command, grid)
            release = _released(command, plan, days, run)
        run.remove(CHECKPOINT)
        outcome.certify(run, release.certificate)
        shown = days if nobody else None
        report = movement_report.report(command, plan, release, shown, run)
        costs = watch.costs() if nobody else ()
        outcome.finish(run, dataclasses.replace(report, costs=costs))
    _closing(command, run)


def _released(command: Imitate, plan: Plan, days: Days, run: RunFolder) -> Released:
    """The release, saved; an interruption that leaves nothing to go on from says what is lost."""
    with payable.opened(command, plan, run) as ledger:
        vault = vault_of(plan, days, ledger, simulated=movement_sources.nobody(command))
        before = len(ledger.entries())
        try:
            told = "Asking people's critics" if command.method == "pategail" else "Imitating with privacy"
            with payable.spending(ledger, WORDS):
                folder = run.inside(CHECKPOINT)
                release = fitted(
                    plan, vault, days.grid, seed=command.seed, told=told, folder=folder, resume=command.resume
                )
            hub.save(release, run.inside(FOLDER), notes=_notes(command))
        except KeyboardInterrupt:
            if len(ledger.entries()) > before and not _kept(run.path):
                raise Interrupted(_lost(command, ledger.path)) from None
            raise
        if command.nonprivate_diagnostics:
            assert isinstance(vault, Vault)
            movement_report.look(vault, release.value, run)
    return release


def _kept(out: Path) -> bool:
    """Whether a method of many rounds left a checkpoint to go on from."""
    return (out / CHECKPOINT / "checkpoint.safetensors").exists()


def _lost(command: Imitate, ledger: Path) -> str:
    if payable.inside(command):
        return "nobody's budget is lost: begin again with another folder"
    return f"what was charged stays charged (see tacit ledger show {ledger}), and this imitation cannot go on"


def _notes(command: Imitate) -> dict[str, Any]:
    """What `tacit generate` needs to know."""
    return {} if command.zone is None else {"zone": command.zone}


def _closing(command: Imitate, run: RunFolder) -> None:
    folder = run.path
    if (folder / "private").exists():
        say()
        say(
            f"NOT PRIVATE  {folder / 'private'} holds figures computed from the records without noise, for the curator."
        )
        say("             Whoever publishes them voids the promise of this ledger: remove the folder before sharing.")
    say()
    for line in cautions(Certificate.load(run.inside(outcome.CERTIFICATE))):
        say(f"Caution  {line}.")
    say(f"Open     {folder / outcome.REPORT}")
    say(f"Map      {folder / movement_report.MAP}")
    say(f"Verify   tacit certificate verify {folder / outcome.CERTIFICATE}")
    say(f"Days     tacit generate {folder / FOLDER} --days 1000 --out days.csv")
    ledger = folder / payable.LEDGER if payable.inside(command) else ledger_path(command)
    say(f"Budget   tacit ledger show {ledger}")
