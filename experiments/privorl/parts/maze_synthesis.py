"""Synthetic maze transitions at epsilon 1 and 10, against the real rows and three controls.

    python -m experiments.privorl.parts.maze_synthesis  # 5 seeds a layout; about 1.5 CPU hours
    python -m experiments.privorl.parts.maze_synthesis --quick  # one seed, two minutes; under runs/quick/
    python -m experiments.privorl.parts.maze_synthesis --full  # the paper's network, steps and sampler
    python -m experiments.lib.check maze_synthesis              # recompute the promised figures from the raw rows

Private data: a million transitions of the waypoint controller in D4RL's umaze and medium mazes (simulated, so this
table may show everything). Unit: one transition; delta 1e-7. Tables that an IQL agent is trained on, with the same
settings and seed:

    real           the private rows
    epsilon_10     rows sampled from the synthesizer at epsilon 10
    epsilon_1      the same at epsilon 1
    pretraining    rows from the public starting point, without any private row
    independent    the real columns, each permuted by itself (no privacy at all): marginals without structure
    noise_only     the plan at epsilon 1 run on a vault that holds a single row: what remains of noise alone

Hyper-parameters come from the public mazes of `tune_synthesis` and `tacit_worlds.agents.iql`'s own choice
of public layouts; umaze and medium drove none of them. Runs go on where they were interrupted.
"""

from __future__ import annotations

import argparse
import functools
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.lib.check import Figure
from experiments.lib.configuration import Json, describe
from experiments.lib.store import RESULTS, ROOT, Store
from tacit.data.trajectories import Trajectories
from tacit.evaluation.dynamics import dynamics
from tacit.evaluation.fidelity import ceiling, fidelity, independent_columns
from tacit.evaluation.statistics import t_interval
from tacit.methods import synthesis
from tacit.privacy.ledger.ledger import SUM, Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds import maze
from tacit_worlds.agents import iql
from tacit_worlds.maze_evaluation import evaluate
from tacit_worlds.maze_layouts import LAYOUTS, MazeLayout
from tacit_worlds.maze_public import other_rows

POPULATION, DELTA = 1_000_000, 1e-7
UNIT = Unit("transition", "add_or_remove", POPULATION)
PRIVATE_LAYOUTS, SEEDS, EPSILONS = ("umaze", "medium"), (0, 1, 2, 3, 4), (10.0, 1.0)
CONTROLS = ("pretraining", "independent", "noise_only")
TABLES = ("real", "epsilon_10", "epsilon_1", *CONTROLS)
FEWEST_SEEDS = 3
FIELDS = ("observations", "actions", "rewards", "next_observations", "terminations")
PUBLIC_ROWS, SYNTHETIC_ROWS = 400_000, 200_000
PROVENANCE = "simulated: random mazes of the same outer size, with walls and goals of their own"
Columns = Mapping[str, np.ndarray]


def configuration(key: str, scale: str = "default") -> Json:
    """Everything that decides a row, but its seed."""
    layout, table, _ = key.split("/")
    plan = None if table in ("real", "independent") else describe(plan_for(scale))
    epsilon = {"epsilon_10": 10.0, "epsilon_1": 1.0, "noise_only": 1.0}.get(table)
    return {
        "layout": layout,
        "table": table,
        "plan": plan,
        "epsilon": epsilon,
        "unit": None if epsilon is None else describe(UNIT),
        "delta": DELTA,
        "population": POPULATION,
        "public_rows": PUBLIC_ROWS,
        "synthetic_rows": sampled_rows(scale),
        "agent": describe(agent_for(scale)),
    }


def store(path: Path = RESULTS / "maze_synthesis.json", scale: str = "default") -> Store:
    """The result file."""
    words = "experiments/results/tuning_synthesis.json (public mazes only)"
    return Store(path, functools.partial(configuration, scale=scale), hyperparameters=words)


def rows() -> list[str]:
    """Keys of all rows."""
    return [f"{layout}/{table}/seed={seed}" for seed in SEEDS for layout in PRIVATE_LAYOUTS for table in TABLES]


def run_row(key: str, results: Store) -> None:
    """Make a row, and with it those of the other tables of its layout and seed."""
    layout, _, seed = key.split("/")
    run(layout, int(seed.removeprefix("seed=")), "default", results)


def agent_for(scale: str) -> iql.IqlConfig:
    """The agent that learns from every table."""
    return iql.IqlConfig(steps=200) if scale == "quick" else iql.IqlConfig()


def sampled_rows(scale: str) -> int:
    """Rows of a synthetic table."""
    return SYNTHETIC_ROWS // (10 if scale == "quick" else 1)


def plan_for(scale: str) -> synthesis.TransitionsPlan:
    """The defaults; `quick` is short; `full` is the paper's network, steps and sampler, pre-trained on our rows."""
    pretraining = synthesis.Pretraining(provenance=PROVENANCE)
    if scale == "quick":
        return synthesis.TransitionsPlan(steps=60, pretraining=synthesis.Pretraining(provenance=PROVENANCE, steps=100))
    if scale == "full":
        return synthesis.TransitionsPlan.paper(population=POPULATION, provenance=PROVENANCE, epoch=PUBLIC_ROWS)
    return synthesis.TransitionsPlan(pretraining=pretraining)


def synthesise(
    plan: synthesis.TransitionsPlan, epsilon: float, rows: Columns, layout: MazeLayout, start: Any
) -> synthesis.Synthesizer:
    """Fit one synthesizer through the real doors, with a ledger of its own."""
    calibrated = plan.calibrate(unit=UNIT, epsilon=epsilon, delta=DELTA)
    data = Trajectories.from_arrays(
        **{name: rows[name] for name in FIELDS},  # type: ignore[arg-type]
        unit_ids=":transition",
        spec=maze.spec(layout),
        simulated=True,
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger(Path(folder) / "maze.ledger", UNIT, epsilon=epsilon, delta=DELTA, composition=SUM) as ledger,
    ):
        return synthesis.fit(calibrated, Vault(data, ledger), pretrained=start).value


