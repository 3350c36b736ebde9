"""Mistakes about what a mechanism costs, planted as those of `mutations.py`: the accountants and their checks agree."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tacit.privacy.accounting import approximate

Plant = Callable[[pytest.MonkeyPatch], None]


def one_direction_of_a_coin(patch: pytest.MonkeyPatch) -> None:
    """An answer against a coin is priced, and a coin against an answer is not."""
    real = approximate._answers
    patch.setattr(approximate, "_answers", lambda leaf, swapped: real(leaf, False))


PRICES: tuple[tuple[str, Plant, tuple[str, ...]], ...] = (
    ("one direction of a coin", one_direction_of_a_coin, ("price_of_answers",)),
)
