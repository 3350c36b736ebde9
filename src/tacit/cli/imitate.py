"""`tacit imitate`: where people were in, a simulator of movement with its certificate out."""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np

from tacit import hub
from tacit.cli import imitate_plan
from tacit.cli.console import Console, progress, say
from tacit.cli.generate import Generator, cautions
from tacit.cli.imitate_plan import Plan, planned, region, require_answerable, require_sound, silent, unit
from tacit.cli.plan_declarations import Imitate
from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.grids import Grid
from tacit.evaluation.movement import divergences, maps
from tacit.evaluation.movement.divergences import Line, MapAdvice, lines, map_advice
from tacit.evaluation.report import MovementReport, picture
from tacit.methods import find_method, mobility
from tacit.methods.mobility import Simulator, baselines, pategail
from tacit.methods.mobility.baselines.models import BlockChain
from tacit.methods.mobility.places import CLIP, STARTS, HomeSums
from tacit.privacy.certificate.certificate import Certificate, Release
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.vault import Vault
from tacit.study.account import LEDGER, Account, Words, promised, thrown_away
from tacit.study.folder import (
    CERTIFICATE,
    REPORT,
    SIMULATED,
    VERIFY,
    RunFolder,
    Stopwatch,
    certify,
    finish,
    require_free,
    say_private,
    settings_of,
)
from tacit.study.narration import Interrupted
from tacit.tracking import Tracker

FOLDER, CHECKPOINT = "simulator", "checkpoint"
WORDS = Words(people="people", doing="imitation", done="made of", do="imitate")
Released = Release[Simulator] | Release[BlockChain] | Release[Simulator | BlockChain]
DAYS = 10_000
"""Of each side, as many are compared at most."""
SETS: tuple[divergences.Set, ...] = ("sequence", "robust")
MAP = "map.html"
REASON = "measures of movement"


def imitate(command: Imitate) -> None:
    """Plan, promise, imitate, release, report.

    Raises:
        TacitError: see the exit codes of `tacit.cli.app.main`; nothing is spent before the imitation begins.
    """
    require_sound(command)
    unit(command)
    settings = settings_of(command)
    if not command.dry_run:
        require_free(command.out, resume=command.resume)
        if (command.out / "run.json").exists():
            RunFolder(command.out).require_same("imitate", settings)
        imitate_plan.require_there(command)
        require_packages(command)
    grid = None if command.dry_run and command.grid is not None else region(command)
    with progress("Calibrating the noise"):
        plan = planned(command)
    if grid is not None:
        require_answerable(plan, grid)
    released = (command.out / FOLDER).exists()
    if not command.dry_run and not released:
        _account(command, plan).require_payable(plan, resumed=command.resume and _kept(command.out))
    _promise(command, plan, grid)
    if command.dry_run:
        say("Dry run: no file was opened and nothing was spent.")
        return
    assert grid is not None
    with RunFolder.attempt(command.out, "imitate", settings, resume=command.resume) as run:
        _produce(command, plan, grid, run)


def _promise(command: Imitate, plan: Plan, grid: Grid | None) -> None:
    say(str(plan))
    if grid is not None:
        say(f"Public grid: {grid.size:,} cells.")
    say(
        f"Protected: everything of one {command.unit}. Not protected: what most {command.unit}s have in common, and "
        "the rules by which records became days."
    )
    if imitate_plan.nobody(command):
        say(f"The people {SIMULATED}")


def _produce(command: Imitate, plan: Plan, grid: Grid, run: RunFolder) -> None:
    watch = Stopwatch()
    release: Released
    if run.read()["finished"]:
        say("The run was finished already.")
        release = hub.load(run.inside(FOLDER))
    else:
        nobody = imitate_plan.nobody(command)
        if run.inside(FOLDER).exists():
            release = hub.load(run.inside(FOLDER))
            days = imitate_plan.days(command, grid) if nobody else None
        else:
            days = imitate_plan.days(command, grid)
            release = _released(command, plan, days, run)
        run.remove(CHECKPOINT)
        certify(run, release.certificate)
        shown = days if nobody else None
        page = report(command, plan, release, shown, run)
        costs = watch.costs() if nobody else ()
        finish(run, dataclasses.replace(page, costs=costs))
    _closing(run, _account(command, plan))


