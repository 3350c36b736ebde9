"""What matching noisy tables does on public layouts, and which tables.

Three public mazes play the private data, one after the other. The model is the default plan's, fitted with the noise
that a plan with matching has; its rows are then weighted by the noisy histograms of one choice of tables a cell
("none": not at all), and measured: Marginal, Correlation, the share that a classifier tells from real rows, errors
against the simulator, and how many equally weighted rows the weighted ones are worth, as a share. Cells "returns" train
two agents of `synthesis_agents` on real rows, plain and matched ones. The evaluation's mazes are not used.

As all rows are simulated and public, sums are noised here directly, from a seed, without a vault or a ledger: the law
of the result is that of `Vault.noisy_gradient` and `Vault.noisy_sum`.

Prints one line a cell and writes `experiments/results/tuning_matching.json`; goes on where it was interrupted. Rows of
the models are kept under runs/tune_matching/.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from experiments.lib.experiment import ROOT, Json, Store, command_line, describe, store_of
from experiments.privorl.parts.synthesis_agents import MAZE
from experiments.privorl.table3_fidelity import repeated
from experiments.privorl.tuning import tune_synthesis as tune
from tacit.evaluation.dynamics import dynamics
from tacit.evaluation.fidelity import fidelity
from tacit.evaluation.two_samples import two_sample_test
from tacit.methods.synthesis.diffusion import sample
from tacit.methods.synthesis.plan import TransitionsPlan
from tacit.methods.synthesis.table_matching import NoisyHistograms, TableMatching, effective_size, resample
from tacit_worlds import maze
from tacit_worlds.agents import offline
from tacit_worlds.maze_evaluation import evaluate
from tacit_worlds.maze_public import other_rows

HALLS = replace(tune.PUBLIC["halls"], reference=(33.1, 561.3))  # means of a thousand episodes each
LAYOUTS = {layout.name: layout for layout in (tune.PUBLIC["rooms"], tune.PUBLIC["comb"], HALLS)}
PUBLIC_ROWS = 100_000
EPSILONS, POOL, ROWS, SEED, AGENTS, EPISODES = (1.0, 10.0), 250_000, 100_000, 900, ("td3_bc", "iql"), 100
CHOICES: dict[str, dict[str, Any]] = {
    "plane": {},
    "of": {},
    "columns": {"joint": ()},
    "bins=16": {"bins": 16},
    "bins=64": {"bins": 64},
    "coarse=4": {"coarse": 4},
    "coarse=12": {"coarse": 12},
    "cells=6": {"cells": 6},
}
FOLDER = ROOT / "runs" / "tune_matching"
Columns = Mapping[str, np.ndarray]


def configuration(key: str) -> Json:
    layout, *rest = key.split("/")
    common = {
        "layout": describe(LAYOUTS[layout]),
        "plan": describe(bare_plan(layout)),
        "unit": describe(tune.UNIT),
        "delta": tune.DELTA,
        "public_rows": PUBLIC_ROWS,
        "pool": POOL,
        "rows": ROWS,
    }
    if rest == ["returns"]:
        agents = {agent: describe(MAZE[agent]) for agent in AGENTS}
        return {"returns": agents, "epsilons": list(EPSILONS), "episodes": EPISODES, **common}
    epsilon, choice = rest
    changed = None if choice == "none" else {"tables": choice, **describe(CHOICES[choice])}
    return {"epsilon": float(epsilon), "matching": changed, **common}


store = store_of(__file__, configuration, "each row's name holds its choice")


def matching(layout: str, choice: str) -> TableMatching:
    """One choice of tables, with bins by public rows."""
    settings = dict(CHOICES[choice])
    joint = settings.pop("joint", None)
    spec, public = maze.spec(LAYOUTS[layout]), other_rows(LAYOUTS[layout], PUBLIC_ROWS, seed=1_000)
    make = TableMatching.of if choice == "of" else TableMatching.plane
    found = make(spec, population=tune.POPULATION, public=public, provenance="other public mazes", **settings)
    return found if joint is None else replace(found, joint=joint)


def bare_plan(layout: str) -> TransitionsPlan:
    """Without matching, before calibration."""
    return replace(tune.DEFAULT, harmonics=4 if layout == "halls" else 2)


def plan_of(layout: str, choice: str, epsilon: float) -> TransitionsPlan:
    plan = replace(bare_plan(layout), matching=matching(layout, choice))
    return plan.calibrate(unit=tune.UNIT, epsilon=epsilon, delta=tune.DELTA)


def pool(layout: str, epsilon: float) -> Columns:
    """Rows of the model, before they are weighted."""
    path = FOLDER / f"{layout}_{epsilon:g}.npz"
    if not path.exists():
        plan = plan_of(layout, "plane", epsilon)
        assert plan.noise_multiplier is not None
        bare = replace(plan, matching=None, promise=None, noise_multiplier=None)
        start = tune.start(layout, bare, True, SEED)
        model = tune.fine_tune(start, bare, tune.private_rows(layout), plan.noise_multiplier, seed=SEED)
        drawn = sample(model, POOL, plan.sampler, torch.Generator().manual_seed(SEED))
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **{name: column.numpy() for name, column in drawn.items()})  # type: ignore[arg-type]
    with np.load(path, allow_pickle=False) as kept:
        return dict(kept)


def matched(layout: str, choice: str, epsilon: float) -> tuple[Columns, float]:
    """Rows drawn by their weights, and what share of them they are worth."""
    plan, rows = plan_of(layout, choice, epsilon), pool(layout, epsilon)
    tables, part, rng = plan.matching, plan.parts()[-1], np.random.default_rng(SEED)
    assert tables is not None
    assert part.noise_multiplier is not None
    shares = tables.public_shares(tune.private_rows(layout))
    exact = tables.clip_norm * np.concatenate(shares)  # every unit owns one row, and all of them are clipped alike
    deviation = part.noise_multiplier * part.clip_norm / part.divisor(tune.UNIT) / np.sqrt(part.steps)
    noisy = exact + rng.normal(0.0, deviation, exact.shape)
    weights = NoisyHistograms(tables, part, tune.UNIT, noisy, part.steps).weights(rows)
    chosen = resample(weights, ROWS, rng)
    return {name: column[chosen] for name, column in rows.items()}, effective_size(weights) / len(weights)


def table(layout: str, choice: str, epsilon: float) -> tuple[Columns, float]:
    if choice != "none":
        return matched(layout, choice, epsilon)
    return {name: column[:ROWS] for name, column in pool(layout, epsilon).items()}, 1.0


def measured(layout: str, choice: str, epsilon: float) -> dict[str, float]:
    rows, worth = table(layout, choice, epsilon)
    real, here = tune.private_rows(layout), LAYOUTS[layout]
    close = fidelity(real, rows)
    errors = dynamics(
        rows,
        step=lambda state, action: maze.step(state, action, here),
        reward=lambda state, action, following: maze.reward(here, state[:, :2]),
        in_wall=lambda position: maze.in_wall(here, position),
    )
    return {
        "marginal": close.marginal,
        "correlation": close.correlation,
        "told_apart": two_sample_test(real, rows, synthetic_groups=repeated(rows), seed=SEED).accuracy.value,
        "in_wall": errors.in_wall,
        "next_position": errors.next_position,
        "next_velocity": errors.next_velocity,
        "reward": errors.reward,
        "worth": worth,
    }


def returns(layout: str) -> dict[str, list[float]]:
    """Of both agents, two seeds each, from all starts."""
    kinds = {"real": tune.private_rows(layout)}
    for epsilon in EPSILONS:
        kinds |= {f"{choice}, {epsilon:g}": table(layout, choice, epsilon)[0] for choice in ("none", "plane")}
    found = {}
    for agent in AGENTS:
        policies = offline.train_tables(list(kinds.values()), MAZE[agent], seeds=[SEED, SEED + 1])
        for kind, policy in zip(kinds, policies, strict=True):
            values = evaluate(LAYOUTS[layout], policy, starts="all", seed=SEED, episodes=EPISODES)
            found[f"{agent}, {kind}"] = [round(float(value), 1) for value in values]
    return found


def rows() -> list[str]:
    tried = [(layout, epsilon, choice) for layout in LAYOUTS for epsilon in EPSILONS for choice in ("none", *CHOICES)]
    found = [f"{layout}/{epsilon:g}/{choice}" for layout, epsilon, choice in tried]
    return [*found, *(f"{layout}/returns" for layout in LAYOUTS)]


def run_row(key: str, results: Store) -> None:
    layout, *rest = key.split("/")
    values: dict[str, Any] = returns(layout) if rest == ["returns"] else measured(layout, rest[1], float(rest[0]))
    results.put(
        key, dataset=f"simulated maze {layout}, {tune.POPULATION} transitions, seed 1", seed=SEED, values=values
    )


if __name__ == "__main__":
    command_line(__file__)
