"""Offline learners of discrete actions, each a loss for every logged row. `CQL` and `DQN` read the network's outputs as
action values, `BC` as logits; of all three the policy is the largest output. PyTorch is loaded by the first loss.
`tacit.agents.discrete_offline` trains with them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from tacit.errors import PlanError

if TYPE_CHECKING:
    from torch import Tensor


class NetworkPair(Protocol):
    """A network that learns and an earlier copy of it, both [..., inputs] -> [..., actions]."""

    def online(self, x: Tensor) -> Tensor:
        """Outputs of the network that learns."""

    def target(self, x: Tensor) -> Tensor:
        """Outputs of the earlier copy, without a gradient."""


class Learner(Protocol):
    """A loss for each row, from that row alone: a frozen dataclass whose fields are public."""

    def losses(self, agent: NetworkPair, rows: Mapping[str, Tensor]) -> Tensor:
        """One loss a row, [...] float32. `online` is called once with gradients, and as often as needed under
        `torch.no_grad`. Rows are inputs and next_inputs [..., d] float32, actions [...] int64, rewards [...] float32
        and terminations [...] bool."""


@dataclass(frozen=True)
class CQL:
    """Conservative Q-learning (Kumar et al. 2020, arXiv:2006.04779) over double DQN.

    huber(Q(s, a) - y) + alpha (log sum_b exp Q(s, b) - Q(s, a)), with y = r + gamma Q_target(s', argmax_b Q(s', b)), or
    y = r where the episode terminated. Where it was truncated the next state keeps its value. `reward_scale` is a
    public factor of the rewards: values of about 1 give the conservative term its full weight against the Bellman
    error, values of about 100 hardly any.
    """

    alpha: float = 1.0
    gamma: float = 0.99
    reward_scale: float = 1.0
    kind: Literal["cql"] = field(default="cql", init=False)

    def __post_init__(self) -> None:
        _check("alpha", self.alpha, 0 <= self.alpha < math.inf, "a finite number >= 0")
        _check_discounted(self.gamma, self.reward_scale)

    def losses(self, agent: NetworkPair, rows: Mapping[str, Tensor]) -> Tensor:
        """See `Learner.losses`."""
        values = agent.online(rows["inputs"])
        taken_values = values.gather(-1, rows["actions"][..., None])[..., 0]
        conservative = self.alpha * (values.logsumexp(-1) - taken_values)
        return _bellman_loss(agent, rows, taken_values, self.gamma, self.reward_scale) + conservative


@dataclass(frozen=True)
class DQN:
    """Double deep Q-learning (van Hasselt et al. 2016, arXiv:1509.06461): huber(Q(s, a) - y), y as for `CQL`."""

    gamma: float = 0.99
    reward_scale: float = 1.0
    kind: Literal["dqn"] = field(default="dqn", init=False)

    def __post_init__(self) -> None:
        _check_discounted(self.gamma, self.reward_scale)

    def losses(self, agent: NetworkPair, rows: Mapping[str, Tensor]) -> Tensor:
        """See `Learner.losses`."""
        taken_values = agent.online(rows["inputs"]).gather(-1, rows["actions"][..., None])[..., 0]
        return _bellman_loss(agent, rows, taken_values, self.gamma, self.reward_scale)


@dataclass(frozen=True)
class BC:
    """Behaviour cloning: minus the log-probability of the logged action under softmax(outputs)."""

    kind: Literal["bc"] = field(default="bc", init=False)

    def losses(self, agent: NetworkPair, rows: Mapping[str, Tensor]) -> Tensor:
        """See `Learner.losses`."""
        logits = agent.online(rows["inputs"])
        return logits.logsumexp(-1) - logits.gather(-1, rows["actions"][..., None])[..., 0]


def _bellman_loss(agent: NetworkPair, rows: Mapping[str, Tensor], taken: Tensor, gamma: float, scale: float) -> Tensor:
    """Huber losses of Q(s, a) against double DQN's goals."""
    import torch
    from torch.nn import functional

    with torch.no_grad():
        next_inputs = rows["next_inputs"]
        best_actions = agent.online(next_inputs).argmax(-1, keepdim=True)
        value = agent.target(next_inputs).gather(-1, best_actions)[..., 0]
        targets = scale * rows["rewards"] + gamma * torch.where(rows["terminations"], 0.0, value)
    return functional.huber_loss(taken, targets, reduction="none")


def _check_discounted(gamma: float, scale: float) -> None:
    _check("gamma", gamma, 0 <= gamma < 1, "a number in [0, 1)")
    _check("reward_scale", scale, 0 < scale < math.inf, "a finite number > 0")


def _check(name: str, value: object, ok: bool, expected: str) -> None:
    if not ok:
        raise PlanError(f"{name} is {value!r}", where="learner", expected=expected, remedy=f"choose another {name}")
