"""Charts of the report of a simulator of movement: a small map, arcs of flows, and divergences on one scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from xml.etree.ElementTree import Element, SubElement

import numpy as np
from markupsafe import Markup

from tacit.evaluation.report.svg import WIDTH, Array, Axis, Plot, canvas, fmt, markup, number, write

_LEVELS = 10
_HEIGHT = 300.0
_LEAST = 1e-4
"""Divergences below are drawn at this end of the scale."""
Range = tuple[float, float, float]


def density_map(outlines: Array, shares: Array, *, top: float, frame: Array, title: str) -> Markup:
    """Blocks as strong as the share of days in them.

    Args:
        outlines: [n, k, 2] latitude and longitude.
        shares: [n].
        top: the share that is drawn strongest.
        frame: [2, 2] south-west and north-east of the map.
        title: the text alternative.
    """
    svg, place = _ground(frame, title)
    levels = np.minimum((_LEVELS * np.cbrt(shares / top)).astype(int), _LEVELS - 1)
    for level in range(_LEVELS):
        here = np.flatnonzero((levels == level) & (shares > 0))
        corners = place(outlines[here])
        path = "".join("M" + "L".join(f"{fmt(x)} {fmt(y)}" for x, y in one) + "Z" for one in corners.tolist())
        if path:
            strength = {"class": "level", "fill-opacity": fmt(0.12 + 0.83 * level / (_LEVELS - 1))}
            SubElement(svg, "path", {**strength, "d": path})
    return markup(svg)


def flow_map(flows: Array, *, frame: Array, title: str) -> Markup:
    """Arcs from origins to destinations, bent to the right, as wide as there are moves; a dot is where they end.

    Args:
        flows: [m, 5] latitude and longitude of origin and destination, moves; the largest first.
        frame, title: as for `density_map`.
    """
    svg, place = _ground(frame, title)
    most = float(flows[:, 4].max(initial=1e-12))
    starts, ends = place(flows[:, None, :2])[:, 0], place(flows[:, None, 2:4])[:, 0]
    for (ax, ay), (bx, by), size in reversed(list(zip(starts, ends, flows[:, 4] / most, strict=True))):
        bend = (ax + bx) / 2 - 0.2 * (by - ay), (ay + by) / 2 + 0.2 * (bx - ax)
        arc = f"M{fmt(ax)} {fmt(ay)}Q{fmt(bend[0])} {fmt(bend[1])} {fmt(bx)} {fmt(by)}"
        root = math.sqrt(size)
        width = {"stroke-width": fmt(0.5 + 4.5 * root), "stroke-opacity": fmt(0.2 + 0.6 * root)}
        SubElement(svg, "path", {"class": "flow", "d": arc, **width})
        SubElement(svg, "circle", {"class": "flow-end", "cx": fmt(bx), "cy": fmt(by), "r": fmt(0.8 + 1.6 * root)})
    return markup(svg)


def close_chart(rows: Sequence[tuple[str, Range, Range, Range | None]], *, title: str) -> Markup:
    """Divergences on one logarithmic scale: other people, generated days, noise alone.

    Args:
        rows: (measure, generated, floor, control) with value, low and high each.
        title: the text alternative.
    """
    pitch, top, left = 38.0, 4.0, 10.0
    bottom = top + pitch * len(rows)
    svg = canvas(title, bottom + 40.0)
    plot = Plot(Axis("", _LEAST, 1.0, log=True), Axis("", 0.0, 1.0), left, top, WIDTH - 2 * left, bottom - top)
    for tick in plot.x.ticks():
        at = plot.x_of(tick)
        SubElement(svg, "path", {"class": "grid", "d": f"M{fmt(at)} {fmt(top)}V{fmt(bottom)}"})
        write(svg, min(max(at, 14.0), WIDTH - 14.0), bottom + 15, number(tick), anchor="middle")
    write(svg, WIDTH / 2, bottom + 34, "divergence in nats, 0.69 at most", anchor="middle", kind="axis-label")
    for index, (label, generated, floor, control) in enumerate(rows):
        y = top + pitch * index + 27.0
        write(svg, left, y - 11, label, kind="row-label")
        for style, one in (("reference", floor), ("control-0", control), ("synthetic", generated)):
            if one is not None:
                _range(svg, plot, y, style, one)
    return markup(svg)


def frame_of(outlines: Array) -> Array:
    """South-west and north-east [2, 2] of a map on which all outlines [n, k, 2] lie, in the shape of the chart."""
    low, high = outlines.min(axis=(0, 1)), outlines.max(axis=(0, 1))
    wide = math.cos(math.radians((low[0] + high[0]) / 2))
    up, across = high[0] - low[0], (high[1] - low[1]) * wide
    sides = 1.04 * np.array([max(up, across * _HEIGHT / WIDTH), max(across, up * WIDTH / _HEIGHT)])
    middle, half = (low + high) / 2, sides / np.array([2.0, 2.0 * wide])
    return np.stack([middle - half, middle + half])


def _ground(frame: Array, title: str) -> tuple[Element, Callable[[Array], Array]]:
    """An empty map, and the coordinates [n, k, 2] of points [n, k, 2] (latitude, longitude) on it."""
    svg = canvas(title, _HEIGHT)
    SubElement(svg, "rect", {"class": "floor", "width": fmt(WIDTH), "height": fmt(_HEIGHT), "rx": "8"})

    def place(points: Array) -> Array:
        part: Array = (points - frame[0]) / (frame[1] - frame[0])
        return np.stack([WIDTH * part[..., 1], _HEIGHT * (1.0 - part[..., 0])], axis=-1)

    return svg, place


def _range(svg: Element, plot: Plot, y: float, style: str, one: Range) -> None:
    value, low, high = (plot.x_of(max(part, _LEAST)) for part in one)
    SubElement(svg, "path", {"class": f"interval {style}", "d": f"M{fmt(low)} {fmt(y)}H{fmt(high)}"})
    SubElement(svg, "circle", {"class": f"point {style}", "cx": fmt(value), "cy": fmt(y), "r": "4.5"})
