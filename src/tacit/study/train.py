"""`tacit.train`: a policy from people who are met one by one, in a simulated environment. There are no records."""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tacit.errors import FileError, LedgerError
from tacit.study import words
from tacit.study.verbs import Request, make_tracker, settings_of, standalone_verb
from tacit.study.words import Narrator, SilentNarrator
from tacit.units import Relation, Unit

if TYPE_CHECKING:
    from tacit.evaluation.report.learning import Role
    from tacit.methods.policy_gradient import AnyPlan, TrainedPolicies
    from tacit.methods.policy_gradient.recipes import Recipe
    from tacit.privacy.certificate.certificate import Release
    from tacit.study.folder import RunFolder
    from tacit.study.people import EnrolledPeople

    ReportRow = tuple[str, Role, AnyPlan]
    """A row of the report: its label, what it is, its plan."""

FOLDER, CHECKPOINT, TENSORBOARD, LEDGER, PRIVATE = "policy", "checkpoint", "tensorboard", "ledger", "private"
REGISTER = "register"
PROMISES_NOTHING = (
    "NOT PRIVATE: the published recipe shares a critic without noise, and nothing is promised to anybody."
)
FRESH = 1_000_000
"""How far seeds lie apart: those of the training's people, of comparisons' and of those who are only played with."""
REPORTS = ("compare", "ceiling", "runs", "evaluate", "tensorboard")
"""Words that concern the report alone: a run can be resumed with others."""
PAPERS = (64, 64)
"""Hidden layers of the paper's networks."""
_OWN = {"gradient": ("critic", "paper"), "votes": ("directions", "episode_length")}
"""Words that belong to one method only, beside the fields of its plan."""
_LEFT = (("critic", "recipe"), ("correlation", "recipe"))
"""Words that leave the choice to the environment's recipe."""
option_error, no_effect_error = partial(words.option_error, "train"), partial(words.no_effect_error, "train")


