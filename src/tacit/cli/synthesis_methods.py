"""What `tacit synthesize --method` means: which options a method has, its plan, and how it learns."""

from __future__ import annotations

import dataclasses
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacit.cli import outcome
from tacit.cli.console import Interrupted, progress
from tacit.cli.folders import RunFolder
from tacit.cli.synthesis_commands import SynthesisMethod, Synthesize
from tacit.data.spec import PublicSpec
from tacit.data.store import read_spec
from tacit.errors import DataError, HardwareError, PlanError
from tacit.hardware import torch_device
from tacit.methods import synthesis
from tacit.methods.synthesis import Plan, Pretraining, Raking
from tacit.methods.synthesis.cut import Cut
from tacit.privacy.release import Release
from tacit.units import Unit

if TYPE_CHECKING:
    from tacit.data.trajectories import Trajectories
    from tacit.privacy.vault import Vault

PRIVORL: SynthesisMethod = "privorl"
_HOMES = {"pate-gan": "pate_gan", "pre-pate-gan": "pate_gan"}
"""Modules of the baselines that are not called like the method."""
_GRAPHICAL: tuple[SynthesisMethod, ...] = ("mst", "aim", "pgm")
_WRITES = ("minari", "h5py", "jinja2", "safetensors")
"""Packages that the dataset, the report and the model are written with."""
_PUBLIC = ("public", "provenance")
_SHARED = ("rows_per_unit",)
_OURS = (*_SHARED, "steps", "clip", "noise_draws", "width", "depth", "learning_rate")
_MARGINALS = (*_SHARED, "bins", *_PUBLIC)
_VOTES = ("steps", "teachers")
_OPTIONS: dict[SynthesisMethod, tuple[str, ...]] = {
    PRIVORL: (*_OURS, "batch", *_PUBLIC),
    "mst": _MARGINALS,
    "aim": _MARGINALS,
    "privsyn": _MARGINALS,
    "pgm": _SHARED,
    "pate-gan": _VOTES,
    "pre-pate-gan": (*_VOTES, *_PUBLIC),
}
"""Options that set fields of the method's plan."""


def require_sound(command: Synthesize) -> None:
    """Refuse options that the method does not have, public records without their provenance, and what is missing here.

    Raises:
        PlanError: the first such option.
        DataError: no row is asked for.
        HardwareError: the device is not there.
        ModuleNotFoundError: a package that the run will need is not there.
    """
    _require_meaning(command)
    if command.rows < 1:
        raise DataError(
            "the number of synthetic rows is below 1",
            where="synthesize",
            expected="--rows of at least 1",
            remedy="choose another number",
        )
    outcome.require_packages(*_WRITES, *(("mbi",) if command.method in _GRAPHICAL else ()))
    try:
        torch_device(command.device, where="--device")
    except HardwareError as error:
        remedy = "give --device cpu, or install a PyTorch that was built for the accelerator"
        raise HardwareError(error.what, where=error.where, expected=error.expected, remedy=remedy) from error


def _require_meaning(command: Synthesize) -> None:
    for name in dict.fromkeys(option for options in _OPTIONS.values() for option in options):
        if getattr(command, name) is not None and name not in _OPTIONS[command.method]:
            raise _meaningless(f"--{name.replace('_', '-')}", f"a method that has it, not {command.method}")
    if command.device != "cpu" and command.method != PRIVORL:
        raise _meaningless("--device", f"{PRIVORL}, the method that an accelerator makes faster")
    if command.paper:
        for name in (*_OURS, "batch"):
            if getattr(command, name) is not None:
                raise _meaningless(f"--{name.replace('_', '-')}", "our settings, not --paper, whose are published")
        if command.method != PRIVORL:
            raise _meaningless("--paper", f"{PRIVORL}, whose settings are published")
    if command.rake and (command.method != PRIVORL or command.paper):
        raise _meaningless("--rake", f"our settings of {PRIVORL}, whose model draws what is weighted")
    if (command.public is None) != (command.provenance is None):
        raise PlanError(
            "public records and their provenance do not go together",
            where="synthesize",
            expected="--public and --provenance, or neither",
            remedy="say where the public records come from and why they hold no private one",
        )
    if command.public_is_apart is not None and (command.public is None or not command.public_is_apart.strip()):
        raise PlanError(
            "--public-is-apart gives no reason, or there are no public records",
            where="synthesize",
            expected="it with --public, and why nobody is on both sides",
            remedy="say why, or leave --public-is-apart out",
        )
    if command.method == "pre-pate-gan" and command.public is None:
        raise PlanError(
            "pre-pate-gan begins with public records, and there are none",
            where="synthesize",
            expected="--public and --provenance",
            remedy="name them, or take pate-gan",
        )


def planned(command: Synthesize) -> Any:
    """The calibrated plan of a command.

    No file is touched, but for the public bounds of the records, and public records, where columns are cut by them.

    Raises:
        PlanError: an option is out of range, or one is missing that another needs.
        DataError: the bounds do not say how large a step is.
        FileError: the folder holds no records.
    """
    unit = Unit(command.unit, command.relation, command.population)
    plan = _ours(command, unit) if command.method == PRIVORL else _theirs(command)
    return plan.calibrate(unit=unit, epsilon=command.epsilon, delta=command.delta)


def learner(method: SynthesisMethod) -> Any:
    """The module with the method's `fit`."""
    if method == PRIVORL:
        return synthesis
    return import_module(f"tacit.methods.synthesis.baselines.{_HOMES.get(method, method)}")


