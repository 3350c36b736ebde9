"""Certificates: what they hold, that they recompute, and that no edited field survives."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from dp_accounting import dp_event
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import AccountingError, CertificateError
from tacit.privacy.accounting.events import GaussianEvent
from tacit.privacy.accounting.filters import SUM
from tacit.privacy.certificate import canonical as certificate_json
from tacit.privacy.certificate import fields as certificate_fields
from tacit.privacy.certificate.certificate import Certificate, Release, schema
from tacit.privacy.certificate.markdown import mechanisms
from tacit.privacy.mechanisms.base import OwnProof, certificate_parts
from tacit.privacy.mechanisms.releases import Axis, NoisyHistogram
from tacit.privacy.mechanisms.sums import FixedSizeSum, PoissonSum
from tacit.privacy.sentences import LISTS
from tacit.units import Unit

UNIT = Unit("patient", "add_or_remove", 100_000)
BINS = Axis("observations", 0, tuple(float(edge) for edge in range(9)))
(DENOISER,) = certificate_parts(
    [PoissonSum(name="denoiser", steps=300, sampling_rate=0.02, clip_norm=1.5, noise_multiplier=1.2, rows_per_unit=4)]
)
(HISTOGRAM,) = certificate_parts([NoisyHistogram(name="starts", axes=(BINS,), noise_multiplier=40.0)])
(FIXED_SIZE,) = certificate_parts(
    [
        FixedSizeSum(
            name="gradient",
            steps=300,
            batch_size=20,
            population=5_000,
            clip_norm=1.5,
            noise_multiplier=2.0,
            rows_per_unit=40,
            rows="first",
        )
    ]
)
HALVES = certificate_parts(
    [
        PoissonSum(
            name=f"half {fold}",
            steps=10,
            sampling_rate=1.0,
            clip_norm=1.0,
            noise_multiplier=30.0 - 10 * fold,
            rows_per_unit=40,
            rows="first",
            fold=fold,  # type: ignore[arg-type]
        )
        for fold in (0, 1)
    ]
)
(OWN_PROOF,) = certificate_parts(
    [OwnProof(kind="smooth_sensitivity", name="regression", epsilon=0.8, delta=1e-7, rows_per_unit=40)]
)
TRAJECTORY = {"unit": Unit("trajectory", "replace_one", 5_000), "epsilon_target": None, "audit": None}


PLAN = {"steps": 300, "rate": 0.02, "hidden": [256, 256], "paper": False, "name": None}


OTHER = {
    "plan_id": "0a0b",
    "method": "off-policy evaluation",
    "epsilon": 0.25,
    "delta": 1e-7,
    "rdp": None,
    "mu": None,
    "fold": None,
}


def planned(unit: Unit = UNIT) -> dict[str, Any]:
    """The public fields of a plan for this unit."""
    return {**PLAN, "unit": {"name": unit.name, "relation": unit.relation, "population": unit.size}}


OWN_ID = certificate_json.plan_id("synthesis of transitions", planned(), [DENOISER, HISTOGRAM])


def build(**changes: Any) -> Certificate:
    parts = changes.pop("parts", [DENOISER, HISTOGRAM])
    plan = changes.pop("plan", planned(changes.get("unit", UNIT)))
    arguments: dict[str, Any] = {
        "method": "synthesis of transitions",
        "source": "PrivORL (arXiv 2512.07342)",
        "unit": UNIT,
        "event": certificate_fields.parts_event(parts),
        "parts": parts,
        "delta": 1e-6,
        "plan_id": certificate_json.plan_id(changes.get("method", "synthesis of transitions"), plan, parts),
        "plan": plan,
        "ledger_head": "ab" * 32,
        "dataset_id": "cd" * 16,
        "simulated": False,
        "void_reason": None,
        "releases": [OTHER],
        "budget": (8.0, 1e-5),
        "composition": SUM,
        "covered": ["every training step"],
        "not_covered": ["pre-training on public data (declared: physics)"],
        "assumptions": ["the user's callback keeps units apart"],
        "not_protected": ["what a population has in common"],
        "epsilon_target": 4.0,
        "audit": {"lower_bound": 0.5, "confidence": 0.95, "method": "worst-case canaries"},
        "commit": "8ade612",
    }
    return Certificate.build(**(arguments | changes))


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return build()


def redigested(record: dict[str, Any]) -> dict[str, Any]:
    record["digest"] = certificate_json.digest(record)
    return record


def verify(record: dict[str, Any]) -> None:
    Certificate.from_json(record).verify()


def test_it_recomputes_and_says_the_same_as_the_accountants(certificate: Certificate) -> None:
    found = certificate.verify()
    assert found.private
    assert found.signed_by is None
    assert found.epsilon == certificate.epsilon == pytest.approx(found.check_epsilon, rel=5e-3)
    assert found.digest == certificate.digest
    assert certificate.total["epsilon"] == pytest.approx(certificate.epsilon + 0.25, rel=1e-5)
    assert [row["plan_id"] for row in certificate.releases] == ["0a0b", OWN_ID]
    assert f"({certificate.epsilon:.6g}, 1e-06)-differential privacy for every patient" in certificate.sentence


def test_json_and_files_round_trip(certificate: Certificate, tmp_path: Path) -> None:
    text = json.dumps(certificate.to_json(), allow_nan=False)
    assert Certificate.from_json(json.loads(text)) == certificate
    certificate.save(tmp_path / "certificate.json")
    assert Certificate.load(tmp_path / "certificate.json") == certificate
    assert [path.name for path in tmp_path.iterdir()] == ["certificate.json"]


def test_it_is_read_only(certificate: Certificate) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        certificate.epsilon = 0.1  # type: ignore[misc]
    with pytest.raises(TypeError):
        certificate.unit["population"] = 10**9  # type: ignore[index]
    assert hash(certificate) == hash(copy.copy(certificate))


def test_its_json_follows_the_published_schema(certificate: Certificate) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(certificate.to_json(), schema())
    assert set(schema()["properties"]) == {field.name for field in dataclasses.fields(Certificate)}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.sampled_from(["", "inf", "x", "ab" * 32]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["kind", "name"]), inner, max_size=2),
    max_leaves=3,
)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_what_the_schema_refuses_is_not_read(certificate: Certificate, data: st.DataObject) -> None:
    record = certificate.to_json()
    path = data.draw(st.sampled_from([path for path, _ in leaves(record) if path[0] not in ("event", "plan")]))
    put(record, path[: data.draw(st.integers(1, len(path)))], data.draw(JSON))
    if not jsonschema.Draft202012Validator(schema()).is_valid(record):
        with pytest.raises(CertificateError):
            verify(record)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
    for key, item in items or ():
        yield from leaves(item, (*path, key))


def put(record: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        record = record[key]
    record[path[-1]] = value


def edits(value: Any) -> list[Any]:
    """Small and plausible edits of a leaf, of the same type where there is one."""
    if value is None:
        return ["invented", 1.0]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, max(value - 1, 0) if value > 1 else value + 2]
    if isinstance(value, float):
        return [value * 0.9, value * 1.1] if value else [1e-3]
    return [value + " (edited)", value[:-1] + ("0" if value[-1] != "0" else "1")]


def test_no_edited_leaf_survives(certificate: Certificate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every leaf of the signed certificate, edited alone, is caught (the accountants' work is not repeated here)."""
    signed = certificate.sign(Ed25519PrivateKey.generate())
    survivors, checked = [], 0
    for path, value in leaves(signed.to_json()):
        for edit in edits(value):
            record = signed.to_json()
            put(record, path, edit)
            checked += 1
            try:
                verify(record)
                survivors.append((path, edit))
            except CertificateError:
                pass
    assert not survivors
    assert checked > 200


