"""A better policy from private records, with a stated gain, under one epsilon: `ImprovementPlan.of(...)`, `fit`.

See the README of this folder for the algorithm and its guarantee.
"""

from tacit.data.memory import MEAN, NOW, Memory
from tacit.methods.improvement.algorithm import Improvement, fit
from tacit.methods.improvement.plan import ImprovementPlan
from tacit.methods.improvement.statement import Statement
from tacit.methods.off_policy_evaluation.problem import Problem

__all__ = ["MEAN", "NOW", "Improvement", "ImprovementPlan", "Memory", "Problem", "Statement", "fit"]
