"""What all releases of a ledger cost together, as certificates state it, and that it stays within the ceiling."""

from __future__ import annotations

import dataclasses
import json
import math
import runpy
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
from test_certificate import HISTOGRAM, OTHER, OWN_ID, OWN_PROOF, TRAJECTORY, build, redigested, verify

from tacit.errors import AccountingError, CertificateError, PlanError
from tacit.privacy.accounting.filters import Composition
from tacit.privacy.certificate import fields as certificate_fields
from tacit.privacy.mechanisms.base import certificate_parts
from tacit.privacy.mechanisms.device_sums import LaplaceSum
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.units import Unit

HALF = PoissonSum(
    name="half",
    steps=10,
    sampling_rate=1.0,
    clip_norm=1.0,
    noise_multiplier=30.0,
    rows_per_unit=40,
    rows="first",
)


def test_own_charge_as_the_ledger_made_it() -> None:
    epsilon = build().epsilon
    own = OTHER | {"plan_id": OWN_ID, "method": "synthesis of transitions", "epsilon": epsilon, "delta": 1e-6}
    assert build(releases=[own]).total["epsilon"] == pytest.approx(epsilon, rel=1e-5)
    for bad in (
        {"epsilon": 0.01},
        {"epsilon": 4.0},
        {"delta": 1e-9},
        {"delta": 2e-6},
        {"method": "other"},
        {"mu": 0.1},
        {"rdp": 0.1},
    ):
        with pytest.raises(CertificateError, match="releases"):
            build(releases=[own | bad])
    with pytest.raises(CertificateError, match="releases"):
        build(releases=[own, own])


def test_the_releases_are_within_the_budget_as_their_ledger_adds_them_up() -> None:
    with pytest.raises(CertificateError, match="budget_epsilon"):
        build(budget=(0.3, 1e-5))
    at_16, at_8 = Composition(1.0, 16.0), Composition(1.0, 8.0)
    with pytest.raises(CertificateError, match="budget_epsilon"):
        build(budget=(0.3, 1e-5), composition=at_16, releases=[])
    # 1.80026 by the standard conversion
    assert build(budget=(1.9, 1e-5), composition=at_8, releases=[]).total["epsilon"] == pytest.approx(1.80026, rel=1e-5)
    with pytest.raises(PlanError, match="no finite Rényi bound"):
        build(budget=(1.9, 1e-5), composition=at_8)  # of the other release no Rényi bound is stated
    with pytest.raises(AccountingError, match="no finite Renyi bound"):
        build(parts=[OWN_PROOF], **TRAJECTORY, composition=at_16, releases=[])
    half = Composition(0.5)
    assert build(budget=(8.0, 1e-5), composition=half).private
    with pytest.raises(CertificateError, match="budget_epsilon"):
        build(budget=(0.3, 1e-5), composition=half)


def test_releases_by_mu_add_up_as_one_gaussian() -> None:
    gaussian = {"parts": [HISTOGRAM], "event": certificate_fields.parts_event([HISTOGRAM]), "audit": None}
    alone = build(**gaussian, composition=Composition(0.0), releases=[])
    (own,) = alone.releases
    mu = 1 / 40
    assert own["mu"] == pytest.approx(mu, rel=1e-9)
    assert alone.total["delta"] == 1e-5  # all of the budget's
    others = [OTHER | {"plan_id": f"0a{i:02x}", "mu": 0.1, "epsilon": 0.3} for i in range(24)]
    many = build(**gaussian, composition=Composition(0.0), releases=others)
    whole, normal = math.sqrt(24 * 0.01 + mu**2), NormalDist().cdf

    def delta(epsilon: float) -> float:
        return normal(whole / 2 - epsilon / whole) - math.exp(epsilon) * normal(-whole / 2 - epsilon / whole)

    total = many.total["epsilon"]
    assert total < 2.0 < 24 * 0.3
    assert delta(total) <= 1e-5 < delta(total * (1 - 2e-5))
    with pytest.raises(CertificateError, match="budget_epsilon"):
        build(**gaussian, composition=Composition(0.0), releases=others, budget=(1.5, 1e-5))
    with pytest.raises(CertificateError, match=r"releases\.mu"):
        build(**gaussian, composition=Composition(0.0), releases=[own | {"mu": mu / 2}])


def test_what_is_promised_for_all_time_is_the_ceiling() -> None:
    raised = build(ceiling=12.0)
    assert raised.total["ceiling_epsilon"] == 12.0
    assert "may be raised, at most to epsilon 12.0" in raised.to_markdown()
    assert "may be raised" not in build().to_markdown()
    with pytest.raises(CertificateError, match="ceiling_epsilon"):
        build(ceiling=7.0)
    with pytest.raises(CertificateError, match="ceiling_epsilon"):
        build(ceiling=501.0, composition=Composition(0.0))


