"""Mistakes about what a mechanism costs, planted as those of `mutations.py`: the accountants and their checks agree."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tacit.privacy.accounting import approximate, selection
from tacit.privacy.mechanisms import device_sums

Plant = Callable[[pytest.MonkeyPatch], None]


def one_direction_of_a_coin(patch: pytest.MonkeyPatch) -> None:
    """An answer against a coin is priced, and a coin against an answer is not."""
    real = approximate._answers
    patch.setattr(approximate, "_answers", lambda leaf, swapped: real(leaf, False))


def runs_ranked_once(patch: pytest.MonkeyPatch) -> None:
    """What the ranking of runs may tell is counted once, and not by the power that the law of their number has."""
    patch.setattr(selection, "_POWERS", {"logarithmic": 1, "geometric": 1})


def discrete_noise_for_gaussian(patch: pytest.MonkeyPatch) -> None:
    """Discrete noise is priced as Gaussian noise of the same variance."""
    patch.setattr(device_sums, "ROUNDED", 0.0)


PRICES: tuple[tuple[str, Plant, tuple[str, ...]], ...] = (
    ("runs ranked once", runs_ranked_once, ("price_of_a_selection",)),
    ("discrete noise for Gaussian", discrete_noise_for_gaussian, ("price_of_shared_noise",)),
    ("one direction of a coin", one_direction_of_a_coin, ("price_of_answers",)),
)
