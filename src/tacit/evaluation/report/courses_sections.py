"""The section of whole trajectories: from `Courses` to labelled charts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.evaluation.report.charts import Line, line_chart
from tacit.evaluation.report.courses import Courses, Drawing
from tacit.evaluation.report.sections import marginal, styles
from tacit.evaluation.report.svg import number, span
from tacit.evaluation.report.trajectories import TimeLine, Way, time_line_chart, way_chart


def courses(shown: Courses | None, reference: str) -> dict[str, Any]:
    """Pictures, distributions and errors for the template.

    Args:
        shown: None leaves the section out.
        reference: what reference rows are called.
    """
    if shown is None:
        return {"courses": None}
    style = styles([(d.label, d.kind) for d in shown.drawings] + [(label, kind) for label, kind, _ in shown.errors])
    legend = [("Synthetic trajectories", "synthetic")]
    if any(figure.reference is not None for figure in shown.figures):
        legend.insert(0, (reference, "filled reference"))
    pictures = [
        {"label": drawing.label, "note": _note(drawing), "chart": _picture(shown, drawing, style[drawing.label])}
        for drawing in shown.drawings
        if drawing.trajectories
    ]
    return {
        "courses": {
            "pictures": pictures,
            "seams": any(len(way.seams) for drawing in shown.drawings for way in drawing.trajectories),
            "lines": any(isinstance(one, TimeLine) for drawing in shown.drawings for one in drawing.trajectories),
            "figures": [marginal(figure, "trajectories") for figure in shown.figures],
            "legend": legend,
            "errors": _errors(shown, style),
            "errors_legend": [(label, style[label]) for label, _, _ in shown.errors],
        }
    }


def _note(drawing: Drawing) -> str:
    count = len(drawing.trajectories)
    return f"{count} trajectories" if count > 1 else "one trajectory"


def _picture(shown: Courses, drawing: Drawing, style: str) -> Any:
    some = [one for one in drawing.trajectories if isinstance(one, Way)]
    if some:
        assert shown.plane is not None, "ways are drawn over a plane"
        plane = shown.plane
        title = f"{drawing.label}: ways in the plane"
        return way_chart(some, style, title=title, frame=plane.frame, walls=plane.walls, goal=plane.goal)
    lines = [one for one in drawing.trajectories if isinstance(one, TimeLine)]
    assert shown.state is not None, "time lines have a state"
    title = f"{drawing.label}: time lines"
    return time_line_chart(lines, style, title=title, x_label=shown.visit, y=shown.state)


def _errors(shown: Courses, style: dict[str, str]) -> Any:
    lines = []
    for label, _, along in shown.errors:
        known = np.flatnonzero(np.isfinite(along))
        lines.append(Line(style[label], (known + 1).astype(np.float64), along[known]))
    lines = [line for line in lines if len(line.x) > 1]
    if not lines:
        return None
    told = "; ".join(f"{label} {number(float(np.nanmean(along)))}" for label, _, along in shown.errors)
    return line_chart(
        lines,
        title=f"Mean error of each step against the simulator, over all steps: {told}",
        x=span("step of a trajectory", *(line.x for line in lines)),
        y=span("error, mean displacements of a step", np.zeros(1), *(line.y for line in lines)),
    )
