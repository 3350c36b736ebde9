"""One private training step against the same step without privacy, and against Opacus.

Run `python -m benchmarks.dp_sgd`. The last line is one JSON object. Every private step holds clipping, secret Gaussian
noise on all parameters and fused Adam; the step without privacy, the same forward, backward and fused Adam.

- `ratio_b128`, `ratio_b1024`: residual MLP of 6.5M parameters (6 blocks of LayerNorm, ReLU, Linear 1024^2, time
  embedding), one row a unit.
- `opacus_hooks_over_tacit`, `opacus_ghost_over_tacit`: the same at B = 128; Opacus with `torch.normal` noise.
- `ratio_trajectory`: 6-layer transformer (width 128, 4 heads, 192 tokens), 4 units of 4 fragments.

On glibc the benchmark starts itself again with `MALLOC_MMAP_MAX_=0` and no trimming (for all variants alike), so that
page faults of freshly mapped buffers, which depend on the neighbours' load, are not what is measured;
`--default-malloc` does without.
"""

from __future__ import annotations

from benchmarks import timing  # isort: skip  (first: it limits the threads)

import argparse
import math
import os
import platform
import statistics
import sys
import warnings
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tacit.privacy.bookkeeping import Loss
from tacit.privacy.box_muller import box_muller_compiled
from tacit.privacy.gradients import assign_gradient, clipped_sum
from tacit.privacy.layers import Table
from tacit.privacy.noise import SecretNoise

Step = Callable[[], object]
MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "-1"}
CLIP, NOISE_MULTIPLIER = 1.0, 1.0


class Block(nn.Module):
    """h + Linear(ReLU(LayerNorm(h)))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, h: Tensor) -> Tensor:
        return h + self.linear(torch.relu(self.norm(h)))


class Denoiser(nn.Module):
    """Residual MLP over rows [B, d] and noise levels [B], with a Fourier time embedding."""

    frequencies: Tensor

    def __init__(self, d: int = 11, width: int = 1024, depth: int = 6) -> None:
        super().__init__()
        self.input, self.output = nn.Linear(d, width), nn.Linear(width, d)
        self.time = nn.Sequential(nn.Linear(64, 128), nn.SiLU(), nn.Linear(128, width))
        self.blocks = nn.Sequential(*(Block(width) for _ in range(depth)))
        self.register_buffer("frequencies", torch.exp(torch.linspace(0.0, math.log(1000.0), 32)))

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        phase = t[..., None] * self.frequencies
        h = self.input(x) + self.time(torch.cat([phase.sin(), phase.cos()], -1))
        return self.output(self.blocks(h))  # type: ignore[no-any-return]


class Attention(nn.Module):
    """Causal self-attention over [N, T, width]."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class TransformerLayer(nn.Module):
    """Pre-norm attention and MLP, both residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """Next-token logits [N, T, vocabulary] of tokens [N, T]."""

    def __init__(
        self, vocabulary: int = 256, width: int = 128, heads: int = 4, depth: int = 6, tokens: int = 192
    ) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocabulary, width), Table(tokens, width)
        self.layers = nn.Sequential(*(TransformerLayer(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.norm(self.layers(self.positions(self.embedding(tokens)))))  # type: ignore[no-any-return]


def denoising_loss(model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
    """Squared error a row, [B]."""
    noised = rows["x"] + rows["level"][:, None] * rows["noise"]
    return (model(noised, rows["level"]) - rows["x"]).square().mean(1)


def fragment_loss(model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
    """Mean cross entropy of each unit's fragments: tokens [U, K, T + 1] -> [U]."""
    tokens = rows["tokens"].flatten(0, 1)
    logits = model(tokens[:, :-1])
    losses = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    return losses.view(len(rows["tokens"]), -1).mean(1)


def steps(
    model: Callable[[], nn.Module], loss: Loss, rows: Mapping[str, Tensor], noise: SecretNoise
) -> dict[str, Step]:
    """The step without privacy and tacit's, each with its own model and optimizer."""
    units = len(next(iter(rows.values())))
    plain_model, model_ = model(), model()
    plain_adam, adam = fused_adam(plain_model), fused_adam(model_)
    flat = torch.zeros(sum(p.numel() for p in model_.parameters()))
    out = flat.numpy()
    assign_gradient(model_, flat)

    def plain() -> None:
        plain_adam.zero_grad(set_to_none=True)
        loss(plain_model, rows).mean().backward()
        plain_adam.step()

    def tacit() -> None:
        noise.gaussian(flat.numel(), NOISE_MULTIPLIER * CLIP / units, out=out)
        clipped_sum(model_, loss, rows, CLIP, scale=1.0 / units, add_to=flat)
        adam.step()

    return {"plain": plain, "tacit": tacit}


