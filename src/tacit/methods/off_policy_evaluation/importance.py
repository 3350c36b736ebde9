"""Importance sampling: a policy's value from weighted returns, with an interval that survives the clip; and
private diagnostics of these weights, `OverlapPlan`: how far a policy is from the one that made the records.

For `OverlapPlan` each unit adds one vector: which bin its weight (the product of all ratios of an episode) is in, its
clipped weight and the square of that, its number of steps and the sum of its clipped ratios, its presence. Two facts
make it a test: the mean ratio of a step is 1 whenever the behaviour sometimes takes every action that the policy takes,
and N units are worth (sum w)^2 / sum w^2 unweighted ones (Kish 1965).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, get_args

import numpy as np

from tacit.data.spec import PublicSpec
from tacit.methods.off_policy_evaluation import scores
from tacit.methods.off_policy_evaluation.algorithm import GaussianEstimator
from tacit.methods.off_policy_evaluation.intervals import Sides, unit_count
from tacit.methods.off_policy_evaluation.logged import cut_episodes
from tacit.methods.off_policy_evaluation.policies import Behaviour, DiscretePolicy, Target
from tacit.methods.off_policy_evaluation.problem import Evaluation, Problem
from tacit.methods.off_policy_evaluation.scores import FIT, ScoreVector, Weighting, expected_units, noisy_mean, weights
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy, require_probabilities
from tacit.parameters import Option
from tacit.privacy.ledger.folds import Fold
from tacit.privacy.mechanisms.contribution_sets import Block
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Clause, clause
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.vault import Vault
from tacit.serialization import OPTIONAL
from tacit.units import Unit
from tacit.validation import require_valid


@dataclass(frozen=True, kw_only=True)
class ScoreEstimator(GaussianEstimator, ABC):
    """A method whose interval, at least, is that of the scores: the last of its parts."""

    with_point: ClassVar[bool] = False
    """Whether the scores share their vector with a further number (`scores.Point`)."""

    clip: Option[float | None] = None
    """the largest weighted return, in multiples of the largest return: more means less bias and more noise; by
    default the calibrated noise chooses it."""

    def __post_init__(self) -> None:
        valid = self.clip is None or 1e-6 <= self.clip <= 1e6
        require_valid("clip", self.clip, valid, "None or a number from 1e-6 to 1e6")
        super().__post_init__()
        self.parts()

    def calibrate(self, *, unit: Unit, epsilon: float, delta: float) -> Self:
        """The plan with the least noise that keeps (epsilon, delta) for this unit (`privacy.vault.plan.calibrate`)."""
        return super().calibrate(unit=unit, epsilon=epsilon, delta=delta)._clipped(unit)

    def account(self, *, unit: Unit, delta: float) -> Self:
        """The plan at the noise multiplier it has, with the epsilon that this honestly costs."""
        return super().account(unit=unit, delta=delta)._clipped(unit)

    def require(self, target: Target, behaviour: BehaviourPolicy | None, spec: PublicSpec) -> None:
        """Refuse a range that the rewards cannot reach."""
        scores.limits(self.problem, spec)

    def with_fold(self, fold: Fold) -> Self:
        """See `Estimator`; a clip that was chosen by the noise is chosen again, for half as many units."""
        moved = super().with_fold(fold)
        chosen = self.promise is not None and self.clip == dataclasses.replace(self, clip=None)._clipped(self.unit).clip
        return dataclasses.replace(moved, clip=None)._clipped(self.unit) if chosen and self.unit else moved

    def _clipped(self, unit: Unit) -> Self:
        part: Any = self.parts()[-1]
        if self.clip or not part.noise_multiplier:
            return self
        units = unit.size if part.fold is None else unit.size / 2
        noise = part.noise_multiplier / math.sqrt(1 - scores.POINT_SHARE if self.with_point else 1)
        return dataclasses.replace(self, clip=scores.clip_for(units, noise))


@dataclass(frozen=True, kw_only=True)
class ImportanceSampling(ScoreEstimator):
    """One noisy vector of clipped, weighted returns; for the behaviour policy itself, of plain returns."""

    method: ClassVar[str] = "off-policy evaluation (importance sampling)"
    source: ClassVar[str] = "Precup, Sutton and Singh (ICML 2000), with the Gaussian mechanism"
    covered_clauses: ClassVar[tuple[Clause, ...]] = (clause("scores_sum"),)

    weighting: Weighting = "wpdis"
    """the off-policy estimate, per-decision importance sampling (`pdis`) or self-normalised (`wpdis`: far less biased
    by the clip). The interval is the same."""
    sides: Sides = "both"
    """`both` ends of an interval, or the `lower` one alone, which is then higher."""
    on_policy: bool | None = field(default=None, metadata=OPTIONAL)
    """whether the policy that made the records is evaluated (`Behaviour()`); None where that is still open, which
    costs more where one unit replaces another."""

    def __post_init__(self) -> None:
        require_valid("weighting", self.weighting, self.weighting in get_args(Weighting), "pdis or wpdis")
        require_valid("sides", self.sides, self.sides in get_args(Sides), "both or lower")
        super().__post_init__()

    def require(self, target: Target, behaviour: BehaviourPolicy | None, spec: PublicSpec) -> None:
        """Refuse a policy that is not of the kind that the plan is for, and a range that rewards cannot reach."""
        fits = self.on_policy in (None, isinstance(target, Behaviour))
        require_valid("on_policy", self.on_policy, fits, "whether the policy is the one that made the records")
        super().require(target, behaviour, spec)

    def sums(self) -> tuple[PoissonSum, ...]:
        """One noisy sum."""
        blocks = None if self.on_policy is None else scores.score_blocks(on_policy=self.on_policy)
        return (self.problem.part(scores.NAME, self.own_noise, blocks=blocks),)

    def estimate(self, vault: Vault, run: Run, target: Target, behaviour: DiscretePolicy | None) -> Evaluation:
        """The value and its interval."""
        vector = ScoreVector(self.problem, target, behaviour, vault.spec, self.clip or 1.0)
        noisy_scores = scores.release(vault, run, vector)
        return Evaluation(
            method=self.method,
            value=noisy_scores.value(self.weighting),
            interval=noisy_scores.interval(self.level)
            if self.sides == "both"
            else noisy_scores.lower_bound(self.level),
            limits=noisy_scores.limits,
        )


OVERLAP = "overlap"
OVERLAP_SHARES = {"bins": 0.4, "weight": 0.15, "square": 0.1, "steps": 0.1, "ratios": 0.15, "present": 0.1}
"""Of the squared norm of a unit's vector."""
FAR_BELOW_ONE = 0.95


