"""Readers of .npz, CSV and Parquet files, by the public bounds of their columns."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.columns import Column
from tacit.data.ingest import EACH_EPISODE, EACH_TRANSITION, Ingest
from tacit.data.sources.tables import (
    KEY,
    csv_header,
    npz_arrays,
    npz_header,
    parquet_chunks,
    parquet_description,
    parquet_header,
)
from tacit.data.sources.tables import csv_chunks as csv_chunks
from tacit.data.spec import PublicSpec
from tacit.data.store import Array, Paths, StoredRecords, layout
from tacit.errors import DataError, FileError
from tacit.units import UnitKey


@dataclass(frozen=True)
class Fields:
    """Names of the columns of a table: of observations, next observations and actions one for each dimension, or for
    each declared column, or one in all for a discrete space; of the others one each. A table without truncations has
    none, and one whose spec says `terminals=False` needs no terminations. `propensity` is read when the spec declares
    it."""

    observations: tuple[str, ...]
    next_observations: tuple[str, ...]
    actions: tuple[str, ...]
    rewards: str = "reward"
    terminations: str = "termination"
    truncations: str = "truncation"
    propensity: str = "propensity"

    @classmethod
    def of(cls, spec: PublicSpec) -> Fields:
        """The declared names, the next observation's after next_; else `observation_0`, ..., or `observation` when it
        is discrete, and so on."""

        def names(field: str) -> tuple[str, ...]:
            columns, prefix = spec.spaces[field].columns, "next_" if field == "next_observations" else ""
            return spec.names(field) if columns is None else tuple(prefix + column.name for column in columns)

        return cls(names("observations"), names("next_observations"), names("actions"), names("rewards")[0])

    @classmethod
    def from_pairs(cls, spec: PublicSpec, pairs: Sequence[str]) -> Fields:
        """`of`, but for the fields of which `pairs` says the columns: "observations=pulse,pressure", "rewards=effect".
        Raises DataError where there is no such field, it is named twice, or has another number of columns."""
        usual = cls.of(spec)
        columns_of: dict[str, Any] = {}
        for pair in pairs:
            field, _, listed = pair.partition("=")
            names = tuple(name.strip() for name in listed.split(","))
            default = getattr(usual, field) if field in usual.__dataclass_fields__ else ()
            count = 1 if isinstance(default, str) else len(default)
            what = f"{pair!r} does not name the columns of a field"
            if default and field not in columns_of and all(names):
                what = "" if len(names) == count else f"{field} takes {count} name(s), and there are {len(names)}"
            if what:
                expected = f"FIELD=NAME,NAME once a field, of {', '.join(usual.__dataclass_fields__)}"
                remedy = "name one column for each dimension of the public bounds, in their order"
                raise DataError(what, where="fields", expected=expected, remedy=remedy)
            columns_of[field] = names[0] if isinstance(default, str) else names
        return replace(usual, **columns_of)

    def columns(self) -> dict[str, tuple[str, ...]]:
        """Field of `Trajectories` -> names of its columns."""
        return {
            "observations": tuple(self.observations),
            "actions": tuple(self.actions),
            "rewards": (self.rewards,),
            "next_observations": tuple(self.next_observations),
            "terminations": (self.terminations,),
            "truncations": (self.truncations,),
            "propensities": (self.propensity,),
        }


OTHER_NAMES = {"terminals": "terminations", "timeouts": "truncations"}
"""Names of D4RL and d3rlpy for the ends of episodes -> tacit's."""


def from_csv(
    cls: type[Any],
    paths: Paths,
    *,
    unit: str,
    spec: PublicSpec,
    episode: str | None = None,
    fields: Fields | None = None,
    unit_key: UnitKey | None = None,
    simulated: bool = False,
    store: str | os.PathLike[str] | None = None,
) -> Any:
    """From CSV files with a header, one transition a row, read in chunks."""
    # paths: one file or several, all records of a unit must be in one of them; fields: names of the other columns, None
    # takes `Fields.of(spec)` (`observation_0`, `action_0`, `reward`...); returns: The `Trajectories`
    options: dict[str, Any] = {"unit_key": unit_key, "simulated": simulated, "store": store}
    where, naming = "Trajectories.from_csv", fields or Fields.of(spec)
    records = _read(paths, csv_chunks, csv_header, where, _keys(unit, episode), unit, episode, naming, spec, options)
    return cls(records, spec, simulated=simulated)


