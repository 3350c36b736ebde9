"""`tacit new` and `tacit check`: a study's file from a table's header, and a check of what was made of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tacit import plain_files
from tacit.cli.console import complain, require_new, say
from tacit.cli.data_declarations import Check, New
from tacit.cli.options import Missing, given, require_given
from tacit.data import spec_files
from tacit.errors import PlanError
from tacit.study import file as files
from tacit.study.check import check as checked
from tacit.study.check import header
from tacit.units import Unit

_QUESTIONS = {
    "unit": "Which column says whose a row is? ",
    "population": "How many such people could there be, as the public knows? ",
    "budget_epsilon": "What may all releases together cost (epsilon)? It is final: ",
}


def new(command: New) -> None:
    """Write a study's file and a template of the public bounds, which know a table's header and none of its cells.

    Raises:
        FileError: the table is missing or damaged, or the output exists.
        PlanError: what only the curator knows is missing or out of range.
        DataError: the header has no such column, or is damaged.
    """
    require_new(command.out)
    imported = (command.records / "spec.json").is_file()
    style = given(command, "separator", "encoding")
    names = [] if imported else list(header(command.records, style))
    if names:
        say(f"Columns: {', '.join(names)}.")
    told = {name: getattr(command, name) or _asked(name) for name in _QUESTIONS}
    absent = [name for name, answer in told.items() if answer is None]
    expected = {"unit": "a column, or what one unit is", "population": "a whole number", "budget_epsilon": "a number"}
    require_given(
        "new", [Missing(f"--{name.replace('_', '-')}", expected[name], "say what only you know") for name in absent]
    )
    unit, population, budget = str(told["unit"]), _number(told, "population"), _number(told, "budget_epsilon")
    Unit(unit.removeprefix(":"), "add_or_remove", int(population))
    if names and not unit.startswith(":") and unit not in names:
        expected_names = f"one of {', '.join(names)}, or :transition or :episode where each is a unit of its own"
        raise PlanError(f"there is no column {unit[:40]!r}", where="new", expected=expected_names, remedy="name one")
    bounds = (
        None if imported else command.spec or command.out.with_name(f"{command.records.name.partition('.')[0]}.toml")
    )
    if bounds is not None and not bounds.exists():
        plain_files.write(bounds, spec_files.template(names))
        say(f"Wrote {bounds}: fill it in from the documentation of the records, never from their cells.")
    records, spec = (None if path is None else _beside(path, command.out) for path in (command.records, bounds))
    plain_files.write(command.out, files.template(str(records), unit, int(population), budget, spec, style))
    say(f"Wrote {command.out}. Next: tacit check")


def _asked(name: str) -> str | None:
    """The answer of somebody at a terminal."""
    return (input(_QUESTIONS[name]).strip() or None) if sys.stdin.isatty() and sys.stdout.isatty() else None


def _number(told: dict[str, object], name: str) -> float:
    """An answer as a number."""
    try:
        number = float(str(told[name]).replace(",", "").replace("_", ""))
        if number > 0 and (name == "budget_epsilon" or number == int(number)):
            return number
    except (ValueError, OverflowError):
        pass
    what, expected = f"{name} is {str(told[name])[:40]!r}", "a whole number" if name == "population" else "a number > 0"
    raise PlanError(what, where="new", expected=expected, remedy="say it in digits")


def _beside(path: Path, out: Path) -> str:
    """A path as a file beside `out` names it."""
    return path.as_posix() if path.is_absolute() else Path(os.path.relpath(path, out.parent)).as_posix()


def check(command: Check) -> None:
    """Say what is wrong with a study, all of it, and what was found.

    Raises:
        FileError: there is no such file, or it is no TOML.
        PlanError: the study cannot be used as it stands.
    """
    verdict = checked(command.study)
    for note in verdict.notes:
        say(note)
    for fault in verdict.faults:
        complain(fault)
    if verdict.faults:
        count = len(verdict.faults)
        what = f"{count} thing{'s' * (count > 1)} to mend before the study can be used"
        raise PlanError(what, where=str(command.study), expected="none", remedy="mend what is named above")
    say(f"{command.study} is ready: tacit synthesize --epsilon 1 --out RUN, and likewise the other verbs.")
