"""Differentially private policy gradient ("Differentially Private Policy Gradient", algorithm 2), corrected.

Input: people who come once, behind a vault; a calibrated plan (T, N, L, C, sigma); a policy pi and its start theta
1. for k = 0 .. T - 1:
2.     vault.meet: N new people are served with pi(. | theta), each for at most L decisions
3.     each gives   x_u = sum_t A_t grad log pi(a_t | s_t), A from own rows        (contributions.py, advantages.py)
                    or the parameter change of local updates                       (local_updates.py)
4.     g <- (sum_u clip(x_u, C) + n_k) / N,  n_k from correlated noise             (vault.noisy_sum)
5.     theta <- theta + step_k g;  average <- mean of the thetas of the last rounds
6. release theta and the average; acting with them is post-processing              (learned.py)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.agents.networks import Mlp
from tacit.data.spec import PublicSpec
from tacit.errors import PlanError
from tacit.methods.policy_gradient import features as maps
from tacit.methods.policy_gradient.advantages import Advantages
from tacit.methods.policy_gradient.contributions import CriticGradient, EpisodeGradient, Released
from tacit.methods.policy_gradient.features import Quadratic, Scaled
from tacit.methods.policy_gradient.label import label
from tacit.methods.policy_gradient.learned import Learned
from tacit.methods.policy_gradient.local_training import Training
from tacit.methods.policy_gradient.local_updates import CriticUpdates, LocalUpdates
from tacit.methods.policy_gradient.plan import CRITIC, POLICY, Plan
from tacit.methods.policy_gradient.policies import Acting, Float32, Policy, Value
from tacit.privacy.callbacks import Contribution
from tacit.privacy.plan import plan_id
from tacit.privacy.release import Release
from tacit.privacy.run import Run, exhausted
from tacit.privacy.user_vault import UserVault

if TYPE_CHECKING:
    from torch import Tensor

Float64 = NDArray[np.float64]

Progress = Callable[[int, int], None]
"""Called after each round with (rounds done, rounds in all): both are public."""

Information = Callable[[Policy, Float32], Sequence[float]]
"""Eigenvalues of the Fisher information of the policy at parameters [P], from public records, for a KL trust region."""

KEPT = 20
"""How many iterates a release keeps for learning curves, besides the start."""


def learn(
    plan: Plan,
    vault: UserVault,
    policy: Policy | None = None,
    *,
    critic: Value | None = None,
    start: Float32 | None = None,
    critic_start: Float32 | None = None,
    information: Information | None = None,
    seed: int = 0,
    folder: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Release[Learned]:
    """Learn a policy from people who are met once, under the plan's promise.

    Args:
        plan: calibrated (or priced) for the vault's unit.
        vault: the people, the register of who contributed, and the ledger.
        policy: what is learnt; None is `Policy.default(vault.spec)`, two hidden layers of 64.
        critic: the value function of a private, public or shared critic; None is linear in quadratic features (private)
            or the paper's network (shared). A public one must be given.
        start: public first parameters [P], or [R, P] with one row a replicate; None draws them from `seed`.
        critic_start: likewise of the critic; of a public critic its parameters.
        information: for a KL trust region.
        seed: of the first parameters, which are public.
        folder: where checkpoints go (released values only), whenever no claimed step is left.
        resume: go on from `folder`'s checkpoint, or from the start where a run was stopped before its first one. Rounds
            that were claimed and not kept are lost; the noise goes on with a fresh block.
        progress: called after each round.

    Raises:
        PlanError: the policy, the critic or their parameters do not fit the plan or the people.
        PlanExhausted: the plan was begun or finished already, and this is not a resumption.
        BudgetExceeded: the ledger cannot pay for the plan.
    """
    policy = Policy.default(vault.spec) if policy is None else policy
    policy.require_fit(vault.spec)
    critic = _critic(plan, policy, vault.spec, critic, given=critic_start is not None)
    state = _State(plan, policy, critic, vault.replicates, start, critic_start, seed)
    contributions = _contributions(plan, policy, critic)
    _require_information(plan, information)
    path = folder / "checkpoint.safetensors" if folder is not None else None
    if resume and path is not None and path.exists():  # a checkpoint that is refused costs nothing
        state.load(path, vault)
    run = vault.reserve(plan)
    if not state.rounds and vault.touched(run) and not (resume and vault.steps_left(run, POLICY)):
        raise exhausted(run, POLICY)

    first = plan.rounds - vault.steps_left(run, POLICY)
    for k in range(first, plan.rounds):
        vault.meet(run, Acting(policy, state.theta))
        clips = _clips(plan, state, information, k, first)
        released = state.released(k, plan.bound / clips)
        means = {part: vault.noisy_sum(run, part, one, released) for part, one in contributions.items()}
        state.update(k, means, clips / plan.bound)
        if path is not None and vault.at_block_end(run, POLICY):
            state.save(path, run, vault)
        if progress is not None:
            progress(k + 1, plan.rounds)

    words = "given by the user" if start is not None else f"drawn with the public seed {seed}"
    of = "the user's own" if plan.critic == "public" else None
    return vault.release(run, state.learned(), label=label(plan, start=words, critic=of))


class _State:
    """Everything a run carries from round to round, all of it public."""

    def __init__(
        self,
        plan: Plan,
        policy: Policy,
        critic: Value | None,
        replicates: int,
        start: Float32 | None,
        critic_start: Float32 | None,
        seed: int,
    ) -> None:
        generator = np.random.default_rng(seed)
        self.plan, self.policy = plan, policy
        self.master = _start("start", policy.initial(generator, replicates), start)
        self.critic: Float64 | None = None
        if critic is not None:
            self.critic = _start("critic_start", critic.network.initial(generator, replicates), critic_start)
        self.previous: Float64 | None = None
        self.total, self.counted, self.rounds = np.zeros_like(self.master), 0, 0
        self.norms = np.zeros((plan.rounds, replicates))
        self.kept = np.unique(np.linspace(0, plan.rounds, min(plan.rounds, KEPT) + 1).astype(np.int64))
        self.iterates = np.repeat(self.theta[None], len(self.kept), axis=0)

    @property
    def theta(self) -> Float32:
        """The released parameters [R, P]."""
        return self.master.astype(np.float32)

    def released(self, k: int, stretch: Float64) -> Released:
        """What the round's contributions may use."""
        phi = None if self.critic is None else self.critic.astype(np.float32)
        previous = None if self.previous is None else self.previous.astype(np.float32)
        return Released(self.theta, phi, stretch, k, previous)

    def update(self, k: int, means: dict[str, Float64], shrink: Float64) -> None:
        """Take round k's noisy means into the parameters, the average and the history."""
        plan, size = self.plan, self.plan.step_at(k)
        mean = means[POLICY] * shrink[:, None]
        ascent, taught = mean[:, : self.policy.parameters], mean[:, self.policy.parameters :]
        self.master = self.master + size * ascent
        self.previous = ascent
        if self.critic is not None and plan.critic == "private":
            self.critic = self.critic + size * plan.critic_step / plan.kappa * taught
        elif self.critic is not None and plan.critic == "shared":
            self.critic = self.critic + size * plan.critic_step * means[CRITIC]
        if plan.averaged(k):
            self.total, self.counted = self.total + self.master, self.counted + 1
        self.norms[k] = np.linalg.norm(ascent, axis=1)
        self.rounds = k + 1
        self.iterates[self.kept >= self.rounds] = self.theta

    def learned(self) -> Learned:
        """The value to release."""
        average = (self.total / self.counted).astype(np.float32) if self.counted else self.theta
        return Learned(
            plan=self.plan,
            policy=self.policy,
            last=self.theta,
            average=average,
            norms=self.norms,
            iterates=self.iterates,
            people=self.kept * self.plan.users,
        )

    def save(self, path: Path, run: Run, vault: UserVault) -> None:
        """Write a checkpoint of the released values."""
        import torch

        from tacit.privacy import checkpoint

        tensors = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in self._arrays().items()}
        checkpoint.save(path, tensors, plan_id=run.plan_id, ledger=vault.ledger)

    def load(self, path: Path, vault: UserVault) -> None:
        """Take up what `save` wrote.

        Raises:
            FileError, LedgerError: the checkpoint is damaged or not this plan's.
            PlanError: it is of another policy or another number of replicates.
        """
        from tacit.privacy import checkpoint

        kept: dict[str, Tensor] = checkpoint.load(path, plan_id=plan_id(self.plan), ledger=vault.ledger)
        fits = all(name in kept and kept[name].shape == value.shape for name, value in self._arrays().items())
        if not fits:
            raise PlanError(
                "the checkpoint is of another policy, critic or number of replicates",
                where=str(path),
                expected="what the run was begun with",
                remedy="resume with the same policy and critic",
            )
        arrays: dict[str, Any] = {name: tensor.numpy().copy() for name, tensor in kept.items()}
        self.master, self.total, self.norms = arrays["theta"], arrays["total"], arrays["norms"]
        self.iterates, self.previous = arrays["iterates"], arrays["previous"]
        self.counted, self.rounds = (int(v) for v in arrays["counts"])
        if self.critic is not None:
            self.critic = arrays["critic"]

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {
            "theta": self.master,
            "total": self.total,
            "norms": self.norms,
            "iterates": self.iterates,
            "previous": np.zeros_like(self.master) if self.previous is None else self.previous,
            "counts": np.array([self.counted, self.rounds]),
        }
        return arrays if self.critic is None else arrays | {"critic": self.critic}


