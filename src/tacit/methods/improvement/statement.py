"""What the records prove: the value of the decisions in them, and a lower bound on what a little advice would add.

The policy of the statement follows the records' own decision, and in a share eta_t of the visits the advice: in a share
eta, or less where the clone gives the advised action a small probability mu, eta_t = eta min(1, mu / caution). With p
the logged propensity and q the advice's probability of the logged action, a course then has the weight

    W = prod_t ((1 - eta_t) + eta_t q(a_t|s_t) / p_t) >= 0,    E[W Y] = its value, for returns Y

Where the advice takes its best action, q is 0 or 1; where the clone is released instead, q is the clone's probability
and eta_t is eta. Let l <= Y <= h be the public range of returns (what lies outside is moved onto it). A unit's score is
the mean over its courses of (W - 1) (Y - l), whose expectation is the gain, because E[W] = 1. It is at least -(h - l),
since W >= 0 and Y >= l: so a clip at the size h - l touches only scores above it, and can only lower their mean. A
lower bound on the mean of clipped scores is a lower bound on the gain, whatever the propensities are. Caution keeps
weights small, so that the clip takes less.

The sums are over the judging half of the units, of whom the advice knows nothing: the bound holds for the advice that
was released, and not only for one that was fixed before. How many there are is random, and its noisy count is among the
sums; bounds rest on the public population alone, which no half exceeds. Proof page: `proofs/improvement.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tacit import rowwise
from tacit.agents.policy_files import FeedForward
from tacit.data.memory import Memory
from tacit.data.spec import PublicSpec
from tacit.methods.improvement.moments import LoggedVisits
from tacit.methods.improvement.plan import FIT, SCORES, STATEMENT, ImprovementPlan
from tacit.methods.improvement.planning import AdviceResult
from tacit.methods.off_policy_evaluation.difference import LARGEST_LOG
from tacit.methods.off_policy_evaluation.intervals import NoisySums, bounds
from tacit.methods.off_policy_evaluation.policies import Network
from tacit.methods.off_policy_evaluation.problem import Interval, Problem
from tacit.methods.off_policy_evaluation.scores import limits
from tacit.serialization import Json

Float64 = NDArray[np.float64]
Verdict = Literal["proven", "not shown", "too few people", "clone"]
COUNTED = "the sampling of units and the noise are both counted, in a normal approximation with room for skewness"
"""What an interval says."""
HIDDEN = 0.1
"""Too few people: the noise alone hides so many ranges of returns for each visit with advice."""
WORDS: Mapping[Verdict, str] = {
    "proven": "Following the advice in up to {share} of the visits gains at least {low}, at {level} confidence.",
    "not shown": "The records do not show at {level} confidence that advice in up to {share} of the visits gains.",
    "too few people": "There are too few people: the noise hides what advice in up to {share} of the visits can gain.",
    "clone": (
        "No advice is released: by the learning half's own private estimate none is above the records' own decisions. "
        "The policy is the clone of these, which draws its actions as they do."
    ),
}
OPEN = "The value of the policy when it decides every visit is not proven."


@dataclass(frozen=True, kw_only=True)
class Statement(Json):
    """What the records prove; all is public.

    Args:
        advice: eta, the largest share of the visits in which the advice is followed.
        returns: the mean return of the records' own decisions.
        returns_interval: about it.
        gain: the noisy mean of clipped scores, which the clip can only have lowered.
        gain_interval: a lower bound on the gain; its upper end is the public range's.
        verdict: in a word.
        sums: the noisy sums that all of this is computed from (`stated`).
    """

    advice: float
    returns: float
    returns_interval: Interval
    gain: float
    gain_interval: Interval
    verdict: Verdict
    sums: tuple[float, ...]

    def __str__(self) -> str:
        """In words, with what is not proven."""
        text = WORDS[self.verdict].format(
            share=f"{100 * self.advice:.3g} %",
            low=f"{self.gain_interval.low:.3g}",
            level=f"{100 * self.gain_interval.level:.3g} %",
        )
        return text if self.verdict == "clone" else f"{text} {OPEN}"


@dataclass(frozen=True, eq=False)
class StatementScores:
    """Each unit's vector of (gain, return, presence, squared gain, squared return), of norm at most 1, [U, 5]."""

    problem: Problem  # discount, horizon, episodes, range of returns
    memory: Memory  # what the policy acts on
    policy: Network  # the advice, or the clone in its place
    advice: float  # eta
    limits: tuple[float, float]  # the public range of returns
    clone: Network | None = None  # of the records' decisions; None for the same share everywhere
    caution: float = 0.0  # probability under the clone below which an action is advised less often

    @classmethod
    def of(cls, plan: ImprovementPlan, spec: PublicSpec, result: AdviceResult) -> StatementScores:
        """For a plan's own share, caution and range."""
        clone_network = Network.of(FeedForward.of(result.policy, result.clone, greedy=False))
        value_range = limits(plan.problem, spec)
        if result.sampled:  # the clone's own actions are never rare under the clone
            return cls(plan.problem, plan.memory, clone_network, plan.advice, value_range)
        advice_network = Network.of(FeedForward.of(result.policy, result.advice, greedy=True))
        caution_network = clone_network if plan.caution else None
        return cls(plan.problem, plan.memory, advice_network, plan.advice, value_range, caution_network, plan.caution)

    def __call__(self, rows: Mapping[str, np.ndarray], state: object) -> Float64:
        """Rows [U, L, ...] -> [U, 5]."""
        visits = LoggedVisits.of(rows, self.problem, self.memory)
        (low, high), episodes = self.limits, len(visits.episode_unit)
        gain, returns = self.scores(visits)
        means = visits.means(np.stack([gain, returns], axis=1) if episodes else np.zeros((0, 2)))
        x = np.clip(means[:, 0] / (high - low), -1, 1)
        u = np.clip((2 * means[:, 1] - low - high) / (high - low), -1, 1)
        vector = np.stack([x, u, np.ones(len(x)), x**2, u**2], axis=1)
        return np.asarray(FIT * np.sqrt(SCORES) * vector)

    def scores(self, visits: LoggedVisits) -> tuple[Float64, Float64]:
        """(W - 1) (Y - l) and Y of each course, [C] each; the clip follows when a unit's mean is taken."""
        episodes = len(visits.episode_unit)
        advised_probability, share = np.zeros(0), np.zeros(0)
        if episodes:
            memories = visits.memories.astype(np.float32)
            probabilities = self.policy.probabilities(memories)
            row_numbers = np.arange(len(probabilities))
            advised_probability = probabilities[row_numbers, visits.actions]
            share = np.full(len(probabilities), self.advice)
            if self.clone is not None:
                clone_probability = self.clone.probabilities(memories)[row_numbers, rowwise.argmax(probabilities)]
                share *= np.minimum(1, clone_probability / self.caution)
        ratio = 1 - share + share * advised_probability / np.maximum(visits.propensities, 1e-30)
        weight = np.exp(np.minimum(np.bincount(visits.episode, np.log(ratio), episodes), LARGEST_LOG))
        returns = visits.returns(self.limits)
        return np.asarray((weight - 1) * (returns - self.limits[0])), returns

    def read(self, mean: Float64, plan: ImprovementPlan, *, level: float | None = None) -> Statement:
        """What a noisy sum [5] of the vectors, over the public population, says (post-processing)."""
        return read_statement(tuple(mean.tolist()), plan, self.limits, sampled=not self.policy.greedy, level=level)


