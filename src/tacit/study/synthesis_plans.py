"""The plans of `Study.synthesize`: from its words to one plan, or to several from which the records choose."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from tacit.data.spec import Box, Discrete, PublicSpec
from tacit.errors import PlanError
from tacit.methods import find_method, load
from tacit.methods.synthesis import Curiosity, Pretraining, TableMatching, TransitionsPlan
from tacit.study import words
from tacit.units import Unit

if TYPE_CHECKING:
    from tacit.data.store import UnitKind
    from tacit.data.trajectories import Trajectories
    from tacit.methods.synthesis.discretisation import Discretisation
    from tacit.methods.synthesis.structured import StructuredPlan
    from tacit.methods.synthesis.trajectories.plan import TrajectoriesPlan

PRIVORL, PRIVORL_J, PEOPLE, STRUCTURED = "privorl", "privorl-j", "people", "structured"
MOST_NUMBERS = 8
"""Numbers of an observation up to which a few parents a column hold what matters of a step."""
DIFFUSION_METHODS = (PRIVORL, PRIVORL_J)
"""Methods that train networks by noisy gradients, keep checkpoints and use accelerators."""
WHOLE_METHODS = (PRIVORL_J, PEOPLE)
"""Methods that learn and draw whole trajectories."""
_LENGTHS = ("longest", "episodes_per_unit")
_NOISY = ("steps", "expected_batch_size", "clip_norm", "noise_multiplicity", "fragments_per_unit", "learning_rate")
"""What has no meaning where no noisy gradient is taken."""
_CHOSEN: Mapping[str, type[int] | type[float]] = {
    "steps": int,
    "expected-batch-size": float,
    "clip-norm": float,
    "rows-per-unit": int,
    "noise-multiplicity": int,
    "learning-rate": float,
    "curiosity-rate": float,
}
"""Settings that may be chosen, and what their values are."""
no_effect_error = partial(words.no_effect_error, "synthesize")


@dataclass(frozen=True, kw_only=True)
class SynthesisOptions:
    """The words that decide a plan, and what is known of the records.

    Args:
        method: one of the task's.
        unit, epsilon: the promise that the plan will be calibrated for.
        settings: options that were given: of the method's plan, `expected_batch_size` and `curiosity_rate`.
        given: their names, and those of "public", "provenance", "rows" and "trajectories" that were given.
        paper: the published settings.
        match: with noisy histograms, where the method has them.
        choose: settings to choose from by the records.
        provenance: where public records come from.
        spec: public bounds of the private records.
        each_row: whether each row of these is a unit of its own.
        public: public records.
    """

    method: str
    unit: Unit
    epsilon: float
    settings: Mapping[str, Any]
    given_names: Sequence[str]
    paper: bool
    match: bool
    choose: Sequence[str]
    provenance: str | None
    spec: PublicSpec
    unit_is_row: bool
    public: Trajectories | None = None

    def require_meaning(self) -> None:
        """Refuse words that the method or the other words make meaningless, and say what is missing.

        Raises:
            PlanError: the first such word, or one is missing that another needs.
        """
        method, given, ours = self.method, self.given_names, " or ".join(DIFFUSION_METHODS)
        known, drawn = _method_options(method), "trajectories" if method in WHOLE_METHODS else "rows"
        for name in given:
            if name not in (*known, drawn):
                raise no_effect_error(name, f"it with a method that has it, not {method}")
        if self.choose and (method != PRIVORL or self.paper):
            raise no_effect_error("--choose", f"it with our settings of {PRIVORL}")
        if self.paper and method not in DIFFUSION_METHODS:
            raise no_effect_error("--paper", f"it with {ours}, whose settings are published")
        for name in given if self.paper else ():
            if name not in (*_LENGTHS, "public", "provenance", drawn):
                raise no_effect_error(name, "it with our settings, not --paper, whose are published")
        for name in given if "local_context" in given else ():
            if name in _NOISY:
                raise no_effect_error(name, "it with a run that takes noisy gradients, not --local-context")
        if not self.match and (method not in DIFFUSION_METHODS or self.paper):
            raise no_effect_error("--no-match", f"it with our settings of {ours}, whose models draw what is weighted")
        begins, missing = method == "pre-pate-gan", []
        if "provenance" in given and "public" not in given and not begins:
            raise no_effect_error("--provenance", "it with --public")
        if begins and "public" not in given:
            expected = "the records that pre-pate-gan begins with"
            missing.append(words.MissingOption("--public", expected, "name them, or take pate-gan"))
        if "provenance" not in given and ("public" in given or begins):
            expected = "where the public records come from and why they hold no private one"
            missing.append(words.MissingOption("--provenance", expected, "say it: it is printed in the certificate"))
        words.require_options("synthesize", missing)

    def require_public(self) -> None:
        """Refuse public records that do not serve, or none where the plan cannot do without.

        Raises:
            PlanError: local context is wanted without many public worlds and histograms.
            DataError: without public records the bounds do not say how large a step is.
        """
        worlds = self.match and self.public is not None and self.public.unit_kind == "id"
        if "local_context" in self.given_names and not worlds:
            what = "there are no public worlds to learn from, or no histograms that tell of the private one"
            expected = "--public records with worlds (cities, hospitals) as units, --provenance and no --no-match"
            remedy = "import the public records with the world as their unit, or leave --local-context out"
            raise PlanError(what, where="--local-context", expected=expected, remedy=remedy)
        if self.method in DIFFUSION_METHODS and self.public is None and not _can_cut(self.spec):
            from tacit.methods.synthesis import Encoder

            Encoder.from_bounds(self.spec)  # refuses; it loads PyTorch, which a dry run is quicker without


def choose_method(kind: UnitKind, spec: PublicSpec, given: Collection[str]) -> tuple[str, str]:
    """The method that is best for records, by what is public of them and of the words, and why.

    Args:
        kind: how units were made.
        spec: the public bounds.
        given: the words that were given, but those that every method has.
    """
    if kind == "transition" and "public" in given and spec.observation.size <= MOST_NUMBERS:
        if foreign := sorted({*given} - {*words.method_options("synthesize", STRUCTURED), "public", "rows"}):
            return PRIVORL, f"{words.option_flag(foreign[0])} has a meaning for it"
        return STRUCTURED, "rows are units of few numbers, and public records say what to count together"
    if kind != "id" or spec.observation.columns is None:
        return PRIVORL, "the records are not rows of named columns that people own"
    if foreign := sorted({*given} - {*words.method_options("synthesize", PEOPLE)}):
        return PRIVORL, f"{words.option_flag(foreign[0])} has a meaning for it"
    columns = (*spec.observation.columns, *(spec.action.columns or ()))
    numbers = all(one.kind == "number" and one.missing != "flag" and not one.static for one in columns)
    if numbers and not isinstance(spec.action, Discrete):
        return PRIVORL, "all that is seen and done are numbers, as of a machine that is steered"
    return PEOPLE, "people own rows of named columns"


def _method_options(method: str) -> set[str]:
    own = {*words.method_options("synthesize", method)}
    own |= {"expected_batch_size"} if method in DIFFUSION_METHODS else set()
    own |= {"curiosity_rate"} if method == PRIVORL else set()
    return own | ({"public", "provenance"} if find_method("synthesize", method).public else set())


def build_plan(options: SynthesisOptions) -> Any:
    """The plan of these words, not calibrated.

    Raises:
        PlanError: a setting is out of range, or has no meaning.
        DataError: the bounds do not say how large a step is.
    """
    if options.method == PRIVORL:
        return _transitions(options)
    if options.method == PRIVORL_J:
        return _trajectories(options)
    if options.method == PEOPLE:
        from tacit.methods.synthesis.people.algorithm import PeoplePlan

        return PeoplePlan(spec=options.spec, **options.settings)
    if options.method == STRUCTURED:
        return _structured(options)
    changes = {name: value for name, value in options.settings.items() if name != "bins"}
    plan = baseline_plan(options.method, partial(_bins, options))
    if "steps" in changes:
        changes["hold"] = min(plan.hold, changes["steps"] // 10)
    if options.provenance is not None and find_method("synthesize", options.method).public == "training":
        from tacit.methods.synthesis.baselines.pate_gan_plan import GanPretraining

        changes["pretraining"] = GanPretraining(provenance=options.provenance)
    return dataclasses.replace(plan, **changes)


def build_choice_plan(candidates: Sequence[SynthesisOptions]) -> Any:
    """The plan by which the records choose among candidates, which differ in their settings; not calibrated.

    Raises:
        PlanError, DataError: as for `plan_of`.
    """
    from tacit.methods.selection import SelectionPlan
    from tacit.methods.synthesis import MatchingPlan

    judge = MatchingPlan(matching=_matching(candidates[0]))
    return SelectionPlan(candidates=tuple(map(build_plan, candidates)), judge=judge)


def list_candidates(options: SynthesisOptions) -> dict[str, SynthesisOptions]:
    """The words with each combination of the settings that are to be chosen, by what is said of it afterwards.

    Raises:
        PlanError: a setting is unknown, named twice or also given by itself, or its values are no numbers.
    """
    grid: dict[str, list[Any]] = {}
    for setting in options.choose:
        name, _, listed = setting.partition("=")
        what = f"--choose {setting} is not understood"
        if name not in _CHOSEN or name in grid or name.replace("-", "_") in options.settings:
            expected = f"one of {', '.join(_CHOSEN)}, once, and not also as --{name}"
            raise PlanError(what, where="synthesize", expected=expected, remedy="change that setting")
        try:
            grid[name] = [_CHOSEN[name](value) for value in listed.split(",")]
        except ValueError:
            expected, remedy = "NAME=VALUE,VALUE with numbers", "change that setting"
            raise PlanError(what, where="synthesize", expected=expected, remedy=remedy) from None
    candidates = {}
    for values in product(*grid.values()) if grid else ():
        chosen = dict(zip(grid, values, strict=True))
        settings = {**options.settings, **{name.replace("-", "_"): value for name, value in chosen.items()}}
        label = ", ".join(f"{name} {value:g}" for name, value in chosen.items())
        candidates[label] = dataclasses.replace(options, settings=settings)
    return candidates


def baseline_plan(method: str, discretise: Callable[[], Discretisation]) -> Any:
    """The plan of a baseline with its own settings, not calibrated; `cut` makes the bins of one that cuts columns."""
    kind = load(find_method("synthesize", method).plan)
    return kind.of(discretise()) if "discretisation" in kind.__dataclass_fields__ else kind()


def _structured(options: SynthesisOptions) -> StructuredPlan:
    from tacit.methods.synthesis.structured import StructuredPlan, split_worlds

    public: dict[str, Any] = {}
    if options.public is not None and options.provenance is not None:
        public = {"worlds": split_worlds(options.public), "provenance": options.provenance}
    return StructuredPlan.choose(options.spec, unit=options.unit, epsilon=options.epsilon, **public, **options.settings)


def _transitions(options: SynthesisOptions) -> TransitionsPlan:
    size, settings = options.unit.size, dict(options.settings)
    if options.paper:
        epoch = None if options.public is None else len(options.public.columns["rewards"])
        return TransitionsPlan.paper(population=size, provenance=options.provenance, epoch=epoch)
    rate, pretraining = settings.pop("curiosity_rate", None), None
    if options.provenance is None and rate is not None:
        raise no_effect_error("--curiosity-rate", "it with --public, whose training it changes")
    if options.provenance is not None:
        curiosity = Curiosity(rate=rate) if rate else None
        pretraining = Pretraining(provenance=options.provenance, curiosity=curiosity)
    plan = TransitionsPlan(pretraining=pretraining)
    if not options.unit_is_row and settings.get("rows_per_unit") != 1:  # units own many rows, and many of them count
        plan = TransitionsPlan.for_people(population=size, epsilon=options.epsilon, pretraining=pretraining)
    return dataclasses.replace(plan, **_changes(settings, plan, size), matching=_default_matching(options))


def _trajectories(options: SynthesisOptions) -> TrajectoriesPlan:
    from tacit.methods.synthesis.trajectories.plan import TrajectoriesPlan

    size, settings = options.unit.size, dict(options.settings)
    if options.paper:
        paper = TrajectoriesPlan.paper(population=size, provenance=options.provenance)
        return dataclasses.replace(paper, **settings)
    lengths = {
        "longest": settings.pop("longest", TrajectoriesPlan.longest),
        "episodes": settings.pop("episodes_per_unit", TrajectoriesPlan.episodes_per_unit),
    }
    shapes = {name: settings.pop(name) for name in ("horizon", "network", "local_context") if name in settings}
    plan = TrajectoriesPlan.for_people(
        population=size, provenance=options.provenance, matching=_default_matching(options), **lengths, **shapes
    )
    changes = _changes(settings, plan, size)
    if "steps" in changes:
        changes["start_steps"] = max(1, changes["steps"] // 2)
        changes["warmup"] = min(plan.warmup, changes["start_steps"] // 10)
    return dataclasses.replace(plan, **changes)


def _changes(settings: dict[str, Any], plan: TransitionsPlan | TrajectoriesPlan, population: int) -> dict[str, Any]:
    if "expected_batch_size" in settings:
        settings["sampling_rate"] = settings.pop("expected_batch_size") / population
    if "steps" in settings:  # fewer steps have a shorter beginning
        settings["warmup"] = min(plan.warmup, settings["steps"] // 10)
    return settings


def _default_matching(options: SynthesisOptions) -> TableMatching | None:
    """The default tables on the records' bounds; None where none are wanted or none can be cut."""
    return _matching(options) if options.match and _can_cut(options.spec) else None


def _matching(options: SynthesisOptions) -> TableMatching:
    """The tables, cut by public records if there are any."""
    if options.public is None or options.provenance is None:
        return TableMatching.of(options.spec, population=options.unit.size)
    public = options.public.columns
    return TableMatching.of(options.spec, population=options.unit.size, public=public, provenance=options.provenance)


def _can_cut(spec: PublicSpec) -> bool:
    """Whether the bounds say how large a step is, by which its bins are cut."""
    return spec.difference is not None or not isinstance(spec.observation, Box)


def _bins(options: SynthesisOptions) -> Discretisation:
    """Public bins of the records' columns: by the bounds, or such that each holds about as many public rows."""
    from tacit.methods.synthesis.discretisation import Discretisation

    bins: dict[str, Any] = {name: value for name, value in options.settings.items() if name == "bins"}
    if options.public is None or options.provenance is None:
        return Discretisation(options.spec, **bins)
    return Discretisation.from_public(options.spec, options.public.columns, provenance=options.provenance, **bins)
