"""The tables of expert-level privacy that need no data: what cells say, on small settings."""

from __future__ import annotations

import pytest

from experiments.experts import experts_accounting, experts_prefixes
from tacit.privacy.mechanisms.thresholds import KappaStop, PMin


def test_a_claim_and_what_holds() -> None:
    values = experts_accounting.claim(0.2, 10.0, 1.0)
    assert values["claimed"] == pytest.approx(1.0, abs=1e-3)
    assert values["noisy"] == pytest.approx(0.2 * values["steps"], abs=1)
    assert values["check"] == pytest.approx(values["limit"], rel=5e-3)
    assert values["honest"] > 5**0.5 * values["claimed"]


def test_both_stages_cost_less_together_than_added_up_and_more_than_claimed() -> None:
    values = experts_accounting.task(2.0, 5, 0.5, 4.0)
    assert values["claimed"] == pytest.approx(2.0, abs=2e-3)
    assert values["claimed"] < values["honest"] < values["sum"]
    assert values["training"] < values["honest"]


def test_a_cell_of_the_planning_table() -> None:
    values = experts_prefixes.cell(3_000, 25, 5.0)
    assert values["trajectory"] == pytest.approx(0.265, abs=1e-3)
    assert values["basic"] == 0.2
    five = values["p_min=0.05/A=2"]
    assert (five["threshold"], five["longest"]) == pytest.approx((344, 42), rel=5e-3)
    assert five["basic"] == pytest.approx(444, rel=5e-3)
    kappa = values["kappa=0.05/A=2"]
    assert kappa["longest"] == 200
    assert kappa["expected"][0] == pytest.approx(19.0, abs=0.05)  # 0.95 / 0.05: stopped by chance alone
    assert kappa["expected"][0] > five["expected"][0] > five["expected"][1] > five["expected"][2]


def test_what_is_out_of_reach_is_left_out() -> None:
    assert experts_prefixes.lengths(PMin(0.05), 2, 100, 0.01, 1e-6) is None
    assert experts_prefixes.lengths(KappaStop(0.05), 2, 10_000, 0.5, 1e-6) is not None
    alone = experts_prefixes.cell(300, 25, 1.0)
    assert set(alone) == {"trajectory", "basic", "reserve", "overflow"}
