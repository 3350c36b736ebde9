"""One private training step against the same step without privacy, and against Opacus.

Run `python -m benchmarks.dp_sgd`. The last line is one JSON object. Every private step holds clipping, secret Gaussian
noise on all parameters and fused Adam; the step without privacy, the same forward, backward and fused Adam.

- `ratio_b128`, `ratio_b1024`: residual MLP of 6.5M parameters (6 blocks of LayerNorm, ReLU, Linear 1024^2, time
  embedding), one row a unit.
- `ratio_unaligned`: tacit's step of that model, whose output layer has 11 columns, over its step with 16: parameters of
  odd sizes must not leave later ones inside a cache line.
- `opacus_hooks_over_tacit`, `opacus_ghost_over_tacit`: the same at B = 128; Opacus with `torch.normal` noise.
- `ratio_trajectory`: the default denoiser of trajectories (`synthesis.trajectories.TrajectoriesPlan()`: a small
transformer over
  fragments of 32 rows in a maze), 64 units of 16 fragments; `ratio_few_fragments`: 256 units of 4. What clipping adds
  is the same for a unit of any length: its gradient is written once and read twice.
- `ratio_tokens`: 6-layer causal transformer (width 128, 4 heads, 192 tokens), 4 units of 4 fragments.
- `ratio_default`: `TransitionsPlan()` as a user runs it (93 thousand parameters, 8,000 of a million transitions a
  step): a whole step in the vault (sample, trials, gradients, noise, Adam, average) over the same without privacy (a
  batch of as many rows, gradients, Adam, average).
- `peak_mib`: by how much a step of that denoiser raises the peak of the process's memory above what model and rows
  take, for 480 units of 8 and of 64 fragments under a cap of 64 MiB, each in a process of its own (Linux alone).

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
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tacit.data.trajectories import Trajectories
from tacit.methods.synthesis.diffusion import Denoiser as DiffusionDenoiser
from tacit.methods.synthesis.diffusion import Denoising, build_network
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import PART, TransitionsPlan
from tacit.methods.synthesis.training import TrainingState
from tacit.methods.synthesis.trajectories.models import FragmentLoss, fragment_model
from tacit.methods.synthesis.trajectories.plan import FRAGMENTS, TrajectoriesPlan
from tacit.privacy.gradients.accumulator import UNITS_PER_CHUNK, GradientSum
from tacit.privacy.gradients.bookkeeping import Loss
from tacit.privacy.gradients.clipped_sums import add_clipped, assign_gradient, clipped_sum, trainable_parameters
from tacit.privacy.gradients.layers import LearnedTable
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.noise.box_muller import box_muller_compiled
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.records import Reader
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds import maze
from tacit_worlds.maze import goal_episodes
from tacit_worlds.maze_layouts import LAYOUTS

Step = Callable[[], object]
MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "-1"}
CLIP, NOISE_MULTIPLIER = 1.0, 1.0
CAP_MIB, PEAK_UNITS, PEAK_FRAGMENTS = 64, 480, (8, 64)


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
        self.embedding, self.positions = nn.Embedding(vocabulary, width), LearnedTable(tokens, width)
        self.layers = nn.Sequential(*(TransformerLayer(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.norm(self.layers(self.positions(self.embedding(tokens)))))  # type: ignore[no-any-return]


def denoising_loss(model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
    """Squared error a row, [B]."""
    noised = rows["x"] + rows["level"][:, None] * rows["noise"]
    return (model(noised, rows["level"]) - rows["x"]).square().mean(1)


def token_loss(model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
    """Mean cross entropy of each unit's fragments: tokens [U, K, T + 1] -> [U]."""
    tokens = rows["tokens"].flatten(0, 1)
    logits = model(tokens[:, :-1])
    losses = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    return losses.view(len(rows["tokens"]), -1).mean(1)


def maze_fragments(units: int, fragments: int) -> tuple[Callable[[], nn.Module], Loss, dict[str, Tensor]]:
    """The default model of trajectories, its loss, and what a step reads and draws of so many simulated people."""
    plan = TrajectoriesPlan(fragments_per_unit=fragments)
    data = goal_episodes(LAYOUTS["ring"], units, seed=1)
    part = next(part for part in plan.parts() if part.name == FRAGMENTS)
    found = Reader(data, SecretNoise()).rows(np.arange(units), part.rows_per_unit, part.rows, part.horizon)
    encoder = Encoder.from_bounds(data.spec)
    objective = FragmentLoss.of(plan, fragment_model(plan, encoder).codec)
    rows = {name: torch.from_numpy(column) for name, column in found.items()}
    rows |= objective.draw(torch.Generator().manual_seed(2), units, fragments)
    return lambda: fragment_model(plan, encoder), objective.loss, rows


