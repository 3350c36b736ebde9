"""The whitelist of events: round trips, the canonical list, and everything that must be refused."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from dp_accounting import dp_event
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import AccountingError
from tacit.privacy.events import MAX_COUNT, event_from_json, event_to_json, flatten

G = dp_event.GaussianDpEvent
SIGMAS = st.floats(0.01, 1e6)
LEAVES = st.one_of(
    SIGMAS.map(G),
    st.builds(dp_event.PoissonSampledDpEvent, st.floats(1e-9, 1.0), SIGMAS.map(G)),
    st.just(dp_event.NonPrivateDpEvent()),
)
EVENTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(dp_event.SelfComposedDpEvent, inner, st.integers(1, 9)),
        st.lists(inner, max_size=3).map(dp_event.ComposedDpEvent),
    ),
    max_leaves=6,
)


@given(EVENTS)
@settings(max_examples=60, deadline=None)
def test_json_round_trip_keeps_every_event(event: dp_event.DpEvent) -> None:
    text = json.dumps(event_to_json(event), allow_nan=False)
    assert event_from_json(json.loads(text)) == event


def test_flatten_multiplies_counts_merges_equal_leaves_and_forgets_order() -> None:
    poisson = dp_event.PoissonSampledDpEvent(0.1, G(2.0))
    one = dp_event.ComposedDpEvent([dp_event.SelfComposedDpEvent(dp_event.SelfComposedDpEvent(poisson, 3), 5), G(1.0)])
    other = dp_event.ComposedDpEvent(
        [G(1.0), dp_event.SelfComposedDpEvent(poisson, 7), poisson, poisson] + [poisson] * 6
    )
    assert flatten(one) == flatten(other) == ((G(1.0), 1), (poisson, 15))


def test_a_poisson_sample_of_rate_one_is_the_gaussian_and_no_noise_is_no_privacy() -> None:
    assert flatten(dp_event.PoissonSampledDpEvent(1.0, G(2.0))) == ((G(2.0), 1),)
    assert flatten(G(0.0)) == ((dp_event.NonPrivateDpEvent(), 1),)
    assert flatten(dp_event.PoissonSampledDpEvent(0.5, G(0.0))) == ((dp_event.NonPrivateDpEvent(), 1),)


def gaussian(sigma: Any) -> dict[str, Any]:
    return {"kind": "gaussian", "noise_multiplier": sigma}


def deep(levels: int) -> dict[str, Any]:
    value = gaussian(1.0)
    for _ in range(levels):
        value = {"kind": "self_composed", "count": 1, "event": value}
    return value


BAD = {
    "no object": [1.0],
    "no kind": {},
    "unknown kind": {"kind": "laplace", "noise_multiplier": 1.0},
    "unhashable kind": {"kind": ["gaussian"]},
    "module path": {"kind": "os.system", "module_name": "os"},
    "extra key": {**gaussian(1.0), "comment": ""},
    "missing key": {"kind": "gaussian"},
    "nan": gaussian(math.nan),
    "inf": gaussian(math.inf),
    "negative": gaussian(-1.0),
    "absurdly small": gaussian(1e-9),
    "bool": gaussian(True),
    "bool zero": gaussian(False),
    "text": gaussian("1.0"),
    "rate 0": {"kind": "poisson_sampled", "rate": 0.0, "event": gaussian(1.0)},
    "rate above 1": {"kind": "poisson_sampled", "rate": 1.5, "event": gaussian(1.0)},
    "sampled composition": {"kind": "poisson_sampled", "rate": 0.5, "event": deep(1)},
    "sampled sample": {
        "kind": "poisson_sampled",
        "rate": 0.5,
        "event": {"kind": "poisson_sampled", "rate": 0.5, "event": gaussian(1.0)},
    },
    "count 0": {"kind": "self_composed", "count": 0, "event": gaussian(1.0)},
    "count -1": {"kind": "self_composed", "count": -1, "event": gaussian(1.0)},
    "count 1.5": {"kind": "self_composed", "count": 1.5, "event": gaussian(1.0)},
    "count too large": {"kind": "self_composed", "count": MAX_COUNT + 1, "event": gaussian(1.0)},
    "product of counts": {
        "kind": "self_composed",
        "count": MAX_COUNT,
        "event": {"kind": "self_composed", "count": 2, "event": gaussian(1.0)},
    },
    "no list": {"kind": "composed", "events": gaussian(1.0)},
    "deep": deep(40),
    "deeper than the interpreter": deep(5000),
    "wide": {"kind": "composed", "events": [gaussian(1.0)] * 10_000},
}


@pytest.mark.parametrize("value", BAD.values(), ids=BAD.keys())
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(AccountingError, match="event"):
        event_from_json(value)


@pytest.mark.parametrize(
    "event",
    [
        dp_event.LaplaceDpEvent(1.0),
        dp_event.UnsupportedDpEvent(),
        dp_event.NoOpDpEvent(),
        dp_event.SampledWithoutReplacementDpEvent(10, 2, G(1.0)),
        dp_event.PoissonSampledDpEvent(0.1, dp_event.LaplaceDpEvent(1.0)),
        dp_event.ComposedDpEvent([G(1.0), dp_event.LaplaceDpEvent(1.0)]),
        dp_event.PoissonSampledDpEvent(math.nan, G(1.0)),
        G(-1.0),
    ],
    ids=repr,
)
def test_events_of_callers_meet_the_same_whitelist(event: dp_event.DpEvent) -> None:
    with pytest.raises(AccountingError):
        event_to_json(event)
    with pytest.raises(AccountingError):
        flatten(event)
