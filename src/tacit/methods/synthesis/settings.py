"""Public settings of synthesis: sampling, curiosity, pre-training, and what the plans of all synthesizers share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from tacit.privacy.certificate.words import Label
from tacit.privacy.mechanisms.base import Part
from tacit.privacy.vault import plan as plans
from tacit.units import Unit
from tacit.validation import check, fraction, positive, whole

SamplerMethod = Literal["dpm_solver", "heun"]
CuriosityMode = Literal["replace", "append_pool"]
Schedule = Literal["cosine", "constant"]


def declared(provenance: str) -> None:
    """Raise a PlanError unless somebody says where public rows come from."""
    said = bool(provenance.strip())
    check("provenance", provenance, said, "a sentence that says where the public rows come from")


def optimiser(steps: int, warmup: int, schedule: str, betas: tuple[float, float], ema: float) -> None:
    """Raise a PlanError unless these settings of an Adam with a moving average are in range."""
    check("warmup", warmup, 0 <= warmup < steps, "a number of steps below those of the training")
    check("schedule", schedule, schedule in get_args(Schedule), "cosine or constant")
    fraction(beta1=betas[0], beta2=betas[1], ema=ema)


def scheduled(peak: float, step: int, steps: int, warmup: int, schedule: Schedule) -> float:
    """Learning rate of one step: `peak * (step+1)/warmup` while warming up, then cosine to zero, or constant."""
    if step < warmup:
        return peak * (step + 1) / warmup
    if schedule == "constant":
        return peak
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


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
        check("method", self.method, self.method in get_args(SamplerMethod), "dpm_solver or heun")
        check("steps", self.steps, type(self.steps) is int and self.steps >= 2, "a whole number >= 2")
        positive(sigma_min=self.sigma_min, sigma_max=self.sigma_max, rho=self.rho, churn_noise=self.churn_noise)
        check("sigma_max", self.sigma_max, self.sigma_max > self.sigma_min, "more than sigma_min")
        check("churn", self.churn, self.churn == 0 or self.method == "heun", "0 with dpm_solver")
        check("churn", self.churn, self.churn >= 0, "a number >= 0")
        check("eta", self.eta, 0 <= self.eta <= 1, "a number from 0 to 1")

    @classmethod
    def paper(cls) -> Sampler:
        """The paper's sampler: 128 stochastic Heun steps with EDM's ImageNet constants."""
        return cls(method="heun", steps=128, sigma_min=0.002, sigma_max=80.0, churn=80.0)


@dataclass(frozen=True, kw_only=True)
class Curiosity:
    """Random network distillation (the paper's sections V-A and V-B): novel generated rows join the training.

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
        check("mode", self.mode, self.mode in get_args(CuriosityMode), "replace or append_pool")
        fraction(rate=self.rate)
        whole(pool=self.pool, appended=self.appended)
        positive(learning_rate=self.learning_rate)
        check("sampler_steps", self.sampler_steps, self.sampler_steps >= 2, "a whole number >= 2")
        valid = self.mode == "replace" or int(self.rate * self.pool) >= 1
        check("rate", self.rate, valid, "a rate that keeps at least one row of the pool")


@dataclass(frozen=True, kw_only=True)
class Pretraining:
    """Training on public rows before any private row is read.

    Args:
        provenance: where the public rows come from and why they contain no private record. Declared, printed in the
            certificate, never inferred.
        steps, batch, learning_rate, weight_decay, betas: AdamW (fused); cosine decay after `warmup` steps, or constant.
        warmup: steps over which the learning rate rises linearly.
        schedule: `cosine` or `constant`, after the warm-up.
        clip_norm: bound of the norm of the whole batch's gradient.
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
    clip_norm: float = 1.0
    ema: float = 0.99
    ema_every: int = 1
    curiosity: Curiosity | None = None

    def __post_init__(self) -> None:
        declared(self.provenance)
        whole(steps=self.steps, batch=self.batch, ema_every=self.ema_every)
        positive(learning_rate=self.learning_rate, clip_norm=self.clip_norm)
        check("weight_decay", self.weight_decay, self.weight_decay >= 0, "a number >= 0")
        optimiser(self.steps, self.warmup, self.schedule, self.betas, self.ema)


CHOICES = "the choice of hyper-parameters: it must have been made without looking at the private records"
BINS = "the bins and all other settings: they must have been chosen without looking at the private records"

Progress = Callable[[int, int], None]
"""Called after each step with (steps done, steps in all), both public."""


@dataclass(frozen=True, kw_only=True)
class SynthesisPlan(plans.PrivatePlan):
    """What the plans of all synthesizers have in common."""

    method: ClassVar[str]
    source: ClassVar[str]

    noise_multiplier: float | None = None
    """sigma, by which the noise of every query is scaled; None until the plan is calibrated."""
    unit: Unit | None = None
    epsilon: float | None = None
    delta: float | None = None
    """the promise; None until the plan is calibrated."""

    def __post_init__(self) -> None:
        self.parts()
        plans.check_promise(self.unit, self.epsilon, self.delta)

    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """Every query of private rows."""

    @abstractmethod
    def label(self, sums: int | None = None) -> Label:
        """The certificate's words for a release under this plan."""
        # sums: how many noisy sums of histograms were released, None for all of the plan


def label(
    plan: SynthesisPlan, *, touches: Sequence[str], sampled: str, public: Sequence[str], choices: str = CHOICES
) -> Label:
    """The certificate's words, of which all synthesizers have most in common."""
    # touches: of private rows; choices: what was chosen, and must not have been chosen by the private records
    return Label(
        covered=(*touches, f"{sampled}, and everything trained or computed on the samples"),
        not_covered=(
            *public,
            choices,
            "whatever the curator computes from the records outside the vault (see the ledger's notes)",
        ),
        not_protected=(
            f"what is true of the population rather than of one {plan.unit.name if plan.unit else 'unit'}",
            "that these records were used at all, by whom, and every public parameter of the plan",
            "several units that belong to one person, where the declared unit is less than a person",
        ),
    )


def pretrained_on(provenance: str | None, networks: str) -> str:
    """The certificate's words for public pre-training, or for none."""
    origin = f"none: {networks} began with random weights" if provenance is None else provenance
    return f"public pre-training: {origin} (declared by the user, not checked here)"
