"""One person after the other in torch: algorithm 3 of arXiv:2501.19080 as one would write it first.

A copy of the policy a person, `torch.optim.Adam`, automatic differentiation. The minibatches are those of
`tacit.methods.policy_gradient.local_updates`, so that the two can be compared number by number.
"""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

Array = NDArray[Any]


def actor(sizes: tuple[int, ...], theta: Array) -> nn.Sequential:
    """A tanh network with the parameters [P] of `tacit.agents.networks.Mlp(sizes)`."""
    layers: list[nn.Module] = []
    start = 0
    for n, m in itertools.pairwise(sizes):
        linear, matrix = nn.Linear(n, m), torch.tensor(theta[start : start + (n + 1) * m]).reshape(n + 1, m)
        with torch.no_grad():
            linear.weight.copy_(matrix[:-1].T)
            linear.bias.copy_(matrix[-1])
        layers += [linear, nn.Tanh()]
        start += (n + 1) * m
    return nn.Sequential(*layers[:-1])


def flat(module: nn.Sequential) -> Array:
    """The other way round: [P]."""
    linears = [layer for layer in module if isinstance(layer, nn.Linear)]
    parts = [part for linear in linears for part in (linear.weight.T.reshape(-1), linear.bias)]
    return torch.cat(parts).detach().numpy()


def updates(
    policy: nn.Sequential,
    observations: Array,
    actions: Array,
    advantages: Array,
    *,
    learning_rate: float,
    epochs: int,
    minibatches: int,
    entropy: float,
    epsilon: float,
    keys: Array,
) -> list[Array]:
    """phi - theta [P] of U people.

    Args:
        policy: from inputs to logits; it is not changed.
        observations, actions, advantages: [U, n, d], [U, n], [U, n].
        learning_rate, epsilon: of Adam.
        epochs, minibatches: passes over a person's rows, and parts of a pass.
        entropy: coefficient of the entropy bonus.
        keys: [epochs, n], what rows are sorted by before a pass.
    """
    theta, sent = flat(policy), []
    for seen, done, gains in zip(observations, actions, advantages, strict=True):
        own = copy.deepcopy(policy)
        optimiser = torch.optim.Adam(own.parameters(), lr=learning_rate, eps=epsilon)
        x, a, gain = torch.tensor(seen), torch.tensor(done), torch.tensor(gains)
        with torch.no_grad():
            old = torch.distributions.Categorical(logits=own(x)).log_prob(a)
        for epoch in keys[:epochs]:
            for batch in np.array_split(np.argsort(epoch), minibatches):
                law = torch.distributions.Categorical(logits=own(x[batch]))
                ratio = (law.log_prob(a[batch]) - old[batch]).exp()
                loss = -(gain[batch] * ratio).mean() - entropy * law.entropy().mean()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        sent.append(flat(own) - theta)
    return sent
