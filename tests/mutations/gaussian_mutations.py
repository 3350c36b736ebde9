"""Mistakes about composition as one Gaussian, planted as those of `mutations.py`."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tacit.privacy.accounting import filters, gaussian
from tacit.privacy.accounting.filters import Charge, Total
from tacit.privacy.ledger import folds
from tacit.privacy.ledger.folds import Balance
from tacit.privacy.mechanisms import base, contribution_sets
from tacit.privacy.vault import steps


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
        forgotten = fold == 1 and charge.mu is not None
        return (None,) * len(self.totals) if forgotten else real(self, charge, fold)

    patch.setattr(Balance, "_shares", shares)


def negatives_taken_for_counts(patch: pytest.MonkeyPatch) -> None:
    """Where nobody's numbers are negative, one unit in another's place costs what one unit more does."""
    real = contribution_sets.diameter
    patch.setattr(base, "diameter", lambda blocks: 1.0 if real(blocks) == math.sqrt(2) else real(blocks))


def presence_taken_for_a_diameter(patch: pytest.MonkeyPatch) -> None:
    """Scores and their squares are taken to be as close as the scores alone, of which neither is negative."""
    real = contribution_sets.diameter

    def diameter(blocks: Any) -> float:
        return max(1.0, real(tuple(block for block in blocks if block.kind != "squares"))) if blocks else 2.0

    patch.setattr(base, "diameter", diameter)


def blocks_not_kept(patch: pytest.MonkeyPatch) -> None:
    """What a callback says of its contributions is believed."""
    patch.setattr(steps, "move_inside", lambda blocks, vectors, clip, where: vectors)


def half_of_the_blocks_kept(patch: pytest.MonkeyPatch) -> None:
    """Numbers are cut at 0, and no block is cut to its share."""
    patch.setattr(contribution_sets, "_shorten", lambda part, longest: None)


def matrices_unseen(patch: pytest.MonkeyPatch) -> None:
    """Any triangle passes for that of a Gram matrix."""
    patch.setattr(contribution_sets, "_are_grams", lambda triangles, width: np.ones(len(triangles), bool))


def mover_meets_one_half(patch: pytest.MonkeyPatch) -> None:
    """Of two halves the dearer one counts, also where it costs less than a clip in each."""
    real = base.compose_parallel

    def compose_parallel(halves: Any) -> Any:
        each = [real([half]) for half in halves]
        dearer = max(each, key=lambda one: one.diameter / one.noise_multiplier)
        return replace(dearer, noise_multiplier=min(one.noise_multiplier for one in each))

    patch.setattr(base, "compose_parallel", compose_parallel)


def movers_always_pay_half(patch: pytest.MonkeyPatch) -> None:
    """Who goes from one fold to the other is charged half of a plan on one fold, whatever its diameter is."""
    real = Charge.moved.fget
    patch.setattr(Charge, "moved", property(lambda self: real(replace(self, diameter=None))))


GAUSSIANS = (
    ("mus added and not squared", mus_added, ("budget_of_gaussians",)),
    ("budget's mu not squared", budget_not_squared, ("budget_of_gaussians",)),
    ("a share that floats", share_that_floats, ("shares_stay_apart",)),
    ("Rényi bounds at the whole delta", renyi_at_the_whole_delta, ("shares_stay_apart",)),
    ("a fold's mu forgotten", squared_mu_of_a_fold_forgotten, ("budget_of_gaussians",)),
    ("a diameter of one clip", negatives_taken_for_counts, ("distance_of_units",)),
    ("squares left out of a diameter", presence_taken_for_a_diameter, ("distance_of_units",)),
    ("blocks not kept", blocks_not_kept, ("distance_of_units",)),
    ("shares of blocks not kept", half_of_the_blocks_kept, ("distance_of_units",)),
    ("matrices unseen", matrices_unseen, ("distance_of_units",)),
    ("a mover meets one half", mover_meets_one_half, ("distance_of_movers",)),
    ("movers always pay half", movers_always_pay_half, ("distance_of_movers",)),
)
