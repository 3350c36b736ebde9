"""Commands that are made from the verbs of `Study`: one signature is the method's and the command's."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from tyro.conf import Positional, arg

from tacit.cli import console
from tacit.cli.options import PlanCommand, task_options
from tacit.methods import Task, list_names
from tacit.study import train as training
from tacit.study.movement import Whereabouts
from tacit.study.study import Study
from tacit.study.verbs import Request
from tacit.study.words import MissingOption
from tacit.units import UnitKey

CERTIFICATE = "certificate.json"
STUDY = Path("study.toml")
"""The file of a study, where a command line names no records."""

_BUDGET = ("budget_epsilon", "budget_sampled", "budget_ceiling", "budget_delta")
_STUDY = ("unit", "population", "relation", "ledger", *_BUDGET)


_Perhaps = Positional[Path | None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class VerbCommand(PlanCommand):
    """A command that is a verb of a study.

    Args:
        out: folder of the run; it will hold nothing private but what lies under OUT/private/.
        dry_run: print the promise and stop: no record is read and nothing is spent.
        json: print the result as one JSON object; everything else goes to stderr.
    """

    out: Path
    dry_run: bool = False
    json: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordsCommand(VerbCommand):
    """A verb of imported records.

    Args:
        data: folder of the private records (`tacit data import` writes one), or a study's file, which says unit,
            population and budget; where none is named, study.toml is read if it is there (`tacit new` writes it).
    """

    data: Positional[Path]

    def study(self, lead: Lead) -> Study:
        """The study that the words name."""
        from tacit.data.store import read_spec

        if vars(type(self))["_reads"] and not (self.data / "spec.json").is_file():
            read_spec(self.data)  # refuses anything but a folder of records, in the words of one
        return Study(self.data, **_study_words(self), narrator=console.ConsoleNarrator(), lead=lead)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MovementCommand(Whereabouts, VerbCommand):
    """A verb of records of where people were.

    Args:
        unit: column of the people's ids (.npz: array), which also names the protected unit; by default user, and person
            of a city or of PLT files.
        population: how many people there could be, as the public knows; never counted from the records. Of a city, the
            people in it.
    """

    source: Positional[tuple[Path, ...]] = ()

    def study(self, lead: Lead) -> Study:
        """The study that the words name."""
        told, by_column = _study_words(self), self.kind() in ("points", "cells")
        told["unit"] = told["unit"] or ("user" if by_column else "person")
        reading = {field.name: getattr(self, field.name) for field in dataclasses.fields(Whereabouts)}
        return Study(reading.pop("source"), **told, **reading, narrator=console.ConsoleNarrator(), lead=lead)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextsCommand(VerbCommand):
    """A verb of texts of people.

    Args:
        data: CSV file of texts with their people.
        unit: column with the people's ids, which also names the protected unit ("author").
        text: column with the texts, or with the prompts of completions.
        unit_key: what ids are that differ by case or form alone: different people (exact, which certificates say) or
            one (folded); they are refused without it.
        separator: what stands between the cells: ";", "|" or tab, say; by default ",", and tabs in files called .tsv or
            .txt.
        encoding: of a file that is not UTF-8: cp1252, latin-1, utf-16.
        simulated: declare that no text is a real person's.
        out: folder of the run; it will hold nothing private but what lies under OUT/private/.
    """

    data: Positional[Path]
    out: Path
    text: str
    unit_key: UnitKey | None = None
    separator: str | None = None
    encoding: str | None = None
    simulated: bool = False

    def study(self, lead: Lead) -> Study:
        """The study that the words name."""
        reading = {name: getattr(self, name) for name in ("text", "unit_key", "separator", "encoding", "simulated")}
        return Study(self.data, **_study_words(self), **reading, narrator=console.ConsoleNarrator(), lead=lead)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileCommand(VerbCommand):
    """A verb of a study that a file says.

    Args:
        data: the study's file (`tacit new` writes one).
    """

    data: Positional[Path] = STUDY

    def study(self, lead: Lead) -> Study:
        """The study that the file says."""
        return Study.open(self.data, narrator=console.ConsoleNarrator(), lead=lead)


def is_study_verb(words: Sequence[str]) -> bool:
    """Whether these words of a command line are a verb of a study, and name no records."""
    verb, first = (*words, "", "")[:2]
    return hasattr(getattr(Study, verb, None), "__wrapped__") and (not first or first.startswith("-"))


def file_command(words: Sequence[str]) -> type[VerbCommand] | None:
    """The command of these words of a command line, if it is a verb of a study that a file says.

    That is so where the first word after the verb is such a file, or where there is `study.toml` and no word says whose
    the records are.
    """
    verb, first = (*words, "", "")[:2]
    if not hasattr(getattr(Study, verb, None), "__wrapped__") or first in ("-h", "--help"):
        return None
    long = any(word.partition("=")[0] in ("--unit", "--population", "--city", "--experts", "--kind") for word in words)
    here = is_study_verb(words) and STUDY.is_file() and not long
    return make_command(cast(Task, verb), FileCommand) if here or first.endswith(".toml") else None


def _study_words(command: Any) -> dict[str, Any]:
    return {name: getattr(command, name) for name in _STUDY}


@cache
def make_command(verb: Task, base: type[VerbCommand] = RecordsCommand, **usual: Any) -> type[VerbCommand]:
    """The class of a command: the words of a study, those of its verb, and the options of its methods' plans.

    Args:
        verb: the method of `Study`, or "train", which needs no study.
        base: what its records are.
        usual: values of words that a study needs and this command does not.
    """
    alone, usual = verb == "train", {"population": dataclasses.MISSING, **usual}
    method = training.train if alone else getattr(Study, verb)
    told = [(method, ("environment", *_verb_words(method)) if alone else _verb_words(method))]
    if not alone and base is not FileCommand:
        told.insert(0, (Study.__init__, _STUDY))
    fields: list[tuple[str, Any, Any]] = []
    if "data" in usual:
        fields.append(("data", _Perhaps, dataclasses.field(default=usual["data"])))
    for function, names in told:
        meanings, parameters = _meanings(function) | _meanings(base), inspect.signature(function).parameters
        written = SimpleNamespace(__annotations__={name: parameters[name].annotation for name in names})
        hints = get_type_hints(written, inspect.unwrap(function).__globals__)
        for name in names:
            default = usual.get(name, parameters[name].default)
            default = dataclasses.MISSING if default is inspect.Parameter.empty else default
            kind = _command_type(hints[name], required=default is dataclasses.MISSING)
            kind = (
                Literal[*dict.fromkeys((default, *list_names(verb)))]
                if name == "method"
                else kind | None
                if default is None
                else kind
            )
            kind = kind if parameters[name].kind is inspect.Parameter.KEYWORD_ONLY else cast(Any, Positional)[kind]
            fields.append((name, Annotated[kind, arg(help=meanings[name])], dataclasses.field(default=default)))
    options = task_options(verb)
    for name, (kind, meaning) in options.items():
        fields.append((name, Annotated[kind | None, arg(help=meaning)], dataclasses.field(default=None)))
    text = (inspect.getdoc(method) or "").partition("\n\nArgs:")[0]
    namespace = {"__doc__": text, "_made": tuple(options), "_verb": verb, "_reads": "data" not in usual}
    return dataclasses.make_dataclass(
        verb.capitalize(), fields, bases=(base,), namespace=namespace, frozen=True, kw_only=True
    )


def run(command: Any) -> None:
    """Carry the verb of a command out, or say what it would promise; of several processes, only the first does."""
    from tacit.study.file import StudyFile
    from tacit.study.records import Lead, find_ranks, serve

    ranks = find_ranks() if command._verb == "synthesize" else None
    if ranks is not None and ranks.rank:
        serve(StudyFile.read(command.data).records if isinstance(command, FileCommand) else command.data, ranks)
        return
    with Lead(ranks) as lead, console.redirect_to_stderr(command.json):
        study = command.study(lead)
        words = {name: getattr(command, name) for name in _verb_words(getattr(Study, command._verb))} | command.settings
        if command.dry_run:
            request = study.request(command._verb, **words)
            console.say(str(request))
            if (room := study.describe_room(request.plan)) is not None:
                console.say(room)
            console.say("Dry run: no private record was read and nothing was spent.")
            expected = [] if request.advice is None else [line.strip() for line in request.advice.lines()]
            result: dict[str, Any] = {"promise": str(request.plan), "expected": expected}
        else:
            release, request = study.carry_out(command._verb, **words, out=command.out, track=command.track)
            figures = {} if request.summary is None else request.summary(release.value)
            result = {"promise": str(request.plan), **figures, "certificate": str(command.out / CERTIFICATE)}
    if command.json:  # `--json` prints the promise, and what was released under it
        console.say_json(result)


def train(command: Any) -> None:
    """Carry `tacit.train` out, or say what it would promise."""
    ask: Callable[..., Request[Any]] = inspect.unwrap(training.train)
    words = {name: getattr(command, name) for name in ("environment", *_verb_words(training.train))} | command.settings
    words |= {} if command.dry_run else {"out": command.out, "track": command.track}
    with console.redirect_to_stderr(command.json):
        request = ask(narrator=console.ConsoleNarrator(), **words)
        console.say(str(request))
        if command.dry_run:
            console.say("Dry run: nobody was met and nothing was spent.")
        else:
            request.carry_out({})
    if command.json:
        files = {} if command.dry_run else {"certificate": str(command.out / CERTIFICATE)}
        console.say_json({"promise": str(request.plan), **files})


def missing_options(command: Any) -> list[MissingOption]:
    """What the words of an imitation make necessary."""
    needed: list[MissingOption] = command.missing_options(command.population, command.ledger)
    return needed


def _command_type(kind: Any, *, required: bool) -> Any:
    """The type of an argument as a command line has it: there, what may be an object is said in words."""
    if get_origin(kind) not in (Union, UnionType):
        return kind
    never = {Any, NoneType} if required else {Any}
    return Union[tuple(each for each in get_args(kind) if each not in never)]  # noqa: UP007


def _verb_words(method: Callable[..., Any]) -> tuple[str, ...]:
    """The words of a verb that are no words of every command."""
    parameters = inspect.signature(method).parameters.values()
    keywords = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    return tuple(name for name in keywords if name not in ("out", "track", "narrator"))


def _meanings(function: Callable[..., Any]) -> dict[str, str]:
    return argument_meanings(inspect.getdoc(Study if function is Study.__init__ else function) or "")


def argument_meanings(doc: str) -> dict[str, str]:
    """Argument -> what a docstring says of it, in one line."""
    _, _, text = inspect.cleandoc(doc).partition("Args:\n")
    found = re.findall(r"^    (\w+): (.*(?:\n {8,}.*)*)", text.partition("\n\n")[0], re.MULTILINE)
    return {name: re.sub(r" In Python .*?\.(?= |$)", "", " ".join(words.split())) for name, words in found}


if TYPE_CHECKING:
    from tacit.study.records import Lead

    class Align(TextsCommand):
        """As it is made below."""

    class Evaluate(VerbCommand):
        """As it is made below."""

    class Imitate(MovementCommand):
        """As it is made below."""

    class Improve(VerbCommand):
        """As it is made below."""

    class Learn(VerbCommand):
        """As it is made below."""

    class Synthesize(VerbCommand):
        """As it is made below."""

    class Train(VerbCommand):
        """As it is made below."""
else:
    Evaluate, Improve, Synthesize = make_command("evaluate"), make_command("improve"), make_command("synthesize")
    Learn = make_command("learn", data=None, unit="expert", population=None)
    Imitate = make_command("imitate", MovementCommand, unit=None, population=None)
    Align = make_command("align", TextsCommand)
    Train = make_command("train", VerbCommand)
