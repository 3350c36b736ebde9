"""The report of a steered language model: what the public reward says of it on public prompts, and what people say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from tacit.evaluation.report import blocks, charts
from tacit.evaluation.report.blocks import Certified, Chart, Facts, Paragraphs, Section, TableRow, make_grid, make_table
from tacit.evaluation.report.charts import ChartLine, Kind, number, span, styles
from tacit.methods.alignment.judging import Judgement

if TYPE_CHECKING:
    from tacit.methods.alignment.steered import Steered

Role = Literal["reference", "round", "released", "floor"]
"""The base model; the model after a round; the one that is released; one that was steered by noise alone."""
_KINDS: dict[str, Kind] = {"reference": "reference", "released": "synthetic"}


@dataclass(frozen=True)
class ModelOutcome:
    """What one model wrote on public prompts."""

    label: str  # label, role: which model
    role: Role
    # reward, error: mean of the public reward, and its standard error over the prompts; None without a reward
    reward: float | None
    error: float
    kl: float  # to the base model, in nats a token
    distinct: float  # share of different pairs among neighbouring tokens
    length: float  # of what was added to the base model's parameters


def sections(
    certificate: Certified,
    value: Steered,
    *,
    prompts: int,
    outcomes: Sequence[ModelOutcome],
    samples: Sequence[tuple[str, str]] = (),
) -> tuple[Section, ...]:
    """What the page of a steered model says besides the promise; no text of a protected person is among it.

    Args:
        certificate: of the model.
        value: the model, with what people say of it.
        prompts: how many public prompts the figures are measured on.
        outcomes: in order, the base model first; exactly one is released.
        samples: public prompts, each completed by the base model and by the released one at the same draws.
    """
    unused = {name for name, value in certificate["plan"].items() if value in (None, "")} | blocks.STATED
    texts = [TableRow(before, {"Released model": after}) for before, after in samples]
    lead = "Public prompts, completed at the same draws."
    return (
        _answer_section(prompts, outcomes, value),
        _outcomes_section(outcomes),
        *_people_section(value.judgement),
        Section("Texts", make_table("Base model", texts, words=True), lead, "texts"),
        blocks.settings_section(blocks.setting_pairs(certificate, unused), before="any text was read"),
        blocks.limits_section(certificate),
    )


def _answer_section(prompts: int, outcomes: Sequence[ModelOutcome], value: Steered) -> Section:
    base, row = (next(row for row in outcomes if row.role == role) for role in ("reference", "released"))
    different = f"of neighbouring tokens; the base model {number(base.distinct, 3)}"
    figures = [
        ("Divergence", number(row.kl, 3), "nats a token, from the base model"),
        ("Different pairs", number(row.distinct, 3), different),
    ]
    lines = [f"Measured on {prompts:,} public prompts, after the release. Nothing was chosen by these figures."]
    lines.append(value.opinion)
    hero, headline = "The model", f"The model went {number(row.kl, 3)} nats a token from where it was."
    if row.reward is not None and base.reward is not None:
        figures = [
            ("Public reward", number(row.reward, 3), f"± {number(row.error, 2)} standard error"),
            ("Base model", number(base.reward, 3), "on the same prompts and draws"),
            *figures,
        ]
        went = f"from {number(base.reward, 3)} to {number(row.reward, 3)}"
        hero, headline = "The reward", f"The public reward of what this model writes went {went}."
    if value.judgement is not None:
        said, interval = value.judgement, value.judgement.interval
        about = f"{signed(interval.low)} to {signed(interval.high)}; noise alone 0 ± {number(said.noise, 2)}"
        figures.insert(
            0, ("What people say" if said.by == "people" else "On their prompts", signed(said.estimate), about)
        )
        headline += f" {said.headline}."
    return blocks.opening_section(headline, (Paragraphs(lines), Facts(figures)), eyebrow="What was learned", hero=hero)


def _outcomes_section(outcomes: Sequence[ModelOutcome]) -> Section:
    rows = []
    for row in outcomes:
        cells = {"Divergence": number(row.kl, 3), "Different pairs": number(row.distinct, 3)}
        cells["Length"] = number(row.length, 3)
        if row.reward is not None:
            cells = {"Public reward": f"{number(row.reward, 3)} ± {number(row.error, 2)}"} | cells
        rows.append(TableRow(row.label, cells, kind=_KINDS.get(row.role, "control")))
    plotted = [row for row in outcomes if row.role != "floor" and row.reward is not None]
    drawn = make_grid([_reward_chart(plotted)] if plotted else [], wide=True)
    lead = "Farther from the base model is not better in itself."
    return Section("What it came to", (*drawn, *make_table("Model", rows)), lead, "measured", before=True)


def _people_section(said: Judgement | None) -> tuple[Section, ...]:
    if said is None:
        return ()
    style, low, high = styles([("noise", "reference"), ("people", "synthetic")]), said.interval.low, said.interval.high
    drawn = charts.interval_chart(
        [
            ("this model", [(style["people"], said.estimate, low, high)]),
            ("noise alone", [(style["noise"], 0.0, -said.noise, said.noise)]),
        ],
        title=f"This model {signed(said.estimate)}; noise alone 0 ± {number(said.noise, 2)}",
        x=span("better than the base model", np.array([low, high, -said.noise, said.noise])),
    )
    lead = f"The mean difference to the base model, said by {said.interval.words}."
    chart = Chart("Better or worse", f"with intervals at {100 * said.interval.level:.4g} % confidence", drawn)
    title = "Whether people like it" if said.by == "people" else "What is written on prompts of people"
    return (Section(title, (chart,), lead, "people", before=True),)


def signed(value: float) -> str:
    """A figure with its sign."""
    return number(value, 3) if value < 0 else f"+{number(value, 3)}"


def _reward_chart(rows: Sequence[ModelOutcome]) -> Chart:
    style = styles([("public reward", "synthetic")])
    order = sorted(rows, key=lambda row: row.kl)
    kl, reward = (np.array([getattr(row, name) for row in order]) for name in ("kl", "reward"))
    errors = np.array([row.error for row in order])
    drawn = charts.line_chart(
        [ChartLine(style["public reward"], kl, reward, reward - errors, reward + errors)],
        title="; ".join(
            f"{row.label}: reward {number(value, 3)} at {number(row.kl, 3)} nats a token"
            for row, value in zip(order, reward.tolist(), strict=True)
        ),
        x=span("divergence, nats a token", np.zeros(1), kl),
        y=span("public reward", reward - errors, reward + errors),
    )
    return Chart("Reward and divergence", "means over public prompts, with standard errors", drawn)
