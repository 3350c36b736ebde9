"""From the words of `tacit learn` to a public world and a calibrated plan; no record is read here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.agents import features as maps
from tacit.agents import learners
from tacit.agents.features import Features, OneHot, Quadratic
from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.cli import bounds
from tacit.cli.expert_commands import Clone, Learn
from tacit.cli.learn_options import meaningless, refused
from tacit.cli.own_domain import OwnDomain
from tacit.cli.worlds import LONGEST
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.envs import populations
from tacit.envs.populations import World
from tacit.envs.rollouts import Domain
from tacit.errors import PlanError
from tacit.methods.experts import Given, LinearClone, MlpClone, ReturnWeight, ReturnWeighted, Uniform, Votes
from tacit.methods.experts.anchors import require_inside
from tacit.methods.experts.consensus import Consensus
from tacit.methods.experts.published import FLOOR, paper, published_setting
from tacit.privacy.mechanisms.thresholds import KappaStop, PMin
from tacit.units import Unit

Plan = Votes | ReturnWeighted | Consensus
_STAND_IN = PublicSpec(Box((-1.0,), (1.0,)), Discrete(2), Box((0.0,), (1.0,)), "declared")
"""Where no file is opened: the promise of votes and imitation does not depend on observations and actions."""
_LEARNERS = {"cql": learners.CQL, "dqn": learners.DQN, "bc": learners.BC}


@dataclass(frozen=True)
class Planned:
    """A calibrated plan, and what goes with it.

    Attributes:
        plan: calibrated.
        anchors: the public states of votes over discrete observations.
        simulator: where the plan plays clones or puts new anchors; None where it needs none.
    """

    plan: Plan
    anchors: NDArray[np.int64] | None = None
    simulator: Domain | None = None


def unit(command: Learn) -> Unit:
    """What is protected.

    Raises:
        PlanError: the population is missing, or there is no name.
    """
    population = command.population
    if population is None and command.simulates:
        population = simulated(command)
    if population is None:
        raise refused("--population is missing", "how many experts there could be", "declare it; it is never counted")
    return Unit(command.unit, "add_or_remove", population)


def simulated(command: Learn) -> int:
    """How many experts are made up."""
    return 3_000 if command.experts is None else command.experts


def opened(command: Learn) -> World | None:
    """The public simulator, if one is named.

    Raises:
        FileError: the file of bounds cannot be read.
        DataError: the environment is unknown, fails, or has no public bounds.
        PlanError: an option does not go with it.
    """
    if command.world is None:
        if command.bounds is not None:
            raise meaningless("--bounds", "--world with an environment of Gymnasium")
        return None
    if command.world in get_args(populations.Name):
        if command.bounds is not None:
            raise meaningless("--bounds", f"{command.world} without it: it has bounds of its own")
        return populations.world(cast(populations.Name, command.world))
    found = OwnDomain(command.world, known=get_args(populations.Name))
    spec, limit = bounds.public_spec(found, bounds.read(command.bounds)), found.limit or LONGEST
    found.try_out(command.seed)
    low, high = spec.reward.low[0], spec.reward.high[0]
    total = (min(0.0, low * limit), max(0.0, high * limit))
    space = spec.observation
    box = space if isinstance(space, Box) else Box((0.0,), (space.n - 1.0,))
    return World(cast(Any, command.world), found, spec, limit, limit, total, box, ())


def planned(command: Learn, spec: PublicSpec | None, world: World | None) -> Planned:
    """The calibrated plan.

    Args:
        command: the options.
        spec: public bounds of the records; None for a dry run that opens no file, which stands in for them.
        world: the public simulator, if there is one.

    Raises:
        PlanError: the actions are continuous, or an option is missing, out of range or does not fit.
    """
    own, whose = (world.spec if world else _STAND_IN) if spec is None else spec, unit(command)
    if not isinstance(own.action, Discrete):
        raise PlanError(
            "the actions are continuous",
            where="learn",
            expected="discrete actions, which experts can agree on",
            remedy="cut the actions into a few public ranges before importing the logs",
        )
    match command.method:
        case "votes":
            plan: Plan
            plan, states = _votes(command, own, world)
        case "return-weighted":
            plan, states = _weighted(command, own, world), None
        case "consensus":
            plan, states = _consensus(command, own, world, whose), None
    if isinstance(plan, Consensus) and command.paper:
        return Planned(plan)  # priced already, at what it honestly costs
    simulator = world.domain if world is not None and _plays(plan) else None
    return Planned(_calibrated(plan, command, whose), states, simulator)


def _calibrated(plan: Plan, command: Learn, whose: Unit) -> Plan:
    try:
        return plan.calibrate(unit=whose, epsilon=command.epsilon, delta=command.delta)
    except PlanError as error:
        if "unreachable threshold" not in error.what:
            raise
        remedy = "give a larger --epsilon, fewer --prefixes, a larger --stop (or --floor), or more experts (--present)"
        raise PlanError(error.what, where="learn", expected=error.expected, remedy=remedy) from None


def _plays(plan: Plan) -> bool:
    """Whether a plan needs a public simulator."""
    if isinstance(plan, Consensus):
        return plan.asks and plan.clone is not None
    return isinstance(plan, Votes) and plan.rounds > 1


def _votes(command: Learn, spec: PublicSpec, world: World | None) -> tuple[Votes, NDArray[np.int64] | None]:
    states = None
    if isinstance(spec.observation, Discrete):
        if command.anchors is not None or command.anchor_bounds is not None:
            raise meaningless("--anchors", "numbers as observations; of discrete ones every state is asked for")
        states = np.arange(spec.observation.n)
        anchors: Uniform | Given = Given.of(states)
    else:
        given = bounds.read(command.anchor_bounds, option="--anchor-bounds", form=bounds.BOX) or {}
        place = given.get("observation", spec.observation if world is None else world.box)
        anchors = Uniform(
            low=place.low,
            high=place.high,
            count=1_000 if command.anchors is None else command.anchors,
            seed=command.seed,
        )
        if spec is not _STAND_IN:
            _require_inside(anchors, spec)
    options: dict[str, Any] = _given(command, rows="rows")
    if command.rounds not in (None, 1):
        if world is None:
            raise refused("--rounds needs --world", "a public simulator to put new states by", "name one")
        options["rounds"] = command.rounds
    plan = Votes(
        anchors=anchors,
        clone=_clone(command, spec, world),
        policy=_policy(command, spec, world),
        weight=_weight(command),
        **options,
    )
    return plan, states


def _require_inside(anchors: Uniform, spec: PublicSpec) -> None:
    try:
        require_inside(anchors.points(), spec)
    except PlanError as error:
        raise refused(
            "the public states lie outside the bounds of the records, or have other dimensions",
            error.expected,
            "give --anchor-bounds with a box inside these bounds",
        ) from None


def _weighted(command: Learn, spec: PublicSpec, world: World | None) -> ReturnWeighted:
    weight = _weight(command)
    if weight is None:
        if world is None:
            raise refused("--returns is missing", "public LOW HIGH of an episode's return", "declare it")
        weight = ReturnWeight(low=world.bounds[0], high=world.bounds[1], **_given(command, sharpness="sharpness"))
    options = _given(command, rows="rows", clip="clip", steps="steps")
    return ReturnWeighted(policy=_policy(command, spec, world), weight=weight, seed=command.seed, **options)


def _consensus(command: Learn, spec: PublicSpec, world: World | None, whose: Unit) -> Consensus:
    if world is None:
        what = "for clones to be played in, or for the experts' policies"
        raise refused("--method consensus needs --world", f"a public simulator, {what}", "name one")
    if command.present is None and not command.simulates:
        told = "how many experts there are at least, as the public knows"
        raise refused("--present is missing", told, "declare it: the threshold rests on it")
    present = whose.size if command.present is None else command.present
    if command.paper:
        return _published(command, spec, world, whose, present)
    options = _given(command, rows="rows", clip="clip", steps="steps", share="share", stable_fraction="stable_fraction")
    if command.stop is not None:
        options["floor"] = KappaStop(command.stop)
    elif command.floor is not None:
        options["floor"] = PMin(command.floor)
    return Consensus(
        policy=_policy(command, spec, world, hidden=(64, 64)),
        learner=_LEARNERS[command.learner or "cql"](),
        trajectories=25 if command.prefixes is None else command.prefixes,
        horizon=command.horizon or world.horizon,
        experts=present,
        clone=None if command.queried else _clone(command, spec, world),
        batch=min(256, whose.size),
        seed=command.seed,
        **options,
    )


def _published(command: Learn, spec: PublicSpec, world: World, whose: Unit, present: int) -> Consensus:
    """The settings that the paper reports for this world and epsilon, priced at what they honestly cost."""
    assert isinstance(spec.action, Discrete)
    setting = published_setting(str(world.name), command.epsilon)
    features = maps.default(world.box)
    policy = Policy(features, Mlp((features.size, *setting.hidden, spec.action.n)), Categorical(spec.action.n))
    horizon = command.horizon or world.horizon
    return paper(
        setting, policy=policy, unit=whose, experts=present, horizon=horizon, delta=command.delta, steps=command.steps
    )


def _weight(command: Learn) -> ReturnWeight | None:
    if command.returns is None:
        if command.sharpness is not None and command.method == "votes":
            raise meaningless("--sharpness", "--returns")
        return None
    low, high = command.returns
    return ReturnWeight(low=low, high=high, **_given(command, sharpness="sharpness"))


def _kind(command: Learn) -> Clone:
    """As asked for, or what the world's experts need: those of the last two are no linear functions."""
    return command.clone or ("mlp" if command.world in ("lunar_lander", "hiv") else "linear")


