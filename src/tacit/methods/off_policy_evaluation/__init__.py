"""Off-policy evaluation: what a policy is worth, from other people's trajectories.

`estimate(plan, vault, policy)` runs any of the plans below; `ResidualRegression` is the default choice.
An `Overlap` plan tells how alike two policies are, `select` chooses among candidates. See the README
of this folder for the algorithms and their guarantees.
"""

from __future__ import annotations

from tacit.methods.off_policy_evaluation.algorithm import Plan, estimate
from tacit.methods.off_policy_evaluation.baselines.lsl import Lsl
from tacit.methods.off_policy_evaluation.baselines.lsw import Lsw
from tacit.methods.off_policy_evaluation.baselines.ssp import SufficientStatistics
from tacit.methods.off_policy_evaluation.doubly_robust import DoublyRobust
from tacit.methods.off_policy_evaluation.evaluation import Evaluation, Interval
from tacit.methods.off_policy_evaluation.features import Custom, Features, Fourier, OneHot
from tacit.methods.off_policy_evaluation.fitted_q import FittedQ
from tacit.methods.off_policy_evaluation.gpope import Gpope
from tacit.methods.off_policy_evaluation.importance import ImportanceSampling
from tacit.methods.off_policy_evaluation.overlap import Overlap
from tacit.methods.off_policy_evaluation.policies import Behaviour, Callable, LinearQ, Network, Policy, Tabular, Uniform
from tacit.methods.off_policy_evaluation.prior import Smoothness
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.methods.off_policy_evaluation.residual import ResidualRegression, Shares
from tacit.methods.off_policy_evaluation.selection import Candidate, Choice, Selection, select
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy

__all__ = [
    "Behaviour",
    "BehaviourPolicy",
    "Callable",
    "Candidate",
    "Choice",
    "Custom",
    "DoublyRobust",
    "Evaluation",
    "Features",
    "FittedQ",
    "Fourier",
    "Gpope",
    "ImportanceSampling",
    "Interval",
    "LinearQ",
    "Lsl",
    "Lsw",
    "Network",
    "OneHot",
    "Overlap",
    "Plan",
    "Policy",
    "Problem",
    "ResidualRegression",
    "Selection",
    "Shares",
    "Smoothness",
    "SufficientStatistics",
    "Tabular",
    "Uniform",
    "estimate",
    "select",
]
