"""Thousands of small policies with discrete actions, their weights stacked: what all of them would do in many states.

Experts are taken in chunks and states in blocks, so that what lies between two layers stays in the processor's cache
and memory beyond the weights is bounded. Every product is one matrix product an expert, of a shape that only the number
of states decides: an expert's numbers are the same bits whatever other experts there are, in whatever order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.agents.features import Features
from tacit.agents.networks import Float32, Mlp
from tacit.errors import PlanError

__all__ = ["Stacked"]

Array = NDArray[Any]

_STATES = 256  # states of one product
_HELD = 2**20  # numbers between two layers, over all experts of a chunk


@dataclass(frozen=True, eq=False)
class Stacked:
    """m policies with the same features and the same shape of network, each with weights of its own.

    With a floor the policies are greedy but for it: each takes its best action (the first of equal ones) with
    probability 1 - (A - 1) floor and every other one with probability floor; floor 0 is deterministic. With floor nan
    they are stochastic: softmax of the outputs, mixed with the uniform distribution so that no probability lies below
    `least`.

    Args:
        features: public map of observations to the networks' inputs, the same for all.
        sizes: widths from the inputs to the A actions, (8, 512, 256, 64, 4); (8, 4) is a linear policy.
        weights: a pair ([m, in, out], [m, out]) of matrices and biases for every layer; float32 arrays are not copied.
        floor: as above, below 1 / A; or nan.
        activation: what stands between two layers.
        least: of softmax policies, below 1 / A; 0 otherwise.

    Raises:
        PlanError: shapes that do not fit, weights that are not finite, or a floor that is out of range.
    """

    features: Features
    sizes: tuple[int, ...]
    weights: tuple[tuple[Float32, Float32], ...]
    floor: float = 0.0
    activation: Literal["tanh", "relu"] = "tanh"
    least: float = 0.0

    def __post_init__(self) -> None:
        sizes = tuple(int(size) for size in self.sizes)
        weights = tuple((np.asarray(w, np.float32), np.asarray(b, np.float32)) for w, b in self.weights)
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "weights", weights)
        if len(sizes) < 2 or min(sizes) < 1 or sizes[-1] < 2 or sizes[0] != self.features.size:
            raise _invalid("sizes", f"widths from {self.features.size} inputs, as the features give, to >= 2 actions")
        count = len(weights[0][0]) if weights else 0
        shapes = [((count, n, k), (count, k)) for n, k in itertools.pairwise(sizes)]
        if count == 0 or [(w.shape, b.shape) for w, b in weights] != shapes:
            raise _invalid("weights", "a pair ([m, in, out], [m, out]) for each layer of these sizes, m >= 1")
        if not all(np.isfinite(own).all() for pair in weights for layer in pair for own in layer):
            raise _invalid("weights", "finite numbers")
        if not (math.isnan(self.floor) or 0.0 <= self.floor < 1.0 / sizes[-1]):
            raise _invalid("floor", "0 <= floor < 1 / actions, or nan for softmax policies")
        if not 0.0 <= self.least < 1.0 / sizes[-1] or (self.least > 0.0 and not math.isnan(self.floor)):
            raise _invalid("least", "0 <= least < 1 / actions, and 0 unless floor is nan")
        if self.activation not in ("tanh", "relu"):
            raise _invalid("activation", "'tanh' or 'relu'")

    @classmethod
    def from_mlp(cls, features: Features, mlp: Mlp, theta: Float32, floor: float = 0.0, least: float = 0.0) -> Stacked:
        """The networks whose parameters are the rows of theta [m, P] (views: nothing is copied)."""
        layers = mlp.layers(np.asarray(theta, np.float32))
        weights = tuple((layer[:, :-1], layer[:, -1]) for layer in layers)
        return cls(features, mlp.sizes, weights, floor, "tanh", least)

    @property
    def count(self) -> int:
        """m."""
        return len(self.weights[0][0])

    @property
    def actions(self) -> int:
        """A."""
        return self.sizes[-1]

    def take(self, which: Array | slice) -> Stacked:
        """Some of the policies, in the order given: numbers [n], a mask [m] or a slice (a slice copies nothing)."""
        weights = tuple((w[which], b[which]) for w, b in self.weights)
        return Stacked(self.features, self.sizes, weights, self.floor, self.activation, self.least)

    def greedy(self, observations: Array) -> NDArray[np.int64]:
        """Every policy's best action [m, S] in each of the observations [S, d]."""
        best = np.empty((self.count, len(observations)), np.int64)
        for at, outputs in self._outputs(observations):
            best[at] = outputs.argmax(axis=-1)
        return best

    def disagreements(self, observations: Array, actions: Array) -> NDArray[np.bool_]:
        """Whether an action [S] is not the policy's best one there, [m, S]."""
        other = np.empty((self.count, len(observations)), np.bool_)
        for at, outputs in self._outputs(observations):
            other[at] = outputs.argmax(axis=-1) != actions[at[1]]
        return other

    def chances(self, observations: Array, actions: Array) -> NDArray[np.float64]:
        """The probability that every policy gives to the action [S] in each of the observations [S, d]: [m, S]."""
        if not math.isnan(self.floor):
            most = 1.0 - (self.actions - 1) * self.floor
            return np.where(self.disagreements(observations, actions), self.floor, most)
        given = np.empty((self.count, len(observations)))
        for at, outputs in self._outputs(observations):
            given[at] = np.take_along_axis(self._softmax(outputs), actions[None, at[1], None], axis=-1)[..., 0]
        return given

    def probabilities(self, observations: Array, which: Array) -> NDArray[np.float64]:
        """Of one policy an observation: action probabilities [S, A] of observations [S, d] under policies [S]."""
        which = np.asarray(which)
        outputs = np.empty((len(which), self.actions), np.float32)
        x = self.features(observations)
        order = np.argsort(which, kind="stable")
        owners, starts, rows = np.unique(which[order], return_index=True, return_counts=True)
        for n in np.unique(rows):
            same = rows == n
            for part in _chunks(int(same.sum()), max(1, _HELD // (int(n) * max(self.sizes)))):
                own = owners[same][part]
                at = order[starts[same][part][:, None] + np.arange(n)]
                outputs[at] = self._forward(x[at], own)
        return self._distribution(outputs)

    def _distribution(self, outputs: Float32) -> NDArray[np.float64]:
        if math.isnan(self.floor):
            return self._softmax(outputs)
        p = np.full(outputs.shape, self.floor)
        np.put_along_axis(p, outputs.argmax(axis=-1)[..., None], 1.0 - (self.actions - 1) * self.floor, axis=-1)
        return p

    def _softmax(self, outputs: Float32) -> NDArray[np.float64]:
        z = np.nan_to_num(outputs).astype(np.float64)
        z -= z.max(axis=-1, keepdims=True)
        np.exp(z, out=z)
        z /= z.sum(axis=-1, keepdims=True)
        return np.asarray(self.least + (1.0 - self.actions * self.least) * z)

    def _outputs(self, observations: Array) -> Iterator[tuple[tuple[slice, slice], Float32]]:
        """(experts, states) and their outputs [experts, states, A], until all were given."""
        x = self.features(observations)
        for states in _chunks(len(x), _STATES):
            rows = states.stop - states.start
            for experts in _chunks(self.count, max(1, _HELD // (rows * max(self.sizes)))):
                yield (experts, states), self._forward(x[states], experts)

    def _forward(self, x: Float32, experts: slice | Array) -> Float32:
        """Outputs [k, n, A] of k experts for inputs [n, in], or [k, n, in] of their own."""
        for i, (weight, bias) in enumerate(self.weights):
            if i:
                x = np.tanh(x, out=x) if self.activation == "tanh" else np.maximum(x, np.float32(0.0), out=x)
            x = np.matmul(x, weight[experts])
            x += bias[experts][:, None]
        return x


def _chunks(total: int, size: int) -> Iterator[slice]:
    for start in range(0, total, size):
        yield slice(start, min(total, start + size))


def _invalid(name: str, expected: str) -> PlanError:
    return PlanError(
        f"{name} cannot be used",
        where="Stacked",
        expected=expected,
        remedy="give every policy the same shape, one action at least, and probabilities that sum to one",
    )
