"""Public feature maps: V(s) = phi(s) . theta, and what is believed of V before any record is read."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.agents.features import OneHot as OneHot
from tacit.agents.features import fourier, frequencies
from tacit.data.spec import Discrete, PublicSpec
from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation.policies import import_function, try_function, unfit_error
from tacit.privacy.mechanisms.contribution_sets import POSITIVE, Blocks, grams
from tacit.privacy.vault.invented import invented_rows
from tacit.serialization import OPTIONAL, Kinds
from tacit.units import Unit
from tacit.validation import require_valid

Float32 = NDArray[np.float32]


class Features(Protocol):
    """A feature map with public parameters: a frozen dataclass whose fields are plain JSON values."""

    @property
    def size(self) -> int:
        """n, how many numbers describe a state."""

    @property
    def tabular(self) -> bool:
        """Whether each state has one feature of its own (first visits count, the Gram matrix is diagonal)."""

    def __call__(self, observations: np.ndarray) -> Float32:
        """Observations [N, d], or [N] of a discrete space -> features [N, n], finite."""

    def constant(self, value: float) -> np.ndarray:
        """The parameters [n] under which every state has this value."""


@dataclass(frozen=True)
class Fourier:
    """The Fourier cosine basis (Konidaris, Osentoski and Thomas, AAAI 2011): cos(pi c . x), x scaled to [0, 1]^d.

    Dimensions that are categories come behind it, an indicator for each label.

    Args:
        order: largest frequency; order 5 in two dimensions gives (5 + 1)^2 = 36 features.
        low, high: public bounds of each dimension, shape (d,); observations outside are moved onto them.
        coupled: all combinations of frequencies, or only those with one dimension that is not 0 (d * order + 1).
        labels: of each dimension the number of its labels, 0 of a number (`Box.categories`); None: all are numbers.

    Raises:
        PlanError: a value is out of range, or there would be more than 10,000 features.
    """

    order: int
    low: tuple[float, ...]
    high: tuple[float, ...]
    coupled: bool = True
    kind: Literal["fourier"] = field(default="fourier", init=False)
    labels: tuple[int, ...] | None = field(default=None, metadata=OPTIONAL)

    def __post_init__(self) -> None:
        require_valid("order", self.order, type(self.order) is int and self.order >= 0, "a whole number >= 0")
        low, high = (tuple(float(v) for v in np.atleast_1d(bound)) for bound in (self.low, self.high))
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        valid = len(low) == len(high) > 0 and all(
            np.isfinite((a, b)).all() and a < b for a, b in zip(low, high, strict=False)
        )
        require_valid("low, high", (low, high), valid, "finite bounds of every dimension, the lower first")
        fits = self.labels is None or len(self.labels) == len(low)
        require_valid("labels", self.labels, fits, "a number of each dimension")
        require_valid("order", self.order, self.size <= 10_000, "at most 10,000 features; coupled=False has far fewer")

    @property
    def size(self) -> int:
        """Number of features."""
        d = len(self._numbers)
        waves = (self.order + 1) ** d if self.coupled else self.order * d + 1
        return int(waves + sum(self.labels or ()))

    @property
    def tabular(self) -> bool:
        """False."""
        return False

    @property
    def coefficients(self) -> np.ndarray:
        """The frequencies c of the numbers, [n, d]; the first row is 0, the constant feature."""
        return frequencies(len(self._numbers), self.order, coupled=self.coupled)

    @property
    def smoothness(self) -> np.ndarray:
        """1 / max(1, |c|^2) of the numbers' features and 1 of the labels', [n]."""
        waves = 1 / np.maximum(1, np.square(self.coefficients).sum(axis=1))
        return np.concatenate([waves, np.ones(sum(self.labels or ()))])

    @property
    def _numbers(self) -> list[int]:
        return [i for i in range(len(self.low)) if not (self.labels and self.labels[i])]

    def __call__(self, observations: np.ndarray) -> Float32:
        """Observations [N, d] (or [N] numbers when d = 1) -> features [N, n]."""
        columns = observations[:, None] if observations.ndim == 1 else observations
        if columns.shape[1] != len(self.low):
            raise _features_error("Fourier", f"observations of {len(self.low)} dimensions", "bounds of every dimension")
        low, high = (np.asarray(bound)[self._numbers] for bound in (self.low, self.high))
        waves = np.asarray(fourier(columns[:, self._numbers], low, high, self.coefficients), np.float32)
        labels = ((i, count) for i, count in enumerate(self.labels or ()) if count)
        marks = [np.asarray(columns[:, [i]] == np.arange(count), np.float32) for i, count in labels]
        return np.concatenate([waves, *marks], axis=1) if marks else waves

    def constant(self, value: float) -> np.ndarray:
        """The constant feature's weight alone."""
        return np.asarray(value * np.eye(1, self.size)[0])


