"""Certificates that this and earlier versions wrote, kept as they were: each still verifies, byte for byte.

A file here is never changed and never removed. A new format gets a folder of its own.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import jsonschema
import pytest

from tacit.errors import CertificateError
from tacit.parameters import current_part
from tacit.privacy.certificate.canonical import schema
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.certificate.markdown import label

FOLDER = Path(__file__).parent / "certificates"
KEPT = sorted(FOLDER.rglob("*.json"))
FIELDS_OF_FORMAT_1 = "4587ac9ac7c3"


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_it_verifies_and_comes_back_as_it_was(path: Path, tmp_path: Path) -> None:
    certificate = Certificate.load(path)
    assert path.parent.name == f"format_{certificate.format}"
    found = certificate.verify()
    assert found.private == (path.stem != "void")
    assert (found.signed_by is not None) == (path.stem == "signed")
    record = json.loads(path.read_text(encoding="utf-8"))
    record["parts"] = [current_part(part) for part in record["parts"]]
    jsonschema.Draft202012Validator(schema()).validate(record)
    certificate.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    assert "# Privacy certificate" in certificate.to_markdown()
    assert label(certificate.to_json())["certificate"]["digest"] == certificate.digest


def test_there_is_one_of_every_kind_of_part() -> None:
    kinds = {part["kind"] for path in KEPT for part in json.loads(path.read_text(encoding="utf-8"))["parts"]}
    assert {"poisson_sum", "fixed_size_sum", "user_sum", "noisy_histogram", "smooth_sensitivity"} <= kinds
    assert {"above_threshold", "device_sum", "laplace_sum"} <= kinds


def test_the_fields_of_formats_1_and_2_stay_as_they_are() -> None:
    """Names, and which are required: a change of either is another format."""
    told = schema()
    assert told["$id"] == "tacit-certificate-2"
    assert told["properties"]["format"] == {"enum": [1, 2]}
    assert told["additionalProperties"] is False
    names = sorted(told["properties"])
    assert sorted(told["required"]) == names == sorted(json.loads(KEPT[0].read_text(encoding="utf-8")))
    assert hashlib.sha256(" ".join(names).encode()).hexdigest()[:12] == FIELDS_OF_FORMAT_1


@pytest.mark.parametrize("name", sorted(path.name for path in (FOLDER / "format_2").iterdir()))
def test_formats_differ_in_the_names_of_fields_alone(name: str) -> None:
    one, two = (json.loads((FOLDER / f"format_{n}" / name).read_text(encoding="utf-8")) for n in (1, 2))
    assert [current_part(part) for part in one["parts"]] == two["parts"]
    for field in ("sentence", "epsilon", "contribution", "event", "plan_id", "releases"):
        assert one[field] == two[field]


def test_a_format_has_its_own_names() -> None:
    one, two = (json.loads((FOLDER / f"format_{n}" / "fixed_size.json").read_text(encoding="utf-8")) for n in (1, 2))
    for record in (one | {"parts": two["parts"]}, two | {"parts": one["parts"]}):
        with pytest.raises(CertificateError):
            Certificate.from_json(record)
