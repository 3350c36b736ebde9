"""Private simulators of movement by one-shot imitation: `OneShotPlan().calibrate(...)`, `fit`, and `Simulator`s.

See the README of this folder for the algorithm and its guarantee; `mobility.pategail` is the papers' method,
`mobility.baselines` the honest ones.
"""

from tacit.methods.mobility.algorithm import fit, replicates, works
from tacit.methods.mobility.matching import Matching
from tacit.methods.mobility.moves import Weights
from tacit.methods.mobility.places import Starts
from tacit.methods.mobility.plan import OneShotPlan, Shares, layout_for
from tacit.methods.mobility.simulator import Layout, Simulator, TablePolicy

__all__ = [
    "Layout",
    "Matching",
    "OneShotPlan",
    "Shares",
    "Simulator",
    "Starts",
    "TablePolicy",
    "Weights",
    "fit",
    "layout_for",
    "replicates",
    "works",
]
