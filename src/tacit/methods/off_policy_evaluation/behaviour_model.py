"""A private model of the behaviour policy, for records without propensities: softmax regression by noisy sums.

log p(a|s) = phi(s) . theta_a up to a constant. With x_t = phi(s_t) of a unit's t-th row and v_t = 1 / sqrt(t),

1. gram      the noisy mean G of the units' sum_t v_t x_t x_t^T
2. logits    K times: the noisy mean of clip(sum_t v_t x_t (1[a_t = a] - p(a|s_t)), h), a gradient of the log likelihood

v_t looks back only: a mean over a unit's rows would count an action that ends an episode more than one that does not.
Under the true policy the gradients are random walks, whose lengths hardly grow with the number of rows. Near a policy
that takes all A actions alike the gradient is G / A times the error of theta, and the noise is known. So theta moves by
a Kalman gain (`statistics.update`), without a step size. h follows the noisy mean length. What is released is
(1 - floor) p + floor / A: no probability is below floor / A.

Noisy tallies of public bins, a naive Bayes model of them and a linear model of probabilities were further from the true
probabilities on simulated insulin doses and in the clinic, at epsilon 1 and 4. Proof page:
`proofs/off_policy_evaluation.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit import rowwise
from tacit.data.spec import Discrete, PublicSpec
from tacit.methods.off_policy_evaluation.features import AnyFeatures, Features, Fourier, OneHot, covariance, gram_blocks
from tacit.methods.off_policy_evaluation.logged import cut_episodes
from tacit.methods.off_policy_evaluation.policies import Behaviour, DiscretePolicy, LinearQ, ModelledPolicy
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.methods.off_policy_evaluation.scores import FIT, noise, noisy_mean
from tacit.methods.off_policy_evaluation.statistics import encode_rows, read_gram, unit_grams, update
from tacit.privacy.mechanisms.contribution_sets import with_length
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Clause, clause
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.vault import Vault
from tacit.validation import require_valid, require_whole

Arrays = Mapping[str, np.ndarray]

GRAM, LOGITS = "behaviour gram", "behaviour logits"
GRAM_SHARE = 0.2
"""Of the model's budget."""
CLIP_FACTOR, CLIP_FALL = 1.2, 0.5
"""The next clip: so many mean lengths, but at least this part of the last clip."""
REFRESH = 0.1
"""Part of the prior covariance that is added back after each round."""
LENGTH_SHARE = 0.1
"""Of the squared norm of a unit's gradient vector: its length, which the next round's clip is made from."""


@dataclass(frozen=True, kw_only=True)
class BehaviourModel:
    """The public parameters of the model.

    Args:
        features: phi; `of` has a public choice.
        share: of the plan's budget (the precision 1 / sigma^2) that the model gets; the evaluation gets the rest.
        floor: the least probability of an action, in multiples of the uniform policy's 1 / A.
        rounds: K.
        tau: standard deviation of a logit at a typical state before any record is read.
    """

    features: AnyFeatures
    share: float = 0.3
    floor: float = 0.1
    rounds: int = 16
    tau: float = 1.0

    def __post_init__(self) -> None:
        require_valid("share", self.share, 0 < self.share < 1, "a number in (0, 1)")
        require_valid("floor", self.floor, 0 < self.floor <= 1, "a number in (0, 1]")
        require_whole(rounds=self.rounds)
        require_valid("tau", self.tau, 0 < self.tau < math.inf, "a finite number > 0")

    @classmethod
    def of(cls, spec: PublicSpec) -> BehaviourModel:
        """With public features of moderate size: one for each state, or Fourier of order 2 along each dimension."""
        space = spec.observation
        if isinstance(space, Discrete):
            return cls(features=OneHot(space.n))
        labels = space.categories if any(space.categories) else None
        return cls(features=Fourier(2, space.low, space.high, coupled=False, labels=labels))

    @property
    def words(self) -> str:
        """What it costs and takes, in a sentence."""
        spent = f"{100 * self.share:.3g} % of this budget (1 / sigma^2)"
        return f"A model of the behaviour policy gets {spent}; the interval does not count its error."

    @property
    def covered_clauses(self) -> tuple[Clause, ...]:
        """What it releases, for the certificate."""
        return (clause("behaviour_sums", sums=self.rounds + 1),)

    @property
    def assumption(self) -> Clause:
        """What the value and its interval rest on, for the certificate."""
        return clause("behaviour_fitted", share=100 * self.share, floor=self.floor)

    def parts(self, problem: Problem, noise_multiplier: float | None) -> tuple[PoissonSum, ...]:
        """The Gram matrix and the rounds of gradients.

        Args:
            problem: whose rows of a unit are read.
            noise_multiplier: of the model as a whole; None until calibrated.
        """
        sigma = noise_multiplier
        return (
            problem.part(GRAM, sigma and sigma / math.sqrt(GRAM_SHARE), blocks=gram_blocks(self.features)),
            problem.part(
                LOGITS,
                sigma and sigma * math.sqrt(self.rounds / (1 - GRAM_SHARE)),
                steps=self.rounds,
                blocks=with_length(LENGTH_SHARE),
            ),
        )

    def fit(self, vault: Vault, run: Run, problem: Problem) -> np.ndarray:
        """The weights [n, A], through the run's parts; see `policy`.

        Raises:
            PlanExhausted: they were released before.
        """
        assert isinstance(vault.spec.action, Discrete)
        actions, features = vault.spec.action.n, self.features
        summary = BehaviourRows(problem, features, actions)
        noisy = noisy_mean(vault, run, GRAM, BehaviourGram(summary)) * summary.scale / FIT
        deviation = noise(vault, run, GRAM) * summary.scale / FIT
        gram = read_gram(noisy, deviation, tabular=features.tabular, n=features.size)
        prior = covariance(features, self.tau, vault.spec, None)
        spread, weights, clip = prior, np.zeros((features.size, actions)), summary.walk
        shares = math.sqrt(1 - LENGTH_SHARE), math.sqrt(LENGTH_SHARE)
        for _ in range(self.rounds):
            released = noisy_mean(vault, run, LOGITS, LogitGradient(summary), (weights, clip)) / FIT
            gradient = released[:-1].reshape(weights.shape) * clip / shares[0]
            deviation = noise(vault, run, LOGITS) * clip / (FIT * shares[0])
            change, spread = update(gram, spread, actions * gradient, actions * deviation)
            weights, spread = weights + change, spread + REFRESH * prior
            length = CLIP_FACTOR * float(released[-1]) / shares[1]
            clip *= min(1.0, max(CLIP_FALL, length))
        return weights

    def policy(self, weights: np.ndarray) -> DiscretePolicy:
        """The released policy of these weights [n, A], no probability below floor / A."""
        return ModelledPolicy(LinearQ(self.features, np.asarray(weights, np.float64)), self.floor)


