"""Every leaf of every kept certificate, edited in several ways with a new digest: refused unless it is declared."""

from __future__ import annotations

import ast
import json
import random
from pathlib import Path
from typing import Any

import pytest
from test_certificate import PLAN, build, verify
from tests.certificate_edits import declared, edited, redigested, same

from tacit.errors import CertificateError, TacitError
from tacit.privacy.certificate import words
from tacit.privacy.certificate.canonical import plan_id

KEPT = sorted((Path(__file__).parents[2] / "golden" / "certificates").rglob("*.json"))
MODELS = sorted((Path(__file__).parents[2] / "net" / "fixtures" / "models").rglob("certificate.json"))


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
    assert found == words.METHODS, "METHODS of privacy/certificate/words.py lists every plan, so that edits are found"


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
