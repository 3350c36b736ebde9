"""What `tacit learn` is asked for: its options, a public world, a calibrated plan, and where experts come from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.agents import features as maps
from tacit.agents import learners
from tacit.agents.features import Features, OneHot, Quadratic
from tacit.agents.heads import Categorical
from tacit.agents.networks import Mlp
from tacit.agents.policies import Policy
from tacit.cli import options
from tacit.cli.console import Console
from tacit.cli.options import Missing, given
from tacit.cli.plan_declarations import Clone, Learn
from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.data.store import read_spec
from tacit.envs.rollouts import Domain
from tacit.errors import DataError, FileError, PlanError
from tacit.methods.experts import Given, LinearClone, MlpClone, ReturnWeight, ReturnWeighted, Uniform, Votes
from tacit.methods.experts.anchors import require_inside
from tacit.methods.experts.consensus import CONSENSUS, Consensus
from tacit.methods.experts.published import FLOOR, paper, published_setting
from tacit.privacy.mechanisms.thresholds import KappaStop, PMin
from tacit.study import environments, simulators
from tacit.study.account import require_unit
from tacit.study.environments import LONGEST, OwnDomain
from tacit.units import Unit

if TYPE_CHECKING:
    from tacit_worlds.populations import World

refused, meaningless = partial(options.refused, "learn"), partial(options.meaningless, "learn")
_OWN = {
    "votes": ("anchors", "anchor_bounds", "clone", "returns"),
    "return-weighted": ("returns",),
    "consensus": ("clone", "learner", "prefixes", "present", "stop", "queried", "paper"),
}
"""Options that belong to some methods only, beside those of their plans."""
_PUBLISHED = (
    *("clone", "policy", "clip_norm", "learner", "prefixes", "stop", "floor", "share", "stable_fraction", "rows"),
)
"""Options that the published settings have an answer of their own to."""
Plan = Votes | ReturnWeighted | Consensus
_STAND_IN = PublicSpec(Box((-1.0,), (1.0,)), Discrete(2), Box((0.0,), (1.0,)), "declared")
"""Where no file is opened: the promise of votes and imitation does not depend on observations and actions."""
_LEARNERS = {"cql": learners.CQL, "dqn": learners.DQN, "bc": learners.BC}
SPEC = "spec.json"
"""What the folder of imported logs has, and one of policies has not."""
EPISODES = 20


def require_sound(command: Learn) -> None:
    """Refuse options that are out of range, or have no meaning with the others.

    Raises:
        PlanError: the first such option.
    """
    options.require_least("learn", command, evaluate=2, seed=0, experts=2, episodes=1, horizon=1)
    allowed = {method: {*option_names, *options.offered("learn", method)} for method, option_names in _OWN.items()}
    for name in sorted(set().union(*allowed.values()) - allowed[command.method]):
        if getattr(command, name) not in (None, False):
            raise meaningless(name, f"a method that has it, not {command.method}")
    if command.paper:
        for name in _PUBLISHED:
            if getattr(command, name) is not None:
                raise meaningless(name, "it without --paper, whose settings are published")
    if command.floor is not None and command.stop is not None:
        raise refused("--floor and --stop exclude each other", "one of them", "leave --floor out: --stop needs none")
    if command.simulates and command.world not in (known := get_args(simulators.load("populations").Name)):
        names = ", ".join(known)
        what = (
            "there are no experts" if command.world is None else f"there are no experts of {command.world} to simulate"
        )
        raise refused(what, f"a folder, or --world {names}", "name the folder of logs or policies")
    if not command.simulates:
        for name in ("experts", "kind"):
            if getattr(command, name) is not None:
                raise meaningless(name, "it without a folder, where experts are simulated")
    options.require_given("learn", missing(command))


def missing(command: Learn) -> list[Missing]:
    """What a command needs besides the options that every command needs."""
    absent = []
    if command.population is None and not command.simulates:
        absent.append(Missing("--population", "how many experts there could be", "declare it; it is never counted"))
    if command.method == "consensus" and command.world is None:
        what = "for clones to be played in, or for the experts' policies"
        absent.append(Missing("--world", f"a public simulator, {what}", "name one"))
    if command.method == "consensus" and command.present is None and not command.simulates:
        expected = "how many experts there are at least, as the public knows"
        absent.append(Missing("--present", expected, "declare it: the threshold rests on it"))
    if command.method == "return-weighted" and command.returns is None and command.world is None:
        absent.append(Missing("--returns", "public LOW HIGH of an episode's return", "declare it"))
    return absent


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
        PlanError: the population is below 2, or there is no name.
    """
    population = simulated(command) if command.population is None else command.population
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
    populations = simulators.load("populations")
    known = get_args(populations.Name)
    if command.world in known:
        if command.bounds is not None:
            raise meaningless("--bounds", f"{command.world} without it: it has bounds of its own")
        return cast("World", populations.world(command.world))
    environment = OwnDomain(command.world, known=known)
    spec, limit = (
        environments.public_spec(environment, environments.read_bounds(command.bounds)),
        environment.limit or LONGEST,
    )
    environment.try_out(command.seed)
    low, high = spec.reward.low[0], spec.reward.high[0]
    total = (min(0.0, low * limit), max(0.0, high * limit))
    space = spec.observation
    box = space if isinstance(space, Box) else Box((0.0,), (space.n - 1.0,))
    return cast("World", populations.World(command.world, environment, spec, limit, limit, total, box, ()))


