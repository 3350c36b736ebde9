"""The teachers behind a part of `TeacherVotes`: stacked discriminators that never leave the vault."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import leaky_relu, softplus

from tacit.errors import MechanismError
from tacit.privacy.gradients.clipped_sums import secret_generator
from tacit.privacy.gradients.clipping import SLACK
from tacit.privacy.mechanisms.base import require_calibrated
from tacit.privacy.mechanisms.votes import TeacherVotes
from tacit.privacy.noise.lattice import add_noise
from tacit.privacy.noise.secret import SecretNoise


class Teachers:
    """k discriminators D -> width -> width -> 1, stacked, and the units' rows they learn from; stays in the vault."""

    def __init__(self, part: TeacherVotes, vectors: NDArray[np.float32], noise: SecretNoise) -> None:
        # vectors: [U, D], one row a unit; noise: deals the units out, and draws first weights and batches
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
        part = self._part
        with torch.enable_grad():
            self._learn(against, noise)
        with torch.no_grad():
            count = (self._logits(generated.expand(part.teachers, *generated.shape)) > 0).sum(0).double().numpy()
        scale = require_calibrated(part.noise_multiplier, part.name) * math.sqrt(len(generated)) * (1 + SLACK)
        return torch.from_numpy((add_noise(count, scale, noise) / part.teachers).astype(np.float32))

    def _learn(self, against: Tensor, noise: SecretNoise) -> None:
        """A few steps of Adam, every teacher on its own rows and on public ones."""
        part, shape = self._part, (self._part.teachers, self._part.batch_size)
        held = torch.from_numpy((self._counts > 0).astype(np.float32))[:, None]
        row_counts = np.broadcast_to(np.maximum(1, self._counts)[:, None], shape)
        for _ in range(part.updates):
            places = np.minimum(self._first[:, None] + noise.integers(row_counts), len(self._real) - 1)
            public_places = noise.integers(np.full(shape, len(against)))
            # Where a teacher has no units the place is another's: nothing of that row may be left, not even a NaN.
            real = self._real[torch.from_numpy(places)] * held[..., None]
            logits = self._logits(torch.cat([real, against[torch.from_numpy(public_places)]], 1))
            losses = softplus(-logits[:, : part.batch_size]) * held + softplus(logits[:, part.batch_size :])
            loss = losses.mean(1).sum()
            self._adam.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            self._adam.step()

    def _logits(self, x: Tensor) -> Tensor:
        """[k, N] for rows [k, N, D]: each teacher's own, by its own weights."""
        *hidden, last = zip(self._layers[::2], self._layers[1::2], strict=True)
        for weight, bias in hidden:
            x = leaky_relu(torch.baddbmm(bias, x, weight), 0.2)
        return torch.baddbmm(last[1], x, last[0])[..., 0]


def require(part: TeacherVotes, generated: Tensor, against: Tensor, width: int) -> None:
    """Check the public rows before their votes are paid for."""
    shapes = tuple(generated.shape), tuple(against.shape)
    single = generated.dtype == against.dtype == torch.float32
    fit = (
        single
        and shapes[0] == (part.queries, width)
        and len(shapes[1]) == 2
        and shapes[1][0] >= 1
        and shapes[1][1] == width
    )
    if not fit or not bool(generated.isfinite().all() and against.isfinite().all()):
        what = "the rows to vote on, or to learn against, have another shape or are not finite"
        expected = f"finite float32 rows [{part.queries}, {width}] to vote on, [any, {width}] to learn against"
        remedy = "generate rows in the encoding's own units"
        raise MechanismError(what, where=part.name, expected=expected, remedy=remedy)
