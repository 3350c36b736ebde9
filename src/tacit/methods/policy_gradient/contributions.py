"""What one person adds to a round: a gradient from own rows at the released parameters.

The vault clips the vector as a whole. Nothing is divided by the number of people, and nothing of a person is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.agents.policies import Float32, Policy, Value
from tacit.methods.policy_gradient.advantages import Advantages, Float64, Rows

_BLOCK = 512  # rows that are passed through a network at once: their activations stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Released:
    """What a round's contributions may use: released or public values."""

    theta: Float32  # parameters of the policy that people were served with, [R, P]
    phi: Float32 | None  # parameters of the critic [R, Q], if there is one
    # factor of every contribution before the vault's constant clip, [R]: a trust region whose clip is c in this round
    # stretches by clip / c, and what is released is shrunk by c / clip
    stretch: Float64
    round: int = 0  # 0 .. T - 1.
    previous: Float32 | None = None  # the policy's noisy mean that was released last, [R, P]; None in the first round


@dataclass(frozen=True)
class EpisodeGradient:
    """One policy gradient a person: sum_t A_t grad log pi(a_t | s_t), at the released parameters."""

    policy: Policy  # whose score is taken
    advantages: Advantages  # from the person's own rows (and the critic's values)
    entropy: float = 0.0  # coefficient of the entropy of the policy in each of the person's states
    critic: Value | None = None  # None; or the critic whose values the advantages use
    # 0 leaves the critic's own gradient out; otherwise it is appended, times kappa, so that one clip bounds both
    # together (a private critic)
    kappa: float = 0.0

    def __call__(self, rows: Rows, state: Released) -> Float64:
        """[U, P], or [U, P + Q] with a private critic."""
        values = critic_values(self.critic, rows, state)
        errors = self.advantages.errors(rows, *values)
        weights = self.advantages.finished(rows, errors)
        vectors = np.empty((len(errors), self.policy.parameters))
        for people, n in blocks(rows["mask"]):
            theta = state.theta[rows["replicate"][people]]
            seen, done = rows["observations"][people, :n], rows["actions"][people, :n]
            vectors[people] = self.policy.gradient(theta, seen, done, weights[people, :n], self.entropy)
        if self.critic is not None and self.kappa:
            taught = CriticGradient(self.critic, self.advantages).slopes(rows, state, errors)
            vectors = np.concatenate([vectors, self.kappa * taught], axis=1)
        return np.asarray(vectors * state.stretch[rows["replicate"]][:, None])


@dataclass(frozen=True)
class CriticGradient:
    """One gradient of the critic a person: the mean over own rows of (return - v(s_t)) grad v(s_t)."""

    critic: Value  # the value function
    advantages: Advantages  # how returns are made

    def __call__(self, rows: Rows, state: Released) -> Float64:
        """[U, Q]."""
        return self.slopes(rows, state, self.advantages.errors(rows, *critic_values(self.critic, rows, state)))

    def slopes(self, rows: Rows, state: Released, errors: Float64) -> Float64:
        """[U, Q] for given errors [U, L]."""
        assert state.phi is not None
        vectors = np.empty((len(errors), self.critic.network.parameters))
        for people, n in blocks(rows["mask"]):
            phi = state.phi[rows["replicate"][people]]
            seen = rows["observations"][people, :n]
            vectors[people] = self.critic.gradient(phi, seen, errors[people, :n] / n)
        return vectors


def blocks(mask: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.int64], int]]:
    """(people, n): everybody once, in groups of equal length n, few enough for their rows to be handled at once."""
    # Groups are of equal length so that each person's numbers come out of products over own rows alone.
    lengths = mask.sum(axis=1)
    for n in np.unique(lengths):
        people = np.flatnonzero(lengths == n)
        size = max(1, _BLOCK // int(n))
        for start in range(0, len(people), size):
            yield people[start : start + size], int(n)


def critic_values(critic: Value | None, rows: Rows, state: Released) -> tuple[Float64, Float64] | tuple[None, None]:
    """The critic's values of own observations and of those that followed, [U, L] each."""
    if critic is None:
        return None, None
    assert state.phi is not None
    both: list[NDArray[Any]] = [np.zeros(rows["mask"].shape), np.zeros(rows["mask"].shape)]
    for people, n in blocks(rows["mask"]):
        phi = state.phi[rows["replicate"][people]]
        for out, name in zip(both, ("observations", "next_observations"), strict=True):
            out[people, :n] = critic(phi, rows[name][people, :n])
    return both[0], both[1]
