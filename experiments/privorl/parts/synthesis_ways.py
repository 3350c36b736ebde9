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

import dataclasses
import functools
import importlib
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import torch

from experiments.lib import vaults
from experiments.lib.experiment import Json, constants, describe
from experiments.lib.table_cache import Columns, Notes, kept, metered, rows_of
from experiments.privorl.parts.synthesis_domains import Domain, unit
from tacit.data.spec import PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.evaluation import fidelity
from tacit.methods import synthesis
from tacit.methods.synthesis import ablations, structured
from tacit.methods.synthesis.baselines import matching_alone, pate_gan
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.pretraining import PretrainedDenoiser
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit

ROWS = 100_000  # of every synthetic table


@dataclass(frozen=True)
class Scale:
    """How much is computed: everything, or (`--quick`) just enough to see that it runs."""

    quick: bool = False

    @property
    def rows(self) -> int:
        return 2_000 if self.quick else ROWS


FULL, QUICK = Scale(), Scale(quick=True)


@dataclass(frozen=True)
class Shown:
    """A table that nobody promises anything for: the real rows, or their columns permuted one by one."""

    permuted: bool = False
    private: bool = False

    def configuration(self, here: Domain, scale: Scale) -> Json:
        return {"method": "real rows", "permuted": self.permuted}

    def table(self, here: Domain, epsilon: float, seed: int, scale: Scale) -> tuple[Columns, Notes]:
        real = here.private(seed)
        return (fidelity.independent_columns(real, seed=seed) if self.permuted else real), {}


@dataclass(frozen=True)
class Diffusion:
    """tacit's method, or one ablation of it."""

    change: ablations.Name | None = None  # an ablation
    curiosity: float | None = None  # rate in pre-training
    # whether novel rows join the public batches of "Cur" (the authors' code), or take places in them
    append: bool = False
    matching: bool = False  # whether noisy tables are released besides, which its rows are weighted to match
    # whether these are the tables of any task (`TableMatching.of`), in place of those for points in a plane
    general: bool = False
    rows: int | None = None  # private rows at most; 1 shows what noise alone makes, 0 stops after the public rows

    @property
    def private(self) -> bool:
        return self.rows != 0 and self.change != "NonPriv"

    def configuration(self, here: Domain, scale: Scale) -> Json:
        return {
            "method": "diffusion",
            "plan": describe(self._without_matching(here, scale)),
            "matching": matching_settings(here, scale, self.general) if self.matching else None,
            "ablation": ablated(self.change),
            "private_rows": self.rows,
            "rows": scale.rows,
        }

    def plan(self, here: Domain, scale: Scale) -> synthesis.TransitionsPlan:
        """Before calibration, with the pre-training that is run."""
        plan = self._without_matching(here, scale)
        return dataclasses.replace(plan, matching=matching(here, scale, self.general)) if self.matching else plan

    def _without_matching(self, here: Domain, scale: Scale) -> synthesis.TransitionsPlan:
        plan = base(here, scale)
        if self.curiosity is not None:
            plan = ablations.with_curiosity(plan, synthesis.Curiosity(rate=self.curiosity))
        if self.change == "NonPre":
            return dataclasses.replace(plan, pretraining=None)
        curious = synthesis.Curiosity(mode="append_pool" if self.append else "replace")
        return ablations.with_curiosity(plan, curious) if self.change == "Cur" else plan

    def table(self, here: Domain, epsilon: float, seed: int, scale: Scale) -> tuple[Columns, Notes]:
        """Pre-train (or take what is kept), fit through the doors, sample."""
        plan = self.plan(here, scale)
        start, notes = pretrained(plan, here, seed)
        if self.rows == 0:
            return drawn(ablations.pretrained_synthesizer(plan, start), seed, scale, notes)
        own = _calibrated(self.change, plan, here, epsilon)
        return fitted(
            here, own, lambda doors: synthesis.fit(own, doors, pretrained=start), seed, scale, notes, self.rows
        )


@functools.cache
def _calibrated(
    change: ablations.Name | None, plan: synthesis.TransitionsPlan, here: Domain, epsilon: float
) -> synthesis.TransitionsPlan:
    if change in ("FineCur", "NonPriv"):
        return ablations.ablation(change, plan, unit=unit(here), epsilon=epsilon, delta=here.delta)
    return plan.calibrate(unit=unit(here), epsilon=epsilon, delta=here.delta)


def ablated(change: ablations.Name | None) -> Json:
    """What an ablation changes as the plan is calibrated; those of pre-training are in the plan."""
    if change == "FineCur":
        return {"name": change, "share": ablations.SHARE, "curiosity": describe(synthesis.Curiosity())}
    return {"name": change, "clip_norm": ablations.UNBOUNDED} if change == "NonPriv" else None


def base(here: Domain, scale: Scale) -> synthesis.TransitionsPlan:
    pretraining = synthesis.Pretraining(provenance=here.provenance)
    plan = synthesis.TransitionsPlan(**here.settings, pretraining=pretraining)
    if scale.quick:
        return dataclasses.replace(plan, steps=60, pretraining=dataclasses.replace(pretraining, steps=100))
    return plan


