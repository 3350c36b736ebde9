"""Small crowds of steppers whose prefixes have an exact law, and how the door's compare with it."""

from __future__ import annotations

import functools

import numpy as np
from consensus_law import Process, Rule, law
from expert_cases import SPEC, Counting, Steppers, part

from tacit.privacy.mechanisms import above_threshold
from tacit.privacy.mechanisms.thresholds import Floor, KappaStop, PMin, Thresholds
from tacit.privacy.noise.secret import SecretNoise

STEPS = 3
GRID = 2**11  # coarser than the door's; for these crowds no probability differs by 0.2 %

CROWDS = (
    (KappaStop(0.2), (0.0,) * 2 + (1.0,) * 3 + (2.0,) * 3 + (3.0,) * 13),
    (KappaStop(0.2), (3.0,) * 16),
    (PMin(0.1), (0.0,) * 2 + (1.0,) * 3 + (2.0,) * 4 + (3.0,) * 25),
)
"""A floor, and in how many steps each expert takes action 1."""


def counted_and_expected(floor: Floor, limits: tuple[float, ...], trajectories: int) -> tuple[np.ndarray, np.ndarray]:
    """How often each prefix came out of clones played by the door, and how often it should: [prefixes] each.

    Prefixes are the shorter ones first, those of one length in the order of their actions read as binary numbers.
    """
    sizes = {"trajectories": trajectories, "horizon": STEPS, "experts": len(limits), "delta": 1e-3, "epsilon": 2.0}
    one = part(floor=floor, source="clones", rows_per_unit=1, **sizes)
    experts, noise = Steppers(np.array(limits), floor=_least(floor)), SecretNoise()
    drawn = above_threshold.rollouts(one, experts, Counting(), SPEC, noise)
    lengths = above_threshold.stable_lengths(one, experts, drawn, noise)
    kept = drawn["actions"] * (np.arange(STEPS) < lengths[:, None])
    codes = 2**lengths - 1 + ((kept @ 2 ** np.arange(STEPS)[::-1]) >> (STEPS - lengths))
    expected = _law(floor, limits, one.thresholds) * trajectories
    return np.bincount(codes, minlength=len(expected)), expected


@functools.cache
def _law(floor: Floor, limits: tuple[float, ...], told: Thresholds) -> np.ndarray:
    places = np.arange(STEPS + 1)
    onward = np.zeros((STEPS + 1, 2, STEPS + 2))
    onward[places, :, np.minimum(places + 1, STEPS)] = 1
    kinds, copies = np.unique(limits, return_counts=True)
    ones, p = places < kinds[:, None], _least(floor)
    policies = np.where(np.arange(2) == ones[..., None], 1 - p, p)
    kappa = floor.probability if isinstance(floor, KappaStop) else 0.0
    rule = Rule(told, GRID, kappa, down=1 + 1e-9)
    return law(Process(np.eye(STEPS + 1)[0], onward), policies, copies.astype(float), rule, STEPS, len(limits))


def _least(floor: Floor) -> float:
    return floor.probability if isinstance(floor, PMin) else 0.0
