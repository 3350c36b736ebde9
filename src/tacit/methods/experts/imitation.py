"""Return-weighted imitation: noisy full-batch steps up the likelihood of what good experts did.

Input: experts' logs behind a vault; a calibrated plan (K steps, a clip C, a policy pi)
1. once an expert: a few of its rows, evenly spaced, and its weight w_i in (0, 1], from its own returns  (returns.py)
2. for k = 1 .. K:
3.     g_i <- w_i clip(mean over its rows of grad log pi(a | s), C)
4.     g   <- (sum_i g_i + noise) / population                                     (vault.noisy_sum)
5.     theta <- Adam step up g / C
6. release the mean of the last thetas

No expert is queried and none needs to act at random. Each step is a Gaussian over all experts, so that the plan costs
one Gaussian of multiplier sigma / sqrt(K). Proof page: `proofs/experts.md`. Source: tacit; imitation is the base
learner of N. Sharma et al. (arXiv:2411.13598), weights of this form are those of advantage-weighted regression.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.agents.heads import Categorical
from tacit.agents.optimizers import Adam
from tacit.agents.policies import Policy
from tacit.methods.experts.clones import spread
from tacit.methods.experts.label import label
from tacit.methods.experts.learned import Learned
from tacit.methods.experts.plan_fields import restored, unreadable
from tacit.methods.experts.returns import ReturnWeight
from tacit.privacy import clipping
from tacit.privacy import plan as plans
from tacit.privacy.parts import PoissonSum, check
from tacit.privacy.release import Release
from tacit.privacy.run import exhausted
from tacit.privacy.vault import Vault
from tacit.units import Unit

Array = NDArray[Any]
Float32 = NDArray[np.float32]

PART = "policy"
"""The name of the plan's part."""

_ROWS = 65_536
"""Rows whose gradients are computed at a time."""


