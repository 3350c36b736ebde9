"""Every leaf of every kept certificate, edited in several ways with a new digest: refused unless it is declared."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from test_certificate import PLAN, build, verify
from tests.certificate_edits import declared, forged, outcomes, redigested, same, sampled

from tacit import methods
from tacit.errors import CertificateError, TacitError
from tacit.privacy.certificate import words
from tacit.privacy.certificate.canonical import plan_id
from tacit.privacy.certificate.certificate import Certificate

KEPT = sorted((Path(__file__).parents[2] / "golden" / "certificates").rglob("*.json"))
MODELS = sorted((Path(__file__).parents[2] / "net" / "fixtures" / "models").rglob("certificate.json"))
FORGED = [path for path in (*KEPT, *MODELS) if path.stem in ("policies", "signed") or path.parent.name == "transitions"]


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


def test_who_flips_simulated_with_its_words_is_listed() -> None:
    record = record_of("policies")
    invented = " The records are declared simulated: no person is behind them."
    sentence = record["sentence"].removesuffix(invented) if record["simulated"] else record["sentence"] + invented
    with pytest.raises(CertificateError, match="sentence"):
        verify(redigested(record | {"simulated": not record["simulated"]}))
    other = redigested(record | {"simulated": not record["simulated"], "sentence": sentence})
    assert "simulated" in Certificate.from_json(other).verify().declared


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