# Leaves that carry free text, identifiers or what nothing else says: a digest or a signature guards them alone.
FREE = {
    *((name,) for name in ("source", "ledger_head", "dataset_id", "commit", "date", "target_epsilon", "digest")),
    *((name,) for name in ("audit", "versions", "signature", "simulated")),
    *((name,) for name in LISTS),
}


def free(path: tuple[Any, ...]) -> bool:
    if path[:2] in FREE or path[:1] in FREE:
        return True
    if path[:2] == ("releases", 0):
        return path[2] in ("plan_id", "method", "fold")
    if path[:1] == ("total",):
        return path[1] in ("composition", "budget_epsilon", "ceiling_epsilon", "budget_delta")
    return False


def test_no_derived_leaf_survives_an_edit_even_with_a_new_digest(certificate: Certificate) -> None:
    survivors, checked = [], 0
    for path, value in leaves(certificate.to_json()):
        if free(path):
            continue
        for edit in edits(value):
            record = certificate.to_json()
            put(record, path, edit)
            checked += 1
            try:
                verify(redigested(record))
                survivors.append((path, edit))
            except CertificateError:
                pass
    assert not survivors
    assert checked > 100


@pytest.mark.parametrize(
    ("path", "edit", "field"),
    [
        (("epsilon",), 0.5, "releases.epsilon"),
        (("mu",), 0.1, "mu"),
        (("profile", 2, "epsilon"), 0.1, "profile[2].epsilon"),
        (("private",), False, "private"),
        (("mu_range",), "upper_bound", "mu_range"),
        (("parts", 0, "steps"), 30, "parts"),
        (("parts", 0, "clip_norm"), 0.1, "plan_id"),
        (("delta",), 1e-4, "delta"),
        (("releases", 1, "epsilon"), 0.1, "releases.epsilon"),
        (("total", "budget_epsilon"), 0.1, "total.budget_epsilon"),
        (("total", "ceiling_epsilon"), 7.9, "total.ceiling_epsilon"),
        (("audit", "lower_bound"), 50.0, "audit.lower_bound"),
        (("target_epsilon",), 0.1, "target_epsilon"),
        (("event", "events", 0, "count"), 10**9, "event"),
        (("date",), "2026-13-41T00:00:00Z", "date"),
    ],
)
def test_the_error_names_the_field(certificate: Certificate, path: tuple[Any, ...], edit: Any, field: str) -> None:
    record = certificate.to_json()
    put(record, path, edit)
    with pytest.raises(CertificateError) as caught:
        verify(redigested(record))
    assert f"{field!r}" in str(caught.value)


