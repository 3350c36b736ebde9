"""Couplings between units that a vault refuses: by how many there are, by structure of a state, by what is kept."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from device_cases import PUBLIC, ledger, people
from device_cases import priced as priced_devices
from torch import Tensor, nn
from vault_cases import SPEC, Regression, Rewards, Silent, open_vault, priced

from tacit.errors import MechanismError
from tacit.privacy.vault import removal
from tacit.privacy.vault.base import Label
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.removal import CROWDS, Harness, VectorViews, _exchanges

Rows = Mapping[str, np.ndarray]
RARE = np.float32(9.8765)
LABEL = Label((), (), ())


def test_any_unit_is_exchanged_while_any_other_stays() -> None:
    for units, trials in zip(CROWDS, (0, 2, 4, 7, 11), strict=True):
        leaves = _exchanges(units)
        assert leaves.shape == (trials, units)
        apart = (leaves.T.astype(int) @ ~leaves) > 0
        assert (apart | np.eye(units, dtype=bool)).all()


@pytest.mark.parametrize(("units_held", "crowds"), [(300, {1, 2, 5, 33, 300}), (40, {1, 2, 5, 33, 40}), (0, {1, 2, 5})])
def test_crowds_are_smaller_where_many_would_take_too_much(
    units_held: int, crowds: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "MOST_HELD", units_held * (4 + 8 + 4 + 4 + 3 * 1 + 4))  # six columns, mask, result
    seen = set[int]()

    def contributions(rows: Rows, units: np.ndarray) -> VectorViews:
        seen.add(len(units))
        return VectorViews([rows["rewards"][:, 0]])

    Harness(contributions, SPEC, 1, "drawn", 1, where="sum").try_at_length()
    assert {1, 2, 5, max(crowds)} <= crowds <= seen
    assert max(seen) == max(crowds)


# -- how many units there are ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Centred:
    """Centres over a batch of so many units or more."""

    least: int

    def __call__(self, rows: Rows, state: Any) -> np.ndarray:
        reward = rows["rewards"][:, :1].astype(float)
        return reward - reward.mean() * (len(reward) >= self.least)


@dataclass(frozen=True)
class Numbered:
    """Adds a little where there are so many units or more."""

    least: int

    def __call__(self, rows: Rows, state: Any) -> np.ndarray:
        return rows["rewards"][:, :1] + 0.1 * (len(rows["rewards"]) >= self.least)


@dataclass(frozen=True)
class Following:
    """One unit repeats the one before it."""

    unit: int

    def __call__(self, rows: Rows, state: Any) -> np.ndarray:
        reward = rows["rewards"][:, :1].copy()
        reward[self.unit : self.unit + 1] += reward[self.unit - 1 : self.unit]
        return reward


@pytest.mark.parametrize(
    "callback",
    [
        Centred(2),
        Centred(6),
        Centred(34),
        Centred(257),
        Numbered(2),
        Numbered(6),
        Numbered(257),
        Following(256),
    ],
    ids=str,
)
def test_units_are_coupled_in_no_crowd(tmp_path: Path, callback: Any) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    with pytest.raises(MechanismError, match="another unit's rows do, or when others leave"):
        vault.noisy_sum(run, "sum", callback)
    assert not vault.has_started(run)


@dataclass(frozen=True)
class CentredLoss(Regression):
    """A loss that is centred over a batch of 257 units or more."""

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        losses = super().loss(model, rows)
        return losses - losses.mean() if len(losses) > 256 else losses


def test_losses_are_coupled_in_no_crowd(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    with pytest.raises(MechanismError, match="another unit's rows do"):
        vault.noisy_gradient(run, "sum", [nn.Linear(1, 1)], CentredLoss())


# -- other structures of states and models -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Switched:
    """Centres where the state is of two numbers, or is a true flag."""

    def __call__(self, rows: Rows, state: Any) -> np.ndarray:
        reward = rows["rewards"][:, :1]
        return reward - reward.mean() if state is True or np.size(state) == 2 else reward


@pytest.mark.parametrize(("first", "second"), [(np.zeros(1), np.zeros(2)), (False, True)])
def test_another_structure_of_the_state_is_tried_again(tmp_path: Path, first: Any, second: Any) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    vault.noisy_sum(run, "sum", Switched(), first)
    with pytest.raises(MechanismError, match="another unit's rows do"):
        vault.noisy_sum(run, "sum", Switched(), second)
    assert vault.steps_left(run, "sum") == 9


@dataclass(frozen=True)
class Tried:
    """Says how often it ran: a state of the same structure needs no trial."""

    def __call__(self, rows: Rows, state: Any) -> np.ndarray:
        return rows["rewards"][:, :1]


def test_the_same_structure_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = open_vault(tmp_path, [[1.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    real, tried = Harness.try_at_length, list[str]()
    monkeypatch.setattr(Harness, "try_at_length", lambda self: (tried.append("at length"), real(self))[1])
    for state in (np.zeros(2), np.ones(2), {"a": np.ones(2)}, {"a": np.zeros(2)}, np.ones(2, int), np.zeros(2)):
        vault.noisy_sum(run, "sum", Tried(), state)
    assert len(tried) == 3


def _named_alike(centre: bool) -> Any:
    """A callback of one name, whose code is another one."""
    if centre:

        @dataclass(frozen=True)
        class Alike:
            def __call__(self, rows: Rows, state: Any) -> np.ndarray:
                reward = rows["rewards"][:, :1].astype(float)
                return reward - reward.mean()
    else:

        @dataclass(frozen=True)
        class Alike:
            def __call__(self, rows: Rows, state: Any) -> np.ndarray:
                return rows["rewards"][:, :1].astype(float)

    Alike.__qualname__ = "Alike"
    vars(sys.modules[__name__])["Alike"] = Alike
    return Alike()


def test_another_vault_tries_at_length_what_is_new_in_the_process_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_length, tried = Harness.try_at_length, list[str]()
    monkeypatch.setattr(Harness, "try_at_length", lambda self: (tried.append("at length"), at_length(self))[1])

    def in_a_vault_of_its_own(callback: Any) -> None:
        (folder := tmp_path / str(len(list(tmp_path.iterdir())))).mkdir()
        vault = open_vault(folder, [[1.0]])
        vault.noisy_sum(vault.reserve(priced(vault, noise_multiplier=1.0)), "sum", callback)

    for _ in range(3):
        in_a_vault_of_its_own(Tried())
    assert len(tried) == 1
    in_a_vault_of_its_own(_named_alike(centre=False))
    with pytest.raises(MechanismError, match="changes when another"):
        in_a_vault_of_its_own(_named_alike(centre=True))
    assert len(tried) == 3


class Switch(nn.Module):
    """Centres over the batch while it is not trained, or while its weight is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x)
        return out if self.training and self.linear.weight.requires_grad else out - out.mean()