@functools.cache
def matching(here: Domain, scale: Scale, general: bool = False) -> synthesis.TableMatching:
    """The tables of a domain, with bins by the quantiles of one set of public rows."""
    make, settings = _matching_of(here, scale, general)
    return make(here.spec, **settings, public=here.public(0), provenance=here.provenance)


def _matching_of(
    here: Domain, scale: Scale, general: bool
) -> tuple[Callable[..., synthesis.TableMatching], dict[str, Any]]:
    """Who makes the tables of a domain, and in which settings they differ from the default ones."""
    flat = here.spec.observation.size == 4 and not general
    make = synthesis.TableMatching.plane if flat else synthesis.TableMatching.of
    return make, {"population": here.population} | ({"pool": 2 * scale.rows} if scale.quick else {})


@functools.cache
def matching_settings(here: Domain, scale: Scale, general: bool = False) -> Json:
    """The tables of a domain; where public rows move the edges of their bins, by the number of these alone."""
    make, settings = _matching_of(here, scale, general)
    return tables_of(make(here.spec, **settings))


def tables_of(tables: synthesis.TableMatching) -> dict[str, Json]:
    """What a matching is but for the edges of its bins: its settings, and of each table the columns and their bins."""
    named = [[[axis.column, axis.index, len(axis.edges) - 1] for axis in table] for table in tables.tables]
    own = {
        one.name: getattr(tables, one.name)
        for one in dataclasses.fields(tables)
        if one.name not in ("discretisation", "joint")
    }
    bins = {"decoding": tables.discretisation.decoding, **constants(type(tables.discretisation))}
    return {"type": type(tables).__name__, **describe(own), **bins, "tables": named}


def guarantee(promise: Unit, epsilon: float, delta: float) -> Json:
    return {"unit": describe(promise), "epsilon": epsilon if math.isfinite(epsilon) else "inf", "delta": delta}


def pretrained(plan: synthesis.TransitionsPlan, here: Domain, seed: int) -> tuple[PretrainedDenoiser, Notes]:
    """The public starting point of a seed, shared by every plan that pre-trains alike, and its cost."""
    if plan.pretraining is None:
        return synthesis.pretrain(plan, synthesis.Encoder.from_bounds(here.spec), None, seed=seed), {}

    def make() -> tuple[Columns, Notes]:
        rows = here.public(seed)
        encoder = synthesis.Encoder.from_public(here.spec, rows)
        found, cost = metered(lambda: synthesis.pretrain(plan, encoder, rows, seed=seed))
        sets = {"weights": found.weights, "average": found.average}
        arrays = {f"{kind}.{name}": tensor.numpy() for kind, one in sets.items() for name, tensor in one.items()}
        return arrays, {"pretrain": cost, "encoder": encoder.to_json()}

    network = {name: getattr(plan, name) for name in ("width", "depth", "harmonics", "P_mean", "P_std")}
    arrays, notes = kept(
        f"{here.name}/pretrained/{seed}",
        {"rows": here.rows, "network": network, "pretraining": describe(plan.pretraining)},
        make,
    )
    parts: dict[str, dict[str, torch.Tensor]] = {"weights": {}, "average": {}}
    for key, array in arrays.items():
        kind, _, name = key.partition(".")
        parts[kind][name] = torch.from_numpy(array.copy())
    encoder = synthesis.Encoder.from_json(notes["encoder"])
    start = PretrainedDenoiser(encoder, parts["weights"], parts["average"], plan.pretraining.provenance)
    return start, {"pretrain": notes["pretrain"]}


def vault(here: Domain, plan: Any, rows: Columns) -> AbstractContextManager[Vault]:
    data = Trajectories.from_arrays(**rows, unit_ids=":transition", spec=here.spec, simulated=True)  # type: ignore[arg-type]
    return vaults.vault(data, unit(here), plan.epsilon, here.delta)


def promised(plan: Any) -> Notes:
    return {
        "epsilon": plan.epsilon if math.isfinite(plan.epsilon) else "inf",
        "noise_multiplier": plan.noise_multiplier,
    }


def fitted(
    here: Domain, plan: Any, fit: Callable[[Vault], Any], seed: int, scale: Scale, notes: Notes, most: int | None = None
) -> tuple[Columns, Notes]:
    """A table of what is released by a calibrated plan, of so many private rows at most, and what it costs."""
    rows = {name: column[:most] for name, column in here.private(seed).items()}
    with vault(here, plan, rows) as doors:
        value, cost = metered(lambda: fit(doors).value)
    return drawn(value, seed, scale, notes | promised(plan) | {"fit": cost})


def drawn(value: Any, seed: int, scale: Scale, notes: Notes) -> tuple[Columns, Notes]:
    columns, cost = metered(lambda: value.sample_columns(scale.rows, seed=seed))
    return rows_of(columns), notes | {"sample": cost}


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
        words["epsilon"] = epsilon if math.isfinite(epsilon) else self.like
        raw, chosen = metered(lambda: structured.StructuredPlan.choose(here.spec, unit=unit(here), **words))
        own = vaults.calibrated(raw, unit(here), epsilon, here.delta)
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
