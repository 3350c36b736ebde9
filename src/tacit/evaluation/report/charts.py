"""Inline SVG charts: pure functions from numbers to markup, without scripts, fonts or requests.

Elements are built as an XML tree, so that no text can become markup. Colours come from the page's style sheet through
the classes `reference`, `synthetic` and `control-0` to `control-3`, which differ in lightness and dash as well as in
hue. Every chart has role="img" and a <title> that says in words what it shows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Literal
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Kind = Literal["reference", "synthetic", "control"]
WIDTH = 360.0
"""Width of a chart in its own units; the page shows it at about one CSS pixel each, on a phone too."""
_LEVELS = 16
_STRENGTHS = 5
_MARKS = ("h0", "m-3 0h6m-3-3v6", "m-3 2.5h6l-3-5.2Z", "m-2.5-2.5h5v5h-5Z")
_MARK_STYLES = ("synthetic", "control-0", "control-2", "control-1")
_BARS = 8
"""Bars that a chart has room for at least, and up to which each has its number."""


@dataclass(frozen=True)
class ChartAxis:
    """One axis: its label with the unit, its range, whether it is logarithmic (base 10), or has whole numbers only.
    `marks` are ticks in place of round values; infinity, the last of them, is a place of its own near the end. `names`
    are what the marks 0, 1, ... are called."""

    label: str
    low: float
    high: float
    log: bool = False
    whole: bool = False
    marks: tuple[float, ...] = ()
    names: tuple[str, ...] = ()

    def text(self, tick: float) -> str:
        """What stands at a tick."""
        return shorten(self.names[round(tick)], max(4, 44 // len(self.names))) if self.names else number(tick)

    def fraction(self, values: Array | float) -> Array:
        """Position of values between the ends of the axis, 0 to 1, clipped."""
        low, high, v = self.low, self.high, np.asarray(values, dtype=np.float64)
        if self.log:
            low, high, v = math.log10(low), math.log10(high), np.log10(np.maximum(v, low))
        position = np.clip((v - low) / (high - low), 0.0, 1.0)
        if self.marks and math.isinf(self.marks[-1]):
            far = 0.2 / len(self.marks)
            position = np.where(np.isposinf(v), 1.0 - far, position * (1.0 - 6 * far))
        return position

    def ticks(self) -> list[float]:
        """The marks, or about four round values inside the axis."""
        if self.marks:
            return list(self.marks)
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            stride = max(1, math.ceil((last - first + 1) / 5))
            return [10.0**power for power in range(last, first - 1, -stride)]
        step = nice_step((self.high - self.low) / 4)
        step = max(1.0, round(step)) if self.whole else step
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]


def nice_step(value: float) -> float:
    """The smallest of 1, 2, 2.5, 5 or 10 times a power of ten that is at least `value` (> 0)."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= value * (1 - 1e-9))


def span(label: str, *values: Array) -> ChartAxis:
    """A linear axis that holds all values, with a little room; a single value gets a range of one around it."""
    joined = np.concatenate([np.ravel(v) for v in values])
    low, high = float(joined.min()), float(joined.max())
    room = 0.04 * (high - low) if high > low else 0.5
    return ChartAxis(label, low - room, high + room)


def number(value: float, digits: int | None = None) -> str:
    """A number for people: at most four significant digits, a true minus sign, powers of ten as 10⁻⁶. It is rounded to
    `digits` significant ones first; None rounds thousands to whole numbers alone."""
    value = value if digits is None else float(f"{value:.{digits}g}")
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "–"
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        mantissa, exponent = f"{value:.2e}".split("e")
        power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        mantissa = mantissa.rstrip("0").rstrip(".").replace("-", "−")
        return f"10{power}" if mantissa == "1" else f"{mantissa} × 10{power}"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return text.replace("-", "−")


def format_bound(value: float) -> str:
    """A bound for people: four significant digits, rounded up, so that the printed bound holds too."""
    if not math.isfinite(value):
        return "∞"
    exact = Decimal(repr(value))
    if exact == 0:
        return "0"
    rounded = exact.quantize(Decimal(1).scaleb(exact.adjusted() - 3), rounding=ROUND_CEILING)
    return number(float(rounded))


