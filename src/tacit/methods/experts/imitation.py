"""Return-weighted imitation: noisy full-batch steps up the likelihood of what good experts did.

Input: experts' logs behind a vault; a calibrated plan (K steps, a clip C, a policy pi)
1. once an expert: a few of its rows, evenly spaced, and its weight w_i in (0, 1], from its own returns  (learned.py)
2. T <- inverse root of the noisy second moments of the inputs, theta = T phi                             (below)
3. for k = 1 .. K:
4.     g_i <- w_i clip(mean over its rows of the gradient of log pi(a | s) by phi, C)
5.     g   <- (sum_i g_i + noise) / population                                     (vault.noisy_sum)
6.     v   <- momentum v + (1 - momentum) g;  phi <- phi + rate (1 - k / K) v / |v|
7. release the mean of the last thetas

No expert is queried and none needs to act at random. All sums are Gaussians over all experts, so that the plan costs
one Gaussian of multiplier `noise_multiplier`. Proof page: `proofs/experts.md`. Source: tacit; imitation is a base
learner of N. Sharma et al. (arXiv:2411.13598), weights of this form are those of reward-weighted regression.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.agents.features import Features
from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.methods.experts.clones import subsample_rows
from tacit.methods.experts.learned import LearnedPolicies, ReturnWeight, label
from tacit.parameters import Option
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.gradients import clipping
from tacit.privacy.mechanisms.base import Summary
from tacit.privacy.mechanisms.contribution_sets import Block, Blocks, grams
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Label, clause
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import exhausted_error
from tacit.privacy.vault.vault import Vault
from tacit.validation import require_fraction, require_positive, require_valid, require_whole

# Inputs of one size in every direction, from noisy second moments of what experts see.


Array = NDArray[Any]
Float64 = NDArray[np.float64]

_LEAST = 1e-4
"""Smallest eigenvalue that is believed, of a Gram matrix of Frobenius norm 1."""

_CHUNK = 65_536
"""Rows whose inputs are multiplied at a time."""


@dataclass(frozen=True)
class InputMoments:
    """An expert's contribution: how large its inputs are, and in which directions."""

    summary: Summary  # gives "observations" [U, k, ...] and "mask" [U, k]
    features: Features  # public map from observations to F inputs in [-1, 1]

    def __call__(self, rows: Mapping[str, Array], state: Any) -> Array:
        """[U, 1 + F (F + 1) / 2]."""
        mask, size = rows["mask"], self.features.size
        upper, factors = _upper_triangle(size)
        vectors = np.zeros((len(mask), 1 + len(factors)))
        step = max(1, _CHUNK // mask.shape[1])
        for start in range(0, len(mask), step):
            chunk = slice(start, start + step)
            x = self.features(rows["observations"][chunk]) * mask[chunk][..., None].astype(np.float64)
            gram = x.swapaxes(1, 2) @ x / np.maximum(mask[chunk].sum(axis=1), 1)[:, None, None]
            vectors[chunk, 0] = np.sqrt(np.trace(gram, axis1=1, axis2=2) / size)
            direction = gram[:, upper[0], upper[1]] * factors
            length = np.sqrt(np.square(direction).sum(axis=1, keepdims=True))
            vectors[chunk, 1:] = direction / np.maximum(length, np.finfo(np.float64).tiny)
        return vectors / math.sqrt(2)


def whitener(released: Float64, noise: float, size: int) -> Float64:
    """Matrices T [R, F, F], symmetric, so that the inputs T x have second moments of about 1 in every direction."""
    # released: noisy means of `InputMoments` [R, 1 + F (F + 1) / 2]; noise: standard deviation of their noise,
    # directions that drown in it are taken to be of its size; size: F
    upper, factors = _upper_triangle(size)
    noise *= math.sqrt(2)
    matrices = np.empty((len(released), size, size))
    for matrix, vector in zip(matrices, math.sqrt(2) * released, strict=True):
        gram = np.zeros((size, size))
        gram[upper] = gram.T[upper] = vector[1:] / factors
        values, vectors = np.linalg.eigh(gram)
        values = np.maximum(values, max(2 * noise * math.sqrt(size), _LEAST))
        mean_square = max(vector[0], 3 * noise, 1e-3) ** 2
        values *= size * mean_square / values.sum()
        matrix[:] = vectors / np.sqrt(values) @ vectors.T
    return matrices


def transform_first_layer(matrices: Array, network: Mlp, parameters: Array) -> Array:
    """The parameters [G, P] with the weights of their first layer W [F, H] replaced by T W, for T [G, F, F]."""
    # It takes parameters for whitened inputs to those for plain ones, and gradients the other way (T is symmetric).
    result = parameters.copy()
    first = network.layers(result)[0][:, :-1]
    first[:] = matrices @ first
    return result


def _upper_triangle(size: int) -> tuple[tuple[Array, Array], Float64]:
    """The upper triangle, and factors that make its vector as long as the matrix."""
    upper = np.triu_indices(size)
    return upper, np.where(upper[0] == upper[1], 1.0, math.sqrt(2))


Float32 = NDArray[np.float32]

POLICY, INPUTS = "policy", "inputs"
"""The names of the plan's parts."""

_ROWS = 65_536
"""Rows whose gradients are computed at a time."""


@dataclass(frozen=True, kw_only=True)
class ReturnWeighted(plans.PrivatePlan):
    """Return-weighted imitation of experts.

    Raises:
        PlanError: a value is out of range, the policy's actions are not discrete or its network is no `Mlp`.
    """

    method: ClassVar[str] = "learning from experts (return-weighted imitation)"
    source: ClassVar[str] = "tacit; the problem is that of Sharma et al. (arXiv:2411.13598)"

    policy: Policy
    """what is learnt."""
    weight: Option[ReturnWeight | None] = None
    """how much each expert counts, by its own returns; None counts all alike."""
    steps: Option[int] = 30
    """number K of noisy steps."""
    clip_norm: Option[float] = 0.1
    """C, the largest norm of one expert's mean gradient. The length of a step does not depend on it."""
    rate: float = 0.5
    """length of the first step; it decays linearly to 0."""
    momentum: float = 0.8
    """share of earlier directions in a step's."""
    average: float = 0.2
    """share of the steps, at the end, whose parameters are averaged."""
    kept: int = 128
    """how many of an expert's rows its gradients are made of, evenly spaced over those that are read."""
    rows: Option[int] = 4_000
    """L, how many of an expert's rows are read at most, the first in order of time; its returns are of these."""
    share: float = 0.2
    """of the budget (the precision 1 / sigma^2) that goes to the size of the inputs; 0 takes them as they are."""
    seed: int = 0
    """of the first parameters."""
    noise_multiplier: float | None = None
    """sigma of the whole plan, seen as one Gaussian; None until calibrated."""

    def __post_init__(self) -> None:
        require_valid("policy.head", self.policy.head, isinstance(self.policy.head, Categorical), "a Categorical head")
        require_whole(kept=self.kept, rows=self.rows)
        require_valid("policy.network", self.policy.network, isinstance(self.policy.network, Mlp), "an Mlp")
        require_fraction(momentum=self.momentum, share=self.share)
        require_positive(rate=self.rate)
        require_valid("average", self.average, 0 < self.average <= 1, "a number in (0, 1]")
        self.parts()

    def parts(self) -> tuple[PoissonSum, ...]:
        """The only touch of records: noisy sums over all experts, whose precisions add up to 1 / noise_multiplier^2."""

        def part(name: str, steps: int, clip: float, share: float, blocks: Blocks | None = None) -> PoissonSum:
            sigma = None if self.noise_multiplier is None else self.noise_multiplier * math.sqrt(steps / share)
            return PoissonSum(
                name=name,
                steps=steps,
                sampling_rate=1.0,
                clip_norm=clip,
                noise_multiplier=sigma,
                rows_per_unit=self.rows,
                rows="first",
                blocks=blocks,
            )

        steps = part(POLICY, self.steps, self.clip_norm, 1 - self.share)
        (directions,) = grams(self.policy.features.size)
        inputs = (Block(kind="positive", share=0.5, size=1), replace(directions, share=0.5))
        return (part(INPUTS, 1, 1.0, self.share, inputs), steps) if self.share else (steps,)

    def label(self) -> Label:
        """The certificate's statements."""
        moments = [clause("second_moments")] if self.share else []
        return label(clause("mean_gradients", steps=self.steps), *moments, clause("expert_summed"))


@dataclass(frozen=True)
class WeightedRows:
    """What is kept of each expert: some of its rows, and its weight."""

    rows: int
    weight: ReturnWeight | None

    def __call__(self, rows: Mapping[str, Array]) -> dict[str, Array]:
        """Rows [U, L, ...] -> "observations" and "actions" [U, k, ...], "mask" [U, k] and "weight" [U]."""
        weight = np.ones(len(rows["mask"])) if self.weight is None else self.weight(rows)
        return {**subsample_rows(rows, self.rows, ("observations", "actions")), "weight": weight}


@dataclass(frozen=True)
class WeightedGradient:
    """An expert's weighted, clipped mean gradient of log pi by phi, for the state: theta [R, P], whiteners [R, F,
    F]."""

    summary: WeightedRows  # the experts' rows and weights
    policy: Policy  # pi
    clip_norm: float  # C, before the weight

    def __call__(self, rows: Mapping[str, Array], state: tuple[Float32, Float64]) -> Array:
        """[U, P]."""
        mask, replicate = rows["mask"], rows["replicate"]
        weights = mask / np.maximum(mask.sum(axis=1, keepdims=True), 1)
        gradients = np.empty((len(mask), state[0].shape[1]))
        assert isinstance(self.policy.network, Mlp)
        size = max(1, _ROWS // mask.shape[1])
        for start in range(0, len(mask), size):
            chunk = slice(start, start + size)
            theta, matrices = state[0][replicate[chunk]], state[1][replicate[chunk]]
            slope = self.policy.gradient(theta, rows["observations"][chunk], rows["actions"][chunk], weights[chunk])
            gradients[chunk] = transform_first_layer(matrices, self.policy.network, slope.astype(np.float64))
        return clipping.clip_rows(gradients, self.clip_norm) * rows["weight"][:, None]


def fit(plan: ReturnWeighted, vault: Vault) -> Release[LearnedPolicies]:
    """Run a calibrated plan (see `algorithm.fit`)."""
    plan.policy.require_fit(vault.spec)
    assert isinstance(plan.policy.network, Mlp)
    run = vault.reserve(plan)
    if vault.has_started(run):
        raise exhausted_error(run, POLICY)
    network, size, replicates = plan.policy.network, plan.policy.features.size, len(vault.ledgers)
    summary = WeightedRows(plan.kept, plan.weight)
    matrices = np.repeat(np.eye(size)[None], replicates, axis=0)
    if plan.share:
        assert plan.noise_multiplier is not None
        noise = plan.noise_multiplier / math.sqrt(plan.share) / vault.unit.size
        matrices = whitener(vault.noisy_sum(run, INPUTS, InputMoments(summary, plan.policy.features)), noise, size)
    gradient = WeightedGradient(summary, plan.policy, plan.clip_norm)
    initial = plan.policy.initial_parameters(np.random.default_rng(plan.seed), 1)
    phi = np.repeat(initial, replicates, axis=0).astype(np.float64)
    direction, total = np.zeros_like(phi), np.zeros_like(phi)
    averaged = max(1, round(plan.average * plan.steps))
    for k in range(plan.steps):
        theta = transform_first_layer(matrices, network, phi).astype(np.float32)
        mean = vault.noisy_sum(run, POLICY, gradient, (theta, matrices))
        direction = plan.momentum * direction + (1 - plan.momentum) * mean
        length = np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        phi = phi + plan.rate * (1 - k / plan.steps) * direction / length
        if k >= plan.steps - averaged:
            total += phi
    theta = transform_first_layer(matrices, network, total / averaged).astype(np.float32)
    return vault.release(run, LearnedPolicies(plan=plan, policy=plan.policy, theta=theta), label=plan.label())
