"""The report of an evaluation: public numbers alone, the value of a policy and the values of states."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.data.spec import Box, Discrete, PublicSpec, Space
from tacit.evaluation.report import blocks, charts
from tacit.evaluation.report.blocks import Block, Chart, Facts, PublicReport, Section, Text, grid
from tacit.evaluation.report.charts import Array, Axis, number, span
from tacit.methods.off_policy_evaluation.problem import Evaluation, Interval

_LINE, _SIDE, _LINES = 121, 41, 24
"""Points of a line, cells of a side of a surface, and lines at most."""
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
    "fold": "fold of the units that judges",
    "origin: plans": "releases that the policy comes from",
    "origin: certified": "whether a certificate says so (else it is declared)",
    "centre": "mean return that the values began with",
    "behaviour_model: features": "features of the model of the behaviour policy",
    "behaviour_model: share": "share of the budget: model of the behaviour policy",
    "behaviour_model: floor": "least probability in that model, in multiples of 1 / actions",
    "behaviour_model: rounds": "rounds of that model",
    "behaviour_model: tau": "assumed spread of its logits",
}
"""Settings and diagnostics that their names alone do not explain."""


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


@dataclass(frozen=True)
class Overlap:
    """How alike behaviour and evaluated policy are, as a release of its own says.

    Attributes:
        edges: [B + 1] increasing edges of the bins, powers of ten of an episode's importance weight.
        shares: [B] share of episodes in each bin, noisy.
        words: what was found, in sentences.
    """

    edges: Array
    shares: Array
    words: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class EvaluationReport(PublicReport):
    """Everything that the report of an evaluation shows; it has no place for a record.

    Attributes:
        policy: the evaluated policy in words.
        limits: the public range of values.
        value: the policy's value, or None where the method gives a value function alone.
        interval: about the value, or None.
        standing: why there is no interval, or why it is at another level than was asked for.
        lines: the value function, along each dimension of the observation.
        surface: the value function over two dimensions, or None.
        diagnostics: (name, words) of further public numbers.
        overlap: of the two policies, or None.
    """

    policy: str
    limits: tuple[float, float]
    value: float | None = None
    interval: Interval | None = None
    standing: str | None = None
    lines: tuple[ValueLine, ...] = ()
    surface: ValueSurface | None = None
    diagnostics: tuple[tuple[str, str], ...] = ()
    overlap: Overlap | None = None

    def sections(self) -> tuple[Section, ...]:
        """What the page says besides the promise."""
        plan = self.certificate["plan"]
        facts = (Facts(self.diagnostics, "pairs", "Released along with the answer"),) if self.diagnostics else ()
        return (
            _answer(self),
            _read(self),
            _states(self),
            _alike(self.overlap),
            blocks.settings(_settings(plan), *facts, resting="The promise and the interval rest"),
            blocks.limits(self.certificate, covered=False),
        )


def value_lines(evaluation: Evaluation, spec: PublicSpec) -> tuple[ValueLine, ...]:
    """The value function for people: every state of a discrete observation; else along each dimension, with the others
    in the middle of their public bounds. None of an evaluation without a value function, nor of two dimensions, which
    `value_surface` shows; at most 24.
    """
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
    """Whether an observation is two numbers."""
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


def _answer(report: EvaluationReport) -> Section:
    unit, lines = str(report.certificate["unit"]["name"]), cautions(report)
    content: list[Block] = [Text([_question(report, report.certificate["plan"]["problem"], unit)])]
    content += [Text(lines, "lead caution")] if lines else []
    content.append(Facts(_figures(report)))
    return blocks.opening(_headline(report), content, eyebrow="What the policy is worth", hero="The estimate")


def _headline(report: EvaluationReport) -> str:
    interval, (value, low, high) = report.interval, formatted(report.value, report.interval)
    if report.value is None:
        return "What each state is worth under this policy."
    if interval is not None and interval.kind == "lower":
        return f"An episode under this policy is worth at least {low}."
    if interval is not None and interval.kind == "upper":
        return f"An episode under this policy is worth at most {high}."
    return f"An episode under this policy is worth about {value}."


def formatted(value: float | None, interval: Interval | None) -> tuple[str, str, str]:
    """Value, low and high end with as many digits as the interval's width bears; the ends are rounded outwards."""
    value = 0.0 if value is None else value
    if interval is None:
        return number(value), "", ""
    width = max(interval.high - interval.low, 1e-3 * max(abs(interval.low), abs(interval.high)), 1e-12)
    unit = 10.0 ** (math.floor(math.log10(width)) - 1)
    low, high = math.floor(interval.low / unit + 1e-9) * unit, math.ceil(interval.high / unit - 1e-9) * unit
    return number(round(value / unit) * unit), number(low), number(high)


