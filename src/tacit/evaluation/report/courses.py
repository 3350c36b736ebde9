"""What a report says of trajectories as wholes: some in pictures, and how long, good and lawful all of them are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.evaluation.report.histograms import Histogram, histogram
from tacit.evaluation.report.svg import Axis
from tacit.evaluation.report.trajectories import TimeLine, Way, time_lines_of, ways_of
from tacit.evaluation.sequences import Sequences, ways

if TYPE_CHECKING:
    from tacit.evaluation.report.content import Score
    from tacit.evaluation.sequences import SequenceDynamics
    from tacit.evaluation.trajscore import TrajScore

Array = NDArray[np.float64]
Kind = Literal["reference", "synthetic", "control"]


@dataclass(frozen=True)
class Drawing:
    """A few trajectories of one table, in one picture: ways over a map, or time lines."""

    label: str
    kind: Kind
    trajectories: tuple[Way, ...] | tuple[TimeLine, ...]


@dataclass(frozen=True)
class Plane:
    """What ways are drawn over.

    Attributes:
        frame: low and high corner (x, y, x, y) of what is shown.
        walls: [W, 4] low and high corner of each wall (`trajectories.wall_boxes`).
        goal: [2], or None.
    """

    frame: tuple[float, float, float, float]
    walls: Array
    goal: Array | None = None


@dataclass(frozen=True)
class Courses:
    """Trajectories as wholes.

    Attributes:
        drawings: pictures, each of ways or of time lines.
        plane: of the ways; None if there are none.
        state: name and public range of the state in time lines; None if there are none.
        visit: what a step is called in time lines.
        figures: distributions over trajectories, such as of their lengths and returns.
        errors: (table, its kind, [H] error of step t against a public simulator), in mean displacements of a step.
    """

    drawings: tuple[Drawing, ...] = ()
    plane: Plane | None = None
    state: Axis | None = None
    visit: str = "step"
    figures: tuple[Histogram, ...] = ()
    errors: tuple[tuple[str, Kind, Array], ...] = ()

    @property
    def compared(self) -> bool:
        """Whether something of reference trajectories is shown."""
        kinds = [drawing.kind for drawing in self.drawings] + [kind for _, kind, _ in self.errors]
        return "reference" in kinds or any(f.reference is not None or f.similarity is not None for f in self.figures)


def drawn_ways(sequences: Sequences, label: str, kind: Kind, *, shown: int = 6, seed: int = 0) -> Drawing:
    """The ways of some random trajectories in the first two columns of the observation; errors as of `ways_of`."""
    return Drawing(label, kind, ways_of(sequences.some(shown, seed)))


def drawn_lines(
    sequences: Sequences, label: str, kind: Kind, *, column: int, whose: str, shown: int = 5, seed: int = 0
) -> Drawing:
    """The time lines of some random trajectories in a column of the observation; errors as of `time_lines_of`."""
    return Drawing(label, kind, time_lines_of(sequences.some(shown, seed), column=column, label=whose))


def lengths_and_returns(
    synthetic: Sequences, reference: Sequences | None = None, *, longest: int, returns: tuple[float, float]
) -> tuple[Histogram, ...]:
    """How lengths and returns are distributed over trajectories.

    Args:
        synthetic: released trajectories.
        reference: simulated or public ones, or None.
        longest: public number of steps of the longest trajectory.
        returns: public range of the sum of rewards.
    """
    own, other = ways(synthetic), None if reference is None else ways(reference)
    return tuple(
        histogram(name, unit, bounds, getattr(own, field), None if other is None else getattr(other, field))
        for name, unit, field, bounds in (
            ("Length", "steps", "lengths", (0.0, float(longest))),
            ("Return", "sum of rewards", "returns", returns),
        )
    )


def course_scores(dynamics: SequenceDynamics | None, closeness: TrajScore | None) -> tuple[Score, ...]:
    """Errors along trajectories and at their seams, from a public simulator, and TrajScore with ceiling and floor."""
    from tacit.evaluation.report.content import Score

    found = []
    if closeness is not None:
        floor = (("Rows in any order", closeness.floor.f1),)
        meaning = "F1 of trajectories in each other's manifolds; higher is better"
        found.append(Score("TrajScore", meaning, closeness.synthetic.f1, False, closeness.ceiling.f1, floor))
    if dynamics is not None:
        unit = "in mean displacements of a step; lower is better"
        for measure, what, value in (
            ("Step inside a fragment", "mean error", dynamics.elsewhere),
            ("Step at a seam", "mean error", dynamics.at_seams),
            ("Gap at a seam", "between a fragment's last state and the next one's first", dynamics.gap),
        ):
            if np.isfinite(value):
                found.append(Score(measure, f"{what}, {unit}", value, public=True))
    return tuple(found)
