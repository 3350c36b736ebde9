"""Attacks on people rather than rows: what a model, or a run's noisy gradients, tell of a unit's whole history.

For any method that is trained by `vault.noisy_gradient` over a `PoissonSum` of any unit: the attacker draws a unit's
rows or fragments as the door does, with random numbers of its own, and uses the method's own objective.

`UnitScores` are scores for `evaluation.audit` or `evaluation.one_run`. Looks at whole histories and is not
differentially private: outside `vault.nonprivate` only for simulated data. What an attack finds bounds privacy from
below and proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.data.spec import PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.evaluation.gradient_canaries import leaps
from tacit.privacy.gradients.per_unit import clipped_sum
from tacit.privacy.mechanisms.base import Objective, calibrated
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.records import Reader

Columns = dict[str, NDArray[Any]]
Floats = NDArray[np.float64]
COIN = 0.25
"""Variance of whether a canary is in."""
LEAST = 0.01
"""Squared noise, in clips, that is reckoned with where there is less."""


class Drawn:
    """Units of known records, whose rows are drawn as a part says.

    Args:
        part: which of a unit's rows or fragments one contribution is made from.
        objective: of the method.
        known: the attacker's knowledge; simulated or public.
        seed: of the rows and of the objective's draws.
    """

    def __init__(self, part: PoissonSum, objective: Objective, known: Trajectories, *, seed: int) -> None:
        noise = SecretNoise.for_tests(seed)
        self._part, self._objective, self._reader = part, objective, Reader(known, noise)
        self._generator = torch.Generator().manual_seed(noise.seed64() >> 1)
        self.shares = getattr(objective, "shares", None)

    @property
    def units(self) -> int:
        """How many there are."""
        return self._reader.units

    def rows(self, units: NDArray[np.int64]) -> dict[str, Tensor]:
        """One draw of what the objective's loss gets, [U, L, ...] by name, its own draws and shares among it."""
        part = self._part
        found = self._reader.rows(units, part.rows_per_unit, part.rows, part.horizon)
        rows = {name: torch.from_numpy(column) for name, column in found.items()}
        rows |= self._objective.draw(self._generator, len(units), part.rows_per_unit)
        return rows if self.shares is None else {**rows, **self.shares(rows)}

    def gradients(self, model: nn.Module) -> Iterator[Tensor]:
        """Of each unit the clipped gradient [P] that it would add to a step, with rows and draws of the attacker's."""
        for unit in range(self.units):
            rows = self.rows(np.array([unit]))
            yield clipped_sum(model, self._objective.loss, rows, self._part.clip, shares=self.shares)


class UnitScores:
    """Sees every noisy gradient of `fit(observe=...)` and scores canary units by it.

    Each canary's direction is the mean of the clipped gradients that it would have added with draws of the auditor's.
    Its score is how much of that direction a step's gradient seems to hold, given the noise, that each canary is in
    with probability 1/2, and that everybody else adds something along the directions of public units: the posterior
    mean of a linear Gaussian model, summed over the steps.

    Args:
        part: whose noisy gradients are seen, with its clip and noise.
        objective: the method's.
        canaries: simulated units, in or out by coins of their own.
        public: a few units that owe nothing to private ones and look like most of them; None if there are no others.
        expected: what the door divides its sums by (`PoissonSum.expected`).
        seed: of the auditor's own draws.
        draws: gradients a canary and step; their mean is nearer to what the run's own draw gave.
    """

    def __init__(
        self,
        part: PoissonSum,
        objective: Objective,
        canaries: Trajectories,
        public: Trajectories | None,
        *,
        expected: float,
        seed: int,
        draws: int = 4,
    ) -> None:
        self._canaries = Drawn(part, objective, canaries, seed=seed)
        self._public = None if public is None else Drawn(part, objective, public, seed=seed + 1)
        self._expected, self._draws, self._total = expected, draws, np.zeros(self._canaries.units)
        self._clip, self._variance = part.clip, max(LEAST, calibrated(part.noise_multiplier, part.name) ** 2)

    def __call__(self, step: int, model: nn.Module, gradient: Tensor) -> None:
        """One step: the noisy mean gradient [P] that was taken at the weights of `model`."""
        own = torch.stack([torch.stack(list(self._canaries.gradients(model))) for _ in range(self._draws)]).mean(0)
        others = [] if self._public is None else list(self._public.gradients(model))
        directions = torch.stack([*own, *others]) / self._clip
        seen = gradient * (self._expected / self._clip) - directions[: len(own)].sum(0) / 2
        variance = torch.full((len(directions),), self._variance)
        variance[: len(own)] *= 1 / COIN
        posterior = torch.linalg.solve(directions @ directions.T + variance.diag(), directions @ seen)
        self._total += posterior[: len(own)].double().numpy()

    def sums(self) -> Floats:
        """[m], each canary's score, higher where it seems to be in: about 0 in the middle between the two."""
        return self._total.copy()


def leaping(spec: PublicSpec, count: int, *, rows: int, seed: int) -> Columns:
    """Canary people: each repeats one leap of its own (`gradient_canaries.leaps`) for a whole history, then is cut off.

    Whatever fragments and draws are taken, the gradient of such a history points nearly the same way.

    Args:
        spec: public bounds, and typical differences of a step.
        count: of people.
        rows: of a history.
        seed: of the leaps.

    Returns:
        Columns [count rows, ...] with `truncations`, and `unit_ids` [count rows] from 0.

    Raises:
        DataError: the spec declares no typical difference.
    """
    single = leaps(spec, count, seed=seed)
    single["terminations"] = np.zeros(count, np.bool_)
    columns: Columns = {name: np.repeat(np.asarray(column), rows, axis=0) for name, column in single.items()}
    columns["truncations"] = np.tile(np.arange(rows) == rows - 1, count)
    columns["unit_ids"] = np.repeat(np.arange(count), rows)
    return columns
