"""The report of an improvement: what is proven, what the records return, and where the advice differs from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tacit.evaluation.report import blocks, charts
from tacit.evaluation.report.blocks import Certified, Chart, Facts, Row, Section, Text, pairs, tabled
from tacit.evaluation.report.charts import number, span, styles
from tacit.methods.improvement.statement import Statement, Verdict

if TYPE_CHECKING:
    from tacit.methods.improvement.algorithm import Improvement

_HEADLINES: dict[Verdict, str] = {
    "proven": "Following this advice gains, and the records prove it.",
    "not shown": "The records do not show that following this advice gains.",
    "too few people": "There are too few people to show what this advice gains.",
    "clone": "No advice is released: the policy is the clone of the records' own decisions.",
}
LEAST = 0.005
"""Shares of visits below it are not listed."""


def sections(certificate: Certified, value: Improvement, actions: Sequence[str]) -> tuple[Section, ...]:
    """What the page of an improvement says besides the promise; it has no place for a record.

    Args:
        certificate: of the release.
        value: what was released.
        actions: their names.
    """
    return (
        _answer(value),
        _differs(value, actions),
        blocks.settings(pairs(certificate), before="a record was read"),
        blocks.limits(certificate),
    )


def _answer(value: Improvement) -> Section:
    said, what = value.statement, "clone" if value.sampled else "advice"
    returns, gain = said.returns_interval, said.gain_interval
    share, about = f"{100 * said.advice:.3g} % of the visits", f"about {number(said.gain)}"
    trust = f"kappa, at a signal-to-noise ratio of {number(value.plan.snr)}"
    figures = [
        (
            "Returns",
            number(said.returns),
            f"of the records' own decisions, {number(returns.low)} to {number(returns.high)}",
        ),
        ("Gain", f"at least {number(gain.low)}", f"where the {what} is followed in {share}; {about}"),
        ("Trust in the model", number(value.plan.kappa), trust),
    ]
    shown = (Text([str(said)]), Facts(figures), _bounds(said, f"with {what}"), Text([gain.words], "details"))
    return blocks.opening(_HEADLINES[said.verdict], shown, eyebrow="What is proven", hero="The statement")


def _bounds(said: Statement, what: str) -> Chart:
    low, high = said.returns_interval.low, said.returns_interval.high
    style = styles([("their own", "reference"), (what, "synthetic")])
    least = said.returns + said.gain_interval.low
    drawn = charts.intervals(
        [
            ("their own", [(style["their own"], said.returns, low, high)]),
            (what, [(style[what], said.returns + said.gain, least, said.returns + said.gain)]),
        ],
        title=f"Returns {number(said.returns)}; {what} at least {number(least)}",
        x=span("return of an episode", np.array([low, high, least, said.returns + said.gain])),
    )
    note = f"the records' own decisions with their interval; {what} the estimate and its lower bound beside them"
    return Chart("Returns", note, drawn)


def _differs(value: Improvement, actions: Sequence[str]) -> Section:
    changes = np.asarray(value.changes)
    moved = float(changes.sum() - np.trace(changes))
    places = sorted(zip(*np.nonzero(changes >= LEAST), strict=True), key=lambda place: (changes[place], place))[::-1]
    rows = [
        Row(f"{actions[a]} → {actions[b]}", {"Share of visits": f"{100 * changes[a, b]:.1f} %"})
        for a, b in places
        if a != b
    ]
    lead = (
        f"In {100 * moved:.0f} % of the likely visits the advice is another action than the clone's, which acts as the "
        "records' own decisions mostly do. Both are computed from the noisy sums alone."
        if not value.sampled
        else "The policy is the clone of the records' own decisions, and draws its actions as they do: by the learning "
        "half's own private estimate no advice is above them. (The most frequent action of all may be the worst one.)"
    )
    if not (value.sampled or value.plan.kappa):
        lead = (
            "The advice is the clone's most likely action: the noise leaves nothing to be trusted beside the records' "
            "own decisions."
        )
    return Section("Where the advice differs", (Text([lead]), *tabled("Clone → advice", rows)), id="differs")
