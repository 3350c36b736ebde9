"""Fitted Q evaluation: action values from noisy sums of Bellman residuals, without importance ratios.

Q(s, a) = phi(s) . theta_a. Each unit is bounded as one vector, so its transitions are summed first; with
x_t = phi(s_t) in the block of a_t, G_i = sum_t x_t x_t^T and w_i = 1 / max(|G_i|, g):

1. centre      noisy mean return, and the noisy mean of log |G_i|, which gives the scale g
2. gram        sum_i w_i G_i
3. residuals   K times: sum_i clip(w_i sum_t x_t e_t, h),   e_t = delta_t + gamma lambda e_{t+1},
               delta_t = r_t + gamma V(s_{t+1}) - Q(s_t, a_t),   V(s) = sum_a pi(a|s) Q(s, a) within the public range

theta is fixed within a round and then moved by a gain that knows the size of all noise (a Kalman gain for each action's
Gram matrix, `gain.py`): no step size. lambda > 0 carries rewards over several steps in a round; with the expectation V
in every delta it needs no ratios and has the same fixed point (Harutyunyan et al., "Q(lambda) with off-policy
corrections", arXiv:1602.04951, whose convergence is proved for policies that are close). w_i is the same for all units
but the largest: a weight that follows the length of an episode would favour the ends that make it short. Fitted Q
evaluation: Le, Voloshin and Yue (arXiv:1903.08738). Proof page: `proofs/off_policy_evaluation.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tacit.methods.off_policy_evaluation.features import Features
from tacit.methods.off_policy_evaluation.gain import Gram, read_gram, update
from tacit.methods.off_policy_evaluation.intervals import unit_count
from tacit.methods.off_policy_evaluation.policies import Policy
from tacit.methods.off_policy_evaluation.prior import covariance
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.methods.off_policy_evaluation.q_sums import (
    CENTRE_SHARES,
    LENGTH_SHARE,
    Centre,
    GramVector,
    Residuals,
    Transitions,
)
from tacit.methods.off_policy_evaluation.scores import FIT
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.vault import Vault
from tacit.validation import check

SHARES = {"centre": 0.2, "gram": 0.2, "residuals": 0.6}
"""Of the fit's budget."""
SCALE_FACTOR = 1.5
"""The scale g in multiples of the geometric mean of |G_i|."""
CLIP_FACTOR, CLIP_FALL = 2.0, 0.5
"""The next clip: so many mean lengths, but at least this part of the last clip."""
REFRESH = 0.25
"""Part of the prior covariance that is added back after each round, since the residuals move with theta."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The public parameters of the regression.

    Args:
        rounds: K, noisy residual sums.
        trace: lambda in [0, 1].
        prior: standard deviation of Q around the mean return at a typical state, in multiples of the public range.

    Raises:
        PlanError: a value is out of range.
    """

    rounds: int = 20
    trace: float = 0.8
    prior: float = 0.1

    def __post_init__(self) -> None:
        check("rounds", self.rounds, type(self.rounds) is int and self.rounds >= 1, "a whole number >= 1")
        check("trace", self.trace, 0 <= self.trace <= 1, "a number in [0, 1]")
        check("prior", self.prior, math.isfinite(self.prior) and self.prior > 0, "a finite number > 0")

    def parts(
        self, problem: Problem, noise_multiplier: float | None, fold: Literal[0, 1] | None = None
    ) -> tuple[PoissonSum, ...]:
        """The three parts; together they cost one Gaussian with this noise multiplier."""
        steps = {name: self.rounds if name == "residuals" else 1 for name in SHARES}
        return tuple(
            PoissonSum(
                name=name,
                steps=steps[name],
                rate=1.0,
                clip=1.0,
                noise_multiplier=noise_multiplier and noise_multiplier * math.sqrt(steps[name] / share),
                rows_per_unit=problem.rows_per_unit,
                rows="first",
                fold=fold,
            )
            for name, share in SHARES.items()
        )


