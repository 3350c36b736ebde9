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

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tacit.errors import PlanError
from tacit.methods.synthesis.baselines.pate_gan_networks import (
    Generator,
    PretrainedGan,
    Student,
    adam,
    build,
    descend,
    generator_loss,
    pretrain_gan,
    student_loss,
    waves,
)
from tacit.methods.synthesis.baselines.pate_gan_plan import PART, GanPretraining, PateGanPlan
from tacit.methods.synthesis.discretisation import as_trajectories
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.settings import Progress
from tacit.methods.synthesis.training import MovingAverage, load_parameters
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.base import exhausted
from tacit.privacy.vault.vault import Vault

if TYPE_CHECKING:
    from tacit.data.trajectories import Trajectories

__all__ = ["GanPretraining", "GanSynthesizer", "PateGanPlan", "PretrainedGan", "Real", "fit", "pretrain_gan"]

_AT_ONCE = 100_000  # rows sampled in one go


@dataclass(frozen=True)
class Real:
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
        return as_trajectories(self.sample_columns(count, seed=seed), self.encoder.spec)

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
    real, random = Real(generator.encoder, plan.harmonics), torch.Generator().manual_seed(seed)
    optimizers = adam(generator, plan.generator_rate), adam(student, plan.student_rate)
    average = MovingAverage(generator, decay=plan.ema)
    answered: deque[tuple[Tensor, Tensor]] = deque(maxlen=plan.window)
    run = vault.reserve(plan)
    if vault.touched(run):
        raise exhausted(run, PART)

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
