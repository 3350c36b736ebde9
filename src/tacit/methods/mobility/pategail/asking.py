"""What the server asks of everybody's critic in a round, and what it makes of the noisy mean of the answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PlanError
from tacit.methods.mobility.pategail.critics import ACTIONS, Embedding, cell_indices
from tacit.methods.mobility.pategail.plan import CRITICS, MOST_WEIGHT, Allocate, Allocation, PateGailPlan
from tacit.methods.mobility.pategail.rewards import LEAST, moments, sensitivity_weights
from tacit.methods.mobility.pategail.training import PpoLearner, Rollouts

MOST_RATIO = 10.0
"""The largest weight over the smallest."""


def weights(allocation: Allocation, pilot: Float64, share: Float64, allocate: Allocate | None = None) -> Float64:
    """How a round's budget is split among what is asked in it: positive weights [B] with sum of squares B.

    Everybody's answer is multiplied by w before it is clipped, and the server divides the noisy mean by w: coordinate i
    gets noise of scale 1 / w_i. With sum w^2 = B the norm of B rewards in [-1/2, 1/2] stays at most sqrt(B) / 2, so
    every split of a round's budget costs the same, however it was chosen: the guarantee does not depend on this
    function. No two weights are further apart than `MOST_RATIO`.

    Args:
        allocation: which rule. "paper" takes 1 - R + delta' with R = pilot + 1/2 in [0, 1]. "utility" is the best split
            of Gaussian noise, sum of (share_i sigma_i)^2 least: sigma_i^2 ~ 1 / share_i.
        pilot: rewards [B] in [-1/2, 1/2] that were released before: of the round before, at no cost.
        share: how much of the rollouts what is asked makes up, [B].
        allocate: the caller's rule, for "own".

    Raises:
        PlanError: the caller's rule gave something else than positive finite numbers [B].
    """
    if allocation == "own":
        assert allocate is not None
        split = np.asarray(allocate(pilot.copy(), share.copy()), np.float64)
        if split.shape != pilot.shape or not np.isfinite(split).all() or not (split > 0).all():
            what = "the allocation is not positive numbers, one for each thing that is asked"
            expected = f"an array of shape {pilot.shape}, finite and above 0"
            raise PlanError(what, where="pategail.fit", expected=expected, remedy="return such an array from allocate=")
    elif allocation == "paper":
        split = sensitivity_weights(pilot)
    elif allocation == "utility":
        split = np.sqrt(share)
    else:
        split = np.ones(len(pilot))
    largest = float(split.max(initial=0.0))
    split = np.maximum(split / largest, 1.0 / MOST_RATIO) if largest > 0 else np.ones(len(split))
    return np.asarray(split * math.sqrt(len(split)) / np.linalg.norm(split))


def laplace_weights(pilot: Float64) -> Float64:
    """How the papers split a round's sum of 1 / scale of Laplace noise: weights [B] with sum at most B."""
    # They are the weights 1 - R + delta' of a pilot [B] of R - 1/2, and at most `MOST_WEIGHT`. A number of weight w has
    # noise of the scale over w; the vault's bound of a whole answer, and not this function, decides what a round costs.
    split = sensitivity_weights(pilot)
    return np.asarray(np.minimum(split / split.mean(), MOST_WEIGHT))


WIDTH = 1.0
"""Distance in the embedding space at which two rewards still have correlation exp(-1/2)."""
SPREAD = 0.15
"""Standard deviation of a calibrated reward before anything is released."""
JITTER = 1e-3


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """From noisy rewards of some state-action pairs to rewards of all: the mean of a Gaussian process. Post-processing
    of released values: it costs nothing. The process with the known variance of the noise weighs what was released
    against rewards near 0, so that noise of the size of the rewards does not drive the policy."""

    embedding: Embedding  # of the pairs
    centres: Float64  # embedded pairs [B, d] that were asked
    coefficients: Float64  # [B]

    @classmethod
    def of(cls, embedding: Embedding, codes: Array, rewards: Float64, variance: Float64) -> GaussianProcess:
        """Of released rewards [B] of pairs `codes` [B] whose noise has this variance [B]."""
        centres = embedding.embed(codes).astype(np.float64)
        noise = np.maximum(variance, (JITTER * SPREAD) ** 2)
        gram = SPREAD**2 * _kernel(centres, centres) + np.diag(noise)
        return cls(embedding, centres, SPREAD**2 * np.linalg.solve(gram, rewards))

    def __call__(self, codes: Array) -> Float64:
        """Rewards [T] of pairs [T]."""
        x = self.embedding.embed(codes).astype(np.float64)
        return np.asarray(_kernel(x, self.centres) @ self.coefficients)


