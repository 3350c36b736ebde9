"""Private policy gradient (DPPG): `Plan(...).calibrate(...)`, `learn` from a `UserVault`, `Learned` policies.

`recipes` has the settings of known tasks. See the README of this folder for the algorithm and its guarantee.
"""

from __future__ import annotations

from tacit.agents.heads import Categorical, Gaussian
from tacit.methods.policy_gradient import recipes
from tacit.methods.policy_gradient.algorithm import learn
from tacit.methods.policy_gradient.features import OneHot, Quadratic, Scaled
from tacit.methods.policy_gradient.learned import Learned
from tacit.methods.policy_gradient.plan import Local, Plan, Staircase
from tacit.methods.policy_gradient.policies import Acting, Policy, Value

__all__ = [
    "Acting",
    "Categorical",
    "Gaussian",
    "Learned",
    "Local",
    "OneHot",
    "Plan",
    "Policy",
    "Quadratic",
    "Scaled",
    "Staircase",
    "Value",
    "learn",
    "recipes",
]
