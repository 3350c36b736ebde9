"""Scores of membership for releases about movement: what an attacker computes for each person whose days it knows.

White-box: the likelihood of the person's actions under the released policy, and the person's own direction in a
released sum. Black-box: how near generated days come to the person's,
and how often they go where the person goes and start where the person starts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tacit.data.mobility import days as movement
from tacit.data.mobility.days import LAST, SLOTS, Days
from tacit.envs.movement import possible
from tacit.evaluation.attacks import Floats, Released

Ints = NDArray[np.int64]
LEAST = 1e-6
"""The least probability of an action: what a policy rules out is no proof of absence."""


class Policy(Protocol):
    """A policy of movement, as simulators have it."""

    @property
    def kinds(self) -> int:
        """Latent types of day, uniform."""

    def probabilities(
        self, kind: Ints, slot: int, distinct: Ints, stay: Ints, home: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Of the five actions, or of the papers' four, [n, 5 or 4]."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """The people whose membership is asked, and their days.

    Args:
        days: the attacker's knowledge; codes of people are 0 .. U - 1.
        people: U.
        most: how many days of a person are compared with generated ones, at most (the first ones).
    """

    days: Days
    people: int
    most: int = 10
    _states: tuple[Ints, Ints] = field(init=False, repr=False)
    _steps: dict[int, tuple[Ints, NDArray[np.bool_]]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        cells = self.days.cells
        stay, places = movement.stays(cells)[:, :-1], movement.distinct(cells)[:, :-1]
        home = cells[:, :-1] == cells[:, :1]
        named, inverse = np.unique((places * (SLOTS + 1) + stay) * 2 + home, return_inverse=True)
        object.__setattr__(self, "_states", (named, inverse.reshape(stay.shape)))
        steps = {n: (movement.actions(cells, last=n > LAST), possible(cells, actions=n)) for n in (LAST, LAST + 1)}
        object.__setattr__(self, "_steps", steps)

    def log_likelihoods(self, policy: Policy) -> Floats:
        """Log-likelihood of each day's actions [D], given where it starts; the type of day is summed out.

        What is impossible in a state is ruled out, as it is when days are played.
        """
        named, state = self._states
        place, home = np.divmod(named, 2)
        distinct, stay = np.divmod(place, SLOTS + 1)
        found = np.zeros((policy.kinds, len(state)))
        for kind in range(policy.kinds):
            for slot in range(SLOTS - 1):
                asked = policy.probabilities(np.full(len(named), kind), slot, distinct, stay, home.astype(bool))
                taken, allowed = self._steps[asked.shape[1]]
                numbers = asked[state[:, slot]] * allowed[:, slot]
                chosen = np.take_along_axis(numbers, taken[:, slot, None], axis=1)[:, 0]
                found[kind] += np.log(np.maximum(chosen / np.maximum(numbers.sum(axis=1), LEAST), LEAST))
        return np.asarray(special.logsumexp(found, axis=0) - np.log(policy.kinds))

    def averages(self, values: Floats, chosen: Ints | None = None) -> Floats:
        """Of values of days [D], or of the chosen ones of them, over each person's days [U]; 0 for whoever has none."""
        person = self.days.person if chosen is None else self.days.person[chosen]
        totals = np.bincount(person, weights=values, minlength=self.people)
        return np.asarray(totals / np.maximum(np.bincount(person, minlength=self.people), 1))

    def few(self) -> Ints:
        """Indices of each person's first days."""
        order = np.argsort(self.days.person, kind="stable")
        sorted_ = self.days.person[order]
        rank = np.arange(len(order)) - np.searchsorted(sorted_, sorted_)
        return order[rank < self.most]


@dataclass(frozen=True, eq=False)
class Likelihood:
    """White-box: mean log-likelihood of a person's days under the released policies, `policy` [R] of objects."""

    candidates: Candidates

    def __call__(self, released: Released) -> Floats:
        """[R, U]."""
        who = self.candidates
        return np.stack([who.averages(who.log_likelihoods(policy)) for policy in released["policy"]])


@dataclass(frozen=True, eq=False)
class OwnDirection:
    """White-box: what a released sum, `sum` [R, d], says of each person's own contribution (Fisher's discriminant).

    The attacker knows what everybody would add and how large the noise is, not who is present: seen from one person,
    the others are noise too, with the covariance of coins over their contributions. An attacker who also knows the
    others needs no shadow runs: its area under the curve is Phi(mu / sqrt 2) with mu = |contribution| / noise.

    Args:
        contributions: [U, d], clipped as the method clips them.
        noise: standard deviation in the sum.
    """

    contributions: Floats
    noise: float

    def __call__(self, released: Released) -> Floats:
        """[R, U]."""
        own = self.contributions
        inner = own @ own.T  # (noise^2 + own^T own / 4)^-1 own^T = own^T (noise^2 + own own^T / 4)^-1
        ridge = max(self.noise**2, 1e-9 * float(np.diag(inner).max(initial=0.0)))
        mixed = ridge * np.eye(len(own)) + inner / 4
        return np.asarray(np.linalg.solve(mixed, own @ np.asarray(released["sum"]).T).T, np.float64)


@dataclass(frozen=True, eq=False)
class Nearest:
    """Black-box: minus the mean distance of a person's days to the nearest generated day, `days` [R, n, 48].

    The distance is the number of slots in different cells.
    """

    candidates: Candidates

    def __call__(self, released: Released) -> Floats:
        """[R, U]."""
        who, chosen = self.candidates, self.candidates.few()
        own = who.days.cells[chosen].astype(np.int32)
        rows = []
        for generated in released["days"]:
            synthetic, least = np.asarray(generated, np.int32), np.empty(len(own))
            for first in range(0, len(own), 64):
                apart = own[first : first + 64, None, :] != synthetic
                least[first : first + 64] = apart.sum(axis=2).min(axis=1)
            rows.append(who.averages(-least, chosen))
        return np.stack(rows)


@dataclass(frozen=True, eq=False)
class Overlap:
    """Black-box: how often generated days, `days` [R, n, 48], are where a person is, in logarithms.

    Args:
        candidates: the people.
        slots: the slots looked at; (0,) asks only where days start.
    """

    candidates: Candidates
    slots: tuple[int, ...] = tuple(range(SLOTS))

    def __call__(self, released: Released) -> Floats:
        """[R, U]."""
        who, slots = self.candidates, list(self.slots)
        rows = []
        for generated in released["days"]:
            counts = np.bincount(np.asarray(generated)[:, slots].ravel(), minlength=who.days.grid.size)
            rows.append(who.averages(np.log1p(counts[who.days.cells[:, slots]]).mean(axis=1)))
        return np.stack(rows)