@dataclass(frozen=True)
class Plot:
    """The rectangle of a chart in which values are drawn."""

    x: ChartAxis
    y: ChartAxis
    left: float
    top: float
    width: float
    height: float

    def x_position(self, value: float) -> float:
        """The coordinate of a value on the x axis."""
        return self.left + self.width * float(self.x.fraction(value))

    def y_position(self, value: float) -> float:
        """The coordinate of a value on the y axis."""
        return self.top + self.height * (1.0 - float(self.y.fraction(value)))

    def path(self, x: Array, y: Array) -> str:
        """Straight lines through the points (x, y), as the `d` of a path."""
        return "M" + "L".join(f"{fmt(a)} {fmt(b)}" for a, b in self.coordinates(x, y))

    def coordinates(self, x: Array, y: Array) -> list[tuple[float, float]]:
        """The coordinates of the points (x, y)."""
        xs = self.left + self.width * self.x.fraction(x)
        ys = self.top + self.height * (1.0 - self.y.fraction(y))
        return list(zip(xs.tolist(), ys.tolist(), strict=True))


def frame(title: str, x: ChartAxis, y: ChartAxis, *, height: float) -> tuple[Element, Plot]:
    """An empty chart with grid lines, tick labels and axis labels."""
    svg = canvas(title, height)
    y_ticks = [(tick, number(tick)) for tick in y.ticks()]
    left = 14.0 + 6.4 * max(len(text) for _, text in y_ticks)
    plot = Plot(x, y, left, 26.0, WIDTH - left - 20.0, height - 70.0)
    bottom = plot.top + plot.height
    draw_text(svg, 0.0, 12.0, shorten(y.label, 42), kind="axis-label")
    for tick, text in y_ticks:
        at = plot.y_position(tick)
        SubElement(svg, "path", {"class": "grid", "d": f"M{fmt(left)} {fmt(at)}H{fmt(left + plot.width)}"})
        draw_text(svg, left - 7.0, at + 4.0, text, anchor="end")
    draw_ruler(svg, plot)
    SubElement(svg, "path", {"class": "axis", "d": f"M{fmt(left)} {fmt(bottom)}h{fmt(plot.width)}"})
    return svg, plot


def draw_ruler(svg: Element, plot: Plot, *, grid: bool = False) -> None:
    """The x axis of a plot: marks below it, or grid lines across it, with their numbers and the label."""
    bottom = plot.top + plot.height
    for tick in plot.x.ticks():
        at = plot.x_position(tick)
        line = f"M{fmt(at)} {fmt(plot.top)}V{fmt(bottom)}" if grid else f"M{fmt(at)} {fmt(bottom)}v4"
        SubElement(svg, "path", {"class": "grid" if grid else "axis", "d": line})
        draw_text(svg, min(max(at, 14.0), WIDTH - 14.0), bottom + 17.0, plot.x.text(tick), anchor="middle")
    middle = plot.left + plot.width / 2
    draw_text(svg, middle, bottom + 35.0, shorten(plot.x.label, 42), anchor="middle", kind="axis-label")


def canvas(title: str, height: float, *, floor: bool = False) -> Element:
    """An empty image with its text alternative; with a floor, the ground of a map."""
    svg = Element("svg", {"viewBox": f"0 0 {fmt(WIDTH)} {fmt(height)}", "role": "img", "aria-label": title})
    SubElement(svg, "title").text = title
    if floor:
        SubElement(svg, "rect", {"class": "floor", "width": fmt(WIDTH), "height": fmt(height), "rx": "8"})
    return svg


def draw_dots(svg: Element, plot: Plot, points: Array, style: str) -> None:
    """A dot at each of the points [N, 2]."""
    d = "".join(f"M{fmt(x)} {fmt(y)}h0" for x, y in plot.coordinates(points[:, 0], points[:, 1]))
    SubElement(svg, "path", {"class": f"dots {style}", "d": d})


def draw_text(
    parent: Element,
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    kind: str = "tick",
    transform: str | None = None,
) -> None:
    """Add one text at (x, y)."""
    attributes = {"x": fmt(x), "y": fmt(y), "class": kind, "text-anchor": anchor}
    SubElement(parent, "text", attributes | ({"transform": transform} if transform else {})).text = text


