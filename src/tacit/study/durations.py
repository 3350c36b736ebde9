"""How long work will take, said before anything is spent: seconds of one core, from plans and public bounds alone.

All numbers were fitted to process times with simulated people, reports and files included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tacit.study.words import say_duration

if TYPE_CHECKING:
    from tacit.agents.language.models import LanguageModel
    from tacit.data.spec import PublicSpec
    from tacit.methods.alignment import AlignmentPlan, PreferencePlan
    from tacit.methods.policy_gradient import AnyPlan
    from tacit.methods.synthesis.plan import TransitionsPlan
    from tacit.study.people import EnrolledPeople
    from tacit.units import Unit

STEP = 2e-5
"""Seconds of a simulator's step, as Gymnasium's classic tasks take."""


@dataclass(frozen=True)
class Duration:
    """About how long work takes.

    Args:
        seconds: of one core.
        words: what else is to be known of it, after a comma or a semicolon.
    """

    seconds: float
    words: str = ""

    def __str__(self) -> str:
        return f"Takes    about {say_duration(self.seconds)} of one core{self.words}."


def people_duration(base: float, each: float, unit: Unit) -> Duration:
    """Of work that reads everybody once: seconds at least, and for each person.

    Measured with 500 to 5,000 people of 96 rows.
    """
    return Duration(base + each * unit.size, ", if they have a hundred rows each")


def synthesis_duration(plan: Any, spec: PublicSpec, count: int) -> Duration | None:
    """Of a synthesis that takes minutes; None of others.

    Args:
        plan: calibrated.
        spec: the public bounds.
        count: of the synthetic rows or trajectories.
    """
    from tacit.methods.synthesis.people.plan import PeoplePlan
    from tacit.methods.synthesis.plan import TransitionsPlan
    from tacit.methods.synthesis.trajectories.plan import TrajectoriesPlan

    if isinstance(plan, PeoplePlan):
        return people_duration(10.0, 8e-4, plan.unit)
    if isinstance(plan, TrajectoriesPlan):
        return Duration(300.0, " for episodes of 20 rows, and more for longer ones; the default method takes less")
    if not isinstance(plan, TransitionsPlan):
        return None
    return Duration(_diffusion_seconds(plan, spec, count), "; the default method takes less")


def imitation_duration(plan: Any) -> Duration | None:
    """Of an imitation of movement that takes minutes; None of others."""
    from tacit.methods.mobility import OneShotPlan
    from tacit.methods.mobility.pategail import PateGailPlan

    if isinstance(plan, OneShotPlan):
        return people_duration(9.0, 6e-4, plan.unit)
    if not isinstance(plan, PateGailPlan):
        return None
    # Seen 0.8 to 1.2 times this, of 200 to 4,000 simulated people with 5 and 20 days, and of every kind of critic. Half
    # of the policy's time goes into the noise that the report compares with.
    policy = 4e-4 * plan.days * plan.updates
    critics = plan.people * (4e-5 if plan.kind == "linear" else 2e-4 * plan.critic.steps)
    return Duration(4.0 + plan.rounds * (policy + critics), "; the default method takes less")


def alignment_duration(plan: AlignmentPlan | PreferencePlan, model: LanguageModel, prompts: int) -> Duration:
    """Of steering a language model, and of the report's completions of public prompts.

    Args:
        plan: calibrated.
        model: with its vocabulary.
        prompts: of the report.
    """
    from tacit.methods.alignment import AlignmentPlan

    # Seen 0.8 to 1 times this, of SmolLM2 with 135 million weights.
    shape, both = model.shape, plan.prompt_tokens + plan.tokens
    attention = 2 * shape.width * (shape.width + shape.width // shape.heads * shape.groups)
    layer = attention + 3 * shape.width * shape.inner
    token = 2e-11 * (shape.layers * layer + len(model.vocabulary) * shape.width)
    if isinstance(plan, AlignmentPlan):
        read = plan.people * plan.prompts * (2 * plan.prompt_tokens + 2.5 * plan.completions * plan.tokens)
    else:
        read = plan.sampling_rate * plan.unit.size * plan.pairs * 2.4 * (both + plan.tokens)
    words = ", and the time that the reward takes" if isinstance(plan, AlignmentPlan) else ""
    return Duration(5.0 + token * ((plan.rounds + 2) * 2 * prompts * both + plan.rounds * read), words)


def training_duration(plan: AnyPlan, people: EnrolledPeople, runs: int, evaluate: int) -> Duration:
    """Of policies that simulated people teach, and of their report.

    Args:
        plan: calibrated.
        people: how they are met.
        runs: trainings, those of the report with the one that is released.
        evaluate: on how many people returns are measured.
    """
    from tacit.methods.policy_gradient import VotesPlan
    from tacit.methods.policy_gradient.state import KEPT
    from tacit.study.environments import UserDomain
    from tacit.study.people import SHARE

    # Seen 0.7 to 1.3 times this, of tacit's own tasks and Gymnasium's Pendulum with 160 to 12,800 contributions.
    # Episodes that end early take less.
    gradient = 0.0 if isinstance(plan, VotesPlan) else 1e-5
    learning = plan.rounds * (8e-3 + plan.horizon * (1.5e-4 + gradient * plan.users))
    if not isinstance(people.domain, UserDomain):
        return Duration(2.5 + runs * learning)
    played = 3 * evaluate + (min(plan.rounds, KEPT) + 1) * max(2, evaluate // SHARE)
    steps = runs * (plan.rounds * plan.users * plan.horizon * people.recipe.repeat + played * people.recipe.horizon)
    words = f", if each of at most {steps:,} steps of the simulator takes {1e6 * STEP:.0f} microseconds"
    return Duration(2.5 + runs * learning + STEP * steps, words)


def _diffusion_seconds(plan: TransitionsPlan, spec: PublicSpec, count: int) -> float:
    # Within a factor of 2 of what was seen in a simulated maze, with 10,000 to 400,000 units of 1 and 20 rows.
    from tacit.methods.synthesis.plan import EMBEDDING, FREQUENCIES

    size = 2 * spec.observation.width + spec.action.width + 1 + int(spec.terminals)
    inputs = 1 + 2 * FREQUENCIES + EMBEDDING + size * (1 + 2 * plan.harmonics)
    joined = 0 if plan.width == EMBEDDING else plan.width
    weights = EMBEDDING * (inputs + joined) + plan.depth * plan.width**2 + plan.width * size
    rows = plan.sampling_rate * plan.unit.size * plan.rows_per_unit * plan.noise_multiplicity
    drawn = count if plan.matching is None else max(plan.matching.pool, 2 * count)
    return 20.0 + plan.steps * (0.02 + 1.2e-10 * rows * weights) + drawn * plan.sampler.steps * 4e-11 * weights
