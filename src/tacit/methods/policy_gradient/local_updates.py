"""What the paper's algorithm 3 sends: every person trains a copy of the released policy on their own rows.

A person's contribution is the difference phi - theta between their copy and the released parameters, after several
epochs of Adam over minibatches (McMahan et al. 2018 do the same for language models). Nothing passes between people,
not even through the optimiser: moments start at 0 or from the last *released* update, and which rows form a minibatch
follows from the public number of the round and the person's own number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.agents import features as maps
from tacit.agents.features import Quadratic, Scaled
from tacit.agents.networks import Mlp
from tacit.agents.policies import Float32, Policy, ValueFunction
from tacit.data.spec import PublicSpec
from tacit.errors import PlanError
from tacit.methods.policy_gradient import fisher
from tacit.methods.policy_gradient.contributions import (
    Advantages,
    CriticGradient,
    EpisodeGradient,
    Float64,
    RoundInputs,
    Rows,
    blocks,
    critic_values,
)
from tacit.methods.policy_gradient.plan import CRITIC, PolicyGradientPlan, Seeding
from tacit.methods.policy_gradient.rounds import POLICY
from tacit.methods.policy_gradient.votes import VotesPlan
from tacit.privacy.mechanisms.base import Contribution
from tacit.validation import require_fraction, require_positive, require_valid, require_whole

# Adam on many people's own rows at once, each person's parameters by themselves.


Array = NDArray[Any]
Gradient = Callable[[Float32, Mapping[str, Array]], Float32]
"""(parameters [G, P], columns [G, n, ...]) -> the direction of ascent [G, P], which is overwritten afterwards.

The column "share" is 1 / (how many rows of the minibatch the person has), and 0 where there is no row.
"""

_TOGETHER = 512
"""Rows of a minibatch, of all people that are trained side by side: more would leave the processor's caches."""


