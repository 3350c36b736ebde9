"""What a report says of synthetic rows beside any others: columns, closeness, copies, attacks, and what they took."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from tacit.evaluation.fidelity import kolmogorov_smirnov
from tacit.evaluation.one_run import OneRunBound, max_detectable_epsilon
from tacit.evaluation.report import charts
from tacit.evaluation.report.blocks import Chart, Key, Paragraphs, Section, TableRow, make_grid, make_table
from tacit.evaluation.report.charts import Array, ChartAxis, ChartLine, Kind, format_bound, number

if TYPE_CHECKING:
    from tacit.evaluation.membership import Hits
    from tacit.evaluation.neighbours import NearestRecords

AttackedKind = Literal["synthetic", "control"]
_MIN_DISTANCE = 1e-3
"""Distances below this share of the largest are drawn at the near end of the scale."""
_QUANTILES = np.linspace(0.0, 1.0, 101)


@dataclass(frozen=True)
class Points:
    """Positions of one table in a picture, [N, 2]: over a maze in cells; a few thousand are enough."""

    label: str
    kind: Kind
    positions: Array


@dataclass(frozen=True)
class Histogram:
    """One column's distribution."""

    column: str  # its name ("x velocity")
    unit: str  # its unit ("m/s"), or "" if it has none
    edges: Array  # [B + 1] bin edges, from public bounds
    synthetic: Array  # [B] shares of the synthetic rows
    reference: Array | None = None  # [B] shares of the reference rows, or None
    similarity: float | None = None  # 1 - KS of the column, or None
    labels: tuple[str, ...] = ()  # of the bins of a category
    note: str = ""  # what was left out


def whole_bins(low: float, high: float, most: int = 40) -> tuple[tuple[float, float], int]:
    """Ends and number of equal bins, at most so many, that hold equally many of the whole numbers from low to high."""
    width = math.ceil((high - low + 1) / most)
    bins = math.ceil((high - low + 1) / width)
    return (low - 0.5, low - 0.5 + bins * width), bins


def histogram(
    column: str,
    unit: str,
    bounds: tuple[float, float],
    synthetic: Array,
    reference: Array | None = None,
    *,
    bins: int = 40,
    labels: tuple[str, ...] = (),
    note: str = "",
) -> Histogram:
    """A `Histogram` of rows [T] (and reference rows [R]) over equal bins inside public bounds."""
    edges = np.linspace(*bounds, bins + 1)

    def shares(values: Array) -> Array:
        counts, _ = np.histogram(np.clip(values, *bounds), bins=edges)
        return counts / max(1, len(values))

    if reference is None:
        return Histogram(column, unit, edges, shares(synthetic), labels=labels, note=note)
    similarity = 1.0 - kolmogorov_smirnov(np.asarray(reference, np.float32), np.asarray(synthetic, np.float32))
    return Histogram(column, unit, edges, shares(synthetic), shares(reference), similarity, labels, note)


@dataclass(frozen=True)
class Score:
    """One measure of closeness."""

    measure: str  # its name ("Marginal")
    meaning: str  # one phrase on what it is and which direction is better
    synthetic: float  # the synthetic table's value
    # computed from synthetic rows and public facts alone (a public simulator, say), without reference rows
    public: bool
    # the value of one half of the reference rows against the other half, or None if that makes no sense
    ceiling: float | None = None
    controls: tuple[tuple[str, float], ...] = ()  # (name, value) of each control table
    rivals: tuple[tuple[str, float], ...] = ()  # (name, value) of other synthesizers' tables


@dataclass(frozen=True)
class PlantedAudit:
    """What an audit with planted records found, beside what the attacked run promises."""

    label: str  # what was attacked ("the released pipeline")
    kind: AttackedKind  # "synthetic" for what is released, "control" for a mutation that was made on purpose
    result: OneRunBound  # the lower bound on epsilon, and the guesses that it comes from
    certified: float  # what the attacked run promises (or, if it is broken, would have promised)


@dataclass(frozen=True)
class AttackHits:
    """What a membership attack catches at several rates of false alarms; `meaning` says what it looks at."""

    name: str
    meaning: str
    hits: Sequence[Hits]


