"""Private fitted Q evaluation: action values from noisy sums of Bellman residuals, and what is made of them.

Q(s, a) = phi(s) . theta_a. Each unit is bounded as one vector, so its transitions are summed first; with
x_t = phi(s_t) in the block of a_t, G_i = sum_t x_t x_t^T and w_i = 1 / max(|G_i|, g):

1. centre      noisy mean return, and the noisy mean of log |G_i|, which gives the scale g
2. gram        sum_i w_i G_i
3. residuals   K times: sum_i clip(w_i sum_t x_t e_t, h),   e_t = delta_t + gamma lambda e_{t+1},
               delta_t = r_t + gamma V(s_{t+1}) - Q(s_t, a_t),   V(s) = sum_a pi(a|s) Q(s, a) within the public range
4. `FittedQ`: the mean of V at the start. `DoublyRobust`: Q from one half of the units, weighted residuals of it from
   the other, J = E[ V(s_0) + sum_t gamma^t w_t (r_t + gamma V(s_{t+1}) - Q(s_t, a_t)) ] for any fixed Q (Jiang and Li,
   arXiv:1511.03722), the better Q the less the weights w_t matter

theta is fixed within a round and then moved by a gain that knows the size of all noise (a Kalman gain for each action's
Gram matrix, `statistics.update`): no step size. lambda > 0 carries rewards over several steps in a round; with the
expectation V in every delta it needs no ratios and has the same fixed point (Harutyunyan et al., "Q(lambda) with off-
policy corrections", arXiv:1602.04951, whose convergence is proved for policies that are close). w_i is the same for all
units but the largest: a weight that follows the length of an episode would favour the ends that make it short. Fitted Q
evaluation: Le, Voloshin and Yue (arXiv:1903.08738). The two halves of the units are fixed for the ledger's life, so
each part costs as if it were alone (parallel composition). Proof page: `proofs/off_policy_evaluation.md`.

The interval is that of the plain scores, which need ratios. A regression that is biased (by its features, by too few
rounds, by its noise) has none of its own that could be trusted; records without propensities give the value alone. Nor
have the signed doubly robust scores: a clip moves their mean either way, and as sums of scores that are not negative
they would need a bound on every residual, of the width of the range of Q, with which the loss to the clip scales.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from tacit.data.spec import PublicSpec
from tacit.methods.off_policy_evaluation import scores
from tacit.methods.off_policy_evaluation.features import AnyFeatures, Features, covariance, gram_blocks
from tacit.methods.off_policy_evaluation.importance import ScoreEstimator
from tacit.methods.off_policy_evaluation.intervals import unit_count
from tacit.methods.off_policy_evaluation.logged import LoggedEpisodes, cut_episodes, horizon_values
from tacit.methods.off_policy_evaluation.policies import Behaviour, DiscretePolicy, Target, row_probabilities
from tacit.methods.off_policy_evaluation.problem import Evaluation, Problem
from tacit.methods.off_policy_evaluation.scores import (
    FIT,
    Point,
    PointVector,
    Scores,
    ScoreVector,
    expected_units,
    noise,
    noisy_mean,
    returns,
)
from tacit.methods.off_policy_evaluation.statistics import Gram, encode_rows, read_gram, update, upper_triangle
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy, require_probabilities
from tacit.privacy.mechanisms.contribution_sets import Block, BlockKind, with_length
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Clause, clause
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.vault import Vault
from tacit.validation import require_valid, require_whole

Arrays = Mapping[str, np.ndarray]

SHARES = {"centre": 0.2, "gram": 0.2, "residuals": 0.6}
"""Of the fit's budget."""
SCALE_FACTOR = 1.5
"""The scale g in multiples of the geometric mean of |G_i|."""
CLIP_FACTOR, CLIP_FALL = 2.0, 0.5
"""The next clip: so many mean lengths, but at least this part of the last clip."""
REFRESH = 0.25
"""Part of the prior covariance that is added back after each round, since the residuals move with theta."""
CENTRE_SHARES = (0.5, 0.2, 0.3)
"""Of the squared norm of a unit's first vector: its return, its presence, the logarithm of its Gram matrix's norm."""
LENGTH_SHARE = 0.1
"""Of the squared norm of a unit's residual vector: its length, which the next round's clip is made from."""