@pytest.mark.parametrize(
    "change", [lambda model: model.eval(), lambda model: model.linear.weight.requires_grad_(False)]
)
def test_a_model_with_other_flags_is_tried_again(tmp_path: Path, change: Callable[[Switch], object]) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    model = Switch()
    vault.noisy_gradient(run, "sum", [model], Regression())
    change(model)
    with pytest.raises(MechanismError, match="another unit's rows do"):
        vault.noisy_gradient(run, "sum", [model], Regression())


# -- what is kept ------------------------------------------------------------------------------------------------------

KEPT: list[Any] = []
COUNT = 0
GENERATOR = np.random.default_rng(0)


@functools.lru_cache
def cached(total: float) -> float:
    return total


@functools.lru_cache
def shelf() -> list[Any]:
    return []


def enclosed() -> Callable[..., np.ndarray]:
    kept: list[Any] = []

    def call(self: Any, rows: Rows, state: Any) -> np.ndarray:
        kept.append(rows["rewards"])
        return rows["rewards"][:, :1]

    return call


class Keeping:
    """What the callbacks below have in common: a unit's own reward, and a place where rows are put."""

    shared: ClassVar[list[Any]] = []

    def __call__(self, rows: Rows, state: Any) -> np.ndarray:
        self.keep(rows["rewards"])
        return rows["rewards"][:, :1]

    def keep(self, rewards: np.ndarray) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class InGlobal(Keeping):
    def keep(self, rewards: np.ndarray) -> None:
        KEPT.append(rewards)


