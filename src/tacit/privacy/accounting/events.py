"""Privacy events as data: a closed whitelist of events, their canonical list, and their JSON form.

An event holds the parameters that are necessary and sufficient to account for a mechanism. Only these exist here;
whatever else arrives, from a file or from a caller, is refused:

| event | JSON `kind` | parameters |
|---|---|---|
| `GaussianEvent` | `gaussian` | `noise_multiplier`: noise standard deviation / clip; `diameter`, 2 if left out |
| `PoissonSampledEvent` | `poisson_sampled` | `rate`, `event` |
| `SampledWithoutReplacementEvent` | `sampled_without_replacement` | `population`, `batch`, `event` |
| `SelfComposedEvent` | `self_composed` | `count`, `event` |
| `ComposedEvent` | `composed` | `events` |
| `NonPrivateEvent` | `non_private` | none |
| `EpsilonDeltaEvent` | `epsilon_delta` | `epsilon`, `delta` |
| `RandomizedResponseEvent` | `randomized_response` | `epsilon`: log((1 - q) / q), q the chance to turn it round |
| `LaplaceEvent` | `laplace` | `noise_multiplier`: scale of the noise / largest absolute value of one unit's number |
| `ZcdpEvent` | `zcdp` | `rho`: Renyi divergence / order, for neighbours that are one clip apart |
| `SelectionEvent` | `selection` | `candidates`: their events; `stop`, `law`: how often one of them is run |

One Laplace event is one number; a vector is as many as it has coordinates. Under `replace_one` neighbours are two clips
apart, or a Gaussian's `diameter` of them: the Laplace mechanism is then 2 / noise_multiplier-DP, and the rho of a
`ZcdpEvent` counts four times, as that of noise whose Renyi divergence grows with the square of the shift.

A sample without replacement is of exactly `batch` out of `population` slots, uniformly; its noise multiplier is, as
everywhere in this library, the standard deviation over the clip of one unit's contribution.

The names are those of `dp_accounting`'s events. They are tacit's own classes, since a plan states its events and the
import of `dp_accounting` takes longer than everything else that a plan needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, get_args

from tacit.errors import AccountingError
from tacit.units import Relation

MAX_DEPTH = 16
MAX_NODES = 4096
MAX_COUNT = 10**7
MIN_NOISE, MAX_NOISE = 1e-3, 1e9
MIN_RATE = 1e-12
BALL = 2.0
"""Diameter, in clips, of a contribution of which the clip alone is known."""
MAX_POPULATION = 10**12
MIN_EPSILON, MAX_EPSILON = 1e-6, 500.0
MIN_RHO, MAX_RHO = 0.5 / MAX_NOISE**2, 0.5 / MIN_NOISE**2

Law = Literal["logarithmic", "geometric"]
"""Of how often a selection runs: truncated negative binomial laws of shape 0 and 1 (arXiv 2110.03620, Definition 1)."""
MAX_STOP, MAX_CANDIDATES = 10_000, 1_000


@dataclass(frozen=True)
class NonPrivateEvent:
    """A mechanism without privacy."""


@dataclass(frozen=True)
class GaussianEvent:
    """One sum over every unit, with Gaussian noise.

    Args:
        noise_multiplier: the noise's standard deviation over the clip, which bounds what one unit adds.
        diameter: the largest distance of what two units may add, in clips, from 1 to 2. A sampled step has 2.
    """

    noise_multiplier: float
    diameter: float = BALL


@dataclass(frozen=True)
class LaplaceEvent:
    """One number over every unit, with Laplace noise."""

    noise_multiplier: float


@dataclass(frozen=True)
class ZcdpEvent:
    """A mechanism whose Renyi divergence of each order is at most rho times the order."""

    rho: float


@dataclass(frozen=True)
class EpsilonDeltaEvent:
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
class RandomizedResponseEvent:
    """One answer of two, turned round with probability 1 / (1 + e^epsilon); who is left out leaves a fair coin.

    Guarantee: under `replace_one` that of an (epsilon, 0)-private mechanism, under `add_or_remove` that of the answer
    against the coin and of the coin against the answer (`proofs/policy_gradient.md`).
    """

    epsilon: float
    delta: ClassVar[float] = 0.0


@dataclass(frozen=True)
class PoissonSampledEvent:
    """A Gaussian sum over a sample of units, each of which is in it independently with probability `rate`."""

    rate: float
    event: GaussianEvent


@dataclass(frozen=True)
class SampledWithoutReplacementEvent:
    """A Gaussian sum over `batch` slots that are drawn uniformly from `population`."""

    population: int
    batch: int
    event: GaussianEvent


@dataclass(frozen=True)
class SelectionEvent:
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


@dataclass(frozen=True)
class SelfComposedEvent:
    """The same event `count` times, each chosen by what came before."""

    event: Event
    count: int


@dataclass(frozen=True)
class ComposedEvent:
    """Several events one after another, each chosen by what came before."""

    events: Sequence[Event]


Leaf = (
    NonPrivateEvent
    | GaussianEvent
    | LaplaceEvent
    | ZcdpEvent
    | EpsilonDeltaEvent
    | RandomizedResponseEvent
    | PoissonSampledEvent
    | SampledWithoutReplacementEvent
    | SelectionEvent
)
"""An event that is no composition."""
Event = Leaf | SelfComposedEvent | ComposedEvent
Leaves = tuple[tuple[Leaf, int], ...]

_KINDS: Mapping[str, type[Event]] = {
    "gaussian": GaussianEvent,
    "poisson_sampled": PoissonSampledEvent,
    "sampled_without_replacement": SampledWithoutReplacementEvent,
    "self_composed": SelfComposedEvent,
    "composed": ComposedEvent,
    "non_private": NonPrivateEvent,
    "epsilon_delta": EpsilonDeltaEvent,
    "randomized_response": RandomizedResponseEvent,
    "laplace": LaplaceEvent,
    "zcdp": ZcdpEvent,
    "selection": SelectionEvent,
}
KINDS = tuple(_KINDS)


def expected_runs(stop: int, law: Law) -> float:
    """E[K] of a selection: `stop` for the geometric law, (stop - 1) / log(stop) for the logarithmic one."""
    return float(stop) if law == "geometric" else (stop - 1) / math.log(stop)


def flatten(event: Event) -> Leaves:
    """The canonical `(leaf event, count)` list: each leaf once, sorted, so that accountants compose each kind once.

    A Poisson sample of rate 1 and a sample of all slots are the plain Gaussian; noise 0 is no privacy at all. Order and
    nesting of compositions carry no privacy meaning under the accountants of this library (dominating pairs compose in
    any order), so equal lists mean equal guarantees.

    Raises:
        AccountingError: the event, or one inside it, is of no whitelisted kind or has an invalid parameter.
    """
    counts: dict[Leaf, int] = {}
    _walk(event, 1, counts, 0, [0])
    if sum(counts.values()) > MAX_COUNT:
        raise event_error("an event of more steps than accountants can resolve", f"at most {MAX_COUNT} steps in all")
    return tuple(sorted(counts.items(), key=lambda item: _sort_key(item[0])))


def leaves_under(event: Event, relation: Relation) -> Leaves:
    """The canonical list as accountants take it, for which replaced units are two clips apart.

    A Gaussian of multiplier s and diameter d is, under `replace_one`, one of multiplier 2 s / d and diameter 2: in
    both, neighbours are d / s standard deviations apart. To add or remove a unit, the diameter says nothing.
    """
    factor = (lambda leaf: 1.0) if relation == "add_or_remove" else lambda leaf: BALL / leaf.diameter
    return _with_gaussians(flatten(event), lambda leaf: GaussianEvent(leaf.noise_multiplier * factor(leaf)))


def in_balls(leaves: Leaves) -> Leaves:
    """The list as of contributions of which the clip alone is known: what older certificates state, and dearer."""
    return _with_gaussians(leaves, lambda leaf: GaussianEvent(leaf.noise_multiplier))


def _with_gaussians(leaves: Leaves, change: Callable[[GaussianEvent], GaussianEvent]) -> Leaves:
    def changed(leaf: Leaf) -> Leaf:
        if isinstance(leaf, SelectionEvent):
            return replace(leaf, candidates=tuple(_with_gaussians(run, change) for run in leaf.candidates))
        return change(leaf) if isinstance(leaf, GaussianEvent) else leaf

    return flatten(_compose_leaves(tuple((changed(leaf), count) for leaf, count in leaves)))


def replaced_precision(leaves: Leaves) -> float:
    """Squared distance of plain Gaussians and `ZcdpEvent`s, in standard deviations, where one unit replaces another."""
    diameters = ((leaf.diameter if isinstance(leaf, GaussianEvent) else BALL, leaf, count) for leaf, count in leaves)
    return math.fsum(count * 2 * rho(leaf) * diameter**2 for diameter, leaf, count in diameters)


def compose_parallel(events: Sequence[Event]) -> Event:
    """One Gaussian that dominates each of several events that are run on disjoint sets of units (parallel composition).

    Guarantee: for both relations, and also where the set that a replaced unit falls into depends on its own records.
    With p_A the sum of 1 / s^2 over the steps on a set, and D_A that of d^2 / s^2, a unit that comes or goes moves the
    steps by max(p_A, p_B), squared; one that is replaced by max(D_A, D_B), or by p_A + p_B where the set changes, since
    each of two sets then sees one unit come or go (`proofs/fixed_size_sampling.md`). The events may be run adaptively
    and interleaved. With a `ZcdpEvent` among them it is a `ZcdpEvent`, by rho_A + rho_B <= 4 max(rho_A, rho_B).

    Args:
        events: at least one; each composes to plain Gaussians and `ZcdpEvent`s.

    Raises:
        AccountingError: there are no events, or one holds a step that is sampled or of another kind.
    """
    precisions, replaced, gaussian = list[float](), list[float](), True
    for event in events:
        leaves = flatten(event)
        if any(isinstance(leaf, NonPrivateEvent) for leaf, _ in leaves):
            return NonPrivateEvent()
        if not leaves or not all(isinstance(leaf, GaussianEvent | ZcdpEvent) for leaf, _ in leaves):
            what = "a parallel composition of other than plain Gaussian steps"
            raise event_error(what, "Gaussian steps in every set")
        gaussian = gaussian and all(isinstance(leaf, GaussianEvent) for leaf, _ in leaves)
        precisions.append(math.fsum(count * 2 * rho(leaf) for leaf, count in leaves))
        replaced.append(replaced_precision(leaves))
    if not precisions:
        raise event_error("a parallel composition of nothing", "at least one event")
    largest, apart = max(precisions), max(*replaced, math.fsum(sorted(precisions)[-2:]))
    diameter = min(BALL, math.sqrt(apart / largest))  # which rounding alone can bring above
    return GaussianEvent(1 / math.sqrt(largest), diameter) if gaussian else ZcdpEvent(largest / 2)


def rho(leaf: Leaf) -> float:
    """Renyi divergence / order of a plain Gaussian or a `ZcdpEvent`, for neighbours that are one clip apart."""
    if isinstance(leaf, ZcdpEvent):
        return float(leaf.rho)
    assert isinstance(leaf, GaussianEvent)  # of no other the divergence grows in proportion to the order
    return 0.5 / float(leaf.noise_multiplier) ** 2


def _sort_key(leaf: Leaf) -> tuple[float, ...]:
    if isinstance(leaf, SampledWithoutReplacementEvent):
        return (3, leaf.batch / leaf.population, leaf.event.noise_multiplier, leaf.population)
    if isinstance(leaf, EpsilonDeltaEvent):
        return (4, leaf.epsilon, leaf.delta)
    if isinstance(leaf, LaplaceEvent):
        return (5, leaf.noise_multiplier)
    if isinstance(leaf, ZcdpEvent):
        return (6, leaf.rho)
    if isinstance(leaf, RandomizedResponseEvent):
        return (7, leaf.epsilon)
    if isinstance(leaf, SelectionEvent):
        return (8, leaf.stop, leaf.law == "geometric", *(x for run in leaf.candidates for x in _list_key(run)))
    if isinstance(leaf, PoissonSampledEvent):
        return (1, leaf.rate, leaf.event.noise_multiplier)
    if isinstance(leaf, GaussianEvent):
        return (0, 1, leaf.noise_multiplier, leaf.diameter)
    return (2, 0, 0)


def _list_key(leaves: Leaves) -> tuple[float, ...]:
    return (len(leaves), *(x for leaf, count in leaves for x in (*_sort_key(leaf), count)))


def _walk(event: Event, count: int, counts: dict[Leaf, int], depth: int, nodes: list[int]) -> None:
    limit(depth, nodes)
    if isinstance(event, ComposedEvent):
        for inner in event.events:
            _walk(inner, count, counts, depth + 1, nodes)
    elif isinstance(event, SelfComposedEvent):
        _walk(event.event, count * require_whole(event.count, "count"), counts, depth + 1, nodes)
    else:
        leaf = _leaf(event)
        counts[leaf] = counts.get(leaf, 0) + count


def _leaf(event: Leaf) -> Leaf:
    match event:
        case NonPrivateEvent():
            return event
        case GaussianEvent(sigma, diameter):
            apart = require_real(diameter, "diameter", 1.0, BALL)
            return GaussianEvent(require_noise(sigma), apart) if require_noise(sigma) else NonPrivateEvent()
        case LaplaceEvent(scale):
            return LaplaceEvent(require_noise(scale)) if require_noise(scale) else NonPrivateEvent()
        case ZcdpEvent(rho):
            return ZcdpEvent(require_real(rho, "rho", MIN_RHO, MAX_RHO))
        case EpsilonDeltaEvent(epsilon, delta):
            return EpsilonDeltaEvent(*require_epsilon_delta(epsilon, delta))
        case RandomizedResponseEvent(epsilon):
            return RandomizedResponseEvent(require_real(epsilon, "epsilon", MIN_EPSILON, MAX_EPSILON))
        case PoissonSampledEvent(rate, GaussianEvent() as gaussian):
            rate, inner = require_real(rate, "rate", MIN_RATE, 1.0), _leaf(gaussian)
            return PoissonSampledEvent(rate, _ball(inner)) if rate < 1 and isinstance(inner, GaussianEvent) else inner
        case SampledWithoutReplacementEvent(population, batch, GaussianEvent() as gaussian):
            population, inner = require_whole(population, "population", MAX_POPULATION), _leaf(gaussian)
            if require_whole(batch, "batch", population) < population and isinstance(inner, GaussianEvent):
                return SampledWithoutReplacementEvent(population, batch, _ball(inner))
            return inner
        case SelectionEvent():
            return _selection(event)
    raise event_error(f"an event of the unknown kind {type(event).__name__}", "one of " + ", ".join(KINDS))


def _ball(sampled: GaussianEvent) -> GaussianEvent:
    if sampled.diameter != BALL:
        raise event_error("a sampled step of a diameter below 2", "2, for which alone samples have a proof")
    return sampled


def _selection(event: SelectionEvent) -> Leaf:
    if event.law not in get_args(Law) or not 1 <= len(event.candidates) <= MAX_CANDIDATES:
        expected = f"{get_args(Law)}, 1 to {MAX_CANDIDATES}"
        raise event_error("a selection by an unknown law, or of no candidates", expected)
    stop = require_whole(event.stop, "stop", MAX_STOP, low=2)
    candidates = set()
    for candidate in event.candidates:
        leaves = flatten(_compose_leaves(candidate))
        if any(isinstance(leaf, SelectionEvent) for leaf, _ in leaves) or not leaves:
            raise event_error("a selection among selections, or of nothing", "the events of single runs")
        if any(isinstance(leaf, NonPrivateEvent) for leaf, _ in leaves):
            return NonPrivateEvent()
        candidates.add(leaves)
    return SelectionEvent(tuple(sorted(candidates, key=_list_key)), stop, event.law)


def limit(depth: int, nodes: list[int]) -> None:
    """Count a node of a tree, and refuse trees that no plan needs."""
    nodes[0] += 1
    if depth > MAX_DEPTH or nodes[0] > MAX_NODES:
        raise event_error("an event tree that is too deep or too large", f"depth <= {MAX_DEPTH}, nodes <= {MAX_NODES}")


def require_noise(value: object) -> float:
    """A noise multiplier: 0 (no noise at all, which is non-private) or within the accountants' range."""
    none = value == 0 and not isinstance(value, bool)
    return 0.0 if none else require_real(value, "noise_multiplier", MIN_NOISE, MAX_NOISE)


