"""The settings of the offline agents, chosen on real rows of public mazes alone.

A row is one agent that learned from a million real rows of one public maze. Its key holds the maze, the agent, in what
its settings differ from those of former tables (`MAZE`), and the agent's seed. `all` and `far` are of the policy after
the last step, `curve` of those on the way. Halls has the outer size of large, rooms and comb that of medium, the others
that of umaze. The evaluation's mazes, its seeds and synthetic rows are never used, so that no method is suited better.

ReBRAC (arXiv:2305.09836; 107, 105 and 78 in D4RL's mazes) is not among our agents: the critic's half of its penalty
needs the action that follows in the data, and tables of synthetic transitions hold none.

What decides: a target that moves by `target_rate` a step sees a reward one transition farther about every
1 / `target_rate` steps; paths have hundreds of transitions. The former alpha of 20 lets imitation win near the goal,
where few steps are at stake. A higher discount sees farther, but makes these few steps a smaller share of a value.
Waves of positions twice as short tell walls apart that longer ones blur. Chosen is the cheapest that is above the
straight run everywhere, with one seed. EDAC fails in the largest maze: the tables have it in umaze alone.
"""

import ast
import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Json, Store, command_line, describe, grouped, store_of
from experiments.lib.table_cache import Columns, rows_of
from experiments.privorl.parts.synthesis_agents import AGENTS, MAZE, TRIVIAL
from tacit.envs.rollouts import Policies
from tacit_worlds import maze
from tacit_worlds.agents.offline import Watch, train_tables
from tacit_worlds.maze_evaluation import Starts, evaluate
from tacit_worlds.maze_layouts import LAYOUTS, MazeLayout

HALLS = (
    "############ #OOO#OOOOOO# #O#O#O##O#O# #O#OOO#OO#O# #O###O#O##O# #OOO#OOO#OO# ##O##O#O#O## #OOOOO#OOOO# "
    "############"
)
MAZES: Mapping[str, MazeLayout] = {name: LAYOUTS[name] for name in ("ring", "tee", "zigzag", "rooms", "comb")} | {
    "halls": MazeLayout("halls", tuple(HALLS.split()), (7, 10), 800, (33.1, 561.3))
}
POPULATION, ROWS_SEED, START_SEED, EPISODES, LOOKS = 1_000_000, 960, 950, 100, 4
PROBES, SEED, FINAL_SEEDS = ("comb", "zigzag", "halls"), 900, (901, 902)
"""Every setting is tried with one seed where a straight run fails; what is chosen, with others in every maze."""
FINE = "target_rate=0.05 waves=2.0"
SEARCH: tuple[tuple[str, str], ...] = (
    ("td3_bc", "discount=0.99 target_rate=0.05 alpha=100.0 waves=2.0 steps=32000"),
    ("edac", "discount=0.99 target_rate=0.05 waves=2.0 steps=16000"),
    ("iql", "discount=0.99 target_rate=0.05 expectile=0.9 inverse_temperature=3.0 waves=2.0 steps=24000"),
    ("iql", f"{FINE} expectile=0.9 inverse_temperature=10.0 weight_cap=100000.0 steps=24000"),
    ("td3_bc", f"{FINE} alpha=40.0 steps=32000"),
    ("td3_bc", f"{FINE} alpha=100.0 steps=16000"),
    ("td3_bc", f"{FINE} alpha=40.0 steps=16000"),
    ("iql", f"{FINE} expectile=0.9 inverse_temperature=10.0 weight_cap=100000.0 steps=12000"),
    ("edac", f"{FINE} steps=8000"),
    ("td3_bc", f"{FINE} alpha=40.0 layer_norm=True steps=16000"),
    *((agent, "former") for agent in AGENTS),
    ("iql", f"{FINE} expectile=0.95 inverse_temperature=10.0 weight_cap=100000.0 steps=12000"),
    ("edac", f"{FINE} diversity=0.0 steps=8000"),
    ("td3_bc", f"{FINE} alpha=40.0 width=128 batch=256 steps=16000"),
    ("td3_bc", "discount=0.995 target_rate=0.05 alpha=100.0 waves=2.0 steps=32000"),
    ("td3_bc", "discount=0.995 target_rate=0.1"),
)
"""Agents and what is changed in their settings, in the order in which they are run."""
DECIDED = 9  # of these, what had been run when settings were chosen; the others show what else would have been possible


