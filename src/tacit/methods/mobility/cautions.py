"""What a simulator of few people must not be used for: part of every method's certificate."""

from __future__ import annotations

import math

from tacit.units import Unit

Lines = tuple[str, ...]

FEW = 100
"""Below so many people for each unit of noise, maps of where trips go are not to be used."""


def few(unit: Unit | None, noise_multiplier: float | None, noise: str = "server", floor: int | None = None) -> Lines:
    """A line for the certificate, or none.

    Args:
        unit: of the plan, with its public population.
        noise_multiplier: of the whole plan as one Gaussian release.
        noise: who adds it: devices that add their own, or shares for a floor of answers, add more of it together.
        floor: of the answers, for shared noise; None is nine in ten.
    """
    if unit is None:
        return ()
    shares = {"server": 1.0, "shared": unit.size / (floor or 0.9 * unit.size), "device": float(unit.size)}[noise]
    if (noise_multiplier or 0.0) * math.sqrt(shares) * FEW <= unit.size:
        return ()
    return (
        f"NOT TO BE USED: maps, origin-destination tables and visits by time of day. {unit.size:,} {unit.name}s at "
        "this noise tell how people move, not where: starts and trips are spread over blocks by the noise",
    )
