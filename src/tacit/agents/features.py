"""Public maps from observations to the inputs of a network: nothing in them is fitted to records. Every map is a frozen
dataclass whose fields are plain JSON values; `from_json` reads them again."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from tacit import rowwise
from tacit.agents.heads import plan_error
from tacit.data.spec import Box, Discrete, Space

# The Fourier cosine basis (Konidaris, Osentoski and Thomas, "Value function approximation in reinforcement learning
# using the Fourier basis", AAAI 2011).


FloatArray = npt.NDArray[np.float64]


def frequencies(dimensions: int, order: int, *, coupled: bool = True) -> FloatArray:
    """The frequencies c [n, d]; the first row is 0, the constant feature.

    Args:
        dimensions: d.
        order: the largest frequency in a dimension.
        coupled: all (order + 1)^d combinations, or the d * order + 1 with at most one dimension that is not 0.
    """
    if coupled:
        return np.array(list(itertools.product(range(order + 1), repeat=dimensions)), dtype=np.float64)
    single = [k * np.eye(dimensions)[i] for i in range(dimensions) for k in range(1, order + 1)]
    return np.array([np.zeros(dimensions), *single])


def fourier(observations: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike, c: npt.ArrayLike) -> FloatArray:
    """cos(pi x . c) [N, n] of observations [N, d], x scaled from the bounds low, high [d] to [0, 1] and moved onto it.

    Args:
        observations: [N, d].
        low, high: [d] bounds of each dimension.
        c: [n, d] frequencies.
    """
    low, span = np.asarray(low, dtype=np.float64), np.subtract(high, low, dtype=np.float64)
    x = np.clip((np.asarray(observations, dtype=np.float64) - low) / span, 0.0, 1.0)
    phase = rowwise.product(x, (np.pi * np.asarray(c, dtype=np.float64)).T)
    return np.asarray(np.cos(phase, out=phase))


Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class Scaled:
    """Each dimension of the observation, moved from its public range to [-1, 1]; what lies outside is clipped. The
    range (low, high, (d,)) is a typical one, which may be narrower than the spec's bounds. Raises PlanError where it is
    not finite, unequal in number or inverted."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    kind: Literal["scaled"] = field(default="scaled", init=False)

    def __post_init__(self) -> None:
        _check_bounds(self)

    @property
    def size(self) -> int:
        """d."""
        return len(self.low)

    def __call__(self, observations: NDArray[Any]) -> Float32:
        """Observations [..., d] -> inputs [..., d] in [-1, 1]."""
        return _scale(observations, self.low, self.high)


@dataclass(frozen=True)
class OneHot:
    """One input for each of the states 0 .. n - 1 of a discrete observation; other states (absorbing ones, say) are all
    zeros. Raises PlanError where n is not a whole number of at least 1."""

    n: int
    kind: Literal["one_hot"] = field(default="one_hot", init=False)
    tabular: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if type(self.n) is not int or self.n < 1:
            raise plan_error("n", self.n, "a whole number >= 1")

    @property
    def size(self) -> int:
        """n."""
        return self.n

    def __call__(self, observations: NDArray[Any]) -> Float32:
        """States [...] -> indicators [..., n]."""
        return np.asarray(np.asarray(observations)[..., None] == np.arange(self.n), np.float32)

    def constant(self, value: float) -> FloatArray:
        """The parameters [n] of a linear function that has this value in every state."""
        return np.full(self.n, value)


@dataclass(frozen=True)
class Quadratic:
    """`Scaled` dimensions x_i and all their products x_i x_j, i <= j: d + d (d + 1) / 2 inputs, without a constant."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    kind: Literal["quadratic"] = field(default="quadratic", init=False)

    def __post_init__(self) -> None:
        _check_bounds(self)

    @property
    def size(self) -> int:
        """d + d (d + 1) / 2."""
        d = len(self.low)
        return d + d * (d + 1) // 2

    def __call__(self, observations: NDArray[Any]) -> Float32:
        """Observations [..., d] -> inputs [..., size], each in [-1, 1]."""
        x = _scale(observations, self.low, self.high)
        i, j = np.triu_indices(len(self.low))
        return np.concatenate([x, x[..., i] * x[..., j]], axis=-1)


Features = Scaled | OneHot | Quadratic


def default_features(space: Space) -> Features:
    """`OneHot` of a discrete observation, `Scaled` by the spec's own bounds of a continuous one."""
    return OneHot(space.n) if isinstance(space, Discrete) else Scaled(space.low, space.high)


def is_compatible(features: Features, space: Space) -> bool:
    """Whether the map takes observations of this space."""
    if isinstance(features, OneHot):
        return isinstance(space, Discrete) and space.n == features.n
    return isinstance(space, Box) and space.size == len(features.low)


def _scale(observations: NDArray[Any], low: tuple[float, ...], high: tuple[float, ...]) -> Float32:
    a, b = np.asarray(low, np.float32), np.asarray(high, np.float32)
    x = (np.asarray(observations, np.float32) - (a + b) / 2) * (2 / (b - a))
    return np.asarray(np.clip(x, -1, 1), np.float32)


def _check_bounds(features: Scaled | Quadratic) -> None:
    for name in ("low", "high"):
        object.__setattr__(features, name, tuple(float(v) for v in getattr(features, name)))
    low, high = features.low, features.high
    finite = bool(np.isfinite(low).all() and np.isfinite(high).all()) and len(low) == len(high) > 0
    ok = finite and all(np.float32(a) < np.float32(b) for a, b in zip(low, high, strict=True))
    if not ok:
        raise plan_error("low, high", (low, high), "finite bounds of every dimension, the lower first")
