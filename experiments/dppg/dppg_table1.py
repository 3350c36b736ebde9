"""Table 1 of the paper on private policy gradients: six tasks at two levels of privacy, beside PPO and A2C.

MuJoCo has epsilon 8 and 20, as the paper turns to weaker levels there without saying which, the others 1 and 4. Runs
are replicates of seed 100; recipes were fixed on seeds 0 to 7. Judged is the last policy on fresh people as it is
(`last`), its most probable action (`greedy`), and that of the mean of the last half of the parameters (`average`).

    ceiling     dppg with sigma 0 and the clip of the weaker level: the same steps without noise
    no_noise    dppg with sigma 0 and the largest clip of the recipe, a longer step than is good without noise
    noise_only  dppg at the stronger level with returns scaled by 0
    paper       the paper's own recipe at the noise of a level, with as many people and no more steps (MuJoCo: at the
                weaker level only): epsilon is infinite, because of the critic that everybody teaches
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.dppg.dppg_runs import Task, calibrated, guarantee, judged, learned, peer
from experiments.lib.check import Figures, at_least
from experiments.lib.experiment import Json, Store, command_line, describe, store_of
from tacit import policy_gradient as pg
from tacit.data.spec import Discrete, PublicSpec
from tacit.methods.policy_gradient import recipes
from tacit.methods.policy_gradient.plan import Setting
from tacit.methods.policy_gradient.recipes import Recipe
from tacit_worlds import acrobot, cart_pole, dosing, locomotion
from tacit_worlds.agents.ppo import PpoConfig

SEED = 100
CONTROLS: dict[str, dict[str, Any]] = {
    "ceiling": {"plan": {"noise_multiplier": 0.0, "most_noise": None}, "clip_of": 1},
    "no_noise": {"plan": {"noise_multiplier": 0.0}},
    "noise_only": {"plan": {"return_scale": 0.0, "horizon": 1}, "noise_of": 0},
    "paper": {"hidden": (64, 64), "gain": 0.01, "restarts": True},
}
"""What controls have instead of the recipe's own; `clip_of` and `noise_of` are a level's place in `Line.epsilons`."""
Values = dict[str, list[float]]
Seen = npt.NDArray[Any]


@dataclass(frozen=True)
class Line:
    """A task of the table, and how each method meets it."""

    task: Task  # the simulator
    recipe: Recipe  # ours
    setting: Setting  # the paper's hyper-parameters
    # ppo, a2c: peers
    ppo: PpoConfig
    a2c: PpoConfig
    epsilons: tuple[float, float] = (1.0, 4.0)  # the stronger and the weaker level
    # runs, episodes: replicates, and fresh people for each policy
    runs: int = 10
    episodes: int = 50
    mlp: Recipe | None = None  # whether the recipe's policy is not the paper's, so that `dppg_mlp` is another row
    std: float = 0.5  # first standard deviation of the peers' actions, where they are continuous

    @property
    def cells(self) -> list[tuple[str, float | None]]:
        private = ["dppg", *(["dppg_mlp"] if self.mlp is not None else [])]
        levels = self.epsilons if self.setting != "mujoco" else self.epsilons[1:]
        fixed: list[tuple[str, float | None]] = [
            (name, None) for name in ("random", "start", "ppo", "a2c", "ceiling", "no_noise", "noise_only")
        ]
        priced = [(name, level) for name in private for level in self.epsilons] + [("paper", e) for e in levels]
        return [*fixed, *priced]

    def key(self, method: str, level: float | None) -> str:
        return "|".join([self.task.name, method, *([f"{level:g}"] if level is not None else [])])


def lines() -> list[Line]:
    control: Any = {"ppo": PpoConfig(500_000), "a2c": PpoConfig.a2c(500_000)}
    doses: Any = {"ppo": PpoConfig(300_000, gamma=0.9), "a2c": replace(PpoConfig.a2c(300_000), gamma=0.9)}
    robots: Any = {
        "ppo": PpoConfig(1_000_000, rollout=256, epochs=10, minibatches=32, rate=3e-4, entropy=0.0),
        "a2c": replace(PpoConfig.a2c(1_000_000), entropy=0.0),
    }
    out = [
        Line(Task("CartPole", cart_pole.CartPole(), cart_pole.spec(), 500), recipes.cart_pole(), "control", **control),
        Line(Task("Acrobot", acrobot.Acrobot(), acrobot.spec(), 500), recipes.acrobot(), "control", **control),
    ]
    for name, personal in (("Dosing-0", False), ("Dosing-1", True)):
        task = Task(name, dosing.Dosing(personal=personal), dosing.spec(), dosing.HORIZON)
        out.append(Line(task, recipes.dosing(), "dosing", **doses, mlp=recipes.dosing(hidden=(64, 64))))
    names: tuple[locomotion.Name, ...] = ("HalfCheetah-v5", "Hopper-v5")
    for robot, recipe in zip(names, (recipes.half_cheetah(), recipes.hopper()), strict=True):
        task = Task(robot.removesuffix("-v5"), locomotion.Locomotion(robot), locomotion.spec(robot), locomotion.HORIZON)
        out.append(Line(task, recipe, "mujoco", **robots, epsilons=(8.0, 20.0), runs=3, episodes=20))
    return out


def small(line: Line) -> Line:
    """A few updates of everything."""

    def few(recipe: Recipe) -> Recipe:
        return replace(recipe, plan=replace(recipe.plan, rounds=3, users=8))

    peers = replace(line.ppo, steps=4_096), replace(line.a2c, steps=4_096)
    mlp = None if line.mlp is None else few(line.mlp)
    return replace(line, recipe=few(line.recipe), mlp=mlp, runs=2, episodes=4, ppo=peers[0], a2c=peers[1])


@dataclass(frozen=True)
class Uniform:
    """An actor with uniform actions."""

    spec: PublicSpec

    def __call__(self, observations: Seen, replicate: Seen, generator: np.random.Generator) -> Seen:
        action = self.spec.action
        if isinstance(action, Discrete):
            return generator.integers(action.n, size=len(observations))
        size = (len(observations), len(action.low))
        return generator.uniform(action.low, action.high, size).astype(np.float32)


def private(line: Line, recipe: Recipe, level: float | None) -> Values:
    """Learn through the door, and judge the policies.

    Args:
        line: the task.
        recipe: with a plan to calibrate at `level`, or (None) to price.
        level: epsilon.
    """
    plan = calibrated(recipe.plan, level)
    got = learned(line.task, replace(recipe, plan=plan), replicates=line.runs, seed=SEED)
    actors = {"last": got.actor(), "greedy": got.actor(greedy=True), "average": got.actor(greedy=True, average=True)}
    return {name: _returns(line, actor, recipe.repeat) for name, actor in actors.items()}


def start(line: Line) -> Values:
    """The first parameters of the recipe's policy."""
    policy, repeat = line.recipe.policy, line.recipe.repeat
    theta = policy.initial_parameters(np.random.default_rng(SEED), line.runs)
    actors = {"last": pg.PolicyActor(policy, theta), "greedy": pg.PolicyActor(policy, theta, greedy=True)}
    return {name: _returns(line, actor, repeat) for name, actor in actors.items()}


