"""What the experiments on movement share: people and their days, doors over them, and how simulated days are judged.

A world is real or invented people whose days are protected, and the days that simulators are compared with: of Geolife
its 83 people's (and for the papers' five measures their test days), of the city the same people's.
"""

import contextlib
import functools
import inspect
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from experiments.lib import vaults
from experiments.lib.experiment import ROOT, Json, describe
from tacit.data.mobility.days import Days
from tacit.data.mobility.grids import RegularGrid
from tacit.evaluation.movement import divergences
from tacit.privacy.mechanisms.base import Public, Work
from tacit.privacy.mechanisms.device_sums import FederatedSum
from tacit.privacy.vault.devices import StackedDevices
from tacit.privacy.vault.federated_vault import FederatedVault
from tacit.privacy.vault.isolation import IsolationChecks
from tacit.privacy.vault.memory import outline
from tacit.privacy.vault.vault import Vault
from tacit.units import Relation, Unit
from tacit_worlds.city import city

DELTA = 1e-5
GEOLIFE, FILE = 83, "geolife_cells.npz"
CITY: dict[str, Any] = {"days": 20, "seed": 7}  # arguments of `envs.city.city`
GRID = RegularGrid(27, 100, 48, 121, 0.01)  # in which every one of Geolife's points is a cell
SETS: tuple[divergences.MetricSet, ...] = ("sequence", "reference", "robust")
FLOORS = 10  # halvings of real people whose distances are averaged
DRAWS = 5  # of the days that a perfect simulator would make, whose distances are averaged
JUDGED = 20_000
"""Days of the city that simulators are compared with, and that they generate; for Geolife as many as there are."""
BUDGET = {"epsilon": 1e6, "delta": 1.0000001 * DELTA}  # of a ledger

Values = dict[str, Any]


class TriedOnce(IsolationChecks):
    """Trials of tacit's own works, each class once a process for each structure of its queries."""

    _known: ClassVar[dict[tuple[object, ...], int]] = {}

    def try_work(self, part: FederatedSum, work: Work, public: Public) -> int:
        key = (self._spec, part.name, type(work), type(getattr(work, "contribution", None)), outline(public))
        if key not in self._known:
            self._known[key] = super().try_work(part, work, public)
        return self._known[key]


@dataclass(frozen=True, eq=False)
class World:
    """People, and what their simulators are judged by."""

    people: int  # N, public
    days: Days  # of these people, protected
    judged: Days  # the real days that simulated ones are compared with
    test: Days  # those of the papers' five measures
    words: str  # what it is, for its cells
    relation: Relation = "add_or_remove"  # what neighbours differ in

    @property
    def unit(self) -> Unit:
        return unit(self.people, self.relation)

    @property
    def simulated(self) -> bool:
        """Whether nobody is behind the days."""
        return self.people != GEOLIFE

    @contextlib.contextmanager
    def vault(self, replicates: int = 1) -> Iterator[Vault]:
        """A vault of the days with R ledgers in a folder that goes away, for one plan."""
        with vaults.ledgers(self.unit, replicates, **BUDGET) as ledgers:
            yield Vault(self.days.trajectories(simulated=self.simulated), ledgers)

    @contextlib.contextmanager
    def devices(self) -> Iterator[FederatedVault]:
        with vaults.ledgers(self.unit, **BUDGET) as (ledger,):
            vault = FederatedVault(StackedDevices(self.days.trajectories(simulated=self.simulated)), ledger)
            vault._checks = TriedOnce(vault.spec)
            yield vault

    def measured(self, tables: Sequence[Days]) -> list[Values]:
        rows = {str(i): days for i, days in enumerate(tables)}
        found: list[Values] = [{} for _ in tables]
        for metrics in SETS:
            against = self.test if metrics == "reference" else self.judged
            for row in divergences.divergence_table(against, rows, metrics=metrics).rows:
                found[int(row.name)][metrics] = {name: round(one.value, 6) for name, one in row.values.items()}
        return found

    def perfect(self) -> Values:
        """The floor: days of a perfect simulator, as many as others generate, against what those are compared with.

        Of the city these are other people's of the same city. Of Geolife, which has no others, they are its people's
        own days, drawn again with replacement: what a simulator would make that knows every day by heart.
        """
        tables, count = [], len(self.judged.cells)
        for draw in range(DRAWS):
            rng = np.random.default_rng([draw, self.people])
            others = city(self.people, **CITY | {"seed": CITY["seed"] + 1 + draw}).days if self.simulated else self.days
            at = rng.choice(len(others.cells), count, replace=not self.simulated)
            tables.append(Days(others.cells[at], np.arange(count), others.grid))
        found = self.measured(tables)
        return {
            m: {name: round(float(np.mean([one[m][name] for one in found])), 6) for name in found[0][m]} for m in SETS
        }

    def floor(self) -> Values:
        """Real people against other real people (halves of the judged), and the test days against all."""

        def of(row: divergences.DivergenceRow) -> Values:
            return {name: round(one.value, 6) for name, one in row.values.items()}

        halves = {
            m: of(divergences.divergence_table(self.judged, {}, metrics=m, floors=FLOORS).row(divergences.FLOOR))
            for m in SETS
        }
        if self.test is self.judged:
            return {"halves": halves}
        return {"halves": halves, "test": {m: divergences.divergences(self.judged, self.test, metrics=m) for m in SETS}}


def unit(people: int, relation: Relation = "add_or_remove") -> Unit:
    return Unit("person", relation, people)


@functools.cache
def described(people: int) -> Json:
    """The data of `world(people)` and how simulators are judged on them, for configurations; no data are read."""
    if people == GEOLIFE:
        data = {"file": FILE, "grid": describe(GRID), "judged": "all days"}
    else:
        defaults = {name: one.default for name, one in inspect.signature(city).parameters.items()}
        data = {"city": describe(defaults | CITY | {"people": people}), "judged": JUDGED}
    return {**data, "people": people, "measures": list(SETS)}


@functools.cache
def world(people: int) -> World:
    """Geolife for 83 people (FileNotFoundError where it is not here), the invented city for any other number."""
    return _geolife() if people == GEOLIFE else _city(people)


def _geolife() -> World:
    folder = Path(os.environ.get("TACIT_SHARED", ROOT.parent / "shared" / "data"))
    with np.load(folder / FILE) as file:
        latlon, days, user, test = (file[name] for name in ("cell_latlon", "days", "user", "test_days"))
    cells = GRID.cells(latlon[:, 0].astype(np.float64), latlon[:, 1].astype(np.float64))
    mine = Days(cells[days], user.astype(np.int64), GRID)
    held_out = Days(cells[test], np.arange(len(test)), GRID)
    return World(GEOLIFE, mine, mine, held_out, "Geolife: 83 people, 5,616 days on a public grid of 0.01 degrees")


def _city(people: int) -> World:
    mine = city(people, **CITY).days
    some = np.sort(np.random.default_rng(0).choice(len(mine.cells), min(JUDGED, len(mine.cells)), replace=False))
    judged = Days(mine.cells[some], mine.person[some], mine.grid)
    words = f"invented city: {people:,} people of {CITY['days']} days (seed {CITY['seed']})"
    return World(people, mine, judged, judged, words)


def generated(simulator: Any, here: World, seed: int) -> Days:
    days: Days = simulator.generate(len(here.judged.cells), seed=seed)
    return days