@dataclass(frozen=True, eq=False)
class BehaviourRows:
    """What is kept of each unit, a summary."""

    problem: Problem  # horizon and episodes
    features: Features  # phi
    actions: int  # A

    @property
    def scale(self) -> float:
        """A public bound of the norm of sum_t v_t phi phi^T for indicators and cosines; others are clipped."""
        return self._size * float((1 / np.sqrt(self._rows)).sum())

    @property
    def walk(self) -> float:
        """A public size of sum_t v_t phi (1[a_t] - p), a random walk."""
        return math.sqrt(2 * self._size * float((1 / self._rows).sum()))

    @property
    def _size(self) -> float:
        return 1.0 if self.features.tabular else float(self.features.size)

    @property
    def _rows(self) -> np.ndarray:
        return np.arange(1, self.problem.rows_per_unit + 1)

    def __call__(self, rows: Arrays) -> dict[str, np.ndarray]:
        """Rows [U, L, ...] -> "phi" [U, L, n], "gram" [U, g], "taken" [U, L], and "weight" v [U, L]."""
        log = cut_episodes(rows, self.problem, Behaviour())
        phi, _ = encode_rows(log, self.features)
        weight = log.alive / np.sqrt(np.maximum(log.alive.cumsum(axis=1), 1))
        return {
            "phi": phi,
            "taken": np.where(log.alive, log.actions, 0).astype(np.int64),
            "weight": weight,
            "gram": unit_grams(weight, phi, self.features).astype(np.float64),
        }


@dataclass(frozen=True, eq=False)
class BehaviourGram:
    """Each unit's Gram matrix over its scale, cut to norm 1, [U, g]."""

    summary: BehaviourRows

    def __call__(self, rows: Arrays, state: object) -> np.ndarray:
        """The summary's arrays -> [U, g]."""
        return FIT * _clip_norms(rows["gram"] / self.summary.scale)[0]


@dataclass(frozen=True, eq=False)
class LogitGradient:
    """Each unit's gradient of the logits over the clip, cut to norm 1, and its length, [U, n A + 1], of norm at most 1.
    The state is (weights [n, A], the clip), both public."""

    summary: BehaviourRows

    def __call__(self, rows: Arrays, state: tuple[np.ndarray, float]) -> np.ndarray:
        """The summary's arrays -> [U, n A + 1]."""
        weights, clip = state
        phi = rows["phi"]
        taken = rows["taken"][..., None] == np.arange(weights.shape[1])
        error = (taken - rowwise.softmax(phi @ weights.astype(np.float32))) * rows["weight"][..., None]
        gradient = np.matmul(phi.transpose(0, 2, 1), error).reshape(len(phi), weights.size)
        x, length = _clip_norms(gradient / clip)
        shares = math.sqrt(1 - LENGTH_SHARE), math.sqrt(LENGTH_SHARE)
        return FIT * np.concatenate([shares[0] * x, shares[1] * length], axis=1)


def _clip_norms(vectors: Any) -> tuple[np.ndarray, np.ndarray]:
    """Vectors [U, d] cut to norm 1, and their norms up to 1, [U, 1]."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(1, norms), np.float64), np.minimum(1, norms)
