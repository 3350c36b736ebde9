"""Every leaf of every kept certificate, edited in several ways with a new digest: refused unless it is declared."""

from __future__ import annotations

import ast
import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_certificate import PLAN, build, put, redigested, verify

from tacit.errors import CertificateError, TacitError
from tacit.privacy.certificate import words
from tacit.privacy.certificate.canonical import plan_id

KEPT = sorted((Path(__file__).parents[2] / "golden" / "certificates").rglob("*.json"))
MODELS = sorted((Path(__file__).parents[2] / "net" / "fixtures" / "models").rglob("certificate.json"))
OTHER_WORDS = ("another", "sum ", "")


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
    return redigested(copy.deepcopy(one))["digest"] == redigested(copy.deepcopy(other))["digest"]


def survivors(path: Path, count: int | None = None) -> tuple[list[Any], int]:
    """Edits of the certificate's derived fields that verify, and how many were tried."""
    record = json.loads(path.read_text(encoding="utf-8")) | {"signature": None}
    tried = [(where, change) for where, change in edited(record) if where[0] not in ("digest", "signature")]
    tried = [(where, change) for where, change in tried if not declared(record, where) and not same(record, change)]
    if count is not None:
        tried = random.Random(path.stem).sample(tried, count)
    found = []
    for where, change in tried:
        try:
            verify(redigested(change))
        except TacitError:
            continue
        found.append((where, change[where[0]] if len(where) == 1 else change[where[0]][where[1]]))
    return found, len(tried)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_edits_of_derived_fields_are_refused(path: Path) -> None:
    assert survivors(path, 30) == ([], 30)


@pytest.mark.slow
def test_every_edit_of_a_derived_field_is_refused() -> None:
    tried = 0
    for path in (*KEPT, *MODELS):
        found, count = survivors(path)
        assert not found, (path, found[:5])
        tried += count
    assert tried > 10_000


def test_every_method_has_its_plan_in_the_table() -> None:
    methods = Path(words.__file__).parents[2] / "methods"
    found = {}
    for path in sorted(methods.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for line in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(line, ast.AnnAssign) and ast.unparse(line).startswith("method: ClassVar[str] = "):
                    assert line.value is not None
                    module = ".".join(path.relative_to(methods).with_suffix("").parts)
                    found[ast.literal_eval(line.value)] = f"{module}:{node.name}"
    assert found == words.METHODS


def record_of(name: str) -> dict[str, Any]:
    """A kept certificate of format 2."""
    record: dict[str, Any] = json.loads((KEPT[-1].parent / f"{name}.json").read_text(encoding="utf-8"))
    return record


def test_a_plan_that_contradicts_the_parts_is_refused() -> None:
    record = record_of("policies")
    record["plan"]["noise_multiplier"] = 2.0
    identity = plan_id(record["method"], record["plan"])
    record |= {"plan_id": identity, "releases": [record["releases"][0] | {"plan_id": identity}]}
    with pytest.raises(CertificateError, match=r"parts\[0\].noise_multiplier"):
        verify(redigested(record))


def test_lines_of_a_method_of_ones_own_are_declared() -> None:
    own = build(method="my own", plan_id=plan_id("my own", PLAN), covered=["all that I touch"])
    assert set(words.LISTS) <= set(own.verify().declared)
    assert not set(words.LISTS) & set(build().verify().declared)
    for lines in (["one line", "one line"], []):
        record = redigested(own.to_json() | {"assumptions": lines})
        with pytest.raises(CertificateError, match="assumptions"):
            verify(record)


def test_known_forms_alone_may_stand_beside_the_lines_of_a_plan() -> None:
    record = record_of("policies")
    public = "the weather (declared public by the user, not checked here)"
    verify(redigested(record | {"not_covered": [*record["not_covered"], public]}))
    with pytest.raises(CertificateError, match="not_covered"):
        verify(redigested(record | {"not_covered": [*record["not_covered"], "the weather"]}))