def test_an_edited_file_with_the_old_digest_is_refused(certificate: Certificate) -> None:
    record = certificate.to_json()
    record["source"] = "another paper"
    with pytest.raises(CertificateError, match="digest"):
        verify(record)


def test_missing_and_unknown_fields_are_refused(certificate: Certificate) -> None:
    for name in certificate.to_json():
        record = certificate.to_json()
        del record[name]
        with pytest.raises(CertificateError, match=name):
            Certificate.from_json(record)
    with pytest.raises(CertificateError, match="records"):
        Certificate.from_json(certificate.to_json() | {"records": 1_000})


def test_hostile_files_are_refused(certificate: Certificate, tmp_path: Path) -> None:
    good = json.dumps(certificate.to_json())
    files = {
        "huge": '{"x": "' + "a" * certificate_json.MAX_BYTES + '"}',
        "deep": "[" * 100_000,
        "deep object": json.dumps(certificate.to_json() | {"plan": json.loads('{"a":' * 60 + "1" + "}" * 60)}),
        "truncated": good[:-40],
        "repeated": good[:-1] + ', "private": true}',
        "nan": good.replace(f'"epsilon": {certificate.epsilon}', '"epsilon": NaN', 1),
        "number": "1",
        "empty": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(CertificateError):
            Certificate.load(path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("binary", "absent"):
        with pytest.raises(CertificateError):
            Certificate.load(tmp_path / name)


def test_a_failed_save_leaves_the_old_file_and_no_litter(
    certificate: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "certificate.json"
    target.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="space"):
        certificate.save(target)
    assert target.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_signatures(certificate: Certificate) -> None:
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    public, stranger = (k.public_key().public_bytes_raw().hex() for k in (key, other))
    signed = certificate.sign(key)
    assert signed.digest == certificate.digest
    assert signed.verify().signed_by == signed.verify(public_key=public).signed_by == public
    with pytest.raises(CertificateError, match="another key"):
        signed.verify(public_key=stranger)
    with pytest.raises(CertificateError, match="missing"):
        certificate.verify(public_key=public)
    forged = redigested(signed.to_json() | {"source": "another paper"})
    with pytest.raises(CertificateError, match="not valid"):
        verify(forged)
    resigned = Certificate.from_json(forged).sign(other)
    resigned.verify()  # consistent in itself: only a key that the reader knows tells
    with pytest.raises(CertificateError, match="another key"):
        resigned.verify(public_key=public)


def test_whole_numbers_digest_alike_as_integers_and_floats(certificate: Certificate) -> None:
    record = certificate.to_json()
    record["parts"][1]["noise_multiplier"] = 40
    assert certificate_json.digest(record) == certificate.digest
    verify(record)


VOID = {
    "seeded noise": {"void_reason": "seeded noise"},
    "no noise": {"parts": [{**DENOISER, "noise_multiplier": 0.0}], "epsilon_target": None, "audit": None},
}


@pytest.mark.parametrize("changes", VOID.values(), ids=VOID.keys())
def test_what_is_not_private_says_so_first(changes: dict[str, Any]) -> None:
    void = build(**changes)
    assert not void.private
    assert not void.verify().private
    assert void.sentence.startswith("NOT PRIVATE")
    assert void.to_markdown().splitlines()[2].startswith("> 🔴 **NOT PRIVATE")
    assert math.isinf(void.epsilon) == ("parts" in changes)
    jsonschema.validate(void.to_json(), schema())
    with pytest.raises(CertificateError):
        verify(redigested(void.to_json() | {"private": True}))
    with pytest.raises(CertificateError):
        verify(redigested(void.to_json() | {"private": True, "void_reason": None, "epsilon": 1.0}))


def test_simulated_records_are_named_as_such() -> None:
    simulated = build(simulated=True)
    assert simulated.private
    assert "declared simulated" in simulated.sentence
    other = Certificate.from_json(redigested(simulated.to_json() | {"simulated": False}))
    assert "declared simulated" not in other.sentence
    assert "simulated" in other.verify().declared


PARTS = {
    "a sample of fixed size": [FIXED_SIZE],
    "two halves and a sum over everybody": [DENOISER, *HALVES],
    "one half": [HALVES[1]],
    "fixed size, Poisson and halves": [FIXED_SIZE, DENOISER, *HALVES],
    "a proof of its own": [OWN_PROOF],
    "pure privacy": [OWN_PROOF | {"kind": "noisy_max", "delta": 0.0}],
}


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS.keys())
def test_no_edited_leaf_of_any_kind_of_part_survives_a_new_digest(parts: list[dict[str, Any]]) -> None:
    built = build(parts=parts, **TRAJECTORY)
    jsonschema.validate(built.to_json(), schema())
    assert built.verify().private
    survivors = []
    for path, value in leaves({"parts": built.to_json()["parts"]}):
        for edit in edits(value):
            record = built.to_json()
            put(record, path, edit)
            try:
                verify(redigested(record))
                survivors.append(path)
            except CertificateError:
                pass
    assert not survivors


def test_an_edited_field_of_the_plan_is_found_by_its_identifier() -> None:
    nested = {"clone": None, "people": {"name": "patient"}, "most": "inf", "rates": [0.5, 1.0]}
    record = build(plan=nested).to_json()
    for path, value in leaves({"plan": nested}):
        for edit in edits(value):
            changed = copy.deepcopy(record)
            put(changed, path, edit)
            with pytest.raises(CertificateError, match="plan_id"):
                verify(redigested(changed))
    with pytest.raises(CertificateError, match="plan_id"):
        build(method="another", plan_id=OWN_ID)
    assert certificate_json.plan_id("m", {"a": 1.0}, []) == certificate_json.plan_id("m", {"a": 1}, [])


def test_halves_cost_what_the_dearer_one_costs() -> None:
    halves, dearer = (build(parts=parts, **TRAJECTORY) for parts in (HALVES, HALVES[1:]))
    assert halves.epsilon == dearer.epsilon == pytest.approx(build(parts=HALVES[1:], **TRAJECTORY).epsilon)
    together = build(parts=[part | {"fold": None} for part in HALVES], **TRAJECTORY)
    assert together.epsilon > 1.1 * halves.epsilon
    assert "every trajectory of half 1 of two" in mechanisms(halves.to_json())[1]


def test_what_a_part_reads_and_how_it_samples_is_in_words() -> None:
    assert mechanisms(build().to_json())[0] == (
        "denoiser (poisson_sum): 300 noisy sum(s) over a Poisson sample of patients at rate 0.02 (about 2,000 of "
        "100,000), fresh every step; one patient adds to one sum a vector of norm at most 1.5 made from at most 4 "
        "of its rows, under noise of standard deviation 1.8 a number"
    )
    fixed, own = build(parts=[FIXED_SIZE], **TRAJECTORY), build(parts=[OWN_PROOF], **TRAJECTORY)
    (line,) = mechanisms(fixed.to_json())
    assert "20 of 5,000 places, drawn without replacement" in line
    assert "made from its first 40 rows in order of time" in line
    assert (fixed.mu_range, own.mu_range) == ("up_to_epsilon", "up_to_epsilon")
    assert "upper bound, for every epsilon from 0 to" in fixed.to_markdown()
    assert mechanisms(own.to_json())[0].endswith("(0.8, 1e-07)-differentially private by its own proof")
    assert own.epsilon < 0.8  # at delta 1e-6, above the mechanism's own
    assert build(parts=[OWN_PROOF | {"delta": 0.0}], **TRAJECTORY).mu_range == "upper_bound"
    assert line in fixed.to_markdown()
    assert "smooth_sensitivity" in own.to_markdown()


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ([FIXED_SIZE | {"population": 6_000}], "population"),
        ([FIXED_SIZE | {"batch_size": 5_001}], "batch_size"),
        ([HALVES[0] | {"sampling_rate": 0.5}], "fold is 0"),
        ([HISTOGRAM | {"fold": 0}], "unknown"),
        ([OWN_PROOF | {"steps": 2}], "unknown"),
        ([OWN_PROOF | {"delta": 1e-5}], "delta"),
        ([{key: value for key, value in OWN_PROOF.items() if key != "epsilon"}], "missing"),
        ([DENOISER | {"kind": "unheard_of"}], "kind"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_parts_that_contradict_themselves_are_refused(parts: list[dict[str, Any]], field: str) -> None:
    with pytest.raises((AccountingError, CertificateError, KeyError), match=field):
        build(parts=parts, **TRAJECTORY)


def test_fixed_size_samples_protect_only_those_who_are_replaced() -> None:
    with pytest.raises(AccountingError, match="no certified bound exists"):
        build(parts=[FIXED_SIZE], **TRAJECTORY | {"unit": Unit("trajectory", "add_or_remove", 5_000)})


@pytest.mark.parametrize(
    ("relation", "neighbours"),
    [
        ("add_or_remove", "whether any one patient, with all their records, is in the data or not"),
        ("replace_one", "which records any one patient contributed (its number of records included)"),
    ],
)
def test_both_relations_of_units_that_a_column_names(relation: Any, neighbours: str) -> None:
    built = build(unit=Unit("Pat-Nr.", relation, 5_000), epsilon_target=None)
    assert neighbours in built.sentence
    assert built.sentence.endswith("differential privacy for every patient.")
    assert built.unit["name"] == "Pat-Nr."
    assert built.verify().epsilon > 0


def test_inputs_that_do_not_fit_are_refused() -> None:
    for changes, field in (
        ({"delta": 1e-5}, "delta"),
        ({"event": GaussianEvent(100.0)}, "parts"),
        ({"parts": [{**DENOISER, "sampler": "every unit, every step"}]}, "unknown"),
        ({"parts": [{key: value for key, value in DENOISER.items() if key != "clip_norm"}]}, "missing"),
        ({"epsilon_target": 0.1}, "target_epsilon"),
        ({"audit": {"lower_bound": 99.0, "confidence": 0.95, "method": "canaries"}}, "audit"),
    ):
        if field in ("unknown", "missing"):
            changes["event"] = certificate_fields.parts_event([DENOISER])
        with pytest.raises((CertificateError, KeyError), match=field):
            build(**changes)
    with pytest.raises(AccountingError):
        build(event=dp_event.UnsupportedDpEvent())


def test_markdown_shows_every_part_and_cannot_be_broken_out_of() -> None:
    hostile = "<script>alert(1)</script> | [x](javascript:1) \n# heading"
    own = {"code": "own_words", "words": hostile}
    text = dataclasses.replace(build(), not_protected=(own,), covered=()).to_markdown()
    assert "<script" not in text
    assert "\n# heading" not in text
    assert "Nothing is declared." in text
    for word in ("denoiser", "starts", "worst-case canaries", "certified upper bound", "ab" * 32, "off-policy"):
        assert word in text


def test_verifying_needs_no_torch_and_no_data(certificate: Certificate, tmp_path: Path) -> None:
    certificate.save(tmp_path / "certificate.json")
    code = (
        "import sys\n"
        "from tacit.privacy.certificate.certificate import Certificate\n"
        f"print(Certificate.load({str(tmp_path / 'certificate.json')!r}).verify().epsilon)\n"
        "assert not {'torch', 'gymnasium', 'minari', 'pandas'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) == certificate.epsilon


def test_a_release_shows_its_value_by_kind_and_its_promise() -> None:
    certificate = build()
    assert repr(Release([8151.0] * 999, certificate)) == f"Release of list: {certificate.sentence}"
