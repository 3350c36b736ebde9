"""Records in shards: Parquet files among which units are dealt by a keyed hash of their ids, and how they are read.

    spec.json                  public: what the native format says there, and the columns and the number of shards
    shard-00000.parquet ...    the rows of each shard's units, in the order of the source or of time

DuckDB writes one shard at a time without holding the source in memory; whatever else writes such a folder, all rows of
a unit must lie in one file, and those of an episode one after another. The folder appears when it is complete.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from tacit import plain_files
from tacit.data.ingest import EACH_EPISODE, EACH_TRANSITION
from tacit.data.sources import column_sql, lake
from tacit.data.sources.column_sql import quote
from tacit.data.sources.files import Fields
from tacit.data.sources.tables import open_parquet
from tacit.data.spec import PublicSpec
from tacit.data.store import FORMAT, read_public, read_spec, replace_write_errors, write_receipt
from tacit.data.trajectories import Trajectories
from tacit.errors import DataError, FileError, PlanError

_MOST = 10_000
_NAME = "shard-{:05}.parquet"


@dataclass(frozen=True)
class Shards:
    """What `spec.json` says of a folder of shards."""

    folder: Path  # where they are
    count: int  # how many
    episode: str | None  # name of the column with the episode id, if there is one
    fields: tuple[str, ...]  # names of columns where they are not the usual ones, as `Fields.from_pairs` takes them
    exact: bool = False  # whether ids that differ by case or form alone are different units; else they are refused

    def read(self, rank: int, ranks: int, *, digest_key: bytes | None, store: Path) -> Trajectories:
        """The shards of one of several ranks: number `rank` and every `ranks`-th after it.

        Args:
            rank: 0 .. ranks - 1.
            ranks: how many processes read.
            digest_key: under which their units are compared (see `Trajectories.from_parquet`).
            store: folder in which the columns are kept on disk; it must not exist.

        Raises:
            PlanError: there are fewer shards than ranks.
            DataError: the records break a rule of `Trajectories`.
            FileError: a shard is missing or damaged.
        """
        if ranks > self.count:
            what, expected = f"there are {ranks:,} ranks and {self.count:,} shards", "a shard for every rank, at least"
            remedy = "start fewer processes, or write more shards with `tacit data shard`"
            raise PlanError(what, where=str(self.folder), expected=expected, remedy=remedy)
        spec, simulated, _ = read_spec(self.folder)
        unit = read_public(self.folder).unit
        assert unit is not None
        read: Trajectories = Trajectories.from_parquet(
            [self.folder / _NAME.format(shard) for shard in range(rank, self.count, ranks)],
            unit=unit,
            spec=spec,
            episode=self.episode,
            fields=Fields.from_pairs(spec, self.fields),
            unit_key="exact" if self.exact else None,
            simulated=simulated,
            store=store,
            digest_key=digest_key,
        )
        return read


def read_shards(folder: Path) -> Shards | None:
    """The shards of a folder; None where it holds records in one piece. Raises FileError where `spec.json` is
    damaged."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        metadata = json.loads(plain_files.read_text(folder / "spec.json"))
        if isinstance(metadata, dict) and "shards" in metadata:
            read_spec(folder)
            count, episode, fields = metadata["shards"], metadata.get("episode"), metadata.get("fields", [])
            named = isinstance(episode, str | None) and isinstance(fields, list)
            if type(count) is int and 1 <= count <= _MOST and named and read_public(folder).unit is not None:
                return Shards(folder, count, episode, tuple(map(str, fields)), read_public(folder).unit_key == "exact")
            what, expected = "spec.json is damaged", "a folder that `tacit data shard` wrote"
            raise FileError(what, where=str(folder), expected=expected, remedy="write the shards again")
    return None


