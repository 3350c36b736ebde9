"""Adam and RMSprop for the parameters of several agents [G, P], changed in place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Adam", "RmsProp", "bounded"]

F32 = npt.NDArray[np.float32]

_SMALL = 1e-5


def bounded(slope: F32, norm: float) -> F32:
    """Slopes [G, P] shortened to the Euclidean norm `norm` at most, each agent's own."""
    length = np.linalg.norm(slope, axis=1, keepdims=True)
    return np.asarray(slope * np.minimum(1.0, norm / np.maximum(length, 1e-12)), dtype=np.float32)


@dataclass
class Adam:
    """Kingma and Ba 2015, algorithm 1, with decays 0.9 and 0.999 and epsilon 1e-5.

    Args:
        first, second: [G, P] moving averages of slopes and squared slopes, 0 before the first step.
        steps: steps taken.
    """

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
        theta += np.float32(size) * self.first / (root + np.float32(_SMALL))


@dataclass
class RmsProp:
    """Division by the root of a moving average (decay 0.99) of squared slopes, plus 1e-5.

    Args:
        second: [G, P] the moving average, 0 before the first step.
    """

    second: F32

    def ascend(self, theta: F32, slope: F32, rate: float) -> None:
        """One step of theta [G, P] up the slope [G, P]."""
        self.second += np.float32(0.01) * (slope * slope - self.second)
        theta += np.float32(rate) * slope / (np.sqrt(self.second) + np.float32(_SMALL))
