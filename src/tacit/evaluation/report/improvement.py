"""The report of an improvement: what is proven, what the records return, and where the advice differs from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.errors import DataError
from tacit.evaluation.report import blocks, charts
from tacit.evaluation.report.blocks import Block, Chart, Facts, PublicReport, Row, Section, Table, Text
from tacit.evaluation.report.charts import Array, number, span, styles
from tacit.methods.improvement.statement import Statement, Verdict

_HEADLINES: dict[Verdict, str] = {
    "proven": "Following this advice gains, and the records prove it.",
    "not shown": "The records do not show that following this advice gains.",
    "too few people": "There are too few people to show what this advice gains.",
    "clone": "No advice is released: the policy is the clone of the records' own decisions.",
}
_NAMES = {
    "advice": "largest share of the visits in which the advice is followed",
    "caution": "chance of an action under the clone below which it is advised less often",
    "columns": "columns that the policy looks at",
    "value_columns": "columns that the value depends on",
    "memory: rates": "memory of each column: 1 the newest value, 0 the mean of all",
    "look_share": "share of the learning half's budget: means and spreads",
    "change_weight": "weight of changes of values under the clip",
    "reward_weight": "weight of rewards, in their standard deviations, under the clip",
    "clip": "clip of a unit's moments, in multiples of a typical one",
    "pessimism": "standard deviations subtracted while planning",
    "snr_scale": "signal-to-noise ratio from which the model is trusted",
    "level": "level of the bounds",
}
"""Settings that their names alone do not explain."""
LEAST = 0.005
"""Shares of visits below it are not listed."""


@dataclass(frozen=True, kw_only=True)
class ImprovementReport(PublicReport):
    """Everything that the report of an improvement shows; it has no place for a record.

    Attributes:
        statement: what the records prove.
        kappa, snr: how much the advice trusts the model, and the signal-to-noise ratio that decides it.
        actions: their names, A of them.
        changes: [A, A] share of likely visits where the clone would take one action and the advice another.
        sampled: whether the policy is the clone, and draws its actions.

    Raises:
        DataError: the shares are not those of these actions.
    """

    statement: Statement
    kappa: float
    snr: float
    actions: tuple[str, ...]
    changes: Array
    sampled: bool

    def __post_init__(self) -> None:
        if np.shape(self.changes) != (len(self.actions),) * 2:
            what, expected = "the shares are not those of these actions", "one row and one column for each action"
            raise DataError(what, where="ImprovementReport", expected=expected, remedy="pass what the release has")

    def sections(self) -> tuple[Section, ...]:
        """What the page says besides the promise."""
        return (
            _answer(self),
            _differs(self),
            blocks.settings(blocks.pairs(self.certificate["plan"], _NAMES, blocks.STATED), before="a record was read"),
            blocks.limits(self.certificate),
        )


def _answer(report: ImprovementReport) -> Section:
    said = report.statement
    returns, gain = said.returns_interval, said.gain_interval
    share, about = f"{100 * said.advice:.3g} % of the visits", f"about {number(said.gain)}"
    figures = [
        (
            "Returns",
            number(said.returns),
            f"of the records' own decisions, {number(returns.low)} to {number(returns.high)}",
        ),
        ("Gain", f"at least {number(gain.low)}", f"where the {_what(report)} is followed in {share}; {about}"),
        ("Trust in the model", number(report.kappa), f"kappa, at a signal-to-noise ratio of {number(report.snr)}"),
    ]
    shown: tuple[Block, ...] = (Text([str(said)]), Facts(figures), _bounds(report), Text([gain.words], "details"))
    return blocks.opening(_HEADLINES[said.verdict], shown, eyebrow="What is proven", hero="The statement")


def _bounds(report: ImprovementReport) -> Chart:
    said, what = report.statement, f"with {_what(report)}"
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


def _what(report: ImprovementReport) -> str:
    return "clone" if report.sampled else "advice"


def _differs(report: ImprovementReport) -> Section:
    changes = np.asarray(report.changes)
    moved = float(changes.sum() - np.trace(changes))
    pairs = sorted(
        (
            (float(changes[a, b]), a, b)
            for a in range(len(changes))
            for b in range(len(changes))
            if a != b and changes[a, b] >= LEAST
        ),
        reverse=True,
    )
    rows = [
        Row(f"{report.actions[a]} → {report.actions[b]}", {"Share of visits": f"{100 * share:.1f} %"})
        for share, a, b in pairs
    ]
    lead = (
        f"In {100 * moved:.0f} % of the likely visits the advice is another action than the clone's, which acts as the "
        "records' own decisions mostly do. Both are computed from the noisy sums alone."
        if not report.sampled
        else "The policy is the clone of the records' own decisions, and draws its actions as they do: by the learning "
        "half's own private estimate no advice is above them. (The most frequent action of all may be the worst one.)"
    )
    if not (report.sampled or report.kappa):
        lead = (
            "The advice is the clone's most likely action: the noise leaves nothing to be trusted beside the records' "
            "own decisions."
        )
    shown: tuple[Block, ...] = (Text([lead]), *((Table("Clone → advice", rows),) if rows else ()))
    return Section("Where the advice differs", shown, id="differs")