def peak_mib(fragments: int) -> float:
    """By how many MiB a step raises the peak of this process's memory (`VmHWM`) above what it holds before."""
    model, loss, rows = maze_fragments(PEAK_UNITS, fragments)
    net, few = model(), {name: tensor[:2, :2] for name, tensor in rows.items()}
    clipped_sum(net, loss, few, CLIP)
    Path("/proc/self/clear_refs").write_text("5")
    before = _memory_kib("VmRSS")
    clipped_sum(net, loss, rows, CLIP, memory_bytes=CAP_MIB << 20)
    return (_memory_kib("VmHWM") - before) / 1024


def _memory_kib(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])


def peaks() -> dict[str, object]:
    """`peak_mib` for both numbers of fragments, by child processes, and the second over the first."""
    own = {name: value for name, value in os.environ.items() if name not in MALLOC}
    own["MALLOC_MMAP_THRESHOLD_"] = str(1 << 16)  # what is freed goes back at once
    found = {}
    for fragments in PEAK_FRAGMENTS:
        command = [sys.executable, "-m", "benchmarks.dp_sgd", "--peak", str(fragments), "--default-malloc"]
        done = subprocess.run(command, env=own, capture_output=True, text=True, check=True)
        found[fragments] = float(done.stdout)
        print(f"peak, {fragments} fragments of {PEAK_UNITS} units: {found[fragments]:.1f} MiB", flush=True)
    few, many = (found[fragments] for fragments in PEAK_FRAGMENTS)
    return {"peak_mib": {str(count): round(peak, 1) for count, peak in found.items()}, "peak_ratio": many / few}


def steps(
    model: Callable[[], nn.Module], loss: Loss, rows: Mapping[str, Tensor], noise: SecretNoise
) -> dict[str, Step]:
    """The step without privacy and tacit's, each with its own model and optimizer."""
    units = len(next(iter(rows.values())))
    plain_model, model_ = model(), model()
    plain_adam, adam = fused_adam(plain_model), fused_adam(model_)

    def plain() -> None:
        plain_adam.zero_grad(set_to_none=True)
        loss(plain_model, rows).mean().backward()
        plain_adam.step()

    def tacit() -> None:
        total = GradientSum(trainable_parameters(model_))
        for start in range(0, units, UNITS_PER_CHUNK):
            total.start_chunk()
            piece = {name: column[start : start + UNITS_PER_CHUNK] for name, column in rows.items()}
            add_clipped(total, model_, loss, piece, CLIP)
        assign_gradient(model_, total.noisy_mean(NOISE_MULTIPLIER * CLIP, units, noise))
        adam.step()

    return {"plain": plain, "tacit": tacit}


def default_steps(folder: Path) -> dict[str, Step]:
    """A step of the default plan on maze transitions, without privacy and in the vault."""
    layout, population = LAYOUTS["umaze"], 1_000_000
    columns = maze.collect(layout, population, agents=1_000, seed=0)
    data = Trajectories.from_arrays(**columns, unit_ids=":transition", spec=maze.spec(layout), simulated=True)
    unit, encoder = Unit("transition", "add_or_remove", population), Encoder.from_bounds(data.spec)
    plan = TransitionsPlan().calibrate(unit=unit, epsilon=10.0, delta=1e-7)
    ledger = Ledger(folder / "ledger", unit, epsilon=10.0, delta=1e-7, composition=SUM)
    vault = Vault(data, ledger)
    run = vault.reserve(plan)
    objective = Denoising(encoder, plan.noise_multiplicity, plan.P_mean, plan.P_std)
    (plain_model, plain_state), (model, state) = (_default_model(plan, encoder) for _ in range(2))
    generator, units = torch.Generator().manual_seed(0), round(plan.sampling_rate * population)

    def plain() -> None:
        chosen = torch.randint(population, (units,), generator=generator).numpy()
        rows = {name: torch.from_numpy(column[chosen][:, None]) for name, column in columns.items()}
        rows |= {"mask": torch.ones(units, 1, dtype=torch.bool)} | objective.draw(generator, units, 1)
        plain_state.adam.zero_grad(set_to_none=True)
        objective.loss(plain_model, rows).mean().backward()
        plain_state.adam.step()
        plain_state.average.update(plain_model.network)

    def tacit() -> None:
        state.update(vault.noisy_gradient(run, PART, [model], objective)[0], learning_rate=1e-3)

    return {"plain": plain, "tacit": tacit}


