"""The network that denoises one row, and the moving average of its weights."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from tacit.methods.synthesis.plan import Plan

FREQUENCIES = 8
"""Random Fourier frequencies of the noise embedding (the paper: embedding dimension 16 = 8 sines + 8 cosines)."""


class ResidualMLP(nn.Module):
    """Residual MLP made of nn.Linear only (PrivORL appendix F-A; SynthER, arXiv:2303.06614).

        t = Linear(SiLU(Linear([c, sin 2 pi f c, cos 2 pi f c])))
        h = Linear([x, sin pi x, cos pi x, sin 2 pi x, ...]) + t
        h <- h + Linear(relu(h)), `depth` times;  out = Linear(relu(h))

    The harmonics of x are tacit's addition: in a few hundred noisy steps a plain MLP learns smooth functions only, and
    a density with sharp edges (walls) is not one (Fourier features, arXiv:2006.10739).

    No layer mixes rows and every parameter belongs to a Linear, so per-row gradient norms come from activations and
    output gradients alone. The Fourier frequencies are fixed public constants, held in a buffer.

    Args:
        size: width D of an encoded row.
        width, depth: of the residual stack. 128 and 4: 93 thousand parameters; the paper's 1024 and 6: 6.5 million.
        harmonics: octaves of Fourier features of each input column; 0 feeds the row alone (the paper).
        embedding: width of the noise embedding; where it differs from `width` one more Linear joins them (the paper).
    """

    frequencies: Tensor
    octaves: Tensor

    def __init__(self, size: int, *, width: int, depth: int, harmonics: int, embedding: int = 128) -> None:
        super().__init__()
        draws = torch.randn(FREQUENCIES, generator=torch.Generator().manual_seed(0))
        self.register_buffer("frequencies", 2 * math.pi * draws)
        self.noise_in = nn.Linear(1 + 2 * FREQUENCIES, embedding)
        self.noise_out = nn.Linear(embedding, embedding)
        self.register_buffer("octaves", math.pi * 2.0 ** torch.arange(harmonics))
        self.row_in = nn.Linear(size * (1 + 2 * harmonics), embedding)
        self.widen = nn.Identity() if embedding == width else nn.Linear(embedding, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.row_out = nn.Linear(width, size)

    def forward(self, rows: Tensor, noise: Tensor) -> Tensor:
        """rows [B, D] and their noise condition c_noise [B] to [B, D]."""
        angles = noise[:, None] * self.frequencies
        features = torch.cat([noise[:, None], angles.sin(), angles.cos()], dim=-1)
        phases = (rows[:, :, None] * self.octaves).flatten(1)
        waves = torch.cat([rows, phases.sin(), phases.cos()], dim=-1)
        hidden = self.row_in(waves) + self.noise_out(torch.nn.functional.silu(self.noise_in(features)))
        hidden = self.widen(hidden)
        for block in self.blocks:
            hidden = hidden + block(torch.relu(hidden))
        output: Tensor = self.row_out(torch.relu(hidden))
        return output


def build_network(plan: Plan, size: int) -> ResidualMLP:
    """The plan's network for rows of `size` columns, with random weights."""
    return ResidualMLP(size, width=plan.width, depth=plan.depth, harmonics=plan.harmonics)


class MovingAverage:
    """Exponential moving average of a module's parameters, with the early steps weighted fairly.

    After update t (1, 2, ...) the decay used is min(decay, t / (t + 10)), so that the random start is forgotten in
    runs that are not much longer than 1 / (1 - decay).

    Args:
        module: whose parameters are averaged; copied at once.
        decay: in [0, 1); 0 keeps the latest weights.
        every: `update` acts on each `every`-th call.
    """

    def __init__(self, module: nn.Module, *, decay: float, every: int = 1) -> None:
        self.decay, self.every, self.calls = decay, every, 0
        self.names = [name for name, _ in module.named_parameters()]
        self.values = [value.detach().clone() for value in module.parameters()]

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        """Take in the module's present weights."""
        self.calls += 1
        if self.calls % self.every:
            return
        count = self.calls // self.every
        weight = 1 - min(self.decay, count / (count + 10))
        torch._foreach_lerp_(self.values, [value.detach() for value in module.parameters()], weight)

    def state(self) -> dict[str, Tensor]:
        """The averaged parameters by name, on the CPU."""
        return on_cpu(dict(zip(self.names, self.values, strict=True)))


def on_cpu(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies of the tensors in the memory of the machine itself."""
    return {name: value.detach().to("cpu", copy=True) for name, value in state.items()}


@torch.no_grad()
def load_parameters(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Copy parameters by name; every parameter must be there, and nothing else.

    Raises:
        KeyError: the names differ.
    """
    own = dict(module.named_parameters())
    if own.keys() != state.keys():
        raise KeyError(f"parameters differ: {sorted(own.keys() ^ state.keys())}")
    for name, value in own.items():
        value.copy_(state[name])
