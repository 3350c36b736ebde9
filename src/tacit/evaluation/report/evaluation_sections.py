"""The sections of the report of an evaluation: from public inputs to sentences, charts and table rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from tacit.evaluation.report import settings
from tacit.evaluation.report.charts import Line, bar_chart, estimate_chart, histogram_chart, line_chart, surface_chart
from tacit.evaluation.report.evaluation import EvaluationReport, Overlap
from tacit.evaluation.report.svg import Axis, number, span
from tacit.methods.off_policy_evaluation.problem import Interval

_MOSTLY = 0.9
"""An interval this wide, in shares of the range, says next to nothing."""
_AT_END = 1e-6
"""An estimate this near to an end of the range, in shares of it, is at the end."""
_NAMES = {
    "rounds": "rounds of correction",
    "multiplier": "clip of a round, in multiples of the mean size",
    "tau": "assumed spread of the values of states, in shares of the range",
    "trace": "trace: 1 for full returns",
    "shares: scores": "share of the budget: returns and interval",
    "shares: centre": "share of the budget: mean return to begin with",
    "shares: gram": "share of the budget: how often states are met",
    "shares: scale": "share of the budget: clips of the rounds",
    "shares: range": "share of the budget: range of values",
    "level": "level of the interval",
    "target": "digest of the evaluated policy",
    "centre": "mean return that the values began with",
}
"""Settings and diagnostics that their names alone do not explain."""


def answer(report: EvaluationReport) -> dict[str, Any]:
    """Headline, interval, values of states, overlap, settings and assumptions for the template."""
    certificate = report.certificate
    problem = certificate["plan"]["problem"]
    unit = str(certificate["unit"]["name"])
    return {
        "eyebrow": "What the policy is worth",
        "answer": _headline(report),
        "answer_details": _question(report, problem, unit),
        "cautions": cautions(report),
        "answer_figures": _figures(report),
        "interval_chart": _interval_chart(report),
        "reading": [] if report.interval is None else _reading(report.interval, unit),
        "states": _states(report),
        "states_lead": _states_lead(report),
        "overlap": None if report.overlap is None else _overlap(report.overlap),
        "settings": _settings(certificate["plan"]),
        "found": report.diagnostics,
        "assumptions": list(certificate["assumptions"]),
        "not_covered": list(certificate["not_covered"]),
    }


def _headline(report: EvaluationReport) -> str:
    interval, (value, low, high) = report.interval, told(report.value, report.interval)
    if report.value is None:
        return "What each state is worth under this policy."
    if interval is not None and interval.kind == "lower":
        return f"An episode under this policy is worth at least {low}."
    if interval is not None and interval.kind == "upper":
        return f"An episode under this policy is worth at most {high}."
    return f"An episode under this policy is worth about {value}."


def told(value: float | None, interval: Interval | None) -> tuple[str, str, str]:
    """Value, low and high end with as many digits as the interval's width bears; the ends are rounded outwards."""
    value = 0.0 if value is None else value
    if interval is None:
        return number(value), "", ""
    width = max(interval.high - interval.low, 1e-3 * max(abs(interval.low), abs(interval.high)), 1e-12)
    unit = 10.0 ** (math.floor(math.log10(width)) - 1)
    low, high = math.floor(interval.low / unit + 1e-9) * unit, math.ceil(interval.high / unit - 1e-9) * unit
    return number(round(value / unit) * unit), number(low), number(high)


def _question(report: EvaluationReport, problem: Mapping[str, Any], unit: str) -> list[str]:
    worth = (
        f"the expected sum of rewards over the first {problem['horizon']:,} steps"
        if problem["gamma"] == 1
        else f"the expected sum of rewards over the first {problem['horizon']:,} steps, each step's reward counted "
        f"{number(problem['gamma'])} times as much as the one before"
    )
    text = f"Evaluated: {report.policy}. Worth means {worth}; every {unit} weighs the same."
    if report.value is None:
        text += f" {report.certificate['method']} estimates a function of the state; it gives no figure for all starts."
    return [text]


def _figures(report: EvaluationReport) -> list[tuple[str, str, str]]:
    interval, (value, low, high) = report.interval, told(report.value, report.interval)
    figures = []
    if report.value is not None:
        note = "from the start of an episode" + ("; trust the interval more" if interval is not None else "")
        figures.append(("Estimate", value, note))
    if interval is not None:
        ends = {"two_sided": f"{low} to {high}", "lower": f"from {low}", "upper": f"up to {high}"}
        kind = "both ends are bounds" if interval.kind == "two_sided" else f"a {interval.kind} bound, on one side"
        figures.append((f"{_percent(interval.level)} interval", ends[interval.kind], kind))
    lowest, highest = (number(end) for end in report.limits)
    found = _finds_range(report.certificate["plan"])
    how = "of values, found privately" if found else "of values, declared without the records"
    figures.append(("Private range" if found else "Public range", f"{lowest} to {highest}", how))
    method, source = str(report.certificate["method"]), str(report.certificate["source"])
    return [*figures, ("Method", method.partition("(")[2].rstrip(")") or method, source)]


