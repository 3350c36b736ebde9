"""The folder of a run: what is in it, how it is begun, resumed and ended, and that nothing is written outside it.

run.json            settings, whether it finished, and everything public that report.html shows
report.html         the report
certificate.json    the certificate, and certificate.md for people
letter.html         the letter for the data protection officer, of one printed side; letter.de.html in German
audit.json          what audits of the certificate found, where `tacit audit` was run
evaluation.json     the released evaluation
model/, policy/     the released synthesizer, the released policy
simulator/          the released simulator of movement, and map.html with days of it
rows.parquet        the synthetic dataset; of another --format rows.csv, rows.npz, rows/, or minari/ with synthetic-v0
checkpoint/         public state of the training, until it is done
ledger              what was spent, where the people are simulated: not to be published
tensorboard/        released values as scalars, only where they were asked for
private/            the register of contributions, the curator's own diagnostics and receipt: not to be published
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit import plain_files
from tacit.errors import FileError
from tacit.privacy.certificate.certificate import Certificate
from tacit.study.words import Narrator

if TYPE_CHECKING:
    from tacit.evaluation.report import Report
    from tacit.privacy.certificate.certificate import Release

SIMULATED = "are simulated: nobody is behind them, and the certificate and the report say so."
CERTIFICATE, LETTER, REPORT = "certificate.json", "letter.html", "report.html"
VERIFY = (f"tacit certificate verify {CERTIFICATE}",)
_PARTS = {  # of a run, in which a release lies: what it is, what such a value can do, who makes it, and who takes it
    "model": ("synthesizer", "sample", "`tacit synthesize`", "draw rows from it with `tacit sample`"),
    "policy": ("policy", "actor", "`tacit train`, `tacit learn` or `tacit improve`", "play it with `tacit play`"),
    "simulator": ("simulator of movement", "generate", "`tacit imitate`", "draw days from it with `tacit generate`"),
}


def load_release(path: Path, part: str) -> tuple[Path, Release[Any]]:
    """The release in the folder of a run, or in its part of this name, and where it lies.

    Args:
        path: RUN or RUN/`part`.
        part: "model", "policy" or "simulator".

    Raises:
        FileError: the folder is missing or damaged, or holds something else.
        CertificateError: the certificate does not recompute.
    """
    from tacit import hub

    folder = path / part if (path / part).is_dir() else path
    expected = f"the folder of a run of {_PARTS[part][2]}, or RUN/{part}"
    if not any((folder / name).exists() for name in (hub.MODEL, hub.CONFIG)):
        what = f"there is no {part} in this folder" if path.is_dir() else "there is no such folder"
        what = "this is a file" if path.is_file() else what
        remedy = "check the path, or go on with the run (--resume)"
        raise FileError(what, where=str(path), expected=expected, remedy=remedy)
    release = hub.load(folder)
    found = next((each for each in _PARTS.values() if hasattr(release.value, each[1])), None)
    if found != _PARTS[part]:
        name, *_, remedy = found or ("language model", "continue prompts with `tacit complete`")
        what = f"the release is a {name}, and no {_PARTS[part][0]}"
        raise FileError(what, where=str(path), expected=expected, remedy=remedy)
    return folder, release


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """The folder of one run.

    Args:
        path: the folder, which exists.
    """

    path: Path

    @classmethod
    def begin(cls, path: Path, command: str, settings: Mapping[str, Any], *, resume: bool | None) -> RunFolder:
        """Make the folder of a new run, or take up the one of a run with the same settings.

        Args:
            path: the folder.
            command, settings: what is run, with its options.
            resume: whether a run is to be resumed; None for a command that cannot.

        Raises:
            FileError: the folder exists and this is no resumption, or it is the folder of something else.
        """
        require_free(path, resume=resume)
        run, plain = cls(path), json.loads(json.dumps(settings, default=str))
        if (path / "run.json").exists():
            run.require_same_settings(command, settings)
            return run
        path.mkdir(parents=True, exist_ok=True)
        run.write("run.json", {"command": command, "settings": plain, "finished": False})
        return run

    @classmethod
    @contextmanager
    def attempt(
        cls, path: Path, command: str, settings: Mapping[str, Any], *, resume: bool | None
    ) -> Iterator[RunFolder]:
        """`begin`; where a new run fails before it wrote anything, its place is free again.

        Raises:
            FileError: as for `begin`.
        """
        folder, taken = path.exists(), (path / "run.json").exists()
        run = cls.begin(path, command, settings, resume=resume)
        try:
            yield run
        except BaseException:
            if not taken and [child.name for child in path.iterdir()] == ["run.json"]:
                run.resolve("run.json").unlink()
                if not folder:
                    path.rmdir()
            raise

    @classmethod
    @contextmanager
    def attempt_optional(
        cls, path: Path | None, command: str, settings: Mapping[str, Any], *, resume: bool | None = None
    ) -> Iterator[RunFolder | None]:
        """`attempt`, where a folder is wanted for the run.

        Raises:
            FileError: as for `begin`.
        """
        if path is None:
            yield None
            return
        with cls.attempt(path, command, settings, resume=resume) as run:
            yield run

    def require_same_settings(self, command: str, settings: Mapping[str, Any]) -> None:
        """Refuse to go on with a run of another command, or with other options.

        Raises:
            FileError: it was begun with others.
        """
        begun, plain = self.read(), json.loads(json.dumps(settings, default=str))
        stored = begun["settings"]
        differing = sorted(name for name in {*plain, *stored} if plain.get(name) != stored.get(name))
        if begun["command"] != command or differing:
            what = f"the run was begun with other options ({', '.join(differing) or begun['command']})"
            remedy = "give the same options, or another folder for a new run"
            raise FileError(what, where=str(self.path), expected="the options that it was begun with", remedy=remedy)

    def resolve(self, name: str) -> Path:
        """The path of something in the run, refused if it leads out of the folder (by `..` or by a link).

        Raises:
            FileError: it does.
        """
        path = self.path / name
        if not plain_files.is_inside(self.path, name) or path.is_symlink():
            what = f"{name!r} leads out of the folder of the run"
            expected, remedy = "plain files and folders of the run itself", "remove the link or choose another name"
            raise FileError(what, where=str(self.path), expected=expected, remedy=remedy)
        return path

    def write(self, name: str, content: str | Mapping[str, Any]) -> None:
        """Write one file, all or nothing."""
        text = content if isinstance(content, str) else json.dumps(content, allow_nan=False) + "\n"
        plain_files.write(self.resolve(name), text)

    def read(self) -> dict[str, Any]:
        """The content of run.json.

        Raises:
            FileError: it is missing, damaged or not of a run.
        """
        path, value = self.resolve("run.json"), None
        with suppress(OSError, ValueError, RecursionError):
            value = json.loads(plain_files.read_text(path))
        if not isinstance(value, dict) or not {"command", "settings", "finished"} <= value.keys():
            raise FileError(
                "run.json is missing, truncated or of another kind",
                where=str(self.path),
                expected="the folder of a run of `tacit demo`, `synthesize`, `evaluate`, `improve`, `train`, `learn`, "
                "`imitate` or `align`",
                remedy="check the path, or start a new run in another folder",
            )
        return value

    def remove(self, name: str) -> None:
        """Remove a folder that is needed no more."""
        shutil.rmtree(self.resolve(name), ignore_errors=True)


def require_free(path: Path, *, resume: bool | None) -> None:
    """Refuse a folder in which there is something, unless it is a run that is to be resumed.

    Args:
        path: the folder.
        resume: whether a run is to be resumed; None for a command that cannot.

    Raises:
        FileError: there is.
    """
    run_or_nothing = resume and (path / "run.json").exists()
    if os.path.lexists(path) and not run_or_nothing and (not path.is_dir() or any(path.iterdir())):
        raise FileError(
            "there is no run in this folder" if resume else "there is something in this place already",
            where=str(path),
            expected="the folder of the run that was interrupted" if resume else "a new or empty folder",
            remedy="choose another folder"
            + (", or --resume to go on with the run in it" if resume is False and (path / "run.json").exists() else ""),
        )


def settings_of(command: Any, *left_out: str) -> dict[str, Any]:
    """The options that a run is resumed with: all but where it is, how it is begun, and those that are left out."""
    never = {"out", "resume", "dry_run", "config", "track", *left_out}
    return {name: value for name, value in dataclasses.asdict(command).items() if name not in never}


def require_packages(*names: str) -> None:
    """Miss a package before anything is spent, not when the results are written.

    Raises:
        ModuleNotFoundError: as an import of the first missing one would.
    """
    for name in names:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def certify(run: RunFolder, certificate: Certificate) -> None:
    """Write the certificate, for programs and for people, and the letters on it."""
    from tacit.evaluation.letter import FILES, letter

    certificate.save(run.resolve(CERTIFICATE))
    run.write("certificate.md", certificate.to_markdown())
    for language, name in FILES.items():
        run.write(name, letter(certificate.to_json(), language))


def finish(run: RunFolder, report: Report) -> None:
    """Write report.html, and run.json with all that it shows."""
    from tacit.evaluation.letter import LINKS
    from tacit.evaluation.report import render

    run.write(REPORT, render(report, letters=LINKS))
    run.write("run.json", {**run.read(), "finished": True, "report": report.to_json()})


def say_private(run: RunFolder, narrator: Narrator) -> None:
    """Say that the run's folder holds the curator's own figures, which are not private."""
    narrator.say()
    narrator.say(
        f"NOT PRIVATE  {run.path / 'private'} holds figures computed from the records without noise, for the curator."
    )
    narrator.say("             Publishing them voids the promise of this ledger: remove the folder before sharing OUT.")


class Stopwatch:
    """Time and memory of this process, for runs on simulated data (on private data they could depend on records)."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        self.phases: dict[str, float] = {}
        """Processor seconds of each phase."""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a phase."""
        begun = time.process_time()
        yield
        self.phases[name] = time.process_time() - begun

    @staticmethod
    def peak_memory() -> int:
        """The most memory that this process ever had, in bytes."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    def costs(self) -> tuple[tuple[str, str], ...]:
        """(name, value) pairs for a report; times of less than a second are left out."""
        times = {"Wall time": time.perf_counter() - self._wall, "Processor time": time.process_time() - self._cpu}
        return (
            *((name, f"{seconds:.0f} s") for name, seconds in times.items() if seconds >= 1),
            ("Peak memory", f"{self.peak_memory() / 1e9:.1f} GB"),
        )
