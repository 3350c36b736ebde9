"""A synthetic city: people with homes, work, schedules and favourite places, whose truth is known.

The geography is public: population centres on a square grid of 500 m. Everybody has a home (by density), most have
work (by gravity from the home: attraction times exp(-distance / 7 km)), favourite places (near home or work by the rank
law P(k) ~ k^-.9, visited ~ k^-1.2) and a schedule of one of four kinds: worker, student, at home, shift. Between
commitments people go out by the time of day, to a new place with probability rho S^-gamma (S the number of their
favourites: exploration and preferential return in its steady state), back to the last place, or to a favourite; from
there on to another place, or back. A recorded cell flickers to a neighbour at times, as positions do, and a long trip
takes a slot on the way.

People are independent given the geography, and their days given the people; a run loops over the 48 slots alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.grids import RegularGrid, haversine_km
from tacit.errors import DataError

# The public ground of the synthetic city: where people live, what attracts them, and which cells are near which.


GRID = RegularGrid.of_metres((39.765, 116.224, 40.035, 116.576), 500)
"""The public square of the default city, 30 km wide."""

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Geography:
    """Public: where people live and what attracts them."""

    grid: RegularGrid  # the grid
    density: FloatArray  # [cells] probability of a home
    attraction: FloatArray  # [cells] relative, mean 1

    def draw(self, n: int, rng: np.random.Generator) -> IntArray:
        """Homes [n], where a day in `movement_env.MovementEnv` begins."""
        return rng.choice(self.grid.size, size=n, p=self.density)

    def explore(self, cells: IntArray, rng: np.random.Generator) -> IntArray:
        """Cells [n] near those of n people that attract them (`draw_by_rank`), where exploring leads there."""
        return draw_by_rank(cells, self, rng)


def geography(grid: RegularGrid = GRID, *, layout: int = 0) -> Geography:
    """Twelve population centres with Zipf weights on a thin background; the same `layout` gives the same city."""
    rng = np.random.default_rng([layout, 7])
    points = grid.centres(np.arange(grid.size))
    low, high = points.min(axis=0), points.max(axis=0)
    middles = (low + high) / 2 + (high - low) * np.clip(rng.normal(0, 0.2, (12, 2)), -0.45, 0.45)
    reach = rng.lognormal(np.log(1.5), 0.4, 12)
    weight = np.arange(1, 13) ** -1.0
    near = np.exp(-haversine_km(points[:, None], middles) / reach) * (weight / reach**2)
    density = near.sum(axis=1) * rng.lognormal(0, 0.5, grid.size)
    density = density / density.sum() * 0.95 + 0.05 / grid.size
    attraction = density**1.1 * rng.lognormal(0, 0.8, grid.size)
    return Geography(grid, density, attraction / attraction.mean())


def draw_workplaces(home: IntArray, land: Geography, rng: np.random.Generator) -> IntArray:
    """A cell for each home with probability ~ attraction exp(-distance / 7 km)."""
    homes, index = np.unique(home, return_inverse=True)
    points = land.grid.centres(np.arange(land.grid.size))
    cells = np.empty(len(home), dtype=np.int64)
    order, level = np.argsort(index, kind="stable"), rng.random(len(home))
    ends = np.cumsum(np.bincount(index, minlength=len(homes)))
    for i, cell in enumerate(homes):
        rows = order[ends[i - 1] if i else 0 : ends[i]]
        total = np.cumsum(land.attraction * np.exp(-haversine_km(points[cell], points) / 7.0))
        cells[rows] = np.searchsorted(total, level[rows] * total[-1], side="right")
    return np.minimum(cells, land.grid.size - 1)


def draw_by_rank(cells: IntArray, land: Geography, rng: np.random.Generator) -> IntArray:
    """Of two cells near each of `cells` by the rank law, the one that attracts more, mostly."""
    first, second = _draw_nearby(cells, land.grid, rng), _draw_nearby(cells, land.grid, rng)
    a, b = land.attraction[first], land.attraction[second]
    return np.where(rng.random(len(cells)) * (a + b) < a, first, second)


def _draw_nearby(cells: IntArray, grid: RegularGrid, rng: np.random.Generator) -> IntArray:
    """The k-th nearest cell or so, P(k) ~ k^-.9 for k from 2 to 2,000, mirrored at the edges of the grid."""
    low, high = 2.0**0.1, 2_000.0**0.1
    k = (low + (high - low) * rng.random(len(cells))) ** 10
    radius, turn = np.sqrt(k / np.pi), rng.random(len(cells)) * 2 * np.pi
    row, column = np.divmod(cells, grid.columns)
    up = _reflect(row + np.rint(radius * np.sin(turn)).astype(np.int64), grid.rows)
    east = _reflect(column + np.rint(radius * np.cos(turn)).astype(np.int64), grid.columns)
    nearby: IntArray = up * grid.columns + east
    return nearby


def _reflect(index: IntArray, size: int) -> IntArray:
    folded = np.abs(index) % max(2 * size - 2, 1)
    return np.minimum(folded, max(2 * size - 2, 1) - folded) if size > 1 else np.zeros_like(index)


def draw_neighbours(cells: IntArray, grid: RegularGrid, rng: np.random.Generator) -> IntArray:
    """One of three neighbours that a cell always has, mostly the first."""
    which = np.searchsorted([0.8, 0.95], rng.random(len(cells)))
    turn = (cells * 2_654_435_761 + which * 3) % 8
    row, column = np.divmod(cells, grid.columns)
    up = _reflect(row + np.array([1, 1, 0, -1, -1, -1, 0, 1])[turn], grid.rows)
    east = _reflect(column + np.array([0, 1, 1, 1, 0, -1, -1, -1])[turn], grid.columns)
    neighbours: IntArray = up * grid.columns + east
    return neighbours


def grid_distance(a: IntArray, b: IntArray, grid: RegularGrid) -> IntArray:
    """Rows or columns between cells, whichever are more."""
    steps: IntArray = np.maximum(
        np.abs(a // grid.columns - b // grid.columns), np.abs(a % grid.columns - b % grid.columns)
    )
    return steps


def draw_waypoints(a: IntArray, b: IntArray, grid: RegularGrid, rng: np.random.Generator) -> IntArray:
    """A cell on the way from a to b."""
    part = 0.25 + 0.5 * rng.random(len(a))
    row = np.rint(a // grid.columns * (1 - part) + b // grid.columns * part).astype(np.int64)
    column = np.rint(a % grid.columns * (1 - part) + b % grid.columns * part).astype(np.int64)
    cells: IntArray = row * grid.columns + column
    return cells


ARCHETYPES = ("worker", "student", "home", "shift")
SHARES = (0.55, 0.13, 0.20, 0.12)
"""Shares of the archetypes."""

CHUNK = 4_000  # people who are played at once; part of what a seed means
_FAVOURITES = 24
_HOME, _WORK, _OTHER, _WAY = range(4)

Preset = Literal["geolife", "telecom"]


@dataclass(frozen=True)
class _Rates:
    # trips from home (a factor), trips from work a slot, chance of one more place, mean flicker, chance that a trip of
    # 2 km or more takes a slot on the way; then the spreads, as standard deviations: of the log activity of people and
    # of days, and of the log odds of people's flicker

    trips: float
    breaks: float
    more: float
    flicker: float
    way: float
    people: float
    days: float
    odds: float


_RATES = {
    "geolife": _Rates(trips=0.95, breaks=0.05, more=0.42, flicker=0.26, way=0.40, people=0.8, days=0.7, odds=1.1),
    "telecom": _Rates(trips=0.65, breaks=0.02, more=0.30, flicker=0.015, way=0.10, people=0.5, days=0.4, odds=0.7),
}
_OUT = np.interp(np.arange(SLOTS), [0, 11, 14, 17, 24, 34, 38, 42, 47], [0, 0, 0.04, 0.09, 0.08, 0.10, 0.12, 0.05, 0])
_OUT_FREE = np.interp(np.arange(SLOTS), [0, 14, 19, 28, 36, 42, 47], [0.005, 0, 0.09, 0.11, 0.11, 0.06, 0.01])


@dataclass(frozen=True, eq=False)
class City:
    """Days of simulated people and the truth about them."""

    days: Days  # their days, person-major; codes 0 .. people - 1.
    geography: Geography  # public
    home: IntArray  # [people] cells
    work: IntArray  # [people] cells, -1 for people without
    archetype: IntArray  # [people] index into `ARCHETYPES`
    activity: FloatArray  # [people] factor of the rate of trips
    rho: FloatArray  # rho, gamma: [people] of the probability rho S^-gamma that a place is new
    gamma: FloatArray
    flicker: FloatArray  # [people] probability that a slot shows a neighbour cell
    favourites: IntArray  # [people] number of favourite places S
    outlier: npt.NDArray[np.bool_]  # [people] bool


def city(
    people: int,
    days: int = 20,
    seed: int = 0,
    *,
    preset: Preset = "telecom",
    heterogeneity: float = 1.0,
    outliers: int = 0,
    grid: RegularGrid = GRID,
    layout: int = 0,
) -> City:
    """The city with `days` days of each of `people` people.

    Args:
        people: number of people, 1 or more.
        days: days of each; five of seven are working days.
        seed: of the people and their days; the same arguments give the same city.
        preset: `telecom` (most slots are stays, about .89) or `geolife` (stays .54 and 7.6 different cells a day, the
            aggregates of its 83 people).
        heterogeneity: how much people's parameters differ, as a factor of the preset's spreads; 0 for not at all.
        outliers: so many of the people, the last ones, cross remote cells in every slot of every day: canaries.
        grid: the public grid.
        layout: which geography.

    Raises:
        DataError: a number is out of range or the preset is unknown.
    """
    if min(people, days) < 1 or not 0 <= outliers <= people or min(seed, layout) < 0 or not 0 <= heterogeneity <= 3:
        raise _invalid("a number is out of range")
    if preset not in get_args(Preset):
        raise _invalid("the preset is unknown")
    land = geography(grid, layout=layout)
    truth = _draw_people(people, land, _RATES[preset], heterogeneity, np.random.default_rng([seed, 0]))
    cells = np.empty((people * days, SLOTS), dtype=np.int64)
    for k, first in enumerate(range(0, people, CHUNK)):
        residents = slice(first, min(first + CHUNK, people))
        rows = slice(residents.start * days, residents.stop * days)
        part = {name: values[residents] for name, values in truth.items()}
        cells[rows] = _simulate(part, days, land, _RATES[preset], np.random.default_rng([seed, 1, k]))
    outlier = np.arange(people) >= people - outliers
    if outliers:
        at = np.flatnonzero(np.repeat(outlier, days))
        cells[at] = _draw_remote_days(outliers, days, land, np.random.default_rng([seed, 2]))
    columns = {name: values for name, values in truth.items() if name != "places"}
    return City(Days(cells, np.repeat(np.arange(people), days), grid), land, outlier=outlier, **columns)


def _draw_remote_days(people: int, days: int, land: Geography, rng: np.random.Generator) -> IntArray:
    """Days [people * days, 48] among 16 of the cells of lowest density, another one in every slot."""
    remote = np.argsort(land.density, kind="stable")[: max(land.grid.size // 20, 16)]
    number = min(16, len(remote))
    places = remote[rng.random((people, len(remote))).argsort(axis=1)[:, :number]].repeat(days, axis=0)
    steps = rng.integers(1, number, (people * days, SLOTS)) if number > 1 else np.zeros((len(places), SLOTS), np.int64)
    return np.take_along_axis(places, np.cumsum(steps, axis=1) % number, axis=1)


def _draw_people(n: int, land: Geography, rates: _Rates, spread: float, rng: np.random.Generator) -> dict[str, Any]:
    grid = land.grid
    home = rng.choice(grid.size, n, p=land.density)
    archetype = rng.choice(len(ARCHETYPES), n, p=SHARES)
    work = np.where(archetype == 2, -1, draw_workplaces(home, land, rng))
    favourites = np.clip(np.round(rng.lognormal(np.log(9), 0.35 * spread, n)), 3, _FAVOURITES).astype(np.int64)
    anchor = np.where((rng.random((n, _FAVOURITES)) < 0.3) & (work >= 0)[:, None], work[:, None], home[:, None])
    places = draw_by_rank(anchor.ravel(), land, rng).reshape(n, _FAVOURITES)
    odds = np.log(rates.flicker / (1 - rates.flicker)) + rates.odds * spread * rng.normal(size=n)
    activity = rates.people * spread
    return {
        "home": home,
        "work": work,
        "archetype": archetype,
        "activity": np.exp(activity * rng.normal(size=n) - activity**2 / 2),
        "rho": np.clip(0.6 + 0.12 * spread * rng.normal(size=n), 0.1, 0.95),
        "gamma": np.clip(0.21 + 0.05 * spread * rng.normal(size=n), 0.0, 0.6),
        "flicker": 1 / (1 + np.exp(-odds)),
        "favourites": favourites,
        "places": places,
    }


def _simulate(traits: dict[str, Any], days: int, land: Geography, rates: _Rates, rng: np.random.Generator) -> IntArray:
    """Cells [people * days, 48]."""
    people = len(traits["home"])
    rows = people * days
    person = np.repeat(np.arange(people), days)
    first_day = rng.integers(0, 7, people)
    free = ((np.tile(np.arange(days), people) + first_day[person]) % 7 >= 5) | (traits["work"][person] < 0)
    begin, end = _draw_hours(traits["archetype"][person], free, rng)
    home, work = traits["home"][person], traits["work"][person]
    explore_chance = traits["rho"][person] * traits["favourites"][person].astype(float) ** -traits["gamma"][person]
    flicker = traits["flicker"][person]
    activity = traits["activity"][person] * np.exp(rates.days * rng.normal(size=rows) - rates.days**2 / 2)
    overnight = rng.random(rows) < 0.03
    night = (begin <= 0) & (end > 0)
    kind = np.where(night, _WORK, np.where(overnight, _OTHER, _HOME))
    place = np.where(night, work, np.where(overnight, traits["places"][person, 0], home))
    before, target, target_kind = home.copy(), place.copy(), kind.copy()
    leave = np.full(rows, 0.3)
    cells = np.empty((rows, SLOTS), dtype=np.int64)
    for t in range(SLOTS):
        flickering = (rng.random(rows, dtype=np.float32) < flicker) & (kind != _WAY)
        cells[:, t] = place
        cells[flickering, t] = draw_neighbours(place[flickering], land.grid, rng)
        if t == SLOTS - 1:
            break
        goal, goal_kind = place.copy(), kind.copy()
        busy = (begin <= t + 1) & (t + 1 < end)
        chance, choice = rng.random(rows, dtype=np.float32), rng.random(rows, dtype=np.float32)
        leave_chance = np.minimum(np.where(free, _OUT_FREE[t], _OUT[t]) * rates.trips * activity, 0.9)
        to_work = busy & (
            ((kind == _HOME) & ((begin == t + 1) | (chance < 0.5))) | ((kind == _OTHER) & (chance < leave))
        )
        away = (kind == _HOME) & ~busy & (chance < leave_chance)
        lunch = rates.breaks * activity * (4.0 if 23 <= t <= 25 else 1.0)
        away |= (kind == _WORK) & np.where(busy, chance < lunch, (chance < 0.8) & (choice < 0.35))
        to_home = (kind == _WORK) & ~busy & (chance < 0.8) & (choice >= 0.35)
        done = (kind == _OTHER) & ~busy & ((chance < leave) | ((t >= 43) & (chance < 0.5)))
        more = rates.more if t < 43 else 0.1
        away |= done & (choice < more)
        to_home |= done & (choice >= more)
        goal[to_work], goal_kind[to_work] = work[to_work], _WORK
        goal[to_home], goal_kind[to_home] = home[to_home], _HOME
        at = np.flatnonzero(away)
        goal[at] = _draw_destinations(at, place, before, person, explore_chance, traits, land, rng)
        goal_kind[at] = _OTHER
        leave[at] = np.where(rng.random(len(at)) < 0.6, 0.55, 0.15)
        arrived = kind == _WAY
        goal[arrived], goal_kind[arrived] = target[arrived], target_kind[arrived]
        moved = np.flatnonzero((goal != place) & ~arrived)
        before[moved] = place[moved]
        on_the_way = moved[rng.random(len(moved)) < rates.way]
        on_the_way = on_the_way[grid_distance(place[on_the_way], goal[on_the_way], land.grid) >= 4]
        target[on_the_way], target_kind[on_the_way] = goal[on_the_way], goal_kind[on_the_way]
        goal[on_the_way] = draw_waypoints(place[on_the_way], goal[on_the_way], land.grid, rng)
        goal_kind[on_the_way] = _WAY
        place, kind = goal, goal_kind
    return cells


def _draw_hours(
    archetype: IntArray, free: npt.NDArray[np.bool_], rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """First slot of the day's commitment and the first one after it; none on free days."""
    rows = len(archetype)
    begin = np.choose(archetype, [17, 16, 0, 28]) + rng.normal(0, 1.5, rows)
    length = np.choose(archetype, [18, 14, 0, 16]) + rng.normal(0, 2, rows)
    nightly = (archetype == 3) & (rng.random(rows) < 0.3)
    begin = np.where(nightly, 0, begin)
    length = np.where(nightly, 13 + rng.normal(0, 1, rows), length)
    start = np.where(free, 99, np.rint(begin)).astype(np.int64)
    stop = np.where(free, 99, np.rint(begin + np.maximum(length, 2))).astype(np.int64)
    return start, stop


def _draw_destinations(
    at: IntArray,
    place: IntArray,
    before: IntArray,
    person: IntArray,
    explore_chance: FloatArray,
    traits: dict[str, Any],
    land: Geography,
    rng: np.random.Generator,
) -> IntArray:
    """The next place of the rows `at`: the last one, a new one, or a favourite ~ k^-1.2."""
    uniforms = rng.random((3, len(at)))
    weights = np.cumsum(np.arange(1.0, _FAVOURITES + 1) ** -1.2)
    limit = weights[traits["favourites"][person[at]] - 1]
    goal: IntArray = traits["places"][person[at], np.searchsorted(weights, uniforms[0] * limit, side="right")]
    fresh = uniforms[1] < explore_chance[at]
    goal[fresh] = draw_by_rank(place[at[fresh]], land, rng)
    back = uniforms[2] < 0.25
    goal[back] = before[at[back]]
    return goal


def _invalid(what: str) -> DataError:
    return DataError(
        what,
        where="city",
        expected="people and days >= 1, 0 <= outliers <= people, seed and layout >= 0, heterogeneity in [0, 3], and "
        f"a preset of {', '.join(get_args(Preset))}",
        remedy="correct the argument",
    )
