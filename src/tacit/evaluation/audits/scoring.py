"""What every number that leaves the vault tells an auditor of canaries.

The auditor knows everybody's records, the plan and the code, sees all that is released, and asks whether the canaries
were in. At each mechanism the method's own callback is run once more, on the auditor's copy of the records, to learn
what each canary would have added there. Of the vault's own records, samples and noise nothing is looked at.

One canary gets the log-likelihood ratio of all that was released, the best score there is; of many canaries that all
take part in every sum, each gets its posterior mean in a linear Gaussian model, as in `evaluation.canaries`. Whatever a
score is worth, a bound that is computed from it holds: scores can be bad, and not wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.data.spec import PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.evaluation.canaries import COIN_VARIANCE, MIN_VARIANCE, UnitSampler
from tacit.privacy.mechanisms.base import Contribution, Objective, Sum, Work
from tacit.privacy.mechanisms.device_sums import LaplaceSum, bound_numbers
from tacit.privacy.mechanisms.sums import PoissonSum, UserSum
from tacit.privacy.mechanisms.tallies import Tally, contribution_vectors
from tacit.privacy.noise.correlated import coefficients, sensitivity
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.arrivals import enrolled_rows
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.isolation import IsolationChecks
from tacit.privacy.vault.memory import outline
from tacit.privacy.vault.records import Reader
from tacit.privacy.vault.user_vault import UserActor, UserVault
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

Floats = NDArray[np.float64]
Rows = Mapping[str, NDArray[Any]]


@dataclass
class _Rounds:
    """Of a part over people who are met: what each sum released beyond what others add, and what canaries would add."""

    part: UserSum
    residuals: list[Floats] = field(default_factory=list)
    contributions: list[Floats] = field(default_factory=list)


class CanaryScorer:
    """Scores canaries by what leaves the vault.

    Args:
        known: the auditor's copy of everybody's records; the canaries are the last units. None for people who are met.
        canaries: m, how many.
        relation: with `replace_one` (m = 1) the unit before the canary is who is there in the canary's place.
        replicates: R, how many independent runs are seen at once; 1 with many canaries.
        seed: of the auditor's own draws, where an objective has some.
        draws: gradients a unit and step, whose mean is nearer to what the run's own draw gave.
        blind: names of parts that are not looked at.
    """

    def __init__(
        self,
        known: Trajectories | None,
        canaries: int,
        unit: Unit,
        *,
        replicates: int = 1,
        seed: int = 0,
        draws: int = 1,
        blind: frozenset[str] = frozenset(),
    ) -> None:
        self._known, self._unit, self.canaries, self._draws, self._blind = known, unit, canaries, draws, blind
        self._reader, self._seed = None if known is None else Reader(known, SecretNoise.for_tests(seed)), seed
        self._total = np.zeros((replicates, canaries))
        self._rounds: dict[str, _Rounds] = {}
        self._samplers: dict[tuple[str, Objective], UnitSampler] = {}

    def observe_sum(self, part: Sum, contribution: Contribution | Tally, state: Any, mean: Floats) -> None:
        """One answer of `noisy_sum`, [R, d]."""
        assert self._reader is not None
        replicates, units = len(mean), self._reader.units
        replicate, units_asked = np.repeat(np.arange(replicates), units), np.tile(np.arange(units), replicates)
        summary = getattr(contribution, "summary", None)
        rows: Rows
        if summary is None:
            rows = self._reader.rows(units_asked, part.rows_per_unit, part.rows, part.horizon)
        else:
            rows = self._reader.summaries(summary, units_asked, part.rows_per_unit)
        vectors = contribution_vectors(contribution, {**rows, "replicate": replicate}, state)
        bounded = bound_numbers(part, vectors) if isinstance(part, LaplaceSum) else part.clipped(vectors)
        self._observe(part, mean, bounded.reshape(replicates, units, -1))

    def observe_gradient(self, part: PoissonSum, models: list[nn.Module], objective: Objective, mean: Floats) -> None:
        """One answer of `noisy_gradient`, [R, P]."""
        assert self._known is not None
        if part.name in self._blind:
            return
        if (part.name, objective) not in self._samplers:
            self._samplers[part.name, objective] = UnitSampler(part, objective, self._known, seed=self._seed)
        sampler = self._samplers[part.name, objective]
        gradients = [
            torch.stack([torch.stack(list(sampler.clipped_gradients(model))) for _ in range(self._draws)]).mean(0)
            for model in models
        ]
        self._observe(part, mean, torch.stack(gradients).double().numpy())

    def observe_round(
        self, part: UserSum, rows: Rows, contribution: Contribution | Tally, state: Any, mean: Floats
    ) -> None:
        """One answer of a `UserVault`'s `noisy_sum`, [R, d]."""
        # rows: of those who may be canaries, V of each replicate side by side, V = 0 where nobody of them is met
        rounds = self._rounds.setdefault(part.name, _Rounds(part))
        vectors = np.zeros((len(mean), self.canaries, mean.shape[1]))
        if len(rows["replicate"]):
            asked = contribution_vectors(contribution, rows, state)
            vectors = part.clipped(asked).reshape(vectors.shape)
        rounds.residuals.append(mean * part.users)
        rounds.contributions.append(vectors)

    def scores(self) -> Floats:
        """[R, m], higher where a canary seems to be in."""
        total = self._total.copy()
        for rounds in self._rounds.values():
            total += self._round_scores(rounds)
        return total

    def _observe(self, part: Sum, mean: Floats, vectors: Floats) -> None:
        """One answer [R, d], and what each unit would add, [R, units, d]."""
        total, first = mean * part.divisor(self._unit), vectors.shape[1] - self.canaries
        rate = part.participation
        absent = np.zeros_like(vectors[:, first])
        if self._unit.relation == "replace_one":
            first, absent = first - 1, vectors[:, first - 1]
        residual = total - rate * vectors[:, :first].sum(axis=1)

        def vector_ratios(vector: Floats) -> Floats:
            return log_likelihood_ratios(residual, vector, rate, part.noise_scale, laplace=part.laplace)

        if self.canaries > 1 and rate < 1:
            canary_vectors = np.moveaxis(vectors[:, first:], 1, 0)
            self._total += np.stack([vector_ratios(vector) for vector in canary_vectors], axis=1)
        elif self.canaries > 1:
            self._total += posterior_means(residual, vectors[:, first:], part.noise_scale)
        else:
            self._total[:, 0] += vector_ratios(vectors[:, -1]) - vector_ratios(absent)

    def _round_scores(self, rounds: _Rounds) -> Floats:
        """[R, m] of all sums of a part together: each canary is met once, and later noise tells of that meeting's."""
        part, steps = rounds.part, len(rounds.residuals)
        white = np.eye(steps)
        if part.correlation == "toeplitz":
            column = coefficients(part.steps, part.decay)
            white = np.array([[column[t - s] if t >= s else 0.0 for s in range(steps)] for t in range(steps)])
        scale = sensitivity(part.correlation, part.steps, part.participations, part.decay)
        noise = scale * part.noise_scale
        residuals = np.tensordot(white, np.array(rounds.residuals), axes=1)  # [T, R, d], independent noise
        signals = np.tensordot(white, np.array(rounds.contributions), axes=1)  # [T, R, m, d]
        if self.canaries == 1:
            return np.asarray((((residuals[:, :, None] - signals / 2) * signals).sum(axis=(0, 3))) / noise**2)
        flat = np.moveaxis(residuals, 0, 1).reshape(residuals.shape[1], -1)
        return posterior_means(flat, np.moveaxis(signals, 0, 2).reshape(*signals.shape[1:3], -1), noise)


