"""What is released: a simulator of days, whose policy is a table of public buckets of states."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from tacit import plain_files
from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.grids import Grid, grid_from_json, grid_json_error
from tacit.envs import movement
from tacit.envs.spaces import GravityLaw, JumpLaw
from tacit.errors import DataError, PlanError
from tacit.methods.mobility.places import StartDistribution
from tacit.serialization import from_json, to_json
from tacit.validation import require_valid

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class StateLayout:
    """Public buckets of states: time block x different cells so far x slots in the present cell x whether at home.

    Bucket (b, c, s, h) has the number ((b C + c) S + s) 2 + h.

    Args:
        times: B, number of equal blocks of the day's 48 slots.
        counts: lower ends of the bins of different cells, the first 1.
        stays: lower ends of the bins of slots in the present cell, the first 1.

    Raises:
        PlanError: a number is out of range or the ends do not increase from 1.
    """

    times: int = 1
    counts: tuple[int, ...] = (1,)
    stays: tuple[int, ...] = (1, 2, 4)

    def __post_init__(self) -> None:
        require_valid("layout.times", self.times, type(self.times) is int and 1 <= self.times <= SLOTS, "from 1 to 48")
        for name in ("counts", "stays"):
            ends = getattr(self, name)
            rising = len(ends) > 0 and ends[0] == 1 and all(a < b <= SLOTS for a, b in itertools.pairwise(ends))
            whole = isinstance(ends, tuple) and all(type(end) is int for end in ends)
            valid = whole and rising
            require_valid(f"layout.{name}", ends, valid, "a tuple of whole numbers that increase from 1, at most 48")

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Numbers of time blocks, bins of cells, bins of stays, and 2."""
        return self.times, len(self.counts), len(self.stays), 2

    @property
    def size(self) -> int:
        """K, the number of buckets."""
        return int(np.prod(self.shape))

    def buckets(self, slot: IntArray | int, distinct: IntArray, stay: IntArray, home: Mask) -> IntArray:
        """Bucket of each state, for slots 0 .. 47 and arrays of one shape."""
        block = np.asarray(slot) * self.times // SLOTS
        count = np.searchsorted(self.counts, distinct, side="right") - 1
        length = np.searchsorted(self.stays, stay, side="right") - 1
        _, counts, stays, _ = self.shape
        bucket: IntArray = ((block * counts + count) * stays + length) * 2 + home
        return bucket

    @property
    def block_shares(self) -> FloatArray:
        """Share [B] of a day's 47 steps that begin in each time block."""
        blocks = np.arange(SLOTS - 1) * self.times // SLOTS
        return np.bincount(blocks, minlength=self.times) / (SLOTS - 1)


