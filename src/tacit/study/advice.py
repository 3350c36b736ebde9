"""What can be learned at a price, said before anything is spent: from the plan, the public bounds and the population.

No record is read. Where noise alone decides, its size is known. Of intervals, the functions that read a release are
asked what they would say of invented people: returns stand half of them a quarter of the range above its middle, half
as much below, and every action is logged with the same probability. Real people may be more alike, or less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PlanError, TacitError
from tacit.privacy.ledger.folds import JUDGING
from tacit.privacy.mechanisms.base import Sum
from tacit.privacy.mechanisms.marginals import Marginals

if TYPE_CHECKING:
    from tacit.data.spec import PublicSpec
    from tacit.evaluation.movement.divergences import MapAdvice
    from tacit.methods.improvement import ImprovementPlan
    from tacit.methods.off_policy_evaluation import Problem
    from tacit.study.durations import Duration

Float64 = NDArray[np.float64]
Foreseen: TypeAlias = "Figure | MapAdvice"
ROUGH = 0.5
"""A relative error above which it is said what would be better."""
NOTHING = 0.999
"""A relative error from which a figure says nothing: intervals end at the ends of their range."""
BINS = 12
"""Of a number's table, where a mean cell is spoken of."""
TOLD = 2.0
"""A cell can be read that holds so many standard deviations of its noise."""
UNLIKE = (0.05, 0.1, 0.25, 0.5, 1.0)
"""Shares of a rule's visits in which practice may take all actions alike, of which advice speaks."""
MOST_WORDS = "it can be at most"
"""What half-widths are compared with."""
_SPREAD = 0.5
"""Of invented returns, in multiples of half their range."""
_SQUARE = (1 + _SPREAD**2) / 4
"""The mean square of such returns as numbers from 0 to 1."""


@dataclass(frozen=True)
class Figure:
    """What a release will hold, with its expected error.

    Args:
        name: what it is.
        error: a half-width, or a standard deviation.
        whole: what the error is compared with: all of the answer's range, or what a mean cell holds.
        of: this in words.
    """

    name: str
    error: float
    whole: float
    of: str

    @property
    def relative_error(self) -> float:
        """In multiples of what it is compared with: from 1 on it says nothing."""
        return self.error / self.whole

    def to_sentence(self) -> str:
        """In words."""
        return f"{self.name}: {_number(self.error)}, where {self.of} {_number(self.whole)} ({self.percentage})"

    @property
    def percentage(self) -> str:
        """The relative error in words."""
        share = 100 * self.relative_error
        return f"{share:.{2 if share < 10 else 3}g} %"