def free(line: Line, config: PpoConfig) -> Values:
    agent = peer(line.task, config, line.recipe.policy.head, agents=line.runs, seed=SEED, std=line.std)
    return {"last": _returns(line, agent), "greedy": _returns(line, replace(agent, greedy=True))}


def _returns(line: Line, actor: Any, repeat: int = 1) -> list[float]:
    return judged(line.task, actor, replicates=line.runs, episodes=line.episodes, repeat=repeat, seed=SEED)


def paper(line: Line, level: float) -> Values:
    """The paper's recipe and network, at the noise that this epsilon would have without the shared critic."""
    ours = line.recipe.plan
    published = pg.PolicyGradientPlan.paper(
        line.setting, noise_multiplier=calibrated(ours, level).noise_multiplier, seeded=True
    )
    people = ours.rounds * ours.users * min(1.0, ours.horizon * line.recipe.repeat / published.horizon)
    published = replace(published, rounds=math.ceil(people / published.users))
    other, own = CONTROLS["paper"], line.recipe.policy.network
    network = replace(own, sizes=(own.sizes[0], *other["hidden"], own.sizes[-1]), gain=other["gain"])
    policy = replace(line.recipe.policy, network=network)
    recipe = Recipe(published, policy, horizon=published.horizon, restarts=other["restarts"])
    return private(line, recipe, None)


