"""`tacit synthesize`: private records in, a synthetic dataset with its certificate out.

What a dry run does not need, PyTorch and the report, is imported where it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from tacit.cli import options, shards, synthesis_runs
from tacit.cli.console import Console, complain, progress, say
from tacit.cli.options import Missing, given
from tacit.cli.plan_declarations import Synthesize
from tacit.cli.synthesis_plan import (
    CLINIC,
    DIFFUSED,
    PRIVORL,
    PRIVORL_J,
    Sources,
    begins,
    chosen,
    fit_of,
    opened,
    options_of,
    plan_class,
    planned,
    published,
    require_there,
    unheard,
    without_checkpoint,
)
from tacit.data.spec import PublicSpec
from tacit.data.store import read_spec
from tacit.data.trajectories import Trajectories
from tacit.envs.rollouts import PlaneWorld
from tacit.errors import DataError, HardwareError, PlanError
from tacit.evaluation.sequences import Sequences
from tacit.hardware import torch_device
from tacit.methods import list_names, synthesis
from tacit.methods.synthesis import trajectories
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.vault.vault import Vault
from tacit.study import folder as run_folder
from tacit.study import simulators
from tacit.study.account import Account, Words
from tacit.study.folder import RunFolder, Stopwatch, finish, require_free, say_private, settings_of
from tacit.units import Unit

refused, meaningless = partial(options.refused, "synthesize"), partial(options.meaningless, "synthesize")
Columns = Mapping[str, np.ndarray[Any, Any]]
LOOK = "closeness of the synthetic rows to the records"
"""Why the curator looks at the records after a release, as the ledger has it."""
_NEEDS = ("torch", "jinja2", "safetensors")
"""Packages that a model is trained with, and the report and the model are written with."""
ROWS, TRAJECTORIES = 100_000, 1_000
"""Written where no number is asked for."""
SYMPTOMS = (0, "symptoms")
"""What a time line of the clinic shows."""


def synthesize(command: Synthesize) -> None:
    """Check what is cheap, plan, promise, train, sample, report.

    Raises:
        TacitError: see the exit codes of `tacit.cli.app.main`; nothing is spent before training begins.
        ModuleNotFoundError: a package is missing.
    """
    ranks = shards.joined()
    if ranks is not None and ranks.rank:
        shards.serve(command.data, ranks)
        return
    with shards.Lead(ranks).on_its_way() as lead:
        _lead(command, lead)


def _lead(command: Synthesize, lead: shards.Lead) -> None:
    synthesis_runs.require_folder(command.out, "synthesize")
    if lead.ranks is not None and command.nonprivate_diagnostics:
        raise meaningless("--nonprivate-diagnostics", "it with one process: none of several holds all records")
    if not command.dry_run:
        require_free(command.out, resume=command.resume)
    account = _account(command)
    require_sound(command)
    require_there(command)
    paid = command.resume and (command.out / synthesis_runs.MODEL).exists()
    if not paid:
        account.require_alike()
    with progress("Calibrating the noise"):
        plan = planned(command)
    if not paid:
        account.require_payable(plan, resumed=command.resume)
    say(str(plan))
    if command.dry_run:
        say("Dry run: no private record was read and nothing was spent.")
        return
    sources = opened(command, lead.open, whole=lead.ranks is None)
    settings = settings_of(command, "format")
    with RunFolder.attempt(command.out, "synthesize", settings, resume=command.resume) as run:
        try:
            _produce(command, plan, sources, run, lead)
        except ModuleNotFoundError:
            if synthesis_runs.trained(run):
                complain("The release is saved and nothing is lost: install the package and repeat with --resume.")
            raise


def _account(command: Synthesize) -> Account:
    unit = Unit(command.unit, command.relation, command.population)
    return command.account(unit, Words(f"{command.unit}s", "synthesis", "learned from", "synthesize"))


def _produce(command: Synthesize, plan: Any, sources: Sources, run: RunFolder, lead: shards.Lead) -> None:
    watch = Stopwatch()
    if run.read()["finished"]:
        say("The run was finished already.")
        synthesis_runs.closing(run)
        return
    looks = command.nonprivate_diagnostics and not sources.data.simulated
    if synthesis_runs.trained(run) and not looks:
        release = synthesis_runs.load(run)
        rows = _rows(command, release, run, watch)
    else:
        with (
            _account(command).opened(run) as ledger,
            lead.vault(sources.data, ledger, command.tracker) as vault,
        ):
            if synthesis_runs.trained(run):
                release = synthesis_runs.load(run)
            else:
                release = fitted(command, plan, vault, sources.public, run, watch)
            rows = _rows(command, release, run, watch)
            if looks:
                _look(command, vault, rows.columns, sources, run)
    with progress("Measuring and writing the report"):
        contents = sections(command, release, rows, sources, watch)
        costs = (synthesis_runs.size_of(release), *(watch.costs() if sources.shown is not None else ()))
        finish(run, synthesis_runs.report(release, run.path.name, wanted(command), contents, costs))
    synthesis_runs.closing(run)


def _rows(command: Synthesize, release: Release[Any], run: RunFolder, watch: Stopwatch) -> Sequences:
    sampling = {"device": command.device} if command.method in DIFFUSED else {}
    with watch.phase("Sampling"):
        return synthesis_runs.publish(run, release, wanted(command), seed=command.seed, form=command.format, **sampling)


def _look(command: Synthesize, vault: Vault, rows: Columns, sources: Sources, run: RunFolder) -> None:
    """The curator's own figures, under private/, noted in the ledger."""
    from tacit.evaluation.report import tables

    run.inside("private")
    held_out = None if sources.holdout is None else sources.holdout.columns

    def look(real: Columns) -> dict[str, float]:
        return tables.curators(sources.data.spec, rows, real, held_out, seed=command.seed)

    vault.nonprivate(look, reason=LOOK, folder=run.path)
    say_private(run, Console())


