"""The library's methods with their default options as cases: the mechanisms of each plan, as loudly as they allow. What
has no default (bounds, a problem, a policy) is as small as may be. Sampled methods come three times: at their own rate,
at rate 0.1 and at rate 1."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from tacit import methods
from tacit.agents.policies import Policy
from tacit.evaluation.audits import bounds, certified, mechanisms
from tacit.evaluation.audits.cases import ROOM, Case, ObservedRuns, RunRequest
from tacit.evaluation.audits.mechanisms import Mechanisms, plan_mechanisms, resize_part, with_noise
from tacit.methods import experts, synthesis
from tacit.methods import off_policy_evaluation as ope
from tacit.methods.experts.consensus import CONSENSUS, TRAINING
from tacit.methods.improvement.plan import ImprovementPlan
from tacit.methods.mobility.pategail.plan import recipe
from tacit.methods.selection.algorithm import SelectionPlan
from tacit.methods.synthesis import trajectories
from tacit.methods.synthesis.baselines import pate_gan_plan
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.methods.synthesis.plan import PART as DENOISER
from tacit.methods.synthesis.structured import StructuredPlan, default_structure
from tacit.methods.synthesis.trajectories.plan import FRAGMENTS, STARTS
from tacit.units import Unit

POPULATION = 2**15
"""Of every unit here; a power of two, by which a division leaves all digits as they are."""
SHORT_STEPS = 100
"""Steps of a sampled method at another rate than its own: more would tell no more."""
PROBLEM = ope.Problem(gamma=1.0, horizon=mechanisms.STATES, return_range=(0.0, 1.0))
FEATURES = ope.OneHot(mechanisms.STATES)
DECISIONS = Policy.default(mechanisms.ROWS, hidden=())
TRANSITION, PERSON = Unit("transition", "add_or_remove", POPULATION), Unit("person", "add_or_remove", POPULATION)
EXPERT = Unit("expert", "add_or_remove", POPULATION)
PRESENT, STEPS = 1_000, 20
"""How many experts there are at least where consensus prefixes are asked for, and the longest prefix."""


def _crowd_case(name: str, words: str, unit: Unit, plan: Callable[[], Any], *, gradients: tuple[str, ...] = ()) -> Case:
    def prepare(epsilon: float, delta: float, canaries: int) -> Mechanisms:
        whole = plan().calibrate(unit=unit, epsilon=epsilon, delta=delta)
        return plan_mechanisms(whole, functools.partial(resize_part, canaries=canaries))

    run = functools.partial(mechanisms.run_crowd, unit, frozenset(gradients))
    crowd = mechanisms.CROWD
    return Case(
        name, words, unit, prepare, run, crowd=crowd, published=False, independent_canaries=True, with_noise=with_noise
    )


def _case(
    name: str,
    words: str,
    unit: Unit,
    plan: Callable[[float, float], Mechanisms],
    run: Callable[[Unit, Mechanisms, RunRequest], ObservedRuns],
    **fields: Any,
) -> Case:
    usual: dict[str, Any] = {"published": False, "with_noise": with_noise}
    run_case = functools.partial(run, unit)
    return Case(name, words, unit, lambda epsilon, delta, canaries: plan(epsilon, delta), run_case, **usual | fields)


def _sampling_rate(name: str) -> float | None:
    """The sampling rate that stands after "@" in the name of an audit; None is the method's own."""
    _, at, rate = name.partition("@")
    return float(rate) if at else None


def _plan_factory(name: str, **fields: Any) -> Callable[[], Any]:
    """The plan of the method that has an audit of this name."""
    return functools.partial(methods.load(methods.find_audit(name)[0].plan), **fields)


def privorl(name: str) -> Case:
    """Synthesis of transitions: noisy gradients on Poisson samples, and histograms of them."""
    rate = _sampling_rate(name)
    own: dict[str, Any] = {} if rate is None else {"sampling_rate": rate, "steps": SHORT_STEPS}
    matching = synthesis.TableMatching.of(ROOM, population=POPULATION)
    plan = functools.partial(synthesis.TransitionsPlan, matching=matching, **own)
    words = f"synthesis of transitions, sampling rate {plan().sampling_rate:g}"
    return _crowd_case(name, words, TRANSITION, plan, gradients=(DENOISER,))


def people(name: str) -> Case:
    """The same for people who own many rows."""

    def plan() -> synthesis.TransitionsPlan:
        matching = synthesis.TableMatching.of(ROOM, population=POPULATION)
        return synthesis.TransitionsPlan.for_people(population=POPULATION, epsilon=1.0, matching=matching)

    words = f"synthesis of transitions of people, sampling rate {plan().sampling_rate:.3g}"
    return _crowd_case(name, words, PERSON, plan, gradients=(DENOISER,))


