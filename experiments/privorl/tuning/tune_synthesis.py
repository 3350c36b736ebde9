"""The defaults of `synthesis.TransitionsPlan`, chosen on public layouts alone.

One public maze at a time plays the private data (a million transitions); others of its outer size are pre-trained on.
The evaluation's mazes (umaze, medium, large) are never used; "halls" is a maze of the outer size of large. The cell
"default" is `TransitionsPlan()` as it stands; "short" has 250 steps at half its rate, and the other cells change
"short" in one respect ("bent": rewards are encoded by the quantiles of the public ones, `Encoder.from_public`). As all
rows are
simulated and public, the gradients are clipped and noised here directly, from a seed, without a vault or a ledger: the
law of the result is that of `Vault.noisy_gradient`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from experiments.lib.experiment import Json, Store, command_line, describe, store_of
from tacit.evaluation.dynamics import dynamics
from tacit.evaluation.fidelity import fidelity
from tacit.methods.synthesis.diffusion import Denoiser, Denoising, sample
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.plan import Curiosity, Pretraining, Sampler, TransitionsPlan
from tacit.methods.synthesis.pretraining import PretrainedDenoiser, pretrain
from tacit.methods.synthesis.training import MovingAverage, load_parameters
from tacit.privacy.gradients.clipped_sums import assign_gradient, clipped_sum
from tacit.privacy.vault.plan import public_fields
from tacit.units import Unit
from tacit_worlds import maze
from tacit_worlds.maze_layouts import LAYOUTS, MazeLayout
from tacit_worlds.maze_public import other_rows

POPULATION = 1_000_000
UNIT = Unit("transition", "add_or_remove", POPULATION)
DELTA = 1e-7
PUBLIC_ROWS = 400_000
SAMPLES = 50_000
RESERVED = ("umaze", "medium", "large")
HALLS = (
    "############ #OOO#OOOOOO# #O#O#O##O#O# #O#OOO#OO#O# #O###O#O##O# #OOO#OOO#OO# ##O##O#O#O## #OOOOO#OOOO# "
    "############"
)
PUBLIC = {name: layout for name, layout in LAYOUTS.items() if name not in RESERVED} | {
    "halls": MazeLayout("halls", tuple(HALLS.split()), (7, 10), 800, (0.0, 100.0))  # no return is measured here
}
Columns = Mapping[str, np.ndarray]

PRETRAINING = Pretraining(provenance="simulated: random mazes of the same outer size")
DEFAULT = TransitionsPlan(pretraining=PRETRAINING)
SHORT = replace(DEFAULT, steps=250, sampling_rate=0.004)
CHANGES: dict[str, TransitionsPlan] = {
    "short": SHORT,
    "harmonics=0": replace(SHORT, harmonics=0),
    "harmonics=3": replace(SHORT, harmonics=3),
    "learning_rate=2.5e-3": replace(SHORT, learning_rate=2.5e-3),
    "learning_rate=1e-2": replace(SHORT, learning_rate=1e-2),
    "learning_rate=2e-2": replace(SHORT, learning_rate=2e-2),
    "rate=0.008": replace(SHORT, sampling_rate=0.008),
    "steps=500": replace(SHORT, steps=500),
    "noise_draws=2": replace(SHORT, noise_multiplicity=2),
    "pretraining=none": replace(SHORT, pretraining=None),
    "pretraining.steps=500": replace(SHORT, pretraining=replace(PRETRAINING, steps=500)),
    "curiosity=replace": replace(SHORT, pretraining=replace(PRETRAINING, curiosity=Curiosity(rate=0.3))),
    "curiosity=append_pool": replace(
        SHORT, pretraining=replace(PRETRAINING, curiosity=Curiosity(mode="append_pool", rate=0.3))
    ),
    "P_mean=-0.8": replace(SHORT, P_mean=-0.8),
    "P_mean=-1.6": replace(SHORT, P_mean=-1.6),
    "width=256": replace(SHORT, width=256),
    "depth=6": replace(SHORT, depth=6),
}
SAMPLERS: dict[str, Sampler] = {
    "sampler=default": DEFAULT.sampler,
    "sampler.sigma_max=3": Sampler(sigma_max=3.0),
    "sampler.sigma_max=10": Sampler(sigma_max=10.0),
    "sampler.sigma_max=80": Sampler(sigma_max=80.0, sigma_min=0.002),
    "sampler.sigma_min=0.005": Sampler(sigma_min=0.005),
    "sampler.steps=20": Sampler(steps=20),
    "sampler.eta=0": Sampler(eta=0.0),
    "sampler.steps=64": Sampler(steps=64),
    "sampler=heun20": Sampler(method="heun", steps=20),
    "sampler=sde32": Sampler(method="heun", steps=32, churn=10.0),
    "sampler=paper": Sampler.paper(),
}


@dataclass(frozen=True)
class Cell:
    """One measurement: a plan, and the sampler if it is not the plan's."""

    layout: str
    name: str
    plan: TransitionsPlan
    epsilon: float
    bent: bool = False
    seed: int = 0

    @property
    def key(self) -> str:
        """Name of the cell in the result file."""
        return f"{self.layout}/eps={self.epsilon:g}/{self.name}/seed={self.seed}"


