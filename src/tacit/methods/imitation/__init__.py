"""Private simulators of movement by one-shot imitation: `Plan().calibrate(...)`, `fit`, and `Simulator`s.

See the README of this folder for the algorithm and its guarantee; `imitation.pategail` is the papers' method,
`imitation.baselines` the honest ones.
"""

from tacit.methods.imitation.algorithm import fit, replicates, works
from tacit.methods.imitation.matching import Matching
from tacit.methods.imitation.moves import Weights
from tacit.methods.imitation.plan import Plan, Shares, layout_for
from tacit.methods.imitation.policy import Layout, TablePolicy
from tacit.methods.imitation.simulator import Simulator
from tacit.methods.imitation.starts import Starts

__all__ = [
    "Layout",
    "Matching",
    "Plan",
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
