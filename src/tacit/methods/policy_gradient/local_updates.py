"""What the paper's algorithm 3 sends: every person trains a copy of the released policy on their own rows.

A person's contribution is the difference phi - theta between their copy and the released parameters, after several
epochs of Adam over minibatches of their own rows (McMahan et al. 2018 do the same for language models). Nothing passes
between people, not even through the optimiser: moments start at 0 or from the last *released* update, and which rows
form a minibatch follows from the public number of the round alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.methods.policy_gradient.policies import Policy
from tacit.privacy.parts import check

Array = NDArray[Any]
Float32 = NDArray[np.float32]

_TOGETHER = 256
"""Rows of a minibatch, of all people that are trained side by side: more would leave the processor's caches."""


class Released(Protocol):
    """Public values that a round begins with.

    Attributes:
        theta: [R, P], the released parameters.
        round: how many rounds came before.
        previous: [R, P], the last released update (an ascent step: the noisy mean of phi - theta), or None.
    """

    @property
    def theta(self) -> Float32: ...

    @property
    def round(self) -> int: ...

    @property
    def previous(self) -> Array | None: ...


@dataclass(frozen=True)
class LocalUpdates:
    """The differences phi - theta of all people, [U, P] (algorithm 3 of arXiv:2501.19080).

    A person with n rows makes min(minibatches, n) steps an epoch, on equal shares of their own shuffled rows; a step
    ascends mean(A r) + entropy H, r = pi_phi / pi_theta the ratio of probabilities, without PPO's clip (remark 5.2).

    With `moments="released"` Adam's first moments are the last released update, which is an ascent difference of
    parameters, divided by learning_rate x epochs x minibatches, and the second moments its square, as in appendix
    C.2.3; Adam's correction for moments that start at 0 is then left out (with the usual counter, started at 0, the
    first step would be too short by 0.316).

    Args:
        policy: what is trained.
        advantages: rows -> A [U, L], each person's from their own rows; constant over the epochs.
        learning_rate: of Adam.
        epochs: how often a person's rows are passed through.
        minibatches: into how many parts a pass is cut.
        entropy: coefficient of the entropy bonus.
        objective: "ratio" as above, or "gradient": mean(A log pi_phi) in place of mean(A r).
        moments: "fresh", or "released" as above.
        beta1, beta2, epsilon: Adam's.

    Raises:
        PlanError: a parameter is outside its range.
    """

    policy: Policy
    advantages: Callable[[Mapping[str, Array]], Array]
    learning_rate: float = 2.5e-4
    epochs: int = 8
    minibatches: int = 2
    entropy: float = 0.0
    objective: Literal["ratio", "gradient"] = "ratio"
    moments: Literal["fresh", "released"] = "fresh"
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        for name in ("epochs", "minibatches"):
            count = getattr(self, name)
            check(name, count, type(count) is int and count >= 1, "a whole number >= 1")
        check("learning_rate", self.learning_rate, 0 < self.learning_rate < math.inf, "a finite number > 0")
        check("entropy", self.entropy, 0 <= self.entropy < math.inf, "a finite number >= 0")
        check("epsilon", self.epsilon, 0 < self.epsilon < math.inf, "a finite number > 0")
        for name in ("beta1", "beta2"):
            check(name, getattr(self, name), 0 <= getattr(self, name) < 1, "a number in [0, 1)")
        check("objective", self.objective, self.objective in ("ratio", "gradient"), '"ratio" or "gradient"')
        check("moments", self.moments, self.moments in ("fresh", "released"), '"fresh" or "released"')

    def __call__(self, rows: Mapping[str, Array], state: Released) -> Float32:
        """Rows of U people and what was released before -> [U, P]."""
        replicate, counts = rows["replicate"], rows["mask"].sum(axis=1)
        theta = np.asarray(state.theta, np.float32)[replicate]
        start = None
        if self.moments == "released" and state.previous is not None:
            steps = self.epochs * self.minibatches
            start = np.asarray(state.previous / (self.learning_rate * steps), np.float32)[replicate]
        keys = np.random.default_rng(state.round).random((self.epochs, rows["mask"].shape[1]))
        advantages = np.asarray(self.advantages(rows), np.float32)
        result = np.empty_like(theta)
        # People are padded to a width that follows from their own number of rows, never to the longest person's.
        batches = np.minimum(self.minibatches, counts)
        widths = _padded(-(-counts // batches), -(-rows["mask"].shape[1] // self.minibatches))
        for cut, width in np.unique(np.stack([batches, widths], axis=1), axis=0).tolist():
            alike = np.flatnonzero((batches == cut) & (widths == width))
            together = max(1, _TOGETHER // width)
            for first in range(0, len(alike), together):
                people = alike[first : first + together]
                table = _Table(
                    self.policy.features(rows["observations"][people]),
                    rows["actions"][people],
                    advantages[people],
                    counts[people],
                    cut,
                    width,
                )
                moments = _Moments.of(self, theta[people], None if start is None else start[people])
                result[people] = self._trained(theta[people], table, moments, keys)
        result -= theta
        return result

    def _trained(self, theta: Float32, table: _Table, moments: _Moments, keys: Array) -> Float32:
        """Parameters [G, P] of people with equally many minibatches, after all epochs."""
        policy, phi = self.policy, theta.copy()
        old = np.zeros_like(table.advantages)
        if self.objective == "ratio":
            network, own = policy.split(theta)
            old = policy.head.log_probability(policy.network.forward(network, table.inputs)[0], own, table.actions)
        for epoch in keys:
            x, actions, advantages, before, share = table.shuffled(old, epoch)
            for j in range(table.cut):
                network, own = policy.split(phi)
                outputs, cache = policy.network.forward(network, x[:, j])
                weights = advantages[:, j] * share[:, j]
                if self.objective == "ratio":
                    weights *= np.exp(policy.head.log_probability(outputs, own, actions[:, j]) - before[:, j])
                bonus = self.entropy * share[:, j] if self.entropy else 0.0
                by_outputs, by_own = policy.head.slopes(outputs, own, actions[:, j], weights, bonus)
                gradient = policy.network.backward(network, cache, by_outputs)[:, 0]
                if policy.head.free:
                    gradient = np.concatenate([gradient, by_own], axis=1)
                moments.ascend(phi, gradient)
        return phi


@dataclass(frozen=True, eq=False)
class _Table:
    """Rows of G people, each cut into `cut` minibatches of at most `width` rows an epoch.

    Args:
        inputs: [G, L, i] of the network.
        actions: [G, L] or [G, L, a].
        advantages: [G, L].
        counts: [G], how many rows each person has: their first ones.
        cut: minibatches.
        width: at least the largest share of a person's rows.
    """

    inputs: Float32
    actions: Array
    advantages: Float32
    counts: Array
    cut: int
    width: int

    def shuffled(self, old: Float32, keys: Array) -> tuple[Float32, Array, Float32, Float32, Float32]:
        """Columns [G, cut, width, ...] in the order of the keys [L] of one's rows: inputs, actions, advantages, old
        log-probabilities, and 1 / (rows of the minibatch), 0 where there is no row."""
        people, span = self.advantages.shape
        order = np.where(np.arange(span) < self.counts[:, None], keys, np.inf).argsort(axis=1)
        edges = np.arange(self.cut + 1) * self.counts[:, None] // self.cut
        place = edges[:, :-1, None] + np.arange(self.width)
        sizes = np.diff(edges)[..., None]
        share = np.where(place < edges[:, 1:, None], np.float32(1.0) / sizes.astype(np.float32), np.float32(0.0))
        who = np.arange(people)[:, None, None]
        which = order[who, np.minimum(place, span - 1)]
        return (
            self.inputs[who, which],
            self.actions[who, which],
            self.advantages[who, which],
            old[who, which],
            share,
        )


class _Moments:
    """Adam of G people, [G, P], on moments that are divided by 1 - beta: two passes fewer over memory."""

    def __init__(self, config: LocalUpdates, first: Float32, second: Float32, taken: float) -> None:
        self._config, self._first, self._second, self._taken = config, first, second, taken
        self._step = np.empty_like(first)

    @classmethod
    def of(cls, config: LocalUpdates, theta: Float32, start: Float32 | None) -> _Moments:
        """From 0, or from given first moments [G, P] and their squares, as after very many steps."""
        if start is None:
            return cls(config, np.zeros_like(theta), np.zeros_like(theta), 0.0)
        return cls(config, start / (1.0 - config.beta1), start * start / (1.0 - config.beta2), math.inf)

    def ascend(self, phi: Float32, gradient: Float32) -> None:
        """One step along the gradient [G, P], of which the memory is used up."""
        config, step = self._config, self._step
        self._taken += 1.0
        root = math.sqrt((1.0 - config.beta2**self._taken) / (1.0 - config.beta2))
        scale = config.learning_rate * (1.0 - config.beta1) / (1.0 - config.beta1**self._taken) * root
        self._first *= np.float32(config.beta1)
        self._first += gradient
        np.multiply(gradient, gradient, out=gradient)
        self._second *= np.float32(config.beta2)
        self._second += gradient
        np.sqrt(self._second, out=step)
        step += np.float32(config.epsilon * root)
        np.divide(self._first, step, out=step)
        step *= np.float32(scale)
        phi += step


def _padded(widths: Array, largest: int) -> Array:
    """The next power of two of each width, at most `largest`."""
    return np.minimum(2 ** np.ceil(np.log2(widths)).astype(np.int64), largest)
