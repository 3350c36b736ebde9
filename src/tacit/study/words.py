"""The words that a study is asked with: which of them a method has, and how those that cannot be used are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tacit import methods, parameters
from tacit.errors import PlanError
from tacit.parameters import Parameter


def named(option: str) -> str:
    """`--some-name` of a field's name."""
    return f"--{option.removeprefix('--').replace('_', '-')}"


def in_words(names: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def offered(task: methods.Task, method: str) -> Mapping[str, Parameter]:
    """The fields of a method's plan that are options, by name."""
    return parameters.offered(methods.complete(methods.find_method(task, method).plan))


def refused(where: str, what: str, expected: str, remedy: str) -> PlanError:
    """Options that cannot be used."""
    return PlanError(what, where=where, expected=expected, remedy=remedy)


def meaningless(where: str, option: str, expected: str) -> PlanError:
    """An option that has no effect beside the others."""
    name = named(option)
    return PlanError(f"{name} has no meaning here", where=where, expected=expected, remedy=f"leave {name} out")


@dataclass(frozen=True)
class Missing:
    """An option that the others make necessary, and that is not there.

    Args:
        name: of the option, or of what options say together.
        expected: what it says.
        remedy: what to do.
    """

    name: str
    expected: str
    remedy: str


def require_given(where: str, missing: Sequence[Missing]) -> None:
    """Refuse a request in which options are missing, all of them in one sentence.

    Raises:
        PlanError: there is one.
    """
    if len(missing) == 1:
        raise refused(where, f"{missing[0].name} is missing", missing[0].expected, missing[0].remedy)
    if missing:
        expected = "; ".join(f"{option.name}, {option.expected}" for option in missing)
        raise refused(where, f"{in_words([option.name for option in missing])} are missing", expected, "give them all")
