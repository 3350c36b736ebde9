"""The report of a release: one self-contained HTML page.

`Report` (of synthetic rows), `EvaluationReport`, `PolicyReport`, `ExpertsReport` and `MovementReport` hold plain public
inputs; `render` turns any of them into the page.
"""

from tacit.evaluation.report.courses import (
    Courses,
    Drawing,
    Plane,
    course_scores,
    drawn_lines,
    drawn_ways,
    lengths_and_returns,
)
from tacit.evaluation.report.evaluation import EvaluationReport
from tacit.evaluation.report.evidence import Attack, Audit, Caught, Cost, Histogram, Nearest, Points, Score, histogram
from tacit.evaluation.report.experts import Consensus, ExpertsReport, Played, Votes
from tacit.evaluation.report.learning import Learning, Outcome, PolicyReport
from tacit.evaluation.report.movement import MovementReport, Picture, picture
from tacit.evaluation.report.page import render
from tacit.evaluation.report.synthesis import Correlation, Curve, Map, Report, Return

__all__ = [
    "Attack",
    "Audit",
    "Caught",
    "Consensus",
    "Correlation",
    "Cost",
    "Courses",
    "Curve",
    "Drawing",
    "EvaluationReport",
    "ExpertsReport",
    "Histogram",
    "Learning",
    "Map",
    "MovementReport",
    "Nearest",
    "Outcome",
    "Picture",
    "Plane",
    "Played",
    "Points",
    "PolicyReport",
    "Report",
    "Return",
    "Score",
    "Votes",
    "course_scores",
    "drawn_lines",
    "drawn_ways",
    "histogram",
    "lengths_and_returns",
    "picture",
    "render",
]
