"""Simulators of movement to compare with: the private table of actions, DP-EPR, a rhythm like TimeGeo, a chain."""

from tacit.methods.mobility.baselines.algorithm import fit, replicates
from tacit.methods.mobility.baselines.plan import BaselinePlan, Model

__all__ = ["BaselinePlan", "Model", "fit", "replicates"]
