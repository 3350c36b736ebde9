"""`tacit synthesize`: private records in, a synthetic dataset with its certificate out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.cli import outcome, payable, runs
from tacit.cli.budget import open_ledger
from tacit.cli.console import complain, progress, say
from tacit.cli.folders import RunFolder, require_free
from tacit.cli.synthesis_commands import Synthesize
from tacit.cli.synthesis_methods import fitted, require_sound, wanted
from tacit.cli.synthesis_plans import DIFFUSED, planned
from tacit.cli.synthesis_sections import sections
from tacit.cli.synthesis_sources import Sources, opened, require_apart, require_there
from tacit.evaluation.sequences import Sequences
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

Columns = Mapping[str, np.ndarray[Any, Any]]
LOOK = "closeness of the synthetic rows to the records"
"""Why the curator looks at the records after a release, as the ledger has it."""


def synthesize(command: Synthesize) -> None:
    """Check what is cheap, plan, promise, train, sample, report.

    Raises:
        TacitError: see the exit codes of `tacit.cli.app.main`; nothing is spent before training begins.
        ModuleNotFoundError: a package is missing.
    """
    if not command.dry_run:
        require_free(command.out, resume=command.resume)
    unit, words = Unit(command.unit, command.relation, command.population), _words(command)
    require_sound(command)
    require_there(command)
    paid = command.resume and (command.out / runs.MODEL).exists()
    if not paid:
        payable.require_alike(command, unit, words)
    with progress("Calibrating the noise"):
        plan = planned(command)
    if not paid:
        payable.require_payable(command, plan, words, resumed=command.resume)
    say(str(plan))
    if command.dry_run:
        say("Dry run: no private record was read and nothing was spent.")
        return
    sources = opened(command)
    settings = {k: v for k, v in dataclasses.asdict(command).items() if k not in ("resume", "dry_run", "out")}
    with RunFolder.attempt(command.out, "synthesize", settings, resume=command.resume) as run:
        try:
            _produce(command, plan, sources, run)
        except ModuleNotFoundError:
            if runs.trained(run):
                complain("The release is saved and nothing is lost: install the package and repeat with --resume.")
            raise


def _words(command: Synthesize) -> payable.Words:
    return payable.Words(
        people=f"{command.unit}s",
        doing="synthesis",
        done="learned from",
        do="synthesize",
        anew="give slightly less --epsilon",
    )


def _produce(command: Synthesize, plan: Any, sources: Sources, run: RunFolder) -> None:
    watch = outcome.Stopwatch()
    if run.read()["finished"]:
        say("The run was finished already.")
        runs.closing(run)
        return
    looks = command.nonprivate_diagnostics and not sources.data.simulated
    if runs.trained(run) and not looks:
        release = runs.load(run)
        rows = _rows(command, release, run, watch)
    else:
        with open_ledger(command, plan.unit) as ledger:
            vault = Vault(sources.data, ledger)
            if runs.trained(run):
                release = runs.load(run)
            else:
                require_apart(command, sources, vault)
                with payable.spending(ledger, _words(command)):
                    release = fitted(command, plan, vault, sources.public, run, watch)
            rows = _rows(command, release, run, watch)
            if looks:
                _look(command, vault, rows.columns, sources, run)
    with progress("Measuring and writing the report"):
        outcome.finish(run, runs.report(release, run.path.name, sections(command, release, rows, sources, watch)))
    runs.closing(run)


def _rows(command: Synthesize, release: Release[Any], run: RunFolder, watch: outcome.Stopwatch) -> Sequences:
    sampling = {"device": command.device} if command.method in DIFFUSED else {}
    with watch.phase("Sampling"):
        return runs.publish(run, release, wanted(command), seed=command.seed, **sampling)


def _look(command: Synthesize, vault: Vault, rows: Columns, sources: Sources, run: RunFolder) -> None:
    """The curator's own figures, under private/, noted in the ledger."""
    from tacit.evaluation.report import tables

    run.inside("private")
    others = None if sources.holdout is None else sources.holdout.columns

    def look(real: Columns) -> dict[str, float]:
        return tables.curators(rows, real, others, seed=command.seed)

    vault.nonprivate(look, reason=LOOK, folder=run.path)
    say()
    say(f"NOT PRIVATE  {run.path / 'private'} holds figures computed from the records without noise, for the curator.")
    say("             Whoever publishes them voids the promise of this ledger: remove the folder before sharing OUT.")
