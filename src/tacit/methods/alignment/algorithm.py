"""Private policy gradient on an adapter of a frozen language model ("DPPG", arXiv:2501.19080, with one clip a person).

Input: people with texts behind a vault; a calibrated plan (rounds, N, K, T, C, sigma); a model with a public reward
1. for k = 0 .. rounds - 1:
2.     vault.enroll: N new people get K completions of each of their prompts, T tokens each    (people.py)
3.     each gives  x_u = mean_{k, t} A_kt grad log pi(y_kt), A from own completions             (people.py)
4.     g <- (sum_u clip(x_u, C) + n_k) / N,  n_k from correlated noise                          (vault.noisy_sum)
5.     theta <- theta + step g
6. others compare it with the base model: a noisy mean, and its interval                       (judging.py)
7. release theta: completing, and shrinking on public prompts, are post-processing             (steered.py)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.agents.language.judges import Reward
from tacit.agents.language.models import Writer
from tacit.errors import PlanError
from tacit.methods.alignment.judging import JUDGES, LEVEL, read_judgement
from tacit.methods.alignment.people import CompletionActor, CompletionComparison, PersonGradient, ReleasedSteering
from tacit.methods.alignment.plan import PART, AlignmentPlan
from tacit.methods.alignment.steered import Steered
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger import checkpoint
from tacit.privacy.ledger.folds import FOLDS
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import BaseVault, Run, exhausted_error
from tacit.privacy.vault.invented import try_public
from tacit.privacy.vault.origins import digest, require_level
from tacit.privacy.vault.user_vault import UserVault
from tacit.validation import require_valid

Iterates = NDArray[np.float64]
Progress = Callable[[int, int], None]
"""Called after each round with (rounds done, rounds in all): both are public."""
Finish = Callable[[Steered], Steered]


def fit(
    plan: AlignmentPlan,
    vault: UserVault,
    model: Writer,
    *,
    reward: Reward | None = None,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    finish: Finish | None = None,
) -> Release[Steered]:
    """Learn an adapter from people who are met, under the plan's promise.

    Args:
        plan: calibrated (or priced) for the vault's unit, and made for this model and reward (`AlignmentPlan.of`).
        vault: the people, the register of who contributed, and the ledger.
        model: with its tokenizer, public vocabulary and prefix.
        reward: the public reward model; None where people alone value completions and the plan has no critic.
        folder: where checkpoints go (released values only): at the start, and after every round.
        resume: go on from `folder`'s checkpoint, if there is one. Rounds that were claimed and not kept are lost; the
            noise goes on with a fresh block.
        progress: called after each round.
        finish: what is done to the adapter before people judge it and it is released, from public values alone, such
            as `Steered.limit_kl`.

    Raises:
        PlanError: the plan is for another model or reward, the vault has several replicates, or too much was said
            before by the people who are to judge.
        PlanExhausted: the plan was begun or finished already, and this is no resumption from its checkpoint.
        BudgetExceeded: the ledger cannot pay for the plan.
    """
    _require_fit(plan, vault, model, reward)
    level = judging_level(plan, vault)
    path, run = checkpoint_path(folder), vault.reserve(plan)
    judge = reward if plan.uses_reward else None
    iterates = start_iterates(vault, run, PART, plan.adapter.initial_parameters(model.model.shape), path, resume=resume)
    contribution = PersonGradient(plan, model)
    for k in range(plan.rounds - vault.steps_left(run, PART), plan.rounds):
        theta = iterates[-1].astype(np.float32)
        vault.enroll(run, CompletionActor(plan, model, judge, torch.from_numpy(theta)))
        mean = vault.noisy_sum(run, PART, contribution, ReleasedSteering(theta))[0]
        iterates = np.concatenate([iterates, iterates[-1:] + plan.step * mean])
        if path is not None:
            save(path, run, vault.ledger, iterates)
        if progress is not None:
            progress(k + 1, plan.rounds)
    words = np.asarray(model.model.vocabulary.numpy(), np.int64)
    value = Steered(plan, iterates.astype(np.float32), words, model)
    value = value if finish is None else finish(value)
    if level is not None:

        def ask() -> Iterates:
            base, theta = replace(value, share=0.0).steering.theta[0], value.steering.theta[0]
            vault.enroll(run, CompletionActor(plan, model, judge, theta, base))
            return vault.noisy_sum(run, JUDGES, CompletionComparison(plan))

        value = ask_judges(value, vault, run, path, ask, scale=plan.reward_bound, level=level)
    return vault.release(run, value, label=plan.label())


def _require_fit(plan: AlignmentPlan, vault: UserVault, model: Writer, reward: Reward | None) -> None:
    digest = "" if reward is None else reward.digest
    declared = (plan.base, plan.words, plan.prefix, plan.reward)
    found = model.model.digest, model.vocabulary_digest, model.prefix, digest
    if declared != found or (plan.uses_reward and reward is None):
        what = "the plan is for another model, vocabulary, prefix or reward"
        expected = "those whose digests the plan states, and a reward where the plan's feedback or critic is one"
        remedy = "make the plan with AlignmentPlan.of(model, reward, ...)"
        raise PlanError(what, where="alignment.fit", expected=expected, remedy=remedy)
    if plan.uses_reward and reward is not None:
        try_public(
            lambda: torch.from_numpy(reward(["a text", "another"])),
            lambda values: values.shape == (2,) and bool(values.isfinite().all()),
            f"{type(reward).__name__} does not value texts",
            where="alignment.fit",
            expected="an array of a finite number of each text",
            remedy="try it on two texts of your own",
        )
    if vault.spec != plan.spec(model):
        what, expected = "the people are not those of this plan", "people with texts of the plan's sizes"
        remedy = "make them with People(plan, model, ...)"
        raise PlanError(what, where="alignment.fit", expected=expected, remedy=remedy)
    if vault.replicates != 1:
        what, expected = f"the vault has {vault.replicates} replicates", "one population"
        raise PlanError(what, where="alignment.fit", expected=expected, remedy="open a vault for each")


def judging_level(plan: Any, vault: BaseVault) -> float | None:
    """The level of a plan's interval (`origins.require_level`); None where nobody judges."""
    if plan.judges is None:
        return None
    everybody, identity = frozenset(FOLDS), plans.plan_id(plan)
    return require_level(vault.ledger, everybody, LEVEL, where=f"{plan.method} plan", besides=identity)


