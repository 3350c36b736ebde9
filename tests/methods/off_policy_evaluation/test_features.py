"""Feature maps against literal numbers, and what they refuse."""

import json

import numpy as np
import pytest

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation import FittedQ, Problem
from tacit.methods.off_policy_evaluation.features import CustomFeatures, Fourier, OneHot, try_features
from tacit.privacy.vault.plan import public_fields


def squares(observations):
    return observations**2


def broken(observations):
    return np.full((len(observations), 2), np.nan)


HERE = "tests_features"


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, HERE, sys.modules[__name__])


def test_indicators_and_states_without_a_value():
    assert OneHot(3)(np.array([0, 2, 3])).tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert OneHot(3).constant(2.5).tolist() == [2.5, 2.5, 2.5]
    assert OneHot(3).tabular
    with pytest.raises(PlanError, match="another form"):
        try_features(
            OneHot(3), PublicSpec(Box((0.0, 0.0), (1.0, 1.0)), Discrete(2), Box((0.0,), (1.0,)), source="declared")
        )


def test_the_cosine_basis_by_hand():
    basis = Fourier(order=1, low=(0.0, -1.0), high=(2.0, 1.0))
    x, y = 0.25, 0.75  # of the observation (0.5, 0.5)
    expected = [1.0, np.cos(np.pi * y), np.cos(np.pi * x), np.cos(np.pi * (x + y))]
    assert basis(np.array([[0.5, 0.5]]))[0] == pytest.approx(expected, abs=1e-6)
    assert basis(np.array([[99.0, -99.0]]))[0] == pytest.approx([1, 1, -1, -1], abs=1e-6)


@pytest.mark.parametrize(("coupled", "size"), [(True, 36), (False, 11)])
def test_sizes_and_constants_of_order_five_in_two_dimensions(coupled, size):
    basis = Fourier(order=5, low=(0.0, 0.0), high=(1.0, 1.0), coupled=coupled)
    observations = np.random.default_rng(0).random((9, 2))
    assert basis(observations).shape == (9, basis.size) == (9, size)
    assert basis(observations) @ basis.constant(-3.0) == pytest.approx(np.full(9, -3.0))
    assert not basis.tabular


def test_a_number_alone_is_one_dimension():
    assert Fourier(2, 0, 38)(np.array([19]))[0] == pytest.approx([1, 0, -1], abs=1e-6)


def test_the_users_own_features_come_behind_a_constant():
    own = CustomFeatures(f"{HERE}:squares", width=2)
    assert own(np.array([[2.0, 3.0]])).tolist() == [[1, 4, 9]]
    assert own.size == 3
    assert own.constant(7.0).tolist() == [7, 0, 0]


def test_features_of_another_width_are_refused_and_what_is_not_finite_counts_as_zero():
    with pytest.raises(PlanError, match="another shape"):
        CustomFeatures(f"{HERE}:squares", width=3)(np.zeros((4, 2)))
    values = CustomFeatures(f"{HERE}:broken", width=2)(np.zeros((4, 2)))
    assert np.isfinite(values).all()
    assert (values[:, 1:] == 0).any()


@pytest.mark.parametrize(
    "make",
    [
        lambda: OneHot(0),
        lambda: Fourier(-1, 0, 1),
        lambda: Fourier(5, (0.0, 0.0), (1.0,)),
        lambda: Fourier(5, (0.0,), (0.0,)),
        lambda: Fourier(5, (0.0,) * 6, (1.0,) * 6),
        lambda: CustomFeatures("nowhere:nothing", 1),
        lambda: CustomFeatures(f"{HERE}:squares", 0),
    ],
)
def test_parameters_out_of_range_are_refused(make):
    with pytest.raises(PlanError):
        make()


def test_maps_come_back_from_json():
    for one in (OneHot(3), Fourier(2, (0.0, 1.0), (2.0, 3.0), coupled=False), CustomFeatures(f"{HERE}:squares", 2)):
        plan = FittedQ(problem=Problem(gamma=0.9, horizon=3), features=one)
        assert FittedQ.from_json(json.loads(json.dumps(public_fields(plan)))) == plan
    for wrong in ({"kind": "tiles", "n": 3}, {"kind": "one_hot", "size": 3}):
        with pytest.raises(PlanError, match="FittedQ"):
            FittedQ.from_json(public_fields(plan) | {"features": wrong})
