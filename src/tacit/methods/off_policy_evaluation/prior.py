"""What is believed of V before any record is read: a public prior covariance of the parameters about a constant."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import PublicSpec
from tacit.methods.off_policy_evaluation.features import Features
from tacit.privacy.vault.isolation import decoy_rows
from tacit.validation import check


@dataclass(frozen=True)
class Smoothness:
    """A public prior for tabular features: values of states whose numbers are close are close, exp(-|i - j| / length).

    Args:
        length: over how many states values stay alike.

    Raises:
        PlanError: the length is not positive.
    """

    length: float

    def __post_init__(self) -> None:
        check("length", self.length, 0 < self.length < math.inf, "a finite number > 0")

    def correlation(self, n: int) -> NDArray[np.float64]:
        """[n, n]."""
        states = np.arange(n)
        return np.asarray(np.exp(-np.abs(states[:, None] - states) / self.length))


def covariance(
    features: Features, deviation: float, spec: PublicSpec, smoothness: Smoothness | None
) -> NDArray[np.float64]:
    """The prior covariance [n, n] under which V at a typical state has this standard deviation.

    Tabular: of each state, with the smoothness' correlation. Otherwise all parameters are alike and independent, and
    typical states are uniform in the public bounds of observations.
    """
    n = features.size
    if features.tabular:
        return deviation**2 * (np.eye(n) if smoothness is None else smoothness.correlation(n))
    observations = decoy_rows(spec, 256, 1, seed=0)["observations"][:, 0]
    typical = float(np.square(features(observations), dtype=np.float64).sum(axis=1).mean())
    return np.asarray(deviation**2 / max(typical, 1e-12) * np.eye(n))