def ask_judges(
    value: Steered,
    vault: BaseVault,
    run: Run,
    path: Path | None,
    ask: Callable[[], Iterates],
    *,
    scale: float,
    level: float,
) -> Steered:
    """The value with what people say of it who did not teach it: asked once, or read from the checkpoint.

    Without a word of them where they were asked in a run that stopped before it kept their answer.

    Args:
        value: what is judged; the ledger notes it before anybody is asked.
        vault: of the people.
        run: with the part "judges".
        path: of the checkpoint, whose parameters are kept with the answer.
        ask: the noisy mean [1, 3] of the part.
        scale, level: as for `read_judgement`.

    Raises:
        PlanError: the checkpoint's answer is about another value.
    """
    part = run.sum_part(JUDGES)
    fixed = replace(value, writer=None)
    kept = {} if path is None else checkpoint.load(path, plan_id=run.plan_id, ledger=vault.ledger)
    if vault.steps_left(run, JUDGES):
        vault.record_policy(run, fixed)
        kept["judges"] = torch.from_numpy(ask()[0] * part.divisor(vault.unit))
        if path is not None:
            checkpoint.save(path, kept, plan_id=run.plan_id, ledger=vault.ledger)
    elif "judges" in kept:
        noted = next(plan.policies for plan in vault.ledger.plans() if plan.id == run.plan_id)
        same = digest(fixed) in noted
        require_valid("the adapter", "another one", same, "the one that people judged, finished as it was then")
    if "judges" not in kept:
        return value
    sums, population = tuple(kept["judges"].tolist()), vault.unit.size
    expected, by_reward = population * value.plan.judges, getattr(value.plan, "feedback", "person") == "model"
    known = {"scale": scale, "noise": part.noise_scale, "expected": expected, "level": level}
    judgement = read_judgement(sums, population=population, by="reward" if by_reward else "people", **known)
    return replace(value, judgement=judgement)


def checkpoint_path(folder: str | os.PathLike[str] | None) -> Path | None:
    """The file in which the parameters so far are kept."""
    return None if folder is None else Path(folder) / "checkpoint.safetensors"


def start_iterates(
    vault: BaseVault, run: Run, part: str, start: Tensor, path: Path | None, *, resume: bool
) -> Iterates:
    """The parameters [rounds so far + 1, P] to go on with: those of a checkpoint that is resumed, or the start
    alone."""
    kept = path if resume and path is not None and path.exists() else None
    iterates = start.double().numpy()[None] if kept is None else _load_iterates(kept, run, vault.ledger, len(start))
    if vault.has_started(run) and not (kept and (len(iterates) > 1 or vault.steps_left(run, part))):
        raise exhausted_error(run, part)
    if path is not None and kept is None:
        save(path, run, vault.ledger, iterates)
    return iterates


def save(path: Path, run: Run, ledger: Ledger, iterates: Iterates) -> None:
    """Keep the parameters so far [rounds + 1, P], which are released values."""
    checkpoint.save(path, {"iterates": torch.from_numpy(iterates)}, plan_id=run.plan_id, ledger=ledger)


def _load_iterates(path: Path, run: Run, ledger: Ledger, parameters: int) -> Iterates:
    iterates = checkpoint.load(path, plan_id=run.plan_id, ledger=ledger).get("iterates")
    if iterates is None or iterates.ndim != 2 or iterates.shape[1] != parameters:
        what, expected = "the checkpoint is of another adapter", "what the run was begun with"
        raise PlanError(what, where=str(path), expected=expected, remedy="resume with the same plan and model")
    return np.asarray(iterates.double().numpy())
