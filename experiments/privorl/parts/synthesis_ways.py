"""How the experiments make synthetic transitions: tacit's method with its ablations, the baselines, and the controls.

raked              the default plan of `tacit.synthesis`, with weights that match noisy tables (a name that stored rows
                   keep); raked_of has the histograms of any task (`TableMatching.of`), not those for points in a plane
structured         tables that public rows choose: the default where these are there
raking_alone       the histograms without a model
tacit              the default plan without matching, as all ablations are (`tacit.methods.synthesis.ablations`)
mst, aim, privsyn  marginals at their best public bins; `aim_3` knows three columns at once,
                   `aim_wide` is for rows of many columns; pgm_paper is PGM as the paper ran it
pre_pate_gan       a GAN behind noisy votes with public pre-training that is kept
pretraining        public rows alone; noise_only: tacit's plan on a vault that holds a single row
independent        the real columns, each permuted by itself: marginals without structure, no privacy at all
"""

import functools
import importlib
import math
from dataclasses import dataclass, replace
from typing import Any

from experiments.lib.experiment import Json, describe
from experiments.lib.table_cache import Columns, Notes, kept, metered
from experiments.privorl.parts.synthesis_domains import Domain, unit
from experiments.privorl.parts.synthesis_fits import (
    FULL,
    Diffusion,
    Scale,
    Shown,
    fitted,
    guarantee,
    matching,
    matching_settings,
)
from tacit.data.spec import PublicSpec
from tacit.methods.synthesis import structured
from tacit.methods.synthesis.baselines import matching_alone, pate_gan
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.methods.synthesis.encoding import Encoder


@dataclass(frozen=True)
class Marginals:
    """A baseline that knows the private table by noisy marginals."""

    module: str  # in `tacit.methods.synthesis.baselines`
    plan: str  # name of its plan
    bins: int = 32  # of a continuous column
    settings: tuple[tuple[str, int], ...] = ()  # in which the plan differs from its defaults
    paper: bool = False  # whether the plan is the one that the paper ran
    private: bool = True

    def configuration(self, here: Domain, scale: Scale) -> Json:
        plan = self.planned(here.spec, Discretisation(here.spec, self.bins))
        return {"method": self.module, "plan": describe(plan), "public_bins": not self.paper, "rows": scale.rows}

    def table(self, here: Domain, epsilon: float, seed: int, scale: Scale) -> tuple[Columns, Notes]:
        module = self.imported()
        raw = self.planned(here.spec, None if self.paper else _cut(here, seed, self.bins))
        own = raw.calibrate(unit=unit(here), epsilon=epsilon, delta=here.delta)
        return fitted(here, own, lambda doors: module.fit(own, doors, seed=seed), seed, scale, {})

    def imported(self) -> Any:
        return importlib.import_module(f"tacit.methods.synthesis.baselines.{self.module}")

    def planned(self, spec: PublicSpec, cut: Discretisation | None) -> Any:
        plan = getattr(self.imported(), self.plan)
        return plan.paper(spec) if self.paper else plan(discretisation=cut, **dict(self.settings))


@dataclass(frozen=True)
class Structured:
    """Structured tables that public rows choose, those of each public world apart where the domain keeps them apart.

    At an infinite epsilon no noise is added to the tables that are chosen for `like`: what the noise alone costs there.
    """

    like: float = 10.0
    private: bool = True

    def configuration(self, here: Domain, scale: Scale) -> Json:
        return {"method": "structured", "rows": scale.rows}

    def table(self, here: Domain, epsilon: float, seed: int, scale: Scale) -> tuple[Columns, Notes]:
        apart = getattr(here, "worlds", None)
        worlds = [here.public(seed)] if apart is None else apart(seed)
        words: dict[str, Any] = {"worlds": worlds, "provenance": here.provenance}
        noisy = math.isfinite(epsilon)
        words["epsilon"] = epsilon if noisy else self.like
        raw, chosen = metered(lambda: structured.StructuredPlan.choose(here.spec, unit=unit(here), **words))
        if noisy:
            own = raw.calibrate(unit=unit(here), epsilon=epsilon, delta=here.delta)
        else:
            own = replace(raw, noise_multiplier=0.0).account(unit=unit(here), delta=here.delta)
        means, notes = structured.public_means(own.structure, worlds), {"pretrain": chosen}
        return fitted(here, own, lambda doors: structured.fit(own, doors, means=means, seed=seed), seed, scale, notes)


@functools.lru_cache(maxsize=2)
def _cut(here: Domain, seed: int, bins: int) -> Discretisation:
    return Discretisation.from_public(here.spec, here.public(seed), provenance=here.provenance, bins=bins)


