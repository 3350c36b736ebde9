"""What the readers under attack share: small valid data sets, and what a reader is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.fuzz.fuzz_mutations import Mutation

from tacit import Box, Discrete, PublicSpec, Trajectories, Unit
from tacit.data.mobility import Rules
from tacit.data.mobility.days import Days
from tacit.data.mobility.grids import RegularGrid

UNIT = Unit("person", "add_or_remove", 1_000)
SPEC = PublicSpec(
    Box((-1.0, 0.0), (1.0, 2.0)), Discrete(3), Box((0.0,), (1.0,)), "declared", difference=(0.1, 0.1), propensities=True
)
CONTINUOUS = PublicSpec(SPEC.observation, Box((-1.0,), (1.0,)), SPEC.reward, "declared")
GRID = RegularGrid(39.9, 116.0, 40.0, 116.1, 0.05)
RULES = Rules("UTC", carry=48, observed=1, outside="drop")

EXCHANGED: set[str] = set()
"""Paths that an input itself exchanged while it was read, which are not the reader's doing."""


@dataclass(frozen=True)
class Reader:
    """One reader of files.

    Args:
        name: in the results.
        file: the file of the folder that is exchanged.
        seeds: makes a valid folder, and returns valid contents of that file, the folder's own first.
        read: reads the folder.
        mutate: hostile contents out of a content.
        mend: after the exchange, what an attacker would mend: digests of the exchanged file.
        own: patterns of the files that it may make, change or remove; a reader that only reads has none.
    """

    name: str
    file: str
    seeds: Callable[[Path], list[bytes]]
    read: Callable[[Path], object]
    mutate: Mutation
    mend: Callable[[Path], None] = lambda folder: None
    own: tuple[str, ...] = ()

    def prepare(self, folder: Path, content: bytes) -> None:
        """Exchange the file, and mend what belongs to it."""
        (folder / self.file).write_bytes(content)
        self.mend(folder)

    def attempt(self, folder: Path, content: bytes) -> object:
        """What the reader returns when its file has this content; whatever it raises is raised."""
        self.prepare(folder, content)
        return self.read(folder)


def logs(rows: int = 12) -> dict[str, Any]:
    """Transitions of four people, as columns."""
    rng = np.random.default_rng(0)
    seen = rng.uniform(0.1, 0.9, (rows + 1, 2))
    return {
        "observations": seen[:-1],
        "actions": np.arange(rows) % 3,
        "rewards": rng.uniform(0.1, 0.9, rows),
        "next_observations": seen[1:],
        "terminations": np.arange(rows) % 3 == 2,
        "truncations": np.zeros(rows, bool),
        "propensities": np.full(rows, 0.25),
    }


def people(rows: int = 12) -> Any:
    """Whose the rows of `logs` are."""
    return np.arange(rows) // 3


def trajectories() -> Trajectories:
    """`logs` as a data set."""
    return Trajectories.from_arrays(**logs(), unit_ids=people(), spec=SPEC, simulated=True)


def days() -> Days:
    """Two days each of two people."""
    cells = np.zeros((4, 48), np.int64)
    cells[:, 16:34] = 3
    return Days(cells, np.array([0, 0, 1, 1]), GRID)
