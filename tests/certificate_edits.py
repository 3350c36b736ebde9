"""Edits of a certificate's JSON: other numbers and words, other structure, whole forgeries, each with a new digest.

An edit is a path and the record with something else there. Who edits a plan makes its identifier again, too.
"""

from __future__ import annotations

import copy
import functools
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tacit.errors import TacitError
from tacit.privacy.certificate import canonical, plan
from tacit.privacy.certificate.fields import parts_from_json
from tacit.privacy.mechanisms.base import certificate_parts
from tacit.privacy.sentences import DECLARED, LISTS

Record = dict[str, Any]
Path = tuple[Any, ...]

OTHER_WORDS = ("another", "sum ", "")
HIDDEN = ("\x1b[8m", "\u200b", "\u202e", "\ud800", "\x9b", "\n")
"""What a terminal, or a page, would not show as it is."""
ADDED, REMOVED = "an unknown field", "a field less"
"""What stands in a path where the fields of an object are others."""
NOUNS = ("person", "patient", "row", "transition", "device", "expert", "day")


def redigested(record: Record) -> Record:
    """The record with the digest of its fields, as an editor would make it."""
    return record | {"digest": canonical.digest(record)}


def put(record: Any, path: Path, value: Any) -> None:
    """Write a value into nested mappings and lists."""
    for key in path[:-1]:
        record = record[key]
    record[path[-1]] = value


def identified(record: Record) -> Record:
    """The record with its plan's own identifier, in its own charge, too."""
    identity = canonical.plan_id(record["method"], record["plan"], record["parts"])
    own = [row | {"plan_id": identity} if row["plan_id"] == record["plan_id"] else row for row in record["releases"]]
    return record | {"plan_id": identity, "releases": own}


def declared(record: Record, path: Path) -> bool:
    """Whether `Verification.declared` lists what stands there, and what its value is made of."""
    name, field, own = path[0], path[-1], record["method"] in plan.certified_names()
    if name in LISTS:
        clauses = record[name] if len(path) == 1 else [record[name][path[1]]]
        return not own or any(one["code"] in DECLARED[name] for one in clauses)
    if field in (ADDED, REMOVED):
        return name == "plan" and not own
    if name in (
        "format",
        "void_reason",
        "simulated",
        "audit",
        "ledger_head",
        "dataset_id",
        "commit",
        "versions",
        "date",
    ):
        return True
    if name == "total":
        return len(path) == 2 and field in ("composition", "budget_epsilon", "ceiling_epsilon", "budget_delta")
    if name == "releases" and len(path) == 3:
        return field in ("plan_id", "method") and record["releases"][path[1]]["plan_id"] != record["plan_id"]
    if not own and name in ("target_epsilon", "source", "plan"):
        return True
    if name == "plan":
        return len(path) > 1 and field not in ("unit", "relation", "population", "epsilon", "delta")
    return not record["private"] and path == ("unit", "population")


def unimplied(record: Record, path: Path) -> bool:
    """Whether the verifier without tacit prints that it did not recompute what stands there."""
    name, field = path[0], path[-1]
    if name in ("method", "source", "plan", "target_epsilon", *LISTS):
        return True
    if name == "accountants":
        return field in ("name", "version")
    return declared(record, path)


def edits_of(value: Any) -> list[Any]:
    """Another number, another word, or another of what there was nothing of."""
    if isinstance(value, bool):
        return [not value, int(value)]
    if isinstance(value, int | float):
        return [value * 0.5, value * 1.02, value * 2, value + 1, 0, -value, 10**13, "inf", str(value), True]
    if isinstance(value, str):
        changed = [value + " (edited)", value.replace("1", "2"), value.replace("not", "also"), value[:-1], [value]]
        changed += [re.sub(rf"\b{one}\b", other, value) for one in NOUNS for other in ("row", "person") if one != other]
        return [*OTHER_WORDS, *changed, *(value + hidden for hidden in HIDDEN)]
    return ["invented", 1.0] if value is None else []


def edited(record: Record) -> Iterator[tuple[Path, Callable[[], Record]]]:
    """Paths, and what makes the record with another value there, or an entry or a field removed, added or repeated."""
    for path, value in places(record):
        if path[0] in ("digest", "signature"):
            continue
        for edit in edits_of(value):
            if type(edit) is not type(value) or edit != value:
                yield path, functools.partial(changed, record, path, edit)
        if isinstance(value, list):
            backwards = value if path[0] in ("event", "releases") else value[::-1]  # of these the order says nothing
            for edit in ([], value[:-1], value[1:], [*value, *value[-1:]], [*value, "another"], backwards):
                if edit != value:
                    yield path, functools.partial(changed, record, path, edit)
    for path, value in (((), record), *places(record)):
        if isinstance(value, dict) and path[:1] not in (("signature",), ("versions",)):
            yield (*path, ADDED), functools.partial(changed, record, (*path, "unknown"), 1)
            for field in value:
                if (*path, field) not in (("digest",), ("signature",)):
                    yield (*path, REMOVED), functools.partial(changed, record, (*path, field), None, remove=True)


