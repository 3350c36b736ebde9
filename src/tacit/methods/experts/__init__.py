"""Learning from experts without giving any of them away: `Votes(...).calibrate(...)`, `fit`, `Learned` policies.

See the README of this folder for the algorithms and their guarantees.
"""

from tacit.methods.experts.algorithm import fit
from tacit.methods.experts.anchors import Given, Uniform
from tacit.methods.experts.clones import Fit, LinearClone, MlpClone
from tacit.methods.experts.consensus import Consensus
from tacit.methods.experts.imitation import ReturnWeighted
from tacit.methods.experts.learned import Agreement, Learned, ReturnWeight
from tacit.methods.experts.published import Claim, Setting, claimed, paper, published_setting
from tacit.methods.experts.votes import Votes

__all__ = [
    "Agreement",
    "Claim",
    "Consensus",
    "Fit",
    "Given",
    "Learned",
    "LinearClone",
    "MlpClone",
    "ReturnWeight",
    "ReturnWeighted",
    "Setting",
    "Uniform",
    "Votes",
    "claimed",
    "fit",
    "paper",
    "published_setting",
]
