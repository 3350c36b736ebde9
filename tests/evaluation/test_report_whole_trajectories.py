"""Whole trajectories in the report: pictures with stitches, distributions, errors, and no real one by mistake."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import numpy as np
import pytest
from test_report import HOSTILE, full_report, private_report

from tacit.errors import DataError
from tacit.evaluation.report import Report, render
from tacit.evaluation.report.charts import ChartAxis
from tacit.evaluation.report.whole_trajectories import (
    Drawing,
    Plane,
    WholeTrajectories,
    trajectory_histograms,
    trajectory_scores,
)
from tacit.evaluation.sequences import SequenceDynamics, Sequences, sequence_dynamics
from tacit.evaluation.trajscore import ManifoldCloseness, TrajScore


def walks(count: int, seed: int, fragment: int = 5) -> Sequences:
    """Walks of 8 to 12 steps in the square [0, 4]^2, stitched from fragments, a little wrong at each stitch point."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(8, 13, count)
    episodes = np.append(0, np.cumsum(lengths))
    times = np.arange(episodes[-1]) - np.repeat(episodes[:-1], lengths)
    actions = rng.integers(0, 3, episodes[-1])
    states = rng.uniform(0, 4, (episodes[-1], 2))
    inside = times > 0
    for row in np.flatnonzero(inside):
        states[row] = step(states[row - 1 : row], actions[row - 1 : row])[0] + 0.05 * (times[row] % fragment == 0)
    nexts = step(states, actions)
    nexts[:-1][inside[1:]] = states[1:][inside[1:]]
    columns = {
        "observations": states,
        "next_observations": nexts,
        "actions": actions,
        "rewards": rng.uniform(0, 1, episodes[-1]),
        "terminations": np.isin(np.arange(episodes[-1]), episodes[1:] - 1),
    }
    return Sequences(columns, episodes, np.flatnonzero(inside & (times % fragment == 0)))


def step(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    moves = np.array([[0.3, 0.0], [0.0, 0.3], [-0.2, -0.2]])
    return np.asarray(states + moves[actions])


def shown(synthetic: Sequences, reference: Sequences | None, label: str = "Synthetic") -> WholeTrajectories:
    drawings = [
        Drawing(label, "synthetic", synthetic.sample(6, 0)),
        Drawing("Lines", "synthetic", synthetic.sample(5, 0), **LINES),
    ]
    if reference is not None:
        drawings.insert(0, Drawing("Protected", "reference", reference.sample(6, 0)))
    return WholeTrajectories(
        drawings=tuple(drawings),
        plane=Plane((0.0, 0.0, 4.0, 4.0), np.array([[1.0, 1.0, 2.0, 2.0]]), np.array([3.0, 3.0])),
        state=ChartAxis(label, 0.0, 4.0),
        figures=trajectory_histograms(synthetic, reference, longest=15, returns=(0.0, 12.0)),
        errors=((label, "synthetic", sequence_dynamics(synthetic, step).step_errors),),
    )


LINES: dict[str, Any] = {"column": 1, "whose": "Patient"}


def test_pictures_distributions_and_errors_are_on_the_page() -> None:
    synthetic, real = walks(30, 0), walks(30, 1)
    page = render(full_report(whole_trajectories=shown(synthetic, real)))
    section = re.search(r'<section id="whole_trajectories">.*?</section>', page, re.DOTALL)
    assert section is not None
    for words in (
        "Trajectory by trajectory",
        "marks each stitch point",
        "one mark a step",
        "Length",
        "Return",
        "Error along a trajectory",
    ):
        assert words in section[0]
    assert section[0].count("<figure>") == 3 + 2 + 1
    assert 'class="path-stitch"' in section[0]


def test_without_reference_trajectories_a_private_report_may_show_them() -> None:
    page = render(private_report(whole_trajectories=shown(walks(9, 0), None)))
    assert '<section id="whole_trajectories">' in page
    assert "filled reference" not in page
    assert '<section id="whole_trajectories">' not in render(private_report())


def test_what_is_shown_comes_back_from_json_with_its_seams_and_gaps() -> None:
    courses = shown(walks(9, 0), None)
    errors = (("one", "synthetic", np.array([0.5, np.nan, 1.0])),)
    report = private_report(whole_trajectories=dataclasses.replace(courses, errors=errors))
    stored = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert render(Report.from_json(stored, report.certificate)) == render(report)


@pytest.mark.parametrize("part", ["drawings", "figures", "errors"])
def test_real_trajectories_need_a_declared_source(part: str) -> None:
    real = walks(9, 1)
    parts = {
        "drawings": {
            "drawings": (Drawing("Protected", "reference", real.sample(6, 0)),),
            "plane": shown(real, None).plane,
        },
        "figures": {"figures": trajectory_histograms(walks(9, 0), real, longest=15, returns=(0.0, 12.0))},
        "errors": {"errors": (("Protected", "reference", np.zeros(3)),)},
    }
    with pytest.raises(DataError, match="whole_trajectories"):
        private_report(whole_trajectories=WholeTrajectories(**parts[part]))  # type: ignore[arg-type]


def test_hostile_labels_stay_text_and_nothing_to_draw_is_no_picture() -> None:
    page = render(full_report(whole_trajectories=shown(walks(9, 0), None, HOSTILE)))
    assert "<script>alert" not in page
    empty = WholeTrajectories(errors=(("one", "synthetic", np.array([np.nan])),))
    assert "Error along" not in render(private_report(whole_trajectories=empty))


def test_scores_have_ceiling_and_floor_and_leave_out_what_there_is_none_of() -> None:
    one, best, worst = (
        ManifoldCloseness(0.8, 0.8, 0.1),
        ManifoldCloseness(0.9, 0.9, 0.1),
        ManifoldCloseness(0.2, 0.2, 0.1),
    )
    walked = sequence_dynamics(walks(30, 0), step)
    scores = trajectory_scores(walked, TrajScore(one, best, worst, 10))
    assert [score.measure for score in scores] == [
        "TrajScore",
        "Step inside a fragment",
        "Step at a stitch point",
        "Gap at a stitch point",
    ]
    assert [scores[0].synthetic, scores[0].ceiling] == pytest.approx([0.8, 0.9])
    assert not scores[0].public
    assert dict(scores[0].controls)["Rows in any order"] == pytest.approx(0.2)
    assert scores[2].synthetic > scores[1].synthetic == pytest.approx(0.0, abs=1e-6)
    assert all(score.public for score in scores[1:])
    alone: SequenceDynamics = sequence_dynamics(walks(30, 0, fragment=100), step)
    assert [score.measure for score in trajectory_scores(alone, None)] == ["Step inside a fragment"]
