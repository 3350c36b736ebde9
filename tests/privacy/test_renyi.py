"""Renyi bounds at one order, for ledgers that compose by RdpOrder."""

from __future__ import annotations

import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

from tacit.errors import AccountingError
from tacit.privacy import accounting


def test_gaussian_is_order_over_two_sigma_squared() -> None:
    event = SelfComposedDpEvent(GaussianDpEvent(2.0), 3)
    assert accounting.renyi(event, order=8.0, relation="add_or_remove") == pytest.approx(3 * 8 / (2 * 4))
    assert accounting.renyi(event, order=8.0, relation="replace_one") == pytest.approx(3 * 8 * 4 / (2 * 4))


def test_sampled_gaussian_lies_below_the_unsampled_and_above_zero() -> None:
    sampled = accounting.renyi(PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)), order=8.0, relation="add_or_remove")
    assert 0 < sampled < 1.0


def test_unknown_pairs_are_refused() -> None:
    with pytest.raises(AccountingError, match="no finite Renyi bound"):
        accounting.renyi(PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)), order=8.0, relation="replace_one")
