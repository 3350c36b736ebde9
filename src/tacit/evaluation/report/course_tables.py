"""From sampled trajectories to a report's sections about them, in tacit's own worlds and in others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.evaluation.report.courses import (
    Courses,
    Drawing,
    Plane,
    course_scores,
    drawn_lines,
    drawn_ways,
    lengths_and_returns,
)
from tacit.evaluation.report.svg import Axis
from tacit.evaluation.report.trajectories import wall_boxes
from tacit.evaluation.sequences import SequenceDynamics, Sequences, sequence_dynamics, ways
from tacit.evaluation.trajscore import TrajScore, train_encoder, traj_score

if TYPE_CHECKING:
    from tacit.envs.maze import Layout

SYNTHETIC, PROTECTED = "Synthetic trajectories", "Protected trajectories"
SEEN = 64
"""Steps of a trajectory that TrajScore sees, evenly spread over the longest."""
FEWEST = 8
"""Trajectories of which a set for TrajScore has more than neighbours."""


def sections(
    spec: PublicSpec,
    synthetic: Sequences,
    reference: Sequences | None,
    public: Sequences | None = None,
    *,
    longest: int,
    seed: int,
    layout: Layout | None = None,
    state: tuple[int, str] = (0, "observation_0"),
) -> dict[str, Any]:
    """A report's fields on trajectories as wholes: `courses` and `scores`.

    Args:
        spec: the public bounds.
        synthetic: released trajectories, with their seams.
        reference: simulated ones to compare with, or None (private ones are never compared with).
        public: of nobody who is among the reference, from which TrajScore learns what trajectories are like.
        longest: public number of steps of the longest trajectory.
        seed: of what is chosen to be drawn, and of TrajScore.
        layout: the maze that they are ways through; without one, trajectories with discrete actions are time lines.
        state: column of the observation in time lines, and its name.
    """
    errors = None if layout is None else maze_errors(layout, synthetic)
    close = None if reference is None or public is None else _closeness(synthetic, reference, public, longest, seed)
    total = ways(synthetic).returns
    room = 0.05 * float(np.ptp(total)) or 1.0
    returns = float(total.min()) - room, float(total.max()) + room  # of released trajectories, and so public
    box, column = spec.observation, state[0]
    lines = layout is None and isinstance(spec.action, Discrete) and isinstance(box, Box)
    courses = Courses(
        drawings=_drawn(synthetic, reference, seed, layout=layout, state=state if lines else None),
        plane=None if layout is None else maze_plane(layout),
        state=Axis(state[1], box.low[column], box.high[column]) if lines and isinstance(box, Box) else None,
        figures=lengths_and_returns(synthetic, reference, longest=longest, returns=returns),
        errors=() if errors is None else ((SYNTHETIC, "synthetic", errors.along),),
    )
    return {"courses": courses, "scores": course_scores(errors, close)}


def maze_plane(layout: Layout) -> Plane:
    """The whole maze, with its walls and its goal."""
    from tacit.envs.maze_layouts import CELL_ORIGIN

    low, rows, columns = -CELL_ORIGIN, len(layout.cells), len(layout.cells[0])
    walls, goal = wall_boxes(layout.cells, CELL_ORIGIN), np.asarray(layout.goal_position, np.float64)
    return Plane((low, low, low + rows, low + columns), walls, goal)


def maze_errors(layout: Layout, sequences: Sequences) -> SequenceDynamics | None:
    """Errors against the maze's own simulator; None where every row starts inside a wall."""
    from tacit.envs import maze

    states = np.asarray(sequences.columns["observations"])
    if maze.in_wall(layout, states[:, :2]).all():
        return None
    return sequence_dynamics(
        sequences,
        lambda state, action: maze.step(state, action, layout),
        known=lambda state: ~maze.in_wall(layout, state[:, :2]),
    )


def _drawn(
    synthetic: Sequences,
    reference: Sequences | None,
    seed: int,
    *,
    layout: Layout | None,
    state: tuple[int, str] | None,
) -> tuple[Drawing, ...]:
    drawings = []
    for sequences, label, kind in ((reference, PROTECTED, "reference"), (synthetic, SYNTHETIC, "synthetic")):
        if sequences is None:
            continue
        if layout is not None:
            drawings.append(drawn_ways(sequences, label, kind, seed=seed))  # type: ignore[arg-type]
        elif state is not None:
            whose = label.split()[0]
            drawings.append(drawn_lines(sequences, label, kind, column=state[0], whose=whose, seed=seed))  # type: ignore[arg-type]
    return tuple(drawings)


def _closeness(
    synthetic: Sequences, reference: Sequences, public: Sequences, longest: int, seed: int
) -> TrajScore | None:
    """TrajScore; None of a handful."""
    if min(len(synthetic), len(reference) // 2, len(public)) < FEWEST:
        return None
    encoder = train_encoder(public, horizon=longest, stride=-(-longest // SEEN), seed=seed)
    return traj_score(encoder, reference, synthetic, seed=seed)
