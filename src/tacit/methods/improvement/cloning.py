"""A clone of those who did well: what a unit adds to its noisy sums, and the Newton steps that the sums allow.

1. tally      one-hot of the unit's mean return in public bins     -> returns a < b
2. products   w mean_t phi phi^T                                   -> a metric, and public points
3. steps      w mean_t z (1[a_t] - p(.|s_t)), z = phi M            -> a Newton step each; M is the metric

w = clip((R - a) / (b - a), 0, 1) is a unit's weight, R its return, and a and b the returns that 75 % and 90 % of all
stay below. Everybody weighs 1 where returns are luck (`teachers` "all"). In the metric the features have the unit
matrix as their products, so that one clip and one noise suit all of them. The curvature of a step is that of the public
points: the noise enters the gradient alone. Features are those of `moments`, standardised by the noisy look.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import PublicSpec
from tacit.methods.improvement.moments import (
    Arrays,
    Float64,
    LoggedVisits,
    Scales,
    clip_norms,
    find_points,
    phi,
    softmax,
)
from tacit.methods.improvement.plan import FIT, PRODUCTS, STEP, STEPS, TALLY, ImprovementPlan
from tacit.methods.off_policy_evaluation.scores import limits
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.vault import Vault

BINS = 20
"""Public bins of equal width in which returns are counted."""
FEWER, MOST = 0.75, 0.9
"""Shares of the units that a and b have below them."""
PRODUCTS_CLIP = 0.4
"""Largest norm of a unit's products, in multiples of the number of features."""
STEP_CLIP = 0.2
"""Largest norm of what a unit adds to a step."""
DAMPING, NOISE_DAMPING = 0.1, 6.0
"""What is added to the curvature in every direction, and so many standard deviations of a step's noise beside it."""
FLOOR = 1e-3
"""Least eigenvalue of the products, likewise."""
LONGEST = 3.0
"""Largest entry of a step."""
LAST = 3
"""Steps whose mean is the clone."""
LEAST_WEIGHT = 0.02
"""Sum of weights below which noise alone is seen, as a share of the units."""

Ends = tuple[float, float]
"""a and b."""


@dataclass(frozen=True, eq=False)
class TeacherVisits:
    """What a clone looks at, of each unit's visits side by side; all its sums ask for the same."""

    plan: ImprovementPlan  # columns, problem, memory
    spec: PublicSpec  # public bounds

    def __call__(self, rows: Arrays) -> dict[str, NDArray[Any]]:
        """Rows [U, L, ...] -> "memories" [U, L, d] and "actions" [U, L], "visits" [U] of them, and "returns" [U]."""
        found = LoggedVisits.of(rows, self.plan.problem, self.plan.memory)
        longest = rows["mask"].shape[1]
        return {
            "memories": found.side_by_side(found.memories[:, self.plan.columns].astype(np.float32), longest),
            "actions": found.side_by_side(found.actions[:, None], longest)[:, :, 0],
            "visits": np.bincount(found.unit, minlength=found.units),
            "returns": found.unit_returns(limits(self.plan.problem, self.spec)),
        }


def standardised_visits(rows: Arrays, scales: Scales) -> tuple[NDArray[np.int64], Float64]:
    """Of what `TeacherVisits` says: the T visits' places among the U L, and their columns y [T, d]."""
    longest, columns = rows["memories"].shape[1:]
    places = np.flatnonzero(np.arange(longest) < rows["visits"][:, None])
    # Column after column in memory: arithmetic along T rows is several times as fast as along few columns.
    memories = np.asfortranarray(rows["memories"].reshape(-1, columns).take(places, axis=0))
    return places, scales.standardise_columns(memories)


