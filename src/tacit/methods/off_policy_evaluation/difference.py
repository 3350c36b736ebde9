"""What following a policy a little would change: its difference to the practice that made the records.

The policy decides a share eta of the first K visits of an episode, each by a coin of its own, and the records' own
practice decides the rest. With rho_t the ratio of the two policies' probabilities of the logged action, an episode has

    W = prod_{t<K} (1 - eta + eta rho_t) >= 0,    E[W Y] = what such episodes return, for returns Y in [l, h]

E[W] = 1 where practice sometimes takes every action of the policy. So two scores have the difference as their mean, up
to a sign, and each is at least -1 whatever the ratios are, with y = (Y - l) / (h - l):

    x = (W - 1) y          E x = difference / (h - l)
    v = (W - 1) (1 - y)    E v = - difference / (h - l)

A clip of large weights can only lower either, and so can actions that practice never takes. Lower bounds on both means
bound the difference on both sides. Weights of few visits, or of a small share, stay near 1: that is why this is known
far better than the value of the policy that decides alone. Proof page: `proofs/off_policy_evaluation.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import Discrete, PublicSpec
from tacit.methods.off_policy_evaluation.intervals import NoisySums, bounds
from tacit.methods.off_policy_evaluation.logged import LoggedEpisodes, cut_episodes
from tacit.methods.off_policy_evaluation.policies import DiscretePolicy
from tacit.methods.off_policy_evaluation.problem import Difference, Interval, Problem
from tacit.methods.off_policy_evaluation.scores import FIT, clip_for, limits
from tacit.privacy.mechanisms.contribution_sets import Block
from tacit.privacy.sentences import Clause, clause
from tacit.privacy.vault.base import Run
from tacit.privacy.vault.vault import Vault
from tacit.validation import require_valid, require_whole

Float64 = NDArray[np.float64]
PART = "difference"
SHARES = (0.8, 0.06, 0.14)
"""Of the squared norm of a unit's vector: its pair of scores, its presence, its squared scores."""
BLOCKS = (
    Block(kind="signed", share=SHARES[0], size=2),
    Block(kind="constant", share=SHARES[1], size=1),
    Block(kind="positive", share=SHARES[2], size=2),
)
"""Of what a unit's vector consists."""
DEVIATIONS = 3.0
"""The clip: so many standard deviations that W has where practice takes all actions alike."""
LARGEST_LOG = 50.0
"""Weights are cut at its exponential: they are far above every clip there."""
WORDS = (
    "between two one-sided bounds, each from scores that a clip can only lower; the sampling of units and the noise "
    "are both counted"
)


@dataclass(frozen=True, kw_only=True)
class Following:
    """How much the policy is followed, and what it costs to know.

    Args:
        share: eta, of the visits in which it decides.
        visits: K, only the first so many visits of an episode count for that; None is all of them.
        budget: share of the plan's precision 1 / sigma^2 that the difference gets; the value gets the rest.
    """

    share: float = 0.05
    visits: int | None = None
    budget: float = 0.25

    def __post_init__(self) -> None:
        require_valid("share", self.share, 0 < self.share <= 1, "a number in (0, 1]")
        require_whole(visits=1 if self.visits is None else self.visits)
        require_valid("budget", self.budget, 0 < self.budget < 1, "a number in (0, 1)")

    @property
    def extent(self) -> str:
        """In words, after "following the policy"."""
        share = "" if self.share == 1 else f"in {100 * self.share:.3g} % of "
        if self.visits is None:
            return f"{share}the visits" if share else "in every visit"
        first = "visit" if self.visits == 1 else f"{self.visits:,} visits"
        return f"{share or 'in '}the first {first}"

    @property
    def words(self) -> str:
        """What it costs, in a sentence."""
        spent = f"{100 * self.budget:.3g} % of this budget (1 / sigma^2)"
        return f"What following the policy {self.extent} changes gets {spent}."

    @property
    def covered_clauses(self) -> tuple[Clause, ...]:
        """What it releases, for the certificate."""
        return (clause("difference_sum", extent=self.extent),)

    def estimate(
        self,
        vault: Vault,
        run: Run,
        problem: Problem,
        target: DiscretePolicy,
        behaviour: DiscretePolicy | None,
        *,
        level: float | None,
    ) -> Difference:
        """The difference and its interval, through the run's part.

        Args:
            vault, run: the records, and the run of a plan that has the part.
            problem: what an episode returns.
            target: the policy that is followed.
            behaviour: the known behaviour policy; None takes the logged propensities.
            level: nominal coverage; None gives no interval.

        Raises:
            PlanExhausted: it was released before.
        """
        part, units = run.sum_part(PART), vault.unit.size
        assert part.noise_multiplier is not None
        expected = units / (1 if part.fold is None else 2)
        clip = self.clip(vault.spec, problem, clip_for(expected, part.noise_multiplier))
        scores = DifferenceScores(problem, target, behaviour, self, limits(problem, vault.spec), clip)
        total = vault.noisy_sum(run, PART, scores)[0] * units
        return scores.read(total, noise=part.noise_multiplier, population=units, expected=expected, level=level)

    def clip(self, spec: PublicSpec, problem: Problem, most: float) -> float:
        """The largest length of an episode's pair of scores: public, at least 1 and at most `most`."""
        actions = spec.action.n if isinstance(spec.action, Discrete) else 2
        visits = min(self.visits or problem.horizon, problem.horizon)
        # a chance of 1 / actions each makes E[W^2] = (1 + eta^2 (actions - 1))^visits
        log = min(visits * math.log1p(self.share**2 * (actions - 1)), LARGEST_LOG)
        return min(most, max(1.0, DEVIATIONS * math.sqrt(math.expm1(log))))


