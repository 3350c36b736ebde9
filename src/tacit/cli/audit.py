"""`tacit audit`: lower bounds on epsilon, from canaries in the real mechanisms; `tacit report`: a run's page again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from tacit.cli import declarations
from tacit.cli.console import progress, require_new, say
from tacit.cli.declarations import AuditCommand
from tacit.errors import CertificateError, FileError
from tacit.evaluation import audits
from tacit.privacy.certificate.certificate import Certificate
from tacit.study.folder import CERTIFICATE, RunFolder
from tacit.study.words import option_error

COLUMNS = ("method", "parts", "unit", "certified ε", "lower bound", "by", "power", "runs", "CPU s")
WIDE = 160
"""Of the table, where the output is no terminal."""
Found = tuple[audits.AuditResult, float]
"""What was found, and in how many seconds of processor time."""


def audit(command: AuditCommand) -> None:
    """Audit a run's certificate, or methods of the library.

    Raises:
        PlanError: nothing is named, or two things are; or a number is out of range.
        CertificateError: the certificate does not hold or has nothing to audit; or a bound is above what was certified.
        FileError: the run is no run, or the file for the findings exists.
    """
    from tacit.evaluation.audits.running import CASES  # it loads PyTorch, which `tacit report` needs not

    names = list(CASES) if command.all else list(dict.fromkeys(command.methods))
    if (command.run is not None) + command.all + bool(command.methods) != 1:
        what = "nothing is" if command.run is None and not names else "several things are"
        expected = "the folder of a run, or --all, or --methods NAME..."
        raise option_error("audit", f"{what} named to audit", expected, "name one of them")
    effort = audits.QUICK if command.quick else audits.FULL
    if command.runs is not None:
        effort = audits.Effort(fused=command.runs, single=command.runs, crowded=effort.crowded)
    if command.run is not None:
        results = [_audit_run(command, RunFolder(command.run), effort)]
    else:
        if command.out is not None:
            require_new(command.out)
        results = [_run_audit(command, name, name, effort) for name in names]
        if command.out is not None:
            audits.save(command.out, tuple(result for result, _ in results))
    _show(results)
    refuted = [result.words for result, _ in results if not result.is_upheld]
    if refuted:
        what = "an audit found a larger epsilon than was certified"
        expected = "a bound below the certificate, but for the chance that the confidence leaves"
        remedy = "audit again with more runs; if it stays so, do not publish, and report it"
        raise CertificateError(what, where="; ".join(refuted), expected=expected, remedy=remedy)


def _audit_run(command: AuditCommand, run: RunFolder, effort: audits.Effort) -> Found:
    """Audit the sums of a run's certificate, and write what was found beside it."""
    path = run.resolve(CERTIFICATE)
    certificate = Certificate.load(path)
    certificate.verify()
    result = _run_audit(command, certificate.to_json(), certificate.method, effort)
    audits.save(run.resolve(audits.FILE), (result[0],))
    say(f"Wrote {run.path / audits.FILE}; `tacit report {run.path}` shows it in the report.")
    return result


def _run_audit(command: AuditCommand, source: str | Mapping[str, Any], name: str, effort: audits.Effort) -> Found:
    began = _seconds()
    jobs = command.jobs if command.jobs is not None else os.cpu_count() or 1
    if jobs < 1:
        raise option_error("audit", f"{jobs} processes", "at least 1", "choose --jobs 1 or more")
    with progress(f"Auditing {name}") as advance:
        found = audits.audit(
            source,
            epsilon=command.epsilon,
            delta=command.delta,
            effort=effort,
            confidence=command.confidence,
            jobs=jobs,
            ray=command.ray,
            progress=advance,
        )
    return found, _seconds() - began


def _seconds() -> float:
    """Processor time of this process and of those that it waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _show(results: list[Found]) -> None:
    table = Table(*COLUMNS, box=None, pad_edge=False)
    for result, seconds in results:
        best = max(result.findings, key=lambda finding: finding.lower_bound)
        by = f"{best.way}, by law" if (best.by_law or 0.0) > best.epsilon else best.way
        mark = "" if result.is_upheld else "  REFUTED"
        table.add_row(
            result.name,
            ", ".join(result.kinds),
            f"{result.unit} ({result.relation})",
            f"{result.epsilon:.4g}",
            f"{result.lower_bound:.3g}{mark}",
            by,
            "none" if result.power is None else f"noise x {result.power:.3g}",
            best.shape,
            f"{seconds:.0f}",
        )
    console = Console(highlight=False)
    console.print(table) if console.is_terminal else Console(highlight=False, width=WIDE).print(table)
    say()
    for result, _ in results:
        say("\n".join(audits.sentences(result)))
    if results:
        shared = ", ".join(sorted({f"{100 * result.confidence:g} %" for result, _ in results}))
        say(f"Confidence: {shared}. Power: with so many times the noise, the promise would have been refuted.")
    say("Bounds from below prove nothing about what is above them: docs/audits.md says how to read them.")


def report(command: declarations.ReportCommand) -> None:
    """Write report.html again.

    Raises:
        FileError: the run is not finished or its run.json is damaged.
        CertificateError: the certificate does not hold.
    """
    run = RunFolder(command.run)
    stored = run.read()
    if not stored["finished"] or not isinstance(stored.get("report"), dict):
        what, expected = "the run is not finished", "a run that has come to its end"
        verb = stored["command"]
        remedy = f"go on with it: tacit {verb} --resume, with the options that it was begun with"
        again = f"{verb} again into another folder, within the ledger's budget"
        remedy = again if verb in ("evaluate", "learn") else remedy
        raise FileError(what, where=str(run.path), expected=expected, remedy=remedy)
    from tacit.evaluation.letter import LINKS  # the refusal above does not wait for charts
    from tacit.evaluation.report import Report, render

    certificate = Certificate.load(run.resolve("certificate.json"))
    certificate.verify()
    shown = Report.from_json(stored["report"], certificate.to_json())
    found = audits.load_for_certificate(run.resolve("certificate.json"), certificate.digest)
    letters = {name: words for name, words in LINKS.items() if (run.path / name).is_file()}
    run.write("report.html", render(shown, found, letters))
    say(f"Wrote {run.path / 'report.html'}")
