"""A fair table: the paper's recipe as it learns, the same with a guarantee, and ours, at equal numbers of steps.

A row is ten replicates of seed 311 (Dosing 310) and at most 500,000 steps of the simulator. Recipes were chosen on
seeds 0 to 7. Levels are the paper's: for the first rows they are what the paper claims for its noise (`SIGMAS`).

    reproduced   the paper's recipe: 8 people, 64 steps a round, local Adam that is not seeded, a critic that everybody
                 teaches without noise. People stay for as many rounds as one episode takes (`LastingUsers`). Its
                 epsilon is infinite; `rounds` in a row is what it would be without the critic
    raw          the same, Adam seeded with the last release as the paper prints it
    honest       the same local updates with a guarantee: one whole episode a person from a fresh start, a critic of own
                 rows, independent noise, epsilon as stated

Rewards of CartPole and Acrobot are multiplied by 0.01, so that a critic of the printed rate can follow. Acrobot as
printed ("printed") learns nothing: its other rows have entropy 0.01 and lambda 0.95, which was chosen on seed 3.
"""

import functools
import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from experiments.dppg.dppg_runs import Task, calibrated, guarantee, judged, learned, opened, peer
from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import NONE, Json, Store, command_line, describe, markdown, stacked, store_of
from tacit import policy_gradient as pg
from tacit.envs.serving import LastingUsers
from tacit.methods.policy_gradient import recipes
from tacit.methods.policy_gradient.plan import Setting
from tacit.methods.policy_gradient.recipes import Recipe
from tacit_worlds import acrobot, cart_pole, dosing
from tacit_worlds.agents.ppo import PpoConfig

SEED, RUNS, EPISODES, STEPS, CURVE = 310, 10, 50, 500_000, 10
SIGMAS = {"8": 0.658, "4": 1.227, "2": 2.356, "1": 4.609}
"""The paper's noise multipliers, by the epsilon that it claims for them at delta 1e-5."""
LEVELS = ("inf", *SIGMAS)
CRITIC_STEP = 4.0  # of the shared critic, whose Adam then moves as one of rate 1e-3


@dataclass(frozen=True)
class Line:
    """A task of the table."""

    task: Task  # the simulator
    recipe: Recipe  # ours
    hidden: Recipe  # ours with the paper's two layers of 64
    setting: Setting  # the paper's hyper-parameters
    peers: dict[str, PpoConfig]  # PPO and A2C
    changes: dict[str, Any]  # of the paper's plan, what makes it learn
    entropy: float | None = None  # of its local updates; None is as printed
    seed: int = SEED  # of its rows


@functools.cache
def lines() -> dict[str, Line]:
    control = {"ppo": PpoConfig(STEPS), "a2c": PpoConfig.a2c(STEPS)}
    doses = {"ppo": PpoConfig(300_000, gamma=0.9), "a2c": replace(PpoConfig.a2c(300_000), gamma=0.9)}
    pole, swing, dose = recipes.cart_pole(), recipes.acrobot(), recipes.dosing()
    raised = {"return_scale": 0.01}
    return {
        "CartPole": Line(
            Task("CartPole", cart_pole.CartPole(), cart_pole.spec(), 500),
            pole,
            pole,
            "control",
            control,
            raised,
            None,
            311,
        ),
        "Acrobot": Line(
            Task("Acrobot", acrobot.Acrobot(), acrobot.spec(), 500),
            swing,
            swing,
            "control",
            control,
            {"trace": 0.95, **raised},
            0.01,
            311,
        ),
        "Dosing": Line(
            Task("Dosing", dosing.Dosing(personal=True), dosing.spec(), dosing.HORIZON),
            *(dose, recipes.dosing(hidden=(64, 64)), "dosing", doses, {}),
        ),
    }


def paper(line: Line, arm: str, level: str) -> Recipe:
    """The paper's recipe at its own noise, which is said for one round and not for all of one person."""
    plan = pg.PolicyGradientPlan.paper(line.setting, seeded="raw" if arm == "raw" else False)
    rounds, stay = math.ceil(STEPS / (plan.users * plan.horizon)), math.ceil(line.task.horizon / plan.horizon)
    noise = SIGMAS.get(level, 0.0) / math.sqrt(stay)
    plan = replace(plan, rounds=rounds, participations=stay, noise_multiplier=noise, critic_step=CRITIC_STEP)
    if arm != "printed" and plan.local is not None:
        entropy = plan.local.entropy if line.entropy is None else line.entropy
        plan = replace(plan, local=replace(plan.local, entropy=entropy), **line.changes)
    return Recipe(plan, line.hidden.policy, horizon=plan.horizon)


def honest(line: Line) -> Recipe:
    """The paper's local updates from whole episodes, with a critic of own rows."""
    printed = paper(line, "honest", "inf").plan
    rounds = STEPS // (printed.users * line.task.horizon)
    plan = replace(
        printed,
        rounds=rounds,
        horizon=line.task.horizon,
        participations=1,
        critic="local",
        critic_step=1.0,
        noise_multiplier=None,
    )
    return Recipe(plan, line.hidden.policy, horizon=line.task.horizon)


