"""Sums over devices in certificates: their event, what a person adds, and whom the promise trusts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dp_accounting import DpEvent, NonPrivateDpEvent

from tacit.errors import PlanError
from tacit.privacy.mechanisms.device_sums import DeviceSum, LaplaceSum
from tacit.units import Unit

Fields = Mapping[str, Any]

KINDS = ("device_sum", "laplace_sum")

WHO_ANSWERS = "whether a device takes part and answers in time depends on nobody's records, and is not hidden"
SHARES = (
    "every device that answers adds its share of the noise as told and keeps it secret; of colluding devices, those "
    "beyond the answers above the floor take their share away"
)


def part_of(part: Fields) -> DeviceSum | LaplaceSum:
    """The part that a certificate states.

    Raises:
        PlanError: there is no such part.
    """
    kind = DeviceSum if part["kind"] == "device_sum" else LaplaceSum
    return kind(**{name: value for name, value in part.items() if name not in ("kind", "sampler", "rows")})


def event(part: Fields) -> DpEvent:
    """The event of the part that a certificate states; no privacy at all where there is no such part."""
    try:
        return part_of(part).event
    except PlanError:
        return NonPrivateDpEvent()


def assumptions(part: Fields) -> tuple[str, ...]:
    """What the part takes for granted beyond the standing assumptions."""
    if part["kind"] == "laplace_sum":
        return ()
    return (WHO_ANSWERS, SHARES) if part["noise"] == "shared" else (WHO_ANSWERS,)


def contribution(part: Fields, unit: Unit) -> str:
    """What one person adds, in plain words."""
    name, made = f"{part['name']} ({part['kind']})", f"its first {part['rows_per_unit']:,} rows in order of time"
    if part["kind"] == "laplace_sum":
        return (
            f"{name}: {part['steps']:,} sum(s) of {part['size']:,} numbers; one {unit.name} adds to each number at "
            f"most {part['bound']:.6g} in absolute value, made from {made}, under Laplace noise of scale "
            f"{part['noise_multiplier'] * part['bound']:.6g} on each number"
        )
    scale = part["noise_multiplier"] * part["clip"]
    noise = (
        f"discrete Gaussian noise of standard deviation {scale:.6g} a number, in steps of "
        f"{part['clip'] / 2 ** part['bits']:.6g}, shared among {part['floor']:,} answers"
        if part["noise"] == "shared"
        else f"noise of standard deviation {scale:.6g} a number, which its own device adds"
    )
    return (
        f"{name}: {part['steps']:,} sum(s) over at most {part['devices']:,} devices; one {unit.name} adds to one sum a "
        f"vector of norm at most {part['clip']:.6g} made from {made}, under {noise}"
    )


def contradictions(part: Fields, unit: Fields) -> Iterator[tuple[str, str]]:
    """(field, what is wrong) wherever the numbers of a part contradict each other or the unit."""
    try:
        if part["sampler"] != part_of(part).certified()["sampler"]:
            yield "sampler", "does not describe the numbers"
    except PlanError:
        yield "kind", "has no part of these numbers"
    if part["kind"] == "device_sum" and part["devices"] > unit["population"]:
        yield "devices", "are more than the unit's population"
