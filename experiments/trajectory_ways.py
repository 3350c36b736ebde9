"""How the experiments make synthetic data under the guarantee of a whole person.

tacit_j, by_gradients               whole trajectories (`trajectory_fragments`)
raked                               rows of such trajectories (likewise)
unet, dp_transformer                whole trajectories without histograms (`trajectory_rivals`)
raked_by_gradients, raking_alone    transitions (`trajectory_transitions`)
real                                the private trajectories
"""

from __future__ import annotations

from dataclasses import dataclass

from experiments.synthesis_cache import Columns, Notes, kept, rows_of
from experiments.synthesis_fits import FULL, Scale
from experiments.trajectory_domains import People
from experiments.trajectory_fragments import EPISODES, FRAGMENTS, SEAMS, Fragments
from experiments.trajectory_rivals import RIVALS
from experiments.trajectory_transitions import TRANSITIONS, Histograms, Transitions
from tacit.measure.sequences import Sequences


@dataclass(frozen=True)
class Table:
    """Rows that agents learn from, and the trajectories that they are of, where they are of any."""

    columns: Columns
    sequences: Sequences | None
    notes: Notes


@dataclass(frozen=True)
class Real:
    """The private trajectories."""

    private = False
    sources: tuple[str, ...] = ()


Way = Fragments | Transitions | Histograms | Real
WAYS: dict[str, Way] = {"real": Real(), **TRANSITIONS, **FRAGMENTS, **RIVALS}


def key(here: str, way: str, epsilon: float, seed: int) -> str:
    """Of a table: its epsilon is that of its promise, 0 where there is none."""
    return f"{here}/{way}/{epsilon:g}/{seed}"


def table(here: People, way: str, epsilon: float, seed: int, scale: Scale = FULL) -> Table:
    """A table, made once."""
    found = WAYS[way]
    if isinstance(found, Real):
        people = here.people(seed)
        return Table(rows_of(people.columns), Sequences.of(people), {})
    name = key(here.name, way, epsilon, seed) + ("/quick" if scale.quick else "")
    arrays, notes = kept(
        f"people/{name}", (*here.sources, *found.sources), lambda: found.made(here, epsilon, seed, scale)
    )
    columns = {field: array for field, array in arrays.items() if field not in (EPISODES, SEAMS)}
    if EPISODES not in arrays:
        return Table(columns, None, notes)
    return Table(columns, Sequences(columns, arrays[EPISODES], arrays[SEAMS]), notes)
