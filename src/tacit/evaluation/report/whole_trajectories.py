"""What a report says of trajectories as wholes: some in pictures, and how long, good and lawful all of them are.

Drawn are synthetic trajectories, public or simulated ones: a picture of a real trajectory shows a person.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError
from tacit.evaluation.report import charts
from tacit.evaluation.report.blocks import Chart, Section, grid
from tacit.evaluation.report.charts import (
    WIDTH,
    Array,
    Axis,
    Kind,
    Plot,
    canvas,
    dots,
    fmt,
    markup,
    number,
    ruler,
    shorten,
    write,
)
from tacit.evaluation.report.evidence import Histogram, Score, distributions, histogram
from tacit.evaluation.sequences import Sequences, trajectory_statistics

if TYPE_CHECKING:
    from tacit.evaluation.sequences import SequenceDynamics
    from tacit.evaluation.trajscore import TrajScore

_LANE = 66.0
_STATES = 30.0
_TREATMENTS = 15.0
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class PlanePath:
    """One trajectory in the plane."""

    points: Array  # [n, 2] positions, n of at least 1
    # [s] numbers of the points at which a stitched fragment begins, 1 to n - 1
    stitches: NDArray[np.int64] = field(default_factory=lambda: _NONE)

    def __post_init__(self) -> None:
        if self.points.ndim != 2 or self.points.shape[1] != 2 or not len(self.points):
            raise _bad("the points of a path are no positions", "[n, 2] positions, at least one")
        _check(self.points, self.stitches)


@dataclass(frozen=True, eq=False)
class TimeLine:
    """What happened to one patient, visit by visit."""

    label: str  # whose line it is
    state: Array  # [n] one figure of the patient's state at each of n visits
    treatments: NDArray[np.int64]  # [n] numbers of the treatments that were given, 0 and above
    ended: bool  # whether the course came to its own end, rather than being cut off
    # [s] numbers of the visits at which a stitched fragment begins, 1 to n - 1
    stitches: NDArray[np.int64] = field(default_factory=lambda: _NONE)

    def __post_init__(self) -> None:
        if self.state.ndim != 1 or not len(self.state) or self.treatments.shape != self.state.shape:
            raise _bad("the visits of a time line do not fit", "one state and one treatment a visit, at least one")
        if not np.issubdtype(self.treatments.dtype, np.integer) or self.treatments.min() < 0:
            raise _bad("a treatment has no number", "whole numbers of 0 and above")
        _check(self.state, self.stitches)


@dataclass(frozen=True)
class Drawing:
    """A few trajectories of one table, in one picture: paths over a map, or time lines."""

    label: str
    kind: Kind
    trajectories: tuple[PlanePath, ...] | tuple[TimeLine, ...]


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
    state: Axis | None = None  # name and public range of the state in time lines; None if there are none
    visit: str = "step"  # what a step is called in time lines
    figures: tuple[Histogram, ...] = ()  # distributions over trajectories, such as of their lengths and returns
    # (table, its kind, [H] error of step t against a public simulator), in mean displacements of a step
    errors: tuple[tuple[str, Kind, Array], ...] = ()

    @property
    def compared(self) -> bool:
        """Whether something of reference trajectories is shown."""
        kinds = [drawing.kind for drawing in self.drawings] + [kind for _, kind, _ in self.errors]
        return "reference" in kinds or any(f.reference is not None or f.similarity is not None for f in self.figures)


def paths_of(sequences: Sequences, *, columns: tuple[int, int] = (0, 1)) -> tuple[PlanePath, ...]:
    """The paths of all trajectories (choose some by `Sequences.some`), in two columns of the observation [T, d]."""
    positions, lasts = (_entries(sequences, name, columns) for name in ("observations", "next_observations"))
    return tuple(
        PlanePath(np.concatenate([positions[first:stop], lasts[stop - 1 : stop]]), stitches)
        for first, stop, stitches in _episodes(sequences)
    )


def time_lines_of(sequences: Sequences, *, column: int, label: str) -> tuple[TimeLine, ...]:
    """Time lines of all trajectories in one column of the observation [T, d], with discrete actions as treatments."""
    # sequences: with `observations`, `actions` [T] and `terminations`
    states = _entries(sequences, "observations", (column,))[:, 0]
    treatments, ends = np.asarray(sequences.columns["actions"]), np.asarray(sequences.columns["terminations"])
    return tuple(
        TimeLine(f"{label} {index}", states[first:stop], treatments[first:stop], bool(ends[stop - 1]), stitches)
        for index, (first, stop, stitches) in enumerate(_episodes(sequences), start=1)
    )


def drawn_paths(sequences: Sequences, label: str, kind: Kind, *, shown: int = 6, seed: int = 0) -> Drawing:
    """The paths of some random trajectories in the first two columns of the observation; errors as of `paths_of`."""
    return Drawing(label, kind, paths_of(sequences.some(shown, seed)))


def drawn_lines(
    sequences: Sequences, label: str, kind: Kind, *, column: int, whose: str, shown: int = 5, seed: int = 0
) -> Drawing:
    """The time lines of some random trajectories in a column of the observation; errors as of `time_lines_of`."""
    return Drawing(label, kind, time_lines_of(sequences.some(shown, seed), column=column, label=whose))


def lengths_and_returns(
    synthetic: Sequences, reference: Sequences | None = None, *, longest: int, returns: tuple[float, float]
) -> tuple[Histogram, ...]:
    """How lengths and returns are distributed over trajectories.

    Args:
        synthetic: released trajectories.
        reference: simulated or public ones, or None.
        longest: public number of steps of the longest trajectory.
        returns: public range of the sum of rewards.
    """
    measured, other = trajectory_statistics(synthetic), None if reference is None else trajectory_statistics(reference)
    return tuple(
        histogram(name, unit, bounds, getattr(measured, field), None if other is None else getattr(other, field))
        for name, unit, field, bounds in (
            ("Length", "steps", "lengths", (0.0, float(longest))),
            ("Return", "sum of rewards", "returns", returns),
        )
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
            ("Step inside a fragment", "mean error", dynamics.elsewhere),
            ("Step at a stitch point", "mean error", dynamics.at_stitches),
            ("Gap at a stitch point", "between a fragment's last state and the next one's first", dynamics.gap),
        ):
            if np.isfinite(value):
                scores.append(Score(measure, f"{what}, {unit}", value, public=True))
    return tuple(scores)


def trajectories(shown: WholeTrajectories | None, reference: str) -> Section:
    """The section of whole trajectories.

    Args:
        shown: None leaves it out.
        reference: what reference rows are called.
    """
    shown = shown or WholeTrajectories()
    style = charts.styles(
        [(d.label, d.kind) for d in shown.drawings] + [(label, kind) for label, kind, _ in shown.errors]
    )
    drawn = [trajectory for drawing in shown.drawings for trajectory in drawing.trajectories]
    lead = "Some whole trajectories, drawn at random."
    if any(len(trajectory.stitches) for trajectory in drawn):
        lead += " They are stitched from fragments: a ring, or a dashed bar, marks each stitch point."
    if any(isinstance(trajectory, TimeLine) for trajectory in drawn):
        lead += (
            " Below a line, one mark a step shows the action; a square behind it says that the episode ended by itself."
        )
    pictures = [_picture(shown, drawing, style[drawing.label]) for drawing in shown.drawings if drawing.trajectories]
    figures, legend = distributions(shown.figures, reference, "trajectories")
    measured = grid([*figures, *_errors(shown, style)], legend=legend if figures else ())
    return Section("Trajectory by trajectory", (*grid(pictures), *measured), lead, "whole_trajectories")


def _picture(shown: WholeTrajectories, drawing: Drawing, style: str) -> Chart:
    count = len(drawing.trajectories)
    paths = [path for path in drawing.trajectories if isinstance(path, PlanePath)]
    if paths:
        assert shown.plane is not None, "paths are drawn over a plane"
        chart = path_chart(paths, style, title=f"{drawing.label}: paths in the plane", plane=shown.plane)
    else:
        assert shown.state is not None, "time lines have a state"
        lines = [line for line in drawing.trajectories if isinstance(line, TimeLine)]
        title = f"{drawing.label}: time lines"
        chart = time_line_chart(lines, style, title=title, x_label=shown.visit, y=shown.state)
    return Chart(drawing.label, f"{count} trajectories" if count > 1 else "one trajectory", chart)


def _errors(shown: WholeTrajectories, style: dict[str, str]) -> list[Chart]:
    curves = [(style[label], np.flatnonzero(np.isfinite(along)), along) for label, _, along in shown.errors]
    lines = [charts.Line(name, (at + 1).astype(np.float64), along[at]) for name, at, along in curves if len(at) > 1]
    if not lines:
        return []
    summary = "; ".join(f"{label} {number(float(np.nanmean(along)))}" for label, _, along in shown.errors)
    drawn = charts.lines(
        lines,
        title=f"Mean error of each step against the simulator, over all steps: {summary}",
        x=charts.span("step of a trajectory", *(line.x for line in lines)),
        y=charts.span("error, mean displacements of a step", np.zeros(1), *(line.y for line in lines)),
    )
    note = "against the public simulator; 1 is as bad as standing still"
    return [Chart("Error along a trajectory", note, drawn, [(label, style[label]) for label, _, _ in shown.errors])]


def wall_boxes(cells: Sequence[str], origin: float) -> Array:
    """[W, 4] low and high corner (x, y, x, y) of each wall ('#') of a plane whose cell 0 covers [-origin, 1 -
    origin]."""
    # x grows with the row and y with the column.
    places = [(i, j) for i, row in enumerate(cells) for j, cell in enumerate(row) if cell == "#"]
    low = np.array(places, np.float64).reshape(-1, 2) - origin
    return np.concatenate([low, low + 1.0], axis=1)


def plane_of_cells(cells: Sequence[str], origin: float, goal: Sequence[float] | Array | None) -> Plane:
    """A whole plane, with its walls and its goal; arguments as of `wall_boxes`."""
    frame = (-origin, -origin, len(cells) - origin, len(cells[0]) - origin)
    return Plane(frame, wall_boxes(cells, origin), None if goal is None else np.array(goal, np.float64))


def path_chart(paths: Sequence[PlanePath], style: str, *, title: str, plane: Plane) -> str:
    """Trajectories over a map: a dot where each begins, a ring at each stitch point, and the step into a stitch
    dashed."""
    stitches = sum(len(path.stitches) for path in paths)
    svg, plot = _on_plane(f"{title} (trajectories: {len(paths)}, stitch points: {stitches})", plane)
    thin = {"class": f"path {style}", "fill": "none", "stroke": "var(--c)", "stroke-linejoin": "round"}
    for path in paths:
        parts = np.split(path.points, path.stitches)
        lines = "".join(plot.path(part[:, 0], part[:, 1]) for part in parts)
        SubElement(svg, "path", {**thin, "stroke-width": "1.6", "stroke-opacity": "0.75", "d": lines})
        leaps = "".join(plot.path(*path.points[stitch - 1 : stitch + 1].T) for stitch in path.stitches.tolist())
        if leaps:
            SubElement(svg, "path", {**thin, "stroke-width": "1.6", "stroke-dasharray": "2 3", "d": leaps})
    for path in paths:
        _circles(svg, plot, path.points[:1], {"class": f"point {style}", "r": "3.6"})
        ring = {
            "class": "path-stitch",
            "r": "3.2",
            "fill": "var(--track)",
            "stroke": "var(--ink)",
            "stroke-width": "1.3",
        }
        _circles(svg, plot, path.points[path.stitches], ring)
    _goal(svg, plot, plane)
    return markup(svg)


def map_chart(points: Array, style: str, *, title: str, plane: Plane) -> str:
    """A dot at each of the positions [N, 2], over a map."""
    svg, plot = _on_plane(title, plane)
    dots(svg, plot, points, style)
    _goal(svg, plot, plane)
    return markup(svg)


def _on_plane(title: str, plane: Plane) -> tuple[Element, Plot]:
    """A map with its walls, and where positions lie on it."""
    x_low, y_low, x_high, y_high = plane.frame
    height = WIDTH * (y_high - y_low) / (x_high - x_low)
    svg = canvas(title, height, floor=True)
    plot = Plot(Axis("", x_low, x_high), Axis("", y_low, y_high), 0.0, 0.0, WIDTH, height)
    walls = (plot.path(box[[0, 2, 2, 0]], box[[1, 1, 3, 3]]) + "Z" for box in plane.walls)
    SubElement(svg, "path", {"class": "wall", "d": "".join(walls)})
    return svg, plot


def _goal(svg: Element, plot: Plot, plane: Plane) -> None:
    if plane.goal is not None:
        _circles(svg, plot, plane.goal[None], {"class": "goal", "r": "7"})


def time_line_chart(lines: Sequence[TimeLine], style: str, *, title: str, x_label: str, y: Axis) -> str:
    """One lane a patient: the state as a curve, the treatment under each visit, a dashed bar before each stitch
    point."""
    # A filled square after the last visit says that the course ended, an open end that it was cut off.
    visits = max(len(line.state) for line in lines)
    top, left = 22.0, 10.0 + 6.4 * max(len(number(end)) for end in (y.low, y.high))
    bottom = top + _LANE * len(lines)
    stitches = sum(len(line.stitches) for line in lines)
    svg = canvas(f"{title} (patients: {len(lines)}, stitch points: {stitches})", bottom + 38.0)
    write(svg, 0.0, 12.0, shorten(y.label, 42), kind="axis-label")
    x = Axis(x_label, 0.5, visits + 0.7, whole=True)
    for index, line in enumerate(lines):
        _lane(svg, Plot(x, y, left, top + _LANE * index + 16.0, WIDTH - left - 14.0, _STATES), line, style)
    ruler(svg, Plot(x, y, left, top, WIDTH - left - 14.0, bottom - top))
    return markup(svg)


def _lane(svg: Element, plot: Plot, line: TimeLine, style: str) -> None:
    write(svg, plot.left, plot.top - 4.0, shorten(line.label, 40), kind="row-label")
    for end in (plot.y.low, plot.y.high):
        at = plot.y_of(end)
        SubElement(svg, "path", {"class": "grid", "d": f"M{fmt(plot.left)} {fmt(at)}h{fmt(plot.width)}"})
        write(svg, plot.left - 5.0, at + 4.0, number(end), anchor="end")
    times = np.arange(1.0, len(line.state) + 1.0)
    curve = {"class": f"path {style}", "fill": "none", "stroke": "var(--c)", "stroke-width": "1.8"}
    for part, steps in zip(np.split(line.state, line.stitches), np.split(times, line.stitches), strict=True):
        SubElement(svg, "path", {**curve, "d": plot.path(steps, part)})
        if len(part) == 1:
            _circles(svg, plot, np.array([[steps[0], part[0]]]), {"class": f"point {style}", "r": "1.6"})
    floor = plot.top + plot.height
    for treatment in np.unique(line.treatments).tolist():
        kind, form = charts.vote_mark(treatment)
        marks = (f"M{fmt(plot.x_of(at))} {fmt(floor + 8.0)}{form}" for at in times[line.treatments == treatment])
        SubElement(svg, "path", {"class": kind, "d": "".join(marks)})
    for stitch in line.stitches.tolist():
        at, bar = plot.x_of(stitch + 0.5), {"class": "path-stitch", "stroke": "var(--ink)", "stroke-dasharray": "3 2"}
        SubElement(svg, "path", {**bar, "d": f"M{fmt(at)} {fmt(plot.top - 2.0)}V{fmt(floor + _TREATMENTS - 2.0)}"})
    if line.ended:
        right, up = plot.x_of(len(line.state) + 0.5), plot.y_of(float(line.state[-1]))
        SubElement(svg, "path", {"class": f"point {style}", "d": f"M{fmt(right - 3)} {fmt(up - 3)}h6v6h-6Z"})


def _circles(svg: Element, plot: Plot, points: Array, attributes: dict[str, str]) -> None:
    for x, y in points.tolist():
        SubElement(svg, "circle", {**attributes, "cx": fmt(plot.x_of(x)), "cy": fmt(plot.y_of(y))})


def _entries(sequences: Sequences, name: str, entries: tuple[int, ...]) -> Array:
    """[T, len(entries)] of the columns [T, d]."""
    values = np.asarray(sequences.columns[name], np.float64)
    if values.ndim != 2 or not set(entries) <= set(range(values.shape[1])):
        raise _bad("the observations have no such columns", "[T, d] observations, and columns below d")
    return values[:, list(entries)]


def _episodes(sequences: Sequences) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
    """First and last row, one beyond it, and the stitches of each trajectory."""
    stitches = sequences.stitches
    for first, stop in itertools.pairwise(sequences.episodes.tolist()):
        yield first, stop, stitches[(stitches > first) & (stitches < stop)] - first


def _check(values: Array, stitches: NDArray[np.int64]) -> None:
    if not np.isfinite(values).all():
        raise _bad("a value of a trajectory is not finite", "finite values")
    if stitches.ndim != 1 or not ((stitches > 0) & (stitches < len(values))).all() or (np.diff(stitches) <= 0).any():
        raise _bad("a stitch is not one of the points after the first", "rising numbers from 1 to n - 1")


def _bad(what: str, expected: str) -> DataError:
    return DataError(what, where="report.whole_trajectories", expected=expected, remedy="pass a sampled trajectory")
