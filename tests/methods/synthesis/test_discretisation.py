"""Public bins: rows to cells and back, with what is known of every column."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.methods.synthesis.baselines.ring_table import SPEC, ring_columns

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import DataError, PlanError
from tacit.methods.synthesis.baselines.mst import MstPlan
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.privacy.mechanisms.marginals import DIFFERENCES
from tacit.privacy.vault.plan import public_fields
from tacit_worlds import maze
from tacit_worlds.maze_layouts import LAYOUTS

MAZE = maze.spec(LAYOUTS["ring"])
ROWS = maze.collect(LAYOUTS["ring"], 5_000, agents=50, seed=901)
PUBLIC = maze.collect(LAYOUTS["tee"], 5_000, agents=50, seed=902)
WHERE = "simulated: another maze"
RNG = np.random.default_rng(0)


def codes_of(cut: Discretisation, rows: dict[str, np.ndarray]) -> np.ndarray:
    """Cells [T, A], written here once more, by NumPy's own `digitize`."""
    cells = []
    for axis in cut.axes:
        column = rows["next_observations"] - rows["observations"] if axis.column == DIFFERENCES else rows[axis.column]
        values = column if column.ndim == 1 else column[:, axis.index]
        cells.append(np.clip(np.digitize(values, axis.edges) - 1, 0, len(axis.edges) - 2))
    return np.stack(cells, axis=1).astype(np.int32)


@pytest.mark.parametrize(
    "cut",
    [Discretisation(MAZE, 16), Discretisation.from_public(MAZE, PUBLIC, provenance=WHERE, bins=16)],
    ids=["bounds", "public"],
)
def test_rows_come_back_inside_their_bins_and_on_their_bounds(cut: Discretisation) -> None:
    codes = codes_of(cut, ROWS)
    rows = cut.decode(codes, RNG)
    for name in ("observations", "actions", "rewards"):
        assert rows[name].dtype == np.float32
        assert rows[name].shape == ROWS[name].shape
    widest = max(np.diff(axis.edges).max() for axis in cut.axes[4:6])
    assert np.abs(rows["actions"] - ROWS["actions"]).max() <= widest + 1e-6
    for bound in (-1.0, 1.0):  # a clipped action is an atom, and stays one
        np.testing.assert_array_equal(rows["actions"] == bound, ROWS["actions"] == bound)
    low, high = MAZE.observation.float32_bounds()
    assert ((rows["next_observations"] >= low) & (rows["next_observations"] <= high)).all()
    same = codes_of(cut, rows)[:, :7] == codes[:, :7]
    assert same.mean() > 0.999  # float32 may round a value onto an edge


def test_middles_of_four_bins_are_all_that_the_papers_variant_knows() -> None:
    cut = Discretisation(MAZE, 4, "center")
    assert cut.shape == (4,) * 11
    rows = cut.decode(codes_of(cut, ROWS), RNG)
    np.testing.assert_allclose(np.unique(rows["actions"]), [-0.75, -0.25, 0.25, 0.75])


def test_discrete_columns_and_terminations_are_kept_exactly() -> None:
    cut, rows = Discretisation(SPEC, 8), ring_columns()
    assert [axis.column for axis in cut.axes] == [
        "observations",
        "actions",
        "rewards",
        "next_observations",
        "terminations",
    ]
    assert cut.shape == (5, 3, 10, 5, 2)
    back = cut.decode(codes_of(cut, rows), RNG)
    for name in ("observations", "actions", "next_observations", "terminations"):
        np.testing.assert_array_equal(back[name], rows[name])
        assert back[name].dtype == rows[name].dtype


def test_bins_of_public_rows_hold_about_equally_many_of_them() -> None:
    even, public = Discretisation(MAZE, 16), Discretisation.from_public(MAZE, PUBLIC, provenance=WHERE, bins=16)
    for axis in (6, 7, 9):  # the reward, a position's and a velocity's change
        heaviest = [np.bincount(codes_of(cut, PUBLIC)[:, axis]).max() / 5_000 for cut in (even, public)]
        assert heaviest[1] < 0.13 < heaviest[0]


def test_a_column_without_public_values_is_cut_by_its_bounds() -> None:
    flat = {**PUBLIC, "rewards": np.zeros_like(PUBLIC["rewards"])}
    edges = Discretisation.from_public(MAZE, flat, provenance=WHERE, bins=16).axes[6].edges
    np.testing.assert_allclose(edges, Discretisation(MAZE, 16).axes[6].edges, atol=1e-6)


def test_a_cut_survives_the_certificates_json() -> None:
    for cut in (
        Discretisation(MAZE, 8),
        Discretisation.from_public(MAZE, PUBLIC, provenance=WHERE, bins=8),
        Discretisation(SPEC, 4, "center"),
    ):
        plan = MstPlan(discretisation=cut)
        assert MstPlan.from_json(json.loads(json.dumps(public_fields(plan)))) == plan


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(PlanError, match="bins"):
        Discretisation(MAZE, 3)
    with pytest.raises(PlanError, match="decoding"):
        Discretisation(MAZE, 8, "left")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="provenance"):
        Discretisation.from_public(MAZE, PUBLIC, provenance=" ")
    with pytest.raises(PlanError, match="provenance"):
        Discretisation(MAZE, 8, provenance=WHERE)
    with pytest.raises(DataError, match="do not span"):
        Discretisation(MAZE, 8, edges=((0.0, 1.0),), provenance=WHERE)
    unknown = PublicSpec(Box((0.0,), (1.0,)), Discrete(2), Box((0.0,), (1.0,)), source="declared")
    with pytest.raises(DataError, match="difference"):
        Discretisation(unknown, 8)