def _released(command: Imitate, plan: Plan, days: Days, run: RunFolder) -> Released:
    """The release, saved; an interruption that leaves nothing to go on from says what is lost."""
    with _account(command, plan).opened(run) as ledger:
        nobody = imitate_plan.nobody(command)
        vault = vault_of(plan, days, ledger, simulated=nobody, tracker=command.tracker)
        before = len(ledger.entries())
        try:
            title = "Asking people's critics" if command.method == "pategail" else "Imitating with privacy"
            folder = run.inside(CHECKPOINT)
            release = fitted(
                plan, vault, days.grid, seed=command.seed, title=title, folder=folder, resume=command.resume
            )
            hub.save(release, run.inside(FOLDER), notes=_notes(command))
        except KeyboardInterrupt:
            if len(ledger.entries()) > before and not _kept(run.path):
                raise Interrupted(_lost(command, ledger.path)) from None
            raise
        if command.nonprivate_diagnostics:
            assert isinstance(vault, Vault)
            look(vault, release.value, run)
    return release


def _kept(out: Path) -> bool:
    """Whether a method of many rounds left a checkpoint to go on from."""
    return (out / CHECKPOINT / "checkpoint.safetensors").exists()


def _lost(command: Imitate, ledger: Path) -> str:
    if command.simulates and command.ledger is None:
        return "nobody's budget is lost: begin again with another folder"
    return f"what was charged stays charged (see tacit ledger show {ledger}), and this imitation cannot go on"


def _notes(command: Imitate) -> dict[str, Any]:
    """What `tacit generate` needs to know."""
    return {} if command.zone is None else {"zone": command.zone}


def _closing(run: RunFolder, account: Account) -> None:
    folder = run.path
    if (folder / "private").exists():
        say_private(run, Console())
    say()
    for line in cautions(Certificate.load(run.inside(CERTIFICATE))):
        say(f"Caution  {line}.")
    say(f"Open     {folder / REPORT}")
    say(f"Map      {folder / MAP}")
    say(f"Verify   tacit certificate verify {folder / CERTIFICATE}")
    say(f"Days     tacit generate {folder / FOLDER} --days 1000 --out days.csv")
    say(f"Budget   tacit ledger show {folder / LEDGER if account.inside else account.path}")


def _account(command: Imitate, plan: Plan) -> Account:
    unit, epsilon, _ = promised(plan)
    return command.account(unit, WORDS, epsilon=epsilon)


def require_packages(command: Imitate) -> None:
    """Refuse a method whose packages are not installed, before the ledger pays for it.

    Raises:
        ModuleNotFoundError: checkpoints need torch.
    """
    if command.method == "pategail":
        importlib.import_module("tacit.privacy.ledger.checkpoint")


def vault_of(
    plan: Plan, days: Days, ledger: Ledger, *, simulated: bool, tracker: Tracker | None = None
) -> Vault | FederatedVault:
    """The vault whose mechanisms the plan needs: one over devices where these add noise or keep critics.

    Raises:
        DataError: there are more people than the population.
    """
    data = days.trajectories(simulated=simulated)
    if isinstance(plan, pategail.PateGailPlan) or (isinstance(plan, mobility.OneShotPlan) and plan.noise != "server"):
        return FederatedVault(StackedDevices(data), ledger, tracker=tracker)
    return Vault(data, ledger, tracker=tracker)


def fitted(
    plan: Plan,
    vault: Vault | FederatedVault,
    grid: Grid,
    *,
    seed: int,
    title: str,
    folder: Path | None = None,
    resume: bool = False,
) -> Released:
    """The release of a plan.

    Args:
        plan: calibrated.
        vault: what `vault_of` opened for it.
        grid: of the days.
        seed: of the days that are played.
        title: what progress says.
        folder, resume: where a method of many rounds keeps its checkpoints, and whether it goes on from there.

    Raises:
        PlanExhausted, BudgetExceeded: the ledger refuses.
    """
    with progress(title) as advance:
        if isinstance(plan, pategail.PateGailPlan):
            assert isinstance(vault, FederatedVault)
            return pategail.fit(plan, vault, grid=grid, seed=seed, folder=folder, resume=resume, progress=advance)
        if isinstance(plan, mobility.OneShotPlan):
            return mobility.fit(plan, vault, grid=grid, seed=seed)
        return baselines.fit(plan, vault, grid=grid)


def again(plan: Plan, days: Days, *, seed: int, title: str) -> Generator:
    """What another plan makes of simulated days, under a ledger that is thrown away."""
    with thrown_away(plan) as ledger:
        vault = vault_of(plan, days, ledger, simulated=True)
        return fitted(plan, vault, days.grid, seed=seed, title=title).value


