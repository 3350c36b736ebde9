"""`tacit imitate`, `generate` and `map` as frozen dataclasses: fields are options, docstrings are help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from tacit.units import Relation

Method = Literal["one-shot", "table", "epr", "markov", "timegeo", "pategail"]
"""`tacit.methods.mobility`, its `baselines` and its `pategail`."""
Critics = Literal["linear", "table", "samples", "gradient"]
"""Kinds of `pategail.Plan`."""
Noise = Literal["server", "shared", "device"]
"""Who adds the noise."""
Format = Literal["csv", "geojson", "geoparquet", "trips-json", "od", "visits", "minari"]
"""What `tacit generate` writes."""


@dataclass(frozen=True, kw_only=True)
class Imitate:
    """Learn a simulator of movement from people's whereabouts, with differential privacy for every person.

    Args:
        source: records of where people were: CSV files of points (.csv, .csv.gz; all rows of a person in one of them),
            a folder of GeoLife's PLT files, or an .npz file of days that are cut already. Without it, give --city.
        out: folder of the run; it will hold nothing private, unless diagnostics are asked for.
        epsilon: the promise to every person.
        delta: its slack; it must be below 1 / population.
        population: how many people there could be, as the public knows; never counted from the records. Of a city, the
            people in it.
        unit: what one protected person is called, in the singular ("subscriber").
        relation: what neighbouring data sets differ in: a person is present or absent, or exchanged for another.
        city: simulate so many people of an invented city instead of reading records.
        preset: how restless they are: telecom (most half-hours are stays) or geolife.
        box: public region, SOUTH WEST NORTH EAST in degrees, that is cut into cells.
        cell: side of a cell in metres.
        degrees: side of a cell in degrees, in place of --cell.
        grid: JSON file of a public grid (`to_json` of a RegularGrid or H3Grid), in place of --box and --cell.
        homes: public SOUTH WEST NORTH EAST that is declared to hold nearly all homes (one-shot).
        zone: time zone of the region ("Asia/Shanghai"), whose midnights cut the days.
        recorded: zone of recorded times that carry none, or "unix" for seconds since 1970.
        user: column of the people's ids (.npz: array).
        time: column of the times.
        lat: column of latitudes.
        lon: column of longitudes.
        pattern: strptime pattern of the times; by default ISO 8601.
        carry: half-hours for which the last place goes on where nothing is recorded.
        observed: half-hours with a record that a day needs.
        fewest: whole days that a person needs; others add nothing, and stay in the population.
        outside: what a point outside the region is: an error, or the day in which most of a half-hour is outside is
            dropped.
        untidy: what unsorted or repeated times of a person are: an error, or they are mended.
        simulated: declare that no record is a real person's.
        method: "one-shot" imitates one noisy release; to compare with: "table", "epr", "markov", "timegeo", and
            "pategail" (PateGAIL++, critics that never leave their people's devices).
        critics: what critics are asked (pategail); by default linear.
        rounds: how often (pategail); by default as the number of people suggests.
        noise: who adds it: the server, all devices together (shared), or each device for itself (device).
        floor: fewest answers of which a sum may be released (shared); by default nine in ten of the people.
        days: most days of one person that are read, the first ones. A city has so many of each.
        seed: of simulated people and of played days (never of the privacy noise, which is secret).
        ledger: file of the budget of these records; by default beside the source (SOURCE.ledger).
        budget_epsilon: their whole budget, when the ledger is new (by default: this release alone).
        budget_delta: likewise.
        nonprivate_diagnostics: also compare with the records WITHOUT privacy, for the curator, under OUT/private/.
        resume: go on with a run that was interrupted, after its release or (pategail) between its rounds; give the
            same options.
        dry_run: print the promise and stop: no file is opened and nothing is spent.
    """

    source: Positional[tuple[Path, ...]] = ()
    out: Path
    epsilon: float
    delta: float
    population: int | None = None
    unit: str = "person"
    relation: Relation = "add_or_remove"
    city: int | None = None
    preset: Literal["telecom", "geolife"] | None = None
    box: tuple[float, float, float, float] | None = None
    cell: float | None = None
    degrees: float | None = None
    grid: Path | None = None
    homes: tuple[float, float, float, float] | None = None
    zone: str | None = None
    recorded: str | None = None
    user: str | None = None
    time: str | None = None
    lat: str | None = None
    lon: str | None = None
    pattern: str | None = None
    carry: int | None = None
    observed: int | None = None
    fewest: int | None = None
    outside: Literal["error", "drop"] | None = None
    untidy: Literal["error", "mend"] | None = None
    simulated: bool = False
    method: Method = "one-shot"
    critics: Critics | None = None
    rounds: int | None = None
    noise: Noise = "server"
    floor: int | None = None
    days: int | None = None
    seed: int = 0
    ledger: Path | None = None
    budget_epsilon: float | None = None
    budget_delta: float | None = None
    nonprivate_diagnostics: bool = False
    resume: bool = False
    dry_run: bool = False

    @property
    def simulates(self) -> bool:
        """Whether the people are made up here."""
        return self.city is not None

    @property
    def data(self) -> Path:
        """Beside which the ledger lies."""
        return self.source[0] if self.source else self.out / "people"


@dataclass(frozen=True, kw_only=True)
class Generate:
    """Draw days from a released simulator of movement; this costs no privacy.

    Args:
        simulator: folder of the simulator (RUN/simulator).
        days: how many, of one invented person each.
        out: file to write; it must not exist. Of minari, the folder of the datasets.
        format: "csv" (where somebody is, half-hour by half-hour), "geojson", "geoparquet" and "trips-json" (trips),
            "od" and "visits" (tables of trips between cells, and of people in cells), "minari" (a dataset).
        date: on which the trips are put (YYYY-MM-DD); simulated days have a time of day and no date.
        factor: blocks of so many by so many cells (od, visits); of H3, so many resolutions up.
        by_slot: count trips of each half-hour apart (od).
        seed: of the drawing; the same seed draws the same days.
    """

    simulator: Positional[Path]
    days: int
    out: Path
    format: Format = "csv"
    date: str | None = None
    factor: int | None = None
    by_slot: bool = False
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Map:
    """Draw a map of simulated days: one HTML file that needs no network.

    Args:
        source: folder of a released simulator (RUN/simulator), or a .csv file that `tacit generate` wrote.
        out: file to write; it must not exist.
        beside: what is drawn beside it: another simulator, such a .csv file, or an .npz file of days that are public.
        published: declare that the days of the .npz file were published: they are real people's, and will be shown.
        grid: JSON file of the public grid of that .npz file; by default the simulator's.
        days: how many are drawn of a simulator.
        trips: of how many of them the trips are shown.
        title: of the page.
        seed: of the drawing.
    """

    source: Positional[Path]
    out: Path
    beside: Path | None = None
    published: bool = False
    grid: Path | None = None
    days: int = 2_000
    trips: int = 1_000
    title: str | None = None
    seed: int = 0
