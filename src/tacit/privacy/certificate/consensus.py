"""What a certificate says, takes for granted and recomputes of a part of kind "above_threshold".

All of it follows from the part's own fields (`AboveThreshold.certified`), so it is the same for every method.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tacit.units import Unit

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

    from tacit.privacy.mechanisms.thresholds import Floor, Thresholds

Fields = Mapping[str, Any]

KIND = "above_threshold"
SAMPLER = "experts drawn uniformly, with replacement"
_ROUNDING = 1e-9
_LARGEST = 2.0**40


def event(part: Fields) -> DpEvent:
    """n_r times (epsilon, delta), and once (0, overflow) where a drawn trajectory may be used up."""
    from dp_accounting import dp_event

    from tacit.privacy.accounting.events import EpsilonDeltaDpEvent

    prefix = EpsilonDeltaDpEvent(float(part["epsilon"]), float(part["delta"]))
    prefixes = dp_event.SelfComposedDpEvent(prefix, int(part["trajectories"]))
    rare = [EpsilonDeltaDpEvent(0.0, float(part["overflow"]))] if part["overflow"] else []
    return dp_event.ComposedDpEvent([prefixes, *rare])


def from_logs(parts: Sequence[Fields]) -> bool:
    """Whether one of the parts publishes beginnings of logs, so that policies are protected and logs are not."""
    return any(part["kind"] == KIND and part["source"] == "logs" for part in parts)


def neighbours(parts: Sequence[Fields], unit: Unit) -> str:
    """What nobody can tell well, in plain words: something of the logs, or of the policies behind them."""
    if from_logs(parts):
        return f"whether any one {unit.name}'s policy is among those that were learnt from or not"
    return unit.words()


def apart(parts: Sequence[Fields]) -> str:
    """What somebody must not know besides, as an insertion after "whatever else somebody knows"."""
    return ", the logs apart" if from_logs(parts) else ""


def assumptions(part: Fields) -> tuple[str, ...]:
    """What the guarantee takes for granted, beyond any certificate's standing assumptions."""
    known = f"that there are at least {part['experts']:,} experts is public knowledge"
    if part["source"] == "clones":
        return (known, "the simulator in which the clones were played is public, and keeps nothing of them")
    floor = f"no expert gives any action a probability below {part['floor']['probability']:.6g}, as was declared"
    return (
        known,
        "what is protected is which policies the experts follow, against whoever does not know the other experts' "
        "logs: the released steps are copied from logs, which stay secret",
        "trajectories were drawn by the policies that are counted, which act on observations as they are recorded "
        "(float32, within the declared bounds), independently, in one environment that is the same for all experts, "
        "first states included, and which alone, or a public horizon, ends an episode",
        *([floor] if part["floor"]["kind"] == "PMin" else ()),
    )


def not_protected(part: Fields) -> tuple[str, ...]:
    """What a reader could wrongly believe to be protected."""
    if part["source"] == "clones":
        return ()
    return (
        "patients and whoever else is in the experts' logs: the states, actions, rewards and transitions of the "
        "released steps are published as they were recorded",
        "an expert, from somebody who knows the logs that the released steps were copied from",
    )


def contribution(part: Fields, unit: Unit) -> str:
    """How much one unit can change, in words that hold every number of the part."""
    name, told, floor = unit.name, part["thresholds"], part["floor"]
    if part["source"] == "logs":
        played = f"one of the {part['reserve']:,} trajectories that are kept of each for this alone"
    else:
        played = (
            f"a trajectory that its clone, made from at most its first {part['rows_per_unit']:,} rows in order of "
            "time, plays in a public simulator"
        )
    held = (
        f"every action has a probability of at least {floor['probability']:.6g}"
        if floor["kind"] == "PMin"
        else f"it is stopped with probability {floor['probability']:.6g} before every test"
    )
    rare = f"; {part['overflow']:.6g} more of delta if one is drawn too often" if part["overflow"] else ""
    return (
        f"{part['name']} ({KIND}): {part['trajectories']:,} time(s) one {name} is drawn, and what is released of "
        f"{played} ends before the first step, of at most {part['horizon']:,}, after which the {name}s that act so, "
        f"each counted with its probability and one {name} for at most 1, are fewer than "
        f"{told['threshold']:.6g} of at least {part['experts']:,}, under discrete Laplace noise of scale "
        f"{told['threshold_scale']:.6g} for a trajectory and {told['step_scale']:.6g} for a step; "
        f"with {part['actions']:,} actions, where {held}, and at least "
        f"{told['safe']:.6g} {name}s behind what is safe to show, each is ({part['epsilon']:.6g}, {part['delta']:.6g})-"
        f"differentially private by its own proof{rare}"
    )


