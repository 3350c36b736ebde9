"""What `tacit synthesize` is asked for: its options, a calibrated plan or several to choose from, and the records."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args

from tacit.cli import options
from tacit.cli.console import Console, progress, say
from tacit.cli.options import given
from tacit.cli.plan_declarations import SynthesisMethod, Synthesize
from tacit.data.spec import Box, PublicSpec
from tacit.data.store import read_spec
from tacit.data.trajectories import Trajectories
from tacit.errors import DataError, PlanError
from tacit.methods import find_method, load, selection, synthesis
from tacit.methods.synthesis import Curiosity, Pretraining, Raking, TransitionsPlan
from tacit.methods.synthesis.baselines.pate_gan_plan import GanPretraining
from tacit.methods.synthesis.discretisation import Discretisation
from tacit.methods.synthesis.trajectories.plan import TrajectoriesPlan
from tacit.privacy.certificate.certificate import Release
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.vault.vault import Vault
from tacit.study import simulators
from tacit.study.account import require_unit
from tacit.study.narration import Interrupted
from tacit.units import Unit
from tacit.validation import check

PRIVORL: Literal["privorl"] = "privorl"
PRIVORL_J: Literal["privorl-j"] = "privorl-j"
DIFFUSED: tuple[SynthesisMethod, ...] = (PRIVORL, PRIVORL_J)
"""tacit's own methods: they train networks by noisy gradients, keep checkpoints and use accelerators."""
PUBLIC = ("public", "provenance")
Option = Literal["public", "holdout"]
CLINIC = "clinic"
"""The one world that is no maze."""
_LENGTHS = ("longest", "episodes_per_unit")
_NOISY = ("steps", "expected_batch_size", "clip_norm", "noise_multiplicity", "fragments_per_unit", "learning_rate")
"""What has no meaning where no noisy gradient is taken."""
NAMES: dict[str, Callable[[str], Any]] = {
    "steps": int,
    "expected-batch-size": float,
    "clip-norm": float,
    "rows-per-unit": int,
    "noise-multiplicity": int,
    "learning-rate": float,
    "curiosity-rate": float,
}
"""Settings that may be chosen, and what their values are."""


def options_of(method: SynthesisMethod) -> tuple[str, ...]:
    """Options that belong to some methods only, this one among them."""
    return (
        *options.offered("synthesize", method),
        *(("expected_batch_size",) if method in DIFFUSED else ()),
        *(("curiosity_rate",) if method == PRIVORL else ()),
        *(PUBLIC if find_method("synthesize", method).public else ()),
    )


def published(method: SynthesisMethod) -> tuple[str, ...] | None:
    """Options that `--paper` decides; None for a method without published settings."""
    if method not in DIFFUSED:
        return None
    return tuple(name for name in options_of(method) if name not in (*_LENGTHS, *PUBLIC))


def unheard(command: Synthesize) -> str | None:
    """An option that is given and has no meaning beside --local-context."""
    return next(iter(given(command, *_NOISY)), None) if "local_context" in command.settings else None


def planned(command: Synthesize) -> Any:
    """The calibrated plan of a command.

    No file is touched, but for the public bounds of the records, and public records, where columns are cut by them.

    Raises:
        PlanError: an option is out of range, or one is missing that another needs.
        DataError: the bounds do not say how large a step is.
        FileError: the folder holds no records.
    """
    unit = Unit(command.unit, command.relation, command.population)
    sensible = math.isfinite(command.epsilon) and command.epsilon > 0
    check("epsilon", command.epsilon, sensible, "a finite number > 0")
    plan: Any
    match command.method:
        case "privorl" if command.choose:
            plan = plan_of(command, _transitions, _tables(command))
        case "privorl":
            plan = _transitions(command)
        case "privorl-j":
            plan = _trajectories(command)
        case _:
            plan = _theirs(command)
    return plan.calibrate(unit=unit, epsilon=command.epsilon, delta=command.delta)


def plan_class(method: SynthesisMethod) -> Any:
    """The class of the method's plan."""
    return load(find_method("synthesize", method).plan)


def fit_of(method: SynthesisMethod) -> Any:
    """The function that runs the method's plan."""
    return load(find_method("synthesize", method).fit)


