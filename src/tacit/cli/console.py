"""What a person sees: results on stdout, progress and complaints on stderr.

Nothing is computed from private records, except what `tacit data overlap` prints for the curator.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

from tacit.errors import FileError
from tacit.plain_text import escape
from tacit.study.words import Advance, say_duration


def say(text: str = "") -> None:
    """One piece of a command's result; what a terminal would not show as it is stands there as its escape."""
    print(escape(text), flush=True)


def complain(text: str) -> None:
    """One sentence on what went wrong."""
    print(f"tacit: {escape(text)}", file=sys.stderr, flush=True)


def say_json(value: Any) -> None:
    """The whole of a command's result as one JSON object; numbers that are not finite become null."""
    say(json.dumps(_replace_infinite(value), indent=1, ensure_ascii=False, allow_nan=False))


def _replace_infinite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _replace_infinite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_infinite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def redirect_to_stderr(active: bool) -> Iterator[None]:
    """Where active, what is said within goes to stderr, so that stdout has the JSON alone."""
    with redirect_stdout(sys.stderr) if active else nullcontext():
        yield


@contextmanager
def progress(title: str) -> Iterator[Advance]:
    """A bar with the time left on a terminal; otherwise a line at the beginning and at every tenth of the way."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        print(f"{title} ...", file=sys.stderr, flush=True)
        yield _ProgressLines(title)
        return

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=console) as bars:
        task = bars.add_task(title, total=None)

        def advance(done: int, total: int, *_: object) -> None:
            bars.update(task, completed=done, total=total)

        yield advance


SHORT = 10.0
"""Seconds up to which nobody needs to know how much is left."""


class _ProgressLines:
    """Prints how far something is, once for each tenth that is reached before the end; and what is left if it lasts."""

    def __init__(self, title: str) -> None:
        self._title, self._tenths, self._begun = title, 0, time.monotonic()

    def __call__(self, done: int, total: int, *_: object) -> None:
        tenths = 10 * done // max(total, 1)
        if self._tenths < tenths < 10:
            passed = time.monotonic() - self._begun
            left = passed * (total - done) / done  # if it goes on as it went
            words = f", about {say_duration(left)} left" if passed + left > SHORT else ""
            print(f"{self._title} ... {10 * tenths} %{words}", file=sys.stderr, flush=True)
        self._tenths = tenths


class ConsoleNarrator:
    """Tells a study's news to the person at the terminal."""

    def say(self, text: str = "") -> None:
        """On stdout."""
        say(text)

    def warn(self, text: str) -> None:
        """On stderr."""
        complain(text)

    def progress(self, title: str) -> AbstractContextManager[Advance]:
        """A bar, or lines."""
        return progress(title)


def require_new(path: Path) -> None:
    """Refuse to write over something.

    Raises:
        FileError: there is something in this place.
    """
    if os.path.lexists(path):
        what, expected = "the file exists already", "a name that is still free"
        raise FileError(what, where=str(path), expected=expected, remedy="choose another name")
