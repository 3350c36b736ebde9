"""Robots by votes: HalfCheetah and Hopper learnt from people's votes along public directions, beside peers.

A row is one run of one seed, with people, directions, ledger and noise of its own. Settings were fixed on seeds 0 to 3,
those of epsilon 8 by trials, those of other levels by what the noise leaves, N sqrt(p) / sigma. Feature scales are
typical ranges, those of Hopper around a hopper on its feet. Judged is the last policy (`last`), which the tables show
(`REPORTED`), and the mean of the last half (`average`).

    randomized  every vote turned round by itself, at the noise that an answer against the other answer costs: rows of
                before an answer was priced against a coin, which a missing person leaves
    coins       the same as it is priced since
    noise       votes that do not count
    ars         plain random search of the same policy without privacy
"""

import functools
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from experiments.dppg.dppg_runs import Task, calibrated, guarantee, judged, learned, peer
from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import BLANK, Json, Store, command_line, describe, markdown, store_of
from tacit import policy_gradient as pg
from tacit.agents.policies import Float32
from tacit.envs.serving import SimulatedUsers
from tacit.methods.policy_gradient import recipes, votes
from tacit.methods.policy_gradient.recipes import Recipe
from tacit_worlds import locomotion
from tacit_worlds.agents.ppo import PpoConfig

SEEDS = tuple(range(320, 330))
COIN_SEEDS = tuple(range(330, 340))
EPISODES = 8
REPORTED = "last"
ROBOTS: dict[str, locomotion.Name] = {"HalfCheetah": "HalfCheetah-v5", "Hopper": "Hopper-v5"}
PEERS = {
    "ppo": PpoConfig(1_000_000, rollout=256, epochs=10, minibatches=32, rate=3e-4, entropy=0.0),
    "a2c": replace(PpoConfig.a2c(1_000_000), entropy=0.0),
}
CHANGES: dict[tuple[str, str], dict[str, int]] = {  # what a level has instead of the recipe's own settings
    ("HalfCheetah", "2"): {"users": 96, "directions": 3},
    ("HalfCheetah", "1"): {"users": 100, "directions": 3},
    ("Hopper", "2"): {"directions": 3},
    ("Hopper", "1"): {"users": 110},
}
RANDOMIZED: dict[str, dict[str, int]] = {"2": {"directions": 1}, "1": {"directions": 1}}
"""What a level of randomised votes has instead of these: votes of one person share the epsilon."""


@dataclass(frozen=True)
class Search:
    """Plain random search: theta <- theta + step / (b spread) sum of (R+ - R-) delta over the best b of the pairs.

    Source: Mania, Guy & Recht (arXiv:1803.07055), version 1 with the best directions, on the recipe's features.
    """

    iterations: int = 200
    pairs: int = 16
    best: int = 8
    step: float = 0.02
    radius: float = 0.1
    length: int = 250


SEARCH = Search()


def task(robot: str) -> Task:
    name = ROBOTS[robot]
    return Task(robot, locomotion.Locomotion(name), locomotion.spec(name), locomotion.HORIZON)


def recipe(robot: str, arm: str, level: str, seed: int) -> Recipe:
    found = recipes.VOTED[ROBOTS[robot]]()
    plan = replace(found.plan, seed=seed, **CHANGES.get((robot, level), {}))
    if arm in ("randomized", "coins"):
        plan = replace(plan, answers="randomized", **RANDOMIZED.get(level, {}))
    if arm == "noise":
        plan = replace(plan, counted=False, episode_length=1)
    if level == "inf":
        plan = replace(plan, noise_multiplier=0.0)
    return replace(found, plan=plan)


def rows() -> list[str]:
    arms = [("votes", "8"), ("randomized", "8"), ("noise", "8"), ("votes", "2"), ("randomized", "2"), ("votes", "inf")]
    arms += [("votes", "1")]
    arms += [(peer, "inf") for peer in ("ars", *PEERS)]
    made = [f"{robot}/{arm}/{level}/{seed}" for arm, level in arms for robot in ROBOTS for seed in SEEDS]
    coins = ("coins/8", "coins/2", "coins/1")
    return made + [f"{robot}/{arm}/{seed}" for seed in COIN_SEEDS for arm in coins for robot in ROBOTS]


def configuration(key: str) -> Json:
    robot, arm, level, seed = key.split("/")
    common = {"task": describe(task(robot)), "arm": arm, "episodes": EPISODES}
    if arm in PEERS:
        return common | {"agent": describe(PEERS[arm])}
    found = recipe(robot, arm, level, int(seed))
    if arm == "ars":
        return common | {"policy": describe(found.policy), "search": describe(SEARCH)}
    return common | {
        "recipe": describe(replace(found, plan=replace(found.plan, seed=0))),
        "level": level,
        **guarantee(),
    }


store = store_of(__file__, configuration, "recipes.VOTED, chosen on seeds 0 to 3")


