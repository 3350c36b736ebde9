"""The settings of the offline agents, chosen on public layouts alone: `python -m experiments.tune_agents`.

One public maze at a time plays the private data. Every cell trains one agent on a million real rows and on rows of a
synthesizer at epsilon 10 (the plan "short" of `experiments.tune_synthesis`, so that the table is rougher than those of
the evaluation), stacked, and holds the normalised returns of the policies after the last step and the CPU seconds a
member. The cell "default" is what the experiments use; the others change it in one respect. The evaluation's mazes and
seeds are never used.

Prints one line a cell and writes `experiments/results/tuning_agents.json`; goes on where it was interrupted. Synthetic
tables are kept under runs/tune_agents/.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch

from experiments import tune_synthesis
from experiments.store import RESULTS, ROOT, Store
from tacit.agents import edac, iql, td3_bc
from tacit.measure.utility import evaluate
from tacit.methods.synthesis.diffusion import sample

SEED, START_SEED, EPSILON, ROWS, EPISODES = 900, 950, 10.0, 200_000, 100
SOURCES = (
    "src/tacit/agents/iql.py",
    "src/tacit/agents/td3_bc.py",
    "src/tacit/agents/edac.py",
    "src/tacit/agents/offline.py",
    "src/tacit/envs/maze*.py",
    "src/tacit/measure/utility.py",
    "experiments/tune_agents.py",
)
TABLES = ROOT / "runs" / "tune_agents"

AGENTS: dict[str, tuple[Any, Any]] = {
    "iql": (iql.train_tables, iql.IqlConfig(steps=6_000, batch=128, width=64)),
    "td3_bc": (td3_bc.train_tables, td3_bc.Td3BcConfig()),
    "edac": (edac.train_tables, edac.EdacConfig()),
}
CHANGES: dict[str, tuple[dict[str, Any], ...]] = {
    "iql": ({}, {"width": 128}, {"steps": 3_000}),
    "td3_bc": ({}, {"alpha": 5.0}, {"alpha": 40.0}, {"target_rate": 0.03}, {"layer_norm": False}),
    "edac": ({}, {"diversity": 1.0}, {"diversity": 0.0}, {"critics": 10}),
}


def cells(quick: bool) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(layout, agent, change of its settings)."""
    if quick:
        yield from (("ring", agent, {"steps": 100}) for agent in AGENTS)
        return
    for agent, changes in CHANGES.items():
        yield from (("ring", agent, change) for change in changes)
    yield from (("rooms", agent, {}) for agent in AGENTS)


def synthetic(layout: str, quick: bool) -> Mapping[str, np.ndarray]:
    """Rows of a synthesizer that was fitted to the public maze."""
    path = TABLES / f"{layout}{'_quick' if quick else ''}.npz"
    if not path.exists():
        plan = tune_synthesis.SHORT
        if quick:
            plan = replace(plan, steps=30, pretraining=replace(tune_synthesis.PRETRAINING, steps=60))
        start = tune_synthesis.start(layout, plan, True, SEED)
        sigma = tune_synthesis.noise_multiplier(plan.steps, plan.rate, EPSILON)
        model = tune_synthesis.fine_tune(start, plan, tune_synthesis.private_rows(layout), sigma, seed=SEED)
        drawn = sample(model, ROWS // (20 if quick else 1), plan.sampler, torch.Generator().manual_seed(SEED))
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **{name: column.numpy() for name, column in drawn.items()})  # type: ignore[arg-type]
    with np.load(path, allow_pickle=False) as kept:
        return dict(kept)


def run(layout: str, agent: str, change: dict[str, Any], quick: bool) -> dict[str, Any]:
    """Returns on both tables, seconds, and the settings."""
    train, defaults = AGENTS[agent]
    config = replace(defaults, **change)
    tables = [tune_synthesis.private_rows(layout), synthetic(layout, quick)]
    began = time.process_time()
    policies = train(tables, config, seeds=[SEED])
    spent = (time.process_time() - began) / len(tables)
    real, own = (
        float(evaluate(tune_synthesis.PUBLIC[layout], policy, starts="all", seed=START_SEED, episodes=EPISODES)[0])
        for policy in policies
    )
    return {"real": real, "synthetic": own, "cpu_s": spent, "config": asdict(config)}


def main(arguments: list[str]) -> None:
    """Run what is missing or stale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 steps an agent, written to runs/quick/")
    parser.add_argument("--only", nargs="+", choices=AGENTS, default=list(AGENTS), help="agents")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    folder = ROOT / "runs" / "quick" if options.quick else RESULTS
    store = Store(folder / "tuning_agents.json", SOURCES, hyperparameters="each cell holds its settings")
    for layout, agent, change in cells(options.quick):
        name = ",".join(f"{key}={value:g}" for key, value in change.items()) or "default"
        key = f"{layout}/{agent}/{name}"
        if agent in options.only and not store.has(key):
            values = run(layout, agent, change, options.quick)
            dataset = f"simulated maze {layout}, {tune_synthesis.POPULATION} transitions, seed 1, and rows made of it"
            store.put(key, dataset=dataset, seed=SEED, values=values)
            print(f"{key}: " + " ".join(f"{k}={values[k]:.1f}" for k in ("real", "synthetic", "cpu_s")), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
