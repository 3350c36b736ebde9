"""Attacks of Table VI on structured noisy tables, whose release is laws: how likely do these make a row, or a person?

At epsilon `SURE` the noise hides nobody: there the attacks must succeed. Each likelihood is also told beside that under
the laws of strangers, other rows or people of the same world, which the attacker makes at `SURE`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from experiments.lib import vaults
from experiments.lib.experiment import Json, describe
from experiments.lib.table_cache import Columns
from experiments.privorl import trajectory_audit
from experiments.privorl.parts import synthesis_fits as fits
from experiments.privorl.parts.synthesis_domains import unit
from experiments.privorl.parts.synthesis_mazes import Maze
from experiments.privorl.parts.trajectory_domains import DELTA, MazePeople
from tacit.data.trajectories import Trajectories
from tacit.evaluation.canaries import leap_canaries, leap_histories
from tacit.evaluation.one_run import plant
from tacit.methods.synthesis import people, structured
from tacit.methods.synthesis.people.plan import PeoplePlan
from tacit.methods.synthesis.people.sums import codes_of, state_of
from tacit.methods.synthesis.structured.algorithm import guide_values
from tacit.privacy.noise.secret import SecretNoise
from tacit.privacy.vault.records import Reader
from tacit.units import Unit

SURE, LEAST, PEOPLE = 400.0, 1e-4, 1_000
"""An epsilon that protects nobody, what is added to all odds, and how many people there are."""


class Sides(NamedTuple):
    """Rows or people: all that are fitted and which canaries are among them, and those who are told apart."""

    fitted: Any
    present: np.ndarray
    members: Any
    others: Any
    strangers: Any
    canaries: Any


@dataclass(frozen=True)
class Rows:
    """Single rows of a maze: transitions from tables that public rows choose."""

    maze: Maze

    @property
    def configuration(self) -> Json:
        return {"rows": self.maze.rows, "method": "structured"}

    @property
    def delta(self) -> float:
        return self.maze.delta

    def unit(self, canaries: int) -> Unit:
        """Whom it protects; canaries take the places of rows."""
        return unit(self.maze)

    def sides(self, canaries: int, seed: int, own: int) -> Sides:
        """Of a seed, and strangers from the seed `own` on."""
        leaps = leap_canaries(self.maze.spec, canaries, seed=own)
        members = {name: column[canaries:] for name, column in self.maze.private(seed).items()}
        fitted, present = plant(members, leaps, seed=own)
        return Sides(fitted, present, members, self.maze.private(own), self.maze.private(own + 1), leaps)

    def fit(self, rows: Columns, promise: Unit, epsilon: float, seed: int) -> structured.StructuredSynthesizer:
        worlds, maze = [self.maze.public(seed)], self.maze
        words: dict[str, Any] = {"worlds": worlds, "provenance": maze.provenance}
        raw = structured.StructuredPlan.choose(maze.spec, unit=promise, epsilon=epsilon, **words)
        plan = raw.calibrate(unit=promise, epsilon=epsilon, delta=maze.delta)
        with fits.vault(maze, plan, rows) as vault:
            return structured.fit(plan, vault, means=structured.public_means(plan.structure, worlds)).value

    def likelihoods(self, value: structured.StructuredSynthesizer, rows: Columns) -> np.ndarray:
        """The logarithm of each row's [T]."""
        structure = value.plan.structure
        values = structure.table.values(rows)
        means, total = guide_values(structure, values, value.means), np.zeros(len(values[0]))
        for i, law in enumerate(value.laws):
            codes = structure.table.columns[i].own.encode(values[i])
            total += np.log(law[structure.cells(i, values, means), codes] + LEAST)
        return total


@dataclass(frozen=True)
class People:
    """People who each walk through a maze once: whole people from tables that the bounds choose."""

    maze: Maze
    delta = DELTA

    @property
    def here(self) -> MazePeople:
        return MazePeople(self.maze.name, population=PEOPLE)

    @property
    def configuration(self) -> Json:
        return {"rows": self.here.rows, "method": describe(PeoplePlan(spec=self.here.spec))}

    def unit(self, canaries: int) -> Unit:
        """Whom it protects, canaries among them."""
        return Unit("person", "add_or_remove", PEOPLE + canaries)

    def sides(self, canaries: int, seed: int, own: int) -> Sides:
        """Of a seed, and strangers from the seed `own` on; a canary's whole history is one leap."""
        here = self.here
        leaps: Any = leap_histories(here.spec, canaries, rows=PeoplePlan.most, seed=own)
        present = np.random.default_rng([own, 7]).random(canaries) < trajectory_audit.INCLUDED
        members = here.people(seed)
        fitted = trajectory_audit.people(members, leaps, present)
        everyone = Trajectories.from_arrays(**leaps, spec=here.spec, simulated=True)
        return Sides(fitted, present, members, here.people(own), here.people(own + 1), everyone)

    def fit(self, rows: Trajectories, promise: Unit, epsilon: float, seed: int) -> people.PeopleSynthesizer:
        plan = PeoplePlan(spec=self.here.spec).calibrate(unit=promise, epsilon=epsilon, delta=DELTA)
        with vaults.vault(rows, promise, epsilon, DELTA) as doors:
            return people.fit(plan, doors).value

    def likelihoods(self, value: people.PeopleSynthesizer, rows: Trajectories) -> np.ndarray:
        """The logarithm of each person's [T]."""
        reader, scheme = Reader(rows, SecretNoise.for_tests(0)), value.scheme
        visits = scheme.visits_of(reader.rows(np.arange(reader.units), value.plan.most, "first"))
        known, total = state_of(scheme, visits), np.zeros(visits.units)
        for node, law in zip(scheme.nodes, value.laws, strict=True):
            here, codes = codes_of(scheme, visits, known, node)
            part = {parent: values[here] for parent, values in known.items()}
            odds = law[scheme.cells(node, part, len(here)), codes] + LEAST
            total += np.bincount(visits.owner[here], np.log(odds), minlength=visits.units)
        return total


WAYS: Mapping[str, Any] = {"structured": Rows, "people": People}
