"""Certificates of sums over devices: nothing in them can be edited alone, and they say what they rest on."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from test_certificate import build, edits, leaves, put, redigested, verify

from tacit.errors import CertificateError
from tacit.privacy.accounting import bounds as accounting
from tacit.privacy.accounting import table as accounting_table
from tacit.privacy.accounting.events import GaussianEvent, RandomizedResponseEvent, SelfComposedEvent, flatten
from tacit.privacy.certificate import fields as certificate_fields
from tacit.privacy.certificate.certificate import schema
from tacit.privacy.mechanisms.base import Part, certificate_parts
from tacit.privacy.mechanisms.device_sums import DeviceSum, LaplaceSum
from tacit.privacy.mechanisms.responses import RandomizedResponses
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.units import Relation, Unit

SHARED = DeviceSum(
    name="moves", steps=3, devices=5_000, clip_norm=1.0, noise="shared", noise_multiplier=30.0, floor=4_500, bits=16
)
OWN = DeviceSum(name="rewards", steps=4, devices=4_000, clip_norm=0.5, noise="device", noise_multiplier=12.0)
PAPER = LaplaceSum(name="queries", steps=50, size=141, bound=0.5, noise_multiplier=200.0, rows_per_unit=47)
STARTS = PoissonSum(name="starts", steps=1, sampling_rate=1.0, clip_norm=1.0, noise_multiplier=8.0, rows="first")
SETS: dict[str, tuple[Any, ...]] = {
    "shared": (SHARED,),
    "each device": (OWN,),
    "laplace": (PAPER,),
    "laplace and starts": (PAPER, STARTS),
    "shared and starts": (SHARED, STARTS),
}


def stated(name: str) -> list[dict[str, Any]]:
    return certificate_parts(SETS[name])


def people(relation: Relation = "add_or_remove") -> dict[str, Any]:
    return {"unit": Unit("person", relation, 5_000), "epsilon_target": None, "audit": None, "budget": (50.0, 1e-3)}


ANSWERS = RandomizedResponses(name="votes", steps=9, users=9, answers=5, noise_multiplier=0.625)


@pytest.mark.parametrize("part", [SHARED, ANSWERS], ids=lambda part: part.name)
def test_a_certificate_from_before_a_sharper_lemma_is_true_and_one_that_states_less_is_refused(part: Part) -> None:
    former = build(parts=certificate_parts([part]), **(people() | {"event": part.former_event}))
    now = build(parts=certificate_parts([part]), **(people() | {"event": part.event}))
    assert former.verify().private
    assert former.epsilon > 1.05 * now.epsilon
    assert now.to_json()["mu_range"] == "upper_bound"
    less = GaussianEvent(40.0) if part is SHARED else SelfComposedEvent(RandomizedResponseEvent(1.0), 5)
    with pytest.raises(CertificateError, match="compose"):
        build(parts=certificate_parts([part]), **(people() | {"event": less})).verify()


@pytest.mark.parametrize("name", SETS)
def test_no_edited_leaf_survives_a_new_digest(name: str) -> None:
    built = build(parts=stated(name), **people())
    jsonschema.validate(built.to_json(), schema())
    assert built.verify().private
    survivors = []
    for path, value in leaves({"parts": built.to_json()["parts"]}):
        for edit in edits(value):
            record = built.to_json()
            put(record, path, edit)
            try:
                verify(redigested(record))
                survivors.append((path, edit))
            except CertificateError:
                pass
    assert not survivors


@pytest.mark.parametrize("name", SETS)
def test_parts_and_certificate_account_for_the_same_event_under_both_relations(name: str) -> None:
    for part, fields in zip(SETS[name], stated(name), strict=True):
        assert flatten(certificate_fields.parts_event([fields])) == flatten(part.event)
    event = certificate_fields.parts_event(stated(name))
    for relation in ("add_or_remove", "replace_one"):
        built = build(parts=stated(name), **people(relation))  # type: ignore[arg-type]
        told = {row["relation"]: row["epsilon"] for row in built.relations}
        for under in ("add_or_remove", "replace_one"):
            bound = accounting.epsilon(event, delta=1e-6, relation=under)  # type: ignore[arg-type]
            assert told[under] == accounting.round_up(bound.epsilon, 6)
        assert built.epsilon == told[relation]


def test_the_accountants_are_those_of_the_noise() -> None:
    names = {name: [row["name"] for row in build(parts=stated(name), **people()).accountants] for name in SETS}
    assert names["laplace"] == names["laplace and starts"] == [accounting_table.PLD, accounting_table.FOURIER]
    assert names["shared"] == names["shared and starts"] == [accounting_table.PLD, accounting_table.CLOSED_FORM]
    assert names["each device"] == [accounting_table.PLD, accounting_table.CLOSED_FORM]


def test_what_is_taken_for_granted_is_said() -> None:
    shared, own, paper = (
        {one["code"] for one in build(parts=stated(name), **people()).assumptions}
        for name in ("shared", "each device", "laplace")
    )
    assert {"noise_shares", "who_answers"} <= shared
    assert "noise_shares" not in own
    assert "who_answers" in own - paper


def test_the_published_noise_is_certified_with_its_large_epsilon() -> None:
    """Noise 0.01 on means of 83 people: not private by any standard, but told."""
    part = LaplaceSum(name="queries", steps=50, size=141, bound=0.5, noise_multiplier=0.01 * 83 / 0.5)
    plain = certificate_parts([part])
    unit = Unit("person", "replace_one", 83)
    built = build(parts=plain, **(people() | {"unit": unit, "delta": 1e-5, "budget": (5_000.0, 1e-3)}))
    assert 3_850 <= built.epsilon <= 3_930
    assert "100 %" in built.to_markdown() or "(3888.71, 1e-05)" in built.sentence
