"""`tacit synthesize --choose`: settings that are chosen on the records, within the promise."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from tacit.cli.console import Interrupted, progress, say
from tacit.cli.synthesis_commands import Synthesize
from tacit.errors import PlanError
from tacit.methods import selection, synthesis
from tacit.methods.synthesis import Plan, Raking
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.vault.vault import Vault

NAMES: dict[str, Callable[[str], Any]] = {
    "steps": int,
    "batch": float,
    "clip": float,
    "rows-per-unit": int,
    "noise-draws": int,
    "learning-rate": float,
}
"""Settings that may be chosen, and what their values are: none of them changes what public pre-training begins with."""


def candidates(command: Synthesize) -> Iterator[Synthesize]:
    """The command with each combination of the settings in place of its choice.

    Raises:
        PlanError: a setting is unknown, named twice or also given by itself, or its values are no numbers.
    """
    grid: dict[str, list[Any]] = {}
    for setting in command.choose:
        name, _, listed = setting.partition("=")
        field = name.replace("-", "_")
        if name not in NAMES or field in grid or getattr(command, field) is not None:
            raise _refused(setting, f"one of {', '.join(NAMES)}, once, and not also as --{name}")
        try:
            grid[field] = [NAMES[name](value) for value in listed.split(",")]
        except ValueError as error:
            raise _refused(setting, "NAME=VALUE,VALUE with numbers") from error
    for values in product(*grid.values()):
        settings: dict[str, Any] = dict(zip(grid, values, strict=True))
        yield dataclasses.replace(command, choose=(), **settings)


def plan_of(command: Synthesize, one: Callable[[Synthesize], Plan], tables: Raking) -> selection.Plan:
    """The plan of the choice, not calibrated; `one` makes a candidate's, which is judged by `tables`."""
    judge = synthesis.RakingPlan(raking=tables)
    return selection.Plan(candidates=tuple(map(one, candidates(command))), judge=judge)


def chosen(command: Synthesize, plan: selection.Plan, vault: Vault, start: Any) -> Release[Any]:
    """The best run, and in words which candidate it was.

    Raises:
        Interrupted: it was stopped after the ledger was charged.
    """
    attempt = functools.partial(synthesis.fit, pretrained=start, device=command.device)
    with without_checkpoint(vault.ledger), progress("Training with privacy, a secret number of times"):
        release = selection.fit(plan, vault, attempt=attempt, judge=synthesis.Closeness())
    best = list(candidates(command))[release.choice.candidate]
    names = [setting.partition("=")[0] for setting in command.choose]
    told = ", ".join(f"{name} {getattr(best, name.replace('-', '_')):g}" for name in names)
    say(f"Chosen of {len(plan.candidates):,} candidates: {told}")
    return release


@contextlib.contextmanager
def without_checkpoint(ledger: Ledger) -> Iterator[None]:
    """What keeps no checkpoint: an interruption after the ledger was charged says that this stays so.

    Raises:
        Interrupted: it was stopped then.
    """
    before = len(ledger.entries())
    try:
        yield
    except KeyboardInterrupt:
        if len(ledger.entries()) > before:
            raise Interrupted(f"what was charged stays charged (see tacit ledger show {ledger.path})") from None
        raise


def _refused(setting: str, expected: str) -> PlanError:
    return PlanError(
        f"--choose {setting} is not understood", where="synthesize", expected=expected, remedy="change that setting"
    )
