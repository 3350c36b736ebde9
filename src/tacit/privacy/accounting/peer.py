"""`dp_accounting`, the other accountant, without the packages of scipy that it hardly calls.

Importing `scipy.signal`, `scipy.stats` and `scipy.optimize` takes most of a second, which every command would pay that
prices a plan. `dp_accounting` calls few of their functions. While it is imported, stand-ins lie in their place: they
have what it calls often from where scipy itself has it, and load the real package for any other name.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import fft, special

Float64 = NDArray[np.float64]


class _Normal:
    """`scipy.stats.norm`: the same functions of `scipy.special`, without the checks around them."""

    def __init__(self, loc: float = 0.0, scale: float = 1.0) -> None:
        self._loc, self._scale = loc, scale

    def __call__(self, loc: float = 0.0, scale: float = 1.0) -> _Normal:
        return _Normal(loc, scale)

    def _standard(self, x: Any) -> Any:
        return (np.asarray(x, np.float64) - self._loc) / self._scale

    def pdf(self, x: Any) -> Any:
        return np.exp(-(self._standard(x) ** 2) / 2) / np.sqrt(2 * np.pi) / self._scale

    def cdf(self, x: Any) -> Any:
        return special.ndtr(self._standard(x))

    def sf(self, x: Any) -> Any:
        return special.ndtr(-self._standard(x))

    def logcdf(self, x: Any) -> Any:
        return special.log_ndtr(self._standard(x))

    def logsf(self, x: Any) -> Any:
        return special.log_ndtr(-self._standard(x))

    def ppf(self, q: Any) -> Any:
        return special.ndtri(q) * self._scale + self._loc

    def isf(self, q: Any) -> Any:
        return -special.ndtri(q) * self._scale + self._loc


def _convolve(first: Float64, second: Float64) -> Float64:
    """`scipy.signal.fftconvolve` of two vectors."""
    size = len(first) + len(second) - 1
    length = fft.next_fast_len(size, True)
    return np.asarray(fft.irfft(fft.rfft(first, length) * fft.rfft(second, length), length)[:size])


class _StandIn(ModuleType):
    """A module with a few names of a package, which is loaded when another one is asked for."""

    def __init__(self, name: str, **names: Any) -> None:
        super().__init__(name)
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def _import_light(name: str) -> ModuleType:
    stand_ins = [
        _StandIn("scipy.optimize"),
        _StandIn("scipy.signal", fftconvolve=_convolve),
        _StandIn("scipy.stats", norm=_Normal()),
    ]
    missing = [one for one in stand_ins if one.__name__ not in sys.modules]
    sys.modules.update({one.__name__: one for one in missing})
    try:
        return importlib.import_module(name)
    finally:
        for one in missing:
            if sys.modules.get(one.__name__) is one:
                del sys.modules[one.__name__]
            if vars(scipy).get(one.__name__.partition(".")[2]) is one:
                delattr(scipy, one.__name__.partition(".")[2])


_import_light("dp_accounting")

# Behind the call, which they would else forestall: the first import of the package has to be the light one.
from dp_accounting import dp_event  # noqa: E402
from dp_accounting.pld import privacy_loss_distribution  # noqa: E402
from dp_accounting.pld.pld_pmf import (  # noqa: E402
    DensePLDPmf,
    PLDPmf,
    create_pmf,
    create_pmf_pessimistic_connect_dots_fixed_gap,
)
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution  # noqa: E402
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss  # noqa: E402
from dp_accounting.privacy_accountant import NeighboringRelation  # noqa: E402
from dp_accounting.rdp import RdpAccountant, compute_epsilon  # noqa: E402

__all__ = [
    "AdjacencyType",
    "DensePLDPmf",
    "GaussianPrivacyLoss",
    "NeighboringRelation",
    "PLDPmf",
    "PrivacyLossDistribution",
    "RdpAccountant",
    "compute_epsilon",
    "create_pmf",
    "create_pmf_pessimistic_connect_dots_fixed_gap",
    "dp_event",
    "privacy_loss_distribution",
]
