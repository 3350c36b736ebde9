"""Mistakes in the trials of callbacks, and in what callbacks may keep, as those of `mutations.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tacit.privacy.gradients.clipped_sums import UnitGradients
from tacit.privacy.vault import base, isolation, memory, removal, steps, user_vault, vault
from tacit.privacy.vault.removal import CROWDS, Harness

Plant = Callable[[pytest.MonkeyPatch], None]


def units_exchanged_alone(patch: pytest.MonkeyPatch) -> None:
    """Trials exchange units, and never remove one."""
    patch.setattr(Harness, "_require_same_alone", lambda *_: None)


def losses_compared_alone(patch: pytest.MonkeyPatch) -> None:
    """Trials look at losses, and not at the gradients of units."""
    patch.setattr(UnitGradients, "select", lambda self, units: [np.zeros(1), np.zeros(1)])


def no_ties(patch: pytest.MonkeyPatch) -> None:
    """No two units of a crowd are alike, and no two of their values."""
    real = removal._crowd
    patch.setattr(removal, "_crowd", lambda *given: real(*given[:-1], "any"))


def tried_once(patch: pytest.MonkeyPatch) -> None:
    """What was tried with a state of this structure is not tried again."""
    patch.setattr(Harness, "try_again", lambda self, times: None)


def the_users_taken_for_own(patch: pytest.MonkeyPatch) -> None:
    """Everything is tried as briefly as what is tacit's own."""
    patch.setattr(isolation, "find_foreign", lambda *_: [])


def states_by_reference(patch: pytest.MonkeyPatch) -> None:
    """A callback gets the caller's own state."""
    for module in (vault, user_vault):
        patch.setattr(module, "copy_plain_state", lambda state, where: state)


def stock_layers_unread(patch: pytest.MonkeyPatch) -> None:
    """Attributes of PyTorch's own layers, and of parameters, are not looked at."""
    real = memory._layer_contents

    def held(layer: Any, still: bool) -> object:
        return () if memory._root(type(layer).__module__) == "torch" else real(layer, still)

    patch.setattr(memory, "_layer_contents", held)


def whole_samples_handed_over(patch: pytest.MonkeyPatch) -> None:
    """A user's callback gets more units at once than it was tried on."""
    patch.setattr(isolation.IsolationChecks, "limit_units", lambda self, part, contribution, width: contribution)


def wide_pieces(patch: pytest.MonkeyPatch) -> None:
    """Where the largest crowd was smaller for want of memory, a callback gets as many units as ever."""
    most = isolation.IsolationChecks.largest_crowd

    def widest(self: isolation.IsolationChecks, part: object, *callbacks: Any) -> int | None:
        return None if most(self, part, *callbacks) is None else CROWDS[-1]

    patch.setattr(isolation.IsolationChecks, "largest_crowd", widest)


def no_outliers(patch: pytest.MonkeyPatch) -> None:
    """No unit of a crowd stands far from all others."""
    patch.setattr(removal, "TIED", tuple(kind for kind in removal.TIED if kind != "outlying"))


def own_by_the_name(patch: pytest.MonkeyPatch) -> None:
    """What is in a module of a library's name is nobody's, whoever wrote the file or the methods."""
    patch.setattr(memory, "_is_neutral", lambda named: memory._root(named.__module__) in memory._NOBODYS)


def failures_go_through(patch: pytest.MonkeyPatch) -> None:
    """What a user's callback raises on records ends the step, with a message."""

    def run_whole(run: Any, rows: Any, max_units: int, blank: Any) -> Any:
        return (run(piece, units) for piece, units in removal.pieces(rows, max_units))

    for module in (removal, steps):
        patch.setattr(module, "run_apart", run_whole)


def failures_take_others_along(patch: pytest.MonkeyPatch) -> None:
    """Where a callback fails on one unit, all whom it met in that piece add nothing."""
    real = removal.run_apart

    def run_or_drop(run: Any, rows: Any, max_units: int, blank: Any) -> Any:
        def dropped(piece: Any, units: int) -> Any:
            try:
                return run(piece, units)
            except Exception:
                return np.repeat(blank, units, axis=0) if isinstance(blank, np.ndarray) else blank

        return real(dropped, rows, max_units, blank)

    for module in (removal, steps):
        patch.setattr(module, "run_apart", run_or_drop)


def anything_released(patch: pytest.MonkeyPatch) -> None:
    """A value is certified although nothing was asked of the records."""
    patch.setattr(base.BaseVault, "_require_started", lambda self, run: None)


REMOVAL: tuple[tuple[str, Plant, tuple[str, ...]], ...] = (
    ("units exchanged, none removed", units_exchanged_alone, ("places_are_refused",)),
    ("losses compared, no gradients", losses_compared_alone, ("backward_couplings_are_refused",)),
    ("no ties among invented rows", no_ties, ("ties_are_refused",)),
    ("a callback tried once", tried_once, ("switched_couplings_are_refused",)),
    ("the user's taken for tacit's own", the_users_taken_for_own, ("ties_are_refused", "models_stay")),
    ("states by reference", states_by_reference, ("states_stay",)),
    ("attributes of stock layers unread", stock_layers_unread, ("models_stay",)),
    ("whole samples handed over", whole_samples_handed_over, ("large_crowds_are_cut",)),
    ("wide contributions, more units than tried", wide_pieces, ("wide_crowds_are_cut",)),
    ("no outliers among invented rows", no_outliers, ("outliers_are_refused",)),
    ("failures of callbacks seen", failures_go_through, ("failures_stay_inside",)),
    ("failures take others along", failures_take_others_along, ("failures_stay_inside",)),
    ("anything released", anything_released, ("nothing_is_released_untouched",)),
    ("own by the name of a module", own_by_the_name, ("namesakes_are_the_users",)),
)