def require_real(value: object, name: str, low: float, high: float) -> float:
    """A number within bounds."""
    number = float(value) if isinstance(value, float | int) and not isinstance(value, bool) else math.nan
    if not low <= number <= high:
        raise event_error(f"an event whose {name} is no number in range", f"{low:g} <= {name} <= {high:g}")
    return number


def require_epsilon_delta(epsilon: object, delta: object) -> tuple[float, float]:
    """The parameters of an `EpsilonDeltaEvent`."""
    number = require_real(delta, "delta", 0.0, 1.0)
    if number == 1.0:
        raise event_error("an event whose delta promises nothing", "0 <= delta < 1")
    if epsilon == 0 and not isinstance(epsilon, bool) and number > 0:
        return 0.0, number
    return require_real(epsilon, "epsilon", MIN_EPSILON, MAX_EPSILON), number


def require_whole(value: object, name: str, high: int = MAX_COUNT, *, low: int = 1) -> int:
    """A whole number within bounds."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise event_error(f"an event whose {name} is no whole number in range", f"{low} <= {name} <= {high}")
    return value


def event_error(what: str, expected: str) -> AccountingError:
    """The error of what is not on the whitelist."""
    return AccountingError(what, where="event", expected=expected, remedy="describe the mechanism with these events")


# The JSON form of events, as certificates hold it: only the whitelist above, every parameter checked.


def event_to_json(event: Event) -> dict[str, Any]:
    """The JSON form of an event; `event_from_json` is its inverse."""
    flatten(event)
    return _encode(event)


def event_from_json(value: object) -> Event:
    """The event that a JSON object describes, every parameter checked."""
    event = _decode(value, 0, [0])
    flatten(event)
    return event


def _encode(event: Event) -> dict[str, Any]:
    match event:
        case GaussianEvent(sigma, diameter):
            apart = {} if diameter == BALL else {"diameter": float(diameter)}
            return {"kind": "gaussian", "noise_multiplier": float(sigma), **apart}
        case PoissonSampledEvent(rate, inner):
            return {"kind": "poisson_sampled", "rate": float(rate), "event": _encode(inner)}
        case SampledWithoutReplacementEvent(population, batch, inner):
            sampled = {"population": population, "batch": batch, "event": _encode(inner)}
            return {"kind": "sampled_without_replacement", **sampled}
        case EpsilonDeltaEvent(epsilon, delta):
            return {"kind": "epsilon_delta", "epsilon": float(epsilon), "delta": float(delta)}
        case RandomizedResponseEvent(epsilon):
            return {"kind": "randomized_response", "epsilon": float(epsilon)}
        case LaplaceEvent(scale):
            return {"kind": "laplace", "noise_multiplier": float(scale)}
        case ZcdpEvent(rho):
            return {"kind": "zcdp", "rho": float(rho)}
        case SelfComposedEvent(inner, count):
            return {"kind": "self_composed", "count": count, "event": _encode(inner)}
        case ComposedEvent(events):
            return {"kind": "composed", "events": [_encode(inner) for inner in events]}
        case SelectionEvent(candidates, stop, law):
            runs = [_encode(_compose_leaves(candidate)) for candidate in candidates]
            return {"kind": "selection", "candidates": runs, "stop": stop, "law": law}
        case NonPrivateEvent():
            return {"kind": "non_private"}


def _compose_leaves(leaves: Leaves) -> ComposedEvent:
    return ComposedEvent([SelfComposedEvent(leaf, count) for leaf, count in leaves])


def _decode(value: object, depth: int, nodes: list[int]) -> Event:
    limit(depth, nodes)
    if not isinstance(value, Mapping):
        raise event_error("an event that is no JSON object", "an object with the key 'kind'")
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise event_error("an event of an unknown kind", "one of " + ", ".join(KINDS))
    keys = {field.name for field in fields(_KINDS[kind])} | {"kind"}
    if set(value) not in (keys, keys - {"diameter"}):
        raise event_error(f"a {kind} event with missing or unknown keys", f"exactly {sorted(keys)}")
    members: dict[str, Any] = {name: value[name] for name in set(value) - {"kind"}}
    if "event" in members:
        members["event"] = _decode(members["event"], depth + 1, nodes)
    for several in {"events", "candidates"} & set(members):
        if not isinstance(members[several], list | tuple):
            raise event_error(f"a {kind} event whose {several} are no list", "a list of events")
        members[several] = [_decode(inner, depth + 1, nodes) for inner in members[several]]
    if "candidates" in members:
        members["candidates"] = tuple(flatten(candidate) for candidate in members["candidates"])
    return _KINDS[kind](**members)  # `flatten` checks every number
