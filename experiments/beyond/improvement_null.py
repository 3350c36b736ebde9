"""A world where nothing can be gained: how often `tacit improve` says that a gain is proven.

Eight columns of noise, four actions that were drawn at random, two visits, and one outcome of 0 or 1 at the end that no
action touches: the gain of any advice is exactly 0. A row's key is PEOPLE/EPSILON/BLOCK: 25 data sets, each with fresh
people, fresh noise and a ledger of its own, through the real vault. Advice is followed in 10 % of the visits.
"""

import time
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from scipy.stats import beta

from experiments.lib import vaults
from experiments.lib.check import Figures, at_most
from experiments.lib.experiment import Json, Store, command_line, describe, markdown, store_of
from tacit.data.memory import Memory
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.methods.improvement import ImprovementPlan, Problem, Statement, fit
from tacit.methods.improvement.statement import read_statement
from tacit.units import Unit

NAME = "improvement_null"
SETTINGS = ((5_000, 8.0), (5_000, 1.0), (20_000, 8.0))  # people and epsilon
SETS, BLOCK = 200, 25  # data sets of a setting, and of a row
COLUMNS, ACTIONS, HORIZON, ADVICE = 8, 4, 2, 0.1
MOST = 0.065  # of the data sets, "proven" may be wrong in: 5 % by the level, and three standard errors are 2 %


def spec() -> PublicSpec:
    return PublicSpec(
        observation=Box((-3.0,) * COLUMNS, (3.0,) * COLUMNS),
        action=Discrete(ACTIONS),
        reward=Box((0.0,), (1.0,)),
        propensities=True,
        source="declared",
    )


def columns(people: int, seed: int) -> Mapping[str, Any]:
    """Records, as `Trajectories.from_arrays` takes them."""
    generator = np.random.default_rng(seed)
    rows = people * HORIZON
    seen = np.clip(generator.standard_normal((rows, COLUMNS)), -3, 3).astype(np.float32)
    actions = generator.integers(0, ACTIONS, rows)
    paid, ended = np.zeros(rows, np.float32), np.zeros(rows, bool)
    paid[HORIZON - 1 :: HORIZON] = generator.random(people) < 0.5
    ended[HORIZON - 1 :: HORIZON] = True
    owner = np.repeat(np.arange(people), HORIZON)
    return {
        "observations": seen,
        "next_observations": np.roll(seen, -1, 0),
        "actions": actions,
        "rewards": paid,
        "terminations": ended,
        "propensities": np.full(rows, 1 / ACTIONS, np.float32),
        "unit_ids": owner,
        "episode_ids": owner,
    }


@cache
def planned() -> ImprovementPlan:
    """The plan, not calibrated: defaults but for the share of advice."""
    problem = Problem(gamma=1.0, horizon=HORIZON, return_range=(0.0, 1.0))
    return ImprovementPlan.of(spec(), problem, memory=Memory((1.0,) * COLUMNS), advice=ADVICE)


@cache
def calibrated(people: int, epsilon: float) -> ImprovementPlan:
    unit = Unit("patient", "add_or_remove", people)
    return planned().calibrate(unit=unit, epsilon=epsilon, delta=0.1 / people)


def rows() -> list[str]:
    blocks = range(SETS // BLOCK)
    return [f"{people}/{epsilon:g}/{block}" for block in blocks for people, epsilon in SETTINGS]


def configuration(key: str) -> Json:
    people, epsilon, _ = key.split("/")
    return {"plan": describe(planned()), "people": people, "epsilon": epsilon, "sets": BLOCK}


store = store_of(__file__, configuration, "the method's defaults")


def run_row(key: str, results: Store) -> None:
    people, epsilon, block = int(key.split("/")[0]), float(key.split("/")[1]), int(key.split("/")[2])
    plan = calibrated(people, epsilon)
    began = time.process_time()
    sums, sampled = [], []
    for place in range(BLOCK):
        data = Trajectories.from_arrays(
            **columns(people, 1_000_000 + BLOCK * block + place), spec=spec(), simulated=True
        )
        with vaults.vault(data, plan.unit, epsilon, plan.delta) as doors:
            value = fit(plan, doors).value
        sums.append([round(one, 9) for one in value.statement.sums])
        sampled.append(value.sampled)
    values = {"sums": sums, "sampled": sampled, "cpu_s": round(time.process_time() - began, 1)}
    results.put(key, dataset="simulated null world", seed=block, values=values)


def _said(results: Store, people: int, epsilon: float) -> list[Statement]:
    plan, found = calibrated(people, epsilon), []
    for block in range(SETS // BLOCK):
        if results.has(key := f"{people}/{epsilon:g}/{block}"):
            row = results.values(key)
            pairs = zip(row["sums"], row["sampled"], strict=True)
            found += [read_statement(tuple(sums), plan, (0.0, 1.0), sampled=sampled) for sums, sampled in pairs]
    return found


def figures() -> Figures:
    results = store()
    for people, epsilon in SETTINGS:
        said = _said(results, people, epsilon)
        if not said:
            raise LookupError(f"{NAME}: there is no row of {people} people at epsilon {epsilon:g}")
        proven, sets = sum(one.verdict == "proven" for one in said), len(said)
        what = f"no gain, {people:,} people, epsilon {epsilon:g}: share of {sets:,} data sets that prove one"
        yield at_most(what, proven / sets, MOST)


def table(results: Store) -> str:
    lines = []
    for people, epsilon in SETTINGS:
        said = _said(results, people, epsilon)
        if not said:
            continue
        sets, verdicts = len(said), [one.verdict for one in said]
        proven, clones = verdicts.count("proven"), verdicts.count("clone")
        above = sum(one.gain_interval.low > 0 for one in said)
        most = float(beta.ppf(0.99, proven + 1, sets - proven))
        cells = [f"{sets:,}", f"{proven} ({100 * proven / sets:.1f} %)", f"{100 * most:.1f} %", str(above), str(clones)]
        lines.append([f"{people:,} people, epsilon {epsilon:g}", *cells])
    heads = ["data sets", '"proven"', "upper 99 % limit", "bound above 0", "clone released"]
    return markdown(heads, lines) if lines else "not run"


if __name__ == "__main__":
    command_line(__file__)
