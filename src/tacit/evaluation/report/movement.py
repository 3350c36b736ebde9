"""The report of a simulator of movement: what its days look like, how close they are, and what not to read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement

import numpy as np
from numpy.typing import NDArray

from tacit.data.mobility.days import SLOTS, Days, distinct_counts, move_counts
from tacit.data.mobility.grids import Grid
from tacit.data.mobility.trips import clock
from tacit.errors import DataError
from tacit.evaluation.movement.divergences import BY_DAY, SEQ, MapAdvice, MeasureSummary
from tacit.evaluation.movement.maps import Levels, blocks_of_level, corners, largest_flows
from tacit.evaluation.movement.maps import block_levels as levels_of
from tacit.evaluation.report import blocks, charts
from tacit.evaluation.report.blocks import Block, Certified, Chart, Facts, Paragraphs, Section
from tacit.evaluation.report.charts import WIDTH, Array, ChartAxis, canvas, fmt, markup, number
from tacit.privacy import sentences

TIMES = (8, 17, 26, 38)
"""Slots that the picture shows: 04:00, 08:30, 13:00 and 19:00."""
MAX_BLOCKS = 1_200
"""Of the picture: a page is no place for more."""
FLOWS = 120
_LEVELS = 10
_HEIGHT = 300.0
_MIN_DIVERGENCE = 1e-4
"""Divergences below are drawn at this end of the scale."""
_MEASURES = {
    SEQ: ("All seven of the order of a day", "their mean"),
    "DailyLoc": ("Places a day", "how many different cells"),
    "StayLen": ("Length of stays", "in half-hours"),
    "HomeArr": ("Coming home", "at what time of day"),
    "ActSlot": ("What is done when", "stay, explore, home, back, by half-hour"),
    "NMove": ("Moves a day", "changes of cell"),
    "Bigram": ("What follows what", "two actions in a row"),
    "Motif": ("Shape of the day", "sequence of stops of an hour and more"),
    "Distance km": ("Length of moves", "kilometres, logarithmic bins"),
    "Radius km": ("Radius of a day", "kilometres, logarithmic bins"),
    "Visits": ("Popularity of places", "sorted, without their names"),
    "Slot visits": ("Who is where, when", "squares by half-hour"),
    "OD": ("From where to where", "pairs of squares"),
}
_UNUSABLE = "NOT TO BE USED: "
PAIRS = "origins and destinations"
"""The map whose cells are pairs of cells."""


@dataclass(frozen=True)
class Picture:
    """Generated days as the page draws them; it costs no privacy, as everything that is computed from the release."""

    outlines: Array  # [n, k, 2] latitude and longitude of the corners of the blocks
    shares: Array  # [len(TIMES), n] share of the days in each block at `TIMES`; days outside the picture are in none
    flows: Array  # [m, 5] latitude and longitude of origin and destination, and moves a day; the largest first
    moving: Array  # [47] share of the days that change cell from each slot to the next
    places: float  # mean number of different cells a day
    moves: float  # mean number of moves a day
    still: float  # share of the days that are in one cell all along


def sections(
    certificate: Certified,
    *,
    method: str,
    days: int,
    advice: Sequence[MapAdvice] = (),
    lines: Sequence[MeasureSummary] = (),
    picture: Picture | None = None,
    noise: float = math.inf,
    map: str | None = None,
) -> tuple[Section, ...]:
    """What the page of a simulator of movement says besides the promise.

    Args:
        certificate: of the simulator.
        method: how the simulator was made, in a few words ("one noisy release of what people do").
        days: on how many generated days the figures rest.
        advice: which maps can be read, from the known noise.
        lines: how close generated days are to simulated people's; () for real people.
        picture: of generated days, or None.
        noise: standard deviation of the known noise in the share of days that move in one half-hour; infinite where no
            figure is known, and then no half-hour is called the busiest.
        map: name of the map's file beside the report, or None.

    Raises:
        DataError: days are compared and the certificate does not say that the people are simulated.
    """
    simulated = certificate.get("simulated") is True
    if lines and not simulated:
        what = "generated days are compared with people's and the certificate does not say that these are simulated"
        remedy = "compare with simulated people: figures of real ones are not differentially private"
        raise DataError(what, where="report", expected="a certificate with simulated = true", remedy=remedy)
    peak = None
    if picture is not None:
        second, first = np.argsort(picture.moving)[-2:]
        lead, both = (float(picture.moving[first] + sign * picture.moving[second]) for sign in (-1, 1))
        peak = int(first) if lead > 2 * math.sqrt(2 * noise**2 + both / days) else None  # also of the drawing of days
    undeclared = {name for name, value in certificate["plan"].items() if value is None}
    return (
        _answer_section(certificate, method, days, advice, picture, peak),
        _maps_section(picture, map, peak),
        _closeness_section(lines, "the simulated people" if simulated else "people"),
        blocks.settings_section(blocks.setting_pairs(certificate, blocks.STATED | undeclared)),
        blocks.limits_section(certificate),
    )


def picture(days: Days) -> Picture:
    """The picture of at least one generated day of a released simulator, never of people's days."""
    grid, cells = _middle_blocks(days)
    places, index = np.unique(cells, return_inverse=True)
    index = index.reshape(cells.shape)
    shares = np.stack([np.bincount(index[:, k], minlength=len(places)) for k in range(len(TIMES))]) / len(cells)
    shown = places >= 0
    ends, total = largest_flows(*blocks_of_level(days, Levels.of(days).flows), limit=FLOWS)
    return Picture(
        outlines=corners(grid, places[shown]),
        shares=shares[:, shown],
        flows=np.column_stack([ends.reshape(-1, 4), total / len(cells)]),
        moving=(days.cells[:, 1:] != days.cells[:, :-1]).mean(axis=0),
        places=float(distinct_counts(days.cells)[:, SLOTS - 1].mean()),
        moves=float(move_counts(days.cells).mean()),
        still=float((move_counts(days.cells) == 0).mean()),
    )


