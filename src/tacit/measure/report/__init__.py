"""The report of a release: one self-contained HTML page.

`Report` and its parts hold plain public inputs; `render` turns them into the page.
"""

from tacit.measure.report.content import (
    Correlation,
    Curve,
    Histogram,
    Map,
    Points,
    Report,
    Return,
    Score,
    histogram,
)
from tacit.measure.report.page import render

__all__ = ["Correlation", "Curve", "Histogram", "Map", "Points", "Report", "Return", "Score", "histogram", "render"]
