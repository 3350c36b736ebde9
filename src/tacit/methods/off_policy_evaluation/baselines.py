"""Earlier methods of off-policy evaluation, to compare with: private ones as published, and a non-private ceiling."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import PublicSpec
from tacit.errors import PlanError
from tacit.methods.off_policy_evaluation import scores
from tacit.methods.off_policy_evaluation.algorithm import Estimator, GaussianEstimator
from tacit.methods.off_policy_evaluation.features import AnyFeatures, Features
from tacit.methods.off_policy_evaluation.logged import cut_episodes
from tacit.methods.off_policy_evaluation.policies import Behaviour, DiscretePolicy, Target
from tacit.methods.off_policy_evaluation.problem import Evaluation, Problem
from tacit.methods.off_policy_evaluation.statistics import BellmanStatistics, Stats, encode_rows
from tacit.methods.off_policy_evaluation.targets import BehaviourPolicy
from tacit.parameters import Option
from tacit.privacy.mechanisms.base import Part
from tacit.privacy.mechanisms.releases import Axis
from tacit.privacy.mechanisms.smooth_sensitivity import Constants, RegularisedLoss, Visits, WeightedStates
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Clause, clause
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.vault import Vault
from tacit.units import Promise, Unit, require_delta
from tacit.validation import require_valid

STATISTICS = "statistics"
CHUNK = 256
"""Units that LSTD encodes at a time."""
LEAST_SQUARES = "least_squares"
MOST_STATES = 2**16
"""Of a table of states: whoever verifies a certificate makes it again."""
LARGEST_EPSILON = 1.0
"""The constants of the Gaussian under smooth sensitivity are proved up to here; more epsilon buys nothing."""


@dataclass(frozen=True, kw_only=True)
class FirstVisits(Estimator, ABC):
    """Least squares over first-visit returns at finitely many public states, in one release (on-policy). Balle,
    Gomrokchi and Precup (arXiv:1603.02010). The mechanisms are in `privacy/mechanisms/smooth_sensitivity.py`, their
    proof in `proofs/smooth_sensitivity.md`. The public `return_range` of the problem is needed, and scales the noise;
    epsilon is 1 at most."""

    source: ClassVar[str] = "Balle, Gomrokchi, Precup, arXiv:1603.02010"

    features: AnyFeatures
    """phi."""
    cells: tuple[Axis, ...] | None = None
    """the public states: the observation cut at public edges, one axis a dimension. None takes one cell for each state
    of one-hot features. A cell's features are those of its middle."""
    constants: Constants = "tight"
    """the published noise, or the smaller one that the same proof gives."""

    def __post_init__(self) -> None:
        ranged = self.problem.return_range is not None
        require_valid("problem.return_range", self.problem.return_range, ranged, "a public range: it scales the noise")
        cells = self.cells is not None or self.features.tabular
        require_valid("cells", self.cells, cells, "public edges of each dimension, as the features are not one-hot")
        if self.promise is not None:
            self.parts()

    @abstractmethod
    def mechanism(self) -> WeightedStates | RegularisedLoss:
        """The release, for this plan's unit, epsilon and delta."""

    def parts(self) -> tuple[Part, ...]:
        """One release, which pays (epsilon, delta)."""
        return (self.mechanism(),)

    @property
    def covered_clauses(self) -> tuple[Clause, ...]:
        """The one release."""
        return (clause("smooth_release", words=self.method),)

    def require(self, target: Target, behaviour: BehaviourPolicy | None, spec: PublicSpec) -> None:
        """Refuse every policy but the one that made the records: there are no ratios."""
        if not isinstance(target, Behaviour) or behaviour is not None:
            what = f"{self.method} evaluates only the policy that made the records"
            expected, remedy = "Behaviour()", "use ResidualRegression or Gpope for another policy"
            raise PlanError(what, where="off_policy_evaluation", expected=expected, remedy=remedy)

    def estimate(self, vault: Vault, run: Run, target: Target, behaviour: DiscretePolicy | None) -> Evaluation:
        """V alone: there is no scalar value."""
        theta = vault.release_once(run, LEAST_SQUARES)[0]
        limits = self.problem.value_range(vault.spec)
        return Evaluation(method=self.method, theta=theta, features=self.features, limits=limits)

    def calibrate(self, *, unit: Unit, epsilon: float, delta: float) -> Self:
        """The plan for (epsilon, delta); of more than epsilon 1 it makes no use, and promises (and pays) 1."""
        require_valid("epsilon", epsilon, 0 < epsilon < float("inf"), "a finite number > 0")
        require_delta(delta, unit)
        return plans.with_promise(self, Promise(unit, min(epsilon, LARGEST_EPSILON), delta))

    def account(self, *, unit: Unit, delta: float) -> Self:
        """The plan for this unit at the epsilon it has: noise follows from epsilon here, not the other way round."""
        return self.calibrate(unit=unit, epsilon=self.epsilon, delta=delta)

    def _mechanism(self) -> dict[str, Any]:
        """The mechanism's fields that both methods have."""
        axes = self.cells
        states = self.features.size if axes is None else math.prod(len(axis.edges) - 1 for axis in axes)
        require_valid("cells", states, states <= MOST_STATES, f"at most {MOST_STATES:,} states")
        if axes is None:
            axes = (Axis("observations", 0, tuple(k - 0.5 for k in range(self.features.size + 1))),)
        assert self.problem.return_range is not None
        low, high = self.problem.return_range
        visits = Visits(axes, self.problem.gamma, self.problem.horizon, low, high)
        phi = np.asarray(self.features(middles(axes)), np.float64)
        return {
            "name": LEAST_SQUARES,
            "visits": visits,
            "features": tuple(tuple(row) for row in phi.tolist()),
            "weights": (1.0,) * len(phi),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rows_per_unit": self.problem.rows_per_unit,
            "constants": self.constants,
        }


