"""The sections of the report of a simulator of movement: from public inputs to sentences and charts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from tacit.data.mobility.trips import clock
from tacit.evaluation.movement.divergences import SEQ, MapAdvice, Value
from tacit.evaluation.movement.divergences import Line as Measured
from tacit.evaluation.report import settings
from tacit.evaluation.report.charts import Line, line_chart
from tacit.evaluation.report.movement import TIMES, MovementReport, Picture
from tacit.evaluation.report.movement_charts import close_chart, density_map, flow_map, frame_of
from tacit.evaluation.report.svg import Axis, number

_NAMES = {
    "days": "days of a person that are read",
    "people": "people",
    "noise": "who adds the noise",
    "noise_multiplier": "noise multiplier",
    "clip": "largest norm of an answer",
    "floor": "fewest answers",
    "rounds": "rounds",
    "box": "declared to hold nearly all homes",
    "layout: times": "blocks of a day",
    "layout: counts": "bins of places so far, from",
    "layout: stays": "bins of half-hours in a stay, from",
    "weights: stay": "weight of staying",
    "weights: day": "weight of whole days",
    "shares": "shares of the budget",
    "shares: starts": "share of the budget for where days begin",
    "shares: jumps": "share of the budget for how far people explore",
    "matching: rounds": "rounds of imitation, without the records",
    "matching: kinds": "latent kinds of days",
    "rows_per_unit": "rows of a person that are read",
}
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


def moved(report: MovementReport) -> dict[str, Any]:
    """Headline, what not to read, pictures, comparisons, settings and limits for the template."""
    certificate, drawn = report.certificate, report.picture
    simulated = certificate.get("simulated") is True
    return {
        "eyebrow": "What was made",
        "answer": _headline(drawn),
        "answer_details": _details(report),
        "answer_figures": [] if drawn is None else _figures(drawn, report.days),
        "unusable": _unusable(report),
        "maps": [] if drawn is None else _maps(drawn),
        "flows": None if drawn is None or not len(drawn.flows) else _flows(drawn),
        "rhythm": None if drawn is None else _rhythm(drawn),
        "map": report.map,
        "outside": 0.0 if drawn is None else round(100 * (1 - float(drawn.shares.sum(axis=1).mean())), 6),
        "close_chart": _close(report.lines) if report.lines else None,
        "close_rows": [_row(line) for line in report.lines],
        "control": any(line.control is not None for line in report.lines),
        "of_whom": "the simulated people" if simulated else "people",
        "settings": settings.pairs(certificate["plan"], _NAMES, _unstated(certificate["plan"])),
        "covered": list(certificate["covered"]),
        "assumptions": list(certificate["assumptions"]),
        "not_covered": list(certificate["not_covered"]),
    }


def _unstated(plan: Mapping[str, Any]) -> frozenset[str]:
    """Fields that stand elsewhere on the page, and those that were not declared."""
    return settings.STATED | {name for name, value in plan.items() if value is None}


def _headline(drawn: Picture | None) -> str:
    if drawn is None:
        return "A simulator of people's days, from which any number of days can be drawn."
    places, moves = number(float(f"{drawn.places:.2g}")), number(float(f"{drawn.moves:.2g}"))
    return f"A generated day goes to {places} different places in {moves} moves."


def _details(report: MovementReport) -> list[str]:
    return [
        f"Made by {report.method}.",
        f"What this page shows of movement was counted on {report.days:,} generated days. Drawing days, however many, "
        "costs no privacy; nobody lived them.",
        *(_advised(advice) for advice in report.advice if advice.usable),
    ]


def _figures(drawn: Picture, days: int) -> list[tuple[str, str, str]]:
    peak = int(drawn.moving.argmax())
    return [
        ("Places a day", number(float(f"{drawn.places:.3g}")), "different cells, on average"),
        ("Moves a day", number(float(f"{drawn.moves:.3g}")), "changes of cell, on average"),
        ("Busiest", clock(peak + 1), f"when {100 * drawn.moving[peak]:.0f} of 100 change their place"),
        ("Staying put", f"{100 * drawn.still:.0f} %", f"of {days:,} days are spent in one cell"),
    ]


def _unusable(report: MovementReport) -> list[str]:
    """What the noise forbids: the certificate's own words first, then the advice on maps."""
    told = [
        line.removeprefix(_UNUSABLE)
        for line in map(str, report.certificate.get("not_protected", ()))
        if line.startswith(_UNUSABLE)
    ]
    lines = [line[:1].upper() + line[1:] + ("" if line.endswith(".") else ".") for line in told]
    return lines + [_advised(advice) for advice in report.advice if not advice.usable]


