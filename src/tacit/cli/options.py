"""Options that are made from plans, options from a file, and refusals of options; no plan is imported."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from tyro import MISSING

from tacit import methods, plain_files
from tacit.errors import FileError
from tacit.study.words import method_options, option_error, option_flag

Command = TypeVar("Command", bound="PlanCommand")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanCommand:
    """A command that runs a plan.

    Args:
        config: file of options, TOML or JSON, or the run.json of another run; what the command line says goes first.
        track: file for the length of every value that leaves a mechanism, one JSON object a step; this costs no
            privacy.
    """

    config: Path | None = None
    track: Path | None = None
    _made: ClassVar[tuple[str, ...]] = ()

    @property
    def settings(self) -> dict[str, Any]:
        """Options that are made from plans, where they were given."""
        return given_options(self, *self._made)


def given_options(command: object, *names: str) -> dict[str, Any]:
    """Those of these options that were given."""
    return {name: value for name in names if (value := getattr(command, name)) is not None}


def task_options(task: methods.Task) -> dict[str, tuple[Any, str]]:
    """Option -> type and meaning: the doc line of the field, or several where methods' fields mean different things."""
    kinds: dict[str, Any] = {}
    meanings: dict[str, dict[str, list[str]]] = {}
    with_options = [(name, fields) for name in methods.list_names(task) if (fields := method_options(task, name))]
    for method, fields in with_options:
        for name, field in fields.items():
            kinds.setdefault(name, field.type)
            meanings.setdefault(name, {}).setdefault(field.doc, []).append(method)
    return {name: (kinds[name], _meaning(docs, len(with_options))) for name, docs in meanings.items()}


def _meaning(docs: Mapping[str, Sequence[str]], methods: int) -> str:
    (first, of), *more = docs.items()
    if not more and len(of) == methods:
        return first
    return " ".join(f"{', '.join(of)}: {doc}" for doc, of in docs.items())


def placeholders(command: type[Any]) -> Any:
    """A command whose required options have values that say nothing."""
    hints = get_type_hints(command)
    nothing: dict[Any, Any] = {Path: Path(), str: "", int: 0, float: 0.0, tuple[str, ...]: ()}
    required = [field.name for field in dataclasses.fields(command) if field.default is dataclasses.MISSING]
    return command(
        **{name: nothing[hints[name]] if hints[name] in nothing else get_args(hints[name])[0] for name in required}
    )


def find_config(words: Sequence[str]) -> Path | None:
    """The file that --config names on a command line."""
    for word, after in zip(words, [*words[1:], ""], strict=False):
        if word.startswith("--config="):
            return Path(word.removeprefix("--config="))
        if word == "--config" and after:
            return Path(after)
    return None


def apply_config(command: type[Command], name: str, path: Path) -> Command:
    """The command with the options of a file; what it leaves out and a command needs has to be on the command line.

    Args:
        command: the class.
        name: of the command, for errors.
        path: TOML or JSON with names of options as keys, with dashes or underscores.

    Raises:
        FileError: the file cannot be read, or is neither.
        PlanError: an option is unknown, or its value is of another type.
    """
    where, hints, values = f"--config {path}", get_type_hints(command), dict[str, Any]()
    set_there = {key: value for key, value in _content(path, name).items() if value is not None}
    for key, value in set_there.items():
        option = key.replace("-", "_")
        if option not in hints or option in ("config", "_made"):
            near = difflib.get_close_matches(option, hints, n=1)
            remedy = f"did you mean {near[0].replace('_', '-')}" if near else "remove it"
            raise option_error(where, f"the unknown option {key[:40]!r}", f"options of tacit {name}", remedy)
        try:
            values[option] = _convert(hints[option], value)
        except ValueError:
            expected = f"a value as of {option_flag(option)} on the command line"
            raise option_error(where, f"{key} is {str(value)[:40]!r}", expected, "change it, or remove it") from None
    for field in dataclasses.fields(command):
        if field.default is dataclasses.MISSING:
            values.setdefault(field.name, MISSING)
    return command(**values)


def _content(path: Path, name: str) -> dict[str, Any]:
    try:
        text = plain_files.read_text(path)
        content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        what = "there is no such file" if isinstance(error, FileNotFoundError) else "the file is neither TOML nor JSON"
        expected = 'lines as `epsilon = 1.0`, or JSON as {"epsilon": 1.0} in a file that is called .json'
        remedy = "check the path, and mend the file"
        raise FileError(what, where=f"--config {path}", expected=expected, remedy=remedy) from None
    if isinstance(content, dict) and {"command", "settings"} <= content.keys():  # the run.json of a run
        if content["command"] != name:
            what = f"the file is of a run of tacit {str(content['command'])[:20]}"
            raise option_error(f"--config {path}", what, f"one of tacit {name}", "choose another file")
        content = content["settings"]
    if not isinstance(content, dict):
        expected = "names of options with their values"
        raise option_error(f"--config {path}", "the file has no options", expected, "mend it")
    return content


def _convert(hint: Any, value: Any) -> Any:
    """A value of TOML or JSON as one of an option's type; a ValueError where it is none."""
    if get_origin(hint) in (Union, UnionType):
        *others, hint = (kind for kind in get_args(hint) if kind is not NoneType)
        for other in others:
            with suppress(ValueError):
                return _convert(other, value)
    kinds = get_args(hint)
    if get_origin(hint) is Literal and value in kinds:
        return value
    if get_origin(hint) is tuple and isinstance(value, list):
        kinds = (kinds[0],) * len(value) if kinds[-1] is Ellipsis else kinds
        return tuple(_convert(kind, entry) for kind, entry in zip(kinds, value, strict=True))
    if hint is Path and isinstance(value, str):
        return Path(value)
    if hint is float and type(value) in (int, float) and not math.isnan(value):
        return float(value)
    if type(value) is hint:
        return value
    raise ValueError(value)
