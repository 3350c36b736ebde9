"""Callbacks that couple units or leave numbers behind, each through a real vault: all are refused.

A coupling that a mechanism undoes, because it hands the callback few units or one at a time, is no coupling: then one
unit more moves the exact sum by no more than a clip.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attack_cases import (
    CACHE,
    COUPLED,
    FLAGS,
    HOOKS,
    UNDONE,
    Backward,
    Box,
    Hidden,
    Logged,
    Switched,
    Watched,
    named,
    numbered,
)
from device_cases import ledger, people
from device_cases import priced as priced_devices
from torch import nn
from user_cases import Scripted, open_user_vault, user_sum
from user_cases import priced as priced_users
from vault_cases import SumPlan, open_vault, priced, told_apart_by_rewards, unit_of

from tacit.errors import MechanismError
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.vault import Vault


@pytest.fixture(autouse=True)
def nothing_cached() -> None:
    CACHE.clear()
    numbered.cache_clear()


@pytest.mark.parametrize("callback", COUPLED, ids=named)
def test_a_coupled_sum_is_refused_before_a_step_is_claimed(tmp_path: Path, callback: Any) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    with pytest.raises(MechanismError, match=r"another unit's rows do|changed between|different results"):
        vault.noisy_sum(run, "sum", callback)
    assert not vault.has_started(run)


@pytest.mark.parametrize("callback", UNDONE, ids=named)
def test_what_couples_many_units_is_never_handed_so_many(tmp_path: Path, callback: Any) -> None:
    sums = []
    for units in (1_023, 1_024):
        vault = open_vault(tmp_path, [[1.0 if i else 9.0] for i in range(units)], unit=unit_of(2_000), name=f"{units}")
        run = vault.reserve(plans.account(SumPlan(noise_multiplier=0.0), unit=vault.unit, delta=1e-4))
        sums.append(vault.noisy_sum(run, "sum", callback)[0] * 2_000)
    assert np.abs(sums[1] - sums[0]).max() == pytest.approx(1.0, abs=2e-4)


@pytest.mark.parametrize("callback", COUPLED, ids=named)
def test_a_coupled_sum_over_people_who_are_met_is_refused(tmp_path: Path, callback: Any) -> None:
    vault = open_user_vault(tmp_path, Scripted([[["a", "b"]]], {"a": [1.0], "b": [2.0]}))
    run = vault.reserve(priced_users(user_sum()))
    vault.enroll(run, lambda *_: np.zeros(1))
    with pytest.raises(MechanismError, match=r"another unit's rows do|changed between|different results"):
        vault.noisy_sum(run, "policy", callback)
    vault._register.close()


@pytest.mark.parametrize("callback", COUPLED, ids=named)
def test_a_coupled_sum_over_devices_is_refused(tmp_path: Path, callback: Any) -> None:
    vault = FederatedVault(StackedDevices(people()), ledger(tmp_path))
    run = vault.reserve(priced_devices("server", 1.0))
    with pytest.raises(MechanismError, match=r"another unit's rows do|changed between|different results"):
        vault.noisy_sum(run, "sum", callback)


@pytest.mark.filterwarnings("ignore:the parameter")
@pytest.mark.parametrize("how", ["max", "rms", "place", *HOOKS])
def test_gradients_that_meet_are_refused_before_a_step_is_claimed(tmp_path: Path, how: str) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    with pytest.raises(MechanismError, match="another unit"):
        vault.noisy_gradient(run, "sum", [nn.Linear(1, 1)], Backward(how))
    assert not vault.has_started(run)


@pytest.mark.filterwarnings("ignore:the parameter")
@pytest.mark.parametrize("last", [(9.0, -9.0), (1.0, 2.0), (0.0, 0.0)])
def test_gradients_that_are_centred_are_each_units_own(tmp_path: Path, last: tuple[float, float]) -> None:
    """Such a gradient goes through `torch.func`, a unit at a time: the mean is of its own rows."""
    sums = []
    for units in (40, 41):
        rewards = [[unit % 7 - 3.0, unit % 3 + 1.0] for unit in range(40)] + [last] * (units - 40)
        data = told_apart_by_rewards(rewards, range(units))
        with Ledger(tmp_path / f"{units}.ledger", unit_of(), epsilon=1e6, delta=1e-3, composition=SUM) as ledger:
            vault = Vault(data, ledger)
            plan = plans.account(SumPlan(noise_multiplier=0.0, rows_per_unit=2), unit=vault.unit, delta=1e-4)
            torch.manual_seed(0)
            layers = nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 1), nn.Sigmoid())
            sums.append(
                vault.noisy_gradient(vault.reserve(plan), "sum", [layers], Backward("centred"))[0].numpy() * 100
            )
    assert np.linalg.norm(sums[0]) >= 0
    print(np.linalg.norm(sums[0]), np.linalg.norm(sums[1] - sums[0]))
    assert np.linalg.norm(sums[1] - sums[0]) <= 1 + 2e-4


@pytest.mark.parametrize(("off", "on"), FLAGS.values(), ids=FLAGS)
def test_a_coupling_that_the_state_switches_on_is_refused(tmp_path: Path, off: Any, on: Any) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    vault.noisy_sum(run, "sum", Switched(), {"centre": off})
    with pytest.raises(MechanismError, match="another unit's rows do"):
        vault.noisy_sum(run, "sum", Switched(), {"centre": on})
    assert vault.steps_left(run, "sum") == 9


def test_a_callback_that_is_equal_to_one_that_was_tried_is_tried_itself(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    vault.noisy_sum(run, "sum", Hidden())
    with pytest.raises(MechanismError, match="another unit's rows do"):
        vault.noisy_sum(run, "sum", Hidden(True))


@pytest.mark.parametrize("log", [[], torch.zeros(1), Box(), None], ids=["list", "tensor", "object", "dictionary"])
def test_nothing_is_left_in_a_state(tmp_path: Path, log: Any) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    state = {"log": log}
    said = "changed between" if log is None else "the state of a callback holds a"
    with pytest.raises(MechanismError, match=said):
        vault.noisy_sum(run, "sum", Logged(), state)
    assert not vault.has_started(run)
    assert state == {"log": log}
    assert log in ([], None) or float(getattr(log, "value", 0.0)) == 0.0


@pytest.mark.parametrize("where", ["model", "count", "layer", "parameter", "weights", "gradients"])
def test_nothing_is_left_on_a_model(tmp_path: Path, where: str) -> None:
    vault = open_vault(tmp_path, [[10.0] for _ in range(4)])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    model = nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 1))
    with pytest.raises(MechanismError, match=r"changed between|parameters or buffers change|another unit's"):
        vault.noisy_gradient(run, "sum", [model], Watched(where))
