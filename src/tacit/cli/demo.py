"""`tacit demo`: the whole library on simulated private data, measured against the truth and against controls."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from tacit.cli import runs
from tacit.cli.commands import Demo
from tacit.cli.console import progress, say
from tacit.cli.data import simulate
from tacit.cli.folders import RunFolder, require_free
from tacit.data.trajectories import Trajectories
from tacit.envs.maze import LAYOUTS
from tacit.measure.report import tables
from tacit.methods.synthesis import Plan, Synthesizer
from tacit.privacy.ledger import Ledger
from tacit.privacy.release import Release
from tacit.privacy.vault import Vault
from tacit.units import Unit


@dataclasses.dataclass(frozen=True)
class Size:
    """How large a demo is.

    Args:
        population: private transitions, and their public population.
        rows: synthetic rows.
        plan: before calibration.
        seeds: agents for each table.
        agent_steps: training steps of an agent.
    """

    population: int
    rows: int
    plan: Plan
    seeds: int
    agent_steps: int


LAYOUT, DELTA = "umaze", 1e-7
FULL = Size(1_000_000, 100_000, Plan(), seeds=3, agent_steps=5_000)
QUICK = Size(20_000, 2_000, Plan(steps=10, rate=0.02, width=16, depth=1, warmup=1), seeds=2, agent_steps=10)


def demo(command: Demo) -> None:
    """Simulate, promise, train, sample, measure, report.

    Raises:
        TacitError: see the exit codes of `tacit.cli.app.main`.
    """
    watch, size = runs.Stopwatch(), QUICK if command.quick else FULL
    settings = {"epsilon": command.epsilon, "seed": command.seed, "quick": command.quick}
    unit = Unit("transition", "add_or_remove", size.population)
    torch.set_num_threads(1)  # networks this small lose more to the hand-over between threads than they gain
    require_free(command.out, resume=command.resume)
    with progress("Calibrating the noise"):
        plan = size.plan.calibrate(unit=unit, epsilon=command.epsilon, delta=DELTA)
    say(str(plan))
    run = RunFolder.begin(command.out, "demo", settings, resume=command.resume)
    if run.read()["finished"]:
        say("The run was finished already.")
    else:
        with progress(f"Simulating {size.population:,} transitions of the {LAYOUT} maze"):
            data = simulate(LAYOUT, size.population, seed=command.seed)
        release = _release(run, plan, data, resume=command.resume)
        sections = _sections(run, release, data, size, command.seed)
        costs = (runs.size_of(release), *watch.costs())
        runs.finish(run, runs.report(release, f"{LAYOUT} maze, synthetic", {**sections, "costs": costs}))
    runs.closing(run)


def _release(run: RunFolder, plan: Plan, data: Trajectories, *, resume: bool) -> Release[Synthesizer]:
    if runs.trained(run):
        return runs.load(run)
    with Ledger(run.inside("ledger"), plan.unit, epsilon=plan.epsilon, delta=plan.delta) as ledger:
        return runs.train(run, plan, Vault(data, ledger), pretrained=None, resume=resume)


def _sections(
    run: RunFolder, release: Release[Synthesizer], data: Trajectories, size: Size, seed: int
) -> dict[str, Any]:
    """Everything that the report shows besides the promise; real rows too, since they are simulated."""
    layout, real = LAYOUTS[LAYOUT], data.columns
    synthetic = runs.publish(run, release, size.rows, seed=seed)
    controls = tables.controls(data.spec, real, size.rows, seed)
    with progress("Comparing columns and dynamics"):
        sections = tables.sections(data.spec, synthetic, real, seed=seed, names=tables.MAZE_COLUMNS)
        sections["scores"] += tables.physics(layout, synthetic, controls)
        sections["map"] = tables.maze_map(
            layout, (("Protected rows", "reference", real), ("Synthetic rows", "synthetic", synthetic)), seed=seed
        )
    return sections
