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
from tacit.privacy.accounting.events import (
    MAX_COUNT,
    ComposedEvent,
    EpsilonDeltaEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    PoissonSampledEvent,
    RandomizedResponseEvent,
    SampledWithoutReplacementEvent,
    SelectionEvent,
    SelfComposedEvent,
    ZcdpEvent,
    compose_parallel,
    event_from_json,
    event_to_json,
    flatten,
    in_balls,
    leaves_under,
)

G = GaussianEvent
Fixed = SampledWithoutReplacementEvent
SIGMAS = st.floats(0.01, 1e6)
LEAVES = st.one_of(
    SIGMAS.map(G),
    st.builds(PoissonSampledEvent, st.floats(1e-9, 1.0), SIGMAS.map(G)),
    st.builds(lambda b, more, g: Fixed(b + more, b, g), st.integers(1, 10**6), st.integers(0, 10**9), SIGMAS.map(G)),
    st.builds(EpsilonDeltaEvent, st.floats(1e-6, 500), st.floats(0, 1, exclude_max=True)),
    st.floats(1e-6, 500).map(RandomizedResponseEvent),
    SIGMAS.map(LaplaceEvent),
    st.floats(1e-9, 1e5).map(ZcdpEvent),
    st.just(NonPrivateEvent()),
)
EVENTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(SelfComposedEvent, inner, st.integers(1, 9)),
        st.lists(inner, max_size=3).map(ComposedEvent),
    ),
    max_leaves=6,
)


@given(EVENTS)
@settings(max_examples=60, deadline=None)
def test_json_round_trip_keeps_every_event(event: Event) -> None:
    text = json.dumps(event_to_json(event), allow_nan=False)
    assert event_from_json(json.loads(text)) == event


def test_flatten_multiplies_counts_merges_equal_leaves_and_forgets_order() -> None:
    poisson = PoissonSampledEvent(0.1, G(2.0))
    one = ComposedEvent([SelfComposedEvent(SelfComposedEvent(poisson, 3), 5), G(1.0)])
    other = ComposedEvent([G(1.0), SelfComposedEvent(poisson, 7), poisson, poisson] + [poisson] * 6)
    assert flatten(one) == flatten(other) == ((G(1.0), 1), (poisson, 15))


def test_a_poisson_sample_of_rate_one_is_the_gaussian_and_no_noise_is_no_privacy() -> None:
    assert flatten(PoissonSampledEvent(1.0, G(2.0))) == ((G(2.0), 1),)
    assert flatten(G(0.0)) == ((NonPrivateEvent(), 1),)
    assert flatten(PoissonSampledEvent(0.5, G(0.0))) == ((NonPrivateEvent(), 1),)


def test_a_sample_of_all_slots_is_the_gaussian_and_equal_rates_of_other_sizes_stay_apart() -> None:
    assert flatten(Fixed(10, 10, G(2.0))) == ((G(2.0), 1),)
    assert flatten(Fixed(10, 3, G(0.0))) == ((NonPrivateEvent(), 1),)
    small, large = Fixed(10, 3, G(1.0)), Fixed(20, 6, G(1.0))
    one, other = (flatten(ComposedEvent(events)) for events in ([small, large], [large, small]))
    assert one == other == ((small, 1), (large, 1))


def test_parallel_is_the_gaussian_of_the_largest_precision() -> None:
    """Three steps at noise 2 (precision 3/4) dominate one at noise 3/2 (4/9) and two at 4 (1/8)."""
    sets = [
        SelfComposedEvent(G(2.0), 3),
        PoissonSampledEvent(1.0, G(1.5)),
        ComposedEvent([G(4.0), Fixed(7, 7, G(4.0))]),
    ]
    for events in (sets, sets[::-1]):
        found = compose_parallel(events)
        assert isinstance(found, G)
        assert found.noise_multiplier == pytest.approx(math.sqrt(4 / 3), rel=1e-15)
    assert compose_parallel([G(2.0), G(0.0)]) == NonPrivateEvent()


def test_in_parallel_a_replaced_unit_may_change_its_set() -> None:
    """Precisions 1/4 and 1/9, diameters 1.2 and 2: 1.44 / 4 = .36 beside 4 / 9; with 1.2 twice the mover's 13 / 36."""
    for events, squared in (
        ([G(2.0, 1.2), G(3.0)], 4 / 9),
        ([G(2.0, 1.2), G(3.0, 1.2)], 13 / 36),
        ([G(2.0, 1.2)], 0.36),
    ):
        found = compose_parallel(events)
        assert found.noise_multiplier == pytest.approx(2.0, rel=1e-15)
        assert (found.diameter / found.noise_multiplier) ** 2 == pytest.approx(squared, rel=1e-12)
    assert compose_parallel([G(2.0), G(2.0)]) == G(2.0)  # which older certificates state
    assert compose_parallel([G(2.0, 1.2), ZcdpEvent(0.3)]) == ZcdpEvent(0.3)


def test_a_diameter_counts_where_a_unit_is_replaced_alone() -> None:
    event = ComposedEvent([G(3.0, 1.5), SelfComposedEvent(G(4.0), 2), PoissonSampledEvent(0.1, G(2.0))])
    sampled = (PoissonSampledEvent(0.1, G(2.0)), 1)
    assert leaves_under(event, "replace_one") == ((G(4.0), 3), sampled)
    assert leaves_under(event, "add_or_remove") == ((G(3.0), 1), (G(4.0), 2), sampled)
    assert in_balls(flatten(event)) == leaves_under(event, "add_or_remove")
    assert event_from_json(event_to_json(event)) == event
    assert "diameter" not in json.dumps(event_to_json(G(3.0)))
    run, plain, noisier = (SelectionEvent((flatten(one),), 10, "geometric") for one in (G(3.0, 1.5), G(3.0), G(4.0)))
    assert [leaves_under(run, relation) for relation in ("add_or_remove", "replace_one")] == [
        ((plain, 1),),
        ((noisier, 1),),
    ]
    assert event_from_json(event_to_json(run)) == run


