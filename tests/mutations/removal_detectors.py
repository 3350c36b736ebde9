"""Detectors of couplings between units, and of what callbacks leave behind, as those of `detectors.py`."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attack_cases import (
    Backward,
    Careless,
    Logged,
    Switched,
    Watched,
    chunks,
    deduplicated,
    far_ones_dropped,
    majority,
    place,
    scaled_by_the_largest,
)
from torch import nn
from vault_cases import SPEC, Silent, SumPlan, open_vault, priced, unit_of

from tacit.errors import LedgerError, MechanismError
from tacit.privacy.vault import isolation, memory, removal
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Label
from tacit.privacy.vault.memory import find_foreign


def _refused(folder: Path, name: str, *asked: Callable[[Any, Any], object]) -> None:
    """The last of these questions is refused by a fresh vault, and those before it are not."""
    vault = open_vault(folder, [[10.0] for _ in range(4)], name=name)
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    for question in asked[:-1]:
        question(vault, run)
    try:
        asked[-1](vault, run)
    except MechanismError:
        return
    finally:
        vault.ledger.close()
    raise AssertionError(f"{name} was let in")


def places_are_refused(folder: Path) -> None:
    """A callback that counts the places of units."""
    _refused(folder, "place", lambda vault, run: vault.noisy_sum(run, "sum", Careless(place)))


def ties_are_refused(folder: Path) -> None:
    """Callbacks in which units meet where some are alike."""
    for work in (majority, deduplicated):
        _refused(folder, work.__name__, lambda vault, run, work=work: vault.noisy_sum(run, "sum", Careless(work)))


def backward_couplings_are_refused(folder: Path) -> None:
    """Gradients that meet on their way back, behind losses that do not."""
    for how in ("max", "rms"):
        layers = [nn.Linear(1, 1)]
        _refused(
            folder,
            how,
            lambda vault, run, how=how, layers=layers: vault.noisy_gradient(run, "sum", layers, Backward(how)),
        )


def switched_couplings_are_refused(folder: Path) -> None:
    """A coupling that a number, or an array, in the state switches on after the first step."""
    for name, off, on in (("number", 0, 3), ("array", np.array(False), np.array(True))):
        states = ({"centre": off}, {"centre": on})
        ask = [lambda vault, run, state=state: vault.noisy_sum(run, "sum", Switched(), state) for state in states]
        _refused(folder, name, *ask)


def states_stay(folder: Path) -> None:
    """Nothing of a step is left in a list of its state."""
    log: list[float] = []
    _refused(folder, "log", lambda vault, run: vault.noisy_sum(run, "sum", Logged(), {"log": log}))
    assert not log, "a mean was left in the state"


def models_stay(folder: Path) -> None:
    """Nothing of a step is left on a model of PyTorch's own layers, nor on its parameters."""
    for where in ("model", "parameter", "gradients"):
        model = nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 1))
        _refused(
            folder,
            where,
            lambda vault, run, model=model, where=where: vault.noisy_gradient(run, "sum", [model], Watched(where)),
        )


def large_crowds_are_cut(folder: Path) -> None:
    """One unit moves a sum by a clip, also by a callback in which 512 units meet."""
    sums = []
    for units in (1_023, 1_024):
        rewards = [[1.0 if i else 9.0] for i in range(units)]
        vault = open_vault(folder, rewards, unit=unit_of(2_000), name=f"{units}")
        run = vault.reserve(plans.account(SumPlan(noise_multiplier=0.0), unit=vault.unit, delta=1e-4))
        sums.append(vault.noisy_sum(run, "sum", Careless(chunks))[0] * 2_000)
        vault.ledger.close()
    moved = float(np.abs(sums[1] - sums[0]).max())
    assert moved <= 1.0 + 1e-6, f"one unit moved the sum by {moved:.3g} clips"


@dataclass(frozen=True)
class Wide:
    """A reward in a hundred equal numbers, centred over a batch of 64 or more."""

    def __call__(self, rows: Any, state: Any) -> np.ndarray:
        reward = rows["rewards"][:, :1].astype(np.float32)
        if len(reward) >= 64:
            reward = reward - reward.mean()
        return np.repeat(reward, 100, axis=1)