def _middle_blocks(days: Days) -> tuple[Grid, NDArray[np.int64]]:
    """A grid and the blocks [D, len(TIMES)] at `TIMES`, -1 outside the middle of the days."""
    # The middle is the box between the outermost 5 % on each side, with some room; the blocks are the finest of which a
    # page shows no more than it has room for.
    seen = days.cells[:, list(TIMES)]
    cells, index, counts = np.unique(seen, return_inverse=True, return_counts=True)
    centres = days.grid.centres(cells)
    inside = np.ones(len(cells), dtype=np.bool_)
    for values in centres.T:
        order = np.argsort(values)
        reached = np.cumsum(counts[order]) / counts.sum()
        low, high = (values[order][np.searchsorted(reached, part)] for part in (0.05, 0.95))
        room = 0.15 * (high - low)
        inside &= (values >= low - room) & (values <= high + room)
    levels = levels_of(days.grid, cells)
    grid, joined = next(levels)
    while len(np.unique(joined[inside])) > MAX_BLOCKS:
        grid, joined = next(levels)
    return grid, np.where(inside, joined, -1)[index].reshape(seen.shape)


def _answer_section(
    certificate: Certified, method: str, days: int, advice: Sequence[MapAdvice], drawn: Picture | None, peak: int | None
) -> Section:
    headline = "A simulator of people's days, from which any number of days can be drawn."
    lines = [
        f"Made by {method}.",
        f"What this page shows of movement was counted on {days:,} generated days. Drawing days, however many, "
        "costs no privacy; nobody lived them.",
        *(_advice_sentence(one) for one in advice if one.usable),
    ]
    content: list[Block] = [Paragraphs(lines)]
    if forbidden := unusable_notes(certificate, advice):
        content.append(blocks.Banner("What must not be read from it.", " ".join(forbidden), "simulated"))
    if drawn is not None:
        headline = (
            f"A generated day goes to {number(drawn.places, 2)} different places in {number(drawn.moves, 2)} moves."
        )
        busy = ("Busiest", "none stands out", "no half-hour is known to lead by more than the noise")
        if peak is not None:
            busy = ("Busiest", clock(peak + 1), f"when {100 * drawn.moving[peak]:.0f} of 100 change their place")
        figures = [
            ("Places a day", number(drawn.places, 3), "different cells, on average"),
            ("Moves a day", number(drawn.moves, 3), "changes of cell, on average"),
            busy,
            ("Staying put", f"{100 * drawn.still:.0f} %", f"of {days:,} days are spent in one cell"),
        ]
        content.append(Facts(figures))
    return blocks.opening_section(headline, content, eyebrow="What was made", hero="The simulator")


