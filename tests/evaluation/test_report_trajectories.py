"""Pictures of single trajectories: what is drawn where, stitches among it, and what is refused."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
from test_report import HOSTILE

from tacit.errors import DataError
from tacit.evaluation.report.charts import WIDTH, Axis
from tacit.evaluation.report.whole_trajectories import (
    Plane,
    PlanePath,
    TimeLine,
    path_chart,
    paths_of,
    time_line_chart,
    time_lines_of,
    wall_boxes,
)
from tacit.evaluation.sequences import Sequences

STATES = np.array([[0.0, 0.0, 5.0], [1.0, 0.0, 6.0], [1.0, 3.0, 7.0], [4.0, 4.0, 8.0]])
NEXTS = np.array([[1.0, 0.0, 6.0], [2.0, 0.0, 7.0], [1.0, 4.0, 8.0], [4.0, 2.0, 9.0]])
TABLE = Sequences(
    {
        "observations": STATES,
        "next_observations": NEXTS,
        "actions": np.array([2, 0, 1, 1]),
        "terminations": np.array([False, False, True, False]),
    },
    np.array([0, 3, 4]),
    np.array([2]),
)
FRAME = (0.0, 0.0, 4.0, 8.0)  # 90 units of the picture to one of the plane, 720 high
Y = Axis("severity", 5.0, 9.0)


def elements(chart: str, kind: str) -> list[ElementTree.Element]:
    """All elements whose class begins so."""
    return [one for one in ElementTree.fromstring(chart).iter() if one.get("class", "").split(" ")[0] == kind]


def test_paths_end_with_the_last_next_observation_and_keep_their_stitches() -> None:
    one, other = paths_of(TABLE)
    assert one.points.tolist() == [[0, 0], [1, 0], [1, 3], [1, 4]]
    assert (one.stitches.tolist(), other.stitches.tolist()) == ([2], [])
    assert other.points.tolist() == [[4, 4], [4, 2]]
    assert paths_of(TABLE, columns=(2, 0))[1].points.tolist() == [[8, 4], [9, 4]]


def test_a_way_is_broken_at_a_seam_which_has_a_ring() -> None:
    chart = path_chart(paths_of(TABLE)[:1], "synthetic", title="Paths", plane=Plane(FRAME, np.zeros((0, 4))))
    solid, leap = elements(chart, "path")
    assert solid.get("d") == "M0 720L90 720M90 450L90 360"  # up is up, and no line across the stitch
    assert (solid.get("stroke-dasharray"), leap.get("stroke-dasharray")) == (None, "2 3")
    assert leap.get("d") == "M90 720L90 450"
    (ring,) = elements(chart, "path-stitch")
    assert (ring.get("cx"), ring.get("cy")) == ("90", "450")
    (start,) = elements(chart, "point")
    assert (start.get("cx"), start.get("cy")) == ("0", "720")
    assert ElementTree.fromstring(chart).get("aria-label") == "Paths (trajectories: 1, stitch points: 1)"
    whole = path_chart(paths_of(TABLE)[1:], "synthetic", title="Paths", plane=Plane(FRAME, np.zeros((0, 4))))
    assert [len(elements(whole, kind)) for kind in ("path", "path-stitch")] == [1, 0]


def test_walls_are_where_the_maze_has_them() -> None:
    boxes = wall_boxes(("#O", "O#", "OO"), 0.5)
    assert boxes.tolist() == [[-0.5, -0.5, 0.5, 0.5], [0.5, 0.5, 1.5, 1.5]]
    assert wall_boxes(("O",), 0.0).shape == (0, 4)
    chart = path_chart([], "synthetic", title="", plane=Plane(FRAME, np.array([[1.0, 2.0, 3.0, 4.0]]), np.ones(2)))
    assert elements(chart, "wall")[0].get("d") == "M90 540L270 540L270 360L90 360Z"
    (goal,) = elements(chart, "goal")
    assert (goal.get("cx"), goal.get("cy")) == ("90", "630")


def test_time_lines_are_those_of_the_columns() -> None:
    one, other = time_lines_of(TABLE, column=2, label="Patient")
    assert (one.label, one.state.tolist(), one.treatments.tolist(), one.ended) == (
        "Patient 1",
        [5, 6, 7],
        [2, 0, 1],
        True,
    )
    assert (other.label, other.state.tolist(), other.ended, other.stitches.tolist()) == ("Patient 2", [8], False, [])


def test_a_lane_has_curves_marks_seams_and_an_end() -> None:
    lines = time_lines_of(TABLE, column=2, label="Patient")
    chart = time_line_chart(lines, "synthetic", title="WholeTrajectories", x_label="visit", y=Y)
    curves = [one.get("d", "") for one in elements(chart, "path")]
    assert [curve.count("L") for curve in curves] == [1, 0, 0]  # two visits, one after the stitch, and one alone
    marks = {one.get("class"): one.get("d", "").count("M") for one in elements(chart, "vote")}
    assert sum(one.get("d", "").count("M") for one in elements(chart, "vote")) == 4
    assert len(marks) == 3
    (stitch,) = elements(chart, "path-stitch")
    between = [float(curves[0].split("L")[1].split()[0]), float(curves[1][1:].split()[0])]
    assert float(stitch.get("d", "")[1:].split()[0]) == pytest.approx(np.mean(between), abs=0.011)
    for line, squares in zip(lines, (1, 0), strict=True):  # the second patient's course was cut off
        alone = time_line_chart([line], "synthetic", title="", x_label="visit", y=Y)
        assert sum(one.tag.endswith("path") for one in elements(alone, "point")) == squares
    heights = [float(curve[1:].split("L")[0].split()[1]) for curve in curves]
    assert heights[1] - heights[0] == pytest.approx(-30.0 * (7 - 5) / (9 - 5))


def test_everything_is_inside_the_picture_and_texts_stay_texts() -> None:
    lines = [TimeLine(HOSTILE * 9, np.array([4.0, 12.0, 6.0]), np.array([0, 9, 3]), True) for _ in range(3)]
    chart = time_line_chart(lines, "synthetic", title=HOSTILE, x_label=HOSTILE * 9, y=Axis(HOSTILE * 9, 5.0, 9.0))
    root = ElementTree.fromstring(chart)
    assert {one.tag for one in root.iter()} <= {"svg", "title", "path", "text", "circle"}
    high = float(root.get("viewBox", "").split()[3])
    for text in root.iter("text"):
        assert 0 <= float(text.get("x", "")) <= WIDTH
        assert 0 <= float(text.get("y", "")) <= high
    for curve in elements(chart, "path"):
        places = np.array([pair.split() for pair in curve.get("d", "")[1:].split("L")], float)
        assert (places >= 0).all()
        assert (places <= [WIDTH, high]).all()


@pytest.mark.parametrize("stitches", [[0], [3], [2, 1], [[1]]])
def test_seams_out_of_place_are_refused(stitches: list[int]) -> None:
    with pytest.raises(DataError, match="stitch"):
        PlanePath(np.zeros((3, 2)), np.array(stitches))
    with pytest.raises(DataError, match="stitch"):
        TimeLine("", np.zeros(3), np.zeros(3, np.int64), False, np.array(stitches))


def test_values_that_cannot_be_drawn_are_refused() -> None:
    for points in (np.zeros((3, 3)), np.zeros((0, 2))):
        with pytest.raises(DataError, match="no positions"):
            PlanePath(points)
    with pytest.raises(DataError, match="no such columns"):
        paths_of(TABLE, columns=(0, 3))
    with pytest.raises(DataError, match="no such columns"):
        time_lines_of(Sequences({**TABLE.columns, "observations": np.arange(4)}, TABLE.episodes), column=0, label="")
    with pytest.raises(DataError, match="not finite"):
        PlanePath(np.full((2, 2), np.nan))
    with pytest.raises(DataError, match="do not fit"):
        TimeLine("", np.zeros(3), np.zeros(2, np.int64), False)
    for treatments in (np.array([0.5]), np.array([-1])):
        with pytest.raises(DataError, match="has no number"):
            TimeLine("", np.zeros(1), treatments, False)