def measure(table: Columns, real: Columns, layout: MazeLayout) -> dict[str, float]:
    """Fidelity against all real rows and errors against the simulator."""
    close = fidelity(real, table)
    errors = dynamics(
        table,
        step=lambda state, action: maze.step(state, action, layout),
        reward=lambda state, action, following: maze.reward(layout, state[:, :2]),
        in_wall=lambda position: maze.in_wall(layout, position),
    )
    return {
        "marginal": close.marginal,
        "correlation": close.correlation,
        "in_wall": errors.in_wall,
        "next_position": errors.next_position,
        "next_velocity": errors.next_velocity,
        "reward": errors.reward,
    }


def run(layout_name: str, seed: int, scale: str, results: Store) -> None:
    """All tables of one layout and seed: synthesise, measure, train one agent on each, evaluate."""
    layout, plan, began = LAYOUTS[layout_name], plan_for(scale), time.process_time()
    collected = maze.collect(layout, POPULATION, seed=seed)
    real = {name: collected[name] for name in FIELDS}
    encoder = synthesis.Encoder.from_bounds(maze.spec(layout))
    start = synthesis.pretrain(plan, encoder, other_rows(layout, PUBLIC_ROWS, seed=1_000 + seed), seed=seed)
    one_row = {name: column[:1] for name, column in real.items()}

    def drawn(value: synthesis.Synthesizer) -> Columns:
        columns = value.sample_columns(sampled_rows(scale), seed=seed)
        return {name: columns[name] for name in FIELDS}

    tables = {
        "real": real,
        "epsilon_10": drawn(synthesise(plan, 10.0, real, layout, start)),
        "epsilon_1": drawn(synthesise(plan, 1.0, real, layout, start)),
        "pretraining": drawn(synthesis.Synthesizer(plan, encoder, start.average)),
        "independent": independent_columns(real, seed=seed),
        "noise_only": drawn(synthesise(plan, 1.0, one_row, layout, start)),
    }
    policies = iql.train_tables(list(tables.values()), agent_for(scale), seeds=[seed])
    top = ceiling(real, seed=seed)
    for (name, table), policy in zip(tables.items(), policies, strict=True):
        values = measure(table, real, layout)
        if name == "real":
            values |= {"marginal": top.marginal, "correlation": top.correlation}
        for starts in ("all", "far"):
            values[f"return_{starts}"] = float(evaluate(layout, policy, starts=starts, seed=seed)[0])
        dataset = f"simulated {layout_name}, {POPULATION} transitions, seed {seed}; table {name}"
        results.put(f"{layout_name}/{name}/seed={seed}", dataset=dataset, seed=seed, values=values)
        shown = " ".join(f"{key}={value:.3f}" for key, value in values.items())
        print(f"{layout_name} seed {seed} {name}: {shown}", flush=True)
    print(f"{layout_name} seed {seed}: {time.process_time() - began:.0f} CPU s", flush=True)


def column(results: Store, layout: str, table: str, key: str) -> np.ndarray:
    """One value of every seed that was run, the same seeds for all tables of a layout; at least `FEWEST_SEEDS`."""
    done = [seed for seed in SEEDS if any(f"{layout}/{one}/seed={seed}" in results.rows for one in TABLES)]
    seeds = done if len(done) >= FEWEST_SEEDS else SEEDS
    return np.array([results.values(f"{layout}/{table}/seed={seed}")[key] for seed in seeds])


def figures() -> list[Figure]:
    """Every promised figure, recomputed from the raw rows."""
    results, out = store(), []
    for epsilon, marginal, correlation in ((10, 0.965, 0.99), (1, 0.95, 0.985)):
        table = f"epsilon_{epsilon}"
        for key, bound in (("marginal", marginal), ("correlation", correlation)):
            out.append(Figure(f"umaze {key}, epsilon {epsilon}", column(results, "umaze", table, key).mean(), bound))
    for key, bound in (("in_wall", 0.02), ("next_position", 0.03)):
        value = column(results, "umaze", "epsilon_10", key).mean()
        out.append(Figure(f"umaze {key}, epsilon 10", value, bound, at_least=False))
    for layout in PRIVATE_LAYOUTS:
        for starts in ("all", "far"):
            key = f"return_{starts}"
            real = column(results, layout, "real", key)
            for epsilon, share in ((10, 0.85), (1, 0.65)):
                own = column(results, layout, f"epsilon_{epsilon}", key)
                name = f"{layout} return, {starts} starts, epsilon {epsilon}"
                out.append(Figure(f"{name} / real ({real.mean():.1f})", own.mean() / real.mean(), share))
                for control in CONTROLS:
                    gap = own - column(results, layout, control, key)
                    out.append(Figure(f"{name} above {control}, 95 % from", t_interval(gap)[1], 0.0))
    return out


def main(arguments: list[str]) -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--layouts", nargs="+", default=PRIVATE_LAYOUTS, choices=PRIVATE_LAYOUTS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    scale = "quick" if options.quick else "full" if options.full else "default"
    path = RESULTS if scale == "default" else ROOT / "runs" / scale
    results = store(path / "maze_synthesis.json", scale)
    for seed in SEEDS[:1] if options.quick else SEEDS:
        for layout in options.layouts:
            if not all(results.has(f"{layout}/{table}/seed={seed}") for table in TABLES):
                run(layout, seed, scale, results)


if __name__ == "__main__":
    main(sys.argv[1:])
