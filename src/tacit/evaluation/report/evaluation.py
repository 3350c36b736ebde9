"""The report of an evaluation: public numbers alone, the value of a policy and the values of states."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.data.spec import Box, Discrete, PublicSpec, Space
from tacit.evaluation.report import blocks, charts
from tacit.evaluation.report.blocks import Block, Certified, Chart, Facts, Paragraphs, Section, make_grid, setting_pairs
from tacit.evaluation.report.charts import Array, ChartAxis, number, span
from tacit.methods.off_policy_evaluation.problem import Evaluation, Interval
from tacit.units import noun

_LINE, _SIDE, _LINES = 121, 41, 24
"""Points of a line, cells of a side of a surface, and lines at most."""
_WIDE_INTERVAL = 0.9
"""An interval this wide, in shares of the range, says next to nothing."""
_AT_END = 1e-6
"""An estimate this near to an end of the range, in shares of it, is at the end."""


@dataclass(frozen=True)
class ValueLine:
    """Values [N] along one dimension of the observation."""

    label: str  # the dimension
    x: Array  # [N] positions on it; the numbers 0 .. N - 1 where the observation is discrete.
    values: Array  # [N]
    discrete: bool = False  # whether the observation is discrete


@dataclass(frozen=True)
class ValueSurface:
    """Values over the public bounds of a two-dimensional observation, at the middles of equal cells."""

    labels: tuple[str, str]  # the two dimensions
    low: Array  # low, high: [2] public bounds
    high: Array
    values: Array  # [rows, columns]; columns run along the first dimension


def sections(
    certificate: Certified,
    evaluation: Evaluation,
    spec: PublicSpec,
    *,
    policy: str,
    overlap: Mapping[str, Any] | None = None,
) -> tuple[Section, ...]:
    """What the page of an evaluation says besides the promise; it has no place for a record.

    Args:
        certificate: of the evaluation.
        evaluation: what was released, with the range of its values.
        spec: the public bounds.
        policy: the evaluated policy in words.
        overlap: how alike it and the behaviour policy are: the diagnostics of a released `OverlapPlan`, or None.
    """
    # Public numbers that fit into one cell of a table.
    single = {name: figure for name, figure in evaluation.diagnostics.items() if isinstance(figure, int | float)}
    rows = [(name.replace("_", " "), number(float(figure))) for name, figure in single.items()]
    facts = (Facts(rows, "pairs", "Released along with the answer"),) if rows else ()
    plan = certificate["plan"]
    unused = blocks.STATED | ({"prior"} if plan.get("prior") is None else set())
    if not _is_private(plan):
        unused |= {"shares: range"} | ({"shares: centre"} if plan.get("on_policy") is True else set())
    pairs = setting_pairs(certificate, unused)
    return (
        _answer_section(certificate, evaluation, policy),
        _interval_section(certificate, evaluation),
        _states_section(evaluation, spec),
        _overlap_section(overlap),
        blocks.settings_section(pairs, *facts, resting="The promise and the interval rest"),
        blocks.limits_section(certificate, covered=False),
    )


def value_lines(evaluation: Evaluation, spec: PublicSpec) -> tuple[ValueLine, ...]:
    """The value function for people: every state of a discrete observation; else along each dimension, at most 24, with
    the others in the middle of their public bounds. None of two dimensions, which `value_surface` shows."""
    space = spec.observation
    if evaluation.theta is None or _is_plane(space):
        return ()
    if isinstance(space, Discrete):
        states = np.arange(space.n)
        return (ValueLine("state", states.astype(np.float64), evaluation.values(states), discrete=True),)
    low, high = np.array(space.low), np.array(space.high)
    lines = []
    for index in range(min(space.size, _LINES)):
        middle = np.where(space.whole, np.floor((low + high) / 2), (low + high) / 2)
        labels = space.categories[index]
        points = np.tile(middle, (labels or _LINE, 1))
        points[:, index] = np.linspace(low[index], high[index], labels or _LINE)
        values = evaluation.values(points.astype(np.float32))
        lines.append(ValueLine(spec.names("observations")[index], points[:, index], values, discrete=labels > 0))
    return tuple(lines)


def _is_plane(space: Space) -> bool:
    return isinstance(space, Box) and space.size == 2 and not any(space.categories)


def value_surface(evaluation: Evaluation, spec: PublicSpec) -> ValueSurface | None:
    """The value function over a two-dimensional observation; None for any other."""
    space = spec.observation
    if evaluation.theta is None or not isinstance(space, Box) or not _is_plane(space):
        return None
    low, high = np.array(space.low), np.array(space.high)
    middles = (np.arange(_SIDE) + 0.5) / _SIDE
    x, y = np.meshgrid(low[0] + middles * (high[0] - low[0]), low[1] + middles * (high[1] - low[1]))
    points = np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32)
    (first, second) = spec.names("observations")
    return ValueSurface((first, second), low, high, evaluation.values(points).reshape(_SIDE, _SIDE))


def _answer_section(certificate: Certified, evaluation: Evaluation, policy: str) -> Section:
    interval, (value, low, high) = evaluation.interval, format_estimate(evaluation.value, evaluation.interval)
    headline = f"An episode under this policy is worth about {value}."
    if evaluation.value is None:
        headline = "What each state is worth under this policy."
    elif interval is not None and interval.kind == "lower":
        headline = f"An episode under this policy is worth at least {low}."
    elif interval is not None and interval.kind == "upper":
        headline = f"An episode under this policy is worth at most {high}."
    difference = evaluation.difference
    if difference is not None and difference.interval is not None and _fills_range(evaluation):
        headline = str(difference)  # the value is not known, and this is
    problem, method = certificate["plan"]["problem"], str(certificate["method"])
    worth = f"the expected sum of rewards over the first {problem['horizon']:,} steps"
    if problem["gamma"] != 1:
        worth += f", each step's reward counted {number(problem['gamma'])} times as much as the one before"
    question = f"Evaluated: {policy}. Worth means {worth}; every {noun(certificate['unit']['name'])} weighs the same."
    if evaluation.value is None:
        question += f" {method} estimates a function of the state; it gives no figure for all starts."
    figures = []
    if evaluation.value is not None:
        note = "from the start of an episode" + ("; trust the interval more" if interval is not None else "")
        figures.append(("Estimate", value, note))
    if interval is not None:
        ends = {"two_sided": f"{low} to {high}", "lower": f"from {low}", "upper": f"up to {high}"}
        kind = "both ends are bounds" if interval.kind == "two_sided" else f"a {interval.kind} bound, on one side"
        figures.append((f"{100 * interval.level:g} % interval", ends[interval.kind], kind))
    verdict = list[Block]()
    if difference is not None:
        change, least, most = format_estimate(difference.value, difference.interval)
        said = "" if difference.interval is None else f"; {least} to {most} at {100 * difference.interval.level:g} %"
        figures.append(("Difference to today's practice", change, f"following it {difference.extent}{said}"))
        verdict = [] if headline == str(difference) else [Paragraphs([str(difference)], "lead")]
    private = _is_private(certificate["plan"])
    lowest, highest = (number(end) for end in _value_range(evaluation))
    how = "of values, found privately" if private else "of values, declared without the records"
    figures.append(("Private range" if private else "Public range", f"{lowest} to {highest}", how))
    figures.append(("Method", method.partition("(")[2].rstrip(")") or method, str(certificate["source"])))
    lines = cautions(certificate, evaluation)
    caution = [Paragraphs(lines, "lead caution")] if lines else []
    content: list[Block] = [Paragraphs([question]), *verdict, *caution, Facts(figures)]
    return blocks.opening_section(headline, content, eyebrow="What the policy is worth", hero="The estimate")


def _value_range(evaluation: Evaluation) -> tuple[float, float]:
    assert evaluation.limits is not None, "a released evaluation has the range of its values"
    return evaluation.limits


def format_estimate(value: float | None, interval: Interval | None) -> tuple[str, str, str]:
    """Value, low and high end with as many digits as the interval's width bears; the ends are rounded outwards."""
    value = 0.0 if value is None else value
    if interval is None:
        return number(value), "", ""
    width = max(interval.high - interval.low, 1e-3 * max(abs(interval.low), abs(interval.high)), 1e-12)
    unit = 10.0 ** (math.floor(math.log10(width)) - 1)
    low, high = math.floor(interval.low / unit + 1e-9) * unit, math.ceil(interval.high / unit - 1e-9) * unit
    return number(round(value / unit) * unit), number(low), number(high)


