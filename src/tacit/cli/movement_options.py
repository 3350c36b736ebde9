"""What options of `tacit imitate` go together, told before a file is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tacit.cli.movement_commands import Imitate
from tacit.data.mobility import UNIX
from tacit.data.mobility.points import require_zone
from tacit.errors import DataError, FileError, PlanError

Kind = Literal["city", "points", "plt", "cells"]
"""Where the days come from."""

_REGION = ("box", "cell", "degrees", "grid")
_RULES = ("carry", "observed", "outside", "untidy")
_COLUMNS = ("time", "lat", "lon", "pattern", "recorded")
_MEANINGLESS: dict[Kind, tuple[tuple[str, ...], str]] = {
    "city": (
        (*_REGION, "zone", "user", *_COLUMNS, *_RULES, "fewest", "simulated"),
        "it with records: a city has its own grid and whole days",
    ),
    "points": (("preset",), "--city"),
    "plt": (("preset", "user", *_COLUMNS), "CSV files: PLT files have columns and times of their own"),
    "cells": (("preset", "zone", *_COLUMNS, *_RULES), "points: the days of an .npz file are cut already"),
}
_METHODS = {"rounds": ("pategail",), "critics": ("pategail",), "homes": ("one-shot",)}
"""Options that belong to some methods only."""


def kind_of(command: Imitate) -> Kind:
    """Where the days come from, by what was named.

    Raises:
        PlanError: there are no records and no city, or both, or they are of several kinds.
        FileError: a file is of no known kind.
    """
    if command.simulates:
        if command.source:
            raise refused("there are records and a city", "one of them", "leave --city out, or the records")
        return "city"
    if not command.source:
        raise refused("there are no records", "files or a folder, or --city PEOPLE", "name the records")
    kinds = {_kind_of(path) for path in command.source}
    if len(kinds) > 1:
        raise refused("the records are of several kinds", "files of one kind", "imitate one kind at a time")
    if kinds == {"cells"} and len(command.source) > 1:
        raise refused("there are several .npz files", "one file of days", "put all days into one file")
    return kinds.pop()


def require_sound(command: Imitate) -> None:
    """Refuse options that are out of range, or have no meaning with the others.

    Raises:
        PlanError: the first such option.
        FileError: a file is of no known kind.
    """
    kind = kind_of(command)
    for option, least in (("seed", 0), ("days", 1), ("rounds", 1), ("city", 2), ("floor", 1), ("fewest", 1)):
        value: int | None = getattr(command, option)
        if value is not None and value < least:
            raise refused(f"--{option} is {value}", f"a whole number >= {least}", "give it such a number")
    names, expected = _MEANINGLESS[kind]
    for name in names:
        if getattr(command, name) not in (None, False):
            raise meaningless(f"--{name}", expected)
    for name, methods in _METHODS.items():
        if getattr(command, name) is not None and command.method not in methods:
            raise meaningless(f"--{name}", f"--method {' or '.join(methods)}, not {command.method}")
    if command.noise != "server" and command.method not in ("one-shot", "pategail"):
        raise meaningless(f"--noise {command.noise}", f"--method one-shot or pategail, not {command.method}")
    if command.floor is not None and command.noise != "shared":
        raise meaningless("--floor", "--noise shared")
    _require_people(command)
    _require_zones(command, kind)
    if kind != "city":
        _require_region(command)
    _require_ledger(command)
    _require_look(command, kind)


def _require_people(command: Imitate) -> None:
    if command.population is None and command.city is None:
        raise refused("--population is missing", "how many people there could be", "declare it; it is never counted")
    if command.city is not None and command.population is not None and command.population < command.city:
        what = f"there are {command.city:,} people in a population of {command.population:,}"
        raise refused(what, f"a --population of at least {command.city:,}", "leave --population out")


def _require_zones(command: Imitate, kind: Kind) -> None:
    if kind in ("points", "plt") and not command.zone:
        raise refused("--zone is missing", "the local time zone of the region, such as Asia/Shanghai", "name it")
    for name in ("zone", "recorded"):
        value = getattr(command, name)
        if value is None or (name, value) == ("recorded", UNIX):
            continue
        try:
            require_zone(value, name)
        except DataError as error:
            raise refused(f"--{name} is {value!r}", error.expected, "check the spelling") from None


def _require_region(command: Imitate) -> None:
    whole = command.box is not None and (command.cell is None) != (command.degrees is None)
    pieces = [name for name in ("box", "cell", "degrees") if getattr(command, name) is not None]
    if command.grid is not None and pieces:
        raise meaningless(f"--{pieces[0]}", "one grid: --grid, or --box with --cell")
    if command.grid is None and not whole:
        raise refused(
            "the public grid is missing, or there are two",
            "--box SOUTH WEST NORTH EAST with --cell METRES (or --degrees), or --grid FILE",
            "declare the region that is known without the records",
        )


def _require_ledger(command: Imitate) -> None:
    if len(command.source) > 1 and command.ledger is None:
        raise refused("--ledger is missing", "one ledger for all these files", "name the file of their budget")


def _require_look(command: Imitate, kind: Kind) -> None:
    if not command.nonprivate_diagnostics:
        return
    if kind == "city" or command.simulated:
        raise meaningless("--nonprivate-diagnostics", "real records: the report compares with simulated ones anyhow")
    if command.method == "pategail" or command.noise != "server":
        told = "records that one vault holds: --noise server and a method other than pategail"
        raise meaningless("--nonprivate-diagnostics", told)


def _kind_of(path: Path) -> Kind:
    name = path.name.lower()
    if name.endswith((".csv", ".csv.gz")):
        return "points"
    if name.endswith(".npz"):
        return "cells"
    if path.is_dir() or not path.suffix:
        return "plt"
    raise FileError(
        "the file is of no known kind",
        where=str(path),
        expected="a .csv, .csv.gz or .npz file, or a folder of PLT files",
        remedy="rename the file, or convert it",
    )


def meaningless(option: str, expected: str) -> PlanError:
    """An option that has no effect here."""
    option = option.replace("_", "-")
    return PlanError(f"{option} has no meaning here", where="imitate", expected=expected, remedy=f"leave {option} out")


def refused(what: str, expected: str, remedy: str) -> PlanError:
    """Options of `tacit imitate` that cannot be used."""
    return PlanError(what, where="imitate", expected=expected, remedy=remedy)
