"""Sections of the report on copies, attacks and costs: from public inputs to charts and table rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from tacit.evaluation.report.charts import Line, interval_chart, line_chart, scatter_chart
from tacit.evaluation.report.content import Points, Report
from tacit.evaluation.report.evidence import Audit, Caught, Nearest
from tacit.evaluation.report.svg import Axis, number, upward

_CLOSEST = 1e-3
"""Distances below this share of the largest are drawn at the near end of the scale."""


def tried(report: Report) -> dict[str, Any]:
    """The picture, distances to single records, attacks and costs for the template."""
    costs, names = report.synthesizers, list(dict.fromkeys(n for c in report.synthesizers for n, _ in c.seconds))
    sized = any(cost.memory is not None for cost in costs)
    levels = sorted({caught.false_alarms for attack in report.attacks for caught in attack.caught}, reverse=True)
    return {
        "embedding": _embedding(report.embedding),
        "embedding_legend": [(points.label, f"filled {points.kind}") for points in report.embedding],
        "nearest": None if report.nearest is None else _nearest(report.nearest),
        "audits": [
            {
                "label": audit.label,
                "note": f"at {100 * audit.confidence:g} % confidence",
                "chart": _audit_chart(audit),
            }
            for audit in report.audits
        ],
        "audit_columns": ["Right guesses", "ε at least", "Most it could show", "ε promised"],
        "audit_rows": [_audit_row(audit) for audit in report.audits],
        "attack_columns": [f"Caught at {100 * level:g} % false alarms" for level in levels],
        "attack_rows": [
            {
                "label": attack.name,
                "note": attack.meaning,
                "kind": "",
                "cells": [_caught({one.false_alarms: one for one in attack.caught}.get(level)) for level in levels],
            }
            for attack in report.attacks
        ],
        "cost_columns": [*names, *(["Peak memory"] if sized else [])],
        "cost_rows": [
            {
                "label": cost.label,
                "note": "",
                "kind": cost.kind,
                "cells": [
                    *(_seconds(dict(cost.seconds).get(name)) for name in names),
                    *([_memory(cost.memory)] if sized else []),
                ],
            }
            for cost in costs
        ],
    }


def _embedding(panels: tuple[Points, ...]) -> list[dict[str, Any]]:
    """All tables in one picture, and each on its own at the same scale."""
    if not panels:
        return []
    joined = np.concatenate([points.positions for points in panels])
    low, high = joined.min(axis=0), joined.max(axis=0)
    placed = [(points, (points.positions - low) / np.maximum(high - low, 1e-12)) for points in panels]
    counts = "; ".join(f"{points.label}, {len(points.positions):,} rows" for points in panels)
    together = {
        "label": "Together",
        "note": "one point a row",
        "chart": scatter_chart([(p.kind, positions) for p, positions in placed], title=f"t-SNE picture of {counts}"),
    }
    apart = [
        {
            "label": points.label,
            "note": f"{len(positions):,} rows",
            "chart": scatter_chart([(points.kind, positions)], title=f"The same picture, {points.label} alone"),
        }
        for points, positions in placed
    ]
    return [together, *apart]


def _nearest(found: Nearest) -> dict[str, Any]:
    share, low, high = (_percent(part) for part in found.nearer)
    top = max(float(found.protected.max()), float(found.others.max()), 1e-12)
    levels = np.linspace(0.0, 100.0, len(found.protected))
    middle = len(levels) // 2
    ends = ", ".join(
        f"half of the rows have a {name} within {number(float(distances[middle]))}"
        for name, distances in (("protected one", found.protected), ("different one", found.others))
    )
    lines = [  # the dashed one on top, so that both are seen where they are one
        Line("synthetic", np.maximum(found.protected, _CLOSEST * top), levels),
        Line("control-0", np.maximum(found.others, _CLOSEST * top), levels),
    ]
    return {
        "chart": line_chart(
            lines,
            title=f"Distance to the nearest record: {ends}",
            x=Axis(f"distance, {found.unit}", _CLOSEST * top, top, log=True),
            y=Axis("synthetic rows within it, %", 0.0, 100.0),
        ),
        "legend": [("to a record that was learned from", "synthetic"), ("to one that was not", "control-0")],
        "share": f"{share} of the rows are nearer to a record that was learned from.",
        "copies": f"Rows that equal a record: {found.copies or 'none'} of {found.rows:,}.",
        "words": f"The 95 % interval is {low} to {high}; 50 % is what rows have that copy nobody.",
    }


def _audit_chart(audit: Audit) -> Markup:
    """What epsilon can be: at most what is promised (if the promise holds), and at least what the attack shows."""
    top = 1.15 * max(audit.lower, audit.certified)
    released, bound = audit.kind == "synthetic", upward(audit.certified)
    promised = f"{'Promised' if released else 'Promised in vain'}: at most {bound}"
    shown = f"Shown by the attack: at least {number(audit.lower)}"
    rows = [
        (promised, "reference", audit.certified, 0.0, audit.certified),
        (shown, "synthetic" if released else "control-0", audit.lower, audit.lower, top),
    ]
    title = f"Privacy loss of {audit.label}: {'. '.join(label for label, *_ in rows)}"
    return interval_chart(rows, title=title, x=Axis("privacy loss ε", 0.0, top))


def _audit_row(audit: Audit) -> dict[str, Any]:
    refuted = audit.lower > audit.certified
    note = "the promise is refuted" if refuted else "the promise stands"
    guessed = f"{audit.correct:,} of {audit.guesses:,}"
    return {
        "label": audit.label,
        "note": note,
        "kind": audit.kind,
        "cells": [guessed, number(audit.lower), number(audit.reach), upward(audit.certified)],
    }


def _caught(one: Caught | None) -> str:
    if one is None:
        return "–"
    return f"{_percent(one.share)} ({_percent(one.low)} to {_percent(one.high)})"


def _percent(share: float) -> str:
    percent = 100.0 * share
    return f"{percent:.1f} %" if percent >= 1 else f"{percent:.2g} %"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds < 10:
        return "< 0.1 s" if seconds < 0.1 else f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds >= 600 else f"{seconds:.0f} s"


def _memory(size: float | None) -> str:
    return "–" if size is None else f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
