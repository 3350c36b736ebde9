"""A tree of secure sums: what is lost, what remains exact, and what 32 bits hold."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("flwr")

from experiments.beyond import federation_scale as scale


def test_floors_on_paper() -> None:
    """A cohort of 100 with a floor of 90 opens with ceil(100^2 / 110) answers, and one in a hundred may leave."""
    found = scale.floors("cohort", 0.9)
    assert (found["floor"], found["opened"]) == (90, 91)
    assert found["price"] == pytest.approx(105.409, abs=1e-3)
    assert found["dropped"] == pytest.approx(0.0103, abs=1e-4)
    assert scale.floors("root", 0.9)["dropped"] == pytest.approx(0.0991, abs=1e-4)


def test_losses_are_binomial() -> None:
    assert scale.lost("cohort", 0.9, 0.0) == 0.0
    fewer = sum(math.comb(100, stayed) * 0.91**stayed * 0.09 ** (100 - stayed) for stayed in range(91))
    assert scale.lost("cohort", 0.9, 0.09) == pytest.approx(fewer, rel=1e-9)
    assert scale.lost("root", 0.9, 0.2) == 1.0


def test_a_tree_keeps_nodes_with_enough_noise_and_loses_others() -> None:
    whole = scale.tree("region", 0.8, 0.0, 400)
    assert (whole["answered"], whole["lost"]) == (1.0, 0.0)
    assert whole["error"] < 6.0
    none = scale.tree("root", 0.8, 0.5, 400)
    assert (none["answered"], none["lost"], none["error"]) == (0.0, 1.0, 0.0)


def test_what_one_sum_of_everybody_holds_in_32_bits() -> None:
    assert scale.flat(1_000) == {"share": 0.9, "price": pytest.approx(1.0541, abs=1e-4)}
    assert scale.flat(1_000_000)["price"] > 5.0


def test_a_secure_sum_is_metered() -> None:
    found = scale.secure(4, 50)
    assert (found["answered"], found["messages"]) == (4.0, 4.0)
    assert 4_000 < found["down"] < 9_000
    assert 8 * 50 < found["up"] < 9_000
