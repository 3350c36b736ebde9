"""The report of synthetic rows: plain public inputs, checked so that no private row can be drawn by mistake."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from markupsafe import Markup

from tacit.errors import DataError
from tacit.evaluation.report import charts
from tacit.evaluation.report.blocks import Banner, Block, Chart, Facts, PublicReport, Row, Section, grid, tabled
from tacit.evaluation.report.charts import Array, Kind, Line, number, span, styles, upward
from tacit.evaluation.report.evidence import (
    Attack,
    Audit,
    Cost,
    Histogram,
    Nearest,
    Points,
    Score,
    attacked,
    copied,
    distributions,
    measured,
    pictured,
    taken,
)
from tacit.evaluation.report.whole_trajectories import WholeTrajectories, map_chart, plane_of_cells, trajectories

Reference = Literal["simulated", "public"]
_NAMES = {"simulated": "Protected rows (simulated)", "public": "Public rows", None: ""}
_NO_RECORDS = Banner(
    "There is no real data in this report.",
    "Pictures and figures that compare the release with private records are not differentially private, so they are "
    "left out.",
    "absent",
)


@dataclass(frozen=True)
class Map:
    """A plane with walls and the tables drawn over it, one panel each.

    Attributes:
        cells: rows of its cells, '#' for a wall; x grows with the row and y with the column.
        origin: cell 0 covers [-origin, 1 - origin] on both axes.
        goal: (x, y), or None.
        panels: the tables.
    """

    cells: tuple[str, ...]
    origin: float
    goal: tuple[float, float] | None
    panels: tuple[Points, ...]


@dataclass(frozen=True)
class Correlation:
    """Pearson correlations of C columns: `synthetic` and `reference` [C, C], the latter None without reference rows."""

    labels: tuple[str, ...]
    synthetic: Array
    reference: Array | None = None


@dataclass(frozen=True)
class Curve:
    """Return of agents over training: mean [N] at steps [N] with an interval over seeds (low, high [N]).

    Curves of one `agent`, as for `Return`, share a chart.
    """

    label: str
    kind: Kind
    steps: Array
    mean: Array
    low: Array
    high: Array
    agent: str = ""


@dataclass(frozen=True)
class Return:
    """Final return of agents trained on one table: mean over `seeds` seeds, with an interval over seeds.

    A policy that learns nothing has no seeds, and no interval: mean, low and high are one number. `starts` names the
    evaluation ("all starts", "far starts") and `agent` how they learned, where there are several ways; rows that share
    both share a chart.
    """

    label: str
    kind: Kind
    starts: str
    mean: float
    low: float
    high: float
    seeds: int
    agent: str = ""


@dataclass(frozen=True, kw_only=True)
class Report(PublicReport):
    """Everything that the report of synthetic rows shows; nothing in it depends on private rows except releases.

    Attributes:
        reference: where rows that are compared or drawn beside the synthetic ones come from: "simulated" (the
            protected rows are simulated: no person is in them), "public", or None if there are none. A report on
            private people's records has none: such figures would not be differentially private.
        map, scores, marginals, correlation, returns, curves: the sections; None or () leaves one out.
        whole_trajectories: trajectories as wholes.
        embedding: tables as points of one t-SNE picture.
        nearest: how near synthetic rows come to single records.
        audits, attacks: what was tried against the promise, with planted or simulated records.
        synthesizers: what this synthesizer and others take, on the same simulated rows.
        return_unit: what returns and curves are measured in.
        drawn: what was drawn from the release, as "40,000 synthetic rows".

    Raises:
        DataError: something of kind "reference", or a value computed from reference rows, is shown although `reference`
            is None; or `reference` is "simulated" and the certificate does not say so.
    """

    reference: Reference | None = None
    map: Map | None = None
    scores: tuple[Score, ...] = ()
    marginals: tuple[Histogram, ...] = ()
    correlation: Correlation | None = None
    returns: tuple[Return, ...] = ()
    curves: tuple[Curve, ...] = ()
    whole_trajectories: WholeTrajectories | None = None
    embedding: tuple[Points, ...] = ()
    nearest: Nearest | None = None
    audits: tuple[Audit, ...] = ()
    attacks: tuple[Attack, ...] = ()
    synthesizers: tuple[Cost, ...] = ()
    return_unit: str = "normalised return"
    drawn: str = ""

    def __post_init__(self) -> None:
        if self.reference == "simulated" and not self.simulated:
            what = "the reference rows are called simulated and the certificate does not say so"
            expected = "a certificate with simulated = true, written by a vault of simulated records"
            remedy = "leave every comparison with the protected rows out, or compare with public rows"
            raise DataError(what, where="Report", expected=expected, remedy=remedy)
        compared = {
            "map": self.map is not None and any(panel.kind == "reference" for panel in self.map.panels),
            "scores": any(not score.public or score.ceiling is not None for score in self.scores),
            "marginals": any(h.reference is not None or h.similarity is not None for h in self.marginals),
            "correlation": self.correlation is not None and self.correlation.reference is not None,
            "returns": any(row.kind == "reference" for row in self.returns),
            "curves": any(curve.kind == "reference" for curve in self.curves),
            "whole_trajectories": self.whole_trajectories is not None and self.whole_trajectories.compared,
            "embedding": any(points.kind == "reference" for points in self.embedding),
            "nearest": self.nearest is not None,
            "attacks": bool(self.audits or self.attacks),
            "synthesizers": bool(self.synthesizers),
        }
        shown = [name for name, present in compared.items() if present]
        if self.reference is None and shown:
            what = f"reference rows are shown ({', '.join(shown)}) but their source is not declared"
            expected = "reference='simulated' or 'public' whenever real rows or values computed from them appear"
            remedy = "leave them out: comparisons with private rows are not differentially private"
            raise DataError(what, where="Report", expected=expected, remedy=remedy)

    @property
    def shows_records(self) -> bool:
        """Whether protected rows are on the page."""
        return self.reference == "simulated"

    def sections(self) -> tuple[Section, ...]:
        """What the page says besides the promise."""
        name = _NAMES[self.reference]
        columns, legend = distributions(self.marginals, name)
        closeness = [score for score in self.scores if not score.public]
        world = [score for score in self.scores if score.public]
        lead = "Synthetic rows against the public simulator; no record is needed for that."
        return (
            _glance(self),
            Section("", () if self.reference else (_NO_RECORDS,)),
            _map(self.map),
            measured(closeness, title="How close it is", lead="Measures of the synthetic table.", id="closeness"),
            measured(world, title="Whether it obeys its world", lead=lead, id="world"),
            Section("Column by column", grid(columns, legend=legend), id="columns"),
            _together(self.correlation, name),
            trajectories(self.whole_trajectories, name),
            pictured(self.embedding),
            _usefulness(self),
            copied(self.nearest),
            attacked(self.audits, self.attacks),
            taken(self.synthesizers),
        )


def _glance(report: Report) -> Section:
    """What went in, what came out, what is promised and what it is good for."""
    if not report.drawn:
        return Section("", ())
    unit = report.certificate["unit"]
    epsilon, delta = upward(float(report.certificate["epsilon"])), number(float(report.certificate["delta"]))
    into = "simulated records" if report.simulated else "records, which stay sealed"
    facts = [
        ("What went in", into, f"of a public population of {unit['population']:,}; unit: {unit['name']}"),
        ("What came out", report.drawn, "and a model that draws more of them at no cost"),
        ("What is promised", f"ε = {epsilon}", f"and δ = {delta}, for every {unit['name']}"),
        ("What it is good for", *_worth(report)),
    ]
    return Section("At a glance", (Facts(facts),), id="glance", before=True)


def _worth(report: Report) -> tuple[str, str]:
    """A figure that says how useful the rows are, and what it is; without agents, how near they are."""
    first = next(((row.agent, row.starts) for row in report.returns), None)
    rows = [row for row in report.returns if (row.agent, row.starts) == first]
    for row in rows:
        if row.kind == "synthetic":
            others = [f"{number(other.mean)}: {other.label}" for other in rows if other is not row]
            meaning = f"is what agents return that learn from it ({report.return_unit}). {'; '.join(others)}"
            return number(row.mean), meaning
    for score in report.scores:
        if score.ceiling is not None:
            return number(score.synthetic), f"{score.measure}; {number(score.ceiling)} between halves of the records"
    return "not measured here", "try it in your own environment, or compare with public rows"


def _map(drawn: Map | None) -> Section:
    drawings = []
    if drawn is not None:
        style = styles((panel.label, panel.kind) for panel in drawn.panels)
        plane = plane_of_cells(drawn.cells, drawn.origin, drawn.goal)
        for panel in drawn.panels:
            rows = f"{len(panel.positions):,} rows"
            title = f"{panel.label}: positions of {rows} in the maze"
            chart = map_chart(panel.positions, style[panel.label], title=title, plane=plane)
            drawings.append(Chart(panel.label, rows, chart))
    lead = (
        "Positions over the maze. Walls are shaded, the ring is the goal. A good synthetic table fills the corridors "
        "and stays out of the walls."
    )
    return Section("Where the rows lie", grid(drawings), lead, "map")


def _together(pair: Correlation | None, name: str) -> Section:
    lead = Markup(
        'Pearson correlation of every pair of columns: <span class="swatch cell-positive"></span> rise together, '
        '<span class="swatch cell-negative"></span> move apart. Paler is weaker.'
    )
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
    return Section("How columns move together", grid(drawings), lead, "together")


def _usefulness(report: Report) -> Section:
    """Returns and learning curves of agents."""
    style = styles([(row.label, row.kind) for row in report.returns] + [(c.label, c.kind) for c in report.curves])
    evaluations = dict.fromkeys((row.agent, row.starts) for row in report.returns)
    drawings = [_returns(report, agent, starts, style) for agent, starts in evaluations]
    drawings += [_curves(report, agent, style) for agent in dict.fromkeys(curve.agent for curve in report.curves)]
    rows = []
    for label in dict.fromkeys(row.label for row in report.returns):
        returns = [row for row in report.returns if row.label == label]
        cells = {_evaluation(row.agent, row.starts): _interval(row) for row in returns} | {
            "Seeds": str(returns[0].seeds or "none")
        }
        rows.append(Row(label, cells, kind=returns[0].kind))
    lead = (
        "Agents trained on each table alone and evaluated in the environment, final checkpoint only; intervals are "
        "over training seeds."
    )
    blocks: list[Block] = [*_warning(report.returns), *grid(drawings), *tabled("Trained on", rows)]
    return Section("What an agent learns from it", blocks, lead, "usefulness")


def _warning(returns: tuple[Return, ...]) -> tuple[Banner, ...]:
    """Where agents of the reference rows return less than a policy that learns nothing."""
    nothing = {row.starts: row for row in returns if row.seeds == 0}
    behind = dict.fromkeys(
        row.starts
        for row in returns
        if row.kind == "reference" and row.starts in nothing and row.mean < nothing[row.starts].mean
    )
    if not behind:
        return ()
    text = (
        f"From {' and from '.join(behind)}, agents of the protected rows return less than a policy that learns "
        "nothing. So these returns do not show how useful the synthetic rows are."
    )
    return (Banner("These agents have not learned the task.", text, "absent"),)


def _evaluation(agent: str, starts: str) -> str:
    """What a chart of returns, and a column of the table, is called."""
    return f"{agent}, from {starts}" if agent else f"From {starts}"


def _interval(row: Return) -> str:
    return number(row.mean) + (f" ({number(row.low)} to {number(row.high)})" if row.seeds else "")


def _returns(report: Report, agent: str, starts: str, style: dict[str, str]) -> Chart:
    rows = [row for row in report.returns if (row.agent, row.starts) == (agent, starts)]
    shared = [np.array([row.low, row.mean, row.high]) for row in report.returns if row.agent == agent]
    name = _evaluation(agent, starts)
    drawn = charts.intervals(
        [(row.label, [(style[row.label], row.mean, row.low, row.high)]) for row in rows],
        title=f"Return, {name}: {'; '.join(f'{row.label} {_interval(row)}' for row in rows)}",
        x=span(report.return_unit, np.zeros(1), *shared),
    )
    return Chart(name, "mean and interval over seeds", drawn)


def _curves(report: Report, agent: str, style: dict[str, str]) -> Chart:
    """The learning curves of one way to learn."""
    curves = [curve for curve in report.curves if curve.agent == agent]
    ends = "; ".join(f"{curve.label} ends at {number(float(curve.mean[-1]))}" for curve in curves)
    drawn = charts.lines(
        [Line(style[c.label], c.steps, c.mean, c.low, c.high) for c in reversed(curves)],
        title=f"{agent or 'Return'} over training: {ends}",
        x=span("training steps", *(c.steps for c in curves)),
        y=span(report.return_unit, *(part for c in curves for part in (c.low, c.high))),
    )
    label = f"{agent}, while training" if agent else "While training"
    return Chart(label, "mean and interval over seeds", drawn, [(c.label, style[c.label]) for c in curves])
