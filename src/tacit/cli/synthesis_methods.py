"""What `tacit synthesize --method` means: which options a method has, and how it learns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.cli import outcome
from tacit.cli.console import progress
from tacit.cli.folders import RunFolder
from tacit.cli.synthesis_choice import chosen, without_checkpoint
from tacit.cli.synthesis_commands import SynthesisMethod, Synthesize
from tacit.cli.synthesis_plans import DIFFUSED, OPTIONS, PRIVORL, PRIVORL_J, begins, learner, published, unheard
from tacit.data.spec import PublicSpec
from tacit.data.store import read_spec
from tacit.errors import DataError, HardwareError, PlanError
from tacit.hardware import torch_device
from tacit.methods import synthesis
from tacit.privacy.certificate.certificate import Release

if TYPE_CHECKING:
    from tacit.data.trajectories import Trajectories
    from tacit.privacy.vault.vault import Vault

_GRAPHICAL: tuple[SynthesisMethod, ...] = ("mst", "aim", "pgm")
_WRITES = ("minari", "h5py", "jinja2", "safetensors")
"""Packages that the dataset, the report and the model are written with."""
ROWS, TRAJECTORIES = 100_000, 1_000
"""Written where no number is asked for."""


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
    outcome.require_packages(*_WRITES, *(("mbi",) if command.method in _GRAPHICAL else ()))
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
    own = (*OPTIONS[command.method], "trajectories" if command.method == PRIVORL_J else "rows")
    every = dict.fromkeys(option for options in (*OPTIONS.values(), ("trajectories", "rows")) for option in options)
    for name in every:
        if getattr(command, name) is not None and name not in own:
            raise _meaningless(_option(name), f"a method that has it, not {command.method}")
    if command.choose and (command.method != PRIVORL or command.paper):
        raise _meaningless("--choose", f"our settings of {PRIVORL}")
    ours = " or ".join(DIFFUSED)
    if command.device != "cpu" and command.method not in DIFFUSED:
        raise _meaningless("--device", f"{ours}, the methods that an accelerator makes faster")
    decided = published(command.method)
    if command.paper:
        if decided is None:
            raise _meaningless("--paper", f"{ours}, whose settings are published")
        for name in decided:
            if getattr(command, name) is not None:
                raise _meaningless(_option(name), "our settings, not --paper, whose are published")
    if command.surroundings is not None:
        _require_worlds(command)
    if command.no_rake and (decided is None or command.paper):
        raise _meaningless("--no-rake", f"our settings of {ours}, whose models draw what is weighted")
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


def _require_worlds(command: Synthesize) -> None:
    """Refuse surroundings without many public worlds and histograms, or with what sets noisy gradients."""
    name = unheard(command)
    if name is not None:
        raise _meaningless(_option(name), "a run that takes noisy gradients, not --surroundings")
    if command.public is None or command.no_rake or read_spec(command.public)[2] != "id":
        raise PlanError(
            "there are no public worlds to learn from, or no histograms that tell of the private one",
            where="--surroundings",
            expected="--public records whose units are worlds (cities, hospitals), with --provenance and no --no-rake",
            remedy="import the public records with the world as their unit, or leave --surroundings out",
        )


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
    if public is not None and begins(command.method):
        with watch.phase("Public pre-training"):
            start = _start(command, learns, plan.candidates[0] if command.choose else plan, public, vault.spec)
    with watch.phase("Training with privacy"):
        if command.choose:
            return runs.keep(run, chosen(command, plan, vault, start))
        if command.method in DIFFUSED:
            return runs.train(
                run, learns.fit, plan, vault, pretrained=start, resume=command.resume, device=command.device
            )
        with without_checkpoint(vault.ledger), progress("Training with privacy") as advance:
            begun = {} if start is None else {"pretrained": start}
            release: Release[Any] = learns.fit(plan, vault, seed=command.seed, progress=advance, **begun)
        return runs.keep(run, release)


def _start(command: Synthesize, learns: Any, plan: Any, public: Trajectories, spec: PublicSpec) -> Any:
    """The starting point from public records that the plan declares."""
    with progress("Training on the public records") as advance:
        how: dict[str, Any] = {"seed": command.seed, "progress": advance}
        if command.method == PRIVORL_J:
            worlds = public if command.surroundings is None else public.by_unit()
            encoder = learns.public_encoder(spec, worlds)
            return learns.pretrain(plan, encoder, worlds, device=command.device, **how)
        encoder = synthesis.Encoder.from_public(spec, public.columns)
        if command.method == PRIVORL:
            return learns.pretrain(plan, encoder, public.columns, device=command.device, **how)
        return learns.pretrain_gan(plan, encoder, public.columns, **how)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _meaningless(option: str, expected: str) -> PlanError:
    return PlanError(
        f"{option} has no meaning here",
        where="synthesize",
        expected=f"it with {expected}",
        remedy=f"leave {option} out",
    )