def require_sound(command: Synthesize) -> None:
    """Refuse options that the method does not have, public records without their provenance, and what is missing here.

    Raises:
        PlanError: the first such option.
        DataError: no row is asked for.
        HardwareError: the device is not there.
        ModuleNotFoundError: a package that the run will need is not there.
    """
    _require_meaning(command)
    if wanted(command) < 1:
        what, option = ("trajectories", "--trajectories") if command.method == PRIVORL_J else ("rows", "--rows")
        raise DataError(
            f"the number of synthetic {what} is below 1",
            where="synthesize",
            expected=f"{option} of at least 1",
            remedy="choose another number",
        )
    run_folder.require_packages(*_NEEDS, *getattr(plan_class(command.method), "needs", ()))
    what = "trajectories" if command.method == PRIVORL_J else "rows"
    synthesis_runs.require_form(command.format, wanted(command), what, "synthesize")
    if command.device == "cpu":
        return
    try:
        torch_device(command.device, where="--device")
    except HardwareError as error:
        remedy = "give --device cpu, or install a PyTorch that was built for the accelerator"
        raise HardwareError(error.what, where=error.where, expected=error.expected, remedy=remedy) from error


def wanted(command: Synthesize) -> int:
    """How many synthetic trajectories, or else rows, a run writes."""
    if command.method == PRIVORL_J:
        return TRAJECTORIES if command.trajectories is None else command.trajectories
    return ROWS if command.rows is None else command.rows


def _require_meaning(command: Synthesize) -> None:
    allowed = (*options_of(command.method), "trajectories" if command.method == PRIVORL_J else "rows")
    every = (*(name for method in list_names("synthesize") for name in options_of(method)), "trajectories", "rows")
    for name in given(command, *every):
        if name not in allowed:
            raise meaningless(name, f"it with a method that has it, not {command.method}")
    if command.choose and (command.method != PRIVORL or command.paper):
        raise meaningless("--choose", f"it with our settings of {PRIVORL}")
    ours = " or ".join(DIFFUSED)
    if command.device != "cpu" and command.method not in DIFFUSED:
        raise meaningless("--device", f"it with {ours}, the methods that an accelerator makes faster")
    decided = published(command.method)
    if command.paper:
        if decided is None:
            raise meaningless("--paper", f"it with {ours}, whose settings are published")
        for name in decided:
            if getattr(command, name) is not None:
                raise meaningless(name, "it with our settings, not --paper, whose are published")
    if "local_context" in command.settings:
        _require_worlds(command)
    if command.no_rake and (decided is None or command.paper):
        raise meaningless("--no-rake", f"it with our settings of {ours}, whose models draw what is weighted")
    if command.provenance is not None and command.public is None and command.method != "pre-pate-gan":
        raise meaningless("--provenance", "it with --public")
    options.require_given("synthesize", missing(command))


def missing(command: Synthesize) -> list[Missing]:
    """What a command needs besides the options that every command needs."""
    absent = []
    if command.method == "pre-pate-gan" and command.public is None:
        absent.append(Missing("--public", "the records that pre-pate-gan begins with", "name them, or take pate-gan"))
    if command.provenance is None and (command.public is not None or absent):
        expected = "where the public records come from and why they hold no private one"
        absent.append(Missing("--provenance", expected, "say it: it is printed in the certificate"))
    return absent


