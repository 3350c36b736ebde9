"""Ways from people to synthetic data under the guarantee of a whole person; `WAYS` at the end names them.

`Transitions` learn rows by noisy gradients and are weighted by histograms; `Histograms` have no model. What is tuned is
tuned in `TransitionsPlan.for_people`, and of whole trajectories in `trajectories.TrajectoriesPlan.for_people`:

tacit_j         networks that learned from many public worlds and see the private one by its histograms
                (`tacit.methods.synthesis.trajectories`), by which trajectories are weighted, too
raked           rows of such trajectories, each weighted by the histograms for itself
by_gradients    a transformer that learns by noisy gradients, weighted by histograms (PrivORL-j)
unet            the temporal U-Net by noisy gradients alone (PrivORL-j-U)
dp_transformer  rows drawn one by one (DP-Transformer), by one fragment a person and step: four cost four times as much
"""

import dataclasses
import functools
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

from experiments.lib import vaults
from experiments.lib.experiment import Json, describe
from experiments.lib.table_cache import Columns, Notes, kept, metered, rows_of
from experiments.privorl.parts.synthesis_ways import FULL, Scale, guarantee, key, promised, tables_of
from experiments.privorl.parts.trajectory_domains import DELTA, MazePeople, People, general_matching, unit
from tacit.data.trajectories import Trajectories
from tacit.evaluation.sequences import Sequences
from tacit.methods import synthesis
from tacit.methods.synthesis import Encoder, Pretraining, TableMatching, trajectories
from tacit.methods.synthesis.baselines import matching_alone
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.methods.synthesis.trajectories.plan import Network
from tacit.methods.synthesis.trajectories.pretraining import PretrainedModels
from tacit.privacy.mechanisms.releases import Axis
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


QUICK_SAMPLES = 100  # synthetic trajectories where little is computed
MAP = 24  # bins of either coordinate on the fine map of a maze
EPISODES, SEAMS = "episodes", "seams"


@dataclass(frozen=True)
class Fragments:
    """Whole trajectories."""

    network: Network = "transformer"  # of fragments
    horizon: int | None = None  # rows of a fragment; None is the plan's own choice
    told: bool = False  # whether histograms tell of the surroundings, and no gradient is taken of private rows
    rows: bool = False  # whether single rows come out
    private = True

    def configuration(self, here: People, epsilon: float, scale: Scale) -> Json:
        return {
            "method": "trajectories",
            "plan": planned(self.plan(here, scale, public_seed=None)),
            "public": describe(many(here).others if self.told else here.others),
            "rows": scale.rows if self.rows else None,
            "trajectories": None if self.rows else samples(here, scale),
        }

    def plan(self, here: People, scale: Scale, *, public_seed: int | None = 0) -> trajectories.TrajectoriesPlan:
        matching, radius = telling(here, public_seed) if self.told else (here.matching(public_seed), None)
        plan = trajectories.TrajectoriesPlan.for_people(
            population=here.population,
            longest=here.longest,
            episodes=here.episodes,
            horizon=self.horizon,
            network=self.network,
            provenance=here.provenance,
            matching=_few(matching, here) if scale.quick else matching,
            local_context=radius,
        )
        if not scale.quick:
            return plan
        plan = dataclasses.replace(plan, pretraining=dataclasses.replace(plan.pretraining, steps=21, batch=32))
        rate = QUICK_PEOPLE / here.population
        return plan if self.told else dataclasses.replace(plan, steps=6, start_steps=6, warmup=0, sampling_rate=rate)

    def made(self, here: People, epsilon: float, seed: int, scale: Scale) -> tuple[Columns, Notes]:
        plan = self.plan(here, scale)
        own = plan.calibrate(unit=unit(here), epsilon=epsilon, delta=DELTA)
        start, notes = pretrained(plan, here)
        with vault(here, own, here.people(seed)) as doors:
            value, cost = metered(lambda: trajectories.fit(own, doors, pretrained=start).value)
        if self.rows:
            columns, sampling = metered(lambda: value.sample_columns(scale.rows, seed=seed))
            return rows_of(columns), notes | promised(own) | {"fit": cost, "sample": sampling}
        found, sampling = metered(lambda: value.sample_trajectories(samples(here, scale), seed=seed))
        columns = {**rows_of(found.columns), EPISODES: found.episodes, SEAMS: found.stitches}
        return columns, notes | promised(own) | {"fit": cost, "sample": sampling}


