"""Return against epsilon: CartPole and Acrobot learnt from people who are met once.

A cell is 16 replicates of seed 100; the recipes were chosen on eight of seed 0. After the last round the policy meets
50 fresh people, with random actions and with the most probable ones; so does the mean of the policies of the last half.
"noise" multiplies returns by 0. "paper" is our first reading of the paper's recipe with as many people, named by what
it claims for its noise; fresh starts and a divided seed of Adam keep it from learning (`dppg_fair` has what learns).
"full_slot" fills each person's 500 steps with further episodes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from experiments.dppg.dppg_runs import Task, calibrated, guarantee, judged, learned
from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Json, Store, command_line, describe, store_of
from tacit import policy_gradient as pg
from tacit.methods.policy_gradient import recipes
from tacit.methods.policy_gradient.recipes import Recipe
from tacit_worlds import acrobot, cart_pole

REPLICATES, FIRST_SEED, EPISODES, CURVE = 16, 100, 50, 10
PEOPLE = 1_600
EPSILONS = (8.0, 4.0, 2.0, 1.0, 0.5)
LEAST = (0.43, 0.25)
CRITICS: tuple[pg.Critic, ...] = ("local", "private", "none")
TASKS = {
    "cart_pole": Task("cart_pole", cart_pole.CartPole(), cart_pole.spec(), cart_pole.HORIZON),
    "acrobot": Task("acrobot", acrobot.Acrobot(), acrobot.spec(), acrobot.HORIZON),
}
RECIPES: dict[str, Callable[..., Recipe]] = {"cart_pole": recipes.cart_pole, "acrobot": recipes.acrobot}


@dataclass(frozen=True)
class Cell:
    """One setting: task, arm, epsilon (None without noise) and the correlation of the noise."""

    task: str
    arm: str
    epsilon: float | None
    correlation: str = "toeplitz"

    @property
    def key(self) -> str:
        return f"{self.task}/{self.arm}/{self.correlation}/epsilon={self.epsilon or 'inf'}"


def grid() -> list[Cell]:
    arms = ("local", "small", "linear", "full_slot")
    promised = [Cell("cart_pole", arm, epsilon) for epsilon in (1.0, *LEAST) for arm in arms]
    promised.append(Cell("acrobot", "local", 1.0))
    critics = [
        Cell(task, critic, epsilon, correlation)
        for critic in CRITICS
        for task in TASKS
        for epsilon in EPSILONS
        for correlation in ("toeplitz", "independent")
    ]
    controls = [Cell(task, critic, None) for task in TASKS for critic in CRITICS]
    controls += [Cell(task, "noise", epsilon) for task in TASKS for epsilon in (4.0, 1.0)]
    papers = [Cell(task, "paper", epsilon, "independent") for task in TASKS for epsilon in (None, *EPSILONS)]
    return list(dict.fromkeys([*promised, *critics, *controls, *papers, Cell("acrobot", "linear", 1.0)]))


def draft(cell: Cell) -> Recipe:
    """The cell's recipe before its noise is known; the paper's noise is that of ours, by the exact formula."""
    if cell.arm == "paper":
        plan = pg.PolicyGradientPlan.paper("control", rounds=PEOPLE // 8, noise_multiplier=0.0, seeded=True)
        return Recipe(plan, RECIPES[cell.task]().policy, horizon=plan.horizon)
    hidden = {"linear": (), "small": (8,)}.get(cell.arm, (64, 64))
    found = RECIPES[cell.task](hidden=hidden)
    plan = replace(found.plan, rounds=PEOPLE // found.plan.users, correlation=cell.correlation)  # type: ignore[arg-type]
    if cell.arm in CRITICS:
        plan = recipes.with_critic(plan, cell.arm)
    if cell.arm == "noise":
        plan = replace(plan, return_scale=0.0, standardised=False, critic="none")
    if cell.epsilon is None:
        plan = replace(plan, noise_multiplier=0.0)
    return replace(found, plan=plan)


def recipe(cell: Cell) -> Recipe:
    found = draft(cell)
    if cell.arm != "paper":
        return replace(found, plan=calibrated(found.plan, cell.epsilon))
    noise = 0.0
    if cell.epsilon is not None:
        noise = calibrated(RECIPES[cell.task]().plan, cell.epsilon).noise_multiplier or 0.0
    return replace(found, plan=calibrated(replace(found.plan, noise_multiplier=noise), None))


CELLS = {cell.key: cell for cell in grid()}


def configuration(key: str) -> Json:
    cell = CELLS[key]
    return {
        "task": describe(TASKS[cell.task]),
        "recipe": describe(draft(cell)),
        "noise_of": describe(RECIPES[cell.task]().plan) if cell.arm == "paper" else None,
        "restarts": cell.arm == "full_slot",
        "epsilon": cell.epsilon,
        **guarantee(),
        "replicates": REPLICATES,
        "people": PEOPLE,
        "episodes": EPISODES,
        "curve": CURVE,
    }


store = store_of(__file__, configuration, "policy_gradient.recipes, chosen on seed 0; the paper's own")


def rows() -> list[str]:
    return list(CELLS)


def run_row(key: str, results: Store) -> None:
    cell = CELLS[key]
    task, found = TASKS[cell.task], recipe(cell)
    judge = functools.partial(judged, task, replicates=REPLICATES, repeat=found.repeat)
    value = learned(task, found, replicates=REPLICATES, seed=FIRST_SEED, restarts=cell.arm == "full_slot")
    values: dict[str, object] = {"epsilon": str(found.plan.epsilon), "noise_multiplier": found.plan.noise_multiplier}
    for average in (False, True):
        for greedy in (False, True):
            actor = value.actor(greedy=greedy, average=average)
            name = f"{'average' if average else 'last'}_{'greedy' if greedy else 'stochastic'}"
            values[name] = judge(actor, episodes=EPISODES, seed=FIRST_SEED)
    actors = (pg.PolicyActor(value.policy, theta) for theta in value.iterates)
    curve = [float(np.mean(judge(actor, episodes=CURVE, seed=FIRST_SEED + 1))) for actor in actors]
    values |= {"curve": curve, "people": value.people.tolist()}
    results.put(key, dataset=f"simulated people of {cell.task}", seed=FIRST_SEED, values=values)


def figures() -> Figures:
    results = store()

    def returns(cell: Cell, column: str = "last_stochastic") -> list[float]:
        return list(results.values(cell.key)[column])

    def mean(cell: Cell, column: str = "last_stochastic") -> float:
        return float(np.mean(returns(cell, column)))

    deep = Cell("cart_pole", "local", 1.0)
    best = max(mean(Cell("cart_pole", arm, 1.0)) for arm in ("local", "small", "linear", "full_slot"))
    yield at_least("CartPole 64-64, epsilon 1: mean return", mean(deep), 475.0)
    yield at_least("CartPole 64-64, epsilon 1: worst seed", min(returns(deep)), 420.0)
    yield at_least("CartPole 64-64, epsilon 1: greedy", mean(deep, "last_greedy"), 495.0)
    yield at_least("CartPole best policy class, epsilon 1: mean return", best, 485.0)
    yield at_least("CartPole 64-64, epsilon 0.43: mean return", mean(Cell("cart_pole", "local", 0.43)), 450.0)
    yield at_least("CartPole 64-64, epsilon 0.25: greedy", mean(Cell("cart_pole", "local", 0.25), "last_greedy"), 460.0)
    yield at_least("Acrobot 64-64, epsilon 1: mean return", mean(Cell("acrobot", "local", 1.0)), -110.0)
    yield at_least("Acrobot 64-64, epsilon 0.5: greedy", mean(Cell("acrobot", "local", 0.5), "last_greedy"), -105.0)
    for task in TASKS:
        for epsilon in (4.0, 2.0, 1.0, 0.5):
            gain = mean(Cell(task, "local", epsilon)) - mean(Cell(task, "local", epsilon, "independent"))
            yield at_least(f"{task}, epsilon {epsilon:g}: correlated less independent noise", gain, 0.0)


if __name__ == "__main__":
    command_line(__file__)