@dataclass(frozen=True, eq=False)
class TablePolicy:
    """Probabilities of the actions by day type and bucket, a `movement.MovementPolicy`.

    Args:
        layout: the buckets.
        table: [kinds, K, 4] or [kinds, K, 5], each row a distribution.

    Raises:
        DataError: the table has another shape, or a row is no distribution.
    """

    layout: StateLayout
    table: FloatArray

    def __post_init__(self) -> None:
        table = np.asarray(self.table, np.float64)
        shaped = table.ndim == 3 and len(table) > 0 and table.shape[1] == self.layout.size and table.shape[2] in (4, 5)
        if not shaped or not (np.all(table >= 0) and np.allclose(table.sum(axis=2), 1.0, atol=1e-6)):
            what = "the table is not one of probabilities over the layout"
            expected = f"[kinds, {self.layout.size}, 4 or 5], rows that add up to 1"
            remedy = "normalise the rows, or take the layout that the table was made for"
            raise DataError(what, where="TablePolicy", expected=expected, remedy=remedy)
        object.__setattr__(self, "table", table)

    @property
    def kinds(self) -> int:
        """Number of latent day types."""
        return len(self.table)

    def probabilities(self, kind: IntArray, slot: int, distinct: IntArray, stay: IntArray, home: Mask) -> FloatArray:
        """See `movement.MovementPolicy`."""
        return np.asarray(self.table[kind, self.layout.buckets(slot, distinct, stay, home)])

    def to_json(self) -> dict[str, Any]:
        """JSON values for `from_json`."""
        return {"kind": "table", **to_json(self)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TablePolicy:
        """The policy that `to_json` wrote.

        Raises:
            DataError: a field is missing or out of range.
        """
        try:
            return from_json(cls, {name: values[name] for name in ("layout", "table")})
        except (KeyError, TypeError, PlanError) as error:
            raise grid_json_error("policy", "TablePolicy.from_json", "layout and table") from error


FORMAT = "tacit simulator of movement"
VERSION = 1


@dataclass(frozen=True, eq=False, repr=False)
class Simulator:
    """A simulator of days of movement.

    Args:
        grid: the public grid.
        policy: when to stay, explore, go home, back, or to the last place.
        starts: where days begin.
        space: where exploring leads.
        invalid: what an impossible action is (`movement.play`).
        gravity: whether exploring prefers directions in which days begin (`envs.spaces.GravityLaw`).

    Raises:
        DataError: `invalid` or `gravity` is unknown, or where days begin is not known by blocks.
    """

    grid: Grid
    policy: movement.MovementPolicy
    starts: movement.StartSampler
    space: movement.Space
    invalid: movement.Invalid = "mask"
    gravity: bool = False

    def __post_init__(self) -> None:
        if self.invalid not in get_args(movement.Invalid):
            raise _format_error("the meaning of impossible actions is unknown", "Simulator")
        by_blocks = isinstance(self.starts, StartDistribution) and isinstance(self.space, JumpLaw)
        if self.gravity is not False and not (self.gravity is True and by_blocks):
            raise _format_error("exploring by gravity needs released homes and distances", "Simulator")

    def generate(self, days: int, *, seed: int = 0) -> Days:
        """Days of invented people, one day each; the same seed gives the same days.

        Args:
            days: how many.
            seed: of everything random.

        Raises:
            DataError: the number of days is not a whole number >= 1.
        """
        if type(days) is not int or days < 1:
            expected, remedy = "a whole number >= 1", "say how many days to draw, such as generate(1_000)"
            raise DataError(f"days is {days!r}", where="Simulator.generate", expected=expected, remedy=remedy)
        rng = np.random.default_rng([seed, 1])
        starts = self.starts.draw(days, rng)
        space = self.space
        if self.gravity:
            assert isinstance(self.starts, StartDistribution)
            assert isinstance(space, JumpLaw)
            space = GravityLaw(space, self.starts.factor, self.starts.probabilities)
        cells = movement.play(self.policy, space, starts, rng, invalid=self.invalid)
        return Days(cells, np.arange(days), self.grid)

    def to_json(self) -> dict[str, Any]:
        """JSON values for `from_json`.

        Raises:
            DataError: a part of the simulator is of a kind of its own, which no file can hold.
        """
        kinds = {"policy": TablePolicy, "starts": StartDistribution, "space": JumpLaw}
        parts: dict[str, Any] = {name: getattr(self, name) for name in kinds}
        for name, part in parts.items():
            if type(part) is not (kind := kinds[name]):
                what = f"the {name} of the simulator is a {type(part).__name__}"
                expected, remedy = f"a {kind.__name__}, as private releases have it", "generate days and keep these"
                raise DataError(what, where="Simulator.to_json", expected=expected, remedy=remedy)
        values = {"format": FORMAT, "version": VERSION, "grid": self.grid.to_json()}
        return (
            values
            | {name: part.to_json() for name, part in parts.items()}
            | {"invalid": self.invalid, **({"gravity": True} if self.gravity else {})}
        )

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Simulator:
        """The simulator that `to_json` wrote.

        Raises:
            DataError: a field is missing or invalid, or it is of another version.
        """
        if not isinstance(values, Mapping) or (values.get("format"), values.get("version")) != (FORMAT, VERSION):
            raise _format_error("the values are not those of a simulator of this version", "Simulator.from_json")
        try:
            grid, invalid = grid_from_json(values["grid"]), values["invalid"]
            policy, starts = TablePolicy.from_json(values["policy"]), StartDistribution.from_json(values["starts"])
            return cls(grid, policy, starts, JumpLaw.from_json(values["space"]), invalid, values.get("gravity", False))
        except (KeyError, TypeError) as error:
            raise _format_error("a field is missing", "Simulator.from_json") from error

    def save(self, path: str | Path) -> None:
        """Write it to a JSON file: numbers and words alone, no code."""
        plain_files.write(Path(path), json.dumps(self.to_json()))

    @classmethod
    def load(cls, path: str | Path) -> Simulator:
        """The simulator that `save` wrote.

        Raises:
            DataError: the file is not one of a simulator.
        """
        try:
            values = json.loads(plain_files.read_text(Path(path)))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise _format_error("the file is not JSON", "Simulator.load") from error
        return cls.from_json(values)

    def __repr__(self) -> str:
        return f"Simulator(grid={self.grid!r}, kinds of days: {self.policy.kinds})"


def _format_error(what: str, where: str) -> DataError:
    expected, remedy = "what Simulator.to_json wrote", "use the version of tacit that wrote it"
    return DataError(what, where=where, expected=expected, remedy=remedy)
