"""What stands between a network's outputs and a distribution over actions.

A head serves G parameter vectors at once: outputs [G, n, o] of the network, free parameters [G, e] of its own, and
actions as they were played: [G, n] or [G, n, a]. It is a frozen dataclass whose fields are plain JSON values. A row's
numbers are the same bits whatever other rows there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import Box, Discrete, Space
from tacit.errors import PlanError

Array = NDArray[Any]
F32 = NDArray[np.float32]

_LOG_SQRT_2PI = 0.5 * float(np.log(2.0 * np.pi))


class Head(Protocol):
    """A distribution over actions."""

    @property
    def outputs(self) -> int:
        """o, how many numbers of the network it reads for one observation."""

    @property
    def parameters(self) -> int:
        """e, how many parameters of its own it has, 0 at first."""

    def draw(self, outputs: F32, free: F32, generator: np.random.Generator) -> Array:
        """Actions to play [G, n] or [G, n, a]."""

    def greedy(self, outputs: F32) -> Array:
        """The most probable action, or the middle of the distribution."""

    def log_probability(self, outputs: F32, free: F32, actions: Array) -> F32:
        """[G, n] of actions that were played."""

    def slopes(
        self, outputs: F32, free: F32, actions: Array, weight: F32, entropy: Array | float = 0.0
    ) -> tuple[F32, F32]:
        """Slopes of sum_n weight log p(action) + entropy H by the outputs [G, n, o] and the free parameters [G, e].
        `weight` is [G, n]; `entropy`, the coefficient of H (in nats) of each row's distribution, [G, n] or the same in
        all."""


@dataclass(frozen=True)
class Categorical:
    """One of `actions` actions, with probabilities softmax(outputs); no parameters of its own."""

    actions: int
    kind: Literal["categorical"] = field(default="categorical", init=False)
    parameters = 0

    def __post_init__(self) -> None:
        if type(self.actions) is not int or self.actions < 2:
            raise plan_error("actions", self.actions, "a whole number >= 2")

    @property
    def outputs(self) -> int:
        """One output an action."""
        return self.actions

    def draw(self, outputs: F32, free: F32, generator: np.random.Generator) -> Array:
        """int64 actions [G, n]: the largest of outputs plus Gumbel noise."""
        del free
        waiting = generator.standard_exponential(outputs.shape, dtype=np.float32)
        noise = np.log(np.maximum(waiting, np.finfo(np.float32).tiny))
        return np.asarray((outputs - noise).argmax(axis=2), np.int64)

    def greedy(self, outputs: F32) -> Array:
        """The most probable action, int64 [G, n]."""
        return np.asarray(outputs.argmax(axis=2), np.int64)

    def log_probability(self, outputs: F32, free: F32, actions: Array) -> F32:
        """[G, n] of actions [G, n]."""
        del free
        return np.asarray(np.take_along_axis(_log_softmax(outputs), actions[None], axis=0)[0])

    def slopes(
        self, outputs: F32, free: F32, actions: Array, weight: F32, entropy: Array | float = 0.0
    ) -> tuple[F32, F32]:
        """By outputs: weight (indicator of the action - p) - entropy p (log p + H)."""
        logs = _log_softmax(outputs)
        p = np.exp(logs)
        slope = ((actions == np.arange(self.actions)[:, None, None]) - p) * weight
        if np.any(entropy):
            coefficient = np.broadcast_to(np.asarray(entropy, np.float32), weight.shape)
            slope -= coefficient * p * (logs - _sum_in_order(p * logs))
        return np.ascontiguousarray(slope.transpose(1, 2, 0), np.float32), np.zeros_like(free)


@dataclass(frozen=True)
class Gaussian:
    """Independent normal dimensions, clipped: clip(mean + outputs + std exp(free) z, low, high), z standard normal.

    What is played, and what its score is taken of, is the clipped action: inside the bounds the density is the normal
    one, on a bound there is the probability of lying beyond it (Fujita and Maeda, arXiv:1802.07564). The score of the
    action before the clip would need a record of it, and varies more.

    Raises PlanError of bounds that are not finite or inverted, a mean outside them, or a std that is not positive.
    """

    low: tuple[float, ...]  # low, high: bounds of the action, (a,)
    high: tuple[float, ...]
    mean: tuple[float, ...]  # the middle of the distribution where the outputs are 0, (a,)
    std: float  # its standard deviation in every dimension, or (with `learned_std`) the first one
    learned_std: bool = False  # whether the standard deviations are learnt, one a dimension, the same in every state
    kind: Literal["gaussian"] = field(default="gaussian", init=False)

    def __post_init__(self) -> None:
        for name in ("low", "high", "mean"):
            object.__setattr__(self, name, tuple(float(v) for v in getattr(self, name)))
        lengths_fit = 0 < len(self.low) == len(self.high) == len(self.mean)
        inside = lengths_fit and all(
            -np.inf < a <= m <= b < np.inf and a < b for a, m, b in zip(self.low, self.mean, self.high, strict=True)
        )
        if not inside:
            raise plan_error("low, mean, high", (self.low, self.mean, self.high), "finite bounds, with the mean inside")
        if not 0 < self.std < np.inf:
            raise plan_error("std", self.std, "a finite number > 0")

    @property
    def outputs(self) -> int:
        """One output a dimension of the action."""
        return len(self.low)

    @property
    def parameters(self) -> int:
        """The logarithms of std over the first std, if they are learnt."""
        return len(self.low) if self.learned_std else 0

    def draw(self, outputs: F32, free: F32, generator: np.random.Generator) -> Array:
        """float32 actions [G, n, a] within the bounds."""
        z = generator.standard_normal(outputs.shape, dtype=np.float32)
        return self._clip_to_bounds(outputs + self._spread(free) * z)

    def greedy(self, outputs: F32) -> Array:
        """The middle, float32 [G, n, a]."""
        return self._clip_to_bounds(outputs)

    def log_probability(self, outputs: F32, free: F32, actions: Array) -> F32:
        """Log-density, or log-probability of a bound, summed over dimensions: [G, n]."""
        from scipy.special import log_ndtr

        spread = self._spread(free)
        z, below, above = self._z_scores(outputs, spread, actions)
        inside = -0.5 * np.square(z) - np.log(spread) - _LOG_SQRT_2PI
        logs = np.where(below, log_ndtr(z), np.where(above, log_ndtr(-z), inside))
        return np.asarray(logs.sum(axis=2), np.float32)

    def slopes(
        self, outputs: F32, free: F32, actions: Array, weight: F32, entropy: Array | float = 0.0
    ) -> tuple[F32, F32]:
        """As the protocol; the entropy is that of the normal distribution before the clip."""
        from scipy.special import log_ndtr

        spread = self._spread(free)
        z, below, above = self._z_scores(outputs, spread, actions)
        by_centre = z.copy()  # in units of 1 / spread: z inside, the inverse Mills ratio beyond a bound
        for at, sign in ((below, -1.0), (above, 1.0)):
            if at.any():
                edge = -sign * z[at].astype(np.float64)
                by_centre[at] = sign * np.exp(-0.5 * np.square(edge) - _LOG_SQRT_2PI - log_ndtr(edge))
        slope = weight[..., None] * by_centre / spread
        if not self.learned_std:
            return np.asarray(slope, np.float32), np.zeros_like(free)
        by_log = by_centre * z - np.where(below | above, 0.0, 1.0)
        coefficient = np.broadcast_to(np.asarray(entropy, np.float32), weight.shape)[..., None]
        by_free = (weight[..., None] * by_log + coefficient).sum(axis=1)
        return np.asarray(slope, np.float32), np.asarray(by_free, np.float32)

    def _spread(self, free: F32) -> F32:
        log = free if self.learned_std else np.zeros((len(free), len(self.low)), np.float32)
        return np.asarray(np.float32(self.std) * np.exp(log), np.float32)[:, None]

    def _clip_to_bounds(self, shift: F32) -> F32:
        low, high = Box(self.low, self.high).float32_bounds()
        return np.asarray(np.clip(np.asarray(self.mean, np.float32) + shift, low, high), np.float32)

    def _z_scores(self, outputs: F32, spread: F32, actions: Array) -> tuple[F32, NDArray[np.bool_], NDArray[np.bool_]]:
        """(action - centre) / spread, and where the action is on its lower or its upper bound."""
        low, high = Box(self.low, self.high).float32_bounds()
        z = (actions - np.asarray(self.mean, np.float32) - outputs) / spread
        return np.asarray(z, np.float32), actions <= low, actions >= high


def default_head(space: Space) -> Head:
    """`Categorical` for a discrete action; for a continuous one `Gaussian`, its std a quarter of the range."""
    if isinstance(space, Discrete):
        return Categorical(space.n)
    low, high = np.asarray(space.low), np.asarray(space.high)
    widths = (high - low) / 4
    return Gaussian(space.low, space.high, tuple((low + high) / 2), float(widths.min()))


def is_compatible(head: Head, space: Space) -> bool:
    """Whether the head's actions are those of this space."""
    if isinstance(head, Categorical):
        return isinstance(space, Discrete) and space.n == head.actions
    return isinstance(head, Gaussian) and space == Box(head.low, head.high)


def _log_softmax(outputs: F32) -> F32:
    """[o, G, n] of outputs [G, n, o]: sums over a first axis are several times as fast as over a short last one."""
    columns = np.array(outputs.transpose(2, 0, 1), np.float32, order="C")  # a copy: it is changed below
    columns -= columns.max(axis=0)
    columns -= np.log(_sum_in_order(np.exp(columns)))
    return columns


def _sum_in_order(columns: F32) -> F32:
    """The sum over the first axis in its own order: NumPy adds a lone column pairwise, with other bits."""
    total: F32 = columns[0].copy()
    for column in columns[1:]:
        total += column
    return total


def plan_error(name: str, value: object, expected: str) -> PlanError:
    return PlanError(f"{name} is {value!r}", where="policy", expected=expected, remedy=f"choose another {name}")
