"""The folder of a run: what is in it, how it is begun and taken up again, and that nothing is written outside it.

run.json            settings, whether it finished, and everything public that report.html shows
report.html         the report
certificate.json    the certificate, and certificate.md for people
audit.json          what audits of the certificate found, where `tacit audit` was run
evaluation.json     the released evaluation
model/, policy/     the released synthesizer, the released policy
simulator/          the released simulator of movement, and map.html with days of it
minari/             the synthetic dataset, as Minari's folder of datasets
checkpoint/         public state of the training, until it is done
ledger              what was spent, where the people are simulated: not to be published
tensorboard/        released values as scalars, only where they were asked for
private/            the register of contributions, and the curator's own diagnostics: not to be published
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.errors import FileError

_LARGEST = 64 * 2**20


@dataclass(frozen=True)
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
            run.require_same(command, settings)
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
                run.inside("run.json").unlink()
                if not folder:
                    path.rmdir()
            raise

    def require_same(self, command: str, settings: Mapping[str, Any]) -> None:
        """Refuse to go on with a run of another command, or with other options.

        Raises:
            FileError: it was begun with others.
        """
        begun, plain = self.read(), json.loads(json.dumps(settings, default=str))
        other = sorted(k for k in {*plain, *begun["settings"]} if plain.get(k) != begun["settings"].get(k))
        if begun["command"] != command or other:
            raise FileError(
                f"the run was begun with other options ({', '.join(other) or begun['command']})",
                where=str(self.path),
                expected="the options that it was begun with",
                remedy="give the same options, or another folder for a new run",
            )

    def inside(self, name: str) -> Path:
        """The path of something in the run, refused if it leads out of the folder (by `..` or by a link).

        Raises:
            FileError: it does.
        """
        path = self.path / name
        if not path.resolve().is_relative_to(self.path.resolve()) or path.is_symlink():
            raise FileError(
                f"{name!r} leads out of the folder of the run",
                where=str(self.path),
                expected="plain files and folders of the run itself",
                remedy="remove the link or choose another name",
            )
        return path

    def write(self, name: str, content: str | Mapping[str, Any]) -> None:
        """Write one file, all or nothing."""
        text = content if isinstance(content, str) else json.dumps(content, allow_nan=False) + "\n"
        path, partial = self.inside(name), self.inside(f".{name}.partial")
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)

    def read(self) -> dict[str, Any]:
        """The content of run.json.

        Raises:
            FileError: it is missing, damaged or not of a run.
        """
        path, value = self.inside("run.json"), None
        try:
            if path.stat().st_size <= _LARGEST:
                value = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            pass
        if not isinstance(value, dict) or not {"command", "settings", "finished"} <= value.keys():
            raise FileError(
                "run.json is missing, truncated or of another kind",
                where=str(self.path),
                expected="the folder of a run of `tacit demo`, `synthesize`, `evaluate`, `train`, `learn` or `imitate`",
                remedy="check the path, or start a new run in another folder",
            )
        return value

    def remove(self, name: str) -> None:
        """Remove a folder that is needed no more."""
        shutil.rmtree(self.inside(name), ignore_errors=True)


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