def contradictions(part: Fields, unit: Fields) -> Iterator[tuple[str, str]]:
    """(field, what is wrong) where the thresholds do not keep the epsilon and delta, or the reserve the overflow."""
    from tacit.privacy.mechanisms.thresholds import GRID, KappaStop, PMin, Thresholds

    if part["sampler"] != SAMPLER:
        yield "sampler", "does not describe the numbers"
    if unit["relation"] != "add_or_remove":
        yield "kind", "is proved for the relation add_or_remove alone"
    floor = part["floor"]
    wrong = [name for name, value in part["thresholds"].items() if not _on_grid(float(value), GRID)]
    if wrong:
        yield f"thresholds.{wrong[0]}", "is not on the grid of the proof"
    elif floor["kind"] == "PMin" and floor["probability"] * part["actions"] > 1:
        yield "floor.probability", "is above 1 / actions"
    else:
        kind: type[Floor] = PMin if floor["kind"] == "PMin" else KappaStop
        yield from _not_kept(part, Thresholds(**part["thresholds"]), kind(floor["probability"]))
    if part["source"] == "clones":
        if part["reserve"] or part["overflow"]:
            yield "reserve", "belongs to logs alone"
        if not part["rows_per_unit"]:
            yield "rows_per_unit", "leaves clones nothing to be made from"
    else:
        if part["rows_per_unit"]:
            yield "rows_per_unit", "belongs to clones alone"
        if part["overflow"] < _least_overflow(part) * (1 - _ROUNDING):
            yield "overflow", "is less than the reserve leaves"


def _not_kept(part: Fields, told: Thresholds, floor: Floor) -> Iterator[tuple[str, str]]:
    from tacit.privacy.mechanisms import thresholds

    public = {"actions": part["actions"], "experts": part["experts"]}
    if not thresholds.epsilon_of(told, floor, **public) <= part["epsilon"] * (1 + _ROUNDING):
        yield "epsilon", "is not kept by the thresholds"
    margin = told.threshold - told.safe - 1
    risk = thresholds.tail(told.threshold_scale, told.step_scale, margin) if margin >= 0 else 1.0
    if not risk <= part["delta"] * (1 + _ROUNDING):
        yield "delta", "is not kept by the thresholds"


def _on_grid(value: float, grid: int) -> bool:
    return value <= _LARGEST and (value * grid).is_integer()


def _least_overflow(part: Fields) -> float:
    """What the reserve costs of delta at least; 1 where it cannot be computed."""
    from tacit.privacy.accounting.events import MAX_EPSILON
    from tacit.privacy.mechanisms import thresholds

    n, reserve, whole = part["trajectories"], part["reserve"], part["trajectories"] * part["epsilon"]
    if not 1 <= reserve <= n or whole > MAX_EPSILON:
        return 1.0
    try:
        return thresholds.overflow_delta(n, reserve, part["experts"], whole)
    except OverflowError:
        return 1.0


def shared(parts: Sequence[Fields]) -> Iterator[tuple[str, str]]:
    """(field, what is wrong) where a part reads trajectories that are kept for a release of prefixes."""
    kept = [i for i, part in enumerate(parts) if part["kind"] == KIND and part["source"] == "logs"]
    if not kept:
        return
    if len(kept) > 1:
        yield f"parts[{kept[1]}].source", "takes what another part has in reserve"
    for i, part in enumerate(parts):
        if i not in kept and part.get("reserve", 0) < parts[kept[0]]["reserve"]:
            yield f"parts[{i}].reserve", "does not leave out what another part has in reserve"