def from_parquet(
    cls: type[Any],
    paths: Paths,
    *,
    unit: str,
    spec: PublicSpec | None = None,
    episode: str | None = None,
    fields: Fields | None = None,
    unit_key: UnitKey | None = None,
    simulated: bool = False,
    store: str | os.PathLike[str] | None = None,
    digest_key: bytes | None = None,
) -> Any:
    """From Parquet files, one transition a row, read in chunks; arguments and errors as in `from_csv`."""
    # Without `spec` the public bounds are those that `to_parquet` wrote into the (first) file. Shards of a
    # `ShardedVault` are read with a `digest_key`: secret bytes that all ranks share.
    spec = read_parquet_spec(paths) if spec is None else spec
    where, naming = "Trajectories.from_parquet", fields or Fields.of(spec)
    options = {"unit_key": unit_key, "simulated": simulated, "store": store, "digest_key": digest_key}
    ids = _keys(unit, episode)
    records = _read(paths, parquet_chunks, parquet_header, where, ids, unit, episode, naming, spec, options)
    return cls(records, spec, simulated=simulated)


def from_npz(
    cls: type[Any],
    paths: Paths,
    *,
    unit: str,
    spec: PublicSpec,
    episode: str | None = None,
    fields: Mapping[str, str] | None = None,
    unit_key: UnitKey | None = None,
    simulated: bool = False,
    store: str | os.PathLike[str] | None = None,
) -> Any:
    """From .npz files with one array for each field, named as the arguments of `from_arrays`."""
    # paths: one file or several, all records of a unit must be in one of them; fields: names of arrays that are called
    # otherwise, {"terminations": "terminals"}; an array of another name is refused; returns: The `Trajectories`
    naming = _array_names(spec, fields or {})
    with Ingest(spec, simulated=simulated, store=store, unit=unit, unit_key=unit_key) as ingest:
        for path in _files(paths, "Trajectories.from_npz"):
            ingest.start(f"Trajectories.from_npz({path.name!r})")
            header, ids = npz_header(path), _keys(unit, episode)
            _refuse_unread_arrays(path, header, naming, unit, ids)
            arrays = npz_arrays(path, [*naming.values(), *ids])
            columns = {field: arrays.get(name) for field, name in naming.items()}
            if not spec.terminals and columns["terminations"] is None and columns["rewards"] is not None:
                columns["terminations"] = np.zeros(columns["rewards"].shape[:1], dtype=np.bool_)
            needed = {naming[field]: field for field in layout(spec) if field not in ("truncations", "propensities")}
            for name, field in (needed | {name: "unit" if name == unit else "episode" for name in ids}).items():
                if name not in arrays and columns.get(field) is None:
                    raise _missing_column_error(path, name, field, header)
            ingest.add(columns, arrays.get(unit, unit), None if episode is None else arrays[episode])
        return cls(ingest.finish(), spec, simulated=simulated)


def _array_names(spec: PublicSpec, chosen: Mapping[str, str]) -> dict[str, str]:
    """Field -> name of its array: its own, but for those that are chosen."""
    names = {field: field for field in (*layout(spec), "propensities")}
    unknown = [field for field in chosen if field not in names]
    both = {**names, **chosen}
    if unknown or len(set(both.values())) < len(both):
        what = f"there is no field {unknown[0]!r}" if unknown else "two fields have one array"
        expected = f"FIELD=NAME once a field, of {', '.join(names)}"
        raise DataError(what, where="fields", expected=expected, remedy="name one array for each field")
    return both


def _refuse_unread_arrays(path: Path, header: Sequence[str], naming: Mapping[str, str], unit: str, ids: Any) -> None:
    """Refuse an array that is no field and no id: with it the ends of episodes might be lost, and so the units."""
    own = {KEY, "unit", "episode"} if unit == EACH_TRANSITION and KEY in header else {KEY}  # which `to_npz` writes
    unread = [name for name in header if name not in {*own, *naming.values(), *ids}]
    if unread:
        name = unread[0]
        near = OTHER_NAMES.get(name) or next(iter(difflib.get_close_matches(name, naming, n=1)), None)
        field = near or "FIELD"
        chosen = f'say what it is with fields={{"{field}": "{name}"}} (in a command --fields {field}={name})'
        if name in ("episode", "episode_ids", "unit", "unit_ids"):
            field = name.removesuffix("_ids")
            chosen = f'say {field}="{name}" (in a command --{field} {name})'
        expected = f"the fields {', '.join(naming)}" + (f" (the nearest is {near})" if near else "")
        what, remedy = (
            f"the array {name!r} is no known field and would be lost",
            f"{chosen}, or leave it out of the file",
        )
        raise DataError(what, where=path.name, expected=expected, remedy=remedy)


def read_parquet_spec(paths: Paths) -> PublicSpec:
    """The public bounds that `to_parquet` wrote into a file, the first of several. Raises DataError where there are
    none, or they are damaged."""
    path = _files(paths, "Trajectories.from_parquet")[0]
    description = parquet_description(path)
    if "spec" not in description:
        expected = "spec= a PublicSpec, or a file that Trajectories.to_parquet wrote"
        remedy = "declare PublicSpec(...) or take it from PublicSpec.from_spaces(...)"
        raise DataError("the public bounds are missing", where=path.name, expected=expected, remedy=remedy)
    return PublicSpec.from_json(description["spec"], where=path.name)


