"""Whether people like what was learned: people who did not teach it compare it with the base model.

Each of them adds one vector (u, 1, u^2), times public weights that keep its norm at 1, to one noisy sum. Of
completions u is how much more those of the steered model are worth to this person, over a public bound at which it is
cut; of pairs, how much more probable the chosen one of the two has become. Its mean has the interval of a mean of
bounded numbers under known noise (`off_policy_evaluation.intervals`). Proof page: `proofs/policy_gradient.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tacit.methods.off_policy_evaluation.intervals import NoisySums, bounds, unit_count
from tacit.methods.off_policy_evaluation.problem import Interval
from tacit.serialization import Json
from tacit.validation import require_valid

Float64 = NDArray[np.float64]
Verdict = Literal["better", "worse", "no difference"]
JUDGES = "judges"
"""The name of the part."""
LEVEL = 0.95
"""Nominal coverage of the interval."""
WEIGHTS = (1 - 2e-4) * np.sqrt((0.7, 0.1, 0.2))
"""Of u, 1 and u^2: a vector is a little shorter than the clip of 1, so that it never touches it."""
By = Literal["people", "reward"]
"""Who says it: people by their own feedback or choices, or the public reward of what is written on their prompts."""
LIKED: Mapping[By, Mapping[Verdict, str]] = {
    "people": {
        "better": "People like it better",
        "worse": "People like it less",
        "no difference": "No difference can be told",
    },
    "reward": {
        "better": "On prompts of people who taught nothing the reward is higher",
        "worse": "On prompts of people who taught nothing the reward is lower",
        "no difference": "On prompts of people who taught nothing no difference can be told",
    },
}
COUNTED = "people who did not teach it, each cut at ±{scale:g}; their sampling and the noise are both counted"
"""What an interval is of."""


@dataclass(frozen=True, kw_only=True)
class Judgement(Json):
    """What people who did not teach it say of a steered model; all is public.

    Args:
        estimate: how much more what it writes is worth to them than what the base model writes; of pairs, how much more
            probable the chosen one of the two is.
        interval: about it.
        noise: half-width of the interval that noise alone would have, of a model that makes no difference.
        verdict: in a word.
        sums: the noisy sums that all of this is computed from.
        by: who says it.
    """

    estimate: float
    interval: Interval
    noise: float
    verdict: Verdict
    sums: tuple[float, ...]
    by: By = "people"

    @property
    def headline(self) -> str:
        """The verdict in words."""
        return LIKED[self.by][self.verdict]

    def __str__(self) -> str:
        """In words."""
        low, high, level = self.interval.low, self.interval.high, 100 * self.interval.level
        return (
            f"{self.headline}: {self.estimate:+.3g}, {low:+.3g} to {high:+.3g} at {level:.4g} % confidence; "
            f"noise alone would give 0 ± {self.noise:.2g}."
        )


def person_vectors(u: Float64, present: NDArray[np.bool_]) -> Float64:
    """What people with these numbers in [-1, 1] add, [U, 3], of norm at most 1; nothing where they said nothing."""
    u = np.clip(u, -1, 1)
    return np.asarray(WEIGHTS * np.stack([u, np.ones(len(u)), u**2], axis=1) * present[:, None])


def read_judgement(
    sums: tuple[float, ...],
    *,
    scale: float,
    noise: float,
    population: int,
    expected: float,
    level: float = LEVEL,
    by: By = "people",
) -> Judgement:
    """What a noisy sum [3] of the vectors says (post-processing).

    Args:
        sums: the noisy sum.
        scale: what u = 1 stands for, at which a person's difference is cut.
        noise: standard deviation of the noise in each number.
        population: a public number that the number of people cannot exceed.
        expected: how many of them there are where all of the population is there, for the estimate.
        level: nominal coverage.
        by: who says it.
    """
    from scipy.special import ndtri

    (numbers,) = NoisySums.read(np.array(sums), WEIGHTS, noise, population, -1.0, expected)
    low, high = (scale * end for end in bounds(numbers, level=level, sides="both"))
    interval = Interval(low=low, high=high, level=level, kind="two_sided", words=COUNTED.format(scale=scale))
    verdict: Verdict = "better" if low > 0 else "worse" if high < 0 else "no difference"
    units = unit_count(numbers.count, numbers.noise[1], expected)
    alone = scale * min(1.0, float(ndtri((1 + level) / 2)) * numbers.noise[0] / units)
    estimate = scale * numbers.mean
    return Judgement(estimate=estimate, interval=interval, noise=alone, verdict=verdict, sums=sums, by=by)


def require_judges(share: float | None) -> None:
    """Raise a PlanError unless this is a share of people who judge, or None."""
    valid = share is None or 0 < share < 1
    require_valid("judges", share, valid, "None for nobody, or a share of the people above 0 and below 1")
