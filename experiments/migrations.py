"""How configurations of stored rows read in today's names: stored rows are never rewritten.

Add one entry to `MIGRATIONS` when a class or a field is renamed, or when a field is new. The entry of a new field gives
the value that reproduces the behaviour before it existed. Where several classes share a name (`Plan`), `beside` names
fields that only the one meant has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from experiments.configuration import Json

UNTYPED = ""
"""The `type` of a mapping that is no dataclass, such as a whole configuration."""


class Migration(Protocol):
    """One change of names."""

    def apply(self, settings: dict[str, Json]) -> dict[str, Json]:
        """The settings of one mapping, in the new names; those that it does not concern as they are."""


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
    """A class has one more field; rows from before behave as if it had this value."""

    type: str
    name: str
    value: Json
    beside: str = ""

    def apply(self, settings: dict[str, Json]) -> dict[str, Json]:
        """See `Migration`."""
        concerned = _concerns(settings, self.type, self.beside) and self.name not in settings
        return settings | {self.name: self.value} if concerned else settings


def _concerns(settings: dict[str, Json], kind: str, beside: str) -> bool:
    """Whether this is the class: of several with one name, that with the fields `beside`, words with spaces."""
    return settings.get("type", UNTYPED) == kind and all(name in settings for name in beside.split())


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
    NewField("Gpope", "target", None),
    NewField("SufficientStatistics", "target", None),
    NewField("ResidualRegression", "target", None),
    NewField("Hiv", "penalties", [20_000.0, 2_000.0]),
    NewField("Hiv", "efficacy_noise", 0.0),
)
"""In the order in which the names changed."""


def migrate(configuration: Json, migrations: Iterable[Migration] | None = None) -> Json:
    """A stored configuration in today's names, at every depth."""
    chosen = MIGRATIONS if migrations is None else tuple(migrations)
    if isinstance(configuration, list):
        return [migrate(one, chosen) for one in configuration]
    if not isinstance(configuration, dict):
        return configuration
    settings = {name: migrate(value, chosen) for name, value in configuration.items()}
    for migration in chosen:
        settings = migration.apply(settings)
    return settings