def _interval_section(certificate: Certified, evaluation: Evaluation) -> Section:
    interval, content = evaluation.interval, list[Block]()
    if interval is not None and evaluation.value is not None:
        written = format_estimate(evaluation.value, interval)
        drawn = charts.estimate_chart(
            evaluation.value,
            (interval.low, interval.high),
            written,
            title=f"Value of the policy: {written[0]}, interval from {written[1]} to {written[2]}, on the public range",
            x=ChartAxis("value of an episode", *_value_range(evaluation)),
        )
        words = _interval_sentences(interval, noun(certificate["unit"]["name"]), modelled=_has_model(certificate))
        note = "line: the estimate; bar: its interval; nothing beyond the ends was possible from the start"
        content = [Chart("On the public range", note, drawn), Paragraphs(words, "prose")]
    return Section("How to read the interval", make_grid(content, wide=True), id="interval", before=True)


def cautions(certificate: Certified, evaluation: Evaluation) -> list[str]:
    """What to think of before the answer is believed, in sentences; mostly there is nothing."""
    (low, high), interval, plan = _value_range(evaluation), evaluation.interval, certificate["plan"]
    value, lines = evaluation.value, []
    if _fills_range(evaluation):
        what = "interval" if evaluation.difference is None else "value's interval"
        lines.append(f"The {what} fills the range, or nearly so: these records do not tell at this epsilon.")
    if _has_model(certificate):
        share = number(100 * plan["behaviour_model"]["share"])
        lines.append(
            f"A private model, on which {share} % of the budget was spent, stands for the behaviour policy: the "
            "interval does not count its error."
        )
    if evaluation.standing is not None:
        lines.append(f"{evaluation.standing[0].upper()}{evaluation.standing[1:]}.")
    elif value is not None and interval is None:
        lines.append("There is no interval: the records have no propensities, and a regression has none to trust.")
    if value is not None and min(value - low, high - value) <= _AT_END * (high - low):
        kind = "declared range"
        if plan["problem"]["return_range"] is None:
            kind = "range that was found" if _is_private(plan) else "range that the reward's declared bounds allow"
        lines.append(f"The estimate is at an end of the range: the {kind} may be too narrow.")
    return lines


