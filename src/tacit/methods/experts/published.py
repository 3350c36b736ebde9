"""The privacy figures of the paper that introduced expert-level privacy, beside the honest ones (arXiv:2411.13598).

The paper was first to ask that an expert's policy be hidden in what is learnt offline, and to publish without noise
what many experts would have done alike. Three steps of its accounting do not carry its figures; they are kept here for
comparison, and no plan of this library is priced by them:

- Training (appendix B.2) tosses a coin in every step: with probability p a noisy batch from all experts, else a
  noiseless one from released prefixes. The published accountant counts every step as one over a sample of rate p B / m.
  But whether a step was noisy shows, so that the coin hides nobody: there are p times as many noisy steps, each over a
  sample of rate B / m. What is claimed is too small by a factor of about sqrt(1 / p), more at large epsilon.
- Theorem 5.6 adds the epsilons of the two stages, "shown trivially by sequential composition". That holds where the two
  stages use different trajectories of every expert, not where training goes on with the tails of the trajectories whose
  heads were released (`proofs/experts.md`). With a hold-out that is set apart beforehand not only the sum holds but the
  joint composition, which is smaller.
- The prefixes' delta grows with the length T of a trajectory (a union over its steps). The event that it pays for can
  happen only once in a trajectory, so T may be left out (`proofs/above_threshold.md`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.agents.learners import CQL
from tacit.agents.policies import Policy
from tacit.errors import PlanError
from tacit.methods.experts.consensus import Consensus
from tacit.privacy.accounting.events import Event, GaussianEvent, PoissonSampledEvent, SelfComposedEvent
from tacit.privacy.mechanisms.thresholds import PMin
from tacit.roots import find_root
from tacit.units import Unit
from tacit.validation import require_valid

MOST_STEPS = 10**9


@dataclass(frozen=True, kw_only=True)
class MixedTraining:
    """Algorithm 3: in each step, with probability p, a noisy gradient from B of m experts, else a noiseless one."""

    experts: int  # m
    batch: int  # B, how many experts a noisy step takes one transition from
    # p in (0, 1], the probability of a noisy step. (The paper's Table 1 has p for some tasks and 1 - p for others.)
    noisy_share: float
    noise_multiplier: float  # sigma > 0, the noise's standard deviation over the clip

    def __post_init__(self) -> None:
        require_valid("batch", self.batch, 1 <= self.batch <= self.experts, f"from 1 to {self.experts}")
        require_valid("noisy_share", self.noisy_share, 0 < self.noisy_share <= 1, "a probability in (0, 1]")
        valid = 0.1 <= self.noise_multiplier < math.inf
        require_valid("noise_multiplier", self.noise_multiplier, valid, "a number >= 0.1")

    @property
    def rate(self) -> float:
        """B / m, the rate at which one noisy step samples experts."""
        return self.batch / self.experts

    def noisy_steps(self, steps: int) -> int:
        """How many of so many steps are noisy on average, rounded up: K of a fixed schedule that stands for them."""
        return math.ceil(self.noisy_share * steps - 1e-9)

    def event(self, steps: int) -> Event:
        """The honest event of so many steps: K noisy ones, each over a Poisson sample of rate B / m."""
        return SelfComposedEvent(_sampled_event(self.rate, self.noise_multiplier), self.noisy_steps(steps))

    def published_epsilon(self, steps: int, delta: float) -> float:
        """What the published accounting says of so many steps: all noisy, each over a sample of rate p B / m."""
        return _estimate(self.noisy_share * self.rate, self.noise_multiplier, steps, delta)

    def honest_epsilon(self, steps: int, delta: float) -> float:
        """Epsilon of `event(steps)`, an estimate that is quick for millions of steps; `accounting` certifies it."""
        return _estimate(self.rate, self.noise_multiplier, self.noisy_steps(steps), delta)

    def published_steps(self, epsilon: float, delta: float) -> int:
        """How many steps the published accounting allows: the paper trains until it says epsilon."""
        return _steps(self.noisy_share * self.rate, self.noise_multiplier, epsilon, delta)

    def honest_steps(self, epsilon: float, delta: float) -> int:
        """How many noisy steps epsilon really allows."""
        return _steps(self.rate, self.noise_multiplier, epsilon, delta)

    def limit_epsilon(self, noisy: int, delta: float) -> float:
        """Epsilon of so many noisy steps in the limit of many small ones: mu-GDP, mu = q sqrt(K (e^(1/sigma^2) -
        1))."""
        from tacit.privacy.accounting import accountants

        # Source: central limit theorem of Bu, Dong, Long & Su (arXiv:1911.11607). No bound: a check of the others.
        mu = self.rate * math.sqrt(noisy * math.expm1(self.noise_multiplier**-2))
        return accountants.gaussian_epsilon(delta, mu)


def published_total(release: tuple[float, float], training: tuple[float, float]) -> tuple[float, float]:
    """(epsilon, delta) of both stages as Theorem 5.6 adds them up."""
    return release[0] + training[0], release[1] + training[1]


def _sampled_event(rate: float, sigma: float) -> PoissonSampledEvent | GaussianEvent:
    return PoissonSampledEvent(rate, GaussianEvent(sigma)) if rate < 1 else GaussianEvent(sigma)


def _estimate(rate: float, sigma: float, steps: int, delta: float) -> float:
    """By `accounting`'s check, centred quadrature: it goes beyond the steps that a certificate may have."""
    from tacit.privacy.accounting import table as accounting_checks

    require_valid("steps", steps, 1 <= steps <= MOST_STEPS, f"from 1 to {MOST_STEPS:,}")
    return accounting_checks.fourier(((_sampled_event(rate, sigma), steps),), "add_or_remove", delta)


