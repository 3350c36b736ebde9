"""The Fisher information of a policy, F = E[grad log pi grad log pi'], for trust regions in the policy.

From public or simulated observations it costs nothing (`PublicFisher`). From the people themselves it is a second part
of the plan, which shares the noise with the policy's own (`PrivateFisher`). Only eigenvalues are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.agents.heads import Categorical
from tacit.agents.policies import Float32, Policy
from tacit.methods.policy_gradient.contributions import RoundInputs, blocks
from tacit.privacy.mechanisms.base import Rows
from tacit.privacy.mechanisms.sums import UserSum
from tacit.validation import require_valid

Float64 = NDArray[np.float64]
Form = Literal["matrix", "moments"]
"""What is asked for: the matrix F, d (d + 1) / 2 numbers; or its trace and a bound on its largest eigenvalue."""

PART = "fisher"
DRAWS = 4


def scores(policy: Policy, theta: Float32, observations: NDArray[Any], actions: NDArray[Any]) -> Float64:
    """grad log pi(a | s), one row each."""
    # theta: [P]; observations: [m, d] or [m]; actions: [m] or [m, a], as they were played; returns: [m, P]
    parameters = np.broadcast_to(theta, (len(observations), theta.size))
    weights = np.ones((len(observations), 1), np.float32)
    return policy.gradient(parameters, observations[:, None], actions[:, None], weights).astype(np.float64)


def spectrum(scores: Float64) -> Float64:
    """Eigenvalues of the mean of s s' over the rows of `scores` [m, P], largest first, those that can be above 0."""
    # returns: [min(m, P)]: of an m x m matrix where there are fewer rows than parameters, as in networks
    rows, size = scores.shape
    gram = scores.T @ scores if size <= rows else scores @ scores.T
    return np.maximum(np.linalg.eigvalsh(gram / rows)[::-1], 0.0)


@dataclass(frozen=True)
class PublicFisher:
    """Eigenvalues of the information over public states: `information=` of `fit`.

    Args:
        observations: public or simulated ones, [m] whole numbers or [m, d]; a state that is met more often is there
            more often.
        seed: of the actions that stand for the expectation over them; a small discrete policy's is taken exactly.
    """

    observations: tuple[int, ...] | tuple[tuple[float, ...], ...]
    seed: int = 0

    def __call__(self, policy: Policy, theta: Float32) -> list[float]:
        """Largest first, [min(rows, P)]."""
        observations = np.asarray(self.observations)
        observations = observations.astype(np.int64 if observations.ndim == 1 else np.float32)
        replicate, generator = np.zeros(len(observations), np.int64), np.random.default_rng(self.seed)
        if not isinstance(policy.head, Categorical):
            drawn = [policy.act(theta[None], observations, replicate, generator) for _ in range(DRAWS)]
            again = np.concatenate([observations] * DRAWS)
            return _floats(spectrum(scores(policy, theta, again, np.concatenate(drawn))))
        network, head = policy.split(theta[None])
        outputs, _ = policy.network.forward(network, policy.features(observations)[None])
        weighted = []
        for action in range(policy.head.outputs):
            actions = np.full(len(observations), action)
            chance = np.exp(policy.head.log_probability(outputs, head, actions[None])[0].astype(np.float64))
            root = np.sqrt(chance * policy.head.outputs)[:, None]
            weighted.append(root * scores(policy, theta, observations, actions))
        return _floats(spectrum(np.concatenate(weighted)))