def privorl_j(name: str, *, local_context: int | None = None) -> Case:
    """Synthesis of trajectories; with local context the histograms are all that is learned of people."""
    rate = _sampling_rate(name)

    def plan() -> trajectories.TrajectoriesPlan:
        matching = synthesis.TableMatching.of(ROOM, population=POPULATION)
        public = None if local_context is None else "invented"
        made = trajectories.TrajectoriesPlan.for_people(
            population=POPULATION, longest=1_000, matching=matching, local_context=local_context, provenance=public
        )
        return made if rate is None else dataclasses.replace(made, sampling_rate=rate)

    learns = "" if local_context is None else " conditioned on histograms"
    words = f"synthesis of trajectories{learns}, sampling rate {plan().parts()[0].sampling_rate:.3g}"
    return _crowd_case(name, words, PERSON, plan, gradients=(STARTS, FRAGMENTS))


local_context = functools.partial(privorl_j, local_context=2)


def tables(name: str) -> Case:
    """Synthesis from noisy marginals, one of which takes the whole budget."""
    plan = methods.load(methods.find_audit(name)[0].plan).of(Discretisation(ROOM))
    return _crowd_case(name, plan.method, TRANSITION, lambda: plan)


def whole_people(name: str) -> Case:
    """Synthesis of whole people from structured noisy tables."""
    plan = _plan_factory(name, spec=ROOM)()
    return _crowd_case(name, plan.method, PERSON, lambda: plan)


def structured(name: str) -> Case:
    """Synthesis of transitions from structured noisy tables, which the public spec decides."""
    made = StructuredPlan(structure=default_structure(ROOM, POPULATION, 1.0))
    return _crowd_case(name, made.method, TRANSITION, lambda: made)


def matching(name: str) -> Case:
    """Synthesis from noisy histograms."""
    plan = synthesis.MatchingPlan(matching=synthesis.TableMatching.of(ROOM))
    return _crowd_case(name, plan.method, TRANSITION, lambda: plan)


def pate_gan(name: str) -> Case:
    """Votes of one teacher that learns fast, in fewer steps, which cost less noise each."""

    def plan(epsilon: float, delta: float) -> Mechanisms:
        small = pate_gan_plan.PateGanPlan(steps=10, hold=0, teachers=1, teacher_rate=0.01)
        return plan_mechanisms(small.calibrate(unit=TRANSITION, epsilon=epsilon, delta=delta))

    words = "synthesis of transitions (PATE-GAN): votes of teachers, 10 steps of 600"
    return _case(name, words, TRANSITION, plan, mechanisms.run_votes, runs_per_pass=50, run_factor=2, with_noise=None)


def _evaluation_case(name: str, method: str, **fields: Any) -> Case:
    plan = _plan_factory(name, problem=PROBLEM, **fields)
    return _crowd_case(name, f"off-policy evaluation ({method}): noisy sums", PERSON, plan)


residual = functools.partial(_evaluation_case, method="residual returns", features=FEATURES, on_policy=False)
importance = functools.partial(_evaluation_case, method="importance sampling")
fqe = functools.partial(_evaluation_case, method="fitted Q", features=FEATURES)
dr = functools.partial(_evaluation_case, method="doubly robust", features=FEATURES)
ssp = functools.partial(_evaluation_case, method="DP-LSTD", features=FEATURES, clip_norm=1.0)
overlap = functools.partial(_evaluation_case, method="overlap")


def visits(name: str) -> Case:
    """Off-policy evaluation by one release with noise of smooth sensitivity."""
    small = _plan_factory(name, problem=PROBLEM, features=FEATURES)()

    def plan(epsilon: float, delta: float) -> Mechanisms:
        return plan_mechanisms(small.calibrate(unit=PERSON, epsilon=epsilon, delta=delta))

    words = f"off-policy evaluation ({small.method}): one release with noise of smooth sensitivity"
    return _case(name, words, PERSON, plan, mechanisms.run_least_squares, runs_per_pass=100, with_noise=None)


def choice(name: str) -> Case:
    """A choice among candidate policies."""
    candidates = (ope.Candidate(name="a", policy=ope.Behaviour()), ope.Candidate(name="b", policy=ope.Uniform(2)))

    def plan(epsilon: float, delta: float) -> Mechanisms:
        small = ope.PolicySelection(problem=PROBLEM, candidates=candidates, spec=mechanisms.ROWS)
        calibrated = small.calibrate(unit=PERSON, epsilon=epsilon, delta=delta)
        return plan_mechanisms(calibrated, lambda part: dataclasses.replace(part, scores=mechanisms.CandidateScores()))

    words = "choice among policies: the exponential mechanism between two"
    run, law = mechanisms.run_choice, bounds.choice_law
    return _case(name, words, PERSON, plan, run, runs_per_pass=100, run_factor=3, law=law)


