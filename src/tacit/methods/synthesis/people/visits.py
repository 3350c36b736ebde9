"""Rows of units as visits: what was seen, what had been seen before it, what was done, and whether it went on.

A row of records is a step, with the observations before and after it. A visit is one observation, with what was done
then. The last visit of an episode that does not terminate has nothing done, unless records were read with --next.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.data.columns import Column
from tacit.data.spec import Discrete, Space

Array = NDArray[np.generic]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

GOES_ON, STOPS, BEGINS_AGAIN = 0, 1, 2
"""What follows a visit: another of its episode, none of its unit, or the first of another episode."""
STEPS = 10.0
"""Typical steps that a number's range is long where none is declared."""


@dataclass(frozen=True)
class Variable:
    """One column of observations or actions, as it is synthesized.

    Args:
        name: its name.
        place: where its number is among those of the space; after it stands its flag, if it has one.
        labels: how many labels a category has; 0 of a number.
        low, high: bounds of a number.
        whole: whether it is a whole number.
        step: typical size of a change.
        flag: whether it may miss, which the number after it says.
        static: whether it never changes in a unit.
        duration: whether it is the time since the visit before.
    """

    name: str
    place: int
    labels: int
    low: float
    high: float
    whole: bool
    step: float
    flag: bool = False
    static: bool = False
    duration: bool = False

    @property
    def is_logarithmic(self) -> bool:
        """Whether its bounds span so much that changes are relative."""
        return not self.labels and self.low > 0 and self.high / self.low >= 20

    def straighten(self, values: Floats) -> Floats:
        """Values, or their logarithms."""
        return np.log(np.maximum(values, self.low)) if self.is_logarithmic else values

    def bend(self, values: Floats) -> Floats:
        """What `straighten` made of, within the bounds; whole where it is whole."""
        values = np.clip(np.exp(values) if self.is_logarithmic else values, self.low, self.high)
        return np.rint(values) if self.whole else values

    def read(self, numbers: Array) -> Floats:
        """Its values [V] of the numbers [V, d] of its space, NaN where they miss."""
        values = numbers[:, self.place].astype(np.float64)
        if self.flag:
            values[numbers[:, self.place + 1] == 1] = np.nan
        return values

    def write(self, values: Floats, wide: NDArray[np.float32]) -> None:
        """Put values [V] into the numbers [V, d] of its space."""
        missing = np.isnan(values)
        wide[:, self.place] = np.where(missing, self.low, values)
        if self.flag:
            wide[:, self.place + 1] = missing


def list_variables(space: Space, steps: tuple[float, ...] | None) -> tuple[Variable, ...]:
    """The variables of a space, in its order."""
    if isinstance(space, Discrete):
        names = space.columns or (Column("value", "integer", low=0, high=max(1, space.n - 1)),)
        return (Variable(names[0].name, 0, space.n, 0.0, space.n - 1.0, True, 1.0),)
    columns = space.columns or tuple(
        Column(str(i), low=low, high=high) for i, (low, high) in enumerate(zip(space.low, space.high, strict=True))
    )
    found, place = list[Variable](), 0
    for column in columns:
        low, high = column.bounds
        step = (high - low) / STEPS if steps is None else steps[place]
        step = column.step or ((high - low) / STEPS if column.static or column.kind == "duration" else step)
        found.append(
            Variable(
                name=column.name,
                place=place,
                labels=len(column.labels),
                low=low,
                high=high,
                whole=column.kind in ("integer", "category"),
                step=step,
                flag=column.flag is not None,
                static=column.static,
                duration=column.kind == "duration",
            )
        )
        place += 1 + (column.flag is not None)
    return tuple(found)


@dataclass(frozen=True, eq=False)
class CutVisits:
    """V visits of U units, each unit's one after another.

    `seen` has the values of each observed variable [V], `done` those of actions; NaN where they miss. `before` has what
    was last seen earlier in the episode, `earlier` what before that, `now` what is known with this visit.
    """

    units: int
    owner: Integers  # [V], rising
    number: Integers  # [V], of the unit's visits, from 0
    begins: NDArray[np.bool_]  # [V], the first of an episode
    acted: NDArray[np.bool_]  # [V], whether something was done
    seen: tuple[Floats, ...]
    done: tuple[Floats, ...]
    reward: Floats
    ending: Integers  # [V], `GOES_ON`, `STOPS` or `BEGINS_AGAIN`
    terminated: NDArray[np.bool_]  # [V]

    @property
    def count(self) -> Integers:
        """Visits of each unit [U]."""
        return np.bincount(self.owner, minlength=self.units)

    @property
    def first(self) -> Integers:
        """Each unit's first visit, of those that have any."""
        return np.flatnonzero(self.number == 0)

    def previous(self, values: Floats, missing: float = np.nan) -> Floats:
        """Values [V] of the visit before, in the same episode."""
        return np.where(self.begins, missing, np.roll(values, 1))

    def known(self, values: Floats) -> Floats:
        """Values [V], or the last one that was seen in the episode where one misses."""
        index = np.arange(len(values))
        begin = np.maximum.accumulate(np.where(self.begins, index, 0))
        last = np.maximum.accumulate(np.where(np.isnan(values), -1, index))
        return np.where(last >= begin, values[np.maximum(last, 0)], np.nan)


def cut_visits(
    rows: Mapping[str, Array],
    seen: tuple[Variable, ...],
    done: tuple[Variable, ...],
    most: int,
    *,
    copied_ends: bool,
) -> CutVisits:
    """The first visits, so many at most, of padded rows, each column [U, L, ...] with `mask` and `starts` [U, L]."""
    mask = np.asarray(rows["mask"], np.bool_)
    units, owner = len(mask), np.nonzero(mask)[0]
    flat = {name: np.asarray(column)[mask] for name, column in rows.items() if np.shape(column)[:2] == mask.shape}
    count = len(owner)
    starts = flat["starts"].astype(np.bool_) | (np.diff(owner, prepend=-1) != 0)
    last = np.append(starts[1:], True)[:count]
    widths = {name: math.prod(column.shape[1:]) for name, column in flat.items()}
    wide = {name: flat[name].reshape(count, widths[name]) for name in ("observations", "next_observations", "actions")}
    now, following = wide["observations"], wide["next_observations"]
    copied = flat["truncations"].astype(np.bool_) & (now == following).all(axis=1) & copied_ends
    more = last & ~flat["terminations"].astype(np.bool_) & ~copied  # one was seen after the last step
    index = np.repeat(np.arange(count), 1 + more)
    number = np.arange(len(index)) - np.searchsorted(owner[index], owner[index])
    index, number = index[number < most], number[number < most]
    after = np.diff(index, prepend=-1) == 0  # the second of two is what was seen then
    observed = np.where(after[:, None], following[index], now[index])
    owners = owner[index]
    begins = starts[index] & ~after
    ends = np.append(begins[1:], True)[: len(index)]
    leaves = np.append(np.diff(owners) != 0, True)[: len(index)]
    actions = wide["actions"][index]
    return CutVisits(
        units=units,
        owner=owners,
        number=number,
        begins=begins,
        acted=~after,
        seen=tuple(variable.read(observed) for variable in seen),
        done=tuple(variable.read(actions) for variable in done),
        reward=np.asarray(flat["rewards"], np.float64)[index],
        ending=np.where(leaves, STOPS, np.where(ends, BEGINS_AGAIN, GOES_ON)),
        terminated=flat["terminations"].astype(np.bool_)[index] & ~after,
    )
