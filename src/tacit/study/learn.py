"""`Study.learn`: one policy from what many experts logged, or from their policies, which are played in a public
world."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tacit.errors import DataError, PlanError
from tacit.methods import find_method
from tacit.study import words
from tacit.study.verbs import Request, make_tracker
from tacit.study.words import Interrupted

if TYPE_CHECKING:
    import numpy as np

    from tacit.data.spec import PublicSpec
    from tacit.data.trajectories import Trajectories
    from tacit.methods.experts import GivenAnchors, LearnedPolicies, UniformAnchors
    from tacit.privacy.certificate.certificate import Release
    from tacit.study.account import Account
    from tacit.study.experts import Plan
    from tacit.study.folder import RunFolder
    from tacit.study.verbs import Curator
    from tacit.units import Unit
    from tacit_worlds.populations import World

FOLDER = "policy"
EXPERTS = 3_000
"""How many are simulated."""
LEVELS = {
    "logs": "Protected: everything in one expert's log. Not protected: people in the logs of many experts.",
    "policies": (
        "Protected: the experts' policies, and nothing else. Not protected: patients, states, rewards and transitions; "
        "released prefixes show them as they are."
    ),
}
_TITLES = {"cart_pole": "cart-pole", "lunar_lander": "lunar lander", "hiv": "HIV treatment"}
_OWN = {
    "votes": ("anchors", "anchor_bounds", "clone", "returns"),
    "return-weighted": ("returns",),
    "consensus": ("clone", "learner", "prefixes", "present", "stop", "queried", "paper"),
}
"""Words that belong to some methods only, beside the fields of their plans."""
_PUBLISHED = (
    *("clone", "policy", "clip_norm", "learner", "prefixes", "stop", "floor", "share", "stable_fraction", "rows"),
)
"""Words that the published settings have an answer of their own to."""
option_error, no_effect_error = partial(words.option_error, "learn"), partial(words.no_effect_error, "learn")


def learn(
    curator: Curator,
    /,
    *,
    epsilon: float,
    delta: float | None = None,
    method: str = "votes",
    world: str | Any | None = None,
    bounds: Path | None = None,
    experts: int | None = None,
    kind: Literal["good", "mixed"] | None = None,
    episodes: int | None = None,
    horizon: int | None = None,
    floor: float | None = None,
    activation: Literal["relu", "tanh"] | None = None,
    simulated: bool = False,
    anchors: int | None = None,
    anchor_bounds: Path | None = None,
    clone: Literal["linear", "quadratic", "mlp"] | None = None,
    policy: str | None = None,
    returns: tuple[float, float] | None = None,
    learner: Literal["cql", "dqn", "bc"] | None = None,
    prefixes: int | None = None,
    present: int | None = None,
    stop: float | None = None,
    queried: bool = False,
    paper: bool = False,
    evaluate: int = 100,
    seed: int = 0,
    yes: bool = False,
    out: Path | None = None,
    track: Path | None = None,
    **settings: Any,
) -> Request[LearnedPolicies]:
    """Learn one policy from many experts, with differential privacy for every expert.

    The records are the experts' logs (`tacit data import --unit EXPERT_ID`), or a folder of their policies, one
    .safetensors or .onnx file each, which are played in the world. Without records, experts of the world are simulated,
    who are the whole population by default.

    Args:
        epsilon: the promise to every expert, for all that this run releases.
        delta: slack of the promise, below 1 / population; by default a tenth of that.
        method: "votes" of clones at public states; "return-weighted" imitation; "consensus" prefixes and private
            training.
        world: public simulator: cart_pole, acrobot, lunar_lander, hiv, or any id that Gymnasium knows. Logs need none,
            except for consensus prefixes; with one, the report says what the policy returns there.
        bounds: JSON file with public bounds of what a Gymnasium environment leaves open (as for `tacit train`).
        experts: how many are simulated; by default 3,000, or the whole population where that is smaller.
        kind: of the simulated ones: good, or mixed with bad ones.
        episodes: how many each expert plays in the world, where policies are played.
        horizon: most steps of such an episode; by default the world's own.
        floor: probability of every action but their best one with which policies are played; for consensus prefixes it
            is also what keeps one action from telling an expert.
        activation: between the layers of policies whose files do not say it; by default relu.
        simulated: declare that nobody is behind the policies in the folder.
        anchors: how many public states the experts vote at; 1,000 by default.
        anchor_bounds: JSON file {"observation": [[LOWS], [HIGHS]]} of the box they are drawn from; by default the
            bounds of the records.
        clone: what stands for an expert; by default linear, and an mlp in lunar_lander and hiv.
        policy: "linear", or the widths of a tanh network ("32" or "64-64"); by default like the clone.
        returns: public LOW HIGH of an episode's return; experts count by theirs (votes and return-weighted).
        learner: the loss of the training on consensus: conservative or plain Q-learning, or imitation.
        prefixes: how many trajectories are drawn for the consensus; 25 by default.
        present: public lower bound on how many experts there are (consensus).
        stop: chance of a random end of a prefix at each step, in place of --floor; by default 0.02.
        queried: draw the trajectories of the experts' own policies, not of their clones'. The promise then covers the
            policies alone.
        paper: the settings of arXiv:2411.13598 for the world at epsilon 10, 7.5 or 5, which is what that paper claims;
            the promise, the certificate and the budget say what holds. Consensus of the experts' own policies;
            --steps shortens it, since the paper trains for millions.
        evaluate: over how many episodes in the world returns are measured.
        seed: of simulated experts, of what they play and of evaluations (never of the privacy noise, which is secret).
        yes: carry out also what will teach nothing for its noise, which is refused otherwise.
        out: folder of the run; it will hold nothing private but what lies under OUT/private/.
        track: file for the length of every value that leaves a mechanism, one JSON object a step; this costs no
            privacy.
        settings: fields of the method's plan.

    Raises:
        TacitError: a word is wrong, or the ledger does not pay; nothing is spent before the learning begins.
    """
    arguments = {
        name: value for name, value in {**locals(), **settings}.items() if value is not None and value is not False
    }
    from tacit.methods.experts import Consensus, compare_claims, published
    from tacit.methods.experts.learned import promise_scope
    from tacit.study import simulators
    from tacit.study.account import VerbPhrases
    from tacit.study.advice import Advice, sum_figures
    from tacit.study.environments import find_world, list_worlds
    from tacit.study.folder import SIMULATED, require_free

    source, logs = curator.source, curator.source.bounds is not None
    simulates = not logs and source.path is None
    words.require_minimum("learn", arguments, evaluate=2, seed=0, experts=2, episodes=1, horizon=1)
    _require_meaning(method, arguments, logs=logs, simulates=simulates)
    named = getattr(world, "name", world)
    if simulates and named not in list_worlds():
        what = "there are no experts" if world is None else f"there are no experts of {named} to simulate"
        expected, remedy = f"a folder, or --world {', '.join(list_worlds())}", "name the folder of logs or policies"
        raise option_error(what, expected, remedy)
    _require_complete(curator, arguments, method, logs=logs, simulates=simulates)
    if simulates:
        experts = min(EXPERTS, curator.population or EXPERTS) if experts is None else experts
        curator = dataclasses.replace(curator, population=curator.population or experts)
    resolved_world = None if world is None else find_world(world, bounds, seed)
    spec = source.bounds if resolved_world is None or logs else resolved_world.spec
    assert spec is not None
    # The bounds of numbers as observations may differ.
    sizes = (spec.observation.size, spec.action)
    if resolved_world is not None and sizes != (resolved_world.spec.observation.size, resolved_world.spec.action):
        what, expected = f"{named} is not the world of these logs", "a simulator with their observations and actions"
        raise DataError(what, where=source.name, expected=expected, remedy="name another --world, or none")
    plan, states = _plan(method, arguments, settings, spec, resolved_world, curator.unit, curator.delta(delta))
    if floor is None:
        floor = published.FLOOR if paper else float(simulators.load("populations").FLOOR) if simulates else 0.0
    arguments |= {"floor": floor, "simulated": simulates or simulated, "seed": seed, "experts": experts}
    if not logs:
        _require_enough(plan, episodes, source.name, experts)
    if out is not None:
        require_free(out, resume=None)
    price, slack = plan.epsilon, plan.delta
    remedy = "give another --seed, or slightly less --epsilon"
    phrases = VerbPhrases("experts", "learning", "learned from", "learn", remedy)
    account = curator.account(phrases, price, slack)
    account.require_payable(plan)

    def carry_out(options: Mapping[str, Any]) -> Release[LearnedPolicies]:
        return _release(curator, plan, states, resolved_world, arguments, account, options, out, track)

    more = [LEVELS[promise_scope(plan)]]
    if isinstance(plan, Consensus) and paper:
        more.insert(0, str(compare_claims(plan)))
    if not logs and arguments["simulated"]:
        more.append(f"The experts {SIMULATED}")
    foreseen = Advice(plan, sum_figures, "another --method", accepted=yes or simulates or simulated or source.simulated)
    return Request(plan, carry_out, tuple(more), advice=foreseen)


def _require_meaning(method: str, arguments: Mapping[str, Any], *, logs: bool, simulates: bool) -> None:
    useless = words.foreign_options("learn", method, _OWN)
    if "paper" in arguments:
        useless |= dict.fromkeys(_PUBLISHED, "it without --paper, whose settings are published")
    if not simulates:
        useless |= dict.fromkeys(("experts", "kind"), "it without a folder, where experts are simulated")
    if logs:
        played = "it with policies, which are played"
        useless |= dict.fromkeys(("episodes", "activation", "simulated"), played)
        useless |= dict.fromkeys(("queried", "paper"), "it with policies: of logs alone nobody can be asked")
        if method != "consensus":
            useless |= dict.fromkeys(("horizon", "floor"), f"{played}, or with consensus prefixes")
    if "world" not in arguments:
        useless["bounds"] = "--world with an environment of Gymnasium"
    if method == "votes" and "returns" not in arguments:
        useless["sharpness"] = "--returns"
    words.require_meaning("learn", arguments, useless)
    if {"floor", "stop"} <= arguments.keys():
        remedy = "leave --floor out: --stop needs none"
        raise option_error("--floor and --stop exclude each other", "one of them", remedy)
    if arguments.get("rounds", 1) != 1 and "world" not in arguments:
        raise option_error("--rounds needs --world", "a public simulator to put new states by", "name one")


def _require_complete(
    curator: Curator, arguments: Mapping[str, Any], method: str, *, logs: bool, simulates: bool
) -> None:
    missing, prefixes = [], method == "consensus"
    if curator.population is None and not simulates:
        expected = "how many experts there could be"
        missing.append(words.MissingOption("--population", expected, "declare it; it is never counted"))
    if "world" not in arguments and (prefixes or not logs):
        expected = f"a public simulator, for {'clones' if logs else 'the policies'} to be played in"
        missing.append(words.MissingOption("--world", expected, "name one"))
    if "present" not in arguments and prefixes and not simulates:
        expected = "how many experts there are at least, as the public knows"
        missing.append(words.MissingOption("--present", expected, "declare it: the threshold rests on it"))
    if method == "return-weighted" and not {"returns", "world"} & arguments.keys():
        missing.append(words.MissingOption("--returns", "public LOW HIGH of an episode's return", "declare it"))
    words.require_options("learn", missing)


def _plan(
    method: str,
    arguments: Mapping[str, Any],
    settings: dict[str, Any],
    spec: PublicSpec,
    world: World | None,
    unit: Unit,
    delta: float,
) -> tuple[Plan, np.ndarray | None]:
    """The calibrated plan, and the states that its anchors are where all that there are are asked for."""
    from tacit.agents import features as maps
    from tacit.agents import learners
    from tacit.agents.heads import Categorical
    from tacit.agents.networks import Mlp
    from tacit.agents.policies import Policy
    from tacit.data.spec import Box, Discrete
    from tacit.methods import experts
    from tacit.privacy.mechanisms.thresholds import KappaStop, PMin

    if not isinstance(spec.action, Discrete):
        remedy = "cut the actions into a few public ranges before importing the logs"
        raise option_error("the actions are continuous", "discrete actions, which experts can agree on", remedy)
    epsilon, seed, prefixes = arguments["epsilon"], arguments.get("seed", 0), method == "consensus"
    # Over the part of the observations where decisions matter, where a world says which it is.
    boxed = world is not None and isinstance(spec.observation, Box)
    features: maps.Features = maps.default_features(world.box if world is not None and boxed else spec.observation)
    # The experts of the last two worlds are no linear functions.
    kind = arguments.get("clone", "mlp" if world is not None and world.name in ("lunar_lander", "hiv") else "linear")
    if kind == "quadratic":
        if isinstance(features, maps.OneHot):
            raise no_effect_error("--clone quadratic", "numbers as observations")
        features = maps.Quadratic(features.low, features.high)
    widths: tuple[int, ...] = (64, 64) if prefixes else (32,) if kind == "mlp" else ()
    widths = words.hidden_widths("learn", arguments["policy"], "linear") if "policy" in arguments else widths
    network = Mlp((features.size, *widths, spec.action.n), gain=0.01 if widths else 0.0)
    policy = Policy(features, network, Categorical(spec.action.n))
    if prefixes:
        assert world is not None
        horizon, present = arguments.get("horizon", world.horizon), arguments.get("present", unit.size)
        if "paper" in arguments:
            setting = experts.published_setting(str(world.name), epsilon)
            network = Mlp((features.size, *setting.hidden, spec.action.n))
            policy = dataclasses.replace(policy, network=network)
            sizes = {"experts": present, "horizon": horizon, "steps": settings.get("steps")}
            return experts.published_plan(setting, policy=policy, unit=unit, delta=delta, **sizes), None
    # Experts whose trajectories are drawn have to be what is counted: with PMin, no chance is below the floor.
    clone = (experts.MlpClone if kind == "mlp" else experts.LinearClone)(
        features=features, actions=spec.action.n, floor=arguments.get("floor", 0.0) if prefixes else 0.0
    )
    known_returns = None if world is None or method != "return-weighted" else world.return_bounds
    returns = arguments.get("returns", known_returns)
    sharpness = {"sharpness": settings.pop("sharpness")} if "sharpness" in settings else {}
    weight = None if returns is None else experts.ReturnWeight(low=returns[0], high=returns[1], **sharpness)
    plan: Plan
    states = None
    if prefixes:
        if "stop" in arguments or "floor" in arguments:
            settings["floor"] = KappaStop(arguments["stop"]) if "stop" in arguments else PMin(arguments["floor"])
        plan = experts.Consensus(
            policy=policy,
            learner={"cql": learners.CQL, "dqn": learners.DQN, "bc": learners.BC}[arguments.get("learner", "cql")](),
            trajectories=arguments.get("prefixes", 25),
            horizon=horizon,
            experts=present,
            clone=None if "queried" in arguments else clone,
            expected_batch_size=min(256, unit.size),
            seed=seed,
            **settings,
        )
    elif method == "votes":
        anchors, states = _anchors(spec, world, arguments)
        plan = experts.Votes(anchors=anchors, clone=clone, policy=policy, weight=weight, **settings)
    else:
        assert weight is not None
        plan = experts.ReturnWeighted(policy=policy, weight=weight, seed=seed, **settings)
    try:
        plan = plan.calibrate(unit=unit, epsilon=epsilon, delta=delta)
    except PlanError as error:
        if "unreachable threshold" not in error.what:
            raise
        remedy = "give a larger --epsilon, fewer --prefixes, a larger --stop (or --floor), or more experts (--present)"
        raise PlanError(error.what, where="learn", expected=error.expected, remedy=remedy) from None
    return plan, states


def _anchors(
    spec: PublicSpec, world: World | None, arguments: Mapping[str, Any]
) -> tuple[UniformAnchors | GivenAnchors, np.ndarray | None]:
    """Where experts vote: of discrete observations in all states, which come with it."""
    import numpy as np

    from tacit.data.spec import Discrete
    from tacit.methods.experts import GivenAnchors, UniformAnchors
    from tacit.methods.experts.anchors import require_inside
    from tacit.study.environments import BOX, read_bounds

    if isinstance(spec.observation, Discrete):
        if "anchors" in arguments or "anchor_bounds" in arguments:
            raise no_effect_error("--anchors", "numbers as observations; of discrete ones every state is asked for")
        states = np.arange(spec.observation.n)
        return GivenAnchors.of(states), states
    declared = read_bounds(arguments.get("anchor_bounds"), option="--anchor-bounds", form=BOX) or {}
    box = declared.get("observation", spec.observation if world is None else world.box)
    anchors = UniformAnchors(low=box.low, high=box.high, count=arguments.get("anchors", 1_000), seed=arguments["seed"])
    try:
        require_inside(anchors.points(), spec)
    except PlanError as error:
        what = "the public states lie outside the bounds of the records, or have other dimensions"
        raise option_error(what, error.expected, "give --anchor-bounds with a box inside these bounds") from None
    return anchors, None


def _require_enough(plan: Plan, episodes: int | None, where: str, policies: int | None) -> None:
    """Refuse too few policies, or too few episodes of each, before they are played, or a vault would have to."""
    from tacit.methods.experts import Consensus
    from tacit.study.experts import EPISODES

    if policies is not None and policies > plan.unit.size:
        what, expected = f"there are {policies:,} policies in a population of {plan.unit.size:,}", "as many at least"
        remedy = f"declare how many experts there could be, present or not: a --population of at least {policies:,}"
        raise DataError(what, where=where, expected=expected, remedy=remedy)
    if not isinstance(plan, Consensus) or not plan.releases_prefixes:
        return
    prefixes: Any = plan.parts()[0]
    if policies is not None and policies < prefixes.experts:
        what = "there are fewer policies than the consensus takes for granted"
        expected = f"at least {prefixes.experts:,}, as --present or --population says"
        raise DataError(what, where=where, expected=expected, remedy="give --present a number that is sure to be there")
    minimum = prefixes.held_out + 1 if plan.private_steps else prefixes.held_out
    if (episodes or EPISODES) < minimum:
        what = f"--episodes is {episodes or EPISODES}{' (by default)' if episodes is None else ''}"
        expected = f"at least {minimum}: the consensus keeps {prefixes.held_out} of each expert for itself"
        raise option_error(what, expected, "give more --episodes, or fewer --prefixes")


def _release(
    curator: Curator,
    plan: Plan,
    states: np.ndarray | None,
    world: World | None,
    arguments: Mapping[str, Any],
    account: Account,
    options: Mapping[str, Any],
    out: Path | None,
    track: Path | None,
) -> Release[LearnedPolicies]:
    from tacit import hub
    from tacit.data.trajectories import receipt_of
    from tacit.evaluation.report import Report
    from tacit.evaluation.report import experts as page
    from tacit.methods import experts
    from tacit.methods.experts.anchors import require_policies
    from tacit.methods.experts.learned import promise_scope
    from tacit.privacy.vault.vault import Vault
    from tacit.study.experts import compare, play, simulator_of
    from tacit.study.folder import REPORT, VERIFY, RunFolder, Stopwatch, certify, finish

    watch, source, narrator, played, policies = Stopwatch(), curator.source, curator.narrator, None, None
    with tempfile.TemporaryDirectory(prefix="tacit-learn-") as scratch:
        if source.bounds is not None:
            with narrator.progress("Opening the logs"):
                data = source.open()
                _require_experts(data, source.name)
        else:
            assert world is not None
            enough = partial(_require_enough, plan, arguments.get("episodes"), source.name)
            played = play(world, source.path, arguments, Path(scratch), enough, narrator)
            data = played.data
        if played is not None and promise_scope(plan) == "policies":
            policies = played.experts
            require_policies(policies, data.spec, floor=arguments["floor"])
        receipt = receipt_of(data)
        with RunFolder.attempt_optional(out, "learn", options) as run, account.open_ledger(run, receipt) as ledger:
            vault = Vault(data, ledger, experts=policies, tracker=make_tracker(track))
            with narrator.progress("Learning with privacy"):
                release = experts.fit(plan, vault, simulator_of(plan, world), anchors=states)
            if run is None:
                return release
            notes = (
                None if world is None else {"environment": world.name, "horizon": world.evaluation_horizon, "repeat": 1}
            )
            hub.save(release, run.resolve(FOLDER), notes=notes)
            certify(run, release.certificate)
        certificate = release.certificate.to_json()
        shown: dict[str, Any] = {
            "level": promise_scope(plan),
            "method": find_method("learn", arguments["method"]).words,
            "votes": page.votes_picture(release.value, () if world is None else world.dimension_names),
            "consensus": page.released_prefixes(release.value),
        }

        def write(costs: tuple[tuple[str, str], ...] = ()) -> None:
            title, sections = run.path.name, page.sections(certificate, **shown)
            finish(run, Report(title=title, certificate=certificate, sections=sections, verify=VERIFY, costs=costs))

        write()
        if world is not None:
            try:
                rows = compare(release.value, world, states, played if data.simulated else None, arguments, narrator)
            except KeyboardInterrupt:
                done = f"the policy is released and saved in {run.resolve(FOLDER)}"
                raise Interrupted(f"{done}, and {run.resolve(REPORT)} lacks its returns alone") from None
            size = ("Parameters", f"{release.value.policy.parameters:,}")
            shown |= {"world": _TITLES.get(world.name, world.name), "episodes": arguments["evaluate"], "returns": rows}
            write((size, *watch.costs()) if data.simulated else ())
    _tell(curator, account, shown, run)
    return release


def _require_experts(data: Trajectories, where: str) -> None:
    if data.unit_kind != "id":
        what = f"the logs say nothing of experts: every {data.unit_kind} is a unit of its own"
        expected = "logs that were imported with the ids of the experts"
        remedy = "import them again: tacit data import DATASET --unit EXPERT_ID"
        raise DataError(what, where=where, expected=expected, remedy=remedy)
    data.require_several_units()


def _tell(curator: Curator, account: Account, shown: Mapping[str, Any], run: RunFolder) -> None:
    say = curator.narrator.say
    say()
    for row in shown.get("returns", ()):
        if row.role == "released":
            say(f"Return   {row.mean:.5g}, {row.low:.5g} to {row.high:.5g} (95 % of the mean), in {shown['world']}")
    if shown["consensus"] is not None:
        lengths = shown["consensus"].lengths
        say(f"Prefixes {int(lengths.sum()):,} steps in all, {int((lengths > 0).sum())} of {len(lengths)} not empty")
    play = (f"Play     tacit play {run.path / FOLDER}",) if "world" in shown else ()
    account.tell(run, *play, f"Export   tacit export {run.path / FOLDER} {FOLDER}.onnx")