@dataclass(frozen=True, kw_only=True)
class ReturnWeighted:
    """Return-weighted imitation of experts.

    Args:
        policy: what is learnt.
        weight: how much each expert counts, by its own returns; None counts all alike.
        steps: K.
        clip: C, the largest norm of one expert's mean gradient.
        rate: size of the first step of Adam; it decays linearly to 0.
        average: share of the steps, at the end, whose parameters are averaged.
        kept: how many of an expert's rows its gradients are made of, evenly spaced over those that are read.
        rows: L, how many of an expert's rows are read at most, the first in order of time; its returns are of these.
        seed: of the first parameters.
        noise_multiplier: sigma of a step; None until calibrated.
        unit, epsilon, delta: the promise; None until the plan is calibrated.

    Raises:
        PlanError: a value is out of range, or the policy's actions are not discrete.
    """

    method: ClassVar[str] = "learning from experts (return-weighted imitation)"
    source: ClassVar[str] = "tacit; the problem is that of Sharma et al. (arXiv:2411.13598)"

    policy: Policy
    weight: ReturnWeight | None = None
    steps: int = 60
    clip: float = 0.05
    rate: float = 0.2
    average: float = 0.2
    kept: int = 256
    rows: int = 4_000
    seed: int = 0
    noise_multiplier: float | None = None
    unit: Unit | None = None
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        check("policy.head", self.policy.head, isinstance(self.policy.head, Categorical), "a Categorical head")
        for name in ("kept", "rows"):
            value = getattr(self, name)
            check(name, value, type(value) is int and value >= 1, "a whole number >= 1")
        check("rate", self.rate, 0 < self.rate < math.inf, "a finite number > 0")
        check("average", self.average, 0 < self.average <= 1, "a number in (0, 1]")
        self.parts()

    def parts(self) -> tuple[PoissonSum, ...]:
        """The only touch of records: K noisy sums of all experts' gradients."""
        part = PoissonSum(
            name=PART,
            steps=self.steps,
            rate=1.0,
            clip=self.clip,
            noise_multiplier=self.noise_multiplier,
            rows_per_unit=self.rows,
            rows="first",
        )
        return (part,)

    def calibrate(self, *, unit: Unit, epsilon: float, delta: float) -> ReturnWeighted:
        """The plan with the least noise that keeps (epsilon, delta) for this unit (`privacy.plan.calibrate`).

        Raises:
            PlanError: epsilon or delta is out of range, or delta >= 1 / population.
        """
        return plans.calibrate(self, unit=unit, epsilon=epsilon, delta=delta)

    def price(self, *, unit: Unit, delta: float) -> ReturnWeighted:
        """The plan at the noise multiplier it has, with the epsilon that this honestly costs (infinite without)."""
        return plans.price(self, unit=unit, delta=delta)

    def __str__(self) -> str:
        """The promise in plain words."""
        return plans.promise(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> ReturnWeighted:
        """The plan that `privacy.plan.public_fields` wrote.

        Raises:
            PlanError: a field is missing, unknown or out of range.
        """
        try:
            return cls(**restored(dict(fields) | {"policy": Policy.from_json(fields["policy"])}))
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable("experts.ReturnWeighted") from error


@dataclass(frozen=True)
class Kept:
    """What is kept of each expert: some of its rows, and its weight."""

    rows: int
    weight: ReturnWeight | None

    def __call__(self, rows: Mapping[str, Array]) -> dict[str, Array]:
        """Rows [U, L, ...] -> "observations" and "actions" [U, k, ...], "mask" [U, k] and "weight" [U]."""
        weight = np.ones(len(rows["mask"])) if self.weight is None else self.weight(rows)
        return {**spread(rows, self.rows, ("observations", "actions")), "weight": weight}


@dataclass(frozen=True)
class Gradient:
    """An expert's weighted, clipped mean gradient of log pi, for the state: theta [R, P].

    Args:
        summary: the experts' rows and weights.
        policy: pi.
        clip: C, before the weight.
    """

    summary: Kept
    policy: Policy
    clip: float

    def __call__(self, rows: Mapping[str, Array], state: Float32) -> Array:
        """[U, P]."""
        mask, theta = rows["mask"], state[rows["replicate"]]
        weights = mask / np.maximum(mask.sum(axis=1, keepdims=True), 1)
        gradients = np.empty((len(mask), theta.shape[1]), np.float32)
        size = max(1, _ROWS // mask.shape[1])
        for start in range(0, len(mask), size):
            some = slice(start, start + size)
            gradients[some] = self.policy.gradient(
                theta[some], rows["observations"][some], rows["actions"][some], weights[some]
            )
        return clipping.clip_rows(gradients, self.clip) * rows["weight"][:, None]


def learn(plan: ReturnWeighted, vault: Vault) -> Release[Learned]:
    """Run a calibrated plan (see `algorithm.learn`)."""
    plan.policy.require_fit(vault.spec)
    run = vault.reserve(plan)
    if vault.touched(run):
        raise exhausted(run, PART)
    gradient = Gradient(Kept(plan.kept, plan.weight), plan.policy, plan.clip)
    first = plan.policy.initial(np.random.default_rng(plan.seed), 1)
    theta = np.repeat(first, len(vault.ledgers), axis=0)
    adam = Adam(np.zeros_like(theta), np.zeros_like(theta))
    averaged, total = max(1, round(plan.average * plan.steps)), np.zeros(theta.shape)
    for k in range(plan.steps):
        mean = vault.noisy_sum(run, PART, gradient, theta)
        adam.ascend(theta, (mean / plan.clip).astype(np.float32), plan.rate * (1 - k / plan.steps))
        if k >= plan.steps - averaged:
            total += theta
    learned = Learned(plan=plan, policy=plan.policy, theta=(total / averaged).astype(np.float32))
    covered = f"the noisy mean gradients of all {plan.steps:,} steps"
    return vault.release(run, learned, label=label(plan, covered))
