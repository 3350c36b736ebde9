"""The private table of actions: the one-shot method's own histogram and shrinkage, and no matching after it."""

from __future__ import annotations

from tacit.methods.mobility import shrinkage
from tacit.methods.mobility.baselines.people import Floats
from tacit.methods.mobility.moves import Weights
from tacit.methods.mobility.policy import Layout, TablePolicy


def policy(noisy: Floats, noise: float, layout: Layout, weights: Weights) -> TablePolicy:
    """The policy of a noisy mean histogram [5 K] with this much noise."""
    values, deviations = shrinkage.unscaled(noisy, noise, layout, weights)
    return TablePolicy(layout, shrinkage.table(values, deviations, layout)[None])