def _steps(rate: float, sigma: float, epsilon: float, delta: float) -> int:
    """The most steps whose estimate is at most epsilon; 0 where one is more."""
    from tacit.privacy.accounting import accountants

    def excess(log_steps: float) -> float:
        return _estimate(rate, sigma, round(math.exp(log_steps)), delta) - epsilon

    if excess(0.0) > 0:
        return 0
    mu = find_root(lambda mu: accountants.gaussian_epsilon(delta, mu) - epsilon, 1e-3, 50.0, tolerance=1e-12)
    low = high = max(2 * math.log(mu / rate) - math.log(math.expm1(sigma**-2)), 0.0)  # in the limit of small steps
    while excess(low) > 0:
        low = max(low - 0.1, 0.0)
    while excess(high) <= 0:
        high += 0.1
    steps = round(math.exp(find_root(excess, low, high, tolerance=1e-7)))
    while _estimate(rate, sigma, steps, delta) > epsilon:
        steps -= 1
    return steps


# The settings with which the paper on expert-level privacy ran best, and plans of them (arXiv:2411.13598, B.3).


FLOOR = 0.02
"""p_min, our choice: no value of it is left in the paper's text. Those of `tacit_worlds.populations` keep this one."""

NOISELESS_STEPS = 10_000
"""Steps of a setting of which none is noisy, our choice: the paper trains "as long as possible", which has no end."""

_ROOM = 1.02
"""A little more than the delta of the prefixes: what overflow may add to it (`AboveThreshold.held_out`)."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the paper reports for one task and one epsilon.

    Args:
        task: a world of `tacit_worlds.populations`.
        epsilon: what the published accounting says of it.
        trajectories: n_r; 0 is DP-SGD alone.
        stable_fraction: the probability of a noiseless step; 1 is training on prefixes alone.
        noise_multiplier: sigma of a noisy step; None where there is none.
        rate: learning rate.
        batch: of experts in a noisy step, of rows in a noiseless one.
        hidden: widths of the network's hidden layers.
        floor: p_min.
    """

    task: str
    epsilon: float
    trajectories: int
    stable_fraction: float
    noise_multiplier: float | None
    rate: float
    batch: int = 256
    hidden: tuple[int, ...] = (256, 256)
    floor: float = FLOOR

    @property
    def noisy_share(self) -> float:
        """p, the probability of a noisy step."""
        return round(1 - self.stable_fraction, 12)


