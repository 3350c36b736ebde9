"""The section of the report on audits of its certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tacit.evaluation.audits.findings import WAYS, Audited
from tacit.evaluation.report.charts import interval_chart
from tacit.evaluation.report.svg import Axis, number, upward


def audited(audits: Sequence[Audited]) -> dict[str, Any] | None:
    """Charts and rows for the template; None where nothing was audited."""
    if not audits:
        return None
    rows = [
        {
            "label": WAYS[finding.way],
            "note": finding.shape,
            "kind": "synthetic",
            "cells": [
                number(finding.epsilon),
                "–" if finding.gaussian is None else number(finding.gaussian),
                upward(one.epsilon),
            ],
        }
        for one in audits
        for finding in one.findings
    ]
    notes = [f"Not audited: {', '.join(one.left_out)}." for one in audits if one.left_out]
    return {
        "charts": [_chart(one) for one in audits],
        "columns": ["ε at least, whatever the mechanism", "ε at least, if the noise is Gaussian", "ε promised"],
        "rows": rows,
        "notes": notes,
    }


def _chart(one: Audited) -> dict[str, Any]:
    top = 1.15 * max(one.lower, one.epsilon)
    promised = f"Promised: at most {upward(one.epsilon)}"
    shown = f"Shown by the audit: at least {number(one.lower)}"
    rows = [
        (promised, "reference", one.epsilon, 0.0, one.epsilon),
        (shown, "synthetic" if one.stands else "control-0", one.lower, one.lower, top),
    ]
    title = f"Privacy loss of {one.words}: {promised}. {shown}"
    return {
        "label": "Between what is shown and what is promised",
        "note": f"{'the promise stands' if one.stands else 'the promise is refuted'}, at {100 * one.confidence:g} %",
        "chart": interval_chart(rows, title=title, x=Axis("privacy loss ε", 0.0, top)),
    }
