"""What a run carries from round to round, and the update step (`State.update`).

All of it is released or public, which is what a checkpoint holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.agents.policies import Float32, Policy, PolicyActor, ValueFunction
from tacit.agents.policy_files import FeedForward
from tacit.errors import PlanError
from tacit.methods.policy_gradient.contributions import RoundInputs
from tacit.methods.policy_gradient.fisher import PART as FISHER
from tacit.methods.policy_gradient.plan import CRITIC, PolicyGradientPlan
from tacit.methods.policy_gradient.rounds import POLICY
from tacit.methods.policy_gradient.votes import VotesPlan
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.plan import plan_id
from tacit.privacy.vault.user_vault import UserVault

if TYPE_CHECKING:
    from torch import Tensor


AnyPlan = PolicyGradientPlan | VotesPlan
"""What can be learnt under."""

# What learning hands out: policies, all of them public.


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedPolicies:
    """The released policies of R replicates (R = 1 but for simulated people).

    Args:
        plan: under which they were learnt.
        policy: what the parameters are of.
        last: parameters after the last round, [R, P].
        average: mean of the parameters after each of the last `plan.average` of the rounds, [R, P].
        norms: length of each round's released mean, [T, R].
        iterates: parameters at the start and after some of the rounds, evenly spaced, [K, R, P].
        people: how many people had been met at each of these iterates, [K].
    """

    plan: AnyPlan
    policy: Policy
    last: Float32
    average: Float32
    norms: NDArray[np.float64]
    iterates: Float32
    people: NDArray[np.int64]

    def __repr__(self) -> str:
        size = f"{self.policy.parameters:,} parameters"
        return f"Learned({size}, from {self.people[-1]:,} people, {self.replicates} replicate(s))"

    @cached_property
    def replicates(self) -> int:
        """R."""
        return len(self.last)

    def actor(self, *, greedy: bool = False, average: bool = False) -> PolicyActor:
        """Serve people with the last parameters, or with the averaged ones.

        Args:
            greedy: the most probable action instead of a random one, as policies of votes always take.
            average: the averaged parameters.
        """
        return PolicyActor(self.policy, self.average if average else self.last, greedy or self.plan.greedy)

    def predict(
        self,
        observation: NDArray[Any],
        state: None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[Any], None]:
        """Act as a model of Stable-Baselines3 does, with the last parameters (see `PolicyActor.predict`)."""
        return self.actor().predict(observation, state, episode_start, deterministic)

    def feed_forward(self) -> FeedForward:
        """The layers of the last policy, for other readers of policies.

        Raises:
            PlanError: the actions are continuous, the network is no `Mlp`, or there are several replicates.
        """
        return FeedForward.of(self.policy, self.last)

    def replicate(self, r: int) -> TrainedPolicies:
        """The policies of one replicate, with R = 1."""
        index = slice(r, r + 1) if r >= 0 else slice(r, None)
        return replace(
            self,
            last=self.last[index],
            average=self.average[index],
            norms=self.norms[:, index],
            iterates=self.iterates[:, index],
        )


Float64 = NDArray[np.float64]

KEPT = 20
"""How many iterates a release keeps for learning curves, besides the start."""


class State:
    """Everything a run carries from round to round, all of it public."""

    def __init__(
        self,
        plan: AnyPlan,
        policy: Policy,
        critic: ValueFunction | None,
        replicates: int,
        start: Float32 | None,
        critic_start: Float32 | None,
        seed: int,
    ) -> None:
        generator = np.random.default_rng(seed)
        self.plan, self.policy, self.replicates = plan, policy, replicates
        self.master = _start("start", policy.initial_parameters(generator, replicates), start)
        self.critic: Float64 | None = None
        if critic is not None:
            self.critic = _start("critic_start", critic.network.initial_parameters(generator, replicates), critic_start)
        self.previous: Float64 | None = None
        self.information = np.zeros((replicates, 0))
        self.information_count = 0
        self.total, self.counted, self.rounds = np.zeros_like(self.master), 0, 0
        self.norms = np.zeros((plan.rounds, replicates))
        self.kept = np.unique(np.linspace(0, plan.rounds, min(plan.rounds, KEPT) + 1).astype(np.int64))
        self.iterates = np.repeat(self.theta[None], len(self.kept), axis=0)

    @property
    def theta(self) -> Float32:
        """The released parameters [R, P]."""
        return self.master.astype(np.float32)

    def round_inputs(self, k: int, stretch: Float64) -> RoundInputs:
        """What the round's contributions may use."""
        phi = None if self.critic is None else self.critic.astype(np.float32)
        previous = None if self.previous is None else self.previous.astype(np.float32)
        return RoundInputs(self.theta, phi, stretch, k, previous)

    def update(self, k: int, means: dict[str, Float64], shrink: Float64) -> None:
        """Take round k's noisy means into the parameters, the average and the history."""
        plan, size = self.plan, self.plan.step_at(k)
        mean = means[POLICY] * shrink[:, None]
        ascent, critic_mean = mean[:, : self.policy.parameters], mean[:, self.policy.parameters :]
        self.master = self.master + size * ascent
        self.previous = ascent
        if self.critic is not None and isinstance(plan, PolicyGradientPlan):
            if plan.critic == "private":
                self.critic = self.critic + size * plan.critic_step / plan.kappa * critic_mean
            elif plan.critic == "shared":
                self.critic = self.critic + size * plan.critic_step * means[CRITIC]
        if FISHER in means:
            before = self.information if self.information_count else np.zeros_like(means[FISHER])
            self.information_count += 1
            self.information = before + (means[FISHER] - before) / self.information_count
        if plan.is_averaged(k):
            self.total, self.counted = self.total + self.master, self.counted + 1
        self.norms[k] = np.linalg.norm(ascent, axis=1)
        self.rounds = k + 1
        self.iterates[self.kept >= self.rounds] = self.theta

    def learned_policy(self) -> TrainedPolicies:
        """The value to release."""
        average = (self.total / self.counted).astype(np.float32) if self.counted else self.theta
        return TrainedPolicies(
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

        from tacit.privacy.ledger import checkpoint

        tensors = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in self._arrays().items()}
        checkpoint.save(path, tensors, plan_id=run.plan_id, ledger=vault.ledger)

    def load(self, path: Path, vault: UserVault) -> None:
        """Take up what `save` wrote."""
        from tacit.privacy.ledger import checkpoint

        tensors: dict[str, Tensor] = checkpoint.load(path, plan_id=plan_id(self.plan), ledger=vault.ledger)
        shapes = {name: value.shape for name, value in self._arrays().items() if name != "information"}
        fits = all(name in tensors and tensors[name].shape == shape for name, shape in shapes.items())
        if not fits:
            what = "the checkpoint is of another policy, critic or number of replicates"
            expected, remedy = "what the run was begun with", "resume with the same policy and critic"
            raise PlanError(what, where=str(path), expected=expected, remedy=remedy)
        arrays: dict[str, Any] = {name: tensor.numpy().copy() for name, tensor in tensors.items()}
        self.master, self.total, self.norms = arrays["theta"], arrays["total"], arrays["norms"]
        self.iterates, self.information = arrays["iterates"], arrays["information"]
        self.counted, self.information_count, self.rounds = (int(v) for v in arrays["counts"])
        self.previous = arrays["previous"] if self.rounds else None
        if self.critic is not None:
            self.critic = arrays["critic"]

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {
            "theta": self.master,
            "total": self.total,
            "norms": self.norms,
            "iterates": self.iterates,
            "previous": np.zeros_like(self.master) if self.previous is None else self.previous,
            "information": self.information,
            "counts": np.array([self.counted, self.information_count, self.rounds]),
        }
        return arrays if self.critic is None else arrays | {"critic": self.critic}


def _start(name: str, drawn: Float32, provided: Float32 | None) -> Float64:
    """The given parameters, for every replicate, or those drawn: [R, P] float64."""
    if provided is None:
        return drawn.astype(np.float64)
    value = np.asarray(provided, np.float64)
    if value.shape not in (drawn.shape, drawn.shape[1:]) or not np.isfinite(value).all():
        what = f"{name} has shape {value.shape}, or holds numbers that are not finite"
        expected = f"{drawn.shape[1]} finite parameters, for all replicates or for each of {drawn.shape[0]}"
        remedy = "pass parameters of this policy (or critic)"
        raise PlanError(what, where="policy_gradient.fit", expected=expected, remedy=remedy)
    return np.broadcast_to(value, drawn.shape).copy()
