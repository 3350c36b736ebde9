"""Whole people from structured noisy tables.

Input: rows of people behind a vault, a calibrated plan (shares of mu^2, at most L visits a person)
1. h <- vault.noisy_sum: of each number, every unit gives the shares of its values in a public grid    (densities.py)
2. m <- vault.noisy_sum: of each number's change, every unit gives its moments, of norm 1               (sums.py)
3. choose parents by the spec, coarse enough for the noise                                              (scheme.py)
4. t <- vault.noisy_sum: every unit gives its tables (parents, child)                                   (sums.py)
5. laws <- the tables, finer only as far as noise lets them                                             (tables.py)
6. release h, m and the laws; drawing people from them, visit by visit, is post-processing              (`sampling.py`)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.data.sources.expressions import compute_rewards, invented_rows
from tacit.errors import PlanError
from tacit.methods import load_class
from tacit.methods.synthesis.laws import estimate_laws, forget_tail, forget_unseen
from tacit.methods.synthesis.people import sampling
from tacit.methods.synthesis.people.densities import Density
from tacit.methods.synthesis.people.plan import HISTOGRAMS, REGRESSION, TABLES, PeoplePlan
from tacit.methods.synthesis.people.scheme import Parent, Scheme
from tacit.methods.synthesis.people.sums import (
    NumberShares,
    VisitMoments,
    VisitTables,
    read_densities,
    solve_regressions,
    split_tables,
)
from tacit.methods.synthesis.plan import Progress
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.base import Contribution
from tacit.privacy.vault.base import exhausted_error
from tacit.privacy.vault.vault import Vault
from tacit.serialization import from_json, to_json
from tacit.validation import require_whole

if TYPE_CHECKING:
    from tacit.data.trajectories import Trajectories

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PeopleSynthesizer:
    """Laws of whole people that have left the vault.

    Args:
        plan: the public parameters that they were made with.
        scheme: what is drawn in which order, given what, with the released densities and regressions.
        laws: of each node of the scheme, its law in each cell of its parents, [cells, values].
    """

    plan: PeoplePlan
    scheme: Scheme
    laws: tuple[Floats, ...]
    draws_trajectories: ClassVar[bool] = True

    def __repr__(self) -> str:
        return f"PeopleSynthesizer({len(self.scheme.nodes)} tables, {sum(law.size for law in self.laws):,} cells)"

    def sample(self, count: int, *, seed: int = 0) -> Trajectories:
        """`count` people as a data set that belongs to nobody, one unit each.

        Args:
            count: how many people; who would have a single visit and no step has no row.
            seed: of the drawing; public, since it is post-processing.

        Raises:
            PlanError: there is nobody to draw.
        """
        require_whole(count=count)
        return sampling.to_trajectories(self.plan.spec, self.scheme, self.laws, count, seed=seed)

    def to_json(self) -> dict[str, Any]:
        """What `arrays` and the plan do not hold."""
        return {"plan": type(self.plan).__name__, "scheme": to_json(self.scheme)}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All laws, by the place of their node."""
        return {f"law.{i}": law for i, law in enumerate(self.laws)}

    @classmethod
    def from_saved(
        cls, plan: Mapping[str, Any], fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> PeopleSynthesizer:
        """The value of which `privacy.plan.public_fields(plan)`, `to_json` and `arrays` were kept.

        Raises:
            KeyError, TypeError, ValueError, TacitError: something is missing or does not fit.
        """
        scheme = from_json(Scheme, fields["scheme"])
        laws = tuple(np.asarray(arrays[f"law.{i}"], np.float64) for i in range(len(scheme.nodes)))
        made = cls(load_class("plan", fields["plan"]).from_json(plan), scheme, laws)
        shapes = [(int(np.prod(scheme.shape(node))), scheme.size(node)) for node in scheme.nodes]
        if [law.shape for law in laws] != shapes or not all(np.allclose(law.sum(axis=1), 1) for law in laws):
            raise ValueError("laws of another scheme")
        if scheme.computes_reward != made.plan.scheme.computes_reward:
            raise ValueError("a scheme of another spec")
        return made


def fit(
    plan: PeoplePlan, vault: Vault, *, seed: int = 0, progress: Progress | None = None
) -> Release[PeopleSynthesizer]:
    """Learn whole people under the plan's promise.

    Args:
        plan: calibrated for the vault's unit.
        vault: the private rows and their ledger.
        seed: not used: nothing is drawn outside the vault.
        progress: called after each sum.

    Raises:
        PlanError: the plan has other bounds than the private data declare, or every row is a unit of its own.
        DataError: the spec's expression of the reward cannot be computed.
        PlanExhausted: the plan was begun before.
        BudgetExceeded: the ledger cannot pay for the plan.
    """
    if plan.spec != vault.spec:
        what = "the plan has other public bounds than the private data declare"
        expected, remedy = "the private data's own public spec", "build the plan with PeoplePlan(spec=vault.spec)"
        raise PlanError(what, where=f"{plan.method} plan", expected=expected, remedy=remedy)
    if plan.spec.reward_expression is not None:
        compute_rewards(plan.spec, *invented_rows(plan.spec))  # before anything is spent
    run = vault.reserve(plan)
    parts = {part.name: part for part in plan.parts()}
    if vault.has_started(run):
        raise exhausted_error(run, HISTOGRAMS)

    def release(name: str, contribution: Contribution) -> Floats:
        """The noisy sum of a part."""
        mean: Floats = vault.noisy_sum(run, name, contribution)[0]
        if progress is not None:
            progress(list(parts).index(name) + 1, len(parts))
        return mean * parts[name].divisor(vault.unit)

    scheme = dataclasses.replace(plan.scheme, copied_ends=vault.copied_ends)
    deviation = {name: part.noise_scale for name, part in parts.items()}
    sums = release(HISTOGRAMS, NumberShares(scheme))
    scheme, units = read_densities(scheme, sums, deviation[HISTOGRAMS])
    sums = release(REGRESSION, VisitMoments(scheme)) if REGRESSION in parts else np.zeros(0)
    scheme = solve_regressions(scheme, sums, deviation.get(REGRESSION, 0.0))
    scheme = scheme.with_nodes(units, plan.visits, deviation[TABLES])
    sums = release(TABLES, VisitTables(scheme))
    laws = []
    for node, table in split_tables(scheme, sums):
        if node.role in ("end", "terminal"):
            table = forget_unseen(table, scheme.size(node), deviation[TABLES])
        if node.role == "visits":  # a tree sees where the long ones end; single cells of noise would be many visits
            steps, table = np.arange(len(table) + 1.0), forget_tail(table, deviation[TABLES])
            laws.append(np.diff(Density.of(steps, table, deviation[TABLES]).cumulative)[None])
            continue
        # What is paid where an episode terminates says nothing of what is paid elsewhere.
        apart = 2 if node.parents[:1] == (Parent("over", 0),) else 1
        parents = node.parents[apart - 1 :]
        shape = [scheme.parent_size(parent) for parent in parents]
        ordinal = [scheme.is_ordinal(parent) for parent in parents]
        tables = np.split(table, apart)
        laws.append(np.concatenate([estimate_laws(one, shape, deviation[TABLES], ordinal) for one in tables]))
    people = PeopleSynthesizer(plan, scheme, tuple(laws))
    return vault.release(run, people, label=plan.label())
