"""Mistakes with marginals, choices and teachers, planted as those of `mutations.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tacit.privacy.mechanisms import marginals, releases, tallies
from tacit.privacy.mechanisms.marginals import Cells, MarginalChoice
from tacit.privacy.mechanisms.teachers import Teachers
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault import vault
from tacit.privacy.vault.base import BaseVault

Plant = Callable[[pytest.MonkeyPatch], None]


def rows_weigh_one_each(patch: pytest.MonkeyPatch) -> None:
    """A unit counts as often as it has rows."""
    real = Cells.__init__

    def broken(self: Cells, part: Any, rows: Any) -> None:
        real(self, part, rows)
        self._weights = None

    patch.setattr(Cells, "__init__", broken)


def every_row_in_a_cell_of_its_own(patch: pytest.MonkeyPatch) -> None:
    """The norm of a unit's counts is that of rows in different cells, as where a callback lists sparse entries."""
    patch.setattr(tallies, "_squares", lambda cells, sizes, owner, count: len(sizes) * count)


def quanta_divide_the_variance_twice(patch: pytest.MonkeyPatch) -> None:
    """c quanta divide the standard deviation by c, not by its root."""
    real = Cells.answer

    def broken(self: Cells, part: Any, query: Any, noise: Any) -> Any:
        own = math.sqrt(query.quanta)
        patched = type(part)(**{**vars(part), "noise_multiplier": part.noise_multiplier / own})
        return real(self, patched, query, noise)

    patch.setattr(Cells, "answer", broken)


def one_quantum_whatever_is_taken(patch: pytest.MonkeyPatch) -> None:
    """A measurement is paid for as if it had taken one quantum."""
    real = BaseVault._take
    patch.setattr(vault.Vault, "_take", lambda self, run, part, steps=1: real(self, run, part))


def choice_without_the_half(patch: pytest.MonkeyPatch) -> None:
    """exp(e q / max w) where it should be exp(e q / (2 max w))."""
    real = Cells.answer

    def broken(self: Cells, part: Any, query: Any, noise: Any) -> Any:
        if isinstance(query, MarginalChoice):
            part = type(part)(**{**vars(part), "noise_multiplier": part.noise_multiplier / 2})
        return real(self, part, query, noise)

    patch.setattr(Cells, "answer", broken)


def best_choice(patch: pytest.MonkeyPatch) -> None:
    """The worst fit itself is named."""
    patch.setattr(SecretNoise, "exponential", lambda self, size: np.ones(size))


def distances_of_sensitivity_one(patch: pytest.MonkeyPatch) -> None:
    """Distances from the product are taken to move by 1."""
    real = marginals.add_noise

    def broken(total: Any, scale: float, noise: Any) -> Any:
        return real(
            total, scale / (4 * math.sqrt(total.size)) if total.ndim == 1 and total.size == 400 else scale, noise
        )

    patch.setattr(marginals, "add_noise", broken)


def dealt_anew_every_batch(patch: pytest.MonkeyPatch) -> None:
    """Units are dealt to other teachers before every batch."""
    real = Teachers.votes

    def broken(self: Teachers, generated: Any, against: Any, noise: Any) -> Any:
        self._real = self._real[noise.integers(np.full(len(self._real), len(self._real)))]
        return real(self, generated, against, noise)

    patch.setattr(Teachers, "votes", broken)


def rows_scaled_together(patch: pytest.MonkeyPatch) -> None:
    """Rows are divided by the largest number of all units."""
    real = Teachers.__init__

    def broken(self: Teachers, part: Any, vectors: Any, noise: Any) -> None:
        real(self, part, vectors - vectors.mean(axis=0), noise)

    patch.setattr(Teachers, "__init__", broken)


def teachers_go_on(patch: pytest.MonkeyPatch) -> None:
    """A run that was stopped deals its units once more and goes on."""
    patch.setattr(vault, "exhausted_error", lambda run, part: None)
    real = vault.Vault.teacher_votes

    def broken(self: vault.Vault, run: Any, part: str, *given: Any, **more: Any) -> Any:
        claimed = self.ledger.claimed
        self.ledger.claimed = lambda plan_id, name: 0  # type: ignore[method-assign]
        try:
            return real(self, run, part, *given, **more)
        finally:
            self.ledger.claimed = claimed  # type: ignore[method-assign]

    patch.setattr(vault.Vault, "teacher_votes", broken)


def half_the_noise_of_a_histogram(patch: pytest.MonkeyPatch) -> None:
    """Noise of half the declared scale."""
    real = releases.add_noise
    patch.setattr(releases, "add_noise", lambda total, scale, noise: real(total, scale / 2, noise))


def scores_of_any_size(patch: pytest.MonkeyPatch) -> None:
    """Scores are summed as the callback gave them."""
    patch.setattr(releases.NoisyMaximum, "contributions", lambda self, rows: self.scores(rows)["scores"])


TABLE: tuple[tuple[str, Plant, tuple[str, ...]], ...] = (
    ("rows weigh one each", rows_weigh_one_each, ("neighbours_of_a_table",)),
    ("every row in a cell of its own", every_row_in_a_cell_of_its_own, ("neighbours_of_a_tally",)),
    ("quanta counted twice", quanta_divide_the_variance_twice, ("noise_of_a_table",)),
    ("one quantum whatever is taken", one_quantum_whatever_is_taken, ("noise_of_a_table",)),
    ("distances of sensitivity one", distances_of_sensitivity_one, ("noise_of_a_table",)),
    ("choice without the half", choice_without_the_half, ("law_of_choices",)),
    ("best choice", best_choice, ("law_of_choices",)),
    ("dealt anew every batch", dealt_anew_every_batch, ("one_unit_one_teacher",)),
    ("rows scaled together", rows_scaled_together, ("one_unit_one_teacher",)),
    ("teachers go on", teachers_go_on, ("one_unit_one_teacher",)),
    ("half the noise of a histogram", half_the_noise_of_a_histogram, ("noise_of_a_histogram",)),
    ("scores of any size", scores_of_any_size, ("scores_of_one_unit",)),
)