def rows() -> list[str]:
    tried = [f"{name}/{agent}/{setting}/{SEED}" for agent, setting in SEARCH for name in PROBES]
    chosen = [f"{name}/{agent}/chosen/{seed}" for seed in FINAL_SEEDS for agent in AGENTS for name in MAZES]
    decided = DECIDED * len(PROBES)
    return [*(f"{name}/trivial" for name in MAZES), *tried[:decided], *chosen, *tried[decided:]]


def config(agent: str, setting: str) -> Any:
    """The settings of an agent: `former`, `chosen`, or the former ones with changes (`discount=0.995 alpha=40.0`).

    `waves=3.0` is the bandwidth of positions.
    """
    if setting == "chosen":
        return MAZE[f"{agent}_long"]
    words = (word.split("=", 1) for word in setting.split() if word != "former")
    changes = {name: ast.literal_eval(value) for name, value in words}
    if (wide := changes.pop("waves", None)) is not None:
        changes["features"] = replace(MAZE[agent].features, bandwidth=(wide, wide, 0.3, 0.3))
    return replace(MAZE[agent], **changes)


def configuration(key: str) -> Json:
    name, kind, *rest = key.split("/")
    judge = {"layout": describe(MAZES[name]), "episodes": EPISODES, "start_seed": START_SEED}
    if kind == "trivial":
        return {"policies": list(TRIVIAL), **judge}
    return {"agent": describe(config(kind, rest[0])), "population": POPULATION, **judge}


store = store_of(__file__, configuration, "each row's name holds its settings")


@functools.lru_cache(maxsize=len(MAZES))
def real(name: str) -> Columns:
    return rows_of(maze.collect(MAZES[name], POPULATION, seed=ROWS_SEED))


def returns(name: str, policies: Policies, starts: Starts = "all") -> list[float]:
    found = evaluate(MAZES[name], policies, starts=starts, seed=START_SEED, episodes=EPISODES)
    return [round(float(value), 1) for value in found]


def trivial(name: str) -> dict[str, dict[str, float]]:
    made = {policy: make(MAZES[name]) for policy, make in TRIVIAL.items()}
    return {
        policy: {"all": max(returns(name, one)), "far": max(returns(name, one, "far"))} for policy, one in made.items()
    }


def learned(names: Sequence[str], agent: Any, seed: int) -> list[dict[str, Any]]:
    """For each maze the returns of an agent that learned, those on its way, and its share of the CPU seconds."""
    curves: list[dict[str, float]] = [{} for _ in names]
    looking = 0.0

    def look(done: int, policies: list[Any]) -> None:
        nonlocal looking
        began = time.process_time()
        for name, curve, policy in zip(names, curves, policies, strict=True):
            curve[str(done)] = returns(name, policy)[0]
        looking += time.process_time() - began

    tables, began = [real(name) for name in names], time.process_time()
    policies = train_tables(tables, agent, seeds=[seed], watch=Watch(-(-agent.steps // LOOKS), look))
    spent = round((time.process_time() - began - looking) / len(names), 1)
    return [
        {"all": returns(name, policy)[0], "far": returns(name, policy, "far")[0], "curve": curve, "cpu_s": spent}
        for name, policy, curve in zip(names, policies, curves, strict=True)
    ]


def together(keys: Sequence[str]) -> list[list[str]]:
    return grouped(keys, lambda key: key if key.endswith("/trivial") else key.split("/", 1)[1])


def run_rows(keys: Sequence[str], results: Store) -> None:
    if keys[0].endswith("/trivial"):
        name = keys[0].split("/")[0]
        return _put(results, keys[0], name, START_SEED, trivial(name))
    names, (kind, setting, word) = [key.split("/")[0] for key in keys], keys[0].split("/")[1:]
    found = learned(names, config(kind, setting), int(word))
    for key, name, values in zip(keys, names, found, strict=True):
        _put(results, key, name, int(word), values)
    return None


def _put(results: Store, key: str, name: str, seed: int, values: dict[str, Any]) -> None:
    words = f"simulated maze {name}, {POPULATION} transitions, seed {ROWS_SEED}"
    results.put(key, dataset=words, seed=seed, values=values)


def figures() -> Figures:
    results = store()
    for agent in AGENTS:
        for name in MAZES:
            straight = results.values(f"{name}/trivial")["straight"]["all"]
            values = [results.values(f"{name}/{agent}/chosen/{seed}")["all"] for seed in FINAL_SEEDS]
            words = f"public {name}, {agent}: return of real rows less that of the straight run"
            yield at_least(words, sum(values) / len(values) - straight, 0.0)


if __name__ == "__main__":
    command_line(__file__)
