"""The plan that the options of `tacit synthesize` ask for, before any record is read."""

from __future__ import annotations

import dataclasses
import math
from importlib import import_module
from typing import Any, Literal

from tacit.cli.synthesis_choice import plan_of
from tacit.cli.synthesis_commands import SynthesisMethod, Synthesize
from tacit.data.spec import Box, PublicSpec
from tacit.data.store import read_spec
from tacit.methods import synthesis
from tacit.methods.synthesis import Plan, Pretraining, Raking, trajectories
from tacit.methods.synthesis.cut import Cut
from tacit.methods.synthesis.trajectories.plan import Plan as FragmentPlan
from tacit.units import Unit
from tacit.validation import check

PRIVORL: Literal["privorl"] = "privorl"
PRIVORL_J: Literal["privorl-j"] = "privorl-j"
DIFFUSED: tuple[SynthesisMethod, ...] = (PRIVORL, PRIVORL_J)
"""tacit's own methods: they train networks by noisy gradients, keep checkpoints and use accelerators."""
_HOMES = {"pate-gan": "pate_gan", "pre-pate-gan": "pate_gan"}
"""Modules of the baselines that are not called like the method."""
PUBLIC = ("public", "provenance")
_SHARED = ("rows_per_unit",)
_TRAINED = ("steps", "clip", "noise_draws", "width", "depth", "learning_rate")
_MARGINALS = (*_SHARED, "bins", *PUBLIC)
_VOTES = ("steps", "teachers")
_PUBLISHED: dict[SynthesisMethod, tuple[str, ...]] = {
    PRIVORL: (*_SHARED, *_TRAINED, "batch"),
    PRIVORL_J: (*_TRAINED, "batch", "network", "horizon", "fragments_per_unit", "surroundings"),
}
"""What `--paper` decides."""
_LENGTHS = ("longest", "episodes_per_unit")
_NOISY = ("steps", "batch", "clip", "noise_draws", "fragments_per_unit", "learning_rate")
"""What has no meaning where no noisy gradient is taken."""
OPTIONS: dict[SynthesisMethod, tuple[str, ...]] = {
    PRIVORL: (*_PUBLISHED[PRIVORL], *PUBLIC),
    PRIVORL_J: (*_PUBLISHED[PRIVORL_J], *_LENGTHS, *PUBLIC),
    "mst": _MARGINALS,
    "aim": _MARGINALS,
    "privsyn": _MARGINALS,
    "pgm": _SHARED,
    "pate-gan": _VOTES,
    "pre-pate-gan": (*_VOTES, *PUBLIC),
}
"""Options that set fields of the method's plan."""


def published(method: SynthesisMethod) -> tuple[str, ...] | None:
    """Options that `--paper` decides; None for a method without published settings."""
    return _PUBLISHED.get(method)


def unheard(command: Synthesize) -> str | None:
    """An option that is given and has no meaning beside --surroundings."""
    return None if command.surroundings is None else next(iter(_given(command, _NOISY)), None)


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


def learner(method: SynthesisMethod) -> Any:
    """The module with the method's `fit`."""
    if method in DIFFUSED:
        return synthesis if method == PRIVORL else trajectories
    return import_module(f"tacit.methods.synthesis.baselines.{_HOMES.get(method, method)}")


def cuts(method: SynthesisMethod) -> bool:
    """Whether the plan of the method cuts columns by the public bounds of the records."""
    return "teachers" not in OPTIONS[method] and method not in DIFFUSED


def baseline_plan(method: SynthesisMethod, cut: Cut | None) -> Any:
    """The plan of a baseline with its own settings, not calibrated; `cut` is for a method that `cuts`."""
    home = learner(method)
    if cut is None or not cuts(method):
        return home.PateGanPlan()
    if method == "pgm":
        return home.PgmPlan.paper(cut.spec)
    return getattr(home, {"mst": "MstPlan", "aim": "AimPlan", "privsyn": "PrivSynPlan"}[method])(cut=cut)


def provenance(command: Synthesize) -> Any:
    """Where public records come from, as the certificate prints it, with why they are apart where that was declared."""
    if command.public_is_apart is None:
        return command.provenance
    return f"{command.provenance} Declared apart from the private records: {command.public_is_apart}"


def begins(method: SynthesisMethod) -> bool:
    """Whether the method can begin with public records: its networks are trained on them first."""
    return method in (*DIFFUSED, "pre-pate-gan")


