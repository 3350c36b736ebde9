"""Callbacks that couple units or leave numbers behind, each through a real vault: all are refused.

A coupling that a mechanism undoes, because it hands the callback few units or one at a time, is no coupling: then one
unit more moves the exact sum by no more than a clip.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from device_cases import ledger, people
from device_cases import priced as priced_devices
from torch import Tensor, nn
from user_cases import Scripted, open_user_vault, user_sum
from user_cases import priced as priced_users
from vault_cases import SumPlan, open_vault, priced, unit_of

from tacit.errors import MechanismError
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault

Rows = Mapping[str, np.ndarray]
CACHE: dict[str, float] = {}
ENDS = (1.0, 5.0, 10.0)
"""Of the bounds of rewards here."""
Work = Callable[[Any], Any]


@functools.lru_cache
def numbered(n: int) -> np.ndarray:
    return np.arange(n)


def place(x: Any) -> Any:
    """Antithetic signs, one unit against the next."""
    return x * (-1.0) ** np.arange(len(x))


def jitter(x: Any) -> Any:
    """Random signs from a fixed seed."""
    return x * np.random.default_rng(0).choice([-1.0, 1.0], size=len(x))


def bootstrap(x: Any) -> Any:
    """Two heads, of which each unit teaches one, by its place."""
    return np.eye(2)[np.random.default_rng(1).integers(2, size=len(x))] * x[:, None]


def whitened(x: Any) -> Any:
    return x - x.mean()


def ranks(x: Any) -> Any:
    return np.argsort(np.argsort(x)) / len(x)


def cached(x: Any) -> Any:
    CACHE.setdefault("mean", float(x.mean()))
    return x


def cached_by_size(x: Any) -> Any:
    numbered(len(x))
    return x


def global_noise(x: Any) -> Any:
    return x + np.random.normal(size=len(x))  # noqa: NPY002


def torch_noise(x: Any) -> Any:
    return x + torch.randn(len(x)).numpy()


def inverse_frequency(x: Any) -> Any:
    _, which, counts = np.unique(x, return_inverse=True, return_counts=True)
    return np.asarray(x / counts[which])


def majority(x: Any) -> Any:
    """The sign of the most frequent value."""
    _, which, counts = np.unique(x, return_inverse=True, return_counts=True)
    return np.where(counts[which] == counts.max(), 1.0, -1.0) if counts.max() > 1 else np.ones(len(x))


def deduplicated(x: Any) -> Any:
    kept = np.zeros(len(x))
    kept[np.unique(x, return_index=True)[1]] = 1
    return kept


def winsorised(x: Any) -> Any:
    """Scaled where the largest is at the edge of the bounds."""
    return x if x.max() not in ENDS else x / 1e3


def batch_norm(x: Any) -> Any:
    layer = nn.BatchNorm1d(1, track_running_stats=False).eval()
    return np.asarray(layer(torch.tensor(x, dtype=torch.float32)[:, None]).detach().numpy())


def chunks(x: Any) -> Any:
    """Centred in full mini-batches of 512."""
    parts = np.split(x, range(512, len(x), 512))
    return np.concatenate([part - part.mean() * (len(part) == 512) for part in parts])


def left_out(x: Any) -> Any:
    """Without the last mini-batch of 512 that is not full."""
    return x * (np.arange(len(x)) < (len(x) // 512 * 512 if len(x) >= 512 else len(x)))


@dataclass(frozen=True)
class Careless:
    """A unit's reward, and something done to all of them."""

    work: Work

    def __call__(self, rows: Rows, state: Any) -> np.ndarray:
        return self.work(rows["rewards"][:, 0].astype(float)).reshape(len(rows["mask"]), -1)


@dataclass(frozen=True)
class InPlace:
    """Writes the mean into the rows."""

    def __call__(self, rows: Rows, state: Any) -> np.ndarray:
        rows["rewards"][:] = rows["rewards"].mean()
        return rows["rewards"][:, :1]