@dataclass(frozen=True, kw_only=True)
class OverlapPlan(GaussianEstimator):
    """A histogram of weights, the effective sample size and the mean ratio, by one noisy sum.

    The intervals count the noise alone.
    """

    method: ClassVar[str] = "overlap with the behaviour policy"
    source: ClassVar[str] = "Kish 1965 and importance ratios, with the Gaussian mechanism"
    covered_clauses: ClassVar[tuple[Clause, ...]] = (clause("overlap_sum"),)

    edges: tuple[float, ...] = (-4.0, -3.0, -2.0, -1.0, -0.5, -0.1, 0.1, 0.5, 1.0, 2.0, 3.0, 4.0)
    """increasing bin edges of log10 of the weights; weights beyond fall into the outermost bins."""
    largest_weight: float = 100.0
    """weights above it count as it in the effective sample size, which then is too large."""
    largest_ratio: float = 20.0
    """ratios above it count as it in the mean ratio, which then is too small."""

    def __post_init__(self) -> None:
        rising = len(self.edges) >= 2 and all(a < b for a, b in itertools.pairwise(self.edges))
        valid = rising and bool(np.isfinite(self.edges).all())
        require_valid("edges", self.edges, valid, "at least two increasing numbers")
        for name in ("largest_weight", "largest_ratio"):
            require_valid(name, getattr(self, name), 1 <= getattr(self, name) <= 1e9, "a number from 1 to 1e9")
        super().__post_init__()
        self.parts()

    def sums(self) -> tuple[PoissonSum, ...]:
        """One noisy sum."""
        sizes = {"bins": len(self.edges) - 1}
        blocks = [
            Block(kind="constant" if name == "present" else "positive", share=share, size=sizes.get(name, 1))
            for name, share in OVERLAP_SHARES.items()
        ]
        return (self.problem.part(OVERLAP, self.own_noise, blocks=tuple(blocks)),)

    def require(self, target: Target, behaviour: BehaviourPolicy | None, spec: PublicSpec) -> None:
        """Refuse a policy without probabilities."""
        require_probabilities(target)

    def estimate(self, vault: Vault, run: Run, target: Target, behaviour: DiscretePolicy | None) -> Evaluation:
        """No value, but the diagnostics that `read_overlap` describes."""
        policy = require_probabilities(target)
        vector = WeightVector(self.problem, policy, behaviour, self.edges, self.largest_weight, self.largest_ratio)
        size = expected_units(vault, run)
        sums = noisy_mean(vault, run, OVERLAP, vector) * size
        return Evaluation(method=self.method, diagnostics=read_overlap(sums, self, size))


