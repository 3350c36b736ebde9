"""The report of synthetic rows: plain public inputs, checked so that no private row can be drawn by mistake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from tacit.errors import DataError
from tacit.evaluation.report import blocks, charts, evidence
from tacit.evaluation.report.blocks import Banner, Block, Certified, Chart, Facts, Section, TableRow
from tacit.evaluation.report.charts import Array, ChartLine, Kind, format_bound, number, span, styles
from tacit.evaluation.report.whole_trajectories import Plane, WholeTrajectories, map_chart, trajectories_section
from tacit.privacy.sentences import describe_weights
from tacit.units import noun

if TYPE_CHECKING:
    from tacit.evaluation.neighbours import NearestRecords

Reference = Literal["simulated", "public"]
_NAMES = {"simulated": "Protected rows (simulated)", "public": "Public rows", None: ""}
_OF_WORLD = "Synthetic rows against the public simulator; no record is needed for that."
_NO_RECORDS = Banner(
    "There is no real data in this report.",
    "Pictures and figures that compare the release with private records are not differentially private, so they are "
    "left out.",
    "absent",
)


@dataclass(frozen=True)
class PlaneMap:
    """Tables drawn over a plane with walls, one panel each."""

    plane: Plane
    panels: Sequence[evidence.Points]


@dataclass(frozen=True)
class Correlation:
    """Pearson correlations of C columns: `synthetic` and `reference` [C, C], the latter None without reference rows."""

    labels: tuple[str, ...]
    synthetic: Array
    reference: Array | None = None


@dataclass(frozen=True)
class Curve:
    """Return of agents over training: mean [N] at steps [N] with an interval over seeds (low, high [N])."""

    label: str
    kind: Kind
    steps: Array
    mean: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class Return:
    """Final return of agents trained on one table: mean over `seeds` seeds, with an interval over seeds. A policy that
    learns nothing has no seeds, and no interval: mean, low and high are one number. `starts` names the evaluation ("all
    starts", "far starts"); rows that share it share a chart."""

    label: str
    kind: Kind
    starts: str
    mean: float
    low: float
    high: float
    seeds: int


def sections(
    certificate: Certified,
    *,
    drawn: str = "",
    distinct: int | None = None,
    warning: tuple[str, str] | None = None,
    reference: Reference | None = None,
    map: PlaneMap | None = None,
    scores: Sequence[evidence.Score] = (),
    marginals: Sequence[evidence.Histogram] = (),
    correlation: Correlation | None = None,
    returns: Sequence[Return] = (),
    curves: Sequence[Curve] = (),
    whole_trajectories: WholeTrajectories | None = None,
    dependence: Sequence[tuple[str, str]] = (),
    embedding: Sequence[evidence.Points] = (),
    nearest: NearestRecords | None = None,
    audits: Sequence[evidence.PlantedAudit] = (),
    attacks: Sequence[evidence.AttackHits] = (),
    synthesizers: Sequence[evidence.Cost] = (),
    unit: str = "normalised return",
) -> tuple[Section, ...]:
    """What the page of synthetic rows says besides the promise; nothing depends on private rows except releases.

    Args:
        certificate: of the release.
        drawn: what was drawn from the release, as "40,000 synthetic rows".
        distinct: how many of these rows differ, where rows are drawn by weights and repeat.
        warning: what their use suffers from, if anything: a heading and a sentence.
        reference: where rows that are compared or drawn beside the synthetic ones come from: "simulated" (the
            protected rows are simulated: no person is in them), "public", or None if there are none. A report on
            private people's records has none: such figures would not be differentially private.
        map, scores, marginals, correlation, returns, curves: the sections; None or () leaves one out.
        whole_trajectories: trajectories as wholes.
        dependence: what is drawn, in order, and what it is drawn given, by the release alone.
        embedding: tables as points of one t-SNE picture.
        nearest: how near synthetic rows come to single records.
        audits, attacks: what was tried against the promise, with planted or simulated records.
        synthesizers: what this synthesizer and others take, on the same simulated rows.
        unit: what returns and curves are measured in.

    Raises:
        DataError: something of kind "reference", or a value computed from reference rows, is shown although `reference`
            is None; or `reference` is "simulated" and the certificate does not say so.
    """
    if reference == "simulated" and certificate.get("simulated") is not True:
        what = "the reference rows are called simulated and the certificate does not say so"
        expected = "a certificate with simulated = true, written by a vault of simulated records"
        remedy = "leave every comparison with the protected rows out, or compare with public rows"
        raise DataError(what, where="report", expected=expected, remedy=remedy)
    compared = {
        "map": map is not None and any(panel.kind == "reference" for panel in map.panels),
        "scores": any(not score.public or score.ceiling is not None for score in scores),
        "marginals": any(h.reference is not None or h.similarity is not None for h in marginals),
        "correlation": correlation is not None and correlation.reference is not None,
        "returns": any(row.kind == "reference" for row in returns),
        "curves": any(curve.kind == "reference" for curve in curves),
        "whole_trajectories": whole_trajectories is not None and whole_trajectories.has_reference,
        "embedding": any(points.kind == "reference" for points in embedding),
        "nearest": nearest is not None,
        "attacks": bool(audits or attacks),
        "synthesizers": bool(synthesizers),
    }
    shown = [name for name, present in compared.items() if present]
    if reference is None and shown:
        what = f"reference rows are shown ({', '.join(shown)}) but their source is not declared"
        expected = "reference='simulated' or 'public' whenever real rows or values computed from them appear"
        remedy = "leave them out: comparisons with private rows are not differentially private"
        raise DataError(what, where="report", expected=expected, remedy=remedy)
    name = _NAMES[reference]
    columns, legend = evidence.distribution_charts(marginals, name)
    closeness, world = ([score for score in scores if score.public is public] for public in (False, True))
    return (
        _glance_section(certificate, drawn, distinct, warning, returns, scores, unit),
        Section("", () if reference else (_NO_RECORDS,)),
        _map_section(map),
        evidence.scores_section(
            closeness, title="How close it is", lead="Measures of the synthetic table.", id="closeness"
        ),
        evidence.scores_section(world, title="Whether it obeys its world", lead=_OF_WORLD, id="world"),
        Section("Column by column", blocks.make_grid(columns, legend=legend), id="columns"),
        _correlation_section(correlation, name),
        trajectories_section(whole_trajectories, name),
        Section(
            "What follows what",
            blocks.make_table(
                "column", [TableRow(name, {"is drawn given": given}) for name, given in dependence], words=True
            ),
            lead="More people or more epsilon add columns on the right. What is not there has no influence here.",
            id="dependence",
        ),
        evidence.picture_section(embedding),
        _usefulness_section(returns, curves, unit),
        evidence.copies_section(nearest),
        evidence.attacks_section(audits, attacks),
        evidence.costs_section(synthesizers),
    )


def _glance_section(
    certificate: Certified,
    drawn: str,
    distinct: int | None,
    warning: tuple[str, str] | None,
    returns: Sequence[Return],
    scores: Sequence[evidence.Score],
    measure: str,
) -> Section:
    if not drawn:
        return Section("", ())
    unit, simulated = certificate["unit"], certificate.get("simulated") is True
    epsilon, delta = format_bound(float(certificate["epsilon"])), number(float(certificate["delta"]))
    repeated = "" if distinct is None else f"of which {distinct:,} differ, since rows are drawn by weights; "
    into = "simulated records" if simulated else "records, which stay sealed"
    facts = [
        ("What went in", into, f"of a public population of {unit['population']:,} {noun(unit['name'])}s"),
        ("What came out", drawn, f"{repeated}and a model that draws more of them at no cost"),
        ("What is promised", f"ε = {epsilon}", f"and δ = {delta}, for every {noun(unit['name'])}"),
        ("What it is good for", *_usefulness_figure(returns, scores, measure)),
    ]
    banners = () if warning is None else (Banner(*warning, "absent"),)
    share = blocks.Paragraphs([describe_weights(certificate.get("plan") or {})], "details")
    return Section("At a glance", (Facts(facts), *banners, share), id="glance", before=True)


def _usefulness_figure(returns: Sequence[Return], scores: Sequence[evidence.Score], unit: str) -> tuple[str, str]:
    """A figure that says how useful the rows are, and what it is; without agents, how near they are."""
    rows = [row for row in returns if row.starts == returns[0].starts]
    for row in rows:
        if row.kind == "synthetic":
            others = [f"{number(other.mean)}: {other.label}" for other in rows if other is not row]
            meaning = f"is what agents return that learn from it ({unit}). {'; '.join(others)}"
            return number(row.mean), meaning
    for score in scores:
        if score.ceiling is not None:
            return number(score.synthetic), f"{score.measure}; {number(score.ceiling)} between halves of the records"
    return "not measured here", "try it in your own environment, or compare with public rows"


def _map_section(drawn: PlaneMap | None) -> Section:
    drawings = []
    if drawn is not None:
        style = styles((panel.label, panel.kind) for panel in drawn.panels)
        for panel in drawn.panels:
            rows = f"{len(panel.positions):,} rows"
            title = f"{panel.label}: positions of {rows} in the maze"
            chart = map_chart(panel.positions, style[panel.label], title=title, plane=drawn.plane)
            drawings.append(Chart(panel.label, rows, chart))
    lead = (
        "Positions over the maze. Walls are shaded, the ring is the goal. A good synthetic table fills the corridors "
        "and stays out of the walls."
    )
    return Section("Where the rows lie", blocks.make_grid(drawings), lead, "map")


def _correlation_section(pair: Correlation | None, name: str) -> Section:
    lead = "Pearson correlation of every pair of columns. Paler is weaker."
    legend = [("rise together", "filled cell-positive"), ("move apart", "filled cell-negative")]
    drawings = []
    if pair is not None:
        panels = [("Synthetic rows", "Pearson r", pair.synthetic)]
        if pair.reference is not None:
            gap = pair.synthetic - pair.reference
            panels.insert(0, (name, "Pearson r", pair.reference))
            panels.append(("Difference", f"largest {np.abs(gap).max():.3f}", gap))
        for label, note, matrix in panels:
            drawn = charts.heat_map(matrix, pair.labels, title=f"Correlation matrix, {label}: {note}")
            drawings.append(Chart(label, note, drawn))
    return Section("How columns move together", blocks.make_grid(drawings, legend=legend), lead, "together")


def _usefulness_section(returns: Sequence[Return], curves: Sequence[Curve], unit: str) -> Section:
    style = styles([(row.label, row.kind) for row in returns] + [(c.label, c.kind) for c in curves])
    drawings = [_returns_chart(returns, starts, style, unit) for starts in dict.fromkeys(row.starts for row in returns)]
    drawings += [_curves_chart(curves, style, unit)] if curves else []
    rows = []
    for label in dict.fromkeys(row.label for row in returns):
        label_rows = [row for row in returns if row.label == label]
        cells = {f"From {row.starts}": _format_interval(row) for row in label_rows}
        rows.append(TableRow(label, {**cells, "Seeds": str(label_rows[0].seeds or "none")}, kind=label_rows[0].kind))
    lead = (
        "Agents trained on each table alone and evaluated in the environment, final checkpoint only; intervals are "
        "over training seeds."
    )
    content: list[Block] = [
        *_warning_banners(returns),
        *blocks.make_grid(drawings),
        *blocks.make_table("Trained on", rows),
    ]
    return Section("What an agent learns from it", content, lead, "usefulness")


def _warning_banners(returns: Sequence[Return]) -> tuple[Banner, ...]:
    """Where agents of the reference rows return less than a policy that learns nothing."""
    nothing = {row.starts: row for row in returns if row.seeds == 0}
    worse_starts = dict.fromkeys(
        row.starts
        for row in returns
        if row.kind == "reference" and row.starts in nothing and row.mean < nothing[row.starts].mean
    )
    if not worse_starts:
        return ()
    text = (
        f"From {' and from '.join(worse_starts)}, agents of the protected rows return less than a policy that learns "
        "nothing. So these returns do not show how useful the synthetic rows are."
    )
    return (Banner("These agents have not learned the task.", text, "absent"),)


def _format_interval(row: Return) -> str:
    return number(row.mean) + (f" ({number(row.low)} to {number(row.high)})" if row.seeds else "")


def _returns_chart(returns: Sequence[Return], starts: str, style: dict[str, str], unit: str) -> Chart:
    rows, name = [row for row in returns if row.starts == starts], f"From {starts}"
    drawn = charts.interval_chart(
        [(row.label, [(style[row.label], row.mean, row.low, row.high)]) for row in rows],
        title=f"Return, {name}: {'; '.join(f'{row.label} {_format_interval(row)}' for row in rows)}",
        x=span(unit, np.zeros(1), *(np.array([row.low, row.mean, row.high]) for row in returns)),
    )
    return Chart(name, "mean and interval over seeds", drawn)


def _curves_chart(curves: Sequence[Curve], style: dict[str, str], unit: str) -> Chart:
    ends = "; ".join(f"{curve.label} ends at {number(float(curve.mean[-1]))}" for curve in curves)
    drawn = charts.line_chart(
        [ChartLine(style[c.label], c.steps, c.mean, c.low, c.high) for c in reversed(curves)],
        title=f"Return over training: {ends}",
        x=span("training steps", *(c.steps for c in curves)),
        y=span(unit, *(part for c in curves for part in (c.low, c.high))),
    )
    return Chart("While training", "mean and interval over seeds", drawn, [(c.label, style[c.label]) for c in curves])