def _interval_chart(report: EvaluationReport) -> Markup | None:
    interval, written = report.interval, told(report.value, report.interval)
    if interval is None or report.value is None:
        return None
    return estimate_chart(
        report.value,
        interval.low,
        interval.high,
        written,
        title=f"Value of the policy: {written[0]}, interval from {written[1]} to {written[2]}, on the public range",
        x=Axis("value of an episode", *report.limits),
    )


def cautions(report: EvaluationReport) -> list[str]:
    """What to think of before the answer is believed, in sentences; mostly there is nothing."""
    (low, high), interval, plan = report.limits, report.interval, report.certificate["plan"]
    lines = []
    if interval is not None and interval.high - interval.low >= _MOSTLY * (high - low):
        lines.append("The interval fills the range, or nearly so: these records do not tell at this epsilon.")
    if report.value is not None and min(report.value - low, high - report.value) <= _AT_END * (high - low):
        kind = "declared range"
        if plan["problem"]["return_range"] is None:
            kind = "range that was found" if _finds_range(plan) else "range that the reward's declared bounds allow"
        lines.append(f"The estimate is at an end of the range: the {kind} may be too narrow.")
    return lines


def _finds_range(plan: Mapping[str, Any]) -> bool:
    return plan.get("range_finder") is True and plan["problem"]["return_range"] is None


def _reading(interval: Interval, unit: str) -> list[str]:
    hundred = f"{100 * interval.level:g} of 100"
    if interval.kind == "two_sided":
        lines = [
            f"Were all of this repeated, with other {unit}s from the same population and with fresh noise, at least "
            f"about {hundred} such intervals would hold the policy's true value."
        ]
    else:
        side = "below" if interval.kind == "lower" else "above"
        lines = [
            f"This is a bound on one side. Were all of this repeated, with other {unit}s and fresh noise, the true "
            f"value would lie {side} it in at most about {100 * (1 - interval.level):.3g} of 100 cases. Nothing is "
            "said about the other side: there, the bar ends at the public range."
        ]
    lines.append(f"How it was made: {interval.words}.")
    lines.append(
        "It does not count what no records show: propensities or a behaviour policy that are wrong, rewards outside "
        f"their public bounds, or {unit}s who differ from those whom the policy will meet."
    )
    return lines


def _states(report: EvaluationReport) -> list[dict[str, Any]]:
    items = []
    every = [line.values for line in report.lines]  # one scale, so that the dimensions can be compared
    for line in report.lines:
        ends = f"{number(float(line.values.min()))} to {number(float(line.values.max()))}"
        title = f"Values along {line.label}: {ends}"
        if line.discrete:
            scale = span("value", np.zeros(1), line.values)
            chart = bar_chart(line.values, title=title, x_label=line.label, y=scale)
        else:
            x = Axis(line.label, float(line.x[0]), float(line.x[-1]))
            drawn = [Line("synthetic", line.x, line.values)]
            chart = line_chart(drawn, title=title, x=x, y=span("value", *every))
        items.append({"label": f"Value by {line.label}", "note": ends, "chart": chart})
    surface = report.surface
    if surface is not None:
        low, high = float(surface.values.min()), float(surface.values.max())
        x, y = (
            Axis(label, float(a), float(b))
            for label, a, b in zip(surface.labels, surface.low, surface.high, strict=True)
        )
        chart = surface_chart(
            surface.values,
            title=f"Values over {surface.labels[0]} and {surface.labels[1]}: {number(low)} to {number(high)}",
            x=x,
            y=y,
            scale=Axis("value", low, high if high > low else low + 1.0),
        )
        items.append({"label": "Value over the public bounds", "note": "stronger is worth more", "chart": chart})
    return items


def _states_lead(report: EvaluationReport) -> str:
    worth = "What a state is worth when the episode goes on beyond the horizon"
    if report.value is None:
        worth = "What the rest of an episode is worth from each state, as far as the records follow it"
    text = (
        f"{worth}, as the released value function has it. These figures have no intervals: where few records lie, "
        "noise and the public starting point decide."
    )
    if report.lines and not report.lines[0].discrete and len(report.lines) > 1:
        text += " One dimension at a time; the others stay in the middle of their public bounds."
    return text


def _overlap(overlap: Overlap) -> dict[str, Any]:
    lead = (
        "Records tell about the evaluated policy in so far as the behaviour policy acted like it. An episode of weight "
        "1 would have been made as often by either; one of a small weight hardly counts, and a few of large weights "
        "outvote all others."
    )
    chart = histogram_chart(
        overlap.edges,
        None,
        overlap.shares,
        title="Importance weights of the episodes, on a scale of powers of ten",
        x_label="weight of an episode, power of ten",
        y_label="episodes, %",
    )
    return {
        "lead": lead,
        "label": "Importance weights",
        "note": "share of episodes in each bin, noisy",
        "chart": chart,
        "words": overlap.words,
    }


def _settings(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The plan's fields for people; the promise itself stands elsewhere on the page."""
    unused = settings.STATED | ({"prior"} if plan.get("prior") is None else set())
    if not _finds_range(plan):
        unused |= {"shares: range"} | ({"shares: centre"} if plan.get("on_policy") is True else set())
    return settings.pairs(plan, _NAMES, unused)


def words(name: str) -> str:
    """A setting's or diagnostic's name for people."""
    return settings.named(name, _NAMES)


def _percent(level: float) -> str:
    return f"{100 * level:g} %"
