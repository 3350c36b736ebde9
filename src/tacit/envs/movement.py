"""Days of movement played from a policy: thousands at once, or one as a Gymnasium environment.

The state is (slot, number of different cells so far, slots in the present cell, cell); the actions are those of
`tacit.data.mobility.days`: stay, explore, home, return and last. What an action does is what the label of
`days.actions` says, so that the label of a played day is the action that was taken:

- `EXPLORE` goes to a cell that the `Space` draws; one that was visited today is drawn again, up to `TRIES` times, and
  then it is a stay.
- `HOME` goes to the day's first cell.
- `LAST` goes to the place before the present stay, if that is not home.
- `RETURN` goes to an earlier place with probability ~ its slots so far: not home, not here and, where the policy has
  `LAST`, not the last one.

An action that is impossible (home at home, nowhere to return to) is masked, and the probabilities of the others are
renormalised. With `invalid="stay"`, the papers' semantics, it counts as a stay, as does an explore or a return that
ends here, and an explore may lead to a place of today.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from tacit.data.mobility.days import (
    ACTIONS,
    EXPLORE,
    HOME,
    LAST,
    RETURN,
    SLOTS,
    STAY,
    distinct_counts,
    previous_symbols,
    symbols,
)
from tacit.envs.spaces import JumpLaw, RankLaw
from tacit.errors import DataError

__all__ = ["DayRollout", "FixedPolicy", "Invalid", "JumpLaw", "MovementPolicy", "RankLaw", "Space", "StartSampler"]
__all__ += ["play", "possible_actions", "rollout"]

TRIES = 10
"""Draws of an explore before it is given up for a stay."""

Invalid = Literal["mask", "stay"]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class MovementPolicy(Protocol):
    """Who moves: one of `kinds` latent day types; a day's type is uniform on 0 .. kinds - 1."""

    @property
    def kinds(self) -> int:
        """Number of latent day types."""

    def probabilities(self, kind: IntArray, slot: int, distinct: IntArray, stay: IntArray, home: Mask) -> FloatArray:
        """Probabilities [n, 4] or [n, 5] of the actions of the step from `slot` to the next one.

        Args:
            kind: day types [n].
            slot: 0 .. 46.
            distinct, stay: as `days.distinct` and `days.stays` at `slot`, [n].
            home: [n], whether the present cell is the day's first.
        """


class Space(Protocol):
    """Where exploring leads."""

    def explore(self, cells: IntArray, rng: np.random.Generator) -> IntArray:
        """Cells [n] that people in cells [n] go to."""


class StartSampler(Protocol):
    """Where days begin."""

    def draw(self, n: int, rng: np.random.Generator) -> IntArray:
        """Cells [n]."""


@dataclass(frozen=True)
class FixedPolicy:
    """The same probabilities [4] or [5] of the actions always, such as the papers' (.54, .12, .17, .17)."""

    numbers: tuple[float, ...]
    kinds: int = 1

    def probabilities(self, kind: IntArray, slot: int, distinct: IntArray, stay: IntArray, home: Mask) -> FloatArray:
        """See `MovementPolicy`."""
        return np.broadcast_to(np.array(self.numbers, dtype=np.float64), (len(kind), len(self.numbers)))


@dataclass(frozen=True, eq=False)
class DayRollout:
    """Days that were played: cells [n, 48], actions [n, 47] that were drawn (`STAY` where one was impossible or found
    no new cell) and day types [n]."""

    cells: IntArray
    actions: IntArray
    kinds: IntArray


def play(
    policy: MovementPolicy, space: Space, starts: npt.ArrayLike, rng: np.random.Generator, *, invalid: Invalid = "mask"
) -> IntArray:
    """Whole days [n, 48] from the first cells `starts` [n], see `rollout`."""
    return rollout(policy, space, starts, rng, invalid=invalid).cells


def rollout(
    policy: MovementPolicy, space: Space, starts: npt.ArrayLike, rng: np.random.Generator, *, invalid: Invalid = "mask"
) -> DayRollout:
    """Whole days with their actions and day types.

    Args:
        policy: chooses the actions.
        space: draws the cells of explores.
        starts: first cells [n].
        rng: of everything random.
        invalid: what an impossible action is, see the module.

    Raises:
        DataError: a probability is negative or not finite, none is positive, or the shape is wrong.
    """
    if invalid not in ("mask", "stay"):
        what, expected = "the meaning of impossible actions is unknown", "invalid= mask or stay"
        raise DataError(what, where="movement.play", expected=expected, remedy="leave it at mask")
    first = np.asarray(starts, dtype=np.int64)
    kinds = rng.integers(0, policy.kinds, len(first))
    walk = Walk(first, masked=invalid == "mask")
    actions = np.zeros((len(first), SLOTS - 1), dtype=np.int64)
    for t in range(SLOTS - 1):
        given = policy.probabilities(kinds, t, walk.distinct, walk.stay, walk.place == 0)
        probabilities = np.asarray(given, dtype=float)
        _require_probabilities(probabilities, len(first))
        allowed = walk.possible_actions(probabilities.shape[1])
        if invalid == "mask":
            probabilities = probabilities * allowed
            probabilities[:, STAY] += probabilities.sum(axis=1) <= 0
        actions[:, t] = _draw(probabilities, rng)
        feasible = np.take_along_axis(allowed, actions[:, t, None], axis=1)[:, 0]
        walk.step(np.where(feasible, actions[:, t], STAY), space, rng, five=probabilities.shape[1] > LAST)
    return DayRollout(walk.cells, actions, kinds)


