"""The label: a certificate in the words of NIST SP 800-226 and of the registry of deployments."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from test_certificate import DENOISER, build

from tacit.cli import main
from tacit.errors import CertificateError
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.certificate.markdown import guarantees, label, trust_model
from tacit.privacy.mechanisms.base import certificate_parts
from tacit.privacy.mechanisms.device_sums import DeviceSum, LaplaceSum

ASKED = (
    *("privacy_parameters", "unit_of_privacy", "algorithms_and_correctness", "utility_and_bias", "trust_model"),
    *("queries", "side_channels", "security_and_access_control", "data_collection"),
)
TIERS = {
    "basic": {"name", "data_curators", "intended_use", "data_product_type", "data_product_region", "description"},
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {"privacy_unit", "privacy_parameters"},
    "deployment_model": {"model_name", "actors", "release_type", "data_source_type", "access_type"},
    "accounting": {"post_processing", "composition"},
    "implementation": {"preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"},
    "administrative": {"sources", "registry_authors"},
}


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return build()


def test_what_it_says_is_what_the_certificate_says(certificate: Certificate) -> None:
    found = json.loads(json.dumps(label(certificate.to_json()), allow_nan=False))
    assert tuple(found["nist_sp_800_226"]) == ASKED
    assert found["certificate"] == {"format": 1, "digest": certificate.digest}
    loss = found["registry"]["deployment"]["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": certificate.epsilon, "delta": certificate.delta}
    assert loss["privacy_unit"] == "patient-level"
    assert "whether any one patient, with all their records," in loss["privacy_unit_details"]
    sides = found["nist_sp_800_226"]["side_channels"]
    assert any("timing" in one for one in sides)
    assert any("floating point" in one for one in sides)


def test_the_draft_has_the_fields_of_the_registry_and_invents_nothing(certificate: Certificate) -> None:
    deployment = label(certificate.to_json())["registry"]["deployment"]
    assert set(deployment) == set(TIERS)
    for section, fields in TIERS.items():
        assert fields <= set(deployment[section]), section
    unknown = [deployment["basic"][name] for name in ("name", "data_curators", "intended_use", "data_product_region")]
    assert [*unknown, deployment["implementation"]["justification"]] == [None] * 5


def test_the_curve_agrees_with_the_promise(certificate: Certificate) -> None:
    rows = label(certificate.to_json())["trade_off"]
    for row in rows:
        line = 1 - certificate.delta - math.exp(certificate.epsilon) * row["false_alarms"]
        assert row["missed_at_least"] >= line - 2e-6
        assert row["missed_at_least"] <= 1 - row["false_alarms"]


def test_without_a_promise_it_promises_nothing() -> None:
    void = build(void_reason="a look", epsilon_target=None, audit=None)
    found = label(void.to_json())
    assert guarantees(void.to_json())["privacy_parameters"]["definition"] == "none: nothing is promised"
    assert found["registry"]["deployment"]["privacy_loss"]["privacy_parameters"] == {}
    assert {row["missed_at_least"] for row in found["trade_off"]} == {0.0}


def test_who_is_trusted_follows_from_the_parts() -> None:
    summed = {"name": "sum", "steps": 1, "devices": 100, "clip_norm": 1.0, "noise_multiplier": 1.0}
    local, shared = (certificate_parts([DeviceSum(noise=noise, **summed)])[0] for noise in ("device", "shared"))  # type: ignore[arg-type]
    numbers = certificate_parts([LaplaceSum(name="sum", steps=1, size=2, bound=1.0, noise_multiplier=9.0)])[0]
    assert trust_model([local, numbers]) == "Local"
    assert trust_model([shared]) == "Federated"
    assert trust_model([DENOISER]) == trust_model([local, DENOISER]) == "Central"


def test_the_command_prints_it_and_refuses_an_edited_certificate(
    certificate: Certificate, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certificate.save(tmp_path / "certificate.json")
    assert main(["certificate", "label", str(tmp_path / "certificate.json")]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(label(certificate.to_json())))
    edited = certificate.to_json() | {"epsilon": 0.1}
    (tmp_path / "edited.json").write_text(json.dumps(edited))
    assert main(["certificate", "label", str(tmp_path / "edited.json")]) == CertificateError.exit_code