@standalone_verb
def train(
    environment: str | Any,
    *,
    method: str = "gradient",
    epsilon: float = 1.0,
    delta: float = 1e-5,
    users: int = 1600,
    users_per_round: int | None = None,
    directions: int | None = None,
    episode_length: int | None = None,
    relation: Relation = "add_or_remove",
    unit: str = "person",
    policy: str | None = None,
    critic: Literal["recipe", "none", "local", "private"] = "recipe",
    correlation: Literal["recipe", "toeplitz", "independent", "tree"] = "recipe",
    horizon: int | None = None,
    repeat: int | None = None,
    participations: int = 1,
    bounds: Path | Any | None = None,
    seed: int = 0,
    paper: bool = False,
    compare: tuple[float, ...] = (),
    ceiling: bool = False,
    runs: int = 3,
    evaluate: int = 200,
    tensorboard: bool = False,
    resume: bool = False,
    out: Path | None = None,
    track: Path | None = None,
    narrator: Narrator | None = None,
    **settings: Any,
) -> Request[TrainedPolicies]:
    """Learn a policy from simulated people met once each, with differential privacy.

    Args:
        environment: any id that Gymnasium knows, one of your own as "module:Dose-v0" (importing the module registers
            it), or tacit's: river-swim, dosing-0, dosing-1, clinic. In Python also an environment of Gymnasium.
        method: what a person adds to a release: the "gradient" of an episode, or "votes" on public directions, where
            everybody plays short episodes with both of two opposite changes of the policy.
        epsilon: the promise to every person.
        delta: its slack; it must be below 1 / population, which is --users / --participations.
        users: how many contributions there are at most, rounds times people in a round: as many as people are met
            where everybody takes part once.
        users_per_round: how many people in a round, between two releases; by default the recipe's own (8, and 32 for
            the robots).
        directions: votes of one person, each of which takes two episodes.
        episode_length: most decisions of such an episode.
        relation: what neighbouring populations differ in: a person contributes or not, or acts like another one.
        unit: what one protected unit is called, in the singular.
        policy: "log-linear", or the widths of a tanh network ("64-64"); by default the environment's own choice.
        critic: what actions are judged against: what the recipe says; nothing but the person's own returns (none), a
            critic fitted to the person's own episode and thrown away (local), or one that is learned with noise
            (private).
        correlation: what the recipe says; noise that cancels over the rounds (toeplitz, tree) or does not
            (independent).
        horizon: most steps of the environment in one person's episode.
        repeat: public number of steps for which an action is repeated.
        participations: in how many rounds one person may take part, at most once in each. The noise grows with it, and
            the population is --users / --participations.
        bounds: JSON file with public bounds of what the environment leaves open, {"observation": [[LOWS], [HIGHS]],
            "action": [[LOWS], [HIGHS]], "reward": [LOW, HIGH]}, one number of LOWS and HIGHS for each dimension. Of an
            environment that tacit does not know, the reward's are always needed: no environment declares them. In
            Python also such a mapping.
        seed: of the simulated people and the first policy (never of the privacy noise, which is secret).
        paper: the published recipe, with a critic that is shared without noise: it has no guarantee, and its
            certificate says so.
        compare: further epsilons to train at, for the report.
        ceiling: also train without noise (the ceiling) and from noise alone (the floor), for the report: it takes two
            to three times as long.
        runs: how many runs of each of these, and of the ceiling and the floor.
        evaluate: on how many fresh simulated people returns are measured.
        tensorboard: also write released values as TensorBoard scalars, under OUT/tensorboard/.
        resume: go on with a run that was interrupted; give the same options (compare, ceiling, runs, evaluate and
            tensorboard, which concern the report alone, may be others).
        out: folder of the run; the key of its register of contributions lies beside it (OUT.key).
        track: file for the length of every value that leaves a mechanism, one JSON object a step; this costs no
            privacy.
        narrator: is told what is promised and how far a run is; None tells nobody.
        settings: fields of the method's plan.

    Raises:
        TacitError: a word is wrong; nothing is spent before people are met.
    """
    arguments = {name: value for name, value in locals().items() if name != "settings"} | settings
    arguments = {name: value for name, value in arguments.items() if value is not None and value is not False}
    arguments = {name: value for name, value in arguments.items() if (name, value) not in _LEFT}
    from tacit.methods.policy_gradient import VotesPlan
    from tacit.study.durations import training_duration
    from tacit.study.folder import SIMULATED, RunFolder, require_free

    options = settings_of(None, inspect.unwrap(train), arguments, *REPORTS)
    options["environment"] = getattr(getattr(environment, "spec", None), "id", environment)
    narrator = SilentNarrator() if narrator is None else narrator
    _require_consistent(method, arguments)
    for name in ("resume", "tensorboard"):
        if name in arguments and out is None:
            raise no_effect_error(name, "it with --out")
    if out is not None:
        require_free(out, resume=resume)
        if (out / "run.json").exists():
            RunFolder(out).require_same_settings("train", options)
        _require_register(out, resume=resume)
    if tensorboard:
        import_module("tensorboard")  # a missing package is reported before a round
    with narrator.progress("Opening the environment"):
        people = _open_people(environment, arguments)
    with narrator.progress("Calibrating the noise"):
        plan = _plan(people, arguments, settings)
        # What the report needs is refused before anybody is met, too.
        shown = _report_plans(people, plan, arguments, settings)
    left, often = users - plan.rounds * plan.users, participations
    met = "are met" if often == 1 else f"contributions, at most {often} of each of {plan.unit.size:,} people"
    numbers = f"{plan.rounds:,} round(s) of {plan.users:,} people: {plan.rounds * plan.users:,} {met}"
    numbers += f" ({left:,} of the --users do not fill a round)." if left else "."
    if isinstance(plan, VotesPlan) and plan.answers == "randomized":
        numbers += f" {plan.responses().flip_probability:.1%} of the votes are turned round."
    elif plan.correlation != "tree":  # whose noise goes up and down from round to round
        first, last = (f"{plan.noise_at(k, of=plan.rounds):.3g}" for k in (0, plan.rounds - 1))
        spread = first if first == last else f"{first} (first) to {last} (last)"
        numbers += f" Noise of a round: {spread} times the most that one contribution counts."
    before: tuple[str, ...] = (PROMISES_NOTHING,) if math.isinf(plan.epsilon or 0.0) else ()
    if people.general:
        before += (f"No recipe was made for {people.name}: this is the general one, a first try at its settings.",)
    trainings = 1 + sum(role != "released" for _, role, _ in shown) * runs
    duration = str(training_duration(plan, people, trainings, evaluate))

    def carry_out(_: Mapping[str, Any]) -> Release[TrainedPolicies]:
        learn = partial(_learn, people, plan, arguments, narrator)
        if out is None:
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "run").mkdir()
                return learn(RunFolder(Path(folder) / "run"))
        with RunFolder.attempt(out, "train", options, resume=resume) as run:
            return _release(learn, people, shown, arguments, narrator, run)

    return Request(plan, carry_out, (*before, numbers, f"The people {SIMULATED}", duration))


