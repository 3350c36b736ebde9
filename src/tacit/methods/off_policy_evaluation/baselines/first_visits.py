"""What DP-LSW and DP-LSL share: finitely many public states, first-visit returns, one release (on-policy)."""

from __future__ import annotations

import dataclasses
import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation.evaluation import Evaluation
from tacit.methods.off_policy_evaluation.features import Features
from tacit.methods.off_policy_evaluation.label import label
from tacit.methods.off_policy_evaluation.policies import Behaviour, Policy, Target
from tacit.methods.off_policy_evaluation.problem import Problem
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy, resolve
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.releases import Axis
from tacit.privacy.mechanisms.smooth_sensitivity import Constants, RegularisedLoss, Visits, WeightedStates
from tacit.privacy.mechanisms.sums import Once
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import exhausted
from tacit.privacy.vault.vault import Vault
from tacit.units import Unit
from tacit.validation import check

PART = "least_squares"
LARGEST_EPSILON = 1.0
"""The constants of the Gaussian under smooth sensitivity are proved up to here; more epsilon buys nothing."""


@dataclass(frozen=True, kw_only=True)
class FirstVisitPlan(plans.Promising, ABC):
    """The public parameters of both methods.

    Args:
        problem: what is evaluated; its public `return_range` is needed, and scales the noise.
        features: phi.
        cells: the public states: the observation cut at public edges, one axis a dimension. None takes one cell for
            each state of one-hot features. A cell's features are those of its middle.
        constants: the published noise, or the smaller one that the same proof gives.
        unit, epsilon, delta: the promise, set by `calibrate`; epsilon is 1 at most.

    Raises:
        PlanError: a parameter is out of range, or the return range is missing.
    """

    method: ClassVar[str]
    source: ClassVar[str] = "Balle, Gomrokchi, Precup, arXiv:1603.02010"

    problem: Problem
    features: Features
    cells: tuple[Axis, ...] | None = None
    constants: Constants = "tight"
    unit: Unit | None = None
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        known = self.problem.return_range is not None
        check("problem.return_range", self.problem.return_range, known, "a public range: it scales the noise")
        cells = self.cells is not None or self.features.tabular
        check("cells", self.cells, cells, "public edges of each dimension, as the features are not one-hot")
        if self.unit is not None:
            self.parts()

    @abstractmethod
    def mechanism(self) -> WeightedStates | RegularisedLoss:
        """The release, for this plan's unit, epsilon and delta."""

    def parts(self) -> tuple[Once, ...]:
        """One release, which pays (epsilon, delta).

        Raises:
            PlanError: the plan is not calibrated.
        """
        ready = self.unit is not None and self.epsilon is not None and self.delta is not None
        check("unit, epsilon, delta", None, ready, "a calibrated plan")
        return (Once(mechanism=self.mechanism()),)

    def calibrate(self, *, unit: Unit, epsilon: float, delta: float) -> Self:
        """The plan for (epsilon, delta); of more than epsilon 1 it makes no use, and promises (and pays) 1.

        Raises:
            PlanError: epsilon or delta is out of range, or delta >= 1 / population.
        """
        check("epsilon", epsilon, 0 < epsilon < float("inf"), "a finite number > 0")
        plans.check_delta(delta, unit)
        return dataclasses.replace(self, unit=unit, epsilon=min(epsilon, LARGEST_EPSILON), delta=delta)

    def price(self, *, unit: Unit, delta: float) -> Self:
        """The plan for this unit at the epsilon it has: noise follows from epsilon here, not the other way round."""
        check("epsilon", self.epsilon, self.epsilon is not None, "a number, as calibrate sets it")
        assert self.epsilon is not None
        return self.calibrate(unit=unit, epsilon=self.epsilon, delta=delta)

    def _shared(self) -> dict[str, Any]:
        """The mechanism's fields that both methods have."""
        axes = self.cells
        if axes is None:
            axes = (Axis("observations", 0, tuple(k - 0.5 for k in range(self.features.size + 1))),)
        assert self.problem.return_range is not None
        low, high = self.problem.return_range
        visits = Visits(axes, self.problem.gamma, self.problem.horizon, low, high)
        phi = np.asarray(self.features(middles(axes)), np.float64)
        return {
            "name": PART,
            "visits": visits,
            "features": tuple(tuple(row) for row in phi.tolist()),
            "weights": (1.0,) * len(phi),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rows_per_unit": self.problem.rows_per_unit,
            "constants": self.constants,
        }


def cells(low: tuple[float, ...], high: tuple[float, ...], bins: int) -> tuple[Axis, ...]:
    """`bins` equal intervals of each dimension of the box from `low` to `high`."""
    edges = np.linspace(low, high, bins + 1).T
    return tuple(Axis("observations", i, tuple(row.tolist())) for i, row in enumerate(edges))


def middles(axes: tuple[Axis, ...]) -> np.ndarray:
    """The middles of the cells [S, d], the last axis fastest; [S] whole numbers for one axis of unit cells."""
    points = [[(a + b) / 2 for a, b in itertools.pairwise(axis.edges)] for axis in axes]
    grid = np.array(list(itertools.product(*points)))
    if len(axes) == 1 and np.array_equal(grid, np.rint(grid)):
        return grid[:, 0].astype(np.int64)
    return grid


def evaluate(
    plan: FirstVisitPlan,
    vault: Vault,
    policy: Target | Release[Policy],
    behaviour: BehaviourPolicy | None = None,
) -> Release[Evaluation]:
    """Run a calibrated plan: the value function of the policy that made the records; no scalar value.

    Args:
        plan: an `Lsw` or `Lsl`, calibrated for the vault's unit.
        vault: the records and their ledger.
        policy: `Behaviour()`.
        behaviour: None: there are no ratios.

    Raises:
        PlanError: another policy is asked for, or the plan is not calibrated.
        PlanExhausted: the plan was run before under this ledger.
        BudgetExceeded: the ledger cannot pay.
    """
    target = resolve(policy, vault)
    if not isinstance(target, Behaviour) or behaviour is not None:
        raise PlanError(
            f"{plan.method} evaluates only the policy that made the records",
            where="off_policy_evaluation",
            expected="Behaviour()",
            remedy="use ResidualRegression or Gpope for another policy",
        )
    run = vault.reserve(plan)
    if vault.touched(run):
        raise exhausted(run, PART)
    theta = vault.release_once(run, PART)[0]
    value = Evaluation(method=plan.method, theta=theta, features=plan.features, limits=plan.problem.range(vault.spec))
    covered = f"one release of {plan.method} with noise of smooth sensitivity"
    return vault.release(run, value, label=label(covered, policy, target, None, features=plan.features))
