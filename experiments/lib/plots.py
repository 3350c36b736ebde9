"""Line charts of the experiments as one SVG file: panels side by side over one legend."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

from experiments.lib.store import ROOT
from tacit.evaluation.report.charts import WIDTH, ChartAxis, Plot, draw_text, fmt, frame

IMAGES = ROOT / "docs" / "images"
HEIGHT, LINE, APART = 230.0, 20.0, 3.6
DASHED = {"stroke-dasharray": "5 4"}
COLOURS = ("#0b6e5f", "#b3541e", "#6b5b95", "#8a8f98", "#c98a00", "#3b6ea8", "#a23b72", "#5d656e", "#2f3b1c")
STYLE = """
svg{font-family:system-ui,sans-serif} .tick,.legend{font-size:11px;fill:#5d656e}
.axis-label{font-size:12px;fill:#22262b}
.grid{stroke:#e4e1d8;stroke-width:1;fill:none} .axis{stroke:#9a968c;stroke-width:1;fill:none} .page{fill:#fbfaf7}
.line{fill:none;stroke-width:2} .flat{stroke-dasharray:5 4;stroke-width:1.5}
"""


@dataclass(frozen=True, eq=False)
class Curve:
    """A named line; x and y of equal length, y positive. `flat` ones are references, drawn dashed.

    `spread` is the lowest and the highest value at each x: a bar through a marked point, the curves' bars beside each
    other. A point at infinity then stands alone. `dashed` lines are so in the legend, too.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    flat: bool = False
    spread: Sequence[tuple[float, float]] = ()
    dashed: bool = False


@dataclass(frozen=True, eq=False)
class Panel:
    """One chart, both axes logarithmic unless there are `axes` (across, up); bars stand `beside` each other or not."""

    title: str
    x_label: str
    curves: Sequence[Curve]
    axes: tuple[ChartAxis, ChartAxis] | None = None
    beside: bool = True


def draw(panels: Sequence[Panel], title: str, path: Path, *, columns: int = 2, legend: int = 4) -> None:
    """Write the panels, two beside each other, with a colour for each name of a curve, the same in all panels.

    Args:
        panels: charts.
        title: of the whole picture, for those who do not see it.
        path: of the file.
        columns: charts beside each other.
        legend: names beside each other.
    """
    names = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))
    colour = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    rows, gap = -(-len(panels) // columns), 24.0
    width = columns * (WIDTH + gap) + gap
    dashed = {curve.name for panel in panels for curve in panel.curves if curve.dashed}
    foot = LINE * (-(-len(names) // legend)) + 16
    height = rows * (HEIGHT + gap) + gap + foot
    size = {"viewBox": f"0 0 {fmt(width)} {fmt(height)}", "width": fmt(width), "height": fmt(height)}
    root = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size, "role": "img", "aria-label": title})
    SubElement(root, "title").text = title
    SubElement(root, "style").text = STYLE
    SubElement(root, "rect", {"class": "page", "width": fmt(width), "height": fmt(height)})
    for i, panel in enumerate(panels):
        chart = _chart(panel, colour)
        place = {"x": fmt(gap + (i % columns) * (WIDTH + gap)), "y": fmt(gap + (i // columns) * (HEIGHT + gap))}
        root.append(Element("svg", chart.attrib | place | {"width": fmt(WIDTH), "height": fmt(HEIGHT)}))
        root[-1].extend(list(chart))
    for i, name in enumerate(names):
        x, y = gap + (i % legend) * (width - 2 * gap) / legend, height - foot + LINE * (i // legend)
        line = {"class": "line", "d": f"M{fmt(x)} {fmt(y)}h22", "stroke": colour[name]}
        SubElement(root, "path", line | (DASHED if name in dashed else {}))
        draw_text(root, x + 28, y + 4, name, kind="legend")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tostring(root, encoding="unicode") + "\n")


def _chart(panel: Panel, colour: dict[str, str]) -> Element:
    across, up = panel.axes or _logarithmic(panel)
    svg, plot = frame(panel.title, across, up, height=HEIGHT)
    for place, curve in enumerate(panel.curves):
        kind = "line flat" if curve.flat else "line"
        x, y = np.asarray(curve.x, np.float64), np.asarray(curve.y, np.float64)
        near = np.isfinite(x)
        line = {"class": kind, "d": plot.path(x[near], y[near]), "stroke": colour[curve.name]}
        apart = bool(curve.spread) and panel.beside
        aside = APART * (place - (len(panel.curves) - 1) / 2) if apart else 0.0
        moved = {"transform": f"translate({fmt(aside)} 0)"} if apart else {}
        if near.any():
            SubElement(svg, "path", line | moved | (DASHED if curve.dashed else {}))
        for at, middle, ends in zip(curve.x, curve.y, curve.spread, strict=bool(curve.spread)):
            _bar(svg, plot, at, middle, ends, aside=aside, colour=colour[curve.name])
    return svg


def _bar(svg: Element, plot: Plot, x: float, y: float, ends: tuple[float, float], *, aside: float, colour: str) -> None:
    """From the lowest to the highest value, with a dot at y."""
    at, (bottom, top) = fmt(plot.x_position(x) + aside), (fmt(plot.y_position(end)) for end in ends)
    bar = {"class": "bar", "d": f"M{at} {bottom}V{top}", "stroke": colour, "stroke-width": "1.5", "opacity": "0.55"}
    SubElement(svg, "path", bar)
    SubElement(svg, "circle", {"class": "dot", "cx": at, "cy": fmt(plot.y_position(y)), "r": "2.6", "fill": colour})


def _logarithmic(panel: Panel) -> tuple[ChartAxis, ChartAxis]:
    """Axes that hold all curves; whole powers of ten upwards."""
    x = np.concatenate([curve.x for curve in panel.curves])
    y = np.concatenate([curve.y for curve in panel.curves])
    low, high = (10.0 ** round_(float(np.log10(end))) for round_, end in ((np.floor, y.min()), (np.ceil, y.max())))
    across = ChartAxis(panel.x_label, float(x.min()), float(x.max()), log=True)
    return across, ChartAxis(panel.title, low, min(max(high, 10 * low), 1e6 * low), log=True)