@dataclass(frozen=True, eq=False)
class DifferenceScores:
    """Each unit's vector of (pair, presence, squared pair), [U, 5], of norm at most 1, as a contribution."""

    problem: Problem  # discount, horizon, episodes
    policy: DiscretePolicy  # the evaluated policy
    behaviour: DiscretePolicy | None  # the known behaviour policy, or None for logged propensities
    following: Following
    limits: tuple[float, float]  # l, h
    clip: float  # the largest length of a pair, at least 1

    def __call__(self, rows: Mapping[str, np.ndarray], state: object) -> Float64:
        """Rows [U, L, ...] -> [U, 5]."""
        if not len(rows["mask"]):  # an empty half of the units: the policy need not know what to do
            return np.zeros((0, 5))
        log = cut_episodes(rows, self.problem, self.policy, self.behaviour)
        units, pairs = self.pairs(log)
        pairs /= np.maximum(self.clip, np.linalg.norm(pairs, axis=1, keepdims=True))
        sums = np.stack([np.bincount(units, column, len(log.alive)) for column in pairs.T], axis=1)
        means = sums / log.episodes[:, None]
        a, b, d = np.sqrt(SHARES)
        return np.asarray(FIT * np.concatenate([a * means, np.full((len(means), 1), b), d * means**2], axis=1))

    def pairs(self, log: LoggedEpisodes) -> tuple[NDArray[np.int64], Float64]:
        """Whose each of the C episodes is, [C], and its (x, v), [C, 2], before the clip."""
        alive, (low, high) = log.alive, self.limits
        starts, units = log.starts[alive], np.nonzero(alive)[0]
        episode, episodes = np.cumsum(starts) - 1, int(starts.sum())
        share = np.where(log.step[alive] < (self.following.visits or self.problem.horizon), self.following.share, 0.0)
        factors = np.log(np.maximum(1 - share + share * log.ratio[alive], 1e-300))
        weights = np.exp(np.minimum(np.bincount(episode, factors, episodes), LARGEST_LOG))
        rewards = log.discount(self.problem.gamma)[alive] * log.rewards[alive]
        y = (np.clip(np.bincount(episode, rewards, episodes), low, high) - low) / (high - low)
        return units[starts], (weights - 1)[:, None] * np.stack([y, 1 - y], axis=1)

    def read(
        self, total: Float64, *, noise: float, population: int, expected: float, level: float | None
    ) -> Difference:
        """What a noisy sum [5] of the vectors says (post-processing).

        Args:
            total: the sum.
            noise: its standard deviation in each number.
            population: a public number that the number of units cannot exceed.
            expected: how many units the public expects, for the estimate.
            level: nominal coverage of the interval; None gives none.
        """
        (low, high), weights = self.limits, FIT * np.sqrt(np.repeat(SHARES, (2, 1, 2)))
        scale = self.clip * (high - low)
        both = NoisySums.read(total, weights, noise, population, -1.0 / self.clip, expected)
        # half of either: the mean of (W - 1)(Y - middle), which varies least of the means that both sums give
        value = scale * (both[0].mean - both[1].mean) / 2
        if level is None:
            return Difference(extent=self.following.extent, value=value, interval=None)
        gain, loss = (scale * bounds(sums, level=(1 + level) / 2, sides="lower")[0] for sums in both)
        ends = (max(gain, low - high), min(-loss, high - low))
        # two bounds that contradict each other say nothing
        ends = ends if ends[0] <= ends[1] else (low - high, high - low)
        interval = Interval(low=ends[0], high=ends[1], level=level, kind="two_sided", words=WORDS)
        return Difference(extent=self.following.extent, value=interval.clamp(value), interval=interval)
