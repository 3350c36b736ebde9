"""The report of a release: one self-contained HTML page of blocks, around the promise of its certificate.

A `Report` holds sections of blocks (`blocks`), which are what is shown and what is stored. The modules `synthesis`,
`evaluation`, `improvement`, `learning`, `experts`, `movement` and `alignment` make the sections of their releases.
"""

from tacit.evaluation.report.blocks import Report
from tacit.evaluation.report.page import render

__all__ = ["Report", "render"]
