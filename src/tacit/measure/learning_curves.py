"""Learning curves: what the policies of a few seeds are worth while they learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tacit.envs.evaluation import Policies
from tacit.errors import DataError
from tacit.measure.statistics import Estimate, bootstrap

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Curve:
    """Scores of K policies, looked at E times.

    Args:
        steps: E numbers of training steps, rising.
        scores: [E, K], in the task's unit (such as normalised return).
    """

    steps: tuple[int, ...]
    scores: Floats

    def band(self, *, confidence: float = 0.95, seed: int = 0) -> tuple[Estimate, ...]:
        """Interquartile mean and bootstrap interval over the K policies at each look, E of them."""
        return tuple(bootstrap(row, confidence=confidence, seed=seed) for row in self.scores)


class Recorder:
    """Evaluates policies of several tables while they learn: the `call` of `tacit.agents.offline.Watch`.

    Args:
        names: one a table, in the order in which the tables are trained.
        evaluate: K policies -> their K scores; with its own seed, so that every look is at the same task.
    """

    def __init__(self, names: Sequence[str], evaluate: Callable[[Policies], npt.NDArray[np.float64]]) -> None:
        self.names, self._evaluate = tuple(names), evaluate
        self._steps: list[int] = []
        self._scores: dict[str, list[Floats]] = {name: [] for name in self.names}

    def __call__(self, step: int, policies: Sequence[Policies]) -> None:
        """Note what the policies are worth after `step` steps.

        Raises:
            DataError: there is not one set of policies a table.
        """
        if len(policies) != len(self.names):
            raise DataError(
                f"{len(policies)} sets of policies",
                where="learning_curves.Recorder",
                expected=f"{len(self.names)}, one a name",
                remedy="name the tables that are trained together, in their order",
            )
        self._steps.append(step)
        for name, own in zip(self.names, policies, strict=True):
            self._scores[name].append(np.asarray(self._evaluate(own), np.float64))

    def curves(self) -> dict[str, Curve]:
        """The curve of each table so far."""
        return {name: Curve(tuple(self._steps), np.array(scores)) for name, scores in self._scores.items()}