@dataclass(frozen=True, kw_only=True)
class Lsw(FirstVisits):
    """DP-LSW: a public weight a state, the same for all of them (see `FirstVisits`)."""

    method: ClassVar[str] = "DP-LSW"

    def mechanism(self) -> WeightedStates:
        """The release."""
        return WeightedStates(**self._mechanism())


@dataclass(frozen=True, kw_only=True)
class Lsl(FirstVisits):
    """DP-LSL: least squares with a ridge (see `FirstVisits`)."""

    method: ClassVar[str] = "DP-LSL"

    ridge: float | None = None
    """lambda; None takes the population. The published constants need more than the squared norm of the matrix of all
    states' features."""

    def mechanism(self) -> RegularisedLoss:
        """The release."""
        return RegularisedLoss(**self._mechanism(), ridge=float(self.unit.size) if self.ridge is None else self.ridge)


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


@dataclass(frozen=True, kw_only=True)
class SufficientStatistics(GaussianEstimator):
    """DP-LSTD, sufficient-statistics perturbation: one noisy release of A and b, then LSTD with a ridge of the noise.

    Perturbing the sufficient statistics of a regression: Vu and Slavkovic 2009; Wang (arXiv:1803.02596). The ridge that
    the noise in A asks for is n s^2, the expectation of E^T E for noise E of standard deviation s. A and b share one
    clip, as published, so that the result depends on the unit of reward: scale rewards to a size of about 1.
    """

    method: ClassVar[str] = "DP-LSTD"
    source: ClassVar[str] = "sufficient-statistics perturbation (Wang, arXiv:1803.02596) of LSTD"

    features: AnyFeatures
    """phi, n numbers a state."""
    clip_norm: Option[float]
    """largest norm of one unit's stacked (A_i, b_i - A_i theta_0), n^2 + n numbers."""
    value_share: float = 0.2
    """of the precision (1 / noise^2), what the value with its interval gets. It is released first, and theta_0 gives
    every state that value (the start-centred variant). 0 is DP-LSTD as it is known: theta_0 = 0, and no scalar
    value."""

    def __post_init__(self) -> None:
        require_valid("clip_norm", self.clip_norm, 1e-6 <= self.clip_norm <= 1e6, "a number from 1e-6 to 1e6")
        require_valid("value_share", self.value_share, 0 <= self.value_share < 1, "a number in [0, 1)")
        super().__post_init__()
        self.parts()

    def sums(self) -> tuple[PoissonSum, ...]:
        """One noisy sum of the statistics, divided by the clip; and, before it, one of scores."""
        sigma, share = self.own_noise, self.value_share
        statistics = self.problem.part(STATISTICS, sigma and sigma / math.sqrt(1 - share))
        if not share:
            return (statistics,)
        return self.problem.part(scores.NAME, sigma and sigma / math.sqrt(share)), statistics

    @property
    def covered_clauses(self) -> tuple[Clause, ...]:
        """The statistics, and the scores if there are any."""
        return (clause("lstd_sum"), *([clause("scores_sum")] if self.value_share else []))

    def estimate(self, vault: Vault, run: Run, target: Target, behaviour: DiscretePolicy | None) -> Evaluation:
        """V and, with a share for it, the value with an interval."""
        value, interval, centre = None, None, np.zeros(self.features.size)
        if self.value_share:
            noisy_scores = scores.release_value_scores(vault, run, self.problem, target, behaviour)
            interval = noisy_scores.interval(self.level)
            value = interval.clamp(noisy_scores.value())
            centre = self.features.constant(value)
        summary = BellmanStatistics(self.problem, target, behaviour, self.features, "gtd")
        noisy = self.clip_norm * scores.noisy_mean(vault, run, STATISTICS, LstdVector(summary, self.clip_norm), centre)
        return Evaluation(
            method=self.method,
            value=value,
            interval=interval,
            theta=solve(noisy, self.clip_norm * scores.noise(vault, run, STATISTICS), centre),
            features=self.features,
            limits=self.problem.value_range(vault.spec),
        )


