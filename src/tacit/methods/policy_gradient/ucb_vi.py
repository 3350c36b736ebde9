"""UCB-VI with a guarantee: optimistic planning in a small finite-horizon task, from counters that are released.

The counters are N(s, a, s'), how often a step was taken, and R(s, a), what it paid, over all people so far. Every
person adds the counts of a whole episode, clipped as one vector, and the vault's correlated noise makes each round's
running sum a private counter: the matrix factorisation of prefix sums, or a binary tree. Everybody is served with the
optimistic policy of the counters so far, which is a function of releases: joint differential privacy by the billboard
lemma, and privacy of the whole transcript.

1. for k = 1 .. K: meet N people, each served with the greedy policy of Q
2.     counters <- counters + (sum of clipped (N_u, R_u) + noise_k)
3.     P <- N^+ / its sum over s',  r <- R / N(s, a) clipped to the public range,  N(s, a) <- sum over s' of N^+
4.     Q_h <- min(r + bonus / sqrt(max(N, 1)) + P V_{h+1}, (H - h) most),  V_h <- max_a Q_h

Chowdhury & Zhou (arXiv:2112.10599) count with Laplace trees at 2 H in L1 for each of three families; counters that
share one Gaussian, whose L2 norm is sqrt(2) H, need a twentieth to a fortieth of that noise at K = 1,500. Their bonus
has a term for the noise; without it the counters explore better (the noise explores by itself).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.data.spec import Discrete
from tacit.errors import PlanError
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.mechanisms.base import Rows
from tacit.privacy.mechanisms.contribution_sets import POSITIVE
from tacit.privacy.mechanisms.sums import UserSum
from tacit.privacy.noise.correlated import Correlation
from tacit.privacy.sentences import Label, clause
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import exhausted_error
from tacit.privacy.vault.user_vault import UserVault
from tacit.validation import require_positive, require_valid, require_whole

Float64 = NDArray[np.float64]
Table = NDArray[np.int64]

PART = "counters"
KEPT = 40
"""How many of the policies that people were served with a release keeps."""


@dataclass(frozen=True, kw_only=True)
class UcbVi(plans.PrivatePlan):
    """UCB-VI's public parameters. Observations are t S + s after t steps (`tacit.envs.rollouts`)."""

    method: ClassVar[str] = "UCB-VI with private counters"
    source: ClassVar[str] = "Chowdhury & Zhou (arXiv:2112.10599), with correlated Gaussian counters"

    states: int
    """S."""
    actions: int
    """A."""
    horizon: int
    """H."""
    rounds: int = 4_000
    """K, how often the counters are released."""
    users: int = 1
    """N, how many people are expected for one release."""
    most: float = 1.0
    """the largest reward of a step; the least is 0."""
    bonus: float = 3.0
    """coefficient of the exploration bonus, in rewards."""
    clip_norm: float | None = None
    """largest norm of one person's counts, rewards in units of `most`; None is sqrt(2) H, which none exceeds. Less
    noise comes with a shorter one, which scales long vectors down as a whole."""
    correlation: Correlation = "toeplitz"
    """of the noise: "toeplitz" (matrix factorisation), "tree" or "independent"."""
    noise_multiplier: float | None = None
    """sigma; None until calibrated, 0 for no privacy."""

    def __post_init__(self) -> None:
        require_whole(states=self.states, actions=self.actions, horizon=self.horizon)
        require_whole(rounds=self.rounds, users=self.users)
        require_positive(most=self.most)
        require_valid("bonus", self.bonus, 0 <= self.bonus < math.inf, "a finite number >= 0")
        self.parts()

    def parts(self) -> tuple[UserSum]:
        """The only touch of people's rows: K noisy sums of counts."""
        return (
            UserSum(
                name=PART,
                steps=self.rounds,
                users=self.users,
                clip_norm=math.sqrt(2) * self.horizon if self.clip_norm is None else self.clip_norm,
                noise_multiplier=self.noise_multiplier,
                rows_per_unit=self.horizon,
                correlation=self.correlation,
                blocks=POSITIVE,
            ),
        )

    def label(self) -> Label:
        """The certificate's statements."""
        return Label(
            covered=(
                clause("counters", rounds=self.rounds),
                clause("episode", horizon=self.horizon),
                clause("joint_privacy_counters"),
            ),
            not_covered=(clause("hyperparameters"), clause("served_with"), clause("curator")),
            not_protected=(clause("population"), clause("who_came"), clause("several_ids_met")),
            assumptions=(clause("meetings_apart"),),
        )


@dataclass(frozen=True)
class EpisodeVisits:
    """One person's counts N(s, a, s') and rewards R(s, a) / most, [S A S + S A]; `state` has no part in it."""

    states: int
    actions: int
    most: float

    def __call__(self, rows: Rows, state: Any) -> Float64:
        """[U, S A S + S A]."""
        s, next_states = rows["observations"] % self.states, rows["next_observations"] % self.states
        pair = s * self.actions + rows["actions"]
        person, mask = np.arange(len(s))[:, None], rows["mask"]
        size = self.states * self.actions
        vectors = np.zeros((len(s), size * (self.states + 1)))
        np.add.at(vectors, (person, pair * self.states + next_states), mask)
        rewards = np.clip(rows["rewards"].astype(np.float64) / self.most, 0.0, 1.0)
        np.add.at(vectors, (person, size * self.states + pair), rewards * mask)
        return vectors


