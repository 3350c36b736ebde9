"""One person's device: her records, her state, her own ledger, and an answer to each step of one plan, once.

Proof page: `proofs/federated_sums.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.data.trajectories import Trajectories
from tacit.errors import LedgerError
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.mechanisms.base import Plan
from tacit.privacy.mechanisms.callbacks import Contribution, Own, Public, Work
from tacit.privacy.mechanisms.device_sums import DeviceSum, FederatedSum, LaplaceSum, answers
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.base import Paying, refused
from tacit.privacy.vault.devices import as_work, require_public
from tacit.privacy.vault.isolation import behind
from tacit.privacy.vault.reader import Reader


class Device(Paying):
    """What runs where one person's records are.

    Args:
        records: hers, of one unit; sealed on entry. None where she has none: the device then answers zero, noised as
            any other, so that nobody learns from its silence that she has none.
        ledger: her own, of the plan's unit: what may ever leave this device.
        plan: the only one that this device takes part in, agreed on before; charged here in full (once: a device that
            is built again reopens it).
        works: what is computed for each part; the server's queries do not choose it. No decoys are needed: there is
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
        works: Mapping[str, Work | Contribution],
        *,
        state: Mapping[str, npt.NDArray[Any]] | None = None,
        noise: SecretNoise | None = None,
    ) -> None:
        kinds = (PoissonSum, DeviceSum, LaplaceSum)
        super().__init__(ledger, simulated=records is not None and records.simulated, kinds=kinds, noise=noise)
        self._reader = None if records is None else Reader(records, self._noise)
        if self._reader is not None and self._reader.units != 1:
            raise refused("the records on a device are not those of one person", "one unit")
        if set(works) != {part.name for part in plan.parts()}:
            raise refused("the works are not those of the plan's parts", "one for each part")
        if records is not None:
            records._seal()
        self._void_if_seeded()
        self._works = {name: as_work(work) for name, work in works.items()}
        self._run = self.reserve(plan)
        self._states: dict[str, Own] = {}
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
        return {f"{part}/{key}": array for part, own in self._states.items() for key, array in own.items()}

    def answer(self, plan_id: str, part: str, step: int, public: Public, size: int) -> npt.NDArray[Any]:
        """Her answer to one query, [size] as `device_parts.answers` gives it.

        Raises:
            LedgerError: the query belongs to another plan, or its step was answered or burnt.
            PlanError: the plan has no such part.
            DoorError: the query's arrays are not ones that a device answers.
        """
        spec = self.part(part)
        require_public(public, where=part)
        if plan_id != self._run.plan_id:
            raise _refused_query("it belongs to another plan than this device's", part)
        with self._lock:
            done = self.ledger.claimed(plan_id, part)
            if type(step) is not int or not done <= step < spec.steps:
                raise _refused_query("its step was answered before, burnt, or is not one of the plan's", part)
            while done <= step:  # a claim is of 1 % at most: whoever was away burns what she missed in several
                done = self.ledger.claim(plan_id, part, step + 1 - done).stop

            return behind(part, lambda: np.asarray(answers(spec, self._vector(spec, public, size), self._noise)[0]))

    def _vector(self, part: FederatedSum, public: Public, size: int) -> npt.NDArray[np.float64]:
        """What her work answers, [1, size]; zero where it fails or answers something else, her state as it was."""
        if self._reader is None:
            return np.zeros((1, size))
        work, own = self._works[part.name], self._states.get(part.name)
        try:
            if own is None:
                rows = self._reader.rows(np.zeros(1, np.int64), part.rows_per_unit, "first")
                own = work.begin(rows, self._seeds())
            vector, after = work(own, public, self._seeds())
            if np.shape(vector) != (1, size):
                raise ValueError("not one vector of the query's width")
        except Exception:
            return np.zeros((1, size))
        self._states[part.name] = after
        return np.asarray(vector, np.float64)

    def _seeds(self) -> npt.NDArray[np.uint64]:
        return np.frombuffer(self._noise.bytes(8), np.uint64)


def _refused_query(why: str, part: str) -> LedgerError:
    return LedgerError(
        f"the device does not answer this query: {why}",
        where=f"part {part!r}",
        expected="each step of the agreed plan, once and in order",
        remedy="let the server run the plan that the devices agreed to, and never repeat a step",
    )