def advantages(plan: Plan, policy: Policy) -> Advantages:
    """How a plan makes advantages; a local critic is quadratic in the policy's features of a continuous observation."""
    own = None
    if plan.critic == "local":
        own = Quadratic(*_box(policy.features)) if isinstance(policy.features, Scaled) else policy.features
    return Advantages(
        gamma=plan.gamma,
        trace=plan.trace,
        reward_rate=plan.reward_rate,
        scale=plan.return_scale,
        own=own,
        ridge=plan.ridge,
        standardised=plan.standardised,
    )


def _contributions(plan: Plan, policy: Policy, critic: Value | None) -> dict[str, Contribution]:
    """For each part of the plan what a person adds to it."""
    how = advantages(plan, policy)
    kappa, local = plan.kappa if plan.critic == "private" else 0.0, plan.local
    if local is None:
        one: Contribution = EpisodeGradient(policy, how, plan.entropy, critic, kappa)
        taught: Contribution | None = CriticGradient(critic, how) if critic is not None else None
    else:
        training = Training(learning_rate=local.learning_rate, epochs=local.epochs, minibatches=local.minibatches)
        one = LocalUpdates(policy, how, training, local.entropy, "ratio", local.seeded, critic, kappa)
        taught = CriticUpdates(critic, how, training) if critic is not None else None
    return {POLICY: one, CRITIC: taught} if plan.critic == "shared" and taught is not None else {POLICY: one}


