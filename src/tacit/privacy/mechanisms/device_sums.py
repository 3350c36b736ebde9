"""Sums over devices: each person's device answers a query once, and the answers are bounded, noised and added up.

Who adds the noise is the part's kind: the server (`PoissonSum` with rate 1, `LaplaceSum`), all devices together
(`DeviceSum(noise="shared")`, of which a secure aggregation shows the server the sum alone), or each device enough for
itself (`DeviceSum(noise="device")`, local differential privacy).

Proof page: `proofs/federated_sums.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from tacit.errors import MechanismError
from tacit.privacy.accounting.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    SelfComposedEvent,
    ZcdpEvent,
)
from tacit.privacy.gradients.clipping import clip_rows
from tacit.privacy.mechanisms.base import HeldBy, RowsOf, Sum, Trust, describe_rows, kind_field, require_calibrated
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.noise.discrete import LARGEST, LARGEST_NUMERATOR
from tacit.privacy.noise.lattice import add_noise
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.sentences import Clause, clause
from tacit.units import Unit
from tacit.validation import require_valid

NoiseAdder = Literal["shared", "device"]

GRID_BITS = 20
"""A Laplace sum counts in steps of bound / 2^20."""

LEAST_SHARE = 16.0
"""Smallest standard deviation of one device's share, in steps of the grid: then sums of shares are, to 2^-200, as good
as one discrete Gaussian (Kairouz, Liu and Steinke, arXiv:2102.06387, the tau of their Proposition 14)."""

ROUNDED = 4.0
"""Variance of the rounding, in squared steps of the grid, that makes discrete Gaussian noise of Gaussian noise, up to
a factor of 1 + 2 exp(-2 pi^2 4) = 1 + 1.1e-34 (`proofs/federated_sums.md`)."""

MODULUS_BITS = 32


@dataclass(frozen=True, kw_only=True)
class DeviceSum(Sum):
    """T noisy sums over devices that add the noise themselves.

    Args:
        name: the part's name inside its plan.
        steps: T, how many sums may ever be released.
        devices: N, how many devices there are; a sum is divided by this constant, however many answer.
        clip_norm: C, the largest L2 norm of one person's answer.
        noise: "shared": each device adds a discrete Gaussian of variance (noise_multiplier clip_norm)^2 / floor on the
            grid of clip_norm / 2^bits, in whole numbers modulo 2^32; "device": each adds
            N(0, (noise_multiplier clip_norm)^2).
        noise_multiplier: None until calibrated; 0 is no noise and an infinite epsilon.
        floor: fewest answers of which a sum may be released, for shared noise.
        bits: of the grid, for shared noise.
        rows_per_unit: L, how many of a person's first rows are read at most.

    Raises:
        PlanError: a parameter is outside its range, or the sums would not fit 32 bits.
    """

    kind: Literal["device_sum"] = kind_field("device_sum")
    name: str
    steps: int
    devices: int
    clip_norm: float
    noise: NoiseAdder
    noise_multiplier: float | None = None
    floor: int = 1
    bits: int = 16
    rows_per_unit: int = 1
    rows: ClassVar[RowsOf] = "first"
    horizon: ClassVar[int] = 1
    held_by: ClassVar[HeldBy] = "devices"

    def __post_init__(self) -> None:
        self.require()
        name, adders = self.name, get_args(NoiseAdder)
        require_valid(f"{name}.noise", self.noise, self.noise in adders, " or ".join(adders))
        whole = all(type(n) is int for n in (self.devices, self.floor, self.bits))
        require_valid(f"{name}.devices", self.devices, whole and self.devices >= 1, "a whole number >= 1")
        require_valid(f"{name}.floor", self.floor, 1 <= self.floor <= self.devices, "from 1 to the number of devices")
        require_valid(f"{name}.bits", self.bits, 8 <= self.bits <= 24, "from 8 to 24")
        if not self.shared:
            unused = (self.floor, self.bits) == (1, DeviceSum.bits)
            require_valid(f"{name}.floor and bits", (self.floor, self.bits), unused, "left out without shared noise")
            return
        widest = 2.0**self.bits + math.ceil(12 * (self.share or 0.0))
        held = 2.0 * self.devices * widest < 2.0**MODULUS_BITS
        require_valid(f"{name}.bits", self.bits, held, "so few that the sums of all devices fit 32 bits")
        enough = self.share is None or self.share == 0 or self.share >= LEAST_SHARE
        require_valid(f"{name}.bits", self.bits, enough, f"enough for a share of noise of {LEAST_SHARE:g} grid steps")
        drawn = self.share is None or self.variance <= LARGEST_NUMERATOR
        require_valid(f"{name}.bits", self.bits, drawn, "so few that a share of noise can be drawn exactly")

    @property
    def shared(self) -> bool:
        """Whether devices share the noise: answers are whole numbers, which a secure aggregation adds up."""
        return self.noise == "shared"

    @property
    def share(self) -> float | None:
        """Standard deviation of one device's share in steps of the grid."""
        if self.noise_multiplier is None:
            return None
        return math.sqrt(self.variance)

    @property
    def variance(self) -> int:
        """Variance of one device's share, in squared steps of the grid: a whole number, rounded up."""
        return math.ceil((require_calibrated(self.noise_multiplier, self.name) * 2.0**self.bits) ** 2 / self.floor)

    @property
    def event(self) -> Event:
        """The part as an event: a Gaussian, for shared noise less the variance that rounding makes up for."""
        sigma = require_calibrated(self.noise_multiplier, self.name)
        if self.shared and sigma:
            sigma = math.sqrt(sigma**2 - ROUNDED / 4.0**self.bits)
        return SelfComposedEvent(GaussianEvent(sigma), self.steps) if sigma else NonPrivateEvent()

    @property
    def former_event(self) -> Event:
        """See `Part`: the concentrated privacy of shared noise."""
        sigma = require_calibrated(self.noise_multiplier, self.name)
        return SelfComposedEvent(ZcdpEvent(0.5 / sigma**2), self.steps) if self.shared and sigma else self.event

    @property
    def trust(self) -> Trust:
        """See `Part`."""
        return "Federated" if self.shared else "Local"

    @property
    def noise_scale(self) -> float:
        """See `Sum`."""
        noise = require_calibrated(self.noise_multiplier, self.name) * self.clip_norm
        return noise * math.sqrt(self.devices / (self.floor if self.shared else 1))

    def divisor(self, unit: Unit) -> float:
        """How many devices there are: what a sum is divided by."""
        return self.devices

    def describe(self, unit: Unit) -> str:
        """See `Part`."""
        scale = require_calibrated(self.noise_multiplier, self.name) * self.clip_norm
        noise = (
            f"discrete Gaussian noise of standard deviation {scale:.6g} a number, in steps of "
            f"{self.clip_norm / 2**self.bits:.6g}, shared among at least {self.floor:,} answers"
            if self.shared
            else f"noise of standard deviation {scale:.6g} a number, which its own device adds"
        )
        return (
            f"{self.steps:,} sum(s) over at most {self.devices:,} devices; one {unit.noun} adds to one sum a vector "
            f"of norm at most {self.clip_norm:.6g} made from {describe_rows(self)}, under {noise}"
        )

    def assumptions(self) -> tuple[Clause, ...]:
        """See `Part`."""
        return (clause("who_answers"), *([clause("noise_shares")] if self.shared else []))

    def validate(self, unit: Unit) -> None:
        """Raise a PlanError if there are more devices than units."""
        expected = f"at most the unit's, {unit.size}"
        require_valid(f"{self.name}.devices", self.devices, self.devices <= unit.size, expected)


