"""Table II of PrivORL with a guarantee for whole people: agents trained on what was synthesized, judged in the task.

Each seed has people, noise, samples, agent and starts of its own; networks of fragments are pre-trained on public
worlds once, for all of them. `tacit_j` learns of the private rows by histograms alone; rows of its trajectories, each
weighted for itself (`raked`), stand beside it, and in umaze what it would be by noisy gradients (`by_gradients`).
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Json, Store, command_line, grouped, store_of
from experiments.lib.statistics import Estimate, bootstrap, is_disjoint, ratio
from experiments.privorl.parts import trajectory_ways as ways
from experiments.privorl.parts.synthesis_returns import Cell
from experiments.privorl.parts.synthesis_ways import FULL, Scale
from experiments.privorl.parts.trajectory_domains import DOMAINS

SEEDS, EPSILONS, FEWER = (0, 1, 2), (10.0, 1.0), "umaze_2000"
OWN, TRANSITIONS, RIVALS = "tacit_j", "raked_by_gradients", ("dp_transformer", "unet")
ROWS, GRADIENTS = "raked", "by_gradients"
NAMES = ("real", TRANSITIONS, OWN, ROWS, GRADIENTS, *RIVALS, "raking_alone")
PROMISED = {  # the second where people are few or epsilon is small: so it was in other mazes
    TRANSITIONS: "transitions with matching",
    ROWS: "rows of trajectories conditioned on histograms, with matching",
}
WORDS = "Plan.for_people of trajectories and of transitions; agents of experiments.privorl.parts.synthesis_agents"


def tables(domain: str) -> list[tuple[str, float]]:
    """The ways of a domain with their epsilons, 0 where nothing is promised."""
    names = ("real", TRANSITIONS, OWN, ROWS) if domain == FEWER else NAMES
    found = []
    for way in names:
        if way == GRADIENTS and domain != "umaze":
            continue
        once = domain == FEWER or way in (GRADIENTS, *RIVALS)
        epsilons = (EPSILONS[:1] if once else EPSILONS) if ways.WAYS[way].private else (0.0,)
        found += [(way, epsilon) for epsilon in epsilons]
    return found


def cells() -> list[Cell]:
    return [
        Cell(domain, agent, way, epsilon, seed)
        for seed in SEEDS
        for domain, here in DOMAINS.items()
        for agent in here.agents
        for way, epsilon in tables(domain)
    ]


def rows() -> list[str]:
    return [cell.key for cell in cells()]


def configuration(key: str, *, scale: Scale = FULL) -> dict[str, Json]:
    cell = Cell.of(key)
    here = DOMAINS[cell.domain]
    return {**ways.configuration(here, cell.way, cell.epsilon, scale), **here.judge(cell.agent, scale)}


store = store_of(__file__, configuration, WORDS)


def together(keys: Sequence[str]) -> list[list[str]]:
    return grouped(keys, lambda key: (Cell.of(key).domain, Cell.of(key).agent, Cell.of(key).seed))


def run_rows(keys: Sequence[str], results: Store) -> None:
    """Agents of one domain, kind and seed."""
    stack = [Cell.of(key) for key in keys]
    name, agent, seed = stack[0].domain, stack[0].agent, stack[0].seed
    here = DOMAINS[name]
    found = [ways.table(here, cell.way, cell.epsilon, seed) for cell in stack]
    began = time.process_time()
    judged = here.judged(agent, [one.columns for one in found], seed, FULL)
    spent = round((time.process_time() - began) / len(stack), 1)
    for cell, one, value in zip(stack, found, judged, strict=True):
        values: dict[str, Any] = {"return": value, "agent_cpu_s": spent}
        values |= {key: one.notes[key] for key in ("epsilon", "noise_multiplier") if key in one.notes}
        dataset = f"simulated {name}, {here.population} people, seed {seed}; table {cell.way}"
        results.put(cell.key, dataset=dataset, seed=seed, values=values)


def returns(results: Store, domain: str, agent: str, way: str, epsilon: float) -> np.ndarray:
    """Of all seeds; empty where the row is no part of the experiment."""
    if agent not in DOMAINS[domain].agents or (way, epsilon) not in tables(domain):
        return np.zeros(0)
    return np.array([results.values(Cell(domain, agent, way, epsilon, seed).key)["return"] for seed in SEEDS])


def share(results: Store, domain: str, way: str, epsilon: float) -> Estimate:
    """A way's return over the real trajectories': interquartile means of all seeds, of all agents together."""
    own, real = (
        np.stack([returns(results, domain, agent, name, at) for agent in DOMAINS[domain].agents], axis=1)
        for name, at in ((way, epsilon), ("real", 0.0))
    )
    return ratio(own, real)


def figures() -> Figures:
    results = store()
    for domain, epsilon, bound, names in (
        ("umaze", 10.0, 0.75, (TRANSITIONS,)),
        ("umaze", 1.0, 0.65, (TRANSITIONS, ROWS)),
        (FEWER, 10.0, 0.70, (TRANSITIONS, ROWS)),
    ):
        for way in names:
            words = f"{domain}, epsilon {epsilon:g}: return of {PROMISED[way]} over that of the real data"
            yield at_least(words, share(results, domain, way, epsilon).value, bound)
    leads = []
    for domain, agent in ((name, one) for name in DOMAINS if name != FEWER for one in DOMAINS[name].agents):
        own = bootstrap(returns(results, domain, agent, OWN, 10.0))
        others = [bootstrap(returns(results, domain, agent, way, 10.0)) for way in RIVALS]
        leads += [own.value - other.value for other in others if is_disjoint(own, other)]
    words = f"epsilon 10: least lead of tacit-j in the {len(leads)} cells whose intervals are apart"
    yield at_least(words, min(leads, default=0.0), 0.0)
    best = max(share(results, "clinic", way, 10.0).value for way in (OWN, TRANSITIONS))
    words = "clinic, epsilon 10: return of the better of tacit-j and transitions over that of the real data"
    yield at_least(words, best, 0.80)


if __name__ == "__main__":
    command_line(__file__)
