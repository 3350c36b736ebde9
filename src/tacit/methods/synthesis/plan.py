"""The public parameters of transition synthesis (PrivORL-n): everything that is decided before a record is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from tacit.errors import PlanError
from tacit.privacy import parts
from tacit.privacy import plan as plans
from tacit.privacy.parts import PoissonSum
from tacit.units import Unit

SamplerMethod = Literal["dpm_solver", "heun"]
CuriosityMode = Literal["replace", "append_pool"]
Schedule = Literal["cosine", "constant"]


def _whole(**values: int) -> None:
    for name, value in values.items():
        parts.check(name, value, type(value) is int and value >= 1, "a whole number >= 1")


def _positive(**values: float) -> None:
    for name, value in values.items():
        parts.check(name, value, math.isfinite(value) and value > 0, "a finite number > 0")


def _fraction(**values: float) -> None:
    for name, value in values.items():
        parts.check(name, value, 0 <= value < 1, "a number in [0, 1)")


def _optimiser(steps: int, warmup: int, schedule: str, betas: tuple[float, float], ema: float) -> None:
    parts.check("warmup", warmup, 0 <= warmup < steps, "a number of steps below those of the training")
    parts.check("schedule", schedule, schedule in get_args(Schedule), "cosine or constant")
    _fraction(beta1=betas[0], beta2=betas[1], ema=ema)


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """How synthetic rows are drawn from a trained denoiser (post-processing: costs no privacy).

    Args:
        method: `dpm_solver` (DPM-Solver++(2M), arXiv:2211.01095, one network call per step) or `heun` (EDM,
            arXiv:2206.00364, algorithm 2, two calls per step; `churn` > 0 makes it the stochastic sampler).
        steps: number of noise levels.
        sigma_min, sigma_max: lowest and highest noise level. The defaults are the range that training really meets.
        rho: curvature of the schedule (EDM equation 5).
        eta: used by `dpm_solver` only: 0 follows the deterministic flow, 1 the reverse diffusion, whose fresh noise
            corrects errors of earlier steps.
        churn, churn_min, churn_max, churn_noise: EDM's S_churn, S_tmin, S_tmax, S_noise; used by `heun` only.

    Raises:
        PlanError: a value is out of range.
    """

    method: SamplerMethod = "dpm_solver"
    steps: int = 32
    sigma_min: float = 0.02
    sigma_max: float = 5.0
    rho: float = 7.0
    eta: float = 1.0
    churn: float = 0.0
    churn_min: float = 0.05
    churn_max: float = 50.0
    churn_noise: float = 1.003

    def __post_init__(self) -> None:
        parts.check("method", self.method, self.method in get_args(SamplerMethod), "dpm_solver or heun")
        parts.check("steps", self.steps, type(self.steps) is int and self.steps >= 2, "a whole number >= 2")
        _positive(sigma_min=self.sigma_min, sigma_max=self.sigma_max, rho=self.rho, churn_noise=self.churn_noise)
        parts.check("sigma_max", self.sigma_max, self.sigma_max > self.sigma_min, "more than sigma_min")
        parts.check("churn", self.churn, self.churn == 0 or self.method == "heun", "0 with dpm_solver")
        parts.check("churn", self.churn, self.churn >= 0, "a number >= 0")
        parts.check("eta", self.eta, 0 <= self.eta <= 1, "a number from 0 to 1")

    @classmethod
    def paper(cls) -> Sampler:
        """The paper's sampler: 128 stochastic Heun steps with EDM's ImageNet constants."""
        return cls(method="heun", steps=128, sigma_min=0.002, sigma_max=80.0, churn=80.0)


@dataclass(frozen=True, kw_only=True)
class Curiosity:
    """Random network distillation in public pre-training (the paper's sections V-A and V-B).

    Args:
        mode: `replace` (the paper: in every iteration as many rows are generated as the batch holds, and the
            `floor(rate * batch)` most novel take the place of real rows) or `append_pool` (the authors' code: once
            per epoch `pool` rows are generated, the `floor(rate * pool)` most novel are kept, and `appended` random
            ones of them join each batch).
        rate: the curiosity rate, in [0, 1).
        pool, appended: sizes for `append_pool`.
        learning_rate: of the predictor network.
        sampler_steps: noise levels used to generate the candidates.

    Raises:
        PlanError: a value is out of range.
    """

    mode: CuriosityMode = "replace"
    rate: float = 0.3
    pool: int = 1_000
    appended: int = 16
    learning_rate: float = 3e-4
    sampler_steps: int = 8

    def __post_init__(self) -> None:
        parts.check("mode", self.mode, self.mode in get_args(CuriosityMode), "replace or append_pool")
        _fraction(rate=self.rate)
        _whole(pool=self.pool, appended=self.appended)
        _positive(learning_rate=self.learning_rate)
        parts.check("sampler_steps", self.sampler_steps, self.sampler_steps >= 2, "a whole number >= 2")
        kept = self.mode == "replace" or int(self.rate * self.pool) >= 1
        parts.check("rate", self.rate, kept, "a rate that keeps at least one row of the pool")


@dataclass(frozen=True, kw_only=True)
class Pretraining:
    """Training on public rows before any private row is read.

    Args:
        provenance: where the public rows come from and why they contain no private record. Declared, printed in the
            certificate, never inferred.
        steps, batch, learning_rate, weight_decay, betas: AdamW (fused); cosine decay after `warmup` steps, or constant.
        warmup: steps over which the learning rate rises linearly.
        schedule: `cosine` or `constant`, after the warm-up.
        clip: bound of the norm of the whole batch's gradient.
        ema: decay of the exponential moving average of the weights.
        ema_every: steps between two updates of the average.
        curiosity: None trains on the real public rows only.

    Raises:
        PlanError: a value is out of range, or the provenance is empty.
    """

    provenance: str
    steps: int = 1_500
    batch: int = 1_024
    learning_rate: float = 3e-3
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.99)
    warmup: int = 20
    schedule: Schedule = "cosine"
    clip: float = 1.0
    ema: float = 0.99
    ema_every: int = 1
    curiosity: Curiosity | None = None

    def __post_init__(self) -> None:
        declared = bool(self.provenance.strip())
        parts.check("provenance", self.provenance, declared, "a sentence that says where the public rows come from")
        _whole(steps=self.steps, batch=self.batch, ema_every=self.ema_every)
        _positive(learning_rate=self.learning_rate, clip=self.clip)
        parts.check("weight_decay", self.weight_decay, self.weight_decay >= 0, "a number >= 0")
        _optimiser(self.steps, self.warmup, self.schedule, self.betas, self.ema)


@dataclass(frozen=True, kw_only=True)
class Plan(plans.Promising):
    """PrivORL-n: a diffusion model of single transitions, fine-tuned by noisy sums of clipped gradients.

    The defaults were chosen for utility on public maze layouts alone (`experiments/tune_synthesis.py`);
    `Plan.paper` gives the paper's own settings.

    Args:
        steps: number T of noisy gradients.
        rate: probability with which each unit of the population joins a step (Poisson sampling).
        clip: bound C on the L2 norm of one unit's gradient. With Adam its value is immaterial once every unit is
            clipped; only the noise multiplier matters.
        noise_multiplier: standard deviation of the noise over `clip`; None until the plan is calibrated.
        rows_per_unit: rows L of one unit that enter a step (drawn inside the unit when it owns more).
        noise_draws: noise multiplicity K: (sigma, eps) pairs per row, averaged before the clip. Costs time, no
            privacy (arXiv:2210.09929).
        width, depth, harmonics: size of the residual MLP (`networks.ResidualMLP`).
        learning_rate, warmup, schedule, betas: Adam on the noisy gradients (post-processing).
        ema, ema_every: exponential moving average of the weights; the released model is the average.
        P_mean, P_std: log-normal law of the training noise level, ln sigma ~ N(P_mean, P_std^2) (EDM table 1).
        sampler: how rows are drawn from the released model.
        pretraining: public pre-training, or None to start from random weights.
        unit, epsilon, delta: the promise; None until the plan is calibrated.

    Raises:
        PlanError: a value is out of range.
    """

    method: ClassVar[str] = "synthesis of transitions (PrivORL-n)"
    source: ClassVar[str] = "PrivORL: Differentially Private Synthetic Dataset for Offline Reinforcement Learning"

    steps: int = 1_000
    rate: float = 0.008
    clip: float = 1.0
    noise_multiplier: float | None = None
    rows_per_unit: int = 1
    noise_draws: int = 1
    width: int = 128
    depth: int = 4
    harmonics: int = 2
    learning_rate: float = 5e-3
    warmup: int = 20
    schedule: Schedule = "cosine"
    betas: tuple[float, float] = (0.9, 0.99)
    ema: float = 0.99
    ema_every: int = 1
    P_mean: float = -1.2
    P_std: float = 1.2
    sampler: Sampler = field(default_factory=Sampler)
    pretraining: Pretraining | None = None
    unit: Unit | None = None
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        self.parts()
        _whole(steps=self.steps, rows_per_unit=self.rows_per_unit, noise_draws=self.noise_draws)
        _whole(width=self.width, depth=self.depth, ema_every=self.ema_every)
        parts.check("harmonics", self.harmonics, self.harmonics in range(9), "a whole number from 0 to 8")
        _positive(learning_rate=self.learning_rate, P_std=self.P_std)
        parts.check("P_mean", self.P_mean, math.isfinite(self.P_mean), "a finite number")
        _optimiser(self.steps, self.warmup, self.schedule, self.betas, self.ema)
        if self.epsilon is not None:
            parts.check("epsilon", self.epsilon, self.epsilon > 0, "a number > 0")
        if self.unit is not None and self.delta is not None:
            plans.check_delta(self.delta, self.unit)

    @classmethod
    def paper(cls, *, population: int, provenance: str | None = None, epoch: int | None = None) -> Plan:
        """The paper's own settings (its appendix F-A and the authors' code).

        Args:
            population: public number of transitions in the private set; gives the rate 128/population and the steps
                of 5 epochs.
            provenance: of the public rows; None is the paper's ablation "NonPre".
            epoch: number of public rows, which makes 10 epochs of batches of 128; needed with `provenance`.

        Raises:
            PlanError: `provenance` without `epoch`, or a population below 128.
        """
        parts.check("population", population, population >= 128, "at least one batch of 128")
        parts.check("epoch", epoch, provenance is None or epoch is not None, "the number of public rows")
        pretraining = None
        if provenance is not None:
            pretraining = Pretraining(
                provenance=provenance,
                steps=math.ceil(10 * (epoch or 0) / 128),
                batch=128,
                learning_rate=3e-4,
                warmup=0,
                schedule="constant",
                ema=0.995,
                ema_every=10,
                curiosity=Curiosity(sampler_steps=128),
            )
        return cls(
            steps=math.ceil(5 * population / 128),
            rate=128 / population,
            width=1_024,
            depth=6,
            harmonics=0,
            learning_rate=3e-4,
            warmup=0,
            schedule="constant",
            ema=0.995,
            ema_every=10,
            sampler=Sampler.paper(),
            pretraining=pretraining,
        )

    def parts(self) -> tuple[PoissonSum, ...]:
        """The only touch of private rows: T noisy sums of clipped gradients."""
        return (
            PoissonSum(
                name="denoiser",
                steps=self.steps,
                rate=self.rate,
                clip=self.clip,
                noise_multiplier=self.noise_multiplier,
                rows_per_unit=self.rows_per_unit,
            ),
        )

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Plan:
        """The plan that `privacy.plan.public_fields` wrote.

        Raises:
            PlanError: a field is unknown or out of range.
        """
        try:
            values = dict(fields) | {"betas": tuple(fields["betas"]), "sampler": Sampler(**fields["sampler"])}
            if fields["pretraining"] is not None:
                inner = dict(fields["pretraining"]) | {"betas": tuple(fields["pretraining"]["betas"])}
                if inner["curiosity"] is not None:
                    inner["curiosity"] = Curiosity(**inner["curiosity"])
                values["pretraining"] = Pretraining(**inner)
            if fields["unit"] is not None:
                values |= {"unit": Unit(**fields["unit"]), "epsilon": float(fields["epsilon"])}
            return cls(**values)
        except (KeyError, TypeError) as error:
            raise PlanError(
                "a field is missing or unknown",
                where="synthesis.Plan.from_json",
                expected="the fields of this version's plan",
                remedy="use the version of tacit that wrote it",
            ) from error

    def learning_rate_at(self, step: int) -> float:
        """The learning rate of step `step` (0 .. steps-1): linear warm-up, then cosine to zero or constant."""
        return scheduled(self.learning_rate, step, self.steps, self.warmup, self.schedule)


def scheduled(peak: float, step: int, steps: int, warmup: int, schedule: Schedule) -> float:
    """Learning rate of one step: `peak * (step+1)/warmup` while warming up, then cosine to zero, or constant."""
    if step < warmup:
        return peak * (step + 1) / warmup
    if schedule == "constant":
        return peak
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))
