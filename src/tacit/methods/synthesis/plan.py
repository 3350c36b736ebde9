"""Public parameters of synthesis, decided in advance: what the plans of all synthesizers share, and PrivORL-n's own."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from tacit.methods.synthesis.table_matching import PART as HISTOGRAMS
from tacit.methods.synthesis.table_matching import Floats, NoisyHistograms, TableMatching
from tacit.parameters import Option
from tacit.privacy.mechanisms.base import Part
from tacit.privacy.mechanisms.sums import PoissonSum
from tacit.privacy.sentences import Clause, Label, clause
from tacit.privacy.vault import plan as plans
from tacit.serialization import OPTIONAL
from tacit.validation import require_fraction, require_positive, require_valid, require_whole

SamplerMethod = Literal["dpm_solver", "heun"]
FREQUENCIES = 8
"""Random Fourier frequencies of the noise embedding (the paper: embedding dimension 16 = 8 sines + 8 cosines)."""
EMBEDDING = 128
"""Width of that embedding, after one more layer."""

CuriosityMode = Literal["replace", "append_pool"]
Schedule = Literal["cosine", "constant"]


def require_provenance(provenance: str) -> None:
    """Raise a PlanError unless somebody says where public rows come from."""
    said = bool(provenance.strip())
    require_valid("provenance", provenance, said, "a sentence that says where the public rows come from")


def check_optimiser(steps: int, warmup: int, schedule: str, betas: tuple[float, float], ema: float) -> None:
    """Raise a PlanError unless these settings of an Adam with a moving average are in range."""
    require_valid("warmup", warmup, 0 <= warmup < steps, "a number of steps below those of the training")
    require_valid("schedule", schedule, schedule in get_args(Schedule), "cosine or constant")
    require_fraction(beta1=betas[0], beta2=betas[1], ema=ema)


def scheduled_rate(peak: float, step: int, steps: int, warmup: int, schedule: Schedule) -> float:
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
        require_valid("method", self.method, self.method in get_args(SamplerMethod), "dpm_solver or heun")
        require_valid("steps", self.steps, type(self.steps) is int and self.steps >= 2, "a whole number >= 2")
        require_positive(sigma_min=self.sigma_min, sigma_max=self.sigma_max, rho=self.rho, churn_noise=self.churn_noise)
        require_valid("sigma_max", self.sigma_max, self.sigma_max > self.sigma_min, "more than sigma_min")
        require_valid("churn", self.churn, self.churn == 0 or self.method == "heun", "0 with dpm_solver")
        require_valid("churn", self.churn, self.churn >= 0, "a number >= 0")
        require_valid("eta", self.eta, 0 <= self.eta <= 1, "a number from 0 to 1")

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
    """

    mode: CuriosityMode = "replace"
    rate: float = 0.3
    pool: int = 1_000
    appended: int = 16
    learning_rate: float = 3e-4
    sampler_steps: int = 8

    def __post_init__(self) -> None:
        require_valid("mode", self.mode, self.mode in get_args(CuriosityMode), "replace or append_pool")
        require_fraction(rate=self.rate)
        require_whole(pool=self.pool, appended=self.appended)
        require_positive(learning_rate=self.learning_rate)
        require_valid("sampler_steps", self.sampler_steps, self.sampler_steps >= 2, "a whole number >= 2")
        valid = self.mode == "replace" or int(self.rate * self.pool) >= 1
        require_valid("rate", self.rate, valid, "a rate that keeps at least one row of the pool")


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
        require_provenance(self.provenance)
        require_whole(steps=self.steps, batch=self.batch, ema_every=self.ema_every)
        require_positive(learning_rate=self.learning_rate, clip_norm=self.clip_norm)
        require_valid("weight_decay", self.weight_decay, self.weight_decay >= 0, "a number >= 0")
        check_optimiser(self.steps, self.warmup, self.schedule, self.betas, self.ema)


Progress = Callable[[int, int], None]
"""Called after each step with (steps done, steps in all), both public."""


@dataclass(frozen=True, kw_only=True)
class SynthesisPlan(plans.PrivatePlan):
    """What the plans of all synthesizers have in common."""

    method: ClassVar[str]
    source: ClassVar[str]
    learns_transitions: ClassVar[bool] = True
    """whether it learns what follows single rows, so that no next observation may be a copy."""

    noise_multiplier: float | None = None
    """sigma, by which the noise of every query is scaled; None until the plan is calibrated."""

    def __post_init__(self) -> None:
        self.parts()

    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """Every query of private rows."""

    @abstractmethod
    def label(self) -> Label:
        """The certificate's clauses."""


def label(*touches: Clause, public: Sequence[Clause], choices: str = "hyperparameters") -> Label:
    """The certificate's clauses, of which all synthesizers have most in common."""
    # touches: of private rows; choices: what was chosen, and must not have been chosen by the private records
    return Label(
        covered=(*touches, clause("sampled_rows")),
        not_covered=(*public, clause(choices), clause("curator")),
        not_protected=(clause("population"), clause("records_used"), clause("less_than_person")),
    )


