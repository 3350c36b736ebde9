"""Whether people like what was learned: people who did not teach it compare it with the base model.

Each of them adds one vector (u, 1, u^2), times public weights that keep its norm at 1, to one noisy sum. Of
completions u is how much more those of the steered model are worth to this person, over a public bound at which it is
cut; of pairs, how much more probable the chosen one of the two has become. Its mean has the interval of a mean of
bounded numbers under known noise (`off_policy_evaluation.intervals`). Proof page: `proofs/policy_gradient.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from tacit.methods.off_policy_evaluation.intervals import NoisySums, bounds, unit_count
from tacit.methods.off_policy_evaluation.problem import Interval
from tacit.privacy.ledger import checkpoint
from tacit.privacy.ledger.folds import FOLDS
from tacit.privacy.mechanisms.base import Sum
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.base import BaseVault, Run
from tacit.privacy.vault.origins import digest, require_level
from tacit.serialization import Json
from tacit.validation import require_valid

if TYPE_CHECKING:
    from tacit.methods.alignment.steered import Steered

Float64 = NDArray[np.float64]
Verdict = Literal["better", "worse", "no difference"]
JUDGES = "judges"
"""The name of the part."""
LEVEL = 0.95
"""Nominal coverage of the interval."""
WEIGHTS = (1 - 2e-4) * np.sqrt((0.7, 0.1, 0.2))
"""Of u, 1 and u^2: a vector is a little shorter than the clip of 1, so that it never touches it."""
LIKED: Mapping[Verdict, str] = {
    "better": "People like it better",
    "worse": "People like it less",
    "no difference": "No difference can be told",
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
    """

    estimate: float
    interval: Interval
    noise: float
    verdict: Verdict
    sums: tuple[float, ...]

    def __str__(self) -> str:
        """In words."""
        low, high, level = self.interval.low, self.interval.high, 100 * self.interval.level
        return (
            f"{LIKED[self.verdict]}: {self.estimate:+.3g}, {low:+.3g} to {high:+.3g} at {level:.4g} % confidence; "
            f"noise alone would give 0 ± {self.noise:.2g}."
        )


def person_vectors(u: Float64, present: NDArray[np.bool_]) -> Float64:
    """What people with these numbers in [-1, 1] add, [U, 3], of norm at most 1; nothing where they said nothing."""
    u = np.clip(u, -1, 1)
    return np.asarray(WEIGHTS * np.stack([u, np.ones(len(u)), u**2], axis=1) * present[:, None])


def read_judgement(
    sums: tuple[float, ...], *, scale: float, noise: float, population: int, expected: float, level: float = LEVEL
) -> Judgement:
    """What a noisy sum [3] of the vectors says (post-processing).

    Args:
        sums: the noisy sum.
        scale: what u = 1 stands for, at which a person's difference is cut.
        noise: standard deviation of the noise in each number.
        population: a public number that the number of people cannot exceed.
        expected: how many of them there are where all of the population is there, for the estimate.
        level: nominal coverage.
    """
    from scipy.special import ndtri

    (numbers,) = NoisySums.read(np.array(sums), WEIGHTS, noise, population, -1.0, expected)
    low, high = (scale * end for end in bounds(numbers, level=level, sides="both"))
    interval = Interval(low=low, high=high, level=level, kind="two_sided", words=COUNTED.format(scale=scale))
    verdict: Verdict = "better" if low > 0 else "worse" if high < 0 else "no difference"
    units = unit_count(numbers.count, numbers.noise[1], expected)
    alone = scale * min(1.0, float(ndtri((1 + level) / 2)) * numbers.noise[0] / units)
    return Judgement(estimate=scale * numbers.mean, interval=interval, noise=alone, verdict=verdict, sums=sums)


def judging_level(plan: Any, vault: BaseVault) -> float | None:
    """The level of a plan's interval (`origins.require_level`); None where nobody judges."""
    if plan.judges is None:
        return None
    everybody, identity = frozenset(FOLDS), plans.plan_id(plan)
    return require_level(vault.ledger, everybody, LEVEL, where=f"{plan.method} plan", besides=identity)


def ask_judges(
    value: Steered,
    vault: BaseVault,
    run: Run,
    path: Path | None,
    ask: Callable[[], Float64],
    *,
    scale: float,
    level: float,
) -> Steered:
    """The value with what people say of it who did not teach it: asked once, or read from the checkpoint.

    Without a word of them where they were asked in a run that stopped before it kept their answer.

    Args:
        value: what is judged; the ledger notes it before anybody is asked.
        vault: of the people.
        run: with the part "judges".
        path: of the checkpoint, whose parameters are kept with the answer.
        ask: the noisy mean [1, 3] of the part.
        scale, level: as for `read_judgement`.

    Raises:
        PlanError: the checkpoint's answer is about another value.
    """
    part = run.part(JUDGES, Sum)  # type: ignore[type-abstract]
    fixed = replace(value, writer=None)
    kept = {} if path is None else checkpoint.load(path, plan_id=run.plan_id, ledger=vault.ledger)
    if vault.steps_left(run, JUDGES):
        vault.record_policy(run, fixed)
        kept["judges"] = torch.from_numpy(ask()[0] * part.divisor(vault.unit))
        if path is not None:
            checkpoint.save(path, kept, plan_id=run.plan_id, ledger=vault.ledger)
    elif "judges" in kept:
        noted = next(plan.policies for plan in vault.ledger.plans() if plan.id == run.plan_id)
        same = digest(fixed) in noted
        require_valid("the adapter", "another one", same, "the one that people judged, finished as it was then")
    if "judges" not in kept:
        return value
    assert part.noise_multiplier is not None
    noise, population = part.noise_multiplier * part.clip_norm, vault.unit.size
    sums, expected = tuple(kept["judges"].tolist()), population * value.plan.judges
    judgement = read_judgement(sums, scale=scale, noise=noise, population=population, expected=expected, level=level)
    return replace(value, judgement=judgement)


def require_judges(share: float | None) -> None:
    """Raise a PlanError unless this is a share of people who judge, or None."""
    valid = share is None or 0 < share < 1
    require_valid("judges", share, valid, "None for nobody, or a share of the people above 0 and below 1")
