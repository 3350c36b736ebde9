"""How a verb of a study is written: a function that checks its words and plans, and what carries the plan out."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from tacit.study.narration import in_python

if TYPE_CHECKING:
    from tacit.privacy.certificate.certificate import Release
    from tacit.study.curator import Curator
    from tacit.tracking import JsonLines

P = ParamSpec("P")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Request(Generic[Value]):
    """A verb's words, checked: what will be promised, and what carries it out. No private record was read for it.

    Args:
        plan: calibrated.
        carry_out: reserves, fits, releases and saves, by the settings that a run is resumed with.
        more: lines on the promise beside those of the plan.
        summary: what was released, as JSON values by their names; None of a verb whose release is no figures.
    """

    plan: Any
    carry_out: Callable[[Mapping[str, Any]], Release[Value]]
    more: tuple[str, ...] = ()
    summary: Callable[[Value], Mapping[str, Any]] | None = None

    def __str__(self) -> str:
        return "\n".join((str(self.plan), *self.more))


def verb(ask: Callable[Concatenate[Curator, P], Request[Value]]) -> Callable[Concatenate[Any, P], Release[Value]]:
    """The method of `Study` that says what a request promises, and carries it out."""

    @functools.wraps(ask)
    def method(study: Any, /, *args: P.args, **kwargs: P.kwargs) -> Release[Value]:
        curator: Curator = study.curator
        with in_python(curator.narrator):
            return carried_out(curator, ask, ask(curator, *args, **kwargs), kwargs)

    return method


def carried_out(
    curator: Curator, ask: Callable[..., Request[Value]], request: Request[Value], words: Mapping[str, Any]
) -> Release[Value]:
    """Say what a request promises, and carry it out."""
    curator.narrator.say(str(request))
    return request.carry_out(settings_of(curator, ask, words))


def settings_of(curator: Curator, ask: Callable[..., Any], words: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a run is resumed with: all but where it is written, and how it is begun."""
    bound = inspect.signature(ask).bind(curator, **words)
    bound.apply_defaults()
    names = list(bound.arguments)[1:]  # but for the curator
    more = bound.arguments.get("settings", {})
    never = {"out", "resume", "track", "settings"}
    return {**curator.settings, **{name: bound.arguments[name] for name in names if name not in never}, **more}


def tracker(track: Path | None) -> JsonLines | None:
    """What the vault of a run shows its released values to.

    Raises:
        FileError: the file cannot be written.
    """
    from tacit.tracking import JsonLines

    return None if track is None else JsonLines(track)