def planned(command: Learn, spec: PublicSpec | None, world: World | None) -> Planned:
    """The calibrated plan.

    Args:
        command: the options.
        spec: public bounds of the records; None for a dry run that opens no file, which stands in for them.
        world: the public simulator, if there is one.

    Raises:
        PlanError: the actions are continuous, or an option is missing, out of range or does not fit.
    """
    bounds, protected = (world.spec if world else _STAND_IN) if spec is None else spec, unit(command)
    if not isinstance(bounds.action, Discrete):
        raise refused(
            "the actions are continuous",
            "discrete actions, which experts can agree on",
            "cut the actions into a few public ranges before importing the logs",
        )
    match command.method:
        case "votes":
            plan: Plan
            plan, states = _votes(command, bounds, world)
        case "return-weighted":
            plan, states = _weighted(command, bounds, world), None
        case "consensus":
            plan, states = _consensus(command, bounds, world, protected), None
    if isinstance(plan, Consensus) and command.paper:
        return Planned(plan)  # priced already, at what it honestly costs
    simulator = world.domain if world is not None and _plays(plan) else None
    return Planned(_calibrated(plan, command, protected), states, simulator)


def _calibrated(plan: Plan, command: Learn, protected: Unit) -> Plan:
    try:
        return plan.calibrate(unit=protected, epsilon=command.epsilon, delta=command.delta)
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
        declared = (
            environments.read_bounds(command.anchor_bounds, option="--anchor-bounds", form=environments.BOX) or {}
        )
        place = declared.get("observation", spec.observation if world is None else world.box)
        anchors = Uniform(
            low=place.low,
            high=place.high,
            count=1_000 if command.anchors is None else command.anchors,
            seed=command.seed,
        )
        if spec is not _STAND_IN:
            _require_inside(anchors, spec)
    if command.returns is None and "sharpness" in command.settings:
        raise meaningless("--sharpness", "--returns")
    settings = given(command, "rows")
    if command.settings.get("rounds", 1) != 1:
        if world is None:
            raise refused("--rounds needs --world", "a public simulator to put new states by", "name one")
        settings |= given(command, "rounds")
    plan = Votes(
        anchors=anchors,
        clone=_clone(command, spec, world),
        policy=_policy(command, spec, world),
        weight=None if command.returns is None else _weight(command.returns, command),
        **settings,
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
    returns = world.bounds if command.returns is None and world is not None else command.returns
    if returns is None:
        raise refused("--returns is missing", "public LOW HIGH of an episode's return", "declare it")
    weight = _weight(returns, command)
    settings = given(command, "rows", "clip_norm", "steps")
    return ReturnWeighted(policy=_policy(command, spec, world), weight=weight, seed=command.seed, **settings)


def _consensus(command: Learn, spec: PublicSpec, world: World | None, protected: Unit) -> Consensus:
    assert world is not None
    present = protected.size if command.present is None else command.present
    if command.paper:
        return _published(command, spec, world, protected, present)
    settings = command.settings
    if command.stop is not None:
        settings["floor"] = KappaStop(command.stop)
    elif command.floor is not None:
        settings["floor"] = PMin(command.floor)
    return Consensus(
        policy=_policy(command, spec, world, hidden=(64, 64)),
        learner=_LEARNERS[command.learner or "cql"](),
        trajectories=25 if command.prefixes is None else command.prefixes,
        horizon=command.horizon or world.horizon,
        experts=present,
        clone=None if command.queried else _clone(command, spec, world),
        expected_batch_size=min(256, protected.size),
        seed=command.seed,
        **settings,
    )


def _published(command: Learn, spec: PublicSpec, world: World, protected: Unit, present: int) -> Consensus:
    """The settings that the paper reports for this world and epsilon, priced at what they honestly cost."""
    assert isinstance(spec.action, Discrete)
    setting = published_setting(str(world.name), command.epsilon)
    features = maps.default(world.box)
    policy = Policy(features, Mlp((features.size, *setting.hidden, spec.action.n)), Categorical(spec.action.n))
    fields: dict[str, Any] = {"horizon": command.horizon or world.horizon, "steps": command.settings.get("steps")}
    return paper(setting, policy=policy, unit=protected, experts=present, delta=command.delta, **fields)


def _weight(returns: tuple[float, float], command: Learn) -> ReturnWeight:
    return ReturnWeight(low=returns[0], high=returns[1], **given(command, "sharpness"))


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
    widths = default if hidden is None else hidden
    if command.policy is not None:
        widths = options.hidden("learn", command.policy, "linear")
    features = _features(command, spec, world)
    network = Mlp((features.size, *widths, spec.action.n), gain=0.01 if widths else 0.0)
    return Policy(features, network, Categorical(spec.action.n))


def _features(command: Learn, spec: PublicSpec, world: World | None) -> Features:
    """Over the part of the observations where decisions matter, where a world says which it is."""
    boxed = world is not None and isinstance(spec.observation, Box)
    features = maps.default(world.box if world is not None and boxed else spec.observation)
    if _kind(command) != "quadratic":
        return features
    if isinstance(features, OneHot):
        raise meaningless("--clone quadratic", "numbers as observations")
    return Quadratic(features.low, features.high)


def least_floor(command: Learn) -> float:
    """With which floor experts are played: as declared, else the one of the populations, else none."""
    if command.floor is not None:
        return command.floor
    if command.paper:
        return FLOOR
    return float(simulators.load("populations").FLOOR) if command.simulates else 0.0


def is_logs(source: Path) -> bool:
    """Whether a folder holds imported logs."""
    return (source / SPEC).is_file()


def require_source(command: Learn, world: World | None) -> None:
    """Refuse a source that is not there, and options that do not go with it.

    Raises:
        FileError: there is no such folder.
        PlanError: policies come without a world, or an option has no meaning for logs.
    """
    source = command.source
    if source is None:
        return
    if not source.is_dir():
        what = "this is a file" if source.exists() else "there is no such folder"
        expected = "a folder of logs, as `tacit data import` writes it, or of policies, one file for each expert"
        remedy = "import the logs first: tacit data import DATASET --unit EXPERT_ID --out FOLDER"
        raise FileError(what, where=str(source), expected=expected, remedy=remedy)
    if not is_logs(source):
        if world is None:
            raise refused("policies come without --world", "the public simulator in which they are played", "name it")
        return
    require_unit(source, command.unit, Console())
    played = ("episodes", "activation", "simulated") + (("horizon",) if command.method != "consensus" else ())
    for name in played:
        if getattr(command, name) not in (None, False):
            raise meaningless(name, "it with policies, which are played")
    for name in ("queried", "paper"):
        if getattr(command, name):
            raise meaningless(name, "it with policies: of logs alone nobody can be asked")
    if command.floor is not None and command.method != "consensus":
        raise meaningless("--floor", "it with policies, which are played, or with consensus prefixes")


def spec_of(command: Learn, world: World | None) -> PublicSpec:
    """Public bounds of the logs.

    Raises:
        FileError: the folder holds no logs.
        DataError: the world is not one of these logs.
    """
    if command.source is None or not is_logs(command.source):
        assert world is not None
        return world.spec
    spec, _, _ = read_spec(command.source)
    if world is not None and _shape(spec) != _shape(world.spec):
        what = f"{command.world} is not the world of these logs"
        expected = "a simulator with observations and actions like those of the logs"
        raise DataError(what, where=str(command.source), expected=expected, remedy="name another --world, or none")
    return spec


def nobody(command: Learn) -> bool:
    """Whether nobody is behind the policies."""
    return command.source is None or command.simulated


def require_enough(command: Learn, plan: Plan, policies: int | None = None) -> None:
    """Refuse too few policies, or too few episodes of each, before they are played, or a vault would have to.

    Args:
        command: the options.
        plan: calibrated.
        policies: how many there are; None where they are simulated, or not read yet.

    Raises:
        DataError: there are fewer policies than --present says, or more than --population.
        PlanError: there are no more episodes than the consensus keeps for itself.
    """
    assert plan.unit is not None
    count = simulated(command) if command.simulates else policies
    if count is not None and count > plan.unit.size:
        what = f"there are {count:,} policies in a population of {plan.unit.size:,}"
        expected = f"a --population of at least {count:,}"
        remedy = "declare how many experts there could be, present or not"
        raise DataError(what, where=str(command.source or "learn"), expected=expected, remedy=remedy)
    prefixes = part(plan, CONSENSUS)
    if prefixes is None:
        return
    if count is not None and count < prefixes.experts:
        what = "there are fewer policies than the consensus takes for granted"
        expected = f"at least {prefixes.experts:,}, as --present or --population says"
        remedy = "give --present a number that is sure to be there"
        raise DataError(what, where=str(command.source or "learn"), expected=expected, remedy=remedy)
    held_out, episodes = prefixes.held_out, EPISODES if command.episodes is None else command.episodes
    least = held_out + 1 if len(plan.parts()) > 1 else held_out
    if episodes < least:
        expected = f"at least {least}: the consensus keeps {held_out} of each expert for itself"
        usual = "" if command.episodes is not None else " (by default)"
        raise refused(f"--episodes is {episodes}{usual}", expected, "give more --episodes, or fewer --prefixes")


def part(plan: Plan, name: str) -> Any:
    """The part of a plan with this name; None where it has none."""
    return next((piece for piece in plan.parts() if piece.name == name), None)


def _shape(spec: PublicSpec) -> object:
    """What specs of one problem have in common: the bounds of numbers as observations may differ."""
    space = spec.observation
    return space if isinstance(space, Discrete) else space.size, spec.action
