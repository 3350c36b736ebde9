"""Mistakes about composition as one Gaussian, planted as those of `mutations.py`."""

from __future__ import annotations

from typing import Any

import pytest

from tacit.privacy.accounting import filters, gaussian
from tacit.privacy.accounting.filters import Gdp
from tacit.privacy.ledger import folds
from tacit.privacy.ledger.folds import Balance


def mus_added(patch: pytest.MonkeyPatch) -> None:
    """The mus of plans are added up and compared with the square of the budget's, which they pass less where large."""
    real = filters._exact_cost

    def cost(charge: Any, composition: Any) -> Any:
        epsilon, delta, squared = real(charge, composition)
        return epsilon, delta, filters.exact_decimal(charge.mu) if squared else squared

    patch.setattr(filters, "_exact_cost", cost)


def budget_not_squared(patch: pytest.MonkeyPatch) -> None:
    """The sum of squared mus is compared with the budget's mu, which is larger where it is below 1."""
    real = filters.admits

    def admits(total: Any, epsilon: float, delta: float) -> bool:
        if not isinstance(total.composition, Gdp):
            return real(total, epsilon, delta)
        (own, others), (own_delta, others_delta) = (total.composition.cut(one) for one in (epsilon, delta))
        within = total.squared <= gaussian.mu_of(own, own_delta)
        return within and total.cost <= others and total.delta <= others_delta

    patch.setattr(folds, "admits", admits)


def share_that_floats(patch: pytest.MonkeyPatch) -> None:
    """Either kind of plan takes what the other left, and converts it at the whole delta."""
    real = filters.admits

    def admits(total: Any, epsilon: float, delta: float) -> bool:
        if not isinstance(total.composition, Gdp):
            return real(total, epsilon, delta)
        bound = filters.exact_decimal(delta)
        together = total.cost + gaussian.epsilon_of(total.squared, bound)
        return together <= filters.exact_decimal(epsilon) and total.delta <= bound

    patch.setattr(folds, "admits", admits)


def squared_mu_of_a_fold_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Plans with a mu on fold 1 alone are charged to nobody."""
    real = Balance._shares

    def shares(self: Balance, charge: Any, fold: Any) -> Any:
        return (None, None) if fold == 1 and charge.mu is not None else real(self, charge, fold)

    patch.setattr(Balance, "_shares", shares)


GAUSSIANS = (
    ("mus added and not squared", mus_added, ("budget_of_gaussians",)),
    ("budget's mu not squared", budget_not_squared, ("budget_of_gaussians",)),
    ("a share that floats", share_that_floats, ("shares_stay_apart",)),
    ("a fold's mu forgotten", squared_mu_of_a_fold_forgotten, ("budget_of_gaussians",)),
)
