"""The plan of whole people from structured noisy tables: three noisy sums over everybody."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from tacit.data.spec import PublicSpec
from tacit.methods.synthesis.people.scheme import ONCE, Scheme, default_nodes
from tacit.methods.synthesis.people.sums import LOOSE, count_moments, moment_weights
from tacit.methods.synthesis.people.visits import list_variables
from tacit.methods.synthesis.plan import SynthesisPlan, label
from tacit.parameters import Option
from tacit.privacy.mechanisms.contribution_sets import POSITIVE, Block
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Label, clause
from tacit.validation import require_positive, require_valid

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
        moments, norm = count_moments(scheme), sum(weight**2 for weight in moment_weights(scheme))
        squares = {HISTOGRAMS: len(scheme.numbers), REGRESSION: norm, TABLES: once + LOOSE * others}
        shares = {name: share for name, share in zip(squares, self.shares, strict=True) if squares[name]}
        whole, sigma = sum(shares.values()), self.noise_multiplier
        products = [
            Block(kind="gram", share=weight**2 / norm, size=size, width=size)
            for size, weight in zip(moments, moment_weights(scheme), strict=True)
        ]
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
