"""Adam on many people's own rows at once, each person's parameters by themselves.

Everything that is batched is batched over people who have equally many minibatches and are padded to the same width,
and both follow from a person's own number of rows: so a person's result is the same bits whoever else is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.validation import check

Array = NDArray[Any]
Float32 = NDArray[np.float32]
Gradient = Callable[[Float32, Mapping[str, Array]], Float32]
"""(parameters [G, P], columns [G, n, ...]) -> the direction of ascent [G, P], which is overwritten afterwards.

The column "share" is 1 / (how many rows of the minibatch the person has), and 0 where there is no row.
"""

_TOGETHER = 512
"""Rows of a minibatch, of all people that are trained side by side: more would leave the processor's caches."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """Adam over minibatches of own rows; a person with n rows makes min(minibatches, n) steps an epoch.

    Args:
        learning_rate: of Adam.
        epochs: how often a person's rows are passed through.
        minibatches: into how many equal parts a pass is cut, after shuffling.
        beta1, beta2, epsilon: Adam's.

    Raises:
        PlanError: a parameter is outside its range.
    """

    learning_rate: float = 2.5e-4
    epochs: int = 8
    minibatches: int = 2
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        for name in ("epochs", "minibatches"):
            count = getattr(self, name)
            check(name, count, type(count) is int and count >= 1, "a whole number >= 1")
        for name in ("learning_rate", "epsilon"):
            check(name, getattr(self, name), 0 < getattr(self, name) < math.inf, "a finite number > 0")
        for name in ("beta1", "beta2"):
            check(name, getattr(self, name), 0 <= getattr(self, name) < 1, "a number in [0, 1)")

    def __call__(
        self,
        theta: Float32,
        columns: Mapping[str, Array],
        counts: Array,
        gradient: Gradient,
        seed: int,
        moments: Float32 | None = None,
    ) -> Float32:
        """Train U people.

        Args:
            theta: [U, P], where each begins.
            columns: [U, L, ...], each person's rows first.
            counts: [U], how many rows each person has, at least 1.
            gradient: what is ascended, of the people and rows that it is given.
            seed: a public number that decides on the shuffling, the same for everybody.
            moments: [U, P], Adam's first moments to begin with, as after very many steps, their squares being the
                second ones; None begins from 0 with the usual correction.

        Returns:
            phi - theta [U, P].
        """
        (length,) = {column.shape[1] for column in columns.values()}
        keys = np.random.default_rng(seed).random((self.epochs, length))
        result = np.empty_like(theta)
        cuts = np.minimum(self.minibatches, counts)
        # To the next power of two of the person's own width, never to the longest person's.
        widths = np.minimum(2 ** np.ceil(np.log2(-(-counts // cuts))).astype(np.int64), -(-length // self.minibatches))
        for cut, width in np.unique(np.stack([cuts, widths], axis=1), axis=0).tolist():
            alike = np.flatnonzero((cuts == cut) & (widths == width))
            together = max(1, _TOGETHER // width)
            for first in range(0, len(alike), together):
                people = alike[first : first + together]
                phi = theta[people]
                adam = _Adam(self, phi, None if moments is None else moments[people])
                own = {name: column[people] for name, column in columns.items()}
                shuffle = _Shuffle(counts[people], length, cut, width)
                for key in keys:
                    shuffled = shuffle(own, key)
                    for j in range(cut):
                        adam.ascend(phi, gradient(phi, {name: column[:, j] for name, column in shuffled.items()}))
                result[people] = phi
        result -= theta
        return result


class _Shuffle:
    """Cuts the shuffled rows of G people into minibatches: columns [G, L, ...] into [G, cut, width, ...]."""

    def __init__(self, counts: Array, length: int, cut: int, width: int) -> None:
        edges = np.arange(cut + 1) * counts[:, None] // cut
        place = edges[:, :-1, None] + np.arange(width)
        share = (place < edges[:, 1:, None]) / np.diff(edges)[..., None]
        self._counts, self._length, self._share = counts, length, share.astype(np.float32)
        before = np.cumsum(counts) - counts
        self._place = before[:, None, None] + np.minimum(place, counts[:, None, None] - 1)

    def __call__(self, columns: Mapping[str, Array], keys: Array) -> dict[str, Array]:
        """Everybody's rows in the order of the keys [L] of these rows, with their "share"."""
        order = np.argsort(keys)
        person, at = np.nonzero(order < self._counts[:, None])
        which = (person * self._length + order[at])[self._place]
        cut = {name: column.reshape(-1, *column.shape[2:])[which] for name, column in columns.items()}
        return cut | {"share": self._share}


class _Adam:
    """Adam of G people on moments that are divided by 1 - beta, which saves two passes over memory."""

    def __init__(self, training: Training, theta: Float32, moments: Float32 | None) -> None:
        self._training = training
        self._taken = 0.0 if moments is None else math.inf
        start = np.zeros_like(theta) if moments is None else moments
        self._first, self._second = start / (1.0 - training.beta1), start * start / (1.0 - training.beta2)
        self._step = np.empty_like(theta)

    def ascend(self, phi: Float32, gradient: Float32) -> None:
        """One step along the gradient [G, P], whose memory is used."""
        training, step = self._training, self._step
        self._taken += 1.0
        root = math.sqrt((1.0 - training.beta2**self._taken) / (1.0 - training.beta2))
        scale = training.learning_rate * (1.0 - training.beta1) / (1.0 - training.beta1**self._taken) * root
        self._first *= training.beta1
        self._first += gradient
        np.multiply(gradient, gradient, out=gradient)
        self._second *= training.beta2
        self._second += gradient
        np.sqrt(self._second, out=step)
        step += training.epsilon * root
        np.divide(self._first, step, out=step)
        step *= scale
        phi += step