def pad_rows(array: Array) -> Array:
    """An array [T, ..] with rows of 0 at its end, so that few lengths occur: a vault tries a work once for each."""
    step = 1 << max(8, len(array).bit_length() - 3)
    return np.concatenate([array, np.zeros((-len(array) % step, *array.shape[1:]), array.dtype)])


def log_rewards(rewards: Float64) -> Float64:
    """PATEGAIL's reward -log(1 - R) of a mean probability R of being real, from R - 1/2, as a number in [-1/2, 1/2]."""
    # 1 - R counts as `LEAST` at least: where noise makes it 0 or less, the logarithm would have no value.
    fake_probability = np.clip(0.5 - rewards, LEAST, 1.0)
    return np.asarray(np.log(fake_probability) / math.log(LEAST) - 0.5)


def _kernel(a: Float64, b: Float64) -> Float64:
    square = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2 * a @ b.T
    return np.asarray(np.exp(np.maximum(square, 0.0) / (-2 * WIDTH**2)))


Array = NDArray[Any]
Float64 = NDArray[np.float64]

_KEPT = 10
"""Rounds whose smoothed rewards are remembered."""
_EVEN = 0.01
"""Added to the share of a cell by which a linear critic's differences are divided."""


@dataclass(eq=False)
class RewardServer:
    """What the server asks in a round, and what it makes of the answer; all of it public."""

    plan: PateGailPlan  # the plan
    learner: PpoLearner  # the policy
    allocate: Allocate | None  # the caller's allocation
    rng: np.random.Generator  # of the order of public rows
    _weights: Float64 | None = None
    _codes: Array | None = None
    _query: Array | None = None
    _reward_models: list[GaussianProcess | RewardTable] = field(default_factory=list)
    _pilot: GaussianProcess | None = None
    _table: Float64 | None = None
    _sum: Float64 | None = None
    _gradient: Float64 | None = None
    rounds_answered: int = field(default=0, init=False)  # how many rounds were answered

    def arrays(self) -> dict[str, Array]:
        """What is remembered from one round to the next, by name."""
        memory: dict[str, Array] = {"heard": np.array([self.rounds_answered])}
        memory |= {name: value for name, value in (("table", self._table), ("sum", self._sum)) if value is not None}
        for i, model in enumerate(self._reward_models):
            memory |= {f"price.{i}.{name}": getattr(model, name) for name in self._names}
        if self._pilot is not None and self.plan.laplace is not None:
            memory |= {"pilot.centres": self._pilot.centres, "pilot.coefficients": self._pilot.coefficients}
        return memory

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Take up what `arrays` gave."""
        self.rounds_answered, self._table, self._sum = int(arrays["heard"][0]), arrays.get("table"), arrays.get("sum")
        self._reward_models = []
        while (name := f"price.{len(self._reward_models)}.") + self._names[0] in arrays:
            x, y = (arrays[name + of] for of in self._names)
            model = GaussianProcess(self.plan.embedding, x, y) if self.plan.smooth else RewardTable(x, y)
            self._reward_models.append(model)
        if "pilot.centres" in arrays:
            self._pilot = GaussianProcess(self.plan.embedding, arrays["pilot.centres"], arrays["pilot.coefficients"])

    @property
    def _names(self) -> tuple[str, str]:
        return ("centres", "coefficients") if self.plan.smooth else ("codes", "rewards")

    def make_query(self, rollouts: Rollouts) -> dict[str, Array]:
        """The public arrays of a round (see `rewards`)."""
        plan, codes = self.plan, np.unique(rollouts.codes)
        rows = np.searchsorted(codes, rollouts.codes.ravel())
        counts = np.bincount(rows, minlength=len(codes))
        public: dict[str, Array] = {"codes": pad_rows(codes), "rows": self.rng.permutation(rows)}
        if plan.kind == "gradient":
            public["slopes"] = pad_rows(self.learner.slopes(rollouts, codes))
            return public
        if plan.kind == "samples":
            # those most often played; without smoothing, as in the paper's mode, every row of its own
            alone = plan.laplace is not None or not plan.smooth
            query = (rows if alone else np.argsort(-counts, kind="stable"))[: plan.queries]
            public["query"] = np.full(plan.queries, -1)
            public["query"][: len(query)] = query
            share = counts[query] / counts.sum()
            pilot = (self._pilot if plan.laplace is not None and self._pilot else self._pair_rewards)(codes[query])
            self._codes, self._query = codes, query
        else:
            cells = cell_indices(plan.layout, plan.embedding, codes)
            share = np.bincount(cells, counts, plan.layout.size * ACTIONS) / counts.sum()
            pilot = np.zeros(len(share)) if self._table is None else np.clip(self._table, -0.5, 0.5)
        if plan.laplace is None:
            self._weights = weights(plan.allocation, pilot, share, self.allocate)
            # fewer pairs: the norm may be that of all
            self._weights *= np.sqrt(plan.rewards_per_round / len(self._weights))
        else:
            self._weights = laplace_weights(pilot) if plan.allocation == "paper" else np.ones(len(pilot))
        if plan.own_noise:
            scales = plan.people * (plan.laplace or 0.0) / self._weights
            public["scales"] = np.ones(plan.rewards_per_round)
            sensitivity = sensitivity_weights(pilot) if plan.own_noise == "sensitive" else 1.0
            public["scales"][: len(pilot)] = scales * sensitivity
            self._weights = np.ones(len(pilot))
        public["weights"] = np.zeros(plan.rewards_per_round)
        public["weights"][: len(self._weights)] = self._weights
        return public

    def take_answer(self, answer: Float64, rollouts: Rollouts) -> None:
        """Take up a released mean."""
        plan = self.plan
        self.rounds_answered += 1
        if plan.kind == "gradient":
            self._gradient = answer
            return
        assert self._weights is not None
        if plan.kind == "samples":
            keep = np.arange(len(self._weights))
            answer = answer[np.concatenate([keep, plan.queries + keep])] if plan.beta else answer[keep]
        w = np.tile(self._weights, 2) if plan.beta else self._weights
        rewards = answer / w
        if plan.beta:
            mean, variance = moments(rewards)
            rewards = mean - plan.beta * np.sqrt(variance)
        if plan.laplace is not None and plan.critic.loss == "cross_entropy":
            rewards = log_rewards(rewards)
        if plan.kind == "samples":
            self._take_pairs(rewards)
        elif plan.kind == "linear":
            table = rewards + self._shares(rollouts)  # of all people, in every cell: the same in all rounds
            self._table = table if self._table is None else self._table + (table - self._table) / self.rounds_answered
        else:
            self._table = self._update_average(np.clip(rewards, -0.5, 0.5))

    def learn(self, rollouts: Rollouts) -> None:
        """One round of learning on public days, with the rewards as they are known."""
        plan = self.plan
        if plan.kind == "gradient":
            assert self._gradient is not None
            self.learner.climb(self._gradient)
        elif plan.kind == "samples":
            assert self._codes is not None
            codes = np.unique(rollouts.codes)
            rewards = self._pair_rewards(codes)[np.searchsorted(codes, rollouts.codes)]
            asked_mask = None if plan.smooth else np.isin(rollouts.codes, self._codes[self._query])
            self.learner.learn(rollouts, rewards, asked_mask)
        else:
            assert self._table is not None
            table = self._table
            if plan.kind == "linear":
                share = self._shares(rollouts)
                table = (table - share) / (share + _EVEN)
            self.learner.learn(rollouts, table[cell_indices(plan.layout, plan.embedding, rollouts.codes)])

    def _take_pairs(self, rewards: Float64) -> None:
        plan = self.plan
        assert self._codes is not None
        assert self._query is not None
        assert self._weights is not None
        pairs = self._codes[self._query]
        model: GaussianProcess | RewardTable
        if plan.smooth or plan.laplace is not None:
            variance = np.square(plan.noise_std(CRITICS) / self._weights)
            model = self._pilot = GaussianProcess.of(plan.embedding, pairs, rewards, variance)
        if not plan.smooth:
            codes, at = np.unique(pairs, return_inverse=True)
            model = RewardTable(codes, np.bincount(at, rewards) / np.bincount(at))
        self._reward_models = [model, *self._reward_models[: _KEPT - 1]] if plan.memory else [model]

    def _pair_rewards(self, codes: Array) -> Float64:
        """Rewards [T] of pairs [T]: the average over the rounds that are remembered, 0 before the first."""
        if not self._reward_models:
            return np.zeros(len(codes))
        shares = self.plan.memory ** np.arange(len(self._reward_models))
        mean = sum(share * each(codes) for share, each in zip(shares, self._reward_models, strict=True)) / shares.sum()
        return np.asarray(np.clip(mean, -0.5, 0.5))

    def _update_average(self, released: Float64) -> Float64:
        decay = self.plan.memory
        average = np.zeros(len(released)) if self._sum is None else self._sum
        self._sum = decay * average + (1 - decay) * released
        return self._sum / (1 - decay**self.rounds_answered)

    def _shares(self, rollouts: Rollouts) -> Float64:
        cells = cell_indices(self.plan.layout, self.plan.embedding, rollouts.codes.ravel())
        return np.bincount(cells, minlength=self.plan.layout.size * ACTIONS) / cells.size


@dataclass(frozen=True, eq=False)
class RewardTable:
    """Rewards as they were released: 0 where nothing was asked."""

    codes: Array  # [B] rising
    rewards: Float64  # [B]

    def __call__(self, codes: Array) -> Float64:
        """Rewards [T] of pairs [T]."""
        at = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where(self.codes[at] == codes, self.rewards[at], 0.0)
