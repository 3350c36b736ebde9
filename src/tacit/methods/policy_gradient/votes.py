"""Private votes along public directions: which of two opposite steps of the policy does a person's own play prefer?

    1. for k = 0 .. T - 1:
    2.     public directions delta_{u,1} .. delta_{u,p} for each place u, orthonormal           (`directions`)
    3.     the person in place u plays theta + nu delta_{u,i} and theta - nu delta_{u,i}, i = 1 .. p, each from a fresh
           start for at most L decisions; their returns are R+ and R-                            (`TrialActor`)
    4.     x_u = sum_i sign(R+ - R-) delta_{u,i}, whose norm is at most sqrt(p)                  (`Ballot`)
    5.     theta <- theta + step_k sqrt(P) / p (sum_u x_u + n_k) / N                             (`vault.noisy_sum`)

With `answers="randomized"` the vault turns every sign round with a public chance q before it leaves, and
(1 - 2 q)^-1 sum_u sum_i b_ui delta_{u,i} stands for the noisy sum: no sum has to stay secret.

The signs are those of antithetic random search (Mania, Guy & Recht, arXiv:1803.07055). A tie, an episode that did not
end and a person who did not answer are no vote. Proof: `proofs/policy_gradient.md`, lemma "votes".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.agents.policies import Float32, Policy, PolicyActor
from tacit.errors import PlanError
from tacit.methods.policy_gradient.rounds import POLICY, Rounds, label
from tacit.parameters import Option
from tacit.privacy.mechanisms.responses import RandomizedResponses
from tacit.privacy.mechanisms.sums import UserSum
from tacit.privacy.sentences import Clause, Label, clause
from tacit.validation import require_positive, require_valid, require_whole

Float64 = NDArray[np.float64]
Answers = Literal["summed", "randomized"]
"""Noise is added to the sum of all votes; or every vote is turned round by itself, with a public chance."""


@dataclass(frozen=True, kw_only=True)
class Ramp:
    """A whole number that goes from `first`, in the first round, to `last`, in the last one, in a straight line.

    Args:
        first, last: at least 1.
    """

    first: int
    last: int

    def __post_init__(self) -> None:
        require_whole(first=self.first, last=self.last)


@dataclass(frozen=True, kw_only=True)
class VotesPlan(Rounds):
    """T rounds of votes: N people a round, each with p votes on steps along public directions of their own place.

    What one person adds has norm at most sqrt(p) by construction, so that nothing is clipped. The policy acts without
    chance: its most probable action.
    """

    method: ClassVar[str] = "policy search by votes of people met once"
    source: ClassVar[str] = "antithetic random search (arXiv:1803.07055), with votes for returns"
    critic: ClassVar[None] = None
    trust_region: ClassVar[None] = None
    fisher: ClassVar[None] = None
    greedy: ClassVar[bool] = True

    directions: int | Ramp = 1
    """p, how many votes of one person; each takes two episodes."""
    episode_length: int | Ramp = 100
    """L, most decisions of such an episode."""
    radius: Option[float] = 1.0
    """nu, how far from the released parameters the two episodes of a vote are played."""
    offset: float = 0.0
    """what a vote adds to every reward (public): below 0 it takes a bonus for staying on one's feet away."""
    answers: Option[Answers] = "summed"
    """"summed" gets noise on the sum of votes; each of "randomized" ones is turned round with a public chance, and the
    noise multiplier is one over the epsilon of one vote."""
    counted: bool = True
    """whether votes count; False leaves noise alone (a control)."""
    seed: int = 0
    """of the directions, which are public."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("directions", "episode_length"):
            value = getattr(self, name)
            if not isinstance(value, Ramp):
                require_whole(**{name: value})
        require_valid("answers", self.answers, self.answers in get_args(Answers), " or ".join(get_args(Answers)))
        plain = self.answers == "summed" or (self.correlation, self.decay) == ("toeplitz", (1.0,))
        expected = "the defaults: randomised votes have no sum"
        require_valid("correlation, decay", (self.correlation, self.decay), plain, expected)
        require_positive(radius=self.radius)
        require_valid("offset", self.offset, math.isfinite(self.offset), "a finite number")
        require_valid("seed", self.seed, type(self.seed) is int and self.seed >= 0, "a whole number >= 0")

    def directions_at(self, round_: int) -> int:
        """p of round 0 .. T - 1."""
        return self._interpolate(self.directions, round_)

    def length_at(self, round_: int) -> int:
        """L of round 0 .. T - 1."""
        return self._interpolate(self.episode_length, round_)

    @property
    def horizon(self) -> int:
        """The most decisions of one person: 2 p L, in the round where that is most."""
        return max(2 * self.directions_at(k) * self.length_at(k) for k in range(self.rounds))

    @property
    def max_directions(self) -> int:
        """The largest p."""
        return max(self.directions_at(0), self.directions_at(self.rounds - 1))

    @property
    def bound(self) -> float:
        """sqrt(p) for the largest p: no contribution is longer."""
        return math.sqrt(self.max_directions)

    def parts(self) -> tuple[UserSum] | tuple[RandomizedResponses]:
        """The only touch of people's rows: T noisy sums, or T rounds of answers."""
        if self.answers == "randomized":
            return (self.responses(),)
        policy = UserSum(
            name=POLICY,
            steps=self.rounds,
            users=self.users,
            clip_norm=self.bound,
            noise_multiplier=self.noise_multiplier,
            rows_per_unit=self.horizon,
            participations=self.participations,
            correlation=self.correlation,
            decay=self.decay,
        )
        return (policy,)

    def responses(self) -> RandomizedResponses:
        """The part of randomised answers."""
        return RandomizedResponses(
            name=POLICY,
            steps=self.rounds,
            users=self.users,
            answers=self.max_directions,
            noise_multiplier=self.noise_multiplier,
            rows_per_unit=self.horizon,
            participations=self.participations,
        )

    def require_room(self, parameters: int) -> None:
        """Refuse a policy with fewer parameters than there are directions."""
        if self.max_directions > parameters:
            known = f"{self.max_directions} directions are orthonormal only where there are as many parameters"
            what = f"{known}, not {parameters}"
            expected = f"at most {parameters} directions for this policy"
            remedy = "ask for fewer directions, or learn a larger policy"
            raise PlanError(what, where=f"{self.method} plan", expected=expected, remedy=remedy)

    def label(self, *declared: Clause) -> Label:
        """The certificate's statements.

        Args:
            declared: what the first parameters were.
        """
        return label(self, self.horizon, *declared, clause("vote_directions", seed=self.seed))

    def _interpolate(self, value: int | Ramp, round_: int) -> int:
        if not isinstance(value, Ramp):
            return value
        return value.first + round((value.last - value.first) * round_ / max(1, self.rounds - 1))


