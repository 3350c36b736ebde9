"""Where people were: the public rules by which records of it become days, and the source that a study makes of them."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tacit.errors import DataError, FileError
from tacit.study import words
from tacit.study.words import MissingOption
from tacit.units import UnitKey

if TYPE_CHECKING:
    from tacit.data.mobility.days import Days
    from tacit.data.mobility.grids import Grid, RegularGrid

Kind = Literal["city", "points", "plt", "gpx", "cells"]
"""Where the days come from."""

_REGION = ("box", "cell", "degrees", "grid")
_RULES = ("carry", "observed", "outside", "untidy")
_COLUMNS = ("time", "lat", "lon", "pattern", "recorded")
_STYLE = ("separator", "decimal", "encoding")
_MEANINGLESS: dict[Kind, tuple[tuple[str, ...], str]] = {
    "city": (
        (*_REGION, "zone", *_COLUMNS, *_STYLE, *_RULES, "fewest", "unit_key", "simulated"),
        "it with records: a city has its own grid and whole days",
    ),
    "points": (("preset",), "--city"),
    "plt": (("preset", *_COLUMNS, *_STYLE), "files of points: PLT files have columns and times of their own"),
    "gpx": (("preset", *_COLUMNS, *_STYLE), "files of points: GPX files have columns and times of their own"),
    "cells": (("preset", "zone", *_COLUMNS, *_STYLE, *_RULES), "points: the days of an .npz file are cut already"),
}
option_error, no_effect_error = partial(words.option_error, "imitate"), partial(words.no_effect_error, "imitate")
CITY_DAYS = 20
"""Days of each simulated person."""
LEAST_METRES = 10.0
"""Side of the smallest cell: what is smaller was meant in other units."""
_IN_WORDS = {
    "Rules(outside='drop')": "--outside drop",
    "Rules(untidy='mend')": "--untidy mend",
    "recorded='UTC'": "--recorded UTC",
    "recorded= the zone": "--recorded with the zone",
    "recorded=": "--recorded",
    "zone=;": "--zone ZONE;",
    "a wider public grid": "a wider public --box",
    "(carry, observed, days)": "(--carry, --observed, --fewest)",
    "name the column that holds it": "name the column that holds it (--unit, --time, --lat, --lon)",
    "swap the names of the two columns, or the sides of the grid if its box is the one that is swapped": (
        "exchange --lat and --lon, or put the latitudes of --box first if it is the one that is swapped"
    ),
    "check the grid and the columns": "check --box, --lat and --lon",
    "check the grid and the time zone": "check --box and --zone",
}
"""What the readers' advice is in the words of `Whereabouts`."""