def _read(
    paths: Paths,
    chunks: Any,
    header: Any,
    where: str,
    ids: Sequence[str],
    unit: str,
    episode: str | None,
    naming: Fields,
    spec: PublicSpec,
    options: Mapping[str, Any],
) -> StoredRecords:
    with Ingest(spec, unit=unit, **options) as ingest:
        columns = naming.columns()
        for path in _files(paths, where):
            ingest.start(f"{where}({path.name!r})")
            names_of_file = header(path)
            refuse_unread_columns(path.name, names_of_file, naming, spec)
            table: Mapping[str, Array]
            texts = [name for field, names in columns.items() if declared_columns(spec, field) for name in names]
            texts += [naming.terminations, naming.truncations]  # which may be words
            for table in chunks(path, [name for names in columns.values() for name in names], [*ids, *texts]):
                part: dict[str, Any] = {}
                for field, names in columns.items():
                    absent = [name for name in names if name not in table]
                    known = declared_columns(spec, field)
                    if not absent and known:
                        part[field] = {column.name: table[name] for column, name in zip(known, names, strict=True)}
                    elif not absent:
                        part[field] = np.stack([table[name] for name in names], axis=1)
                    elif field == "terminations" and not spec.terminals:
                        part[field] = np.zeros(len(next(iter(table.values()))), dtype=np.bool_)
                    elif field != "truncations" and (field != "propensities" or spec.propensities):
                        raise _missing_column_error(path, absent[0], field, names_of_file)
                for name in ids:
                    if name not in table:
                        raise _missing_column_error(path, name, "unit" if name == unit else "episode", names_of_file)
                ingest.add(part, table.get(unit, unit), None if episode is None else table[episode])
        return ingest.finish()


def declared_columns(spec: PublicSpec, field: str) -> tuple[Column, ...]:
    """The declared columns of a field, whose cells may be texts or missing."""
    return (spec.spaces[field].columns or ()) if field in spec.spaces else ()


def refuse_unread_columns(where: str, header: Sequence[str], fields: Fields, spec: PublicSpec) -> None:
    """Refuse a column observation_2, say, where the bounds name fewer; columns of chosen names are a choice."""
    usual = Fields.of(spec)
    read_names = {name for names in fields.columns().values() for name in names}
    for name, field in OTHER_NAMES.items():
        if name in header and name not in read_names:
            what, remedy = f"the column {name!r} would be lost", f"say --fields {field}={name} (in Python fields=)"
            expected = f"the ends of episodes as {getattr(usual, field)}, or named"
            raise DataError(what, where=where, expected=expected, remedy=f"{remedy}, or leave it out")
    for field in ("observations", "next_observations", "actions"):
        read = getattr(usual, field)
        if declared_columns(spec, field):
            continue
        for name in header if read == getattr(fields, field) else ():
            stem, _, number = name.rpartition("_")
            if stem == field[:-1] and number.isdigit() and name not in read:
                bounded = read[0] if len(read) == 1 else f"{read[0]} to {read[-1]}"
                what = f"the column {name!r} has no public bounds, and would be left out"
                remedy = "declare bounds for this column too, or rename it if it is no part of the records"
                raise DataError(what, where=where, expected=f"{bounded} alone, as the bounds have it", remedy=remedy)


def _keys(unit: str, episode: str | None) -> list[str]:
    if not isinstance(unit, str) or not unit:
        what, expected = "there is no unit id", "unit= the name of the column with the protected unit"
        remedy = f"name it, or say {EACH_TRANSITION!r} or {EACH_EPISODE!r}; there is no default"
        raise DataError(what, where="Trajectories", expected=expected, remedy=remedy)
    return [name for name in (unit, episode) if name is not None and name not in (EACH_TRANSITION, EACH_EPISODE)]


def _files(paths: Paths, where: str) -> list[Path]:
    files = [Path(paths)] if isinstance(paths, (str, os.PathLike)) else [Path(path) for path in paths]
    real = [os.path.realpath(path) for path in files]
    if not files or len(set(real)) != len(real):
        what, expected = "there is no file, or the same file twice", "different files, at least one"
        raise FileError(what, where=where, expected=expected, remedy="correct the list of files")
    return files


def _missing_column_error(path: Path, name: str, field: str, header: Sequence[str]) -> DataError:
    return DataError(
        f"there is no unit id: no column {name!r}" if field == "unit" else f"there is no column {name!r} for {field}",
        where=path.name,
        expected=f"a column of that name; the file has {shown_names(header)}",
        remedy="rename the columns of the file, or name those that it has with unit=, episode= and fields= "
        "(in a command with --unit, --episode and --fields)",
    )


def shown_names(header: Sequence[str]) -> str:
    """The names of a file's columns, of many the first twenty."""
    return ", ".join(header[:20]) + (f" and {len(header) - 20} more" if len(header) > 20 else "")
