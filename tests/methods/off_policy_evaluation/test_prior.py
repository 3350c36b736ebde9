"""The public prior: correlations by hand, and the same spread of V whatever the features."""

import math

import numpy as np
import pytest

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation.features import Fourier, OneHot, Smoothness, covariance

SPEC = PublicSpec(observation=Box((0.0, 0.0), (1.0, 2.0)), action=Discrete(2), reward=Box((0,), (1,)), source="physics")


def test_states_that_are_close_are_alike():
    assert Smoothness(2.0).correlation(3)[0] == pytest.approx([1, math.exp(-0.5), math.exp(-1)])
    found = covariance(OneHot(3), 0.5, SPEC, Smoothness(2.0))
    assert found == pytest.approx(0.25 * Smoothness(2.0).correlation(3))
    assert covariance(OneHot(3), 0.5, SPEC, None) == pytest.approx(0.25 * np.eye(3))


@pytest.mark.parametrize("falling", [False, True])
@pytest.mark.parametrize("order", [0, 2, 5])
def test_v_at_typical_states_has_the_deviation(order, falling):
    features = Fourier(order, (0.0, 0.0), (1.0, 2.0))
    prior = covariance(features, 3.0, SPEC, None, falling=falling)
    phi = features(np.random.default_rng(1).uniform((0, 0), (1, 2), (20_000, 2))).astype(float)
    assert np.einsum("ni,ij,nj->n", phi, prior, phi).mean() == pytest.approx(9.0, rel=0.1)


def test_a_falling_prior_expects_little_of_high_frequencies():
    features = Fourier(2, (0.0, 0.0), (1.0, 2.0))  # frequencies (0, 0), (0, 1), (0, 2), (1, 0), (1, 1), ...
    shares = np.array([1, 1, 1 / 4, 1, 1 / 2, 1 / 5, 1 / 4, 1 / 5, 1 / 8])
    assert features.smoothness == pytest.approx(shares)
    prior = covariance(features, 3.0, SPEC, None, falling=True)
    assert prior / prior[0, 0] == pytest.approx(np.diag(shares))
    assert covariance(OneHot(3), 0.5, SPEC, None, falling=True) == pytest.approx(0.25 * np.eye(3))
    labelled = Fourier(1, (0.0, 0.0), (1.0, 2.0), labels=(0, 2))
    assert labelled.smoothness.tolist() == [1.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("length", [0.0, -1.0, math.inf, math.nan])
def test_a_length_is_positive(length):
    with pytest.raises(PlanError):
        Smoothness(length)
