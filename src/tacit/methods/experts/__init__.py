"""Learning from experts without giving any of them away: `Votes(...).calibrate(...)`, `learn`, `Learned` policies.

See the README of this folder for the algorithms and their guarantees.
"""

from tacit.methods.experts.algorithm import learn
from tacit.methods.experts.anchors import Given, Uniform
from tacit.methods.experts.clones import LinearClone, MlpClone
from tacit.methods.experts.consensus import Consensus
from tacit.methods.experts.fitting import Fit
from tacit.methods.experts.imitation import ReturnWeighted
from tacit.methods.experts.learned import Agreement, Learned
from tacit.methods.experts.published_recipes import Claim, Setting, claimed, paper, published_setting
from tacit.methods.experts.returns import ReturnWeight
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
    "learn",
    "paper",
    "published_setting",
]
