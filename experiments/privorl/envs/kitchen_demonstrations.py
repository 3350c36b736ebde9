"""Demonstrations in FrankaKitchen by a scripted controller whose people differ. These rows are not D4RL's.

D4RL's kitchen (Fu et al. 2020, arXiv:2004.07219) holds what people did by teleoperation. Here `kitchen_controller`
does the tasks. A demonstration is one episode of one person with a pace, places and a tremor of her own. She does the
tasks of a `Menu` in its order and may leave one out. An episode ends with her last task, or after the kitchen's 280
steps. It ends in a terminal where all tasks are done.

Private rows are demonstrations of `MOVEMENT_WORDS`: microwave, kettle, light switch, slide cabinet. Public rows are
those of other people who do `OTHER`: slide cabinet, kettle, bottom burner. Both share the arm, the room and two tasks,
in another order, but no person and no seed. So a policy of public rows may do two of the four tasks.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from experiments.lib.table_cache import Columns
from experiments.privorl.envs import kitchen, kitchen_controller
from experiments.privorl.envs.kitchen import COMPLETE, HORIZON, Task
from experiments.privorl.envs.kitchen_controller import FloatArray, Style


@dataclass(frozen=True)
class Menu:
    """What people do."""

    order: tuple[Task, ...]  # the tasks, which count as rewards
    left_out: float = 0.25  # probability with which a person leaves one task out; which one is drawn evenly
    # slowest, fastest: metres per second of the fingertip
    slowest: float = 0.38
    fastest: float = 0.48

    def person(self, rng: np.random.Generator) -> tuple[list[Task], Style]:
        tasks = list(self.order)
        if rng.random() < self.left_out:
            del tasks[rng.integers(len(tasks))]
        return tasks, Style(speed=float(rng.uniform(self.slowest, self.fastest)))


OWN = Menu(COMPLETE)
OTHER = Menu(("slide cabinet", "kettle", "bottom burner"))


def collect(population: int, *, menu: Menu = OWN, seed: int) -> Columns:
    """So many transitions of people with this menu, episode after episode; the last episode is cut."""
    found: list[Columns] = []
    rows = 0
    while rows < population:
        found.append(episode(menu, seed=seed, number=len(found)))
        rows += len(found[-1]["rewards"])
    return {name: np.concatenate([one[name] for one in found])[:population] for name in found[0]}


def episode(menu: Menu, *, seed: int, number: int) -> Columns:
    """The demonstration of one person: her rows, without what follows her last task."""
    rng = np.random.default_rng([seed, number])
    tasks, style = menu.person(rng)
    room = kitchen.new_room(menu.order)
    try:
        seen = room.reset(seed=int(rng.integers(2**31)))[0]["observation"].copy()
        arm = kitchen_controller.Arm(room)
        steps: list[tuple[FloatArray, ...]] = []
        hers: Iterator[FloatArray] = kitchen_controller.actions(arm, tasks, style, rng)
        for action, _ in zip(hers, range(HORIZON), strict=False):
            view, paid, over, _, _ = room.step(action)
            after = view["observation"].copy()
            steps.append((seen, action, np.float64(paid), after, np.bool_(over)))
            seen = after
            if over:
                break
    finally:
        room.close()
    observations, actions, rewards, following, ends = (np.array(column) for column in zip(*steps, strict=True))
    return {
        "observations": observations.astype(np.float32),
        "actions": actions.astype(np.float32),
        "rewards": rewards.astype(np.float32),
        "next_observations": following.astype(np.float32),
        "terminations": ends.astype(np.bool_),
    }
