"""A cell of PateGAIL++'s main table with a simulator of your own.

    python -m experiments.pategail.table1 --people 1000 --simulator mine:fit --epsilon 2

`fit(task)` learns from people's days and returns as many days as `task.count`: cells [count, 48] of the public grid,
one for each half-hour. Judged are the paper's five divergences and SEQ, the mean of seven measures of order; smaller is
better. 83 people are Geolife's, whose file has to be on this machine; any other number is an invented city's. A seed is
the method's own: the days are the same.
"""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.lib import cell
from experiments.pategail import mobility_frontier as frontier
from experiments.pategail.mobility_runs import DELTA, GEOLIFE, World, world
from experiments.pategail.mobility_tables import PAPERS, QUOTED, WORDS
from tacit.data.mobility.days import SLOTS, Days
from tacit.data.mobility.grids import Grid
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit


@dataclass(frozen=True)
class Task:
    """What a simulator learns from."""

    here: World  # the people
    epsilon: float  # what it is to promise, for one person with all days added or removed
    seed: int  # of the method
    delta: float = DELTA

    @property
    def cells(self) -> np.ndarray:
        return self.here.days.cells

    @property
    def person(self) -> np.ndarray:
        """Whose day each is: codes [D]."""
        return self.here.days.person

    @property
    def grid(self) -> Grid:
        return self.here.days.grid

    @property
    def count(self) -> int:
        """How many days to make."""
        return len(self.here.judged.cells)

    @property
    def unit(self) -> Unit:
        """One person with all days."""
        return self.here.unit

    def vault(self, plan: Any) -> AbstractContextManager[Vault]:
        """The days in a vault that can pay for this calibrated plan: what it promises is then accounted."""
        return self.here.vault()


def measures(people: int) -> dict[str, tuple[str, str]]:
    """The paper's five, of a city with public bins; and SEQ."""
    return (PAPERS if people == GEOLIFE else dict(frontier.PUBLIC)) | {"SEQ": ("sequence", "SEQ")}


def judge(task: Task, made: Any) -> cell.Values:
    """Every measure of the days."""
    cells = np.asarray(made)
    if cells.shape != (task.count, SLOTS) or cells.dtype.kind not in "iu":
        raise cell.refuse(f"{cells.dtype} {cells.shape}", f"whole numbers [{task.count}, {SLOTS}], cells of task.grid")
    (found,) = task.here.measured([Days(cells.astype(np.int64), np.arange(task.count), task.grid)])
    return {name: found[metrics][one] for name, (metrics, one) in measures(task.here.people).items()}


def others(people: int, epsilon: float) -> list[cell.Line]:
    found, results = [], frontier.store()
    for row, words in WORDS.items():
        seeds = frontier.seeds_of(people, row, epsilon)
        with suppress(LookupError):
            columns = {
                name: frontier.column(results, people, row, epsilon, metrics, one)
                for name, (metrics, one) in measures(people).items()
            }
            if seeds:
                found.append(cell.Line(words, columns, f"seeds {seeds[0]} to {seeds[-1]}, `mobility_frontier`"))
    if people == GEOLIFE:
        for words, figures in QUOTED.items():
            found.append(
                cell.Line(f"{words}, as printed", dict(zip(PAPERS, figures, strict=True)), "the paper, another split")
            )
    return found


def main(arguments: Sequence[str]) -> dict[str, list[float]]:
    options = cell.parser(__doc__, "simulator")
    options.add_argument("--people", type=int, default=1_000)
    chosen = options.parse_args(arguments)
    people = 30 if chosen.quick else chosen.people
    known = [
        row["values"]["seconds"] for key, row in frontier.store().rows.items() if key.startswith(f"{people}/table/")
    ]
    return cell.run(
        cell.Cell(
            title=f"PateGAIL++, main table: {people:,} people, epsilon {chosen.epsilon:g}, delta {DELTA:g}, one person",
            measures=tuple(measures(people)),
            task=lambda seed: Task(world(people), chosen.epsilon, seed),
            judge=judge,
            seeds=range(10),
            others=others(people, chosen.epsilon),
            minutes=float(np.median(known)) / 60 if known else None,
            digits=4,
        ),
        chosen,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
