"""What one person adds: the policy gradient of own completions at the released parameters, from own rows alone.

    x = 1 / (prompts K T) sum_{prompts, k, t} A_kt grad log pi(y_kt | prompt, y_k1 .. y_k,t-1)
    A_kt = a_k,s - mean_{j != k} a_j,s,   a_k,s = R_k - kl (log pi(y_k) - log pi_0(y_k)) - c V(first s tokens of y_k)

with s the last look of the public critic V before token t (0 in the first segment). Prompts' gradients are added up
under one clip, and all divisors are public constants: none counts tokens, prompts or people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tacit.agents.language.adapters import Steering
from tacit.agents.language.sampling import Completions, filled, log_softmax, scores
from tacit.agents.language.texts import Writer
from tacit.methods.alignment.plan import AlignmentPlan
from tacit.methods.alignment.writing import split_actions, split_observations

TOGETHER = 16
"""Prompts whose gradients are taken in one pass."""


@dataclass(frozen=True, eq=False)
class Released:
    """What a round's contributions may use."""

    theta: NDArray[np.float32]  # the released parameters [P]


@dataclass(frozen=True, eq=False)
class PersonGradient:
    """One policy gradient a person."""

    plan: AlignmentPlan  # sizes, bounds and the critic's share
    writer: Writer  # the model

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: Released) -> NDArray[np.float64]:
        """[U, P]."""
        plan, people = self.plan, len(rows["mask"])
        theta = torch.from_numpy(np.array(state.theta, np.float32))
        flat = {name: rows[name].reshape(people * plan.rows, -1) for name in ("observations", "actions")}
        rewards = torch.from_numpy(np.asarray(rows["rewards"], np.float32)).view(-1, plan.completions)
        whole = torch.from_numpy(np.asarray(rows["mask"])).view(-1, plan.completions).all(dim=1)
        prompts, _ = split_observations(plan, flat["observations"])
        vectors = torch.zeros(people * plan.prompts, len(theta))
        answered = torch.nonzero(whole)[:, 0]
        written = flat["actions"].reshape(-1, plan.completions, flat["actions"].shape[1])
        for some in torch.split(answered, TOGETHER) if len(answered) else ():
            actions = written[some.numpy()].reshape(-1, written.shape[2])
            done, values = split_actions(plan, prompts[some], actions)
            vectors[some] = self._gradients(done, values, rewards[some], theta)
        total = vectors.view(people, plan.prompts, -1).sum(dim=1)
        return np.asarray(total.numpy(), np.float64) / (plan.prompts * plan.completions * plan.tokens)

    def _gradients(self, done: Completions, values: Tensor, rewards: Tensor, theta: Tensor) -> Tensor:
        """[B, P] of B prompts."""
        model, before, adapter = self.writer.model, self.writer.before, self.plan.adapter
        given, rows = len(rewards), filled(len(rewards), self.plan.prompt_tokens, self.plan.completions)
        rewards, values = rewards[rows], values[rows]
        done = Completions(done.prompts[rows], done.written[rows], done.residual[rows])
        if self.plan.kl:
            start = adapter.start(model.shape)
            with torch.no_grad():
                ours, theirs = (
                    log_softmax(model, before, done, Steering(adapter, one[None])).gather(3, done.written[..., None])
                    for one in (theta, start)
                )
            rewards = rewards - self.plan.kl * (ours - theirs).sum(dim=(2, 3))
        return scores(model, before, done, adapter, theta, advantages(self.plan, rewards, values))[:given]


def advantages(plan: AlignmentPlan, rewards: Tensor, values: Tensor) -> Tensor:
    """A [B, K, T] of rewards [B, K] and of the public values [B, K, looks] of completions and of their beginnings."""
    beginnings = torch.cat([torch.zeros_like(rewards)[..., None], values[..., :-1]], dim=2)
    gains = rewards[..., None] - plan.critic * beginnings
    others = (gains.sum(dim=1, keepdim=True) - gains) / (plan.completions - 1)
    segment = plan.segment if len(plan.looks) > 1 else plan.tokens
    return (gains - others).repeat_interleave(segment, dim=2)[..., : plan.tokens]