@dataclass(frozen=True, kw_only=True)
class LocalTraining:
    """Adam over minibatches of own rows; a person with n rows makes min(minibatches, n) steps an epoch."""

    learning_rate: float = 2.5e-4  # of Adam
    epochs: int = 8  # how often a person's rows are passed through
    minibatches: int = 2  # into how many equal parts a pass is cut, after shuffling
    beta1: float = 0.9  # beta1, beta2, epsilon: Adam's
    beta2: float = 0.999
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        require_whole(epochs=self.epochs, minibatches=self.minibatches)
        require_positive(learning_rate=self.learning_rate, epsilon=self.epsilon)
        require_fraction(beta1=self.beta1, beta2=self.beta2)

    def __call__(
        self,
        theta: Float32,
        columns: Mapping[str, Array],
        counts: Array,
        gradient: Gradient,
        seed: int,
        moments: Float32 | None = None,
    ) -> Float32:
        """Train U people."""
        # theta: [U, P], where each begins; columns: [U, L, ...], each person's rows first; counts: [U], how many rows
        # each person has, at least 1; moments: [U, P], Adam's first moments to begin with, as after very many steps,
        # their squares being the second ones, None begins from 0 with the usual correction; returns: phi - theta [U, P]
        (length,) = {column.shape[1] for column in columns.values()}
        keys = np.random.default_rng(seed).random((self.epochs, length))
        result = np.empty_like(theta)
        cuts = np.minimum(self.minibatches, counts)
        # To the next power of two of the person's own width, never to the longest person's.
        widths = np.minimum(2 ** np.ceil(np.log2(-(-counts // cuts))).astype(np.int64), -(-length // self.minibatches))
        for cut, width in np.unique(np.stack([cuts, widths], axis=1), axis=0).tolist():
            alike = np.flatnonzero((cuts == cut) & (widths == width))
            together = max(1, _TOGETHER // width)
            for first in range(0, len(alike), together):
                people = alike[first : first + together]
                phi = theta[people]
                adam = _Adam(self, phi, None if moments is None else moments[people])
                rows = {name: column[people] for name, column in columns.items()}
                shuffle = _Shuffle(counts[people], length, cut, width)
                for key in keys:
                    shuffled = shuffle(rows, key)
                    for j in range(cut):
                        adam.ascend(phi, gradient(phi, {name: column[:, j] for name, column in shuffled.items()}))
                result[people] = phi
        result -= theta
        return result


class _Shuffle:
    """Cuts the shuffled rows of G people into minibatches: columns [G, L, ...] into [G, cut, width, ...]."""

    def __init__(self, counts: Array, length: int, cut: int, width: int) -> None:
        edges = np.arange(cut + 1) * counts[:, None] // cut
        place = edges[:, :-1, None] + np.arange(width)
        share = (place < edges[:, 1:, None]) / np.diff(edges)[..., None]
        self._counts, self._length, self._share = counts, length, share.astype(np.float32)
        before = np.cumsum(counts) - counts
        self._place = before[:, None, None] + np.minimum(place, counts[:, None, None] - 1)

    def __call__(self, columns: Mapping[str, Array], keys: Array) -> dict[str, Array]:
        """Everybody's rows in the order of the keys [L] of these rows, with their "share"."""
        order = np.argsort(keys)
        person, at = np.nonzero(order < self._counts[:, None])
        which = (person * self._length + order[at])[self._place]
        cut = {name: column.reshape(-1, *column.shape[2:])[which] for name, column in columns.items()}
        return cut | {"share": self._share}


class _Adam:
    """Adam of G people on moments that are divided by 1 - beta, which saves two passes over memory."""

    def __init__(self, training: LocalTraining, theta: Float32, moments: Float32 | None) -> None:
        self._training = training
        self._taken = 0.0 if moments is None else math.inf
        start = np.zeros_like(theta) if moments is None else moments
        self._first, self._second = start / (1.0 - training.beta1), start * start / (1.0 - training.beta2)
        self._step = np.empty_like(theta)

    def ascend(self, phi: Float32, gradient: Float32) -> None:
        """One step along the gradient [G, P], whose memory is used."""
        training, step = self._training, self._step
        self._taken += 1.0
        root = math.sqrt((1.0 - training.beta2**self._taken) / (1.0 - training.beta2))
        scale = training.learning_rate * (1.0 - training.beta1) / (1.0 - training.beta1**self._taken) * root
        self._first *= training.beta1
        self._first += gradient
        np.multiply(gradient, gradient, out=gradient)
        self._second *= training.beta2
        self._second += gradient
        np.sqrt(self._second, out=step)
        step += training.epsilon * root
        np.divide(self._first, step, out=step)
        step *= scale
        phi += step


@dataclass(frozen=True)
class LocalUpdates:
    """The differences phi - theta of all people (algorithm 3 of arXiv:2501.19080). A step ascends mean(A r) + entropy
    H, r = pi_phi / pi_theta the ratio of probabilities, without PPO's clip (remark 5.2); the mean is over the
    minibatch, and A stays as it was before the first step. With `seeded` Adam's first moments are the last released
    update, and the second moments its square (appendix C.2.3): as it is ("raw"), or divided by learning_rate x epochs x
    minibatches (True). Adam's correction for moments that start at 0 is then left out: with a counter that starts at 0
    it would shorten the first step to 0.316 of its length."""

    policy: Policy  # what is trained
    advantages: Advantages  # from the person's own rows (and the critic's values)
    training: LocalTraining  # Adam, epochs and minibatches
    entropy: float = 0.0  # coefficient of the entropy bonus
    # "ratio" as above, or "gradient": mean(A log pi_phi) in place of mean(A r)
    objective: Literal["ratio", "gradient"] = "ratio"
    seeded: Seeding = False  # as above; the first round, before which nothing was released, starts from 0
    critic: ValueFunction | None = None  # None; or the critic whose values the advantages use
    # 0 leaves the critic's own difference (`CriticUpdates`) out; otherwise it is appended, times kappa
    kappa: float = 0.0

    def __post_init__(self) -> None:
        require_valid("entropy", self.entropy, 0 <= self.entropy < np.inf, "a finite number >= 0")
        require_valid("objective", self.objective, self.objective in ("ratio", "gradient"), '"ratio" or "gradient"')

    def __call__(self, rows: Rows, state: RoundInputs) -> Float32:
        """[U, P], or [U, P + Q] with a private critic."""
        replicate = rows["replicate"]
        theta = state.theta[replicate]
        values, following = critic_values(self.critic, rows, state)
        errors = self.advantages.errors(rows, values, following)
        columns: dict[str, Array] = {
            "inputs": self.policy.features(rows["observations"]),
            "actions": rows["actions"],
            "advantages": self.advantages.finish(rows, errors).astype(np.float32),
        }
        if self.objective == "ratio":
            columns["before"] = self._log_probabilities(theta, columns, rows["mask"])
        moments = None
        if self.seeded and state.previous is not None:
            steps = self.training.epochs * self.training.minibatches
            scale = 1.0 if self.seeded == "raw" else self.training.learning_rate * steps
            moments = (state.previous / scale).astype(np.float32)[replicate]
        counts = rows["mask"].sum(axis=1)
        vectors = self.training(theta, columns, counts, self._gradient, state.round, moments)
        if self.critic is not None and values is not None and self.kappa:
            critic_differences = CriticUpdates(self.critic, self.advantages, self.training).differences(
                rows, state, errors + values
            )
            vectors = np.concatenate([vectors, np.float32(self.kappa) * critic_differences], axis=1)
        vectors *= state.stretch[replicate][:, None].astype(np.float32)
        return vectors

    def _log_probabilities(self, theta: Float32, columns: Mapping[str, Array], mask: NDArray[np.bool_]) -> Float32:
        """log pi_theta [U, L] of the actions that were played."""
        result = np.zeros(mask.shape, np.float32)
        for people, n in blocks(mask):
            network, head = self.policy.split(theta[people])
            outputs, _ = self.policy.network.forward(network, columns["inputs"][people, :n])
            result[people, :n] = self.policy.head.log_probability(outputs, head, columns["actions"][people, :n])
        return result

    def _gradient(self, phi: Float32, batch: Mapping[str, Array]) -> Float32:
        network, head = self.policy.split(phi)
        outputs, cache = self.policy.network.forward(network, batch["inputs"])
        weights = batch["advantages"] * batch["share"]
        if self.objective == "ratio":
            weights *= np.exp(self.policy.head.log_probability(outputs, head, batch["actions"]) - batch["before"])
        bonus = self.entropy * batch["share"] if self.entropy else 0.0
        by_outputs, by_head = self.policy.head.slopes(outputs, head, batch["actions"], weights, bonus)
        gradient = self.policy.network.backward(network, cache, by_outputs)[:, 0]
        return np.concatenate([gradient, by_head], axis=1) if by_head.size else gradient


@dataclass(frozen=True)
class CriticUpdates:
    """The differences of all people's critics: each is trained on its person's own returns, on half the squared
    error."""

    critic: ValueFunction  # the value function
    advantages: Advantages  # how returns are made: the critic's value before training plus the error of it
    training: LocalTraining  # Adam (from 0), epochs and minibatches

    def __call__(self, rows: Rows, state: RoundInputs) -> Float32:
        """[U, Q]."""
        values, following = critic_values(self.critic, rows, state)
        assert values is not None
        return self.differences(rows, state, self.advantages.errors(rows, values, following) + values)

    def differences(self, rows: Rows, state: RoundInputs, returns: Float64) -> Float32:
        """[U, Q] for given returns [U, L]."""
        assert state.phi is not None
        columns = {"inputs": self.critic.features(rows["observations"]), "returns": returns.astype(np.float32)}
        phi, counts = state.phi[rows["replicate"]], rows["mask"].sum(axis=1)
        return self.training(phi, columns, counts, self._gradient, state.round)

    def _gradient(self, phi: Float32, batch: Mapping[str, Array]) -> Float32:
        network = self.critic.network
        values, cache = network.forward(phi, batch["inputs"])
        error = (batch["returns"] - values[..., 0]) * batch["share"]
        return network.backward(phi, cache, error[..., None])[:, 0]


# From a plan to what people add to its parts.


def advantages(plan: PolicyGradientPlan, policy: Policy) -> Advantages:
    """How a plan makes advantages; a local critic is quadratic in the policy's features of a continuous observation."""
    features = None
    if plan.critic == "local":
        features = Quadratic(*_box(policy.features)) if isinstance(policy.features, Scaled) else policy.features
    return Advantages(
        gamma=plan.gamma,
        trace=plan.trace,
        reward_rate=plan.reward_rate,
        scale=plan.return_scale,
        own=features,
        ridge=plan.ridge,
        standardised=plan.standardised,
    )


def contributions(plan: PolicyGradientPlan, policy: Policy, critic: ValueFunction | None) -> dict[str, Contribution]:
    """For each part of the plan what a person adds to it."""
    how = advantages(plan, policy)
    kappa, local = plan.kappa if plan.critic == "private" else 0.0, plan.local
    if local is None:
        policy_contribution: Contribution = EpisodeGradient(policy, how, plan.entropy, critic, kappa)
        critic_contribution: Contribution | None = CriticGradient(critic, how) if critic is not None else None
    else:
        training = LocalTraining(learning_rate=local.learning_rate, epochs=local.epochs, minibatches=local.minibatches)
        policy_contribution = LocalUpdates(policy, how, training, local.entropy, "ratio", local.seeded, critic, kappa)
        critic_contribution = CriticUpdates(critic, how, training) if critic is not None else None
    by_part = {POLICY: policy_contribution}
    if plan.critic == "shared" and critic_contribution is not None:
        by_part[CRITIC] = critic_contribution
    if plan.fisher is not None:
        by_part[fisher.PART] = plan.fisher.contribution(policy)
    return by_part


def resolve_critic(
    plan: PolicyGradientPlan | VotesPlan, policy: Policy, spec: PublicSpec, critic: ValueFunction | None, *, given: bool
) -> ValueFunction | None:
    """The plan's critic, or None where it has none."""
    uses = plan.critic in ("private", "public", "shared")
    if (critic is not None and not uses) or (plan.critic == "public" and (critic is None or not given)):
        what = "a public critic is missing" if uses else f"a critic is given, and the plan's is {plan.critic!r}"
        expected = "critic= and critic_start= with a public critic, no critic= with a local one or none"
        raise PlanError(what, where="policy_gradient.fit", expected=expected, remedy="pass what the plan uses")
    if critic is not None and not maps.is_compatible(critic.features, spec.observation):
        what, expected = "the critic is for other observations", "features of these people's observations"
        remedy = "build it with agents.features.default_features(vault.spec.observation)"
        raise PlanError(what, where="policy_gradient.fit", expected=expected, remedy=remedy)
    if critic is not None or not uses:
        return critic
    scaled = policy.features if isinstance(policy.features, Scaled) else maps.default_features(spec.observation)
    if plan.critic == "shared":
        return ValueFunction(scaled, Mlp((scaled.size, 64, 64, 1), gain=1.0))
    wide = Quadratic(*_box(scaled)) if isinstance(scaled, Scaled) else scaled
    return ValueFunction(wide, Mlp((wide.size, 1), gain=0.0))


def _box(features: Scaled) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return features.low, features.high
