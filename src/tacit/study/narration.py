"""What a study tells while it works: to a person on a terminal, or to nobody."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from tacit.errors import TacitError
from tacit.study.words import option_flag

Advance = Callable[..., None]
"""Called with (done, total, ...); what follows is not shown."""


def say_duration(seconds: float) -> str:
    """About so many seconds, or minutes."""
    return f"{seconds:,.0f} seconds" if seconds < 90 else f"{seconds / 60:,.0f} minutes"


class Interrupted(KeyboardInterrupt):
    """An interruption with public words about what it cost; those of any other interruption are not shown."""


class Narrator(Protocol):
    """Hears what is public of a run: nothing that it is told was computed from private records without noise."""

    def say(self, text: str = "") -> None:
        """One piece of the result."""

    def warn(self, text: str) -> None:
        """One sentence on what should be known."""

    def progress(self, title: str) -> AbstractContextManager[Advance]:
        """What begins, and how far it is."""


class SilentNarrator:
    """Nobody listens: a program reads the release."""

    def say(self, text: str = "") -> None:
        """Nothing."""

    def warn(self, text: str) -> None:
        """Nothing."""

    @contextmanager
    def progress(self, title: str) -> Iterator[Advance]:
        """Nothing."""
        yield lambda done, total, *more: None


@contextmanager
def translate_options(narrator: Narrator, verb: str = "", words: Container[str] = ()) -> Iterator[None]:
    """Refusals of a plan's field name the word that was given; where nobody listens, options are arguments.

    `return_range` is --range, and `--some-name` is some_name=.

    Args:
        narrator: who listens.
        verb: of these words.
        words: which a verb has.

    Raises:
        TacitError: what was raised within, in these words.
    """
    try:
        yield
    except TacitError as error:
        parts = {name: getattr(error, name) for name in ("what", "where", "expected", "remedy")}
        field = re.match(r"([\w.]+) is ", error.what) if error.where == "plan" else None
        names = field[1].replace("return_range", "range").split(".") if field else []
        word = next((name for name in reversed(names) if name in words), "")
        if field and word:
            parts |= {"what": f"{option_flag(word)}{error.what[field.end(1) :]}", "where": verb}
            parts["remedy"] = error.remedy.replace(field[1], option_flag(word))
        elif not isinstance(narrator, SilentNarrator):
            raise
        if isinstance(narrator, SilentNarrator):
            option = re.compile(r"--([a-z][a-z-]*)")
            parts = {
                name: option.sub(lambda found: f"{found[1].replace('-', '_')}=", text) for name, text in parts.items()
            }
        raise type(error)(parts.pop("what"), **parts) from error.__cause__