def opacus_steps(rows: Mapping[str, Tensor]) -> dict[str, Step]:
    """Opacus on the same denoiser and rows: per-sample gradients by hooks, and ghost clipping."""
    from opacus import GradSampleModule
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping

    units = len(rows["x"])
    settings = {"noise_multiplier": NOISE_MULTIPLIER, "max_grad_norm": CLIP, "expected_batch_size": units}
    hooks_model = GradSampleModule(Denoiser())
    hooks_adam = DPOptimizer(fused_adam(hooks_model), **settings)
    ghost_model = GradSampleModuleFastGradientClipping(Denoiser(), max_grad_norm=CLIP)
    ghost_adam = DPOptimizerFastGradientClipping(fused_adam(ghost_model), **settings)

    def hooks() -> None:
        hooks_adam.zero_grad(set_to_none=True)
        denoising_loss(hooks_model, rows).mean().backward()
        hooks_adam.step()

    def ghost() -> None:
        ghost_adam.zero_grad(set_to_none=True)
        losses = denoising_loss(ghost_model, rows)
        DPTensorFastGradientClipping(ghost_model, ghost_adam, losses).backward()
        ghost_adam.step()

    return {"opacus_hooks": hooks, "opacus_ghost": ghost}


def fused_adam(model: nn.Module) -> torch.optim.Adam:
    """The fastest Adam of torch, for every variant."""
    return torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)


def denoising_rows(units: int) -> dict[str, Tensor]:
    """Invented rows."""
    return {"x": torch.randn(units, 11), "level": torch.rand(units), "noise": torch.randn(units, 11)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--without-opacus", action="store_true")
    parser.add_argument("--default-malloc", action="store_true")
    arguments = parser.parse_args()
    if platform.libc_ver()[0] == "glibc" and not arguments.default_malloc and not MALLOC.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.dp_sgd", *sys.argv[1:]], {**os.environ, **MALLOC})
    torch.manual_seed(0)
    torch.set_num_threads(1)
    noise, figures = SecretNoise(), dict[str, object]()

    def measure(label: str, variants: dict[str, Step], repeats: int) -> dict[str, list[float]]:
        seconds = timing.cpu_seconds(variants, repeats=repeats)
        for name, values in seconds.items():
            relative = timing.ratio(seconds, name, "plain")
            print(f"{label:18s}{name:14s}{1000 * statistics.median(values):9.1f} ms {relative:7.3f}", flush=True)
        return seconds

    for units, repeats in ((128, 2 * arguments.repeats), (1024, max(3, arguments.repeats * 2 // 3))):
        seconds = measure(f"MLP, B={units}", steps(Denoiser, denoising_loss, denoising_rows(units), noise), repeats)
        figures[f"ratio_b{units}"] = timing.ratio(seconds, "tacit", "plain")
    if not arguments.without_opacus:
        warnings.filterwarnings("ignore", message="Full backward hook is firing")
        rows = denoising_rows(128)
        variants = steps(Denoiser, denoising_loss, rows, noise) | opacus_steps(rows)
        seconds = measure("MLP, B=128", variants, max(3, arguments.repeats // 3))
        figures["opacus_hooks_over_tacit"] = timing.ratio(seconds, "opacus_hooks", "tacit")
        figures["opacus_ghost_over_tacit"] = timing.ratio(seconds, "opacus_ghost", "tacit")
    tokens = {"tokens": torch.randint(256, (4, 4, 193))}
    seconds = measure(
        "transformer, 4x4", steps(Transformer, fragment_loss, tokens, noise), max(3, arguments.repeats // 2)
    )
    figures["ratio_trajectory"] = timing.ratio(seconds, "tacit", "plain")
    compiled = box_muller_compiled is not None
    at_most = {
        "ratio_b128": 1.25 if compiled else 1.45,
        "ratio_b1024": 1.12 if compiled else 1.2,
        "ratio_trajectory": 1.15,
    }
    timing.report(
        {
            "benchmark": "dp_sgd",
            **figures,
            "at_most": at_most,
            "at_least": {"opacus_hooks_over_tacit": 8.0, "opacus_ghost_over_tacit": 1.6},
            "noise_path": "compiled" if compiled else "numpy",
            "malloc": "default" if arguments.default_malloc else MALLOC,
            "parameters": sum(p.numel() for p in Denoiser().parameters()),
        },
        packages=("numpy", "torch", "cryptography", *(() if arguments.without_opacus else ("opacus",))),
    )


if __name__ == "__main__":
    main()
