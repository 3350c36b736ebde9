"""Mistakes about composition as one Gaussian, planted as those of `mutations.py`."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from tacit.privacy.accounting import filters, gaussian
from tacit.privacy.accounting.filters import Total
from tacit.privacy.ledger import folds
from tacit.privacy.ledger.folds import Balance


def mus_added(patch: pytest.MonkeyPatch) -> None:
    """The mus of plans are added up and compared with the square of the budget's, which they pass less where large."""
    real = Total._changed

    def changed(self: Total, charge: Any, times: int) -> Total:
        if not self.composition.takes_mu(charge):
            return real(self, charge, times)
        return replace(self, squared=self.squared + times * filters.exact_decimal(charge.mu))

    patch.setattr(Total, "_changed", changed)


def budget_not_squared(patch: pytest.MonkeyPatch) -> None:
    """The sum of squared mus is compared with the budget's mu, which is larger where it is below 1."""
    real = filters.admits

    def admits(total: Any, epsilon: float, delta: float) -> bool:
        own, own_delta = (total.composition.cut(one)[0] for one in (epsilon, delta))
        within = total.squared <= gaussian.mu_of(own, own_delta)
        return within and real(replace(total, squared=Fraction(0)), epsilon, delta)

    patch.setattr(folds, "admits", admits)


def share_that_floats(patch: pytest.MonkeyPatch) -> None:
    """Either kind of plan takes what the other left, and converts it at the whole delta."""
    real = filters.admits

    def admits(total: Any, epsilon: float, delta: float) -> bool:
        if total.composition.sampled == 1:
            return real(total, epsilon, delta)
        bound = filters.exact_decimal(delta)
        others, rest = total.convert_others(delta)
        together = others + gaussian.epsilon_of(total.squared, bound)
        return together <= filters.exact_decimal(epsilon) and rest <= bound

    patch.setattr(folds, "admits", admits)


def renyi_at_the_whole_delta(patch: pytest.MonkeyPatch) -> None:
    """Rényi bounds are converted at all of delta, of which the Gaussians have a part too."""
    real = Total.convert_others

    def convert_others(self: Total, delta: float) -> tuple[Fraction, Fraction]:
        cost, part = real(self, delta)
        if self.composition.order is None or not self.others:
            return cost, part
        return filters.rdp_to_epsilon(self.cost, self.composition.order, filters.exact_decimal(delta)), part

    patch.setattr(Total, "convert_others", convert_others)


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
    ("Rényi bounds at the whole delta", renyi_at_the_whole_delta, ("shares_stay_apart",)),
    ("a fold's mu forgotten", squared_mu_of_a_fold_forgotten, ("budget_of_gaussians",)),
)
