"""Rewrite the stored rows in today's names: `python -m experiments.lib.migrations`, in the commit that changes a name.

List the changes in `MIGRATIONS`, run this, and empty the list again: no name of the past stays in the code. The entry
of a new field gives the value that reproduces the behaviour before it existed, as a literal. Where several classes
share a name, `beside` names fields that only the one meant has. Rows in `archive/` stay as they are.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from experiments.lib.configuration import Json, digest
from experiments.lib.store import RESULTS, as_lines

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


MIGRATIONS: tuple[Migration, ...] = ()
"""In the order in which the names changed; empty but while rows are rewritten."""


def migrate(configuration: Json, migrations: Iterable[Migration] | None = None) -> Json:
    """A configuration after every change, at every depth, one after another."""
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


def rewrite(path: Path, migrations: Iterable[Migration] | None = None) -> None:
    """Write a file of rows again, with every configuration in today's names (atomically)."""
    content = json.loads(path.read_text())
    now = {name: migrate(one, migrations) for name, one in content["configurations"].items()}
    names = {name: digest(one) for name, one in now.items()}
    content["configurations"] = {names[name]: one for name, one in now.items()}
    for row in content["rows"].values():
        row["configuration"] = names.get(row["configuration"])
    partial = path.with_suffix(".partial")
    partial.write_text(as_lines(content))
    os.replace(partial, path)


if __name__ == "__main__":
    for results in sorted(RESULTS.glob("*.json")):
        rewrite(results)
