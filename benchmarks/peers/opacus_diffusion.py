"""Opacus with a hand-written training loop against tacit's training of a diffusion model of transitions.

The same work: 200 noisy steps on 10,000 rows of the maze "ring", one row a unit, by the default plan of `synthesis`: a
Poisson draw of 80 expected rows, encoding, EDM's noise and loss, the gradient of each row, clip, Gaussian noise on all
93 thousand parameters, fused Adam, moving average. Network, encoder, draws, loss and average are tacit's own on both
sides. Opacus takes its noise from torch and accounts for nothing; tacit draws secret noise, reads rows from the
vault, accounts, and writes the ledger and the certificate.

- `opacus_hooks`: gradients of single rows by hooks, one flat clip (Opacus' default).
- `opacus_ghost`: ghost clipping, its fastest mode for linear layers: norms without the gradients, two backward passes.
"""

from __future__ import annotations

from benchmarks.peers.works import Side, Work, fresh_ledger  # isort: skip  (first: it limits the threads)

import dataclasses
import itertools
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tacit import synthesis
from tacit.data.trajectories import Trajectories
from tacit.methods.synthesis.diffusion import Denoiser, Denoising, build_network
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import TransitionsPlan
from tacit.methods.synthesis.training import MovingAverage
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds import maze
from tacit_worlds.maze_layouts import LAYOUTS

ROWS = 10_000
SPEC = maze.spec(LAYOUTS["ring"])
UNIT = Unit("transition", "add_or_remove", ROWS)
PLAN = TransitionsPlan(steps=200, noise_multiplier=1.0)

Columns = dict[str, np.ndarray]
Update = Callable[[Tensor], object]
"""What a step does with the losses of its rows [U]."""


def columns() -> Columns:
    """Rows of a maze."""
    return dict(maze.collect(LAYOUTS["ring"], ROWS, seed=900))


def tacit_side(rows: Columns) -> Side:
    """Training inside one vault; every call has another clip, since no plan runs twice."""
    named = {name: column for name, column in rows.items() if name not in ("unit_ids", "episode_ids")}
    data = Trajectories.from_arrays(**named, unit_ids=":transition", spec=SPEC, simulated=True)
    vault = Vault(data, fresh_ledger(UNIT, epsilon=500.0, delta=9e-5))
    priced, calls = PLAN.account(unit=UNIT, delta=1e-6), itertools.count(1)

    def train() -> object:
        return synthesis.fit(dataclasses.replace(priced, clip_norm=1.0 - 1e-6 * next(calls)), vault)

    return train


def hooks(network: nn.Module) -> tuple[nn.Module, Update]:
    """Gradients of single rows."""
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    wrapped = GradSampleModule(network, loss_reduction="sum")
    adam = DPOptimizer(_adam(wrapped), **_settings())

    def update(losses: Tensor) -> None:
        adam.zero_grad(set_to_none=True)
        losses.sum().backward()
        adam.step()

    return wrapped, _at_rates(adam, update)


def ghost(network: nn.Module) -> tuple[nn.Module, Update]:
    """Norms of gradients of single rows, and a second backward pass for their clipped sum."""
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping

    wrapped = GradSampleModuleFastGradientClipping(network, max_grad_norm=PLAN.clip_norm, loss_reduction="sum")
    adam = DPOptimizerFastGradientClipping(_adam(wrapped), **_settings())

    def update(losses: Tensor) -> None:
        adam.zero_grad(set_to_none=True)
        DPTensorFastGradientClipping(wrapped, adam, losses, loss_reduction="sum").backward()
        adam.step()

    return wrapped, _at_rates(adam, update)


def _adam(module: nn.Module) -> torch.optim.Adam:
    return torch.optim.Adam(module.parameters(), lr=PLAN.learning_rate, betas=PLAN.betas, fused=True)


def _settings() -> dict[str, Any]:
    return {
        "noise_multiplier": PLAN.noise_multiplier,
        "max_grad_norm": PLAN.clip_norm,
        "expected_batch_size": round(PLAN.sampling_rate * ROWS),
        "loss_reduction": "sum",
    }


def _at_rates(adam: Any, update: Update) -> Update:
    """The update with the plan's learning rate of its step."""
    steps = itertools.count()

    def scheduled(losses: Tensor) -> None:
        adam.param_groups[0]["lr"] = PLAN.learning_rate_at(next(steps))
        update(losses)

    return scheduled


def opacus_side(rows: Columns, method: Callable[[nn.Module], tuple[nn.Module, Update]]) -> Side:
    """The hand-written loop."""
    encoder = Encoder.from_bounds(SPEC)
    objective = Denoising(encoder, PLAN.noise_multiplicity, PLAN.P_mean, PLAN.P_std)
    table = {name: torch.from_numpy(column)[:, None] for name, column in rows.items()}
    table["mask"] = torch.ones(ROWS, 1, dtype=torch.bool)

    def train() -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(0)
        network, update = method(build_network(PLAN, encoder.size))
        model, average = Denoiser(encoder, network), MovingAverage(network, decay=PLAN.ema)
        for _ in range(PLAN.steps):
            joined = (torch.rand(ROWS, generator=generator) < PLAN.sampling_rate).nonzero()[:, 0]
            batch = {name: column[joined] for name, column in table.items()}
            update(objective.loss(model, batch | objective.draw(generator, len(joined), 1)))
            average.update(network)
        return average.state()

    return train


def sides(method: Callable[[nn.Module], tuple[nn.Module, Update]]) -> tuple[Side, Side]:
    """Training on the same rows."""
    import opacus  # noqa: F401  (missing: said before anything is made)

    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    rows = columns()
    return opacus_side(rows, method), tacit_side(rows)


WORKS = tuple(
    Work(
        f"opacus_{method.__name__}",
        f"Opacus, {method.__name__}",
        "opacus",
        "pip install opacus",
        "diffusion model of rows, 200 noisy steps",
        partial(sides, method),
        3,
    )
    for method in (hooks, ghost)
)
