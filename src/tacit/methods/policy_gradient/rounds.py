"""What every plan of rounds of people who are met has in common: how many, their noise, and the steps of the policy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from tacit.privacy.noise import correlated
from tacit.privacy.noise.correlated import Correlation
from tacit.privacy.sentences import Clause, Label, clause
from tacit.privacy.vault import plan as plans
from tacit.validation import require_positive, require_valid, require_whole

POLICY = "policy"
"""The name of the part that moves the policy."""

Schedule = Literal["linear", "constant"]
"""How the step size goes on: in a straight line to 0 after the last round, or not at all."""


@dataclass(frozen=True, kw_only=True)
class Staircase:
    """A step size that is divided by `factor` after every so many rounds, down to a least one (the paper's RiverSwim).

    Args:
        factor: > 1.
        every: rounds a stair.
        least: the smallest step size.
    """

    factor: float
    every: int
    least: float

    def __post_init__(self) -> None:
        require_whole(every=self.every)
        require_positive(least=self.least)
        require_valid("factor", self.factor, 1 < self.factor < math.inf, "a finite number > 1")


@dataclass(frozen=True, kw_only=True)
class Rounds(plans.PrivatePlan):
    """T rounds, each a noisy mean over N people who are met for it alone."""

    greedy: ClassVar[bool] = False
    """Whether what is learnt is the policy that takes its most probable action."""

    rounds: int = 50
    """number T of rounds."""
    users: int = 32
    """N, how many people are expected for one; the divisor, however many come."""
    noise_multiplier: float | None = None
    """sigma of the whole plan; None until calibrated."""
    correlation: Correlation = "toeplitz"
    """of the noise of successive rounds: "toeplitz", "independent" or "tree"."""
    decay: tuple[float, ...] = (1.0,)
    """rates of the workload that toeplitz noise is matched to (`mechanisms.sums.UserSum`)."""
    participations: int = 1
    """k, in how many rounds one person may take part."""
    step: float = 1.0
    """step size of the first round."""
    schedule: Schedule | Staircase = "linear"
    """of the step size: "linear" decay to 0, "constant", or a `Staircase`."""
    average: float = 0.5
    """share of the rounds, at the end, whose iterates are averaged."""

    def __post_init__(self) -> None:
        often = type(self.rounds) is int and type(self.participations) is int and self.participations <= self.rounds
        require_valid("participations", self.participations, often, "at most as many as there are rounds")
        require_whole(rounds=self.rounds, users=self.users, participations=self.participations)
        require_positive(step=self.step)
        stairs = isinstance(self.schedule, Staircase) or self.schedule in get_args(Schedule)
        require_valid("schedule", self.schedule, stairs, "linear, constant or a Staircase")
        require_valid("average", self.average, 0 < self.average <= 1, "a number in (0, 1]")

    @property
    def policy_noise(self) -> float | None:
        """The noise multiplier of the policy's part."""
        return self.noise_multiplier

    def step_at(self, round_: int) -> float:
        """The step size of round 0 .. T - 1."""
        if isinstance(self.schedule, Staircase):
            stairs = self.schedule
            return max(stairs.least, self.step / stairs.factor ** (round_ // stairs.every))
        return self.step * (1 - round_ / self.rounds) if self.schedule == "linear" else self.step

    def is_averaged(self, round_: int) -> bool:
        """Whether the iterate that ends round 0 .. T - 1 enters the average."""
        return round_ >= self.rounds - math.ceil(self.average * self.rounds)

    def noise_at(self, step: int, of: int) -> float:
        """Standard deviation of the noise in the sum of one step, in clips: a trust region's `noise`."""
        sigma = self.policy_noise or 0.0
        sensitivity = correlated.sensitivity(self.correlation, of, self.participations, self.decay)
        return sigma * sensitivity * correlated.deviation(self.correlation, step, of, self.decay)


def label(plan: Rounds, decisions: int, *declared: Clause) -> Label:
    """The certificate's statements on people who are met."""
    meeting = clause("meeting", decisions=decisions, participations=plan.participations)
    return Label(
        covered=(clause("rounds_of_policies", rounds=plan.rounds), meeting, clause("joint_privacy")),
        not_covered=(clause("hyperparameters"), clause("served_with"), clause("curator"), *declared),
        not_protected=(clause("population"), clause("who_came"), clause("several_ids_met")),
        assumptions=(clause("meetings_apart"),),
    )