def _stable_set(task: str, rate: float, batch: int = 256, hidden: tuple[int, ...] = (256, 256)) -> tuple[Setting, ...]:
    return tuple(
        Setting(
            task=task,
            epsilon=epsilon,
            trajectories=trajectories,
            stable_fraction=1.0,
            noise_multiplier=None,
            rate=rate,
            batch=batch,
            hidden=hidden,
        )
        for epsilon, trajectories in ((10.0, 25), (7.5, 20), (5.0, 20))
    )


def _mixed_setting(task: str, epsilon: float, trajectories: int, stable: float, sigma: float, rate: float) -> Setting:
    return Setting(
        task=task, epsilon=epsilon, trajectories=trajectories, stable_fraction=stable, noise_multiplier=sigma, rate=rate
    )


SETTINGS: tuple[Setting, ...] = (
    *_stable_set("acrobot", rate=0.005),
    _mixed_setting("lunar_lander", 10.0, 100, 0.8, 60.0, 0.005),
    _mixed_setting("lunar_lander", 7.5, 62, 0.5, 80.0, 0.005),
    _mixed_setting("lunar_lander", 5.0, 0, 0.0, 80.0, 0.005),
    _mixed_setting("cart_pole", 10.0, 25, 0.9, 50.0, 0.001),
    _mixed_setting("cart_pole", 7.5, 20, 0.8, 60.0, 0.001),
    _mixed_setting("cart_pole", 5.0, 0, 0.0, 60.0, 0.001),
    *_stable_set("hiv", rate=0.0001, batch=64, hidden=(512,)),
)
"""All of them. Ours, since the text does not have them: `floor`; n_r for hiv, which is acrobot's; and rate and sigma of
DP-SGD alone (lunar_lander and cart_pole at 5), which are those at 7.5."""


def published_setting(task: str, epsilon: float) -> Setting:
    """The setting of this task at this epsilon.

    Raises:
        PlanError: there is none.
    """
    for setting in SETTINGS:
        if (setting.task, setting.epsilon) == (task, epsilon):
            return setting
    tasks = ", ".join(dict.fromkeys(setting.task for setting in SETTINGS))
    what = f"the paper has no setting for {task!r} at epsilon {epsilon:g}"
    expected = f"one of {tasks}, at epsilon 10, 7.5 or 5"
    remedy = "choose one of these, or calibrate experts.Consensus(...) to your own epsilon"
    raise PlanError(what, where="experts.published_setting", expected=expected, remedy=remedy)


