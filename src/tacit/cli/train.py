"""`tacit train`: simulated people in, a policy with its certificate out."""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from tacit import hub, plain_files
from tacit.cli import options, train_report
from tacit.cli.console import progress, say
from tacit.cli.plan_declarations import RECIPES, Train
from tacit.errors import FileError, LedgerError
from tacit.evaluation.report import Report, learning
from tacit.evaluation.report.blocks import Section
from tacit.evaluation.report.learning import Learning, Role
from tacit.methods.policy_gradient import AnyPlan, Learned, PolicyGradientPlan, Votes, fit, recipes
from tacit.methods.policy_gradient.plan import Setting
from tacit.methods.policy_gradient.recipes import Recipe
from tacit.methods.policy_gradient.rounds import POLICY
from tacit.privacy.accounting.bounds import MAX_EPSILON
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.register import Register
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.user_vault import UserVault
from tacit.study import environments
from tacit.study.account import promised
from tacit.study.environments import LONGEST, ROBOTS, TACITS_OWN, OwnDomain, World, own
from tacit.study.folder import (
    CERTIFICATE,
    REPORT,
    SIMULATED,
    VERIFY,
    RunFolder,
    Stopwatch,
    certify,
    finish,
    require_free,
    settings_of,
)
from tacit.units import Unit

FOLDER, CHECKPOINT, TENSORBOARD = "policy", "checkpoint", "tensorboard"
LEDGER, PRIVATE, REGISTER = "ledger", "private", "register"
PROMISES_NOTHING = (
    "NOT PRIVATE: the published recipe shares a critic without noise, and nothing is promised to anybody."
)
Shown = tuple[str, Role, AnyPlan]
"""A row of the report: its label, what it is, its plan."""
FRESH = 1_000_000
"""How far seeds lie apart: those of the training's people, of comparisons' and of those who are only played with."""
refused = partial(options.refused, "train")
REPORTS = ("compare", "runs", "evaluate", "tensorboard")
"""Options that concern the report alone: a run can be resumed with others."""
PAPERS = (64, 64)
"""Hidden layers of the paper's networks."""
RECIPES_OF: Mapping[str, tuple[Mapping[str, Callable[..., Recipe]], Callable[..., Recipe]]] = {
    "gradient": (recipes.NAMED, recipes.general),
    "votes": (recipes.VOTED, recipes.general_votes),
}
"""Method -> recipes of known tasks, and the one of any other."""
OWN = {
    "gradient": {"critic", "paper", *options.offered("train", "gradient")},
    "votes": {"directions", "episode_length", *options.offered("train", "votes")},
}
"""Method -> options that others do not have."""


def train(command: Train) -> None:
    """Plan, promise, meet, release, report.

    Raises:
        TacitError: see the exit codes of `tacit.cli.app.main`; nothing is spent before people are met.
    """
    settings = settings_of(command, *REPORTS)
    require_sound(command)
    if not command.dry_run:
        require_free(command.out, resume=command.resume)
        if (command.out / "run.json").exists():
            RunFolder(command.out).require_same("train", settings)
        _require_register(command)
    if command.tensorboard:
        import_module("tensorboard")  # a missing package is reported before a round
    with progress("Opening the environment"):
        world = opened(command)
    with progress("Calibrating the noise"):
        plan = planned(command, world)
        shown = _settings(command, world, plan)  # what the report needs is refused before anybody is met, too
    say(str(plan))
    if math.isinf(plan.epsilon or 0.0):
        say(PROMISES_NOTHING)
    say(numbers(command, plan))
    say(f"The people {SIMULATED}")
    if command.dry_run:
        say("Dry run: nobody was met and nothing was spent.")
        return
    with RunFolder.attempt(command.out, "train", settings, resume=command.resume) as run:
        _produce(command, world, plan, shown, run)


def key_path(out: Path) -> Path:
    """Where the key of the register lies: beside the folder of the run, never in it."""
    out = Path(os.path.realpath(out))
    return out.with_name(f"{out.name}.key")


def _require_register(command: Train) -> None:
    """Register and key of the run that is resumed, or neither for a new one; nothing is made here.

    Raises:
        FileError: the key of another run is in the place of the new one's.
        LedgerError: the run was begun, and its register is gone.
    """
    key, register, ledger = key_path(command.out), command.out / PRIVATE / REGISTER, command.out / LEDGER
    resumed = command.resume and (command.out / "run.json").exists()
    if key.exists() and not resumed:
        what, expected = "there is the key of an earlier run's register", "no key beside the folder of a new run"
        remedy = "remove it if that run's folder is gone for good, or choose another folder"
        raise FileError(what, where=str(key), expected=expected, remedy=remedy)
    if not resumed or register.exists() or (command.out / FOLDER).exists():
        return
    if key.exists() or (ledger.exists() and Ledger.read(ledger).plans()):
        what = "the register is missing, and without it nobody can tell who contributed"
        expected, remedy = "the register that the run was begun with", "restore it, at its newest"
        raise LedgerError(what, where=str(register), expected=expected, remedy=remedy)