COUPLED: tuple[Any, ...] = (
    *map(Careless, (place, jitter, bootstrap, whitened, ranks, cached, cached_by_size, global_noise, torch_noise)),
    *map(Careless, (inverse_frequency, majority, deduplicated, winsorised, batch_norm)),
    InPlace(),
)
UNDONE = (Careless(chunks), Careless(left_out))


@pytest.fixture(autouse=True)
def nothing_cached() -> None:
    CACHE.clear()
    numbered.cache_clear()


def named(callback: Any) -> str:
    return getattr(getattr(callback, "work", callback), "__name__", type(callback).__name__)


@pytest.mark.parametrize("callback", COUPLED, ids=named)
def test_a_coupled_sum_is_refused_before_a_step_is_claimed(tmp_path: Path, callback: Any) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    with pytest.raises(MechanismError, match=r"another unit's rows do|changed between|different results"):
        vault.noisy_sum(run, "sum", callback)
    assert not vault.touched(run)


@pytest.mark.parametrize("callback", UNDONE, ids=named)
def test_what_couples_many_units_is_never_handed_so_many(tmp_path: Path, callback: Any) -> None:
    sums = []
    for units in (1_024, 1_025):
        vault = open_vault(tmp_path, [[1.0 if i else 9.0] for i in range(units)], unit=unit_of(2_000), name=f"{units}")
        run = vault.reserve(plans.account(SumPlan(noise_multiplier=0.0), unit=vault.unit, delta=1e-4))
        sums.append(vault.noisy_sum(run, "sum", callback)[0] * 2_000)
    assert np.abs(sums[1] - sums[0]).max() == pytest.approx(1.0, abs=2e-4)


# -- people who are met, and devices -----------------------------------------------------------------------------------


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


# -- gradients ---------------------------------------------------------------------------------------------------------


