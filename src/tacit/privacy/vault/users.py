"""Who is met online, and what they are served with: what a `UserVault` asks of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tacit.data.spec import PublicSpec


class Actor(Protocol):
    """What people are served with: a function of released values alone; for real people a frozen dataclass."""

    def __call__(
        self, observations: npt.NDArray[Any], replicate: npt.NDArray[np.int64], generator: np.random.Generator
    ) -> npt.NDArray[Any]:
        """Observations [N, ...] of N people and their replicates [N] -> actions [N] or [N, a]."""


class Users(Protocol):
    """People who come one after another, and the curator's way to serve them."""

    @property
    def spec(self) -> PublicSpec:
        """Public bounds of their rows."""

    @property
    def simulated(self) -> bool:
        """Whether no person is behind them."""

    @property
    def replicates(self) -> int:
        """R, how many independent populations come at once (more than one for simulated people only)."""

    def arrive(self, count: int) -> Sequence[Sequence[str]]:
        """For each replicate the ids of at most `count` people who come next; "" for somebody whom nobody knows."""

    def serve(self, people: Sequence[Sequence[str]], actor: Actor) -> Mapping[str, npt.NDArray[Any]]:
        """What happened with these people, in this order: the columns of `privacy.meeting.met_rows`."""
