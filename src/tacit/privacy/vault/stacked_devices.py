"""Devices in one process: everybody's records and states stacked along the first axis.

The default source of a `FederatedVault`. It answers as devices would (each row of a sum bounded and noised by the same
code), a few hundred people at a time, so that many small models train as a few large products.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tacit.data.spec import PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import DataError
from tacit.privacy.mechanisms.callbacks import Own
from tacit.privacy.mechanisms.device_sums import DeviceSum, FederatedSum, answers, zeros
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.devices import Answer, Query
from tacit.privacy.vault.reader import Reader

CHUNK = 256
"""People whose states are stacked at a time."""


class StackedDevices:
    """The records of many people as their devices.

    Args:
        data: the records; sealed on entry.
        chunk: how many people are computed together.
        noise: the devices' source of noise and seeds; a seeded one is for tests, and a vault over it is void.

    Raises:
        DataError: the records are in a vault already.
    """

    def __init__(self, data: Trajectories, *, chunk: int = CHUNK, noise: SecretNoise | None = None) -> None:
        data._seal()
        self._data, self._noise = data, noise or SecretNoise()
        self._reader = Reader(data, self._noise)
        self._chunk = chunk
        self._states: dict[tuple[str, str], list[Own]] = {}
        self._key: object = None

    def __reduce__(self) -> NoReturn:
        raise _not_here("devices cannot be copied or pickled")

    @property
    def spec(self) -> PublicSpec:
        """Public bounds of everybody's rows."""
        return self._data.spec

    @property
    def simulated(self) -> bool:
        """Whether no person is behind the records."""
        return self._data.simulated

    @property
    def seeded(self) -> bool:
        """Whether somebody could know the noise."""
        return self._noise.seeded or type(self._noise) is not SecretNoise

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The records lie with one curator; what they were imported as."""
        kind = self._data.unit_kind
        made = () if kind == "id" else (f"each {kind} counts as one device: the records were imported without ids",)
        return ("the records of all devices lie with one curator, who computes for them", *made)

    def enter(self, population: int) -> object:
        """Enter the only vault that these records will ever be in; the key without which nothing is answered.

        Raises:
            DataError: the records are of more people than the population, or in a vault already.
        """
        if self._reader.units > population:
            raise DataError(
                "the data hold more people than the declared population",
                where="FederatedVault",
                expected=f"at most {population:,}",
                remedy="declare a population that covers everybody, in a new ledger",
            )
        if self._key is not None:
            raise _not_here("the records are in a vault already")
        self._key = object()
        return self._key

    def sums(self, query: Query) -> Answer:
        """The sum of everybody's answers; places of the population without records answer zero, and add their noise.

        Raises:
            DataError: the query is not one of the vault that holds the records.
        """
        if self._key is None or query.key is not self._key:
            raise _not_here("the question does not come from the vault that holds the records")
        part = query.part
        starts = range(0, self._reader.units, self._chunk)
        states = self._states.get((query.plan_id, part.name))
        if states is None:
            states = [self._begin(query, np.arange(s, min(s + self._chunk, self._reader.units))) for s in starts]
            self._states[query.plan_id, part.name] = states
        total, people = zeros(part, query.size), 0
        for i, own in enumerate(states):
            units = len(next(iter(own.values())))
            vectors, states[i] = query.work(own, query.public, self._seeds(units))
            total += self._summed(part, np.asarray(vectors), (units, query.size))
            people += units
        answered = people
        if isinstance(part, DeviceSum):
            for start in range(people, part.devices, self._chunk):
                units = min(self._chunk, part.devices - start)
                total += self._summed(part, np.zeros((units, query.size)), (units, query.size))
            answered = part.devices
        return Answer(total, answered)

    def _begin(self, query: Query, units: npt.NDArray[np.int64]) -> Own:
        rows = self._reader.rows(units, query.part.rows_per_unit, "first")
        return query.work.begin(rows, self._seeds(len(units)))

    def _summed(self, part: FederatedSum, vectors: npt.NDArray[Any], shape: tuple[int, int]) -> npt.NDArray[Any]:
        if vectors.shape != shape:
            raise ValueError("not one vector a person")
        return np.asarray(answers(part, vectors, self._noise).sum(axis=0))

    def _seeds(self, units: int) -> npt.NDArray[np.uint64]:
        return np.frombuffer(self._noise.bytes(8 * units), np.uint64)


def _not_here(what: str) -> DataError:
    return DataError(
        what,
        where="StackedDevices",
        expected="records that one vault holds, which pays for every sum over them",
        remedy="ask through FederatedVault.noisy_sum; a second ledger for the same records would double the budget",
    )
