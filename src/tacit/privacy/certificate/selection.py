"""Private selections in certificates: their event, what a unit adds, and what has to stay secret."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dp_accounting import DpEvent

from tacit.privacy.accounting.events import SelectionDpEvent, flatten
from tacit.privacy.accounting.selection import expected_runs

Fields = Mapping[str, Any]

KIND = "selection"
SAMPLER = "as each run's own parts say"
ASSUMPTION = (
    "how many runs a selection made stays secret: nobody timed it, or saw its machine's load or temporary files"
)


def event(part: Fields, composed: Callable[[Sequence[Fields]], DpEvent]) -> DpEvent:
    """The event of the part that a certificate states; `composed` is that of the parts of one run."""
    judged = _judge(part)
    leaves = (flatten(composed([*one["parts"], *judged])) for one in part["candidates"])
    return SelectionDpEvent(tuple(leaves), part["stop"], part["law"])


def contribution(part: Fields, of_one: Callable[[Fields], str]) -> str:
    """What one unit adds, in plain words; `of_one` is what it adds to a part of a run."""
    candidates = [
        f"candidate {i + 1}: " + "; ".join(map(of_one, one["parts"])) for i, one in enumerate(part["candidates"])
    ]
    judged = [f"each judged by: {of_one(one)}" for one in _judge(part)]
    return (
        f"{part['name']} ({KIND}): the best of {runs(part)} ({part['law']} with stop {part['stop']}), each of one of "
        f"{len(candidates)} candidates. " + "; ".join([*candidates, *judged])
    )


def runs(part: Fields) -> str:
    """How often, in plain words."""
    return f"a secret number of runs, {expected_runs(part['stop'], part['law']):.4g} on average"


def contradictions(part: Fields, of_one: Callable[[Fields], Iterator[tuple[str, str]]]) -> Iterator[tuple[str, str]]:
    """(field, what is wrong) wherever the numbers contradict each other; `of_one` finds them in a part of a run."""
    if part["sampler"] != SAMPLER:
        yield "sampler", "does not describe the numbers"
    for i, inner in enumerate(inside(part)):
        for field, what in of_one(inner):
            yield f"inside[{i}].{field}", what
    if part["reserve"] != min(int(inner.get("reserve", 0)) for inner in inside(part)):
        yield "reserve", "is not what every run leaves out"


def inside(part: Fields) -> list[Fields]:
    """The parts of all candidates and of the judge."""
    return [*(inner for one in part["candidates"] for inner in one["parts"]), *_judge(part)]


def _judge(part: Fields) -> Sequence[Fields]:
    return () if part["judge"] is None else tuple(part["judge"]["parts"])