@dataclass(frozen=True, kw_only=True)
class LaplaceSum(Sum):
    """T sums of d numbers a person, each number with Laplace noise of its own (the papers' mechanism).

    Args:
        name: the part's name inside its plan.
        steps: T.
        size: d, how many numbers one answer has.
        bound: largest absolute value of one number.
        noise_multiplier: scale of the noise over the bound; None until calibrated, 0 is no noise.
        rows_per_unit: L, how many of a person's first rows are read at most.
        most: at how many bounds the absolute values of one answer may add up to at most; None is d of them. What is
            charged is that many numbers at their bound, the dearest of all ways to spread the answer.

    Raises:
        PlanError: a parameter is outside its range.
    """

    kind: Literal["laplace_sum"] = kind_field("laplace_sum")
    name: str
    steps: int
    size: int
    bound: float
    noise_multiplier: float | None = None
    rows_per_unit: int = 1
    most: int | None = None
    rows: ClassVar[RowsOf] = "first"
    horizon: ClassVar[int] = 1
    trust: ClassVar[Trust] = "Local"
    held_by: ClassVar[HeldBy] = "devices"
    laplace: ClassVar[bool] = True
    shared: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.require()
        require_valid(f"{self.name}.size", self.size, type(self.size) is int and self.size >= 1, "a whole number >= 1")
        fewer = self.most is None or (type(self.most) is int and 1 <= self.most <= self.size <= 2**GRID_BITS)
        expected = "None, or a whole number from 1 to the size, which is below 2^20"
        require_valid(f"{self.name}.most", self.most, fewer, expected)
        m = self.noise_multiplier
        drawn = laplace_scale(m or 0.0) <= LARGEST
        require_valid(f"{self.name}.noise_multiplier", m, drawn, "below 2^20: a scale that can be drawn")

    @property
    def clip_norm(self) -> float:
        """The bound of a single number, under the name that all sums have for theirs."""
        return self.bound

    @property
    def event(self) -> Event:
        """The part as an event: T d Laplace mechanisms, or T `most` of them."""
        scale, numbers = require_calibrated(self.noise_multiplier, self.name), self.most or self.size
        return SelfComposedEvent(LaplaceEvent(scale), self.steps * numbers) if scale else NonPrivateEvent()

    def divisor(self, unit: Unit) -> float:
        """How many people there are: what a sum is divided by."""
        return unit.size

    def describe(self, unit: Unit) -> str:
        """See `Part`."""
        scale = require_calibrated(self.noise_multiplier, self.name) * self.bound
        together = "" if self.most is None else f", all together at most {self.most:,} times that"
        return (
            f"{self.steps:,} sum(s) of {self.size:,} numbers; one {unit.noun} adds to each "
            f"number at most {self.bound:.6g} in absolute value{together}, made from {describe_rows(self)}, "
            f"under Laplace noise of scale {scale:.6g} on each number"
        )


