"""What the experiments on learning from experts share: logs of a population, one learning run, and what it is worth.

A field is a population of 3,000 experts with its logs, both of one seed. Logs of fast worlds are made where they are
needed and go away; those of slow ones stay under runs/experts/, and are made again where they are missing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.lib import vaults
from experiments.lib.experiment import ROOT, Json, describe
from tacit import experts as learning
from tacit.agents.stacked import StackedPolicies
from tacit.data.trajectories import Trajectories
from tacit.envs.gym_domain import GymDomain
from tacit.envs.serving import Actor
from tacit.methods.experts.learned import LearnedPolicies
from tacit.privacy.accounting.filters import SUM, Composition
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds import populations
from tacit_worlds.populations import ExpertActor, Kind, Name, World

EXPERTS, DELTA = 3_000, 1 / 6_000
KEPT = ROOT / "runs" / "experts"
Plan = learning.Votes | learning.ReturnWeighted | learning.Consensus


@dataclass(frozen=True)
class Size:
    """How much is logged and how well it is judged."""

    # trajectories, horizon: of each expert, and their steps
    trajectories: int = 20
    horizon: int = 200
    episodes: int = 200  # of a released policy
    judged: tuple[int, int] = (300, 2)  # how many experts are judged, and in how many episodes each
    shared: bool = False  # whether all seeds of a hundred have the population and the logs of the first of them
    kept: bool = False  # whether the logs are kept on disk


SIZES: dict[Name, Size] = {
    "cart_pole": Size(),
    "acrobot": Size(episodes=1_000),
    "lunar_lander": Size(8, 300, episodes=50, judged=(100, 1), shared=True, kept=True),
    "hiv": Size(20, 50, episodes=500),
}


def physics(name: Name) -> Json:
    """What decides what happens in a world, and what its experts are made of."""
    here = populations.world(name)
    domain: Any = here.domain
    if isinstance(domain, GymDomain):
        domain = {"type": type(domain).__name__, "name": domain.name, "options": domain._options}
    regulators = {"costs": populations.CART_POLE_COSTS, "doublings": populations.DOUBLINGS}
    carts = {**regulators, "variations": populations.GRIDS["cart_pole"]}
    return describe(
        {
            "domain": domain,
            "spec": here.spec,
            "evaluation": here.evaluation_horizon,
            "bounds": here.return_bounds,
            "gains": carts if name == "cart_pole" else populations.tuned_gains(name),
            "noise": {"good": populations.GOOD, "worst": populations.WORST},
            "floor": populations.FLOOR,
        }
    )


@dataclass(frozen=True)
class Field:
    """A population and its logs."""

    # name, kind: of the world and of the experts
    name: Name
    kind: Kind
    seed: int  # of both, and of the episodes in which policies are judged
    experts: int = EXPERTS  # m
    size: Size = Size()  # how much is logged

    @classmethod
    def of(cls, name: Name, kind: Kind, seed: int) -> Field:
        return cls(name, kind, seed, size=SIZES[name])

    def small(self) -> Field:
        """A tenth of the experts, with short logs."""
        size = replace(self.size, trajectories=8, horizon=30, episodes=4, judged=(4, 1), kept=False)
        return replace(self, experts=self.experts // 10, size=size)

    @property
    def words(self) -> str:
        size = self.size
        logged = f"{size.trajectories} trajectories of at most {size.horizon} steps each"
        who = f"{self.experts:,} {self.kind} experts of {self.name} (seed {self.population_seed})"
        return f"{who}, {logged}; judged in {size.episodes} episodes"

    @cached_property
    def world(self) -> World:
        return populations.world(self.name)

    @cached_property
    def population(self) -> StackedPolicies:
        return populations.population(self.world, self.kind, self.experts, seed=self.population_seed)

    @property
    def population_seed(self) -> int:
        return self.seed - self.seed % 100 if self.size.shared else self.seed

    @property
    def unit(self) -> Unit:
        return Unit("expert", "add_or_remove", self.experts)

    @contextlib.contextmanager
    def logs(self) -> Iterator[Path]:
        size = self.size
        stem = f"{self.name}-{self.kind}-{self.experts}x{size.trajectories}x{size.horizon}-{self.population_seed}"
        with tempfile.TemporaryDirectory(dir=vaults.MEMORY) as passing:
            folder = (KEPT if size.kept else Path(passing)) / stem
            if not folder.exists():
                self._write(folder)
            yield folder

    def _write(self, folder: Path) -> None:
        columns = populations.logs(
            self.world, self.population, self.size.trajectories, self.size.horizon, seed=self.population_seed
        )
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = folder.with_suffix(f".{os.getpid()}")
        Trajectories.from_arrays(**columns, spec=self.world.spec, simulated=True).save(partial)
        try:
            os.replace(partial, folder)
        except OSError:  # another process was first
            shutil.rmtree(partial)

    def calibrated(self, plan: Plan, epsilon: float | None) -> Plan:
        """The plan at this epsilon; with None, without noise. PlanError: a threshold is out of the experts' reach."""
        if epsilon is None:
            return replace(plan, noise_multiplier=0.0).account(unit=self.unit, delta=DELTA)
        return plan.calibrate(unit=self.unit, epsilon=epsilon, delta=DELTA)

    @contextlib.contextmanager
    def vault(
        self, logs: Path, *, replicates: int = 1, asked: bool = False, delta: float | None = None
    ) -> Iterator[Vault]:
        """A vault of the logs with R ledgers in a folder that goes away; they can pay for any number of plans.

        Args:
            logs: the folder.
            replicates: R.
            asked: whether the experts themselves can be asked.
            delta: for a single plan with parts that have a delta of their own.
        """
        many = Composition(1.0, 2.0) if delta is None else SUM
        terms: dict[str, Any] = {"epsilon": 1e6, "delta": delta or DELTA, "composition": many}
        with vaults.ledgers(self.unit, replicates, **terms) as ledgers:
            yield Vault(Trajectories.open(logs), ledgers, experts=self.population if asked else None)

    def learned(self, plan: Plan, logs: Path, replicates: int = 1, **arguments: Any) -> LearnedPolicies:
        """Learn under a calibrated or priced plan, through the doors of a vault of its own."""
        asked = isinstance(plan, learning.Consensus) and plan.releases_prefixes and plan.clone is None
        with self.vault(logs, replicates=replicates, asked=asked, delta=1.0000001 * DELTA) as doors:
            return learning.fit(plan, doors, **arguments).value

    def returns(self, actor: Actor, episodes: int | None = None, replicates: int = 1) -> npt.NDArray[np.float64]:
        """Mean undiscounted returns [R] of an actor's fresh episodes in the default setting."""
        number = episodes or self.size.episodes
        got = populations.returns(self.world, actor, number, seed=10_000 + self.seed, replicates=replicates)
        return np.asarray(got.mean(axis=1))

    def own_returns(self, some: int, episodes: int) -> npt.NDArray[np.float64]:
        """Mean returns [some] of the first experts' own best actions."""
        greedy = replace(self.population.take(slice(0, some)), floor=0.0)
        return self.returns(ExpertActor(greedy), episodes, replicates=some)
