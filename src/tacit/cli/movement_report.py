"""What `tacit imitate` measures after the release, and shows: public figures, and comparisons with simulated people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from tacit.cli import outcome
from tacit.cli.console import progress
from tacit.cli.folders import RunFolder
from tacit.cli.generate import cautions
from tacit.cli.movement_commands import Imitate
from tacit.cli.movement_runs import Generator, Released, again
from tacit.cli.movement_words import Plan, silent
from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.grids import Grid
from tacit.evaluation.movement import divergences, maps
from tacit.evaluation.movement.divergences import Line, MapAdvice, lines, map_advice
from tacit.evaluation.report import MovementReport, picture
from tacit.methods import mobility
from tacit.methods.mobility import pategail
from tacit.methods.mobility.places import CLIP, STARTS, HomeSums
from tacit.privacy.vault.vault import Vault

METHODS = {
    "one-shot": "one noisy release of what people do, and a simulator that imitates it",
    "table": "a noisy table of actions",
    "epr": "four noisy numbers: exploration and preferential return",
    "markov": "a noisy chain of moves between blocks",
    "timegeo": "noisy rhythms of bursts, homes and returns",
    "pategail": "noisy rewards by critics that never leave their people's devices (PateGAIL++)",
}
DAYS = 10_000
"""Of each side, as many are compared at most."""
SETS: tuple[divergences.Set, ...] = ("sequence", "robust")
MAP = "map.html"
REASON = "measures of movement"


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
        verify=outcome.VERIFY,
        method=METHODS[command.method],
        days=DAYS,
        advice=advised,
        lines=() if days is None else compared(command, plan, drawn, days),
        picture=picture(drawn),
        map=draw(run, release, drawn, days, blurred(advised)),
    )


def compared(command: Imitate, plan: Plan, drawn: Days, days: Days) -> tuple[Line, ...]:
    """Measures of drawn days against simulated people's, beside what noise alone makes."""
    some = first(days, DAYS)
    noise = again(silent(plan), days, seed=command.seed, told="Imitating noise alone").generate(DAYS, seed=command.seed)
    with progress("Comparing with the simulated people"):
        return tuple(line for metrics in SETS for line in lines(some, drawn, metrics=metrics, control=noise))


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
    if isinstance(plan, mobility.Plan) and not plan.shares.starts:
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
    if isinstance(plan, mobility.Plan | pategail.Plan):
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
    kept = np.unique(np.linspace(0, len(days.cells) - 1, min(most, len(days.cells))).astype(np.int64))
    return Days(days.cells[kept], days.person[kept], days.grid)


def first(days: Days, most: int) -> Days:
    """The first so many days, at most: all days of the first people."""
    return Days(days.cells[:most], days.person[:most], days.grid)