def _require_consistent(method: str, arguments: Mapping[str, Any]) -> None:
    """Refuse words that no environment and no recipe could make use of."""
    from tacit.privacy.accounting.bounds import MAX_EPSILON

    words.require_minimum("train", arguments, users=1, users_per_round=1, participations=1, runs=1, evaluate=2, seed=0)
    words.require_minimum("train", arguments, horizon=1, repeat=1, directions=1, episode_length=1)
    words.require_meaning("train", arguments, words.foreign_options("train", method, _OWN))
    most = f"> 0 and at most {MAX_EPSILON:g}"
    rules = [("epsilon", arguments["epsilon"], 0 < arguments["epsilon"] <= MAX_EPSILON, f"a number {most}")]
    rules += [("compare", each, 0 < each <= MAX_EPSILON, f"numbers {most}") for each in arguments["compare"]]
    rules += [("delta", arguments["delta"], 0 < arguments["delta"] < 1, "a number in (0, 1)")]
    sizes = [(name, arguments[name]) for name in ("clip_norm", "radius") if name in arguments]
    rules += [(name, size, 0 < size < math.inf, "a finite number > 0") for name, size in sizes]
    gamma = arguments.get("gamma", 0.0)
    rules += [("gamma", gamma, 0 <= gamma <= 1, "a number in [0, 1]")]
    for name, value, sound, expected in rules:
        if not sound:
            what = f"{words.option_flag(name)} is {value:g}"
            raise option_error(what, expected, "give such a number, or leave it out")
    if "paper" in arguments and {"critic", "correlation"} & arguments.keys():
        what, expected = "the published recipe has a critic and a noise of its own", "--paper without them"
        raise option_error(what, expected, "leave --critic and --correlation out")
    if arguments.get("critic") == "private" and gamma == 1:
        raise option_error("--critic private with --gamma 1", "a --gamma below 1", "give --gamma 0.99")


def _require_register(out: Path, *, resume: bool) -> None:
    """Refuse all but the register and key of the run that is resumed, or neither for a new one; nothing is made."""
    from tacit.privacy.ledger.ledger import Ledger

    key, register, ledger = _key_path(out), out / PRIVATE / REGISTER, out / LEDGER
    resumed = resume and (out / "run.json").exists()
    if key.exists() and not resumed:
        what, expected = "there is the key of an earlier run's register", "no key beside the folder of a new run"
        remedy = "remove it if that run's folder is gone for good, or choose another folder"
        raise FileError(what, where=str(key), expected=expected, remedy=remedy)
    if not resumed or register.exists() or (out / FOLDER).exists():
        return
    if key.exists() or (ledger.exists() and Ledger.read(ledger).plans()):
        what = "the register is missing, and without it nobody can tell who contributed"
        expected, remedy = "the register that the run was begun with", "restore it, at its newest"
        raise LedgerError(what, where=str(register), expected=expected, remedy=remedy)


def _key_path(out: Path) -> Path:
    """Where the key of the register lies: beside the folder of the run, never in it."""
    out = Path(os.path.realpath(out))
    return out.with_name(f"{out.name}.key")


