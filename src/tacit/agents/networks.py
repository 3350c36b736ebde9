"""Networks of many people at once: G parameter vectors, one a group, each with its own rows.

A group is whatever shares a parameter vector: a seed during a rollout, a person during a local update. Every product is
batched over the groups, one matrix product a group, so a group's numbers are the same bits whatever other groups there
are, how many, and what they hold.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tacit import rowwise
from tacit.errors import PlanError

__all__ = ["Adam", "Float32", "FunctionalNetwork", "Mlp", "RmsProp", "clip_by_norm"]


Float32 = npt.NDArray[np.float32]


class FunctionalNetwork(Protocol):
    """A function of rows with a flat float32 vector of P parameters; no state, no randomness, no mixing of rows."""

    @property
    def inputs(self) -> int:
        """Width of a row."""

    @property
    def outputs(self) -> int:
        """Width of what is computed of a row."""

    @property
    def parameters(self) -> int:
        """P."""

    def initial_parameters(self, generator: np.random.Generator, groups: int) -> Float32:
        """Random first parameters [groups, P]; those of the first groups do not depend on how many follow."""

    def forward(self, theta: Float32, x: npt.NDArray[Any]) -> tuple[Float32, Any]:
        """Parameters [G, P] and rows [G, N, inputs] -> outputs [G, N, outputs] and what `backward` needs of them."""

    def backward(self, theta: Float32, cache: Any, gradient: Float32, pieces: int = 1) -> Float32:
        """Gradients with respect to theta.

        Args:
            theta: [G, P], those of the `forward` that made the cache.
            cache: from `forward`.
            gradient: [G, N, outputs], with respect to the outputs.
            pieces: N = pieces * n; every n consecutive rows are summed by themselves.

        Returns:
            [G, pieces, P].
        """


@dataclass(frozen=True)
class Mlp:
    """Linear layers with tanh between them; with one layer a linear function.

    The rows of a layer are multiplied by a matrix [in + 1, out], whose last row is the bias; theta is these matrices
    one after another, flattened row by row. Parameters may be a broadcast view (one vector for all groups). Activations
    of more than about 500 x 64 numbers outgrow the processor's caches: pass fewer groups at a time.

    Raises PlanError of fewer than two sizes, a size below 1, or a gain that is negative or not finite.
    """

    sizes: tuple[int, ...]  # widths from the input to the output, (4, 64, 64, 2) for the network of the paper
    # first weights are orthogonal matrices, times sqrt(2) in hidden layers and times `gain` in the last
    gain: float = 0.01

    def __post_init__(self) -> None:
        widths = [size for size in self.sizes if isinstance(size, int) and size >= 1]
        if len(widths) != len(self.sizes) or len(widths) < 2 or not 0.0 <= self.gain < math.inf:
            what = f"sizes={self.sizes!r} with gain={self.gain!r} is no network"
            expected = "at least two widths, whole numbers >= 1, and a finite gain >= 0"
            raise PlanError(what, where="Mlp", expected=expected, remedy="pass sizes=(inputs, hidden, ..., outputs)")

    @property
    def inputs(self) -> int:
        """Width of a row."""
        return self.sizes[0]

    @property
    def outputs(self) -> int:
        """Width of what is computed of a row."""
        return self.sizes[-1]

    @property
    def parameters(self) -> int:
        """P."""
        return sum((n + 1) * m for n, m in itertools.pairwise(self.sizes))

    def layers(self, theta: Float32) -> list[Float32]:
        """Views [..., in + 1, out] of parameters [..., P], one a layer, the bias in the last row."""
        views, start, lead = [], 0, theta.shape[:-1]
        for n, m in itertools.pairwise(self.sizes):
            end = start + (n + 1) * m
            views.append(theta[..., start:end].reshape(*lead, n + 1, m))
            start = end
        return views

    def initial_parameters(self, generator: np.random.Generator, groups: int) -> Float32:
        """Orthogonal weights, biases 0, [groups, P]."""
        theta = np.zeros((groups, self.parameters), np.float32)
        for row in theta:
            views = self.layers(row)
            for layer in views:
                n, m = layer.shape[0] - 1, layer.shape[1]
                q, r = np.linalg.qr(generator.normal(size=(max(n, m), min(n, m))))
                q *= np.where(np.diagonal(r) < 0.0, -1.0, 1.0)
                layer[:-1] = (self.gain if layer is views[-1] else math.sqrt(2.0)) * (q if n >= m else q.T)
        return theta

    def forward(self, theta: Float32, x: npt.NDArray[Any]) -> tuple[Float32, list[Float32]]:
        """Parameters [G, P] and rows [G, N, inputs] -> outputs [G, N, outputs] and the inputs of every layer."""
        views = self.layers(theta)
        layer_inputs = _empty_with_bias(x.shape)
        layer_inputs[..., :-1] = x
        cache, out = [layer_inputs], layer_inputs @ views[0]
        for view in views[1:]:
            layer_inputs = _empty_with_bias(out.shape)
            np.tanh(out, out=layer_inputs[..., :-1])
            cache.append(layer_inputs)
            with np.errstate(invalid="ignore"):  # rarely seen for finite numbers: a BLAS may raise it for padded lanes
                out = layer_inputs @ view
        return out, cache

    def forward_rowwise(self, theta: Float32, x: npt.NDArray[Any]) -> Float32:
        """The outputs of `forward` for what is decided on them: a row's bits are its own, also beside other rows."""
        views, out = self.layers(theta), np.asarray(x, np.float64)
        for i, view in enumerate(views):
            out = rowwise.product(rowwise.tanh(out) if i else out, view[..., :-1, :]) + view[..., -1:, :]
        return out.astype(np.float32)

    def backward(self, theta: Float32, cache: list[Float32], gradient: Float32, pieces: int = 1) -> Float32:
        """Gradients [G, pieces, P] with respect to theta (see `Network.backward`)."""
        groups, rows = gradient.shape[:2]
        shape = (groups, pieces, rows // pieces)
        result = np.empty((groups, pieces, self.parameters), np.float32)
        views, sums = self.layers(theta), self.layers(result)
        for i in range(len(views) - 1, -1, -1):
            layer_inputs = cache[i]
            transposed = layer_inputs.reshape(*shape, layer_inputs.shape[-1]).swapaxes(-1, -2)
            np.matmul(transposed, gradient.reshape(*shape, gradient.shape[-1]), out=sums[i])
            if i:
                hidden = layer_inputs[..., :-1]
                slope = hidden * hidden
                np.subtract(np.float32(1.0), slope, out=slope)
                gradient = gradient @ views[i][..., :-1, :].swapaxes(-1, -2)
                gradient *= slope
        return result


def _empty_with_bias(shape: tuple[int, ...]) -> Float32:
    """[..., n + 1] for rows [..., n], the last column 1."""
    rows = np.empty((*shape[:-1], shape[-1] + 1), np.float32)
    rows[..., -1] = 1.0
    return rows


# Adam and RMSprop for the parameters of several agents [G, P], changed in place.


F32 = npt.NDArray[np.float32]

_EPSILON = 1e-5


def clip_by_norm(slope: F32, norm: float) -> F32:
    """Slopes [G, P] shortened to the Euclidean norm `norm` at most, each agent's own."""
    length = np.linalg.norm(slope, axis=1, keepdims=True)
    return np.asarray(slope * np.minimum(1.0, norm / np.maximum(length, 1e-12)), dtype=np.float32)


@dataclass
class Adam:
    """Kingma and Ba 2015, algorithm 1, with decays 0.9 and 0.999 and epsilon 1e-5: `first` and `second` [G, P], moving
    averages of slopes and squared slopes, are 0 before the first step."""

    first: F32
    second: F32
    steps: int = 0

    def ascend(self, theta: F32, slope: F32, rate: float) -> None:
        """One step of theta [G, P] up the slope [G, P]."""
        self.steps += 1
        self.first += np.float32(0.1) * (slope - self.first)
        self.second += np.float32(0.001) * (slope * slope - self.second)
        size = rate / (1.0 - 0.9**self.steps)
        root = np.sqrt(self.second / np.float32(1.0 - 0.999**self.steps))
        theta += np.float32(size) * self.first / (root + np.float32(_EPSILON))


@dataclass
class RmsProp:
    """Division by the root of a moving average (decay 0.99) of squared slopes, [G, P], plus 1e-5."""

    second: F32

    def ascend(self, theta: F32, slope: F32, rate: float) -> None:
        """One step of theta [G, P] up the slope [G, P]."""
        self.second += np.float32(0.01) * (slope * slope - self.second)
        theta += np.float32(rate) * slope / (np.sqrt(self.second) + np.float32(_EPSILON))