@dataclass(frozen=True)
class LstdVector:
    """Each unit's (A, b - A theta_0) over the clip, [U, n^2 + n], for the state theta_0 [n]."""

    summary: BellmanStatistics
    clip_norm: float

    def __call__(self, rows: Stats, state: np.ndarray) -> np.ndarray:
        """Statistics [U, ...] -> [U, n^2 + n]."""
        if "A" in rows:
            A, b = rows["A"].astype(np.float64), rows["b"].astype(np.float64)
        else:
            Z, D = rows["Z"].astype(np.float64), rows["D"].astype(np.float64)
            A, b = np.swapaxes(Z, 1, 2) @ D, np.einsum("uln,ul->un", Z, rows["r"].astype(np.float64))
        stacked = np.concatenate([A.reshape(len(A), -1), b - A @ state], axis=1)
        return np.asarray(stacked / self.clip_norm)


def solve(noisy: np.ndarray, noise: float, centre: np.ndarray) -> np.ndarray:
    """theta [n] from a noisy mean [n^2 + n] of (A, b - A theta_0), whose entries have this much noise."""
    n = len(centre)
    A, b = noisy[: n * n].reshape(n, n), noisy[n * n :]
    ridge = max(n * noise**2, 1e-12)
    return np.asarray(centre + np.linalg.solve(A.T @ A + ridge * np.eye(n), A.T @ b))


def lstd(
    rows: Stats, problem: Problem, features: Features, policy: Target, behaviour: DiscretePolicy | None = None
) -> NDArray[np.float64]:
    """theta = (sum rho_t phi_t (phi_t - gamma phi_{t+1})^T)^+ sum rho_t phi_t r_t over all transitions of all units."""
    # It is a plain function of rows, for simulated records or inside `Vault.nonprivate`: what the records would give if
    # they could be used freely. Nothing that it returns may be published. On-policy it is LSTD (Bradtke and Barto
    # 1996). Off-policy the ratio is on the whole temporal-difference error, which is WIS-LSTD at lambda 0 (Mahmood, van
    # Hasselt and Sutton 2014) and the fixed point that GTD2 aims at, but for the weights: GPOPE averages over each
    # trajectory's own steps first, so that long and short ones weigh alike. rows: columns [U, L, ...] with `mask` and
    # `starts`; features: phi; behaviour: the known behaviour policy, None takes the logged propensities; returns: [n];
    # the least-norm solution where features are never seen or linearly dependent
    n = features.size
    A, b = np.zeros((n, n)), np.zeros(n)
    for start in range(0, len(rows["mask"]), CHUNK):
        chunk = {name: column[start : start + CHUNK] for name, column in rows.items()}
        log = cut_episodes(chunk, problem, policy, behaviour)
        phi, next_phi = (array.reshape(-1, n).astype(np.float64) for array in encode_rows(log, features))
        weighted = log.ratio.reshape(-1, 1) * phi
        A += weighted.T @ (phi - problem.gamma * next_phi)
        b += weighted.T @ log.rewards.ravel()
    return np.asarray(np.linalg.lstsq(A, b, rcond=1e-10)[0], np.float64)