def sum_products(left: Float64, right: Float64, places: NDArray[np.int64], actions: NDArray[Any]) -> Float64:
    """Each unit's sum of left right^T over its visits, [U, n, m]."""
    # left: [n, T]; right: [m, T], of visits that stand at these places among those of `actions` [U, L]
    padded = []
    for values in (left, right):
        side = np.zeros((len(values), actions.size))
        side[:, places] = values
        padded.append(side.reshape(-1, *actions.shape))
    return np.asarray(np.matmul(padded[0].transpose(1, 0, 2), padded[1].transpose(1, 2, 0)))


@dataclass(frozen=True, eq=False)
class ReturnTally:
    """In which public bin each unit's mean return lies."""

    plan: ImprovementPlan  # problem
    summary: TeacherVisits

    def __call__(self, rows: Arrays, state: object) -> Float64:
        """What the summary says of U units -> [U, BINS], of norm at most 1."""
        low, high = limits(self.plan.problem, self.summary.spec)
        place = BINS * (rows["returns"] - low) / (high - low)
        # A return on an edge stays above it, whatever the unit of reward rounds.
        return FIT * np.eye(BINS)[np.minimum((place + 1e-4).astype(np.int64), BINS - 1)]

    def read(self, mean: Float64, scales: Scales) -> Ends:
        """Where 75 % and 90 % of the units end, by a noisy sum [BINS] over the public population (post-processing)."""
        low, high = limits(self.plan.problem, self.summary.spec)
        width = (high - low) / BINS
        # Summed from the top, so that the fewest noisy numbers are in what matters; a share of units cannot fall.
        above = np.maximum.accumulate(np.cumsum(mean[::-1])) * self.plan.population / FIT / scales.units
        above = np.maximum(above, 0) + 1e-9 * np.arange(1, BINS + 1)
        edges = high - width * np.arange(BINS + 1)
        first, last = (float(np.interp(1 - share, np.append(0, above), edges)) for share in (FEWER, MOST))
        first = min(first, high - width)
        return first, min(max(last, first + width), high)


def unit_weights(returns: Float64, ends: Ends | None) -> Float64:
    """w [U] of units with these returns, in [0, 1]; 1 where all teach alike."""
    return np.ones(len(returns)) if ends is None else np.clip((returns - ends[0]) / (ends[1] - ends[0]), 0, 1)


@dataclass(frozen=True, eq=False)
class WeightedProducts:
    """Each unit's w mean_t phi phi^T, as a triangle whose entries off the diagonal are times sqrt 2."""

    plan: ImprovementPlan
    summary: TeacherVisits

    def __call__(self, rows: Arrays, state: tuple[Ends | None, Scales]) -> Float64:
        """What the summary says of U units -> [U, n (n + 1) / 2], of norm at most 1."""
        ends, scales = state
        places, y = standardised_visits(rows, scales)
        features = phi(y, squares=self.plan.squares).T
        i, j = np.triu_indices(len(features))
        products = sum_products(features, features, places, rows["actions"])[:, i, j] * np.where(
            i == j, 1, math.sqrt(2)
        )
        weight = unit_weights(rows["returns"], ends) / self._clip / np.maximum(rows["visits"], 1)
        return clip_norms(weight[:, None] * products)

    @property
    def _clip(self) -> float:
        return PRODUCTS_CLIP * self.plan.features

    def read(self, mean: Float64, scales: Scales) -> CloneGeometry:
        """What a noisy sum of the vectors, over the public population, says (post-processing)."""
        n, d = self.plan.features, len(self.plan.columns)
        i, j = np.triu_indices(n)
        products = np.zeros((n, n))
        products[i, j] = products[j, i] = (
            mean * self.plan.population * self._clip / FIT / np.where(i == j, 1, math.sqrt(2))
        )
        noise = self.plan.noise_std(PRODUCTS) * self._clip / FIT
        weight = max(float(products[0, 0]), LEAST_WEIGHT * scales.units)
        values, vectors = np.linalg.eigh(products / weight)
        metric = vectors / np.sqrt(np.maximum(values, FLOOR + noise * math.sqrt(n) / weight))
        y, of_points = find_points(products / weight, d, noise / weight)
        return CloneGeometry(metric, y, of_points, weight)


