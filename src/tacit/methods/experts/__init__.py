"""Learning from experts without giving any of them away: `Votes(...).calibrate(...)`, `fit`, `LearnedPolicies`.

See the README of this folder for the algorithms and their guarantees.
"""

from tacit.methods.experts.algorithm import fit
from tacit.methods.experts.anchors import GivenAnchors, UniformAnchors
from tacit.methods.experts.clones import Fit, LinearClone, MlpClone
from tacit.methods.experts.consensus import Consensus
from tacit.methods.experts.imitation import ReturnWeighted
from tacit.methods.experts.learned import Agreement, LearnedPolicies, ReturnWeight
from tacit.methods.experts.published import Claim, Setting, compare_claims, published_plan, published_setting
from tacit.methods.experts.votes import Votes

__all__ = [
    "Agreement",
    "Claim",
    "Consensus",
    "Fit",
    "GivenAnchors",
    "LearnedPolicies",
    "LinearClone",
    "MlpClone",
    "ReturnWeight",
    "ReturnWeighted",
    "Setting",
    "UniformAnchors",
    "Votes",
    "compare_claims",
    "fit",
    "published_plan",
    "published_setting",
]
