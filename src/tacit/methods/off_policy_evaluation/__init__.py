"""Off-policy evaluation: what a policy is worth, from other people's trajectories.

`fit(plan, vault, policy)` runs any of the plans below; `ResidualRegression` is the default choice.
An `OverlapPlan` plan tells how alike two policies are, `selection.fit` chooses among candidates. See the README
of this folder for the algorithms and their guarantees.
"""

from __future__ import annotations

from tacit.methods.off_policy_evaluation import selection
from tacit.methods.off_policy_evaluation.algorithm import Estimator, fit
from tacit.methods.off_policy_evaluation.baselines import Lsl, Lsw, SufficientStatistics
from tacit.methods.off_policy_evaluation.behaviour_model import BehaviourModel
from tacit.methods.off_policy_evaluation.decision_lists import DecisionList
from tacit.methods.off_policy_evaluation.difference import Following
from tacit.methods.off_policy_evaluation.features import CustomFeatures, Features, Fourier, OneHot, Smoothness
from tacit.methods.off_policy_evaluation.fitted_q import DoublyRobust, FittedQ
from tacit.methods.off_policy_evaluation.gpope import Gpope
from tacit.methods.off_policy_evaluation.importance import ImportanceSampling, OverlapPlan
from tacit.methods.off_policy_evaluation.policies import (
    Behaviour,
    Callable,
    DiscretePolicy,
    LinearQ,
    Network,
    Tabular,
    Uniform,
)
from tacit.methods.off_policy_evaluation.problem import Difference, Evaluation, Interval, Problem
from tacit.methods.off_policy_evaluation.residual import ResidualRegression, ResidualShares
from tacit.methods.off_policy_evaluation.selection import Candidate, ChosenCandidate, PolicySelection
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy
from tacit.privacy.vault.origins import Origin

__all__ = [
    "Behaviour",
    "BehaviourModel",
    "BehaviourPolicy",
    "Callable",
    "Candidate",
    "ChosenCandidate",
    "CustomFeatures",
    "DecisionList",
    "Difference",
    "DiscretePolicy",
    "DoublyRobust",
    "Estimator",
    "Evaluation",
    "Features",
    "FittedQ",
    "Following",
    "Fourier",
    "Gpope",
    "ImportanceSampling",
    "Interval",
    "LinearQ",
    "Lsl",
    "Lsw",
    "Network",
    "OneHot",
    "Origin",
    "OverlapPlan",
    "PolicySelection",
    "Problem",
    "ResidualRegression",
    "ResidualShares",
    "Smoothness",
    "SufficientStatistics",
    "Tabular",
    "Uniform",
    "fit",
    "selection",
]
