"""Ways from people to synthetic transitions under the guarantee of a whole person.

raked_by_gradients  the diffusion model of transitions, which learns by noisy gradients, weighted by histograms
raking_alone        the histograms without a model

All settings are those of `synthesis.Plan.for_people`: what is tuned is tuned there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.synthesis_cache import Columns, Notes, metered, rows_of
from experiments.synthesis_fits import CORE, DIFFUSION, MEMORY, Scale, promised
from experiments.trajectory_domains import DELTA, People, unit
from tacit.data.trajectories import Trajectories
from tacit.methods import synthesis
from tacit.methods.synthesis import Encoder, Pretraining
from tacit.methods.synthesis.baselines import raking_alone
from tacit.privacy.ledger import Ledger
from tacit.privacy.vault import Vault

SOURCES = (*CORE, *DIFFUSION, "experiments/trajectory_transitions.py")
QUICK_PEOPLE, QUICK_POOL = 60, 500
"""A step, and synthetic rows to be weighted, where little is computed."""


@dataclass(frozen=True)
class Transitions:
    """Transitions of people, with raking.

    Args:
        public: whether the model begins with public rows.
    """

    public: bool = True
    private = True
    sources = SOURCES

    def plan(self, here: People, epsilon: float, scale: Scale) -> synthesis.Plan:
        """Before calibration."""
        raking = here.raking(0)
        plan = synthesis.Plan.for_people(
            population=here.population,
            epsilon=epsilon,
            pretraining=Pretraining(provenance=here.provenance) if self.public else None,
            raking=dataclasses.replace(raking, pool=QUICK_POOL) if scale.quick else raking,
        )
        return dataclasses.replace(plan, steps=6, rate=QUICK_PEOPLE / here.population) if scale.quick else plan

    def made(self, here: People, epsilon: float, seed: int, scale: Scale) -> tuple[Columns, Notes]:
        """Pre-train, fit through the doors, sample."""
        plan, start = self.plan(here, epsilon, scale), None
        if plan.pretraining is not None:
            public = here.public(seed).columns
            start = synthesis.pretrain(plan, Encoder.from_public(here.spec, public), public, seed=seed)
        own = plan.calibrate(unit=unit(here), epsilon=epsilon, delta=DELTA)
        with vault(here, own, here.people(seed)) as doors:
            value, cost = metered(lambda: synthesis.fit(own, doors, pretrained=start).value)
        columns, sampling = metered(lambda: value.sample_columns(scale.rows, seed=seed))
        return rows_of(columns), promised(own) | {"fit": cost, "sample": sampling}


@dataclass(frozen=True)
class Histograms:
    """Raking without a model."""

    private = True
    sources = (*SOURCES, "src/tacit/methods/synthesis/baselines/raking_alone.py")

    def made(self, here: People, epsilon: float, seed: int, scale: Scale) -> tuple[Columns, Notes]:
        """Fit through the doors, sample."""
        raking = here.raking(0)
        raw = raking_alone.RakingPlan(raking=dataclasses.replace(raking, pool=QUICK_POOL) if scale.quick else raking)
        own = raw.calibrate(unit=unit(here), epsilon=epsilon, delta=DELTA)
        with vault(here, own, here.people(seed)) as doors:
            value, cost = metered(lambda: raking_alone.fit(own, doors).value)
        columns, sampling = metered(lambda: value.sample_columns(scale.rows, seed=seed))
        return rows_of(columns), promised(own) | {"fit": cost, "sample": sampling}


TRANSITIONS: dict[str, Transitions | Histograms] = {
    "raked_by_gradients": Transitions(),
    "raking_alone": Histograms(),
}


@contextlib.contextmanager
def vault(here: People, plan: Any, people: Trajectories) -> Iterator[Vault]:
    """A vault of these people with a ledger in a folder that goes away, for one plan."""
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as folder,
        Ledger(Path(folder) / "one.ledger", unit(here), epsilon=plan.epsilon, delta=DELTA) as ledger,
    ):
        yield Vault(people, ledger)
