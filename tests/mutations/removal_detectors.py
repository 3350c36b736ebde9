"""Detectors of couplings between units, and of what callbacks leave behind, as those of `detectors.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from attack_cases import Backward, Careless, Logged, Switched, Watched, chunks, deduplicated, majority, place
from torch import nn
from vault_cases import SumPlan, open_vault, priced, unit_of

from tacit.errors import MechanismError
from tacit.privacy.vault import plan as plans


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


REMOVAL_DETECTORS = (
    places_are_refused,
    ties_are_refused,
    backward_couplings_are_refused,
    switched_couplings_are_refused,
    states_stay,
    models_stay,
    large_crowds_are_cut,
)
