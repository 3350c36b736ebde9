"""What a federation asks of devices, and what one device does: it answers each query of its plan once.

A device holds one person's records and state. What it computes of them is a `Work`; what leaves it is a bounded vector,
noised where the part says that devices add the noise. Its own ledger claims a step before the answer is made, so that a
server cannot ask twice, ask for more than the plan allows, or ask a device that belongs to another plan.

Proof page: `proofs/federated_sums.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from tacit.data.spec import PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.errors import DataError, LedgerError, MechanismError
from tacit.privacy import deals
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.mechanisms.base import Contribution, DeviceState, Plan, Public, Rows, Seeds, Work
from tacit.privacy.mechanisms.device_sums import DeviceSum, FederatedSum, LaplaceSum, answers, zeros
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.mechanisms.tallies import Tally, contribution_vectors
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.sentences import Clause, clause
from tacit.privacy.vault.base import BaseVault, vault_error
from tacit.privacy.vault.isolation import run_silently
from tacit.privacy.vault.records import Reader

MOST_PUBLIC = 2**30
"""Largest total size, in bytes, of the public arrays of one query."""


@dataclass(frozen=True)
class StatelessWork:
    """A contribution as the work of devices: what its summary makes of the rows is the person's state."""

    contribution: Contribution | Tally

    def begin(self, rows: Rows, seeds: Seeds) -> DeviceState:
        """What the summary makes of the rows, or the rows themselves."""
        summary = getattr(self.contribution, "summary", None)
        return dict(summary(rows)) if summary is not None else dict(rows)

    def __call__(self, state: DeviceState, public: Public, seeds: Seeds) -> tuple[npt.NDArray[np.float64], DeviceState]:
        """The contribution, with the public arrays as its state."""
        rows = {**state, "replicate": np.zeros(len(seeds), np.int64)}
        return contribution_vectors(self.contribution, rows, public), state


def to_work(work: Work | Contribution | Tally) -> Work:
    """A contribution is a work without memory."""
    return work if hasattr(work, "begin") else StatelessWork(work)  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class Query:
    """One question to all devices; everything in it is public."""

    plan_id: str  # of the plan that both sides hold
    part: FederatedSum  # the plan's part
    step: int  # which of its steps, from 0
    work: Work  # what is computed
    public: Public  # its arrays
    size: int  # d, how many numbers an answer has
    key: object = None  # what `Devices.enter` gave to the vault that asks

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
    def assumptions(self) -> tuple[Clause, ...]:
        """What the certificate has to say about who sees what."""

    def enter(self, population: int) -> object:
        """Enter a vault over a public population; what that vault's queries carry as their key."""

    def ask(self, query: Query) -> Answer:
        """Asks every device once; a device that fails, is late or answers wrongly counts as not having answered."""


def require_public(public: Public, where: str) -> None:
    """Refuse a query of a shape or size that no plan needs."""
    arrays = list(public.values())
    plain = all(isinstance(array, np.ndarray) and array.dtype.kind in "biuf" for array in arrays)
    if not plain or sum(array.nbytes for array in arrays) > MOST_PUBLIC:
        raise _query_error("it is not arrays of numbers, or too large", where)
    if not all(np.isfinite(array).all() for array in arrays):
        raise _query_error("a number in it is not finite", where)


def _query_error(why: str, where: str) -> MechanismError:
    what = f"the public part of a query cannot be answered: {why}"
    expected = f"named NumPy arrays of finite numbers, of at most {MOST_PUBLIC:,} bytes together"
    return MechanismError(what, where=where, expected=expected, remedy="check what the method sends to devices")


# One person's device: her records, her state, her own ledger, and an answer to each step of one plan, once.
#
# Proof page: `proofs/federated_sums.md`.