def cells() -> Iterator[Cell]:
    """What is measured, the most telling first."""
    for epsilon in (10.0, 1.0):
        for layout in ("ring", "rooms"):
            yield Cell(layout, "default", DEFAULT, epsilon)
    for name, plan in CHANGES.items():
        yield Cell("rooms", name, plan, 10.0)
    for name in (
        "short",
        "learning_rate=2.5e-3",
        "learning_rate=1e-2",
        "rate=0.008",
        "noise_draws=2",
        "pretraining=none",
    ):
        yield Cell("ring", name, CHANGES[name], 1.0)
    yield Cell("halls", "short", SHORT, 10.0)
    for name, plan in (("short", SHORT), ("default", DEFAULT)):
        for harmonics in (2, 4):
            changed = replace(plan, harmonics=harmonics)
            yield Cell("halls", f"{name}, harmonics={harmonics}, bent", changed, 10.0, bent=True)
    for layout in ("tee", "comb"):
        for epsilon in (10.0, 1.0):
            yield Cell(layout, "default", DEFAULT, epsilon)


def configuration(key: str) -> Json:
    found = {cell.key: (cell, cell.plan.sampler, "fitted") for cell in cells()}
    for cell, sampler, _ in list(found.values()):
        if cell.name == "default":
            found |= {cell.key.replace("default", name): (cell, one, "fitted") for name, one in SAMPLERS.items()}
            found[cell.key.replace("default", "pretraining only")] = (cell, sampler, "pre-trained")
    cell, sampler, model = found[key]
    return {
        "layout": describe(PUBLIC[cell.layout]),
        "plan": describe(cell.plan),
        "sampler": describe(sampler),
        "model": model,
        "epsilon": cell.epsilon,
        "bent": cell.bent,
        "unit": describe(UNIT),
        "delta": DELTA,
        "public_rows": PUBLIC_ROWS,
        "samples": SAMPLES,
    }


store = store_of(__file__, configuration, "each row holds its plan")


def rows() -> list[str]:
    return [cell.key for cell in cells()]


@lru_cache(maxsize=1)
def private_rows(layout: str) -> Columns:
    """The million rows that play the private data."""
    rows = maze.collect(PUBLIC[layout], POPULATION, seed=1)
    return {name: rows[name] for name in ("observations", "actions", "rewards", "next_observations", "terminations")}


@lru_cache(maxsize=2)
def start(layout: str, plan: TransitionsPlan, bent: bool, seed: int) -> PretrainedDenoiser:
    """The pre-trained (or random) starting point of a plan."""
    spec = maze.spec(PUBLIC[layout])
    columns = None if plan.pretraining is None else other_rows(PUBLIC[layout], PUBLIC_ROWS, seed=1_000 + seed)
    encoder = Encoder.from_public(spec, columns) if bent and columns is not None else Encoder.from_bounds(spec)
    return pretrain(plan, encoder, columns, seed=seed)


@lru_cache(maxsize=64)
def noise_multiplier(steps: int, rate: float, epsilon: float) -> float:
    """Smallest noise multiplier that keeps (epsilon, DELTA) a transition."""
    sigma = (
        TransitionsPlan(steps=steps, sampling_rate=rate, warmup=0)
        .calibrate(unit=UNIT, epsilon=epsilon, delta=DELTA)
        .noise_multiplier
    )
    assert sigma is not None
    return sigma