def unusable_notes(certificate: Certified, advice: Sequence[MapAdvice]) -> list[str]:
    """What noise and model forbid: the certificate's own words first, then the advice on maps."""
    notes = [
        line.removeprefix(_UNUSABLE)
        for line in sentences.lines(certificate, "not_protected")
        if line.startswith(_UNUSABLE)
    ]
    lines = [line[:1].upper() + line[1:] + ("" if line.endswith(".") else ".") for line in notes]
    return (
        lines
        + [_advice_sentence(one) for one in advice if not one.usable]
        + [BY_DAY] * (bool(advice) and (certificate.get("plan") or {}).get("model") != "markov")
    )


def _advice_sentence(advice: MapAdvice) -> str:
    """The advice on one kind of map in a sentence."""
    name = advice.map[:1].upper() + advice.map[1:]
    error = number(advice.relative_error, 2)
    item, where, most = "cell", "on maps", f"{advice.most_cells:,} cells"
    if advice.map == PAIRS:
        item, where = "pair", "in tables"
        most = f"{advice.most_cells:,} pairs ({math.isqrt(advice.most_cells):,} cells)"
    of = "pairs of cells" if advice.map == PAIRS else "cells"
    sentence = f"{name}: over {number(advice.cells)} {of} the noise is {error} times what a mean {item} holds"
    if advice.usable:
        return f"{sentence}; they can be read by night."
    if advice.most_cells < 2:
        return f"{sentence}; single {item}s can be read on no map."
    return f"{sentence}; read single {item}s {where} of at most {most} alone."


def _maps_section(drawn: Picture | None, map_file: str | None, peak: int | None) -> Section:
    """Maps of generated days by the time of day, their flows, and their rhythm."""
    lead, drawings = "Made-up people on the public grid, none of them real.", list[Chart]()
    link = [] if map_file is None else [blocks.Link(map_file, "The map", "shows their trips by the time of day.")]
    if drawn is not None:
        drawings = [*_map_charts(drawn), *_flow_charts(drawn.flows, drawn.outlines), _rhythm_chart(drawn.moving, peak)]
        outside = round(100 * (1 - float(drawn.shares.sum(axis=1).mean())), 6)
        lead += f" About {outside:.2g} % of the days are outside these pictures." if outside >= 0.1 else ""
    return Section("Where generated days are", (*link, *blocks.make_grid(drawings)), lead, "where", before=True)


def _map_charts(drawn: Picture) -> list[Chart]:
    frame, top = map_frame(drawn.outlines), max(1e-12, float(np.quantile(drawn.shares[drawn.shares > 0], 0.998)))
    drawings = []
    for slot, shares in zip(TIMES, drawn.shares, strict=True):
        busiest = float(shares.max())
        title = f"Where generated days are at {clock(slot)}; at most {100 * busiest:.2g} % of them in one block"
        chart = density_map(drawn.outlines, shares, top=top, frame=frame, title=title)
        drawings.append(Chart(clock(slot), f"darkest: {100 * top:.2g} % of the days or more", chart))
    return drawings


def _flow_charts(flows: Array, outlines: Array) -> list[Chart]:
    if not len(flows):
        return []
    largest, count = 1000 * float(flows[0, 4]), len(flows)
    title = f"The {count} largest flows between blocks; the widest is {largest:.3g} moves per 1,000 days"
    note = f"the {count} largest flows; the widest is {largest:.3g} per 1,000 days"
    return [Chart("All day", note, flow_map(flows, frame=map_frame(outlines), title=title))]


def _rhythm_chart(moving: Array, peak: int | None) -> Chart:
    hours, share = np.arange(1, len(moving) + 1) / 2, 100 * moving
    most = "none stands out" if peak is None else f"most at {clock(peak + 1)}, {share[peak]:.3g} %"
    drawn = charts.line_chart(
        [charts.ChartLine("synthetic", hours, share)],
        title=f"Share of generated days that change their cell, by time; {most}",
        x=ChartAxis("hour of the day", 0.0, 24.0, marks=(0.0, 6.0, 12.0, 18.0, 24.0)),
        y=ChartAxis("change their place, %", 0.0, max(1.0, 1.1 * float(share.max()))),
    )
    return Chart("Rhythm", "share of the days that change their place", drawn)