@dataclass(frozen=True)
class Cost:
    """What a synthesizer takes: seconds of processor time of each phase, and peak memory in bytes."""

    label: str
    kind: AttackedKind
    seconds: tuple[tuple[str, float], ...]
    memory: float | None = None


def distribution_charts(
    items: Sequence[Histogram], reference: str, counted: str = "rows"
) -> tuple[list[Chart], list[Key]]:
    """Charts of distributions, and what their colours stand for."""
    legend: list[Key] = [(f"Synthetic {counted}", "synthetic")]
    if any(item.reference is not None for item in items):
        legend.insert(0, (reference, "filled reference"))
    return [_distribution(item, counted) for item in items], legend


def _distribution(item: Histogram, counted: str) -> Chart:
    similarity = "" if item.similarity is None else f"1 − KS = {item.similarity:.3f}"
    note = ", ".join(each for each in (similarity, item.note) if each)
    title, counts = f"Distribution of {item.column}" + (f", {note}" if note else ""), f"{counted}, %"
    if item.labels:
        drawn = charts.category_chart(item.labels, item.reference, item.synthetic, title=title, x_label=counts)
    else:
        label = f"{item.column}, {item.unit}" if item.unit else item.column
        drawn = charts.histogram_chart(
            item.edges, item.reference, item.synthetic, title=title, x_label=label, y_label=counts
        )
    return Chart(item.column, note, drawn)


def scores_section(scores: Sequence[Score], *, title: str, lead: str, id: str) -> Section:
    """A table of measures, with ceiling, controls and other synthesizers where there are any."""
    rivals, controls = (
        dict.fromkeys(name for score in scores for name, _ in getattr(score, kind)) for kind in ("rivals", "controls")
    )
    columns = ["Synthetic", "Real against real", *rivals, *controls]
    if any(score.ceiling is not None for score in scores):
        lead += " Real against real compares two halves of the reference rows: no table can be expected to do better."
    if rivals:
        lead += f" {', '.join(rivals)}: other synthesizers, on the same rows under the same promise."
    if controls:
        lead += " Controls know less than the synthetic table and must score worse on at least one measure."
    rows = []
    for score in scores:
        values = dict((*score.rivals, *score.controls)) | {
            "Synthetic": score.synthetic,
            "Real against real": score.ceiling,
        }
        cells = {
            name: f"{v:.4f}" if 0 <= v < 10 else number(v) for name in columns if (v := values.get(name)) is not None
        }
        rows.append(TableRow(score.measure, cells, score.meaning))
    return Section(title, make_table("Measure", rows), lead, id)


def picture_section(panels: Sequence[Points]) -> Section:
    """All tables in one picture, and each on its own at the same scale."""
    drawings, legend = [], [(points.label, f"filled {points.kind}") for points in panels]
    if panels:
        joined = np.concatenate([points.positions for points in panels])
        low, high = joined.min(axis=0), joined.max(axis=0)
        placed = [(points.kind, (points.positions - low) / np.maximum(high - low, 1e-12)) for points in panels]
        counts = "; ".join(f"{points.label}, {len(points.positions):,} rows" for points in panels)
        together = charts.scatter_chart(placed, title=f"t-SNE picture of {counts}")
        drawings.append(Chart("Together", "one point a row", together))
        for points, place in zip(panels, placed, strict=True):
            picture = charts.scatter_chart([place], title=f"The same picture, {points.label} alone")
            drawings.append(Chart(points.label, f"{len(points.positions):,} rows", picture))
    return Section(
        "All columns in one picture",
        make_grid(drawings, legend=legend),
        "t-SNE puts rows that are alike next to each other; the axes and the sizes of gaps mean nothing. In a good "
        "synthetic table both kinds of rows lie in the same places.",
        "picture",
    )


def copies_section(nearest: NearestRecords | None) -> Section:
    """Distances to single records."""
    return Section(
        "Whether anybody was copied",
        () if nearest is None else make_grid(_distances(nearest)),
        "Distances from synthetic rows to the nearest single record: to those that were learned from, and to as many "
        "others of the same world. Where the two lines are one, nothing was learned by heart. This is a look, not a "
        "proof; the promise above is proved.",
        "copies",
    )


