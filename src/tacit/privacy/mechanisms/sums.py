"""Noisy sums of clipped contributions, over samples of units or over people who are met."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from tacit.privacy.accounting.events import (
    Event,
    GaussianEvent,
    PoissonSampledEvent,
    SampledWithoutReplacementEvent,
    SelfComposedEvent,
)
from tacit.privacy.mechanisms.base import (
    HeldBy,
    RowsOf,
    Sum,
    describe_distance,
    describe_rows,
    kind_field,
    require_calibrated,
)
from tacit.privacy.mechanisms.contribution_sets import Blocks, require_blocks
from tacit.privacy.noise.correlated import Correlation
from tacit.serialization import OPTIONAL
from tacit.units import Unit
from tacit.validation import require_valid


@dataclass(frozen=True, kw_only=True)
class PoissonSum(Sum):
    """T noisy sums of clipped contributions, each over a fresh Poisson sample of units.

    Args:
        name: the part's name inside its plan.
        steps: T, how many sums may ever be released.
        sampling_rate: q, each unit's probability of taking part in a step, independently of everything else.
        clip_norm: C, the largest L2 norm of one unit's contribution to one sum.
        noise_multiplier: sigma; the sum gets noise N(0, (sigma C)^2) per coordinate. None until calibrated.
        rows_per_unit: L, of how many of a unit's rows one contribution is made at most.
        rows: which rows these are (see `RowsOf`).
        horizon: H; above 1, each of the L is a fragment: H rows of one episode, one after another, from a row that is
            drawn again in every step; what lies behind the episode's end is masked out.
        fold: only units of this half take part (with rate 1). A unit's half is fixed for the ledger's life by a keyed
            hash of its id (or rows, where it has none): the halves share no unit and cost no more than the dearer one.
        held_out: how many of a unit's episodes are left out, because the same data serve an `AboveThreshold` release
            with that hold-out; a unit that has no others contributes nothing.
        blocks: of what a contribution consists, which the vault sees to: where one unit replaces another, two of them
            are less than two clips apart (`contribution_sets`). For sums over every unit.

    Raises:
        PlanError: a parameter is outside its range.
    """

    kind: Literal["poisson_sum"] = kind_field("poisson_sum")
    name: str
    steps: int
    sampling_rate: float
    clip_norm: float
    noise_multiplier: float | None = None
    rows_per_unit: int = 1
    rows: RowsOf = "drawn"
    horizon: int = 1
    fold: Literal[0, 1] | None = None
    held_out: int = 0
    blocks: Blocks | None = field(default=None, metadata=OPTIONAL)
    shared: ClassVar[bool] = False
    in_selection: ClassVar[bool] = True

    def __post_init__(self) -> None:
        rate = self.sampling_rate
        require_valid(f"{self.name}.sampling_rate", rate, 0 < rate <= 1, "a probability in (0, 1]")
        valid_fold = self.fold is None or (self.fold in (0, 1) and rate == 1)
        require_valid(f"{self.name}.fold", self.fold, valid_fold, "None, or 0 or 1 with sampling_rate 1")
        held = self.held_out
        whole = type(held) is int and held >= 0 and (self.fold is None or not held)
        require_valid(f"{self.name}.held_out", held, whole, "a whole number >= 0, and 0 with a fold")
        if self.blocks is not None:
            require_valid(f"{self.name}.blocks", self.blocks, rate == 1, "None, or blocks with sampling_rate 1")
            require_blocks(self.blocks, self.name)
        self.require()

    @property
    def event(self) -> Event:
        """The part as an event (Poisson-sampled Gaussian, composed T times)."""
        gaussian = GaussianEvent(require_calibrated(self.noise_multiplier, self.name), self.diameter)
        step = gaussian if self.sampling_rate == 1 else PoissonSampledEvent(self.sampling_rate, gaussian)
        return SelfComposedEvent(step, self.steps)

    @property
    def participation(self) -> float:
        """See `Sum`."""
        return self.sampling_rate if self.fold is None else 0.5

    def divisor(self, unit: Unit) -> float:
        """How many units take part in one step, as the public expects: what a sum is divided by."""
        return self.sampling_rate * unit.size

    def describe(self, unit: Unit) -> str:
        """See `Part`."""
        rate = self.sampling_rate
        sample = f"a Poisson sample of {unit.noun}s at rate {rate:.6g}" if rate < 1 else f"every {unit.noun}"
        if self.fold is not None:
            sample += f" of half {self.fold} of two, which a keyed hash of the id or rows decides"
        elif rate < 1:
            sample += f" (about {self.divisor(unit):,.6g} of {unit.size:,})"
        return describe_sum(self, unit, sample + (", fresh every step" if rate < 1 else ""))


@dataclass(frozen=True, kw_only=True)
class FixedSizeSum(Sum):
    """T noisy sums of clipped contributions, each over a fresh sample of fixed size; for the relation `replace_one`.

    The sample is `batch_size` of the `population` places, without replacement; places that hold no unit add nothing.

    Prefer `PoissonSum`, which costs less under the same relation. At rate 0.01, 1,000 steps, noise multiplier 2 and
    delta 1e-5 it costs epsilon 1.21, and samples of a fixed size 2.20. The best known attack on these finds 1.83: their
    bound may be up to 20 % too large. A fixed size is for samples that must all be equally large.

    Args:
        batch_size: B, how many places one step draws.
        population: the public number of places, that of the unit.
        name, steps, clip_norm, noise_multiplier, rows_per_unit, rows, horizon: as for `PoissonSum`.

    Raises:
        PlanError: a parameter is outside its range.
    """

    kind: Literal["fixed_size_sum"] = kind_field("fixed_size_sum")
    name: str
    steps: int
    batch_size: int
    population: int
    clip_norm: float
    noise_multiplier: float | None = None
    rows_per_unit: int = 1
    rows: RowsOf = "drawn"
    horizon: int = 1

    def __post_init__(self) -> None:
        require_valid(
            f"{self.name}.batch_size",
            self.batch_size,
            1 <= self.batch_size <= self.population,
            "from 1 to the population",
        )
        self.require()

    @property
    def event(self) -> Event:
        """The part as an event (Gaussian sampled without replacement, composed T times)."""
        gaussian = GaussianEvent(require_calibrated(self.noise_multiplier, self.name))
        return SelfComposedEvent(SampledWithoutReplacementEvent(self.population, self.batch_size, gaussian), self.steps)

    @property
    def participation(self) -> float:
        """See `Sum`."""
        return self.batch_size / self.population

    def divisor(self, unit: Unit) -> float:
        """How many places one step draws: what a sum is divided by."""
        return self.batch_size

    def describe(self, unit: Unit) -> str:
        """See `Part`."""
        places = f"{self.batch_size:,} of {self.population:,} places"
        sample = f"a sample of fixed size ({places}, drawn without replacement), fresh every step"
        return describe_sum(self, unit, sample)

    def validate(self, unit: Unit) -> None:
        """Raise a PlanError unless the population is the unit's."""
        size = unit.size
        require_valid(f"{self.name}.population", self.population, self.population == size, f"the unit's, {size}")