class Scaled(torch.autograd.Function):
    """Forward nothing; backward the gradient over its largest entry, or its root mean square, in the batch."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, by: str) -> Tensor:
        ctx.by = by
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        size = g.abs().max() if ctx.by == "max" else g.square().mean().sqrt()
        return g / (size + 1e-12), None


HOOKS: dict[str, Callable[[Tensor], Tensor]] = {
    "normalised": lambda g: g / (g.norm() + 1e-12) * 20,
    "sign consensus": lambda g: g.abs() * torch.sign(g.sum()),
}


@dataclass(frozen=True)
class Backward:
    """Squared errors whose gradients meet on their way back."""

    how: str

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        return {}

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        out = model(rows["observations"].flatten(0, 1)).view(rows["rewards"].shape)
        if out.requires_grad and self.how in HOOKS:
            out.register_hook(HOOKS[self.how])
        if self.how in ("max", "rms"):
            out = Scaled.apply(out, self.how)  # type: ignore[no-untyped-call]
        losses: Tensor = ((out - rows["rewards"]).square() * rows["mask"]).sum(1)
        if self.how == "place":
            losses = losses * (1 - 2 * (torch.arange(len(losses)) % 2))
        return losses


@pytest.mark.filterwarnings("ignore:the parameter")
@pytest.mark.parametrize("how", ["max", "rms", "place", *HOOKS])
def test_gradients_that_meet_are_refused_before_a_step_is_claimed(tmp_path: Path, how: str) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    with pytest.raises(MechanismError, match="another unit"):
        vault.noisy_gradient(run, "sum", [nn.Linear(1, 1)], Backward(how))
    assert not vault.touched(run)


# -- states that switch a coupling on ----------------------------------------------------------------------------------


class Mode(enum.Enum):
    PLAIN = 1
    CENTRED = 2


@dataclass(frozen=True)
class Switched:
    """Centres the batch when its state says so."""

    def __call__(self, rows: Rows, state: Any) -> np.ndarray:
        x, on = rows["rewards"][:, :1], state["centre"]
        if isinstance(on, Mode):
            on = on is Mode.CENTRED
        elif isinstance(on, str):
            on = on == "whiten"
        return x - x.mean(0) if on > 2 * (type(on) is int) else x


FLAGS: dict[str, tuple[Any, Any]] = {
    "bool": (False, True),
    "str": ("plain_", "whiten"),
    "np.bool_": (np.bool_(False), np.bool_(True)),
    "np.str_": (np.str_("plain_"), np.str_("whiten")),
    "enum": (Mode.PLAIN, Mode.CENTRED),
    "a number of steps": (0, 3),
    "an array": (np.array(False), np.array(True)),
}


@pytest.mark.parametrize(("off", "on"), FLAGS.values(), ids=FLAGS)
def test_a_coupling_that_the_state_switches_on_is_refused(tmp_path: Path, off: Any, on: Any) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    vault.noisy_sum(run, "sum", Switched(), {"centre": off})
    with pytest.raises(MechanismError, match="another unit's rows do"):
        vault.noisy_sum(run, "sum", Switched(), {"centre": on})
    assert vault.steps_left(run, "sum") == 9


@dataclass(frozen=True)
class Hidden:
    """Callbacks that are equal, of which one centres the batch."""

    centre: bool = field(default=False, compare=False)

    def __call__(self, rows: Rows, state: Any) -> np.ndarray:
        x = rows["rewards"][:, :1]
        return x - x.mean(0) if self.centre else x


def test_a_callback_that_is_equal_to_one_that_was_tried_is_tried_itself(tmp_path: Path) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    vault.noisy_sum(run, "sum", Hidden())
    with pytest.raises(MechanismError, match="another unit's rows do"):
        vault.noisy_sum(run, "sum", Hidden(True))


# -- numbers that are left behind --------------------------------------------------------------------------------------


class Box:
    value = 0.0


@dataclass(frozen=True)
class Logged:
    """Leaves the mean in its state."""

    def __call__(self, rows: Rows, state: Any) -> np.ndarray:
        mean = float(rows["rewards"].mean())
        if isinstance(state["log"], list):
            state["log"].append(mean)
        elif isinstance(state["log"], Tensor):
            state["log"].fill_(mean)
        elif isinstance(state["log"], Box):
            state["log"].value = mean
        else:
            state["mean"] = mean
        return rows["rewards"][:, :1]


@pytest.mark.parametrize("log", [[], torch.zeros(1), Box(), None], ids=["list", "tensor", "object", "dictionary"])
def test_nothing_is_left_in_a_state(tmp_path: Path, log: Any) -> None:
    vault = open_vault(tmp_path, [[1.0], [2.0]])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    state = {"log": log}
    said = "changed between" if log is None else "the state of a callback holds a"
    with pytest.raises(MechanismError, match=said):
        vault.noisy_sum(run, "sum", Logged(), state)
    assert not vault.touched(run)
    assert state == {"log": log}
    assert log in ([], None) or float(getattr(log, "value", 0.0)) == 0.0


@dataclass(frozen=True)
class Watched:
    """Leaves something of the losses on the model."""

    where: str

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        return {}

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        out = model(rows["observations"].flatten(0, 1)).view(rows["rewards"].shape)
        losses: Tensor = ((out - rows["rewards"]).square() * rows["mask"]).sum(1)
        seen = losses.detach().mean().item()
        if self.where == "model":
            model.last_loss = seen  # type: ignore[assignment]
        elif self.where == "count":
            model.seen = len(losses)  # type: ignore[assignment]
        elif self.where == "layer":
            model[0].last_loss = seen  # type: ignore[index]
        elif self.where == "parameter":
            for parameter in model.parameters():
                parameter.last = seen  # type: ignore[attr-defined]
        elif self.where == "weights" and seen > 60:  # of records alone
            next(model.parameters()).data.fill_(seen)
        elif self.where == "gradients" and seen > 60:
            next(model.parameters()).grad = torch.full_like(next(model.parameters()), seen)
        return losses


@pytest.mark.parametrize("where", ["model", "count", "layer", "parameter", "weights", "gradients"])
def test_nothing_is_left_on_a_model(tmp_path: Path, where: str) -> None:
    vault = open_vault(tmp_path, [[10.0] for _ in range(4)])
    run = vault.reserve(priced(vault, noise_multiplier=1.0))
    model = nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 1))
    with pytest.raises(MechanismError, match=r"changed between|parameters or buffers change|another unit's"):
        vault.noisy_gradient(run, "sum", [model], Watched(where))