@dataclass(frozen=True)
class Advice:
    """What is to be expected of a plan.

    Args:
        plan: calibrated.
        figures: what a release of such a plan will hold.
        remedy: what would be better, beside more epsilon.
        notes: further sentences.
        duration: of the work; None where only its progress tells.
        accepted: whether a hopeless plan is carried out all the same, since somebody asks for it or nobody is behind
            the records.
    """

    plan: Any
    figures: Callable[[Any], Sequence[Foreseen]]
    remedy: str
    notes: tuple[str, ...] = ()
    duration: Duration | None = None
    accepted: bool = False

    @cached_property
    def expected(self) -> Sequence[Foreseen]:
        """The figures at the plan's own noise."""
        return self.figures(self.plan)

    @property
    def is_hopeless(self) -> bool:
        """Whether no figure will say anything."""
        return min((figure.relative_error for figure in self.expected), default=0.0) >= NOTHING

    def lines(self) -> Iterator[str]:
        """What a person reads before anything is spent."""
        unit = self.plan.unit
        if self.expected:
            yield f"Expected of all {unit.size:,} {unit.noun}s (of half as many, an error up to twice as large):"
        yield from (f"  {figure.to_sentence()}" for figure in self.expected)
        yield from (f"  {note}" for note in self.notes)
        if _worst(self.expected) > ROUGH:
            word = "hopeless, and refused unless you say --yes" if self.is_hopeless else "rough"
            word = "hopeless" if self.is_hopeless and self.accepted else word
            enough = self.enough()
            more = "No epsilon up to 64 times as large" if enough is None else f"Epsilon {enough:g}"
            yield f"  This is {word}. {more} would be enough; or take {self.remedy}."
        if self.duration is not None:
            yield str(self.duration)

    def enough(self) -> float | None:
        """The least multiple of epsilon, a power of 2 up to 64, at which no figure is rough; None where none is."""
        for factor in (2, 4, 8, 16, 32, 64):
            wanted = {"unit": self.plan.unit, "epsilon": factor * self.plan.epsilon, "delta": self.plan.delta}
            try:
                if _worst(self.figures(self.plan.calibrate(**wanted))) <= ROUGH:
                    return float(wanted["epsilon"])
            except TacitError:  # no certificate could state so large an epsilon
                break
        return None

    def require(self, verb: str) -> None:
        """Refuse what will say nothing.

        Raises:
            PlanError: every error is as large as all that could be said, and nobody accepted that.
        """
        if self.is_hopeless and not self.accepted:
            what = f"nothing would be learned for this epsilon: {self.expected[0].to_sentence().rstrip('.')}"
            remedy = f"take {self.remedy}, or more epsilon; or ask for it all the same with --yes"
            raise PlanError(what, where=verb, expected="an error below what is to be learned", remedy=remedy)


def evaluation_figures(plan: Any, spec: PublicSpec) -> tuple[Figure, ...]:
    """The interval of the value, and that of what following the policy a little changes."""
    from tacit.methods.off_policy_evaluation import Uniform
    from tacit.methods.off_policy_evaluation.difference import PART, SHARES, DifferenceScores
    from tacit.methods.off_policy_evaluation.scores import FIT, NAME, clip_for, limits

    parts, (low, high), size = {part.name: part for part in plan.parts()}, limits(plan.problem, spec), plan.unit.size
    figures = []
    if NAME in parts:
        alike = "" if getattr(plan, "on_policy", False) else " of a policy that acts as the records do"
        error = _half_width(plan, spec, np.ones(1))
        figures.append(Figure(f"half-width of the value's interval{alike}", error, (high - low) / 2, MOST_WORDS))
    part, following = parts.get(PART), getattr(plan, "following", None)
    if part is not None and following is not None:
        people, noise = size / (1 if part.fold is None else 2), part.noise_multiplier
        clip = following.clip(spec, plan.problem, clip_for(people, noise))
        target = Uniform(getattr(spec.action, "n", 1))
        scores = DifferenceScores(plan.problem, target, None, following, (low, high), clip)
        square = _weight_variance(following.share, following.visits or plan.problem.horizon, spec) * _SQUARE / clip**2
        _, b, d = np.sqrt(SHARES)
        total = people * FIT * np.array([0.0, 0.0, b, d * square, d * square])
        change = scores.read(total, noise=noise, population=size, expected=people, level=plan.level).interval
        assert change is not None
        name = f"half-width of what following it {following.extent} changes"
        figures.append(Figure(name, (change.high - change.low) / 2, high - low, MOST_WORDS))
    return tuple(figures) or sum_figures(plan)