@dataclass(frozen=True, eq=False)
class QFunction:
    """Q(s, a) = phi(s) . weights[:, a], and V under a policy; both within the public range.

    Args:
        features: phi.
        weights: [n, A].
        policy: the evaluated policy.
        limits: the public range.
        centre: the noisy mean return that the fit began from.
    """

    features: Features
    weights: np.ndarray
    policy: Policy
    limits: tuple[float, float]
    centre: float

    def q(self, observations: np.ndarray) -> np.ndarray:
        """[N, d] or [N] -> [N, A]."""
        values = np.asarray(self.features(observations), np.float64) @ self.weights
        return np.asarray(np.clip(values, *self.limits))

    def v(self, observations: np.ndarray) -> np.ndarray:
        """[N, d] or [N] -> [N]."""
        return np.asarray((self.policy.probabilities(observations) * self.q(observations)).sum(axis=1))

    def over(self, which: Literal["q", "v"], observations: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """`q` or `v` of padded observations [U, L, ...] -> [U, L, A] or [U, L]."""
        flat = observations.reshape(-1, *observations.shape[2:])
        values = self.q(flat) if which == "q" else self.v(flat)
        return np.asarray(values.reshape(*shape, *values.shape[1:]))


def fit(vault: Vault, run: Run, plan: Fit, problem: Problem, features: Features, policy: Policy) -> QFunction:
    """Fit Q through the run's parts "centre", "gram" and "residuals".

    Raises:
        PlanError: the plan has no such parts.
        PlanExhausted: they were run before.
    """
    limits = problem.range(vault.spec)
    transitions = Transitions(problem, policy, features)
    centre, scale = _centre(vault, run, Centre(transitions, limits))
    grams = _grams(vault, run, transitions, scale)
    weights = np.repeat(features.constant(centre)[:, None], policy.actions, axis=1)
    residuals = Residuals(transitions, limits, plan.trace)
    prior = covariance(features, plan.prior * (limits[1] - limits[0]), vault.spec, None)
    covariances, clip, kept = [prior] * policy.actions, (limits[1] - limits[0]) / 2, []
    root = math.sqrt(1 - LENGTH_SHARE)
    noise = _noise(vault, run, "residuals") / root
    for _ in range(plan.rounds):
        noisy = vault.noisy_sum(run, "residuals", residuals, (weights, clip, scale))[0] / FIT
        moves = noisy[:-1].reshape(features.size, policy.actions) / root * clip
        changes = [update(g, s, x, noise * clip) for g, s, x in zip(grams, covariances, moves.T, strict=True)]
        weights = weights + np.stack([change for change, _ in changes], axis=1)
        covariances = [after + REFRESH * prior for _, after in changes]
        kept.append(weights)
        clip *= min(1.0, max(CLIP_FALL, CLIP_FACTOR * float(noisy[-1]) / math.sqrt(LENGTH_SHARE)))
    last = np.mean(kept[-max(1, plan.rounds // 10) :], axis=0)
    return QFunction(features, last, policy, limits, centre)


def _centre(vault: Vault, run: Run, centre: Centre) -> tuple[float, float]:
    """The noisy mean return and the scale of the Gram matrices."""
    size, roots = vault.unit.size, np.sqrt(CENTRE_SHARES)
    total, count, octaves = vault.noisy_sum(run, "centre", centre)[0] * size / (FIT * roots)
    present = unit_count(count, _noise(vault, run, "centre") * size / float(roots[1]), size)
    low, high = centre.limits
    mean = (low + high) / 2 + (high - low) / 2 * np.clip(total / present, -1, 1)
    return float(mean), SCALE_FACTOR * 2.0 ** float(np.clip(octaves / present, 0, 1) * centre.summary.octaves)


def _grams(vault: Vault, run: Run, transitions: Transitions, scale: float) -> list[Gram]:
    """The Gram matrix of each action: a mean over the population, in multiples of the scale."""
    noisy = vault.noisy_sum(run, "gram", GramVector(transitions), scale)[0] / FIT
    noise, features = _noise(vault, run, "gram"), transitions.features
    blocks = noisy.reshape(transitions.policy.actions, -1)
    return [read_gram(block, noise, tabular=features.tabular, n=features.size) for block in blocks]


def _noise(vault: Vault, run: Run, part: str) -> float:
    """Standard deviation of the noise in each number of a part, as a mean over the population."""
    sigma = run.sum_part(part).noise_multiplier
    assert sigma is not None
    return sigma / (FIT * vault.unit.size)
