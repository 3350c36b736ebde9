"""Randomised response: a vault turns every answer of a person round with a public chance before it leaves.

    b -> b with probability 1 - q, -b with probability q, q = 1 / (1 + e^(1/m)); no answer -> 1 or -1 with 1/2 each

One answer is (1/m, 0)-differentially private, whatever it was exchanged for (Warner, 1965; arXiv:1407.1338), and p
answers of one person compose. What leaves the vault is each answer by itself: no sum has to stay secret. The vault
throws the coins and is trusted. Proof page: `proofs/policy_gradient.md`, lemma "randomised votes".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.accounting.events import (
    EpsilonDeltaEvent,
    Event,
    NonPrivateEvent,
    RandomizedResponseEvent,
    SelfComposedEvent,
)
from tacit.privacy.mechanisms import base
from tacit.privacy.mechanisms.base import HeldBy, Part, RowsOf, describe_rows, kind_field, require_calibrated
from tacit.privacy.noise.secret import SecretNoise
from tacit.units import Unit
from tacit.validation import require_valid

BITS = 62
"""Answers are turned round by comparing whole random numbers below 2^62 with a whole bound."""
MAX_ANSWERS = 65_535
"""Answers of one person in all."""
_UP = 1 + 2.0**-40  # more than the rounding of the chance


@dataclass(frozen=True, kw_only=True)
class RandomizedResponses(Part):
    """T rounds of answers, yes or no, of people who are met one after another, each turned round by itself.

    For a `UserVault`, whose register keeps the bound on how often one person answers.

    Args:
        name: the part's name inside its plan.
        steps: T, how many rounds of answers may ever be released.
        users: N, the public places of one round; who stands behind the last one gives no answer.
        answers: p, most answers of one person in one round.
        noise_multiplier: m; an answer is turned round with probability 1 / (1 + e^(1/m)). None until calibrated; 0
            turns nothing round and has an infinite epsilon.
        rows_per_unit: L, how many rows of one meeting are read at most, in order of time.
        participations: k, in how many rounds one person may answer.

    Raises:
        PlanError: a parameter is outside its range.
    """

    kind: Literal["randomized_responses"] = kind_field("randomized_responses")
    name: str
    steps: int
    users: int
    answers: int
    noise_multiplier: float | None = None
    rows_per_unit: int = 1
    participations: int = 1
    rows: ClassVar[RowsOf] = "first"
    horizon: ClassVar[int] = 1
    held_by: ClassVar[HeldBy] = "visitors"
    sharp: ClassVar[bool] = False  # an answer of no bounded number is replaced, but one of two

    def __post_init__(self) -> None:
        base.require_whole(self, "steps", "users", "answers", "rows_per_unit", "participations")
        name, m = self.name, self.noise_multiplier
        valid = m is None or (type(m) in (int, float) and (m == 0 or 1 / 500 <= m <= 1e6))
        require_valid(f"{name}.noise_multiplier", m, valid, "0, a number from 1/500 to 1e6, or None until calibrated")
        price = self.answers * self.participations
        require_valid(f"{name}.answers times participations", price, price <= MAX_ANSWERS, f"at most {MAX_ANSWERS:,}")

    @property
    def event(self) -> Event:
        """The part as an event: k p answers, each turned round, however many rounds there are."""
        m = require_calibrated(self.noise_multiplier, self.name)
        answer = RandomizedResponseEvent(1 / m) if m else NonPrivateEvent()
        return SelfComposedEvent(answer, self.answers * self.participations)

    @property
    def former_event(self) -> Event:
        """See `Part`: each answer against the other one, under both relations."""
        m = require_calibrated(self.noise_multiplier, self.name)
        answer = EpsilonDeltaEvent(1 / m, 0.0) if m else NonPrivateEvent()
        return SelfComposedEvent(answer, self.answers * self.participations)

    @property
    def flip_probability(self) -> float:
        """q, how probable it is that an answer is turned round."""
        m = require_calibrated(self.noise_multiplier, self.name)
        return 0.0 if m == 0 else 1 / (1 + math.exp(min(1 / m, 700.0)))

    @property
    def signal(self) -> float:
        """1 - 2 q: the mean of a released answer over the answer."""
        m = require_calibrated(self.noise_multiplier, self.name)
        return 1.0 if m == 0 else math.tanh(0.5 / m)

    def describe(self, unit: Unit) -> str:
        """See `Part`."""
        m = require_calibrated(self.noise_multiplier, self.name)
        price = f"one answer costs epsilon {1 / m:.6g}" if m else "nothing is private"
        return (
            f"{self.steps:,} round(s) of answers, each of the {unit.noun}(s) that are met "
            f"in {self.users:,} public places; one {unit.noun} gives at most {self.answers:,} answer(s) of 1 or -1 in "
            f"at most {self.participations:,} of them, made from {describe_rows(self)} of that meeting; "
            f"each answer is turned round with probability {self.flip_probability:.6g}, so that {price}, and where "
            "there is none a fair coin stands in its place"
        )

    def randomize(self, answers: NDArray[np.float64], noise: SecretNoise) -> NDArray[np.int8]:
        """What is released of answers: 1 or -1 for each; the sign counts, and 0 or what is not finite is no answer.

        Guarantee: from ideal secret words every number is turned round with a probability of at least `chance`, and of
        at most `chance` (1 + 2^-39) + 2^-61, independently; what stands for no answer is a fair coin.

        Args:
            answers: of any shape.
            noise: secret.
        """
        signs = np.where(np.isfinite(answers), np.sign(answers), 0.0).astype(np.int8)
        q, half = self.flip_probability, 1 << (BITS - 1)
        bound = 0 if q == 0 else min(half, math.ceil(math.ldexp(q, BITS) * _UP))
        words = noise.integers(np.full(signs.shape, 1 << BITS, np.int64))
        turned = np.where(words < bound, -signs, signs)
        return np.where(signs == 0, np.where(words < half, -1, 1), turned).astype(np.int8)
