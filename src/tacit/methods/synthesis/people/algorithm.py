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
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.data.sources.expressions import compute_rewards, invented_rows
from tacit.data.spec import PublicSpec
from tacit.errors import PlanError
from tacit.methods import load_class
from tacit.methods.synthesis.laws import estimate_laws, forget_tail, forget_unseen
from tacit.methods.synthesis.people import sampling
from tacit.methods.synthesis.people.densities import Density
from tacit.methods.synthesis.people.scheme import ONCE, Scheme, default_nodes
from tacit.methods.synthesis.people.sums import (
    LOOSE,
    NumberShares,
    VisitMoments,
    VisitTables,
    count_moments,
    read_densities,
    solve_regressions,
    split_tables,
)
from tacit.methods.synthesis.people.visits import list_variables
from tacit.methods.synthesis.plan import Progress, SynthesisPlan, label
from tacit.parameters import Option
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.base import Contribution
from tacit.privacy.mechanisms.contribution_sets import POSITIVE, Block
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Label, clause
from tacit.privacy.vault.base import exhausted_error
from tacit.privacy.vault.vault import Vault
from tacit.serialization import from_json, to_json
from tacit.validation import require_positive, require_valid, require_whole

if TYPE_CHECKING:
    from tacit.data.trajectories import Trajectories

HISTOGRAMS, REGRESSION, TABLES = "histograms", "regression", "tables"


@dataclass(frozen=True, kw_only=True)
class PeoplePlan(SynthesisPlan):
    """The public parameters of whole people from structured noisy tables.

    `noise_multiplier` is that of one Gaussian that costs as much as all three sums together.
    """

    method: ClassVar[str] = "synthesis of people (structured tables)"
    source: ClassVar[str] = "Structured noisy tables of visits (tacit)"
    learns_transitions: ClassVar[bool] = False

    spec: PublicSpec
    """the public bounds."""
    most: Option[int] = 64
    """visits of a person that count at most, the first ones; nobody synthetic has more."""
    visits: Option[float] = 6.0
    """a public guess of how many visits a person has, by which tables are made coarse enough."""
    shares: tuple[float, ...] = (0.07, 0.2, 0.73)
    """of the squared mu: for histograms of numbers, regressions of their changes, and tables."""

    def __post_init__(self) -> None:
        require_valid("most", self.most, type(self.most) is int and self.most >= 2, "a whole number >= 2")
        require_positive(visits=self.visits)
        valid = len(self.shares) == 3 and min(self.shares) > 0 and abs(sum(self.shares) - 1) < 1e-9
        require_valid("shares", self.shares, valid, "three numbers > 0 that add up to 1")
        super().__post_init__()

    @property
    def longest(self) -> int:
        """Visits of a synthetic person at most."""
        return self.most

    @cached_property
    def scheme(self) -> Scheme:
        """What is drawn and how it is coded, before anything is released."""
        seen = list_variables(self.spec.observation, self.spec.difference)
        done = list_variables(self.spec.action, None)
        low, high = self.spec.reward.low[0], self.spec.reward.high[0]
        computes = True if self.spec.reward_expression else None
        whole, terminals = self.spec.reward.whole[0], self.spec.terminals
        return Scheme(seen, done, (low, high), whole, self.most, terminals, computes_reward=computes)

    def parts(self) -> tuple[PoissonSum, ...]:
        """The only touch of private rows: a noisy sum each over everybody."""
        scheme = self.scheme
        once = sum(node.role in ONCE for node in default_nodes(scheme))
        others = sum(node.role not in ONCE for node in default_nodes(scheme))
        moments = count_moments(scheme)
        squares = {HISTOGRAMS: len(scheme.numbers), REGRESSION: len(moments), TABLES: once + LOOSE * others}
        shares = {name: share for name, share in zip(squares, self.shares, strict=True) if squares[name]}
        whole, sigma = sum(shares.values()), self.noise_multiplier
        products = [Block(kind="gram", share=1 / len(moments), size=size, width=size) for size in moments]
        return tuple(
            PoissonSum(
                name=name,
                steps=1,
                sampling_rate=1.0,
                clip_norm=float(squares[name]) ** 0.5,
                noise_multiplier=None if sigma is None else sigma * (whole / share) ** 0.5,
                rows_per_unit=self.most,
                rows="first",
                blocks=tuple(products) if name == REGRESSION else POSITIVE,
            )
            for name, share in shares.items()
        )

    def label(self) -> Label:
        """The certificate's statements."""
        parts = ", ".join(part.name for part in self.parts())
        computed = self.spec.reward_expression
        public = () if computed is None else (clause("rewards_computed", words=computed),)
        return label(clause("visit_sums", parts=parts), clause("whole_unit"), public=public)


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
        ordinal = [scheme.is_ordinal(parent) for parent in node.parents]
        laws.append(estimate_laws(table, scheme.shape(node), deviation[TABLES], ordinal))
    people = PeopleSynthesizer(plan, scheme, tuple(laws))
    return vault.release(run, people, label=plan.label())