def report(command: Imitate, plan: Plan, release: Released, days: Days | None, run: RunFolder) -> MovementReport:
    """The page's inputs; the map that it names is written.

    Args:
        command: the options.
        plan: calibrated.
        release: what came out.
        days: simulated people's, to compare with; None for real ones.
        run: the folder of the run.
    """
    with progress("Drawing days"):
        drawn = release.value.generate(DAYS, seed=command.seed + 1)
    advised = advice(plan, release.value.grid)
    return MovementReport(
        title=run.path.name,
        certificate=release.certificate.to_json(),
        verify=VERIFY,
        method=find_method("imitate", command.method).words,
        days=DAYS,
        advice=advised,
        lines=() if days is None else compared(command, plan, drawn, days),
        picture=picture(drawn),
        map=draw(run, release, drawn, days, blurred(advised)),
    )


def compared(command: Imitate, plan: Plan, drawn: Days, days: Days) -> tuple[Line, ...]:
    """Measures of drawn days against simulated people's, beside what noise alone makes."""
    sample = first(days, DAYS)
    noise = again(silent(plan), days, seed=command.seed, title="Imitating noise alone").generate(
        DAYS, seed=command.seed
    )
    with progress("Comparing with the simulated people"):
        return tuple(line for metrics in SETS for line in lines(sample, drawn, metrics=metrics, control=noise))


def draw(run: RunFolder, release: Released, drawn: Days, days: Days | None, blur: tuple[str, ...]) -> str:
    """Write the map of drawn days, beside simulated people's where these are nobody's; the name of its file.

    `blur` stands above it where the certificate has no caution of its own.
    """
    panels = [maps.Panel("Drawn days", drawn, "synthetic")]
    if days is not None:
        panels.append(maps.Panel("Simulated people", evenly(days, DAYS), "simulated"))
    with progress("Drawing the map"):
        page = maps.render(
            panels,
            title=f"Simulated movement: {run.path.name}",
            promise=release.certificate.sentence,
            cautions=cautions(release.certificate) or blur,
        )
    run.write(MAP, page)
    return MAP


def advice(plan: Plan, grid: Grid) -> tuple[MapAdvice, ...]:
    """Which maps can be read, from the known noise of where days begin."""
    if isinstance(plan, mobility.OneShotPlan) and not plan.shares.starts:
        return ()
    assert plan.unit is not None
    noise = noise_of_starts(plan)
    homes = HomeSums.sized(grid, plan.unit.size, noise)
    if homes.farther is not None:
        noise *= math.sqrt(2)
    return map_advice(noise, grid.size)


def blurred(advised: tuple[MapAdvice, ...]) -> tuple[str, ...]:
    """What a map of single cells must not be read as, where the noise of a cell is more than the cell."""
    where = next((a for a in advised if not a.usable), None)
    if where is None:
        return ()
    return (
        f"Single cells of the drawn days are noise: at this noise a map of at most {where.most_cells:,} cells can be "
        f"read cell by cell, and this one has {where.cells:,}.",
    )


def noise_of_starts(plan: Plan) -> float:
    """Standard deviation of the noise of each released share of homes."""
    if isinstance(plan, mobility.OneShotPlan | pategail.PateGailPlan):
        return plan.noise_of(STARTS)
    assert plan.unit is not None
    return (plan.noise_multiplier_of(STARTS) or 0.0) * CLIP / plan.unit.size


def look(vault: Vault, simulator: Generator, run: RunFolder) -> None:
    """The curator's own figures, under private/, noted in the ledger."""
    run.inside("private")
    drawn = simulator.generate(DAYS, seed=0)

    def measured(rows: Mapping[str, np.ndarray]) -> dict[str, Any]:
        steps = SLOTS - 1
        cells = np.concatenate(
            [rows["observations"].reshape(-1, steps), rows["next_observations"].reshape(-1, steps)[:, -1:]], axis=1
        )
        real = Days(cells, np.arange(len(cells)), simulator.grid)
        return {name: divergences.divergences(real, drawn, metrics=name) for name in get_args(divergences.Set)}

    vault.nonprivate(measured, reason=REASON, folder=run.path)


def evenly(days: Days, most: int) -> Days:
    """So many days at most, of people of every kind: a map of the first few people would show their homes alone."""
    rows = np.unique(np.linspace(0, len(days.cells) - 1, min(most, len(days.cells))).astype(np.int64))
    return Days(days.cells[rows], days.person[rows], days.grid)


def first(days: Days, most: int) -> Days:
    """The first so many days, at most: all days of the first people."""
    return Days(days.cells[:most], days.person[:most], days.grid)
