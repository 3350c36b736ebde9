"""The bounds of GPOPE's theorems on the chain, and what its rows are beside them."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.gpope import gpope_schedules, ope_pages


def test_the_constant_bound_contracts_to_its_floor() -> None:
    # (1 - 0.5)^2 (8 - C) + C with C = 0.5 * 3 / (2 - 0.5) = 1
    assert gpope_schedules.constant_bound(0.5, 1, 1.0, 3.0, 8.0) == pytest.approx(2.75)
    assert gpope_schedules.constant_bound(0.5, 1_000, 1.0, 3.0, 8.0) == pytest.approx(1.0)
    assert gpope_schedules.constant_bound(0.5, 2, 1.0, 0.0, 8.0) == pytest.approx(0.5)


def test_the_diminishing_bound_is_the_larger_of_two_terms_over_the_steps() -> None:
    assert gpope_schedules.diminishing_bound(2.0, 10, 0.5, 1.0, 5.0) == pytest.approx(1.6)
    assert gpope_schedules.diminishing_bound(2.0, 10, 0.5, 1.0, 50.0) == pytest.approx(5.0)


def test_the_proof_s_first_step_fails_no_step_makes_the_norm_a_contraction() -> None:
    least, largest = gpope_schedules.spectrum()
    assert least == pytest.approx(1.398e-5, rel=1e-3)
    a, _, c = gpope_schedules.chain.expected_moments()
    own = np.block([[np.zeros_like(a), -a.T], [a, c]])
    for step in (1e-3, 0.1, 1 / largest):
        assert np.linalg.norm(np.eye(len(own)) - step * own, 2) > 1
    found = gpope_schedules.exact(1)
    assert found["distance_mean"][0] > gpope_schedules.constant_bound(1 / largest, 1, least, 0.0, 20.22322)


def test_bounds_are_given_where_the_theorems_conditions_on_the_step_hold() -> None:
    (least, largest), values = gpope_schedules.spectrum(), {"deviation": [1.0, 1.0, None], "noise": 1.0}
    constant = gpope_schedules.bounds("constant/clip=1/steps=100/epsilon=1", values | {"grid": [0.1, 2 / largest, 0.1]})
    assert constant == [pytest.approx(gpope_schedules.constant_bound(0.1, 100, least, 2.0, 20.22322)), None, None]
    falling = gpope_schedules.bounds(
        "diminishing/clip=1/steps=100/epsilon=1", values | {"grid": [0.5 / least, 2 / least, 1]}
    )
    assert falling == [None, pytest.approx(8.0 / least**2 / 100), None]


def test_keys_name_what_they_are_of() -> None:
    for name in gpope_schedules.rows():
        schedule, clip, steps, epsilon = gpope_schedules.of(name)
        again = (
            gpope_schedules.exact_key(steps) if clip is None else gpope_schedules.key(schedule, clip, steps, epsilon)
        )
        assert again == name


def test_a_cell_of_values_shows_both_bellman_errors() -> None:
    stores = (ope_pages.gpope_chain.store(), ope_pages.gpope_chain_baselines.store())
    setting = ope_pages.Setting(1_000, 0.1, "add_or_remove")
    assert ope_pages.errors(stores, "chain", "gpope", setting) == "0.55 (0.79 / 0.008)"
    assert ope_pages.errors(stores, "chain", "dp_lsw", setting) == "0.56 (460000)"
    assert ope_pages.errors(stores, "chain", "gpope_paper", setting) == ope_pages.NONE