@dataclass(frozen=True)
class CustomFeatures:
    """The user's own features behind a constant 1; the certificate names the function as an assumption.

    Args:
        function: "package.module:function", observations [N, d] or [N] -> numbers [N, width]. It must be fixed without
            the records and look at one observation at a time. Numbers that are not finite count as 0.
        width: how many numbers the function gives; `size` is one more.

    Raises:
        PlanError: the function cannot be imported, or the width is not a whole number of at least 1.
    """

    function: str
    width: int
    kind: Literal["custom"] = field(default="custom", init=False)

    def __post_init__(self) -> None:
        require_valid("width", self.width, type(self.width) is int and self.width >= 1, "a whole number >= 1")
        import_function(self.function)

    @property
    def size(self) -> int:
        """width + 1."""
        return self.width + 1

    @property
    def tabular(self) -> bool:
        """False."""
        return False

    def __call__(self, observations: np.ndarray) -> Float32:
        """Observations -> features [N, width + 1]."""
        values = np.asarray(import_function(self.function)(observations), np.float32)
        if values.shape != (len(observations), self.width):
            what = "the features have another shape than declared"
            expected, remedy = f"numbers of shape [N, {self.width}]", "declare the width that the function returns"
            raise PlanError(what, where=self.function, expected=expected, remedy=remedy)
        values = np.where(np.isfinite(values), values, np.float32(0))  # an error here could tell about a record
        return np.concatenate([np.ones((len(values), 1), np.float32), values], axis=1)

    def require_finite(self, observations: np.ndarray) -> None:
        """Try the function on public observations, before any record is read.

        Raises:
            PlanError: a number is not finite, or the shape is another one.
        """
        self(observations)
        if not np.isfinite(np.asarray(import_function(self.function)(observations), np.float64)).all():
            what = "the features are not finite within the public bounds"
            expected = "finite numbers for every observation within the bounds"
            remedy = "bound the features inside the function"
            raise PlanError(what, where=self.function, expected=expected, remedy=remedy)

    def constant(self, value: float) -> np.ndarray:
        """The constant feature's weight alone."""
        return np.asarray(value * np.eye(1, self.size)[0])


AnyFeatures = Annotated[Features, Kinds(OneHot, Fourier, CustomFeatures)]
"""The type of a plan's features: any, and these are read back from JSON."""


def try_features(features: Features, spec: PublicSpec, where: str = "off_policy_evaluation") -> None:
    """Try features on invented observations, before any record is read or paid for.

    Raises:
        PlanError: they do not fit the observations, or fail on them.
    """
    if isinstance(features, OneHot) and not isinstance(spec.observation, Discrete):
        raise _features_error("OneHot", "a discrete observation", "Fourier or Custom")
    if isinstance(features, CustomFeatures):
        try_function(features.require_finite, features.function, spec, where)
        return
    name = type(features).__name__
    found = [np.asarray(values) for values in try_function(features, name, spec, where)]
    if any(values.shape[1:] != (features.size,) or not np.isfinite(values).all() for values in found):
        raise unfit_error(name, where, f"finite numbers [N, {features.size}]")


def require_memory(features: Features, unit: Unit, grams: int = 1, where: str = "off_policy_evaluation") -> None:
    """Refuse features whose Gram matrices of the public population this machine cannot hold, before they are paid for.

    Args:
        features: of the value function.
        unit: with the population.
        grams: how many such matrices a unit has.

    Raises:
        PlanError: there is too little memory.
    """
    numbers = grams * (features.size if features.tabular else features.size * (features.size + 1) // 2)
    if not hasattr(os, "sysconf"):
        return
    needed, memory = _BYTES * numbers * unit.size, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        what = f"{features.size:,} features of {unit.size:,} units take {math.ceil(needed / 1e9):,} GB of memory"
        expected, remedy = f"at most {memory // 10**9:,} GB, all that this machine has", "choose fewer features"
        raise PlanError(what, where=where, expected=expected, remedy=f"{remedy}, such as Fourier's order 1")


_BYTES = 12  # of a number of a Gram matrix: what is kept, and twice that while it is made


@dataclass(frozen=True)
class Smoothness:
    """A public prior for tabular features: values of states whose numbers are close are close, exp(-|i - j| / length).

    Args:
        length: over how many states values stay alike.
    """

    length: float

    def __post_init__(self) -> None:
        require_valid("length", self.length, 0 < self.length < math.inf, "a finite number > 0")

    def correlation(self, n: int) -> NDArray[np.float64]:
        """[n, n]."""
        states = np.arange(n)
        return np.asarray(np.exp(-np.abs(states[:, None] - states) / self.length))


def gram_blocks(features: Features) -> Blocks:
    """Of one unit's Gram matrices, as `statistics.unit_grams` gives them."""
    return POSITIVE if features.tabular else grams(features.size)


def covariance(
    features: Features, deviation: float, spec: PublicSpec, smoothness: Smoothness | None, *, falling: bool = False
) -> NDArray[np.float64]:
    """The prior covariance [n, n] under which V at a typical state has this standard deviation."""
    # Tabular: of each state, with the smoothness' correlation. Otherwise parameters are independent, and alike unless
    # they fall with the square of the frequency; typical states are uniform in the public bounds of observations.
    n = features.size
    if features.tabular:
        return deviation**2 * (np.eye(n) if smoothness is None else smoothness.correlation(n))
    observations = invented_rows(spec, 256, 1, seed=0)["observations"][:, 0]
    shares = features.smoothness if falling and isinstance(features, Fourier) else np.ones(n)
    typical = float((np.square(features(observations), dtype=np.float64) * shares).sum(axis=1).mean())
    return np.asarray(deviation**2 / max(typical, 1e-12) * np.diag(shares))


def _features_error(name: str, expected: str, remedy: str) -> PlanError:
    return PlanError("the observations have another form", where=name, expected=expected, remedy=f"use {remedy}")