def possible_actions(days: npt.ArrayLike, *, actions: int = 5, invalid: Invalid = "mask") -> Mask:
    """Which of the first `actions` (4 or 5) actions are possible at each step of days [n, 48], [n, 47, actions]."""
    count, place, last = (names(days)[:, :-1] for names in (distinct_counts, symbols, previous_symbols))
    return _possible_actions(count, place, last, actions, invalid == "mask")


def _possible_actions(count: IntArray, place: IntArray, last: IntArray, action_count: int, masked: bool) -> Mask:
    """Possible actions [..., number] with `count` places so far in place `place` after place `last`, all [...]."""
    returnable = count - 1 - (place > 0) * masked - (last > 0) * (action_count > LAST)
    allowed = np.ones((*place.shape, len(ACTIONS)), dtype=np.bool_)
    allowed[..., HOME] = place > 0
    allowed[..., RETURN] = returnable > 0
    allowed[..., LAST] = last > 0
    return allowed[..., :action_count]


class Walk:
    """The state of n days: `cells` [n, 48] and their symbols `names` up to slot `t`; `distinct`, `stay`, `here` and
    `before` (the symbols of the present place and of the one before it, -1 for none) [n]."""

    def __init__(self, starts: IntArray, *, masked: bool) -> None:
        n = len(starts)
        self.masked, self.t = masked, 0
        self.cells, self.symbols = np.zeros((n, SLOTS), dtype=np.int64), np.zeros((n, SLOTS), dtype=np.int64)
        self.cells[:, 0] = starts
        self.distinct, self.stay = np.ones(n, dtype=np.int64), np.ones(n, dtype=np.int64)
        self.place, self.last_place = np.zeros(n, dtype=np.int64), np.full(n, -1, dtype=np.int64)

    def possible_actions(self, action_count: int) -> Mask:
        """Which of the first `number` actions are possible, [n, number]."""
        return _possible_actions(self.distinct, self.place, self.last_place, action_count, self.masked)

    def step(self, actions: IntArray, space: Space, rng: np.random.Generator, *, five: bool) -> None:
        """Takes possible actions [n]."""
        t, place = self.t, self.place.copy()
        cells = self.cells[:, t].copy()
        at = np.flatnonzero(actions == HOME)
        place[at], cells[at] = 0, self.cells[at, 0]
        at = np.flatnonzero(actions == RETURN)
        slot = self._draw_return_slots(at, rng, five)
        place[at], cells[at] = self.symbols[at, slot], self.cells[at, slot]
        at = np.flatnonzero(actions == LAST)
        slot = t - self.stay[at]
        place[at], cells[at] = self.last_place[at], self.cells[at, slot]
        at = np.flatnonzero(actions == EXPLORE)
        place[at], cells[at] = self._explore(at, space, rng)
        moved = place != self.place
        self.last_place = np.where(moved, self.place, self.last_place)
        self.stay = np.where(moved, 1, self.stay + 1)
        self.distinct = np.maximum(self.distinct, place + 1)
        self.place, self.t = place, t + 1
        self.cells[:, t + 1], self.symbols[:, t + 1] = cells, place

    def _draw_return_slots(self, at: IntArray, rng: np.random.Generator, five: bool) -> IntArray:
        """A slot of an earlier place for each of the days `at`, uniform, so that places come ~ their slots."""
        past_symbols = self.symbols[at, : self.t + 1]
        eligible = past_symbols > 0
        if self.masked:
            eligible &= past_symbols != self.place[at, None]
        if five:
            eligible &= past_symbols != self.last_place[at, None]
        total = np.cumsum(eligible, axis=1)
        wanted = rng.integers(0, total[:, -1])
        slots: IntArray = (total <= wanted[:, None]).sum(axis=1)
        return slots

    def _explore(self, at: IntArray, space: Space, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        past_cells, past_symbols = self.cells[at, : self.t + 1], self.symbols[at, : self.t + 1]
        place, cells = self.place[at].copy(), past_cells[:, -1].copy()
        pending = np.arange(len(at))
        for _ in range(TRIES if self.masked else 1):
            if not len(pending):
                break
            candidate = np.asarray(space.explore(past_cells[pending, -1], rng), dtype=np.int64)
            matches = past_cells[pending] == candidate[:, None]
            visited = matches.any(axis=1)
            found, again = pending[~visited], pending[visited]
            place[found], cells[found] = self.distinct[at[found]], candidate[~visited]
            if not self.masked:
                slot = matches.argmax(axis=1)
                place[again], cells[again] = past_symbols[again, slot[visited]], candidate[visited]
            pending = again
        return place, cells


def _draw(probabilities: FloatArray, rng: np.random.Generator) -> IntArray:
    total = np.cumsum(probabilities, axis=1)
    level = rng.random(len(probabilities)) * total[:, -1]
    drawn: IntArray = np.minimum((total <= level[:, None]).sum(axis=1), probabilities.shape[1] - 1)
    return drawn


def _require_probabilities(probabilities: FloatArray, n: int) -> None:
    fits = probabilities.ndim == 2 and len(probabilities) == n and probabilities.shape[1] in (4, 5)
    valid = fits and np.isfinite(probabilities).all() and not (probabilities < 0).any()
    if not valid or (probabilities.sum(axis=1) <= 0).any():
        what = "the policy's probabilities are not probabilities"
        expected, remedy = "[n, 4] or [n, 5] finite numbers >= 0, some of each row positive", "correct the policy"
        raise DataError(what, where="movement.play", expected=expected, remedy=remedy)