FederatedSum = PoissonSum | DeviceSum | LaplaceSum
"""What a `FederatedVault` serves: its `PoissonSum`s have rate 1."""


def sum_over_all(
    people: int,
    *,
    name: str,
    clip_norm: float,
    noise_multiplier: float | None,
    noise: Literal["server", "shared", "device"] = "server",
    floor: int | None = None,
    steps: int = 1,
    rows_per_unit: int = 1,
) -> PoissonSum | DeviceSum:
    """T noisy sums over everybody's first rows: a `PoissonSum` of rate 1, or a `DeviceSum` where devices add the noise.

    Args:
        people: the public population.
        floor: fewest answers, for shared noise; None is nine in ten.
        name, clip_norm, noise_multiplier, steps, rows_per_unit: as in both.
        noise: who adds it.
    """
    if noise == "server":
        return PoissonSum(
            name=name,
            steps=steps,
            sampling_rate=1.0,
            clip_norm=clip_norm,
            noise_multiplier=noise_multiplier,
            rows_per_unit=rows_per_unit,
            rows="first",
        )
    least = (floor or math.ceil(0.9 * people)) if noise == "shared" else 1
    return DeviceSum(
        name=name,
        steps=steps,
        devices=people,
        clip_norm=clip_norm,
        noise=noise,
        noise_multiplier=noise_multiplier,
        floor=least,
        bits=_bits(people, least, noise_multiplier or 0.0) if noise == "shared" else DeviceSum.bits,
        rows_per_unit=rows_per_unit,
    )


def _bits(people: int, floor: int, noise_multiplier: float) -> int:
    """The finest grid, up to the default, on which the sums of all devices and their noise fit the modulus."""
    room = 2.0**MODULUS_BITS / (2 * people * (1 + 12 * noise_multiplier / math.sqrt(floor)) + 2 * people / 2**8)
    return int(min(DeviceSum.bits, max(8, math.floor(math.log2(room)))))


def zeros(part: FederatedSum, size: int) -> npt.NDArray[Any]:
    """The sum of no answers, [size] of the type that `answers` has."""
    return np.zeros(size, np.int64 if part.laplace or part.shared else np.float64)


def answers(part: FederatedSum, vectors: npt.ArrayLike, noise: SecretNoise) -> npt.NDArray[Any]:
    """What devices send: their vectors bounded and, where devices add the noise, noised.

    Args:
        part: which sum.
        vectors: [U, d], one of each device.
        noise: of the devices.

    Returns:
        [U, d]: float64 for noise by the server or by each device, int64 steps of the grid otherwise.

    Guarantee: each row depends on its own vector alone; its norm (for `LaplaceSum`: each of its numbers) before noise
    is at most the part's clip, also after rounding to the grid. A row with a value that is not finite counts as zero.

    Raises:
        MechanismError: `vectors` is not [U, d], or not as wide as a `LaplaceSum` declares.
    """
    if isinstance(part, LaplaceSum):
        return _bound_to_grid(part, np.asarray(vectors, np.float64))
    d = np.shape(vectors)[-1]
    room = 0.5 * math.sqrt(d) / 2.0**part.bits if isinstance(part, DeviceSum) and part.shared else 0.0
    if isinstance(part, PoissonSum):
        return part.clipped(np.asarray(vectors))
    clipped = clip_rows(vectors, part.clip_norm * (1.0 - room))
    sigma = require_calibrated(part.noise_multiplier, part.name)
    if part.noise == "device":
        scale = sigma * part.clip_norm
        return add_noise(clipped, scale, noise)
    whole = np.rint(clipped / part.clip_norm * 2.0**part.bits).astype(np.int64)
    whole[(whole**2).sum(axis=1) > 4**part.bits] = 0  # cannot be: rounding was left its room
    return whole + noise.discrete_gaussian(whole.size, part.variance).reshape(whole.shape) if sigma else whole


