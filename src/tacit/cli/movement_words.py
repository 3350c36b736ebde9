"""From the words of `tacit imitate` to a public grid and a calibrated plan; no record is read here."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from tacit.cli.movement_commands import Imitate
from tacit.cli.movement_options import refused
from tacit.data.mobility.days import SLOTS
from tacit.data.mobility.grids import EARTH_KM, Grid, RegularGrid, grid_from_json
from tacit.envs import city
from tacit.errors import DataError, FileError
from tacit.methods import mobility
from tacit.methods.mobility import baselines, pategail
from tacit.units import Unit

Plan = mobility.Plan | baselines.Plan | pategail.Plan
CITY_DAYS = 20
"""Days of each simulated person."""
LEAST_METRES = 10.0
"""Side of the smallest cell: what is smaller was meant in other units."""
FEWEST_CELLS = 2


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
    whose, days = unit(command), days_of_each(command)
    promise: dict[str, Any] = {"unit": whose, "epsilon": command.epsilon, "delta": command.delta}
    some: dict[str, Any] = {} if days is None else {"days": days}
    if command.method == "one-shot":
        plan = mobility.Plan(box=command.homes, noise=command.noise, floor=command.floor, **some)
        return plan.calibrate(**promise)
    if command.method == "pategail":
        return _critics(command, whose.size, days).calibrate(**promise)
    if command.method == "table":  # with as many states as the one-shot method would take
        layout = mobility.Plan(**some).calibrate(**promise).layout
        assert layout is not None
        some["layout"] = layout
    return baselines.Plan(model=command.method, **some).calibrate(**promise)


def _critics(command: Imitate, people: int, days: int | None) -> pategail.Plan:
    if not (math.isfinite(command.epsilon) and command.epsilon > 0):
        raise refused(f"--epsilon is {command.epsilon:g}", "a finite number > 0", "choose another one")
    plan = pategail.recipe(command.critics or "linear", people, command.epsilon)
    changes: dict[str, Any] = {"noise": command.noise, "floor": command.floor}
    if command.rounds is not None:
        changes["rounds"] = command.rounds
    if days is not None:
        changes["rows_per_unit"] = days * (SLOTS - 1)
    return replace(plan, **changes)


def silent(plan: Plan) -> Plan:
    """The same plan with people who add nothing: what its noise alone makes.

    A linear critic has no such control, and that of a table of rewards takes its place.
    """
    if not isinstance(plan, pategail.Plan) or plan.kind != "linear":
        return replace(plan, silent=True)
    assert plan.unit is not None
    assert plan.epsilon is not None
    assert plan.delta is not None
    table = replace(pategail.recipe("table", plan.people, plan.epsilon), noise=plan.noise, floor=plan.floor)
    table = replace(table, rounds=plan.rounds, rows_per_unit=plan.rows_per_unit, silent=True)
    return table.calibrate(unit=plan.unit, epsilon=plan.epsilon, delta=plan.delta)


def region(command: Imitate) -> Grid:
    """The public grid of the records, or that of the city.

    Raises:
        FileError: the file of the grid is missing or no JSON.
        DataError: it is not one of a grid, or the box is empty, not on the earth, or too small.
    """
    if command.simulates:
        return city.GRID
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
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise FileError(
            "the file is missing or no JSON",
            where=f"--grid {path}",
            expected="a JSON object as to_json of a grid writes it",
            remedy="check the path, or give --box and --cell",
        ) from None
    try:
        return grid_from_json(values)
    except (OverflowError, TypeError):
        raise FileError(
            "the file holds a number that is too large, or something else in its place",
            where=f"--grid {path}",
            expected="a JSON object as to_json of a grid writes it",
            remedy="mend it, or give --box and --cell",
        ) from None


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
        raise DataError(
            f"the side of a cell is {side:g} {'degrees' if metres is None else 'metres'}",
            where="imitate",
            expected=f"metres from {LEAST_METRES:g} with --cell, or degrees > 0 with --degrees",
            remedy="give a side that the records resolve, such as --cell 500",
        )
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
    if not isinstance(plan, mobility.Plan):
        return
    try:
        mobility.works(plan, grid)
    except DataError as error:
        remedy = "mend --homes, or leave it out"
        raise DataError(error.what, where="--homes", expected=error.expected, remedy=remedy) from None


def _bad_box(what: str, expected: str, remedy: str) -> DataError:
    return DataError(what, where="imitate", expected=expected, remedy=remedy)
