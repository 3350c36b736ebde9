"""Conditional tables along an elimination order, against sums over all cells."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.methods.synthesis.baselines.graphical import Tree, elimination, model_cells

SHAPE = (3, 2, 4, 2, 3)
CLIQUES = ((0, 1), (1, 2), (0, 2), (2, 3))  # a loop and a tail; column 4 stands alone


def potentials() -> dict[tuple[int, ...], np.ndarray]:
    rng = np.random.default_rng(3)
    return {axes: rng.normal(size=[SHAPE[a] for a in axes]) for axes in CLIQUES}


def brute_force() -> np.ndarray:
    """Probabilities of all cells, by the definition."""
    letters = "abcde"
    terms = [np.exp(values) for values in potentials().values()]
    scopes = ["".join(letters[a] for a in axes) for axes in CLIQUES]
    whole = np.einsum(",".join([*scopes, "e"]) + "->abcde", *terms, np.ones(SHAPE[4]))
    return whole / whole.sum()


@pytest.mark.parametrize("axes", [(0,), (4,), (3, 0), (1, 3), (0, 1, 2), (4, 2), (0, 1, 2, 3, 4)])
def test_marginals_are_those_of_all_cells(axes: tuple[int, ...]) -> None:
    others = tuple(a for a in range(5) if a not in axes)
    expected = np.transpose(brute_force().sum(axis=others), np.argsort(np.argsort(axes)))
    np.testing.assert_allclose(Tree.from_potentials(SHAPE, potentials()).marginal(axes), expected, atol=1e-12)


def test_drawn_cells_have_these_probabilities() -> None:
    codes = Tree.from_potentials(SHAPE, potentials()).draw(200_000, np.random.default_rng(0))
    shares = np.bincount(np.ravel_multi_index(codes.T, SHAPE), minlength=np.prod(SHAPE)) / 200_000
    expected = brute_force().ravel()
    assert np.abs(shares - expected).max() < 6 * np.sqrt(expected.max() / 200_000)
    assert np.abs(shares - expected).sum() / 2 < 0.02


def test_cells_of_the_junction_tree() -> None:
    assert model_cells(SHAPE, []) == 3 + 2 + 4 + 2 + 3
    assert model_cells(SHAPE, CLIQUES) == 3 * 2 * 4 + 4 * 2 + 3
    square = [(0, 1), (1, 2), (2, 3), (0, 3)]  # needs one chord
    assert model_cells((2, 2, 2, 2), square) == 2 * 2**3
    assert elimination(SHAPE, CLIQUES)[0] == (4, ())


def test_tables_that_are_no_probabilities_are_refused() -> None:
    with pytest.raises(ValueError, match="probabilities"):
        Tree((0,), ((),), (np.array([0.5, 0.6]),))
    with pytest.raises(ValueError, match="probabilities"):
        Tree((0, 1), ((), (1,)), (np.array([0.5, 0.5]), np.full((2, 2), 0.5)))
    with pytest.raises(ValueError, match="order"):
        Tree((1, 2), ((), ()), (np.array([0.5, 0.5]), np.array([1.0])))
