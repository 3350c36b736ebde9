"""Privacy events as data: a closed whitelist of events, their JSON form and their canonical list.

An event holds the parameters that are necessary and sufficient to account for a mechanism. All but
`EpsilonDeltaDpEvent` are `dp_accounting`'s. Only these exist here; whatever else arrives, from a file or from a caller,
is refused:

| event | JSON `kind` | parameters |
|---|---|---|
| `GaussianDpEvent` | `gaussian` | `noise_multiplier`: noise standard deviation / clip of one unit's contribution |
| `PoissonSampledDpEvent(GaussianDpEvent)` | `poisson_sampled` | `rate`, `event` |
| `SampledWithoutReplacementDpEvent(GaussianDpEvent)` | `sampled_without_replacement` | `population`, `batch`, `event` |
| `SelfComposedDpEvent` | `self_composed` | `count`, `event` |
| `ComposedDpEvent` | `composed` | `events` |
| `NonPrivateDpEvent` | `non_private` | none |
| `EpsilonDeltaDpEvent` | `epsilon_delta` | `epsilon`, `delta` |
| `LaplaceDpEvent` | `laplace` | `noise_multiplier`: scale of the noise / largest absolute value of one unit's number |
| `ZCDpEvent` | `zcdp` | `rho`: Renyi divergence / order, for neighbours that are one clip apart; no `xi` |

One Laplace event is one number; a vector is as many as it has coordinates. Under `replace_one` neighbours are two clips
apart: the Laplace mechanism is then 2 / noise_multiplier-DP, and the rho of a `ZCDpEvent` counts four times, as that of
noise whose Renyi divergence grows with the square of the shift.

A sample without replacement is of exactly `batch` out of `population` slots, uniformly; its noise multiplier is, as
everywhere in this library, the standard deviation over the clip of one unit's contribution.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dp_accounting import dp_event
from dp_accounting.dp_event import DpEvent, LaplaceDpEvent, ZCDpEvent

from tacit.errors import AccountingError

MAX_DEPTH = 16
MAX_NODES = 4096
MAX_COUNT = 10**7
MIN_NOISE, MAX_NOISE = 1e-3, 1e9
MIN_RATE = 1e-12
MAX_POPULATION = 10**12
MIN_EPSILON, MAX_EPSILON = 1e-6, 500.0
MIN_RHO, MAX_RHO = 0.5 / MAX_NOISE**2, 0.5 / MIN_NOISE**2

Leaves = tuple[tuple[DpEvent, int], ...]


@dataclass(frozen=True)
class EpsilonDeltaDpEvent(DpEvent):  # type: ignore[misc]
    """A mechanism that is (epsilon, delta)-differentially private by a proof of its own, and more is not known of it.

    Guarantee: none of its own; the proof page of the mechanism has to give it for the unit's relation.

    Args:
        epsilon: in [`MIN_EPSILON`, `MAX_EPSILON`]; or 0 with a delta > 0: what fails with that probability
            and depends on no unit else.
        delta: in [0, 1); 0 for pure differential privacy.
    """

    epsilon: float
    delta: float


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


def flatten(event: DpEvent) -> Leaves:
    """The canonical `(leaf event, count)` list: each leaf once, sorted, so that accountants compose each kind once.

    A Poisson sample of rate 1 and a sample of all slots are the plain Gaussian; noise 0 is no privacy at all. Order and
    nesting of compositions carry no privacy meaning under the accountants of this library (dominating pairs compose in
    any order), so equal lists mean equal guarantees.

    Raises:
        AccountingError: as for `event_to_json`.
    """
    counts: dict[DpEvent, int] = {}
    _walk(event, 1, counts, 0, [0])
    if sum(counts.values()) > MAX_COUNT:
        raise _refused("an event of more steps than accountants can resolve", f"at most {MAX_COUNT} steps in all")
    return tuple(sorted(counts.items(), key=lambda item: _sort_key(item[0])))


def parallel(events: Sequence[DpEvent]) -> DpEvent:
    """One Gaussian that dominates each of several events that are run on disjoint sets of units (parallel composition).

    Guarantee: for both relations, and also where the set that a replaced unit falls into depends on its own records:
    then each of two sets sees one unit come or go, one clip apart rather than two, and with s the noise multipliers
    sqrt(1/s_A^2 + 1/s_B^2) <= 2 max(1/s_A, 1/s_B) (`proofs/fixed_size_sampling.md`). The events may be run adaptively
    and interleaved. With a `ZCDpEvent` among them it is a `ZCDpEvent`, by rho_A + rho_B <= 4 max(rho_A, rho_B).

    Args:
        events: at least one; each composes to plain Gaussians and `ZCDpEvent`s.

    Raises:
        AccountingError: there are no events, or one holds a step that is sampled or of another kind.
    """
    precisions, gaussian = [], True
    for event in events:
        leaves = flatten(event)
        if any(isinstance(leaf, dp_event.NonPrivateDpEvent) for leaf, _ in leaves):
            return dp_event.NonPrivateDpEvent()
        if not leaves or not all(isinstance(leaf, dp_event.GaussianDpEvent | ZCDpEvent) for leaf, _ in leaves):
            raise _refused("a parallel composition of other than plain Gaussian steps", "Gaussian steps in every set")
        gaussian = gaussian and all(isinstance(leaf, dp_event.GaussianDpEvent) for leaf, _ in leaves)
        precisions.append(math.fsum(count * 2 * rho(leaf) for leaf, count in leaves))
    if not precisions:
        raise _refused("a parallel composition of nothing", "at least one event")
    largest = max(precisions)
    return dp_event.GaussianDpEvent(1 / math.sqrt(largest)) if gaussian else ZCDpEvent(largest / 2)


def rho(leaf: DpEvent) -> float:
    """Renyi divergence / order of a plain Gaussian or a `ZCDpEvent`, for neighbours that are one clip apart."""
    return float(leaf.rho) if isinstance(leaf, ZCDpEvent) else 0.5 / float(leaf.noise_multiplier) ** 2


def fixed_size_sampler(batch: int, population: int) -> str:
    """How plans and certificates word a sample without replacement."""
    return f"fixed size: {batch:,} of {population:,} slots, drawn without replacement, fresh every step"


def met(participations: int) -> str:
    """How plans and certificates word people who are met one after another."""
    return f"everyone who comes, each in at most {participations:,} of the sums, as a register of contributions keeps"


def _sort_key(leaf: DpEvent) -> tuple[float, ...]:
    if isinstance(leaf, dp_event.SampledWithoutReplacementDpEvent):
        return (3, leaf.sample_size / leaf.source_dataset_size, leaf.event.noise_multiplier, leaf.source_dataset_size)
    if isinstance(leaf, EpsilonDeltaDpEvent):
        return (4, leaf.epsilon, leaf.delta)
    if isinstance(leaf, LaplaceDpEvent):
        return (5, leaf.noise_multiplier)
    if isinstance(leaf, ZCDpEvent):
        return (6, leaf.rho)
    if isinstance(leaf, dp_event.PoissonSampledDpEvent):
        return (1, leaf.sampling_probability, leaf.event.noise_multiplier)
    if isinstance(leaf, dp_event.GaussianDpEvent):
        return (0, 1, leaf.noise_multiplier)
    return (2, 0, 0)


def _walk(event: DpEvent, count: int, counts: dict[DpEvent, int], depth: int, nodes: list[int]) -> None:
    _limit(depth, nodes)
    if isinstance(event, dp_event.ComposedDpEvent):
        for inner in event.events:
            _walk(inner, count, counts, depth + 1, nodes)
    elif isinstance(event, dp_event.SelfComposedDpEvent):
        _walk(event.event, count * _whole(event.count, "count"), counts, depth + 1, nodes)
    else:
        leaf = _leaf(event)
        counts[leaf] = counts.get(leaf, 0) + count


def _leaf(event: DpEvent) -> DpEvent:
    if isinstance(event, dp_event.NonPrivateDpEvent):
        return event
    if isinstance(event, dp_event.GaussianDpEvent):
        sigma = _noise(event.noise_multiplier)
        return dp_event.GaussianDpEvent(sigma) if sigma else dp_event.NonPrivateDpEvent()
    if isinstance(event, dp_event.PoissonSampledDpEvent) and isinstance(event.event, dp_event.GaussianDpEvent):
        rate = _real(event.sampling_probability, "rate", MIN_RATE, 1.0)
        inner = _leaf(event.event)
        return (
            inner
            if rate == 1.0 or isinstance(inner, dp_event.NonPrivateDpEvent)
            else dp_event.PoissonSampledDpEvent(rate, inner)
        )
    if isinstance(event, dp_event.SampledWithoutReplacementDpEvent) and isinstance(
        event.event, dp_event.GaussianDpEvent
    ):
        population = _whole(event.source_dataset_size, "population", MAX_POPULATION)
        batch = _whole(event.sample_size, "batch", population)
        inner = _leaf(event.event)
        return (
            inner
            if batch == population or isinstance(inner, dp_event.NonPrivateDpEvent)
            else dp_event.SampledWithoutReplacementDpEvent(population, batch, inner)
        )
    if isinstance(event, EpsilonDeltaDpEvent):
        return EpsilonDeltaDpEvent(*_epsilon_delta(event.epsilon, event.delta))
    if isinstance(event, LaplaceDpEvent):
        scale = _noise(event.noise_multiplier)
        return LaplaceDpEvent(scale) if scale else dp_event.NonPrivateDpEvent()
    if isinstance(event, ZCDpEvent):
        if event.xi != 0:
            raise _refused("a concentrated event whose xi is not 0", "rho alone")
        return ZCDpEvent(_real(event.rho, "rho", MIN_RHO, MAX_RHO))
    raise _refused(f"an event of the unknown kind {type(event).__name__}", "one of " + ", ".join(_KEYS))


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
    return {"kind": "non_private"}


def _decode(value: object, depth: int, nodes: list[int]) -> DpEvent:
    _limit(depth, nodes)
    if not isinstance(value, Mapping):
        raise _refused("an event that is no JSON object", "an object with the key 'kind'")
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise _refused("an event of an unknown kind", "one of " + ", ".join(_KEYS))
    if set(value) != _KEYS[kind] | {"kind"}:
        raise _refused(f"a {kind} event with missing or unknown keys", f"exactly {sorted(_KEYS[kind] | {'kind'})}")
    if kind == "gaussian":
        return dp_event.GaussianDpEvent(_noise(value["noise_multiplier"]))
    if kind == "poisson_sampled":
        rate = _real(value["rate"], "rate", MIN_RATE, 1.0)
        return dp_event.PoissonSampledDpEvent(rate, _decode(value["event"], depth + 1, nodes))
    if kind == "sampled_without_replacement":
        population = _whole(value["population"], "population", MAX_POPULATION)
        batch = _whole(value["batch"], "batch", population)
        return dp_event.SampledWithoutReplacementDpEvent(population, batch, _decode(value["event"], depth + 1, nodes))
    if kind == "epsilon_delta":
        return EpsilonDeltaDpEvent(*_epsilon_delta(value["epsilon"], value["delta"]))
    if kind == "laplace":
        return LaplaceDpEvent(_noise(value["noise_multiplier"]))
    if kind == "zcdp":
        return ZCDpEvent(_real(value["rho"], "rho", MIN_RHO, MAX_RHO))
    if kind == "self_composed":
        count = _whole(value["count"], "count")
        return dp_event.SelfComposedDpEvent(_decode(value["event"], depth + 1, nodes), count)
    if kind == "composed":
        events = value["events"]
        if not isinstance(events, list | tuple):
            raise _refused("a composed event whose events are no list", "a list of events")
        return dp_event.ComposedDpEvent([_decode(inner, depth + 1, nodes) for inner in events])
    return dp_event.NonPrivateDpEvent()


def _limit(depth: int, nodes: list[int]) -> None:
    nodes[0] += 1
    if depth > MAX_DEPTH or nodes[0] > MAX_NODES:
        raise _refused("an event tree that is too deep or too large", f"depth <= {MAX_DEPTH}, nodes <= {MAX_NODES}")


def _noise(value: object) -> float:
    """A noise multiplier: 0 (no noise at all, which is non-private) or within the accountants' range."""
    return 0.0 if value == 0 and not isinstance(value, bool) else _real(value, "noise_multiplier", MIN_NOISE, MAX_NOISE)


def _real(value: object, name: str, low: float, high: float) -> float:
    number = float(value) if isinstance(value, float | int) and not isinstance(value, bool) else math.nan
    if not low <= number <= high:
        raise _refused(f"an event whose {name} is no number in range", f"{low:g} <= {name} <= {high:g}")
    return number


def _epsilon_delta(epsilon: object, delta: object) -> tuple[float, float]:
    number = _real(delta, "delta", 0.0, 1.0)
    if number == 1.0:
        raise _refused("an event whose delta promises nothing", "0 <= delta < 1")
    if epsilon == 0 and not isinstance(epsilon, bool) and number > 0:
        return 0.0, number
    return _real(epsilon, "epsilon", MIN_EPSILON, MAX_EPSILON), number


def _whole(value: object, name: str, most: int = MAX_COUNT) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise _refused(f"an event whose {name} is no whole number in range", f"1 <= {name} <= {most}")
    return value


def _refused(what: str, expected: str) -> AccountingError:
    return AccountingError(what, where="event", expected=expected, remedy="describe the mechanism with these events")