def _question(report: EvaluationReport, problem: Mapping[str, Any], unit: str) -> str:
    worth = (
        f"the expected sum of rewards over the first {problem['horizon']:,} steps"
        if problem["gamma"] == 1
        else f"the expected sum of rewards over the first {problem['horizon']:,} steps, each step's reward counted "
        f"{number(problem['gamma'])} times as much as the one before"
    )
    text = f"Evaluated: {report.policy}. Worth means {worth}; every {unit} weighs the same."
    if report.value is None:
        text += f" {report.certificate['method']} estimates a function of the state; it gives no figure for all starts."
    return text


def _figures(report: EvaluationReport) -> list[tuple[str, str, str]]:
    interval, (value, low, high) = report.interval, formatted(report.value, report.interval)
    figures = []
    if report.value is not None:
        note = "from the start of an episode" + ("; trust the interval more" if interval is not None else "")
        figures.append(("Estimate", value, note))
    if interval is not None:
        ends = {"two_sided": f"{low} to {high}", "lower": f"from {low}", "upper": f"up to {high}"}
        kind = "both ends are bounds" if interval.kind == "two_sided" else f"a {interval.kind} bound, on one side"
        figures.append((f"{100 * interval.level:g} % interval", ends[interval.kind], kind))
    lowest, highest = (number(end) for end in report.limits)
    private = _finds_range(report.certificate["plan"])
    how = "of values, found privately" if private else "of values, declared without the records"
    figures.append(("Private range" if private else "Public range", f"{lowest} to {highest}", how))
    method, source = str(report.certificate["method"]), str(report.certificate["source"])
    return [*figures, ("Method", method.partition("(")[2].rstrip(")") or method, source)]


def _read(report: EvaluationReport) -> Section:
    interval, content = report.interval, list[Block]()
    if interval is not None and report.value is not None:
        written = formatted(report.value, interval)
        drawn = charts.estimate(
            report.value,
            (interval.low, interval.high),
            written,
            title=f"Value of the policy: {written[0]}, interval from {written[1]} to {written[2]}, on the public range",
            x=Axis("value of an episode", *report.limits),
        )
        words = _reading(interval, str(report.certificate["unit"]["name"]), modelled=_modelled(report))
        note = "nothing outside it was possible from the start"
        content = [Chart("On the public range", note, drawn), Text(words, "prose")]
    return Section("How to read the interval", grid(content, wide=True), id="interval", before=True)


def cautions(report: EvaluationReport) -> list[str]:
    """What to think of before the answer is believed, in sentences; mostly there is nothing."""
    (low, high), interval, plan = report.limits, report.interval, report.certificate["plan"]
    lines = []
    if interval is not None and interval.high - interval.low >= _MOSTLY * (high - low):
        lines.append("The interval fills the range, or nearly so: these records do not tell at this epsilon.")
    if _modelled(report):
        share = number(100 * plan["behaviour_model"]["share"])
        lines.append(
            f"A private model, on which {share} % of the budget was spent, stands for the behaviour policy: the "
            "interval does not count its error."
        )
    if report.standing is not None:
        lines.append(f"{report.standing[0].upper()}{report.standing[1:]}.")
    elif report.value is not None and interval is None:
        lines.append("There is no interval: the records have no propensities, and a regression has none to trust.")
    if report.value is not None and min(report.value - low, high - report.value) <= _AT_END * (high - low):
        kind = "declared range"
        if plan["problem"]["return_range"] is None:
            kind = "range that was found" if _finds_range(plan) else "range that the reward's declared bounds allow"
        lines.append(f"The estimate is at an end of the range: the {kind} may be too narrow.")
    return lines