def published_plan(
    setting: Setting, *, policy: Policy, unit: Unit, experts: int, horizon: int, delta: float, steps: int | None = None
) -> Consensus:
    """The published recipe as a plan that runs, priced at what it honestly costs (`plan.epsilon`).

    As published: n_r trajectories at an epsilon of (epsilon of the prefixes) / n_r each, from experts with the floor
    p_min; CQL with one row an expert, gradients clipped to 1, the given sigma; training until the published accounting
    says that epsilon is spent, half of it in each stage (all of it where there is only one).

    What differs, of necessity:
    - Noisy steps are drawn from a pool of each expert's trajectories; a hold-out was set apart beforehand for the
      prefixes. The paper goes on with the tails of the trajectories whose heads were released, of which no bound of
      this form holds.
    - A noisy step takes a Poisson sample of experts, which is what the paper's accountant assumes, not a batch of fixed
      size.
    - Which steps are noisy is fixed beforehand, K = p times all of them, and public, where the paper tosses a coin and
      counts it as secret.
    - Thresholds are the lowest that a trajectory's epsilon and delta allow, and delta does not grow with the horizon.

    For lunar_lander at 10, even these are out of reach of fewer than about 3,000 experts, or at a delta much below 1 /
    3,000: half of 10 is little for 100 trajectories. What else the text leaves open (CQL's alpha, the target's period)
    is as in `CQL` and `Consensus`; a learning rate that falls to 0 at the end is ours, too.

    Pricing millions of noisy steps takes a minute or so.

    Args:
        setting: of `SETTINGS`, or another one.
        policy: what is learnt; the paper's has `setting.hidden` between its inputs and outputs.
        unit: the protected expert, with the public population m.
        experts: M, a public lower bound on how many there are.
        horizon: T, steps of a trajectory that are looked at.
        delta: of the whole; half of it for each stage where there are two.
        steps: all steps, noisy or not. None: as many as the published accounting allows, which are millions wherever
            some are noisy; else `NOISELESS_STEPS`.

    Raises:
        PlanError: a value is out of range, the threshold is out of reach, or the published accounting allows no step.
    """
    single_stage = setting.trajectories == 0 or setting.noisy_share == 0
    plan = Consensus(
        policy=policy,
        learner=CQL(),
        trajectories=setting.trajectories,
        horizon=horizon,
        experts=experts,
        floor=PMin(setting.floor),
        stable_fraction=setting.stable_fraction,
        steps=_allowed_steps(setting, unit, delta, single_stage) if steps is None else steps,
        expected_batch_size=setting.batch,
        rows_per_expert=1,
        clip_norm=1.0,
        rate=setting.rate,
        stable_rate=setting.rate,
        stable_batch=setting.batch,
        average=0.0,
        trajectory_epsilon=_share(setting.epsilon if single_stage else setting.epsilon / 2, setting.trajectories),
        trajectory_delta=_share((delta if single_stage else delta / 2) / _ROOM, setting.trajectories),
        noise_multiplier=setting.noise_multiplier,
    )
    return plan.account(unit=unit, delta=delta)


@dataclass(frozen=True)
class Claim:
    """What the published accounting says of a plan, beside what holds.

    Args:
        published: epsilon of both stages added up, with the coin as secret sampling.
        honest: the plan's own epsilon, which its certificate states.
        delta: of both.
    """

    published: float
    honest: float
    delta: float

    def __str__(self) -> str:
        """Both figures in a sentence."""
        return (
            f"The published accounting claims epsilon {self.published:.4g}; what holds, and what the certificate "
            f"states, is {self.honest:.4g} (delta {self.delta:.3g})."
        )


def compare_claims(plan: Consensus) -> Claim:
    """Both figures of a plan that was priced or calibrated.

    Raises:
        PlanError: it was not.
    """
    require_valid("plan", plan.promise, plan.promise is not None, "one that is priced or calibrated")
    release = plan.trajectories * (plan.trajectory_epsilon or 0.0) if plan.releases_prefixes else 0.0
    if not plan.private_steps:
        return Claim(release, plan.epsilon, plan.delta)
    training = MixedTraining(
        experts=plan.unit.size,
        batch=plan.expected_batch_size,
        noisy_share=round(1 - plan.stable_fraction, 12) if plan.releases_prefixes else 1.0,
        noise_multiplier=plan.noise_multiplier or 0.0,
    )
    training_epsilon = training.published_epsilon(plan.steps, plan.delta / 2 if plan.releases_prefixes else plan.delta)
    return Claim(release + training_epsilon, plan.epsilon, plan.delta)


def _share(whole: float, trajectories: int) -> float | None:
    return whole / trajectories if trajectories else None


def _allowed_steps(setting: Setting, unit: Unit, delta: float, single_stage: bool) -> int:
    if setting.noisy_share == 0:
        return NOISELESS_STEPS
    training = MixedTraining(
        experts=unit.size,
        batch=setting.batch,
        noisy_share=setting.noisy_share,
        noise_multiplier=setting.noise_multiplier or 0.0,
    )
    share = 1.0 if single_stage else 0.5
    return training.published_steps(share * setting.epsilon, share * delta)
