"""Ways from people to synthetic transitions under the guarantee of a whole person: `Transitions` by noisy gradients,
weighted by histograms, and `Histograms` without a model. What is tuned is tuned in `TransitionsPlan.for_people`.
"""

import dataclasses
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, cast

from experiments.lib import vaults
from experiments.lib.experiment import Json, describe
from experiments.lib.table_cache import Columns, Notes, metered, rows_of
from experiments.privorl.parts.synthesis_fits import Scale, promised, tables_of
from experiments.privorl.parts.trajectory_domains import DELTA, People, general_matching, unit
from tacit.data.trajectories import Trajectories
from tacit.methods import synthesis
from tacit.methods.synthesis import Encoder, Pretraining
from tacit.methods.synthesis.baselines import matching_alone
from tacit.privacy.vault.vault import Vault

QUICK_PEOPLE, QUICK_POOL, QUICK_STEPS = 60, 500, {"steps": 100}
"""A step, synthetic rows to be weighted, and steps of pre-training, where little is computed."""


@dataclass(frozen=True)
class Transitions:
    """Transitions of people, with matching."""

    public: bool = True  # whether the model begins with public rows
    general: bool = False  # whether the histograms are those of any task
    alone: bool = False  # whether the vault holds a single person, which shows what noise alone makes
    private = True

    def configuration(self, here: People, epsilon: float, scale: Scale) -> Json:
        settings = planned(self.plan(here, epsilon, scale, public_seed=None))
        one = {"private_people": 1} if self.alone else {}
        return {"method": "diffusion", "plan": settings, "rows": scale.rows, **one}

    def plan(
        self, here: People, epsilon: float, scale: Scale, *, public_seed: int | None = 0
    ) -> synthesis.TransitionsPlan:
        matching = general_matching(here, public_seed) if self.general else here.matching(public_seed)
        begun = Pretraining(provenance=here.provenance, **(QUICK_STEPS if scale.quick else {}))
        plan = synthesis.TransitionsPlan.for_people(
            population=here.population,
            epsilon=epsilon,
            pretraining=begun if self.public else None,
            matching=dataclasses.replace(matching, pool=QUICK_POOL) if scale.quick else matching,
        )
        return dataclasses.replace(plan, steps=6, sampling_rate=QUICK_PEOPLE / here.population) if scale.quick else plan

    def made(self, here: People, epsilon: float, seed: int, scale: Scale) -> tuple[Columns, Notes]:
        plan, start = self.plan(here, epsilon, scale), None
        if plan.pretraining is not None:
            public = here.public(seed).columns
            start = synthesis.pretrain(plan, Encoder.from_public(here.spec, public), public, seed=seed)
        own = plan.calibrate(unit=unit(here), epsilon=epsilon, delta=DELTA)
        there: Any = dataclasses.replace(cast(Any, here), population=1) if self.alone else here
        with vault(here, own, there.people(seed)) as doors:
            value, cost = metered(lambda: synthesis.fit(own, doors, pretrained=start).value)
        columns, sampling = metered(lambda: value.sample_columns(scale.rows, seed=seed))
        return rows_of(columns), promised(own) | {"fit": cost, "sample": sampling}


@dataclass(frozen=True)
class Histograms:
    """Matching without a model."""

    private = True

    def configuration(self, here: People, epsilon: float, scale: Scale) -> Json:
        return {"method": "matching alone", "plan": planned(self.plan(here, scale, None)), "rows": scale.rows}

    def plan(self, here: People, scale: Scale, public_seed: int | None = 0) -> matching_alone.MatchingPlan:
        matching = here.matching(public_seed)
        return matching_alone.MatchingPlan(
            matching=dataclasses.replace(matching, pool=QUICK_POOL) if scale.quick else matching
        )

    def made(self, here: People, epsilon: float, seed: int, scale: Scale) -> tuple[Columns, Notes]:
        raw = self.plan(here, scale)
        own = raw.calibrate(unit=unit(here), epsilon=epsilon, delta=DELTA)
        with vault(here, own, here.people(seed)) as doors:
            value, cost = metered(lambda: matching_alone.fit(own, doors).value)
        columns, sampling = metered(lambda: value.sample_columns(scale.rows, seed=seed))
        return rows_of(columns), promised(own) | {"fit": cost, "sample": sampling}


TRANSITIONS: dict[str, Transitions | Histograms] = {
    "raked_by_gradients": Transitions(),
    "raked_of": Transitions(general=True),
    "noise_only": Transitions(alone=True),
    "raking_alone": Histograms(),
}


def planned(plan: Any) -> dict[str, Json]:
    """The settings of a plan before calibration; of its tables the columns and their bins, but not the bins' edges."""
    own = {name: value for name, value in describe(plan).items() if name not in ("type", "matching")}
    matching = None if plan.matching is None else tables_of(plan.matching)
    return {"type": type(plan).__name__, **own, "matching": matching}


def vault(here: People, plan: Any, people: Trajectories) -> AbstractContextManager[Vault]:
    return vaults.vault(people, unit(here), plan.epsilon, DELTA)
