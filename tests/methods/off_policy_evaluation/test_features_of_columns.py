"""Fourier features of named columns: waves of the numbers, an indicator for each label."""

from __future__ import annotations

import math

import numpy as np

from tacit.data import Column, PublicSpec
from tacit.data.spec import space_of
from tacit.methods.off_policy_evaluation.features import AnyFeatures, Fourier
from tacit.privacy.vault.invented import edge_rows, invented_rows
from tacit.serialization import read, to_json
from tacit.study.policies import resolve_features

SPEC = PublicSpec(
    observation=space_of(
        Column("pulse", low=30, high=200),
        Column("ward", "category", labels=("north", "east", "south")),
        Column("age", "integer", 0, 99),
    ),
    action=space_of(Column("drug", "category", labels=("a", "b"))),
    reward=space_of(Column("score", low=0, high=1)),
    source="declared",
)


def test_labels_have_indicators_behind_the_waves() -> None:
    phi = resolve_features("fourier:1", SPEC, "--features")
    assert phi == Fourier(1, (30, 0, 0), (200, 2, 99), labels=(0, 3, 0))
    assert phi.size == 4 + 3
    found = phi(np.array([[30, 2, 0], [115, 0, 99]], np.float32))
    np.testing.assert_allclose(found[0], [1, 1, 1, 1, 0, 0, 1], atol=1e-6)
    np.testing.assert_allclose(found[1], [1, -1, 0, math.cos(1.5 * math.pi), 1, 0, 0], atol=1e-6)
    assert phi.constant(2.0).tolist() == [2, 0, 0, 0, 0, 0, 0]
    assert read(AnyFeatures, to_json(phi)) == phi


def test_numbers_alone_are_written_as_before() -> None:
    plain = Fourier(2, (0.0,), (1.0,))
    assert "labels" not in to_json(plain)
    assert Fourier(2, (0.0,), (1.0,), labels=(0,))(np.array([0.5])).tolist() == plain(np.array([0.5])).tolist()


def test_categories_alone_keep_a_constant() -> None:
    phi = Fourier(3, (0.0,), (2.0,), labels=(3,))
    assert phi(np.array([1.0])).tolist() == [[1, 0, 1, 0]]


def test_invented_rows_are_whole_where_columns_are() -> None:
    rows = invented_rows(SPEC, 50, 4, seed=0)["observations"]
    assert set(rows[..., 1].ravel().tolist()) == {0.0, 1.0, 2.0}
    np.testing.assert_array_equal(rows[..., 2], np.rint(rows[..., 2]))
    assert not np.array_equal(rows[..., 0], np.rint(rows[..., 0]))
    for edges in edge_rows(SPEC, 4, 2):
        np.testing.assert_array_equal(edges["observations"][..., 1:], np.rint(edges["observations"][..., 1:]))
