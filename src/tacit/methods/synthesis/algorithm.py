"""PrivORL-n ("PrivORL: Differentially Private Synthetic Dataset for Offline RL", algorithm 1), corrected.

Input: public rows, private rows behind a vault, a calibrated plan (T, q, C, sigma, K)
1. pre-train the denoiser on the public rows, guided by curiosity          (pretraining.py; no private row)
2. for t = 1 .. T:
3.     g_t <- vault.noisy_gradient: every unit of a Poisson(q) sample gives its denoising-loss gradient,
          averaged over its L rows and K noise draws, clipped to C; their sum gets N(0, (sigma C)^2)
       (with curiosity in fine-tuning, "FineCur": g_t <- g_t + the clipped gradients of novel generated rows)
4.     theta <- Adam(theta, g_t);  average <- EMA(theta)
5. with raking: h <- vault.noisy_sum: every unit gives the mean histograms of its rows, clipped together (histograms.py)
6. release the average (and h); sampling, and weighting samples to agree with h, is post-processing   (synthesizer.py)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.errors import PlanError
from tacit.hardware import torch_device
from tacit.methods.synthesis.curiosity import Pool
from tacit.methods.synthesis.diffusion import Denoiser, denoising_loss, draw, generated_loss
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.histograms import asked
from tacit.methods.synthesis.label import synthesizer_label
from tacit.methods.synthesis.networks import MovingAverage
from tacit.methods.synthesis.plan import Plan
from tacit.methods.synthesis.pretraining import Pretrained, pretrain
from tacit.methods.synthesis.raking import PART as HISTOGRAMS
from tacit.methods.synthesis.settings import Curiosity
from tacit.methods.synthesis.synthesizer import Synthesizer
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.gradients.per_unit import assign_gradient, clipped_sum
from tacit.privacy.ledger import checkpoint
from tacit.privacy.vault.base import Label, Run, exhausted
from tacit.privacy.vault.plan import plan_id
from tacit.privacy.vault.vault import Vault

PART = "denoiser"

Progress = Callable[[int, int], None]
"""Called after each step with (steps done, steps in all): the step count is public, the loss is not."""

Observe = Callable[[int, Denoiser, Tensor], None]
"""Called as (step, model, gradient) with what a step released: the noisy mean gradient [P], in the order of
`model.parameters()`, and the weights at which it was taken, before they are updated. Both are public, and must not be
changed."""


@dataclass(frozen=True)
class Denoising:
    """The objective behind the door: EDM's denoising loss of each unit's own rows and its own noise draws."""

    encoder: Encoder
    noise_draws: int
    P_mean: float
    P_std: float

    def draw(self, generator: torch.Generator, units: int, rows_per_unit: int) -> dict[str, Tensor]:
        """The step's random numbers, independent between units (see `diffusion.draw`)."""
        return draw(
            generator,
            units,
            rows_per_unit,
            encoder=self.encoder,
            noise_draws=self.noise_draws,
            P_mean=self.P_mean,
            P_std=self.P_std,
        )

    def loss(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        """One loss a unit, [U] (see `diffusion.denoising_loss`)."""
        assert isinstance(model, Denoiser)
        return denoising_loss(model, rows)


def fit(
    plan: Plan,
    vault: Vault,
    *,
    pretrained: Pretrained | None = None,
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
        pretrained: the starting point that `plan.pretraining` declares (`synthesis.pretrain`); None without one.
        folder: where checkpoints go, after every block of claimed steps (at most 1 % of them).
        resume: go on from `folder`'s checkpoint, or from the start where a run was stopped before its first one; steps
            that were claimed but not kept are lost, never run again.
        progress: called after each step.
        observe: sees every noisy gradient, for audits and learning curves: it costs no privacy.
        device: where the network is trained, `cpu` or an accelerator such as `cuda`; the noise is always drawn on the
            CPU, from the vault's secret source.

    Raises:
        HardwareError: there is no such device.
        PlanError: the pre-training is not the one that the plan declares, or its raking cuts other bounds.
        PlanExhausted: the plan was begun or finished already, and this is not a resumption.
        BudgetExceeded: the ledger cannot pay for the plan.
    """
    model = _start(plan, vault, pretrained).to(torch_device(device, where="synthesis.fit"))
    objective = Denoising(model.encoder, plan.noise_draws, plan.P_mean, plan.P_std)
    path = folder / "checkpoint.safetensors" if folder is not None else None
    kept = None
    if resume and path is not None and path.exists():  # one that is refused costs nothing
        kept = checkpoint.load(path, plan_id=plan_id(plan), ledger=vault.ledger)
    run = vault.reserve(plan)
    state = TrainingState(model, plan)
    if kept is not None:
        state.load(kept)
    elif vault.touched(run) and not (resume and vault.steps_left(run, PART)):
        raise exhausted(run, PART)

    generated = None if plan.curiosity is None else _Generated(model, objective, plan, plan.curiosity)
    while vault.steps_left(run, PART):
        step = vault.next_step(run, PART)
        gradient = vault.noisy_gradient(run, PART, [model], objective)[0]
        if observe is not None:
            observe(step, model, gradient)
        if generated is not None:
            gradient = gradient + generated.gradient(step)
        state.update(gradient, learning_rate=plan.learning_rate_at(step))
        if path is not None and vault.at_block_end(run, PART):
            checkpoint.save(path, state.tensors(), plan_id=run.plan_id, ledger=vault.ledger)
        if progress is not None:
            progress(step + 1, plan.steps)

    if plan.raking is not None:
        for histograms in asked(vault, run, HISTOGRAMS, plan.raking.tables):
            state.histograms.append(histograms)
            if path is not None and vault.at_block_end(run, HISTOGRAMS):
                checkpoint.save(path, state.tensors(), plan_id=run.plan_id, ledger=vault.ledger)

    mean = np.mean(state.histograms, axis=0) if state.histograms else None
    value = Synthesizer(plan, model.encoder, state.average.state(), mean, len(state.histograms))
    return vault.release(run, value, label=_label(plan, run, pretrained, len(state.histograms)))


class TrainingState:
    """Everything a run carries from step to step, all of it public."""

    def __init__(self, model: Denoiser, plan: Plan) -> None:
        self.network = model.network
        self.average = MovingAverage(model.network, decay=plan.ema, every=plan.ema_every)
        self.parameters = list(model.network.parameters())
        self.histograms: list[NDArray[np.float64]] = []
        self.adam = torch.optim.Adam(self.parameters, lr=plan.learning_rate, betas=plan.betas, fused=True)

    def update(self, gradient: Tensor, *, learning_rate: float) -> None:
        """One Adam step on a noisy gradient [P], then the moving average."""
        assign_gradient(self.network, gradient)
        self.adam.param_groups[0]["lr"] = learning_rate
        self.adam.step()
        self.average.update(self.network)

    def tensors(self) -> dict[str, Tensor]:
        """The state by name, for a checkpoint."""
        tensors = {"average.calls": torch.tensor(self.average.calls)}
        for name, p, mean in zip(self.average.names, self.parameters, self.average.values, strict=True):
            tensors |= {f"weights.{name}": p, f"average.{name}": mean}
            tensors |= {f"adam.{key}.{name}": value for key, value in self.adam.state[p].items()}
        if self.histograms:
            tensors["histograms"] = torch.from_numpy(np.stack(self.histograms))
        return tensors

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take up the state that `tensors` wrote."""
        self.average.calls = int(tensors["average.calls"])
        self.histograms = list(tensors["histograms"].numpy()) if "histograms" in tensors else []
        for name, p, mean in zip(self.average.names, self.parameters, self.average.values, strict=True):
            p.copy_(tensors[f"weights.{name}"])
            mean.copy_(tensors[f"average.{name}"])
            keys = ("step", "exp_avg", "exp_avg_sq")
            self.adam.state[p] = {key: tensors[f"adam.{key}.{name}"].to(p.device, copy=True) for key in keys}


class _Generated:
    """FineCur: what novel generated rows add to each step, outside the private sum and its public divisor.

    Post-processing of public weights with public random numbers; after an interruption it begins anew.
    """

    def __init__(self, model: Denoiser, objective: Denoising, plan: Plan, settings: Curiosity) -> None:
        assert plan.unit is not None
        self.model, self.objective, self.clip = model, objective, plan.clip
        self.expected = plan.parts()[0].expected(plan.unit)
        self.generator, epoch = torch.Generator().manual_seed(0), math.ceil(1 / plan.rate)
        self.pool = Pool(model, settings, plan.sampler, epoch=epoch, generator=self.generator)

    def gradient(self, step: int) -> Tensor:
        """The sum of the rows' clipped gradients over the expected number of units, [P]."""
        clean = self.pool.draw(step)
        draws = self.objective.draw(self.generator, len(clean), 1)
        rows = {"clean": clean} | {name: draws[name][:, 0].to(clean.device) for name in ("sigma", "noise")}
        return clipped_sum(self.model, generated_loss, rows, self.clip, scale=1 / self.expected)


def _start(plan: Plan, vault: Vault, pretrained: Pretrained | None) -> Denoiser:
    if plan.raking is not None:
        plan.raking.require(vault.spec)
    declared = "none" if plan.pretraining is None else plan.pretraining.provenance
    start = pretrained
    if start is None and plan.pretraining is None:
        start = pretrain(plan, Encoder.from_bounds(vault.spec), None, seed=0)
    if start is None or start.provenance != declared:
        raise PlanError(
            "the starting point is not the pre-training that the plan declares",
            where="synthesis.fit",
            expected=f"pretrained= with the provenance {declared!r}",
            remedy="pass the result of synthesis.pretrain(plan, ...) for this very plan",
        )
    if start.encoder.spec != vault.spec:
        raise PlanError(
            "the starting point encodes rows with other public bounds than the private data declare",
            where="synthesis.fit",
            expected="an encoder of the private data's own public spec",
            remedy="build the encoder with Encoder.from_bounds(vault.spec)",
        )
    if declared == "none" and start.encoder != Encoder.from_bounds(vault.spec):
        raise PlanError(
            "the encoder's constants come from rows that no pre-training declares",
            where="synthesis.fit",
            expected="an encoder made from the bounds alone, where the plan has no pre-training",
            remedy="use Encoder.from_bounds(vault.spec), or declare the public rows in plan.pretraining",
        )
    return start.model(plan)


def _label(plan: Plan, run: Run, pretrained: Pretrained | None, sums: int) -> Label:
    provenance = "none: the network began with random weights" if pretrained is None else pretrained.provenance
    raking = plan.raking
    return synthesizer_label(
        run.plan.unit,
        touches=(
            f"all {plan.steps:,} noisy gradients of fine-tuning, whether or not a run was interrupted",
            *([] if raking is None else [raking.words(sums)]),
        ),
        sampled="everything sampled from the released model",
        public=(
            f"public pre-training: {provenance} (declared by the user, not checked here)",
            *([] if raking is None else raking.shaped()),
        ),
    )
