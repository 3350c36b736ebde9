"""How configurations of stored rows read in today's names: stored rows are never rewritten.

Add one entry to `MIGRATIONS` when a class or a field is renamed, or when a field is new. The entry of a new field gives
the value that reproduces the behaviour before it existed, as a literal: what the code of the rows' own commits had,
never what today's has. Where several classes share a name (`Plan`), `beside` names fields that only the one meant has.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from experiments.configuration import Json
from experiments.literals import CAR, CONSTANTS, CONTROLS, JOINT, PATIENTS, SPECTRA, WORLDS

UNTYPED = ""
"""The `type` of a mapping that is no dataclass, such as a whole configuration."""


class Migration(Protocol):
    """One change of names."""

    def apply(self, settings: dict[str, Json]) -> dict[str, Json]:
        """The settings of one mapping, in the new names; those that it does not concern are the same object."""


@dataclass(frozen=True)
class RenamedType:
    """A class has another name."""

    old: str
    new: str
    beside: str = ""

    def apply(self, settings: dict[str, Json]) -> dict[str, Json]:
        """See `Migration`."""
        return settings | {"type": self.new} if _concerns(settings, self.old, self.beside) else settings


@dataclass(frozen=True)
class RenamedField:
    """A field of a class has another name."""

    type: str
    old: str
    new: str
    beside: str = ""

    def apply(self, settings: dict[str, Json]) -> dict[str, Json]:
        """See `Migration`."""
        if not _concerns(settings, self.type, self.beside) or self.old not in settings:
            return settings
        return {self.new if name == self.old else name: value for name, value in settings.items()}


@dataclass(frozen=True)
class NewField:
    """A class has one more field; rows from before behave as if it had this value, those alone whose other fields are
    as in `where` if anything is there.
    """

    type: str
    name: str
    value: Json
    beside: str = ""
    where: Mapping[str, Json] = field(default_factory=dict)

    def apply(self, settings: dict[str, Json]) -> dict[str, Json]:
        """See `Migration`."""
        concerned = _concerns(settings, self.type, self.beside) and self.name not in settings
        meant = all(name in settings and settings[name] == value for name, value in self.where.items())
        return settings | {self.name: self.value} if concerned and meant else settings


@dataclass(frozen=True)
class Rewritten:
    """A field of a class says the same in another way: `new` of what it said, which may be new already."""

    type: str
    name: str
    new: Callable[[Json], Json]
    beside: str = ""

    def apply(self, settings: dict[str, Json]) -> dict[str, Json]:
        """See `Migration`."""
        if not _concerns(settings, self.type, self.beside) or self.name not in settings:
            return settings
        return settings | {self.name: self.new(settings[self.name])}


def _concerns(settings: dict[str, Json], kind: str, beside: str) -> bool:
    """Whether this is the class: of several with one name, that with the fields `beside`, words with spaces."""
    return settings.get("type", UNTYPED) == kind and all(name in settings for name in beside.split())


_ESTIMATORS = (
    *(
        "SufficientStatistics",
        "ImportanceSampling",
        "FittedQ",
        "DoublyRobust",
        "Gpope",
        "Overlap",
        "ResidualRegression",
    ),
)

MIGRATIONS: tuple[Migration, ...] = (
    *(
        NewField("CartPole", name, value)
        for name, value in (
            ("gravity", 9.8),
            ("force", 10.0),
            ("cart_mass", 1.0),
            ("pole_mass", 0.1),
            ("half_length", 0.5),
        )
    ),
    NewField("Acrobot", "lengths", [1.0, 1.0]),
    NewField("Acrobot", "masses", [1.0, 1.0]),
    NewField("IqlConfig", "fall", 1.0),
    NewField("IqlConfig", "features", None),
    NewField("IqlConfig", "layer_norm", True),
    NewField("Plan", "curiosity", None, beside="rows_per_unit noise_draws"),
    NewField("Plan", "raking", None, beside="noise_draws"),
    NewField("Plan", "ending_noise", 0.0, beside="start_steps"),
    NewField("ImprovementPlan", "imitate", "none"),
    NewField("ImprovementPlan", "favour", 0.0),
    NewField("ImprovementPlan", "caution", 0.0),
    NewField("Gpope", "target", None),
    NewField("SufficientStatistics", "target", None),
    NewField("ResidualRegression", "target", None),
    NewField("Hiv", "penalties", [20_000.0, 2_000.0]),
    NewField("Hiv", "efficacy_noise", 0.0),
    *(NewField(kind, name, value) for kind, constants in CONSTANTS.items() for name, value in constants.items()),
    *(NewField("Raking", name, value, beside="decoding tables") for name, value in CONSTANTS["Cut"].items()),
    # literals of experts_table: verified in e82bf10, the commit of all its rows
    NewField("Recipes", "alone_steps", 1000),
    NewField("Recipes", "alone_rate", 0.001),
    NewField("Recipes", "silent", {"type": "ReturnWeight", "low": 1e8, "high": 2e8, "sharpness": 30.0}),
    NewField("Recipes", "silent_epsilon", 1.0),
    NewField("", "delta", 0.00016666666666666666, beside="field ways epsilons"),
    *(NewField("Field", "world", world, where={"name": name}) for name, world in WORLDS.items()),
    *(
        NewField("", "physics", world, beside="kind experts episodes horizon", where={"world": name})
        for name, world in WORLDS.items()
    ),
    # experts_prefixes: verified in 0f20cd2, the commit of all its rows
    NewField(
        "",
        "shares of delta",
        {"all": 0.5, "own": 0.5, "overflow": 0.01},
        beside="experts trajectories floors agreements",
    ),
    # experts_accounting: verified in the nine commits whose sources made its rows
    NewField("", "own", 0.5, beside="settings experts batch delta"),
    NewField("", "target", 5.0, beside="settings experts batch delta"),
    Rewritten("", "settings", lambda old: JOINT if old == "joint" else old, beside="experts batch delta"),
    # DPPG: verified in all 22 commits of the rows of its table, frontier and river, ...
    NewField("", "unit", "person", beside="line method level paper delta"),
    NewField("", "relation", "add_or_remove", beside="line method level paper delta"),
    NewField("", "unit", "person", beside="task recipe noise_of restarts delta"),
    NewField("", "relation", "add_or_remove", beside="task recipe noise_of restarts delta"),
    NewField("", "unit", "person", beside="method river states delta"),
    NewField("", "relation", "add_or_remove", beside="method river states delta"),
    NewField("", "curve", 10, beside="task recipe noise_of restarts delta"),
    # ... the table's own literals in its three (da766ea, 434437a, 005c92c), ...
    *(
        NewField("", "control", control, beside="line level paper", where={"method": method})
        for method, control in CONTROLS.items()
    ),
    NewField("", "control", None, beside="line method level paper"),
    # ... and the plan of the canaries, whose price is not a setting, in its seven
    NewField("", "delta", 1e-5, beside="cell plan people pulls canary"),
    Rewritten(
        "",
        "plan",
        lambda plan: plan | {"unit": None, "epsilon": None, "delta": None},
        beside="cell people pulls canary",
    ),
    # spectra of trust_region_coverage: verified in its three commits (65ff956, b8ee8c1, e82bf10)
    *(
        NewField("", "spectrum", spectrum, beside="draws confidences", where={"case": case})
        for case, spectrum in SPECTRA.items()
    ),
    NewField("", "spectrum", SPECTRA["decaying"], beside="correlated draws confidences"),
    # Q of the simulators
    NewField("", "learned", CAR, beside="exploration"),
    NewField("", "learned", PATIENTS, beside="dynamics drugs substep target"),
    # plans are named after their methods
    RenamedType("Plan", "TransitionsPlan", beside="curiosity"),
    RenamedType("Plan", "TrajectoriesPlan", beside="start_steps"),
    RenamedType("Plan", "PolicyGradientPlan", beside="trust_region"),
    RenamedType("Plan", "OneShotPlan", beside="matching"),
    RenamedType("Plan", "PateGailPlan", beside="allocation"),
    RenamedType("Plan", "BaselinePlan", beside="model"),
    RenamedType("Plan", "SelectionPlan", beside="candidates"),
    RenamedType("Silent", "ZeroContribution"),
    # fields have the field's names
    RenamedType("Cut", "Discretisation"),
    *(
        RenamedField(kind, old, new)
        for (old, new), kinds in {
            ("rate", "sampling_rate"): "TransitionsPlan TrajectoriesPlan Raking PoissonSum",
            ("clip", "clip_norm"): (
                "TransitionsPlan TrajectoriesPlan Raking PoissonSum FixedSizeSum UserSum DeviceSum Pretraining "
                "PolicyGradientPlan UcbVi PateGailPlan Consensus ReturnWeighted Gpope SufficientStatistics"
            ),
            ("noise_draws", "noise_multiplicity"): "TransitionsPlan TrajectoriesPlan",
            ("surroundings", "local_context"): "TrajectoriesPlan",
            ("cut", "discretisation"): "Raking MstPlan AimPlan PrivSynPlan PgmPlan",
            ("batch", "expected_batch_size"): "Consensus",
            ("batch", "batch_size"): "Gpope FixedSizeSum",
            ("silent", "zero_contribution"): "OneShotPlan PateGailPlan BaselinePlan",
            ("reserve", "held_out"): "PoissonSum",
        }.items()
        for kind in kinds.split()
    ),
    RenamedField("", "clip", "clip_norm", beside="steps relative_noise"),
    RenamedField("", "clip", "clip_norm", beside="name"),
    # columns that are named and typed
    NewField("Box", "columns", None),
    NewField("Discrete", "columns", None),
    NewField("Fourier", "labels", None, beside="coupled"),
    NewField("Votes", "answers", "summed", beside="directions"),
    # a private model of the behaviour policy
    *(NewField(name, "behaviour_model", None, beside="problem noise_multiplier") for name in _ESTIMATORS),
    # the regression of fitted Q
    RenamedType("Fit", "Regression", beside="trace"),
    # agents that judge
    RenamedType("Fourier", "RandomFourier", beside="bandwidth"),
    RenamedType("Config", "PpoConfig", beside="ratio_clip"),
    # who may judge a policy
    *(
        NewField(name, new, None, beside="problem noise_multiplier behaviour_model")
        for name in _ESTIMATORS
        for new in ("fold", "origin")
    ),
    # a part says its kind
    NewField("DeviceSum", "kind", "device_sum"),
)
"""In the order in which the names changed."""


def migrate(configuration: Json, migrations: Iterable[Migration] | None = None) -> Json:
    """A stored configuration in today's names: every change at every depth, one after another."""
    configuration = copy.deepcopy(configuration)
    found = list(_mappings(configuration))
    for migration in MIGRATIONS if migrations is None else migrations:
        changed = False
        for settings in found:
            after = migration.apply(settings)
            if after is not settings:
                after, changed = copy.deepcopy(after), True
                settings.clear()
                settings.update(after)
        if changed:
            found = list(_mappings(configuration))
    return configuration


def _mappings(configuration: Json) -> Iterator[dict[str, Json]]:
    """All of them, the inner ones first."""
    inner = configuration.values() if isinstance(configuration, dict) else configuration
    if isinstance(configuration, dict | list):
        for one in inner:
            yield from _mappings(one)
    if isinstance(configuration, dict):
        yield configuration
