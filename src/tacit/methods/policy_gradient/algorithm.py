"""Differentially private policy gradient ("Differentially Private Policy Gradient", algorithm 2), corrected.

Input: people who come once, behind a vault; a calibrated plan (T, N, L, C, sigma); a policy pi and its start theta
1. for k = 0 .. T - 1:
2.     vault.meet: N new people are served with pi(. | theta), each for at most L decisions
3.     each gives   x_u = sum_t A_t grad log pi(a_t | s_t), A from own rows        (contributions.py)
                    or the parameter change of local updates                       (local_updates.py)
                    or, from two episodes a direction, its votes                   (votes.py)
4.     g <- (sum_u clip(x_u, C) + n_k) / N,  n_k from correlated noise             (vault.noisy_sum)
5.     theta <- theta + step_k g;  average <- mean of the thetas of the last rounds  (state.py)
6. release theta and the average; acting with them is post-processing              (state.py)
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.agents.policies import Float32, Policy, PolicyActor, ValueFunction
from tacit.data.spec import PublicSpec
from tacit.errors import PlanError
from tacit.methods.policy_gradient import local_updates, votes
from tacit.methods.policy_gradient.contributions import RoundInputs
from tacit.methods.policy_gradient.plan import PolicyGradientPlan
from tacit.methods.policy_gradient.rounds import POLICY
from tacit.methods.policy_gradient.state import AnyPlan, State, TrainedPolicies
from tacit.methods.policy_gradient.trust_region import KL
from tacit.methods.policy_gradient.votes import VotesPlan
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.base import Contribution
from tacit.privacy.sentences import clause
from tacit.privacy.vault.base import exhausted_error
from tacit.privacy.vault.invented import try_public
from tacit.privacy.vault.user_vault import UserActor, UserVault

Float64 = NDArray[np.float64]

Progress = Callable[[int, int], None]
"""Called after each round with (rounds done, rounds in all): both are public."""

Information = Callable[[Policy, Float32], Sequence[float]]
"""Eigenvalues of the Fisher information of the policy at parameters [P], from public records, for a KL trust region."""


def fit(
    plan: AnyPlan,
    vault: UserVault,
    policy: Policy | None = None,
    *,
    critic: ValueFunction | None = None,
    start: Float32 | None = None,
    critic_start: Float32 | None = None,
    information: Information | None = None,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Release[TrainedPolicies]:
    """Learn a policy from people who are met once, under the plan's promise.

    Args:
        plan: calibrated (or priced) for the vault's unit.
        vault: the people, the register of who contributed, and the ledger.
        policy: what is learnt; None is `Policy.default(vault.spec)`, two hidden layers of 64, or for votes none.
        critic: the value function of a private, public or shared critic; None is linear in quadratic features (private)
            or the paper's network (shared). A public one must be given.
        start: public first parameters [P], or [R, P] with one row a replicate; None draws them from `seed`.
        critic_start: likewise of the critic; of a public critic its parameters.
        information: for a KL trust region.
        seed: of the first parameters, which are public.
        folder: where checkpoints go (released values only): at the start, and whenever no claimed step is left.
        resume: go on from `folder`'s checkpoint, if there is one. Rounds that were claimed and not kept are lost; the
            noise goes on with a fresh block.
        progress: called after each round.

    Raises:
        PlanError: the policy, the critic or their parameters do not fit the plan or the people.
        PlanExhausted: the plan was begun or finished already, and this is no resumption from its checkpoint.
        BudgetExceeded: the ledger cannot pay for the plan.
    """
    policy = _policy(plan, policy, vault.spec)
    critic = local_updates.resolve_critic(plan, policy, vault.spec, critic, given=critic_start is not None)
    state = State(plan, policy, critic, vault.replicates, start, critic_start, seed)
    _require_information(plan, information, state)
    path = Path(folder) / "checkpoint.safetensors" if folder is not None else None
    has_checkpoint = resume and _checkpoint_exists(path)
    if has_checkpoint and path is not None:  # a checkpoint that is refused costs nothing
        state.load(path, vault)
    contributions = _contributions(plan, policy, critic)
    if isinstance(plan, PolicyGradientPlan) and state.rounds < plan.rounds:
        clips = _clips(plan, state, information, state.rounds, state.rounds)
        for part in plan.parts():
            vault.rehearse(part, contributions[part.name], state.round_inputs(state.rounds, plan.bound / clips))
    run = vault.reserve(plan)
    if vault.has_started(run) and not (has_checkpoint and (state.rounds or vault.steps_left(run, POLICY))):
        raise exhausted_error(run, POLICY)
    if path is not None and not has_checkpoint:
        state.save(path, run, vault)

    first = plan.rounds - vault.steps_left(run, POLICY)
    for k in range(first, plan.rounds):
        if isinstance(plan, VotesPlan):
            current_round = _votes(plan, state, k)
        else:
            clips = _clips(plan, state, information, k, first)
            actor = PolicyActor(state.policy, state.theta)
            current_round = _Round(actor, state.round_inputs(k, plan.bound / clips), clips / plan.bound)
        vault.enroll(run, current_round.actor)
        if isinstance(plan, VotesPlan) and plan.answers == "randomized":
            assert isinstance(current_round.released, votes.VoteDirections)
            answers = vault.randomized(run, POLICY, contributions[POLICY], current_round.released)
            means = {POLICY: votes.estimate_mean(plan, answers, current_round.released)}
        else:
            released = current_round.released
            means = {part: vault.noisy_sum(run, part, each, released) for part, each in contributions.items()}
        state.update(k, means, current_round.factor)
        if path is not None and vault.is_block_end(run, POLICY):
            state.save(path, run, vault)
        if progress is not None:
            progress(k + 1, plan.rounds)

    start_clause = clause("first_given") if start is not None else clause("first_drawn", seed=seed)
    if isinstance(plan, VotesPlan):
        label = plan.label(start_clause)
    else:
        label = plan.label(start_clause, information=information is not None)
    return vault.release(run, state.learned_policy(), label=label)


@dataclass(frozen=True, eq=False)
class _Round:
    actor: UserActor  # what they are served with
    released: RoundInputs | votes.VoteDirections  # what contributions may use
    factor: Float64  # of what is released, [R]


def _votes(plan: VotesPlan, state: State, k: int) -> _Round:
    """Everybody plays on both sides of the released policy."""
    size, p = state.policy.parameters, plan.directions_at(k)
    released = votes.VoteDirections(votes.draw_directions(plan, size, state.replicates, k))
    factor = np.full(state.replicates, math.sqrt(size / (plan.max_directions * p)))
    return _Round(votes.trial_actor(plan, state.policy, state.theta, released, k), released, factor)


def _contributions(plan: AnyPlan, policy: Policy, critic: ValueFunction | None) -> Mapping[str, Contribution]:
    if isinstance(plan, VotesPlan):
        ballot = votes.Ballot(plan.offset, plan.counted, plan.max_directions)
        return {POLICY: votes.VoteAnswers(ballot) if plan.answers == "randomized" else ballot}
    return local_updates.contributions(plan, policy, critic)


def _policy(plan: AnyPlan, policy: Policy | None, spec: PublicSpec) -> Policy:
    """The given policy, or the default one; it fits the people and the plan."""
    if not isinstance(policy, Policy | None):
        what = f"the policy is a {type(policy).__name__}"
        expected = "a policy_gradient.Policy: features, a network and a distribution over actions"
        remedy = "for a torch module: Policy(features, TorchNetwork(module, inputs=features.size), head)"
        raise PlanError(what, where="policy_gradient.fit", expected=expected, remedy=remedy)
    if policy is None:
        policy = Policy.default(spec, ()) if isinstance(plan, VotesPlan) else Policy.default(spec)
    policy.require_fit(spec)
    if isinstance(plan, VotesPlan):
        plan.require_room(policy.parameters)
    return policy


def _checkpoint_exists(path: Path | None) -> bool:
    if path is None:
        what = "a run cannot be resumed without the folder of its checkpoints"
        expected, remedy = "folder= with resume=True, both times", "pass the folder that the run was begun with"
        raise PlanError(what, where="policy_gradient.fit", expected=expected, remedy=remedy)
    return path.exists()


def _require_information(plan: AnyPlan, information: Information | None, state: State) -> None:
    if (isinstance(plan.trust_region, KL) and plan.fisher is None) != (information is not None):
        what = "the plan and information= do not fit each other"
        expected = "information= with a KL trust region that does not ask people for it, and with nothing else"
        remedy = "pass the eigenvalues of the Fisher information of public records, such as PublicFisher(...)"
        raise PlanError(what, where="policy_gradient.fit", expected=expected, remedy=remedy)
    if information is None:
        return
    most = state.policy.parameters
    try_public(
        lambda: np.asarray(list(information(state.policy, state.theta[0])), np.float64),
        lambda v: v.ndim == 1 and 1 <= len(v) <= most and bool((v >= 0).all() and np.isfinite(v).all()),
        f"{getattr(information, '__name__', type(information).__name__)} gives no eigenvalues",
        where="information=",
        expected=f"from 1 to {most} finite numbers >= 0",
        remedy="try it on the first parameters",
    )


def _clips(plan: PolicyGradientPlan, state: State, information: Information | None, k: int, first: int) -> Float64:
    """The public clip of round k, [R]; `first` is the first round of this process."""
    if plan.trust_region is None:
        return np.full(state.replicates, plan.bound)
    noise, size, clips = plan.noise_at(k - first, plan.rounds - first), state.policy.parameters, []
    for theta, shown in zip(state.theta, state.information, strict=True):
        eigenvalues = None
        if plan.fisher is not None:
            eigenvalues = plan.fisher.eigenvalues(shown if state.information_count else None, size)
        elif information is not None:
            eigenvalues = list(information(state.policy, theta))
        clip = plan.trust_region.clip(
            learning_rate=plan.step_at(k), noise=noise, dimension=size, users=plan.users, eigenvalues=eigenvalues
        )
        clips.append(clip)
    return np.array(clips)