def _fills_range(evaluation: Evaluation) -> bool:
    (low, high), interval = _value_range(evaluation), evaluation.interval
    return interval is not None and interval.high - interval.low >= _WIDE_INTERVAL * (high - low)


def _is_private(plan: Mapping[str, Any]) -> bool:
    return plan.get("range_finder") is True and plan["problem"]["return_range"] is None


def _has_model(certificate: Certified) -> bool:
    return certificate["plan"].get("behaviour_model") is not None


def _interval_sentences(interval: Interval, unit: str, *, modelled: bool) -> list[str]:
    hundred = f"{100 * interval.level:g} of 100"
    truth = "mean of the clipped returns as this model weighs them" if modelled else "policy's true value"
    if interval.kind == "two_sided":
        lines = [
            f"Were all of this repeated, with other {unit}s from the same population and with fresh noise, at least "
            f"about {hundred} such intervals would hold the {truth}."
        ]
    else:
        side = "below" if interval.kind == "lower" else "above"
        lines = [
            f"This is a bound on one side. Were all of this repeated, with other {unit}s and fresh noise, the "
            f"{truth} would lie {side} it in at most about {100 * (1 - interval.level):.3g} of 100 cases. Nothing is "
            "said about the other side: there, the bar ends at the public range."
        ]
    lines.append(f"How it was made: {interval.words}.")
    lines.append(
        "It does not count what no records show: propensities or a behaviour policy that are wrong, rewards outside "
        f"their public bounds, or {unit}s who differ from those whom the policy will meet."
    )
    return lines


