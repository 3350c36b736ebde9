"""The forms of what a method hands to a vault: functions of one unit's rows, losses, clones of experts, public worlds.

All of them are frozen dataclasses whose fields are public. They are tried on decoys before they may see a record
(`isolation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

Array = NDArray[Any]
Rows = Mapping[str, np.ndarray]


class Contribution(Protocol):
    """What one unit adds to a noisy sum: a frozen dataclass whose fields are public.

    One that has a `summary` (a `Summary`) gets, instead of the rows, what the summary made of them.
    """

    def __call__(self, rows: Rows, state: Any) -> np.ndarray:
        """Rows of U units, each column [U, L, ...] with `mask` [U, L] and `replicate` [U] -> contributions [U, d]."""


class Summary(Protocol):
    """What is computed once from each unit's own rows and then kept in the vault: a frozen hashable dataclass."""

    def __call__(self, rows: Rows) -> dict[str, np.ndarray]:
        """Rows of U units as for a `Contribution`, in order of time -> arrays [U, ...]."""


class Objective(Protocol):
    """A loss whose clipped per-unit gradients are summed: a frozen dataclass whose fields are public.

    One that has `shares` (`gradients.Shares`) gets these with the rows, and its units may be divided to save memory.
    """

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        """Random tensors for one step, each with leading axis `units` (secret, independent of the records)."""

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        """Columns [U, L, ...], `mask` [U, L] and the draws -> one loss a unit [U].

        Of fragments the columns are [U, L, H, ...], with `mask` [U, L, H] and `time` [U, L, H], steps since the episode
        began.
        """


Own = dict[str, NDArray[Any]]
"""What devices keep: arrays with one row a person."""

Public = Mapping[str, NDArray[Any]]
Seeds = NDArray[np.uint64]


class Work(Protocol):
    """What a device computes: a frozen dataclass whose fields are public.

    Guarantee asked of it: row u of everything that it returns depends on person u's rows, state and seed and on public
    values alone. It is tried on decoys before it may see a record.
    """

    def begin(self, rows: Rows, seeds: Seeds) -> Own:
        """A person's state, made once: her first rows in order of time [U, L, ...] -> arrays [U, ...]."""

    def __call__(self, own: Own, public: Public, seeds: Seeds) -> tuple[NDArray[np.float64], Own]:
        """Answers [U, d] to public arrays, and the state afterwards; seeds [U] are fresh in every call."""


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