def _produce(command: Train, world: World, plan: AnyPlan, shown: list[Shown], run: RunFolder) -> None:
    watch = Stopwatch()
    if run.read()["finished"]:
        say("The run was finished already.")
    else:
        release = hub.load(run.inside(FOLDER)) if run.inside(FOLDER).exists() else _learn(command, world, plan, run)
        certify(run, release.certificate)
        sections, curves = _report(command, world, shown, release)
        if command.tensorboard:
            from tacit.cli import train_report

            run.remove(TENSORBOARD)
            train_report.write_scalars(run.inside(TENSORBOARD), release, curves)
        size = ("Parameters", f"{release.value.policy.parameters:,}")
        certificate, costs = release.certificate.to_json(), (size, *watch.costs())
        finish(
            run,
            Report(title=run.path.name, certificate=certificate, sections=sections, verify=VERIFY, costs=costs),
        )
    _closing(run, command)


def _learn(command: Train, world: World, plan: AnyPlan, run: RunFolder) -> Release[Learned]:
    """The run that is released; taken up where it was interrupted."""
    unit, epsilon, delta = promised(plan)
    plain_files.private_folder(run.inside(PRIVATE))
    budget = epsilon if math.isfinite(epsilon) else command.epsilon  # nothing else is ever charged
    with (
        Ledger(run.inside(LEDGER), unit, epsilon=budget, delta=delta) as ledger,
        Register(run.inside(PRIVATE) / REGISTER, key=key_path(command.out)) as register,
        progress("Enrolling people") as advance,
    ):
        identity = plans.plan_id(plan)
        begun = any(summary.id == identity for summary in ledger.plans())
        enrolled = ledger.claimed(identity, POLICY) if begun else 0
        users = world.users(plan, seed=command.seed, rounds=enrolled, population=unit.size)
        release = fit(
            plan,
            UserVault(users, ledger, register, tracker=command.tracker),
            world.recipe.policy,
            seed=command.seed,
            folder=run.inside(CHECKPOINT),
            resume=command.resume,
            progress=advance,
        )
    hub.save(release, run.inside(FOLDER), notes=world.notes())
    run.remove(CHECKPOINT)
    return release


def _report(
    command: Train, world: World, shown: list[Shown], release: Release[Learned]
) -> tuple[tuple[Section, ...], list[Learning]]:
    """What the page says, and the learning curves on it: of the release, and of whatever it is compared with."""
    seed, rows, curves, error = command.seed + FRESH, [], [], 0.0
    for label, role, plan in shown:
        value = release.value
        if role != "released":
            with progress(f"Training {command.runs} more ({label})") as advance:
                value = train_report.repeated(world, plan, runs=command.runs, seed=seed, advance=advance)
        with progress(f"Playing with {command.evaluate:,} fresh people ({label})"):
            row, curve, spread = train_report.measured(
                world, value, label, role, evaluate=command.evaluate, seed=seed + FRESH
            )
        rows.append(row)
        curves.append(curve)
        error = spread if role == "released" else error
    plan = release.value.plan
    sections = learning.sections(
        release.certificate.to_json(),
        environment=world.name,
        people=min(plan.users * plan.rounds, plan.unit.size if plan.unit is not None else plan.users * plan.rounds),
        evaluated=command.evaluate,
        error=error,
        outcomes=rows,
        curves=curves,
    )
    return sections, curves


def _settings(command: Train, world: World, released: AnyPlan) -> list[Shown]:
    """What the report shows, the largest epsilon first.

    The published recipe is compared with this library's, whose guarantee holds, and the labels say so.
    """
    caption = "the published recipe, released" if command.paper else f"epsilon {command.epsilon:g}, released"
    of = "corrected recipe, " if command.paper else ""
    private: list[tuple[float, str, Role, AnyPlan]] = [(command.epsilon, caption, "released", released)]
    guarded = dataclasses.replace(command, paper=False)
    for epsilon in sorted(set(command.compare)):
        plan = planned(dataclasses.replace(guarded, epsilon=epsilon), world)
        private.append((epsilon, f"{of}epsilon {epsilon:g}", "compared", plan))
    rows: list[Shown] = [(label, role, plan) for _, label, role, plan in sorted(private, key=lambda row: -row[0])]
    if not world.fast:
        return rows
    plan = planned(guarded, world) if command.paper else released
    ceiling = "corrected recipe without noise" if command.paper else "the same without noise"
    return [
        (ceiling, "ceiling", train_report.without_noise(plan)),
        *rows,
        (f"{of}noise alone", "floor", train_report.noise_alone(plan)),
    ]


