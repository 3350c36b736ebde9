"""Certificates of released prefixes: what they recompute, what they print of logs and of clones, what they refuse."""

from __future__ import annotations

import dataclasses
from typing import Any

import jsonschema
import pytest
from test_certificate import build, edits, leaves, put, redigested, verify

from tacit.errors import AccountingError, CertificateError
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting import table as accounting_table
from tacit.privacy.accounting.events import flatten
from tacit.privacy.certificate import fields as certificate_fields
from tacit.privacy.certificate.certificate import schema
from tacit.privacy.certificate.markdown import mechanisms
from tacit.privacy.mechanisms.above_threshold import AboveThreshold
from tacit.privacy.mechanisms.base import certificate_parts
from tacit.privacy.mechanisms.kinds import part_from_json
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.mechanisms.thresholds import KappaStop, PMin
from tacit.units import Unit

PREFIXES = AboveThreshold(
    name="prefixes",
    trajectories=25,
    horizon=200,
    actions=2,
    experts=3_000,
    floor=PMin(0.05),
    epsilon=0.25,
    delta=2e-6,
    source="logs",
)
CLONES = AboveThreshold(
    name="prefixes",
    trajectories=20,
    horizon=50,
    actions=4,
    experts=3_000,
    floor=KappaStop(0.02),
    epsilon=0.4,
    delta=2e-6,
    source="clones",
    rows_per_unit=4_000,
)
POOL = PoissonSum(
    name="pool",
    steps=400,
    sampling_rate=0.085,
    clip_norm=1.0,
    noise_multiplier=5.0,
    rows="drawn",
    held_out=PREFIXES.held_out,
)
EXPERTS: dict[str, Any] = {
    "unit": Unit("expert", "add_or_remove", 3_000),
    "delta": 1e-4,
    "epsilon_target": None,
    "audit": None,
    "budget": (20.0, 1e-3),
}


def stated(*parts: AboveThreshold | PoissonSum) -> list[dict[str, Any]]:
    return certificate_parts(parts)


SETS = {
    "logs": stated(PREFIXES),
    "logs and a pool": stated(PREFIXES, POOL),
    "clones": stated(CLONES),
}


@pytest.mark.parametrize("parts", SETS.values(), ids=SETS.keys())
def test_no_edited_leaf_survives_a_new_digest(parts: list[dict[str, Any]]) -> None:
    built = build(parts=parts, **EXPERTS)
    jsonschema.validate(built.to_json(), schema())
    assert built.verify().private
    survivors, checked = [], 0
    for path, value in leaves({"parts": built.to_json()["parts"]}):
        for edit in edits(value):
            record = built.to_json()
            put(record, path, edit)
            checked += 1
            try:
                verify(redigested(record))
                survivors.append((path, edit))
            except CertificateError:
                pass
    assert not survivors
    assert checked > 20


def test_parts_and_certificate_account_for_the_same_event() -> None:
    for part in (PREFIXES, CLONES):
        assert flatten(certificate_fields.parts_event(stated(part))) == flatten(part.event)
    built = build(parts=SETS["logs and a pool"], **EXPERTS)
    event = certificate_fields.parts_event(SETS["logs and a pool"])
    bound = accounting.epsilon(event, delta=1e-4, relation="add_or_remove")
    assert built.epsilon == accounting.round_up(bound.epsilon, 6)
    assert [row["name"] for row in built.accountants] == [accounting_table.PLD, accounting_table.MIXED]
    assert [row["delta"] for row in built.profile] == [1e-3, 1e-4]


def test_of_logs_it_says_that_policies_are_protected_and_nothing_else() -> None:
    built = build(parts=SETS["logs and a pool"], **EXPERTS)
    assert "The policy of every expert is protected; its logs, which are published in part, are not." in built.sentence
    assert "whether any one expert's policy is among those that were learnt from or not" in built.sentence
    assert "However much else somebody knows, the logs apart," in built.to_markdown()
    assumed, told = " ".join(built.lines("assumptions")), mechanisms(built.to_json())
    for words in (
        "at least 3,000 experts is public",
        "which policies the experts follow",
        "stay secret",
        "drawn by the policies that are counted",
        "one environment that is the same for all experts",
        "no expert gives any action a probability below 0.05",
    ):
        assert words in assumed
    assert "states, actions, rewards and transitions" in built.lines("not_protected")[0]
    assert "one for at most 1" in told[0].replace("one expert for", "one for")
    for number in ("25", "200", "3,000", "0.05", "0.25", "2e-06", str(PREFIXES.held_out)):
        assert number in told[0]
    assert f"{PREFIXES.held_out} of its episodes left out" in told[1]
    assert "above_threshold" in built.to_markdown()
    kappa = build(parts=stated(dataclasses.replace(PREFIXES, floor=KappaStop(0.05))), **EXPERTS)
    assert "no expert gives any action" not in " ".join(kappa.lines("assumptions"))
    assert "stopped with probability 0.05" in mechanisms(kappa.to_json())[0]