def _closeness_section(lines: Sequence[MeasureSummary], people: str) -> Section:
    """Divergences on one logarithmic scale, and in a table: other people, generated days, noise alone."""
    lead = (
        f"Jensen-Shannon divergences between generated days and those of {people}; less is closer. The floor is what "
        "these people differ from one another, half against half. Every day counts alike, "
        "but for the column where each person does."
    )
    legend = [("generated days", "synthetic"), ("floor: other people", "reference")]
    controlled = any(line.control is not None for line in lines)
    if controlled:
        lead += " Noise alone is a simulator of the same noise to which nobody added anything."
        legend.append(("noise alone", "control-0"))
    summaries, drawn, rows = [], [], []
    for line in lines:
        name, meaning = _MEASURES.get(line.measure, (line.measure, ""))
        summaries.append(f"{name} {number(line.value.value)}, floor {number(line.floor.value)}")
        order = ("reference", line.floor), ("control-0", line.control), ("synthetic", line.value)
        drawn.append((name, [(style, bar.value, bar.low, bar.high) for style, bar in order if bar is not None]))
        values = {"Generated": line.value.value, "Each person once": line.alike, "Floor": line.floor.value}
        cells = {name: f"{value:.4f}" for name, value in values.items()}
        if controlled:
            cells["Noise alone"] = "–" if line.control is None else f"{line.control.value:.4f}"
        rows.append(blocks.TableRow(name, cells | {"Verdict": line.verdict}, f"{line.measure}: {meaning}"))
    x = ChartAxis("divergence in nats, 0.69 at most", _MIN_DIVERGENCE, 1.0, log=True)
    title = f"Divergences from the simulated people: {'; '.join(summaries)}"
    chart = Chart("", "", charts.interval_chart(drawn, title=title, x=x), legend)
    content: tuple[Block, ...] = (chart, *blocks.make_table("Measure", rows)) if lines else ()
    return Section("How close they are", content, lead, "close", before=True)


def density_map(outlines: Array, shares: Array, *, top: float, frame: Array, title: str) -> str:
    """Blocks as strong as the share of days in them."""
    # outlines: [n, k, 2] latitude and longitude; shares: [n]; frame: [2, 2] south-west and north-east of the map
    svg, place = _empty_map(frame, title)
    levels = np.minimum((_LEVELS * np.cbrt(shares / top)).astype(int), _LEVELS - 1)
    for level in range(_LEVELS):
        at_level = np.flatnonzero((levels == level) & (shares > 0))
        corners = place(outlines[at_level])
        path = "".join("M" + "L".join(f"{fmt(x)} {fmt(y)}" for x, y in outline) + "Z" for outline in corners.tolist())
        if path:
            strength = {"class": "level", "fill-opacity": fmt(0.12 + 0.83 * level / (_LEVELS - 1))}
            SubElement(svg, "path", {**strength, "d": path})
    return markup(svg)


def flow_map(flows: Array, *, frame: Array, title: str) -> str:
    """Arcs from origins to destinations, bent to the right, as wide as there are moves; a dot is where they end."""
    # flows: [m, 5] latitude and longitude of origin and destination, moves, the largest first
    svg, place = _empty_map(frame, title)
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


def map_frame(outlines: Array) -> Array:
    """South-west and north-east [2, 2] of a map on which all outlines [n, k, 2] lie, in the shape of the chart."""
    low, high = outlines.min(axis=(0, 1)), outlines.max(axis=(0, 1))
    wide = math.cos(math.radians((low[0] + high[0]) / 2))
    up, across = high[0] - low[0], (high[1] - low[1]) * wide
    sides = 1.04 * np.array([max(up, across * _HEIGHT / WIDTH), max(across, up * WIDTH / _HEIGHT)])
    middle, half = (low + high) / 2, sides / np.array([2.0, 2.0 * wide])
    return np.stack([middle - half, middle + half])


def _empty_map(frame: Array, title: str) -> tuple[Element, Callable[[Array], Array]]:
    """An empty map, and the coordinates [n, k, 2] of points [n, k, 2] (latitude, longitude) on it."""
    svg = canvas(title, _HEIGHT, floor=True)

    def place(points: Array) -> Array:
        part: Array = (points - frame[0]) / (frame[1] - frame[0])
        return np.stack([WIDTH * part[..., 1], _HEIGHT * (1.0 - part[..., 0])], axis=-1)

    return svg, place
