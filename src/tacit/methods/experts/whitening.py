"""Inputs of one size in every direction, from noisy second moments of what experts see.

Logs of experts hardly move in some directions (the cart of a good controller stays in the middle), and gradient steps
learn next to nothing along these. One noisy sum tells how large each direction is; steps are then taken in coordinates
in which all are alike. Every expert adds the root mean square of its inputs and the direction of its Gram matrix, each
over sqrt(2), so that its vector has norm 1 at most, whatever it saw.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.agents.features import Features
from tacit.agents.networks import Mlp
from tacit.privacy.mechanisms.base import Summary

Array = NDArray[Any]
Float64 = NDArray[np.float64]

_LEAST = 1e-4
"""Smallest eigenvalue that is believed, of a Gram matrix of Frobenius norm 1."""

_CHUNK = 65_536
"""Rows whose inputs are multiplied at a time."""


@dataclass(frozen=True)
class Moments:
    """An expert's contribution: how large its inputs are, and in which directions.

    Args:
        summary: gives "observations" [U, k, ...] and "mask" [U, k].
        features: public map from observations to F inputs in [-1, 1].
    """

    summary: Summary
    features: Features

    def __call__(self, rows: Mapping[str, Array], state: Any) -> Array:
        """[U, 1 + F (F + 1) / 2]."""
        mask, size = rows["mask"], self.features.size
        upper, factors = _upper(size)
        vectors = np.zeros((len(mask), 1 + len(factors)))
        step = max(1, _CHUNK // mask.shape[1])
        for start in range(0, len(mask), step):
            some = slice(start, start + step)
            x = self.features(rows["observations"][some]) * mask[some][..., None].astype(np.float64)
            gram = x.swapaxes(1, 2) @ x / np.maximum(mask[some].sum(axis=1), 1)[:, None, None]
            vectors[some, 0] = np.sqrt(np.trace(gram, axis1=1, axis2=2) / size)
            direction = gram[:, upper[0], upper[1]] * factors
            length = np.sqrt(np.square(direction).sum(axis=1, keepdims=True))
            vectors[some, 1:] = direction / np.maximum(length, np.finfo(np.float64).tiny)
        return vectors / math.sqrt(2)


def whitener(released: Float64, noise: float, size: int) -> Float64:
    """Matrices T [R, F, F], symmetric, so that the inputs T x have second moments of about 1 in every direction.

    Args:
        released: noisy means of `Moments` [R, 1 + F (F + 1) / 2].
        noise: standard deviation of their noise; directions that drown in it are taken to be of its size.
        size: F.
    """
    upper, factors = _upper(size)
    noise *= math.sqrt(2)
    found = np.empty((len(released), size, size))
    for one, vector in zip(found, math.sqrt(2) * released, strict=True):
        gram = np.zeros((size, size))
        gram[upper] = gram.T[upper] = vector[1:] / factors
        values, vectors = np.linalg.eigh(gram)
        values = np.maximum(values, max(2 * noise * math.sqrt(size), _LEAST))
        mean_square = max(vector[0], 3 * noise, 1e-3) ** 2
        values *= size * mean_square / values.sum()
        one[:] = vectors / np.sqrt(values) @ vectors.T
    return found


def through(matrices: Array, network: Mlp, parameters: Array) -> Array:
    """The parameters [G, P] with the weights of their first layer W [F, H] replaced by T W, for T [G, F, F].

    It takes parameters for whitened inputs to those for plain ones, and gradients the other way (T is symmetric).
    """
    result = parameters.copy()
    first = network.layers(result)[0][:, :-1]
    first[:] = matrices @ first
    return result


def _upper(size: int) -> tuple[tuple[Array, Array], Float64]:
    """The upper triangle, and factors that make its vector as long as the matrix."""
    upper = np.triu_indices(size)
    return upper, np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