def _default_model(plan: TransitionsPlan, encoder: Encoder) -> tuple[DiffusionDenoiser, TrainingState]:
    model = DiffusionDenoiser(encoder, build_network(plan, encoder.size))
    return model, TrainingState(model.network, plan)


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


def denoising_rows(units: int, d: int = 11) -> dict[str, Tensor]:
    """Invented rows."""
    return {"x": torch.randn(units, d), "level": torch.rand(units), "noise": torch.randn(units, d)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--without-opacus", action="store_true")
    parser.add_argument("--default-malloc", action="store_true")
    parser.add_argument("--peak", type=int, metavar="FRAGMENTS", help="print the peak of one step alone, and end")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.peak is not None:
        print(peak_mib(arguments.peak))
        return
    if platform.libc_ver()[0] == "glibc" and not arguments.default_malloc and not MALLOC.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.dp_sgd", *sys.argv[1:]], {**os.environ, **MALLOC})
    torch.manual_seed(0)
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
    odd, even = (
        steps(lambda d=d: Denoiser(d), denoising_loss, denoising_rows(128, d), noise)["tacit"] for d in (11, 16)
    )
    seconds = timing.cpu_seconds({"odd": odd, "even": even}, repeats=2 * arguments.repeats)
    figures["ratio_unaligned"] = timing.ratio(seconds, "odd", "even")
    if not arguments.without_opacus:
        warnings.filterwarnings("ignore", message="Full backward hook is firing")
        rows = denoising_rows(128)
        variants = steps(Denoiser, denoising_loss, rows, noise) | opacus_steps(rows)
        seconds = measure("MLP, B=128", variants, max(3, arguments.repeats // 3))
        figures["opacus_hooks_over_tacit"] = timing.ratio(seconds, "opacus_hooks", "tacit")
        figures["opacus_ghost_over_tacit"] = timing.ratio(seconds, "opacus_ghost", "tacit")
    tokens = {"tokens": torch.randint(256, (4, 4, 193))}
    for name, variants in (
        ("trajectory", steps(*maze_fragments(64, 16), noise)),
        ("few_fragments", steps(*maze_fragments(256, 4), noise)),
        ("tokens", steps(Transformer, token_loss, tokens, noise)),
    ):
        seconds = measure(name, variants, max(3, arguments.repeats // 2))
        figures[f"ratio_{name}"] = timing.ratio(seconds, "tacit", "plain")
    with tempfile.TemporaryDirectory() as folder:
        seconds = measure("default plan", default_steps(Path(folder)), arguments.repeats)
    figures["ratio_default"] = timing.ratio(seconds, "tacit", "plain")
    if Path("/proc/self/clear_refs").exists():
        figures |= peaks()
    compiled = box_muller_compiled is not None
    at_most = {
        "ratio_b128": 1.25 if compiled else 1.45,
        "ratio_b1024": 1.12 if compiled else 1.2,
        "ratio_unaligned": 1.02,
        "ratio_default": 1.35,
        "ratio_trajectory": 1.1,
        "ratio_tokens": 1.15,
        "peak_ratio": 1.3,
    }
    timing.report(
        {
            "benchmark": "dp_sgd",
            **figures,
            "at_most": at_most,
            "at_least": {"opacus_hooks_over_tacit": 8.0, "opacus_ghost_over_tacit": 1.7},
            "noise_path": "compiled" if compiled else "numpy",
            "instructions": torch.backends.cpu.get_cpu_capability(),
            "malloc": "default" if arguments.default_malloc else MALLOC,
            "parameters": sum(p.numel() for p in Denoiser().parameters()),
        },
        packages=("numpy", "torch", "cryptography", *(() if arguments.without_opacus else ("opacus",))),
    )


if __name__ == "__main__":
    main()