def log_likelihood_ratios(
    residual: Floats, vector: Floats, rate: float, scale: float, *, laplace: bool = False
) -> Floats:
    """[R], log of the densities of what was released with a unit's vector [R, d] in the sum, and without."""
    # left: [R, d], the released sum, less what others add to it; scale: of the noise: a standard deviation, or
    # Laplace's scale
    if laplace:
        full = (np.abs(residual) - np.abs(residual - vector)).sum(axis=1) / scale
    else:
        full = ((residual - vector / 2) * vector).sum(axis=1) / scale**2
    return np.asarray(full if rate == 1 else np.logaddexp(math.log1p(-rate), math.log(rate) + full))


def posterior_means(residual: Floats, vectors: Floats, noise: float) -> Floats:
    """[R, m], how much of each canary's vector [R, m, d] a noisy sum [R, d] seems to hold, less what was expected."""
    # Each canary is in with probability 1/2.
    means = np.empty(vectors.shape[:2])
    for r, (row, canaries) in enumerate(zip(residual, vectors, strict=True)):
        length = max(float(np.sqrt(np.square(canaries).sum(axis=1)).max()), 1e-300)
        directions, variance = canaries / length, max(MIN_VARIANCE, (noise / length) ** 2) / COIN_VARIANCE
        kernel = directions @ directions.T + variance * np.eye(len(canaries))
        means[r] = np.linalg.solve(kernel, directions @ (row / length - directions.sum(axis=0) / 2))
    return means


