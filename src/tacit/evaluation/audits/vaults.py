"""Vaults whose doors are the real ones, and which tell a witness what left them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.data.spec import PublicSpec
from tacit.evaluation.audits.witness import Witness
from tacit.privacy.mechanisms.base import Contribution, Objective, Work
from tacit.privacy.mechanisms.sums import PoissonSum, UserSum
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.user_vault import Actor, UserVault, met_rows
from tacit.privacy.vault.vault import Vault

Floats = NDArray[np.float64]


class WitnessedVault(Vault):
    """A `Vault` with a witness, who is set before the first door is opened."""

    witness: Witness

    def noisy_sum(self, run: Run, part: str, contribution: Contribution, state: Any = None) -> Floats:
        """As the real door."""
        mean = super().noisy_sum(run, part, contribution, state)
        self.witness.saw_sum(run.sum_part(part), contribution, state, mean)
        return mean

    def noisy_gradient(self, run: Run, part: str, models: Sequence[nn.Module], objective: Objective) -> Tensor:
        """As the real door."""
        mean = super().noisy_gradient(run, part, models, objective)
        self.witness.saw_gradient(run.part(part, PoissonSum), list(models), objective, mean.double().numpy())
        return mean


class WitnessedDevices(FederatedVault):
    """A `FederatedVault` with a witness."""

    witness: Witness

    def noisy_sum(
        self, run: Run, part: str, work: Work | Contribution, state: Mapping[str, NDArray[Any]] | None = None
    ) -> Floats:
        """As the real door; the work is one without memory."""
        mean = super().noisy_sum(run, part, work, state)
        assert not hasattr(work, "begin")
        self.witness.saw_sum(run.sum_part(part), work, state, mean)
        return mean


class Visitors:
    """People who are met: the canaries who are present, in the first meetings; nobody else ever answers.

    Args:
        rows: of what each canary does there whoever serves it, columns [m, L, ...] of `privacy.meeting.met_rows`.
        present: [m], who of them comes.
        spec: public bounds.
        replicates: R.
        often: in how many meetings they come.
    """

    simulated = True

    def __init__(
        self,
        rows: Mapping[str, NDArray[Any]],
        present: NDArray[np.bool_],
        spec: PublicSpec,
        replicates: int,
        *,
        often: int = 1,
    ) -> None:
        self.spec, self.replicates, self.canaries, self.often = spec, replicates, len(present), often
        self._rows, self._present, self._meetings = dict(rows), present, 0

    def arrive(self, count: int) -> list[list[str]]:
        """The canaries who are present, or people who have no id and so add nothing."""
        open_, self._meetings = self._meetings < self.often, self._meetings + 1
        names = [f"canary {i}" if here and open_ else "" for i, here in enumerate(self._present[:count])]
        return [names] * self.replicates

    def serve(self, people: Sequence[Sequence[str]], actor: Actor) -> dict[str, NDArray[Any]]:
        """What all of them do."""
        return self.as_if(sum(map(len, people)))

    def as_if(self, people: int) -> dict[str, NDArray[Any]]:
        """The canaries' rows, again and again for so many people."""
        return {name: np.resize(column, (people, *column.shape[1:])) for name, column in self._rows.items()}


class WitnessedUsers(UserVault):
    """A `UserVault` over `Visitors` with a witness, who knows what the canaries do."""

    witness: Witness
    visitors: Visitors

    def meet(self, run: Run, actor: Actor) -> None:
        """As the real one."""
        part = run.sum_part(run.plan.parts()[0].name)
        met = part.steps - self.steps_left(run, part.name)
        super().meet(run, actor)
        replicate = np.repeat(np.arange(self.replicates), self.visitors.canaries * (met < self.visitors.often))
        served = self.visitors.as_if(len(replicate))
        self._as_if = met_rows(served, self.spec, part.rows_per_unit, replicate, np.ones(len(replicate), bool))

    def noisy_sum(self, run: Run, part: str, contribution: Contribution, state: Any = None) -> Floats:
        """As the real door."""
        mean = super().noisy_sum(run, part, contribution, state)
        self.witness.saw_meeting(run.part(part, UserSum), self._as_if, contribution, state, mean)
        return mean