def evaluation_notes(plan: Any, spec: PublicSpec) -> tuple[str, ...]:
    """The half-width of the value's interval of rules unlike the records, up to those of which it says nothing."""
    # Seen in `tacit_worlds.clinic` with 3 to 6 visits: of rules, by how often doctors did what they say, 0.4 to 1 times
    # this; of mixtures of doctors, by their mean square ratio, 0.9 to 1.7 (4,000 people) and 1.6 to 3.5 (16,000).
    from tacit.methods.off_policy_evaluation import ImportanceSampling
    from tacit.methods.off_policy_evaluation.scores import NAME, limits

    actions, problem = getattr(spec.action, "n", 1), plan.problem
    weighs = any(part.name == NAME for part in plan.parts()) and not getattr(plan, "on_policy", False)
    if not weighs or actions < 2 or plan.private_behaviour is not None:
        return ()
    (low, high), everybody = limits(problem, spec), f"{plan.unit.size:,} {plan.unit.noun}s"
    known = f"where practice follows the rule but takes all {actions} actions alike in"
    notes = [f"Half-width of the value's interval, {known}"]
    for share in UNLIKE:
        error = _half_width(plan, spec, _draw_weights(share, actions, problem))
        figure = Figure(f"{100 * share:.0f} % of the visits", error, (high - low) / 2, MOST_WORDS)
        alike = plan.unit.size * math.exp(-problem.horizon * math.log1p(share * (actions - 1)))
        worth = f"as if {alike:,.0f} of {everybody} had followed it"
        notes.append(f"  {figure.name}: {_number(error)} ({figure.percentage}), {worth}")
        if figure.relative_error > ROUGH:
            narrower = (
                "" if isinstance(plan, ImportanceSampling) else "take --method wpdis, whose interval is narrower, or "
            )
            way_out = f"{narrower}read what following it changes: --follow 0.05, or --follow-visits 2"
            return (*notes, f"Where that is too wide, {way_out}.")
    return tuple(notes)


def improvement_figures(plan: ImprovementPlan, spec: PublicSpec) -> tuple[Figure, ...]:
    """The gain that can be proven, and the interval of the records' own returns."""
    from tacit.methods.improvement.plan import FIT, SCORES
    from tacit.methods.improvement.statement import read_statement
    from tacit.methods.off_policy_evaluation.scores import limits

    low, high = limits(plan.problem, spec)
    variance = _weight_variance(plan.advice, plan.problem.horizon, spec)
    mean = FIT * np.sqrt(SCORES) * np.array([0.0, 0.0, 1.0, variance * _SQUARE, _SPREAD**2])
    sums = tuple((mean * plan.expected_units / plan.population).tolist())
    statement = read_statement(sums, plan, (low, high), sampled=False)
    returns, name = statement.returns_interval, f"least gain of advice in {100 * plan.advice:.3g} % of the visits"
    width = (returns.high - returns.low) / 2
    return (
        Figure(f"{name} that can be proven", -statement.gain_interval.low, high - low, "all gains are below"),
        Figure("half-width of the records' mean return", width, (high - low) / 2, "it can be at most"),
    )


def synthesis_figures(plan: Any) -> tuple[Figure, ...]:
    """The noise in a cell of a table, or, where there are gradients, in a number of a step."""
    parts, unit = plan.parts(), plan.unit
    counted = next((part for part in parts if isinstance(part, Marginals) or part.name.endswith("tables")), None)
    if counted is None:
        return sum_figures(plan)
    if isinstance(counted, Marginals):  # as if all columns were measured alike
        steps = counted.steps / len(counted.axes)
        noise = (counted.noise_multiplier or 0.0) / math.sqrt(steps)
    else:
        noise = counted.noise_scale
    return (Figure(f"noise in a cell of a table of {BINS} cells", noise, unit.size / BINS, "a mean cell holds"),)


def synthesis_notes(plan: Any, spec: PublicSpec) -> tuple[str, ...]:
    """How many cells a table may have, and which columns have more labels than that."""
    figure = next(iter(synthesis_figures(plan)), None)
    if figure is None or figure.whole != plan.unit.size / BINS:
        return ()
    most = int(plan.unit.size / (TOLD * figure.error))
    if most < 2:
        return ("No table can be read.",)
    columns = [*(spec.observation.columns or ()), *(spec.action.columns or ())]
    fine = [f"{column.name} ({len(column.labels):,})" for column in columns if len(column.labels) > most]
    told = (
        f"A table of at most {most:,} cells can be read: a mean cell then holds {TOLD:g} standard deviations of noise."
    )
    return (told, *((f"Columns with more labels than that: {', '.join(fine)}.",) if fine else ()))