@dataclass(frozen=True)
class Movement:
    """What a study knows of records of days before it reads them.

    Args:
        grid: the public grid; None where the imitation chooses it (--cell auto).
        days: reads or simulates them; None of real people, whose days a vault alone reads.
        zone: time zone whose midnights cut the days, if somebody said it.
        people, each: how many there are, and days of each of them, where they are made up.
        choose: the records on the finest grid that passes a public test, where there is none yet.
    """

    grid: Grid | None
    days: Callable[[], Days] | None
    zone: str | None = None
    people: int | None = None
    days_each: int | None = None
    choose: Callable[[Callable[[Grid], bool]], Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Whereabouts:
    """Records of where people were, and the public rules by which they become days.

    Args:
        source: records of where people were: files of points (.csv, .csv.gz, .csv.zip, .tsv, .txt, .parquet, .gpkg,
            .geojson; all rows of a person in one of them), GPX files (PERSON.gpx) or a folder of them (PERSON.gpx,
            PERSON/*.gpx), a folder of GeoLife's PLT files, or an .npz file of days that are cut already. Without it,
            give --city.
        city: simulate so many people of an invented city instead of reading records.
        preset: how restless they are: telecom (most half-hours are stays) or geolife.
        days: days of each person of a city.
        seed: of the simulated people.
        box: public region, SOUTH WEST NORTH EAST in degrees, that is cut into cells.
        cell: side of a cell in metres; auto takes the smallest of which single ones can be read on a map, by the public
            noise of the imitation.
        degrees: side of a cell in degrees, in place of --cell.
        grid: JSON file of a public grid (`to_json` of a RegularGrid or H3Grid), in place of --box and --cell.
        zone: time zone of the region ("Asia/Shanghai"), whose midnights cut the days.
        recorded: zone of recorded times that carry none, or "unix" for seconds since 1970.
        time: column of the times.
        lat: column of latitudes; without one, the points of a GeoPackage or GeoParquet file are taken.
        lon: column of longitudes.
        pattern: strptime pattern of the times; by default ISO 8601.
        separator: what stands between the cells of a CSV file: ";", "|", tab or space, say; by default ",", and tabs in
            files called .tsv or .txt.
        decimal: decimal sign of the numbers in a CSV file, where it is ",".
        encoding: of a CSV file that is not UTF-8: cp1252, latin-1, utf-16.
        carry: half-hours for which the last place goes on where nothing is recorded; 16 without it.
        observed: half-hours with a record that a day needs; 8 without it.
        fewest: whole days that a person needs, 1 without it; others add nothing, and stay in the population.
        outside: what a point outside the region is: an error, or the day in which most of a half-hour is outside is
            dropped.
        untidy: what unsorted or repeated times of a person are: an error, or they are mended.
        unit_key: what ids are that differ by case or form alone: different people (exact, which certificates say) or
            one (folded); they are refused without it.
        simulated: declare that no record is a real person's.
    """

    source: tuple[Path, ...] = ()
    city: int | None = None
    preset: Literal["telecom", "geolife"] | None = None
    days: int | None = None
    seed: int = 0
    box: tuple[float, float, float, float] | None = None
    cell: float | Literal["auto"] | None = None
    degrees: float | None = None
    grid: Path | None = None
    zone: str | None = None
    recorded: str | None = None
    time: str | None = None
    lat: str | None = None
    lon: str | None = None
    pattern: str | None = None
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    carry: int | None = None
    observed: int | None = None
    fewest: int | None = None
    outside: Literal["error", "drop"] | None = None
    untidy: Literal["error", "mend"] | None = None
    unit_key: UnitKey | None = None
    simulated: bool = False

    def movement(self, unit: str, population: int | None, ledger: Path | None) -> Movement:
        """What a study knows of the days; nothing but the file of a public grid is opened.

        Args:
            unit: column of the people's ids, where they have one.
            population: how many people there could be; of a city by default those in it.
            ledger: of the records.

        Raises:
            PlanError: a word is missing, or has no meaning with the others.
            DataError: the grid is none, or the box is empty, not on the earth, or too small.
            FileError: a file is of no known kind, or that of the grid is missing or no JSON.
        """
        kind = self.kind()
        self._require_consistent(kind)
        words.require_options("imitate", self.missing_options(population, ledger))
        if self.city is not None and population is not None and population < self.city:
            what = f"there are {self.city:,} people in a population of {population:,}"
            raise option_error(what, f"a --population of at least {self.city:,}", "leave --population out")
        if self.cell == "auto":
            return Movement(None, None, self.zone)
        grid, days_each = self._make_grid(), (self.days or CITY_DAYS) if kind == "city" else None
        return Movement(grid, partial(self._read_days, kind, grid, unit), self.zone, self.city, days_each)

    def kind(self) -> Kind:
        """Where the days come from, by what was named.

        Raises:
            PlanError: there are no records and no city, or both, or they are of several kinds.
            FileError: a file is of no known kind.
        """
        if self.city is not None:
            if self.source:
                raise option_error("there are records and a city", "one of them", "leave --city out, or the records")
            return "city"
        if not self.source:
            raise option_error("there are no records", "files or a folder, or --city PEOPLE", "name the records")
        kinds = {_file_kind(path) for path in self.source}
        if len(kinds) > 1:
            raise option_error("the records are of several kinds", "files of one kind", "imitate one kind at a time")
        if kinds == {"cells"} and len(self.source) > 1:
            raise option_error("there are several .npz files", "one file of days", "put all days into one file")
        return kinds.pop()

    def missing_options(self, population: int | None, ledger: Path | None) -> list[MissingOption]:
        """What is needed besides the words that every imitation needs."""
        if self.city is not None:
            return []
        absent = []
        if population is None:
            expected = "how many people there could be"
            absent.append(MissingOption("--population", expected, "declare it; it is never counted"))
        if self.kind() in ("points", "plt", "gpx") and not self.zone:
            expected = "the local time zone of the region, such as Asia/Shanghai"
            absent.append(MissingOption("--zone", expected, "name it"))
        if self.grid is None and (self.box is None or (self.cell is None and self.degrees is None)):
            expected = "--box SOUTH WEST NORTH EAST with --cell METRES (or --degrees), or --grid FILE"
            remedy = "declare the region that is known without the records"
            absent.append(MissingOption("the public grid", expected, remedy))
        if len(self.source) > 1 and ledger is None:
            absent.append(MissingOption("--ledger", "one ledger for all these files", "name the file of their budget"))
        return absent

    def _require_consistent(self, kind: Kind) -> None:
        from tacit.data.mobility.points import UNIX, require_zone
        from tacit.data.sources.tables import Style

        words.require_minimum("imitate", vars(self), seed=0, days=1, city=2, fewest=1)
        names, expected = _MEANINGLESS[kind]
        for name in names:
            if getattr(self, name) not in (None, False):
                raise no_effect_error(name, expected)
        style = self._given_options(*_STYLE)
        Style(**style)
        if style and kind == "points" and any(path.suffix.lower() in (".parquet", ".gpkg") for path in self.source):
            raise no_effect_error(next(iter(style)), "CSV files")
        for name in ("zone", "recorded"):
            value = getattr(self, name)
            try:
                if value is not None and (name, value) != ("recorded", UNIX):
                    require_zone(value, name)
            except DataError as error:
                raise option_error(f"--{name} is {value!r}", error.expected, "check the spelling") from None
        pieces = [name for name in ("box", "cell", "degrees") if getattr(self, name) is not None]
        if self.grid is not None and pieces:
            raise no_effect_error(pieces[0], "one grid: --grid, or --box with --cell")
        if self.cell is not None and self.degrees is not None:
            raise no_effect_error("degrees", "one size of a cell: --cell, or --degrees")

    def _make_grid(self) -> Grid:
        from tacit.study import simulators

        if self.city is not None:
            grid: Grid = simulators.load("city").GRID
            return grid
        if self.grid is not None:
            return read_grid(self.grid)
        assert self.box is not None
        assert self.cell != "auto"
        return square_grid(self.box, metres=self.cell, degrees=self.degrees)

    def _read_days(self, kind: Kind, grid: Grid, unit: str) -> Days:
        from tacit.data.mobility import Rules, from_cells, from_gpx, from_plt, from_points
        from tacit.data.sources.tables import Style
        from tacit.study import simulators

        if kind == "city":
            preset = self.preset or "telecom"
            made = simulators.load("city").city(self.city, self.days or CITY_DAYS, self.seed, preset=preset)
            return made.days  # type: ignore[no-any-return]
        for path in self.source:
            if not path.exists():
                what, remedy = "there is no such file or folder", "check the path, or try --city 500"
                raise FileError(what, where=str(path), expected="the records", remedy=remedy)
        with translate_errors():
            if kind == "cells":
                return from_cells(self.source[0], grid, user=unit, fewest=self.fewest or 1, unit_key=self.unit_key)
            rules = Rules(zone=self.zone or "", **self._given_options(*_RULES, "unit_key"))
            if self.fewest is not None:
                rules = dataclasses.replace(rules, days=self.fewest)
            if kind in ("plt", "gpx"):
                return (from_plt if kind == "plt" else from_gpx)(self.source, grid, rules)
            style = Style(**self._given_options(*_STYLE))
            return from_points(self.source, grid, rules, user=unit, style=style, **self._given_options(*_COLUMNS))

    def _given_options(self, *names: str) -> dict[str, Any]:
        return {name: value for name in names if (value := getattr(self, name)) is not None}


MOVEMENT_WORDS = frozenset(("city", *_REGION, "zone"))
"""Words that say that records are of where people were."""


def _file_kind(path: Path) -> Kind:
    from tacit.data.mobility.files import GPX, SUFFIXES

    name = path.name.lower()
    found = {Path(file).suffix.lower() for _, _, names in os.walk(path) for file in names}
    if {GPX, ".plt"} <= found:
        raise option_error("the records are of several kinds", "files of one kind", "imitate one kind at a time")
    if name.endswith(GPX) or GPX in found:
        return "gpx"
    if name.endswith(SUFFIXES):
        return "points"
    if name.endswith(".npz"):
        return "cells"
    if path.is_dir() or not path.suffix:
        return "plt"
    expected = f"a file that is called {', '.join(SUFFIXES)}, .gpx or .npz, or a folder of GPX or PLT files"
    remedy = "convert it to CSV with columns of ids, times, latitudes and longitudes"
    raise FileError("the file is of no known kind", where=str(path), expected=expected, remedy=remedy)


def read_grid(path: Path) -> Grid:
    """The grid in a JSON file.

    Raises:
        FileError: it is missing or no JSON.
        DataError: it is not one of a grid.
    """
    from tacit import plain_files
    from tacit.data.mobility.grids import grid_from_json

    try:
        return grid_from_json(json.loads(plain_files.read_text(path)))
    except (OSError, ValueError, RecursionError, OverflowError, TypeError):
        what, expected = "the file is missing or no JSON of a grid", "a JSON object as to_json of a grid writes it"
        remedy = "check the path, or give --box and --cell"
        raise FileError(what, where=f"--grid {path}", expected=expected, remedy=remedy) from None


def square_grid(
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
    from tacit.data.mobility.grids import EARTH_KM, RegularGrid

    south, west, north, east = box
    if not (-90 <= south < north <= 90 and -180 <= west < east <= 180):
        turned = -90 <= west < east <= 90 and -180 <= south < north <= 180
        what = "latitudes and longitudes of --box are swapped" if turned else "--box is empty or not on the earth"
        expected = "SOUTH WEST NORTH EAST in degrees: latitude, longitude, latitude, longitude"
        remedy = "put the latitudes first" if turned else "give the box of the region, its south-west corner first"
        raise DataError(what, where="imitate", expected=expected, remedy=remedy)
    side = degrees if metres is None else metres
    if side is None or not (math.isfinite(side) and side > 0) or (metres is not None and metres < LEAST_METRES):
        what = f"the side of a cell is {side:g} {'degrees' if metres is None else 'metres'}"
        expected = f"metres from {LEAST_METRES:g} with --cell, or degrees > 0 with --degrees"
        remedy = "give a side that the records resolve, such as --cell 500"
        raise DataError(what, where="imitate", expected=expected, remedy=remedy)
    step = side if metres is None else metres / 1000.0 / (math.radians(1.0) * EARTH_KM)
    width = side if metres is None else step / math.cos(math.radians((south + north) / 2))
    rows, columns = (max(1, math.ceil(round(n, 6))) for n in ((north - south) / step, (east - west) / width))
    if rows * columns == 1:
        what, remedy = "--box is too small: it holds 1 cell", "widen --box, or give a smaller --cell"
        raise DataError(what, where="imitate", expected="a region of at least 2", remedy=remedy)
    first = south + step / 2, west + width / 2
    last = min(first[0] + (rows - 1) * step, 90.0), min(first[1] + (columns - 1) * width, 180.0)
    return RegularGrid(min(first[0], last[0]), min(first[1], last[1]), *last, step, width)


def readable_side(box: tuple[float, float, float, float], readable: Callable[[Grid], bool]) -> float:
    """The smallest of some round sides in metres whose grid of the box passes a test.

    Args:
        box: south, west, north, east in degrees.
        readable: the test, of public figures alone.

    Raises:
        DataError: the box is empty or not on the earth, or no grid of two cells passes.
    """
    for metres in (round(start * 10.0**power) for power in range(1, 7) for start in (1, 1.5, 2, 3, 5, 7)):
        try:
            if readable(square_grid(box, metres=metres)):
                return float(metres)
        except DataError:  # of all boxes that are none, or of cells that are larger than the box
            if metres == LEAST_METRES:
                raise
            break
    what, expected = "no map can be read, not one of two cells", "people and epsilon enough for two cells"
    remedy = "give a side, such as --cell 1000, and read no single cell; or promise less"
    raise DataError(what, where="--cell auto", expected=expected, remedy=remedy)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Say in the words of `Whereabouts` what a reader says in its arguments."""
    try:
        yield
    except DataError as error:
        expected, remedy = error.expected, error.remedy
        for argument, option in _IN_WORDS.items():
            expected, remedy = expected.replace(argument, option), remedy.replace(argument, option)
        raise DataError(error.what, where=error.where, expected=expected, remedy=remedy) from None
