"""DP-EPR: how often people stay, explore, go home and return, as four private numbers.

Exploration and preferential return (Song, Koren, Wang & Barabasi, doi:10.1038/nphys1760) with a constant distribution
over actions, which is what the published simulator of PATEGAIL plays when nothing is learnt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacit.data import days as movement
from tacit.methods.mobility.baselines.people import Floats, Ints
from tacit.methods.mobility.policy import Layout, TablePolicy

CLIP = 0.65
"""The largest norm of one person's fractions: half a day of stays and the rest evenly spread has .6."""
LEAST = 1e-3
"""The least probability of an action that a release is read as."""


@dataclass(frozen=True)
class Fractions:
    """The fractions of the four actions of the papers among a day's steps."""

    size: ClassVar[int] = 4

    def __call__(self, days: Ints) -> Floats:
        """Cells [n, 48] -> [n, 4]."""
        taken = movement.actions(days, last=False)
        return np.stack([(taken == action).mean(axis=1) for action in range(self.size)], axis=1)


def policy(noisy: Floats) -> TablePolicy:
    """The policy of noisy mean fractions [4], the same in every state; none is read as less than `LEAST`."""
    shares = np.maximum(noisy, 0.0)
    positive = np.maximum(shares / max(float(shares.sum()), 1e-12), LEAST)
    everywhere = Layout(stays=(1,))
    return TablePolicy(everywhere, np.tile(positive / positive.sum(), (1, everywhere.size, 1)))
