"""`tacit train`: simulated people in, a policy with its certificate out."""

from __future__ import annotations

import dataclasses
import math
from importlib import import_module
from pathlib import Path

from tacit import hub
from tacit.cli import comparison, outcome, train_words
from tacit.cli.console import progress, say
from tacit.cli.folders import RunFolder, require_free
from tacit.cli.policy_commands import Train
from tacit.cli.train_options import REPORTS, require_sound
from tacit.cli.worlds import World
from tacit.errors import FileError, LedgerError
from tacit.evaluation.report import PolicyReport
from tacit.evaluation.report.learning import Role
from tacit.methods.policy_gradient import Learned, Plan, fit
from tacit.methods.policy_gradient.plan import POLICY
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.register import Register
from tacit.privacy.vault import plan as plans
from tacit.privacy.vault.user_vault import UserVault

FOLDER, CHECKPOINT, TENSORBOARD = "policy", "checkpoint", "tensorboard"
LEDGER, PRIVATE, REGISTER = "ledger", "private", "register"
SIMULATED = "The people are simulated: nobody is behind them, and the certificate and the report say so."
PROMISES_NOTHING = (
    "NOT PRIVATE: the published recipe shares a critic without noise, and nothing is promised to anybody."
)
Setting = tuple[str, Role, Plan]
"""A row of the report: its label, what it is, its plan."""
FRESH = 1_000_000
"""How far seeds lie apart: those of the training's people, of comparisons' and of those who are only played with."""


def train(command: Train) -> None:
    """Plan, promise, meet, release, report.

    Raises:
        TacitError: see the exit codes of `tacit.cli.app.main`; nothing is spent before people are met.
    """
    left_out = {"resume", "dry_run", "out"} | REPORTS
    settings = {k: v for k, v in dataclasses.asdict(command).items() if k not in left_out}
    require_sound(command)
    if not command.dry_run:
        require_free(command.out, resume=command.resume)
        if (command.out / "run.json").exists():
            RunFolder(command.out).require_same("train", settings)
        _require_register(command)
    if command.tensorboard:
        import_module("tensorboard")  # a missing package is told before anybody is met
    with progress("Opening the environment"):
        world = train_words.opened(command)
    with progress("Calibrating the noise"):
        plan = train_words.planned(command, world)
        shown = _settings(command, world, plan)  # what the report needs is refused before anybody is met, too
    say(str(plan))
    if math.isinf(plan.epsilon or 0.0):
        say(PROMISES_NOTHING)
    say(train_words.numbers(command, plan))
    say(SIMULATED)
    if command.dry_run:
        say("Dry run: nobody was met and nothing was spent.")
        return
    with RunFolder.attempt(command.out, "train", settings, resume=command.resume) as run:
        _produce(command, world, plan, shown, run)


def key_path(out: Path) -> Path:
    """Where the key of the register lies: beside the folder of the run, never in it."""
    out = out.resolve()
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
        raise FileError(
            "there is the key of an earlier run's register",
            where=str(key),
            expected="no key beside the folder of a new run",
            remedy="remove it if that run's folder is gone for good, or choose another folder",
        )
    if not resumed or register.exists() or (command.out / FOLDER).exists():
        return
    if key.exists() or (ledger.exists() and Ledger.read(ledger).plans()):
        raise LedgerError(
            "the register is missing, and without it nobody can tell who contributed",
            where=str(register),
            expected="the register that the run was begun with",
            remedy="restore it, at its newest",
        )


def _produce(command: Train, world: World, plan: Plan, shown: list[Setting], run: RunFolder) -> None:
    watch = outcome.Stopwatch()
    if run.read()["finished"]:
        say("The run was finished already.")
    else:
        release = hub.load(run.inside(FOLDER)) if run.inside(FOLDER).exists() else _learn(command, world, plan, run)
        outcome.certify(run, release.certificate)
        report = _report(command, world, shown, release, run.path.name)
        if command.tensorboard:
            from tacit.cli import scalars

            run.remove(TENSORBOARD)
            scalars.write(run.inside(TENSORBOARD), release, report)
        size = ("Parameters", f"{release.value.policy.parameters:,}")
        outcome.finish(run, dataclasses.replace(report, costs=(size, *watch.costs())))
    _closing(run, command)


