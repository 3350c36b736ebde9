"""The sections of the report of a learned policy: from public inputs to sentences, charts and table rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from tacit.evaluation.report import settings
from tacit.evaluation.report.charts import Line, interval_chart, line_chart
from tacit.evaluation.report.learning import Outcome, PolicyReport
from tacit.evaluation.report.svg import number, span

_NAMES = {
    "users": "people in a round",
    "rounds": "rounds, each with other people",
    "clip": "largest norm of a contribution",
    "gamma": "discount",
    "trace": "trace: 1 for whole returns",
    "horizon": "longest episode, in decisions",
    "participations": "rounds in which one person may take part",
    "noise_multiplier": "noise multiplier, of the whole run",
    "correlation": "noise from round to round",
    "decay": "workload that the noise is matched to",
    "reward_rate": "reward of the public baseline",
    "ridge": "penalty of the local critic",
    "standardised": "advantages standardised for each person",
    "return_scale": "public factor of rewards",
    "kappa": "weight of the critic under the clip",
    "critic_step": "step size of the critic",
    "step": "first step size",
    "average": "share of the rounds that is averaged",
}
"""Settings that their names alone do not explain."""
COLUMNS = ("Return", "Greedy", "Averaged policy", "Runs")


def learned(report: PolicyReport) -> dict[str, Any]:
    """Headline, learning curves, comparison, settings and assumptions for the template."""
    certificate = report.certificate
    return {
        "eyebrow": "What was learned",
        "answer": f"In {report.environment}, an episode under this policy returns about {_returned(report)}.",
        "answer_details": _details(report),
        "answer_figures": _figures(report),
        "curve_chart": _curves(report),
        "curve_legend": [(curve.label, style) for curve, style in zip(report.curves, _styles(report), strict=True)],
        "outcome_chart": _outcomes(report),
        "columns": COLUMNS,
        "rows": [_row(row) for row in report.outcomes],
        "controls": any(row.role in ("ceiling", "floor") for row in report.outcomes),
        "several": any(row.runs > 1 for row in report.outcomes),
        "settings": settings.pairs(_used(certificate["plan"]), _NAMES, _unused(certificate["plan"])),
        "covered": list(certificate["covered"]),
        "assumptions": list(certificate["assumptions"]),
        "not_covered": list(certificate["not_covered"]),
    }


def _returned(report: PolicyReport) -> str:
    return number(float(f"{report.released.mean:.3g}"))


def _used(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The plan with the clip that bounds contributions: a smaller one than was asked for where there is much noise."""
    most, sigma = plan.get("most_noise"), plan.get("noise_multiplier")
    return {**plan, "clip": min(plan["clip"], most / sigma)} if most and sigma else dict(plan)


def _unused(plan: Mapping[str, Any]) -> set[str]:
    """Settings without effect, and those that stand elsewhere on the page."""
    unused = {name for name, value in plan.items() if value is None} | settings.STATED | {"most_noise"}
    unused |= set() if plan["critic"] == "local" else {"ridge"}
    unused |= set() if plan["critic"] in ("private", "shared") else {"kappa", "critic_step"}
    return unused | ({"decay"} if plan["correlation"] != "toeplitz" else set())


def _details(report: PolicyReport) -> list[str]:
    lines = [
        f"Measured on {report.evaluated:,} simulated people whom the training never met. Their returns are not part "
        "of the release, and nothing was chosen by them."
    ]
    if report.certificate["private"] is True:
        name, often = report.certificate["unit"]["name"], report.certificate["plan"]["participations"]
        left = "once, in one bounded contribution" if often == 1 else f"at most {often} times, bounded each time"
        lines.append(
            f"Each {name} counts {left}; what one of them did changes this policy no more than is promised below."
        )
    return lines


def _figures(report: PolicyReport) -> list[tuple[str, str, str]]:
    row = report.released
    return [
        ("Return", number(float(f"{row.mean:.4g}")), f"± {number(float(f'{report.error:.2g}'))} standard error"),
        ("Greedy", number(float(f"{row.greedy:.4g}")), "the best action each time, instead of a drawn one"),
        ("Averaged policy", number(float(f"{row.averaged:.4g}")), "mean of the later parameters, at no further cost"),
        ("People met", f"at most {report.people:,}", "as the plan fixed it beforehand"),
    ]


def _styles(report: PolicyReport) -> list[str]:
    """The released run in front, its ceiling in grey, every other one in a style of its own."""
    own: dict[str, str] = {"released": "synthetic", "ceiling": "reference"}
    styles: list[str] = []
    for curve in report.curves:
        others = sum(style.startswith("control") for style in styles)
        styles.append(own.get(curve.role, f"control-{others % 4}"))
    return styles


def _curves(report: PolicyReport) -> Markup | None:
    if not report.curves:
        return None
    lines = [
        Line(style, curve.people, curve.mean, *((curve.low, curve.high) if np.any(curve.low < curve.high) else ()))
        for curve, style in zip(report.curves, _styles(report), strict=True)
    ]
    told = "; ".join(f"{curve.label} ends at {number(float(curve.mean[-1]))}" for curve in report.curves)
    return line_chart(
        lines[::-1],
        title=f"Return by the number of people met: {told}",
        x=span("people met", np.zeros(1), *(curve.people for curve in report.curves)),
        y=span("return of an episode", *(part for curve in report.curves for part in (curve.low, curve.high))),
    )


def _outcomes(report: PolicyReport) -> Markup | None:
    if len(report.outcomes) < 2:
        return None
    others = [row.label for row in report.outcomes if row.role in ("compared", "floor")]
    styles = {label: f"control-{index % 4}" for index, label in enumerate(others)}
    own = {"released": "synthetic", "ceiling": "reference"}
    told = "; ".join(f"{row.label} {number(row.mean)}" for row in report.outcomes)
    return interval_chart(
        [(row.label, own.get(row.role) or styles[row.label], row.mean, row.low, row.high) for row in report.outcomes],
        title=f"Return against epsilon: {told}",
        x=span("return of an episode", *(np.array([row.low, row.high]) for row in report.outcomes)),
    )


def _row(row: Outcome) -> dict[str, Any]:
    spread = f" ({number(row.low)} to {number(row.high)})" if row.runs > 1 else ""
    cells = (f"{number(row.mean)}{spread}", number(row.greedy), number(row.averaged), str(row.runs))
    return {"label": row.label, "released": row.role == "released", "cells": cells}
