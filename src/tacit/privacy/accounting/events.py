"""Privacy events as data: a closed whitelist of events, their canonical list, and their JSON form.

An event holds the parameters that are necessary and sufficient to account for a mechanism. All but
`EpsilonDeltaDpEvent` and `SelectionDpEvent` are `dp_accounting`'s. Only these exist here; whatever else arrives, from a
file or from a caller, is refused:

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
| `SelectionDpEvent` | `selection` | `candidates`: their events; `stop`, `law`: how often one of them is run |

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
from typing import Any, Literal, get_args

from dp_accounting import dp_event
from dp_accounting.dp_event import ComposedDpEvent, DpEvent, LaplaceDpEvent, SelfComposedDpEvent, ZCDpEvent

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

Law = Literal["logarithmic", "geometric"]
"""Of how often a selection runs: truncated negative binomial laws of shape 0 and 1 (arXiv 2110.03620, Definition 1)."""
MAX_STOP, MAX_CANDIDATES = 10_000, 1_000
KINDS = (
    *("gaussian", "poisson_sampled", "sampled_without_replacement", "self_composed", "composed", "non_private"),
    *("epsilon_delta", "laplace", "zcdp", "selection"),
)


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


@dataclass(frozen=True)
class SelectionDpEvent(DpEvent):  # type: ignore[misc]
    """The best of a random number K of runs, each of a candidate that is drawn uniformly; K stays secret.

    Source: Papernot & Steinke, 2022, arXiv 2110.03620.

    Args:
        candidates: the canonical lists of the candidates' events, each with the one by which it is judged.
        stop: 1 / gamma, in [2, `MAX_STOP`].
        law: that of K: P[K = k] is proportional to (1 - gamma)^k ("geometric") or (1 - gamma)^k / k ("logarithmic").
    """

    candidates: tuple[Leaves, ...]
    stop: int
    law: Law


def flatten(event: DpEvent) -> Leaves:
    """The canonical `(leaf event, count)` list: each leaf once, sorted, so that accountants compose each kind once.

    A Poisson sample of rate 1 and a sample of all slots are the plain Gaussian; noise 0 is no privacy at all. Order and
    nesting of compositions carry no privacy meaning under the accountants of this library (dominating pairs compose in
    any order), so equal lists mean equal guarantees.

    Raises:
        AccountingError: the event, or one inside it, is of no whitelisted kind or has an invalid parameter.
    """
    counts: dict[DpEvent, int] = {}
    _walk(event, 1, counts, 0, [0])
    if sum(counts.values()) > MAX_COUNT:
        raise refused("an event of more steps than accountants can resolve", f"at most {MAX_COUNT} steps in all")
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
            raise refused("a parallel composition of other than plain Gaussian steps", "Gaussian steps in every set")
        gaussian = gaussian and all(isinstance(leaf, dp_event.GaussianDpEvent) for leaf, _ in leaves)
        precisions.append(math.fsum(count * 2 * rho(leaf) for leaf, count in leaves))
    if not precisions:
        raise refused("a parallel composition of nothing", "at least one event")
    largest = max(precisions)
    return dp_event.GaussianDpEvent(1 / math.sqrt(largest)) if gaussian else ZCDpEvent(largest / 2)


def rho(leaf: DpEvent) -> float:
    """Renyi divergence / order of a plain Gaussian or a `ZCDpEvent`, for neighbours that are one clip apart."""
    return float(leaf.rho) if isinstance(leaf, ZCDpEvent) else 0.5 / float(leaf.noise_multiplier) ** 2


def _sort_key(leaf: DpEvent) -> tuple[float, ...]:
    if isinstance(leaf, dp_event.SampledWithoutReplacementDpEvent):
        return (3, leaf.sample_size / leaf.source_dataset_size, leaf.event.noise_multiplier, leaf.source_dataset_size)
    if isinstance(leaf, EpsilonDeltaDpEvent):
        return (4, leaf.epsilon, leaf.delta)
    if isinstance(leaf, LaplaceDpEvent):
        return (5, leaf.noise_multiplier)
    if isinstance(leaf, ZCDpEvent):
        return (6, leaf.rho)
    if isinstance(leaf, SelectionDpEvent):
        return (7, leaf.stop, leaf.law == "geometric", *(x for run in leaf.candidates for x in _list_key(run)))
    if isinstance(leaf, dp_event.PoissonSampledDpEvent):
        return (1, leaf.sampling_probability, leaf.event.noise_multiplier)
    if isinstance(leaf, dp_event.GaussianDpEvent):
        return (0, 1, leaf.noise_multiplier)
    return (2, 0, 0)


def _list_key(leaves: Leaves) -> tuple[float, ...]:
    return (len(leaves), *(x for leaf, count in leaves for x in (*_sort_key(leaf), count)))


def _walk(event: DpEvent, count: int, counts: dict[DpEvent, int], depth: int, nodes: list[int]) -> None:
    limit(depth, nodes)
    if isinstance(event, ComposedDpEvent):
        for inner in event.events:
            _walk(inner, count, counts, depth + 1, nodes)
    elif isinstance(event, SelfComposedDpEvent):
        _walk(event.event, count * whole(event.count, "count"), counts, depth + 1, nodes)
    else:
        leaf = _leaf(event)
        counts[leaf] = counts.get(leaf, 0) + count


def _leaf(event: DpEvent) -> DpEvent:
    if isinstance(event, dp_event.NonPrivateDpEvent):
        return event
    if isinstance(event, dp_event.GaussianDpEvent):
        sigma = noise(event.noise_multiplier)
        return dp_event.GaussianDpEvent(sigma) if sigma else dp_event.NonPrivateDpEvent()
    if isinstance(event, dp_event.PoissonSampledDpEvent) and isinstance(event.event, dp_event.GaussianDpEvent):
        rate = real(event.sampling_probability, "rate", MIN_RATE, 1.0)
        inner = _leaf(event.event)
        return (
            inner
            if rate == 1.0 or isinstance(inner, dp_event.NonPrivateDpEvent)
            else dp_event.PoissonSampledDpEvent(rate, inner)
        )
    if isinstance(event, dp_event.SampledWithoutReplacementDpEvent) and isinstance(
        event.event, dp_event.GaussianDpEvent
    ):
        population = whole(event.source_dataset_size, "population", MAX_POPULATION)
        batch = whole(event.sample_size, "batch", population)
        inner = _leaf(event.event)
        return (
            inner
            if batch == population or isinstance(inner, dp_event.NonPrivateDpEvent)
            else dp_event.SampledWithoutReplacementDpEvent(population, batch, inner)
        )
    if isinstance(event, EpsilonDeltaDpEvent):
        return EpsilonDeltaDpEvent(*epsilon_delta(event.epsilon, event.delta))
    if isinstance(event, LaplaceDpEvent):
        scale = noise(event.noise_multiplier)
        return LaplaceDpEvent(scale) if scale else dp_event.NonPrivateDpEvent()
    if isinstance(event, ZCDpEvent):
        if event.xi != 0:
            raise refused("a concentrated event whose xi is not 0", "rho alone")
        return ZCDpEvent(real(event.rho, "rho", MIN_RHO, MAX_RHO))
    if isinstance(event, SelectionDpEvent):
        return _selection(event)
    raise refused(f"an event of the unknown kind {type(event).__name__}", "one of " + ", ".join(KINDS))


def _selection(event: SelectionDpEvent) -> DpEvent:
    if event.law not in get_args(Law) or not 1 <= len(event.candidates) <= MAX_CANDIDATES:
        raise refused("a selection by an unknown law, or of no candidates", f"{get_args(Law)}, 1 to {MAX_CANDIDATES}")
    stop = whole(event.stop, "stop", MAX_STOP, least=2)
    candidates = set()
    for candidate in event.candidates:
        leaves = flatten(ComposedDpEvent([SelfComposedDpEvent(leaf, count) for leaf, count in candidate]))
        if any(isinstance(leaf, SelectionDpEvent) for leaf, _ in leaves) or not leaves:
            raise refused("a selection among selections, or of nothing", "the events of single runs")
        if any(isinstance(leaf, dp_event.NonPrivateDpEvent) for leaf, _ in leaves):
            return dp_event.NonPrivateDpEvent()
        candidates.add(leaves)
    return SelectionDpEvent(tuple(sorted(candidates, key=_list_key)), stop, event.law)


def limit(depth: int, nodes: list[int]) -> None:
    """Count a node of a tree, and refuse trees that no plan needs."""
    nodes[0] += 1
    if depth > MAX_DEPTH or nodes[0] > MAX_NODES:
        raise refused("an event tree that is too deep or too large", f"depth <= {MAX_DEPTH}, nodes <= {MAX_NODES}")


def noise(value: object) -> float:
    """A noise multiplier: 0 (no noise at all, which is non-private) or within the accountants' range."""
    return 0.0 if value == 0 and not isinstance(value, bool) else real(value, "noise_multiplier", MIN_NOISE, MAX_NOISE)


