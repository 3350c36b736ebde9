"""Baselines that make single rows, under the guarantee of a whole person: those of `synthesis_ways`.

Marginals count at most `ROWS_PER_PERSON` rows of a person, as many as matching does: noise grows with it as the
counts do, so that more rows cost nothing. PATE-GAN deals whole people to its teachers.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from experiments.lib.configuration import Json, describe
from experiments.lib.table_cache import Columns, Notes, metered
from experiments.privorl.parts.synthesis_fits import Scale, drawn, promised
from experiments.privorl.parts.synthesis_ways import WAYS, Gan, Marginals
from experiments.privorl.parts.trajectory_domains import DELTA, People, unit
from experiments.privorl.parts.trajectory_transitions import vault
from tacit.methods.synthesis.baselines import pate_gan
from tacit.methods.synthesis.discretisation import Discretisation

ROWS_PER_PERSON = 64


@dataclass(frozen=True)
class MarginalsOfPeople:
    """Rows by noisy marginals of people.

    Args:
        way: the baseline.
    """

    way: Marginals
    private = True

    def configuration(self, here: People, epsilon: float, scale: Scale) -> Json:
        """Its plan, with bins by the bounds; it is run with those of public rows."""
        plan = self._planned(here, Discretisation(here.spec, self.way.bins))
        return {"method": self.way.module, "plan": describe(plan), "public_bins": True, "rows": scale.rows}

    def _planned(self, here: People, cut: Discretisation) -> Any:
        return dataclasses.replace(self.way.planned(here.spec, cut), rows_per_unit=ROWS_PER_PERSON)

    def made(self, here: People, epsilon: float, seed: int, scale: Scale) -> tuple[Columns, Notes]:
        """Fit through the doors, sample."""
        public = here.public(seed).columns
        cut = Discretisation.from_public(here.spec, public, provenance=here.provenance, bins=self.way.bins)
        own = self._planned(here, cut).calibrate(unit=unit(here), epsilon=epsilon, delta=DELTA)
        with vault(here, own, here.people(seed)) as doors:
            value, cost = metered(lambda: self.way.imported().fit(own, doors, seed=seed).value)
        return drawn(value, seed, scale, promised(own) | {"fit": cost})


@dataclass(frozen=True)
class GanOfPeople:
    """Rows by a generator behind the votes of people's teachers."""

    private = True

    def configuration(self, here: People, epsilon: float, scale: Scale) -> Json:
        """Its plan."""
        return {"method": "pate_gan", "plan": describe(Gan().planned(here.provenance, scale)), "rows": scale.rows}

    def made(self, here: People, epsilon: float, seed: int, scale: Scale) -> tuple[Columns, Notes]:
        """Fit through the doors, sample."""
        raw = Gan().planned(here.provenance, scale)
        own = raw.calibrate(unit=unit(here), epsilon=epsilon, delta=DELTA)
        with vault(here, own, here.people(seed)) as doors:
            value, cost = metered(lambda: pate_gan.fit(own, doors, seed=seed).value)
        return drawn(value, seed, scale, promised(own) | {"fit": cost})


BASELINES: dict[str, MarginalsOfPeople | GanOfPeople] = {
    **{name: MarginalsOfPeople(way) for name, way in WAYS.items() if isinstance(way, Marginals) and not way.paper},
    "pate_gan": GanOfPeople(),
}
