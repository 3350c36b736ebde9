"""The public side of a critic: state-action pairs as whole numbers, and where they lie in the embedding space.

A state is (slot, distinct places so far, length of the present stay, at home or not); no place is in it. The embedding
is a fixed public map, the same in every home, so that a gradient penalty in it means the same for everybody.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.mobility.days import SLOTS
from tacit.methods.mobility.simulator import Layout
from tacit.validation import check

Array = NDArray[Any]
Float32 = NDArray[np.float32]

ACTIONS = 5
DECISIONS = SLOTS - 1
"""Steps of a day: from slot t to t + 1, t = 0 .. 46."""


@dataclass(frozen=True)
class Embedding:
    """Codes of (slot, distinct, stay, home, action), and their places in R^d.

    Args:
        places: distinct places above this count as this many.
        longest: stays above this many slots count as this long.
        harmonics: sines and cosines of the time of day, of periods 24 h / k, k = 1 .. harmonics.

    Raises:
        PlanError: a value is not a whole number, or out of range.
    """

    places: int = 16
    longest: int = 12
    harmonics: int = 3

    def __post_init__(self) -> None:
        for name, least in (("places", 4), ("longest", 4), ("harmonics", 0)):
            value = getattr(self, name)
            check(
                f"embedding.{name}", value, type(value) is int and least <= value <= SLOTS, f"from {least} to {SLOTS}"
            )

    @property
    def layout(self) -> Layout:
        """The states as buckets of a table: a code is a bucket's number."""
        counts, stays = tuple(range(1, self.places + 1)), tuple(range(1, self.longest + 1))
        return Layout(times=SLOTS, counts=counts, stays=stays)

    @property
    def states(self) -> int:
        """How many codes of states there are."""
        return self.layout.size

    @property
    def codes(self) -> int:
        """How many codes of states with an action there are."""
        return self.states * ACTIONS

    @property
    def state_size(self) -> int:
        """Width of an embedded state."""
        return 2 * self.harmonics + 9

    @property
    def size(self) -> int:
        """d, the width of an embedded state with an action."""
        return self.state_size + ACTIONS

    def state(self, slot: Array, distinct: Array, stay: Array, home: Array) -> NDArray[np.int64]:
        """Codes of states; all arguments whole numbers of one shape, distinct and stay >= 1."""
        return self.layout.buckets(slot, distinct, stay, home)

    def parts(self, states: Array) -> tuple[Array, Array, Array, Array]:
        """Slot, distinct, stay and home of codes of states."""
        slot, places, stay, home = np.unravel_index(np.asarray(states, np.int64), self.layout.shape)
        return slot, places + 1, stay + 1, home

    def embedded_states(self, states: Array) -> Float32:
        """[..., state_size] of codes [...]; every number is between -1 and 1."""
        slot, distinct, stay, home = self.parts(states)
        turn = 2 * math.pi / SLOTS * slot
        columns = [wave(k * turn) for k in range(1, self.harmonics + 1) for wave in (np.sin, np.cos)]
        columns += [np.log(distinct) / math.log(self.places), np.log(stay) / math.log(self.longest)]
        columns += [distinct == 1, distinct == 2, distinct <= 4, stay == 1, stay == 2, stay <= 4, home]
        return np.stack([np.asarray(column, np.float32) for column in columns], axis=-1)

    def embedded(self, codes: Array) -> Float32:
        """[..., d] of codes [...] of states with an action: the state's place and the action's indicator."""
        states, action = np.divmod(np.asarray(codes, np.int64), ACTIONS)
        chosen = (action[..., None] == np.arange(ACTIONS)).astype(np.float32)
        return np.concatenate([self.embedded_states(states), chosen], axis=-1)


def cells_of(layout: Layout, embedding: Embedding, codes: Array) -> NDArray[np.int64]:
    """The cell, bucket of the state times 5 plus the action, of each code: 0 .. 5 layout.size - 1."""
    states, action = np.divmod(np.asarray(codes, np.int64), ACTIONS)
    slot, distinct, stay, home = embedding.parts(states)
    return np.asarray(layout.buckets(slot, distinct, stay, home) * ACTIONS + action)
