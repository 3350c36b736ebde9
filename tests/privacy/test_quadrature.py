"""The check of the certified bound: where its grid ends, and the epsilons that it finds, against literal numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from tacit.privacy.accounting import quadrature
from tacit.privacy.accounting.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    Leaves,
    PoissonSampledEvent,
    SampledWithoutReplacementEvent,
)
from tacit.units import Relation


def poisson(rate: float, sigma: float) -> Event:
    return PoissonSampledEvent(rate, GaussianEvent(sigma))


GAUSSIAN: Leaves = ((GaussianEvent(0.1), 1),)
POISSON: Leaves = ((poisson(0.01, 0.7), 1000),)
STEEP: Leaves = ((poisson(0.01, 0.5), 10),)
REPLACED: Leaves = ((poisson(0.2, 3.0), 200),)
RARE: Leaves = ((poisson(1e-4, 0.6), 100_000),)
QUIET: Leaves = ((poisson(1e-3, 20.0), 50),)
FIXED: Leaves = ((SampledWithoutReplacementEvent(1000, 10, GaussianEvent(1.0)), 500),)
LAPLACE: Leaves = ((LaplaceEvent(4.0), 5),)
BEYOND: Leaves = ((LaplaceEvent(0.001), 3),)  # the mass of its smallest loss is below the smallest float64
MIXED: Leaves = ((poisson(0.01, 30.0), 5000), (poisson(0.5, 1.0), 7), (LaplaceEvent(3.0), 2))

# Of the search over all 40 exponents, by logsumexp: from where to where the loss lies, and epsilon at delta = 1e-5.
FOUND: list[tuple[Leaves, Relation, float, float, list[float]]] = [
    (GAUSSIAN, "add_or_remove", -33.67435406662516, 131.93562089168117, [91.81728249636]),
    (POISSON, "add_or_remove", -4.155721157656293, 14.322844863592218, [4.618361098, 2.4580021207]),
    (STEEP, "add_or_remove", -0.41271819183669406, 18.029790088899105, [4.36060272919, 0.0928804142544]),
    (REPLACED, "replace_one", -13.926237509806281, 17.46745175767981, [9.2155230083]),
    (RARE, "add_or_remove", -0.8784203470885608, 6.305094654410965, [0.608496816, 0.38994677664]),
    (QUIET, "add_or_remove", -0.0028810467708524972, 0.003052704158060174, [0.00054001018228, 0.00053260309808]),
    (FIXED, "replace_one", -18.659452061359115, 31.474174187671956, [11.04636980246]),
    (LAPLACE, "add_or_remove", -2.0606388936989095, 2.093977353343461, [1.2497148305386]),
    (BEYOND, "replace_one", 5911.650665772585, 6004.950448631834, [6000.000511165]),
    (MIXED, "add_or_remove", -6.117011819776389, 20.059918887341375, [9.0038354115, 4.1707823895]),
]
NAMES = ["gaussian", "poisson", "steep", "replaced", "rare", "quiet", "fixed", "laplace", "beyond", "mixed"]


def spread(leaves: Leaves, relation: Relation) -> tuple[list[Any], float]:
    """(losses, masses, count) of each leaf, and the standard deviation of their sum."""
    steps = [(*quadrature._step(leaf, relation, False), count) for leaf, count in leaves]
    variances = [count * np.dot((losses - np.dot(losses, masses)) ** 2, masses) for losses, masses, count in steps]
    return steps, math.sqrt(sum(variances))


@pytest.mark.parametrize(("leaves", "relation", "low", "high", "epsilons"), FOUND, ids=NAMES)
def test_the_ends_and_the_epsilons_are_those_of_the_whole_search(
    leaves: Leaves, relation: Relation, low: float, high: float, epsilons: list[float]
) -> None:
    ends = quadrature._range(*spread(leaves, relation))
    assert ends == pytest.approx((low, high), rel=1e-10)  # 100,000 steps, each rounded at 2^-53
    found = [grid.epsilon(1e-5) for grid in quadrature.estimate(leaves, relation)]
    assert found == pytest.approx(epsilons, rel=1e-6)  # transforms differ by 1e-7 between processors


@pytest.mark.parametrize(("leaves", "relation"), [row[:2] for row in FOUND], ids=NAMES)
def test_no_exponent_gives_a_smaller_bound(leaves: Leaves, relation: Relation) -> None:
    steps, std = spread(leaves, relation)
    exponents = np.geomspace(0.02, 20, 40)[::3] / std
    found = quadrature._chernoff(steps, np.geomspace(0.02, 20, 40) / std)
    for t in exponents:
        cumulant = sum(count * float(logsumexp(t * losses, b=masses)) for losses, masses, count in steps)
        assert found <= (cumulant + 35) / t * (1 + 1e-9)


@pytest.mark.parametrize("place", range(9))
def test_the_bisection_finds_the_least_wherever_it_lies(place: int) -> None:
    """Fair bets of 1: (100 log cosh(t) + 35) / t is least at t = 1.0536, here in the grid's middle or at an end."""
    steps = [(np.array([-1.0, 1.0]), np.array([0.5, 0.5]), 100)]
    exponents = 1.0536 * 1.07 ** (np.arange(9.0) - place)
    quotients = (100 * np.log(np.cosh(exponents)) + 35) / exponents
    assert np.argmin(quotients) == place
    assert quadrature._chernoff(steps, exponents) == pytest.approx(quotients[place], rel=1e-12)
    assert quadrature._chernoff(steps, exponents[: place + 1]) == pytest.approx(quotients[place], rel=1e-12)
    assert quadrature._chernoff(steps, exponents[place:]) == pytest.approx(quotients[place], rel=1e-12)
