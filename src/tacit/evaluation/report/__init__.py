"""The report of a release: one self-contained HTML page.

`Report` (of synthetic rows), `EvaluationReport`, `ImprovementReport`, `PolicyReport`, `ExpertsReport`,
`MovementReport` and `AlignmentReport` hold plain public inputs; `render` turns any of them into the page.
"""

from tacit.evaluation.report.alignment import AlignmentReport, Sample, Wrote
from tacit.evaluation.report.evaluation import EvaluationReport
from tacit.evaluation.report.evidence import Attack, Audit, Caught, Cost, Histogram, Nearest, Points, Score, histogram
from tacit.evaluation.report.experts import Consensus, ExpertsReport, Played, Votes
from tacit.evaluation.report.improvement import ImprovementReport
from tacit.evaluation.report.learning import Learning, Outcome, PolicyReport
from tacit.evaluation.report.movement import MovementReport, Picture, picture
from tacit.evaluation.report.page import render
from tacit.evaluation.report.synthesis import Correlation, Curve, Map, Report, Return
from tacit.evaluation.report.whole_trajectories import (
    Drawing,
    Plane,
    WholeTrajectories,
    drawn_lines,
    drawn_paths,
    lengths_and_returns,
    trajectory_scores,
)

__all__ = [
    "AlignmentReport",
    "Attack",
    "Audit",
    "Caught",
    "Consensus",
    "Correlation",
    "Cost",
    "Curve",
    "Drawing",
    "EvaluationReport",
    "ExpertsReport",
    "Histogram",
    "ImprovementReport",
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
    "Sample",
    "Score",
    "Votes",
    "WholeTrajectories",
    "Wrote",
    "drawn_lines",
    "drawn_paths",
    "histogram",
    "lengths_and_returns",
    "picture",
    "render",
    "trajectory_scores",
]
