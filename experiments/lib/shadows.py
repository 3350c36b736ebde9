"""Runs with random halves of the units, in blocks that are stored one by one: half of them teach an attacker.

A block holds who was in each of its runs, and what every score said of every unit. Shadow runs teach the attacker,
target runs judge it (`experiments.lib.attacks`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from experiments.lib.attacks import Run, Score, Trials, run_trials
from experiments.lib.store import Store

Side = Literal["shadow", "target"]


@dataclass(frozen=True)
class Block:
    """A block of shadow or target runs of one setting at one epsilon."""

    setting: str
    epsilon: float
    side: Side
    number: int

    @property
    def key(self) -> str:
        return f"{self.setting}/{self.epsilon:g}/{self.side}/{self.number}"

    @property
    def seed(self) -> int:
        """Of its members and runs: of its own."""
        return 10_000 + 2 * self.number + (self.side == "target")

    @staticmethod
    def of(key: str) -> Block:
        """The block of a key."""
        setting, epsilon, side, number = key.split("/")
        return Block(setting, float(epsilon), "shadow" if side == "shadow" else "target", int(number))


def blocks(setting: str, epsilon: float, shadow: int, target: int) -> list[Block]:
    """So many blocks on each side."""
    sides: tuple[tuple[Side, int], ...] = (("shadow", shadow), ("target", target))
    return [Block(setting, epsilon, side, number) for side, count in sides for number in range(count)]


def scored(
    block: Block,
    run: Run,
    scores: Mapping[str, Score],
    units: int,
    *,
    runs: int,
    together: int,
    digits: Mapping[str, int],
) -> dict[str, Any]:
    """Of each of the block's runs its members, a 0 or 1 a unit, and every score [units], of 4 digits or others."""
    found = run_trials(run, scores, units, runs=runs, seed=block.seed, together=together)
    present = next(iter(found.values())).present
    return {
        "members": ["".join("01"[int(p)] for p in row) for row in present],
        "scores": {
            name: [[float(f"{x:.{digits.get(name, 4)}g}") for x in row] for row in one.scores]
            for name, one in found.items()
        },
    }


def read(results: Store, wanted: Sequence[Block]) -> dict[str, tuple[Trials, Trials]]:
    """By score, the shadow and the target runs of some stored blocks; LookupError where one is missing."""
    rows: dict[Side, list[dict[str, Any]]] = {"shadow": [], "target": []}
    for block in wanted:
        rows[block.side].append(results.values(block.key))

    def of(side: Side, name: str) -> Trials:
        members = [[bit == "1" for bit in word] for row in rows[side] for word in row["members"]]
        return Trials(np.array(members), np.array([one for row in rows[side] for one in row["scores"][name]], float))

    return {name: (of("shadow", name), of("target", name)) for name in rows["shadow"][0]["scores"]}
