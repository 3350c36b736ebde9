"""Generator and student of PATE-GAN, one step of each, and their training on public rows (PrePATE-GAN)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from tacit.errors import DataError
from tacit.methods.synthesis.baselines.pate_gan_plan import PateGanPlan
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.settings import scheduled
from tacit.methods.synthesis.training import PublicProgress, load_pretrained, on_cpu

BETAS = (0.5, 0.99)
"""Of Adam, for generator and student: little momentum, since each of them moves the other's target."""


def waves(rows: Tensor, harmonics: int) -> Tensor:
    """Rows [..., D] with sines and cosines of `harmonics` octaves of every column, [..., D (1 + 2 harmonics)]."""
    # The longest wave has 8 standard units, a little more than twice the bounds of an encoded column.
    octaves = math.pi / 4 * 2.0 ** torch.arange(harmonics)
    phases = (rows[..., None] * octaves).flatten(-2)
    return torch.cat([rows, phases.sin(), phases.cos()], dim=-1)


class Generator(nn.Module):
    """Noise to encoded rows: G(z) = project(z + MLP(z)), z of the size of a row.

    It begins near the standard normal, so that there is something to judge everywhere within the bounds. `project`
    puts every number where a real row could have it (inside the bounds; one of the categories), as decoding does; its
    gradient is passed straight through (arXiv:1308.3432).

    Args:
        encoder: of the rows.
        width, depth: of the hidden layers.
    """

    def __init__(self, encoder: Encoder, *, width: int, depth: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.network = _mlp((encoder.size, *[width] * depth, encoder.size), nn.SiLU)

    def forward(self, noise: Tensor) -> Tensor:
        """[B, D] standard normal numbers to [B, D]."""
        raw = noise + self.network(noise)
        with torch.no_grad():
            plain = torch.zeros(len(raw), self.encoder.bounded_size)
            offset = self.encoder.encode(self.encoder.decode(raw), plain) - raw
        rows: Tensor = raw + offset
        return rows

    def draw(self, count: int, random: torch.Generator) -> Tensor:
        """`count` generated rows [count, D]."""
        rows: Tensor = self(torch.randn(count, self.encoder.size, generator=random))
        return rows


class Student(nn.Module):
    """Encoded rows to the log odds that they are real: an MLP with two hidden layers over the rows' `waves`."""

    def __init__(self, size: int, *, width: int, harmonics: int) -> None:
        super().__init__()
        self.harmonics = harmonics
        self.network = _mlp((size * (1 + 2 * harmonics), width, width, 1), lambda: nn.LeakyReLU(0.2))

    def forward(self, rows: Tensor) -> Tensor:
        """[B, D] to [B]."""
        logits: Tensor = self.network(waves(rows, self.harmonics))
        return logits[:, 0]


def _mlp(sizes: tuple[int, ...], activation: Callable[[], nn.Module]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), activation()]
    return nn.Sequential(*layers[:-1])


def build(plan: PateGanPlan, encoder: Encoder, *, seed: int) -> tuple[Generator, Student]:
    """Generator and student with random weights that depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        generator = Generator(encoder, width=plan.width, depth=plan.depth)
        return generator, Student(encoder.size, width=plan.student_width, harmonics=plan.harmonics)


def adam(network: nn.Module, learning_rate: float) -> torch.optim.Optimizer:
    """The optimiser of either network."""
    return torch.optim.Adam(network.parameters(), lr=learning_rate, betas=BETAS, fused=True)


def student_loss(student: Student, rows: Tensor, labels: Tensor, *, penalty: float) -> Tensor:
    """Cross entropy of rows [B, D] with labels [B], plus `penalty` times the mean squared norm of the rows'
    gradients."""
    # It is linear in the labels, so labels with noise of mean 0 leave its expectation, even those outside [0, 1].
    rows = rows.detach().requires_grad_(penalty > 0)
    logits = student(rows)
    loss: Tensor = (softplus(logits) - labels * logits).mean()
    if penalty > 0:
        (slope,) = torch.autograd.grad(logits.sum(), rows, create_graph=True)
        loss = loss + penalty * slope.square().sum(1).mean()
    return loss


def generator_loss(generator: Generator, student: Student, count: int, random: torch.Generator) -> Tensor:
    """The non-saturating loss of Goodfellow et al. 2014: how little `count` generated rows pass for real."""
    loss: Tensor = softplus(-student(generator.draw(count, random))).mean()
    return loss


def descend(optimizer: torch.optim.Optimizer, loss: Tensor, learning_rate: float) -> None:
    """One step."""
    optimizer.param_groups[0]["lr"] = learning_rate
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


@dataclass(frozen=True, eq=False)
class PretrainedGan:
    """A starting point that owes nothing to private data."""

    encoder: Encoder  # the public constants of the encoding
    generator: Mapping[str, Tensor]  # generator, student: parameters by name
    student: Mapping[str, Tensor]
    provenance: str  # where the public rows came from

    def networks(self, plan: PateGanPlan) -> tuple[Generator, Student]:
        """Fresh networks with these weights."""
        networks = build(plan, self.encoder, seed=0)
        for network, weights in zip(networks, (self.generator, self.student), strict=True):
            sizes = "the width, depth, student_width, harmonics and columns of this plan and spec"
            load_pretrained(network, weights, where="PretrainedGan.networks", expected=sizes)
        return networks


def pretrain_gan(
    plan: PateGanPlan,
    encoder: Encoder,
    columns: Mapping[str, npt.NDArray[Any]],
    *,
    seed: int,
    progress: PublicProgress | None = None,
) -> PretrainedGan:
    """Train generator and student on public rows as `plan.pretraining` says."""
    # columns: public rows (keys as in `Encoder.encode`, first dimension T); seed: of the weights, the batches and the
    # noise. Public: no private row is involved
    config = plan.pretraining
    if config is None:
        what = "there are public rows, but the plan does not pre-train"
        expected = "PateGanPlan(pretraining=GanPretraining(...))"
        remedy = "declare where the public rows come from, or fit without them"
        raise DataError(what, where="pretrain_gan", expected=expected, remedy=remedy)
    generator, student = build(plan, encoder, seed=seed)
    optimizers = adam(generator, config.learning_rate), adam(student, config.learning_rate)
    random = torch.Generator().manual_seed(seed)
    labels = torch.cat([torch.ones(config.batch), torch.zeros(config.batch)])
    plain = torch.zeros(config.batch, encoder.bounded_size)
    for step in range(config.steps):
        rate = scheduled(config.learning_rate, step, config.steps, 0, "cosine")
        chosen = torch.randint(len(columns["rewards"]), (config.batch,), generator=random).numpy()
        batch = {name: torch.from_numpy(np.asarray(column)[chosen]) for name, column in columns.items()}
        rows = torch.cat([encoder.encode(batch, plain), generator.draw(config.batch, random)])
        loss = student_loss(student, rows, labels, penalty=config.penalty)
        descend(optimizers[1], loss, rate)
        descend(optimizers[0], generator_loss(generator, student, config.batch, random), rate)
        if progress is not None:
            progress(step + 1, config.steps, loss.item())
    weights = [on_cpu(dict(network.named_parameters())) for network in (generator, student)]
    return PretrainedGan(encoder, weights[0], weights[1], config.provenance)
