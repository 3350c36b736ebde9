"""Commands that are made from the verbs of `Study`: one signature is the method's and the command's."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from tyro.conf import Positional, arg

from tacit.cli.options import PlanCommand, made
from tacit.methods import Task
from tacit.study.study import Study

_STUDY = ("unit", "population", "relation", "ledger", "budget_epsilon", "budget_delta")
"""What a command tells the study of its records."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class VerbCommand(PlanCommand):
    """A command that is a verb of a study.

    Args:
        data: folder of the private records (`tacit data import` writes one).
        out: folder of the run; it will hold nothing private.
        dry_run: print the promise and stop: no record is read and nothing is spent.
    """

    data: Positional[Path]
    out: Path
    dry_run: bool = False


def command_of(verb: Task) -> type[VerbCommand]:
    """The class of a command: the words of a study, those of its verb, and the options of its methods' plans."""
    method = getattr(Study, verb)
    fields: list[tuple[str, Any, Any]] = []
    for function, names in ((Study.__init__, _STUDY), (method, _own(method))):
        meanings, parameters = _meanings(function), inspect.signature(function).parameters
        written = SimpleNamespace(__annotations__={name: parameters[name].annotation for name in names})
        hints = get_type_hints(written, inspect.unwrap(function).__globals__)
        for name in names:
            kind = hints[name]
            default = parameters[name].default
            default = dataclasses.MISSING if default is inspect.Parameter.empty else default
            fields.append((name, Annotated[kind, arg(help=meanings[name])], dataclasses.field(default=default)))
    options = made(verb)
    for name, (kind, meaning) in options.items():
        fields.append((name, Annotated[kind | None, arg(help=meaning)], dataclasses.field(default=None)))
    text = (inspect.getdoc(method) or "").partition("\n\nArgs:")[0]
    namespace = {"__doc__": text, "_made": tuple(options), "_verb": verb}
    return dataclasses.make_dataclass(
        verb.capitalize(), fields, bases=(VerbCommand,), namespace=namespace, frozen=True, kw_only=True
    )


def run(command: Any) -> None:
    """Carry the verb of a command out, or say what it would promise."""
    from tacit.cli.console import Console, say

    study = Study(command.data, **{name: getattr(command, name) for name in _STUDY}, narrator=Console())
    method = getattr(study, command._verb)
    words = {name: getattr(command, name) for name in _own(getattr(Study, command._verb))} | command.settings
    if command.dry_run:
        say(str(study.request(command._verb, **words)))
        say("Dry run: no record was read and nothing was spent.")
        return
    method(**words, out=command.out, track=command.track)


def _own(method: Callable[..., Any]) -> tuple[str, ...]:
    """The words of a verb that are no words of every command."""
    parameters = inspect.signature(method).parameters.values()
    keywords = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    return tuple(name for name in keywords if name not in ("out", "track"))


def _meanings(function: Callable[..., Any]) -> dict[str, str]:
    """Argument -> what the docstring says of it, in one line."""
    owner = Study if function is Study.__init__ else function
    _, _, text = (inspect.getdoc(owner) or "").partition("Args:\n")
    found = re.findall(r"^    (\w+): (.*(?:\n {8,}.*)*)", text.partition("\n\n")[0], re.MULTILINE)
    return {name: " ".join(words.split()) for name, words in found}


if TYPE_CHECKING:

    class Improve(VerbCommand):
        """As it is made below."""
else:
    Improve = command_of("improve")