def _finds_range(plan: Mapping[str, Any]) -> bool:
    return plan.get("range_finder") is True and plan["problem"]["return_range"] is None


def _modelled(report: EvaluationReport) -> bool:
    """Whether a private model stands for the behaviour policy."""
    return report.certificate["plan"].get("behaviour_model") is not None


def _reading(interval: Interval, unit: str, *, modelled: bool) -> list[str]:
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


def _states(report: EvaluationReport) -> Section:
    drawings, title = _lines(report.lines) + _surface(report.surface), "State by state"
    lead = _states_lead(report)
    if len(drawings) == 1:
        beside = grid([*drawings, Text([lead], "prose")], wide=True)
        return Section(title, beside, id="states", before=True)
    return Section(title, grid(drawings), lead, "states", before=True)


def _lines(lines: Sequence[ValueLine]) -> list[Chart]:
    drawings, every = [], [line.values for line in lines]  # one scale, so that the dimensions can be compared
    for line in lines:
        ends = f"{number(float(line.values.min()))} to {number(float(line.values.max()))}"
        title = f"Values along {line.label}: {ends}"
        if line.discrete:
            drawn = charts.bars(line.values, title=title, x_label=line.label, y=span("value", np.zeros(1), line.values))
        else:
            x = Axis(line.label, float(line.x[0]), float(line.x[-1]))
            drawn = charts.lines(
                [charts.Line("synthetic", line.x, line.values)], title=title, x=x, y=span("value", *every)
            )
        drawings.append(Chart(f"Value by {line.label}", ends, drawn))
    return drawings


def _surface(surface: ValueSurface | None) -> list[Chart]:
    if surface is None:
        return []
    low, high = float(surface.values.min()), float(surface.values.max())
    x, y = (
        Axis(label, float(a), float(b)) for label, a, b in zip(surface.labels, surface.low, surface.high, strict=True)
    )
    drawn = charts.surface(
        surface.values,
        title=f"Values over {surface.labels[0]} and {surface.labels[1]}: {number(low)} to {number(high)}",
        x=x,
        y=y,
        scale=Axis("value", low, high if high > low else low + 1.0),
    )
    return [Chart("Value over the public bounds", "stronger is worth more", drawn)]


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


def _alike(overlap: Overlap | None) -> Section:
    content: list[Block] = []
    if overlap is not None:
        drawn = charts.histogram(
            overlap.edges,
            None,
            overlap.shares,
            title="Importance weights of the episodes, on a scale of powers of ten",
            x_label="weight of an episode, power of ten",
            y_label="episodes, %",
        )
        chart = Chart("Importance weights", "share of episodes in each bin, noisy", drawn)
        content = [chart, Text(overlap.words, "prose")]
    return Section(
        "How alike the two policies are",
        grid(content, wide=True),
        "Records tell about the evaluated policy in so far as the behaviour policy acted like it. An episode of weight "
        "1 would have been made as often by either; one of a small weight hardly counts, and a few of large weights "
        "outvote all others.",
        "overlap",
        before=True,
    )


def _settings(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The plan's fields for people; the promise itself stands elsewhere on the page."""
    unused = blocks.STATED | ({"prior"} if plan.get("prior") is None else set())
    if not _finds_range(plan):
        unused |= {"shares: range"} | ({"shares: centre"} if plan.get("on_policy") is True else set())
    return blocks.pairs(plan, _NAMES, unused)


def words(name: str) -> str:
    """A setting's or diagnostic's name for people."""
    return blocks.named(name, _NAMES)
