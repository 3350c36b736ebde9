"""What the door `Vault.above_threshold` asks of experts: their policies, clones of them, and a world to act in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Experts(Protocol):
    """The policies of m experts; the k-th is that of the k-th unit of the records.

    An expert's numbers must be the same bits whoever the other experts are; their number and the floor are public.
    """

    @property
    def count(self) -> int:
        """m."""

    @property
    def actions(self) -> int:
        """A."""

    @property
    def floor(self) -> float:
        """p of policies that take their best action with probability 1 - (A - 1) p and every other with p; else NaN."""

    def chances(self, observations: Array, actions: Array) -> NDArray[np.float64]:
        """The probabilities [m, S] that each expert takes action s in observation s, of [S, d] and [S]."""

    def greedy(self, observations: Array) -> NDArray[np.int64]:
        """The best action [m, S] of each expert in each of the observations [S, d]."""

    def disagreements(self, observations: Array, actions: Array) -> NDArray[np.bool_]:
        """Whether action s is not the best of expert i in observation s, [m, S]; asked only if `floor` is not NaN."""

    def probabilities(self, observations: Array, which: NDArray[np.int64]) -> NDArray[np.float64]:
        """The probabilities [S, A] of all actions, of expert `which[s]` in observation s."""


class Clone(Protocol):
    """How an expert's policy is learnt from its own rows alone: a `Summary`, and the policies that it stands for."""

    def __call__(self, rows: Mapping[str, Array]) -> dict[str, Array]:
        """Rows of U experts, in order of time -> {"parameters": [U, P]}."""

    def experts(self, parameters: Array) -> Experts:
        """The policies of m clones with parameters [m, P]."""


class World(Protocol):
    """A public simulator of N episodes at once."""

    def starts(self, units: int, generator: np.random.Generator) -> Array:
        """First states [N, ...]."""

    def step(
        self, state: Array, action: NDArray[np.int64], generator: np.random.Generator
    ) -> tuple[Array, Array, Array]:
        """Next states, rewards [N] and whether the episodes terminated [N]."""

    def observe(self, state: Array) -> Array:
        """Observations [N] or [N, d] of states [N, ...]."""
