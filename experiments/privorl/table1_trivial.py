"""What policies return that learned nothing: the control beside every return in a maze.

`push` is the best of eight constant actions, chosen by what it returns; `straight` runs at the goal as if there were no
walls. They know the goal, which no agent of `table1_transitions` does; same starts. An agent below the push has learned
nothing of its maze, whatever its share of the real rows' return. `far` starts tell more, since walls lie on their way.
"""

from collections.abc import Sequence

import numpy as np

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Json, Store, command_line, describe, store_of
from experiments.lib.statistics import iqm
from experiments.privorl import table1_transitions as table1
from experiments.privorl.parts.synthesis_agents import TRIVIAL
from experiments.privorl.parts.synthesis_domains import DOMAINS
from experiments.privorl.parts.synthesis_mazes import Maze

SEEDS = table1.SEEDS["own"]
AGAIN = (10, 11, 12, 13, 14)  # of `table1_mazes`
MAZES = {name: here for name, here in DOMAINS.items() if isinstance(here, Maze)}


def configuration(key: str) -> dict[str, Json]:
    domain, policy, _ = key.split("/")
    here = MAZES[domain]
    made = TRIVIAL[policy](here.layout)
    return {"maze": describe(here.layout), "policy": {**describe(made), "members": made.members}, "judge": here.judge}


store = store_of(__file__, configuration, "none: nothing is learned")


def rows() -> list[str]:
    return [f"{domain}/{policy}/{seed}" for domain in MAZES for seed in (*SEEDS, *AGAIN) for policy in TRIVIAL]


def run_row(key: str, results: Store) -> None:
    domain, policy, word = key.split("/")
    here, seed = MAZES[domain], int(word)
    found = here.returns(TRIVIAL[policy](here.layout), seed)
    best = int(found["return"].argmax())
    values = {name: round(float(one[best]), 2) for name, one in found.items()}
    results.put(key, dataset=f"starts in {domain}, seed {seed}", seed=seed, values=values)


def returns(results: Store, domain: str, policy: str, seeds: Sequence[int] = SEEDS) -> np.ndarray:
    return np.array([results.values(f"{domain}/{policy}/{seed}")["return"] for seed in seeds])


def figures() -> Figures:
    results, kept = store(), table1.store()
    for domain in table1.PROMISED:
        agents = next(part.agents for part in table1.parts(domain) if part.group == "own")
        own = np.stack([table1.returns(kept, domain, agent, table1.OWN, 10.0) for agent in agents], axis=1)
        lead = iqm(own) - iqm(returns(results, domain, "push"))
        yield at_least(f"{domain}, epsilon 10: tacit's return less that of the best constant push", lead, 0.0)


if __name__ == "__main__":
    command_line(__file__)