def ours(line: Line) -> Recipe:
    """Our recipe with as many whole episodes as there are steps for."""
    plan = line.recipe.plan
    return replace(line.recipe, plan=replace(plan, rounds=STEPS // (plan.users * line.task.horizon)))


def draft(line: Line, arm: str, level: str) -> Recipe:
    if arm in ("reproduced", "raw", "printed"):
        return paper(line, arm, level)
    found = honest(line) if arm == "honest" else ours(line)
    return replace(found, plan=replace(found.plan, noise_multiplier=0.0)) if level == "inf" else found


def rows() -> list[str]:
    keys = [f"{name}/{arm}/inf" for name in lines() for arm in ("reproduced", "honest", "ours")]
    keys += [
        f"{name}/{arm}/{level}" for level in SIGMAS for name in lines() for arm in ("reproduced", "honest", "ours")
    ]
    keys += ["Acrobot/printed/inf", *(f"{name}/raw/inf" for name in lines())]
    return [*keys, *(f"{name}/{peer}/inf" for name, line in lines().items() for peer in line.peers)]


def configuration(key: str) -> Json:
    name, arm, level = key.split("/")
    line = lines()[name]
    common = {"task": describe(line.task), "arm": arm, "runs": RUNS, "episodes": EPISODES, "quick": False}
    if line.seed != SEED:
        common["seed"] = line.seed
    if arm in line.peers:
        return common | {"agent": describe(line.peers[arm]), "head": describe(line.recipe.policy.head)}
    return common | {"recipe": describe(draft(line, arm, level)), "level": level, **guarantee()}


store = store_of(__file__, configuration, "policy_gradient.recipes, the paper's own")


def private(line: Line, arm: str, level: str) -> dict[str, Any]:
    found = draft(line, arm, level)
    of_paper = arm in ("reproduced", "raw", "printed")
    plan = calibrated(found.plan, None if level == "inf" or of_paper else float(level))
    found, values = replace(found, plan=plan), {"epsilon": str(plan.epsilon), "noise_multiplier": plan.noise_multiplier}
    if of_paper:
        values["rounds"] = str(calibrated(replace(plan, critic="none"), None).epsilon)
        users = LastingUsers(
            line.task.domain,
            line.task.spec,
            horizon=found.horizon,
            episode=line.task.horizon,
            replicates=RUNS,
            seed=line.seed,
        )
        with opened(users, plan) as vault:
            value = pg.fit(plan, vault, found.policy, seed=line.seed).value
    else:
        value = learned(line.task, found, replicates=RUNS, seed=line.seed)
    for greedy in (False, True):
        actor = value.actor(greedy=greedy)
        values["greedy" if greedy else "last"] = judged(
            line.task, actor, replicates=RUNS, episodes=EPISODES, repeat=found.repeat, seed=line.seed
        )
    judge = functools.partial(
        judged, line.task, replicates=RUNS, episodes=CURVE, repeat=found.repeat, seed=line.seed + 1
    )
    values["curve"] = [float(np.mean(judge(pg.PolicyActor(value.policy, theta)))) for theta in value.iterates[::2]]
    values["steps"] = (value.people[::2] * found.plan.horizon * found.repeat).tolist()
    return values


def free(line: Line, config: PpoConfig) -> dict[str, Any]:
    agent = peer(line.task, config, line.recipe.policy.head, agents=RUNS, seed=line.seed)
    judge = functools.partial(judged, line.task, replicates=RUNS, episodes=EPISODES, seed=line.seed)
    return {"last": judge(agent), "greedy": judge(replace(agent, greedy=True))}


def run_row(key: str, results: Store) -> None:
    name, arm, level = key.split("/")
    line, began = lines()[name], time.process_time()
    of_peer = arm in line.peers
    values = free(line, line.peers[arm]) if of_peer else private(line, arm, level)
    values["cpu_s"] = round(time.process_time() - began, 1)
    results.put(key, dataset=f"simulated people of {name}", seed=line.seed, values=values)


WORDS = {
    "reproduced": "paper, reproduced: epsilon infinite",
    "raw": "paper, reproduced, Adam seeded as printed: epsilon infinite",
    "printed": "paper, as printed: epsilon infinite",
    "honest": "paper, honest",
    "ours": "ours",
    "ppo": "PPO, not private",
    "a2c": "A2C, not private",
}


def table(results: Store) -> str:
    """A table for each task: mean of the last policy, in brackets the worst run, and the most probable actions."""
    tables = {}
    for name in lines():
        body = []
        for arm, words in WORDS.items():
            cells = []
            for level in LEVELS:
                key = f"{name}/{arm}/{level}"
                if key not in rows():
                    cells.append(NONE)
                    continue
                values = results.values(key) if results.has(key) else None
                shown = "" if values is None else f"{np.mean(values['last']):.1f} ({min(values['last']):.0f})"
                cells.append(shown + ("" if values is None else f", {np.mean(values['greedy']):.1f}"))
            if set(cells) != {NONE}:
                body.append([words, *cells])
        tables[name] = markdown(["no noise", *(f"claimed or kept epsilon {level}" for level in SIGMAS)], body)
    return stacked(tables)


def figures() -> Figures:
    results, bars = store(), {"CartPole": 480.0, "Acrobot": -95.0}
    for name, bar in bars.items():
        yield at_least(
            f"{name}, the paper's recipe without noise: greedy",
            float(np.mean(results.values(f"{name}/reproduced/inf")["greedy"])),
            bar,
        )


if __name__ == "__main__":
    command_line(__file__)