@dataclass(frozen=True)
class InNumber(Keeping):
    def keep(self, rewards: np.ndarray) -> None:
        global COUNT
        COUNT += len(rewards)


@dataclass(frozen=True)
class InClosure(Keeping):
    __call__ = enclosed()


@dataclass(frozen=True)
class InDefault(Keeping):
    def keep(self, rewards: np.ndarray, kept: list[Any] = []) -> None:  # noqa: B006
        kept.append(rewards)


@dataclass(frozen=True)
class InClass(Keeping):
    def keep(self, rewards: np.ndarray) -> None:
        type(self).last = rewards  # type: ignore[attr-defined]


@dataclass(frozen=True)
class InBase(Keeping):
    def keep(self, rewards: np.ndarray) -> None:
        self.shared.append(rewards)


@dataclass(frozen=True)
class InFunction(Keeping):
    def keep(self, rewards: np.ndarray) -> None:
        InFunction.keep.last = rewards  # type: ignore[attr-defined]


@dataclass(frozen=True)
class InCache(Keeping):
    def keep(self, rewards: np.ndarray) -> None:
        cached(float(rewards.sum()))


@dataclass(frozen=True)
class InResult(Keeping):
    def keep(self, rewards: np.ndarray) -> None:
        shelf().append(rewards)


@dataclass(frozen=True)
class InItself(Keeping):
    def keep(self, rewards: np.ndarray) -> None:
        object.__setattr__(self, "last", rewards)


@dataclass(frozen=True, eq=False)
class InArray(Keeping):
    place: np.ndarray

    def keep(self, rewards: np.ndarray) -> None:
        self.place[0] = rewards.sum()


@dataclass(frozen=True, eq=False)
class InTensor(Keeping):
    place: Tensor

    def keep(self, rewards: np.ndarray) -> None:
        self.place.data += float(rewards.sum())


@dataclass(frozen=True)
class InProperty(Keeping):
    @functools.cached_property
    def place(self) -> list[Any]:
        return []

    def keep(self, rewards: np.ndarray) -> None:
        self.place.append(rewards)


@dataclass(frozen=True)
class InLibrary(Keeping):
    def keep(self, rewards: np.ndarray) -> None:
        np.last_rewards = rewards  # type: ignore[attr-defined]


@dataclass(frozen=True)
class InGenerator(Keeping):
    def keep(self, rewards: np.ndarray) -> None:
        GENERATOR.random()


@dataclass(frozen=True)
class ByHelper(Keeping):
    def keep(self, rewards: np.ndarray) -> None:
        put(rewards)


def put(rewards: np.ndarray) -> None:
    KEPT.append(rewards)


KEEPERS = (
    InGlobal(),
    InNumber(),
    InClosure(),
    InDefault(),
    InClass(),
    InBase(),
    InFunction(),
    InCache(),
    InResult(),
    InItself(),
    InArray(np.zeros(1)),
    InTensor(torch.zeros(1)),
    InProperty(),
    InLibrary(),
    InGenerator(),
    ByHelper(),
)


@pytest.mark.parametrize("callback", KEEPERS, ids=lambda callback: type(callback).__name__)
def test_what_keeps_rows_is_refused_before_a_step_is_claimed(
    tmp_path: Path, callback: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(np, "last_rewards", None, raising=False)  # gone again when the test is over
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    with pytest.raises(MechanismError, match=f"{type(callback).__name__} changed between two calls"):
        vault.noisy_sum(run, "sum", callback)
    assert not vault.has_started(run)
    vault.noisy_sum(run, "sum", Rewards())  # it saw invented rows alone: others may go on


@dataclass(frozen=True)
class KeepingTheRare:
    """Keeps a reward that invented rows do not have."""

    def __call__(self, rows: Rows, state: Any) -> np.ndarray:
        KEPT.extend(rows["rewards"][rows["rewards"] == RARE])
        return rows["rewards"][:, :1]


@dataclass(frozen=True)
class Reading:
    """Reads what another callback kept."""

    def __call__(self, rows: Rows, state: Any) -> np.ndarray:
        return rows["rewards"][:, :1] + len(KEPT)


@pytest.mark.parametrize("second", [KeepingTheRare(), Reading(), Rewards()])
def test_what_is_kept_of_records_serves_no_later_step_and_no_release(tmp_path: Path, second: Any) -> None:
    vault = open_vault(tmp_path, [[1.0], [float(RARE)]], noise=Silent())
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    vault.noisy_sum(run, "sum", Rewards())
    for use in (
        lambda: vault.noisy_sum(run, "sum", KeepingTheRare()),
        lambda: vault.noisy_sum(run, "sum", second),
        lambda: vault.release(run, 0, label=LABEL),
    ):
        with pytest.raises(MechanismError, match="KeepingTheRare changed between two calls") as caught:
            use()
        assert "9.87" not in str(caught.value)
    assert vault.steps_left(run, "sum") == 8


class Keeper(nn.Module):
    """A layer with a list, a number, or a tensor of what passed through it."""

    def __init__(self, place: Any) -> None:
        super().__init__()
        self.linear, self.place = nn.Linear(1, 1), place

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.place, list):
            self.place.append(x.detach())
        else:
            self.place += float(x.detach().sum())
        out: Tensor = self.linear(x)
        return out


