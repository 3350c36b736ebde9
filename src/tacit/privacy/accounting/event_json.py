"""The JSON form of events, as certificates hold it: only the whitelist of `events.py`, every parameter checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dp_accounting import dp_event
from dp_accounting.dp_event import DpEvent, LaplaceDpEvent, ZCDpEvent

from tacit.privacy.accounting.events import (
    KINDS,
    MAX_POPULATION,
    MAX_RHO,
    MIN_RATE,
    MIN_RHO,
    EpsilonDeltaDpEvent,
    Leaves,
    SelectionDpEvent,
    epsilon_delta,
    flatten,
    limit,
    noise,
    real,
    refused,
    whole,
)

_KEYS: dict[str, set[str]] = {
    "gaussian": {"noise_multiplier"},
    "poisson_sampled": {"rate", "event"},
    "sampled_without_replacement": {"population", "batch", "event"},
    "self_composed": {"count", "event"},
    "composed": {"events"},
    "non_private": set(),
    "epsilon_delta": {"epsilon", "delta"},
    "laplace": {"noise_multiplier"},
    "zcdp": {"rho"},
    "selection": {"candidates", "stop", "law"},
}


def event_to_json(event: DpEvent) -> dict[str, Any]:
    """The JSON form of an event; `event_from_json` is its inverse.

    Raises:
        AccountingError: the event, or one inside it, is of no whitelisted kind or has an invalid parameter.
    """
    flatten(event)
    return _encode(event)


def event_from_json(value: object) -> DpEvent:
    """The event that a JSON object describes, every parameter checked.

    Raises:
        AccountingError: an unknown kind, a missing or unknown key, a parameter out of range, or a tree that is deeper
            or larger than any plan needs.
    """
    event = _decode(value, 0, [0])
    flatten(event)
    return event


def _encode(event: DpEvent) -> dict[str, Any]:
    if isinstance(event, dp_event.GaussianDpEvent):
        return {"kind": "gaussian", "noise_multiplier": float(event.noise_multiplier)}
    if isinstance(event, dp_event.PoissonSampledDpEvent):
        return {
            "kind": "poisson_sampled",
            "rate": float(event.sampling_probability),
            "event": _encode(event.event),
        }
    if isinstance(event, dp_event.SampledWithoutReplacementDpEvent):
        return {
            "kind": "sampled_without_replacement",
            "population": int(event.source_dataset_size),
            "batch": int(event.sample_size),
            "event": _encode(event.event),
        }
    if isinstance(event, EpsilonDeltaDpEvent):
        return {"kind": "epsilon_delta", "epsilon": float(event.epsilon), "delta": float(event.delta)}
    if isinstance(event, LaplaceDpEvent):
        return {"kind": "laplace", "noise_multiplier": float(event.noise_multiplier)}
    if isinstance(event, ZCDpEvent):
        return {"kind": "zcdp", "rho": float(event.rho)}
    if isinstance(event, dp_event.SelfComposedDpEvent):
        return {"kind": "self_composed", "count": int(event.count), "event": _encode(event.event)}
    if isinstance(event, dp_event.ComposedDpEvent):
        return {"kind": "composed", "events": [_encode(inner) for inner in event.events]}
    if isinstance(event, SelectionDpEvent):
        candidates = [_encode(_composed(one)) for one in event.candidates]
        return {"kind": "selection", "candidates": candidates, "stop": int(event.stop), "law": event.law}
    return {"kind": "non_private"}


def _composed(leaves: Leaves) -> DpEvent:
    return dp_event.ComposedDpEvent([dp_event.SelfComposedDpEvent(leaf, count) for leaf, count in leaves])


def _decode(value: object, depth: int, nodes: list[int]) -> DpEvent:
    limit(depth, nodes)
    if not isinstance(value, Mapping):
        raise refused("an event that is no JSON object", "an object with the key 'kind'")
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise refused("an event of an unknown kind", "one of " + ", ".join(KINDS))
    if set(value) != _KEYS[kind] | {"kind"}:
        raise refused(f"a {kind} event with missing or unknown keys", f"exactly {sorted(_KEYS[kind] | {'kind'})}")
    if kind == "gaussian":
        return dp_event.GaussianDpEvent(noise(value["noise_multiplier"]))
    if kind == "poisson_sampled":
        rate = real(value["rate"], "rate", MIN_RATE, 1.0)
        return dp_event.PoissonSampledDpEvent(rate, _decode(value["event"], depth + 1, nodes))
    if kind == "sampled_without_replacement":
        population = whole(value["population"], "population", MAX_POPULATION)
        batch = whole(value["batch"], "batch", population)
        return dp_event.SampledWithoutReplacementDpEvent(population, batch, _decode(value["event"], depth + 1, nodes))
    if kind == "epsilon_delta":
        return EpsilonDeltaDpEvent(*epsilon_delta(value["epsilon"], value["delta"]))
    if kind == "laplace":
        return LaplaceDpEvent(noise(value["noise_multiplier"]))
    if kind == "zcdp":
        return ZCDpEvent(real(value["rho"], "rho", MIN_RHO, MAX_RHO))
    if kind == "self_composed":
        count = whole(value["count"], "count")
        return dp_event.SelfComposedDpEvent(_decode(value["event"], depth + 1, nodes), count)
    if kind == "composed":
        events = value["events"]
        if not isinstance(events, list | tuple):
            raise refused("a composed event whose events are no list", "a list of events")
        return dp_event.ComposedDpEvent([_decode(inner, depth + 1, nodes) for inner in events])
    if kind == "selection":
        candidates = value["candidates"]
        if not isinstance(candidates, list | tuple):
            raise refused("a selection whose candidates are no list", "a list of events")
        found = tuple(flatten(_decode(inner, depth + 1, nodes)) for inner in candidates)
        return SelectionDpEvent(found, value["stop"], value["law"])
    return dp_event.NonPrivateDpEvent()
