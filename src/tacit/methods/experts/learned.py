"""What learning from experts hands out: policies, where the experts agree, and the consensus prefixes; all public."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.agents.policies import Float32, Policy, PolicyActor
from tacit.agents.policy_files import FeedForward
from tacit.parameters import Option
from tacit.privacy.mechanisms.base import Plan
from tacit.privacy.sentences import Clause, Label, clause
from tacit.validation import require_valid

if TYPE_CHECKING:
    from tacit.privacy.mechanisms.above_threshold import Prefixes


# The words of the certificate.


SUMS = "what is read of its rows enters each noisy sum as one bounded contribution"
"""How one expert counts where noisy sums are all that is released."""


def label(*covered: Clause, public: tuple[Clause, ...] = ()) -> Label:
    """The label of a release that reads experts' own logs."""
    return Label(
        covered=covered,
        not_covered=(clause("hyperparameters"), clause("curator"), *public),
        not_protected=(clause("common"), clause("others_in_rows"), clause("several_ids"), clause("public_parameters")),
    )


def promise_scope(plan: Plan) -> Literal["logs", "policies"]:
    """What of an expert a plan's promise covers: the whole log, or only how the expert decides.

    Prefixes of experts' own trajectories are published as they are; those of clones in a public simulator are not
    anybody's records.
    """
    return "policies" if any(getattr(part, "source", None) == "logs" for part in plan.parts()) else "logs"


# How much an expert's say counts: a bounded weight from the expert's own returns, within public bounds.


@dataclass(frozen=True, kw_only=True)
class ReturnWeight:
    """w = exp(sharpness (z - 1)) in (0, 1], z = the expert's mean return, from `low` = 0 to `high` = 1, clipped there.

    Raises:
        PlanError: a bound is not finite, low >= high, or the sharpness is negative or above 30.
    """

    low: float
    """public return of an episode of no use; never taken from the records."""
    high: float
    """that of a very good one, likewise."""
    sharpness: Option[float] = 6.0
    """beta; an expert at `low` counts exp(-beta) times as much as one at `high`. 0 weighs all alike."""

    def __post_init__(self) -> None:
        sane = -math.inf < self.low < self.high < math.inf
        require_valid("weight.low, high", (self.low, self.high), sane, "finite public returns, the lower first")
        require_valid("weight.sharpness", self.sharpness, 0 <= self.sharpness <= 30, "a number from 0 to 30")

    def __call__(self, rows: Mapping[str, NDArray[np.generic]]) -> NDArray[np.float64]:
        """Rows of U experts in order of time (a `Summary`'s) -> weights [U]."""
        z = (mean_returns(rows) - self.low) / (self.high - self.low)
        return np.asarray(np.exp(self.sharpness * (np.clip(z, 0.0, 1.0) - 1.0)))


def mean_returns(rows: Mapping[str, NDArray[np.generic]]) -> NDArray[np.float64]:
    """Each expert's mean undiscounted return, [U], over the episodes that end within the rows."""
    # The last episode is left out where the rows break it off, unless it is the only one.
    mask, rewards = np.asarray(rows["mask"], bool), np.asarray(rows["rewards"], np.float64)
    starts = np.asarray(rows["starts"], bool) & mask
    episodes, units = starts.sum(axis=1), np.arange(len(mask))
    last_row = np.maximum(mask.sum(axis=1) - 1, 0)
    ended = np.asarray(rows["terminations"], bool) | np.asarray(rows["truncations"], bool)
    broken = mask.all(axis=1) & ~ended[units, last_row] & (episodes > 1)
    place = np.cumsum(starts, axis=1)
    counted = mask & (place <= (episodes - broken)[:, None])
    return np.asarray(np.where(counted, rewards, 0.0).sum(axis=1) / np.maximum(episodes - broken, 1))


@dataclass(frozen=True, eq=False)
class Agreement:
    """What the experts' votes say of the actions in some public states, as it was released.

    An expert of weight w (1 without weights) gives w to its choice and spreads 1 - w evenly; so does everybody of the
    public population who is not there. Noise may take shares below 0 or above 1.

    Args:
        states: [R, N, d] (or [R, N] where observations are discrete), each replicate's own: those of its anchors.
        shares: [R, N, A], adding up to 1 over the actions.
    """

    states: NDArray[Any]
    shares: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class LearnedPolicies:
    """The released policies of R replicates (R = 1 but for simulated experts).

    Args:
        plan: under which they were learnt.
        policy: what the parameters are of.
        theta: [R, P].
        agreement: the experts' votes, or None where there were none.
        prefixes: the consensus of each replicate, R of them, or None where none was asked for.
    """

    plan: Plan
    policy: Policy
    theta: Float32
    agreement: Agreement | None = None
    prefixes: tuple[Prefixes, ...] | None = None

    def __repr__(self) -> str:
        size = f"{self.policy.parameters:,} parameters"
        return f"Learned({size}, by {self.plan.method}, {self.replicates} replicate(s))"

    @cached_property
    def replicates(self) -> int:
        """R."""
        return len(self.theta)

    def actor(self, *, greedy: bool = True) -> PolicyActor:
        """Act with the released parameters.

        Args:
            greedy: the most probable action instead of a random one.
        """
        return PolicyActor(self.policy, self.theta, greedy)

    def predict(
        self,
        observation: NDArray[Any],
        state: None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[Any], None]:
        """Act as a model of Stable-Baselines3 does, always with the best action (see `PolicyActor.predict`)."""
        return self.actor().predict(observation, state, episode_start, deterministic)

    def feed_forward(self) -> FeedForward:
        """The layers of the policy, which takes its best action always, for other readers of policies.

        Raises:
            PlanError: the actions are continuous, the network is no `Mlp`, or there are several replicates.
        """
        return FeedForward.of(self.policy, self.theta, greedy=True)

    def replicate(self, r: int) -> LearnedPolicies:
        """The policy of one replicate, with R = 1."""
        index = slice(r, r + 1) if r >= 0 else slice(r, None if r == -1 else r + 1)
        votes, prefixes = self.agreement, self.prefixes
        return replace(
            self,
            theta=self.theta[index],
            agreement=None if votes is None else Agreement(votes.states[index], votes.shares[index]),
            prefixes=None if prefixes is None else prefixes[index],
        )
