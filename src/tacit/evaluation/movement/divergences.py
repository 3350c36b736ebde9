"""How close simulated days are to real ones: divergences in nats, with floors, controls and intervals over people.

Three sets: `reference` (the papers' five figures, bin for bin), `sequence` (the order of a day; their mean is SEQ) and
`robust` (kilometres, squares, trips). They look at real days and their values are not differentially private: outside
`vault.nonprivate` they may only be used on simulated or public data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from tacit.data.mobility.days import Days
from tacit.errors import DataError
from tacit.evaluation.movement.measures import SETS, DaysView, Floats, MeasureCounts, count_measure

__all__ = ["CONTROL", "FLOOR", "MAX_READABLE_ERROR", "SEQ", "SETS", "SIMULATED", "DaysView", "DivergenceRow"]
__all__ += ["DivergenceTable", "IntervalEstimate", "MapAdvice", "MeasureSummary", "MetricSet", "Verdict", "Weigh"]
__all__ += ["compare_measures", "divergence_table", "divergences", "map_advice", "reference_divergences"]
__all__ += ["robust_divergences", "sequence_divergences"]

MetricSet = Literal["reference", "sequence", "robust"]
Weigh = Literal["days", "people"]
"""What of the real days counts alike: every day, or every person, however many days each has."""

SEQ = "SEQ"
FLOOR = "floor"


@dataclass(frozen=True)
class IntervalEstimate:
    """A divergence and its interval over the real people (both ends equal the value where none was asked for)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class DivergenceRow:
    """One table of days against the real one."""

    name: str  # of the row; `FLOOR` is real people against other real people
    values: Mapping[str, IntervalEstimate]  # by name of the measure, `SEQ` included with the sequence set


@dataclass(frozen=True)
class DivergenceTable:
    """Rows of measures."""

    metrics: MetricSet  # the set
    measures: tuple[str, ...]  # names of the columns
    rows: tuple[DivergenceRow, ...]  # the floor, where one was asked for, and then the rows in the order given
    confidence: float  # of the intervals

    def row(self, name: str) -> DivergenceRow:
        """The row of that name. Raises DataError where there is none."""
        for row in self.rows:
            if row.name == name:
                return row
        raise _data_error(f"no row {name!r}", ", ".join(row.name for row in self.rows), "ask for one of these")


def reference_divergences(real: Days | DaysView, synthetic: Days) -> dict[str, float]:
    """The papers' Radius, DailyLoc, Distance, G-rank and I-rank."""
    return divergences(real, synthetic, metrics="reference")


def sequence_divergences(real: Days | DaysView, synthetic: Days) -> dict[str, float]:
    """DailyLoc, StayLen, HomeArr, ActSlot, NMove, Bigram, Motif and their mean, SEQ."""
    return divergences(real, synthetic, metrics="sequence")


def robust_divergences(real: Days | DaysView, synthetic: Days) -> dict[str, float]:
    """Distance km, Radius km, Visits, Slot visits and OD."""
    return divergences(real, synthetic, metrics="robust")


def divergences(
    real: Days | DaysView, synthetic: Days, *, metrics: MetricSet, weigh: Weigh = "days"
) -> dict[str, float]:
    """Every measure of a set, by name, in nats; 0 is equality.

    Args:
        real: the days to compare with; as a `DaysView`, what is counted of them is counted once for many calls.
        synthetic: the others, on the same grid; the numbers of days may differ.
        metrics: the set.
        weigh: what of the real days counts alike. A release adds up over people, who weigh alike in it.

    Raises:
        DataError: a side holds no day, the grids differ, or there is no such set.
    """
    scored = divergence_table(real, {"synthetic": synthetic}, metrics=metrics, weigh=weigh).rows[0]
    return {name: value.value for name, value in scored.values.items()}