def read_statement(
    sums: tuple[float, ...],
    plan: ImprovementPlan,
    limits: tuple[float, float],
    *,
    sampled: bool,
    level: float | None = None,
) -> Statement:
    """What a release's noisy sums say."""
    level = plan.level if level is None else level
    units, (low, high) = plan.population, limits
    noise, noisy = plan.noise_std(STATEMENT), np.array(sums) * units
    both = NoisySums.read(noisy, FIT * np.sqrt(SCORES), noise, units, -1.0, plan.expected_units)
    gain_bound = (high - low) * bounds(both[0], level=level, sides="lower")[0]
    ends = [(low + high + (high - low) * end) / 2 for end in bounds(both[1], level=level, sides="both")]
    gain, returns = (sums.mean for sums in both)
    noise_dominates = plan.half_width > HIDDEN * plan.advice
    verdict: Verdict = "proven" if gain_bound > 0 else "too few people" if noise_dominates else "not shown"
    return Statement(
        advice=plan.advice,
        returns=(low + high + (high - low) * returns) / 2,
        returns_interval=Interval(low=ends[0], high=ends[1], level=level, kind="two_sided", words=COUNTED),
        gain=(high - low) * gain,
        gain_interval=Interval(
            low=gain_bound,
            high=high - low,
            level=level,
            kind="lower",
            words=f"a lower bound that the clip can only lower; {COUNTED}",
        ),
        verdict="clone" if sampled else verdict,
        sums=sums,
    )
