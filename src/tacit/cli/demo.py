"""`tacit demo`: the whole library on simulated private data, measured against the truth and against controls."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from tacit.agents.iql import IqlConfig, train_tables
from tacit.cli import demo_evidence, outcome, runs
from tacit.cli.console import progress, say
from tacit.cli.data import simulate
from tacit.cli.folders import RunFolder, require_free
from tacit.cli.synthesis_commands import Demo
from tacit.cli.synthesis_plans import PRIVORL
from tacit.data.trajectories import Trajectories
from tacit.envs.maze import LAYOUTS, spec
from tacit.evaluation.report import Cost, tables
from tacit.evaluation.report.charts import Kind
from tacit.methods.synthesis import Plan, Raking, Synthesizer, fit
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit


@dataclasses.dataclass(frozen=True)
class Size:
    """How large a demo is.

    Args:
        population: private transitions, and their public population.
        rows: synthetic rows.
        plan: before calibration, without histograms.
        pool: rows that histograms weight; None for the default of `Raking`.
        seeds: agents for each table.
        agents: how they are trained.
        episodes: of their evaluation.
        pictured: rows of each table in the t-SNE picture.
        canaries: planted records of an audit.
        attacked: rows that were learned from, and others, that an attack tells apart.
        bins: of a column, in other synthesizers; None for their own.
    """

    population: int
    rows: int
    plan: Plan
    pool: int | None
    seeds: int
    agents: IqlConfig
    episodes: int
    pictured: int
    canaries: int
    attacked: int
    bins: int | None


LAYOUT, DELTA = "umaze", 1e-7
FULL = Size(
    1_000_000,
    100_000,
    Plan(steps=800),
    None,
    3,
    IqlConfig(steps=6_000, batch=128),
    episodes=300,
    pictured=500,
    canaries=500,
    attacked=1_000,
    bins=None,
)
QUICK = Size(
    20_000,
    2_000,
    Plan(steps=10, rate=0.02, width=16, depth=1, warmup=1),
    4_000,
    2,
    IqlConfig(steps=10, width=8),
    episodes=5,
    pictured=60,
    canaries=40,
    attacked=100,
    bins=4,
)


def demo(command: Demo) -> None:
    """Simulate, promise, train, sample, measure, report.

    Raises:
        TacitError: see the exit codes of `tacit.cli.app.main`.
    """
    watch, size = outcome.Stopwatch(), QUICK if command.quick else FULL
    settings = {k: v for k, v in dataclasses.asdict(command).items() if k not in ("resume", "out")}
    unit = Unit("transition", "add_or_remove", size.population)
    torch.set_num_threads(1)  # networks this small lose more to the hand-over between threads than they gain
    require_free(command.out, resume=command.resume)
    with progress("Calibrating the noise"):
        plan = _raked(size).calibrate(unit=unit, epsilon=command.epsilon, delta=DELTA)
    say(str(plan))
    run = RunFolder.begin(command.out, "demo", settings, resume=command.resume)
    if run.read()["finished"]:
        say("The run was finished already.")
    else:
        with progress(f"Simulating {size.population:,} transitions of the {LAYOUT} maze"):
            data = simulate(LAYOUT, size.population, seed=command.seed)
        release = _release(run, plan, data, watch, resume=command.resume)
        sections = _sections(command, run, release, data, size, watch)
        costs = (runs.size_of(release), *watch.costs())
        outcome.finish(run, runs.report(release, f"{LAYOUT} maze, synthetic", {**sections, "costs": costs}))
    runs.closing(run)


def _raked(size: Size) -> Plan:
    """The plan, and noisy histograms by which its rows are weighted."""
    raking = Raking.plane(spec(LAYOUTS[LAYOUT]), population=size.population)
    return dataclasses.replace(size.plan, raking=dataclasses.replace(raking, pool=size.pool or raking.pool))


def _release(
    run: RunFolder, plan: Plan, data: Trajectories, watch: outcome.Stopwatch, *, resume: bool
) -> Release[Synthesizer]:
    if runs.trained(run):
        return runs.load(run)
    ledger = Ledger(run.inside("ledger"), plan.unit, epsilon=plan.epsilon, delta=plan.delta)
    with ledger, watch.phase("Training with privacy"):
        return runs.train(run, fit, plan, Vault(data, ledger), pretrained=None, resume=resume)


def _sections(
    command: Demo,
    run: RunFolder,
    release: Release[Synthesizer],
    data: Trajectories,
    size: Size,
    watch: outcome.Stopwatch,
) -> dict[str, Any]:
    """Everything that the report shows besides the promise; real rows too, since they are simulated."""
    layout, real, seed = LAYOUTS[LAYOUT], data.columns, command.seed
    with watch.phase("Sampling"):
        synthetic = runs.publish(run, release, size.rows, seed=seed).columns
    rivals, costs = demo_evidence.compared(
        command.compare, release.value.plan, data, size.rows, bins=size.bins, seed=seed
    )
    controls = tables.ignorant(data.spec, real, size.rows, seed)
    fresh = simulate(LAYOUT, size.population, seed=seed + 1).columns
    with progress("Comparing columns, dynamics and single rows"):
        sections = tables.sections(data.spec, synthetic, real, rivals=rivals, seed=seed, names=tables.MAZE_COLUMNS)
        sections["scores"] += tables.physics(layout, synthetic, controls, rivals)
        sections["embedding"] = tables.picture(real, synthetic, seed=seed, rows=size.pictured)
        sections["nearest"] = tables.nearest(synthetic, real, fresh, seed=seed)
    shown: list[tuple[str, Kind, tables.Table]] = [
        ("Protected rows", "reference", real),
        ("Synthetic rows", "synthetic", synthetic),
    ]
    sections["map"] = tables.maze_map(layout, shown, seed=seed)
    sections |= _agents(shown, [*rivals, *controls], size, seed)
    if command.audit:
        sections["attacks"] = demo_evidence.attacks(release.value, real, fresh, rows=size.attacked, seed=seed)
        sections["audits"] = demo_evidence.audits(release.value.plan, data, fresh, canaries=size.canaries, seed=seed)
    memory = None if costs else watch.memory()  # of a process that trained several, nobody knows which took it
    sections["synthesizers"] = (Cost(PRIVORL, "synthetic", tuple(watch.phases.items()), memory), *costs)
    return sections


def _agents(shown: list[tuple[str, Kind, tables.Table]], others: tables.Named, size: Size, seed: int) -> dict[str, Any]:
    """What agents learn from each table, and how they get there."""
    layout, seeds, stages = LAYOUTS[LAYOUT], range(seed, seed + size.seeds), {}
    every = [*shown, *((label, "control", table) for label, table in others)]
    for steps in sorted({max(1, size.agents.steps // 4), max(1, size.agents.steps // 2), size.agents.steps}):
        taught = every if steps == size.agents.steps else shown  # others are trained in full only
        config = dataclasses.replace(size.agents, steps=steps)
        with progress(f"Training {len(taught) * size.seeds} agents for {steps:,} steps") as advance:
            policies = train_tables([table for _, _, table in taught], config, seeds=seeds, progress=advance)
        stages[steps] = [(label, kind, policy) for (label, kind, _), policy in zip(taught, policies, strict=True)]
    with progress("Evaluating the agents in the maze"):
        returns = tables.returns(layout, stages[size.agents.steps], seed=seed, episodes=size.episodes)
        told = {steps: agents[: len(shown)] for steps, agents in stages.items()}
        return {"returns": returns, "curves": tables.curves(layout, told, seed=seed, episodes=size.episodes)}
