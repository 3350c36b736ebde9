"""The page of a certificate: what it says of tests for one unit follows from its stated figures alone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tacit.cli import main
from tacit.cli.certificate import PROOFS
from tacit.privacy.accounting import tradeoff as trade_off
from tacit.privacy.accounting.events import event_from_json
from tacit.privacy.certificate.certificate import Certificate
from tacit.privacy.certificate.fields import figures
from tacit.privacy.certificate.markdown import catch_percent, miss_rate
from tacit.privacy.mechanisms.kinds import _KINDS

CERTIFICATES = Path(__file__).parents[1] / "golden" / "certificates"
EXACT = ("synthesis", "halves")
OTHERS = ("signed", "fixed_size", "devices_laplace_and_starts", "consensus_prefixes", "own_proof")


def record(name: str) -> dict[str, Any]:
    return Certificate.load(CERTIFICATES / f"{name}.json").to_json()


def inside(rows: list[dict[str, float]]) -> list[tuple[float, float]]:
    return [(row["false_alarms"], row["missed_at_least"]) for row in rows if row["false_alarms"] < 1]


@pytest.mark.parametrize("name", EXACT)
def test_where_mu_is_exact_the_curve_is_that_of_the_accountants(name: str) -> None:
    stated = record(name)
    for alarms, least in inside(trade_off.rows(stated)):
        assert least - 3e-6 < miss_rate(stated, alarms) <= least + 1e-6  # mu is stated with six digits


@pytest.mark.parametrize("name", OTHERS)
def test_elsewhere_it_is_below_that_of_the_accountants_and_close(name: str) -> None:
    stated = record(name)
    for alarms, least in inside(trade_off.rows(stated)):
        assert least - 0.025 < miss_rate(stated, alarms) <= least + 1e-6


@pytest.mark.parametrize("name", [*EXACT, *OTHERS])
def test_the_sentence_says_no_more_than_the_promise_itself(name: str) -> None:
    stated = record(name)
    event, relation = event_from_json(stated["event"]), stated["unit"]["relation"]
    shares = [word for word in Certificate.from_json(stated).to_markdown().split() if word.replace(".", "").isdigit()]
    told, promised = float(shares[shares.index("5") + 1]), figures(event, relation, stated["delta"])
    assert 5 < told <= 100.02 * (0.05 * math.exp(float(stated["epsilon"])) + stated["delta"])
    assert (
        told == catch_percent(stated) == pytest.approx(catch_percent(promised), rel=2e-3)
    )  # as the plan and the report say it


def test_a_mu_of_a_range_says_nothing_beyond_it() -> None:
    """Where exp(epsilon) is less steep than the curve of mu, the lines of the stated pairs alone hold."""
    stated = {**record("own_proof"), "epsilon": 0.8, "delta": 0.005, "mu": 0.4, "profile": []}
    few, everywhere = 1e-4, {**stated, "mu_range": "upper_bound"}
    assert miss_rate(stated, few) == pytest.approx(0.995 - math.exp(0.8) * few, abs=1e-12)
    assert miss_rate(everywhere, few) == pytest.approx(0.999548, abs=1e-6)  # Phi(Phi^-1(0.9999) - 0.4)
    assert miss_rate(stated, 0.4) == miss_rate(everywhere, 0.4) == pytest.approx(0.441703, abs=1e-6)


def test_infinite_figures_say_nothing() -> None:
    stated = record("synthesis")
    nothing = {**stated, "epsilon": "inf", "mu": "inf", "profile": [{"delta": 1e-5, "epsilon": "inf"}]}
    assert miss_rate(nothing, 0.05) == 0.0


def test_every_kind_of_part_has_a_page_of_proofs(capsys: pytest.CaptureFixture[str]) -> None:
    pages = Path(__file__).parents[2] / "proofs"
    assert [kind for kind in _KINDS if not (pages / f"{PROOFS.get(kind, kind)}.md").is_file()] == []
    assert main(["certificate", "verify", str(CERTIFICATES / "synthesis.json")]) == 0
    assert "Proved in: proofs/noisy_sum.md of tacit." in capsys.readouterr().out
