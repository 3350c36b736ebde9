"""The report of a learned policy: returns on simulated people whom no training met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tacit.errors import DataError
from tacit.evaluation.report import blocks, charts
from tacit.evaluation.report.blocks import Block, Certified, Chart, Facts, Paragraphs, Section, TableRow, make_grid
from tacit.evaluation.report.charts import Array, ChartLine, Kind, number, span, styles
from tacit.units import noun

Role = Literal["released", "compared", "ceiling", "floor"]
"""The run that is released; one at another epsilon; one without noise; one that learned from noise alone."""
_KINDS: dict[str, Kind] = {"released": "synthetic", "ceiling": "reference"}


@dataclass(frozen=True)
class LearningCurve:
    """How one setting learned: the return of the policies that it released on the way."""

    label: str  # of the setting ("epsilon 2")
    role: Role  # see `Role`
    people: Array  # [K] how many people had been met when a policy was released
    # mean, low, high: [K] mean return of that policy, and its lowest and highest over the runs; all the same where
    # there is one run
    mean: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class Outcome:
    """What one setting came to."""

    label: str  # label, role: as in `LearningCurve`
    role: Role
    mean: float  # mean, low, high: return of the last policy as it acts, over the runs
    low: float
    high: float
    greedy: float  # mean return of the same policy when it takes its best action
    averaged: float  # mean return of the averaged policy as it acts
    runs: int  # how many runs


def sections(
    certificate: Certified,
    *,
    environment: str,
    people: int,
    evaluated: int,
    error: float,
    outcomes: Sequence[Outcome],
    curves: Sequence[LearningCurve] = (),
) -> tuple[Section, ...]:
    """What the page of a learned policy says besides the promise. Returns are measured on simulated people alone.

    Args:
        certificate: of the policy.
        environment: its id.
        people, evaluated: how many people the training met at most, and how many others each return is measured on.
        error: standard error of the released policy's return over those people.
        outcomes: what every setting came to; exactly one has the role "released".
        curves: how they learned.

    Raises:
        DataError: the certificate is not one of simulated people, or there is not exactly one released outcome.
    """
    if certificate.get("simulated") is not True:
        what = "returns are shown and the certificate does not say that the people are simulated"
        expected = "a certificate with simulated = true"
        remedy = "measure returns on simulated people: those of real ones are not differentially private"
        raise DataError(what, where="report", expected=expected, remedy=remedy)
    released = [row for row in outcomes if row.role == "released"]
    if len(released) != 1:
        what, remedy = "there is no released outcome, or there are several", "put the returns of the released policy in"
        raise DataError(what, where="report", expected="one outcome of the role 'released'", remedy=remedy)
    (row,) = released
    figures = [
        ("Return", number(row.mean, 4), f"± {number(error, 2)} standard error"),
        ("Greedy", number(row.greedy, 4), "the best action each time, instead of a drawn one"),
        ("Averaged policy", number(row.averaged, 4), "mean of the later parameters, at no further cost"),
        ("People met", f"at most {people:,}", "as the plan fixed it beforehand"),
    ]
    lines = [
        f"Measured on {evaluated:,} simulated people whom the training never met. Their returns are not part "
        "of the release, and nothing was chosen by them."
    ]
    if certificate["private"] is True:
        name, often = noun(certificate["unit"]["name"]), certificate["plan"]["participations"]
        left = "once, in one bounded contribution" if often == 1 else f"at most {often} times, bounded each time"
        lines.append(
            f"Each {name} counts {left}; what one of them did changes this policy no more than is promised below."
        )
    for curve in curves:
        if curve.role == "released":
            lines.insert(0, f"An episode returned {describe_change(curve)}")
    headline = f"In {environment}, an episode under this policy returns about {number(row.mean, 3)}."
    content = (Paragraphs(lines), Facts(figures))
    return (
        blocks.opening_section(headline, content, eyebrow="What was learned", hero="The return"),
        _learning_section(outcomes, curves),
        blocks.settings_section(plan_settings(certificate), before="anybody was met"),
        blocks.limits_section(certificate),
    )


def describe_change(curve: LearningCurve) -> str:
    """What an episode returns before anybody was met and after the last round, on the same fresh simulated people."""
    first, last = float(curve.mean[0]), float(curve.mean[-1])
    verdict = "; learning made it worse" if last < first else "; learning changed nothing" if last == first else ""
    return f"{number(first, 4)} before anybody was met, {number(last, 4)} after, on the same fresh people{verdict}."


def plan_settings(certificate: Certified) -> list[tuple[str, str, str]]:
    """The plan's settings for people, with the clip that bounds contributions: a smaller one where there is much
    noise."""
    # Settings without effect, and those that stand elsewhere on the page, are left out.
    plan = certificate["plan"]
    most, sigma = plan.get("most_noise"), plan.get("noise_multiplier")
    used = {**plan, "clip_norm": min(plan["clip_norm"], most / sigma)} if most and sigma else plan
    unused = {name for name, value in plan.items() if value is None} | blocks.STATED | {"most_noise"}
    unused |= set() if plan.get("critic") == "local" else {"ridge"}
    unused |= set() if plan.get("critic") in ("private", "shared") else {"kappa", "critic_step"}
    unused |= {"decay"} if plan["correlation"] != "toeplitz" else set()
    return blocks.setting_pairs(certificate, unused, plan=used)


def _learning_section(outcomes: Sequence[Outcome], curves: Sequence[LearningCurve]) -> Section:
    lead = "Policies that were released on the way, on simulated people whom no training met."
    if any(row.role in ("ceiling", "floor") for row in outcomes):
        lead += (
            " The ceiling learned without noise, with the same clip; the floor from noise alone; neither is released."
        )
    if any(row.runs > 1 for row in outcomes):
        lead += " Lines and points are means over runs, bands and bars go from the worst run to the best."
    drawings = [_curves_chart(curves), *_outcome_charts(outcomes)] if curves else []
    table = blocks.make_table("Learned with", [_row(row) for row in outcomes])
    shown: tuple[Block, ...] = (*make_grid(drawings, wide=True), *table) if drawings else ()
    return Section("How it learned, and what privacy cost", shown, lead, "learning", before=True)


def _curves_chart(curves: Sequence[LearningCurve]) -> Chart:
    style = styles((curve.label, _KINDS.get(curve.role, "control")) for curve in curves)
    lines = [
        ChartLine(
            style[curve.label],
            curve.people,
            curve.mean,
            *((curve.low, curve.high) if np.any(curve.low < curve.high) else ()),
        )
        for curve in curves
    ]
    ends = "; ".join(f"{curve.label} ends at {number(float(curve.mean[-1]))}" for curve in curves)
    drawn = charts.line_chart(
        lines[::-1],
        title=f"Return by the number of people met: {ends}",
        x=span("people met", np.zeros(1), *(curve.people for curve in curves)),
        y=span("return of an episode", *(part for curve in curves for part in (curve.low, curve.high))),
    )
    return Chart("While learning", "return by the number of people met", drawn, list(style.items()))


def _outcome_charts(rows: Sequence[Outcome]) -> list[Chart]:
    if len(rows) < 2:
        return []
    style = styles((row.label, _KINDS.get(row.role, "control")) for row in rows)
    drawn = charts.interval_chart(
        [(row.label, [(style[row.label], row.mean, row.low, row.high)]) for row in rows],
        title=f"Return against epsilon: {'; '.join(f'{row.label} {number(row.mean)}' for row in rows)}",
        x=span("return of an episode", *(np.array([row.low, row.high]) for row in rows)),
    )
    return [Chart("Against epsilon", "return of the last policy", drawn)]


def _row(row: Outcome) -> TableRow:
    spread = f" ({number(row.low)} to {number(row.high)})" if row.runs > 1 else ""
    returns = {"Return": f"{number(row.mean)}{spread}", "Greedy": number(row.greedy)}
    cells = returns | {"Averaged policy": number(row.averaged), "Runs": str(row.runs)}
    return TableRow(row.label, cells, kind=_KINDS.get(row.role, "control"))
