"""`tacit report`: the page again, from what the run measured."""

from __future__ import annotations

from tacit.cli import commands
from tacit.cli.console import say
from tacit.cli.folders import RunFolder
from tacit.errors import FileError
from tacit.evaluation import audits
from tacit.evaluation.report import (
    EvaluationReport,
    ExpertsReport,
    MovementReport,
    PolicyReport,
    Report,
    render,
    storage,
)
from tacit.evaluation.report.blocks import PublicReport
from tacit.privacy.certificate.certificate import Certificate


def report(command: commands.Report) -> None:
    """Write report.html again.

    Raises:
        FileError: the run is not finished or its run.json is damaged.
        CertificateError: the certificate does not hold.
    """
    run = RunFolder(command.run)
    stored = run.read()
    if not stored["finished"] or not isinstance(stored.get("report"), dict):
        raise FileError(
            "the run is not finished",
            where=str(run.path),
            expected="a run that has come to its end",
            remedy=_remedy(stored["command"]),
        )
    certificate = Certificate.load(run.inside("certificate.json"))
    certificate.verify()
    kinds: dict[str, type[PublicReport]] = {
        "evaluate": EvaluationReport,
        "train": PolicyReport,
        "learn": ExpertsReport,
        "imitate": MovementReport,
    }
    kind = kinds.get(stored["command"], Report)
    shown = storage.from_json(kind, stored["report"], certificate.to_json())
    run.write("report.html", render(shown, audits.beside(run.inside("certificate.json"), certificate.digest)))
    say(f"Wrote {run.path / 'report.html'}")


def _remedy(command: str) -> str:
    if command in ("evaluate", "learn"):
        return f"{command} again into another folder, within the ledger's budget"
    return f"go on with it: tacit {command} --resume, with the options that it was begun with"