@dataclass(frozen=True, kw_only=True)
class UserSum(Sum):
    """T noisy sums over people who are met one after another, each of them in at most `participations` of the T.

    For a `UserVault`, whose register keeps that bound. What one person adds to all T sums together is then bounded,
    and T does not enter the price (`proofs/policy_gradient.md`).

    Args:
        name: the part's name inside its plan.
        steps: T, how many sums may ever be released.
        users: N, how many people are expected for one sum; it is divided by this constant, however many came.
        clip_norm: C, the largest L2 norm of one person's contribution to one sum.
        noise_multiplier: sigma, of the whole part: the standard deviation of its noise over the largest norm of all
            that one person adds. None until calibrated; 0 is no noise and an infinite epsilon.
        rows_per_unit: L, how many rows of one meeting are read at most, in order of time.
        participations: k, in how many sums one person may take part.
        correlation: of the noise of successive sums (see `privacy.noise.correlated`).
        decay: rates of the workload that "toeplitz" noise is matched to: (1.0,) for sums that add up, (1.0, beta) with
            momentum beta, (rho,) where earlier sums fade at the rate rho.
        blocks: of what a contribution consists, as for `PoissonSum`: one block, since two people who replace each other
            may be met in different sums (`proofs/correlated_noise.md`).
        fold: for which of two folds of a plan its people are met, 0 first (with one participation). The folds share
            nobody and cost no more than the dearer one.

    Raises:
        PlanError: a parameter is outside its range.
    """

    kind: Literal["user_sum"] = kind_field("user_sum")
    name: str
    steps: int
    users: int
    clip_norm: float
    noise_multiplier: float | None = None
    rows_per_unit: int = 1
    participations: int = 1
    correlation: Correlation = "toeplitz"
    decay: tuple[float, ...] = (1.0,)
    blocks: Blocks | None = field(default=None, metadata=OPTIONAL)
    fold: Literal[0, 1] | None = field(default=None, metadata=OPTIONAL)
    rows: ClassVar[RowsOf] = "first"
    horizon: ClassVar[int] = 1
    held_by: ClassVar[HeldBy] = "visitors"

    def __post_init__(self) -> None:
        counts, decay, kinds = (self.users, self.participations), self.decay, get_args(Correlation)
        whole = all(type(n) is int and n >= 1 for n in counts)
        require_valid(f"{self.name}.users and participations", counts, whole, "whole numbers >= 1")
        require_valid(f"{self.name}.correlation", self.correlation, self.correlation in kinds, " or ".join(kinds))
        plain = decay == (1.0,) or self.correlation == "toeplitz"
        rates = plain and len(decay) >= 1 and all(0 <= rate <= 1 for rate in decay)
        expected = 'rates in [0, 1]; (1.0,) unless the correlation is "toeplitz"'
        require_valid(f"{self.name}.decay", decay, rates, expected)
        if self.blocks is not None:
            alone = len(self.blocks) == 1 and self.blocks[0].share == 1 and self.diameter >= math.sqrt(2)
            require_valid(f"{self.name}.blocks", self.blocks, alone, "None, or one block of several numbers")
            require_blocks(self.blocks, self.name)
        once = self.fold is None or (self.fold in (0, 1) and self.participations == 1)
        require_valid(f"{self.name}.fold", self.fold, once, "None, or 0 or 1 with one participation")
        self.require()

    @property
    def event(self) -> Event:
        """The part as an event: one Gaussian, however many sums there are."""
        return GaussianEvent(require_calibrated(self.noise_multiplier, self.name), self.diameter)

    def divisor(self, unit: Unit) -> float:
        """How many people are expected for one sum: what it is divided by."""
        return self.users

    def describe(self, unit: Unit) -> str:
        """See `Part`."""
        sigma = require_calibrated(self.noise_multiplier, self.name)
        rates = ", ".join(f"{rate:g}" for rate in self.decay)
        apart = describe_distance(self, unit)
        matched = "" if self.decay == (1.0,) else f", matched to sums that fade at {rates}"
        fold = "" if self.fold is None else f" of fold {self.fold} of two, which share nobody,"
        return (
            f"{self.steps:,} noisy sum(s), each over all {unit.noun}(s){fold} that are met for it ({self.users:,} are "
            f"expected, however many come); one {unit.noun} adds to at most {self.participations:,} of them, as a "
            f"register of contributions keeps, a vector of norm at most {self.clip_norm:.6g}{apart} "
            f"made from {describe_rows(self)} of that meeting, under {self.correlation} noise of a standard deviation "
            f"of {sigma:.6g} times the largest norm of all it adds{matched}"
        )


def describe_sum(part: Sum, unit: Unit, sample: str) -> str:
    """What sums over samples of units are, and what one unit adds to them."""
    scale = require_calibrated(part.noise_multiplier, part.name) * part.clip_norm
    return (
        f"{part.steps:,} noisy sum(s) over {sample}; one {unit.noun} adds to one sum a vector of norm at most "
        f"{part.clip_norm:.6g}{describe_distance(part, unit)} made from {describe_rows(part)}, under noise of standard "
        f"deviation {scale:.6g} a number"
    )
