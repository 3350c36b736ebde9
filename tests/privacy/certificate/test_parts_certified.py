"""What parts say of themselves is what a certificate accounts for: the same event, and a known shape."""

from __future__ import annotations

from typing import Any

import pytest
from test_certificate import TRAJECTORY, build
from vault_cases import GivenParts

from tacit.errors import PlanError
from tacit.privacy.accounting.events import flatten
from tacit.privacy.certificate import fields as certificate_fields
from tacit.privacy.mechanisms.base import Part, certificate_parts
from tacit.privacy.mechanisms.kinds import part_from_json
from tacit.privacy.mechanisms.releases import Axis, NoisyHistogram
from tacit.privacy.mechanisms.smooth_sensitivity import Visits, WeightedStates
from tacit.privacy.mechanisms.sums import FixedSizeSum, PoissonSum
from tacit.privacy.vault import plan as plans

AXES = (Axis("observations", 0, (0.0, 1.0, 2.0)),)
HALVES = tuple(
    PoissonSum(
        name=f"half {fold}",
        steps=3,
        sampling_rate=1.0,
        clip_norm=2.0,
        noise_multiplier=20.0 + fold,
        rows="first",
        fold=fold,
    )  # type: ignore[arg-type]
    for fold in (0, 1)
)
FIXED = FixedSizeSum(name="gradient", steps=9, batch_size=7, population=5_000, clip_norm=1.0, noise_multiplier=3.0)
POISSON = PoissonSum(name="sum", steps=9, sampling_rate=0.01, clip_norm=1.0, noise_multiplier=3.0)
FRAGMENTS = PoissonSum(
    name="windows", steps=9, sampling_rate=0.01, clip_norm=1.0, noise_multiplier=3.0, rows_per_unit=4, horizon=8
)
REGRESSION = WeightedStates(
    name="regression",
    visits=Visits(AXES, 0.9, 10, 0.0, 1.0),
    features=((1.0,), (2.0,)),
    weights=(0.5, 0.5),
    epsilon=0.5,
    delta=1e-7,
    rows_per_unit=10,
)
PARTS: dict[str, tuple[Part, ...]] = {
    "fixed size": (FIXED,),
    "fragments": (FRAGMENTS,),
    "halves": HALVES,
    "all sums": (
        POISSON,
        *HALVES,
        FIXED,
        NoisyHistogram(name="starts", axes=AXES, noise_multiplier=30.0),
    ),
    "own proof": (REGRESSION,),
}


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS.keys())
def test_a_certificate_of_real_parts_verifies(parts: tuple[Part, ...]) -> None:
    event = plans.event(GivenParts(parts))
    stated: Any = certificate_parts(parts)
    assert flatten(certificate_fields.parts_event(stated)) == flatten(event)
    assert build(parts=stated, event=event, **TRAJECTORY).verify().private


@pytest.mark.parametrize("part", [FIXED, POISSON, FRAGMENTS, *HALVES], ids=lambda part: part.name)
def test_a_part_is_rebuilt_as_it_was_and_nothing_else_is_taken_for_one(part: Part) -> None:
    stated: Any = certificate_parts([part])[0]
    assert part_from_json(stated) == part
    for edited in (
        stated | {"hidden": 1},
        stated | {"rows": "some"},
        stated | {"kind": "unheard_of"},
        stated | {"steps": "9"},
        {name: value for name, value in stated.items() if name != "clip_norm"},
    ):
        with pytest.raises(PlanError):
            part_from_json(edited)
