"""What the experts are worth in the default worlds, as figure 2 of the paper shows it (Sharma et al.).

A cell is a population of 3,000 parametric experts (`tacit_worlds.populations`): the mean return of each when it plays
greedily to the evaluation horizon (`greedy`), and when it logs with its floor of 0.02 to the horizon of the logs
(`logged`). Experts are those of seed 0, which the other experiments learn from; the episodes are of seeds that nothing
else uses.
"""

from dataclasses import replace
from typing import Any, get_args

import numpy as np

from experiments.experts.experts_runs import physics
from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Json, Store, command_line, store_of
from tacit_worlds.populations import ExpertActor, Kind, Name, population, returns, world

EXPERTS, SEED, EPISODES = 3_000, 0, 52_100
PLAYED: dict[Name, int] = {"cart_pole": 10, "acrobot": 10, "hiv": 4, "lunar_lander": 3}  # episodes of each expert
SHOWN: dict[Name, tuple[float, float]] = {  # range of the returns
    "cart_pole": (0.0, 1_000.0),
    "acrobot": (-500.0, 0.0),
    "lunar_lander": (-600.0, 300.0),
    "hiv": (0.0, 250.0),
}


def configuration(key: str) -> Json:
    name, kind = key.split("/")
    public = {"world": name, "kind": kind, "experts": EXPERTS, "episodes": PLAYED[name], "horizon": world(name).horizon}
    return public | {"physics": physics(name)}


store = store_of(__file__, configuration, "noise of the gains as in the prototypes, none tuned here")


def rows() -> list[str]:
    return [f"{name}/{kind}" for name in PLAYED for kind in get_args(Kind)]


def run_row(key: str, results: Store) -> None:
    name, kind = key.split("/")
    results.put(key, dataset="simulated", seed=SEED, values=row(name, kind, EXPERTS, PLAYED[name]))


def row(name: Name, kind: Kind, experts: int, episodes: int) -> dict[str, Any]:
    here = world(name)
    logging = population(here, kind, experts, seed=SEED)
    acting = ExpertActor(replace(logging, floor=0.0))
    greedy = returns(here, acting, episodes, seed=EPISODES, replicates=experts)
    logged = returns(here, ExpertActor(logging), episodes, seed=EPISODES + 1, replicates=experts, horizon=here.horizon)
    return {name: np.round(paid.mean(axis=1), 2).tolist() for name, paid in (("greedy", greedy), ("logged", logged))}


def figures() -> Figures:
    results = store()
    for name in SHOWN:
        good, mixed = (np.array(results.values(f"{name}/{kind}")["greedy"]) for kind in get_args(Kind))
        low, high = SHOWN[name]
        middle = float(np.median(good))
        poor = middle - 0.25 * (high - low)
        yield at_least(
            f"{name}: share of good experts within a quarter of the range of their median", _share(good, poor), 0.8
        )
        yield at_least(f"{name}: share of mixed experts worse than that", 1.0 - _share(mixed, poor), 0.15)
        yield at_least(f"{name}: share of mixed experts as good as that", _share(mixed, poor), 0.3)


def _share(paid: np.ndarray, least: float) -> float:
    return float(np.mean(paid >= least))


if __name__ == "__main__":
    command_line(__file__)