def several(command: Synthesize) -> bool:
    """Whether a unit owns several records: it is not each row, and not one row of it is taken at a time."""
    return read_spec(command.data)[2] != "transition" and command.rows_per_unit != 1


def _transitions(command: Synthesize) -> Plan:
    if command.paper:
        from tacit.cli.synthesis_sources import others

        public = others(command, read_spec(command.data)[0], "public")
        epoch = None if public is None else len(public.columns["rewards"])
        return Plan.paper(population=command.population, provenance=provenance(command), epoch=epoch)
    pretraining = None if command.provenance is None else Pretraining(provenance=provenance(command))
    plan = Plan(pretraining=pretraining)
    if several(command):
        plan = Plan.for_people(population=command.population, epsilon=command.epsilon, pretraining=pretraining)
    return dataclasses.replace(plan, **_changes(command, plan), raking=_raking(command))


def _trajectories(command: Synthesize) -> FragmentPlan:
    if command.paper:
        paper = FragmentPlan.paper(population=command.population, provenance=provenance(command))
        return dataclasses.replace(paper, **_given(command, _LENGTHS))
    chosen: dict[str, Any] = {
        "longest": FragmentPlan.longest if command.longest is None else command.longest,
        "episodes": 1 if command.episodes_per_unit is None else command.episodes_per_unit,
        "horizon": command.horizon,
        "network": command.network or FragmentPlan.network,
        "surroundings": command.surroundings,
    }
    raking = _raking(command)
    plan = FragmentPlan.for_people(
        population=command.population, provenance=provenance(command), raking=raking, **chosen
    )
    changes = _changes(command, plan)
    if "steps" in changes:
        changes["start_steps"] = max(1, changes["steps"] // 2)
        changes["warmup"] = min(plan.warmup, changes["start_steps"] // 10)
    return dataclasses.replace(plan, **changes)


def _changes(command: Synthesize, plan: Plan | FragmentPlan) -> dict[str, Any]:
    """Fields of one of tacit's own plans that the command sets."""
    changes = _given(
        command, ("rows_per_unit", *_TRAINED) if isinstance(plan, Plan) else ("fragments_per_unit", *_TRAINED)
    )
    if command.batch is not None:
        changes["rate"] = command.batch / command.population
    if "steps" in changes:  # fewer steps have a shorter beginning
        changes["warmup"] = min(plan.warmup, changes["steps"] // 10)
    return changes


def _raking(command: Synthesize) -> Raking | None:
    """The default tables on the records' bounds, cut by public records if there are any; None where none can be."""
    if command.no_rake or not _cuttable(read_spec(command.data)[0]):
        return None
    return _tables(command)


def _tables(command: Synthesize) -> Raking:
    from tacit.cli.synthesis_sources import others

    spec = read_spec(command.data)[0]
    public = others(command, spec, "public")
    if public is None or command.provenance is None:
        return Raking.of(spec, population=command.population)
    return Raking.of(spec, population=command.population, public=public.columns, provenance=provenance(command))


def _cuttable(spec: PublicSpec) -> bool:
    """Whether the bounds say how large a step is, by which its bins are cut."""
    return spec.difference is not None or not isinstance(spec.observation, Box)


def _theirs(command: Synthesize) -> Any:
    plan = baseline_plan(command.method, _cut(command) if cuts(command.method) else None)
    changes = _given(command, tuple(name for name in OPTIONS[command.method] if name not in ("bins", *PUBLIC)))
    if "steps" in changes:
        changes["hold"] = min(plan.hold, changes["steps"] // 10)
    if command.provenance is not None and begins(command.method):
        changes["pretraining"] = learner(command.method).GanPretraining(provenance=provenance(command))
    return dataclasses.replace(plan, **changes)


def _cut(command: Synthesize) -> Cut:
    """Public bins of the records' columns: by the bounds, or such that each holds about as many public rows."""
    from tacit.cli.synthesis_sources import others

    spec = read_spec(command.data)[0]
    bins: dict[str, Any] = {} if command.bins is None else {"bins": command.bins}
    public = others(command, spec, "public")
    if public is None or command.provenance is None:
        return Cut(spec, **bins)
    return Cut.from_public(spec, public.columns, provenance=provenance(command), **bins)


def _given(command: Synthesize, names: tuple[str, ...]) -> dict[str, Any]:
    """Those of these options that the command sets."""
    return {name: value for name in names if (value := getattr(command, name)) is not None}
