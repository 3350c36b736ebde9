"""The vault of people whose records stay on their devices: every release is a sum over one answer from each.

Proof pages: `proofs/federated_sums.md`, `proofs/ledger.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.errors import MechanismError
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.mechanisms.base import Contribution, Plan, Work
from tacit.privacy.mechanisms.device_sums import DeviceSum, FederatedSum, LaplaceSum, release_mean
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.mechanisms.tallies import Tally
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.sentences import Label, clause
from tacit.privacy.vault.base import BaseVault, Run
from tacit.privacy.vault.devices import Answer, Devices, Query, StackedDevices, to_work
from tacit.privacy.vault.isolation import IsolationChecks, Value, foreign_names, run_silently
from tacit.privacy.vault.memory import copy_plain_state
from tacit.tracking import Tracker


class FederatedVault(BaseVault):
    """Devices, each with one person's records, and the ledger that pays for every sum over them.

    Args:
        devices: where the records are: `StackedDevices` in one process, or those of `tacit.federation`.
        ledger: the budget.
        noise: a seeded source for tests only; it voids the ledger.
        tracker: is shown figures of what is released (`tacit.tracking`).

    Guarantee: whatever leaves through the mechanism under plans admitted by the ledger satisfies its (epsilon, delta)
    for its unit: one person, with her records and all that her device ever computed of them, against everybody whom
    the certificate's assumptions do not trust.

    Edge cases:
        | case | what happens |
        |---|---|
        | a device does not answer, is late or answers nonsense | it adds nothing; the divisor stays |
        | fewer answers than a part's floor | the step is aborted and stays charged; nothing is released |
        | a person without records | her answer is that of no rows |
        | an answer that is not finite or too large | it counts as zero, or is clipped |

    Raises:
        DataError: the records are in a vault already, or of more people than the population.
    """

    def __init__(
        self, devices: Devices, ledger: Ledger, *, noise: SecretNoise | None = None, tracker: Tracker | None = None
    ) -> None:
        kinds = (PoissonSum, DeviceSum, LaplaceSum)
        super().__init__((ledger,), simulated=devices.simulated, kinds=kinds, noise=noise, tracker=tracker)
        self.spec = devices.spec
        self._key = devices.enter(self.unit.size)
        if isinstance(devices, StackedDevices) and devices.seeded:
            ledger.void("devices whose noise is seeded: anyone who can draw it again can subtract it")
        self._void_if_seeded()
        self._devices, self._foreign = devices, foreign_names(devices)
        self._checks = IsolationChecks(devices.spec)

    def noisy_sum(
        self,
        run: Run,
        part: str,
        work: Work | Contribution | Tally,
        state: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> npt.NDArray[np.float64]:
        """One noisy mean of bounded answers, shape [1, d], float64.

        Args:
            run: what `reserve` returned.
            part: the name of a sum.
            work: what each device computes.
            state: public arrays that go to all devices.

        Guarantee: one step of the part's event, which is claimed before a device is asked, however many answer.

        Raises:
            PlanExhausted: no step is left. MechanismError: the work couples people or has the wrong shape, the public
            arrays are not ones that devices answer, or fewer devices answered than the part's floor.
        """
        spec = run.sum_part(part)
        assert isinstance(spec, PoissonSum | DeviceSum | LaplaceSum)
        device_work, public = to_work(work), copy_plain_state(dict(state or {}), where=part)
        size = self._checks.try_work(spec, device_work, public)
        self._remember(run, self._checks.foreign_names)
        with self._lock:
            query = Query(run.plan_id, spec, self.next_step(run, part), device_work, public, size, self._key)
            self._take(run, spec)

        def step() -> npt.NDArray[np.float64]:
            answer = self._devices.ask(query)
            _require_enough(spec, answer, size)
            return release_mean(spec, answer.total, self.unit, self._noise)

        with self._checks.watch_step(part, device_work, public):
            mean = run_silently(part, step)
        return self._track_release(run, part, mean[None])

    def release(self, run: Run, value: Value, *, label: Label) -> Release[Value]:
        """Put a value that came out of the run together with its certificate."""
        assumptions = [clause("asks_devices", words=name) for name in sorted(self._foreign)]
        assumptions += [clause("failure_shows", words=name) for name in sorted(self._remembered_names(run))]
        return self._certify(run, value, label, (*self._devices.assumptions, *assumptions))

    def _require_fit(self, plan: Plan) -> None:
        """Every part is a sum over all devices, of a person's first rows, without halves and reserves."""
        super()._require_fit(plan)
        for part in plan.parts():
            plain = not isinstance(part, PoissonSum) or (part.sampling_rate, part.rows, part.fold) == (1, "first", None)
            if not plain or (isinstance(part, PoissonSum) and part.held_out):
                what = "the part is not a sum over all devices"
                expected = 'sampling_rate 1, rows="first", no fold and nothing held out'
                remedy = "declare it so in the plan, or open a Vault over the records"
                raise MechanismError(what, where=part.name, expected=expected, remedy=remedy)


def _require_enough(part: FederatedSum, answer: Answer, size: int) -> None:
    """Nothing is released of fewer answers than the noise was shared among."""
    if answer.total.shape != (size,):
        raise ValueError("not one sum of the query's width")
    if isinstance(part, DeviceSum) and answer.answered < part.floor:
        expected = f"at least the floor of {part.floor}, for which the noise was shared"
        remedy = "ask again when more devices are there: this step stays charged"
        raise MechanismError(f"{answer.answered} devices answered", where=part.name, expected=expected, remedy=remedy)
