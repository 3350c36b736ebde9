"""What learning hands out: policies, all of them public."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.agents.policies import Acting, Float32, Policy
from tacit.methods.policy_gradient.plan import Plan


@dataclass(frozen=True, kw_only=True, eq=False)
class Learned:
    """The released policies of R replicates (R = 1 but for simulated people).

    Args:
        plan: under which they were learnt.
        policy: what the parameters are of.
        last: parameters after the last round, [R, P].
        average: mean of the parameters after each of the last `plan.average` of the rounds, [R, P].
        norms: length of each round's released mean, [T, R].
        iterates: parameters at the start and after some of the rounds, evenly spaced, [K, R, P].
        people: how many people had been met at each of these iterates, [K].
    """

    plan: Plan
    policy: Policy
    last: Float32
    average: Float32
    norms: NDArray[np.float64]
    iterates: Float32
    people: NDArray[np.int64]

    def __repr__(self) -> str:
        size = f"{self.policy.parameters:,} parameters"
        return f"Learned({size}, from {self.people[-1]:,} people, {self.replicates} replicate(s))"

    @cached_property
    def replicates(self) -> int:
        """R."""
        return len(self.last)

    def actor(self, *, greedy: bool = False, average: bool = False) -> Acting:
        """Serve people with the last parameters, or with the averaged ones.

        Args:
            greedy: the most probable action instead of a random one.
            average: the averaged parameters.
        """
        return Acting(self.policy, self.average if average else self.last, greedy)

    def replicate(self, r: int) -> Learned:
        """The policies of one replicate, with R = 1."""
        one = slice(r, r + 1) if r >= 0 else slice(r, None)
        return replace(
            self,
            last=self.last[one],
            average=self.average[one],
            norms=self.norms[:, one],
            iterates=self.iterates[:, one],
        )
