"""What `tacit imitate` is asked for: its options, a public grid, a calibrated plan, and where the days come from."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from tacit import plain_files
from tacit.cli import options
from tacit.cli.console import progress
from tacit.cli.options import Missing, given
from tacit.cli.plan_declarations import Imitate
from tacit.data.mobility import UNIX, Rules, from_cells, from_plt, from_points
from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.files import SUFFIXES
from tacit.data.mobility.grids import EARTH_KM, Grid, RegularGrid, grid_from_json
from tacit.data.mobility.points import require_zone
from tacit.errors import DataError, FileError
from tacit.methods import mobility
from tacit.methods.mobility import baselines, pategail
from tacit.study import simulators
from tacit.study.account import Words, promised
from tacit.units import Unit

Kind = Literal["city", "points", "plt", "cells"]
"""Where the days come from."""

_REGION = ("box", "cell", "degrees", "grid")
_RULES = ("carry", "observed", "outside", "untidy")
_COLUMNS = ("time", "lat", "lon", "pattern", "recorded")
_MEANINGLESS: dict[Kind, tuple[tuple[str, ...], str]] = {
    "city": (
        (*_REGION, "zone", "user", *_COLUMNS, *_RULES, "fewest", "unit_key", "simulated"),
        "it with records: a city has its own grid and whole days",
    ),
    "points": (("preset",), "--city"),
    "plt": (("preset", "user", *_COLUMNS), "files of points: PLT files have columns and times of their own"),
    "cells": (("preset", "zone", *_COLUMNS, *_RULES), "points: the days of an .npz file are cut already"),
}
refused, meaningless = partial(options.refused, "imitate"), partial(options.meaningless, "imitate")
_METHODS = {"rounds": ("pategail",), "critics": ("pategail",), "homes": ("one-shot",)}
"""Options that belong to some methods only."""
Plan = mobility.OneShotPlan | baselines.BaselinePlan | pategail.PateGailPlan
CITY_DAYS = 20
"""Days of each simulated person."""
LEAST_METRES = 10.0
"""Side of the smallest cell: what is smaller was meant in other units."""
FEWEST_CELLS = 2
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
    options.require_least("imitate", command, seed=0, days=1, rounds=1, city=2, floor=1, fewest=1)
    names, expected = _MEANINGLESS[kind]
    for name in names:
        if getattr(command, name) not in (None, False):
            raise meaningless(name, expected)
    for name, methods in _METHODS.items():
        if getattr(command, name) is not None and command.method not in methods:
            raise meaningless(name, f"--method {' or '.join(methods)}, not {command.method}")
    if command.noise != "server" and command.method not in ("one-shot", "pategail"):
        raise meaningless(f"--noise {command.noise}", f"--method one-shot or pategail, not {command.method}")
    if "floor" in command.settings and command.noise != "shared":
        raise meaningless("--floor", "--noise shared")
    _require_zones(command)
    if kind != "city":
        _require_one_grid(command)
    options.require_given("imitate", missing(command))
    _require_population(command)
    _require_look(command, kind)


def missing(command: Imitate) -> list[Missing]:
    """What a command needs besides the options that every command needs."""
    if command.city is not None:
        return []
    absent, kind = [], kind_of(command)
    if command.population is None:
        absent.append(Missing("--population", "how many people there could be", "declare it; it is never counted"))
    if kind in ("points", "plt") and not command.zone:
        absent.append(Missing("--zone", "the local time zone of the region, such as Asia/Shanghai", "name it"))
    if command.grid is None and (command.box is None or (command.cell is None and command.degrees is None)):
        expected = "--box SOUTH WEST NORTH EAST with --cell METRES (or --degrees), or --grid FILE"
        absent.append(Missing("the public grid", expected, "declare the region that is known without the records"))
    if len(command.source) > 1 and command.ledger is None:
        absent.append(Missing("--ledger", "one ledger for all these files", "name the file of their budget"))
    return absent


def _require_population(command: Imitate) -> None:
    if command.city is not None and command.population is not None and command.population < command.city:
        what = f"there are {command.city:,} people in a population of {command.population:,}"
        raise refused(what, f"a --population of at least {command.city:,}", "leave --population out")


def _require_zones(command: Imitate) -> None:
    for name in ("zone", "recorded"):
        value = getattr(command, name)
        if value is None or (name, value) == ("recorded", UNIX):
            continue
        try:
            require_zone(value, name)
        except DataError as error:
            raise refused(f"--{name} is {value!r}", error.expected, "check the spelling") from None


def _require_one_grid(command: Imitate) -> None:
    pieces = [name for name in ("box", "cell", "degrees") if getattr(command, name) is not None]
    if command.grid is not None and pieces:
        raise meaningless(pieces[0], "one grid: --grid, or --box with --cell")
    if command.cell is not None and command.degrees is not None:
        raise meaningless("degrees", "one size of a cell: --cell, or --degrees")


def _require_look(command: Imitate, kind: Kind) -> None:
    if not command.nonprivate_diagnostics:
        return
    if kind == "city" or command.simulated:
        raise meaningless("--nonprivate-diagnostics", "real records: the report compares with simulated ones anyhow")
    if command.method == "pategail" or command.noise != "server":
        expected = "records that one vault holds: --noise server and a method other than pategail"
        raise meaningless("--nonprivate-diagnostics", expected)


def _kind_of(path: Path) -> Kind:
    name = path.name.lower()
    if name.endswith(SUFFIXES):
        return "points"
    if name.endswith(".npz"):
        return "cells"
    if path.is_dir() or not path.suffix:
        return "plt"
    what = "the file is of no known kind"
    expected = "a .csv, .csv.gz, .parquet, .gpkg or .npz file, or a folder of PLT files"
    raise FileError(what, where=str(path), expected=expected, remedy="rename the file, or convert it")


def unit(command: Imitate) -> Unit:
    """What is protected.

    Raises:
        PlanError: the population is below 2, or there is no name.
    """
    people = command.city if command.population is None else command.population
    return Unit(command.unit, command.relation, people)


def days_of_each(command: Imitate) -> int | None:
    """Most days of one person that are read; None takes the method's own number."""
    return command.days or (CITY_DAYS if command.simulates else None)


