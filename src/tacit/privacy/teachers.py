"""Votes of teachers, each of whom has seen other units: one unit can change one vote (PATE, arXiv:1610.05755).

The units are dealt out to k teachers at random, once a run. A teacher is a small discriminator that learns its own
units' rows against rows that are public, and then says of public rows whether they look real. Only noisy counts of
these votes leave the vault.

Proof page: `proofs/teachers.md`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, SelfComposedDpEvent
from numpy.typing import NDArray

from tacit.errors import DoorError
from tacit.privacy.clipping import SLACK
from tacit.privacy.noise import SecretNoise, add_noise
from tacit.privacy.parts import RowsOf, calibrated, check
from tacit.units import Unit

if TYPE_CHECKING:
    from torch import Tensor

DEALT = "every unit, every step; each unit belongs to one of the teachers, dealt out at random once a run"


@dataclass(frozen=True, kw_only=True)
class TeacherVotes:
    """T batches of noisy counts of votes.

    Args:
        name: the part's name inside its plan.
        steps: T, how many batches may ever be released.
        queries: b, rows that are voted on in one batch.
        teachers: k.
        noise_multiplier: sigma; a count of votes gets N(0, b sigma^2). None until calibrated; 0 is no noise.
        width: of the two hidden layers of a teacher.
        updates: steps of Adam that every teacher takes before it votes on a batch.
        batch: own rows of one such step.
        learning_rate: of Adam.

    Raises:
        PlanError: a parameter is outside its range.
    """

    name: str
    steps: int
    queries: int
    teachers: int
    noise_multiplier: float | None = None
    width: int = 32
    updates: int = 1
    batch: int = 8
    learning_rate: float = 1e-3
    rows_per_unit: ClassVar[int] = 1
    rows: ClassVar[RowsOf] = "drawn"
    fold: ClassVar[None] = None
    reserve: ClassVar[int] = 0

    def __post_init__(self) -> None:
        for name in ("steps", "queries", "teachers", "width", "updates", "batch"):
            value = getattr(self, name)
            check(f"{self.name}.{name}", value, type(value) is int and value >= 1, "a whole number >= 1")
        sigma = self.noise_multiplier
        valid = sigma is None or (math.isfinite(sigma) and sigma >= 0)
        check(f"{self.name}.noise_multiplier", sigma, valid, "a finite number >= 0, or None until calibrated")
        rate = self.learning_rate
        check(f"{self.name}.learning_rate", rate, math.isfinite(rate) and rate > 0, "a finite number > 0")

    @property
    def event(self) -> DpEvent:
        """The part as a `dp_accounting` event: a Gaussian a batch, data-independent."""
        return SelfComposedDpEvent(GaussianDpEvent(calibrated(self.noise_multiplier, self.name)), self.steps)

    def certified(self) -> dict[str, Any]:
        """The part's parameters as the certificate states them."""
        fields = dataclasses.asdict(self)
        return {"kind": "teacher_votes", "sampler": DEALT, **fields, "rows_per_unit": 1, "rows": self.rows}

    def words(self) -> str:
        """What the part does, in plain words."""
        sigma = calibrated(self.noise_multiplier, self.name)
        return (
            f"{self.steps:,} batches of {self.queries:,} public rows on which {self.teachers:,} teachers vote, each of "
            f"them taught by units of its own, noise of standard deviation {sigma * math.sqrt(self.queries):.4g} on "
            "every count"
        )