@dataclass(frozen=True, eq=False)
class CloneGeometry:
    """Where the clone's steps are taken; all is public."""

    metric: Float64  # M, [n, n]
    y: Float64  # public points, [K, d]
    weights: Float64  # theirs, [K]; they sum to 1
    total: float  # sum of the units' weights

    def curvature(self, theta: Float64) -> Float64:
        """Of the mean log-likelihood of softmax(z theta) at theta [n, A], [n A, n A]."""
        n, actions = theta.shape
        z = phi(self.y, squares=len(self.metric) > 1 + self.y.shape[1]) @ self.metric
        p = softmax(z @ theta)
        result = np.zeros((n, actions, n, actions))
        for a in range(actions):
            for b in range(a, actions):
                spread = self.weights * p[:, a] * ((a == b) - p[:, b])
                result[:, a, :, b] = result[:, b, :, a] = (z * spread[:, None]).T @ z
        return result.reshape(n * actions, n * actions)


@dataclass(frozen=True, eq=False)
class CloneStep:
    """Each unit's w mean_t z (1[a_t] - p(.|s_t)): how the log-likelihood of its own actions rises."""

    plan: ImprovementPlan
    summary: TeacherVisits

    def __call__(self, rows: Arrays, state: tuple[Ends | None, Scales, Float64, Float64]) -> Float64:
        """What the summary says of U units -> [U, n A], of norm at most 1."""
        ends, scales, metric, theta = state
        places, y = standardised_visits(rows, scales)
        z = metric.T @ phi(y, squares=self.plan.squares).T
        surprise = -softmax((theta.T @ z).T).T
        surprise[rows["actions"].ravel().take(places), np.arange(len(places))] += 1
        gradient = sum_products(z, surprise, places, rows["actions"]).reshape(len(rows["visits"]), -1)
        weight = unit_weights(rows["returns"], ends) / STEP_CLIP / np.maximum(rows["visits"], 1)
        return clip_norms(weight[:, None] * gradient)

    def step(self, theta: Float64, mean: Float64, geometry: CloneGeometry) -> Float64:
        """theta [n, A] after the step that a noisy sum [n A], over the public population, says (post-processing)."""
        gradient = mean * self.plan.population * STEP_CLIP / FIT / geometry.total
        noise = self.plan.noise_std(STEP) * STEP_CLIP / FIT / geometry.total
        damped = geometry.curvature(theta) + (DAMPING + NOISE_DAMPING * noise) * np.eye(len(gradient))
        change = np.linalg.solve(damped, gradient).reshape(theta.shape)
        theta = theta + change * min(1.0, LONGEST / max(float(np.abs(change).max()), 1e-9))
        return np.asarray(theta - theta.mean(axis=1, keepdims=True))


def fit_clone(
    plan: ImprovementPlan, spec: PublicSpec, scales: Scales, vault: Vault, run: Run
) -> tuple[Float64, CloneGeometry]:
    """Weights of phi with squares [1 + 2 d, A] that give the clone's log-probabilities, and where it took its steps."""
    summary = TeacherVisits(plan, spec)
    tally, products, step = ReturnTally(plan, summary), WeightedProducts(plan, summary), CloneStep(plan, summary)
    ends = tally.read(vault.noisy_sum(run, TALLY, tally)[0], scales) if plan.teachers == "best" else None
    geometry = products.read(vault.noisy_sum(run, PRODUCTS, products, (ends, scales))[0], scales)
    thetas = [np.zeros((plan.features, spec.action.size))]
    for _ in range(STEPS):
        mean = vault.noisy_sum(run, STEP, step, (ends, scales, geometry.metric, thetas[-1]))[0]
        thetas.append(step.step(thetas[-1], mean, geometry))
    clone = geometry.metric @ np.mean(thetas[-LAST:], axis=0)
    return np.pad(clone, ((0, 1 + 2 * len(plan.columns) - len(clone)), (0, 0))), geometry