def test_of_clones_it_protects_all_of_a_log_and_needs_no_floor_or_environment() -> None:
    built = build(parts=SETS["clones"], **EXPERTS)
    assert "published in part" not in built.sentence
    assert "the simulator in which the clones were played is public" in " ".join(built.lines("assumptions"))
    assert "environment" not in " ".join(built.lines("assumptions"))
    assert built.lines("not_protected") == ["what a population has in common"]
    assert "its clone, made from at most its first 4,000 rows" in mechanisms(built.to_json())[0]


@pytest.mark.parametrize("field", ["assumptions", "not_protected"])
def test_what_a_part_takes_for_granted_cannot_be_left_out(field: str) -> None:
    built = build(parts=SETS["logs"], **EXPERTS)
    required = {
        "assumptions": part_from_json(SETS["logs"][0]).assumptions(),
        "not_protected": part_from_json(SETS["logs"][0]).not_protected(),
    }[field]
    for words in required:
        record = built.to_json()
        record[field] = [one for one in record[field] if one != words]
        with pytest.raises(CertificateError, match=field):
            verify(redigested(record))


LOGS = SETS["logs"][0]
CONTRADICTIONS = {
    "a threshold beyond all experts": (LOGS | {"experts": 30}, "unreachable threshold"),
    "a floor above 1 / A": (LOGS | {"actions": 25}, "floor"),
    "a higher floor, two actions": (LOGS | {"floor": {"kind": "p_min", "probability": 0.51}}, "floor"),
    "more trajectories than are held out": (LOGS | {"trajectories": 10**9, "epsilon": 1e-8}, "epsilon"),
    "rows of logs": (LOGS | {"rows_per_unit": 3}, "rows_per_unit"),
    "clones made from nothing": (SETS["clones"][0] | {"rows_per_unit": 0}, "rows_per_unit"),
    "an unknown floor": (LOGS | {"floor": {"kind": "None", "probability": 0.05}}, "another type"),
    "an unknown field": (LOGS | {"hidden": 1}, "unknown"),
    "epsilon 0": (LOGS | {"epsilon": 0.0}, "epsilon"),
    "two experts": (LOGS | {"experts": 2, "trajectories": 10**9}, "experts|epsilon"),
}


@pytest.mark.parametrize(("part", "field"), CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_parts_that_contradict_themselves_are_refused(part: dict[str, Any], field: str) -> None:
    with pytest.raises((CertificateError, AccountingError), match=field):
        build(parts=[part], **EXPERTS)


def test_a_part_of_an_unknown_kind_is_called_so() -> None:
    record = build(parts=SETS["logs"], **EXPERTS).to_json()
    record["parts"][0]["kind"] = "hearsay"
    with pytest.raises(CertificateError, match=r"the field 'kind' is 'hearsay'"):
        verify(redigested(record))


def test_a_reserve_is_read_once() -> None:
    for parts, field in (
        (stated(PREFIXES, dataclasses.replace(PREFIXES, name="again")), "source"),
        ([*SETS["logs"], stated(POOL)[0] | {"held_out": 0}], "held_out"),
        ([*SETS["logs"], stated(POOL)[0] | {"held_out": POOL.held_out - 1}], "held_out"),
    ):
        with pytest.raises(CertificateError, match=field):
            build(parts=parts, **EXPERTS)
    assert build(parts=[*SETS["clones"], stated(POOL)[0]], **EXPERTS).private
    both = stated(CLONES, dataclasses.replace(CLONES, name="again"))
    assert build(parts=both, **EXPERTS).private


def test_it_is_proved_for_added_and_removed_experts_alone() -> None:
    with pytest.raises(CertificateError, match="kind"):
        build(parts=SETS["clones"], **(EXPERTS | {"unit": Unit("expert", "replace_one", 3_000)}))
