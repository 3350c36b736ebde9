"""Small inline SVG charts: pure functions from numbers to markup, without scripts, fonts or requests.

Colours come from the page's style sheet through the classes `reference`, `synthetic` and `control-0` to `control-3`,
which differ in lightness and dash as well as in hue. Every chart has role="img" and a <title> that says in words what
it shows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import SubElement

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from tacit.evaluation.report.svg import WIDTH, Array, Axis, Plot, canvas, fmt, frame, markup, number, shorten, write

_LEVELS = 16
"""Shades of a surface."""
_STRENGTHS = 5
"""Shades of a vote."""
_MARKS = ("h0", "m-3 0h6m-3-3v6", "m-3 2.5h6l-3-5.2Z", "m-2.5-2.5h5v5h-5Z")
_MARK_STYLES = ("synthetic", "control-0", "control-2", "control-1")


_BARS = 8
"""Bars that a chart has room for at least, and up to which each has its number."""


@dataclass(frozen=True)
class Line:
    """One curve: x and y [N], and a band from low to high [N] if both are given; `style` names the colour."""

    style: str
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None


def line_chart(lines: Sequence[Line], *, title: str, x: Axis, y: Axis) -> Markup:
    """Curves with optional confidence bands over shared axes; drawn in order, the last on top."""
    svg, plot = frame(title, x, y, height=230.0)
    for line in lines:
        if line.low is not None and line.high is not None:
            outline = np.concatenate([line.x, line.x[::-1]]), np.concatenate([line.high, line.low[::-1]])
            SubElement(svg, "path", {"class": f"band {line.style}", "d": plot.path(*outline) + "Z"})
    for line in lines:
        SubElement(svg, "path", {"class": f"line {line.style}", "d": plot.path(line.x, line.y)})
    return markup(svg)


def bar_chart(values: Array, *, title: str, x_label: str, y: Axis, first: int = 0) -> Markup:
    """One bar from 0 for each of the values [n] of the numbers first .. first + n - 1; a few do not fill the chart."""
    count = len(values)
    room = max(0.0, (_BARS - count) / 2)
    marks = tuple(float(first + k) for k in range(count)) if count <= _BARS else ()
    x = Axis(x_label, first - 0.5 - room, first + count - 0.5 + room, whole=True, marks=marks)
    svg, plot = frame(title, x, y, height=230.0)
    width = 0.8 if count <= 100 else 1.0
    for index, value in enumerate(values.tolist(), start=first):
        ends = np.array([index - width / 2, index + width / 2])
        outline = plot.path(np.concatenate([ends, ends[::-1]]), np.array([0.0, 0.0, value, value]))
        SubElement(svg, "path", {"class": "bar synthetic", "d": outline + "Z"})
    return markup(svg)


def surface_chart(values: Array, *, title: str, x: Axis, y: Axis, scale: Axis) -> Markup:
    """A surface over a rectangle: one hue, stronger for larger values, with its scale above.

    Args:
        values: [rows, columns] over equal cells; row 0 lies at the lower end of y.
        x, y: the rectangle.
        scale: what the values are, and those of the weakest and the strongest hue.
    """
    svg, plot = frame(title, x, Axis(shorten(y.label, 20), y.low, y.high), height=330.0)
    rows, columns = values.shape
    levels = np.minimum((scale.fraction(values) * _LEVELS).astype(int), _LEVELS - 1)
    width, height = plot.width / columns, plot.height / rows
    blocks: list[list[str]] = [[] for _ in range(_LEVELS)]
    for row, line in enumerate(levels):
        starts = [0, *(np.flatnonzero(np.diff(line)) + 1).tolist(), columns]
        top = plot.top + plot.height - (row + 1) * height
        for start, stop in itertools.pairwise(starts):
            across = width * (stop - start)
            box = f"M{fmt(plot.left + width * start)} {fmt(top)}h{fmt(across)}v{fmt(height)}h{fmt(-across)}Z"
            blocks[line[start]].append(box)
    left, cell = WIDTH - 20.0 - 42.0 - 80.0, 80.0 / _LEVELS
    for level, boxes in enumerate(blocks):
        strength = {"class": "level", "fill-opacity": fmt(0.06 + 0.94 * level / (_LEVELS - 1))}
        key = f"M{fmt(left + cell * level)} 3h{fmt(cell)}v10h{fmt(-cell)}Z"
        SubElement(svg, "path", {**strength, "d": "".join(boxes) + key, "shape-rendering": "crispEdges"})
    write(svg, left - 6.0, 12.0, number(scale.low), anchor="end")
    write(svg, left + 86.0, 12.0, number(scale.high))
    return markup(svg)


def vote_mark(action: int) -> tuple[str, str]:
    """Class and form (a path relative to its place) of the mark of an action: both differ, so that colour may fail."""
    style = _MARK_STYLES[action % len(_MARK_STYLES)]
    return f"vote {style}", _MARKS[(action + action // len(_MARKS)) % len(_MARKS)]


def vote_chart(
    positions: Array, choice: NDArray[np.int64], share: Array, *, lowest: float, title: str, x: Axis, y: Axis
) -> Markup:
    """One mark for each of N states: its form and colour are the chosen action, its strength the share that chose it.

    Args:
        positions: [N, 2].
        choice: [N] actions, 0 and above.
        share: [N], from `lowest` (the weakest mark) to 1.
        lowest: the share of a blind choice.
        title, x, y: the text alternative, and the two dimensions.
    """
    svg, plot = frame(title, x, y, height=330.0)
    xs = plot.left + plot.width * x.fraction(positions[:, 0])
    ys = plot.top + plot.height * (1.0 - y.fraction(positions[:, 1]))
    strength = np.clip((share - lowest) / (1.0 - lowest), 0.0, 1.0)
    levels = np.minimum((strength * _STRENGTHS).astype(int), _STRENGTHS - 1)
    for level in range(_STRENGTHS):
        for action in np.unique(choice).tolist():
            style, form = vote_mark(action)
            here = (levels == level) & (choice == action)
            marks = "".join(f"M{fmt(a)} {fmt(b)}{form}" for a, b in zip(xs[here], ys[here], strict=True))
            if marks:
                opacity = fmt(0.14 + 0.76 * level / (_STRENGTHS - 1))
                SubElement(svg, "path", {"class": style, "stroke-opacity": opacity, "d": marks})
    return markup(svg)


def histogram_chart(
    edges: Array, reference: Array | None, synthetic: Array, *, title: str, x_label: str, y_label: str = "rows, %"
) -> Markup:
    """Histograms over shared bins: the reference as a filled shape, the synthetic as an outline above it.

    Args:
        edges: [B + 1] increasing.
        reference, synthetic: [B] shares per bin.
    """
    top = max(float(np.max(part)) for part in (reference, synthetic) if part is not None)
    x = Axis(x_label, float(edges[0]), float(edges[-1]))
    svg, plot = frame(title, x, Axis(y_label, 0.0, 105.0 * top if top > 0 else 1.0), height=190.0)
    steps_x = np.repeat(edges, 2)
    filled = (synthetic, "band synthetic") if reference is None else (reference, "area reference")
    for shares, kind in (filled, (synthetic, "line synthetic")):
        steps_y = 100.0 * np.concatenate([[0.0], np.repeat(shares, 2), [0.0]])
        SubElement(svg, "path", {"class": kind, "d": plot.path(steps_x, steps_y)})
    return markup(svg)


def heat_map(matrix: Array, labels: Sequence[str], *, title: str) -> Markup:
    """A square matrix of values in [-1, 1]: one hue a sign, opacity for the size."""
    labels = [shorten(label, 20, ending=6) for label in labels]
    count, reach = len(labels), 6.2 * max((len(label) for label in labels), default=0)
    left, top, foot = 16.0 + reach, 10.0, 14.0 + reach
    side = (WIDTH - left - 2.0) / max(count, 1)
    svg = canvas(title, top + side * count + foot)
    for i, row in enumerate(matrix):
        y = top + side * i
        write(svg, left - 6, y + side / 2 + 4, labels[i], anchor="end")
        x = left + side * (i + 0.5)
        place = f"rotate(-90 {fmt(x + 4)} {fmt(top + side * count + 8)})"
        write(svg, x + 4, top + side * count + 8, labels[i], anchor="end", transform=place)
        for j, value in enumerate(row):
            box = {
                "x": fmt(left + side * j),
                "y": fmt(y),
                "width": fmt(0.95 * side),
                "height": fmt(0.95 * side),
                "rx": "2",
            }
            SubElement(svg, "rect", {"class": "cell-empty", **box})
            if abs(value) >= 0.005:
                sign = "cell-positive" if value > 0 else "cell-negative"
                SubElement(svg, "rect", {"class": sign, "fill-opacity": fmt(min(1.0, abs(float(value)))), **box})
    return markup(svg)


def map_chart(
    points: Array, style: str, *, title: str, cells: Sequence[str], origin: float, goal: Array | None
) -> Markup:
    """Positions over a maze: x grows to the right with the row of `cells`, y upwards with the column.

    Args:
        points: [N, 2] positions in cells; cell 0 covers [-origin, 1 - origin].
        cells: rows of the maze, '#' for a wall.
        goal: [2] position, or None.
    """
    across, up = len(cells), len(cells[0])
    unit = WIDTH / across
    height = unit * up
    svg = canvas(title, height)
    SubElement(svg, "rect", {"class": "floor", "width": fmt(WIDTH), "height": fmt(height), "rx": "6"})
    blocks = "".join(
        f"M{fmt(unit * i)} {fmt(height - unit * (j + 1))}h{fmt(unit)}v{fmt(unit)}h{fmt(-unit)}Z"
        for i, row in enumerate(cells)
        for j, cell in enumerate(row)
        if cell == "#"
    )
    SubElement(svg, "path", {"class": "wall", "d": blocks})
    x, y = (points[:, 0] + origin) * unit, height - (points[:, 1] + origin) * unit
    dots = "".join(f"M{fmt(a)} {fmt(b)}h0" for a, b in zip(x.tolist(), y.tolist(), strict=True))
    SubElement(svg, "path", {"class": f"dots {style}", "d": dots})
    if goal is not None:
        centre = {"cx": fmt((float(goal[0]) + origin) * unit), "cy": fmt(height - (float(goal[1]) + origin) * unit)}
        SubElement(svg, "circle", {"class": "goal", "r": "7", **centre})
    return markup(svg)


def scatter_chart(panels: Sequence[tuple[str, Array]], *, title: str) -> Markup:
    """Points [N, 2] of each (style, points) in one picture whose axes mean nothing; the last are drawn on top."""
    svg = canvas(title, 300.0)
    SubElement(svg, "rect", {"class": "floor", "width": fmt(WIDTH), "height": "300", "rx": "8"})
    for style, points in panels:
        x, y = 10.0 + (WIDTH - 20.0) * points[:, 0], 290.0 - 280.0 * points[:, 1]
        dots = "".join(f"M{fmt(a)} {fmt(b)}h0" for a, b in zip(x.tolist(), y.tolist(), strict=True))
        SubElement(svg, "path", {"class": f"dots large {style}", "d": dots})
    return markup(svg)


def interval_chart(rows: Sequence[tuple[str, str, float, float, float]], *, title: str, x: Axis) -> Markup:
    """Points with intervals, one labelled row each: (label, style, value, low, high)."""
    pitch, top, left, right = 44.0, 6.0, 10.0, 10.0
    bottom = top + pitch * len(rows)
    svg = canvas(title, bottom + 42.0)
    plot = Plot(x, Axis("", 0.0, 1.0), left, top, WIDTH - left - right, bottom - top)
    for tick in x.ticks():
        at = plot.x_of(tick)
        SubElement(svg, "path", {"class": "grid", "d": f"M{fmt(at)} {fmt(top)}V{fmt(bottom)}"})
        write(svg, at, bottom + 15, number(tick), anchor="middle")
    write(svg, left + plot.width / 2, bottom + 34, shorten(x.label, 42), anchor="middle", kind="axis-label")
    for index, (label, style, value, low, high) in enumerate(rows):
        y = top + pitch * index + 30.0
        write(svg, left, y - 13, shorten(label, 38), kind="row-label")
        SubElement(
            svg, "path", {"class": f"interval {style}", "d": f"M{fmt(plot.x_of(low))} {fmt(y)}H{fmt(plot.x_of(high))}"}
        )
        SubElement(svg, "circle", {"class": f"point {style}", "cx": fmt(plot.x_of(value)), "cy": fmt(y), "r": "5"})
    return markup(svg)


def estimate_chart(value: float, low: float, high: float, told: tuple[str, str, str], *, title: str, x: Axis) -> Markup:
    """A value and its interval on a public range: the range as a track, the interval as a bar, the value as a mark.

    Args:
        value, low, high: what is drawn.
        told: how these three are written.
        title, x: the text alternative, and the range.
    """
    left, track = 10.0, 46.0
    svg = canvas(title, 112.0)
    plot = Plot(x, Axis("", 0.0, 1.0), left, 0.0, WIDTH - 2 * left, 1.0)
    bar = {"y": fmt(track), "height": "14", "rx": "3"}
    SubElement(svg, "rect", {"class": "track", "x": fmt(left), "width": fmt(plot.width), **bar})
    start, stop = plot.x_of(low), plot.x_of(high)
    SubElement(svg, "rect", {"class": "span", "x": fmt(start), "width": fmt(max(2.0, stop - start)), **bar})
    SubElement(svg, "path", {"class": "mark", "d": f"M{fmt(plot.x_of(value))} {fmt(track - 6)}v26"})
    middle = min(max(plot.x_of(value), 60.0), WIDTH - 60.0)
    write(svg, middle, 15.0, told[0], anchor="middle", kind="told")
    write(svg, middle, 32.0, f"{told[1]} to {told[2]}", anchor="middle")
    for tick in x.ticks():
        at = plot.x_of(tick)
        SubElement(svg, "path", {"class": "axis", "d": f"M{fmt(at)} {fmt(track + 18)}v4"})
        write(svg, min(max(at, 14.0), WIDTH - 14.0), track + 36.0, number(tick), anchor="middle")
    write(svg, WIDTH / 2, 108.0, shorten(x.label, 42), anchor="middle", kind="axis-label")
    return markup(svg)
