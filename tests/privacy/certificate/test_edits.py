"""Every leaf of every kept certificate, edited in several ways with a new digest: refused unless it is declared."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from test_certificate import build, verify
from tests.certificate_edits import declared, forged, outcomes, redigested, same, sampled

from tacit import methods
from tacit.errors import CertificateError, TacitError
from tacit.privacy.certificate.canonical import plan_id
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.sentences import LISTS, SENTENCES, _fields, problem, say

KEPT = sorted((Path(__file__).parents[2] / "golden" / "certificates").rglob("*.json"))
MODELS = sorted((Path(__file__).parents[2] / "net" / "fixtures" / "models").rglob("certificate.json"))
FORGED = [
    path for path in (*KEPT, *MODELS) if path.stem in ("policies", "synthesis") or path.parent.name == "transitions"
]


def records() -> list[dict[str, Any]]:
    """All kept certificates, without their signatures."""
    return [json.loads(path.read_text(encoding="utf-8")) | {"signature": None} for path in (*KEPT, *MODELS)]


@pytest.mark.parametrize("count", [100, pytest.param(20_000, marks=[pytest.mark.slow, pytest.mark.timeout(10_000)])])
def test_edits_are_refused_or_listed_as_declared(count: int) -> None:
    counts, unseen = outcomes(sampled(records(), count, seed=count), verify, (TacitError,), declared)
    print(dict(counts))
    assert unseen == []
    assert counts["refused"] > 0.7 * count


@pytest.mark.parametrize("path", FORGED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_forgeries_whose_fields_fit_each_other_are_refused(path: Path) -> None:
    record = json.loads(path.read_text(encoding="utf-8")) | {"signature": None}
    for name, other in forged(record):
        if not same(record, other):
            with pytest.raises(CertificateError):
                raise AssertionError(f"{name} verifies: {verify(redigested(other))}")


def test_who_flips_simulated_is_listed() -> None:
    record = record_of("policies")
    other = Certificate.from_json(redigested(record | {"simulated": not record["simulated"]}))
    assert "simulated" in other.verify().declared
    assert ("declared simulated" in other.sentence) == other.simulated


def test_every_method_has_its_plan_in_the_table() -> None:
    folder, found = Path(methods.__file__).parent, {}
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for line in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(line, ast.AnnAssign) and ast.unparse(line).startswith("method: ClassVar[str] = "):
                    assert line.value is not None
                    module = ".".join(path.relative_to(folder).with_suffix("").parts)
                    found[ast.literal_eval(line.value)] = f".{module}:{node.name}"
    listed = {method.certified: method.plan for method in methods.METHODS}
    assert found == listed, "METHODS of tacit.methods lists every plan, so that edits are found"


def record_of(name: str) -> dict[str, Any]:
    """A kept certificate."""
    record: dict[str, Any] = json.loads((KEPT[0].parent / f"{name}.json").read_text(encoding="utf-8"))
    return record


def test_a_plan_that_contradicts_the_parts_is_refused() -> None:
    record = record_of("policies")
    record["plan"]["noise_multiplier"] = 2.0
    identity = plan_id(record["method"], record["plan"], record["parts"])
    record |= {"plan_id": identity, "releases": [record["releases"][0] | {"plan_id": identity}]}
    with pytest.raises(CertificateError, match=r"parts\[0\].noise_multiplier"):
        verify(redigested(record))


def test_clauses_of_a_method_of_ones_own_are_declared() -> None:
    own = build(method="my own", covered=["all that I touch"])
    assert set(LISTS) <= set(own.verify().declared)
    clause = {"code": "own_words", "words": "one line"}
    for clauses in ([clause, clause], []):
        record = redigested(own.to_json() | {"assumptions": clauses})
        with pytest.raises(CertificateError, match="assumptions"):
            verify(record)


def test_known_clauses_alone_may_stand_beside_those_of_a_plan() -> None:
    record = record_of("policies")
    public = {"code": "declared", "words": "the weather"}
    other = Certificate.from_json(redigested(record | {"not_covered": [*record["not_covered"], public]}))
    assert other.lines("not_covered")[-1] == "the weather (declared public by the user, not checked here)"
    other.verify()
    for wrong in ({"code": "own_words", "words": "the weather"}, {"code": "nothing"}):
        with pytest.raises(CertificateError, match="not_covered"):
            verify(redigested(record | {"not_covered": [*record["not_covered"], wrong]}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"code": "unheard_of"},
        {"code": "gradients"},
        {"code": "gradients", "steps": "300"},
        {"code": "gradients", "steps": True},
        {"code": "gradients", "steps": 300, "more": 1},
        {"code": "evaluated", "policy": "unheard_of"},
        {"code": "evaluated", "policy": "fixed", "form": "Network"},
        "gradients",
    ],
)
def test_a_clause_has_a_known_code_and_its_numbers(wrong: Any) -> None:
    record = build().to_json()
    with pytest.raises(CertificateError, match="covered"):
        Certificate.from_json(record | {"covered": [wrong]})


@pytest.mark.parametrize("code", SENTENCES)
def test_every_code_is_a_sentence(code: str) -> None:
    fields = {name: 3 if number else "w" for name, number in _fields(SENTENCES[code]).items()}
    clause = {"code": code, **fields} | ({"policy": "of_the_records"} if "policy" in fields else {})
    assert problem(clause) is None
    said = say(clause, "patient")
    assert "{" not in said
    assert len(said) > 3 or code == "own_words"
