"""The report of an improvement: what is proven, what the records return, and where the advice differs from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tacit.evaluation.report import blocks, charts
from tacit.evaluation.report.blocks import Certified, Chart, Facts, Paragraphs, Section, TableRow, make_table
from tacit.evaluation.report.charts import number, span, styles
from tacit.methods.improvement.statement import Statement, Verdict

if TYPE_CHECKING:
    from tacit.methods.improvement.algorithm import Improvement
    from tacit.methods.improvement.rules import Rule

_HEADLINES: dict[Verdict, str] = {
    "proven": "Following this advice gains, and the records prove it.",
    "not shown": "The records do not show that following this advice gains.",
    "too few people": "There are too few people to show what this advice gains.",
    "clone": "No advice is released: the policy is the clone of the records' own decisions.",
}
MIN_SHARE = 0.005
"""Shares of visits below it are not listed."""


def sections(
    certificate: Certified, value: Improvement, actions: Sequence[str], rules: Sequence[tuple[str, Rule]]
) -> tuple[Section, ...]:
    """What the page of an improvement says besides the promise; it has no place for a record.

    Args:
        certificate: of the release.
        value: what was released.
        actions: their names.
        rules: that say what the policy does, with their conditions in words.
    """
    return (
        _answer_section(value),
        _rules_section(value, actions, rules),
        _differences_section(value, actions),
        blocks.settings_section(blocks.setting_pairs(certificate), before="a record was read"),
        blocks.limits_section(certificate),
    )


def caution(value: Improvement) -> str:
    """Why the statement has another level than was asked for; empty where it has that level."""
    asked, level = value.plan.level, value.statement.gain_interval.level
    if level == asked:
        return ""
    count = round((1 - asked) / (1 - level)) - 1  # `corrected_level`
    before = f"{count} evaluation{'s' if count > 1 else ''} on the same people came before"
    return (
        f"{100 * asked:g} % were asked for; {before}, so the bounds are ones of {100 * level:.4g} %: whichever of "
        f"{count + 1} statements was chosen by them, {100 * asked:g} % hold for it."
    )


def _answer_section(value: Improvement) -> Section:
    statement, what = value.statement, "clone" if value.sampled else "advice"
    returns, gain = statement.returns_interval, statement.gain_interval
    share, about = f"{100 * statement.advice:.3g} % of the visits", f"about {number(statement.gain)}"
    trust = "the more noise, the less: at 0 the policy follows the records' own decisions alone"
    figures = [
        (
            "Returns",
            number(statement.returns),
            f"of the records' own decisions, {number(returns.low)} to {number(returns.high)}",
        ),
        ("Gain", f"at least {number(gain.low)}", f"where the {what} is followed in {share}; {about}"),
        ("Trust in the model", number(value.plan.kappa), trust),
    ]
    chart = _returns_chart(statement, f"with {what}")
    words = Paragraphs([f"The bound on the gain is {gain.words}."], "details")
    said = [line for line in (str(statement), caution(value)) if line]
    shown = (Paragraphs(said), Facts(figures), chart, words)
    return blocks.opening_section(_HEADLINES[statement.verdict], shown, eyebrow="What is proven", hero="The statement")


def _returns_chart(statement: Statement, what: str) -> Chart:
    low, high = statement.returns_interval.low, statement.returns_interval.high
    style = styles([("their own", "reference"), (what, "synthetic")])
    least = statement.returns + statement.gain_interval.low
    drawn = charts.interval_chart(
        [
            ("their own", [(style["their own"], statement.returns, low, high)]),
            (what, [(style[what], statement.returns + statement.gain, least, statement.returns + statement.gain)]),
        ],
        title=f"Returns {number(statement.returns)}; {what} at least {number(least)}",
        x=span("return of an episode", np.array([low, high, least, statement.returns + statement.gain])),
    )
    note = f"the records' own decisions with their interval; {what} the estimate and its lower bound beside them"
    return Chart("Returns", note, drawn)


def _rules_section(value: Improvement, actions: Sequence[str], rules: Sequence[tuple[str, Rule]]) -> Section:
    rows = [
        TableRow(
            words,
            {
                "Action": actions[rule.action],
                "Share of visits": f"{100 * rule.share:.0f} %",
                "Right in": f"{100 * rule.agreement:.0f} %",
            },
        )
        for words, rule in rules
    ]
    right = 100 * sum(rule.share * rule.agreement for _, rule in rules)
    lead = (
        f"These rules say what the policy {'mostly does' if value.sampled else 'does'} in {right:.0f} % of likely "
        "visits, which are drawn from the noisy means and spreads of the columns. The policy itself is in the folder."
    )
    return Section("The policy in words", (Paragraphs([lead]), *make_table("Where", rows)), id="rules")


def _differences_section(value: Improvement, actions: Sequence[str]) -> Section:
    changes = np.asarray(value.changes)
    moved = float(changes.sum() - np.trace(changes))
    places = sorted(zip(*np.nonzero(changes >= MIN_SHARE), strict=True), key=lambda at: (changes[at], at))[::-1]
    rows = [
        TableRow(f"{actions[a]} → {actions[b]}", {"Share of visits": f"{100 * changes[a, b]:.1f} %"})
        for a, b in places
        if a != b
    ]
    of_whom = "the decisions of those who did well" if value.plan.teachers == "best" else "the records' own decisions"
    if value.sampled:
        lead = (
            "The policy is the clone of the records' own decisions, and draws its actions as they do: by the learning "
            "half's own private estimate no advice is above them. (The most frequent action of all may be the worst "
            "one.)"
        )
    elif value.plan.advises and moved:
        lead = (
            f"In {100 * moved:.0f} % of the likely visits the advice is another action than that of the clone, a "
            f"private copy of {of_whom}. Both are computed from the noisy sums alone."
        )
    else:
        lead = f"The policy is the most likely action of a private copy of {of_whom}. No model of values is trusted."
    return Section("Where the advice differs", (Paragraphs([lead]), *make_table("Clone → advice", rows)), id="differs")
