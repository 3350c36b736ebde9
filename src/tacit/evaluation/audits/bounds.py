"""From scores to lower bounds: exact confidence, and what is assumed is said.

Bounds that assume nothing come from `lower_bounds` (Clopper & Pearson) and `one_run` (Steinke et al.). Where all that
leaves the vault are sums with Gaussian noise, over everybody or over Poisson samples, the trade-off curve is known up
to the scale of the noise, and the rates of one test that was fixed beforehand bound that scale: far tighter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tacit.evaluation import lower_bounds as rates
from tacit.privacy.accounting import accountants, events
from tacit.privacy.accounting.peer import privacy_loss_distribution
from tacit.privacy.accounting.steps import merge_gaussians, parameters
from tacit.units import Relation

Floats = NDArray[np.float64]
Law = Callable[[rates.Counts, float], float]
"""The counts of a fixed test, and a confidence -> the epsilon that no mechanism of the law below it lets it exceed."""

MIN_SHADOW_RUNS = 16
"""Runs of each world below which no direction is learnt from shadow runs."""
MAX_LOG_FACTOR = math.log(4.0)
"""How far from the certified noise, as a logarithm, the noise of a law is looked for."""
HALVINGS = 7
"""Bisections of that range: they leave 2 % of the noise open."""
GRID_SPACING = 1e-3
"""Of the grid of privacy losses, which is pessimistic: what it refutes is refuted."""
SHORT, FINEST = 1e-2, 5e-5
"""By how much the losses of all steps together are rounded down at most; the finest grid that is affordable."""
LOSSES = np.linspace(0.0, 12.0, 97)
"""Where a trade-off curve is compared with the rates of a test."""


def is_gaussian(event: events.Event) -> bool:
    """Whether all of it is noise of a Gaussian (or, shared by devices, a discrete Gaussian) on sums over everybody."""
    return all(isinstance(leaf, events.GaussianEvent | events.ZcdpEvent) for leaf, _ in events.flatten(event))


def noise_law(event: events.Event, relation: Relation, delta: float) -> Law | None:
    """The law of an event of Gaussian sums, over everybody or over Poisson samples; None of any other event."""
    # Noise that an event states by its concentration alone is taken for Gaussian.
    if is_gaussian(event):

        def bound(counts: rates.Counts, confidence: float) -> float:
            mu = rates.mu_lower_bound(counts, confidence=confidence)
            return accountants.gaussian_epsilon(delta, mu) if mu else 0.0

        return bound
    sampled = relation == "add_or_remove" and all(
        isinstance(leaf, events.GaussianEvent | events.ZcdpEvent | events.PoissonSampledEvent)
        for leaf, _ in events.flatten(event)
    )
    return (lambda counts, confidence: _sampled_bound(event, counts, delta, confidence)) if sampled else None


def choice_law(counts: rates.Counts, confidence: float) -> float:
    """The law of the exponential mechanism between two candidates: its log odds move by epsilon."""
    hit, false = _rates(counts, confidence)
    return max(0.0, float(special.logit(hit) - special.logit(false))) if hit > 0 and false < 1 else 0.0


def alarm_counts(without: Floats, having: Floats, threshold: float = 0.0) -> rates.Counts:
    """The counts of the test that raises an alarm where a score is above a threshold that was fixed beforehand."""
    above = (int((world > threshold).sum()) for world in (without, having))
    return rates.Counts(next(above), without.size, next(above), having.size)


def tuned_alarm_counts(without: Floats, having: Floats) -> rates.Counts:
    """The counts of the test whose threshold every fourth score chose, midway between the two worlds, on the others."""
    # Log-likelihood ratios of sampled sums are not centred between the worlds unless the noise is what it should be.
    chosen = float(np.median(without[::4]) + np.median(having[::4])) / 2
    rest = [np.delete(world, np.s_[::4]) for world in (without, having)]
    return alarm_counts(rest[0], rest[1], chosen)


def unconditional_bound(without: Floats, having: Floats, *, delta: float, confidence: float) -> float:
    """The bound on epsilon that assumes nothing; half of the scores choose the threshold that the others are put to."""
    return rates.audit(without, having, delta=delta, confidence=confidence).epsilon


def shadow_scores(without: Floats, having: Floats) -> tuple[Floats, Floats] | None:
    """Scores of released numbers in a direction that shadow runs taught."""
    # The first half of the runs of each world are shadows: the difference of their means, over the variance of each
    # number, is the direction; the others, untouched, are scored. That is what a model of independent Gaussian numbers
    # (LiRA: Carlini et al., arXiv:2112.03570) makes of them.
    # without, having: [N, P] and [M, P], released numbers; returns: Scores [N - N // 2] and [M - M // 2]; None where
    # there are no numbers, or too few runs
    if not without.shape[1] or min(len(without), len(having)) < 2 * MIN_SHADOW_RUNS:
        return None
    first = [world[: len(world) // 2] for world in (without, having)]
    mean = [world.mean(axis=0) for world in first]
    variance = (first[0].var(axis=0) + first[1].var(axis=0)) / 2
    floor = max(float(variance.max()) * 1e-9, math.ulp(1.0))
    direction = (mean[1] - mean[0]) / np.maximum(variance, floor)
    rest = [world[len(world) // 2 :] @ direction for world in (without, having)]
    return rest[0], rest[1]


def with_noise(scores: Floats, factor: float) -> Floats:
    """Scores [N] of one world as they would be with so many times the noise, for scores that are linear in it."""
    return np.asarray(scores.mean() + factor * (scores - scores.mean()))


def _rates(counts: rates.Counts, confidence: float) -> tuple[float, float]:
    """The least rate of hits and the highest rate of false alarms, together with this confidence."""
    error = (1 - confidence) / 2
    return (
        rates.lowest_rate(counts.hits, counts.outputs_with, error),
        rates.highest_rate(counts.false_alarms, counts.outputs_without, error),
    )


def _sampled_bound(event: events.Event, counts: rates.Counts, delta: float, confidence: float) -> float:
    """The epsilon of the most noise, in multiples of the event's own, with which the rates are possible."""
    hit, false = _rates(counts, confidence)

    def losses(log_factor: float) -> Any:
        scaled = events.flatten(_scale_noise(event, math.exp(log_factor)))
        return accountants.pessimistic_pld(scaled, "add_or_remove", spread=GRID_SPACING)

    def is_refuted(log_factor: float) -> bool:
        deltas = losses(log_factor).get_delta_for_epsilon(LOSSES)
        grown = np.exp(LOSSES) * false + deltas
        shrunk = 1 - np.exp(-LOSSES) * (1 - deltas - false)
        return bool(hit > np.minimum(grown, shrunk).min())

    if hit <= false or not is_refuted(MAX_LOG_FACTOR):
        return 0.0
    low, high = -MAX_LOG_FACTOR, MAX_LOG_FACTOR
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_refuted(middle) else (middle, high)
    return least_epsilon(_scale_noise(event, math.exp(high)), delta)


