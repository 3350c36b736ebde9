"""What a federation asks of devices, and what one device does: it answers each query of its plan once.

A device holds one person's records and state. What it computes of them is a `Work`; what leaves it is a bounded vector,
noised where the part says that devices add the noise. Its own ledger claims a step before the answer is made, so that a
server cannot ask twice, ask for more than the plan allows, or ask a device that belongs to another plan.

Proof page: `proofs/federated_sums.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tacit.data.spec import PublicSpec
from tacit.errors import DoorError
from tacit.privacy.mechanisms.callbacks import Contribution, Own, Public, Rows, Seeds, Work
from tacit.privacy.mechanisms.device_sums import FederatedSum

MOST_PUBLIC = 2**30
"""Largest total size, in bytes, of the public arrays of one query."""


@dataclass(frozen=True)
class Stateless:
    """A contribution as the work of devices: what its summary makes of the rows is the person's state."""

    contribution: Contribution

    def begin(self, rows: Rows, seeds: Seeds) -> Own:
        """What the summary makes of the rows, or the rows themselves."""
        summary = getattr(self.contribution, "summary", None)
        return dict(summary(rows)) if summary is not None else dict(rows)

    def __call__(self, own: Own, public: Public, seeds: Seeds) -> tuple[npt.NDArray[np.float64], Own]:
        """The contribution, with the public arrays as its state."""
        rows = {**own, "replicate": np.zeros(len(seeds), np.int64)}
        return np.asarray(self.contribution(rows, public), np.float64), own


def as_work(work: Work | Contribution) -> Work:
    """A contribution is a work without memory."""
    return work if hasattr(work, "begin") else Stateless(work)  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class Query:
    """One question to all devices; everything in it is public.

    Args:
        plan_id: of the plan that both sides hold.
        part: the plan's part.
        step: which of its steps, from 0.
        work: what is computed.
        public: its arrays.
        size: d, how many numbers an answer has.
        key: what `Devices.enter` gave to the vault that asks.
    """

    plan_id: str
    part: FederatedSum
    step: int
    work: Work
    public: Public
    size: int
    key: object = None

    def __post_init__(self) -> None:
        require_public(self.public, where=self.part.name)


@dataclass(frozen=True, eq=False)
class Answer:
    """The sum of all answers that were accepted, [d] as `device_parts.answers` gives them, and how many these were."""

    total: npt.NDArray[Any]
    answered: int


class Devices(Protocol):
    """Where the records of a `FederatedVault` live."""

    @property
    def spec(self) -> PublicSpec:
        """Public bounds of everybody's rows."""

    @property
    def simulated(self) -> bool:
        """Whether no person is behind the records."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the certificate has to say about who sees what."""

    def enter(self, population: int) -> object:
        """Enter a vault over a public population; what that vault's queries carry as their key.

        Raises:
            DataError: there are more people than the population, or the records are in a vault already.
        """

    def sums(self, query: Query) -> Answer:
        """Asks every device once; a device that fails, is late or answers wrongly counts as not having answered."""


def require_public(public: Public, where: str) -> None:
    """Refuse a query of a shape or size that no plan needs.

    Raises:
        DoorError: something is no array of finite numbers, or all together is too large.
    """
    arrays = list(public.values())
    plain = all(isinstance(array, np.ndarray) and array.dtype.kind in "biuf" for array in arrays)
    if not plain or sum(array.nbytes for array in arrays) > MOST_PUBLIC:
        raise _query_refused("it is not arrays of numbers, or too large", where)
    if not all(np.isfinite(array).all() for array in arrays):
        raise _query_refused("a number in it is not finite", where)


def _query_refused(why: str, where: str) -> DoorError:
    return DoorError(
        f"the public part of a query cannot be answered: {why}",
        where=where,
        expected=f"named NumPy arrays of finite numbers, of at most {MOST_PUBLIC:,} bytes together",
        remedy="check what the method sends to devices",
    )