def _require_worlds(command: Synthesize) -> None:
    """Refuse local context without many public worlds and histograms, or with what sets noisy gradients."""
    name = unheard(command)
    if name is not None:
        raise meaningless(name, "it with a run that takes noisy gradients, not --local-context")
    if command.public is None or command.no_rake or read_spec(command.public)[2] != "id":
        what = "there are no public worlds to learn from, or no histograms that tell of the private one"
        expected = "--public records whose units are worlds (cities, hospitals), with --provenance and no --no-rake"
        remedy = "import the public records with the world as their unit, or leave --local-context out"
        raise PlanError(what, where="--local-context", expected=expected, remedy=remedy)


def fitted(
    command: Synthesize, plan: Any, vault: Vault, public: Trajectories | None, run: RunFolder, watch: Stopwatch
) -> Release[Any]:
    """The release of the method, saved in the run's folder; public records come first.

    Raises:
        Interrupted: a method that keeps no checkpoint was stopped after the ledger was charged.
    """
    fit = fit_of(command.method)
    starts: dict[Any, Any] = {}
    if public is not None and begins(command.method):
        with watch.phase("Public pre-training"):
            for one in plan.candidates if command.choose else (plan,):
                if one.pretraining not in starts:
                    starts[one.pretraining] = _start(command, one, public, vault.spec)
    with watch.phase("Training with privacy"):
        if command.choose:
            return synthesis_runs.keep(run, chosen(command, plan, vault, starts))
        start = starts.get(plan.pretraining) if starts else None
        if command.method in DIFFUSED:
            return synthesis_runs.train(
                run, fit, plan, vault, pretrained=start, resume=command.resume, device=command.device
            )
        with without_checkpoint(vault.ledger), progress("Training with privacy") as advance:
            begun = {} if start is None else {"pretrained": start}
            release: Release[Any] = fit(plan, vault, seed=command.seed, progress=advance, **begun)
        return synthesis_runs.keep(run, release)


def _start(command: Synthesize, plan: Any, public: Trajectories, spec: PublicSpec) -> Any:
    """The starting point from public records that the plan declares."""
    with progress("Training on the public records") as advance:
        how: dict[str, Any] = {"seed": command.seed, "progress": advance}
        if command.method == PRIVORL_J:
            worlds = public.by_unit() if "local_context" in command.settings else public
            encoder = trajectories.public_encoder(spec, worlds)
            return trajectories.pretrain(plan, encoder, worlds, device=command.device, **how)
        encoder = synthesis.Encoder.from_public(spec, public.columns)
        if command.method == PRIVORL:
            return synthesis.pretrain(plan, encoder, public.columns, device=command.device, **how)
        from tacit.methods.synthesis.baselines.pate_gan import pretrain_gan

        return pretrain_gan(plan, encoder, public.columns, **how)


def sections(
    command: Synthesize, release: Release[Any], synthetic: Sequences, sources: Sources, watch: Stopwatch
) -> dict[str, Any]:
    """All of them: private records are never compared with, only simulated ones."""
    from tacit.evaluation.neighbours import nearest_records
    from tacit.evaluation.report import tables
    from tacit.evaluation.report.evidence import Cost

    data = sources.data
    real = None if sources.shown is None else sources.shown.columns
    contents = tables.sections(data.spec, synthetic.columns, real, seed=command.seed)
    world = None if command.world in (None, CLINIC) else simulators.plane_world(command.world)
    scores = contents.get("scores", ())
    if world is not None:
        scores += tables.physics(world, synthetic.columns, ())
        panels: list[tuple[str, Any, tables.Table]] = [("Synthetic rows", "synthetic", synthetic.columns)]
        if real is not None:
            panels.insert(0, ("Protected rows", "reference", real))
        contents["map"] = tables.plane_map(world, panels, seed=command.seed)
    if command.method == PRIVORL_J:
        whole = _whole(command, release, synthetic, sources, world)
        contents["whole_trajectories"], scores = whole["whole_trajectories"], scores + whole["scores"]
    contents["scores"] = scores
    if real is None:
        return contents
    contents["embedding"] = tables.picture(real, synthetic.columns, seed=command.seed)
    if sources.holdout is not None:
        contents["nearest"] = nearest_records(synthetic.columns, real, sources.holdout.columns, seed=command.seed)
    cost = Cost(command.method, "synthetic", tuple(watch.phases.items()), watch.memory())
    return {**contents, "synthesizers": (cost,)}


def _whole(
    command: Synthesize, release: Release[Any], synthetic: Sequences, sources: Sources, world: PlaneWorld | None
) -> dict[str, Any]:
    from tacit.evaluation.report import tables

    data, public, shown = sources.data, sources.public, sources.shown
    line = {"state": SYMPTOMS} if command.world == CLINIC else {}
    return tables.whole_trajectories(
        data.spec,
        synthetic,
        None if shown is None else Sequences.of(shown),
        None if public is None else Sequences.of(public),
        longest=release.value.plan.longest,
        seed=command.seed,
        world=world,
        **line,
    )