@pytest.mark.parametrize("place", [[], 0.0, torch.zeros(1)], ids=["list", "number", "tensor"])
def test_a_layer_that_keeps_rows_is_refused(tmp_path: Path, place: Any) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    with pytest.raises(MechanismError, match="Sequential changed between two calls"):
        vault.noisy_gradient(run, "sum", [nn.Sequential(Keeper(place), nn.Tanh())], Regression())
    assert not vault.has_started(run)


@dataclass(frozen=True)
class KeepingWork:
    """What a device computes, kept beside its state."""

    def begin(self, rows: Rows, seeds: np.ndarray) -> dict[str, np.ndarray]:
        return {"total": (rows["rewards"] * rows["mask"]).sum(1)}

    def __call__(
        self, own: dict[str, np.ndarray], public: Rows, seeds: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        KEPT.append(own["total"])
        return own["total"][:, None], own


def test_work_that_keeps_rows_is_refused(tmp_path: Path) -> None:
    vault = FederatedVault(StackedDevices(people()), ledger(tmp_path))
    run = vault.reserve(priced_devices("server", 1.0))
    with pytest.raises(MechanismError, match="KeepingWork changed between two calls"):
        vault.noisy_sum(run, "sum", KeepingWork(), PUBLIC)


# -- what is honest ----------------------------------------------------------------------------------------------------

SETTINGS = {"scale": 2.0, "names": ["rewards"]}


@functools.lru_cache
def table(size: int) -> np.ndarray:
    return np.arange(size) / size


@dataclass(frozen=True, eq=False)
class Honest:
    """Names constants, a table that was computed before, a property that is computed once."""

    weights: np.ndarray

    @functools.cached_property
    def total(self) -> float:
        return float(self.weights.sum())

    def __call__(self, rows: Rows, state: Any) -> np.ndarray:
        name = SETTINGS["names"][0]  # type: ignore[index]
        return rows[name][:, :1] * self.total * SETTINGS["scale"] + table(3)[1]


class Scaled(nn.Module):
    """A layer of the user's with a buffer and numbers that stay."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.scale = nn.Linear(1, 1), 0.5
        self.register_buffer("shift", torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x * self.scale + self.shift)
        return out


def test_constants_tables_and_properties_may_be_used(tmp_path: Path) -> None:
    table(3)
    vault = open_vault(tmp_path, [[1.0], [2.0]], noise=Silent())
    run = vault.reserve(priced(vault, noise_multiplier=1.0, clip_norm=100.0))
    callback = Honest(np.ones(2))
    sums = [vault.noisy_sum(run, "sum", callback)[0, 0] * vault.unit.size for _ in range(3)]
    assert sums == pytest.approx([12 + 2 / 3] * 3, abs=0.2)  # rounded to the lattice of the noise
    vault.release(run, sums, label=LABEL)


def test_a_model_of_the_users_may_be_trained(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    model = Scaled()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        step = vault.noisy_gradient(run, "sum", [model], Regression())[0]
        for p, gradient in zip(model.parameters(), step.split([p.numel() for p in model.parameters()]), strict=True):
            p.grad = gradient.view_as(p)
        optimizer.step()
        model.eval()
        model.train()
    vault.release(run, model, label=LABEL)
