"""Matching without a model: independent columns, weighted to match noisy tables of several columns.

Every column is drawn by itself from its own released histogram; the rows are then weighted as those of a diffusion
model would be. Without tables of several columns these are "independent columns", the plainest synthesizer of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.data.trajectories import Trajectories
from tacit.methods.synthesis import table_matching
from tacit.methods.synthesis.discretisation import to_trajectories
from tacit.methods.synthesis.plan import Progress, SynthesisPlan, label
from tacit.methods.synthesis.table_matching import PART, NoisyHistograms, TableMatching, project_to_simplex, resample
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Label
from tacit.privacy.vault.base import exhausted_error
from tacit.privacy.vault.vault import Vault


@dataclass(frozen=True, kw_only=True)
class MatchingPlan(SynthesisPlan):
    """The public parameters of matching without a model; `noise_multiplier` is sigma of the histograms."""

    method: ClassVar[str] = "synthesis of transitions (matching alone)"
    source: ClassVar[str] = "Deming & Stephan 1940, doi:10.1214/aoms/1177731829"

    matching: TableMatching
    """the tables; its `noise` has no meaning here."""

    def parts(self) -> tuple[PoissonSum]:
        """The only touch of private rows."""
        return (self.matching.part(self.noise_multiplier),)

    def noisy_histograms(self, values: NDArray[np.float64]) -> NoisyHistograms:
        """The histograms that a run of this plan released."""
        return NoisyHistograms(self.matching, self.parts()[0], self.unit, values, self.matching.steps)

    def label(self) -> Label:
        """The certificate's statements."""
        public = self.matching.discretisation.public_clauses()
        return label(self.matching.covered_clause(), public=public, choices="bins_chosen")


@dataclass(frozen=True, eq=False)
class MatchedColumns:
    """Histograms that have left the vault, and the rows that can be drawn from them."""

    plan: MatchingPlan  # the public parameters that they were made with
    histograms: NDArray[np.float64]  # [sum of `plan.matching.sizes`]

    def __post_init__(self) -> None:
        if self.histograms.shape != (sum(self.plan.matching.sizes),):
            raise ValueError("the histograms have other bins than the plan")

    def sample_columns(self, count: int, *, seed: int) -> dict[str, NDArray[Any]]:
        """`count` rows of a larger sample, drawn by their weights, as columns of raw units inside the public bounds."""
        # seed: of the sampling, public, since sampling is post-processing
        released, matching = self.plan.noisy_histograms(self.histograms), self.plan.matching
        rng, drawn = np.random.default_rng(seed), max(matching.pool, 2 * count)
        shares = released.shares()[0][: len(matching.discretisation.axes)]
        codes = [rng.choice(share.size, drawn, p=project_to_simplex(share, 1.0)) for share in shares]
        rows = matching.discretisation.decode(np.stack(codes, axis=1).astype(np.int32), rng)
        chosen = resample(released.weights(rows), count, rng)
        return {name: column[chosen] for name, column in rows.items()}

    def sample(self, count: int, *, seed: int = 0) -> Trajectories:
        """`count` rows as a data set that belongs to nobody, one unit a row."""
        return to_trajectories(self.sample_columns(count, seed=seed), self.plan.matching.discretisation.spec)

    def to_json(self) -> dict[str, Any]:
        """What `arrays` and the plan do not hold: nothing."""
        return {}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All numbers, by name."""
        return {PART: self.histograms}

    @classmethod
    def from_saved(
        cls, plan: Mapping[str, Any], fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> MatchedColumns:
        """The synthesizer of which `privacy.plan.public_fields(plan)`, `to_json` and `arrays` were kept."""
        return cls(MatchingPlan.from_json(plan), np.asarray(arrays[PART], np.float64))


def fit(
    plan: MatchingPlan, vault: Vault, *, seed: int = 0, progress: Progress | None = None
) -> Release[MatchedColumns]:
    """Make a synthesizer under the plan's promise.

    Args:
        plan: calibrated for the vault's unit.
        vault: the private rows and their ledger.
        seed: not used: nothing is drawn outside the vault.
        progress: called after each noisy sum.

    Raises:
        PlanError: the plan cuts by other bounds than the private data declare.
        PlanExhausted: the plan was begun before.
        BudgetExceeded: the ledger cannot pay for the plan.
    """
    plan.matching.require(vault.spec)
    run = vault.reserve(plan)
    if vault.has_started(run):
        raise exhausted_error(run, PART)
    sums = []
    for histograms in table_matching.release_histograms(vault, run, PART, plan.matching.tables):
        sums.append(histograms)
        if progress is not None:
            progress(len(sums), plan.matching.steps)
    return vault.release(run, MatchedColumns(plan, np.mean(sums, axis=0)), label=plan.label())


@dataclass(frozen=True)
class Closeness:
    """Minus the mean over tables of the squared distance between the records' noisy shares and the rows' own.

    The noise adds the same to every candidate's score on average, so it changes nobody's rank.

    Args:
        rows: how many are sampled from each synthesizer.
        seed: of the sampling; public.
    """

    rows: int = 20_000
    seed: int = 0

    def __call__(self, value: Any, plan: MatchingPlan, vault: Vault) -> float:
        """The score of a value with `sample_columns`, by fresh noisy histograms under the plan."""
        shares, _ = plan.noisy_histograms(fit(plan, vault).value.histograms).shares()
        synthetic = plan.matching.public_shares(value.sample_columns(self.rows, seed=self.seed))
        distances = [np.square(share - ours).sum() for share, ours in zip(shares, synthetic, strict=True)]
        return -float(np.mean(distances))
