"""Public mazes of the private maze's outer size."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.data.spec import Box
from tacit_worlds import maze
from tacit_worlds.maze_layouts import LAYOUTS, MazeLayout, distances
from tacit_worlds.maze_public import other_mazes, other_rows


@pytest.mark.parametrize("name", ["umaze", "medium"])
def test_mazes_are_others_of_the_same_size(name: str) -> None:
    layout = LAYOUTS[name]
    mazes = other_mazes(layout, 40, seed=0)
    assert len(mazes) == 40
    for other in mazes:
        assert [len(row) for row in other.cells] == [len(row) for row in layout.cells]
        assert other.cells != layout.cells
        assert distances(other).min() >= 0
    assert len({other.cells for other in mazes}) > 20
    assert len({other.goal for other in mazes}) > 5


def test_the_private_walls_never_come_up() -> None:
    """With four inner cells, all mazes of at least three free ones but the private one do."""
    layout = MazeLayout("tiny", ("####", "#OO#", "#O##", "####"), (1, 1), 10, (0.0, 1.0))
    seen = {other.cells for other in other_mazes(layout, 200, seed=1)}
    assert layout.cells not in seen
    assert seen == {
        ("####", "#OO#", "##O#", "####"),
        ("####", "##O#", "#OO#", "####"),
        ("####", "#O##", "#OO#", "####"),
        ("####", "#OO#", "#OO#", "####"),
    }


def test_rows_are_the_same_for_the_same_seed_and_within_the_bounds() -> None:
    layout = LAYOUTS["umaze"]
    rows, again, other = (other_rows(layout, 640, mazes=4, seed=seed) for seed in (3, 3, 4))
    assert {len(column) for column in rows.values()} == {640}
    assert all(np.array_equal(rows[name], again[name]) for name in rows)
    assert not np.array_equal(rows["observations"], other["observations"])
    bounds = maze.spec(layout).observation
    assert isinstance(bounds, Box)
    assert (rows["observations"] >= np.array(bounds.low) - 1e-5).all()
    assert (rows["observations"] <= np.array(bounds.high) + 1e-5).all()
    goal = other_mazes(layout, 4, seed=3)[0].goal_position
    expected = np.exp(-np.linalg.norm(rows["observations"][:160, :2] - goal, axis=1))
    assert np.allclose(rows["rewards"][:160], expected, atol=1e-6)
