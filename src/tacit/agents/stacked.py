"""Thousands of small policies with discrete actions, their weights stacked: what all of them would do in many states.

Experts are taken in chunks, so that what lies between two layers stays in the processor's cache and memory beyond the
weights is bounded. Every matrix product is one expert's weights times a block of 16 states, a state a column: its shape
is always the same, and each of the 16 columns goes through the same instructions. So what an expert does in a state is
the same bits whatever other experts there are and whatever other states are asked for; in particular a trajectory is
counted with the very probabilities that it was drawn with.
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

Array = NDArray[Any]

_BLOCK = 16  # one AVX-512 register: OpenBLAS rounds columns of wider blocks differently, depending on their place
_BLOCKS = 64  # of one call
_CHUNK_NUMBERS = 2**19  # numbers between two layers, over all experts of a chunk


@dataclass(frozen=True, eq=False)
class StackedPolicies:
    """m policies with the same features and the same shape of network, each with weights of its own.

    With a floor the policies are greedy but for it: each takes its best action (the first of equal ones) with
    probability 1 - (A - 1) floor and every other one with probability floor; floor 0 is deterministic. With floor nan
    they are stochastic: softmax of the outputs, mixed with the uniform distribution so that no probability lies below
    `least`.

    Raises PlanError of shapes that do not fit, weights that are not finite, or a floor that is out of range.
    """

    features: Features  # public map of observations to the networks' inputs, the same for all
    sizes: tuple[int, ...]  # widths from the inputs to the A actions, (8, 512, 256, 64, 4); (8, 4) is a linear policy
    # a pair ([m, in, out], [m, out]) of matrices and biases for every layer; float32 arrays are not copied
    weights: tuple[tuple[Float32, Float32], ...]
    floor: float = 0.0  # floor, least: as above, below 1 / A
    activation: Literal["tanh", "relu"] = "tanh"  # what stands between two layers
    least: float = 0.0

    def __post_init__(self) -> None:
        sizes = tuple(int(size) for size in self.sizes)
        weights = tuple((np.asarray(w, np.float32), np.asarray(b, np.float32)) for w, b in self.weights)
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "weights", weights)
        if len(sizes) < 2 or min(sizes) < 1 or sizes[-1] < 2 or sizes[0] != self.features.size:
            widths = f"widths from {self.features.size} inputs, as the features give, to >= 2 actions"
            raise _plan_error("sizes", widths)
        count = len(weights[0][0]) if weights else 0
        shapes = [((count, n, k), (count, k)) for n, k in itertools.pairwise(sizes)]
        if count == 0 or [(w.shape, b.shape) for w, b in weights] != shapes:
            raise _plan_error("weights", "a pair ([m, in, out], [m, out]) for each layer of these sizes, m >= 1")
        if not all(np.isfinite(array).all() for pair in weights for layer in pair for array in layer):
            raise _plan_error("weights", "finite numbers")
        if not (math.isnan(self.floor) or 0.0 <= self.floor < 1.0 / sizes[-1]):
            raise _plan_error("floor", "0 <= floor < 1 / actions, or nan for softmax policies")
        if not 0.0 <= self.least < 1.0 / sizes[-1] or (self.least > 0.0 and not math.isnan(self.floor)):
            raise _plan_error("least", "0 <= least < 1 / actions, and 0 unless floor is nan")
        if self.activation not in ("tanh", "relu"):
            raise _plan_error("activation", "'tanh' or 'relu'")

    @classmethod
    def from_mlp(
        cls, features: Features, mlp: Mlp, theta: Float32, floor: float = 0.0, least: float = 0.0
    ) -> StackedPolicies:
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

    def take(self, which: Array | slice) -> StackedPolicies:
        """Some of the policies, in the order given: numbers [n], a mask [m] or a slice (a slice copies nothing)."""
        weights = tuple((w[which], b[which]) for w, b in self.weights)
        return StackedPolicies(self.features, self.sizes, weights, self.floor, self.activation, self.least)

    def greedy(self, observations: Array) -> NDArray[np.int64]:
        """Every policy's best action [m, S] in each of the observations [S, d]."""
        best = np.empty((self.count, len(observations)), np.int64)
        for at, outputs in self._outputs(observations):
            _fill_table(best, at, _best_actions(outputs))
        return best

    def disagreements(self, observations: Array, actions: Array) -> NDArray[np.bool_]:
        """Whether an action [S] is not the policy's best one in the observation [S, d]: [m, S]."""
        blocks = _to_blocks(np.asarray(actions)[:, None])[:, 0]
        disagree = np.empty((self.count, len(actions)), np.bool_)
        for at, outputs in self._outputs(observations):
            _fill_table(disagree, at, _best_actions(outputs) != blocks[at[1]])
        return disagree

    def likelihoods(self, observations: Array, actions: Array) -> NDArray[np.float64]:
        """The probability that every policy gives to the action [S] in the observation [S, d]: [m, S]."""
        if not math.isnan(self.floor):
            return np.where(self.disagreements(observations, actions), self.floor, self._best_probability)
        blocks = _to_blocks(np.asarray(actions)[:, None])
        probabilities = np.empty((self.count, len(actions)))
        for at, outputs in self._outputs(observations):
            taken = np.take_along_axis(self._softmax(outputs), blocks[None, at[1]], axis=2)
            _fill_table(probabilities, at, taken[:, :, 0])
        return probabilities

    def probabilities(self, observations: Array, which: Array) -> NDArray[np.float64]:
        """Of one policy an observation: action probabilities [S, A] of observations [S, d] under policies [S]."""
        which = np.asarray(which)
        x = self.features(observations)
        probabilities = np.empty((len(which), self.actions))
        order = np.argsort(which, kind="stable")
        owners, starts, rows = np.unique(which[order], return_index=True, return_counts=True)
        for n in np.unique(rows):
            group = np.flatnonzero(rows == n)
            for part in self._expert_chunks(len(group), -(-int(n) // _BLOCK), copied=True):
                experts = owners[group[part]]
                adjacent = experts[-1] - experts[0] + 1 == len(experts)
                seats = order[starts[group[part], None] + np.arange(n)]
                chosen = slice(experts[0], experts[-1] + 1) if adjacent else experts
                outputs = self._forward(_to_blocks(x[seats]), chosen)
                p = self._distribution(outputs).swapaxes(2, 3)
                probabilities[seats] = p.reshape(len(experts), -1, self.actions)[:, :n]
        return probabilities

    @property
    def _best_probability(self) -> float:
        return 1.0 - (self.actions - 1) * self.floor

    def _distribution(self, outputs: Float32) -> NDArray[np.float64]:
        """Probabilities of outputs [k, b, A, 16]."""
        if math.isnan(self.floor):
            return self._softmax(outputs)
        chosen = np.arange(self.actions)[:, None] == _best_actions(outputs)[:, :, None]
        return np.where(chosen, self._best_probability, self.floor)

    def _softmax(self, outputs: Float32) -> NDArray[np.float64]:
        z = np.nan_to_num(outputs).astype(np.float64)
        z -= z.max(axis=2, keepdims=True)
        np.exp(z, out=z)
        total = z[:, :, 0].copy()
        for action in range(1, self.actions):
            total += z[:, :, action]
        z *= (1.0 - self.actions * self.least) / total[:, :, None]
        z += self.least
        return z

    def _outputs(self, observations: Array) -> Iterator[tuple[tuple[slice, slice], Float32]]:
        """(experts, blocks) and their outputs [experts, blocks, A, 16], until all were given."""
        x = _to_blocks(self.features(observations))
        for experts in self._expert_chunks(self.count, min(len(x), _BLOCKS)):
            for blocks in _chunks(len(x), _BLOCKS):
                yield (experts, blocks), self._forward(x[blocks], experts)

    def _expert_chunks(self, count: int, blocks: int, copied: bool = False) -> Iterator[slice]:
        """Chunks of experts that hold few enough numbers between two layers, and weights if these are copied."""
        each = blocks * _BLOCK * max(self.sizes)
        if copied:
            each += sum(math.prod(weight.shape[1:]) for weight, _ in self.weights)
        return _chunks(count, max(1, _CHUNK_NUMBERS // max(1, each)))

    def _forward(self, x: Float32, experts: slice | Array) -> Float32:
        """Outputs [k, b, A, 16] of k experts for inputs [b, in, 16], or [k, b, in, 16] of their own."""
        for i, (weight, bias) in enumerate(self.weights):
            if i:
                x = np.tanh(x, out=x) if self.activation == "tanh" else np.maximum(x, np.float32(0.0), out=x)
            x = np.matmul(weight[experts].swapaxes(1, 2)[:, None], x)
            x += bias[experts][:, None, :, None]
        return x


def _to_blocks(rows: Array) -> Array:
    """Rows [..., S, d], zeros after the last, as [..., b, d, 16]."""
    *lead, count, size = rows.shape
    padded = np.zeros((*lead, -(-count // _BLOCK) * _BLOCK, size), rows.dtype)
    padded[..., :count, :] = rows
    return np.ascontiguousarray(padded.reshape(*lead, -1, _BLOCK, size).swapaxes(-1, -2))


def _fill_table(table: Array, at: tuple[slice, slice], values: Array) -> None:
    """Enter values [k, b, 16] of experts and blocks into [m, S]; what lies beyond S is padding."""
    experts, blocks = at
    part = table[experts, blocks.start * _BLOCK : blocks.stop * _BLOCK]
    part[...] = values.reshape(len(values), -1)[:, : part.shape[1]]


def _best_actions(outputs: Float32) -> NDArray[np.int16]:
    """The first of the largest outputs [k, b, A, 16]: [k, b, 16]."""
    largest = outputs[:, :, 0].copy()
    best = np.zeros(largest.shape, np.int16)
    for action in range(1, outputs.shape[2]):
        candidates = outputs[:, :, action]
        np.putmask(best, candidates > largest, action)
        np.maximum(largest, candidates, out=largest)
    return best


def _chunks(total: int, size: int) -> Iterator[slice]:
    for start in range(0, total, size):
        yield slice(start, min(total, start + size))


def _plan_error(name: str, expected: str) -> PlanError:
    remedy = "give every policy the same shape, one action at least, and probabilities that sum to one"
    return PlanError(f"{name} cannot be used", where="Stacked", expected=expected, remedy=remedy)