@dataclass(frozen=True)
class Gan:
    """PATE-GAN, or with public pre-training PrePATE-GAN."""

    public: bool = False
    private: bool = True

    def configuration(self, here: Domain, scale: Scale) -> Json:
        return {"method": "pate_gan", "plan": describe(self.planned(here.provenance, scale)), "rows": scale.rows}

    def planned(self, provenance: str, scale: Scale) -> pate_gan.PateGanPlan:
        raw = pate_gan.PateGanPlan(steps=10, hold=2) if scale.quick else pate_gan.PateGanPlan()
        if not self.public:
            return raw
        steps = {"steps": 20} if scale.quick else {}
        return replace(raw, pretraining=pate_gan.GanPretraining(provenance=provenance, **steps))

    def table(self, here: Domain, epsilon: float, seed: int, scale: Scale) -> tuple[Columns, Notes]:
        raw = self.planned(here.provenance, scale)
        start, notes = _begun(raw, here, seed) if self.public else (None, {})
        own = raw.calibrate(unit=unit(here), epsilon=epsilon, delta=here.delta)
        return fitted(
            here, own, lambda doors: pate_gan.fit(own, doors, pretrained=start, seed=seed), seed, scale, notes
        )


@functools.lru_cache(maxsize=1)
def _begun(plan: pate_gan.PateGanPlan, here: Domain, seed: int) -> tuple[pate_gan.PretrainedGan, Notes]:
    rows = here.public(seed)
    encoder = Encoder.from_public(here.spec, rows)
    found, cost = metered(lambda: pate_gan.pretrain_gan(plan, encoder, rows, seed=seed))
    return found, {"pretrain": cost}


@dataclass(frozen=True)
class Histograms:
    """Matching without a model."""

    private: bool = True

    def configuration(self, here: Domain, scale: Scale) -> Json:
        return {"method": "matching alone", "matching": matching_settings(here, scale), "rows": scale.rows}

    def table(self, here: Domain, epsilon: float, seed: int, scale: Scale) -> tuple[Columns, Notes]:
        raw = matching_alone.MatchingPlan(matching=matching(here, scale))
        own = raw.calibrate(unit=unit(here), epsilon=epsilon, delta=here.delta)
        return fitted(here, own, lambda doors: matching_alone.fit(own, doors), seed, scale, {})


Way = Shown | Diffusion | Marginals | Structured | Gan | Histograms
WAYS: dict[str, Way] = {
    "real": Shown(),
    "raked": Diffusion(matching=True),
    "raked_of": Diffusion(matching=True, general=True),
    "tacit": Diffusion(),
    "structured": Structured(),
    "mst": Marginals("mst", "MstPlan"),
    "pgm_paper": Marginals("pgm", "PgmPlan", paper=True),
    "aim": Marginals("aim", "AimPlan", bins=40, settings=(("cells", 2**20),)),
    "aim_3": Marginals("aim", "AimPlan", bins=40, settings=(("cells", 2**20), ("degree", 3))),
    "aim_wide": Marginals("aim", "AimPlan", bins=16, settings=(("rounds", 2),)),
    "privsyn": Marginals("privsyn", "PrivSynPlan"),
    "pate_gan": Gan(),
    "pre_pate_gan": Gan(public=True),
    "raking_alone": Histograms(),
    "pretraining": Diffusion(rows=0),
    "noise_only": Diffusion(matching=True, rows=1),
    "independent": Shown(permuted=True),
    "non_pre": Diffusion("NonPre"),
    "cur": Diffusion("Cur"),
    "cur_append": Diffusion("Cur", append=True),
    "fine_cur": Diffusion("FineCur"),
    "non_priv": Diffusion("NonPriv"),
    "cur_50": Diffusion(curiosity=0.5),
}


def at(way: str, epsilon: float) -> float:
    """The epsilon of a way's promise; 0 where it makes none, or is no way to make a table."""
    return epsilon if way in WAYS and WAYS[way].private else 0.0


def key(here: str, way: str, epsilon: float, seed: int) -> str:
    """Of a table: its epsilon is that of its promise, 0 where there is none."""
    return f"{here}/{way}/{epsilon:g}/{seed}"


@functools.cache
def configuration(here: Domain, way: str, epsilon: float, scale: Scale = FULL) -> dict[str, Json]:
    found = WAYS[way]
    promise = guarantee(unit(here), epsilon, here.delta) if found.private else None
    return {"domain": here.rows, "table": found.configuration(here, scale), "guarantee": promise}


def table(here: Domain, way: str, epsilon: float, seed: int, scale: Scale = FULL) -> tuple[Columns, Notes]:
    """A table of rows and its cost, made once."""
    found = WAYS[way]
    if isinstance(found, Shown):
        return found.table(here, epsilon, seed, scale)
    name = key(here.name, way, epsilon, seed) + ("/quick" if scale.quick else "")
    return kept(name, configuration(here, way, epsilon, scale), lambda: found.table(here, epsilon, seed, scale))