def fine_tune(
    pretrained: PretrainedDenoiser, plan: TransitionsPlan, rows: Columns, sigma: float, seed: int
) -> Denoiser:
    """Steps 3 to 7 of the algorithm, with the noise of a seeded generator: for public rows only."""
    model = pretrained.model(plan)
    objective = Denoising(model.encoder, plan.noise_multiplicity, plan.P_mean, plan.P_std)
    generator, rng = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    adam = torch.optim.Adam(model.network.parameters(), lr=plan.learning_rate, betas=plan.betas, fused=True)
    average = MovingAverage(model.network, decay=plan.ema, every=plan.ema_every)
    for step in range(plan.steps):
        chosen = np.flatnonzero(rng.random(POPULATION, dtype=np.float32) < plan.sampling_rate)
        batch = {name: torch.from_numpy(column[chosen][:, None]) for name, column in rows.items()}
        batch["mask"] = torch.ones(len(chosen), 1, dtype=torch.bool)
        batch |= objective.draw(generator, len(chosen), 1)
        total = clipped_sum(model, objective.loss, batch, plan.clip_norm)
        noise = sigma * plan.clip_norm * torch.randn(total.shape, generator=generator)
        assign_gradient(model.network, (total + noise) / (plan.sampling_rate * POPULATION))
        adam.param_groups[0]["lr"] = plan.learning_rate_at(step)
        adam.step()
        average.update(model.network)
    load_parameters(model.network, average.state())
    return model


def measure(model: Denoiser, sampler: Sampler, layout: MazeLayout, real: Columns) -> dict[str, float]:
    """Fidelity against all private rows, and dynamics errors."""
    began = time.process_time()
    drawn = sample(model, SAMPLES, sampler, torch.Generator().manual_seed(0))
    spent = time.process_time() - began
    columns = {name: column.numpy() for name, column in drawn.items()}
    closeness = fidelity(real, columns)
    errors = dynamics(
        columns,
        step=lambda state, action: maze.step(state, action, layout),
        reward=lambda state, action, following: maze.reward(layout, state[:, :2]),
        in_wall=lambda position: maze.in_wall(layout, position),
    )
    return {
        "marginal": closeness.marginal,
        "least_marginal": min(closeness.marginals),
        "correlation": closeness.correlation,
        "in_wall": errors.in_wall,
        "next_position": errors.next_position,
        "next_velocity": errors.next_velocity,
        "reward": errors.reward,
        "sample_cpu_s": spent,
    }


def run_row(key: str, results: Store) -> None:
    """Measure a cell (and, for the default plan on rooms at epsilon 10, the samplers) and keep it."""
    cell = next(one for one in cells() if one.key == key)
    real, layout, plan = private_rows(cell.layout), PUBLIC[cell.layout], cell.plan
    sigma = noise_multiplier(plan.steps, plan.sampling_rate, cell.epsilon)
    began = time.process_time()
    pretrained = start(cell.layout, _as_pretrained(plan), cell.bent, cell.seed)
    pretrain_s = time.process_time() - began
    began = time.process_time()
    model = fine_tune(pretrained, plan, real, sigma, seed=cell.seed)
    train_s = time.process_time() - began
    common = {"noise_multiplier": sigma, "pretrain_cpu_s": pretrain_s, "train_cpu_s": train_s}
    _keep(results, cell.key, cell, measure(model, plan.sampler, layout, real) | common)
    if cell.name == "default" and cell.layout == "rooms" and cell.epsilon == 10:
        for name, sampler in SAMPLERS.items():
            _keep(results, cell.key.replace("default", name), cell, measure(model, sampler, layout, real))
        if plan.pretraining is not None:
            public = measure(pretrained.model(plan), plan.sampler, layout, real)
            _keep(results, cell.key.replace("default", "pretraining only"), cell, public)


def _as_pretrained(plan: TransitionsPlan) -> TransitionsPlan:
    """The plan with defaults in all that pre-training does not depend on, so that cells share starting points."""
    shared = ("width", "depth", "harmonics", "P_mean", "P_std", "sampler", "pretraining")
    return TransitionsPlan(**{name: getattr(plan, name) for name in shared})


def _keep(results: Store, key: str, cell: Cell, values: dict[str, Any]) -> None:
    dataset = f"simulated maze {cell.layout}, {POPULATION} transitions, seed 1"
    results.put(key, dataset=dataset, seed=cell.seed, values=values | {"plan": public_fields(cell.plan)})


if __name__ == "__main__":
    command_line(__file__)