FRAGMENTS: dict[str, Fragments] = {
    "tacit_j": Fragments(told=True),
    "raked": Fragments(told=True, rows=True),
    "by_gradients": Fragments(),
    **{f"tacit_j_{horizon}": Fragments(horizon=horizon, told=True) for horizon in (16, 32, 64)},
}


def samples(here: People, scale: Scale) -> int:
    return QUICK_SAMPLES if scale.quick else here.samples


def telling(here: People, public_seed: int | None = 0) -> tuple[TableMatching, int]:
    """Tables that tell of a place's surroundings, and up to how many bins around it: of a maze, a fine map besides."""
    matching, space = here.matching(public_seed), here.spec.observation
    if not isinstance(here, MazePeople):
        return matching, 1
    edges = [np.linspace(space.low[k], space.high[k], MAP + 1).tolist() for k in (0, 1)]
    map_of = tuple(Axis("observations", k, tuple(edges[k])) for k in (0, 1))
    return dataclasses.replace(matching, joint=(map_of, *matching.joint)), 3


def many(here: People) -> People:
    """The task with more public worlds and more people in each: histograms of few show the paths of each of them."""
    if isinstance(here, MazePeople):
        return dataclasses.replace(here, mazes=256, public_episodes=200)
    return dataclasses.replace(here, staffs=64, public_patients=400)


def _few(matching: TableMatching, here: People) -> TableMatching:
    """Tables with which even rows of networks that hardly learned can be made to agree."""
    return dataclasses.replace(
        matching, discretisation=Discretisation(here.spec, 4), joint=matching.joint[:1], pool=QUICK_POOL
    )


def pretrained(plan: trajectories.TrajectoriesPlan, here: People) -> tuple[PretrainedModels, Notes]:
    """The public starting point and its cost, for every plan that pre-trains alike: all seeds, promises, populations.

    It is trained once for everybody, as a public model is; what varies over seeds is what is private or drawn.
    Networks that look see public worlds through noise of many sizes, since the plan is not calibrated.
    """
    told, seed = plan.local_context is not None, 0

    def make() -> tuple[Columns, Notes]:
        public = many(here).worlds(seed) if told else here.public(seed)
        encoder = trajectories.public_encoder(here.spec, public)
        found, cost = metered(lambda: trajectories.pretrain(plan, encoder, public, seed=seed))
        parts = {"starts": found.starts, "fragments": found.fragments}
        arrays = {f"{part}.{name}": one.numpy() for part, all_of in parts.items() for name, one in all_of.items()}
        return arrays, {"pretrain": cost, "encoder": encoder.to_json()}

    steps: dict[str, Any] = {} if told else {"steps": 1_000, "start_steps": 1_000, "matching": None}
    bare = dataclasses.replace(plan, sampling_rate=1.0, clip_norm=1.0, learning_rate=1.0, **steps)
    world = here.layout if isinstance(here, MazePeople) else here.name
    rows = many(here).others if told else here.others
    arrays, notes = kept(f"people/{world}/pretrained", {"public": rows, "plan": describe(bare)}, make)
    weights: dict[str, dict[str, torch.Tensor]] = {"starts": {}, "fragments": {}}
    for name, array in arrays.items():
        part, _, rest = name.partition(".")
        weights[part][rest] = torch.from_numpy(np.array(array))
    encoder = Encoder.from_json(notes["encoder"])
    start = PretrainedModels(encoder, weights["starts"], weights["fragments"], plan.pretraining.provenance)
    return start, {"pretrain": notes["pretrain"]}


@dataclass(frozen=True)
class Published(Fragments):
    """Whole trajectories as they are drawn."""

    def plan(self, here: People, scale: Scale, *, public_seed: int | None = 0) -> trajectories.TrajectoriesPlan:
        plan = dataclasses.replace(super().plan(here, scale, public_seed=public_seed), matching=None)
        return dataclasses.replace(plan, fragments_per_unit=1) if self.network == "autoregressive" else plan


RIVALS: dict[str, Published] = {"unet": Published("unet"), "dp_transformer": Published("autoregressive")}


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