def sum_figures(plan: Any) -> tuple[Figure, ...]:
    """Of the noisiest sum, the noise in a mean over its steps, beside the most that all who take part could add."""

    def error(part: Sum) -> float:
        present = part.divisor(plan.unit) * (1.0 if part.fold is None else part.participation)
        return (part.noise_multiplier or 0.0) / present / math.sqrt(part.steps)

    sums = [part for part in plan.parts() if isinstance(part, Sum) and part.noise_multiplier is not None]
    sums = [part for part in sums if part.fold != JUDGING]  # who judges teaches nothing
    worst = max(sums, key=error, default=None)
    if worst is None:
        return ()
    name, most = f"noise in a number of the sums {worst.name!r}", "all who take part could add at most"
    return (Figure(name, error(worst), 1.0, most),)


def _half_width(plan: Any, spec: PublicSpec, weights: Float64) -> float:
    # of the value's interval, where the returns of invented people have these weights [W]
    from tacit.methods.off_policy_evaluation import Behaviour, ResidualRegression, Uniform, scores

    part: Any = next(part for part in plan.parts() if part.name == scores.NAME)
    people, noise = plan.unit.size / (1 if part.fold is None else 2), part.noise_multiplier
    fixed = 1.0 if isinstance(plan, ResidualRegression) else scores.clip_for(people, noise)
    clip, point = getattr(plan, "clip", None) or fixed, len(part.blocks or ()) > 3
    policy = Behaviour() if getattr(plan, "on_policy", False) else Uniform(getattr(spec.action, "n", 1))
    vector = scores.ScoreVector(plan.problem, policy, None, spec, clip, (lambda log, state: log) if point else None)
    low, high = scores.limits(plan.problem, spec)
    returns = (low + high) / 2 + np.array([-_SPREAD, _SPREAD]) * (high - low) / 2
    offsets, scales = vector.offsets_and_scales()
    u = (returns - offsets[0])[:, None] / scales[0]
    if not isinstance(policy, Behaviour):
        u = np.concatenate([u, (offsets[1] - returns)[:, None] / scales[1]], axis=1)
    u = weights[:, None, None] * u
    u /= np.maximum(1, np.linalg.norm(u, axis=2, keepdims=True))
    a, b, d = np.sqrt(scores.SHARES)
    mean = scores.FIT * np.concatenate([a * u.mean(axis=(0, 1)), [b], d * (u**2).mean(axis=(0, 1))])
    mean = np.append(0.0, math.sqrt(1 - scores.POINT_SHARE) * mean) if point else mean
    found = scores.read(people * mean, vector, noise, plan.unit.size, people).interval(plan.level)
    return (found.high - found.low) / 2


def _draw_weights(share: float, actions: int, problem: Problem) -> Float64:
    # the mean weights of the steps [W] of a rule: practice takes all actions alike in a share of the visits, chosen by
    # chance, and in the others what the rule asks for
    from tacit.methods.off_policy_evaluation.difference import LARGEST_LOG

    people = 100 + 500_000 // problem.horizon
    chance = np.random.default_rng(0).random((people, problem.horizon))
    logs = np.where(chance < share / actions, math.log(actions), np.where(chance < share, -math.inf, 0.0))
    weights = np.exp(np.minimum(logs.cumsum(axis=1), LARGEST_LOG))
    return np.asarray(weights @ problem.gamma ** np.arange(problem.horizon) / problem.discounted_length)


def _weight_variance(share: float, visits: int, spec: PublicSpec) -> float:
    # of weights (1 - share + share rho) multiplied over the visits, where practice takes all actions alike
    from tacit.methods.off_policy_evaluation.difference import LARGEST_LOG

    actions = getattr(spec.action, "n", 2)
    return math.expm1(min(visits * math.log1p(share**2 * (actions - 1)), LARGEST_LOG))


def _worst(figures: Sequence[Foreseen]) -> float:
    return max((figure.relative_error for figure in figures), default=0.0)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