def _critic(plan: Plan, policy: Policy, spec: PublicSpec, critic: Value | None, *, given: bool) -> Value | None:
    """The plan's critic, or None where it has none.

    Raises:
        PlanError: a public critic is missing, or a critic is given that the plan does not use.
    """
    uses = plan.critic in ("private", "public", "shared")
    if (critic is not None and not uses) or (plan.critic == "public" and (critic is None or not given)):
        raise PlanError(
            "a public critic is missing" if uses else f"a critic is given, and the plan's is {plan.critic!r}",
            where="policy_gradient.learn",
            expected="critic= and critic_start= with a public critic, no critic= with a local one or none",
            remedy="pass what the plan uses",
        )
    if critic is not None or not uses:
        return critic
    scaled = policy.features if isinstance(policy.features, Scaled) else maps.default(spec.observation)
    if plan.critic == "shared":
        return Value(scaled, Mlp((scaled.size, 64, 64, 1), gain=1.0))
    wide = Quadratic(*_box(scaled)) if isinstance(scaled, Scaled) else scaled
    return Value(wide, Mlp((wide.size, 1), gain=0.0))


def _box(features: Scaled) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return features.low, features.high


def _start(name: str, drawn: Float32, given: Float32 | None) -> Float64:
    """The given parameters, for every replicate, or those drawn: [R, P] float64."""
    if given is None:
        return drawn.astype(np.float64)
    value = np.asarray(given, np.float64)
    if value.shape not in (drawn.shape, drawn.shape[1:]) or not np.isfinite(value).all():
        raise PlanError(
            f"{name} has shape {value.shape}, or holds numbers that are not finite",
            where="policy_gradient.learn",
            expected=f"{drawn.shape[1]} finite parameters, for all replicates or for each of {drawn.shape[0]}",
            remedy="pass parameters of this policy (or critic)",
        )
    return np.broadcast_to(value, drawn.shape).copy()


def _require_information(plan: Plan, information: Information | None) -> None:
    from tacit.methods.policy_gradient.trust_region import KL

    if isinstance(plan.trust_region, KL) != (information is not None):
        raise PlanError(
            "the plan and information= do not fit each other",
            where="policy_gradient.learn",
            expected="information= with a KL trust region, and with nothing else",
            remedy="pass the eigenvalues of the Fisher information of public records",
        )


def _clips(plan: Plan, state: _State, information: Information | None, k: int, first: int) -> Float64:
    """The public clip of round k, [R]; `first` is the first round of this process."""
    theta = state.theta
    if plan.trust_region is None:
        return np.full(len(theta), plan.bound)
    known = [None if information is None else information(state.policy, row) for row in theta]
    noise = plan.noise_at(k - first, plan.rounds - first)
    return np.array(
        [
            plan.trust_region.clip(
                learning_rate=plan.step_at(k),
                noise=noise,
                dimension=state.policy.parameters,
                users=plan.users,
                eigenvalues=eigenvalues,
            )
            for eigenvalues in known
        ]
    )
