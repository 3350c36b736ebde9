"""A cell of Figure 3 of the paper on expert-level privacy with a learner of your own.

    python -m experiments.experts.figure3 --world cart_pole --experts mixed --learner mine:fit --epsilon 1

`fit(task)` learns from the logs of 3,000 experts and returns a policy: `policy(observations)` gives actions [n] for
observations [n, d]. Judged is its mean undiscounted return in fresh episodes. A seed is a population with its logs. The
experts are stand-ins of ours, not the paper's, which has a picture alone, no numbers.
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np

from experiments.experts.experts_runs import DELTA, SIZES, Field
from experiments.experts.experts_table import FREE, SEEDS, returns, store
from experiments.experts.experts_tables import PRIVATE, REFERENCES
from experiments.lib import cell
from tacit.data.spec import PublicSpec
from tacit.data.trajectories import Trajectories
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit_worlds.populations import Kind


@dataclass(frozen=True)
class Task:
    """What a learner gets."""

    here: Field  # the population
    logs: Path  # the folder of its logs, in tacit's own format
    epsilon: float  # what it is to promise, for one expert added or removed
    delta: float = DELTA

    @cached_property
    def rows(self) -> Mapping[str, np.ndarray]:
        return Trajectories.open(self.logs).columns

    @property
    def spec(self) -> PublicSpec:
        """Public bounds of observations, actions and rewards."""
        return self.here.world.spec

    @property
    def unit(self) -> Unit:
        """One expert with all logs."""
        return self.here.unit

    def vault(self, plan: Any) -> AbstractContextManager[Vault]:
        """The logs in a vault that can pay for this calibrated plan: what it promises is then accounted."""
        return self.here.vault(self.logs, delta=1.0000001 * DELTA)


def judge(task: Task, made: Any) -> cell.Values:
    """The mean return of fresh episodes."""
    if not callable(made):
        raise cell.refuse(
            f"a {type(made).__name__}", "a policy: a function of observations [n, d] that gives actions [n]"
        )
    return {"return": float(task.here.returns(lambda seen, replicate, generator: np.asarray(made(seen)))[0])}


def others(name: str, kind: str, epsilon: float) -> list[cell.Line]:
    found, results = [], store()
    for method, words in (PRIVATE | REFERENCES).items():
        with suppress(LookupError, KeyError):
            at = None if method in (*FREE, "noise", "experts") else epsilon
            values = returns(results, name, kind, method, at)
            found.append(cell.Line(words, {"return": values}, f"seeds {SEEDS[0]} to {SEEDS[-1]}, `experts_table`"))
    return [*found, cell.Line("the paper", {}, cell.SILENT)]


def main(arguments: Sequence[str]) -> dict[str, list[float]]:
    options = cell.parser(__doc__, "learner")
    options.add_argument("--world", choices=SIZES, default="cart_pole")
    options.add_argument("--experts", choices=get_args(Kind), default="mixed")
    chosen = options.parse_args(arguments)
    with ExitStack() as opened:

        def task(seed: int) -> Task:
            here = Field.of(chosen.world, chosen.experts, seed)
            here = here.small() if chosen.quick else here
            return Task(here, opened.enter_context(here.logs()), chosen.epsilon)

        return cell.run(
            cell.Cell(
                title=f"Experts, Figure 3: {chosen.world}, {chosen.experts} experts, epsilon {chosen.epsilon:g}, "
                f"delta {DELTA:.3g}, one expert",
                measures=("return",),
                task=task,
                judge=judge,
                seeds=SEEDS,
                others=others(chosen.world, chosen.experts, chosen.epsilon),
            ),
            chosen,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
