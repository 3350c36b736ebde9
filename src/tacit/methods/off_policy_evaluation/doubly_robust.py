"""Private doubly robust evaluation: Q from one half of the units, weighted residuals of it from the other.

    J = E[ V(s_0) + sum_t gamma^t w_t (r_t + gamma V(s_{t+1}) - Q(s_t, a_t)) ]

for any fixed Q (Jiang and Li, arXiv:1511.03722), the better Q the less the weights w_t matter. The two halves are fixed
for the ledger's life, so each part costs as if it were alone (parallel composition).

The point estimate clips these signed scores. They give no interval: a clip moves their mean either way. Writing a score
as a sum of scores that are not negative, as for the returns, needs a bound M on every residual, and what is lost to the
clip then scales with M (the width of the range of Q) where for plain rewards it scales with the rewards. So the
interval is that of the plain scores, of the second half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacit.data.spec import PublicSpec
from tacit.methods.off_policy_evaluation import scores
from tacit.methods.off_policy_evaluation.fitted_q import QEstimator
from tacit.methods.off_policy_evaluation.logged import Logged
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.methods.off_policy_evaluation.q_function import QFunction
from tacit.methods.off_policy_evaluation.scores import Scores
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.validation import check


@dataclass(frozen=True, kw_only=True)
class DoublyRobust(QEstimator):
    """Doubly robust evaluation over two fixed halves of the units: the first fits Q, the second corrects it.

    Raises:
        PlanError: a value is out of range.
    """

    method: ClassVar[str] = "off-policy evaluation (doubly robust)"
    source: ClassVar[str] = "Jiang and Li, arXiv:1511.03722, with the Gaussian mechanism"

    width: float = 0.5
    """the doubly robust scores are clipped so far to either side of the mean return, in multiples of the public
    range."""

    def __post_init__(self) -> None:
        check("width", self.width, 1e-6 <= self.width <= 1e6, "a number from 1e-6 to 1e6")
        super().__post_init__()

    @property
    def covered(self) -> str:
        """The noisy sums of both halves."""
        return f"{self.regression.rounds + 2} noisy sums over one fixed half of the units and one over the other"

    def sums(self) -> tuple[PoissonSum, ...]:
        """The Gram matrix and the rounds of residuals on the first half, the scores on the second."""
        first = self.regression.parts(self.problem, self.own_noise, 0)
        return (*first, self.problem.part(scores.NAME, self.own_noise, fold=1))

    def half_width(self, spec: PublicSpec) -> float:
        """The width in multiples of the public range."""
        low, high = self.problem.range(spec)
        return self.width * (high - low)

    def point(self, spec: PublicSpec) -> DoublyRobustScore:
        """The doubly robust score."""
        return DoublyRobustScore(self.problem, self.half_width(spec))

    def further(self, found: Scores) -> dict[str, float]:
        """The estimate from the plain scores."""
        return {"importance_sampling": found.value()}


@dataclass(frozen=True)
class DoublyRobustScore:
    """Each unit's doubly robust score over the width around the fit's centre; the state is Q. A row that the horizon
    ends has nothing after it, as the value is that of the return over the horizon; a row after which the records were
    cut earlier is bootstrapped."""

    problem: Problem
    width: float

    def __call__(self, log: Logged, state: QFunction) -> np.ndarray:
        """[U], the mean over the unit's episodes."""
        shape, gamma = log.alive.shape, self.problem.gamma
        chosen = np.where(log.alive, log.actions, 0)[..., None]
        q = np.take_along_axis(state.over("q", log.observations, shape), chosen, axis=2)[..., 0]
        goes_on = ~log.terminations & (log.step < self.problem.horizon - 1)
        after = goes_on * state.over("v", log.next_observations, shape)
        corrections = log.discount(gamma) * scores.weights(log) * (log.rewards + gamma * after - q)
        starts = log.alive & (log.step == 0)
        each = corrections * log.alive + starts * state.over("v", log.observations, shape)
        return np.asarray((each.sum(axis=1) / log.episodes - state.centre) / self.width)
