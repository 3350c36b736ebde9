"""One Poisson draw from a million units against one training step on 128 of them.

Run `python -m benchmarks.sampling`. The step is the *non-private* one of the 6.5M residual MLP, which is cheaper than
the private one, so `ratio_step` is an upper bound of the sampler's share in a private step.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import statistics

import torch
from torch import Tensor, nn

from tacit.privacy.noise.secret import SecretNoise, poisson_sample

POPULATION, BATCH, WIDTH, ROW = 1_000_000, 128, 1024, 11


class ResidualMlp(nn.Module):
    """Six residual blocks of LayerNorm, ReLU, Linear, with a time embedding: 6.5M parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(ROW, WIDTH), nn.Linear(WIDTH, ROW)
        self.time = nn.Linear(128, WIDTH)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)) for _ in range(6)
        )

    def forward(self, rows: Tensor, times: Tensor) -> Tensor:
        phase = times[:, None] * torch.exp(torch.linspace(0, 7, 64))
        x = self.inner(rows) + self.time(torch.cat([phase.sin(), phase.cos()], dim=1))
        for block in self.blocks:
            x = x + block(x)
        return self.outer(x)  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    model, noise = ResidualMlp(), SecretNoise()
    optimiser = torch.optim.Adam(model.parameters(), fused=True)
    rows, times = torch.randn(BATCH, ROW), torch.rand(BATCH)

    def step() -> None:
        optimiser.zero_grad()
        (model(rows, times) - rows).square().mean().backward()
        optimiser.step()

    def draws() -> None:
        for _ in range(20):
            poisson_sample(POPULATION, BATCH / POPULATION, noise)

    seconds = timing.cpu_seconds({"step": step, "20 draws": draws}, repeats=arguments.repeats)
    print(f"one step    {1000 * statistics.median(seconds['step']):8.3f} ms")
    print(f"one draw    {1000 * statistics.median(seconds['20 draws']) / 20:8.3f} ms")
    timing.report(
        {
            "benchmark": "sampling",
            "ratio_step": timing.ratio(seconds, "20 draws", "step") / 20,
            "at_most": {"ratio_step": 0.01},
            "step": "non-private",
            "parameters": sum(p.numel() for p in model.parameters()),
        }
    )


if __name__ == "__main__":
    main()
