"""Imitation on the server: the simulator is fitted to the released vector, whose noise is known.

The policy is a table of logits, a sum of effects of public groups of states (at home, stay, time, ...) and of a latent
day type. Days of the current policy are played, with the vector that they would have released. The linear critic that
tells the released vector y from the played one m best is C^-1 (y / w - m), with C the covariance of the known noise and
w the common factor of the clip. The policy takes a Gauss-Newton step for the squared distance under C and a Gaussian
prior on the effects, so that of the noise no more is imitated than the prior allows. The effect of each logit on each
coordinate is the covariance of the coordinate with the score of the day (likelihood ratios).

All of it is post-processing of one release: rounds are free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tacit.data.mobility.days import STAY
from tacit.envs import movement
from tacit.envs.spaces import UnboundedSpace
from tacit.methods.mobility import moves
from tacit.methods.mobility.moves import ACTIONS_COUNT, DAY_SIZE, Weights, day_bins, states
from tacit.methods.mobility.simulator import StateLayout, TablePolicy
from tacit.validation import require_valid

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

FINE = 48
"""Up to so many buckets the table itself is fitted; a larger one is corrected along coarse groups."""
ALIKE, ALIKE_SPREAD = 0.85, 0.1
"""Norm of the mean of people's vectors, which have norm 1: how alike people are. A prior."""
LONGEST = 0.8
"""Largest change of an effect in a round."""
SPREADS = {"all": 1.5, "home": 0.7, "stay": 0.7, "stay home": 0.5, "time": 0.4, "time home": 0.3, "cells": 0.4}
"""Prior standard deviations of the effects of groups on logits; public, and the same for every data set."""
BUCKET_SPREAD, KIND_SPREAD = 0.3, 0.5
"""Those of single buckets and of day types."""
CORRECTED = 0.3
"""Factor of the spreads of time where a table is corrected: it knows the time of day from the same release already."""


@dataclass(frozen=True, kw_only=True)
class Matching:
    """How the simulator is fitted to the release.

    Args:
        rounds: Gauss-Newton steps.
        days: played for each.
        kinds: number of latent day types.
        spread: shift of the stay logit of the first and the last type, at the start and in the prior.
        slack: standard deviation of what no policy of this form can match, added to that of the noise.
    """

    rounds: int = 14
    days: int = 4_000
    kinds: int = 3
    spread: float = 0.6
    slack: float = 0.001

    def __post_init__(self) -> None:
        for name, least in (("rounds", 1), ("days", 100), ("kinds", 1)):
            value = getattr(self, name)
            valid = type(value) is int and value >= least
            require_valid(f"matching.{name}", value, valid, f"a whole number >= {least}")
        require_valid("matching.spread", self.spread, 0 <= self.spread <= 5, "a number from 0 to 5")
        require_valid("matching.slack", self.slack, 0 < self.slack <= 1, "a number in (0, 1]")