def _open_people(environment: str | Any, arguments: Mapping[str, Any]) -> EnrolledPeople:
    from tacit.study import environments as envs
    from tacit.study.people import EnrolledPeople

    declared = envs.read_bounds(arguments.get("bounds"))
    if declared is not None and environment in envs.TACITS_OWN:
        expected = f"none: {environment} has bounds of its own"
        raise option_error(f"--bounds with {environment}", expected, "leave --bounds out")
    builtin = envs.builtin_simulator(environment) if declared is None and isinstance(environment, str) else None
    if builtin is not None:
        name = str(environment)
        domain, spec, limit = builtin
    else:
        opened = envs.UserDomain(environment, known=envs.TACITS_OWN)
        name, domain, spec = opened.name, opened, envs.public_spec(opened, declared)
        limit = opened.limit or envs.LONGEST
        opened.try_out(arguments["seed"])
    horizon = arguments.get("horizon", limit)
    if arguments.get("repeat", 1) > horizon:
        expected = f"at most the longest episode, {horizon} steps"
        raise option_error(f"--repeat is {arguments['repeat']}", expected, "give a smaller --repeat")
    recipe = _recipe(name if builtin is not None else None, spec, horizon, arguments)
    recipe.policy.require_fit(spec)
    general = builtin is None or name not in _recipes(arguments["method"])[0]
    return EnrolledPeople(name, domain, spec, recipe, general)