def _closing(run: RunFolder, command: Train) -> None:
    folder = run.path
    say()
    say(f"Open     {folder / REPORT}")
    say(f"Verify   tacit certificate verify {folder / CERTIFICATE}")
    say(f"Play     tacit play {folder / FOLDER}")
    say(f"Budget   tacit ledger show {folder / LEDGER}")
    say(f"Key      {key_path(command.out)} (of the register of contributions: keep it, and not with the run)")
    say(f"Keep     {folder / LEDGER} and {folder / PRIVATE}, too, with you: neither is to be published")
    if command.tensorboard:
        say(f"Scalars  tensorboard --logdir {folder / TENSORBOARD}")


def require_sound(command: Train) -> None:
    """Refuse an option that no environment and no recipe could make use of.

    Raises:
        PlanError: the first such option, with its value and what to give instead.
    """
    options.require_least("train", command, users=1, users_per_round=1, participations=1, runs=1)
    options.require_least("train", command, evaluate=2, seed=0, horizon=1, repeat=1, directions=1, episode_length=1)
    for name in sorted(set().union(*OWN.values()) - OWN[command.method]):
        if getattr(command, name) not in (None, False, RECIPES):
            raise options.meaningless("train", name, f"a method that has it, not {command.method}")
    for name, value, sound, expected, remedy in _rules(command):
        if not sound:
            raise refused(f"{options.named(name)} is {value:g}", expected, remedy)
    if command.paper and (command.critic, command.correlation) != (RECIPES, RECIPES):
        raise refused(
            "the published recipe has a critic and a noise of its own",
            "--paper without --critic and --correlation",
            "leave them out",
        )
    if command.critic == "private" and command.settings.get("gamma") == 1:
        raise refused("--critic private with --gamma 1", "a --gamma below 1", "give --gamma 0.99")


def require_rounds(command: Train, users: int) -> int:
    """How many rounds of so many people there are.

    Raises:
        PlanError: not even one, or fewer than a person may take part in.
    """
    rounds = command.users // users
    if rounds < 1:
        raise refused(
            f"--users is {command.users}",
            f"at least the people of one round, {users}",
            "give more --users, or fewer --users-per-round",
        )
    if command.participations > rounds:
        raise refused(
            f"--participations is {command.participations}, of {rounds} round(s)",
            "at most one participation in a round",
            f"give --participations of at most {rounds}, or more --users",
        )
    return rounds


def _rules(command: Train) -> Iterator[tuple[str, float, bool, str, str]]:
    """Option, value, whether it is sound, what is expected, and a value to give instead."""
    most = f"> 0 and at most {MAX_EPSILON:g}"
    yield "epsilon", command.epsilon, 0 < command.epsilon <= MAX_EPSILON, f"a number {most}", "give --epsilon 1"
    for epsilon in command.compare:
        yield "compare", epsilon, 0 < epsilon <= MAX_EPSILON, f"numbers {most}", "give --compare 8 0.5, or leave it out"
    yield "delta", command.delta, 0 < command.delta < 1, "a number in (0, 1)", "give --delta 1e-5"
    for name, value in command.settings.items():
        if name in ("clip_norm", "radius"):
            yield name, value, 0 < value < math.inf, "a finite number > 0", "leave it out"
        elif name == "gamma":
            yield name, value, 0 <= value <= 1, "a number in [0, 1]", "give --gamma 0.99"


def opened(command: Train) -> World:
    """The environment that the command names, with its recipe; nobody is met.

    Raises:
        FileError: the file of bounds cannot be read.
        DataError: the environment is unknown, fails, or has no public bounds.
        PlanError: an option is out of range, or does not fit the environment's recipe.
    """
    require_sound(command)
    name, declared = command.environment, environments.read_bounds(command.bounds)
    if declared is not None and name in TACITS_OWN:
        raise refused(f"--bounds with {name}", f"none: {name} has bounds of its own", "leave --bounds out")
    builtin = own(name) if declared is None else None
    if builtin is not None:
        domain, spec, limit = builtin
    else:
        environment = OwnDomain(name, known=TACITS_OWN)
        domain, spec, limit = environment, environments.public_spec(environment, declared), environment.limit or LONGEST
        environment.try_out(command.seed)
    longest, repeat = command.horizon or limit, command.repeat or 1
    if repeat > longest:
        raise refused(
            f"--repeat is {repeat}", f"at most the longest episode, {longest} steps", "give a smaller --repeat"
        )
    named, general = RECIPES_OF[command.method]
    if builtin is not None and name in named:
        recipe = _named(command, named[name])
    else:
        people = _people(command, general)
        recipe = general(
            spec,
            horizon=longest,
            repeat=repeat,
            rounds=require_rounds(command, people),
            users=people,
            **_hidden(command),
        )
    recipe.policy.require_fit(spec)
    return World(name, domain, spec, recipe, fast=builtin is not None and name not in ROBOTS)