def _states_section(evaluation: Evaluation, spec: PublicSpec) -> Section:
    lines, title = value_lines(evaluation, spec), "State by state"
    worth = "What a state is worth when the episode goes on beyond the horizon"
    if evaluation.value is None:
        worth = "What the rest of an episode is worth from each state, as far as the records follow it"
    lead = (
        f"{worth}, as the released value function has it. These figures have no intervals: where few records lie, "
        "noise and the public starting point decide."
    )
    if len(lines) > 1 and not lines[0].discrete:
        lead += " One dimension at a time; the others stay in the middle of their public bounds."
    drawings = _line_charts(lines) + _surface_charts(value_surface(evaluation, spec))
    if len(drawings) == 1:
        beside = make_grid([*drawings, Paragraphs([lead], "prose")], wide=True)
        return Section(title, beside, id="states", before=True)
    return Section(title, make_grid(drawings), lead, "states", before=True)


def _line_charts(lines: Sequence[ValueLine]) -> list[Chart]:
    drawings, every = [], [line.values for line in lines]  # one scale, so that the dimensions can be compared
    for line in lines:
        ends = f"{number(float(line.values.min()))} to {number(float(line.values.max()))}"
        title = f"Values along {line.label}: {ends}"
        if line.discrete:
            y = span("value", np.zeros(1), line.values)
            drawn = charts.bar_chart(line.values, title=title, x_label=line.label, y=y)
        else:
            x = ChartAxis(line.label, float(line.x[0]), float(line.x[-1]))
            drawn = charts.line_chart(
                [charts.ChartLine("synthetic", line.x, line.values)], title=title, x=x, y=span("value", *every)
            )
        drawings.append(Chart(f"Value by {line.label}", ends, drawn))
    return drawings


def _surface_charts(surface: ValueSurface | None) -> list[Chart]:
    if surface is None:
        return []
    low, high = float(surface.values.min()), float(surface.values.max())
    ends = zip(surface.labels, surface.low, surface.high, strict=True)
    x, y = (ChartAxis(label, float(a), float(b)) for label, a, b in ends)
    drawn = charts.surface_chart(
        surface.values,
        title=f"Values over {surface.labels[0]} and {surface.labels[1]}: {number(low)} to {number(high)}",
        x=x,
        y=y,
        scale=ChartAxis("value", low, high if high > low else low + 1.0),
    )
    return [Chart("Value over the public bounds", "stronger is worth more", drawn)]


def _overlap_section(overlap: Mapping[str, Any] | None) -> Section:
    content: list[Block] = []
    if overlap is not None:
        weights = {name: np.array(values, np.float64) for name, values in overlap["log10_weights"].items()}
        drawn = charts.histogram_chart(
            weights["edges"],
            None,
            weights["shares"],
            title="Importance weights of the episodes, on a scale of powers of ten",
            x_label="weight of an episode, power of ten",
            y_label="episodes, %",
        )
        chart = Chart("Importance weights", "share of episodes in each bin, noisy", drawn)
        content = [chart, Paragraphs(overlap["words"], "prose")]
    return Section(
        "How alike the two policies are",
        make_grid(content, wide=True),
        "Records tell about the evaluated policy in so far as the behaviour policy acted like it. An episode of weight "
        "1 would have been made as often by either; one of a small weight hardly counts, and a few of large weights "
        "outvote all others.",
        "overlap",
        before=True,
    )
