"""PrivORL-j ("PrivORL: Differentially Private Synthetic Dataset for Offline RL", section V), with its guarantee kept.

Input: public trajectories, private ones behind a vault, a calibrated plan (T, T_0, q, C, sigma, L, H, K)
1. pre-train both models on the public trajectories                        (pretraining.py; no private row)
2. for t = 1 .. T_0:                                                       (where episodes begin)
3.     g_t <- vault.noisy_gradient over the first rows of a Poisson(q) sample of units
4.     theta_0 <- Adam(theta_0, g_t)
5. for t = 1 .. T:                                                         (how they go on)
6.     g_t <- vault.noisy_gradient: every unit of a Poisson(q) sample gives the gradient of its mean loss over L
          fragments of H rows and K noise draws, clipped to C; their sum gets N(0, (sigma C)^2)
7.     theta <- Adam(theta, g_t)
8. with raking: h <- vault.noisy_sum: every unit gives the mean histograms of its rows, clipped together; with
   surroundings this comes first, and both models see h around every place from then on (surroundings.py)
9. release the averages and h; stitching trajectories and weighting them is post-processing (stitching.py, weighting.py)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.errors import PlanError
from tacit.hardware import torch_device
from tacit.methods.synthesis.algorithm import Progress, TrainingState
from tacit.methods.synthesis.diffusion import Denoiser
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.histograms import asked
from tacit.methods.synthesis.label import synthesizer_label
from tacit.methods.synthesis.raking import PART as HISTOGRAMS
from tacit.methods.synthesis.trajectories.objective import FragmentLoss, FragmentModel, StartLoss
from tacit.methods.synthesis.trajectories.plan import FRAGMENTS, STARTS, Plan
from tacit.methods.synthesis.trajectories.pretraining import Pretrained, pretrain
from tacit.methods.synthesis.trajectories.synthesizer import Synthesizer, show
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger import checkpoint
from tacit.privacy.mechanisms.base import Objective
from tacit.privacy.vault.base import Label, Run, exhausted
from tacit.privacy.vault.plan import plan_id
from tacit.privacy.vault.vault import Vault

Observe = Callable[[int, Denoiser | FragmentModel, Tensor], None]
"""Called as (step of the model, model, gradient) with what a step released: the noisy mean gradient [P], in the order
of `model.parameters()`, and the weights at which it was taken, before they are updated. Both are public, and must not
be changed."""


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
    """Train a synthesizer of trajectories under the plan's promise.

    Args:
        plan: calibrated for the vault's unit.
        vault: the private rows and their ledger.
        pretrained: the starting point that `plan.pretraining` declares (`trajectories.pretrain`); None without one.
        folder: where checkpoints go, after every block of claimed steps (at most 1 % of them).
        resume: go on from `folder`'s checkpoint, or from the start where a run was stopped before its first one; steps
            that were claimed but not kept are lost, never run again.
        progress: called after each step, of either model.
        observe: sees every noisy gradient, for audits and learning curves: it costs no privacy.
        device: where the networks are trained; the noise is always drawn on the CPU, from the vault's secret source.

    Raises:
        HardwareError: there is no such device.
        PlanError: the pre-training is not the one that the plan declares.
        PlanExhausted: the plan was begun or finished already, and this is not a resumption.
        BudgetExceeded: the ledger cannot pay for the plan.
    """
    where = torch_device(device, where="trajectories.fit")
    begins, fragments = _start(plan, vault, pretrained).models(plan)
    models = {STARTS: begins.to(where), FRAGMENTS: fragments.to(where)}
    objectives: dict[str, Objective] = {
        STARTS: StartLoss(begins.encoder, plan.P_mean, plan.P_std),
        FRAGMENTS: FragmentLoss.of(plan, fragments.codec),
    }
    path = folder / "checkpoint.safetensors" if folder is not None else None
    kept = None
    if resume and path is not None and path.exists():  # one that is refused costs nothing
        kept = checkpoint.load(path, plan_id=plan_id(plan), ledger=vault.ledger)
    run = vault.reserve(plan)
    states = {part: TrainingState(model, plan) for part, model in models.items()}  # type: ignore[arg-type]
    histograms: list[NDArray[np.float64]] = []
    if kept is not None:
        histograms = list(kept["histograms"].numpy()) if "histograms" in kept else []
        for part, state in states.items():
            own = {name.removeprefix(f"{part}."): value for name, value in kept.items() if name.startswith(f"{part}.")}
            if own:
                state.load(own)
    elif vault.touched(run) and not (resume and any(vault.steps_left(run, part.name) for part in plan.parts())):
        raise exhausted(run, FRAGMENTS)

    def keep(part: str) -> None:
        if path is not None and vault.at_block_end(run, part):
            checkpoint.save(path, _tensors(states, histograms), plan_id=run.plan_id, ledger=vault.ledger)

    def ask() -> None:
        for one in () if plan.raking is None else asked(vault, run, HISTOGRAMS, plan.raking.tables):
            histograms.append(one)
            keep(HISTOGRAMS)

    if plan.surroundings is not None:
        ask()
        for model in models.values():
            show(plan, model, histograms)
    done, total = 0, plan.start_steps + plan.steps
    for gradients in (one for one in plan.parts() if one.name in models):
        part, model = gradients.name, models[gradients.name]
        done += gradients.steps - vault.steps_left(run, part)
        while vault.steps_left(run, part):
            step = vault.next_step(run, part)
            gradient = vault.noisy_gradient(run, part, [model], objectives[part])[0]
            if observe is not None:
                observe(step, model, gradient)
            states[part].update(gradient, learning_rate=plan.learning_rate_at(part, step))
            keep(part)
            done += 1
            if progress is not None:
                progress(done, total)
    ask()

    averages = {part: state.average.state() for part, state in states.items()}
    released = np.mean(histograms, axis=0) if histograms else None
    value = Synthesizer(plan, begins.encoder, averages[STARTS], averages[FRAGMENTS], released, len(histograms))
    return vault.release(run, value, label=_label(plan, run, pretrained, len(histograms)))


def _tensors(states: Mapping[str, TrainingState], histograms: Sequence[NDArray[np.float64]]) -> dict[str, Tensor]:
    """What a checkpoint holds: of each model whose training was begun, its state, and the histograms so far."""
    begun = {part: state.tensors() for part, state in states.items() if state.average.calls}
    found = {f"{part}.{name}": tensor for part, tensors in begun.items() for name, tensor in tensors.items()}
    return found | ({"histograms": torch.from_numpy(np.stack(histograms))} if histograms else {})


def _start(plan: Plan, vault: Vault, pretrained: Pretrained | None) -> Pretrained:
    if plan.raking is not None:
        plan.raking.require(vault.spec)
    declared = "none" if plan.pretraining is None else plan.pretraining.provenance
    start = pretrained
    if start is None and plan.pretraining is None:
        start = pretrain(plan, Encoder.from_bounds(vault.spec), None, seed=0)
    if start is None or start.provenance != declared:
        raise PlanError(
            "the starting point is not the pre-training that the plan declares",
            where="trajectories.fit",
            expected=f"pretrained= with the provenance {declared!r}",
            remedy="pass the result of trajectories.pretrain(plan, ...) for this very plan",
        )
    bounds = start.encoder.spec == vault.spec
    if not bounds or (declared == "none" and start.encoder != Encoder.from_bounds(vault.spec)):
        raise PlanError(
            "the starting point's encoder is not one of the private data's public bounds and the declared public rows",
            where="trajectories.fit",
            expected="Encoder.from_bounds(vault.spec), or one with declared public rows, of the same spec",
            remedy="build the encoder from vault.spec, and declare the public rows in plan.pretraining",
        )
    return start


def _label(plan: Plan, run: Run, pretrained: Pretrained | None, sums: int) -> Label:
    provenance = "none: the networks began with random weights" if pretrained is None else pretrained.provenance
    raking, unit = plan.raking, run.plan.unit.name if run.plan.unit else "unit"
    gradients = plan.start_steps + plan.steps
    return synthesizer_label(
        run.plan.unit,
        touches=(
            *([f"all {gradients:,} noisy gradients of fine-tuning, interrupted or not"] if gradients else []),
            f"everything that one {unit} owns, however many episodes and rows that is",
            *([] if raking is None else [raking.words(sums)]),
        ),
        sampled="every trajectory sampled from the released models",
        public=(
            f"public pre-training: {provenance} (declared by the user, not checked here)",
            *([] if raking is None else raking.shaped()),
        ),
    )
