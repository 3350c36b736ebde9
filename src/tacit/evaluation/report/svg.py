"""The parts of an inline SVG chart: axes, round numbers, frames and text.

Elements are built as an XML tree, so that no text can ever become markup.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

Array = NDArray[np.float64]
WIDTH = 360.0
"""Width of a chart in its own units; the page shows it at about one CSS pixel each, on a phone too."""


@dataclass(frozen=True)
class Axis:
    """One axis: its label with the unit, its range, whether it is logarithmic (base 10), or has whole numbers only.

    `marks` are ticks in place of round values; infinity, the last of them, is a place of its own near the end.
    """

    label: str
    low: float
    high: float
    log: bool = False
    whole: bool = False
    marks: tuple[float, ...] = ()

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
        step = nice((self.high - self.low) / 4)
        step = max(1.0, round(step)) if self.whole else step
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]


def nice(value: float) -> float:
    """The smallest of 1, 2, 2.5, 5 or 10 times a power of ten that is at least `value` (> 0)."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= value * (1 - 1e-9))


def span(label: str, *values: Array) -> Axis:
    """A linear axis that holds all values, with a little room; a single value gets a range of one around it."""
    joined = np.concatenate([np.ravel(v) for v in values])
    low, high = float(joined.min()), float(joined.max())
    room = 0.04 * (high - low) if high > low else 0.5
    return Axis(label, low - room, high + room)


def number(value: float) -> str:
    """A number for people: at most four significant digits, a true minus sign, powers of ten as 10⁻⁶."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "–"
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        mantissa, exponent = f"{value:.2e}".split("e")
        power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        mantissa = mantissa.rstrip("0").rstrip(".").replace("-", "−")
        return f"10{power}" if mantissa == "1" else f"{mantissa} × 10{power}"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return text.replace("-", "−")


def upward(value: float) -> str:
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

    x: Axis
    y: Axis
    left: float
    top: float
    width: float
    height: float

    def x_of(self, value: float) -> float:
        """The coordinate of a value on the x axis."""
        return self.left + self.width * float(self.x.fraction(value))

    def y_of(self, value: float) -> float:
        """The coordinate of a value on the y axis."""
        return self.top + self.height * (1.0 - float(self.y.fraction(value)))

    def path(self, x: Array, y: Array) -> str:
        """Straight lines through the points (x, y), as the `d` of a path."""
        xs = self.left + self.width * self.x.fraction(x)
        ys = self.top + self.height * (1.0 - self.y.fraction(y))
        return "M" + "L".join(f"{fmt(a)} {fmt(b)}" for a, b in zip(xs.tolist(), ys.tolist(), strict=True))


def frame(title: str, x: Axis, y: Axis, *, height: float) -> tuple[Element, Plot]:
    """An empty chart with grid lines, tick labels and axis labels."""
    svg = canvas(title, height)
    y_ticks = [(tick, number(tick)) for tick in y.ticks()]
    left = 14.0 + 6.4 * max(len(text) for _, text in y_ticks)
    plot = Plot(x, y, left, 26.0, WIDTH - left - 20.0, height - 70.0)
    bottom = plot.top + plot.height
    write(svg, 0.0, 12.0, shorten(y.label, 42), kind="axis-label")
    for tick, text in y_ticks:
        at = plot.y_of(tick)
        SubElement(svg, "path", {"class": "grid", "d": f"M{fmt(left)} {fmt(at)}H{fmt(left + plot.width)}"})
        write(svg, left - 7.0, at + 4.0, text, anchor="end")
    for tick in x.ticks():
        at = plot.x_of(tick)
        SubElement(svg, "path", {"class": "axis", "d": f"M{fmt(at)} {fmt(bottom)}v4"})
        write(svg, at, bottom + 17.0, number(tick), anchor="middle")
    SubElement(svg, "path", {"class": "axis", "d": f"M{fmt(left)} {fmt(bottom)}h{fmt(plot.width)}"})
    write(svg, left + plot.width / 2, height - 6.0, shorten(x.label, 36), anchor="middle", kind="axis-label")
    return svg, plot


def canvas(title: str, height: float) -> Element:
    """An empty image with its text alternative."""
    svg = Element("svg", {"viewBox": f"0 0 {fmt(WIDTH)} {fmt(height)}", "role": "img", "aria-label": title})
    SubElement(svg, "title").text = title
    return svg


def write(
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


def markup(svg: Element) -> Markup:
    """The image as markup that a template includes as it is."""
    return Markup(tostring(svg, encoding="unicode"))
