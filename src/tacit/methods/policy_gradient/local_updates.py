"""What the paper's algorithm 3 sends: every person trains a copy of the released policy on their own rows.

A person's contribution is the difference phi - theta between their copy and the released parameters, after several
epochs of Adam over minibatches (McMahan et al. 2018 do the same for language models). Nothing passes between people,
not even through the optimiser: moments start at 0 or from the last *released* update, and which rows form a minibatch
follows from the public number of the round and the person's own number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.agents.policies import Float32, Policy, Value
from tacit.methods.policy_gradient.advantages import Advantages, Float64, Rows
from tacit.methods.policy_gradient.contributions import Released, blocks, critic_values
from tacit.methods.policy_gradient.local_training import Training
from tacit.validation import check

Array = NDArray[Any]


@dataclass(frozen=True)
class LocalUpdates:
    """The differences phi - theta of all people (algorithm 3 of arXiv:2501.19080).

    A step ascends mean(A r) + entropy H, r = pi_phi / pi_theta the ratio of probabilities, without PPO's clip (remark
    5.2); the mean is over the minibatch, and A stays as it was before the first step.

    With `seeded` Adam's first moments are the last released update, which is an ascent difference of parameters,
    divided by learning_rate x epochs x minibatches, and the second moments its square (appendix C.2.3). Adam's
    correction for moments that start at 0 is then left out: with a counter that starts at 0 it would shorten the first
    step to 0.316 of its length.

    Args:
        policy: what is trained.
        advantages: from the person's own rows (and the critic's values).
        training: Adam, epochs and minibatches.
        entropy: coefficient of the entropy bonus.
        objective: "ratio" as above, or "gradient": mean(A log pi_phi) in place of mean(A r).
        seeded: as above; the first round, before which nothing was released, starts from 0.
        critic: None; or the critic whose values the advantages use.
        kappa: 0 leaves the critic's own difference (`CriticUpdates`) out; otherwise it is appended, times kappa.

    Raises:
        PlanError: a parameter is outside its range.
    """

    policy: Policy
    advantages: Advantages
    training: Training
    entropy: float = 0.0
    objective: Literal["ratio", "gradient"] = "ratio"
    seeded: bool = False
    critic: Value | None = None
    kappa: float = 0.0

    def __post_init__(self) -> None:
        check("entropy", self.entropy, 0 <= self.entropy < np.inf, "a finite number >= 0")
        check("objective", self.objective, self.objective in ("ratio", "gradient"), '"ratio" or "gradient"')

    def __call__(self, rows: Rows, state: Released) -> Float32:
        """[U, P], or [U, P + Q] with a private critic."""
        replicate = rows["replicate"]
        theta = state.theta[replicate]
        values, following = critic_values(self.critic, rows, state)
        errors = self.advantages.errors(rows, values, following)
        columns: dict[str, Array] = {
            "inputs": self.policy.features(rows["observations"]),
            "actions": rows["actions"],
            "advantages": self.advantages.finished(rows, errors).astype(np.float32),
        }
        if self.objective == "ratio":
            columns["before"] = self._log_probabilities(theta, columns, rows["mask"])
        moments = None
        if self.seeded and state.previous is not None:
            steps = self.training.epochs * self.training.minibatches
            moments = (state.previous / (self.training.learning_rate * steps)).astype(np.float32)[replicate]
        counts = rows["mask"].sum(axis=1)
        vectors = self.training(theta, columns, counts, self._gradient, state.round, moments)
        if self.critic is not None and values is not None and self.kappa:
            taught = CriticUpdates(self.critic, self.advantages, self.training).differences(
                rows, state, errors + values
            )
            vectors = np.concatenate([vectors, np.float32(self.kappa) * taught], axis=1)
        vectors *= state.stretch[replicate][:, None].astype(np.float32)
        return vectors

    def _log_probabilities(self, theta: Float32, columns: Mapping[str, Array], mask: NDArray[np.bool_]) -> Float32:
        """log pi_theta [U, L] of the actions that were played."""
        found = np.zeros(mask.shape, np.float32)
        for people, n in blocks(mask):
            network, own = self.policy.split(theta[people])
            outputs, _ = self.policy.network.forward(network, columns["inputs"][people, :n])
            found[people, :n] = self.policy.head.log_probability(outputs, own, columns["actions"][people, :n])
        return found

    def _gradient(self, phi: Float32, batch: Mapping[str, Array]) -> Float32:
        network, own = self.policy.split(phi)
        outputs, cache = self.policy.network.forward(network, batch["inputs"])
        weights = batch["advantages"] * batch["share"]
        if self.objective == "ratio":
            weights *= np.exp(self.policy.head.log_probability(outputs, own, batch["actions"]) - batch["before"])
        bonus = self.entropy * batch["share"] if self.entropy else 0.0
        by_outputs, by_own = self.policy.head.slopes(outputs, own, batch["actions"], weights, bonus)
        gradient = self.policy.network.backward(network, cache, by_outputs)[:, 0]
        return np.concatenate([gradient, by_own], axis=1) if by_own.size else gradient


@dataclass(frozen=True)
class CriticUpdates:
    """The differences of all people's critics: each is trained on its person's own returns, on half the squared error.

    Args:
        critic: the value function.
        advantages: how returns are made: the critic's value before training plus the error of it.
        training: Adam (from 0), epochs and minibatches.
    """

    critic: Value
    advantages: Advantages
    training: Training

    def __call__(self, rows: Rows, state: Released) -> Float32:
        """[U, Q]."""
        values, following = critic_values(self.critic, rows, state)
        assert values is not None
        return self.differences(rows, state, self.advantages.errors(rows, values, following) + values)

    def differences(self, rows: Rows, state: Released, returns: Float64) -> Float32:
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
