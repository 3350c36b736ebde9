"""What might help tacit on half-cheetah at epsilon 1, tried on robots of other masses and gravity alone.

    python -m experiments.tune_half_cheetah_synthesis            # all rows; resumable; about an hour of CPU
    python -m experiments.tune_half_cheetah_synthesis --table    # what there is

A row is one agent (that of `table1_half_cheetah`) which learned from tacit's rows of one robot of
`tune_half_cheetah`, whose private rows come from the collector that was chosen there; it is judged on that robot.
Public rows are those of the table. HalfCheetah-v5, its rows and its seeds are never used.

default       the plan of the table
small         a network of half of the weights
short         a quarter of the noisy steps, with less noise in each
long public   four times as many public steps: more of the dynamics is learned before a private row is read
pairs         histograms of the columns that matter for running, two and three at once, beside those of one column
unraked       without histograms
million       five times as many people
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments import synthesis_fits as fits
from experiments import table1_half_cheetah as table1
from experiments import tune_half_cheetah
from experiments.configuration import Json, describe
from experiments.dppg_tables import markdown
from experiments.envs import half_cheetah
from experiments.queue import command_line
from experiments.store import RESULTS, ROOT, Store
from experiments.synthesis_agents import LOCOMOTION
from experiments.synthesis_cache import Columns, kept
from experiments.synthesis_domains import Values, unit
from experiments.tune_half_cheetah import ROBOTS, SEED, START_SEED
from tacit.agents.offline import train_tables
from tacit.envs.rollouts import Policies
from tacit.methods import synthesis
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.methods.synthesis.plan import TransitionsPlan

NAME, EPSILON = "tune_half_cheetah_synthesis", 1.0
Change = Callable[[TransitionsPlan], TransitionsPlan]


@dataclass(frozen=True)
class Other(table1.Replay):
    """Another robot, whose rows need no freezing."""

    robot: str = ROBOTS[0]
    name = "half_cheetah_other"

    def private(self, seed: int) -> Columns:
        """Its rows, collected once."""
        robot = tune_half_cheetah.robots()[self.robot]
        settings = {"robot": describe(robot), "collector": describe(self.collector), "population": self.population}
        name = f"{self.name}/{self.robot}/{self.population}"
        return kept(name, settings, lambda: (self.collector.rows(robot, self.population, SEED), {}))[0]

    def public(self, seed: int) -> Columns:
        """Those of the table."""
        found: Columns = table1.DOMAINS[table1.Replay.name].public(seed)
        return found

    def returns(self, policies: Policies, seed: int) -> Values:
        """On that robot."""
        robot = tune_half_cheetah.robots()[self.robot]
        return {"return": half_cheetah.evaluate(policies, seed=seed, robot=robot, **self.judge)}


def public_steps(plan: TransitionsPlan) -> TransitionsPlan:
    """Four times as many steps on public rows."""
    assert plan.pretraining is not None
    return dataclasses.replace(plan, pretraining=dataclasses.replace(plan.pretraining, steps=6_000))


def pairs(plan: TransitionsPlan) -> TransitionsPlan:
    """Histograms of the speed with reward and pitch, and of each torque with its joint's angle and change of speed."""
    raking = plan.raking
    assert raking is not None
    cut = Discretisation(raking.discretisation.spec, 8, "center")
    axes = {(axis.column, axis.index): axis for axis in cut.axes}
    changes = {axis.index: axis for axis in cut.axes if axis.column not in ("observations", "actions", "rewards")}
    seen = [axes["observations", k] for k in range(17)]
    speed, pitch, paid = seen[8], seen[1], axes["rewards", 0]
    joint = [(speed, paid), (speed, pitch), (speed, changes[8]), (pitch, changes[1])]
    for k in range(6):
        torque = axes["actions", k]
        joint += [(torque, changes[11 + k]), (torque, seen[2 + k]), (seen[2 + k], seen[11 + k])]
    return dataclasses.replace(plan, raking=dataclasses.replace(raking, joint=tuple(joint)))


