"""What stands between a network's outputs and the actions of an actor-critic agent, many agents at once.

A head maps outputs [G, N, o] of G agents and its own free parameters [G, e] to a distribution over actions, and gives
the slopes of log-probabilities and entropies. `raw` actions are what the distribution is over; `played` turns them
into those of the environment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Categorical", "Gaussian", "Head"]

Array = npt.NDArray[Any]
F32 = npt.NDArray[np.float32]

_LOG_ROOT = 0.5 * float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class Categorical:
    """One of `actions` actions with probabilities softmax(outputs); no free parameters."""

    actions: int
    free = 0

    @property
    def outputs(self) -> int:
        """Outputs that the head reads."""
        return self.actions

    def draw(self, outputs: F32, free: F32, generator: np.random.Generator) -> Array:
        """Raw actions [G, N]: the largest of outputs plus Gumbel noise."""
        del free
        return np.asarray((outputs - np.log(generator.standard_exponential(outputs.shape))).argmax(axis=2))

    def greedy(self, outputs: F32) -> Array:
        """The most probable raw actions [G, N]."""
        return np.asarray(outputs.argmax(axis=2))

    def played(self, raw: Array) -> Array:
        """int64 actions of the environment."""
        return raw.astype(np.int64)

    def log_probability(self, outputs: F32, free: F32, raw: Array) -> F32:
        """[G, N] of raw actions [G, N]."""
        del free
        return np.asarray(np.take_along_axis(_log_softmax(outputs), raw[..., None], axis=2)[..., 0])

    def slopes(self, outputs: F32, free: F32, raw: Array, weight: F32, entropy: float) -> tuple[F32, F32]:
        """Slopes of sum over N of weight [G, N] log p(raw) + entropy H, by outputs [G, N, o] and by `free` [G, e]."""
        logs = _log_softmax(outputs)
        p = np.exp(logs)
        slope = -weight[..., None] * p
        at = raw[..., None]
        np.put_along_axis(slope, at, np.take_along_axis(slope, at, axis=2) + weight[..., None], axis=2)
        if entropy:
            slope -= np.float32(entropy) * p * (logs - (p * logs).sum(axis=2, keepdims=True))
        return slope, np.zeros_like(free)


@dataclass(frozen=True)
class Gaussian:
    """Independent normal actions: clip(mean + scale (outputs + exp(free) z), low, high), z standard normal.

    Raw actions are outputs + exp(free) z, so that the network and the learned spread work in units of `scale`.

    Args:
        low, high: [a] bounds of the environment's actions.
        mean, scale: [a] the middle and the unit of the raw actions.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]

    @property
    def outputs(self) -> int:
        """Outputs that the head reads."""
        return len(self.low)

    @property
    def free(self) -> int:
        """Free parameters: the logarithms of the spreads."""
        return len(self.low)

    def draw(self, outputs: F32, free: F32, generator: np.random.Generator) -> Array:
        """Raw actions [G, N, a]."""
        z = generator.standard_normal(outputs.shape, dtype=np.float32)
        return np.asarray(outputs + np.exp(free)[:, None] * z)

    def greedy(self, outputs: F32) -> Array:
        """The mean raw actions [G, N, a]."""
        return outputs

    def played(self, raw: Array) -> Array:
        """float32 actions of the environment."""
        actions = np.asarray(self.mean, dtype=np.float32) + np.asarray(self.scale, dtype=np.float32) * raw
        return np.asarray(np.clip(actions, self.low, self.high), dtype=np.float32)

    def log_probability(self, outputs: F32, free: F32, raw: Array) -> F32:
        """Log-density [G, N] of raw actions [G, N, a]."""
        z = (raw - outputs) * np.exp(-free)[:, None]
        constant = free.sum(axis=1)[:, None] + np.float32(_LOG_ROOT * self.outputs)
        return np.asarray(-0.5 * np.square(z).sum(axis=2) - constant)

    def slopes(self, outputs: F32, free: F32, raw: Array, weight: F32, entropy: float) -> tuple[F32, F32]:
        """Slopes of sum over N of weight [G, N] log p(raw) + entropy H, by outputs [G, N, a] and by `free` [G, a]."""
        sharpness = np.exp(-free)[:, None]
        z = (raw - outputs) * sharpness
        by_free = (weight[..., None] * (np.square(z) - 1.0)).sum(axis=1) + np.float32(entropy * outputs.shape[1])
        return np.asarray(weight[..., None] * z * sharpness), np.asarray(by_free)


Head = Categorical | Gaussian


def _log_softmax(outputs: F32) -> F32:
    shifted = outputs - outputs.max(axis=2, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=2, keepdims=True)))
