"""PrivORL-n ("PrivORL: Differentially Private Synthetic Dataset for Offline RL", algorithm 1), corrected.

Input: public rows, private rows behind a vault, a calibrated plan (T, q, C, sigma, K)
1. pre-train the denoiser on the public rows, guided by curiosity          (pretraining.py; no private row)
2. for t = 1 .. T:                                                         (training.py)
3.     g_t <- vault.noisy_gradient: every unit of a Poisson(q) sample gives its denoising-loss gradient,
          averaged over its L rows and K noise draws, clipped to C; their sum gets N(0, (sigma C)^2)
       (with curiosity in fine-tuning, "FineCur": g_t <- g_t + the clipped gradients of novel generated rows)
4.     theta <- Adam(theta, g_t);  average <- EMA(theta)
5. with raking: h <- vault.noisy_sum: every unit gives the mean histograms of its rows, clipped together (raking.py)
6. release the average (and h); sampling, and weighting samples to agree with h, is post-processing   (synthesizer.py)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tacit.hardware import torch_device
from tacit.methods.synthesis.curiosity import Generated
from tacit.methods.synthesis.diffusion import Denoising
from tacit.methods.synthesis.plan import PART, TransitionsPlan
from tacit.methods.synthesis.pretraining import Pretrained, pretrain
from tacit.methods.synthesis.settings import Pretraining, Progress
from tacit.methods.synthesis.synthesizer import Synthesizer
from tacit.methods.synthesis.training import Observe, Training, starting_point
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.vault import Vault


def fit(
    plan: TransitionsPlan,
    vault: Vault,
    *,
    pretrained: Pretrained | Mapping[Pretraining, Pretrained] | None = None,
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
        PlanError: the pre-training is not the one that the plan declares, or its raking cuts other bounds.
        PlanExhausted: the plan was begun or finished already, and this is not a resumption.
        BudgetExceeded: the ledger cannot pay for the plan.
    """
    model = starting_point(
        plan, vault, pretrained, lambda encoder: pretrain(plan, encoder, None, seed=0), where="synthesis"
    ).model(plan)
    model.to(torch_device(device, where="synthesis.fit"))
    objective = Denoising(model.encoder, plan.noise_multiplicity, plan.P_mean, plan.P_std)
    training = Training(plan, vault, {PART: model}, folder=folder, resume=resume, progress=progress)
    novel = None if plan.curiosity is None else Generated(model, objective, plan, plan.curiosity).gradient
    training.descend(PART, objective, learning_rate=plan.learning_rate_at, observe=observe, added=novel)
    training.ask_histograms()
    return training.release(Synthesizer(plan, model.encoder, training.average(PART), *training.histograms))
