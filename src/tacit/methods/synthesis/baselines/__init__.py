"""Synthesizers to compare with, under the same promise and with the same public knowledge as tacit's own.

PGM, MST and AIM need the extra `marginals`; PrivSyn needs NumPy alone.
"""

from tacit.methods.synthesis.baselines import aim, mst, pgm, privsyn
from tacit.methods.synthesis.baselines.plan import TableSynthesizer

__all__ = ["TableSynthesizer", "aim", "mst", "pgm", "privsyn"]
