"""What a simulator of few people must not be used for: part of every method's certificate."""

from __future__ import annotations

from tacit.units import Unit

FEW = 100
"""Below so many people for each unit of noise, maps of where trips go are not to be used."""


def few(unit: Unit | None, noise_multiplier: float | None) -> tuple[str, ...]:
    """A line for the certificate, or none.

    Args:
        unit: of the plan, with its public population.
        noise_multiplier: of the whole plan as one Gaussian release.
    """
    if unit is None or (noise_multiplier or 0.0) * FEW <= unit.size:
        return ()
    return (
        f"NOT TO BE USED: maps, origin-destination tables and visits by time of day. {unit.size:,} {unit.name}s at "
        "this noise tell how people move, not where: starts and trips are spread over blocks by the noise",
    )