def release_mean(
    part: FederatedSum, total: npt.NDArray[Any], unit: Unit, noise: SecretNoise
) -> npt.NDArray[np.float64]:
    """The mean that leaves the vault: the sum of `answers`, with the server's noise where the server adds it; [d]."""
    sigma = require_calibrated(part.noise_multiplier, part.name)
    if isinstance(part, PoissonSum):
        scale = sigma * part.clip_norm
        return add_noise(total, scale, noise) / part.divisor(unit)
    if isinstance(part, LaplaceSum):
        step = part.bound / 2.0**GRID_BITS
        drawn = noise.discrete_laplace(total.size, laplace_scale(sigma)) if sigma else 0
        return np.asarray((total + drawn) * step / part.divisor(unit), np.float64)
    if part.noise == "device":
        return np.asarray(total, np.float64) / part.divisor(unit)
    half = 2 ** (MODULUS_BITS - 1)
    centred = (np.asarray(total, np.int64) + half) % (2 * half) - half
    return np.asarray(centred * (part.clip_norm / 2.0**part.bits) / part.divisor(unit), np.float64)


def is_admissible(part: FederatedSum, size: int, vector: Any) -> bool:
    """Whether a vector has the shape, the type and the range of what `answers` gives for the part."""
    if not isinstance(vector, np.ndarray) or vector.shape != (size,) or vector.dtype != zeros(part, size).dtype:
        return False
    if not np.isfinite(vector).all():
        return False
    if isinstance(part, LaplaceSum):
        together = (part.most or part.size) * 2**GRID_BITS
        return is_within(vector, 2**GRID_BITS) and int(np.abs(vector).sum()) <= together
    if isinstance(part, PoissonSum):
        return bool(np.linalg.norm(vector) <= part.clip_norm * (1 + 1e-9))
    return is_within(vector, largest_answer(part))


def is_within(vector: npt.NDArray[Any], limit: float) -> bool:
    """Whether every number is from -most to most (the least whole number has no absolute value)."""
    return bool(((vector >= -limit) & (vector <= limit)).all())


def largest_answer(part: DeviceSum) -> float:
    """Largest absolute number in an honest device's answer: its clip and 12 standard deviations of its noise.

    In steps of the grid, a whole number, for shared noise.
    """
    if part.shared:
        return float(2**part.bits + np.ceil(12 * (part.share or 0.0)))
    sigma = require_calibrated(part.noise_multiplier, part.name)
    return float(part.clip_norm * (1 + 12 * sigma) * (1 + 2.0**-10))


def laplace_scale(noise_multiplier: float) -> int:
    """Scale of the discrete Laplace noise in grid steps: one more than the multiplier asks, for the grid's sake."""
    return math.ceil(noise_multiplier * 2.0**GRID_BITS) + 1


def bound_numbers(part: LaplaceSum, vectors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Vectors [..., d] with every number within the bound, and all of one vector together within `most` bounds.

    A vector with a number that is not finite counts as zero.
    """
    finite = np.isfinite(vectors).all(axis=-1, keepdims=True)
    within: npt.NDArray[np.float64] = np.clip(np.where(finite, vectors, 0.0), -part.bound, part.bound)
    if part.most is None:
        return within
    length = np.abs(within).sum(axis=-1, keepdims=True)
    return np.asarray(within * np.minimum(1.0, part.most * part.bound / np.maximum(length, part.bound)), np.float64)


def _bound_to_grid(part: LaplaceSum, vectors: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Bounded numbers in whole grid steps, towards 0 where they are bounded together: rounding lengthens no answer."""
    if vectors.ndim != 2 or vectors.shape[1] != part.size:
        expected, remedy = f"[units, {part.size}]", "declare in the plan how many numbers a person answers"
        raise MechanismError(f"answers of shape {vectors.shape}", where=part.name, expected=expected, remedy=remedy)
    steps = bound_numbers(part, vectors) / part.bound * 2.0**GRID_BITS
    return (np.rint(steps) if part.most is None else np.trunc(steps)).astype(np.int64)
