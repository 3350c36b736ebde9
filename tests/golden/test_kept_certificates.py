"""Certificates of every kind of part, kept as they were written: each verifies, and comes back byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from tacit.errors import CertificateError
from tacit.privacy.certificate.certificate import Certificate, schema
from tacit.privacy.certificate.markdown import label

KEPT = sorted((Path(__file__).parent / "certificates").glob("*.json"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_it_verifies_and_comes_back_as_it_was(path: Path, tmp_path: Path) -> None:
    certificate = Certificate.load(path)
    found = certificate.verify()
    assert found.private == (path.stem != "void")
    assert (found.signed_by is not None) == (path.stem == "signed")
    jsonschema.Draft202012Validator(schema()).validate(json.loads(path.read_text(encoding="utf-8")))
    certificate.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    assert "# Privacy certificate" in certificate.to_markdown()
    assert label(certificate.to_json())["certificate"]["digest"] == certificate.digest


def test_there_is_one_of_every_kind_of_part() -> None:
    kinds = {part["kind"] for path in KEPT for part in json.loads(path.read_text(encoding="utf-8"))["parts"]}
    assert {"poisson_sum", "fixed_size_sum", "user_sum", "noisy_histogram", "smooth_sensitivity"} <= kinds
    assert {"above_threshold", "device_sum", "laplace_sum"} <= kinds


def test_there_is_one_format() -> None:
    record = json.loads(KEPT[0].read_text(encoding="utf-8"))
    assert schema()["$id"] == "tacit-certificate-1"
    assert sorted(schema()["required"]) == sorted(schema()["properties"]) == sorted(record)
    for other in (0, 2, "1", True):
        with pytest.raises(CertificateError, match="format"):
            Certificate.from_json(record | {"format": other})