SETTINGS: Mapping[str, tuple[Change, int]] = {
    "default": (lambda plan: plan, 200_000),
    "small": (lambda plan: dataclasses.replace(plan, width=48, depth=2), 200_000),
    "short": (lambda plan: dataclasses.replace(plan, steps=250), 200_000),
    "long public": (public_steps, 200_000),
    "pairs": (pairs, 200_000),
    "unraked": (lambda plan: dataclasses.replace(plan, raking=None), 200_000),
    "million": (lambda plan: dataclasses.replace(plan, sampling_rate=0.008), 1_000_000),
}


def rows() -> list[str]:
    """All keys, in the order in which they are run."""
    return [f"{robot}/{name}" for name, robot in itertools.product(SETTINGS, ROBOTS)]


def plan_of(key: str, scale: fits.Scale = fits.FULL) -> tuple[Other, TransitionsPlan]:
    """The robot of a row, and its plan before calibration."""
    robot, name = key.split("/")
    change, population = SETTINGS[name]
    here = Other(population=population, robot=robot)
    return here, change(fits.Diffusion(raking=True).plan(here, scale))


def configuration(key: str, scale: fits.Scale = fits.FULL) -> Json:
    """Everything that decides a row."""
    here, plan = plan_of(key, scale)
    raking = plan.raking
    return {
        "robot": describe(tune_half_cheetah.robots()[here.robot]),
        "collector": describe(here.collector),
        "population": here.population,
        "plan": describe(dataclasses.replace(plan, raking=None)),
        "raking": None if raking is None else fits.tables_of(raking),
        "guarantee": fits.guarantee(unit(here), EPSILON, here.delta),
        "agent": describe(LOCOMOTION[table1.AGENT]),
        "judge": describe(here.judge),
    }


def store(path: Path | None = None, *, quick: bool = False) -> Store:
    """The result file."""
    folder, scale = (ROOT / "runs" / "quick", fits.QUICK) if quick else (RESULTS, fits.FULL)
    asked = functools.partial(configuration, scale=scale)
    return Store(path or folder / f"{NAME}.json", asked, hyperparameters="each row's name holds what is tried")


def run_row(key: str, results: Store, *, quick: bool = False) -> None:
    """Make one row."""
    torch.set_num_threads(1)
    scale = fits.QUICK if quick else fits.FULL
    here, plan = plan_of(key, scale)
    start, _ = fits.pretrained(plan, here, SEED)
    own = plan.calibrate(unit=unit(here), epsilon=EPSILON, delta=here.delta)
    with fits.vault(here, own, here.private(SEED)) as doors:
        value = synthesis.fit(own, doors, pretrained=start).value
    table, notes = fits.drawn(value, SEED, scale, {})
    agent = LOCOMOTION[table1.AGENT]
    policy = train_tables([table], dataclasses.replace(agent, steps=100) if quick else agent, seeds=[SEED])[0]
    values = {
        "return": round(float(here.returns(policy, START_SEED)["return"][0]), 1),
        "noise_multiplier": own.noise_multiplier,
        "sample_cpu_s": notes["sample"]["cpu_s"],
    }
    results.put(key, dataset=f"replay on another robot ({here.robot})", seed=SEED, values=values)
    print(f"{key}: {values}", flush=True)


def table(results: Store) -> str:
    """A line a setting, a column a robot; real rows first."""
    real = tune_half_cheetah.store()
    agent = f"{table1.COLLECTOR}/{table1.AGENT}"
    lines = [["real rows", *(f"{real.values(f'{robot}/{agent}')['return']:.1f}" for robot in ROBOTS)]]
    for name in SETTINGS:
        found = [results.values(key)["return"] if results.has(key := f"{one}/{name}") else np.nan for one in ROBOTS]
        lines.append([name, *("" if np.isnan(one) else f"{one:.1f}" for one in found)])
    return markdown([f"{robot} robot" for robot in ROBOTS], lines)


def figures() -> list[Any]:
    """None: nothing is promised of a search."""
    return []


if __name__ == "__main__":
    command_line(sys.argv[1:], sys.modules[__name__], quick="few steps", table=table)
