"""What all releases of a ledger cost together, as certificates state it, and that it stays within the ceiling."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest
from test_certificate import HISTOGRAM, OTHER, OWN_ID, OWN_PROOF, TRAJECTORY, build, redigested, verify

from tacit.errors import AccountingError, CertificateError, PlanError
from tacit.privacy.accounting.filters import Composition
from tacit.privacy.certificate import fields as certificate_fields


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
