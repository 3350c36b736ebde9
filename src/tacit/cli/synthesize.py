"""`tacit synthesize`: private records in, a synthetic dataset with its certificate out."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tacit.cli.commands import Synthesize
from tacit.cli.console import progress, say
from tacit.cli.folders import RunFolder, require_free
from tacit.errors import DataError, PlanError
from tacit.methods.synthesis import Plan, Pretraining
from tacit.units import Unit

if TYPE_CHECKING:
    from tacit.data.trajectories import Trajectories
    from tacit.methods.synthesis.pretraining import Pretrained

_OVERRIDES = ("steps", "clip", "rows_per_unit", "noise_draws", "width", "depth", "learning_rate")


def synthesize(command: Synthesize) -> None:
    """Plan, promise, train, sample, report.

    Raises:
        TacitError: see the exit codes of `tacit.cli.app.main`; nothing is spent before training begins.
    """
    if not command.dry_run:
        require_free(command.out, resume=command.resume)
    with progress("Calibrating the noise"):
        plan = planned(command)
    say(str(plan))
    if command.dry_run:
        say("Dry run: no file was opened and nothing was spent.")
        return
    settings = {k: v for k, v in dataclasses.asdict(command).items() if k not in ("resume", "dry_run", "out")}
    data, public = _open(command)
    with RunFolder.attempt(command.out, "synthesize", settings, resume=command.resume) as run:
        _produce(command, plan, data, public, run)


def planned(command: Synthesize) -> Plan:
    """The calibrated plan of a command; touches no file.

    Raises:
        PlanError: an option is out of range, or one is missing that another needs.
    """
    if (command.public is None) != (command.provenance is None):
        raise PlanError(
            "public records and their provenance do not go together",
            where="synthesize",
            expected="--public and --provenance, or neither",
            remedy="say where the public records come from and why they hold no private one",
        )
    unit = Unit(command.unit, command.relation, command.population)
    plan = Plan()
    changes: dict[str, Any] = {k: v for k in _OVERRIDES if (v := getattr(command, k)) is not None}
    if command.batch is not None:
        changes["rate"] = command.batch / unit.size
    if command.steps is not None:
        changes["warmup"] = min(plan.warmup, command.steps // 10)
    if command.provenance is not None:
        changes["pretraining"] = Pretraining(provenance=command.provenance)
    plan = dataclasses.replace(plan, **changes)
    return plan.calibrate(unit=unit, epsilon=command.epsilon, delta=command.delta)


def _open(command: Synthesize) -> tuple[Trajectories, Trajectories | None]:
    """The private records and the public ones; whatever is wrong with them is found here."""
    from tacit.cli.budget import require_unit
    from tacit.data.trajectories import Trajectories
    from tacit.methods.synthesis import Encoder

    if command.rows < 1:
        raise DataError(
            "the number of synthetic rows is below 1",
            where="synthesize",
            expected="--rows of at least 1",
            remedy="choose another number",
        )
    require_unit(command)
    with progress("Opening the records"):
        data = Trajectories.open(command.data)
        if command.public is None:
            Encoder.from_bounds(data.spec)
            return data, None
        public = Trajectories.open(command.public)
    if _shape(public) != _shape(data) or command.public.resolve() == command.data.resolve():
        raise DataError(
            "the public records are the private ones, or of other fields",
            where=str(command.public),
            expected="other records, with observations and actions of the same kind and width",
            remedy="choose public records of the same problem",
        )
    return data, public


def _produce(command: Synthesize, plan: Plan, data: Trajectories, public: Trajectories | None, run: RunFolder) -> None:
    from tacit.cli import outcome, runs
    from tacit.cli.budget import open_ledger
    from tacit.measure.report import tables
    from tacit.privacy.vault import Vault

    watch = outcome.Stopwatch()
    if run.read()["finished"]:
        say("The run was finished already.")
    else:
        if runs.trained(run):
            release = runs.load(run)
        else:
            pretrained = None if public is None else _pretrained(plan, data, public, seed=command.seed)
            assert plan.unit is not None
            with open_ledger(command, plan.unit) as ledger:
                vault = Vault(data, ledger)
                release = runs.train(run, plan, vault, pretrained=pretrained, resume=command.resume)
        rows = runs.publish(run, release, command.rows, seed=command.seed)
        with progress("Measuring and writing the report"):
            # Private records are never compared with: only simulated ones may be shown.
            reference = data.columns if data.simulated else None
            sections = tables.sections(data.spec, rows, reference, seed=command.seed)
            costs = (runs.size_of(release), *(watch.costs() if data.simulated else ()))
            outcome.finish(run, runs.report(release, run.path.name, {**sections, "costs": costs}))
    runs.closing(run)


def _pretrained(plan: Plan, data: Trajectories, public: Trajectories, *, seed: int) -> Pretrained:
    """The starting point from public records that the plan declares."""
    from tacit.methods.synthesis import Encoder, pretrain

    encoder = Encoder.from_public(data.spec, public.columns)
    with progress("Training on the public records") as advance:
        return pretrain(plan, encoder, public.columns, seed=seed, progress=advance)


def _shape(data: Trajectories) -> tuple[object, ...]:
    return tuple((type(space).__name__, space.size) for space in (data.spec.observation, data.spec.action))
