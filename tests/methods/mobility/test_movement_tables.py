"""Layouts of states and tables of policies."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tacit.errors import DataError, PlanError
from tacit.methods.mobility.simulator import StateLayout, TablePolicy

LAYOUT = StateLayout(times=8, counts=(1, 3), stays=(1, 2, 4))


def test_buckets_number_every_state_once() -> None:
    slots, counts, stays, homes = np.meshgrid(np.arange(48), [1, 2, 3, 20], [1, 2, 3, 4, 48], [False, True])
    found = LAYOUT.buckets(slots, counts, stays, homes)
    assert LAYOUT.shape == (8, 2, 3, 2)
    assert np.unique(found).tolist() == list(range(LAYOUT.size))
    assert LAYOUT.buckets(6, np.array([2]), np.array([3]), np.array([True])).tolist() == [((1 * 2 + 0) * 3 + 1) * 2 + 1]


def test_shares_of_time_blocks_count_the_47_steps() -> None:
    np.testing.assert_allclose(LAYOUT.block_shares * 47, [6] * 7 + [5])


@pytest.mark.parametrize(
    "fields", [{"times": 0}, {"times": 49}, {"counts": (2, 3)}, {"stays": (1, 1)}, {"stays": [1, 2]}, {"counts": ()}]
)
def test_layouts_that_are_none_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match="layout"):
        StateLayout(**fields)


def test_a_policy_looks_up_its_table_and_survives_json() -> None:
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.ones(5), (3, LAYOUT.size))
    policy = TablePolicy(LAYOUT, table)
    kind, distinct, stay, home = np.array([0, 2]), np.array([1, 4]), np.array([1, 9]), np.array([True, False])
    found = policy.probabilities(kind, 47, distinct, stay, home)
    at = LAYOUT.buckets(47, distinct, stay, home)
    np.testing.assert_array_equal(found, table[kind, at])
    again = TablePolicy.from_json(json.loads(json.dumps(policy.to_json())))
    np.testing.assert_array_equal(again.table, policy.table)
    assert again.layout == LAYOUT
    assert again.kinds == 3


def test_tables_that_are_no_probabilities_are_refused() -> None:
    with pytest.raises(DataError, match="probabilities"):
        TablePolicy(LAYOUT, np.full((1, LAYOUT.size, 5), 0.3))
    with pytest.raises(DataError, match="probabilities"):
        TablePolicy(LAYOUT, np.full((1, 2, 5), 0.2))
    with pytest.raises(DataError, match="not those of a policy"):
        TablePolicy.from_json({"layout": {"times": 1}})