@dataclass(frozen=True, eq=False)
class WeightVector:
    """Each unit's vector, [U, bins + 5], of norm at most 1, as a contribution."""

    problem: Problem
    policy: DiscretePolicy
    behaviour: DiscretePolicy | None
    edges: tuple[float, ...]
    largest_weight: float
    largest_ratio: float

    def __call__(self, rows: Mapping[str, np.ndarray], state: object) -> np.ndarray:
        """Rows [U, L, ...] -> [U, bins + 5]."""
        log = cut_episodes(rows, self.problem, self.policy, self.behaviour)
        weight, last = weights(log), log.alive & ~log.follows
        bins = len(self.edges) - 1
        edges = 10.0 ** np.clip(self.edges, -300, 300)  # weights as they are: their logarithms are rounded numbers
        chosen = np.clip(np.searchsorted(edges, weight, side="right") - 1, 0, bins - 1)
        histogram = np.stack([((chosen == b) & last).sum(axis=1) for b in range(bins)], axis=1)
        bounded = (np.minimum(weight, self.largest_weight) * last).sum(axis=1) / log.episodes / self.largest_weight
        ratios = (np.minimum(log.ratio, self.largest_ratio) * log.alive).sum(axis=1) / self.largest_ratio
        columns = {
            "bins": histogram / np.maximum(histogram.sum(axis=1, keepdims=True), 1),
            "weight": bounded[:, None],
            "square": bounded[:, None] ** 2,
            "steps": log.alive.sum(axis=1, keepdims=True) / self.problem.rows_per_unit,
            "ratios": ratios[:, None] / self.problem.rows_per_unit,
            "present": np.ones((len(bounded), 1)),
        }
        return np.asarray(
            FIT * np.concatenate([math.sqrt(OVERLAP_SHARES[k]) * columns[k] for k in OVERLAP_SHARES], axis=1)
        )