def voted(robot: str, arm: str, level: str, seed: int) -> dict[str, Any]:
    found = recipe(robot, arm, level, seed)
    plan = calibrated(found.plan, None if level == "inf" else float(level))
    value = learned(task(robot), replace(found, plan=plan), replicates=1, seed=seed)
    judge = functools.partial(judged, task(robot), replicates=1, episodes=EPISODES, seed=seed)
    curve = [judge(pg.PolicyActor(value.policy, theta, greedy=True))[0] for theta in value.iterates[::4]]
    return {
        "last": judge(value.actor())[0],
        "average": judge(value.actor(average=True))[0],
        "curve": curve,
        "people": value.people[::4].tolist(),
        "epsilon": str(plan.epsilon),
        "noise_multiplier": plan.noise_multiplier,
    }


def searched(robot: str, seed: int) -> dict[str, Any]:
    """A run of plain random search, whose people are asked without any promise."""
    search, found, where = SEARCH, recipe(robot, "ars", "inf", seed), task(robot)
    plan = pg.VotesPlan(users=search.pairs, episode_length=search.length, radius=search.radius, seed=seed)
    users = SimulatedUsers(where.domain, where.spec, horizon=search.length, seed=seed)
    theta: Float32 = np.zeros((1, found.policy.parameters), np.float32)
    for k in range(search.iterations):
        asked = votes.VoteDirections(votes.draw_directions(plan, found.policy.parameters, 1, k))
        rows_ = users.serve(users.arrive(search.pairs), votes.trial_actor(plan, found.policy, theta, asked, k))
        after = np.cumsum(rows_["terminations"] | rows_["truncations"], axis=1)
        second = (after - (rows_["terminations"] | rows_["truncations"])) >= 1
        plus, minus = ((rows_["rewards"] * (rows_["mask"] & part)).sum(axis=1) for part in (~second, second))
        best = np.argsort(-np.maximum(plus, minus))[: search.best]
        spread = float(np.concatenate([plus[best], minus[best]]).std()) + 1e-8
        ascent = (plus - minus)[best] @ asked.directions[0, best, 0] * np.sqrt(found.policy.parameters)
        theta = (theta + search.step / (search.best * spread) * ascent).astype(np.float32)
    actor = pg.PolicyActor(found.policy, theta, greedy=True)
    return {"last": judged(where, actor, replicates=1, episodes=EPISODES, seed=seed)[0]}


def free(robot: str, config: PpoConfig, seed: int) -> dict[str, Any]:
    where, head = task(robot), recipes.VOTED[ROBOTS[robot]]().policy.head
    agent = peer(where, config, head, agents=1, seed=seed)
    return {"last": judged(where, agent, replicates=1, episodes=EPISODES, seed=seed)[0]}


def run_row(key: str, results: Store) -> None:
    robot, arm, level, number = key.split("/")
    seed, began = int(number), time.process_time()
    if arm == "ars":
        values = searched(robot, seed)
    elif arm in PEERS:
        values = free(robot, PEERS[arm], seed)
    else:
        values = voted(robot, arm, level, seed)
    values["cpu_s"] = round(time.process_time() - began, 1)
    results.put(key, dataset=f"simulated people of {robot}", seed=seed, values=values)


def returns(results: Store, robot: str, arm: str, level: str, column: str = REPORTED) -> list[float]:
    """Of the seeds whose rows are there."""
    keys = (f"{robot}/{arm}/{level}/{seed}" for seed in (COIN_SEEDS if arm == "coins" else SEEDS))
    return [results.values(key)[column] for key in keys if results.has(key)]


def table(results: Store) -> str:
    """A line a robot and arm: mean, worst and number of runs, of the last policy and of the average."""
    lines = []
    for robot, arm, level in dict.fromkeys(tuple(key.split("/")[:3]) for key in rows()):
        cells = []
        for column in ("last", "average") if arm in ("votes", "randomized", "coins", "noise") else ("last",):
            found = returns(results, robot, arm, level, column)
            cells.append(f"{np.mean(found):.0f} ({min(found):.0f})" if found else BLANK)
        runs = len(returns(results, robot, arm, level))
        lines.append([robot, arm, level, *[*cells, BLANK][:2], str(runs)])
    return markdown(("arm", "epsilon", "last (worst)", "average (worst)", "runs"), lines, "robot")


BARS = {  # mean returns over the seeds that are promised (epsilon 8) or aimed at
    ("HalfCheetah", "8"): 2_300.0,
    ("Hopper", "8"): 1_100.0,
    ("HalfCheetah", "2"): 2_000.0,
    ("Hopper", "2"): 850.0,
    ("Hopper", "1"): 1_000.0,
}


def figures() -> Figures:
    results = store()
    for (robot, level), bar in BARS.items():
        values = [results.values(f"{robot}/votes/{level}/{seed}")[REPORTED] for seed in SEEDS]
        yield at_least(f"{robot}, epsilon {level}: mean return", float(np.mean(values)), bar)


if __name__ == "__main__":
    command_line(__file__)
