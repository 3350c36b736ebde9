"""What learning from experts hands out: policies, where the experts agree, and the consensus prefixes; all public."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.agents.policies import Acting, Float32, Policy
from tacit.privacy.mechanisms.base import Plan

if TYPE_CHECKING:
    from tacit.privacy.mechanisms.above_threshold import Prefixes


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
class Learned:
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

    def actor(self, *, greedy: bool = True) -> Acting:
        """Act with the released parameters.

        Args:
            greedy: the most probable action instead of a random one.
        """
        return Acting(self.policy, self.theta, greedy)

    def replicate(self, r: int) -> Learned:
        """The policy of one replicate, with R = 1."""
        one = slice(r, r + 1) if r >= 0 else slice(r, None if r == -1 else r + 1)
        votes, prefixes = self.agreement, self.prefixes
        return replace(
            self,
            theta=self.theta[one],
            agreement=None if votes is None else Agreement(votes.states[one], votes.shares[one]),
            prefixes=None if prefixes is None else prefixes[one],
        )
