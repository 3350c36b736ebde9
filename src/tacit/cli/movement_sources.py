"""Where the days of `tacit imitate` come from: files of points, PLT folders, days that are cut already, or a city."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tacit.cli.budget import require_only
from tacit.cli.console import progress
from tacit.cli.movement_commands import Imitate
from tacit.cli.movement_options import kind_of
from tacit.cli.movement_words import days_of_each
from tacit.data import mobility
from tacit.data.mobility.days import Days
from tacit.data.mobility.grids import Grid
from tacit.envs import city
from tacit.errors import DataError, FileError

_IN_OPTIONS = {
    "Rules(outside='drop')": "--outside drop",
    "Rules(untidy='mend')": "--untidy mend",
    "recorded='UTC'": "--recorded UTC",
    "recorded= the zone": "--recorded with the zone",
    "recorded=": "--recorded",
    "zone=;": "--zone ZONE;",
    "a wider public grid": "a wider public --box",
    "(carry, observed, days)": "(--carry, --observed, --fewest)",
    "name the column that holds it": "name the column that holds it (--user, --time, --lat, --lon)",
    "swap the names of the two columns, or the sides of the grid if its box is the one that is swapped": (
        "exchange --lat and --lon, or put the latitudes of --box first if it is the one that is swapped"
    ),
    "check the grid and the columns": "check --box, --lat and --lon",
    "check the grid and the time zone": "check --box and --zone",
}
"""What the readers' advice is on a command line."""


def nobody(command: Imitate) -> bool:
    """Whether nobody is behind the days."""
    return command.simulates or command.simulated


def require_there(command: Imitate) -> None:
    """Refuse records that are not there, and files of which one has a ledger of its own.

    Raises:
        FileError: there is no such file or folder.
        LedgerError: --ledger names another one than lies beside the records.
    """
    for path in command.source:
        if not path.exists():
            raise FileError(
                "there is no such file or folder",
                where=str(path),
                expected="the records",
                remedy="check the path, or try --city 500",
            )
        require_only(replace(command, source=(path,)))


def days(command: Imitate, grid: Grid) -> Days:
    """The days: read and checked, or simulated.

    Raises:
        DataError: the records break a rule (the message names file and row, never a value).
        FileError: a file is damaged.
    """
    kind = kind_of(command)
    if kind == "city":
        assert command.city is not None
        number = days_of_each(command) or 1
        with progress(f"Simulating {command.city:,} people"):
            return city.city(command.city, number, command.seed, preset=command.preset or "telecom").days
    with progress("Reading the records"), in_options():
        if kind == "cells":
            names = {} if command.user is None else {"user": command.user}
            return mobility.from_cells(command.source[0], grid, fewest=command.fewest or 1, **names)
        rules = mobility.Rules(zone=command.zone or "", **_given(command, "carry", "observed", "outside", "untidy"))
        if command.fewest is not None:
            rules = replace(rules, days=command.fewest)
        if kind == "plt":
            return mobility.from_plt(command.source, grid, rules)
        columns = _given(command, "user", "time", "lat", "lon", "pattern", "recorded")
        return mobility.from_points(command.source, grid, rules, **columns)


@contextmanager
def in_options() -> Iterator[None]:
    """Say in options what a reader says in arguments."""
    try:
        yield
    except DataError as error:
        expected, remedy = error.expected, error.remedy
        for argument, option in _IN_OPTIONS.items():
            expected, remedy = expected.replace(argument, option), remedy.replace(argument, option)
        raise DataError(error.what, where=error.where, expected=expected, remedy=remedy) from None


def _given(command: Imitate, *names: str) -> dict[str, Any]:
    """Those of the options that were given."""
    return {name: value for name in names if (value := getattr(command, name)) is not None}