def dp_sgd(name: str) -> Case:
    """Learning from experts by noisy gradients alone."""
    rate = _sampling_rate(name)
    batch = experts.Consensus.expected_batch_size if rate is None else round(rate * POPULATION)
    steps = experts.Consensus.steps if rate is None else SHORT_STEPS
    plan = functools.partial(
        experts.Consensus, policy=DECISIONS, trajectories=0, expected_batch_size=batch, steps=steps
    )
    words = f"learning from experts (DP-SGD), sampling rate {batch / POPULATION:.3g}"
    return _crowd_case(name, words, EXPERT, plan, gradients=(TRAINING,))


def consensus(name: str) -> Case:
    """Beginnings of trajectories that enough experts agree with."""

    def plan(epsilon: float, delta: float) -> Mechanisms:
        clone = experts.LinearClone(features=DECISIONS.features, actions=2)
        short: dict[str, Any] = {"horizon": STEPS, "rows": 1}  # of which the price does not depend
        whole = experts.Consensus(policy=DECISIONS, experts=PRESENT, clone=clone, **short)
        parts = whole.calibrate(unit=EXPERT, epsilon=epsilon, delta=delta).parts()
        prefixes = tuple(part for part in parts if part.name == CONSENSUS)
        return Mechanisms(queries=prefixes).account(unit=EXPERT, delta=delta)

    words = "learning from experts (consensus): prefixes above a threshold, without the noisy gradients"
    return _case(name, words, EXPERT, plan, mechanisms.run_prefixes, runs_per_pass=50)


def _sums_case(name: str, words: str, unit: Unit = PERSON, **fields: Any) -> Case:
    return _crowd_case(name, f"{words}: noisy sums", unit, _plan_factory(name, **fields))


return_weighted = functools.partial(
    _sums_case, words="learning from experts (return-weighted imitation)", unit=EXPERT, policy=DECISIONS
)
one_shot = functools.partial(_sums_case, words="simulators of movement (one shot)")
epr = functools.partial(_sums_case, words="simulators of movement (EPR)")
preferences = functools.partial(_sums_case, words="alignment of a language model by preferences", judges=0.5)


def improvement(name: str) -> Case:
    """Improvement of logged decisions, by advice or by a clone of the best alone."""
    plan = functools.partial(ImprovementPlan.of, ROOM, PROBLEM, advises=name != "elite")
    return _crowd_case(name, "improvement of logged decisions: noisy sums", PERSON, plan)


def pategail(name: str) -> Case:
    """Rewards by people's own critics."""
    plan = functools.partial(recipe, "linear", POPULATION)
    return _crowd_case(name, "simulators of movement (PateGAIL++): noisy sums", PERSON, plan)


def _meetings_case(name: str, words: str, people: str, **fields: Any) -> Case:
    """A case of correlated noisy sums over people who are met once; all canaries come in the first round."""
    # people: the field of the plan that says how many come in a round

    def plan(epsilon: float, delta: float, canaries: int) -> Mechanisms:
        whole = _plan_factory(name, **{people: canaries}, **fields)()
        return plan_mechanisms(whole.calibrate(unit=PERSON, epsilon=epsilon, delta=delta))

    priced = _plan_factory(name, **{people: 1}, **fields, noise_multiplier=1.0)()
    case = certified.case(priced.parts(), PERSON, words=f"{words} with people met once: correlated noisy sums")
    return dataclasses.replace(case, name=name, plan=plan, crowd=0)


ucb_vi = functools.partial(_meetings_case, words="UCB-VI", people="users", states=4, actions=2, horizon=4, rounds=8)
alignment = functools.partial(_meetings_case, words="alignment of a language model", people="people", rounds=4)


def selection(name: str) -> Case:
    """The best of a secret number of runs."""

    def plan(epsilon: float, delta: float) -> Mechanisms:
        candidates = (synthesis.MatchingPlan(matching=synthesis.TableMatching.of(ROOM)),) * 2
        small = SelectionPlan(candidates=candidates)
        return plan_mechanisms(small.calibrate(unit=TRANSITION, epsilon=epsilon, delta=delta))

    words = "private selection of the best of a secret number of runs"
    return _case(name, words, TRANSITION, plan, mechanisms.run_selection, with_noise=None)