def match(
    mean: FloatArray, noise: float, layout: StateLayout, weights: Weights, plan: Matching, *, seed: int = 0
) -> TablePolicy:
    """The policy whose days, played in silence, come nearest to a released vector."""
    # mean: the released mean of people's vectors, [d]; noise: standard deviation of each coordinate's noise
    fit = _Fit(mean, noise, layout, weights, plan)
    rng = np.random.default_rng(seed)
    effects, responses = fit.centre, np.zeros(0)
    tried: list[tuple[float, FloatArray]] = []
    for k in range(plan.rounds):
        vectors, scores = fit.play(effects, rng)
        sample = vectors.mean(axis=0)
        response = (vectors - sample).T @ scores / plan.days
        responses = (responses + response) / 2 if k else response
        misfit, precision = fit.misfit(sample)
        loss = 0.5 * float(misfit @ precision @ misfit + fit.prior @ (effects - fit.mode) ** 2)
        tried.append((loss, effects))
        least, best = min(tried, key=lambda attempt: attempt[0])
        if loss > 1.3 * least + 10:  # the step went too far
            effects = (effects + best) / 2
            continue
        curvature = responses.T @ precision @ responses + np.diag(fit.prior + np.mean(scores**2, axis=0) + 0.1)
        slope = responses.T @ (precision @ misfit) - fit.prior * (effects - fit.mode)
        step = np.linalg.solve(curvature, slope)
        effects = effects + step * min(1.0, LONGEST / max(float(np.abs(step).max()), 1e-12))
    late = sorted(tried[plan.rounds // 2 :], key=lambda attempt: attempt[0])
    final = np.mean([point for _, point in late[: max(1, plan.rounds // 4)]], axis=0)
    return TablePolicy(layout, fit.table(final))


class _Fit:
    """One fit: the released vector in the coordinates that are matched, and the effects that the policy is made of."""

    # centre, mode, prior: [P] effects at the start, their prior means and precisions

    def __init__(self, mean: FloatArray, noise: float, layout: StateLayout, weights: Weights, plan: Matching) -> None:
        self._layout, self._plan, self._weights = layout, plan, weights.of(layout)
        values, sd = moves.unscale(mean, noise, layout, weights)
        groups, fine = _groups(layout), layout.size <= FINE
        logits = np.log(moves.table(values, sd, layout))
        self._groups = [(group, count) for group, count, _ in groups]
        spreads = np.concatenate([np.full(count * ACTIONS_COUNT, spread) for _, count, spread in groups])
        kinds = np.zeros((plan.kinds, ACTIONS_COUNT))
        kinds[:, STAY] = np.linspace(-plan.spread, plan.spread, plan.kinds) if plan.kinds > 1 else 0.0
        self.prior = 1 / np.concatenate([spreads, np.full(kinds.size, KIND_SPREAD)]) ** 2
        self.mode = np.concatenate([np.zeros(len(spreads)), kinds.ravel()])
        self.centre = self.mode.copy()
        if fine:  # the table's logits as effects
            design = np.concatenate([np.eye(count)[group] for group, count in self._groups], axis=1)
            ridge = design.T @ design + np.diag(self.prior[: len(spreads) : ACTIONS_COUNT]) / 4
            centred = logits - logits.mean(axis=1, keepdims=True)
            self.centre[: len(spreads)] = np.linalg.solve(ridge, design.T @ centred).ravel()
        self._base = np.zeros_like(logits) if fine else logits
        width = layout.size * ACTIONS_COUNT
        self._sets = [(np.arange(layout.size), layout.size)]
        if not fine:  # sums of buckets: cells x stay x home and time x home
            (time, cell, stay, home), (times, cells, stays, _) = _axes(layout), layout.shape
            self._sets = [((cell * stays + stay) * 2 + home, cells * stays * 2), (time * 2 + home, times * 2)]
        sums = np.concatenate([np.kron(np.eye(n)[:, group], np.eye(ACTIONS_COUNT)) for group, n in self._sets])
        self._released = np.concatenate([sums @ values[:width], values[width:]])
        self._covariance = np.diag(np.concatenate([np.zeros(len(sums)), sd[width:] ** 2]))
        self._covariance[: len(sums), : len(sums)] = (sums * sd[:width] ** 2) @ sums.T
        self._factor = moves.common_factor(values, sd, layout)
        self._norm = 1.0

    def table(self, effects: FloatArray) -> FloatArray:
        """Probabilities [kinds, K, 5]."""
        logits, at = self._base, 0
        for group, count in self._groups:
            logits = logits + effects[at : at + count * ACTIONS_COUNT].reshape(count, ACTIONS_COUNT)[group]
            at += count * ACTIONS_COUNT
        both = logits + effects[at:].reshape(self._plan.kinds, 1, ACTIONS_COUNT)
        powers = np.exp(both - both.max(axis=2, keepdims=True))
        return np.asarray(powers / powers.sum(axis=2, keepdims=True))

    def play(self, effects: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Days of the policy: their vectors [n, M] and scores [n, P], the gradients of their log-likelihoods."""
        table, n = self.table(effects), self._plan.days
        days = movement.rollout(TablePolicy(self._layout, table), UnboundedSpace(), np.zeros(n, np.int64), rng)
        where = states(days.cells, self._layout)
        chances = table[days.kinds[:, None], where] * movement.possible_actions(days.cells)
        surprise = -chances / chances.sum(axis=2, keepdims=True)
        taken = days.actions[..., None]
        np.put_along_axis(surprise, taken, np.take_along_axis(surprise, taken, axis=2) + 1, axis=2)
        steps = where.shape[1]
        vectors = [
            _counts(group[where] * ACTIONS_COUNT + days.actions, m * ACTIONS_COUNT) / steps for group, m in self._sets
        ]
        whole = np.zeros((n, DAY_SIZE))
        np.put_along_axis(whole, day_bins(days.cells), 1.0, axis=1)
        scores = [_sums(group[where], surprise, count) for group, count in self._groups]
        scores.append((np.eye(self._plan.kinds)[days.kinds][:, :, None] * surprise.sum(axis=1)[:, None]).reshape(n, -1))
        table_cells = np.bincount(
            (where * ACTIONS_COUNT + days.actions).ravel(), minlength=self._layout.size * ACTIONS_COUNT
        )
        full = np.concatenate([table_cells / where.size, whole.mean(axis=0)])
        self._norm = float(np.linalg.norm(full * self._weights))
        return np.concatenate([*vectors, whole], axis=1), np.concatenate(scores, axis=1)

    def misfit(self, sample: FloatArray) -> tuple[FloatArray, FloatArray]:
        """y / w - m [M] for the played vector m, and the inverse of its covariance [M, M]."""
        # The common factor w is the one that fits best, with the prior that people are so alike (`ALIKE`).
        slack = np.diag(self._plan.slack**2 + 0.5 * sample / self._plan.days + 1e-12)
        precision = _inverse(self._covariance + self._factor**2 * slack)
        expected, width = ALIKE / self._norm, (ALIKE_SPREAD / self._norm) ** 2
        top = self._released @ precision @ sample + expected / width
        self._factor = max(float(top / (sample @ precision @ sample + 1 / width)), moves.LEAST_FACTOR)
        precision = _inverse(self._covariance / self._factor**2 + slack)
        return self._released / self._factor - sample, precision


def _inverse(matrix: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.inv(matrix), np.float64)


def _axes(layout: StateLayout) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Time block, bin of cells, bin of stays and at home of each bucket, [K] each."""
    times, counts, stays, homes = np.unravel_index(np.arange(layout.size), layout.shape)
    return times, counts, stays, homes


def _groups(layout: StateLayout) -> list[tuple[IntArray, int, float]]:
    """Groups of states whose effects on the logits add up: group of each bucket [K], number of groups, spread."""
    (time, cell, stay, home), (times, cells, stays, _) = _axes(layout), layout.shape
    groups = [
        (np.zeros(layout.size, np.int64), 1, SPREADS["all"]),
        (home, 2, SPREADS["home"]),
        (stay, stays, SPREADS["stay"]),
        (stay * 2 + home, stays * 2, SPREADS["stay home"]),
    ]
    if times > 1:
        factor = 1.0 if layout.size <= FINE else CORRECTED
        groups.append((time, times, factor * SPREADS["time"]))
        groups.append((time * 2 + home, times * 2, factor * SPREADS["time home"]))
    if cells > 1:
        groups.append((cell, cells, SPREADS["cells"]))
    if layout.size <= FINE and times > 1:
        groups.append((np.arange(layout.size), layout.size, BUCKET_SPREAD))
    return groups


def _counts(cells: IntArray, size: int) -> FloatArray:
    """How often each row of cells [n, 47] holds each of `size` values, [n, size]."""
    n = len(cells)
    counts = np.bincount((np.arange(n)[:, None] * size + cells).ravel(), minlength=n * size)
    return counts.reshape(n, size).astype(np.float64)


def _sums(groups: IntArray, values: FloatArray, count: int) -> FloatArray:
    """Sums of values [n, 47, A] by group [n, 47], [n, count A]."""
    n, _, actions = values.shape
    if count == 1:
        return np.asarray(values.sum(axis=1))
    at = (np.arange(n)[:, None] * count + groups).ravel()
    sums = np.empty((n * count, actions))
    for a in range(actions):
        sums[:, a] = np.bincount(at, weights=values[..., a].ravel(), minlength=n * count)
    return sums.reshape(n, count * actions)
