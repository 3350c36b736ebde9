"""From noisy moments to a policy: post-processing, which costs no privacy however often it is done.

The clone of `cloning` gives log p(a|s), linear in phi. A plan that does not advise stops there.

1. Points. Public points y, weighted so that their means are the noisy ones (maximum entropy with a ridge of the noise).
2. Regression. Q(s, a) = psi(s) . v + phi(s) . theta_a, where theta_a regresses x + gamma psi(s') . v - psi(s) . v on
   phi. The noise of the sums is known, so theta_a moves from 0 by a Kalman gain, and has a covariance. x are rewards
   in their own standard deviations around their mean: the variance of a row is about 1 in any unit of reward.
3. Values. v <- the least-squares fit of max_a (Q - pessimism sd) over the points, again and again.
4. Copies. 2 and 3 are done for `COPIES` copies of the sums, each with as much public noise again as the sums have. A
   maximum that is taken 24 times over lets one noise grow; what the noise alone made differs from copy to copy.
5. Advice. The best of log p(a|s) + kappa (Q - sd), Q - sd as the weighted points' linear function of phi, the mean
   over the copies.
6. Judgement. The model's own estimate of what the advice adds at a visit, the mean over the points of
   Q(s, advice) - sum_a p(a|s) Q(s, a). Where that is not above its own noise, nothing says that the
   advice is better than the clone's decisions: it is dropped, and the clone is the policy. A clone of all units draws
   its actions as the records do (the most frequent action of all can be the worst one); one of the best takes the
   likeliest.

Both policies are linear in `agents.features.Quadratic` of the memories: they are played, saved, exported and evaluated
as every other policy is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tacit.agents.features import Quadratic
from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.data.spec import Box, PublicSpec
from tacit.methods.improvement.cloning import CloneGeometry
from tacit.methods.improvement.moments import FARTHEST, Moments, Scales, find_points, phi, psi, softmax
from tacit.methods.improvement.plan import SWEEPS, ImprovementPlan
from tacit.methods.off_policy_evaluation.scores import limits

Float64 = NDArray[np.float64]
COPIES = 16
"""Copies of the noisy sums over which the advice is averaged."""
CONSTANT, SLOPE = 0.25, 0.0625
"""Prior variance of the constant of theta_a, and of its other entries, in variances of a reward."""


@dataclass(frozen=True, eq=False)
class AdviceResult:
    """What planning gives."""

    policy: Policy  # what both sets of parameters are of
    # advice, clone: parameters [1, P] of the advice and of the clone; equal where the advice is dropped
    advice: NDArray[np.float32]
    clone: NDArray[np.float32]
    # share of the weighted points where the clone would take a and the advice b, [A, A]; they sum to 1
    changes: Float64
    # whether the policy is the clone of all units and draws its actions, since the model's own estimate of the advice
    # is not above that of the records' decisions
    sampled: bool


def advise(
    moments: Moments | None,
    scales: Scales,
    clone: Float64,
    geometry: CloneGeometry,
    plan: ImprovementPlan,
    spec: PublicSpec,
) -> AdviceResult:
    """The advice that departs from a clone.

    Args:
        moments: noisy sums; None where the clone is the policy.
        scales: of the look.
        clone: weights of phi that give the clone's log-probabilities, [n, A].
        geometry: of the clone.
        plan, spec: columns, trust in the model, and public bounds.
    """
    y, weight, scores, sampled = geometry.y, geometry.weights, clone, False
    if moments is not None:
        total = moments.products.sum(0)
        rows = max(float(total[0, 0]), moments.units)
        y, weight = find_points(
            total / rows, len(plan.columns), math.sqrt(len(moments.products)) * moments.noise[0] / rows
        )
        standard = StandardProblem.of(scales, plan, spec)
        model, *copies = (ValueModel.of(one, y, weight, standard, plan) for one in (moments, *noisy_copies(moments)))
        candidate = clone + plan.kappa * np.mean([copy.advantages(y, weight) for copy in copies], axis=0)
        gain, spread = model.gain(y, weight, phi(y) @ candidate, softmax(phi(y) @ clone))
        # A clone of all draws its actions, and advice takes one always: where noise decides, the commonest, which can
        # be the worst.
        dropped = gain <= spread
        scores, sampled = clone if dropped else candidate, dropped and plan.teachers == "all"
    actions = clone.shape[1]
    changes = np.zeros((actions, actions))
    np.add.at(changes, ((phi(y) @ clone).argmax(1), (phi(y) @ scores).argmax(1)), weight)
    low, high = _bounds(scales, plan, spec)
    inputs = Quadratic(low, high)
    policy = Policy(inputs, Mlp((inputs.size, actions), gain=0.0), Categorical(actions))
    parameters = [_parameters(weights, plan.columns, len(low)) for weights in (scores, clone)]
    return AdviceResult(policy, parameters[0], parameters[1], changes, sampled)


def noisy_copies(moments: Moments) -> list[Moments]:
    """`COPIES` copies of noisy sums, each with public noise of the same law added to theirs."""
    generator, copies = np.random.default_rng(0), list[Moments]()
    of_products, of_changes, of_rewards = moments.noise
    for _ in range(COPIES):
        noise = generator.standard_normal(moments.products.shape)
        # Symmetric, with less off the diagonal, as the noise of the triangle is (`JointMoments`).
        upper = np.triu(noise, 1) / math.sqrt(2)
        noise = upper + upper.swapaxes(1, 2) + noise * np.eye(noise.shape[1])
        copies.append(
            replace(
                moments,
                products=moments.products + of_products * noise,
                changes=moments.changes + of_changes * generator.standard_normal(moments.changes.shape),
                rewards=moments.rewards + of_rewards * generator.standard_normal(moments.rewards.shape),
            )
        )
    return copies


@dataclass(frozen=True)
class StandardProblem:
    """The problem in rewards x, which have mean 0 and variance 1 in the records."""

    # what x is short of at each visit: the mean reward in standard deviations. Where every course has as many visits,
    # whatever is decided, it moves all values alike and is 0 here; where a course can end early, what another visit
    # pays is part of what a decision is worth.
    offset: float
    low: float  # low, high: the public range of returns in this unit
    high: float

    @classmethod
    def of(cls, scales: Scales, plan: ImprovementPlan, spec: PublicSpec) -> StandardProblem:
        """By the scales of the look and what the public knows of courses."""
        early = spec.terminals and plan.has_next_states
        low, high = limits(plan.problem, spec)
        taken = 0.0 if early else scales.reward_centre * plan.problem.discounted_length
        low, high = ((end - taken) / scales.reward_spread for end in (low, high))
        return cls(scales.reward_centre / scales.reward_spread if early else 0.0, low, high)


@dataclass(frozen=True, eq=False)
class ValueModel:
    """Action values at the public points, and how sure they are.

    Args:
        theta: [n, A]; what states are worth alike for every action is not in it.
        covariances: of each action's theta, [A, n, n].
    """

    theta: Float64
    covariances: Float64

    @classmethod
    def of(
        cls, moments: Moments, y: Float64, weight: Float64, standard: StandardProblem, plan: ImprovementPlan
    ) -> ValueModel:
        """By regression under known noise and value iteration.

        Args:
            moments: noisy sums.
            y, weight: public points [K, d] and their weights [K].
            standard: offset and range of returns.
            plan: pessimism, and columns that the value depends on.
        """
        features, values = phi(y), psi(y[:, [plan.columns.index(column) for column in plan.value_columns]])
        of_products, of_changes, of_rewards = moments.noise
        prior = np.diag([CONSTANT, *[SLOPE] * (features.shape[1] - 1)])
        regression = _Regression.of(_positive(moments.products, of_products), of_products, prior)
        root = np.sqrt(weight)[:, None]
        project = np.linalg.pinv(root * values, rcond=1e-6) * root.T
        v, theta, covariances = np.zeros(values.shape[1]), np.empty(0), np.empty(0)
        for _ in range(SWEEPS if plan.has_next_states else 1):
            next_values = moments.changes @ v if plan.has_next_states else np.zeros_like(moments.rewards)
            size = of_rewards**2 + of_changes**2 * float(v @ v)
            theta, covariances = regression.posterior(moments.rewards + next_values, size)
            q = features @ theta + (standard.offset + values @ v)[:, None]
            state_values = (q - plan.pessimism * _deviation(features, covariances)).max(axis=1)
            v = project @ np.clip(state_values, standard.low, standard.high)
        return cls(theta, covariances)

    def advantages(self, y: Float64, weight: Float64) -> Float64:
        """How much better each action is than the mean of all, less a standard deviation, as weights of phi, [n, A]."""
        features, root = phi(y), np.sqrt(weight)[:, None]
        cautious = features @ self.theta - _deviation(features, self.covariances)
        cautious -= cautious.mean(axis=1, keepdims=True)
        return np.asarray(np.linalg.pinv(root * features, rcond=1e-6) @ (root * cautious))

    def gain(self, y: Float64, weight: Float64, scores: Float64, probabilities: Float64) -> tuple[float, float]:
        """What the best action of scores [K, A] adds at a visit to actions of the probabilities likely [K, A].

        In standard deviations of a reward: the posterior mean, which noise draws towards 0, and standard deviation.
        """
        probability_change = np.eye(scores.shape[1])[scores.argmax(axis=1)] - probabilities
        direction = (phi(y) * weight[:, None]).T @ probability_change
        variance = np.einsum("na,anm,ma->", direction, self.covariances, direction)
        return float((direction * self.theta).sum()), math.sqrt(max(float(variance), 0.0))


def _deviation(features: Float64, covariances: Float64) -> Float64:
    """Standard deviations [K, A] of features [K, n] . theta_a."""
    return np.asarray(np.sqrt(np.maximum(np.einsum("akn,kn->ka", features @ covariances, features), 0)))


@dataclass(frozen=True, eq=False)
class _Regression:
    """Coefficients of what is summed with phi on phi, under known noise, from the prior N(0, P), action by action."""

    # The sum b = G theta + noise has the noise of b itself, that of G times what theta may be, and the sampling of
    # rows.
    prior: Float64  # P, [n, n]
    weighted: Float64  # G P, [A, n, n]
    spread: Float64  # G P G + G, [A, n, n]
    noise: float  # variance that comes from G's

    @classmethod
    def of(cls, products: Float64, sigma: float, prior: Float64) -> _Regression:
        weighted = products @ prior
        return cls(prior, weighted, weighted @ products + products, sigma**2 * float(np.trace(prior)) / len(prior))

    def posterior(self, totals: Float64, variance: float) -> tuple[Float64, Float64]:
        """theta [n, A] and its covariances [A, n, n] for sums b [A, n] whose own noise has this variance."""
        spread = self.spread + (variance + self.noise) * np.eye(len(self.prior))
        gain = np.linalg.solve(spread, self.weighted).swapaxes(1, 2)
        return (gain @ totals[:, :, None])[:, :, 0].T, self.prior - gain @ self.weighted


def _positive(products: Float64, sigma: float) -> Float64:
    """Products [..., n, n] with eigenvalues that can be: posterior means under a flat prior on [0, inf)."""
    from scipy.special import log_ndtr

    values, vectors = np.linalg.eigh(products)
    if sigma:
        z = values / sigma
        values = values + sigma * np.exp(-(z**2) / 2 - math.log(2 * math.pi) / 2 - log_ndtr(z))
    return np.asarray((vectors * np.maximum(values, 1e-6)[..., None, :]) @ vectors.swapaxes(-1, -2))


def _bounds(scales: Scales, plan: ImprovementPlan, spec: PublicSpec) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Ranges of `Quadratic` in which its inputs are y / 3; public bounds for columns without use."""
    assert isinstance(spec.observation, Box)
    low, high = np.array(spec.observation.low), np.array(spec.observation.high)
    columns = list(plan.columns)
    low[columns], high[columns] = (scales.centre + sign * FARTHEST * scales.spread for sign in (-1, 1))
    return tuple(low.tolist()), tuple(high.tolist())


def _parameters(weights: Float64, columns: tuple[int, ...], dimensions: int) -> NDArray[np.float32]:
    """Weights of phi [n, A] as parameters [1, P] of a linear layer on `Quadratic` inputs x = y / 3 and products."""
    d, actions = len(columns), weights.shape[1]
    i, j = np.triu_indices(dimensions)
    layer = np.zeros((dimensions + len(i) + 1, actions))
    square = weights[1 + d :] / math.sqrt(2)
    layer[list(columns)] = FARTHEST * weights[1 : 1 + d]
    diagonal = dimensions + np.flatnonzero(i == j)
    layer[diagonal[list(columns)]] = FARTHEST**2 * square
    layer[-1] = weights[0] - square.sum(0)
    return layer.reshape(1, -1).astype(np.float32)