def cuts(method: SynthesisMethod) -> bool:
    """Whether the plan of the method cuts columns by the public bounds of the records."""
    return "teachers" not in _OPTIONS[method] and method != PRIVORL


def baseline_plan(method: SynthesisMethod, cut: Cut | None) -> Any:
    """The plan of a baseline with its own settings, not calibrated; `cut` is for a method that `cuts`."""
    home = learner(method)
    if cut is None or not cuts(method):
        return home.PateGanPlan()
    if method == "pgm":
        return home.PgmPlan.paper(cut.spec)
    return getattr(home, {"mst": "MstPlan", "aim": "AimPlan", "privsyn": "PrivSynPlan"}[method])(cut=cut)


def fitted(
    command: Synthesize, plan: Any, vault: Vault, public: Trajectories | None, run: RunFolder, watch: outcome.Stopwatch
) -> Release[Any]:
    """The release of the method, saved in the run's folder; public records come first.

    Raises:
        Interrupted: a method that keeps no checkpoint was stopped after the ledger was charged.
    """
    from tacit.cli import runs

    learns = learner(command.method)
    start = None
    if public is not None and _begins(command.method):
        with watch.phase("Public pre-training"):
            start = _start(command, learns, plan, public, vault.spec)
    with watch.phase("Training with privacy"):
        if command.method == PRIVORL:
            return runs.train(run, plan, vault, pretrained=start, resume=command.resume, device=command.device)
        before = len(vault.ledger.entries())
        try:
            with progress("Training with privacy") as advance:
                begun = {} if start is None else {"pretrained": start}
                release: Release[Any] = learns.fit(plan, vault, seed=command.seed, progress=advance, **begun)
        except KeyboardInterrupt:
            if len(vault.ledger.entries()) > before:
                path = vault.ledger.path
                raise Interrupted(f"what was charged stays charged (see tacit ledger show {path})") from None
            raise
        return runs.keep(run, release)


def _start(command: Synthesize, learns: Any, plan: Any, public: Trajectories, spec: PublicSpec) -> Any:
    """The starting point from public records that the plan declares."""
    encoder = synthesis.Encoder.from_public(spec, public.columns)
    with progress("Training on the public records") as advance:
        if command.method == PRIVORL:
            return synthesis.pretrain(
                plan, encoder, public.columns, seed=command.seed, progress=advance, device=command.device
            )
        return learns.pretrain_gan(plan, encoder, public.columns, seed=command.seed, progress=advance)


def _ours(command: Synthesize, unit: Unit) -> Plan:
    if command.paper:
        from tacit.cli.synthesis_sources import others

        public = others(command, read_spec(command.data)[0], "public")
        epoch = None if public is None else len(public.columns["rewards"])
        return Plan.paper(population=unit.size, provenance=_provenance(command), epoch=epoch)
    plan = Plan()
    changes = _given(command, plan, _OURS)
    if command.batch is not None:
        changes["rate"] = command.batch / unit.size
    if command.provenance is not None:
        changes["pretraining"] = Pretraining(provenance=_provenance(command))
    if command.rake:
        changes["raking"] = _raking(command)
    return dataclasses.replace(plan, **changes)


def _raking(command: Synthesize) -> Raking:
    """The default tables on the records' bounds, cut by public records if there are any."""
    from tacit.cli.synthesis_sources import others

    spec = read_spec(command.data)[0]
    public = others(command, spec, "public")
    if public is None or command.provenance is None:
        return Raking.of(spec, population=command.population)
    return Raking.of(spec, population=command.population, public=public.columns, provenance=_provenance(command))


def _theirs(command: Synthesize) -> Any:
    plan = baseline_plan(command.method, _cut(command) if cuts(command.method) else None)
    options = tuple(name for name in _OPTIONS[command.method] if name not in ("bins", *_PUBLIC))
    changes = _given(command, plan, options)
    if command.provenance is not None and _begins(command.method):
        changes["pretraining"] = learner(command.method).GanPretraining(provenance=_provenance(command))
    return dataclasses.replace(plan, **changes)


def _cut(command: Synthesize) -> Cut:
    """Public bins of the records' columns: by the bounds, or such that each holds about as many public rows."""
    from tacit.cli.synthesis_sources import others

    spec = read_spec(command.data)[0]
    bins: dict[str, Any] = {} if command.bins is None else {"bins": command.bins}
    public = others(command, spec, "public")
    if public is None or command.provenance is None:
        return Cut(spec, **bins)
    return Cut.from_public(spec, public.columns, provenance=_provenance(command), **bins)


def _provenance(command: Synthesize) -> Any:
    """Where public records come from, as the certificate prints it, with why they are apart where that was declared."""
    if command.public_is_apart is None:
        return command.provenance
    return f"{command.provenance} Declared apart from the private records: {command.public_is_apart}"


def _begins(method: SynthesisMethod) -> bool:
    """Whether the method can begin with public records: its networks are trained on them first."""
    return method in (PRIVORL, "pre-pate-gan")


def _given(command: Synthesize, plan: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Fields of a plan that the command sets; fewer steps have a shorter beginning."""
    changes = {name: value for name in names if (value := getattr(command, name)) is not None}
    if "steps" in changes:
        begins = "warmup" if command.method == PRIVORL else "hold"
        changes[begins] = min(getattr(plan, begins), changes["steps"] // 10)
    return changes


def _meaningless(option: str, expected: str) -> PlanError:
    return PlanError(
        f"{option} has no meaning here",
        where="synthesize",
        expected=f"it with {expected}",
        remedy=f"leave {option} out",
    )
