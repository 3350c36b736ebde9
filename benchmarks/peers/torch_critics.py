"""One person after the other in torch: a Wasserstein critic with gradient penalty as one would write it first.

A module a person, `torch.optim.Adam`, and automatic differentiation twice for the penalty (Gulrajani et al.,
arXiv:1704.00028). The rows are those of `tacit.methods.mobility.pategail.critics`, so that the two can be compared
number by number.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from benchmarks.peers.torch_users import flat

Array = NDArray[Any]


def critic(sizes: tuple[int, ...], theta: Array, leak: float) -> nn.Sequential:
    """A leaky network with the parameters [P] of one person: matrices [in + 1, out] one after another, biases last."""
    layers: list[nn.Module] = []
    start = 0
    for n, m in itertools.pairwise(sizes):
        linear, matrix = nn.Linear(n, m), torch.tensor(theta[start : start + (n + 1) * m]).reshape(n + 1, m)
        with torch.no_grad():
            linear.weight.copy_(matrix[:-1].T)
            linear.bias.copy_(matrix[-1])
        layers += [linear, nn.LeakyReLU(leak)]
        start += (n + 1) * m
    return nn.Sequential(*layers[:-1])


def updates(
    module: nn.Sequential,
    rows: Array,
    *,
    penalty: float,
    rate: float,
    decays: tuple[float, float],
) -> Array:
    """The parameters [P] of one person after a step of Adam on each batch.

    Args:
        module: her critic, which is changed.
        rows: [S, 3 B, d]: in each step B rows of her own, B generated and B between them.
        penalty: lambda.
        rate, decays: of Adam.
    """
    optimiser = torch.optim.Adam(module.parameters(), lr=rate, betas=decays, eps=1e-8)
    for batch in torch.from_numpy(rows):
        optimiser.zero_grad()
        loss(module, batch, penalty).backward()
        optimiser.step()
    return flat(module)


def slopes(module: nn.Sequential, batch: Array, penalty: float) -> Array:
    """The slope [P] of the loss on one batch [3 B, d]."""
    module.zero_grad()
    loss(module, torch.from_numpy(batch), penalty).backward()
    linears = [layer for layer in module if isinstance(layer, nn.Linear)]
    parts = [part.grad for linear in linears for part in (linear.weight, linear.bias)]
    return torch.cat([part.T.reshape(-1) if part.ndim == 2 else part for part in parts if part is not None]).numpy()


def loss(module: nn.Sequential, batch: torch.Tensor, penalty: float) -> torch.Tensor:
    """mean D(generated) - mean D(own) + penalty mean (|grad D(mixed)| - 1)^2."""
    own, generated, mixed = batch.chunk(3)
    mixed = mixed.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(module(mixed).sum(), mixed, create_graph=True)
    excess = gradient.norm(dim=1) - 1
    found: torch.Tensor = module(generated).mean() - module(own).mean() + penalty * excess.square().mean()
    return found
