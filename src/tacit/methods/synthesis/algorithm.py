"""PrivORL-n ("PrivORL: Differentially Private Synthetic Dataset for Offline RL", algorithm 1), corrected.

Input: public rows, private rows behind a vault, a calibrated plan (T, q, C, sigma, K)
1. pre-train the denoiser on the public rows, guided by curiosity          (pretraining.py; no private row)
2. for t = 1 .. T:                                                         (training.py)
3.     g_t <- vault.noisy_gradient: every unit of a Poisson(q) sample gives its denoising-loss gradient,
          averaged over its L rows and K noise draws, clipped to C; their sum gets N(0, (sigma C)^2)
       (with curiosity in fine-tuning, "FineCur": g_t <- g_t + the clipped gradients of novel generated rows)
4.     theta <- Adam(theta, g_t);  average <- EMA(theta)
5. with matching: h <- vault.noisy_sum: every unit gives the mean histograms of its rows, clipped together
6. release the average (and h); sampling, and weighting samples to agree with h, is post-processing  (`Synthesizer`)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.hardware import torch_device
from tacit.methods.synthesis.diffusion import Denoiser, Denoising, ResidualMLP, build_network, sample
from tacit.methods.synthesis.discretisation import to_trajectories
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import PART, Pretraining, Progress, Sampler, TransitionsPlan
from tacit.methods.synthesis.pretraining import GeneratedGradient, PretrainedDenoiser, pretrain
from tacit.methods.synthesis.table_matching import resample
from tacit.methods.synthesis.training import Observe, Training, load_parameters, starting_point
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.vault import Vault

if TYPE_CHECKING:
    from tacit.data.trajectories import Trajectories


@dataclass(frozen=True, eq=False)
class Synthesizer:
    """A denoiser of transitions that has left the vault.

    Args:
        plan: the public parameters it was trained with.
        encoder: the public constants of its rows.
        weights: the averaged parameters of its network, by name.
        histograms: the released tables of `plan.matching`, one after another, [sum of its sizes]; None where it has
            none, or where an interruption lost them after they were paid for: then rows are not weighted.
        sums: of how many noisy sums they are the mean; fewer than the plan's where an interruption lost some.
    """

    plan: TransitionsPlan
    encoder: Encoder
    weights: Mapping[str, Tensor]
    histograms: NDArray[np.float64] | None = None
    sums: int = 0

    def __repr__(self) -> str:
        parameters = sum(tensor.numel() for tensor in self.weights.values())
        matched = "" if self.histograms is None else ", matched"
        return f"Synthesizer({parameters:,} parameters, rows of {self.encoder.size} numbers{matched})"

    def network(self) -> ResidualMLP:
        """A network of the plan's size, with random weights."""
        return build_network(self.plan, self.encoder.size)

    def model(self) -> Denoiser:
        """The denoiser with its released weights."""
        model = Denoiser(self.encoder, self.network())
        load_parameters(model.network, self.weights)
        return model

    def sample_columns(
        self, count: int, *, seed: int, sampler: Sampler | None = None, device: str = "cpu"
    ) -> dict[str, np.ndarray]:
        """`count` transitions as columns of raw units inside the public bounds.

        They are independent, or, with released histograms, rows of a larger sample that are drawn by their weights
        (`NoisyHistograms.weights`), so that some occur repeatedly.

        Args:
            count: how many rows.
            seed: of the sampling; public, since sampling is post-processing.
            sampler: another sampler than the plan's.
            device: where the network runs, `cpu` or an accelerator such as `cuda`. A seed gives the same random
                numbers everywhere; the rows differ by rounding.

        Raises:
            HardwareError: there is no such device.
        """
        where = torch_device(device, where="Synthesizer.sample_columns")
        released = self.plan.noisy_histograms(self.histograms, self.sums)
        drawn = count if released is None else max(released.matching.pool, 2 * count)
        generator = torch.Generator().manual_seed(seed)
        rows = sample(self.model().to(where), drawn, sampler or self.plan.sampler, generator)
        columns = {name: column.cpu().numpy() for name, column in rows.items()}
        if released is not None:
            chosen = resample(released.weights(columns), count, np.random.default_rng(seed))
            columns = {name: column[chosen] for name, column in columns.items()}
        return {**columns, "truncations": np.zeros(count, bool)}

    def sample(self, count: int, *, seed: int = 0, sampler: Sampler | None = None, device: str = "cpu") -> Trajectories:
        """`count` transitions as a data set (see `sample_columns` and `rows.to_trajectories`)."""
        columns = self.sample_columns(count, seed=seed, sampler=sampler, device=device)
        return to_trajectories(columns, self.encoder.spec)


def fit(
    plan: TransitionsPlan,
    vault: Vault,
    *,
    pretrained: PretrainedDenoiser | Mapping[Pretraining, PretrainedDenoiser] | None = None,
    folder: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    observe: Observe | None = None,
    device: str = "cpu",
) -> Release[Synthesizer]:
    """Train a synthesizer under the plan's promise.

    Args:
        plan: calibrated for the vault's unit.
        vault: the private rows and their ledger.
        pretrained: the starting point that `plan.pretraining` declares (`synthesis.pretrain`), or one by each
            pre-training of several plans, for a selection among them; None without one.
        folder: where checkpoints go, after every block of claimed steps (at most 1 % of them).
        resume: go on from `folder`'s checkpoint, or from the start where a run was stopped before its first one; steps
            that were claimed but not kept are lost, never run again.
        progress: called after each step.
        observe: sees every noisy gradient, for audits and learning curves: it costs no privacy.
        device: where the network is trained, `cpu` or an accelerator such as `cuda`; the noise is always drawn on the
            CPU, from the vault's secret source.

    Raises:
        HardwareError: there is no such device.
        PlanError: the pre-training is not the one that the plan declares, or its tables cut other bounds.
        PlanExhausted: the plan was begun or finished already, and this is not a resumption.
        BudgetExceeded: the ledger cannot pay for the plan.
    """
    model = starting_point(
        plan, vault, pretrained, lambda encoder: pretrain(plan, encoder, None, seed=0), where="synthesis"
    ).model(plan)
    model.to(torch_device(device, where="synthesis.fit"))
    objective = Denoising(model.encoder, plan.noise_multiplicity, plan.P_mean, plan.P_std)
    training = Training(plan, vault, {PART: model}, folder=folder, resume=resume, progress=progress)
    novel = None if plan.curiosity is None else GeneratedGradient(model, objective, plan, plan.curiosity).gradient
    training.descend(PART, objective, learning_rate=plan.learning_rate_at, observe=observe, added=novel)
    training.release_histograms()
    return training.release(Synthesizer(plan, model.encoder, training.average(PART), *training.histograms))