def _advised(advice: MapAdvice) -> str:
    """The advice on one kind of map in a sentence."""
    name = advice.map[:1].upper() + advice.map[1:]
    error = number(float(f"{advice.relative_error:.2g}"))
    one, where, most = "cell", "on maps", f"{advice.most_cells:,} cells"
    if advice.map == PAIRS:
        one, where = "pair", "in tables"
        most = f"{advice.most_cells:,} pairs ({math.isqrt(advice.most_cells):,} cells)"
    of = "pairs of cells" if advice.map == PAIRS else "cells"
    told = f"{name}: over {number(advice.cells)} {of} the noise is {error} times what a mean {one} holds"
    if advice.usable:
        return f"{told}; they can be read."
    if advice.most_cells < 2:
        return f"{told}; single {one}s can be read on no map."
    return f"{told}; read single {one}s {where} of at most {most} alone."


def _maps(drawn: Picture) -> list[dict[str, Any]]:
    frame, top = frame_of(drawn.outlines), max(1e-12, float(np.quantile(drawn.shares[drawn.shares > 0], 0.998)))
    found = []
    for slot, shares in zip(TIMES, drawn.shares, strict=True):
        busiest = float(shares.max())
        title = f"Where generated days are at {clock(slot)}; at most {100 * busiest:.2g} % of them in one block"
        chart = density_map(drawn.outlines, shares, top=top, frame=frame, title=title)
        found.append({"label": clock(slot), "note": f"darkest: {100 * top:.2g} % of the days or more", "chart": chart})
    return found


def _flows(drawn: Picture) -> dict[str, Any]:
    largest = 1000 * float(drawn.flows[0, 4])
    title = f"The {len(drawn.flows)} largest flows between blocks; the widest is {largest:.3g} moves per 1,000 days"
    chart = flow_map(drawn.flows, frame=frame_of(drawn.outlines), title=title)
    note = f"the {len(drawn.flows)} largest flows; the widest is {largest:.3g} per 1,000 days"
    return {"label": "All day", "note": note, "chart": chart}


def _rhythm(drawn: Picture) -> Markup:
    hours, share = np.arange(1, len(drawn.moving) + 1) / 2, 100 * drawn.moving
    peak = int(share.argmax())
    title = f"Share of generated days that change their cell, by time; most at {clock(peak + 1)}, {share[peak]:.3g} %"
    x = Axis("hour of the day", 0.0, 24.0, marks=(0.0, 6.0, 12.0, 18.0, 24.0))
    y = Axis("change their place, %", 0.0, max(1.0, 1.1 * float(share.max())))
    return line_chart([Line("synthetic", hours, share)], title=title, x=x, y=y)


def _close(lines: tuple[Measured, ...]) -> Markup:
    def three(value: Value) -> tuple[float, float, float]:
        return value.value, value.low, value.high

    rows = [
        (
            _MEASURES.get(line.measure, (line.measure, ""))[0],
            three(line.value),
            three(line.floor),
            None if line.control is None else three(line.control),
        )
        for line in lines
    ]
    told = "; ".join(f"{name} {number(value[0])}, floor {number(floor[0])}" for name, value, floor, _ in rows)
    return close_chart(rows, title=f"Divergences from the simulated people: {told}")


def _row(line: Measured) -> dict[str, Any]:
    name, meaning = _MEASURES.get(line.measure, (line.measure, ""))
    values = [line.value, line.floor, *([] if line.control is None else [line.control])]
    cells = [f"{value.value:.4f}" for value in values]
    return {"measure": name, "meaning": f"{line.measure}: {meaning}", "cells": cells, "verdict": line.verdict}
