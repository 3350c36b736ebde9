"""How the experiments fit tacit's own method, and what every method's fit shares: a vault, a ledger, notes of costs.

Hyper-parameters are the defaults of the plan, which were chosen on public layouts, and the changes of a domain.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from experiments.lib import vaults
from experiments.lib.experiment import Json, constants, describe
from experiments.lib.table_cache import Columns, Notes, kept, metered, rows_of
from experiments.privorl.parts.synthesis_domains import Domain, unit
from tacit.data.trajectories import Trajectories
from tacit.evaluation import fidelity
from tacit.methods import synthesis
from tacit.methods.synthesis import ablations
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
