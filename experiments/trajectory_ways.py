"""How the experiments make synthetic data under the guarantee of a whole person.

tacit_j         whole trajectories: the transformer of `tacit.methods.synthesis.trajectories`, weighted by histograms
unet            the same with the temporal U-Net (PrivORL-j-U)
dp_transformer  the same, drawn row by row (DP-Transformer)
raked           transitions under the guarantee of a person, weighted by histograms
raking_alone    the histograms without a model: transitions
real            the private trajectories

All settings of trajectories are those of `trajectories.Plan.for_people`, and all of transitions those of
`synthesis.Plan.for_people`: what is tuned is tuned there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.synthesis_cache import Columns, Notes, kept, metered, rows_of
from experiments.synthesis_fits import CORE, DIFFUSION, FULL, MEMORY, Scale, promised
from experiments.trajectory_domains import DELTA, People, unit
from tacit.data.trajectories import Trajectories
from tacit.measure.sequences import Sequences
from tacit.methods import synthesis
from tacit.methods.synthesis import Encoder, Pretraining, trajectories
from tacit.methods.synthesis.baselines import raking_alone
from tacit.methods.synthesis.trajectories.plan import Network
from tacit.methods.synthesis.trajectories.pretraining import Pretrained
from tacit.privacy.ledger import Ledger
from tacit.privacy.vault import Vault

SOURCES = (*CORE, *DIFFUSION, "experiments/trajectory_ways.py")
QUICK_PEOPLE, QUICK_SAMPLES, QUICK_POOL = 60, 100, 500
"""A step, and synthetic trajectories and rows to be weighted, where little is computed."""
_EPISODES, _SEAMS = "episodes", "seams"


@dataclass(frozen=True)
class Table:
    """Rows that agents learn from, and the trajectories that they are of, where they are of any."""

    columns: Columns
    sequences: Sequences | None
    notes: Notes


@dataclass(frozen=True)
class Fragments:
    """Whole trajectories.

    Args:
        network: of fragments.
        horizon: rows of a fragment; None is the plan's own choice.
    """

    network: Network = "transformer"
    horizon: int | None = None
    private = True
    sources = (*SOURCES, "src/tacit/methods/synthesis/trajectories/*.py")

    def plan(self, here: People, scale: Scale) -> trajectories.Plan:
        """Before calibration."""
        raking = here.raking(0)
        plan = trajectories.Plan.for_people(
            population=here.population,
            longest=here.longest,
            episodes=here.episodes,
            horizon=self.horizon,
            network=self.network,
            provenance=here.provenance,
            raking=dataclasses.replace(raking, pool=QUICK_POOL) if scale.quick else raking,
        )
        if not scale.quick:
            return plan
        assert plan.pretraining is not None
        little = dataclasses.replace(plan.pretraining, steps=21, batch=32)
        rate = QUICK_PEOPLE / here.population
        return dataclasses.replace(plan, steps=6, start_steps=6, warmup=0, rate=rate, pretraining=little)

    def made(self, here: People, epsilon: float, seed: int, scale: Scale) -> tuple[Columns, Notes]:
        """Pre-train (or take what is kept), fit through the doors, sample."""
        plan = self.plan(here, scale)
        start, notes = pretrained(plan, here, seed)
        own = plan.calibrate(unit=unit(here), epsilon=epsilon, delta=DELTA)
        with vault(here, own, here.people(seed)) as doors:
            value, cost = metered(lambda: trajectories.fit(own, doors, pretrained=start).value)
        count = QUICK_SAMPLES if scale.quick else here.samples
        found, sampling = metered(lambda: value.sample_trajectories(count, seed=seed))
        columns = {**rows_of(found.columns), _EPISODES: found.episodes, _SEAMS: found.seams}
        return columns, notes | promised(own) | {"fit": cost, "sample": sampling}


@dataclass(frozen=True)
class Transitions:
    """Transitions of people, with raking.

    Args:
        public: whether the model begins with public rows.
    """

    public: bool = False
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


@dataclass(frozen=True)
class Real:
    """The private trajectories."""

    private = False
    sources = ("experiments/trajectory_ways.py",)


Way = Fragments | Transitions | Histograms | Real
WAYS: dict[str, Way] = {
    "real": Real(),
    "tacit_j": Fragments(),
    "raked": Transitions(),
    "dp_transformer": Fragments("autoregressive"),
    "unet": Fragments("unet"),
    "raking_alone": Histograms(),
    **{f"tacit_j_{horizon}": Fragments(horizon=horizon) for horizon in (8, 16, 64)},
}


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
    columns = {field: array for field, array in arrays.items() if field not in (_EPISODES, _SEAMS)}
    if _EPISODES not in arrays:
        return Table(columns, None, notes)
    return Table(columns, Sequences(columns, arrays[_EPISODES], arrays[_SEAMS]), notes)


def pretrained(plan: trajectories.Plan, here: People, seed: int) -> tuple[Pretrained, Notes]:
    """The public starting point of a seed, shared by every plan that pre-trains alike, and its cost."""
    assert plan.pretraining is not None

    def make() -> tuple[Columns, Notes]:
        public = here.public(seed)
        encoder = trajectories.public_encoder(here.spec, public)
        found, cost = metered(lambda: trajectories.pretrain(plan, encoder, public, seed=seed))
        parts = {"starts": found.starts, "fragments": found.fragments}
        arrays = {f"{part}.{name}": one.numpy() for part, all_of in parts.items() for name, one in all_of.items()}
        return arrays, {"pretrain": cost, "encoder": encoder.to_json()}

    bare = dataclasses.replace(plan, steps=1_000, start_steps=1_000, rate=1.0, clip=1.0, learning_rate=1.0, raking=None)
    like = hashlib.sha256(repr(bare).encode()).hexdigest()[:8]
    arrays, notes = kept(f"people/{here.name}/pretrained/{like}/{seed}", (*Fragments.sources, *here.sources), make)
    weights: dict[str, dict[str, torch.Tensor]] = {"starts": {}, "fragments": {}}
    for name, array in arrays.items():
        part, _, rest = name.partition(".")
        weights[part][rest] = torch.from_numpy(np.array(array))
    encoder = Encoder.from_json(notes["encoder"])
    start = Pretrained(encoder, weights["starts"], weights["fragments"], plan.pretraining.provenance)
    return start, {"pretrain": notes["pretrain"]}


@contextlib.contextmanager
def vault(here: People, plan: Any, people: Trajectories) -> Iterator[Vault]:
    """A vault of these people with a ledger in a folder that goes away, for one plan."""
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as folder,
        Ledger(Path(folder) / "one.ledger", unit(here), epsilon=plan.epsilon, delta=DELTA) as ledger,
    ):
        yield Vault(people, ledger)
