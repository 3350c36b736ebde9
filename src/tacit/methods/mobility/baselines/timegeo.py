"""A TimeGeo-like model under differential privacy: a daily rhythm, bursts away from home, preferential return.

After Jiang, Yang, Gupta, Veneziano, Athavale & Gonzalez (PNAS 2016, doi:10.1073/pnas.1524261113): somebody at home
leaves with the probability n_w P(t) of the time of day, somebody away moves on with beta_1 times as much, and then to
another place, rather than home, with beta_2 times as much; another place is a new one with probability rho S^-gamma
after S places. TimeGeo fits these to each person; here they are the population's, from means of people's own shares of
steps, and places are remembered for a day.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from tacit.data import days as movement
from tacit.data.days import EXPLORE, HOME, SLOTS, STAY
from tacit.methods.mobility.baselines.people import Floats, Ints
from tacit.methods.mobility.policy import Layout, TablePolicy

CLIP = 0.35
"""The largest norm of one person's shares of steps, which add up to about 2 in 34 numbers."""
BLOCKS = 8
"""Blocks of three hours in which the rhythm is constant."""
PLACES = (2, 3, 4, 6)
"""Numbers of places S, up to the next of them, by which explorations and returns are counted."""
_LEAST, _MOST = 1e-4, 0.95


@dataclass(frozen=True)
class Moments:
    """Shares of a day's 47 steps, 34 numbers.

    By block: at home and staying, leaving home, away (8 each); moving on from away to another place, and home; and, of
    steps with a choice between a new place and one of the day's others, explorations and returns by places S (4 each).
    """

    size: ClassVar[int] = 3 * BLOCKS + 2 + 2 * len(PLACES)

    def __call__(self, days: Ints) -> Floats:
        """Cells [n, 48] -> [n, 34]."""
        taken, places = movement.actions(days, last=False), movement.distinct(days)[:, :-1]
        home, stays = days[:, :-1] == days[:, :1], taken == STAY
        blocks = _by_block(np.stack([home & stays, home & ~stays, ~home]))
        elsewhere = ~home & ~stays & (taken != HOME)
        away = np.stack([elsewhere.sum(axis=1), (~home & (taken == HOME)).sum(axis=1)], axis=1)
        choice = (places > np.where(home, 1, 2)) & ~stays & (taken != HOME)
        group = np.searchsorted(PLACES, places, side="right") - 1
        chosen = [
            (choice & (group == g) & ((taken == EXPLORE) == new)).sum(axis=1)
            for new in (True, False)
            for g in range(len(PLACES))
        ]
        return np.concatenate([blocks, away, np.stack(chosen, axis=1)], axis=1) / (SLOTS - 1)


@dataclass(frozen=True)
class Rhythm:
    """The parameters of the model.

    Args:
        leave: n_w P(t), the probability of leaving home in each block.
        burst: beta_1; a person away moves with beta_1 n_w P(t).
        onward: beta_2; and then to another place with beta_2 n_w P(t).
        rho, gamma: a new place with probability rho S^-gamma after S places.
    """

    leave: tuple[float, ...]
    burst: float
    onward: float
    rho: float
    gamma: float

    def policy(self) -> TablePolicy:
        """The model as a policy of the four actions; a person without another place to return to explores."""
        places = np.arange(1, SLOTS + 1)
        layout = Layout(times=BLOCKS, counts=tuple(places.tolist()), stays=(1,))
        home = np.array([False, True])
        rate = np.asarray(self.leave)[:, None, None]
        moving = np.where(home, rate, np.minimum(self.burst * rate, _MOST))
        other = np.where(home, 1.0, np.minimum(self.onward * rate, _MOST))
        new = np.minimum(self.rho * places[:, None] ** -self.gamma, 1.0)
        new = np.where(places[:, None] > np.where(home, 1, 2), new, 1.0)
        moved = moving * other
        shape = (BLOCKS, SLOTS, 2)
        columns = (1 - moving, moved * new, moving * (1 - other), moved * (1 - new))
        table = np.stack([np.broadcast_to(column, shape) for column in columns], axis=-1)
        return TablePolicy(layout, table.reshape(1, layout.size, 4))


def rhythm(noisy: Floats, noise: float) -> Rhythm:
    """The model of noisy mean moments [34] with this much noise, by the method of moments.

    The rhythm is drawn to its mean as far as noise explains it (James and Stein). beta_1 makes the moves from away, and
    beta_2 those of them that go to another place, as many as they are at the released times of being away; rho and
    gamma have the largest binomial likelihood on a public grid. Negative shares are read as none.
    """
    staying, leaving, away = noisy[: 3 * BLOCKS].reshape(3, BLOCKS)
    onward, homeward = np.maximum(noisy[3 * BLOCKS : 3 * BLOCKS + 2], 0.0)
    new, old = np.maximum(noisy[3 * BLOCKS + 2 :], 0.0).reshape(2, len(PLACES))
    leave, away = _rhythm(staying, leaving, noise), np.maximum(away, 0.0)
    burst = (onward + homeward) / max(float(away @ leave), 1e-6)
    beta = onward / max(burst * float(away @ leave**2), 1e-6)
    rho, gamma = _exploration(new, old)
    return Rhythm(tuple(float(p) for p in leave), float(burst), float(beta), rho, gamma)


def _rhythm(staying: Floats, leaving: Floats, noise: float) -> Floats:
    """Probabilities of leaving home [8] from shares of staying and leaving."""
    home = staying + leaving
    rate = float(np.clip(leaving.sum() / max(home.sum(), 1e-3), _LEAST, _MOST))
    apart = leaving - rate * home
    explained = BLOCKS * noise**2 * ((1 - rate) ** 2 + rate**2) / max(float(apart @ apart), 1e-12)
    spread = max(0.0, 1.0 - explained) * apart / np.maximum(home, max(home.mean(), 1e-3) / 2)
    return np.asarray(np.clip(rate + spread, _LEAST, _MOST))


def _exploration(new: Floats, old: Floats) -> tuple[float, float]:
    rho, gamma = (axis.ravel() for axis in np.meshgrid(np.linspace(0.05, 1.0, 20), np.linspace(0.0, 2.0, 41)))
    chance = np.clip(rho[:, None] * np.asarray(PLACES, float) ** -gamma[:, None], 1e-3, 1 - 1e-3)
    best = int(np.argmax((special.xlogy(new, chance) + special.xlogy(old, 1 - chance)).sum(axis=1)))
    return float(rho[best]), float(gamma[best])


def _by_block(flags: np.ndarray) -> Floats:
    """Flags [k, n, 47] -> counts [n, k * 8]."""
    block = np.arange(SLOTS - 1) * BLOCKS // SLOTS
    counts = np.add.reduceat(flags.astype(np.float64), np.searchsorted(block, np.arange(BLOCKS)), axis=2)
    return np.asarray(np.moveaxis(counts, 0, 1).reshape(flags.shape[1], len(flags) * BLOCKS))
