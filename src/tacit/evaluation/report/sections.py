"""The comparing sections of the report: from public inputs to labelled charts and table rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.evaluation.report.charts import Line, heat_map, histogram_chart, interval_chart, line_chart, map_chart
from tacit.evaluation.report.content import Kind, Report, Score
from tacit.evaluation.report.histograms import Histogram
from tacit.evaluation.report.svg import number, span

NAMES = {"simulated": "Protected rows (simulated)", "public": "Public rows", None: ""}


def likeness(report: Report) -> dict[str, Any]:
    """Maps, scores, marginals and correlations for the template."""
    name = NAMES[report.reference]
    legend = [("Synthetic rows", "synthetic")]
    if any(h.reference is not None for h in report.marginals):
        legend.insert(0, (name, "filled reference"))
    return {
        "maps": _maps(report),
        "closeness": _table([score for score in report.scores if not score.public]),
        "world": _table([score for score in report.scores if score.public]),
        "marginals": [marginal(h) for h in report.marginals],
        "marginals_legend": legend,
        "correlations": _correlations(report, name),
    }


def usefulness(report: Report) -> dict[str, Any]:
    """Returns and learning curves for the template."""
    style_of = styles([(row.label, row.kind) for row in report.returns] + [(c.label, c.kind) for c in report.curves])
    evaluations = list(dict.fromkeys((row.agent, row.starts) for row in report.returns))
    charts = []
    for agent, starts in evaluations:
        rows = [row for row in report.returns if (row.agent, row.starts) == (agent, starts)]
        told = "; ".join(f"{r.label} {number(r.mean)} ({number(r.low)} to {number(r.high)})" for r in rows)
        shared = [np.array([r.low, r.mean, r.high]) for r in report.returns if r.agent == agent]
        chart = interval_chart(
            [(r.label, style_of[r.label], r.mean, r.low, r.high) for r in rows],
            title=f"Return, {_evaluation(agent, starts)}: {told}",
            x=span(report.return_unit, np.zeros(1), *shared),
        )
        charts.append({"label": _evaluation(agent, starts), "chart": chart})
    return {
        "returns": charts,
        "curves": [_curves(report, agent, style_of) for agent in dict.fromkeys(curve.agent for curve in report.curves)],
        "return_columns": [*(_evaluation(*evaluation) for evaluation in evaluations), "Seeds"],
        "return_rows": [
            _return_row(report, label, evaluations) for label in dict.fromkeys(r.label for r in report.returns)
        ],
    }


def _evaluation(agent: str, starts: str) -> str:
    """What a chart of returns, and a column of the table, is called."""
    return f"{agent}, from {starts}" if agent else f"From {starts}"


def _curves(report: Report, agent: str, style_of: dict[str, str]) -> dict[str, Any]:
    """The learning curves of one way to learn."""
    curves = [curve for curve in report.curves if curve.agent == agent]
    told = "; ".join(f"{curve.label} ends at {number(float(curve.mean[-1]))}" for curve in curves)
    chart = line_chart(
        [Line(style_of[c.label], c.steps, c.mean, c.low, c.high) for c in reversed(curves)],
        title=f"{agent or 'Return'} over training: {told}",
        x=span("training steps", *(c.steps for c in curves)),
        y=span(report.return_unit, *(part for c in curves for part in (c.low, c.high))),
    )
    legend = [(curve.label, style_of[curve.label]) for curve in curves]
    return {"label": f"{agent}, while training" if agent else "While training", "legend": legend, "chart": chart}


def _return_row(report: Report, label: str, evaluations: list[tuple[str, str]]) -> dict[str, Any]:
    rows = {(row.agent, row.starts): row for row in report.returns if row.label == label}
    told = {key: f"{number(r.mean)} ({number(r.low)} to {number(r.high)})" for key, r in rows.items()}
    first = next(iter(rows.values()))
    cells = [*(told.get(evaluation, "–") for evaluation in evaluations), str(first.seeds)]
    return {"label": label, "note": "", "kind": first.kind, "cells": cells}


def _maps(report: Report) -> list[dict[str, Any]]:
    if report.map is None:
        return []
    style_of = styles([(panel.label, panel.kind) for panel in report.map.panels])
    goal = None if report.map.goal is None else np.array(report.map.goal, dtype=np.float64)
    return [
        {
            "label": panel.label,
            "note": f"{len(panel.positions):,} rows",
            "chart": map_chart(
                np.asarray(panel.positions, dtype=np.float64),
                style_of[panel.label],
                title=f"{panel.label}: positions of {len(panel.positions):,} rows in the maze",
                cells=report.map.cells,
                origin=report.map.origin,
                goal=goal,
            ),
        }
        for panel in report.map.panels
    ]


def _table(scores: list[Score]) -> dict[str, Any] | None:
    """Columns, rows and an introduction of measures that stand in one table."""
    if not scores:
        return None
    ceiling = any(score.ceiling is not None for score in scores)
    rivals, controls = (
        list(dict.fromkeys(name for score in scores for name, _ in getattr(score, kind)))
        for kind in ("rivals", "controls")
    )
    lead = ""
    if ceiling:
        lead += " Real against real compares two halves of the reference rows: no table can be expected to do better."
    if rivals:
        lead += f" {', '.join(rivals)}: other synthesizers, on the same rows under the same promise."
    if controls:
        lead += " Controls know less than the synthetic table and must score worse on at least one measure."
    return {
        "lead": lead,
        "columns": ["Synthetic", *(["Real against real"] if ceiling else []), *rivals, *controls],
        "rows": [_score(score, ceiling, [*rivals, *controls]) for score in scores],
    }


def _score(score: Score, ceiling: bool, others: list[str]) -> dict[str, Any]:
    known = dict((*score.rivals, *score.controls))
    values = [score.synthetic, *([score.ceiling] if ceiling else []), *(known.get(name) for name in others)]
    cells = ["–" if v is None else f"{v:.4f}" if 0 <= v < 10 else number(v) for v in values]
    return {"label": score.measure, "note": score.meaning, "kind": "", "cells": cells}


def marginal(item: Histogram, counted: str = "rows") -> dict[str, Any]:
    """A labelled chart of one distribution, and what is counted in it."""
    similarity = "" if item.similarity is None else f"1 − KS = {item.similarity:.3f}"
    title = f"Distribution of {item.column}" + (f", {similarity}" if similarity else "")
    label = f"{item.column}, {item.unit}" if item.unit else item.column
    chart = histogram_chart(
        item.edges, item.reference, item.synthetic, title=title, x_label=label, y_label=f"{counted}, %"
    )
    return {"label": item.column, "note": similarity, "chart": chart}


def _correlations(report: Report, name: str) -> list[dict[str, Any]]:
    pair = report.correlation
    if pair is None:
        return []
    panels = [("Synthetic rows", "Pearson r", pair.synthetic)]
    if pair.reference is not None:
        gap = np.abs(pair.reference - pair.synthetic)
        panels.insert(0, (name, "Pearson r", pair.reference))
        panels.append(("Difference", f"largest {gap.max():.3f}", pair.synthetic - pair.reference))
    return [
        {
            "label": label,
            "note": note,
            "chart": heat_map(matrix, pair.labels, title=f"Correlation matrix, {label}: {note}"),
        }
        for label, note, matrix in panels
    ]


def styles(series: list[tuple[str, Kind]]) -> dict[str, str]:
    """A style for each label: the kind itself, or the next of the four styles of controls."""
    found: dict[str, str] = {}
    for label, kind in series:
        if label not in found:
            controls = sum(style.startswith("control") for style in found.values())
            found[label] = kind if kind != "control" else f"control-{controls % 4}"
    return found