def _clone(command: Learn, spec: PublicSpec, world: World | None) -> LinearClone | MlpClone:
    assert isinstance(spec.action, Discrete)
    features, actions = _features(command, spec, world), spec.action.n
    # Experts whose trajectories are drawn have to be what is counted: with PMin, no chance is below the floor.
    floor = command.floor if command.method == "consensus" and command.floor is not None else 0.0
    kind = MlpClone if _kind(command) == "mlp" else LinearClone
    return kind(features=features, actions=actions, floor=floor)


def _policy(command: Learn, spec: PublicSpec, world: World | None, hidden: tuple[int, ...] | None = None) -> Policy:
    assert isinstance(spec.action, Discrete)
    default = (32,) if _kind(command) == "mlp" else ()
    widths = (default if hidden is None else hidden) if command.policy is None else _hidden(command.policy)
    features = _features(command, spec, world)
    network = Mlp((features.size, *widths, spec.action.n), gain=0.01 if widths else 0.0)
    return Policy(features, network, Categorical(spec.action.n))


def _features(command: Learn, spec: PublicSpec, world: World | None) -> Features:
    """Over the part of the observations where decisions matter, where a world says which it is."""
    known = world is not None and isinstance(spec.observation, Box)
    features = maps.default(world.box if world is not None and known else spec.observation)
    if _kind(command) != "quadratic":
        return features
    if isinstance(features, OneHot):
        raise meaningless("--clone quadratic", "numbers as observations")
    return Quadratic(features.low, features.high)


def _hidden(words: str) -> tuple[int, ...]:
    if words == "linear":
        return ()
    widths = words.split("-")
    if not all(width.isascii() and width.isdigit() and 1 <= int(width) <= 4_096 for width in widths):
        raise refused(f"--policy is {words!r}", '"linear", or the widths of hidden layers ("64-64")', "write it so")
    return tuple(int(width) for width in widths)


def _given(command: Learn, **names: str) -> dict[str, Any]:
    """Those of the options that were given, under the plan's names."""
    return {name: v for name, option in names.items() if (v := getattr(command, option)) is not None}


def least_floor(command: Learn) -> float:
    """With which floor experts are played: as declared, else the one of the populations, else none."""
    if command.floor is not None:
        return command.floor
    if command.paper:
        return FLOOR
    return populations.FLOOR if command.simulates else 0.0