class Device(BaseVault):
    """What runs where one person's records are.

    Args:
        records: hers, of one unit; sealed on entry. None where she has none: the device then answers zero, noised as
            any other, so that nobody learns from its silence that she has none.
        ledger: her own, of the plan's unit: what may ever leave this device.
        plan: the only one that this device takes part in, agreed on before; charged here in full (once: a device that
            is built again reopens it).
        works: what is computed for each part; the server's queries do not choose it. No isolation check is needed:
        there is
            nobody here whose records could come into another's answer.
        state: what `state()` gave before, when the device is built again.
        noise: a seeded source for tests only; it voids the ledger.

    Guarantee: over its life the device answers each step of each part at most once, with a vector within the part's
    bounds made of her rows, her state and public arrays, noised if the part says that devices add noise.

    Edge cases:
        | case | what happens |
        |---|---|
        | a step that was answered, or is older than one that was | LedgerError |
        | a later step than the next (she was away) | the steps between are burnt |
        | another plan or part, numbers that are not finite | an error; nothing is claimed |
        | she has no records, the work fails on them, or has another width | her answer is zero, noised as any other |

    Raises:
        LedgerError: the records are not of one unit, or the works are not those of the plan's parts.
        BudgetExceeded: her ledger cannot pay for the plan.
    """

    def __init__(
        self,
        records: Trajectories | None,
        ledger: Ledger,
        plan: Plan,
        works: Mapping[str, Work | Contribution | Tally],
        *,
        state: Mapping[str, npt.NDArray[Any]] | None = None,
        noise: SecretNoise | None = None,
    ) -> None:
        kinds = (PoissonSum, DeviceSum, LaplaceSum)
        super().__init__(ledger, simulated=records is not None and records.simulated, kinds=kinds, noise=noise)
        self._reader = None if records is None else Reader(records, self._noise)
        if self._reader is not None and self._reader.units != 1:
            raise vault_error("the records on a device are not those of one person", "one unit")
        if set(works) != {part.name for part in plan.parts()}:
            raise vault_error("the works are not those of the plan's parts", "one for each part")
        if records is not None:
            records._seal()
        self._void_if_seeded()
        self._works = {name: to_work(work) for name, work in works.items()}
        self._run = self.reserve(plan)
        self._states: dict[str, DeviceState] = {}
        for name, array in (state or {}).items():
            part, _, key = name.partition("/")
            self._states.setdefault(part, {})[key] = np.asarray(array)

    @property
    def plan_id(self) -> str:
        """Of the plan that the device takes part in."""
        return self._run.plan_id

    def part(self, name: str) -> FederatedSum:
        """A part of the device's plan.

        Raises:
            PlanError: there is no such part.
        """
        part = self._run.sum_part(name)
        assert isinstance(part, PoissonSum | DeviceSum | LaplaceSum)
        return part

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Her state, as private as her records, to be kept on the device until it is built again."""
        return {f"{part}/{key}": array for part, state in self._states.items() for key, array in state.items()}

    def answer(self, plan_id: str, part: str, step: int, public: Public, size: int) -> npt.NDArray[Any]:
        """Her answer to one query, [size] as `device_parts.answers` gives it.

        Raises:
            LedgerError: the query belongs to another plan, or its step was answered or burnt.
            PlanError: the plan has no such part.
            MechanismError: the query's arrays are not ones that a device answers.
        """
        spec = self.part(part)
        require_public(public, where=part)
        if plan_id != self._run.plan_id:
            raise _answer_error("it belongs to another plan than this device's", part)
        with self._lock:
            done = self.ledger.claimed(plan_id, part)
            if type(step) is not int or not done <= step < spec.steps:
                raise _answer_error("its step was answered before, burnt, or is not one of the plan's", part)
            while done <= step:  # a claim is of 1 % at most: a device that was away burns what it missed in several
                done = self.ledger.claim(plan_id, part, step + 1 - done).stop

            return run_silently(
                part, lambda: np.asarray(answers(spec, self._vector(spec, public, size), self._noise)[0])
            )

    def _vector(self, part: FederatedSum, public: Public, size: int) -> npt.NDArray[np.float64]:
        """What her work answers, [1, size]; zero where it fails or answers something else, her state as it was."""
        if self._reader is None:
            return np.zeros((1, size))
        work, state = self._works[part.name], self._states.get(part.name)
        try:
            if state is None:
                rows = self._reader.rows(np.zeros(1, np.int64), part.rows_per_unit, "first")
                state = work.begin(rows, self._seeds())
            vector, new_state = work(state, public, self._seeds())
            if np.shape(vector) != (1, size):
                raise ValueError("not one vector of the query's width")
        except Exception:
            return np.zeros((1, size))
        self._states[part.name] = new_state
        return np.asarray(vector, np.float64)

    def _seeds(self) -> npt.NDArray[np.uint64]:
        return np.frombuffer(self._noise.bytes(8), np.uint64)


def _answer_error(why: str, part: str) -> LedgerError:
    what, expected = f"the device does not answer this query: {why}", "each step of the agreed plan, once and in order"
    remedy = "let the server run the plan that the devices agreed to, and never repeat a step"
    return LedgerError(what, where=f"part {part!r}", expected=expected, remedy=remedy)


# Devices in one process: everybody's records and states stacked along the first axis.
#
# The default source of a `FederatedVault`. It answers as devices would (each row of a sum bounded and noised by the
# same code), a few hundred people at a time, so that many small models train as a few large products.


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
        self._states: dict[tuple[str, str], list[DeviceState]] = {}
        self._key: object = None

    def __reduce__(self) -> NoReturn:
        raise _records_error("devices cannot be copied or pickled")

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
    def assumptions(self) -> tuple[Clause, ...]:
        """The records lie with one curator; what they were imported as."""
        kind = self._data.unit_kind
        without = [] if kind == "id" else [clause("no_ids", kind=kind)]
        return (clause("one_curator"), *without, *self._reader.assumptions())

    def enter(self, population: int) -> object:
        """Enter the only vault that these records will ever be in; the key without which nothing is answered.

        Raises:
            DataError: the records are of more people than the population, or in a vault already.
        """
        if self._reader.units > population:
            what = "the data hold more people than the declared population"
            expected, remedy = f"at most {population:,}", "declare a population that covers everybody, in a new ledger"
            raise DataError(what, where="FederatedVault", expected=expected, remedy=remedy)
        if self._key is not None:
            raise _records_error("the records are in a vault already")
        self._key = object()
        return self._key

    def ask(self, query: Query) -> Answer:
        """The sum of everybody's answers; places of the population without records answer zero, and add their noise.

        Raises:
            DataError: the query is not one of the vault that holds the records.
        """
        if self._key is None or query.key is not self._key:
            raise _records_error("the question does not come from the vault that holds the records")
        part = query.part
        starts = range(0, self._reader.units, self._chunk)
        states = self._states.get((query.plan_id, part.name))
        if states is None:
            seeds = self._seeds()
            chunks = [np.arange(start, min(start + self._chunk, self._reader.units)) for start in starts]
            rows = (self._reader.rows(units, part.rows_per_unit, "first") for units in chunks)
            states = [query.work.begin(chunk, seeds[units]) for chunk, units in zip(rows, chunks, strict=True)]
            self._states[query.plan_id, part.name] = states
        total, people, seeds = zeros(part, query.size), 0, self._seeds()
        for i, state in enumerate(states):
            units = len(next(iter(state.values())))
            vectors, states[i] = query.work(state, query.public, seeds[people : people + units])
            total += self._sum_answers(part, np.asarray(vectors), (units, query.size))
            people += units
        answered = people
        if isinstance(part, DeviceSum):
            for start in range(people, part.devices, self._chunk):
                units = min(self._chunk, part.devices - start)
                total += self._sum_answers(part, np.zeros((units, query.size)), (units, query.size))
            answered = part.devices
        return Answer(total, answered)

    def _sum_answers(self, part: FederatedSum, vectors: npt.NDArray[Any], shape: tuple[int, int]) -> npt.NDArray[Any]:
        if vectors.shape != shape:
            raise ValueError("not one vector a person")
        return np.asarray(answers(part, vectors, self._noise).sum(axis=0))

    def _seeds(self) -> Seeds:
        """Fresh secret seeds of all, each person's own whoever else is there: names, hashed under a new secret key."""
        return deals.words(self._reader.names, self._noise.bytes(32).hex(), "device")


def _records_error(what: str) -> DataError:
    expected = "records that one vault holds, which pays for every sum over them"
    remedy = "ask through FederatedVault.noisy_sum; a second ledger for the same records would double the budget"
    return DataError(what, where="StackedDevices", expected=expected, remedy=remedy)