# A round: what its people are served with, and what each of them adds.


@dataclass(frozen=True, eq=False)
class TrialActor:
    """What the people of a round are served with: `episodes` episodes each, every one from a fresh start. Where another
    actor takes replicates it takes codes, (r N + u) `episodes` + e for episode e of the person in place u of replicate
    r. Episode 2 i is played with theta + nu delta_i, episode 2 i + 1 with theta - nu delta_i."""

    acting: PolicyActor  # one row of parameters for each code, [R N 2 p, P]
    places: int  # N
    episodes: int  # 2 p
    length: int  # L, most decisions of an episode

    def __call__(
        self, observations: NDArray[Any], replicate: NDArray[np.int64], generator: np.random.Generator
    ) -> NDArray[Any]:
        """Actions [n] or [n, a] for observations [n, ...] and codes [n]."""
        return self.acting(observations, replicate, generator)


@dataclass(frozen=True, eq=False)
class VoteDirections:
    """What a round's votes may use, all of it public."""

    directions: Float64  # delta, [R, N, p, P]; those of one place are orthonormal


@dataclass(frozen=True)
class Ballot:
    """One person's votes, sum_i sign(R+ - R-) delta_{u,i}, from the returns of own episodes."""

    offset: float  # what is added to every reward
    counted: bool  # False gives 0 for everybody
    max_directions: int  # the largest p of the plan. Votes of a round with fewer are stretched to the same norm.

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: VoteDirections) -> Float64:
        """[U, P], of norm at most sqrt(most)."""
        return self.combine_directions(self.signs(rows, state), state.directions[rows["replicate"], rows["place"]])

    def combine_directions(self, signs: Float64, person_directions: Float64) -> Float64:
        """[..., P] of signs [..., p] of votes and their directions [..., p, P]."""
        scale = math.sqrt(self.max_directions / signs.shape[-1])
        return np.asarray(scale * np.einsum("...p,...pd->...d", signs, person_directions))

    def signs(self, rows: Mapping[str, NDArray[Any]], state: VoteDirections) -> Float64:
        """[U, p]: 1, -1, or 0 for no vote."""
        returns, ended = self._episode_returns(rows, 2 * state.directions.shape[2])
        votes = np.sign(returns[:, ::2] - returns[:, 1::2]) * (ended[:, ::2] & ended[:, 1::2])
        return np.asarray(self.counted * votes)

    def _episode_returns(self, rows: Mapping[str, NDArray[Any]], count: int) -> tuple[Float64, NDArray[np.bool_]]:
        """Returns [U, count] of each person's first episodes, and which of these ended."""
        people, which = len(rows["mask"]), np.cumsum(rows["starts"], axis=1) - 1
        read = rows["mask"] & (which < count)
        place = (which + count * np.arange(people)[:, None])[read]

        def total(column: NDArray[Any]) -> Float64:
            weights = column[read].astype(np.float64)
            return np.bincount(place, weights, people * count).astype(np.float64).reshape(people, count)

        ends = rows["terminations"] | rows["truncations"]
        return total(rows["rewards"] + np.float64(self.offset)), total(ends) > 0


