"""Callbacks in which units meet, or which leave numbers behind: what vaults have to refuse."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

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


def far_ones_dropped(x: Any) -> Any:
    """Without who is more than four standard deviations from the mean of all."""
    return np.where(np.abs(x - x.mean()) > 4 * x.std(), 0.0, x)


def scaled_by_the_largest(x: Any) -> Any:
    """In another unit where one value is too large for this one."""
    return x / 10 if np.abs(x).max() > 9 else x


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
    Careless(far_ones_dropped),
    InPlace(),
)
UNDONE = (Careless(chunks), Careless(left_out))


def named(callback: Any) -> str:
    return getattr(getattr(callback, "work", callback), "__name__", type(callback).__name__)


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
        if out.requires_grad and self.how == "centred":
            out.register_hook(lambda g: g - g.mean())
        if self.how in ("max", "rms"):
            out = Scaled.apply(out, self.how)  # type: ignore[no-untyped-call]
        losses: Tensor = ((out - rows["rewards"]).square() * rows["mask"]).sum(1)
        if self.how == "place":
            losses = losses * (1 - 2 * (torch.arange(len(losses)) % 2))
        return losses


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


@dataclass(frozen=True)
class Hidden:
    """Callbacks that are equal, of which one centres the batch."""

    centre: bool = field(default=False, compare=False)

    def __call__(self, rows: Rows, state: Any) -> np.ndarray:
        x = rows["rewards"][:, :1]
        return x - x.mean(0) if self.centre else x


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
