"""What all simulators of movement share: the beginning of a run, people who say nothing, and words of certificates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.mobility.grids import Grid
from tacit.errors import PlanError
from tacit.privacy.certificate.words import Label
from tacit.privacy.mechanisms.base import Plan
from tacit.privacy.vault.base import Run, exhausted
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

Lines = tuple[str, ...]

UNUSABLE = "NOT TO BE USED"
"""How a certificate begins what its simulator must not be used for."""
FEW = 100
"""Below so many people for each unit of noise, maps of where trips go are not to be used."""


def few(unit: Unit | None, noise_multiplier: float | None, noise: str = "server", floor: int | None = None) -> Lines:
    """A line for the certificate, or none."""
    # floor: of the answers, for shared noise, None is nine in ten
    if unit is None:
        return ()
    shares = {"server": 1.0, "shared": unit.size / (floor or 0.9 * unit.size), "device": float(unit.size)}[noise]
    if (noise_multiplier or 0.0) * math.sqrt(shares) * FEW <= unit.size:
        return ()
    return (
        f"{UNUSABLE}: maps, origin-destination tables and visits by time of day. {unit.size:,} {unit.name}s at "
        "this noise tell how people move, not where: starts and trips are spread over blocks by the noise",
    )


def forbidden(certificate: Mapping[str, Any]) -> Lines:
    """What a simulator must not be used for, as its certificate (JSON) says it."""
    return tuple(line for line in certificate["not_protected"] if line.startswith(UNUSABLE))


def label(
    name: str,
    covered: Lines,
    *,
    not_covered: Lines = (),
    others: Lines = (),
    public: str = "every public parameter of the plan, and the grid",
    cautions: Lines = (),
    assumptions: Lines = (),
) -> Label:
    """The label of a simulator: what every method says, and what a plan says itself."""
    return Label(
        covered=covered,
        not_covered=(
            "the choice of hyper-parameters: it must have been made without looking at these records",
            "whatever the curator computes from the records outside the vault (see the ledger's notes)",
            *not_covered,
        ),
        not_protected=(
            f"what most {name}s have in common: it is what is released",
            *others,
            f"several {name}s who are one person, where ids do not show it",
            public,
            *cautions,
        ),
        assumptions=assumptions,
    )


@dataclass(frozen=True)
class ZeroContribution:
    """A contribution that says nothing: the control in which a release is its noise alone, population and all."""

    contribution: Any  # whose place it takes

    @property
    def summary(self) -> Any:
        """That of the contribution, if it has one."""
        return getattr(self.contribution, "summary", None)

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: object = None) -> NDArray[np.float64]:
        """Zeros of the contribution's shape."""
        return np.zeros_like(np.asarray(self.contribution(rows, state), np.float64))


def reserved(plan: Plan, vault: Vault | FederatedVault, grid: Grid, part: str) -> Run:
    """The plan's run, paid for and not begun before."""
    if getattr(vault.spec.observation, "n", None) != grid.size:
        what = "the records are not days on this grid"
        expected, remedy = "the grid of the days, whose cells the observations are", "pass days.grid"
        raise PlanError(what, where=f"{plan.method} plan", expected=expected, remedy=remedy)
    run = vault.reserve(plan)
    if vault.touched(run):
        raise exhausted(run, part)
    return run