def planned(command: Imitate) -> Plan:
    """The calibrated plan of a command; touches no file.

    Raises:
        PlanError: an option is out of range or does not fit the method.
    """
    protected, days = unit(command), days_of_each(command)
    promise: dict[str, Any] = {"unit": protected, "epsilon": command.epsilon, "delta": command.delta}
    fields: dict[str, Any] = {} if days is None else {"days": days}
    if command.method == "one-shot":
        plan = mobility.OneShotPlan(box=command.homes, noise=command.noise, **fields, **given(command, "floor"))
        return plan.calibrate(**promise)
    if command.method == "pategail":
        return _critics(command, protected.size, days).calibrate(**promise)
    if command.method == "table":  # with as many states as the one-shot method would take
        layout = mobility.OneShotPlan(**fields).calibrate(**promise).layout
        assert layout is not None
        fields["layout"] = layout
    fields["model"] = command.method
    return baselines.BaselinePlan(**fields).calibrate(**promise)


def _critics(command: Imitate, people: int, days: int | None) -> pategail.PateGailPlan:
    if not (math.isfinite(command.epsilon) and command.epsilon > 0):
        raise refused(f"--epsilon is {command.epsilon:g}", "a finite number > 0", "choose another one")
    plan = pategail.recipe(command.critics or "linear", people, command.epsilon)
    changes = {"noise": command.noise, **command.settings}
    if days is not None:
        changes["rows_per_unit"] = days * (SLOTS - 1)
    return replace(plan, **changes)


def silent(plan: Plan) -> Plan:
    """The same plan with people who add nothing: what its noise alone makes.

    A linear critic has no such control, and that of a table of rewards takes its place.
    """
    if not isinstance(plan, pategail.PateGailPlan) or plan.kind != "linear":
        return replace(plan, zero_contribution=True)
    unit, epsilon, delta = promised(plan)
    table = replace(pategail.recipe("table", plan.people, epsilon), noise=plan.noise, floor=plan.floor)
    table = replace(table, rounds=plan.rounds, rows_per_unit=plan.rows_per_unit, zero_contribution=True)
    return table.calibrate(unit=unit, epsilon=epsilon, delta=delta)


def region(command: Imitate) -> Grid:
    """The public grid of the records, or that of the city.

    Raises:
        FileError: the file of the grid is missing or no JSON.
        DataError: it is not one of a grid, or the box is empty, not on the earth, or too small.
    """
    if command.simulates:
        return cast(Grid, simulators.load("city").GRID)
    if command.grid is not None:
        return read_grid(command.grid)
    assert command.box is not None
    return cut(command.box, metres=command.cell, degrees=command.degrees)


