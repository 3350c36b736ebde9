"""Private policy gradient (DPPG): `PolicyGradientPlan(...).calibrate(...)`, `fit` from a `UserVault`, `TrainedPolicies`
policies.

`recipes` has the settings of known tasks. See the README of this folder for the algorithm and its guarantee.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.agents.features import OneHot, Quadratic, Scaled
from tacit.agents.heads import Categorical, Gaussian
from tacit.agents.policies import Policy, PolicyActor, ValueFunction
from tacit.methods.policy_gradient import recipes
from tacit.methods.policy_gradient.algorithm import fit
from tacit.methods.policy_gradient.fisher import PrivateFisher, PublicFisher
from tacit.methods.policy_gradient.plan import Local, PolicyGradientPlan
from tacit.methods.policy_gradient.rounds import Staircase
from tacit.methods.policy_gradient.state import AnyPlan, TrainedPolicies
from tacit.methods.policy_gradient.trust_region import KL, L2
from tacit.methods.policy_gradient.votes import Ramp, VotesPlan

if TYPE_CHECKING:
    from tacit.agents.torch_network import TorchNetwork as TorchNetwork

__all__ = [
    "KL",
    "L2",
    "AnyPlan",
    "Categorical",
    "Gaussian",
    "Local",
    "OneHot",
    "Policy",
    "PolicyActor",
    "PolicyGradientPlan",
    "PrivateFisher",
    "PublicFisher",
    "Quadratic",
    "Ramp",
    "Scaled",
    "Staircase",
    "TorchNetwork",
    "TrainedPolicies",
    "ValueFunction",
    "VotesPlan",
    "fit",
    "recipes",
]


def __getattr__(name: str) -> Any:
    if name != "TorchNetwork":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tacit.agents.torch_network import TorchNetwork

    return TorchNetwork
