"""What the report of a learned policy says: returns on simulated people whom no training met."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError

Array = NDArray[np.float64]
Role = Literal["released", "compared", "ceiling", "floor"]
"""The run that is released; one at another epsilon; one without noise; one that learned from noise alone."""


@dataclass(frozen=True)
class Learning:
    """How one setting learned: the return of the policies that it released on the way.

    Attributes:
        label: of the setting ("epsilon 2").
        role: see `Role`.
        people: [K] how many people had been met when a policy was released.
        mean, low, high: [K] mean return of that policy, and its lowest and highest over the runs; all the same
            where there is one run.
    """

    label: str
    role: Role
    people: Array
    mean: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class Outcome:
    """What one setting came to.

    Attributes:
        label, role: as in `Learning`.
        epsilon: its promise, or None where there is none.
        mean, low, high: return of the last policy as it acts, over the runs.
        greedy: mean return of the same policy when it takes its best action.
        averaged: mean return of the averaged policy as it acts.
        runs: how many runs.
    """

    label: str
    role: Role
    epsilon: float | None
    mean: float
    low: float
    high: float
    greedy: float
    averaged: float
    runs: int


@dataclass(frozen=True)
class PolicyReport:
    """Everything that the report of a learned policy shows. Returns are measured on simulated people alone.

    Attributes:
        title: of the release.
        certificate: the release's certificate as `Certificate.to_json()` gives it, verified by the caller.
        verify: the shell commands with which a reader recomputes the promise.
        environment: its id.
        people, evaluated: how many people the training met at most, and how many others each return is measured on.
        error: standard error of the released policy's return over those people.
        outcomes: what every setting came to; exactly one has the role "released".
        curves: how they learned.
        costs: (name, value) pairs on run time and memory.

    Raises:
        DataError: the certificate is not one of simulated people, or there is not exactly one released outcome.
    """

    title: str
    certificate: Mapping[str, Any]
    verify: tuple[str, ...]
    environment: str
    people: int
    evaluated: int
    error: float
    outcomes: tuple[Outcome, ...]
    curves: tuple[Learning, ...] = ()
    costs: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.certificate.get("simulated") is not True:
            raise DataError(
                "returns are shown and the certificate does not say that the people are simulated",
                where="PolicyReport",
                expected="a certificate with simulated = true",
                remedy="measure returns on simulated people: those of real ones are not differentially private",
            )
        if [row.role for row in self.outcomes].count("released") != 1:
            raise DataError(
                "there is no released outcome, or there are several",
                where="PolicyReport",
                expected="one outcome of the role 'released'",
                remedy="put the returns of the released policy in",
            )

    @property
    def released(self) -> Outcome:
        """What the release came to."""
        return next(row for row in self.outcomes if row.role == "released")