def read_grid(path: Path) -> Grid:
    """The grid in a JSON file.

    Raises:
        FileError: it is missing or no JSON.
        DataError: it is not one of a grid.
    """
    try:
        values = json.loads(plain_files.text(path))
    except (OSError, ValueError, RecursionError):
        what = "the file is missing or no JSON"
        expected, remedy = "a JSON object as to_json of a grid writes it", "check the path, or give --box and --cell"
        raise FileError(what, where=f"--grid {path}", expected=expected, remedy=remedy) from None
    try:
        return grid_from_json(values)
    except (OverflowError, TypeError):
        what = "the file holds a number that is too large, or something else in its place"
        expected, remedy = "a JSON object as to_json of a grid writes it", "mend it, or give --box and --cell"
        raise FileError(what, where=f"--grid {path}", expected=expected, remedy=remedy) from None


def cut(
    box: tuple[float, float, float, float], *, metres: float | None = None, degrees: float | None = None
) -> RegularGrid:
    """Square cells that cover a box (south, west, north, east), from its south-west corner on.

    Args:
        box: degrees.
        metres: side of a cell, at the box's middle latitude; or
        degrees: side of a cell.

    Raises:
        DataError: the box is empty, not on the earth, or too small for two cells; or the side is.
    """
    south, west, north, east = box
    if not (-90 <= south < north <= 90 and -180 <= west < east <= 180):
        turned = -90 <= west < east <= 90 and -180 <= south < north <= 180
        raise _bad_box(
            "latitudes and longitudes of --box are swapped" if turned else "--box is empty or not on the earth",
            "SOUTH WEST NORTH EAST in degrees: latitude, longitude, latitude, longitude",
            "put the latitudes first" if turned else "give the box of the region, its south-west corner first",
        )
    side = degrees if metres is None else metres
    if side is None or not (math.isfinite(side) and side > 0) or (metres is not None and metres < LEAST_METRES):
        what = f"the side of a cell is {side:g} {'degrees' if metres is None else 'metres'}"
        expected = f"metres from {LEAST_METRES:g} with --cell, or degrees > 0 with --degrees"
        remedy = "give a side that the records resolve, such as --cell 500"
        raise DataError(what, where="imitate", expected=expected, remedy=remedy)
    step = side if metres is None else metres / 1000.0 / (math.radians(1.0) * EARTH_KM)
    width = side if metres is None else step / math.cos(math.radians((south + north) / 2))
    rows, columns = (max(1, math.ceil(round(n, 6))) for n in ((north - south) / step, (east - west) / width))
    if rows * columns < FEWEST_CELLS:
        raise _bad_box(
            f"--box is too small: it holds {rows * columns} cell",
            f"a region of at least {FEWEST_CELLS}",
            "widen --box, or give a smaller --cell",
        )
    first = south + step / 2, west + width / 2
    last = min(first[0] + (rows - 1) * step, 90.0), min(first[1] + (columns - 1) * width, 180.0)
    return RegularGrid(min(first[0], last[0]), min(first[1], last[1]), *last, step, width)


def require_answerable(plan: Plan, grid: Grid) -> None:
    """Refuse a plan that would fail on this grid, before the records are read.

    Raises:
        DataError: the declared box of homes holds no block of the grid.
    """
    if not isinstance(plan, mobility.OneShotPlan):
        return
    try:
        mobility.works(plan, grid)
    except DataError as error:
        remedy = "mend --homes, or leave it out"
        raise DataError(error.what, where="--homes", expected=error.expected, remedy=remedy) from None


def _bad_box(what: str, expected: str, remedy: str) -> DataError:
    return DataError(what, where="imitate", expected=expected, remedy=remedy)


def nobody(command: Imitate) -> bool:
    """Whether nobody is behind the days."""
    return command.simulates or command.simulated


def require_there(command: Imitate) -> None:
    """Refuse records that are not there, or that have another ledger.

    Raises:
        FileError: there is no such file or folder.
        LedgerError: --ledger names another one than lies beside the records.
    """
    for path in command.source:
        if not path.exists():
            what, expected = "there is no such file or folder", "the records"
            raise FileError(what, where=str(path), expected=expected, remedy="check the path, or try --city 500")
    command.account(unit(command), Words("people", "imitation", "made of", "imitate")).require_only()


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
            made = simulators.load("city").city(command.city, number, command.seed, preset=command.preset or "telecom")
            return cast(Days, made.days)
    with progress("Reading the records"), in_options():
        if kind == "cells":
            names = {} if command.user is None else {"user": command.user}
            return from_cells(command.source[0], grid, fewest=command.fewest or 1, unit_key=command.unit_key, **names)
        rules = Rules(zone=command.zone or "", **given(command, "carry", "observed", "outside", "untidy", "unit_key"))
        if command.fewest is not None:
            rules = replace(rules, days=command.fewest)
        if kind == "plt":
            return from_plt(command.source, grid, rules)
        columns = given(command, "user", "time", "lat", "lon", "pattern", "recorded")
        return from_points(command.source, grid, rules, **columns)


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