def planned(command: Train, world: World) -> AnyPlan:
    """The calibrated plan; that of the paper is priced, since no noise makes its epsilon finite.

    Raises:
        PlanError: an option does not fit the plan.
    """
    plan = world.recipe.plan
    changes = command.settings | options.given(command, "directions", "episode_length")
    if "clip_norm" in changes:
        changes["most_noise"] = None
    if command.correlation != RECIPES:
        changes["correlation"] = command.correlation
    changes["participations"] = command.participations
    plan = dataclasses.replace(plan, **changes)
    if isinstance(plan, Votes):
        plan.require_room(world.recipe.policy.parameters)
    if command.critic != RECIPES and isinstance(plan, PolicyGradientPlan):
        plan = recipes.with_critic(plan, command.critic)
    population = -(-command.users // command.participations)
    unit = Unit(command.unit, command.relation, population)
    private = plan.calibrate(unit=unit, epsilon=command.epsilon, delta=command.delta)
    if not command.paper:
        return private
    setting: Setting = "mujoco" if world.name in ROBOTS else "dosing" if world.name.startswith("dosing") else "control"
    paper = PolicyGradientPlan.paper(setting, noise_multiplier=private.noise_multiplier)
    people = command.users_per_round or paper.users
    paper = dataclasses.replace(paper, users=people, rounds=require_rounds(command, people), **changes)
    return paper.account(unit=unit, delta=command.delta)


def numbers(command: Train, plan: AnyPlan) -> str:
    """How many are met and how much noise a round gets, beside the promise."""
    met, often = plan.rounds * plan.users, plan.participations
    left = command.users - met
    words = f"{plan.rounds:,} round(s) of {plan.users:,} people: {met:,} "
    words += (
        "are met" if often == 1 else f"contributions, at most {often} of each of {-(-command.users // often):,} people"
    )
    words += f" ({left:,} of the --users do not fill a round)." if left else "."
    if isinstance(plan, Votes) and plan.answers == "randomized":
        return words + f" {plan.responses().chance:.1%} of the votes are turned round."
    if plan.correlation == "tree":  # its noise goes up and down from round to round
        return words
    first, last = (plan.noise_at(k, of=plan.rounds) for k in (0, plan.rounds - 1))
    spread = f"{first:.3g}" if f"{first:.3g}" == f"{last:.3g}" else f"{first:.3g} (first) to {last:.3g} (last)"
    return words + f" Noise of a round: {spread} times the most that one contribution counts."


def _people(command: Train, recipe: Any) -> int:
    """How many people a round has: as asked for, or as the recipe says."""
    return command.users_per_round or int(inspect.signature(recipe).parameters["users"].default)


def _hidden(command: Train) -> dict[str, Any]:
    """The layers that are asked for, if any are."""
    if command.policy is None:
        return {}
    return {"hidden": options.hidden("train", command.policy, "log-linear")}


def _named(command: Train, builder: Callable[..., Recipe]) -> Recipe:
    """The recipe of a known task, with the command's options.

    Raises:
        PlanError: the recipe has no such option.
    """
    takes = inspect.signature(builder).parameters
    chosen: dict[str, Any] = {} if command.repeat is None else {"repeat": command.repeat}
    if command.paper and "hidden" in takes:
        chosen["hidden"] = PAPERS
    chosen |= _hidden(command)
    if unsupported := sorted(set(chosen) - set(takes)):
        words = ", ".join("--policy" if name == "hidden" else f"--{name}" for name in unsupported)
        raise refused(
            f"the recipe of {command.environment} has no choice of {words}",
            "options that the recipe has",
            f"leave {words} out",
        )
    people = _people(command, builder)
    recipe = builder(rounds=require_rounds(command, people), users=people, **chosen)
    if command.horizon is None:
        return recipe
    plan = recipe.plan
    if isinstance(plan, PolicyGradientPlan):
        plan = dataclasses.replace(plan, horizon=-(-command.horizon // recipe.repeat))
    return dataclasses.replace(recipe, horizon=command.horizon, plan=plan)