def _distances(nearest: NearestRecords) -> tuple[Chart, Paragraphs]:
    nearer = nearest.nearer_share
    share, low, high = map(_format_percent, (nearer.value, nearer.low, nearer.high))
    protected, others = (np.quantile(part, _QUANTILES) for part in (nearest.to_train, nearest.to_holdout))
    top = max(float(protected[-1]), float(others[-1]), 1e-12)
    ends = ", ".join(
        f"half of the rows have a {name} within {number(float(np.median(distances)))}"
        for name, distances in (("protected one", protected), ("different one", others))
    )
    drawn = charts.line_chart(
        [  # the dashed one on top, so that both are seen where they are one
            ChartLine("synthetic", np.maximum(protected, _MIN_DISTANCE * top), 100 * _QUANTILES),
            ChartLine("control-0", np.maximum(others, _MIN_DISTANCE * top), 100 * _QUANTILES),
        ],
        title=f"Distance to the nearest record: {ends}",
        x=ChartAxis("distance, in standard deviations", _MIN_DISTANCE * top, top, log=True),
        y=ChartAxis("synthetic rows within it, %", 0.0, 100.0),
    )
    legend = [("to a record that was learned from", "synthetic"), ("to one that was not", "control-0")]
    words = (
        f"{share} of the rows are nearer to a record that was learned from.",
        f"The 95 % interval is {low} to {high}; 50 % is what rows have that copy nobody.",
        f"Rows that equal a record: {nearest.copies or 'none'} of {len(nearest.to_train):,}.",
    )
    chart = Chart("Distance to the nearest record", "share of synthetic rows within it", drawn, legend)
    return chart, Paragraphs(words, "prose")


def attacks_section(audits: Sequence[PlantedAudit], attacks: Sequence[AttackHits]) -> Section:
    """What planted records and attacks showed, beside what is promised."""
    drawings, planted, guessed = [], [], []
    for audit in audits:
        synthetic, result = audit.kind == "synthetic", audit.result
        style = "synthetic" if synthetic else "control-0"
        vain = not synthetic
        drawn = charts.bounds_chart(audit.label, result.epsilon, audit.certified, by="attack", style=style, vain=vain)
        drawings.append(Chart(audit.label, f"at {100 * result.confidence:g} % confidence", drawn))
        # What it would be if every guess about every canary were right: no audit of this size shows more.
        reach = max_detectable_epsilon(result.canaries, confidence=result.confidence)
        cells = {
            "Right guesses": f"{result.correct:,} of {result.guesses:,}",
            "ε at least": number(result.epsilon),
            "Most it could show": number(reach),
            "ε promised": format_bound(audit.certified),
        }
        note = "the promise is refuted" if result.epsilon > audit.certified else "the promise stands"
        planted.append(TableRow(audit.label, cells, note, audit.kind))
    for attack in attacks:
        cells = {
            f"Caught at {100 * hit.fpr:g} % false alarms": f"{_format_percent(hit.tpr.value)} "
            f"({_format_percent(hit.tpr.low)} to {_format_percent(hit.tpr.high)})"
            for hit in attack.hits
        }
        guessed.append(TableRow(attack.name, cells, attack.meaning))
    return Section(
        "Attacked, to see whether the promise stands",
        (*make_grid(drawings), *make_table("Planted records", planted), *make_table("Attack", guessed)),
        "Attacks that know everything that is released, and the training besides. An attack can refute a promise, and "
        "never prove one: what ε really is lies between what is shown and what is promised. Blind guessing catches as "
        "many as it raises false alarms.",
        "attacks",
    )


def costs_section(costs: Sequence[Cost]) -> Section:
    """What synthesizers took."""
    rows = []
    for cost in costs:
        size = cost.memory or 0.0
        peak = f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
        memory = {} if cost.memory is None else {"Peak memory": peak}
        cells = {name: _format_seconds(seconds) for name, seconds in cost.seconds} | memory
        rows.append(TableRow(cost.label, cells, kind=cost.kind))
    lead = "Processor time and memory on this machine, for the same simulated rows."
    return Section("What synthesizers take", make_table("Synthesizer", rows), lead, "synthesizers")


def _format_percent(share: float) -> str:
    percent = 100.0 * share
    return f"{percent:.1f} %" if percent >= 1 else f"{percent:.2g} %"


def _format_seconds(seconds: float) -> str:
    if seconds < 10:
        return "< 0.1 s" if seconds < 0.1 else f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds >= 600 else f"{seconds:.0f} s"