# Vaults whose mechanisms are the real ones, and which tell a canary scorer what left them.


class CachedChecks(IsolationChecks):
    """Checks of tacit's own objectives, each once a process: an audit opens a vault for every run."""

    _passed: ClassVar[set[tuple[object, ...]]] = set()

    def try_objective(self, part: Sum, model: nn.Module, objective: Objective) -> None:
        """See `IsolationChecks`."""
        key = (self._spec, part, objective, outline(model))
        if key not in self._passed:
            super().try_objective(part, model, objective)
            self._passed.add(key)


class ScoredVault(Vault):
    """A `Vault` with a canary scorer, which is set before the first mechanism is opened."""

    scorer: CanaryScorer

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._checks = CachedChecks(self.spec)

    def noisy_sum(self, run: Run, part: str, contribution: Contribution | Tally, state: Any = None) -> Floats:
        """As the real call."""
        mean = super().noisy_sum(run, part, contribution, state)
        self.scorer.observe_sum(run.sum_part(part), contribution, state, mean)
        return mean

    def noisy_gradient(self, run: Run, part: str, models: Sequence[nn.Module], objective: Objective) -> Tensor:
        """As the real call."""
        mean = super().noisy_gradient(run, part, models, objective)
        self.scorer.observe_gradient(run.part(part, PoissonSum), list(models), objective, mean.double().numpy())
        return mean


class ScoredDevices(FederatedVault):
    """A `FederatedVault` with a canary scorer."""

    scorer: CanaryScorer

    def noisy_sum(
        self, run: Run, part: str, work: Work | Contribution | Tally, state: Mapping[str, NDArray[Any]] | None = None
    ) -> Floats:
        """As the real call; the work is one without memory."""
        mean = super().noisy_sum(run, part, work, state)
        assert not hasattr(work, "begin")
        self.scorer.observe_sum(run.sum_part(part), work, state, mean)
        return mean


class Visitors:
    """People who are met: the canaries who are `present` [m], in the first `participations` meetings; nobody else
    answers. `rows` are each canary's with any actor: columns [m, L, ...] of `vault.arrivals.enrolled_rows`."""

    simulated = True

    def __init__(
        self,
        rows: Mapping[str, NDArray[Any]],
        present: NDArray[np.bool_],
        spec: PublicSpec,
        replicates: int,
        *,
        participations: int = 1,
    ) -> None:
        self.spec, self.replicates, self.canaries, self.participations = spec, replicates, len(present), participations
        self._rows, self._present, self._meetings = dict(rows), present, 0

    def arrive(self, count: int) -> list[list[str]]:
        """The canaries who are present, or people who have no id and so add nothing."""
        open_, self._meetings = self._meetings < self.participations, self._meetings + 1
        names = [f"canary {i}" if present and open_ else "" for i, present in enumerate(self._present[:count])]
        return [names] * self.replicates

    def serve(self, people: Sequence[Sequence[str]], actor: UserActor) -> dict[str, NDArray[Any]]:
        """What all of them do."""
        return self.canary_rows(sum(map(len, people)))

    def canary_rows(self, people: int) -> dict[str, NDArray[Any]]:
        """The canaries' rows, again and again for so many people."""
        return {name: np.resize(column, (people, *column.shape[1:])) for name, column in self._rows.items()}


class ScoredUsers(UserVault):
    """A `UserVault` over `Visitors` with a canary scorer, which knows what the canaries do."""

    scorer: CanaryScorer
    visitors: Visitors

    def enroll(self, run: Run, actor: UserActor) -> None:
        """As the real one."""
        part = run.sum_part(run.plan.parts()[0].name)
        meetings = part.steps - self.steps_left(run, part.name)
        super().enroll(run, actor)
        copies = self.visitors.canaries * (meetings < self.visitors.participations)
        replicate = np.repeat(np.arange(self.replicates), copies)
        served, everybody = self.visitors.canary_rows(len(replicate)), np.ones(len(replicate), bool)
        place = np.arange(len(replicate)) % self.visitors.canaries
        self._canary_rows = enrolled_rows(served, self.spec, part.rows_per_unit, replicate, everybody, place)

    def noisy_sum(self, run: Run, part: str, contribution: Contribution | Tally, state: Any = None) -> Floats:
        """As the real call."""
        mean = super().noisy_sum(run, part, contribution, state)
        self.scorer.observe_round(run.part(part, UserSum), self._canary_rows, contribution, state, mean)
        return mean