def _learn(command: Train, world: World, plan: Plan, run: RunFolder) -> Release[Learned]:
    """The run that is released; taken up where it was interrupted."""
    assert plan.unit is not None
    assert plan.epsilon is not None
    assert plan.delta is not None
    run.inside(PRIVATE).mkdir(exist_ok=True)
    budget = plan.epsilon if math.isfinite(plan.epsilon) else command.epsilon  # nothing else is ever charged
    with (
        Ledger(run.inside(LEDGER), plan.unit, epsilon=budget, delta=plan.delta) as ledger,
        Register(run.inside(PRIVATE) / REGISTER, key=key_path(command.out)) as register,
        progress("Meeting people") as advance,
    ):
        identity = plans.plan_id(plan)
        known = any(summary.id == identity for summary in ledger.plans())
        met = ledger.claimed(identity, POLICY) if known else 0
        users = world.users(plan, seed=command.seed, meetings=met, population=plan.unit.size)
        release = fit(
            plan,
            UserVault(users, ledger, register),
            world.recipe.policy,
            seed=command.seed,
            folder=run.inside(CHECKPOINT),
            resume=command.resume,
            progress=advance,
        )
    hub.save(release, run.inside(FOLDER), notes=world.notes())
    run.remove(CHECKPOINT)
    return release


def _report(command: Train, world: World, shown: list[Setting], release: Release[Learned], title: str) -> PolicyReport:
    """Returns on people whom no training met: of the release, and of whatever it is compared with."""
    seed, rows, curves, error = command.seed + FRESH, [], [], 0.0
    for label, role, plan in shown:
        value = release.value
        if role != "released":
            with progress(f"Training {command.runs} more ({label})") as advance:
                value = comparison.repeated(world, plan, runs=command.runs, seed=seed, advance=advance)
        with progress(f"Playing with {command.evaluate:,} fresh people ({label})"):
            row, curve, spread = comparison.measured(
                world, value, label, role, evaluate=command.evaluate, seed=seed + FRESH
            )
        rows.append(row)
        curves.append(curve)
        error = spread if role == "released" else error
    plan = release.value.plan
    return PolicyReport(
        title=title,
        certificate=release.certificate.to_json(),
        verify=outcome.VERIFY,
        environment=world.name,
        people=min(plan.users * plan.rounds, plan.unit.size if plan.unit is not None else plan.users * plan.rounds),
        evaluated=command.evaluate,
        error=error,
        outcomes=tuple(rows),
        curves=tuple(curves),
    )


def _settings(command: Train, world: World, released: Plan) -> list[Setting]:
    """What the report shows, the largest epsilon first.

    The published recipe is compared with this library's, whose guarantee holds, and the labels say so.
    """
    told = "the published recipe, released" if command.paper else f"epsilon {command.epsilon:g}, released"
    of = "corrected recipe, " if command.paper else ""
    private: list[tuple[float, str, Role, Plan]] = [(command.epsilon, told, "released", released)]
    guarded = dataclasses.replace(command, paper=False)
    for epsilon in sorted(set(command.compare)):
        plan = train_words.planned(dataclasses.replace(guarded, epsilon=epsilon), world)
        private.append((epsilon, f"{of}epsilon {epsilon:g}", "compared", plan))
    rows: list[Setting] = [(label, role, plan) for _, label, role, plan in sorted(private, key=lambda one: -one[0])]
    if not world.fast:
        return rows
    plan = train_words.planned(guarded, world) if command.paper else released
    ceiling = "corrected recipe without noise" if command.paper else "the same without noise"
    return [
        (ceiling, "ceiling", comparison.without_noise(plan)),
        *rows,
        (f"{of}noise alone", "floor", comparison.noise_alone(plan)),
    ]


def _closing(run: RunFolder, command: Train) -> None:
    folder = run.path
    say()
    say(f"Open     {folder / outcome.REPORT}")
    say(f"Verify   tacit certificate verify {folder / outcome.CERTIFICATE}")
    say(f"Play     tacit play {folder / FOLDER}")
    say(f"Budget   tacit ledger show {folder / LEDGER}")
    say(f"Key      {key_path(command.out)} (of the register of contributions: keep it, and not with the run)")
    say(f"Keep     {folder / LEDGER} and {folder / PRIVATE}, too, with you: neither is to be published")
    if command.tensorboard:
        say(f"Scalars  tensorboard --logdir {folder / TENSORBOARD}")