@dataclass(frozen=True, kw_only=True)
class PrivateFisher:
    """The information from the people themselves, as one more part of a plan: each meeting gives a noisy sum for it.

    Args:
        share: of the plan's precision (1 / sigma^2), what this part gets; the policy's gets the rest.
        bound: largest norm of one row's score; longer scores are shortened to it, which makes F smaller.
        form: see `Form`. "matrix" is for log-linear policies, "moments" for networks.
    """

    share: float = 0.1
    bound: float = 1.5
    form: Form = "matrix"

    def __post_init__(self) -> None:
        require_valid("share", self.share, 0 < self.share < 1, "a number in (0, 1)")
        require_valid("bound", self.bound, 1e-3 <= self.bound <= 1e3, "a number from 0.001 to 1,000")
        require_valid("form", self.form, self.form in get_args(Form), " or ".join(get_args(Form)))

    def part(
        self,
        *,
        steps: int,
        users: int,
        rows_per_unit: int,
        participations: int = 1,
        noise_multiplier: float | None = None,
    ) -> UserSum:
        """The part. Its noise is that for running means; one person adds a matrix of norm bound^2 at most.

        Args:
            noise_multiplier: sigma of the whole plan, of which this part's is sigma / sqrt(share).
        """
        return UserSum(
            name=PART,
            steps=steps,
            users=users,
            clip_norm=self.bound**2 * (1.0 if self.form == "matrix" else 2**0.5),
            noise_multiplier=None if noise_multiplier is None else noise_multiplier / self.share**0.5,
            rows_per_unit=rows_per_unit,
            participations=participations,
        )

    def contribution(self, policy: Policy) -> FisherSum:
        """What one person adds."""
        return FisherSum(policy, self.bound, self.form)

    def eigenvalues(self, mean: Float64 | None, parameters: int) -> list[float]:
        """Eigenvalues, largest first, from the mean of the noisy sums that were released so far.

        Before the first release, and never above it, stands what the bound allows: bound^2. From "moments" comes the
        spectrum of that trace and that largest eigenvalue (or more: it is the mean of everybody's own) which has the
        fewest eigenvalues.

        Args:
            mean: [d], or None.
            parameters: P.
        """
        most = self.bound**2
        if mean is None:
            return [most]
        if self.form == "moments":
            trace, largest = (float(np.clip(value, 1e-6 * most, most)) for value in mean)
            largest = max(largest, trace / parameters)  # noise may leave less than P eigenvalues need for the trace
            count = min(max(1, int(trace / largest)), parameters)
            left = [trace - count * largest] if count < parameters and trace > count * largest else []
            return [largest] * count + left
        matrix, (i, j) = np.zeros((parameters, parameters)), np.triu_indices(parameters)
        matrix[i, j] = mean * np.where(i == j, 0.5, 0.5**0.5)
        return _floats(np.clip(np.linalg.eigvalsh(matrix + matrix.T)[::-1], 1e-6 * most, most))


@dataclass(frozen=True)
class FisherSum:
    """Each person's own mean of s s' over own rows, s the score at the released parameters."""

    policy: Policy  # whose score
    bound: float  # longer scores are shortened to this norm
    # "matrix" [U, P (P + 1) / 2]: the upper triangle, what is off the diagonal times sqrt(2), so that the norm is
    # Frobenius's; "moments" [U, 2]: trace and largest eigenvalue
    form: Form

    def __call__(self, rows: Rows, state: RoundInputs) -> Float64:
        """[U, P (P + 1) / 2] or [U, 2]."""
        size = self.policy.parameters
        i, j = np.triu_indices(size) if self.form == "matrix" else (np.zeros(2, np.int64), np.zeros(2, np.int64))
        vectors = np.empty((len(rows["mask"]), len(i)))
        for people, n in blocks(rows["mask"]):
            theta = np.repeat(state.theta[rows["replicate"][people]], n, axis=0)
            observations, actions = (_rows(rows[name][people, :n]) for name in ("observations", "actions"))
            weights = np.ones((len(theta), 1), np.float32)
            gradients = self.policy.gradient(theta, observations, actions, weights).astype(np.float64)
            gradients = gradients.reshape(len(people), n, size)
            length = np.linalg.norm(gradients, axis=2, keepdims=True)
            gradients *= np.minimum(1.0, self.bound / np.maximum(length, 1e-12)) / n**0.5
            if self.form == "matrix":
                matrix = gradients.swapaxes(1, 2) @ gradients
                vectors[people] = matrix[:, i, j] * np.where(i == j, 1.0, 2**0.5)
            else:
                vectors[people, 0] = (gradients**2).sum(axis=(1, 2))
                vectors[people, 1] = np.linalg.norm(gradients, ord=2, axis=(1, 2)) ** 2
        return vectors


def _rows(column: NDArray[Any]) -> NDArray[Any]:
    """[k, n, ...] as [k n, 1, ...]: every row a group of its own."""
    return column.reshape(-1, 1, *column.shape[2:])


def _floats(values: Float64) -> list[float]:
    return [float(value) for value in values]
