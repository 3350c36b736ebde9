"""`tacit demo maze`: a synthesizer of simulated steps, measured against the truth and against controls."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch

from tacit.cli.console import ConsoleNarrator, progress, say
from tacit.cli.data import simulate
from tacit.cli.declarations import Baseline, DemoMaze
from tacit.data.spec import PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.envs.rollouts import PlaneWorld
from tacit.evaluation.canaries import GradientScores, leap_canaries
from tacit.evaluation.membership import attack, losses
from tacit.evaluation.neighbours import nearest_records
from tacit.evaluation.one_run import audit, plant
from tacit.evaluation.report import Report, tables
from tacit.evaluation.report.charts import Kind
from tacit.evaluation.report.evidence import AttackHits, Cost, PlantedAudit
from tacit.evaluation.report.tables import Table
from tacit.evaluation.sequences import Sequences
from tacit.methods import find_method, load, synthesis
from tacit.methods.synthesis import Synthesizer, TableMatching, TransitionsPlan
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.vault import Vault
from tacit.study import simulators, synthesis_report
from tacit.study.account import LEDGER, VerbPhrases, temporary_ledger
from tacit.study.folder import Stopwatch, require_free, settings_of
from tacit.study.study import Study
from tacit.study.synthesis_plans import PRIVORL, baseline_plan
from tacit.study.synthesis_report import SynthesisJob
from tacit.study.synthesize import TRAINING, release
from tacit.study.words import Advance, option_error
from tacit.units import Unit

LAYOUT, DELTA = "umaze", 1e-7
PUBLIC = 300
"""Rows of the same world that the attacker has."""


@dataclasses.dataclass(frozen=True)
class DemoSize:
    """How large a demo is.

    Args:
        population: private transitions, and their public population.
        rows: synthetic rows.
        plan: before calibration, without histograms.
        pool: rows that histograms weight; None for the default of `TableMatching`.
        seeds: agents for each table.
        agents: how they are trained, as settings of `IqlConfig`.
        stages: points of their learning curves, each with half the steps of the next.
        episodes: of their evaluation.
        pictured: rows of each table in the t-SNE picture.
        canaries: planted records of an audit.
        attacked: rows that were learned from, and others, that an attack tells apart.
        bins: of a column, in other synthesizers; None for their own.
    """

    population: int
    rows: int
    plan: TransitionsPlan
    pool: int | None
    seeds: int
    agents: Mapping[str, Any]
    stages: int
    episodes: int
    pictured: int
    canaries: int
    attacked: int
    bins: int | None


FULL = DemoSize(
    1_000_000,
    100_000,
    TransitionsPlan(steps=800),
    None,
    3,
    {"steps": 6_000, "batch": 128},
    stages=3,
    episodes=300,
    pictured=500,
    canaries=500,
    attacked=1_000,
    bins=None,
)
USUAL = DemoSize(
    1_000_000,
    40_000,
    TransitionsPlan(steps=300, sampling_rate=0.003),
    80_000,
    3,
    {"steps": 2_400, "batch": 128, "width": 64, "layer_norm": False},
    stages=2,
    episodes=150,
    pictured=300,
    canaries=500,
    attacked=1_000,
    bins=None,
)
QUICK = DemoSize(
    20_000,
    2_000,
    TransitionsPlan(steps=10, sampling_rate=0.02, width=16, depth=1, warmup=1),
    4_000,
    2,
    {"steps": 10, "width": 8},
    stages=3,
    episodes=5,
    pictured=60,
    canaries=40,
    attacked=100,
    bins=4,
)


def demo(command: DemoMaze) -> None:
    """Simulate, promise, train, sample, measure, report.

    Raises:
        TacitError: see the exit codes of `tacit.cli.app.main`.
    """
    if command.quick and command.full:
        raise option_error("demo", "--quick and --full exclude each other", "one of them or neither", "leave one out")
    watch, size = Stopwatch(), QUICK if command.quick else FULL if command.full else USUAL
    torch.set_num_threads(1)  # networks this small lose more to the hand-over between threads than they gain
    synthesis_report.require_folder(command.out, "demo")
    synthesis_report.require_format(command.format, "pairs", size.rows, "rows", "demo")
    require_free(command.out, resume=command.resume)
    with _step(watch, "Calibrating the noise"):
        unit = Unit("transition", "add_or_remove", size.population)
        maze = simulators.load("maze")
        matching = TableMatching.plane(maze.spec(maze.LAYOUTS[LAYOUT]), population=size.population)  # weights the rows
        matching = dataclasses.replace(matching, pool=size.pool or matching.pool)
        plan = dataclasses.replace(size.plan, matching=matching)
        plan = plan.calibrate(unit=unit, epsilon=command.epsilon, delta=DELTA)
    say(str(plan))
    say(f"Network: {plan.width} units wide, {plan.depth} blocks deep. Private rows: {size.population:,}.")
    with _step(watch, f"Simulating {size.population:,} transitions of the {LAYOUT} maze"):
        data = simulate(LAYOUT, size.population, seed=command.seed)
    ledger = command.out / LEDGER
    study = Study(data, unit=unit.name, population=size.population, ledger=ledger, narrator=ConsoleNarrator())
    words = VerbPhrases("transitions", "demo", "learned from", "run the demo")
    account = study.curator.account(words, command.epsilon, DELTA, resumes=True)

    def page(learned: Release[Synthesizer], drawn: Sequences, records: Trajectories) -> Report:
        sections = _sections(command, learned, drawn.columns, records, size, watch)
        costs = (synthesis_report.size_of(learned), *watch.costs())
        say("\n".join(("Processor seconds:", *(f"  {name:60s}{spent:7.1f}" for name, spent in watch.phases.items()))))
        return synthesis_report.report(learned, f"{LAYOUT} maze, synthetic", size.rows, sections, costs)

    asked = SynthesisJob(
        method=PRIVORL,
        plan=plan,
        account=dataclasses.replace(account, ledger=None),  # it lies in the folder of the run
        seed=command.seed,
        count=size.rows,
        format=command.format,
        compares=True,
        resume=command.resume,
        out=command.out,
        watch=watch,
        command="demo",
        page=page,
    )
    release(study.curator, asked, settings_of(command, "format"))


@contextmanager
def _step(watch: Stopwatch, title: str) -> Iterator[Advance]:
    with progress(title) as advance, watch.phase(title):
        yield advance


def _sections(
    command: DemoMaze,
    learned: Release[Synthesizer],
    synthetic: Table,
    data: Trajectories,
    size: DemoSize,
    watch: Stopwatch,
) -> dict[str, Any]:
    """Everything that the report shows besides the promise; real rows too, since they are simulated."""
    world = simulators.plane_world(LAYOUT)
    real, seed = data.columns, command.seed
    rivals, costs = compare_methods(command.compare, learned.value.plan, data, size.rows, bins=size.bins, seed=seed)
    controls = tables.control_tables(data.spec, real, size.rows, seed)
    with _step(watch, "Comparing columns, dynamics and single rows"):
        fresh = simulate(LAYOUT, size.population, seed=seed + 1).columns
        sections = tables.sections(data.spec, synthetic, real, rivals=rivals, seed=seed, names=world.columns)
        sections["scores"] += tables.physics_scores(world, synthetic, controls, rivals)
        sections["embedding"] = tables.picture(real, synthetic, seed=seed, rows=size.pictured)
        sections["nearest"] = nearest_records(synthetic, real, fresh, seed=seed)
    shown: list[tuple[str, Kind, tables.Table]] = [
        ("Protected rows", "reference", real),
        ("Synthetic rows", "synthetic", synthetic),
    ]
    sections["map"] = tables.plane_map(world, shown, seed=seed)
    sections |= _agents(world, shown, [*rivals, *controls], size, seed, watch)
    if command.audit:
        sections["attacks"] = attacks(learned.value, real, fresh, rows=size.attacked, seed=seed)
        sections["audits"] = audits(learned.value.plan, data, fresh, canaries=size.canaries, seed=seed)
    memory = None if costs else watch.peak_memory()  # of a process that trained several, nobody knows which took it
    learning = tuple(
        (name, watch.phases[name]) for name in (TRAINING, synthesis_report.SAMPLING) if name in watch.phases
    )
    sections["synthesizers"] = (Cost(PRIVORL, "synthetic", learning, memory), *costs)
    return sections


def _agents(
    world: PlaneWorld,
    shown: list[tuple[str, Kind, tables.Table]],
    controls: tables.Named,
    size: DemoSize,
    seed: int,
    watch: Stopwatch,
) -> dict[str, Any]:
    """What agents learn from each table, and how they get there, beside a policy that learns nothing."""
    iql, seeds, stages = simulators.load("agents.iql"), range(seed, seed + size.seeds), {}
    longest = size.agents["steps"]
    every = [*shown, *((label, "control", table) for label, table in controls)]
    for steps in sorted({max(1, longest // 2**halvings) for halvings in range(size.stages)}):
        taught = every if steps == longest else shown  # controls are trained in full only
        config = iql.IqlConfig(**{**size.agents, "steps": steps})
        with _step(watch, f"Training {len(taught) * size.seeds} agents for {steps:,} steps") as advance:
            policies = iql.train_tables([table for _, _, table in taught], config, seeds=seeds, progress=advance)
        stages[steps] = [(label, kind, policy) for (label, kind, _), policy in zip(taught, policies, strict=True)]
    with _step(watch, "Evaluating the agents in the maze"):
        returns = tables.returns(world, stages[longest], seed=seed, episodes=size.episodes)
        returns += tables.untaught_returns(world, seed=seed, episodes=size.episodes)
        trained = {steps: agents[: len(shown)] for steps, agents in stages.items()}
        return {"returns": returns, "curves": tables.curves(world, trained, seed=seed, episodes=size.episodes)}


def compare_methods(
    methods: Sequence[Baseline], ours: TransitionsPlan, data: Trajectories, rows: int, *, bins: int | None, seed: int
) -> tuple[list[tuple[str, Table]], list[Cost]]:
    """Synthetic tables of other methods at the promise of `ours`, and what they took.

    Args:
        methods: the others.
        ours: whose unit, epsilon and delta they get.
        data: simulated records; the ledgers are thrown away.
        rows: of each table.
        bins: of a column, where the method cuts columns; None for its own.
        seed: of the methods and of sampling.
    """
    tables: list[tuple[str, Table]] = []
    costs = []
    for method in methods:
        watch = Stopwatch()
        cut = partial(Discretisation, data.spec) if bins is None else partial(Discretisation, data.spec, bins=bins)
        plan = baseline_plan(method, cut).calibrate(unit=ours.unit, epsilon=ours.epsilon, delta=ours.delta)
        bar, phase = progress(f"Training {method} with privacy"), watch.phase(TRAINING)
        with _vault(data.columns, data.spec, plan) as vault, bar as advance, phase:
            learned = load(find_method("synthesize", method).fit)(plan, vault, seed=seed, progress=advance)
        with watch.phase(synthesis_report.SAMPLING):
            tables.append((method, learned.value.sample_columns(rows, seed=seed)))
        costs.append(Cost(method, "control", tuple(watch.phases.items())))
    return tables, costs


def attacks(value: Synthesizer, members: Table, others: Table, *, rows: int, seed: int) -> tuple[AttackHits, ...]:
    """What an attack with the released network in hand finds out about who was learned from.

    Args:
        value: the release.
        members: simulated rows that it was learned from.
        others: simulated rows that it was not learned from.
        rows: how many of each are compared.
        seed: of the choice of rows.
    """
    with progress("Attacking the release"):
        chosen = [_sample_rows(table, rows, seed) for table in (members, others)]
        outcome = attack(*(-losses(value, table, seed=seed) for table in chosen), seed=seed)
    meaning = "guesses who was learned from by how well the network denoises a row"
    return (AttackHits("Denoising loss", meaning, outcome.hits),)


def audits(
    plan: TransitionsPlan, data: Trajectories, others: Table, *, canaries: int, seed: int
) -> tuple[PlantedAudit, ...]:
    """A lower bound on epsilon from one more training, with planted records, under the same plan.

    Args:
        plan: of the release.
        data: the simulated records; a few make room for the planted ones.
        others: rows like most of them, for the attacker.
        canaries: how many are crafted; each is planted or not, as a coin falls.
        seed: of the canaries, the coins and the attacker's draws.
    """
    epsilon, delta = plan.epsilon, plan.delta
    planted = leap_canaries(data.spec, canaries, seed=seed)
    columns, present = plant({name: column[canaries:] for name, column in data.columns.items()}, planted, seed=seed)
    scores = GradientScores(plan, planted, _sample_rows(others, PUBLIC, seed), seed=seed)
    title = "Training once more, with planted records"
    with _vault(columns, data.spec, plan) as vault, progress(title) as advance:
        synthesis.fit(plan, vault, observe=scores, progress=advance)
    bounds = audit(scores.summed_scores(), present, delta=delta)
    return (PlantedAudit("The same training, with planted records", "synthetic", bounds, epsilon),)


@contextmanager
def _vault(columns: Table, spec: PublicSpec, plan: Any) -> Iterator[Vault]:
    """A vault of simulated rows whose ledger is thrown away: nobody is behind them."""
    fields: dict[str, Any] = dict(columns)
    data = Trajectories.from_arrays(**fields, unit_ids=":transition", spec=spec, simulated=True)
    with temporary_ledger(plan) as ledger:
        yield Vault(data, ledger)


def _sample_rows(table: Table, count: int, seed: int) -> Table:
    rows = len(table["rewards"])
    chosen = np.sort(np.random.default_rng(seed).choice(rows, size=min(count, rows), replace=False))
    return {name: np.asarray(column)[chosen] for name, column in table.items()}
