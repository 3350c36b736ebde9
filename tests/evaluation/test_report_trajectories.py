"""Pictures of single trajectories: what is drawn where, stitches among it, and what is refused."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
from test_report import HOSTILE

from tacit.errors import DataError
from tacit.evaluation.report.charts import WIDTH, ChartAxis
from tacit.evaluation.report.whole_trajectories import Drawing, Plane, path_chart, time_line_chart, wall_boxes
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
Y = ChartAxis("severity", 5.0, 9.0)


def elements(chart: str, kind: str) -> list[ElementTree.Element]:
    """All elements whose class begins so."""
    return [one for one in ElementTree.fromstring(chart).iter() if one.get("class", "").split(" ")[0] == kind]


def paths(*chosen: int, sequences: Sequences = TABLE) -> Drawing:
    return Drawing("Paths", "synthetic", sequences.pick(np.array(chosen)))


def lines(*chosen: int) -> Drawing:
    return Drawing("Lines", "synthetic", TABLE.pick(np.array(chosen)), 2, "Patient")


def test_a_path_is_broken_at_a_stitch_which_has_a_ring_and_ends_with_the_last_next_observation() -> None:
    chart = path_chart(paths(0), "synthetic", plane=Plane(FRAME, np.zeros((0, 4))))
    solid, leap = elements(chart, "path")
    assert solid.get("d") == "M0 720L90 720M90 450L90 360"  # up is up, and no line across the stitch
    assert (solid.get("stroke-dasharray"), leap.get("stroke-dasharray")) == (None, "2 3")
    assert leap.get("d") == "M90 720L90 450"
    (ring,) = elements(chart, "path-stitch")
    assert (ring.get("cx"), ring.get("cy")) == ("90", "450")
    (start,) = elements(chart, "point")
    assert (start.get("cx"), start.get("cy")) == ("0", "720")
    title = "Paths: paths in the plane (trajectories: 1, stitch points: 1)"
    assert ElementTree.fromstring(chart).get("aria-label") == title
    whole = path_chart(paths(1), "synthetic", plane=Plane(FRAME, np.zeros((0, 4))))
    assert [len(elements(whole, kind)) for kind in ("path", "path-stitch")] == [1, 0]


def test_walls_are_where_the_maze_has_them() -> None:
    boxes = wall_boxes(("#O", "O#", "OO"), 0.5)
    assert boxes.tolist() == [[-0.5, -0.5, 0.5, 0.5], [0.5, 0.5, 1.5, 1.5]]
    assert wall_boxes(("O",), 0.0).shape == (0, 4)
    chart = path_chart(paths(1), "synthetic", plane=Plane(FRAME, np.array([[1.0, 2.0, 3.0, 4.0]]), np.ones(2)))
    assert elements(chart, "wall")[0].get("d") == "M90 540L270 540L270 360L90 360Z"
    (goal,) = elements(chart, "goal")
    assert (goal.get("cx"), goal.get("cy")) == ("90", "630")


def test_a_lane_has_curves_marks_seams_and_an_end() -> None:
    chart = time_line_chart(lines(0, 1), "synthetic", x_label="visit", y=Y)
    assert [one.text for one in elements(chart, "row-label")] == ["Patient 1", "Patient 2"]
    curves = [one.get("d", "") for one in elements(chart, "path")]
    assert [curve.count("L") for curve in curves] == [1, 0, 0]  # two visits, one after the stitch, and one alone
    marks = {one.get("class"): one.get("d", "").count("M") for one in elements(chart, "vote")}
    assert sum(one.get("d", "").count("M") for one in elements(chart, "vote")) == 4
    assert len(marks) == 3
    (stitch,) = elements(chart, "path-stitch")
    between = [float(curves[0].split("L")[1].split()[0]), float(curves[1][1:].split()[0])]
    assert float(stitch.get("d", "")[1:].split()[0]) == pytest.approx(np.mean(between), abs=0.011)
    for number, squares in enumerate((1, 0)):  # the second patient's course was cut off
        alone = time_line_chart(lines(number), "synthetic", x_label="visit", y=Y)
        assert sum(one.tag.endswith("path") for one in elements(alone, "point")) == squares
    heights = [float(curve[1:].split("L")[0].split()[1]) for curve in curves]
    assert heights[1] - heights[0] == pytest.approx(-30.0 * (7 - 5) / (9 - 5))


def test_everything_is_inside_the_picture_and_texts_stay_texts() -> None:
    columns = {**TABLE.columns, "observations": STATES + np.array([0, 0, 4.0]), "actions": np.array([0, 9, 3, 1])}
    drawn = Drawing(HOSTILE, "synthetic", Sequences(columns, TABLE.episodes), 2, HOSTILE * 9)
    chart = time_line_chart(drawn, "synthetic", x_label=HOSTILE * 9, y=ChartAxis(HOSTILE * 9, 5.0, 9.0))
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


def test_values_that_cannot_be_drawn_are_refused() -> None:
    flat = Sequences({**TABLE.columns, "observations": np.arange(4)}, TABLE.episodes)
    with pytest.raises(DataError, match="no such columns"):
        path_chart(paths(0, sequences=flat), "synthetic", plane=Plane(FRAME, np.zeros((0, 4))))
    with pytest.raises(DataError, match="no such columns"):
        time_line_chart(Drawing("", "synthetic", TABLE, 3), "synthetic", x_label="visit", y=Y)
    lost = Sequences({**TABLE.columns, "observations": np.full((4, 3), np.nan)}, TABLE.episodes)
    with pytest.raises(DataError, match="not finite"):
        path_chart(paths(0, sequences=lost), "synthetic", plane=Plane(FRAME, np.zeros((0, 4))))
