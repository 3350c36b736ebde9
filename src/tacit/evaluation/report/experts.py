"""What the report of a policy learned from experts says: where they agree, what was released, what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError

Array = NDArray[np.float64]
Level = Literal["logs", "policies"]
"""What of an expert the promise covers: every record that they contributed, or only how they decide."""
Role = Literal["released", "ceiling", "floor", "experts"]
"""The release; the same without noise; what experts who act at random would have taught; the experts themselves."""


@dataclass(frozen=True)
class Played:
    """What one policy returns in the public simulator.

    Attributes:
        label: of the row ("epsilon 1, released").
        role: see `Role`.
        mean: mean return of an episode.
        low, high: 95 % interval of that mean over the episodes; for the role "experts", the returns that nine of ten
            experts lie between.
    """

    label: str
    role: Role
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Votes:
    """Where experts agree, by the noisy votes at public anchor states; all of it is released.

    Attributes:
        x, y: names of the two public dimensions of the picture.
        positions: [N, 2] of the anchors in these dimensions.
        actions: how many actions there are.
        choice: [N] the action with most votes, 0 .. actions - 1.
        share: [N] its noisy share of the votes, inside [0, 1].
        error: standard deviation of the noise in one share.
    """

    x: str
    y: str
    positions: Array
    actions: int
    choice: Array
    share: Array
    error: float


@dataclass(frozen=True)
class Consensus:
    """What the release of consensus prefixes let out.

    Attributes:
        lengths: [n] steps of each released prefix, in the order of the release; 0 where nothing came out.
        horizon: longest episode.
        threshold: how many experts have to agree, before its noise.
        experts: public lower bound on how many there are.
    """

    lengths: Array
    horizon: int
    threshold: float
    experts: int


@dataclass(frozen=True)
class ExpertsReport:
    """Everything that the report of a policy learned from experts shows.

    Attributes:
        title: of the release.
        certificate: the release's certificate as `Certificate.to_json()` gives it, verified by the caller.
        verify: the shell commands with which a reader recomputes the promise.
        level: what of an expert the promise covers.
        method: how the policy was learned, in a few words ("votes of clones").
        world: the public simulator in which returns are measured, or None.
        episodes: over how many episodes each mean is taken.
        returns: what the policy returns there, beside others; () without a simulator.
        votes: where experts agree, or None.
        consensus: the released prefixes, or None.
        costs: (name, value) pairs on run time and memory.

    Raises:
        DataError: a policy that is not private is shown and the certificate does not say that the experts are
            simulated, or returns are shown and not exactly one of them is the release's.
    """

    title: str
    certificate: Mapping[str, Any]
    verify: tuple[str, ...]
    level: Level
    method: str
    world: str | None = None
    episodes: int = 0
    returns: tuple[Played, ...] = ()
    votes: Votes | None = None
    consensus: Consensus | None = None
    costs: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        roles = [row.role for row in self.returns]
        if self.certificate.get("simulated") is not True and set(roles) - {"released"}:
            raise DataError(
                "policies without privacy are shown and the certificate does not say that the experts are simulated",
                where="ExpertsReport",
                expected="a certificate with simulated = true, or the returns of the release alone",
                remedy="leave the ceiling and the experts' own returns out",
            )
        if roles and (roles.count("released") != 1 or self.world is None or self.episodes < 1):
            raise DataError(
                "the returns are not those of one release in a simulator",
                where="ExpertsReport",
                expected="one row of the role 'released', the name of the simulator and the number of episodes",
                remedy="put them in, or leave all returns out",
            )

    @property
    def released(self) -> Played | None:
        """What the release returns, if that was measured."""
        return next((row for row in self.returns if row.role == "released"), None)