def write(
    sources: Sequence[str],
    out: Path,
    *,
    unit: str,
    shards: int,
    spec: PublicSpec,
    episode: str | None = None,
    time: str | None = None,
    fields: Sequence[str] = (),
    unit_key: Literal["exact"] | None = None,
    simulated: bool = False,
    memory: str = "2GB",
) -> None:
    """Deal the rows of Parquet files to shards, by a hash of the unit's id under a key that is thrown away.

    Args:
        sources: files, folders and globs.
        out: folder to write.
        unit: name of the column with the unit's id.
        shards: how many.
        spec: public bounds.
        episode: name of the column with the episode's id.
        time: name of a column that orders the rows of an episode; None keeps the order that they have.
        fields: see `Shards`.
        unit_key: "exact" where ids that differ by case or form alone are different units; without it, reading the
            shards refuses them.
        simulated: declare that no record is a real person's.
        memory: what DuckDB may take; it spills to a folder within `out`, which is removed.

    Raises:
        DataError: there is no unit id, or a column is missing.
        PlanError: the number of shards is out of range.
        FileError: a source is missing, damaged or no Parquet file, or `out` exists or cannot be written.
    """
    if unit in (EACH_TRANSITION, EACH_EPISODE):
        what = "shards are dealt by the id of the unit, and there is none"
        remedy = "number the rows or episodes in a column of their own, and name it"
        raise DataError(what, where="shards", expected="the name of a column with the unit's id", remedy=remedy)
    if not 1 <= shards <= _MOST:
        expected = f"from 1 to {_MOST:,}, and one a process at least"
        raise PlanError(f"{shards:,} shards", where="shards", expected=expected, remedy="choose another number")
    Fields.from_pairs(spec, fields)
    files = [path for path, _ in lake.list_files(sources)]
    if any(lake.file_kind(path) != "parquet" for path in files):
        what, expected = "a source is no Parquet file", ".parquet files"
        raise FileError(what, where="shards", expected=expected, remedy="write them as Parquet")
    first, *others = [(path, lake.read_header(path)) for path in files]
    header = lake.common_types(first, others)
    for column in (unit, *filter(None, (episode, time))):
        if column not in header:
            remedy = "name one of the file's columns"
            raise DataError(f"there is no column {column!r}", where=files[0].name, expected="it", remedy=remedy)
    with _create_folder(out) as partial:
        whose = column_sql.key_expression(unit, header[unit])
        course = None if episode is None else column_sql.key_expression(episode, header[episode])
        order = [] if time is None else [whose, *([] if course is None else [course]), quote(time)]
        _copy(files, header, partial, key_of=whose, shards=shards, order=order, memory=memory)
        public = {"simulated": simulated, "owner": "id", "unit": unit, "spec": spec.to_json()}
        public |= {} if unit_key is None else {"unit_key": unit_key}
        more = {"shards": shards, "episode": episode, "fields": list(fields)}
        plain_files.write(partial / "spec.json", json.dumps({**FORMAT, **public, **more}, indent=1))
        if not simulated:
            write_receipt({"rows": sum(map(_rows, files)), "rows left out": 0}, partial)


def _copy(
    files: Sequence[Path],
    header: Mapping[str, Any],
    folder: Path,
    *,
    key_of: str,
    shards: int,
    order: Sequence[str],
    memory: str,
) -> None:
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as pq

    wrong = FileError(
        "the rows cannot be read, or not be written",
        where="shards",
        expected="Parquet files of the same columns, and enough space on the disk",
        remedy="see that every file opens, and that the folder has room for all rows twice",
    )
    # Of several files, DuckDB takes the types of the first and rounds the others' cells to them.
    runs = [list(run) for _, run in groupby(files, key=lambda path: list(pq.read_schema(path)))]
    types = {pa.float64(): "DOUBLE", pa.int64(): "BIGINT"}
    types |= {k: f"DECIMAL({k.precision}, {k.scale})" for k in header.values() if pa.types.is_decimal128(k)}
    casts = {name: f"CAST({quote(name)} AS {types[kind]})" for name, kind in header.items() if kind in types}
    cells = ", ".join(f"{casts.get(name, quote(name))} AS {quote(name)}" for name in header) if len(runs) > 1 else "*"
    parts = [
        f"SELECT {cells} FROM read_parquet([{', '.join(_text(os.fspath(path)) for path in run)}], "
        "hive_partitioning = false)"
        for run in runs
    ]
    key = secrets.token_hex(32)
    # A row without an id goes to the first shard, where reading it is refused.
    shard = f"coalesce(hash({_text(key)} || {key_of}, {_text(key)}) % {shards}, 0)"
    sorting = f"ORDER BY {', '.join(order)}" if order else ""
    with contextlib.closing(lake.replace_errors(duckdb.connect, wrong)) as connection:
        spill = folder / "spill"
        spill.mkdir(mode=0o700)
        settings = {"temp_directory": os.fspath(spill), "memory_limit": memory, "preserve_insertion_order": "true"}
        settings["enable_progress_bar"] = "false"
        for setting, value in settings.items():
            connection.execute(f"SET {setting} = {_text(value)}")
        for number in range(shards):
            rows = f"SELECT * FROM ({' UNION ALL '.join(parts)}) WHERE {shard} = {number} {sorting}"
            target = _text(os.fspath(folder / _NAME.format(number)))
            statement = f"COPY ({rows}) TO {target} (FORMAT parquet, COMPRESSION zstd)"
            lake.replace_errors(partial(connection.execute, statement), wrong)
    shutil.rmtree(spill)
    written = [folder / _NAME.format(number) for number in range(shards)]
    if sum(map(_rows, written)) != sum(map(_rows, files)):
        raise wrong


def _rows(path: Path) -> int:
    with open_parquet(path) as file:
        return int(file.metadata.num_rows)


@contextlib.contextmanager
def _create_folder(out: Path) -> Iterator[Path]:
    """A hidden folder beside `out`, which takes its name when all is written and is removed if anything fails."""
    plain_files.require_free(out)
    partial = out.with_name(f".{out.name}.partial-{secrets.token_hex(4)}")
    try:
        with replace_write_errors(out):
            partial.mkdir(mode=0o700, parents=True)
            yield partial
            os.rename(partial, out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _text(value: Any) -> str:
    return "'" + str(value).replace("'", "''") + "'"
