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
   local context this comes first, and both models see h around every place from then on (local_context.py)
9. release the averages and h; stitching trajectories and weighting them is post-processing (stitching.py)
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tacit.hardware import torch_device
from tacit.methods.synthesis.settings import Progress
from tacit.methods.synthesis.training import Observe, Training, starting_point
from tacit.methods.synthesis.trajectories.models import FragmentLoss, StartLoss
from tacit.methods.synthesis.trajectories.plan import FRAGMENTS, STARTS, TrajectoriesPlan
from tacit.methods.synthesis.trajectories.pretraining import Pretrained, pretrain
from tacit.methods.synthesis.trajectories.synthesizer import Synthesizer, show
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.base import Objective
from tacit.privacy.vault.vault import Vault


def fit(
    plan: TrajectoriesPlan,
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
    begins, fragments = starting_point(
        plan, vault, pretrained, lambda encoder: pretrain(plan, encoder, None, seed=0), where="trajectories"
    ).models(plan)
    models = {STARTS: begins.to(where), FRAGMENTS: fragments.to(where)}
    objectives: dict[str, Objective] = {
        STARTS: StartLoss(begins.encoder, plan.P_mean, plan.P_std),
        FRAGMENTS: FragmentLoss.of(plan, fragments.codec),
    }
    training = Training(plan, vault, models, folder=folder, resume=resume, progress=progress)
    if plan.local_context is not None:
        training.ask_histograms()
        for model in models.values():
            show(plan, model, *training.histograms)
    for part in training.trained:
        rate = partial(plan.learning_rate_at, part.name)
        training.descend(part.name, objectives[part.name], learning_rate=rate, observe=observe)
    training.ask_histograms()
    weights = training.average(STARTS), training.average(FRAGMENTS)
    return training.release(Synthesizer(plan, begins.encoder, *weights, *training.histograms))