@dataclass(frozen=True)
class VoteAnswers:
    """One person's votes as answers, sign(R+ - R-) for each direction; 0 for no vote."""

    ballot: Ballot  # how they are made

    def __call__(self, rows: Mapping[str, NDArray[Any]], state: VoteDirections) -> Float64:
        """[U, p]."""
        return self.ballot.signs(rows, state)


def estimate_mean(plan: VotesPlan, answers: NDArray[np.int8], released: VoteDirections) -> Float64:
    """What randomised answers [R, N, p] say of the mean of all ballots, [R, P], without bias."""
    ballot = Ballot(plan.offset, plan.counted, plan.max_directions)
    spread = ballot.combine_directions(answers.astype(np.float64), released.directions)
    return np.asarray(spread.sum(axis=1) / (plan.users * plan.responses().signal))


def draw_directions(plan: VotesPlan, parameters: int, replicates: int, round_: int) -> Float64:
    """The directions of a round, [R, N, p, P], those of one place orthonormal; a function of public numbers alone."""
    # They are uniform, up to their signs, on which votes do not depend.
    # plan: N, p and the seed; parameters: P >= p; replicates: R; round_: 0 .. T - 1
    generator = np.random.default_rng([plan.seed, round_])
    shape = (replicates, plan.users, parameters, plan.directions_at(round_))
    return np.swapaxes(np.linalg.qr(generator.standard_normal(shape))[0], 2, 3)


def trial_actor(plan: VotesPlan, policy: Policy, theta: Float32, released: VoteDirections, round_: int) -> TrialActor:
    """What the people of a round are served with, at the released parameters theta [R, P]."""
    pairs = plan.radius * np.stack([released.directions, -released.directions], axis=3)
    parameters = (theta[:, None, None, None] + pairs).reshape(-1, policy.parameters).astype(np.float32)
    episodes = 2 * released.directions.shape[2]
    actor = PolicyActor(policy, parameters, greedy=True, single=True)
    return TrialActor(actor, plan.users, episodes, plan.length_at(round_))
