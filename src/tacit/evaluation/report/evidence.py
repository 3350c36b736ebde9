"""What a report says beyond likeness: whether rows are copies, what attacks found, and what synthesizers take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError

Array = NDArray[np.float64]
Attacked = Literal["synthetic", "control"]


@dataclass(frozen=True)
class Nearest:
    """How near the synthetic rows come to single records: were any of them learned by heart?

    Attributes:
        protected: [Q] quantiles of a synthetic row's distance to the nearest record that it was learned from.
        others: [Q] quantiles of its distance to the nearest of as many records that nothing was learned from.
        nearer: share of rows nearer to one of the former (a tie counts half), and the low and high end of its interval;
            a half is what rows have that copy nobody.
        copies, rows: how many synthetic rows equal a record that was learned from, and how many were looked at.
        unit: what distances are measured in.
    """

    protected: Array
    others: Array
    nearer: tuple[float, float, float]
    copies: int
    rows: int
    unit: str

    def __post_init__(self) -> None:
        if self.protected.shape != self.others.shape or self.protected.ndim != 1 or len(self.protected) < 2:
            raise DataError(
                "the quantiles of the distances do not fit together",
                where="Nearest",
                expected="two arrays of equal length, at least two quantiles each",
                remedy="take both at the same levels, from 0 to 1",
            )


@dataclass(frozen=True)
class Audit:
    """A lower bound on epsilon from planted records, beside the upper bound that was promised.

    Attributes:
        label: what was attacked ("the released pipeline").
        kind: "synthetic" for what is released, "control" for a twin that was broken on purpose.
        lower: no epsilon below it is consistent with the attack, at the confidence.
        confidence: of `lower`, in (0, 1).
        certified: what the attacked run promises (or, if it is broken, would have promised).
        guesses, correct: whether canaries were in or not, and how many of these guesses were right.
        reach: what `lower` would be if every guess about every canary were right: no audit of this size shows more.
    """

    label: str
    kind: Attacked
    lower: float
    confidence: float
    certified: float
    guesses: int
    correct: int
    reach: float


@dataclass(frozen=True)
class Caught:
    """Share of members that an attack recognises at a share of false alarms, with its interval."""

    false_alarms: float
    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Attack:
    """A membership attack: its name, what it looks at in one phrase, and what it catches."""

    name: str
    meaning: str
    caught: tuple[Caught, ...]


@dataclass(frozen=True)
class Cost:
    """What a synthesizer takes: seconds of processor time of each phase, and peak memory in bytes."""

    label: str
    kind: Attacked
    seconds: tuple[tuple[str, float], ...]
    memory: float | None = None
