"""`tacit spec`: a template of public bounds from a table's header, and a check of what was made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit import plain_files
from tacit.cli.console import require_new, say
from tacit.cli.data_declarations import SpecCheck, SpecInit
from tacit.cli.options import given
from tacit.data import spec_files
from tacit.data.sources.files import Fields
from tacit.data.sources.lake import header_of
from tacit.data.sources.tables import Style
from tacit.data.spec import Box, Discrete, PublicSpec, Space
from tacit.errors import DataError


def init(command: SpecInit) -> None:
    """Write a template that knows the names of a table's columns and nothing of their cells.

    Raises:
        FileError: the table is missing or damaged, or the output exists.
    """
    text = spec_files.template(list(_header(command.table, command)))
    if command.out is None:
        say(text.rstrip("\n"))
        return
    require_new(command.out)
    plain_files.write(command.out, text)
    say(f"Wrote {command.out}: fill it in from the documentation of the records, never from their cells.")


def check(command: SpecCheck) -> None:
    """Check public bounds, and that a table has their columns.

    Raises:
        FileError: a file is missing or damaged.
        DataError: a bound is missing or invalid, or the table lacks a column of the observations.
    """
    spec = spec_files.read(command.spec)
    for field, space in (("Observation", spec.observation), ("Action", spec.action), ("Reward", spec.reward)):
        say(f"{field}: {', '.join(_described(space)) or _undeclared(space)}.")
    say(f"Bounds from: {spec.source}. Episodes can terminate: {'yes' if spec.terminals else 'no'}.")
    _say_assumed(spec)
    if command.table is not None:
        _compare(spec, command)


def _say_assumed(spec: PublicSpec) -> None:
    """What holds where the bounds, or the import, say nothing."""
    columns = spec.observation.columns or ()
    refused = [column.name for column in (*columns, *(spec.action.columns or ())) if column.missing == "refuse"]
    if refused:
        say(f"A missing cell is refused: {', '.join(refused)}.")
    if isinstance(spec.observation, Box) and spec.difference is None:
        without = [column.name for column in columns if column.kind != "category" and column.step is None]
        say(f"No step is declared: {', '.join(without) or 'difference'}. `tacit synthesize` then takes all steps from")
        say("--public records, and is refused without them. Other commands need no steps.")
    ends = " or a row terminates it" if spec.terminals else ""
    say("Without --time, rows follow each other as they lie in the file.")
    say(f"Without --episode, an episode ends where the rows of a unit end{ends}.")


def _compare(spec: PublicSpec, command: SpecCheck) -> None:
    assert command.table is not None
    header = set(_header(command.table, command))
    named = Fields.named(spec, command.fields or ()).columns()
    absent = {field: [name for name in names if name not in header] for field, names in named.items()}
    if absent["observations"]:
        raise DataError(
            f"there is no column {absent['observations'][0]!r}",
            where=command.table.name,
            expected="the columns of the observation, by the names of the spec",
            remedy="correct the name in the spec, or name the table's own with --fields; only what the import computes "
            "with --column need not be there",
        )
    notes = {
        "actions": "name the table's own with --fields, or compute it with --action",
        "rewards": "name the table's own with --fields, or compute it with --reward (0, where nothing is valued)",
        "next_observations": "let the import build it with --time and --next",
        "terminations": "declare terminals = false, or name the column with --fields" if spec.terminals else "",
        "propensities": "name the column with --propensity" if spec.propensities else "",
    }
    say(f"{command.table.name} has all columns of the observation.")
    for field, note in notes.items():
        if absent[field] and note:
            say(f"It has no column {absent[field][0]!r} ({field.replace('_', ' ')}): {note}.")


def _header(table: Path, command: SpecInit | SpecCheck) -> dict[str, Any]:
    return header_of(table, Style(**given(command, "separator", "encoding")))


def _described(space: Space) -> list[str]:
    """Each declared column in a few words."""
    return [
        f"{column.name} ({', '.join(column.labels)})"
        if column.kind == "category"
        else f"{column.name} ({column.kind}, {column.low:g} to {column.high:g})"
        for column in space.columns or ()
    ]


def _undeclared(space: Space) -> str:
    return f"one of 0 to {space.n - 1}" if isinstance(space, Discrete) else f"{space.size} number(s) without names"
