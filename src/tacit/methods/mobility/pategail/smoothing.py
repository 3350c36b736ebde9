"""From noisy rewards of some state-action pairs to rewards of all: what neighbours in the embedding space say together.

Post-processing of released values: it costs nothing. A Gaussian process with the known variance of the noise weighs
what was released against rewards near 0, so that noise of the size of the rewards does not drive the policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.methods.mobility.pategail.embedding import Embedding

Array = NDArray[Any]
Float64 = NDArray[np.float64]

WIDTH = 1.0
"""Distance in the embedding space at which two rewards still have correlation exp(-1/2)."""
SPREAD = 0.15
"""Standard deviation of a calibrated reward before anything is released."""
JITTER = 1e-3


@dataclass(frozen=True, eq=False)
class Smoothed:
    """The mean of the process given what was released.

    Args:
        embedding: of the pairs.
        centres: embedded pairs [B, d] that were asked.
        coefficients: [B].
    """

    embedding: Embedding
    centres: Float64
    coefficients: Float64

    @classmethod
    def of(cls, embedding: Embedding, codes: Array, rewards: Float64, variance: Float64) -> Smoothed:
        """Of released rewards [B] of pairs `codes` [B] whose noise has this variance [B]."""
        centres = embedding.embedded(codes).astype(np.float64)
        noise = np.maximum(variance, (JITTER * SPREAD) ** 2)
        gram = SPREAD**2 * _kernel(centres, centres) + np.diag(noise)
        return cls(embedding, centres, SPREAD**2 * np.linalg.solve(gram, rewards))

    def __call__(self, codes: Array) -> Float64:
        """Rewards [T] of pairs [T]."""
        x = self.embedding.embedded(codes).astype(np.float64)
        return np.asarray(_kernel(x, self.centres) @ self.coefficients)


def _kernel(a: Float64, b: Float64) -> Float64:
    square = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2 * a @ b.T
    return np.asarray(np.exp(np.maximum(square, 0.0) / (-2 * WIDTH**2)))
