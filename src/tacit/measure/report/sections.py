"""The comparing sections of the report: from public inputs to labelled charts and table rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.measure.report.charts import Line, heat_map, histogram_chart, interval_chart, line_chart, map_chart
from tacit.measure.report.content import Histogram, Kind, Report
from tacit.measure.report.svg import number, span

NAMES = {"simulated": "Protected rows (simulated)", "public": "Public rows", None: ""}


def likeness(report: Report) -> dict[str, Any]:
    """Maps, scores, marginals and correlations for the template."""
    name = NAMES[report.reference]
    columns = ["Synthetic"]
    if any(score.ceiling is not None for score in report.scores):
        columns.append("Real against real")
    controls = list(dict.fromkeys(control for score in report.scores for control, _ in score.controls))
    legend = [("Synthetic rows", "synthetic")]
    if any(h.reference is not None for h in report.marginals):
        legend.insert(0, (name, "filled reference"))
    return {
        "maps": _maps(report),
        "scores": [_score(score, len(columns) == 2, controls) for score in report.scores],
        "score_columns": columns + controls,
        "scores_lead": _scores_lead(len(columns) == 2, bool(controls)),
        "marginals": [_marginal(h) for h in report.marginals],
        "marginals_legend": legend,
        "correlations": _correlations(report, name),
    }


def usefulness(report: Report) -> dict[str, Any]:
    """Returns and learning curves for the template."""
    styles = _styles([(row.label, row.kind) for row in report.returns] + [(c.label, c.kind) for c in report.curves])
    every = [np.array([row.low, row.mean, row.high]) for row in report.returns]
    charts = []
    evaluations = list(dict.fromkeys(row.starts for row in report.returns))
    for starts in evaluations:
        rows = [row for row in report.returns if row.starts == starts]
        told = "; ".join(f"{r.label} {number(r.mean)} ({number(r.low)} to {number(r.high)})" for r in rows)
        chart = interval_chart(
            [(r.label, styles[r.label], r.mean, r.low, r.high) for r in rows],
            title=f"Return from {starts}: {told}",
            x=span(report.return_unit, np.zeros(1), *every),
        )
        charts.append({"label": starts[:1].upper() + starts[1:], "chart": chart})
    curve_chart = None
    if report.curves:
        told = "; ".join(f"{curve.label} ends at {number(float(curve.mean[-1]))}" for curve in report.curves)
        curve_chart = line_chart(
            [Line(styles[c.label], c.steps, c.mean, c.low, c.high) for c in reversed(report.curves)],
            title=f"Return over training: {told}",
            x=span("training steps", *(c.steps for c in report.curves)),
            y=span(report.return_unit, *(part for c in report.curves for part in (c.low, c.high))),
        )
    return {
        "returns": charts,
        "curve_chart": curve_chart,
        "curve_legend": [(curve.label, styles[curve.label]) for curve in report.curves],
        "return_columns": [*(f"From {starts}" for starts in evaluations), "Seeds"],
        "return_rows": [
            _return_row(report, label, evaluations) for label in dict.fromkeys(r.label for r in report.returns)
        ],
    }


def _return_row(report: Report, label: str, evaluations: list[str]) -> dict[str, Any]:
    rows = {row.starts: row for row in report.returns if row.label == label}
    cells = ["–"] * len(evaluations)
    for index, starts in enumerate(evaluations):
        if row := rows.get(starts):
            cells[index] = f"{number(row.mean)} ({number(row.low)} to {number(row.high)})"
    first = next(iter(rows.values()))
    return {"label": label, "kind": first.kind, "cells": [*cells, str(first.seeds)]}


def _maps(report: Report) -> list[dict[str, Any]]:
    if report.map is None:
        return []
    styles = _styles([(panel.label, panel.kind) for panel in report.map.panels])
    goal = None if report.map.goal is None else np.array(report.map.goal, dtype=np.float64)
    return [
        {
            "label": panel.label,
            "note": f"{len(panel.positions):,} rows",
            "chart": map_chart(
                np.asarray(panel.positions, dtype=np.float64),
                styles[panel.label],
                title=f"{panel.label}: positions of {len(panel.positions):,} rows in the maze",
                cells=report.map.cells,
                origin=report.map.origin,
                goal=goal,
            ),
        }
        for panel in report.map.panels
    ]


def _score(score: Any, ceiling: bool, controls: list[str]) -> dict[str, Any]:
    values = [score.synthetic, *([score.ceiling] if ceiling else []), *(dict(score.controls).get(c) for c in controls)]
    cells = ["–" if v is None else f"{v:.4f}" if 0 <= v < 10 else number(v) for v in values]
    return {"measure": score.measure, "meaning": score.meaning, "cells": cells}


def _scores_lead(ceiling: bool, controls: bool) -> str:
    text = "Measures of the synthetic table."
    if ceiling:
        text += " Real against real compares two halves of the reference rows: no table can be expected to do better."
    if controls:
        text += " Controls know less than the synthetic table and must score worse on at least one measure."
    return text


def _marginal(item: Histogram) -> dict[str, Any]:
    similarity = "" if item.similarity is None else f"1 − KS = {item.similarity:.3f}"
    title = f"Distribution of {item.column}" + (f", {similarity}" if similarity else "")
    label = f"{item.column}, {item.unit}" if item.unit else item.column
    chart = histogram_chart(item.edges, item.reference, item.synthetic, title=title, x_label=label)
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


def _styles(series: list[tuple[str, Kind]]) -> dict[str, str]:
    """A style for each label: the kind itself, or the next of the four styles of controls."""
    styles: dict[str, str] = {}
    for label, kind in series:
        if label not in styles:
            controls = sum(style.startswith("control") for style in styles.values())
            styles[label] = kind if kind != "control" else f"control-{controls % 4}"
    return styles
