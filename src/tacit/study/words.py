"""The words that a study is asked with, and those that it speaks: which of them a method has, how those that cannot be
used are refused, and what is told while it works, to a person on a terminal or to nobody."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from tacit import methods, parameters
from tacit.errors import PlanError, TacitError
from tacit.parameters import Parameter


def option_flag(option: str) -> str:
    """`--some-name` of a field's name."""
    return f"--{option.removeprefix('--').replace('_', '-')}"


def join_names(names: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def method_options(task: methods.Task, method: str) -> Mapping[str, Parameter]:
    """The fields of a method's plan that are options, by name."""
    return parameters.plan_options(methods.complete(methods.find_method(task, method).plan))


def option_error(where: str, what: str, expected: str, remedy: str) -> PlanError:
    """Options that cannot be used."""
    return PlanError(what, where=where, expected=expected, remedy=remedy)


def no_effect_error(where: str, option: str, expected: str) -> PlanError:
    """An option that has no effect beside the others."""
    name = option_flag(option)
    return PlanError(f"{name} has no meaning here", where=where, expected=expected, remedy=f"leave {name} out")


def foreign_options(task: methods.Task, method: str, extra: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Words that other methods of a task have, with what they would need.

    Args:
        task: the verb.
        method: which has none of them.
        own: method -> words that it alone or some methods have, beside the fields of its plan.

    Raises:
        PlanError: there is no such method.
    """
    names = methods.list_names(task)
    if method not in names:
        raise option_error(task, f"there is no method {method!r}", f"one of {', '.join(names)}", "name one")
    known = {each: {*extra.get(each, ()), *method_options(task, each)} for each in names}
    return dict.fromkeys(set().union(*known.values()) - known[method], f"a method that has it, not {method}")


def require_meaning(where: str, arguments: Mapping[str, Any], useless: Mapping[str, str]) -> None:
    """Refuse the first word that has no effect beside the others: `useless` says what it would need.

    Raises:
        PlanError: there is one.
    """
    for name in sorted(useless.keys() & arguments.keys()):
        raise no_effect_error(where, name, useless[name])


@dataclass(frozen=True)
class MissingOption:
    """An option that the others make necessary, and that is not there.

    Args:
        name: of the option, or of what options say together.
        expected: what it says.
        remedy: what to do.
    """

    name: str
    expected: str
    remedy: str


def require_options(where: str, missing: Sequence[MissingOption]) -> None:
    """Refuse a request in which options are missing, all of them in one sentence.

    Raises:
        PlanError: there is one.
    """
    if len(missing) == 1:
        raise option_error(where, f"{missing[0].name} is missing", missing[0].expected, missing[0].remedy)
    if missing:
        expected = "; ".join(f"{option.name}, {option.expected}" for option in missing)
        what = f"{join_names([option.name for option in missing])} are missing"
        raise option_error(where, what, expected, "give them all")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What was declared of the budget of some records; None where nothing was.

    Args:
        epsilon: what all releases may cost together; a new ledger needs it.
        sampled: the part of it for plans that are no Gaussian (`Composition`); a new ledger needs it.
        ceiling: up to which epsilon the budget may ever be raised; without it, it may not.
        delta: of both; without it, it grows with epsilon.
    """

    epsilon: float | None = None
    sampled: float | None = None
    ceiling: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        for name, value in self.declared.items():
            part = name == "budget_sampled"
            if value is not None and not (0 <= value <= 1 if part else 0 < value < math.inf):
                expected = "a number from 0 to 1" if part else "a finite number above 0"
                raise option_error("budget", f"{option_flag(name)} is {value:g}", expected, "say another number")

    @property
    def declared(self) -> dict[str, float | None]:
        """As the words of `Study`."""
        return {f"budget_{name}": value for name, value in vars(self).items()}


def require_minimum(where: str, arguments: Mapping[str, Any], **minimums: int) -> None:
    """Refuse whole numbers that are too small.

    Raises:
        PlanError: the first such word.
    """
    for name, number in minimums.items():
        value: int | None = arguments.get(name)
        if value is not None and value < number:
            expected, remedy = f"a whole number >= {number}", "give such a number, or leave it out"
            raise option_error(where, f"{option_flag(name)} is {value}", expected, remedy)


def hidden_widths(where: str, text: str, none: str) -> tuple[int, ...]:
    """Widths of hidden layers ("64-64") of a policy; `none` is the word for no layers.

    Raises:
        PlanError: it is something else.
    """
    widths = () if text == none else tuple(text.split("-"))
    if not all(width.isascii() and width.isdigit() and 1 <= int(width) <= 4_096 for width in widths):
        expected = f'"{none}", or the widths of hidden layers ("64-64")'
        raise option_error(where, f"--policy is {text!r}", expected, "write it so")
    return tuple(int(width) for width in widths)


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
