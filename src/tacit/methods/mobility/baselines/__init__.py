"""Simulators of movement to compare with: the private table of actions, DP-EPR, a rhythm like TimeGeo, a chain."""

from tacit.methods.mobility.baselines.algorithm import BaselinePlan, Model, fit, fit_replicates

__all__ = ["BaselinePlan", "Model", "fit", "fit_replicates"]