def pretraining_clause(provenance: str | None) -> Clause:
    """The certificate's clause on public pre-training, or on none."""
    return clause("not_pretrained") if provenance is None else clause("pretrained", words=provenance)


PART = "denoiser"
"""Name of the noisy gradients among the parts of `TransitionsPlan`."""

PEOPLE_A_STEP = 4_000
"""Expected units in a step of `TransitionsPlan.for_people`, where there are so many."""


@dataclass(frozen=True, kw_only=True)
class DiffusionPlan(SynthesisPlan):
    """What the plans of transitions (PrivORL-n) and of trajectories (PrivORL-j) have in common.

    `noise_multiplier` is the standard deviation of the noise over `clip_norm`.
    """

    steps: Option[int]
    """number T of noisy gradients of the denoiser."""
    sampling_rate: float
    """probability with which each unit of the population joins a step (Poisson sampling)."""
    clip_norm: Option[float]
    """bound C on the L2 norm of one unit's gradient. With Adam its value is immaterial once every unit is clipped; only
    the noise multiplier matters."""
    noise_multiplicity: Option[int] = 1
    """noise multiplicity K: (sigma, eps) pairs per row or fragment, averaged before the clip. Costs time, no privacy
    (arXiv:2210.09929)."""
    width: Option[int]
    """width of the denoiser's network."""
    depth: Option[int]
    """depth of the denoiser's network."""
    harmonics: int
    """octaves of Fourier features of the network's input."""
    learning_rate: Option[float]
    """of Adam on the noisy gradients (post-processing)."""
    warmup: int
    """steps over which the learning rate rises."""
    schedule: Schedule = "cosine"
    """of the learning rate after these steps."""
    betas: tuple[float, float] = (0.9, 0.99)
    """of Adam."""
    ema: float
    """decay of the exponential moving average of the weights; the released model is the average."""
    ema_every: int = 1
    """steps between two updates of that average."""
    P_mean: float
    """mean of ln sigma, whose training noise level sigma is log-normal (EDM table 1)."""
    P_std: float
    """standard deviation of ln sigma."""
    sampler: Sampler = field(default_factory=Sampler)
    """how rows are drawn from the released model."""
    pretraining: Pretraining | None = None
    """public pre-training, or None to start from random weights."""
    matching: TableMatching | None = None
    """noisy histograms of the units' rows, with which what is sampled is weighted to agree; None: as the model draws
    it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(noise_multiplicity=self.noise_multiplicity, width=self.width)
        require_whole(depth=self.depth, ema_every=self.ema_every)
        require_valid("harmonics", self.harmonics, self.harmonics in range(9), "a whole number from 0 to 8")
        require_positive(learning_rate=self.learning_rate, P_std=self.P_std)
        require_valid("P_mean", self.P_mean, math.isfinite(self.P_mean), "a finite number")
        trained = [part.steps for part in self.parts() if part.name != HISTOGRAMS]
        check_optimiser(min(trained, default=self.warmup + 1), self.warmup, self.schedule, self.betas, self.ema)

    @abstractmethod
    def parts(self) -> tuple[PoissonSum, ...]:
        """Every query of private rows: noisy sums of clipped gradients, and of histograms last if there are any."""

    def noisy_histograms(self, values: Floats | None, sums: int) -> NoisyHistograms | None:
        """The histograms that a run of this plan released, as the mean of so many noisy sums; None without any."""
        if self.matching is None or values is None:
            return None
        return NoisyHistograms(self.matching, self.parts()[-1], self.unit, values, sums)

    def _diffusion_label(self, *touches: Clause) -> Label:
        """The certificate's statements for these touches of private rows and for the histograms."""
        matching, provenance = self.matching, None if self.pretraining is None else self.pretraining.provenance
        histograms = () if matching is None else (matching.covered_clause(),)
        shaped = () if matching is None else matching.discretisation.public_clauses()
        return label(*touches, *histograms, public=(pretraining_clause(provenance), *shaped))