def read_overlap(sums: np.ndarray, plan: OverlapPlan, population: float) -> dict[str, Any]:
    """What the noisy sums say (post-processing).

    Returns:
        "log10_weights": edges, shares of the episodes in each bin, the noise of a share; "effective_sample_size" and
        "mean_ratio": estimate, low, high; "units": how many units the estimates are about; "level"; "words": what it
        means, in sentences.
    """
    assert plan.own_noise is not None
    bins = len(plan.edges) - 1
    noise = {name: plan.own_noise / (FIT * math.sqrt(share)) for name, share in OVERLAP_SHARES.items()}
    totals = dict(zip(OVERLAP_SHARES, np.split(sums / FIT, np.cumsum([bins, 1, 1, 1, 1])), strict=True))
    totals = {name: values / math.sqrt(OVERLAP_SHARES[name]) for name, values in totals.items()}
    units = unit_count(float(totals["present"][0]), noise["present"], population)
    effective = _effective_size(float(totals["weight"][0]), float(totals["square"][0]), noise, plan.level, units)
    ratio = _mean_ratio(float(totals["ratios"][0]), float(totals["steps"][0]), noise, plan)
    return {
        "log10_weights": {
            "edges": list(plan.edges),
            "shares": [float(min(1.0, max(0.0, value / units))) for value in totals["bins"]],
            "noise": noise["bins"] / units,
        },
        "effective_sample_size": effective,
        "mean_ratio": ratio,
        "units": float(units),
        "level": plan.level,
        "words": _words(effective, ratio, units, plan),
    }


def _effective_size(
    total: float, squares: float, noise: Mapping[str, float], level: float, units: float
) -> dict[str, float]:
    """(sum w)^2 / sum w^2, between its values at the ends of both sums' intervals at half of 1 - level each."""
    from scipy.special import ndtri

    z = float(ndtri((3 + level) / 4))

    def size(weight: float, square: float) -> float:
        weight = max(weight, 0.0)
        return min(units, weight**2 / max(square, weight**2 / units, 1e-12))  # Cauchy and Schwarz: N units at most

    return {
        "estimate": size(total, squares),
        "low": size(total - z * noise["weight"], squares + z * noise["square"]),
        "high": size(total + z * noise["weight"], squares - z * noise["square"]),
    }


def _mean_ratio(total: float, steps: float, noise: Mapping[str, float], plan: OverlapPlan) -> dict[str, float]:
    """The mean ratio of a step, with Fieller's interval of a quotient of noisy sums, within [0, largest_ratio]."""
    from scipy.special import ndtri

    z, largest = float(ndtri((1 + plan.level) / 2)), plan.largest_ratio
    a = steps**2 - (z * noise["steps"]) ** 2
    root = (total * steps) ** 2 - a * (total**2 - (z * noise["ratios"]) ** 2)
    low, high = 0.0, 1.0
    if a > 0 and root >= 0:
        low, high = (float(np.clip((total * steps + sign * math.sqrt(root)) / a, 0, 1)) for sign in (-1, 1))
    estimate = min(high, max(low, total / max(steps, noise["steps"], 1e-9)))
    return {"estimate": estimate * largest, "low": low * largest, "high": high * largest}


def _words(effective: Mapping[str, float], ratio: Mapping[str, float], units: float, plan: OverlapPlan) -> list[str]:
    share = effective["estimate"] / units
    words = [
        f"Weighted as the policy would have it, the records are worth about {effective['estimate']:.0f} of "
        f"{units:.0f} units ({effective['low']:.0f} to {effective['high']:.0f} by the noise alone)."
    ]
    if share < 0.05:
        words.append("That is little: estimates from weights rest on few units, and their intervals will be wide.")
    if ratio["high"] < FAR_BELOW_ONE:
        words.append(
            f"The mean ratio of a step is at most {ratio['high']:.2f} where it should be 1: the policy takes actions "
            f"that the behaviour never takes, or ratios exceed {plan.largest_ratio:g}. What it would earn there is not "
            "in the records: estimates are too low, lower bounds stay valid, upper bounds do too."
        )
    elif ratio["low"] > 1 / FAR_BELOW_ONE:
        words.append(
            f"The mean ratio of a step is at least {ratio['low']:.2f} where it should be 1: the logged propensities "
            "are not the probabilities of the logged actions."
        )
    else:
        words.append("The mean ratio of a step agrees with 1: nothing shows that the behaviour lacks support.")
    return words