def wide_crowds_are_cut(folder: Path) -> None:
    """A callback gets no more units than it was tried on, where memory made the largest crowd smaller."""
    checks = isolation.IsolationChecks(SPEC)
    part = SumPlan(noise_multiplier=1.0).parts()[0]
    with pytest.MonkeyPatch().context() as patch:
        patch.setattr(removal, "MOST_HELD", 2**16)
        checks.try_contribution(part, Wide(), None)
    most = checks.largest_crowd(part, Wide())
    assert most is not None
    assert most < 64, f"{most} units are handed over"


@dataclass(frozen=True)
class FailsOnTheCanary:
    """A reward; fails on the canary's."""

    def draw(self, generator: Any, units: int, rows_per_unit: int) -> dict[str, Any]:
        return {}

    def loss(self, model: nn.Module, rows: Any) -> Any:
        if bool((rows["rewards"] == 7.25).any()):
            raise ValueError("as a user's callback may")
        return model(rows["observations"].flatten(0, 1)).view_as(rows["rewards"]).sum(1)

    def __call__(self, rows: Any, state: Any) -> np.ndarray:
        if (rows["rewards"] == 7.25).any():
            raise ValueError("as a user's callback may")
        return np.asarray(np.sign(rows["rewards"][:, :1]))


def failures_stay_inside(folder: Path) -> None:
    """A callback that fails on one unit's records takes nobody else along, and nobody hears that it failed."""
    sums, gradients = [], []
    for name, units in (("gone", [[1.0], [2.0]]), ("there", [[1.0], [7.25], [2.0]])):
        vault = open_vault(folder, units, noise=Silent(), unit=unit_of(100), name=name)
        run = vault.reserve(priced(vault, noise_multiplier=1.0))
        sums.append(vault.noisy_sum(run, "sum", FailsOnTheCanary())[0] * 100)
        gradients.append(vault.noisy_gradient(run, "sum", [nn.Linear(1, 1)], FailsOnTheCanary())[0].numpy()[1:] * 100)
        vault.ledger.close()
    for gone, there in (sums, gradients):
        assert np.abs(gone - there).max() < 0.01, "whether a callback failed is seen from outside"


def nothing_is_released_untouched(folder: Path) -> None:
    """A value gets no certificate of a run of which nothing was asked."""
    vault = open_vault(folder, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    with contextlib.suppress(LedgerError):
        vault.release(run, np.array([1.0, 2.0]), label=Label((), (), ()))
        raise AssertionError("records have a certificate")


def outliers_are_refused(folder: Path) -> None:
    """Callbacks in which a unit far from all others is met."""
    for work in (far_ones_dropped, scaled_by_the_largest):
        _refused(folder, work.__name__, lambda vault, run, work=work: vault.noisy_sum(run, "sum", Careless(work)))


def namesakes_are_the_users(folder: Path) -> None:
    """A class of the user's with the name of Python's module is the user's: made at run time, or in such a file."""
    made = make_dataclass("Made", [], frozen=True, namespace={"__call__": lambda self, rows, state: rows["rewards"]})
    made.__module__ = "types"  # as Python before 3.12 has it
    assert find_foreign(made()) == [made]
    (folder / "this.py").write_text("def centred(x):\n    return x - x.mean()\n")
    patch = pytest.MonkeyPatch()
    with patch.context():
        patch.delitem(sys.modules, "this", raising=False)
        patch.syspath_prepend(folder)
        memory._is_genuine.cache_clear()
        try:
            centred = importlib.import_module("this").centred
            assert find_foreign(centred) == [centred]
        finally:
            sys.modules.pop("this", None)
            memory._is_genuine.cache_clear()


REMOVAL_DETECTORS = (
    places_are_refused,
    ties_are_refused,
    backward_couplings_are_refused,
    switched_couplings_are_refused,
    states_stay,
    models_stay,
    large_crowds_are_cut,
    wide_crowds_are_cut,
    outliers_are_refused,
    failures_stay_inside,
    nothing_is_released_untouched,
    namesakes_are_the_users,
)
