"""PrePATE-GAN's first half: generator and student as an ordinary GAN of public rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.errors import DataError, PlanError
from tacit.methods.synthesis.baselines.pate_gan_networks import (
    Generator,
    Student,
    adam,
    build,
    descend,
    generator_loss,
    student_loss,
)
from tacit.methods.synthesis.baselines.pate_gan_plan import PateGanPlan
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.networks import load_parameters, on_cpu
from tacit.methods.synthesis.pretraining import Progress
from tacit.methods.synthesis.settings import scheduled


@dataclass(frozen=True, eq=False)
class PretrainedGan:
    """A starting point that owes nothing to private data.

    Args:
        encoder: the public constants of the encoding.
        generator, student: parameters by name.
        provenance: where the public rows came from.
    """

    encoder: Encoder
    generator: Mapping[str, Tensor]
    student: Mapping[str, Tensor]
    provenance: str

    def networks(self, plan: PateGanPlan) -> tuple[Generator, Student]:
        """Fresh networks with these weights.

        Raises:
            PlanError: the weights are those of networks of another size than the plan's.
        """
        networks = build(plan, self.encoder, seed=0)
        for network, weights in zip(networks, (self.generator, self.student), strict=True):
            own = {name: value.shape for name, value in network.named_parameters()}
            if own != {name: value.shape for name, value in weights.items()}:
                raise PlanError(
                    "the pre-trained weights are those of another network",
                    where="PretrainedGan.networks",
                    expected="the width, depth, student_width, harmonics and columns of this plan and spec",
                    remedy="pre-train with the plan that is fitted",
                )
            load_parameters(network, weights)
        return networks


def pretrain_gan(
    plan: PateGanPlan,
    encoder: Encoder,
    columns: Mapping[str, npt.NDArray[Any]],
    *,
    seed: int,
    progress: Progress | None = None,
) -> PretrainedGan:
    """Train generator and student on public rows as `plan.pretraining` says.

    Args:
        plan: its networks and pre-training.
        encoder: the public constants.
        columns: public rows (keys as in `Encoder.encode`, first dimension T).
        seed: of the weights, the batches and the noise. Public: no private row is involved.
        progress: called after each step with the student's loss.

    Raises:
        DataError: the plan has no pre-training.
    """
    config = plan.pretraining
    if config is None:
        raise DataError(
            "there are public rows, but the plan does not pre-train",
            where="pretrain_gan",
            expected="PateGanPlan(pretraining=GanPretraining(...))",
            remedy="declare where the public rows come from, or fit without them",
        )
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
