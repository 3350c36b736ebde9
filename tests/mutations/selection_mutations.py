"""Mistakes with private selections and with trackers, planted as those of `mutations.py`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tacit.privacy.mechanisms.base import compose_parts
from tacit.privacy.mechanisms.kinds import PrivateSelection, expected_runs
from tacit.privacy.vault import selection, steps
from tacit.privacy.vault.base import BaseVault, figures
from tacit.privacy.vault.isolation import IsolationChecks
from tacit.privacy.vault.vault import Vault

Plant = Callable[[pytest.MonkeyPatch], None]


def a_fixed_number_of_runs(patch: pytest.MonkeyPatch) -> None:
    """As many runs as the law has on average, every time."""
    patch.setattr(selection, "draw_run_count", lambda stop, law, noise: round(expected_runs(stop, law)))


def the_price_of_one_run(patch: pytest.MonkeyPatch) -> None:
    """The selection is paid for as if the best run had been the only one."""
    patch.setattr(PrivateSelection, "event", property(lambda self: compose_parts(self.candidates[0].parts())))


def a_failure_ends_it(patch: pytest.MonkeyPatch) -> None:
    """The first run that fails ends the selection with its error."""
    real = selection.select_best

    def broken(spec: Any, attempt: Any, judge: Any, within: Any, noise: Any) -> Any:
        failed: list[Exception] = []

        def watched(plan: Any, vault: Any) -> Any:
            try:
                return attempt(plan, vault)
            except Exception as error:
                failed.append(error)
                raise

        found = real(spec, watched, judge, within, noise)
        if failed:
            raise failed[0]
        return found

    patch.setattr(selection, "select_best", broken)


def runs_that_are_tracked(patch: pytest.MonkeyPatch) -> None:
    """The tracker is shown every run, and so their number."""
    real = Vault._run_vault

    @contextlib.contextmanager
    def broken(self: Vault, plan: Any) -> Iterator[Vault]:
        with real(self, plan) as inner:
            inner._tracker = self._tracker
            yield inner

    patch.setattr(Vault, "_run_vault", broken)


def losers_that_are_named(patch: pytest.MonkeyPatch) -> None:
    """All runs share the names of the user's callbacks that they met, and the selection names them all."""
    patch.setattr(IsolationChecks, "copy_for_run", lambda self: self)


def sums_that_are_tracked(patch: pytest.MonkeyPatch) -> None:
    """The tracker is shown what a mechanism computed, before the noise."""
    real, seen = steps.add_noise, list[Any]()

    def added(sums: Any, scale: float, noise: Any) -> Any:
        seen.append(sums.copy())
        return real(sums, scale, noise)

    def shown(self: Any, run: Any, part: str, value: Any) -> Any:
        if self._tracker is not None:
            self._tracker.log(1, figures(part, seen[-1]))
        return value

    patch.setattr(steps, "add_noise", added)
    patch.setattr(BaseVault, "_track_release", shown)


SELECTION: tuple[tuple[str, Plant, tuple[str, ...]], ...] = (
    ("a fixed number of runs", a_fixed_number_of_runs, ("law_of_the_best",)),
    ("the price of one run", the_price_of_one_run, ("price_of_the_best",)),
    ("a failure ends the selection", a_failure_ends_it, ("failures_tell_nothing",)),
    ("runs of a selection are tracked", runs_that_are_tracked, ("trackers_see_no_run",)),
    ("sums are tracked before the noise", sums_that_are_tracked, ("trackers_see_what_left",)),
    ("losers of a selection are named", losers_that_are_named, ("losers_are_not_named",)),
)
