"""What a report says of simulated days: each measure beside its floor and its control, and which maps say nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tacit.data.days import Days
from tacit.errors import DataError
from tacit.evaluation.movement.divergences import FLOOR, Set, Value, table

Verdict = Literal["as close as other people", "farther than other people", "no better than noise"]
SIMULATED, CONTROL = "simulated", "noise only"
READABLE = 0.5
"""Largest relative error of a square that a reader can use."""


@dataclass(frozen=True)
class Line:
    """One measure of a report.

    Attributes:
        measure: its name.
        value: of the simulated days, with its interval over the real people.
        floor: real people against other real people, with the spread over splits.
        control: of days that are made without any record, or None.
        verdict: "no better than noise" where the value's upper end reaches the control's lower end; else whether its
            lower end lies below the floor's upper end.
    """

    measure: str
    value: Value
    floor: Value
    control: Value | None
    verdict: Verdict


@dataclass(frozen=True)
class MapAdvice:
    """Whether a kind of map can be read, by a public rule.

    Attributes:
        map: its name.
        cells: how many squares (or pairs of them) it has.
        relative_error: the noise of one cell as a multiple of what a mean cell holds.
        usable: whether that is at most `READABLE`.
        most_cells: of how many cells a map would be readable.
    """

    map: str
    cells: int
    relative_error: float
    usable: bool
    most_cells: int

    def words(self) -> str:
        """The advice as a sentence."""
        what = (
            f"{self.map} ({self.cells:,} cells): the noise is {self.relative_error:,.2g} times what a mean cell holds"
        )
        if self.usable:
            return f"{what}; it can be read."
        return f"{what}; do not read single cells. A map of at most {self.most_cells:,} cells can be read."


def lines(
    real: Days,
    simulated: Days,
    *,
    metrics: Set,
    control: Days | None = None,
    floors: int = 20,
    bootstrap: int = 200,
    seed: int = 0,
) -> tuple[Line, ...]:
    """Every measure of a set beside its floor and its control.

    Args:
        real: real days, of at least two people. They are looked at without noise: a curator's report, not a release.
        simulated: the simulator's.
        metrics: the set.
        control: days of a simulator that knows the noise alone, or `controls.uniform_days`.
        floors, bootstrap, seed: as for `mobility.table`.

    Raises:
        DataError: as `mobility.table`; `floors` is 0.
    """
    if floors < 1:
        raise DataError(
            f"floors is {floors}",
            where="mobility_report.lines",
            expected="at least one split of the people",
            remedy="leave it at 20",
        )
    days = {SIMULATED: simulated} | ({} if control is None else {CONTROL: control})
    found = table(real, days, metrics=metrics, floors=floors, bootstrap=bootstrap, seed=seed)
    rows = {row.name: row.values for row in found.rows}
    return tuple(
        _line(name, rows[SIMULATED][name], rows[FLOOR][name], rows.get(CONTROL, {}).get(name))
        for name in found.measures
    )


def map_advice(noise: float, squares: int) -> tuple[MapAdvice, ...]:
    """Which maps can be read, from the known noise alone.

    A mean square holds 1 / squares of the people; a mean pair of squares 1 / squares^2 of the trips. Nothing that was
    released says more of a square than the noisy share of people who start there, and nothing says more of a pair.

    Args:
        noise: standard deviation of the noise in the released share of one block of starts.
        squares: public number of squares of the map.

    Returns:
        Advice for maps of visits by half-hour and of trips.

    Raises:
        DataError: the noise is negative, or there is no square.
    """
    if not (math.isfinite(noise) and noise >= 0 and squares >= 1):
        raise DataError(
            f"noise {noise!r}, squares {squares!r}",
            where="map_advice",
            expected="a finite noise >= 0 and at least one square",
            remedy="take both from the plan and the public grid",
        )
    most = int(min(READABLE / noise, 1e12)) if noise > 0 else 10**12
    return tuple(
        MapAdvice(name, cells, noise * cells, noise * cells <= READABLE, most)
        for name, cells in (("visits by half-hour", squares), ("origins and destinations", squares**2))
    )


def _line(measure: str, value: Value, floor: Value, control: Value | None) -> Line:
    verdict: Verdict
    if control is not None and value.high >= control.low:
        verdict = "no better than noise"
    else:
        verdict = "as close as other people" if value.low <= floor.high else "farther than other people"
    return Line(measure, value, floor, control, verdict)