def least_epsilon(event: events.Event, delta: float) -> float:
    """A lower bound on the epsilon of sums with Gaussian noise, over everybody or over Poisson samples."""
    # Every privacy loss is rounded down to a grid, by `SHORT` in all steps together unless these are very many.
    leaves = [(parameters(leaf), count) for leaf, count in merge_gaussians(events.flatten(event))]
    interval = max(SHORT / sum(count for _, count in leaves), FINEST)
    total = None
    for (rate, sigma), count in leaves:
        one = privacy_loss_distribution.from_gaussian_mechanism(
            sigma,
            pessimistic_estimate=False,
            value_discretization_interval=interval,
            sampling_prob=rate,
            use_connect_dots=False,
        ).self_compose(count)
        total = one if total is None else total.compose(one)
    assert total is not None
    return float(total.get_epsilon_for_delta(delta))


def _scale_noise(event: events.Event, factor: float) -> events.Event:
    def noisier(leaf: events.Leaf) -> events.GaussianEvent:
        return events.GaussianEvent(factor / math.sqrt(2 * events.rho(leaf)))

    return events.ComposedEvent(
        [
            events.SelfComposedEvent(
                events.PoissonSampledEvent(leaf.rate, noisier(leaf.event))
                if isinstance(leaf, events.PoissonSampledEvent)
                else noisier(leaf),
                count,
            )
            for leaf, count in events.flatten(event)
        ]
    )
