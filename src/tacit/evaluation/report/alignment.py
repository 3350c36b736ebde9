"""The report of a steered language model: what the public reward says of it, on public prompts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tacit.evaluation.report import blocks, charts
from tacit.evaluation.report.blocks import Chart, Facts, PublicReport, Row, Section, Text, grid, tabled
from tacit.evaluation.report.charts import Kind, Line, number, span, styles

Role = Literal["reference", "round", "released", "floor"]
"""The base model; the model after a round; the one that is released; one that was steered by noise alone."""
_KINDS: dict[str, Kind] = {"reference": "reference", "released": "synthetic"}
_NAMES = {
    "people": "people in a round",
    "rounds": "rounds, each with other people",
    "prompts": "prompts of one person",
    "prompt_tokens": "tokens of a prompt",
    "completions": "completions of a prompt",
    "tokens": "tokens of a completion",
    "clip_norm": "largest norm of a contribution",
    "step": "step size",
    "critic": "share of the public critic",
    "segment": "tokens between two looks of the critic",
    "kl": "penalty of the log-ratio to the base model",
    "pairs": "pairs of one person",
    "beta": "factor of the log-ratios",
    "sampling_rate": "everybody's chance to take part in a round",
    "base": "SHA-256 of the base model",
    "reward": "SHA-256 of the public reward",
    "words": "SHA-256 of the public vocabulary",
    "noise_multiplier": "noise multiplier, of the whole run",
    "correlation": "noise from round to round",
}


@dataclass(frozen=True)
class Wrote:
    """What one model wrote on public prompts.

    Attributes:
        label, role: which model.
        reward, error: mean of the public reward, and its standard error over the prompts; None without a reward.
        kl: to the base model, in nats a token.
        distinct: share of different pairs among neighbouring tokens.
    """

    label: str
    role: Role
    reward: float | None
    error: float
    kl: float
    distinct: float


@dataclass(frozen=True)
class Sample:
    """One public prompt, completed by both models at the same draws.

    Attributes:
        before, after: by the base model, and by the released one; the prompt stands before both.
    """

    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class AlignmentReport(PublicReport):
    """Everything that the report of a steered model shows; no text of a protected person is among it.

    Attributes:
        prompts: how many public prompts the figures are measured on.
        outcomes: in order, the base model first; exactly one is released.
        samples: of texts.
    """

    prompts: int
    outcomes: tuple[Wrote, ...]
    samples: tuple[Sample, ...] = ()

    def sections(self) -> tuple[Section, ...]:
        """What the page says besides the promise."""
        plan = self.certificate["plan"]
        unused = {name for name, value in plan.items() if value in (None, "")} | blocks.STATED
        return (
            self._answer(),
            self._measured(),
            self._texts(),
            blocks.settings(blocks.pairs(plan, _NAMES, unused), before="any text was read"),
            blocks.limits(self.certificate),
        )

    def _one(self, role: Role) -> Wrote:
        return next(row for row in self.outcomes if row.role == role)

    def _answer(self) -> Section:
        base, row = self._one("reference"), self._one("released")
        figures = [
            ("Divergence", number(row.kl, 3), "nats a token, from the base model"),
            (
                "Different pairs",
                number(row.distinct, 3),
                f"of neighbouring tokens; the base model {number(base.distinct, 3)}",
            ),
        ]
        lines = [
            f"Measured on {self.prompts:,} public prompts, after the release. Nothing was chosen by these figures."
        ]
        hero, headline = "The model", f"The model went {number(row.kl, 3)} nats a token from where it was."
        if row.reward is not None and base.reward is not None:
            figures = [
                ("Public reward", number(row.reward, 3), f"± {number(row.error, 2)} standard error"),
                ("Base model", number(base.reward, 3), "on the same prompts and draws"),
                *figures,
            ]
            went = f"from {number(base.reward, 3)} to {number(row.reward, 3)}"
            hero, headline = "The reward", f"The public reward of what this model writes went {went}."
        return blocks.opening(headline, (Text(lines), Facts(figures)), eyebrow="What was learned", hero=hero)

    def _measured(self) -> Section:
        lead = "Farther from the base model is not better in itself."
        rows = [
            Row(
                row.label,
                ({} if row.reward is None else {"Public reward": f"{number(row.reward, 3)} ± {number(row.error, 2)}"})
                | {
                    "Divergence": number(row.kl, 3),
                    "Different pairs": number(row.distinct, 3),
                },
                kind=_KINDS.get(row.role, "control"),
            )
            for row in self.outcomes
        ]
        met = [row for row in self.outcomes if row.role != "floor" and row.reward is not None]
        drawn = grid([_curve(met)] if met else [], wide=True)
        return Section("What it came to", (*drawn, *tabled("Model", rows)), lead, "measured", before=True)

    def _texts(self) -> Section:
        rows = [Row(one.before, {"Released model": one.after}) for one in self.samples]
        return Section(
            "Texts", tabled("Base model", rows, words=True), "Public prompts, completed at the same draws.", "texts"
        )


def _curve(rows: Sequence[Wrote]) -> Chart:
    style = styles([("public reward", "synthetic")])
    order = sorted(rows, key=lambda row: row.kl)
    kl, reward = (np.array([getattr(row, name) for row in order]) for name in ("kl", "reward"))
    errors = np.array([row.error for row in order])
    drawn = charts.lines(
        [Line(style["public reward"], kl, reward, reward - errors, reward + errors)],
        title="; ".join(
            f"{row.label}: reward {number(value, 3)} at {number(row.kl, 3)} nats a token"
            for row, value in zip(order, reward.tolist(), strict=True)
        ),
        x=span("divergence, nats a token", np.zeros(1), kl),
        y=span("public reward", reward - errors, reward + errors),
    )
    return Chart("Reward and divergence", "means over public prompts, with standard errors", drawn)
