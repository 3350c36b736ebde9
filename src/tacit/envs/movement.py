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

from tacit.data.mobility.days import ACTIONS, EXPLORE, HOME, LAST, RETURN, SLOTS, STAY, before, distinct, symbols
from tacit.envs.spaces import JumpLaw, RankLaw
from tacit.errors import DataError

__all__ = [
    "FixedPolicy",
    "Invalid",
    "JumpLaw",
    "MovementPolicy",
    "Played",
    "RankLaw",
    "Space",
    "Starts",
    "play",
    "possible",
    "rollout",
]

TRIES = 10
"""Draws of an explore before it is given up for a stay."""

Invalid = Literal["mask", "stay"]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class MovementPolicy(Protocol):
    """Who moves.

    Attributes:
        kinds: number of latent day types; a day's type is uniform on 0 .. kinds - 1.
    """

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


class Starts(Protocol):
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
class Played:
    """Days that were played.

    Attributes:
        cells: [n, 48].
        actions: [n, 47] actions that were drawn; where one was impossible (`invalid="stay"`) or found no new cell, the
            day stays and its label is `STAY`.
        kinds: [n] day types.
    """

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
) -> Played:
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
        numbers = np.asarray(policy.probabilities(kinds, t, walk.distinct, walk.stay, walk.here == 0), dtype=float)
        _check(numbers, len(first))
        allowed = walk.possible(numbers.shape[1])
        if invalid == "mask":
            numbers = numbers * allowed
            numbers[:, STAY] += numbers.sum(axis=1) <= 0
        actions[:, t] = _draw(numbers, rng)
        possible = np.take_along_axis(allowed, actions[:, t, None], axis=1)[:, 0]
        walk.step(np.where(possible, actions[:, t], STAY), space, rng, five=numbers.shape[1] > LAST)
    return Played(walk.cells, actions, kinds)


def possible(days: npt.ArrayLike, *, actions: int = 5, invalid: Invalid = "mask") -> Mask:
    """Which of the first `actions` (4 or 5) actions are possible at each step of days [n, 48], [n, 47, actions]."""
    count, place, last = (names(days)[:, :-1] for names in (distinct, symbols, before))
    return _possible(count, place, last, actions, invalid == "mask")


def _possible(count: IntArray, place: IntArray, last: IntArray, number: int, masked: bool) -> Mask:
    """Possible actions [..., number] with `count` places so far in place `place` after place `last`, all [...]."""
    returnable = count - 1 - (place > 0) * masked - (last > 0) * (number > LAST)
    allowed = np.ones((*place.shape, len(ACTIONS)), dtype=np.bool_)
    allowed[..., HOME] = place > 0
    allowed[..., RETURN] = returnable > 0
    allowed[..., LAST] = last > 0
    return allowed[..., :number]


class Walk:
    """The state of n days: `cells` [n, 48] and their symbols `names` up to slot `t`; `distinct`, `stay`, `here` and
    `before` (the symbols of the present place and of the one before it, -1 for none) [n]."""

    def __init__(self, starts: IntArray, *, masked: bool) -> None:
        n = len(starts)
        self.masked, self.t = masked, 0
        self.cells, self.names = np.zeros((n, SLOTS), dtype=np.int64), np.zeros((n, SLOTS), dtype=np.int64)
        self.cells[:, 0] = starts
        self.distinct, self.stay = np.ones(n, dtype=np.int64), np.ones(n, dtype=np.int64)
        self.here, self.before = np.zeros(n, dtype=np.int64), np.full(n, -1, dtype=np.int64)

    def possible(self, number: int) -> Mask:
        """Which of the first `number` actions are possible, [n, number]."""
        return _possible(self.distinct, self.here, self.before, number, self.masked)

    def step(self, actions: IntArray, space: Space, rng: np.random.Generator, *, five: bool) -> None:
        """Takes possible actions [n]."""
        t, place = self.t, self.here.copy()
        cells = self.cells[:, t].copy()
        at = np.flatnonzero(actions == HOME)
        place[at], cells[at] = 0, self.cells[at, 0]
        at = np.flatnonzero(actions == RETURN)
        slot = self._earlier(at, rng, five)
        place[at], cells[at] = self.names[at, slot], self.cells[at, slot]
        at = np.flatnonzero(actions == LAST)
        slot = t - self.stay[at]
        place[at], cells[at] = self.before[at], self.cells[at, slot]
        at = np.flatnonzero(actions == EXPLORE)
        place[at], cells[at] = self._new(at, space, rng)
        moved = place != self.here
        self.before = np.where(moved, self.here, self.before)
        self.stay = np.where(moved, 1, self.stay + 1)
        self.distinct = np.maximum(self.distinct, place + 1)
        self.here, self.t = place, t + 1
        self.cells[:, t + 1], self.names[:, t + 1] = cells, place

    def _earlier(self, at: IntArray, rng: np.random.Generator, five: bool) -> IntArray:
        """A slot of an earlier place for each of the days `at`, uniform, so that places come ~ their slots."""
        names = self.names[at, : self.t + 1]
        open_ = names > 0
        if self.masked:
            open_ &= names != self.here[at, None]
        if five:
            open_ &= names != self.before[at, None]
        total = np.cumsum(open_, axis=1)
        wanted = rng.integers(0, total[:, -1])
        slots: IntArray = (total <= wanted[:, None]).sum(axis=1)
        return slots

    def _new(self, at: IntArray, space: Space, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Symbols and cells of explores of the days `at`."""
        past, names = self.cells[at, : self.t + 1], self.names[at, : self.t + 1]
        place, cells = self.here[at].copy(), past[:, -1].copy()
        left = np.arange(len(at))
        for _ in range(TRIES if self.masked else 1):
            if not len(left):
                break
            candidate = np.asarray(space.explore(past[left, -1], rng), dtype=np.int64)
            matches = past[left] == candidate[:, None]
            visited = matches.any(axis=1)
            taken = ~visited
            place[left[taken]], cells[left[taken]] = self.distinct[at[left[taken]]], candidate[taken]
            if not self.masked:
                slot = matches.argmax(axis=1)
                place[left[visited]], cells[left[visited]] = (names[left[visited], slot[visited]], candidate[visited])
            left = left[visited]
        return place, cells


def _draw(numbers: FloatArray, rng: np.random.Generator) -> IntArray:
    total = np.cumsum(numbers, axis=1)
    level = rng.random(len(numbers)) * total[:, -1]
    drawn: IntArray = np.minimum((total <= level[:, None]).sum(axis=1), numbers.shape[1] - 1)
    return drawn


def _check(numbers: FloatArray, n: int) -> None:
    fits = numbers.ndim == 2 and len(numbers) == n and numbers.shape[1] in (4, 5)
    if not fits or not np.isfinite(numbers).all() or (numbers < 0).any() or (numbers.sum(axis=1) <= 0).any():
        what = "the policy's probabilities are not probabilities"
        expected, remedy = "[n, 4] or [n, 5] finite numbers >= 0, some of each row positive", "correct the policy"
        raise DataError(what, where="movement.play", expected=expected, remedy=remedy)
