"""What a report says of trajectories as wholes: some in pictures, and how long, good and lawful all of them are. Drawn
are synthetic trajectories, public or simulated ones: a picture of a real trajectory shows a person."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element, SubElement

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError
from tacit.evaluation.report import charts
from tacit.evaluation.report.blocks import Chart, Section, make_grid
from tacit.evaluation.report.charts import WIDTH, Array, ChartAxis, Kind, Plot, canvas, draw_text, fmt, markup, number
from tacit.evaluation.report.evidence import Histogram, Score, distribution_charts, histogram, whole_bins
from tacit.evaluation.sequences import Sequences

if TYPE_CHECKING:
    from tacit.evaluation.sequences import SequenceDynamics
    from tacit.evaluation.trajscore import TrajScore

_LANE = 66.0
_STATES = 30.0
_TREATMENTS = 15.0


@dataclass(frozen=True)
class Drawing:
    """A few trajectories of one table, in one picture: paths over a map, or time lines of patients."""

    label: str
    kind: Kind
    sequences: Sequences  # some of them (`Sequences.sample`), with `observations` and `next_observations` [T, d]
    # of the observation, in time lines with discrete `actions` as treatments; None is a path in the first two columns
    column: int | None = None
    whose: str = ""  # what a patient is called


@dataclass(frozen=True)
class Plane:
    """What paths are drawn over."""

    frame: tuple[float, float, float, float]  # low and high corner (x, y, x, y) of what is shown
    walls: Array  # [W, 4] low and high corner of each wall (`wall_boxes`)
    goal: Array | None = None  # [2], or None


@dataclass(frozen=True)
class WholeTrajectories:
    """Trajectories as wholes."""

    drawings: tuple[Drawing, ...] = ()  # pictures, each of paths or of time lines
    plane: Plane | None = None  # of the paths; None if there are none
    state: ChartAxis | None = None  # name and public range of the state in time lines; None if there are none
    figures: tuple[Histogram, ...] = ()  # distributions over trajectories, such as of their lengths and returns
    # (table, its kind, [H] error of step t against a public simulator), in mean displacements of a step
    errors: tuple[tuple[str, Kind, Array], ...] = ()

    @property
    def has_reference(self) -> bool:
        """Whether something of reference trajectories is shown."""
        kinds = [drawing.kind for drawing in self.drawings] + [kind for _, kind, _ in self.errors]
        return "reference" in kinds or any(f.reference is not None or f.similarity is not None for f in self.figures)


def trajectory_histograms(
    synthetic: Sequences, reference: Sequences | None = None, *, longest: int, returns: tuple[float, float]
) -> tuple[Histogram, ...]:
    """How lengths and returns are distributed over trajectories.

    Args:
        synthetic: released trajectories.
        reference: simulated or public ones, or None.
        longest: public number of steps of the longest trajectory.
        returns: public range of the sum of rewards.
    """
    tables = [table for table in (synthetic, reference) if table is not None]
    reach = min(longest, max(int(table.lengths.max()) for table in tables))
    room, bins = whole_bins(1.0, float(reach))
    lengths, totals = [table.lengths.astype(np.float64) for table in tables], [table.returns for table in tables]
    return (
        histogram("Length", "steps", room, *lengths, bins=bins),
        histogram("Return", "sum of rewards", returns, *totals),
    )


def trajectory_scores(dynamics: SequenceDynamics | None, closeness: TrajScore | None) -> tuple[Score, ...]:
    """Errors along trajectories and at stitch points, from a public simulator; TrajScore with ceiling and floor."""
    scores = []
    if closeness is not None:
        floor = (("Rows in any order", closeness.floor.f1),)
        meaning = "F1 of trajectories in each other's manifolds; higher is better"
        scores.append(Score("TrajScore", meaning, closeness.synthetic.f1, False, closeness.ceiling.f1, floor))
    if dynamics is not None:
        unit = "in mean displacements of a step; lower is better"
        for measure, what, value in (
            ("Step inside a fragment", "mean error", dynamics.inner_error),
            ("Step at a stitch point", "mean error", dynamics.stitch_error),
            ("Gap at a stitch point", "between a fragment's last state and the next one's first", dynamics.stitch_gap),
        ):
            if np.isfinite(value):
                scores.append(Score(measure, f"{what}, {unit}", value, public=True))
    return tuple(scores)


def trajectories_section(shown: WholeTrajectories | None, reference: str) -> Section:
    """The section of whole trajectories, or an empty one; `reference` is what reference rows are called."""
    shown = shown or WholeTrajectories()
    style = charts.styles(
        [(d.label, d.kind) for d in shown.drawings] + [(label, kind) for label, kind, _ in shown.errors]
    )
    lead = "Some whole trajectories, drawn at random."
    if any(len(drawing.sequences.stitches) for drawing in shown.drawings):
        lead += " They are stitched from fragments: a ring, or a dashed bar, marks each stitch point."
    if any(drawing.column is not None for drawing in shown.drawings):
        lead += (
            " Below a line, one mark a step shows the action; a square behind it says that the episode ended by itself."
        )
    pictures = []
    for drawing in shown.drawings:
        if drawing.column is None:
            assert shown.plane is not None, "paths are drawn over a plane"
            chart = path_chart(drawing, style[drawing.label], plane=shown.plane)
        else:
            assert shown.state is not None, "time lines have a state"
            chart = time_line_chart(drawing, style[drawing.label], x_label="step", y=shown.state)
        count = len(drawing.sequences)
        pictures.append(Chart(drawing.label, f"{count} trajectories" if count > 1 else "one trajectory", chart))
    figures, legend = distribution_charts(shown.figures, reference, "trajectories")
    measured = make_grid([*figures, *_error_charts(shown, style)], legend=legend if figures else ())
    return Section("Trajectory by trajectory", (*make_grid(pictures), *measured), lead, "whole_trajectories")


def _error_charts(shown: WholeTrajectories, style: dict[str, str]) -> list[Chart]:
    curves = [(style[label], np.flatnonzero(np.isfinite(along)), along) for label, _, along in shown.errors]
    lines = [charts.ChartLine(key, (at + 1).astype(np.float64), along[at]) for key, at, along in curves if len(at) > 1]
    if not lines:
        return []
    summary = "; ".join(f"{label} {number(float(np.nanmean(along)))}" for label, _, along in shown.errors)
    drawn = charts.line_chart(
        lines,
        title=f"Mean error of each step against the simulator, over all steps: {summary}",
        x=charts.span("step of a trajectory", *(line.x for line in lines)),
        y=charts.span("error, mean displacements of a step", np.zeros(1), *(line.y for line in lines)),
    )
    note = "against the public simulator; 1 is as bad as standing still"
    return [Chart("Error along a trajectory", note, drawn, [(label, style[label]) for label, _, _ in shown.errors])]


def wall_boxes(cells: Sequence[str], origin: float) -> Array:
    """[W, 4] corners (x, y, x, y) of each wall ('#') of a plane whose cell 0 covers [-origin, 1 - origin]."""
    # x grows with the row and y with the column.
    places = [(i, j) for i, row in enumerate(cells) for j, cell in enumerate(row) if cell == "#"]
    low = np.array(places, np.float64).reshape(-1, 2) - origin
    return np.concatenate([low, low + 1.0], axis=1)


def make_plane(cells: Sequence[str], origin: float, goal: Sequence[float] | Array | None) -> Plane:
    """A whole plane, with its walls and its goal; arguments as of `wall_boxes`."""
    frame = (-origin, -origin, len(cells) - origin, len(cells[0]) - origin)
    return Plane(frame, wall_boxes(cells, origin), None if goal is None else np.array(goal, np.float64))


def path_chart(drawing: Drawing, style: str, *, plane: Plane) -> str:
    """Trajectories over a map: a dot where each begins, a ring at each stitch point, and the step into a stitch
    dashed."""
    sequences = drawing.sequences
    counts = f"trajectories: {len(sequences)}, stitch points: {len(sequences.stitches)}"
    svg, plot = _empty_plane(f"{drawing.label}: paths in the plane ({counts})", plane)
    positions, lasts = (_entries(sequences, name, (0, 1)) for name in ("observations", "next_observations"))
    thin = {"class": f"path {style}", "fill": "none", "stroke": "var(--c)", "stroke-linejoin": "round"}
    marks = []
    for first, stop, stitches in _episodes(sequences):
        points = np.concatenate([positions[first:stop], lasts[stop - 1 : stop]])
        lines = "".join(plot.path(part[:, 0], part[:, 1]) for part in np.split(points, stitches))
        SubElement(svg, "path", {**thin, "stroke-width": "1.6", "stroke-opacity": "0.75", "d": lines})
        leaps = "".join(plot.path(*points[stitch - 1 : stitch + 1].T) for stitch in stitches.tolist())
        if leaps:
            SubElement(svg, "path", {**thin, "stroke-width": "1.6", "stroke-dasharray": "2 3", "d": leaps})
        marks.append((points[:1], points[stitches]))
    ring = {"class": "path-stitch", "r": "3.2", "fill": "var(--track)", "stroke": "var(--ink)", "stroke-width": "1.3"}
    for start, stitched in marks:
        _draw_circles(svg, plot, start, {"class": f"point {style}", "r": "3.6"})
        _draw_circles(svg, plot, stitched, ring)
    _draw_goal(svg, plot, plane)
    return markup(svg)


def map_chart(points: Array, style: str, *, title: str, plane: Plane) -> str:
    """A dot at each of the positions [N, 2], over a map."""
    svg, plot = _empty_plane(title, plane)
    charts.draw_dots(svg, plot, points, style)
    _draw_goal(svg, plot, plane)
    return markup(svg)


def _empty_plane(title: str, plane: Plane) -> tuple[Element, Plot]:
    x_low, y_low, x_high, y_high = plane.frame
    height = WIDTH * (y_high - y_low) / (x_high - x_low)
    svg = canvas(title, height, floor=True)
    plot = Plot(ChartAxis("", x_low, x_high), ChartAxis("", y_low, y_high), 0.0, 0.0, WIDTH, height)
    walls = (plot.path(box[[0, 2, 2, 0]], box[[1, 1, 3, 3]]) + "Z" for box in plane.walls)
    SubElement(svg, "path", {"class": "wall", "d": "".join(walls)})
    return svg, plot


def _draw_goal(svg: Element, plot: Plot, plane: Plane) -> None:
    if plane.goal is not None:
        _draw_circles(svg, plot, plane.goal[None], {"class": "goal", "r": "7"})


def time_line_chart(drawing: Drawing, style: str, *, x_label: str, y: ChartAxis) -> str:
    """A lane each: the state as a curve, the treatment under each visit, a dashed bar before each stitch point."""
    # A filled square after the last visit says that the course ended, an open end that it was cut off.
    sequences = drawing.sequences
    top, left = 22.0, 10.0 + 6.4 * max(len(number(end)) for end in (y.low, y.high))
    bottom = top + _LANE * len(sequences)
    counts = f"patients: {len(sequences)}, stitch points: {len(sequences.stitches)}"
    svg = canvas(f"{drawing.label}: time lines ({counts})", bottom + 38.0)
    draw_text(svg, 0.0, 12.0, charts.shorten(y.label, 42), kind="axis-label")
    x = ChartAxis(x_label, 0.5, float(sequences.lengths.max()) + 0.7, whole=True)
    assert drawing.column is not None
    states = _entries(sequences, "observations", (drawing.column,))[:, 0]
    treatments, terminated = (np.asarray(sequences.columns[name]) for name in ("actions", "terminations"))
    for index, (first, stop, stitches) in enumerate(_episodes(sequences)):
        plot = Plot(x, y, left, top + _LANE * index + 16.0, WIDTH - left - 14.0, _STATES)
        draw_text(svg, plot.left, plot.top - 4.0, charts.shorten(f"{drawing.whose} {index + 1}", 40), kind="row-label")
        _draw_lane(svg, plot, states[first:stop], treatments[first:stop], stitches, style)
        if terminated[stop - 1]:
            right, up = plot.x_position(stop - first + 0.5), plot.y_position(float(states[stop - 1]))
            SubElement(svg, "path", {"class": f"point {style}", "d": f"M{fmt(right - 3)} {fmt(up - 3)}h6v6h-6Z"})
    charts.draw_ruler(svg, Plot(x, y, left, top, WIDTH - left - 14.0, bottom - top))
    return markup(svg)


def _draw_lane(
    svg: Element, plot: Plot, states: Array, treatments: NDArray[Any], stitches: NDArray[np.int64], style: str
) -> None:
    for end in (plot.y.low, plot.y.high):
        at = plot.y_position(end)
        SubElement(svg, "path", {"class": "grid", "d": f"M{fmt(plot.left)} {fmt(at)}h{fmt(plot.width)}"})
        draw_text(svg, plot.left - 5.0, at + 4.0, number(end), anchor="end")
    times = np.arange(1.0, len(states) + 1.0)
    curve = {"class": f"path {style}", "fill": "none", "stroke": "var(--c)", "stroke-width": "1.8"}
    for part, steps in zip(np.split(states, stitches), np.split(times, stitches), strict=True):
        SubElement(svg, "path", {**curve, "d": plot.path(steps, part)})
        if len(part) == 1:
            _draw_circles(svg, plot, np.array([[steps[0], part[0]]]), {"class": f"point {style}", "r": "1.6"})
    floor = plot.top + plot.height
    for treatment in np.unique(treatments).tolist():
        kind, form = charts.vote_mark(treatment)
        marks = (f"M{fmt(plot.x_position(at))} {fmt(floor + 8.0)}{form}" for at in times[treatments == treatment])
        SubElement(svg, "path", {"class": kind, "d": "".join(marks)})
    for stitch in stitches.tolist():
        at = plot.x_position(stitch + 0.5)
        bar = {"class": "path-stitch", "stroke": "var(--ink)", "stroke-dasharray": "3 2"}
        SubElement(svg, "path", {**bar, "d": f"M{fmt(at)} {fmt(plot.top - 2.0)}V{fmt(floor + _TREATMENTS - 2.0)}"})


def _draw_circles(svg: Element, plot: Plot, points: Array, attributes: dict[str, str]) -> None:
    for x, y in points.tolist():
        SubElement(svg, "circle", {**attributes, "cx": fmt(plot.x_position(x)), "cy": fmt(plot.y_position(y))})


def _entries(sequences: Sequences, name: str, entries: tuple[int, ...]) -> Array:
    """[T, len(entries)] of the columns [T, d]."""
    values, remedy = np.asarray(sequences.columns[name], np.float64), "pass sampled trajectories"
    if values.ndim != 2 or not set(entries) <= set(range(values.shape[1])):
        what, expected = "the observations have no such columns", "[T, d] observations, and columns below d"
        raise DataError(what, where="report.whole_trajectories", expected=expected, remedy=remedy)
    if not np.isfinite(values[:, list(entries)]).all():
        what, expected = "a value of a trajectory is not finite", "finite values"
        raise DataError(what, where="report.whole_trajectories", expected=expected, remedy=remedy)
    return values[:, list(entries)]


def _episodes(sequences: Sequences) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    stitches = sequences.stitches
    for first, stop in itertools.pairwise(sequences.episodes.tolist()):
        yield first, stop, stitches[(stitches > first) & (stitches < stop)] - first