def changed(record: Record, path: Path, value: Any, *, remove: bool = False) -> Record:
    """The record with this value, or without this field."""
    other = copy.deepcopy(record)
    put(other, path, value)
    if remove:
        del functools.reduce(lambda inner, key: inner[key], path[:-1], other)[path[-1]]
    whole = isinstance(other.get("plan"), dict) and isinstance(other.get("releases"), list) and "method" in other
    return identified(other) if path[0] == "plan" and whole and "\ud800" not in repr(value) else other


def forged(record: Record) -> Iterator[tuple[str, Record]]:
    """What somebody edits who knows the format: several fields that fit each other. All of it is to be refused."""
    own = next(i for i, row in enumerate(record["releases"]) if row["plan_id"] == record["plan_id"])
    for epsilon in (0.01, 100.0):
        yield f"own charge {epsilon}", charged(record, own, {"epsilon": epsilon})
    yield "own charge without delta", charged(record, own, {"delta": 0.0})
    for epsilon in (-3.6, 0, "inf"):
        yield f"another charge {epsilon}", charged(record, None, {"epsilon": epsilon})
    yield "another charge of delta 1", charged(record, None, {"delta": 1.0})
    yield "a charge twice", charged(record, None, {"plan_id": record["plan_id"]})
    for name in ("not_protected", "assumptions", "covered"):
        yield f"{name} emptied", {**record, name: []}
    free = {"code": "own_words", "words": "nothing else was touched, and everything is safe"}
    yield "a free line", {**record, "covered": [*record["covered"], free]}
    more = [{k: v + 1 if type(v) in (int, float) else v for k, v in one.items()} for one in record["covered"]]
    yield "other numbers in covered", {**record, "covered": more}
    unit = record["unit"]
    yield "another unit", {**record, "unit": unit | {"name": "row" if unit["name"] != "row" else "person"}}
    yield "a larger population", {**record, "unit": unit | {"population": 2 * unit["population"]}}
    name = unit["name"]
    yield "another second accountant", changed(record, ("accountants", 1, "epsilon"), 0.01)
    yield "no second accountant", {**record, "accountants": record["accountants"][:1]}
    yield "a smaller target", {**record, "target_epsilon": 0.001}
    for text in HIDDEN:
        yield f"hidden {text!a} in the unit", changed(record, ("unit", "name"), f"{name}{text}")
        yield f"hidden {text!a} in the method", changed(record, ("method",), f"{record['method']}{text}")
    if record["method"] in plan.certified_names():
        other = {**record, "method": record["method"].swapcase(), "covered": [free]}
        other["releases"] = [row | {"method": other["method"]} for row in record["releases"]]
        yield "the method in other letters", identified(other)
        for field in (*LISTS, "source"):
            lines = [free] if field in LISTS else "free"
            other = {**record, "plan": record["plan"] | {"unknown": 1}, field: lines}
            yield f"an unknown field of the plan, and {field}", identified(other)


def charged(record: Record, place: int | None, fields: Mapping[str, Any]) -> Record:
    """The record with another charge, or with one more, and the total that follows."""
    if place is None:
        rows = [
            *record["releases"],
            {"plan_id": "0a0b", "method": "m", "epsilon": 0.1, "delta": 0.0, "rdp": None, "mu": None, "fold": None}
            | fields,
        ]
    else:
        rows = [row | fields if i == place else row for i, row in enumerate(record["releases"])]
    total = dict(record["total"])
    for name in ("epsilon", "delta"):
        values = [float(row[name]) for row in rows]
        total[name] = "inf" if "inf" in map(str, values) else float(f"{sum(values):.6g}")
    return {**record, "releases": rows, "total": total}


def places(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Paths and values of all leaves, lists and objects."""
    if path:
        yield path, value
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(item, (*path, key))


def same(one: Record, other: Record) -> bool:
    """Whether two records are the same numbers and words; a part may leave out what a default says."""
    return canonical.digest(_whole(one)) == canonical.digest(_whole(other))


def _whole(record: Record) -> Record:
    """The record with all fields of its parts; as it is where they are none."""
    try:
        return record | {"parts": certificate_parts(parts_from_json(record["parts"]))}
    except (TacitError, AttributeError, TypeError):
        return record


def sampled(records: Sequence[Record], count: int, seed: int) -> Iterator[tuple[Record, Path, Record]]:
    """So many edits, of records drawn one after another: the record, the path and the edited record."""
    rng, pools = random.Random(seed), [list(edited(record)) for record in records]
    for _ in range(count):
        place = rng.randrange(len(records))
        path, other = rng.choice(pools[place])
        yield records[place], path, other()


def outcomes(
    edits: Iterable[tuple[Record, Path, Record]],
    verify: Callable[[Record], object],
    refusals: tuple[type[Exception], ...],
    listed: Callable[[Record, Path], bool],
) -> tuple[Counter[str], list[Path]]:
    """How many edits were refused, listed as declared or no edits; and the paths of those that were none of these."""
    counts, unseen = Counter[str](), []
    for record, path, other in edits:
        try:
            verify(redigested(other))
        except refusals:
            counts["refused"] += 1
            continue
        kind = "the same" if same(record, other) else "declared" if listed(record, path) else "unseen"
        counts[kind] += 1
        unseen += [path] if kind == "unseen" else []
    return counts, unseen
