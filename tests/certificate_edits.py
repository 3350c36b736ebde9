"""Edits of a certificate's JSON: other numbers, other words, entries removed or repeated, each with a new digest."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from tacit.privacy.certificate import canonical, words

OTHER_WORDS = ("another", "sum ", "")


def redigested(record: dict[str, Any]) -> dict[str, Any]:
    """The record with the digest of its fields, as an editor would make it."""
    return record | {"digest": canonical.digest(record)}


def put(record: Any, path: tuple[Any, ...], value: Any) -> None:
    """Write a value into nested mappings and lists."""
    for key in path[:-1]:
        record = record[key]
    record[path[-1]] = value


def declared(record: dict[str, Any], path: tuple[Any, ...]) -> bool:
    """Whether nothing else in the certificate implies what stands there."""
    name, field = path[0], path[-1]
    if name in ("format", "source", "audit", "ledger_head", "dataset_id", "commit", "versions", "date"):
        return True
    if name == "total":
        return len(path) == 2 and field in ("composition", "budget_epsilon", "budget_delta")
    if name == "releases" and len(path) == 3:
        return field in ("plan_id", "method") and record["releases"][path[1]]["plan_id"] != record["plan_id"]
    if record["method"] not in words.METHODS and (name == "target_epsilon" or "axes" in path or field == "constants"):
        return True
    if not record["private"] and path == ("unit", "population"):
        return True
    return name == "not_covered" and len(path) == 2 and record[name][path[1]].startswith("the first parameters: ")


def edits_of(value: Any) -> list[Any]:
    """Another number, another word, or another of what there was nothing of."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value * 0.5, value * 1.02, value * 2, value + 1, 0, -value]
    if isinstance(value, str):
        return [*OTHER_WORDS, value + " (edited)", value.replace("1", "2"), value.replace("not", "also"), value[:-1]]
    return ["invented", 1.0] if value is None else []


def edited(record: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Paths, and the record with another value there, or with an entry removed or repeated."""
    for path, value in places(record):
        for edit in edits_of(value):
            if type(edit) is not type(value) or edit != value:
                changed = copy.deepcopy(record)
                put(changed, path, edit)
                yield path, changed
        if isinstance(value, list):
            backwards = value if path[0] in ("event", "releases") else value[::-1]  # of these the order says nothing
            for edit in ([], value[:-1], value[1:], [*value, *value[-1:]], [*value, "another"], backwards):
                if edit != value:
                    changed = copy.deepcopy(record)
                    put(changed, path, edit)
                    yield path, changed


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Paths and values of all leaves and lists."""
    if path:
        yield path, value
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(item, (*path, key))


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two records are the same numbers and words."""
    return canonical.digest(one) == canonical.digest(other)
