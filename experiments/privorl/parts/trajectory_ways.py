"""How the experiments make synthetic data under the guarantee of a whole person: whole trajectories and rows of them
(`trajectory_fragments`), transitions (`trajectory_transitions`), and the private trajectories themselves.
"""

import functools
from dataclasses import dataclass

from experiments.lib.experiment import Json
from experiments.lib.table_cache import Columns, Notes, kept, rows_of
from experiments.privorl.parts.synthesis_fits import FULL, Scale, guarantee
from experiments.privorl.parts.synthesis_ways import key
from experiments.privorl.parts.trajectory_domains import DELTA, People, unit
from experiments.privorl.parts.trajectory_fragments import EPISODES, FRAGMENTS, RIVALS, SEAMS, Fragments
from experiments.privorl.parts.trajectory_transitions import TRANSITIONS, Histograms, Transitions
from tacit.evaluation.sequences import Sequences


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

    def configuration(self, here: People, epsilon: float, scale: Scale) -> Json:
        return {"method": "real trajectories"}


Way = Fragments | Transitions | Histograms | Real
WAYS: dict[str, Way] = {"real": Real(), **TRANSITIONS, **FRAGMENTS, **RIVALS}


@functools.cache
def configuration(here: People, way: str, epsilon: float, scale: Scale = FULL) -> dict[str, Json]:
    found = WAYS[way]
    promise = guarantee(unit(here), epsilon, DELTA) if found.private else None
    return {"domain": here.rows, "table": found.configuration(here, epsilon, scale), "guarantee": promise}


def table(here: People, way: str, epsilon: float, seed: int, scale: Scale = FULL) -> Table:
    found = WAYS[way]
    if isinstance(found, Real):
        people = here.people(seed)
        return Table(rows_of(people.columns), Sequences.of(people), {})
    name = key(here.name, way, epsilon, seed) + ("/quick" if scale.quick else "")
    asked = configuration(here, way, epsilon, scale)
    arrays, notes = kept(f"people/{name}", asked, lambda: found.made(here, epsilon, seed, scale))
    columns = {field: array for field, array in arrays.items() if field not in (EPISODES, SEAMS)}
    if EPISODES not in arrays:
        return Table(columns, None, notes)
    return Table(columns, Sequences(columns, arrays[EPISODES], arrays[SEAMS]), notes)
