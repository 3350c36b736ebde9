"""The paper's privacy formulas: literal values, where they meet, and that they are bounds where they claim to be."""

from __future__ import annotations

import pytest

from experiments.dppg import dppg_paper
from tacit.errors import PlanError
from tacit.privacy.accounting.accountants import gaussian_delta, gaussian_epsilon


@pytest.mark.parametrize(
    ("sigma", "classical", "zhao"), [(0.5, 9.69, 11.00), (1.0, 4.84, 5.00), (5.0, 0.969, 0.920), (20.0, 0.242, 0.226)]
)
def test_literal_values(sigma: float, classical: float, zhao: float) -> None:
    assert dppg_paper.classical_epsilon(sigma, 1e-5) == pytest.approx(classical, rel=2e-3)
    assert dppg_paper.zhao_epsilon(sigma, 1e-5) == pytest.approx(zhao, rel=2e-3)


def test_the_rule_changes_formula_at_one() -> None:
    assert dppg_paper.published_epsilon(4.84, 1e-5) == dppg_paper.zhao_epsilon(4.84, 1e-5)
    assert dppg_paper.published_epsilon(4.85, 1e-5) == dppg_paper.classical_epsilon(4.85, 1e-5) < 1
    assert dppg_paper.published_epsilon(1.0, 1e-6) == pytest.approx(5.486, abs=1e-3)


@pytest.mark.parametrize("sigma", [0.2, 0.5, 1.0, 3.0, 6.0, 20.0])
def test_the_rule_is_a_bound_and_loose(sigma: float) -> None:
    for delta in (1e-5, 1e-6):
        ratio = dppg_paper.published_epsilon(sigma, delta) / gaussian_epsilon(delta, 1 / sigma)
        assert 1.04 < ratio < 1.6


def test_the_classical_formula_is_none_beyond_one() -> None:
    assert gaussian_delta(dppg_paper.classical_epsilon(0.2, 1e-5), 5.0) > 1e-3


@pytest.mark.parametrize(("sigma", "delta"), [(0.0, 1e-5), (float("inf"), 1e-5), (1.0, 0.0), (1.0, 1.0)])
def test_what_is_out_of_range_is_refused(sigma: float, delta: float) -> None:
    with pytest.raises(PlanError, match="is"):
        dppg_paper.published_epsilon(sigma, delta)