@dataclass(frozen=True, kw_only=True)
class Regression:
    """The public parameters of the regression.

    Args:
        rounds: K, noisy residual sums.
        trace: lambda in [0, 1].
        prior: standard deviation of Q around the mean return at a typical state, in multiples of the public range.
    """

    rounds: int = 20
    trace: float = 0.8
    prior: float = 0.1

    def __post_init__(self) -> None:
        require_whole(rounds=self.rounds)
        require_valid("trace", self.trace, 0 <= self.trace <= 1, "a number in [0, 1]")
        require_valid("prior", self.prior, math.isfinite(self.prior) and self.prior > 0, "a finite number > 0")

    def parts(
        self,
        problem: Problem,
        features: Features,
        noise_multiplier: float | None,
        fold: Literal[0, 1] | None = None,
    ) -> tuple[PoissonSum, ...]:
        """The three parts; together they cost one Gaussian with this noise multiplier."""
        steps = {name: self.rounds if name == "residuals" else 1 for name in SHARES}
        factors = {name: math.sqrt(steps[name] / share) for name, share in SHARES.items()}
        kinds: tuple[BlockKind, ...] = ("signed", "constant", "positive")
        centre = [Block(kind=kind, share=share, size=1) for kind, share in zip(kinds, CENTRE_SHARES, strict=True)]
        blocks = {"centre": tuple(centre), "gram": gram_blocks(features), "residuals": with_length(LENGTH_SHARE)}
        return tuple(
            problem.part(
                name,
                noise_multiplier and noise_multiplier * factors[name],
                steps=steps[name],
                fold=fold,
                blocks=blocks[name],
            )
            for name in SHARES
        )

    def fit(self, vault: Vault, run: Run, problem: Problem, features: Features, policy: DiscretePolicy) -> QFunction:
        """Regression Q through the run's parts "centre", "gram" and "residuals".

        Raises:
            PlanError: the plan has no such parts.
            PlanExhausted: they were run before.
        """
        limits = problem.value_range(vault.spec)
        transitions = Transitions(problem, policy, features)
        centre, scale = _release_centre(vault, run, ReturnAndScale(transitions, limits))
        grams = _release_grams(vault, run, transitions, scale)
        weights = np.repeat(features.constant(centre)[:, None], policy.actions, axis=1)
        residuals = Residuals(transitions, limits, self.trace)
        prior = covariance(features, self.prior * (limits[1] - limits[0]), vault.spec, None)
        covariances, clip, iterates = [prior] * policy.actions, (limits[1] - limits[0]) / 2, []
        root = math.sqrt(1 - LENGTH_SHARE)
        deviation = noise(vault, run, "residuals") / (FIT * root)
        for _ in range(self.rounds):
            noisy = noisy_mean(vault, run, "residuals", residuals, (weights, clip, scale)) / FIT
            moves = noisy[:-1].reshape(features.size, policy.actions) / root * clip
            changes = [update(g, s, x, deviation * clip) for g, s, x in zip(grams, covariances, moves.T, strict=True)]
            weights = weights + np.stack([change for change, _ in changes], axis=1)
            covariances = [after + REFRESH * prior for _, after in changes]
            iterates.append(weights)
            clip *= min(1.0, max(CLIP_FALL, CLIP_FACTOR * float(noisy[-1]) / math.sqrt(LENGTH_SHARE)))
        last = np.mean(iterates[-max(1, self.rounds // 10) :], axis=0)
        return QFunction(features, last, policy, limits, centre)


@dataclass(frozen=True, eq=False)
class QFunction:
    """Q(s, a) = phi(s) . weights[:, a], and V under a policy; both within the public range."""

    features: Features  # phi
    weights: np.ndarray  # [n, A]
    policy: DiscretePolicy  # the evaluated policy
    limits: tuple[float, float]  # the public range
    centre: float  # the noisy mean return that the fit began from

    def q(self, observations: np.ndarray) -> np.ndarray:
        """[N, d] or [N] -> [N, A]."""
        values = np.asarray(self.features(observations), np.float64) @ self.weights
        return np.asarray(np.clip(values, *self.limits))

    def v(self, observations: np.ndarray) -> np.ndarray:
        """[N, d] or [N] -> [N]."""
        return np.asarray((row_probabilities(self.policy, observations) * self.q(observations)).sum(axis=1))

    def padded_values(self, which: Literal["q", "v"], observations: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """`q` or `v` of padded observations [U, L, ...] -> [U, L, A] or [U, L]."""
        flat = observations.reshape(-1, *observations.shape[2:])
        values = self.q(flat) if which == "q" else self.v(flat)
        return np.asarray(values.reshape(*shape, *values.shape[1:]))


@dataclass(frozen=True, eq=False)
class Transitions:
    """What is kept of each unit, a summary."""

    problem: Problem  # discount, horizon, episodes
    policy: DiscretePolicy  # the evaluated policy
    features: Features  # phi

    @property
    def octaves(self) -> float:
        """log2 of the largest norm of a Gram matrix that differs from others; the least is 1."""
        return max(1.0, math.log2(self.problem.rows_per_unit * (1 if self.features.tabular else self.features.size)))

    def __call__(self, rows: Arrays) -> dict[str, np.ndarray]:
        """Rows [U, L, ...] -> "phi" and "after" [U, L, n], "then" [U, L, A], "gram" [U, g] of norm 1, "norm" and
        "returns" [U], and masks, actions and rewards [U, L]."""
        log = cut_episodes(rows, self.problem, Behaviour())
        phi, next_phi = encode_rows(log, self.features)
        gram = _gram(log, phi, self.policy.actions, self.features.tabular)
        norm = np.linalg.norm(gram, axis=1)
        next_observations = log.next_observations
        next_probabilities = row_probabilities(self.policy, next_observations.reshape(-1, *next_observations.shape[2:]))
        return {
            "phi": phi,
            "after": next_phi,
            "then": next_probabilities.reshape(*log.alive.shape, self.policy.actions).astype(np.float32),
            "bootstraps": log.alive & ~log.terminations,
            "actions": np.where(log.alive, log.actions, 0).astype(np.int64),
            "rewards": log.rewards,
            "alive": log.alive,
            "follows": log.follows,
            "gram": (gram / np.maximum(norm, 1e-12)[:, None]).astype(np.float32),
            "norm": norm,
            "returns": returns(log, self.problem.gamma),
        }


@dataclass(frozen=True, eq=False)
class ReturnAndScale:
    """Each unit's mean return, presence and log2 of its Gram matrix's norm, scaled, [U, 3], of norm at most 1."""

    summary: Transitions
    limits: tuple[float, float]

    def __call__(self, rows: Arrays, state: object) -> np.ndarray:
        """The summary's arrays -> [U, 3]."""
        low, high = self.limits
        u = np.clip((2 * rows["returns"] - low - high) / (high - low), -1, 1)
        size = np.clip(np.log2(np.maximum(rows["norm"], 1.0)) / self.summary.octaves, 0, 1)
        return np.asarray(FIT * np.sqrt(CENTRE_SHARES) * np.stack([u, np.ones(len(u)), size], axis=1))


@dataclass(frozen=True, eq=False)
class ActionGrams:
    """Each unit's Gram matrix over the scale, cut to norm 1, [U, g]; the state is the scale. It has a block an action:
    its diagonal for tabular features, else its upper triangle (`statistics.upper`)."""

    summary: Transitions

    def __call__(self, rows: Arrays, state: float) -> np.ndarray:
        """The summary's arrays -> [U, g]."""
        return np.asarray(FIT * np.minimum(1.0, rows["norm"] / state)[:, None] * rows["gram"].astype(np.float64))


@dataclass(frozen=True, eq=False)
class Residuals:
    """Each unit's residuals over the clip, cut to norm 1, and their length, [U, n A + 1], of norm at most 1. The state
    is (weights [n, A], the clip, the scale of the Gram matrices), all public."""

    summary: Transitions
    limits: tuple[float, float]
    trace: float

    def __call__(self, rows: Arrays, state: tuple[np.ndarray, float, float]) -> np.ndarray:
        """The summary's arrays -> [U, n A + 1]."""
        weights, clip, scale = state
        weights = weights.astype(np.float32)
        gamma = self.summary.problem.gamma
        v = np.clip(((rows["after"] @ weights) * rows["then"]).sum(axis=2), *self.limits)
        q = np.take_along_axis(rows["phi"] @ weights, rows["actions"][..., None], axis=2)[..., 0]
        error = np.where(rows["alive"], rows["rewards"] + gamma * rows["bootstraps"] * v - q, 0.0)
        total = np.zeros(len(error))
        for t in reversed(range(error.shape[1])):
            total = error[:, t] + gamma * self.trace * rows["follows"][:, t] * total
            error[:, t] = total
        chosen = (rows["actions"][..., None] == np.arange(weights.shape[1])) * error[..., None]
        moves = np.matmul(rows["phi"].transpose(0, 2, 1), chosen)
        x = moves.reshape(len(moves), weights.size) / (clip * np.maximum(rows["norm"], scale)[:, None])
        length = np.linalg.norm(x, axis=1, keepdims=True)
        shares = math.sqrt(1 - LENGTH_SHARE), math.sqrt(LENGTH_SHARE)
        parts = [shares[0] * x / np.maximum(1, length), shares[1] * np.minimum(1, length)]
        return np.asarray(FIT * np.concatenate(parts, axis=1))


def _gram(log: LoggedEpisodes, phi: np.ndarray, actions: int, tabular: bool) -> np.ndarray:
    """[U, g]: for each action, the sum of phi phi^T where it is taken, its diagonal (tabular) or upper triangle."""
    blocks = []
    for action in range(actions):
        taken = phi * (log.alive & (log.actions == action))[..., None]
        if tabular:
            blocks.append(taken.sum(axis=1, dtype=np.float64))
        else:
            blocks.append(upper_triangle(np.matmul(taken.transpose(0, 2, 1), phi).astype(np.float64)))
    return np.concatenate(blocks, axis=1)


def _release_centre(vault: Vault, run: Run, centre: ReturnAndScale) -> tuple[float, float]:
    size, roots = expected_units(vault, run), np.sqrt(CENTRE_SHARES)
    total, count, octaves = noisy_mean(vault, run, "centre", centre) * size / (FIT * roots)
    present = unit_count(count, noise(vault, run, "centre") * size / (FIT * float(roots[1])), size)
    low, high = centre.limits
    mean = (low + high) / 2 + (high - low) / 2 * np.clip(total / present, -1, 1)
    return float(mean), SCALE_FACTOR * 2.0 ** float(np.clip(octaves / present, 0, 1) * centre.summary.octaves)


def _release_grams(vault: Vault, run: Run, transitions: Transitions, scale: float) -> list[Gram]:
    """The Gram matrix of each action: a mean over the population, in multiples of the scale."""
    noisy = noisy_mean(vault, run, "gram", ActionGrams(transitions), scale) / FIT
    deviation, features = noise(vault, run, "gram") / FIT, transitions.features
    blocks = noisy.reshape(transitions.policy.actions, -1)
    return [read_gram(block, deviation, tabular=features.tabular, n=features.size) for block in blocks]


START_WIDTH = 0.25
"""Start values are averaged within this part of the public range on either side of the mean return."""


@dataclass(frozen=True, kw_only=True)
class QEstimator(ScoreEstimator, ABC):
    """A method that fits Q, then averages a number that Q gives about each unit, beside the scores."""

    with_point: ClassVar[bool] = True

    features: AnyFeatures
    """phi."""
    regression: Regression = field(default_factory=Regression)
    """rounds, trace, prior."""

    def grams(self, spec: PublicSpec) -> int:
        """One for each action."""
        return spec.action.size

    @abstractmethod
    def half_width(self, spec: PublicSpec) -> float:
        """How far from the fit's centre the averaged numbers may be."""

    @abstractmethod
    def point(self, spec: PublicSpec) -> Point:
        """Each unit's number over the half width around the fit's centre; its state is Q."""

    def require(self, target: Target, behaviour: BehaviourPolicy | None, spec: PublicSpec) -> None:
        """Refuse a policy without probabilities, and a range that the rewards cannot reach."""
        require_probabilities(target)
        super().require(target, behaviour, spec)

    def estimate(self, vault: Vault, run: Run, target: Target, behaviour: DiscretePolicy | None) -> Evaluation:
        """The value and its interval; the diagnostics hold "q_weights" [n][A] and "centre"."""
        q = self.regression.fit(vault, run, self.problem, self.features, require_probabilities(target))
        vector = ScoreVector(self.problem, target, behaviour, vault.spec, self.clip or 1.0, self.point(vault.spec))
        noisy_scores = scores.release(vault, run, vector, state=q)
        assert noisy_scores.point is not None
        return Evaluation(
            method=self.method,
            value=q.centre + self.half_width(vault.spec) * noisy_scores.point,
            interval=noisy_scores.interval(self.level),
            limits=noisy_scores.limits,
            diagnostics={"q_weights": q.weights.tolist(), "centre": q.centre} | self.diagnostics(noisy_scores),
        )

    def diagnostics(self, found: Scores) -> dict[str, float]:
        """Diagnostics of the method's own."""
        return {}


@dataclass(frozen=True, kw_only=True)
class FittedQ(QEstimator):
    """Fitted Q evaluation with Q linear in public features, one weight vector an action."""

    method: ClassVar[str] = "off-policy evaluation (fitted Q)"
    needs_propensities: ClassVar[bool] = False
    source: ClassVar[str] = "Le, Voloshin and Yue, arXiv:1903.08738, with the Gaussian mechanism"

    share: float = 0.6
    """of the budget that goes to the regression; the rest to the scores and the mean start value."""

    def __post_init__(self) -> None:
        require_valid("share", self.share, 0 < self.share < 1, "a number in (0, 1)")
        super().__post_init__()

    @property
    def covered_clauses(self) -> tuple[Clause, ...]:
        """All of its noisy sums."""
        return (clause("fitted_q_sums", sums=self.regression.rounds + 3),)

    def sums(self) -> tuple[PoissonSum, ...]:
        """The mean return, the Gram matrix, the rounds of residuals, the scores."""
        sigma = self.own_noise
        first, last = (sigma and sigma / math.sqrt(share) for share in (self.share, 1 - self.share))
        return (*self.regression.parts(self.problem, self.features, first), self.problem.part(scores.NAME, last))

    def estimate(self, vault: Vault, run: Run, target: Target, behaviour: DiscretePolicy | None) -> Evaluation:
        """As for every method that fits Q; the value alone where nothing tells the probabilities of logged actions."""
        if behaviour is not None or vault.spec.propensities:
            return super().estimate(vault, run, target, behaviour)
        q = self.regression.fit(vault, run, self.problem, self.features, require_probabilities(target))
        low, high = limits = scores.limits(self.problem, vault.spec)
        mean = scores.release_mean(vault, run, PointVector(self.problem, self.point(vault.spec)), state=q)
        value = q.centre + self.half_width(vault.spec) * mean
        return Evaluation(
            method=self.method,
            value=min(max(value, low), high),
            limits=limits,
            diagnostics={"q_weights": q.weights.tolist(), "centre": q.centre},
        )

    def half_width(self, spec: PublicSpec) -> float:
        """A quarter of the public range."""
        low, high = self.problem.value_range(spec)
        return START_WIDTH * (high - low)

    def point(self, spec: PublicSpec) -> QStartValue:
        """The value at the start."""
        return QStartValue(self.problem, self.half_width(spec))


@dataclass(frozen=True)
class QStartValue:
    """What V says of the return over the horizon (`logged.within_horizon`), over the width around the fit's centre; the
    state is Q."""

    problem: Problem
    width: float

    def __call__(self, log: LoggedEpisodes, state: QFunction) -> np.ndarray:
        """[U], the mean over the unit's episodes."""
        values = state.padded_values("v", log.observations, log.alive.shape)
        next_values = state.padded_values("v", log.next_observations, log.alive.shape)
        return np.asarray((horizon_values(log, self.problem, values, next_values) - state.centre) / self.width)


@dataclass(frozen=True, kw_only=True)
class DoublyRobust(QEstimator):
    """Doubly robust evaluation over two fixed halves of the units: the first fits Q, the second corrects it."""

    method: ClassVar[str] = "off-policy evaluation (doubly robust)"
    source: ClassVar[str] = "Jiang and Li, arXiv:1511.03722, with the Gaussian mechanism"

    width: float = 0.5
    """the doubly robust scores are clipped so far to either side of the mean return, in multiples of the public
    range."""

    def __post_init__(self) -> None:
        require_valid("width", self.width, 1e-6 <= self.width <= 1e6, "a number from 1e-6 to 1e6")
        super().__post_init__()

    @property
    def covered_clauses(self) -> tuple[Clause, ...]:
        """The noisy sums of both halves."""
        return (clause("half_sums", first=self.regression.rounds + 2),)

    def sums(self) -> tuple[PoissonSum, ...]:
        """The Gram matrix and the rounds of residuals on the first half, the scores on the second."""
        first = self.regression.parts(self.problem, self.features, self.own_noise, 0)
        return (*first, self.problem.part(scores.NAME, self.own_noise, fold=1))

    def half_width(self, spec: PublicSpec) -> float:
        """The width in multiples of the public range."""
        low, high = self.problem.value_range(spec)
        return self.width * (high - low)

    def point(self, spec: PublicSpec) -> DoublyRobustScore:
        """The doubly robust score."""
        return DoublyRobustScore(self.problem, self.half_width(spec))

    def diagnostics(self, found: Scores) -> dict[str, float]:
        """The estimate from the plain scores."""
        return {"importance_sampling": found.value()}


@dataclass(frozen=True)
class DoublyRobustScore:
    """Each unit's doubly robust score over the width around the fit's centre; the state is Q. A row that the horizon
    ends has nothing after it, as the value is that of the return over the horizon; a row after which the records were
    cut earlier is bootstrapped."""

    problem: Problem
    width: float

    def __call__(self, log: LoggedEpisodes, state: QFunction) -> np.ndarray:
        """[U], the mean over the unit's episodes."""
        shape, gamma = log.alive.shape, self.problem.gamma
        chosen = np.where(log.alive, log.actions, 0)[..., None]
        q = np.take_along_axis(state.padded_values("q", log.observations, shape), chosen, axis=2)[..., 0]
        continues = ~log.terminations & (log.step < self.problem.horizon - 1)
        next_values = continues * state.padded_values("v", log.next_observations, shape)
        corrections = log.discount(gamma) * scores.weights(log) * (log.rewards + gamma * next_values - q)
        starts = log.alive & (log.step == 0)
        each = corrections * log.alive + starts * state.padded_values("v", log.observations, shape)
        return np.asarray((each.sum(axis=1) / log.episodes - state.centre) / self.width)