@pytest.mark.parametrize(
    "words",
    [
        "sum ",
        "Sum",
        "",
        "none",
        "Renyi DP at order",
        "Renyi DP at order -2",
        "sum.",
        "one Gaussian beside a sum of share 1",
        "one Gaussian beside a sum of share 0",
        "sum of share 0.5",
    ],
)
def test_a_composition_that_no_ledger_has_is_refused(words: str) -> None:
    record = build().to_json()
    record["total"]["composition"] = words
    with pytest.raises(CertificateError, match="composition"):
        verify(redigested(record))


# -- both readers, and what one of them let through ------------------------------------------------------------------

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def verifier() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "verifier" / "tacit_verify.py"))


def refused_by_both(record: dict[str, Any], verifier: dict[str, Any]) -> bool:
    """Whether neither reader takes the record with a new digest."""
    record = redigested(json.loads(json.dumps(record)))
    try:
        verify(record)
    except CertificateError:
        try:
            verifier["verify"](record)
        except verifier["Refused"]:
            return True
    return False


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize("rule", [Composition(1.0), Composition(1.0, 16.0), Composition(0.0), Composition(0.25, 64.0)])
@pytest.mark.parametrize("fold", [None, 0, 1])
def test_both_readers_take_what_a_ledger_of_any_rule_says(
    rule: Composition, relation: Any, fold: Any, verifier: dict[str, Any]
) -> None:
    unit = Unit("patient", relation, 5_000)
    (half,) = certificate_parts([dataclasses.replace(HALF, fold=fold)])
    with_fold = {"unit": unit, "parts": [half], "event": certificate_fields.parts_event([half])}
    alone = build(**with_fold, epsilon_target=None, audit=None, composition=rule, releases=[])
    (own,) = alone.releases
    others = [{**own, "plan_id": f"0a0{i}", "method": "m"} for i in range(3)]
    many = build(**with_fold, epsilon_target=None, audit=None, composition=rule, releases=others)
    for certificate in (alone, many):
        certificate.verify()
        assert verifier["verify"](certificate.to_json())[0] == 0


def test_no_reader_takes_a_charge_below_the_epsilon_beside_it(verifier: dict[str, Any]) -> None:
    for rule, name in ((Composition(0.0), "mu"), (Composition(1.0, 16.0), "rdp")):
        (part,) = certificate_parts([dataclasses.replace(HALF, noise_multiplier=5.0)])
        plain = {"parts": [part], "event": certificate_fields.parts_event([part]), "audit": None}
        record = build(**plain, epsilon_target=None, composition=rule, releases=[]).to_json()
        (own,) = record["releases"]
        record["releases"] = [{**own, "plan_id": "0a0b", "method": "m", name: 1e-9}, own]
        assert refused_by_both(record, verifier)  # another release, whose charge says less than its epsilon
        record["releases"] = [{**own, name: 1e-9}]
        assert refused_by_both(record, verifier)


@pytest.mark.parametrize(
    "words",
    [
        "Renyi DP at order 1e+999",
        "Renyi DP at order 1e+06",
        "Renyi DP at order 16.0",
        "one Gaussian beside a sum of share 1",
    ],
)
def test_no_reader_takes_a_rule_that_no_ledger_has(words: str, verifier: dict[str, Any]) -> None:
    record = build().to_json()
    record["total"] |= {"composition": words, "epsilon": 0.0, "budget_epsilon": 0.001, "ceiling_epsilon": 0.001}
    assert refused_by_both(record, verifier)


@pytest.mark.parametrize("path", [("releases", 0, "mu"), ("releases", 0, "rdp"), ("releases", 0, "delta")])
def test_what_is_no_finite_number_is_refused_in_a_sentence(path: tuple[Any, ...], verifier: dict[str, Any]) -> None:
    record = build().to_json()
    record["releases"][path[1]][path[2]] = "inf"
    assert refused_by_both(record, verifier)
    record = build().to_json()
    record["total"]["budget_delta"] = "inf"
    assert refused_by_both(record, verifier)


@pytest.mark.parametrize("relation", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize(
    ("size", "steps", "noise"), [(1, 1, 20.0), (1, 1, 101.0), (2, 1, 33.3), (3, 5, 20.0), (1, 40, 33.3)]
)
def test_the_verifier_takes_sums_with_laplace_noise(
    size: int, steps: int, noise: float, relation: Any, verifier: dict[str, Any]
) -> None:
    (part,) = certificate_parts([LaplaceSum(name="a", steps=steps, size=size, bound=1.0, noise_multiplier=noise)])
    plain = {"unit": Unit("patient", relation, 5_000), "parts": [part], "event": certificate_fields.parts_event([part])}
    made = build(
        **plain, epsilon_target=None, audit=None, composition=Composition(1.0), releases=[], budget=(99.0, 1e-5)
    )
    assert verifier["verify"](made.to_json())[0] == 0
