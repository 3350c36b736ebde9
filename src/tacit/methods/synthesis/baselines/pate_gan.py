"""PATE-GAN and PrePATE-GAN (Jordon, Yoon and van der Schaar, ICLR 2019, algorithm 1), priced whatever the votes are.

Input: private rows behind a vault, a calibrated plan (T, b, k, sigma), and for PrePATE-GAN a GAN of public rows
1. for t = 1 .. T:
2.     x_1 .. x_b <- G(z_1) .. G(z_b)                                                 z ~ N(0, I)
3.     r <- vault.teacher_votes: each of k teachers learns its own rows against other generated ones, then votes on
           x; the counts get N(0, b sigma^2)
4.     S <- Adam on the cross entropy of the latest x with the labels r               the student sees no real row
5.     G <- Adam on softplus(-S(G(z)));  average <- EMA(G)
6. release the average of G; sampling from it is post-processing
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from tacit.errors import DataError, PlanError
from tacit.methods.synthesis import training
from tacit.methods.synthesis.baselines.pate_gan_plan import PART, GanPretraining, PateGanPlan
from tacit.methods.synthesis.discretisation import to_trajectories
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import Progress, scheduled_rate
from tacit.methods.synthesis.training import MovingAverage, PublicProgress, load_parameters, load_pretrained
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.base import exhausted_error
from tacit.privacy.vault.vault import Vault

if TYPE_CHECKING:
    from tacit.data.trajectories import Trajectories

__all__ = ["GanPretraining", "GanSynthesizer", "PateGanPlan", "PretrainedGan", "RealRows", "fit", "pretrain_gan"]


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
        rate = scheduled_rate(config.learning_rate, step, config.steps, 0, "cosine")
        chosen = torch.randint(len(columns["rewards"]), (config.batch,), generator=random).numpy()
        batch = {name: torch.from_numpy(np.asarray(column)[chosen]) for name, column in columns.items()}
        rows = torch.cat([encoder.encode(batch, plain), generator.draw(config.batch, random)])
        loss = student_loss(student, rows, labels, penalty=config.penalty)
        descend(optimizers[1], loss, rate)
        descend(optimizers[0], generator_loss(generator, student, config.batch, random), rate)
        if progress is not None:
            progress(step + 1, config.steps, loss.item())
    weights = [training.copy_to_cpu(dict(network.named_parameters())) for network in (generator, student)]
    return PretrainedGan(encoder, weights[0], weights[1], config.provenance)


_AT_ONCE = 100_000  # rows sampled in one go


@dataclass(frozen=True)
class RealRows:
    """What a teacher sees of its units: their encoded rows, values on a bound where they are, with their waves."""

    encoder: Encoder
    harmonics: int

    def __call__(self, rows: Mapping[str, np.ndarray], state: Any) -> np.ndarray:
        """Columns [U, 1, ...] to [U, D (1 + 2 harmonics)]."""
        columns = {name: torch.from_numpy(column[:, 0]) for name, column in rows.items() if name != "replicate"}
        plain = torch.zeros(len(columns["rewards"]), self.encoder.bounded_size)
        return waves(self.encoder.encode(columns, plain), self.harmonics).numpy()


@dataclass(frozen=True, eq=False)
class GanSynthesizer:
    """A generator of transitions that has left the vault.

    Args:
        plan: the public parameters it was trained with.
        encoder: the public constants of its rows.
        weights: the averaged parameters of the generator, by name.
    """

    plan: PateGanPlan
    encoder: Encoder
    weights: Mapping[str, Tensor]

    def generator(self) -> Generator:
        """The generator with its released weights."""
        generator = Generator(self.encoder, width=self.plan.width, depth=self.plan.depth)
        load_parameters(generator, self.weights)
        return generator

    @torch.no_grad()
    def sample_columns(self, count: int, *, seed: int) -> dict[str, np.ndarray]:
        """`count` independent transitions as columns of raw units inside the public bounds.

        Args:
            count: how many rows.
            seed: of the sampling; public, since sampling is post-processing.
        """
        generator, random = self.generator(), torch.Generator().manual_seed(seed)
        sizes = [min(_AT_ONCE, count - start) for start in range(0, count, _AT_ONCE)] or [0]
        parts = [self.encoder.decode(generator.draw(size, random)) for size in sizes]
        columns = {name: torch.cat([part[name] for part in parts]).numpy() for name in parts[0]}
        return {**columns, "truncations": np.zeros(count, bool)}

    def sample(self, count: int, *, seed: int = 0) -> Trajectories:
        """`count` independent transitions as a data set that belongs to nobody, one unit a row."""
        return to_trajectories(self.sample_columns(count, seed=seed), self.encoder.spec)

    def to_json(self) -> dict[str, Any]:
        """What `from_saved` needs beside the plan, in words."""
        return {"encoder": self.encoder.to_json()}

    def arrays(self) -> dict[str, np.ndarray]:
        """The weights by name, float32."""
        return {name: value.numpy() for name, value in self.weights.items()}

    @classmethod
    def from_saved(
        cls, plan: Mapping[str, Any], fields: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> GanSynthesizer:
        """The value whose plan's public fields, `to_json` and `arrays` these are.

        Raises:
            TacitError, KeyError, TypeError, ValueError: they do not fit together.
        """
        encoder = Encoder.from_json(fields["encoder"])
        weights = {name: torch.from_numpy(np.array(value)) for name, value in arrays.items()}
        value = cls(PateGanPlan.from_json(plan), encoder, weights)
        fresh = Generator(encoder, width=value.plan.width, depth=value.plan.depth)
        expected = {name: (parameter.shape, parameter.dtype) for name, parameter in fresh.named_parameters()}
        fits = expected == {name: (parameter.shape, parameter.dtype) for name, parameter in weights.items()}
        if not fits or not all(bool(parameter.isfinite().all()) for parameter in weights.values()):
            raise ValueError("the weights are not the finite float32 parameters of the plan's generator")
        return value


def fit(
    plan: PateGanPlan,
    vault: Vault,
    *,
    pretrained: PretrainedGan | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Release[GanSynthesizer]:
    """Train a generator under the plan's promise.

    A run that is stopped cannot go on: the deal of units to teachers is secret and ends with the process.

    Args:
        plan: calibrated for the vault's unit.
        vault: the private rows and their ledger.
        pretrained: the starting point that `plan.pretraining` declares (`pretrain_gan`); None without one.
        seed: of the weights and of the generator's noise; public. The votes' noise is the vault's and secret.
        progress: called after each step.

    Raises:
        PlanError: the pre-training is not the one that the plan declares.
        PlanExhausted: the plan was begun before.
        BudgetExceeded: the ledger cannot pay for the plan.
    """
    generator, student = _start(plan, vault, pretrained, seed)
    real, random = RealRows(generator.encoder, plan.harmonics), torch.Generator().manual_seed(seed)
    optimizers = adam(generator, plan.generator_rate), adam(student, plan.student_rate)
    average = MovingAverage(generator, decay=plan.ema)
    answered: deque[tuple[Tensor, Tensor]] = deque(maxlen=plan.window)
    run = vault.reserve(plan)
    if vault.has_started(run):
        raise exhausted_error(run, PART)

    for step in range(plan.steps):
        with torch.no_grad():
            queries, opponents = generator.draw(plan.queries, random), generator.draw(plan.opponents, random)
        seen = waves(queries, plan.harmonics), waves(opponents, plan.harmonics)
        shares = vault.teacher_votes(run, PART, real, seen[0], against=seen[1])
        answered.append((queries, shares if plan.labels == "shares" else (shares > 0.5).to(shares.dtype)))
        rows, labels = (torch.cat(column) for column in zip(*answered, strict=True))
        for _ in range(plan.student_updates):
            chosen = torch.randint(len(rows), (plan.student_batch,), generator=random)
            loss = student_loss(student, rows[chosen], labels[chosen], penalty=plan.penalty)
            descend(optimizers[1], loss, plan.student_rate)
        rate = plan.generator_rate_at(step)
        for _ in range(plan.generator_updates):
            descend(optimizers[0], generator_loss(generator, student, plan.generator_batch, random), rate)
        average.update(generator)
        if progress is not None:
            progress(step + 1, plan.steps)

    value = GanSynthesizer(plan, generator.encoder, average.state())
    return vault.release(run, value, label=plan.label())


def _start(plan: PateGanPlan, vault: Vault, pretrained: PretrainedGan | None, seed: int) -> tuple[Generator, Student]:
    declared = None if plan.pretraining is None else plan.pretraining.provenance
    provenance = None if pretrained is None else pretrained.provenance
    encoder = Encoder.from_bounds(vault.spec) if pretrained is None else pretrained.encoder
    if provenance != declared or encoder.spec != vault.spec:
        what = "the starting point is not the pre-training that the plan declares, or has other public bounds"
        expected = f"pretrained= with the provenance {declared!r}, encoded by the private data's own public spec"
        remedy = "pass the result of pretrain_gan for this very plan, with an encoder of vault.spec"
        raise PlanError(what, where="pate_gan.fit", expected=expected, remedy=remedy)
    return build(plan, encoder, seed=seed) if pretrained is None else pretrained.networks(plan)