def shorten(text: str, length: int, *, ending: int = 0) -> str:
    """The text, cut with an ellipsis to at most `length` characters, of which its last ones are `ending`."""
    return text if len(text) <= length else f"{text[: length - 1 - ending]}…{text[len(text) - ending :]}"


def fmt(value: float) -> str:
    """A coordinate with at most two decimals."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def markup(svg: Element) -> str:
    """The image as the page includes it."""
    return tostring(svg, encoding="unicode")


def styles(series: Iterable[tuple[str, Kind]]) -> dict[str, str]:
    """A style for each label: the kind itself, or the next of the four styles of controls."""
    by_label: dict[str, str] = {}
    for label, kind in series:
        if label not in by_label:
            controls = sum(style.startswith("control") for style in by_label.values())
            by_label[label] = kind if kind != "control" else f"control-{controls % 4}"
    return by_label


@dataclass(frozen=True)
class ChartLine:
    """One curve: x and y [N], and a band from low to high [N] if both are given; `style` names the colour."""

    style: str
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None


def line_chart(lines: Sequence[ChartLine], *, title: str, x: ChartAxis, y: ChartAxis) -> str:
    """Curves with optional confidence bands over shared axes; drawn in order, the last on top."""
    svg, plot = frame(title, x, y, height=230.0)
    for line in lines:
        if line.low is not None and line.high is not None:
            outline = np.concatenate([line.x, line.x[::-1]]), np.concatenate([line.high, line.low[::-1]])
            SubElement(svg, "path", {"class": f"band {line.style}", "d": plot.path(*outline) + "Z"})
    for line in lines:
        SubElement(svg, "path", {"class": f"line {line.style}", "d": plot.path(line.x, line.y)})
    return markup(svg)


def bar_chart(values: Array, *, title: str, x_label: str, y: ChartAxis, first: int = 0) -> str:
    """One bar from 0 for each of the values [n] of the numbers first .. first + n - 1; a few do not fill the chart."""
    count = len(values)
    room = max(0.0, (_BARS - count) / 2)
    marks = tuple(float(first + k) for k in range(count)) if count <= _BARS else ()
    x = ChartAxis(x_label, first - 0.5 - room, first + count - 0.5 + room, whole=True, marks=marks)
    svg, plot = frame(title, x, y, height=230.0)
    width = 0.8 if count <= 100 else 1.0
    for index, value in enumerate(values.tolist(), start=first):
        ends = np.array([index - width / 2, index + width / 2])
        outline = plot.path(np.concatenate([ends, ends[::-1]]), np.array([0.0, 0.0, value, value]))
        SubElement(svg, "path", {"class": "bar synthetic", "d": outline + "Z"})
    return markup(svg)


def surface_chart(values: Array, *, title: str, x: ChartAxis, y: ChartAxis, scale: ChartAxis) -> str:
    """A surface over a rectangle: one hue, stronger for larger values, with its scale above."""
    # values: [rows, columns] over equal cells, row 0 lies at the lower end of y
    svg, plot = frame(title, x, ChartAxis(shorten(y.label, 20), y.low, y.high), height=330.0)
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
    draw_text(svg, left - 6.0, 12.0, number(scale.low), anchor="end")
    draw_text(svg, left + 86.0, 12.0, number(scale.high))
    return markup(svg)


def vote_mark(action: int) -> tuple[str, str]:
    """Class and form (a path relative to its place) of the mark of an action: both differ, so that colour may fail."""
    style = _MARK_STYLES[action % len(_MARK_STYLES)]
    return f"vote {style}", _MARKS[(action + action // len(_MARKS)) % len(_MARKS)]


def votes_chart(
    positions: Array, choice: NDArray[np.int64], share: Array, *, lowest: float, title: str, x: ChartAxis, y: ChartAxis
) -> str:
    """A mark for each of N states: its form and colour are the chosen action, its strength the share that chose it."""
    # positions: [N, 2]; choice: [N] actions, 0 and above; share: [N], from `lowest` (the weakest mark) to 1
    svg, plot = frame(title, x, y, height=330.0)
    places = np.array(plot.coordinates(positions[:, 0], positions[:, 1]))
    strength = np.clip((share - lowest) / (1.0 - lowest), 0.0, 1.0)
    levels = np.minimum((strength * _STRENGTHS).astype(int), _STRENGTHS - 1)
    for level in range(_STRENGTHS):
        for action in np.unique(choice).tolist():
            style, form = vote_mark(action)
            spots = places[(levels == level) & (choice == action)].tolist()
            opacity = fmt(0.14 + 0.76 * level / (_STRENGTHS - 1))
            if spots:
                marks = "".join(f"M{fmt(a)} {fmt(b)}{form}" for a, b in spots)
                SubElement(svg, "path", {"class": style, "stroke-opacity": opacity, "d": marks})
    return markup(svg)


def estimate_chart(value: float, ends: tuple[float, float], written: Sequence[str], *, title: str, x: ChartAxis) -> str:
    """A value and its interval on a public range: the range as a track, the interval as a bar, the value as a mark."""
    left, track = 10.0, 46.0
    svg = canvas(title, 116.0)
    plot = Plot(x, ChartAxis("", 0.0, 1.0), left, track - 6.0, WIDTH - 2 * left, 24.0)
    bar = {"y": fmt(track), "height": "14", "rx": "3"}
    SubElement(svg, "rect", {"class": "track", "x": fmt(left), "width": fmt(plot.width), **bar})
    start, stop = plot.x_position(ends[0]), plot.x_position(ends[1])
    SubElement(svg, "rect", {"class": "span", "x": fmt(start), "width": fmt(max(2.0, stop - start)), **bar})
    SubElement(svg, "path", {"class": "mark", "d": f"M{fmt(plot.x_position(value))} {fmt(track - 6)}v26"})
    middle = min(max(plot.x_position(value), 60.0), WIDTH - 60.0)
    draw_text(svg, middle, 15.0, written[0], anchor="middle", kind="told")
    draw_text(svg, middle, 32.0, f"{written[1]} to {written[2]}", anchor="middle")
    draw_ruler(svg, plot)
    return markup(svg)


_MOST_BARS = 16


def category_chart(
    labels: Sequence[str], reference: Array | None, synthetic: Array, *, title: str, x_label: str
) -> str:
    """A bar for each of the 16 categories with the largest synthetic shares [B], its name beside it: the reference [B]
    filled, the synthetic as an outline above it."""
    shown = np.sort(np.argsort(-synthetic, kind="stable")[:_MOST_BARS])
    shares = [
        (part[shown], kind)
        for part, kind in ((reference, "area reference"), (synthetic, "line synthetic"))
        if part is not None
    ]
    if reference is None:
        shares.insert(0, (synthetic[shown], "band synthetic"))
    names = [shorten(labels[i], 18) for i in shown.tolist()]
    left, side, top = 14.0 + 7.0 * max(map(len, names)), 24.0, 6.0
    svg = canvas(title, top + side * len(names) + 40.0)
    largest = max(float(part.max()) for part, _ in shares)
    x = ChartAxis(x_label, 0.0, 105.0 * largest if largest > 0 else 1.0)
    plot = Plot(x, ChartAxis("", 0.0, 1.0), left, top, WIDTH - left - 20.0, side * len(names))
    for i, name in enumerate(names):
        draw_text(svg, left - 7.0, top + side * (i + 0.5) + 4.0, name, anchor="end")
    for part, kind in shares:
        bars = (
            f"M{fmt(left)} {fmt(top + side * i + 4.0)}H{fmt(plot.x_position(share))}v{fmt(side - 8.0)}H{fmt(left)}Z"
            for i, share in enumerate((100.0 * part).tolist())
        )
        SubElement(svg, "path", {"class": kind, "d": "".join(bars)})
    draw_ruler(svg, plot)
    return markup(svg)


def histogram_chart(
    edges: Array, reference: Array | None, synthetic: Array, *, title: str, x_label: str, y_label: str = "rows, %"
) -> str:
    """Histograms (shares [B]) over shared bins (edges [B + 1]): the reference filled, the synthetic as an outline above
    it."""
    top = max(float(np.max(part)) for part in (reference, synthetic) if part is not None)
    x = ChartAxis(x_label, float(edges[0]), float(edges[-1]))
    svg, plot = frame(title, x, ChartAxis(y_label, 0.0, 105.0 * top if top > 0 else 1.0), height=190.0)
    steps_x = np.repeat(edges, 2)
    filled = (synthetic, "band synthetic") if reference is None else (reference, "area reference")
    for shares, kind in (filled, (synthetic, "line synthetic")):
        steps_y = 100.0 * np.concatenate([[0.0], np.repeat(shares, 2), [0.0]])
        SubElement(svg, "path", {"class": kind, "d": plot.path(steps_x, steps_y)})
    return markup(svg)


def heat_map(matrix: Array, labels: Sequence[str], *, title: str) -> str:
    """A square matrix of values in [-1, 1]: one hue a sign, opacity for the size."""
    labels = [shorten(label, 20, ending=6) for label in labels]
    count, reach = len(labels), 6.2 * max((len(label) for label in labels), default=0)
    left, top, foot = 16.0 + reach, 10.0, 14.0 + reach
    side = (WIDTH - left - 2.0) / max(count, 1)
    svg = canvas(title, top + side * count + foot)
    for i, row in enumerate(matrix):
        y = top + side * i
        draw_text(svg, left - 6, y + side / 2 + 4, labels[i], anchor="end")
        x = left + side * (i + 0.5)
        place = f"rotate(-90 {fmt(x + 4)} {fmt(top + side * count + 8)})"
        draw_text(svg, x + 4, top + side * count + 8, labels[i], anchor="end", transform=place)
        for j, value in enumerate(row):
            size = fmt(0.95 * side)
            box = {"x": fmt(left + side * j), "y": fmt(y), "width": size, "height": size, "rx": "2"}
            SubElement(svg, "rect", {"class": "cell-empty", **box})
            if abs(value) >= 0.005:
                sign = "cell-positive" if value > 0 else "cell-negative"
                SubElement(svg, "rect", {"class": sign, "fill-opacity": fmt(min(1.0, abs(float(value)))), **box})
    return markup(svg)


def scatter_chart(panels: Sequence[tuple[str, Array]], *, title: str) -> str:
    """Points [N, 2] in [0, 1] of each (style, points) in one picture whose axes mean nothing; the last lie on top."""
    svg, unit = canvas(title, 300.0, floor=True), ChartAxis("", 0.0, 1.0)
    plot = Plot(unit, unit, 10.0, 10.0, WIDTH - 20.0, 280.0)
    for style, points in panels:
        draw_dots(svg, plot, points, f"large {style}")
    return markup(svg)


Interval = tuple[str, float, float, float]
"""Style, value, low and high end."""


def interval_chart(rows: Sequence[tuple[str, Sequence[Interval]]], *, title: str, x: ChartAxis) -> str:
    """Points with intervals, one labelled row each, or several in a row of which the last lies on top."""
    pitch, top, left = 44.0, 6.0, 10.0
    height = pitch * len(rows)
    svg = canvas(title, top + height + 42.0)
    plot = Plot(x, ChartAxis("", 0.0, 1.0), left, top, WIDTH - 2 * left, height)
    draw_ruler(svg, plot, grid=True)
    for index, (label, intervals) in enumerate(rows):
        y = top + pitch * index + 30.0
        draw_text(svg, left, y - 13, shorten(label, 38), kind="row-label")
        for style, value, low, high in intervals:
            bar = f"M{fmt(plot.x_position(low))} {fmt(y)}H{fmt(plot.x_position(high))}"
            SubElement(svg, "path", {"class": f"interval {style}", "d": bar})
            cx = fmt(plot.x_position(value))
            SubElement(svg, "circle", {"class": f"point {style}", "cx": cx, "cy": fmt(y), "r": "5"})
    return markup(svg)


def bounds_chart(label: str, lower: float, epsilon: float, *, by: str, style: str, vain: bool = False) -> str:
    """What epsilon can be: at most what is promised, if the promise holds, and at least what is shown."""
    top = 1.15 * max(lower, epsilon)
    promised = f"Promised{' in vain' if vain else ''}: at most {format_bound(epsilon)}"
    shown = f"Shown by the {by}: at least {number(lower)}"
    return interval_chart(
        [(promised, [("reference", epsilon, 0.0, epsilon)]), (shown, [(style, lower, lower, top)])],
        title=f"Privacy loss of {label}: {promised}. {shown}",
        x=ChartAxis("privacy loss ε", 0.0, top),
    )
