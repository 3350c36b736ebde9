"""What a person sees: results on stdout, progress and complaints on stderr; never anything computed from records."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

Advance = Callable[..., None]
"""Called with (done, total, ...); what follows is not shown."""


def say(text: str = "") -> None:
    """One piece of a command's result."""
    print(text, flush=True)


def complain(text: str) -> None:
    """One sentence on what went wrong."""
    print(f"tacit: {text}", file=sys.stderr, flush=True)


@contextmanager
def progress(title: str) -> Iterator[Advance]:
    """A bar with the time left on a terminal; one line otherwise."""
    console = Console(stderr=True)
    if not console.is_terminal:
        print(f"{title} ...", file=sys.stderr, flush=True)
        yield lambda *_: None
        return
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