def control(line: Line, method: str) -> Recipe:
    """Our recipe with the plan of a control."""
    ours, changed = line.recipe, CONTROLS[method]
    plan = replace(ours.plan, **changed["plan"])
    if "clip_of" in changed:
        plan = replace(plan, clip_norm=calibrated(ours.plan, line.epsilons[changed["clip_of"]]).bound)
    # nothing of people's rows enters noise alone, so one step of each of them is enough
    horizon = plan.horizon * ours.repeat if method == "noise_only" else ours.horizon
    return replace(ours, plan=plan, horizon=horizon)


def measured(line: Line, method: str, level: float | None) -> Values:
    """The values of one cell."""
    ours = line.recipe
    methods: dict[str, Callable[[], Values]] = {
        "dppg": lambda: private(line, ours, level),
        "dppg_mlp": lambda: private(line, line.mlp or ours, level),
        "paper": lambda: paper(line, level or 0.0),
        "ceiling": lambda: private(line, control(line, "ceiling"), None),
        "no_noise": lambda: private(line, control(line, "no_noise"), None),
        "noise_only": lambda: private(
            line, control(line, "noise_only"), line.epsilons[CONTROLS["noise_only"]["noise_of"]]
        ),
        "ppo": lambda: free(line, line.ppo),
        "a2c": lambda: free(line, line.a2c),
        "start": lambda: start(line),
        "random": lambda: {"last": _returns(line, Uniform(line.task.spec))},
    }
    return methods[method]()


def configuration(key: str) -> Json:
    line, method, level = _cell(key)
    return {
        "line": describe(line),
        "method": method,
        "level": level,
        "paper": describe(pg.PolicyGradientPlan.paper(line.setting, noise_multiplier=0.0, seeded=True))
        if method == "paper"
        else None,
        "control": describe(CONTROLS.get(method)),
        **guarantee(),
    }


store = store_of(__file__, configuration, "policy_gradient.recipes, fixed on seeds 0 to 7 of the same simulators")


def _cell(key: str) -> tuple[Line, str, float | None]:
    return next(
        (line, method, level) for line in lines() for method, level in line.cells if line.key(method, level) == key
    )


def rows() -> list[str]:
    return [line.key(method, level) for line in lines() for method, level in line.cells]


def run_row(key: str, results: Store) -> None:
    line, method, level = _cell(key)
    values = measured(line, method, level)
    people = f"{line.runs} runs of seed {SEED}, {line.episodes} fresh people for each policy"
    results.put(key, dataset=f"simulated {line.task.name}, {people}", seed=SEED, values=values)


def figures() -> Figures:
    results, by_name = store(), {line.task.name: line for line in lines()}

    def mean(task: str, method: str, level: float | None = None, column: str = "last") -> float:
        return float(np.mean(results.values(by_name[task].key(method, level))[column]))

    yield at_least("Dosing-1, epsilon 1: mean return", mean("Dosing-1", "dppg", 1.0), 113.0)
    yield at_least("CartPole, epsilon 1: mean return", mean("CartPole", "dppg", 1.0), 475.0)
    yield at_least("Acrobot, epsilon 1: mean return", mean("Acrobot", "dppg", 1.0), -110.0)
    for task in ("CartPole", "Acrobot", "Dosing-0", "Dosing-1"):
        for level in by_name[task].epsilons:
            ahead = mean(task, "dppg", level) - mean(task, "paper", level)
            yield at_least(f"{task}, epsilon {level:g}: ahead of the paper's recipe by", ahead, 0.0)


if __name__ == "__main__":
    command_line(__file__)