def discretises(method: SynthesisMethod) -> bool:
    """Whether the plan of the method cuts columns by the public bounds of the records."""
    return "discretisation" in plan_class(method).__dataclass_fields__


def baseline_plan(method: SynthesisMethod, discretisation: Discretisation | None) -> Any:
    """The plan of a baseline with its own settings, not calibrated; a method that `discretises` needs bins."""
    plan = plan_class(method)
    return plan.of(discretisation) if discretises(method) else plan()


def begins(method: SynthesisMethod) -> bool:
    """Whether the method can begin with public records: its networks are trained on them first."""
    return find_method("synthesize", method).public == "training"


def several(command: Synthesize) -> bool:
    """Whether a unit owns several records: it is not each row, and not one row of it is taken at a time."""
    return read_spec(command.data)[2] != "transition" and command.settings.get("rows_per_unit") != 1


def _transitions(command: Synthesize) -> TransitionsPlan:
    if command.paper:
        public = others(command, read_spec(command.data)[0], "public")
        epoch = None if public is None else len(public.columns["rewards"])
        return TransitionsPlan.paper(population=command.population, provenance=command.provenance, epoch=epoch)
    pretraining = _pretraining(command)
    plan = TransitionsPlan(pretraining=pretraining)
    if several(command):
        plan = TransitionsPlan.for_people(
            population=command.population, epsilon=command.epsilon, pretraining=pretraining
        )
    return dataclasses.replace(plan, **_changes(command, plan), raking=_raking(command))


def _pretraining(command: Synthesize) -> Pretraining | None:
    rate = command.curiosity_rate
    if command.provenance is None:
        if rate is not None:
            raise options.meaningless("synthesize", "--curiosity-rate", "it with --public, whose training it changes")
        return None
    return Pretraining(provenance=command.provenance, curiosity=Curiosity(rate=rate) if rate else None)