def divergence_table(
    real: Days | DaysView,
    rows: Mapping[str, Days],
    *,
    metrics: MetricSet,
    weigh: Weigh = "days",
    floors: int = 0,
    bootstrap: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
) -> DivergenceTable:
    """Measures of several tables of days against one real table.

    Args:
        real, metrics, weigh: as for `divergences`; also of floors and intervals.
        rows: tables of days on the same grid, by name.
        floors: how many random splits of the real people into disjoint halves the floor is the mean of; 0 is no floor.
            Halves hold half of the people, so that the floor is somewhat high.
        bootstrap: how often the real people, with all their days, are drawn again with replacement; 0 is no interval.
            The interval of a row is the spread of the redrawn figures around their own mean, put around the value:
            redrawing alone drives two tables apart, so that the plain quantiles would lie too high. That of the
            floor is the spread over the splits.
        confidence: of the intervals.
        seed: of the public splits and draws.

    Raises:
        DataError: as `divergences`, or a floor or an interval is asked of fewer than two people.
    """
    if metrics not in SETS:
        raise _data_error(f"no set of measures {metrics!r}", " or ".join(get_args(MetricSet)), "choose one of these")
    if weigh not in get_args(Weigh):
        raise _data_error(f"{weigh!r} do not count alike", " or ".join(get_args(Weigh)), "choose one of these")
    measures = SETS[metrics]
    real_view = real if isinstance(real, DaysView) else DaysView(real)
    if any(days.grid != real_view.days.grid for days in rows.values()):
        remedy = "put the days on the grid of the real ones first"
        raise _data_error("the tables of days lie on different grids", "one public grid for all", remedy)
    if not 0 < confidence < 1 or min(floors, bootstrap) < 0:
        what = f"confidence {confidence!r}, floors {floors!r}, bootstrap {bootstrap!r}"
        raise _data_error(what, "a confidence inside (0, 1) and numbers >= 0", "choose another value")
    people, owner = np.unique(real_view.days.person, return_inverse=True)
    owner = owner.reshape(-1).astype(np.int64)
    if (floors or bootstrap) and len(people) < 2:
        expected = "at least two for a floor or an interval"
        raise _data_error("fewer than two people", expected, "leave out floors and bootstrap")
    views = [real_view, *(DaysView(days) for days in rows.values())]
    each = len(owner) / len(people) / np.bincount(owner) if weigh == "people" else np.ones(len(people))
    owned = owner if floors or bootstrap or weigh == "people" else None
    counts = [count_measure(measure, views, owned) for measure in measures]
    real_view.forget()
    rng = np.random.default_rng(seed)
    names = tuple(measure.name for measure in measures) + ((SEQ,) if metrics == "sequence" else ())
    entries: list[DivergenceRow] = []
    if floors:
        splits = np.stack([rng.permutation(len(people)) < len(people) // 2 for _ in range(floors)]).astype(np.float64)
        between = [
            [
                count.measure.divergence(count.reweight(half * each), count.reweight((1 - half) * each))
                for half in splits
            ]
            for count in counts
        ]
        drawn = _with_mean(np.array(between).T, metrics)
        entries.append(_row(FLOOR, names, drawn.mean(axis=0), drawn, confidence))
    values = _with_mean(
        np.stack([_divergences(count, None if owned is None else each) for count in counts], axis=1), metrics
    )
    weights = each * rng.multinomial(len(people), np.full(len(people), 1 / len(people)), size=bootstrap).astype(
        np.float64
    )
    samples = np.stack([[_divergences(count, weight) for count in counts] for weight in weights]) if bootstrap else None
    for i, name in enumerate(rows):
        drawn = values[None, i] if samples is None else _with_mean(samples[:, :, i], metrics)
        entries.append(_row(name, names, values[i], drawn, confidence))
    return DivergenceTable(metrics, names, tuple(entries), confidence)


def _divergences(count: MeasureCounts, weights: Floats | None) -> Floats:
    """Divergence of each further table from the first [rows], its people weighted [P]."""
    real = count.totals[0] if weights is None else count.reweight(weights)
    return np.array([count.measure.divergence(real, other) for other in count.totals[1:]])


def _with_mean(values: Floats, metrics: MetricSet) -> Floats:
    """Values [..., measures], with their mean as a last column in the sequence set."""
    return np.concatenate([values, values.mean(axis=-1, keepdims=True)], axis=-1) if metrics == "sequence" else values


def _row(name: str, names: tuple[str, ...], values: Floats, drawn: Floats, confidence: float) -> DivergenceRow:
    tails = np.quantile(drawn - drawn.mean(axis=0), [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    low, high = np.maximum(values + tails, 0.0)
    estimates = {n: IntervalEstimate(float(values[i]), float(low[i]), float(high[i])) for i, n in enumerate(names)}
    return DivergenceRow(name, estimates)


Verdict = Literal["as close as other people", "farther than other people", "no better than noise"]
SIMULATED, CONTROL = "simulated", "noise only"
MAX_READABLE_ERROR = 0.5
"""Largest relative error of a square that a reader can use."""


@dataclass(frozen=True)
class MeasureSummary:
    """One measure of a report."""

    measure: str  # its name
    value: IntervalEstimate  # of the simulated days, with its interval over the real people
    alike: float  # of the same days where every real person counts once, however many days each has
    floor: IntervalEstimate  # real people against other real people, with the spread over splits
    control: IntervalEstimate | None  # of days that are made without any record, or None
    # "no better than noise" where the value's upper end reaches the control's lower end; else whether its lower end
    # lies below the floor's upper end
    verdict: Verdict


BY_DAY = "The noise is not all: where people go by day is not learned. Generated people go where many live."
"""What no map of the noise says of simulators that explore by distance and homes."""


@dataclass(frozen=True)
class MapAdvice:
    """Whether a kind of map can be read, by a public rule."""

    map: str  # its name
    cells: int  # how many squares (or pairs of them) it has
    relative_error: float  # the noise of one cell as a multiple of what a mean cell holds
    usable: bool  # whether that is at most `MAX_READABLE_ERROR`
    most_cells: int  # of how many cells a map would be readable

    def to_sentence(self) -> str:
        """The advice as a sentence."""
        what = (
            f"{self.map} ({self.cells:,} cells): the noise is {self.relative_error:,.2g} times what a mean cell holds"
        )
        if self.usable:
            return f"{what}; it can be read by night."
        return f"{what}; do not read single cells. A map of at most {self.most_cells:,} cells can be read."


def compare_measures(
    real: Days,
    simulated: Days,
    *,
    metrics: MetricSet,
    control: Days | None = None,
    floors: int = 20,
    bootstrap: int = 200,
    seed: int = 0,
) -> tuple[MeasureSummary, ...]:
    """Every measure of a set beside its floor and its control.

    Args:
        real: real days, of at least two people. They are looked at without noise: a curator's report, not a release.
        simulated: the simulator's.
        metrics: the set.
        control: days of a simulator that knows the noise alone, or that are made without any record.
        floors, bootstrap, seed: as for `table`.

    Raises:
        DataError: as `table`; `floors` is 0.
    """
    if floors < 1:
        raise _data_error(f"floors is {floors}", "at least one split of the people", "leave it at 20")
    days = {SIMULATED: simulated} | ({} if control is None else {CONTROL: control})
    view = DaysView(real)
    comparison = divergence_table(view, days, metrics=metrics, floors=floors, bootstrap=bootstrap, seed=seed)
    alike = divergences(view, simulated, metrics=metrics, weigh="people")
    rows = {row.name: row.values for row in comparison.rows}
    return tuple(
        _compare_measure(name, rows[SIMULATED][name], alike[name], rows[FLOOR][name], rows.get(CONTROL, {}).get(name))
        for name in comparison.measures
    )


def map_advice(noise: float, squares: int) -> tuple[MapAdvice, ...]:
    """Which maps can be read, of visits by half-hour and of trips, from the known noise alone.

    A mean square holds 1 / squares of the people; a mean pair of squares 1 / squares^2 of the trips. Nothing that was
    released says more of a square than the noisy share of people who start there, whose noise has the standard
    deviation `noise`, and nothing says more of a pair. Raises DataError of a negative noise, or of no square.
    """
    if not (math.isfinite(noise) and noise >= 0 and squares >= 1):
        expected, remedy = "a finite noise >= 0 and at least one square", "take both from the plan and the public grid"
        raise _data_error(f"noise {noise!r}, squares {squares!r}", expected, remedy)
    most = int(min(MAX_READABLE_ERROR / noise, 1e12)) if noise > 0 else 10**12
    return tuple(
        MapAdvice(name, cells, noise * cells, noise * cells <= MAX_READABLE_ERROR, most)
        for name, cells in (("visits by half-hour", squares), ("origins and destinations", squares**2))
    )


def _compare_measure(
    measure: str, value: IntervalEstimate, alike: float, floor: IntervalEstimate, control: IntervalEstimate | None
) -> MeasureSummary:
    verdict: Verdict
    if control is not None and value.high >= control.low:
        verdict = "no better than noise"
    else:
        verdict = "as close as other people" if value.low <= floor.high else "farther than other people"
    return MeasureSummary(measure, value, alike, floor, control, verdict)


def _data_error(what: str, expected: str, remedy: str) -> DataError:
    return DataError(what, where="measures of movement", expected=expected, remedy=remedy)