@dataclass(frozen=True, eq=False)
class TabularPolicies:
    """Policies that look up the action for each step and state: an `Actor`.

    Args:
        table: [R, H, S].
    """

    table: Table

    def __call__(
        self, observations: NDArray[Any], replicate: NDArray[np.int64], generator: np.random.Generator
    ) -> NDArray[np.int64]:
        """Actions [N] for observations t S + s [N]."""
        _, horizon, states = self.table.shape
        time, place = np.divmod(observations, states)
        return np.asarray(self.table[replicate, np.minimum(time, horizon - 1), place])


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyCounters:
    """What UCB-VI releases, for R replicates."""

    plan: UcbVi  # under which people were met
    counters: Float64  # private N [R, S, A, S] and R [R, S, A] after the last round, side by side as [R, S A S + S A]
    table: Table  # the greedy policy of the last counters, without a bonus, [R, H, S]
    # policies that people were served with, evenly spaced over the rounds, the last round's last, [K', R, H, S]
    served: Table

    def actor(self) -> TabularPolicies:
        """Serve people with the greedy policy."""
        return TabularPolicies(self.table)


def plan_policy(plan: UcbVi, counters: Float64, bonus: float) -> Table:
    """The greedy policy [R, H, S] of optimistic value iteration on counters [R, S A S + S A]."""
    replicates, s, a = len(counters), plan.states, plan.actions
    counts = np.maximum(counters[:, : s * a * s].reshape(replicates, s, a, s), 0.0)
    visits = counts.sum(axis=3)
    floor = np.maximum(visits, 1.0)
    moves = np.where(visits[..., None] > 0, counts / np.maximum(visits, 1e-12)[..., None], 1.0 / s)
    rewards = plan.most * np.clip(counters[:, s * a * s :].reshape(replicates, s, a) / floor, 0.0, 1.0)
    rewards += bonus / np.sqrt(floor)
    flat, value = moves.reshape(replicates, s * a, s), np.zeros((replicates, s))
    table = np.empty((replicates, plan.horizon, s), np.int64)
    for h in range(plan.horizon - 1, -1, -1):
        next_values = (flat @ value[:, :, None]).reshape(replicates, s, a)
        quality = np.minimum(rewards + next_values, (plan.horizon - h) * plan.most)
        table[:, h] = quality.argmax(axis=2)
        value = quality.max(axis=2)
    return table


def fit(plan: UcbVi, vault: UserVault, *, progress: Callable[[int, int], None] | None = None) -> Release[NoisyCounters]:
    """Run a calibrated (or priced) plan.

    Args:
        plan: for the vault's unit.
        vault: people whose observations are t S + s, their register and ledger.
        progress: called after each round with (rounds done, rounds in all).

    Raises:
        PlanError: the plan does not fit the people's spaces and rewards.
        PlanExhausted: the plan was begun before.
        BudgetExceeded: the ledger cannot pay.
    """
    _require_fit(plan, vault)
    run = vault.reserve(plan)
    if vault.has_started(run):
        raise exhausted_error(run, PART)
    contribution = EpisodeVisits(plan.states, plan.actions, plan.most)
    counters = np.zeros((vault.replicates, plan.states * plan.actions * (plan.states + 1)))
    served_rounds = set(np.linspace(0, plan.rounds - 1, min(KEPT, plan.rounds)).astype(np.int64).tolist())
    served = []
    for k in range(plan.rounds):
        table = plan_policy(plan, counters, plan.bonus)
        if k in served_rounds:
            served.append(table)
        vault.enroll(run, TabularPolicies(table))
        counters += plan.users * vault.noisy_sum(run, PART, contribution)
        if progress is not None:
            progress(k + 1, plan.rounds)
    value = NoisyCounters(plan=plan, counters=counters, table=plan_policy(plan, counters, 0.0), served=np.stack(served))
    return vault.release(run, value, label=plan.label())


def _require_fit(plan: UcbVi, vault: UserVault) -> None:
    observation, action, reward = vault.spec.observation, vault.spec.action, vault.spec.reward
    size = (plan.horizon + 1) * plan.states
    fits = isinstance(observation, Discrete) and observation.n == size
    fits = fits and isinstance(action, Discrete) and action.n == plan.actions
    if not fits or reward.low[0] < 0 or reward.high[0] > plan.most:
        what = "the people's observations, actions or rewards are not those of the plan"
        expected = f"{size} observations (t S + s), {plan.actions} actions, rewards in [0, {plan.most:g}]"
        remedy = "serve people through tacit.envs.rollouts.TimedDomain, or change the plan"
        raise PlanError(what, where=f"{plan.method} plan", expected=expected, remedy=remedy)
