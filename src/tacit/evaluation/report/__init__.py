"""The report of a release: one self-contained HTML page of blocks, around the promise of its certificate. A `Report`
holds sections of `blocks`, which are what is shown and what is stored; a module each makes the sections of a kind of
release."""

from tacit.evaluation.report.blocks import Report
from tacit.evaluation.report.page import render

__all__ = ["Report", "render"]
