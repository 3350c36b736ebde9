"""Private simulators of movement by one-shot imitation: `OneShotPlan().calibrate(...)`, `fit`, and `Simulator`s.

See the README of this folder for the algorithm and its guarantee; `mobility.pategail` is the papers' method,
`mobility.baselines` the honest ones.
"""

from tacit.methods.mobility.algorithm import build_contributions, fit, fit_replicates
from tacit.methods.mobility.matching import Matching
from tacit.methods.mobility.moves import Weights
from tacit.methods.mobility.places import StartDistribution
from tacit.methods.mobility.plan import OneShotPlan, Shares, largest_layout
from tacit.methods.mobility.simulator import Simulator, StateLayout, TablePolicy

__all__ = [
    "Matching",
    "OneShotPlan",
    "Shares",
    "Simulator",
    "StartDistribution",
    "StateLayout",
    "TablePolicy",
    "Weights",
    "build_contributions",
    "fit",
    "fit_replicates",
    "largest_layout",
]
