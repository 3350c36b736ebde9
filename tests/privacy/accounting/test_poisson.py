"""The step of a Poisson sample on a grid: the numbers of `dp_accounting`, which solves for every loss by itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.pld.pld_pmf import PLDPmf
from dp_accounting.privacy_accountant import NeighboringRelation

from tacit.privacy.accounting import accountants, poisson
from tacit.units import Relation

THEIRS = {
    "add_or_remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
    "replace_one": NeighboringRelation.REPLACE_ONE,
}
CASES = [(1.0, 0.3), (1.0, 20.0), (1 - 1e-9, 1.4), (0.5, 0.02), (0.5, 1.4), (0.008, 1.4), (0.008, 1e3), (1e-4, 0.9)]


def masses(pmf: PLDPmf) -> dict[int, float]:
    dense = pmf.to_dense_pmf()
    return dict(enumerate(dense._probs, dense._lower_loss)) | {-(10**9): dense._infinity_mass}


@pytest.mark.parametrize("relation", THEIRS)
@pytest.mark.parametrize(("q", "sigma"), CASES)
def test_the_grid_is_that_of_dp_accounting(q: float, sigma: float, relation: Relation) -> None:
    interval = max(q, 0.02) / sigma / 20
    ours = poisson.pessimistic_pld(q, sigma, relation, interval)
    theirs = privacy_loss_distribution.from_gaussian_mechanism(
        sigma, value_discretization_interval=interval, sampling_prob=q, neighboring_relation=THEIRS[relation]
    )
    for found, expected in ((ours._pmf_remove, theirs._pmf_remove), (ours._pmf_add, theirs._pmf_add)):
        ours_, theirs_ = masses(found), masses(expected)
        assert ours_.keys() == theirs_.keys()
        # bit for bit here; deltas are rounded at 2^-53, and second differences over a step divide that by it
        np.testing.assert_allclose(list(ours_.values()), list(theirs_.values()), rtol=1e-12, atol=4 * 2**-53 / interval)


@pytest.mark.parametrize(("q", "sigma"), [(0.5, 1.4), (0.008, 1.4), (1.0, 2.0)])
def test_its_delta_on_the_grid_is_that_of_the_half_line(q: float, sigma: float) -> None:
    """Where epsilon = k * interval: P[X > x] under the mixture less exp(epsilon) times that under N(0, sigma^2)."""
    interval = 0.01
    distribution = poisson.pessimistic_pld(q, sigma, "add_or_remove", interval)
    for epsilon in (0.1, 0.4, 1.0):
        x = 0.5 + sigma**2 * math.log1p(math.expm1(epsilon) / q)
        absent, present = (0.5 * math.erfc((x - centre) / sigma / math.sqrt(2)) for centre in (0, 1))
        delta = q * present + (1 - q) * absent - math.exp(epsilon) * absent
        assert distribution.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=1e-6, abs=1e-13)


@pytest.mark.parametrize(("q", "relation"), [(0.5, "add_or_remove"), (1.0, "add_or_remove"), (0.008, "replace_one")])
def test_deltas_at_once_are_those_of_dp_accounting(q: float, relation: Relation) -> None:
    distribution = poisson.pessimistic_pld(q, 1.4, relation, 0.01).self_compose(3)
    epsilons = np.append(np.linspace(0.0, 2.0, 401), 50.0)  # on the grid of losses, between, and beyond all of them
    theirs = distribution.get_delta_for_epsilon(epsilons)
    np.testing.assert_allclose(accountants.deltas(distribution, epsilons), theirs, rtol=1e-12, atol=1e-16)


def test_losses_lie_where_the_mixture_and_the_noise_have_them() -> None:
    """The mean loss of N(0, 2^2) against N(1, 2^2), everyone in the sample, is 1 / (2 * 2^2) in both directions."""
    for swapped in (False, True):
        losses, weights = poisson.losses(1.0, 2.0, "add_or_remove", swapped=swapped)
        assert float(weights @ losses) == pytest.approx(0.125, rel=1e-6)
    losses, weights = poisson.losses(1.0, 2.0, "replace_one", swapped=False)
    assert float(weights @ losses) == pytest.approx(0.5, rel=1e-6)