def _trajectories(command: Synthesize) -> TrajectoriesPlan:
    if command.paper:
        paper = TrajectoriesPlan.paper(population=command.population, provenance=command.provenance)
        return dataclasses.replace(paper, **given(command, *_LENGTHS))
    settings = command.settings
    plan = TrajectoriesPlan.for_people(
        population=command.population,
        provenance=command.provenance,
        raking=_raking(command),
        longest=settings.get("longest", TrajectoriesPlan.longest),
        episodes=settings.get("episodes_per_unit", TrajectoriesPlan.episodes_per_unit),
        horizon=settings.get("horizon"),
        network=settings.get("network", TrajectoriesPlan.network),
        local_context=settings.get("local_context"),
    )
    changes = _changes(command, plan)
    if "steps" in changes:
        changes["start_steps"] = max(1, changes["steps"] // 2)
        changes["warmup"] = min(plan.warmup, changes["start_steps"] // 10)
    return dataclasses.replace(plan, **changes)


def _changes(command: Synthesize, plan: TransitionsPlan | TrajectoriesPlan) -> dict[str, Any]:
    """Fields of one of tacit's own plans that the command sets."""
    shapes = (*_LENGTHS, "horizon", "network", "local_context")  # what a plan of fragments was made with
    changes = {name: value for name, value in command.settings.items() if name not in shapes}
    if command.expected_batch_size is not None:
        changes["sampling_rate"] = command.expected_batch_size / command.population
    if "steps" in changes:  # fewer steps have a shorter beginning
        changes["warmup"] = min(plan.warmup, changes["steps"] // 10)
    return changes


def _raking(command: Synthesize) -> Raking | None:
    """The default tables on the records' bounds, cut by public records if there are any; None where none can be."""
    if command.no_rake or not _cuttable(read_spec(command.data)[0]):
        return None
    return _tables(command)


def _tables(command: Synthesize) -> Raking:
    spec = read_spec(command.data)[0]
    public = others(command, spec, "public")
    if public is None or command.provenance is None:
        return Raking.of(spec, population=command.population)
    return Raking.of(spec, population=command.population, public=public.columns, provenance=command.provenance)


def _cuttable(spec: PublicSpec) -> bool:
    """Whether the bounds say how large a step is, by which its bins are cut."""
    return spec.difference is not None or not isinstance(spec.observation, Box)


def _theirs(command: Synthesize) -> Any:
    plan = baseline_plan(command.method, _discretisation(command) if discretises(command.method) else None)
    changes = {name: value for name, value in command.settings.items() if name != "bins"}
    if "steps" in changes:
        changes["hold"] = min(plan.hold, changes["steps"] // 10)
    if command.provenance is not None and begins(command.method):
        changes["pretraining"] = GanPretraining(provenance=command.provenance)
    return dataclasses.replace(plan, **changes)


def _discretisation(command: Synthesize) -> Discretisation:
    """Public bins of the records' columns: by the bounds, or such that each holds about as many public rows."""
    spec = read_spec(command.data)[0]
    bins = given(command, "bins")
    public = others(command, spec, "public")
    if public is None or command.provenance is None:
        return Discretisation(spec, **bins)
    return Discretisation.from_public(spec, public.columns, provenance=command.provenance, **bins)


@dataclass(frozen=True)
class Sources:
    """What a run reads: `data` is private unless simulated, `shown` are all of them where nobody is behind them, and
    `public` and `holdout` are there if they were given."""

    data: Trajectories
    shown: Trajectories | None
    public: Trajectories | None
    holdout: Trajectories | None


def require_there(command: Synthesize) -> None:
    """Refuse what is wrong with the records as far as their public parts tell: no record is read.

    Raises:
        DataError: the public or other records are the private ones or of other fields, the units are not those whose
            ids the records have or own no episodes where whole ones are learned, the bounds do not say how large a
            step is or are not those of --world, or there is nothing that other records would be compared for.
        FileError: a folder holds no records.
    """
    spec, simulated, kind = read_spec(command.data)
    require_unit(command.data, command.unit, Console())
    _require_world(command, spec)
    if command.method == PRIVORL_J and kind == "transition":
        what = "privorl-j learns whole trajectories, and every row of these records is a unit of its own"
        expected = "records whose units own whole episodes, such as an episode or a patient"
        remedy = "import them again with such a unit, or take --method privorl for single rows"
        raise DataError(what, where=str(command.data), expected=expected, remedy=remedy)
    if command.holdout is not None and not (simulated or command.nonprivate_diagnostics):
        what = "distances to private records are not differentially private"
        expected = "it with simulated records, or with --nonprivate-diagnostics, for the curator alone"
        remedy = "leave --holdout out, or add --nonprivate-diagnostics"
        raise DataError(what, where="--holdout", expected=expected, remedy=remedy)
    for option in get_args(Option):
        _place(command, spec, option)
    if command.method in DIFFUSED and command.public is None and not _cuttable(spec):
        synthesis.Encoder.from_bounds(spec)  # refuses; it loads PyTorch, which a dry run is quicker without


def opened(command: Synthesize, read: Callable[[Path], Trajectories], *, whole: bool) -> Sources:
    """The records; whatever else is wrong with them is found here, and nothing is spent.

    Args:
        command: the options.
        read: opens the private records.
        whole: whether it opens all of them, and not one process's shards.

    Raises:
        DataError: no row says where an episode ends, and the method needs whole ones.
        FileError: a file of a folder is damaged.
    """
    with progress("Opening the records"):
        data = read(command.data)
        if command.method == PRIVORL_J:
            data.require_ends()
        return Sources(
            data,
            data if whole and data.simulated else None,
            others(command, data.spec, "public"),
            others(command, data.spec, "holdout"),
        )


def others(command: Synthesize, spec: PublicSpec, option: Option) -> Trajectories | None:
    """The records of another option, if it was given.

    Args:
        command: the options.
        spec: public bounds of the private records.
        option: which.

    Raises:
        DataError: they are the private ones, or of other fields.
        FileError: the folder holds no records.
    """
    path = _place(command, spec, option)
    return None if path is None else Trajectories.open(path)


def _require_world(command: Synthesize, spec: PublicSpec) -> None:
    """Refuse a world that is unknown, or that has other bounds than the records.

    Raises:
        DataError: it is one of these.
    """
    name = command.world
    if name is None:
        return
    layouts = simulators.load("maze_layouts").LAYOUTS
    if name != CLINIC and name not in layouts:
        what, expected = f"there is no world {name!r}", f"one of {', '.join((*layouts, CLINIC))}"
        raise DataError(what, where="--world", expected=expected, remedy="choose one of these, or leave --world out")
    bounds = simulators.load("clinic").spec() if name == CLINIC else simulators.load("maze").spec(layouts[name])
    if (bounds.observation, bounds.action) != (spec.observation, spec.action):
        what, expected = f"the records have other bounds than {name}", "the simulator that the records are of"
        raise DataError(what, where="--world", expected=expected, remedy="choose another world, or leave --world out")


def _place(command: Synthesize, spec: PublicSpec, option: Option) -> Path | None:
    """The folder of another option, whose bounds are alike, or None; arguments and errors as of `others`."""
    path: Path | None = getattr(command, option)
    if path is None:
        return None
    if _shape(read_spec(path)[0]) != _shape(spec) or path.samefile(command.data):
        what = f"the {'public' if option == 'public' else 'other'} records are the private ones, or of other fields"
        expected = "other records, with observations and actions of the same kind and width"
        raise DataError(what, where=str(path), expected=expected, remedy="choose records of the same problem")
    return path


def _shape(spec: PublicSpec) -> tuple[object, ...]:
    return tuple((type(space).__name__, space.size) for space in (spec.observation, spec.action))


def candidates(command: Synthesize) -> Iterator[Synthesize]:
    """The command with each combination of the settings in place of its choice.

    Raises:
        PlanError: a setting is unknown, named twice or also given by itself, or its values are no numbers.
    """
    grid: dict[str, list[Any]] = {}
    for setting in command.choose:
        name, _, listed = setting.partition("=")
        field = name.replace("-", "_")
        if name not in NAMES or field in grid or getattr(command, field) is not None:
            raise _refused(setting, f"one of {', '.join(NAMES)}, once, and not also as --{name}")
        try:
            grid[field] = [NAMES[name](value) for value in listed.split(",")]
        except ValueError as error:
            raise _refused(setting, "NAME=VALUE,VALUE with numbers") from error
    for values in product(*grid.values()):
        settings: dict[str, Any] = dict(zip(grid, values, strict=True))
        yield dataclasses.replace(command, choose=(), **settings)


def plan_of(
    command: Synthesize, one: Callable[[Synthesize], TransitionsPlan], tables: Raking
) -> selection.SelectionPlan:
    """The plan of the choice, not calibrated; `one` makes a candidate's, which is judged by `tables`."""
    judge = synthesis.RakingPlan(raking=tables)
    return selection.SelectionPlan(candidates=tuple(map(one, candidates(command))), judge=judge)


def chosen(
    command: Synthesize, plan: selection.SelectionPlan, vault: Vault, starts: Mapping[Pretraining, Any]
) -> Release[Any]:
    """The best run, and in words which candidate it was.

    Args:
        command: the options.
        plan: the choice.
        vault: the private records.
        starts: the starting point to which each public pre-training of a candidate led.

    Raises:
        Interrupted: it was stopped after the ledger was charged.
    """
    attempt = functools.partial(synthesis.fit, pretrained=starts or None, device=command.device)
    with without_checkpoint(vault.ledger), progress("Training with privacy, a secret number of times"):
        release = selection.fit(plan, vault, attempt=attempt, judge=synthesis.Closeness())
    best = list(candidates(command))[release.choice.candidate]
    names = [setting.partition("=")[0] for setting in command.choose]
    settings = ", ".join(f"{name} {getattr(best, name.replace('-', '_')):g}" for name in names)
    say(f"Chosen of {len(plan.candidates):,} candidates: {settings}")
    return release


@contextlib.contextmanager
def without_checkpoint(ledger: Ledger) -> Iterator[None]:
    """What keeps no checkpoint: an interruption after the ledger was charged says that this stays so.

    Raises:
        Interrupted: it was stopped then.
    """
    before = len(ledger.entries())
    try:
        yield
    except KeyboardInterrupt:
        if len(ledger.entries()) > before:
            raise Interrupted(f"what was charged stays charged (see tacit ledger show {ledger.path})") from None
        raise


def _refused(setting: str, expected: str) -> PlanError:
    what = f"--choose {setting} is not understood"
    return PlanError(what, where="synthesize", expected=expected, remedy="change that setting")
