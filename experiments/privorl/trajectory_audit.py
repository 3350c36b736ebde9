"""Is the promise for whole histories kept? Canary people in the training of trajectories, told by its noisy gradients.

Every person of a run takes part in each of its few steps, so that a run is a Gaussian mechanism and nothing of the
promise is lost in a bound on sampling. Of eight canary people, whose whole history is one leap that no world produces,
each is in with probability 1/2, among four ordinary ones (the fewer they are the more an auditor sees). The auditor
sees every noisy gradient of the fragments. Half of all scores choose a threshold, the others give the bound at 95 %,
which must reach half of the promise and not exceed it. `no clipping` is the broken twin: the same code and certificate.
"""

import contextlib
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
from torch import Tensor, nn

from experiments.lib import vaults
from experiments.lib.check import Figures, at_least, at_most
from experiments.lib.experiment import Json, Store, command_line, describe, store_of
from experiments.lib.table_cache import defaults
from experiments.lib.unit_scores import UnitScores
from experiments.privorl.parts.synthesis_ways import guarantee
from tacit.data.trajectories import Trajectories
from tacit.evaluation.canaries import leap_histories
from tacit.evaluation.lower_bounds import LowerBounds, audit
from tacit.methods.synthesis import trajectories
from tacit.methods.synthesis.encoding import Encoder
from tacit.methods.synthesis.trajectories.models import FragmentLoss, FragmentModel, fragment_model
from tacit.methods.synthesis.trajectories.plan import FRAGMENTS
from tacit.privacy.gradients import clipping
from tacit.units import Unit
from tacit_worlds import maze
from tacit_worlds.maze import LONGEST, SHORTEST, goal_episodes
from tacit_worlds.maze_layouts import LAYOUTS

MAZE, OTHERS, CANARIES, PUBLIC, ROWS = "umaze", 4, 8, 4, 160
EPSILON, DELTA = 10.0, 1e-6
RUNS = {"tacit": 300, "no clipping": 10}
UNIT = Unit("person", "add_or_remove", 10_000)
"""Most are not in these runs: the public population only sets what sums are divided by."""
INCLUDED = 0.5  # chance of a canary person


def rows() -> list[str]:
    return [f"{way}/{seed}" for way, count in RUNS.items() for seed in range(count)]


def plan() -> trajectories.TrajectoriesPlan:
    """Before calibration: a small network, eight fragments a person, draws nearly alike, and all in all nine steps."""
    return trajectories.TrajectoriesPlan(
        steps=8,
        start_steps=1,
        warmup=0,
        sampling_rate=1.0,
        horizon=8,
        fragments_per_unit=8,
        noise_multiplicity=8,
        P_std=0.2,  # what a person adds can be expected then
        width=32,
        depth=1,
        start_width=16,
        start_depth=1,
    )


def configuration(key: str) -> dict[str, Json]:
    return {
        "way": key.split("/")[0],
        "plan": describe(plan()),
        "guarantee": guarantee(UNIT, EPSILON, DELTA),
        "people": {
            "layout": describe(LAYOUTS[MAZE]),
            "ordinary": OTHERS,
            "shortest": SHORTEST,
            "longest": LONGEST,
            "collect": defaults(maze.collect),
        },
        "canaries": {"people": CANARIES, "rows": ROWS, "included": INCLUDED},
        "auditor": {"public": PUBLIC, **defaults(UnitScores)},
    }


store = store_of(__file__, configuration, "defaults of the plan, smaller; those of the audit: canaries alone")


@contextlib.contextmanager
def unclipped() -> Iterator[None]:
    """The broken twin: nobody's contribution is scaled."""
    with mock.patch.object(clipping, "coefficients", lambda norms, clip: norms * 0 + 1):
        yield


def people(known: Trajectories, canaries: dict[str, np.ndarray], present: np.ndarray) -> Trajectories:
    """The ordinary people, and behind them the canaries that are present."""
    own = known.columns
    kept = np.isin(canaries["unit_ids"], np.flatnonzero(present))
    columns: dict[str, Any] = {name: np.concatenate([own[name], canaries[name][kept]]) for name in own}
    ordinary = np.repeat(np.arange(len(known.episodes) - 1), np.diff(known.episodes))
    ids = np.concatenate([ordinary, len(known.episodes) - 1 + canaries["unit_ids"][kept]])
    return Trajectories.from_arrays(**columns, unit_ids=ids, spec=known.spec, simulated=True)


def run(way: str, seed: int) -> dict[str, Any]:
    began, layout = time.process_time(), LAYOUTS[MAZE]
    small = plan().calibrate(unit=UNIT, epsilon=EPSILON, delta=DELTA)
    known = goal_episodes(layout, OTHERS, seed=1_000 + seed)
    columns: dict[str, Any] = leap_histories(known.spec, CANARIES, rows=ROWS, seed=seed)
    present = np.random.default_rng([seed, 7]).random(CANARIES) < INCLUDED
    everyone = Trajectories.from_arrays(**columns, spec=known.spec, simulated=True)
    part = next(part for part in small.parts() if part.name == FRAGMENTS)
    codec = fragment_model(small, Encoder.from_bounds(known.spec)).codec
    seen = UnitScores(
        part,
        FragmentLoss.of(small, codec),
        everyone,
        goal_episodes(layout, PUBLIC, seed=2_000 + seed),
        expected=part.divisor(UNIT),
        seed=seed,
    )

    def observe(step: int, model: nn.Module, gradient: Tensor) -> None:
        if isinstance(model, FragmentModel):
            seen(step, model, gradient)

    broken = unclipped() if way == "no clipping" else contextlib.nullcontext()
    with vaults.vault(people(known, columns, present), UNIT, EPSILON, DELTA) as doors, broken:
        trajectories.fit(small, doors, observe=observe)
    return {
        "present": "".join("01"[int(p)] for p in present),
        "scores": [float(f"{score:.5g}") for score in seen.summed_scores()],
        "noise_multiplier": part.noise_multiplier,
        "cpu_s": round(time.process_time() - began, 1),
    }


def found(results: Store, way: str, runs: int) -> LowerBounds:
    rows = [results.values(f"{way}/{seed}") for seed in range(runs)]
    present = np.array([[bit == "1" for bit in row["present"]] for row in rows])
    scores = np.array([row["scores"] for row in rows])
    return audit(scores[~present], scores[present], delta=DELTA)


def figures() -> Figures:
    results = store()
    own, twin = (found(results, way, runs).gaussian_epsilon for way, runs in RUNS.items())
    yield at_least("canary people: audited epsilon over half of what is promised", own, EPSILON / 2)
    yield at_most("canary people: audited epsilon under what is promised", own, EPSILON)
    yield at_least("nothing clipped: audited epsilon over what is promised", twin, EPSILON)


def run_row(key: str, results: Store) -> None:
    way, seed = key.rsplit("/", 1)
    words = f"{MAZE}: {OTHERS} people and {CANARIES} canaries, seed {seed}"
    results.put(key, dataset=words, seed=int(seed), values=run(way, int(seed)))


if __name__ == "__main__":
    command_line(__file__)