def _recipe(name: str | None, spec: Any, horizon: int, arguments: Mapping[str, Any]) -> Recipe:
    """The recipe of a known task, or the one of any other, with the words that were given."""
    from tacit.methods.policy_gradient import PolicyGradientPlan

    known, general = _recipes(arguments["method"])
    builder: Any = known.get(name or "", general)
    takes = inspect.signature(builder).parameters
    users = arguments.get("users_per_round", takes["users"].default)
    chosen: dict[str, Any] = {"repeat": arguments["repeat"]} if "repeat" in arguments else {}
    if "policy" in arguments:
        chosen["hidden"] = words.hidden_widths("train", arguments["policy"], "log-linear")
    elif "paper" in arguments and builder is not general and "hidden" in takes:
        chosen["hidden"] = PAPERS
    if builder is general:
        recipe: Recipe = builder(spec, horizon=horizon, rounds=_rounds(arguments, users), users=users, **chosen)
        return recipe
    unsupported = ", ".join("--policy" if each == "hidden" else f"--{each}" for each in chosen.keys() - takes.keys())
    if unsupported:
        what = f"the recipe of {name} has no choice of {unsupported}"
        raise option_error(what, "options that the recipe has", f"leave {unsupported} out")
    recipe = builder(rounds=_rounds(arguments, users), users=users, **chosen)
    if "horizon" not in arguments:
        return recipe
    plan = recipe.plan
    if isinstance(plan, PolicyGradientPlan):
        plan = dataclasses.replace(plan, horizon=-(-horizon // recipe.repeat))
    return dataclasses.replace(recipe, horizon=horizon, plan=plan)


def _recipes(method: str) -> tuple[Mapping[str, Any], Any]:
    """The recipes of known tasks by name, and that of any other."""
    from tacit.methods.policy_gradient import recipes

    gradient, votes = (recipes.NAMED, recipes.general_recipe), (recipes.VOTED, recipes.general_votes)
    return {"gradient": gradient, "votes": votes}[method]


def _rounds(arguments: Mapping[str, Any], users: int) -> int:
    """How many rounds of so many people there are: at least one, and as many as a person may take part in."""
    rounds, often = arguments["users"] // users, arguments["participations"]
    if rounds < 1:
        expected, remedy = f"at least the people of one round, {users}", "give more --users, or fewer --users-per-round"
        raise option_error(f"--users is {arguments['users']}", expected, remedy)
    if often > rounds:
        expected = "at most one participation in a round"
        remedy = f"give --participations of at most {rounds}, or more --users"
        raise option_error(f"--participations is {often}, of {rounds} round(s)", expected, remedy)
    return int(rounds)


def _plan(people: EnrolledPeople, arguments: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
    """The calibrated plan; that of the paper is priced, since no noise makes its epsilon finite."""
    from tacit.methods.policy_gradient import PolicyGradientPlan, VotesPlan, recipes
    from tacit.study.environments import ROBOTS

    plan, often = people.recipe.plan, arguments["participations"]
    own = ("directions", "episode_length", "correlation", "participations")
    changes = {**settings, **{name: arguments[name] for name in own if name in arguments}}
    if "clip_norm" in changes:
        changes["most_noise"] = None
    plan = dataclasses.replace(plan, **changes)
    if isinstance(plan, VotesPlan):
        plan.require_room(people.recipe.policy.parameters)
    if "critic" in arguments and isinstance(plan, PolicyGradientPlan):
        plan = recipes.with_critic(plan, arguments["critic"])
    unit, delta = Unit(arguments["unit"], arguments["relation"], -(-arguments["users"] // often)), arguments["delta"]
    private = plan.calibrate(unit=unit, epsilon=arguments["epsilon"], delta=delta)
    if "paper" not in arguments:
        return private
    setting: Literal["mujoco", "dosing", "control"] = "control"
    if people.name in ROBOTS or people.name.startswith("dosing"):
        setting = "mujoco" if people.name in ROBOTS else "dosing"
    published = PolicyGradientPlan.paper(setting, noise_multiplier=private.noise_multiplier)
    users = arguments.get("users_per_round", published.users)
    published = dataclasses.replace(published, users=users, rounds=_rounds(arguments, users), **changes)
    return published.account(unit=unit, delta=delta)


def _report_plans(
    people: EnrolledPeople, released: AnyPlan, arguments: Mapping[str, Any], settings: Mapping[str, Any]
) -> list[ReportRow]:
    # The published recipe is compared with this library's, whose guarantee holds, and the labels say so.
    from tacit.study.people import noise_only_plan, noiseless_plan

    epsilon, paper = arguments["epsilon"], "paper" in arguments
    guarded = {name: value for name, value in arguments.items() if name != "paper"}
    of = "corrected recipe" if paper else ""
    caption = "the published recipe, released" if paper else f"epsilon {epsilon:g}, released"
    private: list[tuple[float, str, Role, AnyPlan]] = [(epsilon, caption, "released", released)]
    for other in sorted(set(arguments["compare"])):
        plan = _plan(people, {**guarded, "epsilon": other}, settings)
        private.append((other, f"{of}{', ' if of else ''}epsilon {other:g}", "compared", plan))
    rows: list[ReportRow] = [(label, role, plan) for _, label, role, plan in sorted(private, key=lambda row: -row[0])]
    if "ceiling" not in arguments:
        return rows
    plan = _plan(people, guarded, settings) if paper else released
    ceiling: ReportRow = (f"{of or 'the same'} without noise", "ceiling", noiseless_plan(plan))
    return [ceiling, *rows, (f"{of}{', ' if of else ''}noise alone", "floor", noise_only_plan(plan))]


def _learn(
    people: EnrolledPeople, plan: AnyPlan, arguments: Mapping[str, Any], narrator: Narrator, run: RunFolder
) -> Release[TrainedPolicies]:
    from tacit import hub, plain_files
    from tacit.methods.policy_gradient import fit
    from tacit.methods.policy_gradient.rounds import POLICY
    from tacit.privacy.ledger.ledger import SUM, Ledger
    from tacit.privacy.ledger.register import Register
    from tacit.privacy.vault import plan as plans
    from tacit.privacy.vault.user_vault import UserVault

    unit, epsilon, delta = plan.unit, plan.epsilon, plan.delta
    plain_files.make_private_folder(run.resolve(PRIVATE))
    budget = epsilon if math.isfinite(epsilon) else arguments["epsilon"]  # nothing else is ever charged
    with ExitStack() as stack:
        ledger = stack.enter_context(Ledger(run.resolve(LEDGER), unit, epsilon=budget, delta=delta, composition=SUM))
        register = stack.enter_context(Register(run.resolve(PRIVATE) / REGISTER, key=_key_path(run.path)))
        advance = stack.enter_context(narrator.progress("Enrolling people"))
        identity = plans.plan_id(plan)
        begun = any(summary.id == identity for summary in ledger.plans())
        met = ledger.claimed(identity, POLICY) if begun else 0
        users = people.users(plan, seed=arguments["seed"], rounds=met, population=unit.size)
        release = fit(
            plan,
            UserVault(users, ledger, register, tracker=make_tracker(arguments.get("track"))),
            people.recipe.policy,
            seed=arguments["seed"],
            folder=run.resolve(CHECKPOINT),
            resume="resume" in arguments,
            progress=advance,
        )
    hub.save(release, run.resolve(FOLDER), notes=people.notes())
    run.remove(CHECKPOINT)
    return release


def _release(
    learn: Any,
    people: EnrolledPeople,
    shown: list[ReportRow],
    arguments: Mapping[str, Any],
    narrator: Narrator,
    run: RunFolder,
) -> Release[TrainedPolicies]:
    """Learn, or take up what was learned; measure returns on people whom no training met; report."""
    from tacit import hub
    from tacit.evaluation.report import Report, learning
    from tacit.study import people as fresh
    from tacit.study.folder import CERTIFICATE, LETTER, REPORT, VERIFY, Stopwatch, certify, finish

    watch, say, folder = Stopwatch(), narrator.say, run.path
    finished = run.read()["finished"]
    saved = run.resolve(FOLDER)
    release: Release[TrainedPolicies] = hub.load(saved) if finished or saved.exists() else learn(run)
    if finished:
        say("The run was finished already.")
    else:
        certify(run, release.certificate)
        seed, runs, evaluate = arguments["seed"] + FRESH, arguments["runs"], arguments["evaluate"]
        rows, curves, error, change = [], [], 0.0, ""
        for label, role, plan in shown:
            value = release.value
            if role != "released":
                with narrator.progress(f"Training {runs} more ({label})") as advance:
                    value = fresh.repeat_runs(people, plan, runs=runs, seed=seed, advance=advance)
            with narrator.progress(f"Playing with {evaluate:,} fresh people ({label})"):
                measured = fresh.measure_returns(people, value, label, role, evaluate=evaluate, seed=seed + FRESH)
            row, curve, spread = measured
            rows.append(row)
            curves.append(curve)
            if role == "released":
                error, change = spread, learning.describe_change(curve)
        released, size = release.value.plan, ("Parameters", f"{release.value.policy.parameters:,}")
        met = released.users * released.rounds
        certificate = release.certificate.to_json()
        sections = learning.sections(
            certificate,
            environment=people.name,
            people=met if released.unit is None else min(met, released.unit.size),
            evaluated=evaluate,
            error=error,
            outcomes=rows,
            curves=curves,
        )
        if "tensorboard" in arguments:
            run.remove(TENSORBOARD)
            fresh.write_scalars(run.resolve(TENSORBOARD), release, curves)
        costs, title = (size, *watch.costs()), folder.name
        finish(run, Report(title=title, certificate=certificate, sections=sections, verify=VERIFY, costs=costs))
        say()
        say(f"Return   {change}")
    say()
    say(f"Open     {folder / REPORT}")
    say(f"Letter   {folder / LETTER}, for the data protection officer")
    say(f"Verify   tacit certificate verify {folder / CERTIFICATE}")
    say(f"Play     tacit play {folder / FOLDER}")
    say(f"Budget   tacit ledger show {folder / LEDGER}")
    say(f"Key      {_key_path(folder)} (of the register of contributions: keep it, and not with the run)")
    say(f"Keep     {folder / LEDGER} and {folder / PRIVATE}, too, with you: neither is to be published")
    if "tensorboard" in arguments:
        say(f"Scalars  tensorboard --logdir {folder / TENSORBOARD}")
    return release