class Teachers:
    """k discriminators D -> width -> width -> 1, stacked, and the units' rows they learn from; never leaves the vault.

    Args:
        part: their sizes.
        vectors: [U, D], one row a unit.
        noise: deals the units out, and draws first weights and batches.
    """

    def __init__(self, part: TeacherVotes, vectors: NDArray[np.float32], noise: SecretNoise) -> None:
        import torch

        from tacit.privacy.generator import secret_generator

        teacher = noise.integers(np.full(len(vectors), part.teachers))
        counts = np.bincount(teacher, minlength=part.teachers)
        self._part, self._counts = part, counts
        self._first = np.concatenate([[0], np.cumsum(counts)[:-1]])
        real = torch.from_numpy(vectors[np.argsort(teacher, kind="stable")])
        self._real = real if len(real) else torch.zeros(1, vectors.shape[1])
        sizes, generator = (vectors.shape[1], part.width, part.width, 1), secret_generator(noise)
        self._layers = []
        for fan_in, fan_out in itertools.pairwise(sizes):
            for shape in ((part.teachers, fan_in, fan_out), (part.teachers, 1, fan_out)):
                draws = (2 * torch.rand(shape, generator=generator) - 1) * fan_in**-0.5
                self._layers.append(draws.requires_grad_())
        self._adam = torch.optim.Adam(self._layers, lr=part.learning_rate, betas=(0.9, 0.99), fused=True)

    def votes(self, generated: Tensor, against: Tensor, noise: SecretNoise) -> Tensor:
        """Learn own rows against public ones [M, D], then vote on public rows [b, D]: the noisy share of votes [b]."""
        import torch
        from torch.nn.functional import softplus

        part, shape = self._part, (self._part.teachers, self._part.batch)
        held = torch.from_numpy((self._counts > 0).astype(np.float32))[:, None]
        own = np.broadcast_to(np.maximum(1, self._counts)[:, None], shape)
        for _ in range(part.updates):
            places = np.minimum(self._first[:, None] + noise.integers(own), len(self._real) - 1)
            others = noise.integers(np.full(shape, len(against)))
            # Where a teacher has no units the place is another's: nothing of that row may be left, not even a NaN.
            real = self._real[torch.from_numpy(places)] * held[..., None]
            logits = self._logits(torch.cat([real, against[torch.from_numpy(others)]], 1))
            losses = softplus(-logits[:, : part.batch]) * held + softplus(logits[:, part.batch :])
            loss = losses.mean(1).sum()
            self._adam.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            self._adam.step()
        with torch.no_grad():
            count = (self._logits(generated.expand(part.teachers, *generated.shape)) > 0).sum(0).double().numpy()
        scale = calibrated(part.noise_multiplier, part.name) * math.sqrt(len(generated)) * (1 + SLACK)
        return torch.from_numpy((add_noise(count, scale, noise) / part.teachers).astype(np.float32))

    def _logits(self, x: Tensor) -> Tensor:
        """[k, N] for rows [k, N, D]: each teacher's own, by its own weights."""
        import torch

        *hidden, last = zip(self._layers[::2], self._layers[1::2], strict=True)
        for weight, bias in hidden:
            x = torch.nn.functional.leaky_relu(torch.baddbmm(bias, x, weight), 0.2)
        return torch.baddbmm(last[1], x, last[0])[..., 0]


def require(part: TeacherVotes, generated: Tensor, against: Tensor, width: int) -> None:
    """Check the public rows before their votes are paid for.

    Raises:
        DoorError: they are not finite [b, D] and [M, D].
    """
    shapes = tuple(generated.shape), tuple(against.shape)
    fit = shapes[0] == (part.queries, width) and len(shapes[1]) == 2 and shapes[1][0] >= 1 and shapes[1][1] == width
    if not fit or not bool(generated.isfinite().all() and against.isfinite().all()):
        raise DoorError(
            "the rows to vote on, or to learn against, have another shape or are not finite",
            where=part.name,
            expected=f"finite rows [{part.queries}, {width}] to vote on, and [any number, {width}] to learn against",
            remedy="generate rows in the encoding's own units",
        )


def contribution(part: Mapping[str, Any], unit: Unit) -> str:
    """What one unit adds, in plain words, from the part as a certificate states it."""
    scale = part["noise_multiplier"] * math.sqrt(part["queries"])
    return (
        f"{part['name']} (teacher_votes): {part['steps']:,} batches of {part['queries']:,} counts of votes; one "
        f"{unit.name} teaches one of {part['teachers']:,} teachers and moves each count by at most 1 with one of "
        f"its rows, under noise of standard deviation {scale:.6g} a count"
    )