def test_parallel_with_a_concentrated_event_is_the_largest_rho() -> None:
    """A Gaussian at noise 2 and two steps of rho 0.1 (0.125 + 0.2) dominate one step of rho 0.3."""
    one = ComposedEvent([G(2.0), SelfComposedEvent(ZcdpEvent(0.1), 2)])
    for events in ([one, ZcdpEvent(0.3)], [ZcdpEvent(0.3), one]):
        found = compose_parallel(events)
        assert isinstance(found, ZcdpEvent)
        assert found.rho == pytest.approx(0.325, rel=1e-12)
    assert compose_parallel([G(1.0), ZcdpEvent(0.3)]).rho == pytest.approx(0.5, rel=1e-15)


def test_no_laplace_noise_is_no_privacy_and_its_kinds_stay_apart() -> None:
    laplace, concentrated = LaplaceEvent, ZcdpEvent
    assert flatten(laplace(0.0)) == ((NonPrivateEvent(), 1),)
    events = [laplace(2.0), concentrated(0.5), laplace(1.0), G(1.0)]
    for order in (events, events[::-1]):
        leaves = flatten(SelfComposedEvent(ComposedEvent(order), 3))
        assert leaves == ((G(1.0), 3), (laplace(1.0), 3), (laplace(2.0), 3), (concentrated(0.5), 3))


@pytest.mark.parametrize(
    "events",
    [
        [],
        [G(1.0), ComposedEvent([])],
        [G(1.0), PoissonSampledEvent(0.5, G(1.0))],
        [Fixed(10, 3, G(1.0))],
        [EpsilonDeltaEvent(1.0, 0.0)],
        [RandomizedResponseEvent(1.0)],
        [LaplaceEvent(1.0)],
    ],
    ids=repr,
)
def test_only_plain_gaussians_run_in_parallel(events: list[Event]) -> None:
    with pytest.raises(AccountingError, match="event"):
        compose_parallel(events)


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
    "unknown kind": {"kind": "discrete_laplace", "noise_parameter": 1.0},
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
    "batch above population": {
        "kind": "sampled_without_replacement",
        "population": 3,
        "batch": 4,
        "event": gaussian(1.0),
    },
    "batch 0": {"kind": "sampled_without_replacement", "population": 3, "batch": 0, "event": gaussian(1.0)},
    "population 2.5": {"kind": "sampled_without_replacement", "population": 2.5, "batch": 1, "event": gaussian(1.0)},
    "population too large": {
        "kind": "sampled_without_replacement",
        "population": 10**13,
        "batch": 1,
        "event": gaussian(1.0),
    },
    "fixed sample of a composition": {
        "kind": "sampled_without_replacement",
        "population": 3,
        "batch": 1,
        "event": deep(1),
    },
    "epsilon 0": {"kind": "epsilon_delta", "epsilon": 0.0, "delta": 0.0},
    "epsilon of an answer": {"kind": "randomized_response", "epsilon": 0.0},
    "epsilon inf": {"kind": "epsilon_delta", "epsilon": math.inf, "delta": 0.0},
    "delta 1": {"kind": "epsilon_delta", "epsilon": 1.0, "delta": 1.0},
    "delta negative": {"kind": "epsilon_delta", "epsilon": 1.0, "delta": -1e-9},
    "rho 0": {"kind": "zcdp", "rho": 0.0},
    "rho of text": {"kind": "zcdp", "rho": "1"},
    "xi": {"kind": "zcdp", "rho": 1.0, "xi": 0.0},
    "laplace scale nan": {"kind": "laplace", "noise_multiplier": math.nan},
    "laplace with a rate": {"kind": "laplace", "noise_multiplier": 1.0, "rate": 0.1},
    "sampled laplace": {"kind": "poisson_sampled", "rate": 0.1, "event": {"kind": "laplace", "noise_multiplier": 1.0}},
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
        dp_event.GaussianDpEvent(1.0),
        LaplaceEvent(-1.0),
        LaplaceEvent(math.nan),
        ZcdpEvent(0.0),
        ZcdpEvent(math.inf),
        dp_event.UnsupportedDpEvent(),
        dp_event.NoOpDpEvent(),
        Fixed(10, 11, G(1.0)),
        Fixed(10, 2, LaplaceEvent(1.0)),
        dp_event.SampledWithReplacementDpEvent(10, 2, dp_event.GaussianDpEvent(1.0)),
        EpsilonDeltaEvent(math.nan, 0.0),
        EpsilonDeltaEvent(1.0, 1.0),
        PoissonSampledEvent(0.1, LaplaceEvent(1.0)),
        PoissonSampledEvent(0.1, ZcdpEvent(1.0)),
        ComposedEvent([G(1.0), dp_event.UnsupportedDpEvent()]),
        PoissonSampledEvent(math.nan, G(1.0)),
        G(-1.0),
    ],
    ids=repr,
)
def test_events_of_callers_meet_the_same_whitelist(event: Event) -> None:
    with pytest.raises(AccountingError):
        event_to_json(event)
    with pytest.raises(AccountingError):
        flatten(event)
