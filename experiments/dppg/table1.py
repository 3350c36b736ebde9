"""A cell of DPPG's Table 1 with a learner of your own.

    python -m experiments.dppg.table1 --task CartPole --learner mine:fit --epsilon 1

`fit(task)` meets people and returns a policy: `policy(observations, generator)` gives actions for observations [n, d],
where `generator` is numpy's. People are met by `task.meet(policy, count)`, each once, at most as many as ours meets.
Judged is the mean undiscounted return of fresh people. MuJoCo's tasks have epsilon 8 and 20. The paper's numbers are
missing in the text that we have.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from experiments.dppg.dppg_runs import DELTA, judged, opened, unit
from experiments.dppg.dppg_table1 import SEED, Line, lines, small
from experiments.dppg.dppg_table1 import store as stored
from experiments.dppg.dppg_tables import METHODS
from experiments.lib import cell
from tacit.data.spec import PublicSpec
from tacit.envs.serving import SimulatedUsers, serve
from tacit.privacy.vault.user_vault import UserVault
from tacit.units import Unit

Policy = Callable[[np.ndarray, np.random.Generator], Any]


@dataclass(frozen=True)
class Task:
    """What a learner gets."""

    line: Line  # the task of the table
    epsilon: float  # what it is to promise, for one person added or removed
    seed: int  # of the people
    delta: float = DELTA
    met: list[int] = field(default_factory=list)

    @property
    def spec(self) -> PublicSpec:
        """Public bounds of observations, actions and rewards."""
        return self.line.task.spec

    @property
    def horizon(self) -> int:
        """Steps of an episode at most."""
        return self.line.task.horizon

    @property
    def people(self) -> int:
        """How many ours meets, and this learner may meet."""
        return self.line.recipe.plan.rounds * self.line.recipe.plan.users

    @property
    def unit(self) -> Unit:
        """One person, met once."""
        return unit(self.people)

    def meet(self, policy: Policy, count: int) -> Mapping[str, np.ndarray]:
        """Rows [count, steps] of an episode of each of so many new people; `mask` says which rows there are."""
        if sum(self.met) + count > self.people:
            raise SystemExit(
                f"your method met {sum(self.met):,} people and wants {count:,} more; ours meets {self.people:,}"
            )
        generator = np.random.default_rng([self.seed, len(self.met)])
        self.met.append(count)
        task = self.line.task
        return serve(task.domain, _actor(policy), np.zeros(count, np.int64), horizon=task.horizon, generator=generator)

    def vault(self, plan: Any) -> AbstractContextManager[UserVault]:
        """People in a vault that can pay for this calibrated plan: what it promises is then accounted."""
        domain = self.line.task.domain
        return opened(SimulatedUsers(domain, self.spec, horizon=self.horizon, replicates=1, seed=self.seed), plan)


def _actor(policy: Policy) -> Any:
    return lambda observations, replicate, generator: np.asarray(policy(observations, generator))


def judge(task: Task, made: Any) -> cell.Values:
    """The mean return of fresh people."""
    if not callable(made):
        raise cell.refuse(f"a {type(made).__name__}", "a policy: a function of observations [n, d] and a generator")
    found = judged(task.line.task, _actor(made), replicates=1, episodes=task.line.episodes, seed=task.seed)
    return {"return": found[0]}


def others(line: Line, epsilon: float) -> list[cell.Line]:
    found, results = [], stored()
    for method, level in line.cells:
        if level in (None, epsilon) and results.has(key := line.key(method, level)):
            source = f"{line.runs} runs of seed {SEED}, `dppg_table1`"
            found.append(cell.Line(METHODS[method], {"return": results.values(key)["last"]}, source))
    return [*found, cell.Line("the paper", {}, cell.SILENT)]


def main(arguments: Sequence[str]) -> dict[str, list[float]]:
    tasks = {line.task.name: line for line in lines()}
    options = cell.parser(__doc__, "learner")
    options.add_argument("--task", choices=tasks, default="CartPole")
    chosen = options.parse_args(arguments)
    line = small(tasks[chosen.task]) if chosen.quick else tasks[chosen.task]
    people = line.recipe.plan.rounds * line.recipe.plan.users
    return cell.run(
        cell.Cell(
            title=f"DPPG, Table 1: {chosen.task}, epsilon {chosen.epsilon:g}, delta {DELTA:g}, {people:,} people",
            measures=("return",),
            task=lambda seed: Task(line, chosen.epsilon, seed),
            judge=judge,
            seeds=range(SEED, SEED + line.runs),
            others=others(line, chosen.epsilon),
        ),
        chosen,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