@dataclass(frozen=True, kw_only=True)
class TransitionsPlan(DiffusionPlan):
    """PrivORL-n: a diffusion model of single transitions, fine-tuned by noisy sums of clipped gradients.

    The defaults were chosen for utility on public layouts alone (`experiments/results/archive/tune_synthesis.json`);
    `TransitionsPlan.paper` gives the paper's own settings. The network is a residual MLP (`diffusion.ResidualMLP`), and
    histograms are released after the last gradient.
    """

    method: ClassVar[str] = "synthesis of transitions (PrivORL-n)"
    source: ClassVar[str] = "PrivORL: Differentially Private Synthetic Dataset for Offline Reinforcement Learning"

    steps: int = 1_000
    sampling_rate: float = 0.008
    clip_norm: float = 1.0
    rows_per_unit: Option[int] = 1
    """rows L of one unit that enter a step (drawn inside the unit when it owns more)."""
    width: int = 128
    depth: int = 4
    harmonics: int = 2
    learning_rate: float = 5e-3
    warmup: int = 20
    ema: float = 0.99
    P_mean: float = -1.2
    P_std: float = 1.2
    curiosity: Curiosity | None = None
    """novelty in fine-tuning (the paper's "FineCur", which its table V finds harmful), of the mode `append_pool`: once
    per epoch (1 / `rate` steps) a pool of rows is generated and the most novel are kept; `appended` of them are drawn
    in each step, and their gradients, clipped like a unit's, are added to the noisy sum of the units after it has left
    the vault. The units' sampling, clip, noise and public divisor stay as they are, so it costs no privacy. None: the
    units' rows only."""
    matching: TableMatching | None = field(default=None, metadata=OPTIONAL)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(steps=self.steps, rows_per_unit=self.rows_per_unit)
        appends = self.curiosity is None or self.curiosity.mode == "append_pool"
        require_valid("curiosity", self.curiosity, appends, "append_pool: no unit may give way to a generated row")

    @classmethod
    def paper(cls, *, population: int, provenance: str | None = None, epoch: int | None = None) -> TransitionsPlan:
        """The paper's own settings (its appendix F-A and the authors' code).

        Args:
            population: public number of transitions in the private set; gives the rate 128/population and the steps
                of 5 epochs.
            provenance: of the public rows; None is the paper's ablation "NonPre".
            epoch: number of public rows, which makes 10 epochs of batches of 128; needed with `provenance`.

        Raises:
            PlanError: `provenance` without `epoch`, or a population below 128.
        """
        require_valid("population", population, population >= 128, "at least one batch of 128")
        require_valid("epoch", epoch, provenance is None or epoch is not None, "the number of public rows")
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
            sampling_rate=128 / population,
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

    @classmethod
    def for_people(
        cls,
        *,
        population: int,
        epsilon: float,
        rows_per_unit: int = 16,
        pretraining: Pretraining | None = None,
        matching: TableMatching | None = None,
    ) -> TransitionsPlan:
        """Settings for units that own many rows each: thousands of people rather than a million transitions.

        Of each of about `PEOPLE_A_STEP` people a step takes the mean gradient over many rows, and clips all of them:
        the noise then depends on the number of people alone. Where it is large, a smaller network has the better share
        of signal; after public pre-training short steps are the better ones, which keep what was learnt there.

        Sources: steps, rate, noise levels, network sizes and the learning rates without pre-training come from a
        prototype with episodes of the maze "umaze" as units, of which an evaluation on umaze is not independent; the
        learning rate after pre-training from the public maze "rooms", 10,000 episodes, epsilon 1, where 5e-3 has a
        third of the error of the next position that 1.6e-2 has.

        Args:
            population: of the unit.
            epsilon: of the promise to come; call `calibrate` for it.
            rows_per_unit: rows of one unit in a noisy gradient; more cost time, no privacy.
            pretraining: public pre-training, which must be made with this plan's network.
            matching: histograms, `TableMatching.of(spec)` for one; advisable wherever units are few.
        """
        sensible = math.isfinite(epsilon) and epsilon > 0 and population >= 1
        require_valid("population and epsilon", (population, epsilon), sensible, "positive numbers")
        large = population * epsilon >= 50_000
        return cls(
            steps=100,
            sampling_rate=min(1.0, PEOPLE_A_STEP / population),
            clip_norm=0.05,
            rows_per_unit=rows_per_unit,
            width=128 if large else 64,
            depth=4 if large else 2,
            learning_rate=5e-3 if pretraining else 2.4e-2 if large else 1.6e-2,
            warmup=5,
            P_mean=-0.5,
            P_std=1.0,
            pretraining=pretraining,
            matching=matching,
        )

    def parts(self) -> tuple[PoissonSum, ...]:
        """The only touches of private rows: T noisy sums of clipped gradients, and the histograms if there are any."""
        gradients = PoissonSum(
            name=PART,
            steps=self.steps,
            sampling_rate=self.sampling_rate,
            clip_norm=self.clip_norm,
            noise_multiplier=self.noise_multiplier,
            rows_per_unit=self.rows_per_unit,
        )
        return (gradients,) if self.matching is None else (gradients, self.matching.tied_part(gradients))

    def label(self) -> Label:
        """The certificate's statements."""
        return self._diffusion_label(clause("gradients", steps=self.steps))

    def learning_rate_at(self, step: int) -> float:
        """The learning rate of step `step` (0 .. steps-1): linear warm-up, then cosine to zero or constant."""
        return scheduled_rate(self.learning_rate, step, self.steps, self.warmup, self.schedule)