def real(value: object, name: str, low: float, high: float) -> float:
    """A number within bounds."""
    number = float(value) if isinstance(value, float | int) and not isinstance(value, bool) else math.nan
    if not low <= number <= high:
        raise refused(f"an event whose {name} is no number in range", f"{low:g} <= {name} <= {high:g}")
    return number


def epsilon_delta(epsilon: object, delta: object) -> tuple[float, float]:
    """The parameters of an `EpsilonDeltaDpEvent`."""
    number = real(delta, "delta", 0.0, 1.0)
    if number == 1.0:
        raise refused("an event whose delta promises nothing", "0 <= delta < 1")
    if epsilon == 0 and not isinstance(epsilon, bool) and number > 0:
        return 0.0, number
    return real(epsilon, "epsilon", MIN_EPSILON, MAX_EPSILON), number


def whole(value: object, name: str, most: int = MAX_COUNT, *, least: int = 1) -> int:
    """A whole number within bounds."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise refused(f"an event whose {name} is no whole number in range", f"{least} <= {name} <= {most}")
    return value


def refused(what: str, expected: str) -> AccountingError:
    """The error of what is not on the whitelist."""
    return AccountingError(what, where="event", expected=expected, remedy="describe the mechanism with these events")


# The JSON form of events, as certificates hold it: only the whitelist above, every parameter checked.


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
        candidates = [_encode(_composed(candidate)) for candidate in event.candidates]
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
        candidate_leaves = tuple(flatten(_decode(inner, depth + 1, nodes)) for inner in candidates)
        return SelectionDpEvent(candidate_leaves, value["stop"], value["law"])
    return dp_event.NonPrivateDpEvent()
