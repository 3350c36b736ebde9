"""What a study tells while it works: to a person on a terminal, or to nobody."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from tacit.errors import TacitError

Advance = Callable[..., None]
"""Called with (done, total, ...); what follows is not shown."""


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
def translate_options(narrator: Narrator) -> Iterator[None]:
    """Where nobody listens, refusals that name options name them as arguments: `--some-name` is some_name=.

    Raises:
        TacitError: what was raised within, in these words.
    """
    try:
        yield
    except TacitError as error:
        if not isinstance(narrator, SilentNarrator):
            raise
        words = {name: _respell(getattr(error, name)) for name in ("where", "expected", "remedy")}
        raise type(error)(_respell(error.what), **words) from error.__cause__


def _respell(text: str) -> str:
    return re.sub(r"--([a-z][a-z-]*)", lambda option: f"{option[1].replace('-', '_')}=", text)
