"""What is released: a simulator of days, from which any number of days is drawn at no further cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from tacit.data.days import Days
from tacit.data.grids import Grid, grid_from_json
from tacit.envs import movement
from tacit.envs.spaces import JumpLaw
from tacit.errors import DataError
from tacit.methods.mobility.policy import TablePolicy
from tacit.methods.mobility.starts import Starts

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

    Raises:
        DataError: `invalid` is unknown.
    """

    grid: Grid
    policy: movement.Policy
    starts: movement.Starts
    space: movement.Space
    invalid: movement.Invalid = "mask"

    def __post_init__(self) -> None:
        if self.invalid not in get_args(movement.Invalid):
            raise _unreadable("the meaning of impossible actions is unknown", "Simulator")

    def generate(self, days: int, *, seed: int = 0) -> Days:
        """Days of invented people, one day each; the same seed gives the same days.

        Args:
            days: how many.
            seed: of everything random.

        Raises:
            DataError: the number of days is not a whole number >= 1.
        """
        if type(days) is not int or days < 1:
            raise DataError(
                f"days is {days!r}",
                where="Simulator.generate",
                expected="a whole number >= 1",
                remedy="say how many days to draw, such as generate(1_000)",
            )
        rng = np.random.default_rng([seed, 1])
        starts = self.starts.draw(days, rng)
        cells = movement.play(self.policy, self.space, starts, rng, invalid=self.invalid)
        return Days(cells, np.arange(days), self.grid)

    def to_json(self) -> dict[str, Any]:
        """JSON values for `from_json`.

        Raises:
            DataError: a part of the simulator is of a kind of its own, which no file can hold.
        """
        parts = {"policy": (self.policy, TablePolicy), "starts": (self.starts, Starts), "space": (self.space, JumpLaw)}
        for name, (part, kind) in parts.items():
            if type(part) is not kind:
                raise DataError(
                    f"the {name} of the simulator is a {type(part).__name__}",
                    where="Simulator.to_json",
                    expected=f"a {kind.__name__}, as private releases have it",
                    remedy="generate days and keep these",
                )
        assert isinstance(self.policy, TablePolicy)
        assert isinstance(self.starts, Starts)
        assert isinstance(self.space, JumpLaw)
        return {
            "format": FORMAT,
            "version": VERSION,
            "grid": self.grid.to_json(),
            "policy": self.policy.to_json(),
            "starts": self.starts.to_json(),
            "space": self.space.to_json(),
            "invalid": self.invalid,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Simulator:
        """The simulator that `to_json` wrote.

        Raises:
            DataError: a field is missing or invalid, or it is of another version.
        """
        if not isinstance(values, Mapping) or (values.get("format"), values.get("version")) != (FORMAT, VERSION):
            raise _unreadable("the values are not those of a simulator of this version", "Simulator.from_json")
        try:
            grid, invalid = grid_from_json(values["grid"]), values["invalid"]
            policy, starts = TablePolicy.from_json(values["policy"]), Starts.from_json(values["starts"])
            return cls(grid, policy, starts, JumpLaw.from_json(values["space"]), invalid)
        except (KeyError, TypeError) as error:
            raise _unreadable("a field is missing", "Simulator.from_json") from error

    def save(self, path: str | Path) -> None:
        """Write it to a JSON file: numbers and words alone, no code."""
        Path(path).write_text(json.dumps(self.to_json()), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Simulator:
        """The simulator that `save` wrote.

        Raises:
            DataError: the file is not one of a simulator.
        """
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise _unreadable("the file is not JSON", "Simulator.load") from error
        return cls.from_json(values)

    def __repr__(self) -> str:
        return f"Simulator(grid={self.grid!r}, kinds of days: {self.policy.kinds})"


def _unreadable(what: str, where: str) -> DataError:
    return DataError(
        what, where=where, expected="what Simulator.to_json wrote", remedy="use the version of tacit that wrote it"
    )
