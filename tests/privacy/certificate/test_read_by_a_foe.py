"""Certificates as somebody hostile edits them: what no plan implies is said, and what is broken is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tacit.errors import CertificateError
from tacit.privacy.certificate import canonical
from tacit.privacy.certificate.certificate import Certificate

KEPT = Path(__file__).parents[2] / "golden" / "certificates"


def kept(name: str) -> dict[str, Any]:
    (path,) = KEPT.rglob(f"{name}.json")
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def sealed(record: dict[str, Any]) -> dict[str, Any]:
    """The record with identifiers and digest that fit what was edited."""
    identity = canonical.plan_id(record["method"], record["plan"], record["parts"])
    for row in record["releases"]:
        row["plan_id"] = identity if row["plan_id"] == record["plan_id"] else row["plan_id"]
    record |= {"plan_id": identity, "signature": None}
    record.pop("digest")
    return {**record, "digest": canonical.digest(record)}


def foreign_key(record: dict[str, Any]) -> None:
    record["plan"] = {"zz": {"method": "m", "plan": {}}}


def plan_in_a_plain_field(record: dict[str, Any]) -> None:
    record["plan"]["steps"] = {"method": "m", "plan": {}}


def unit_left_out(record: dict[str, Any]) -> None:
    del record["plan"]["unit"]


@pytest.mark.parametrize("edit", [foreign_key, plan_in_a_plain_field, unit_left_out], ids=lambda edit: edit.__name__)
def test_a_plan_that_cannot_be_is_refused_and_excuses_nothing(edit: Callable[[dict[str, Any]], None]) -> None:
    record = kept("synthesis")
    edit(record)
    record["assumptions"].append({"code": "kept_apart", "words": "x"})
    record["covered"] = [{"code": "own_words", "words": "all that is ever computed"}]
    with pytest.raises(CertificateError):
        Certificate.from_json(sealed(record)).verify()


def test_an_empty_word_for_a_policy_is_refused_before_it_is_shown() -> None:
    record = kept("synthesis")
    record["assumptions"].append({"code": "evaluated", "policy": ""})
    with pytest.raises(CertificateError, match="a policy of no known code"):
        Certificate.from_json(sealed(record))


def test_where_a_piece_is_a_user_s_own_the_page_says_what_follows_from_nothing() -> None:
    own = Certificate.from_json(kept("signed"))
    declared = own.verify().declared
    for name in ("unit", "names, clips and rows of the parts", "covered"):
        assert name in declared
    assert "names, clips and rows of the parts" in own.to_markdown()
    assert "names, clips and rows of the parts" not in Certificate.from_json(kept("synthesis")).to_markdown()
