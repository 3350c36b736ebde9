"""Readers of .npz, CSV and Parquet files, and the public summary of a dataset."""

from __future__ import annotations

import os
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.ingest import EACH_EPISODE, EACH_TRANSITION, Ingest
from tacit.data.spec import Discrete, PublicSpec, Space
from tacit.data.store import CHUNK, Array, Records, layout, read_spec
from tacit.data.trajectories import Paths, Trajectories
from tacit.errors import DataError, FileError


@dataclass(frozen=True)
class Fields:
    """Names of the columns of a table.

    Args:
        observations, next_observations, actions: one name for each dimension; one name in all for a discrete space.
        rewards, terminations, truncations: one name each; a table without truncations has none, and one whose spec
            says `terminals=False` needs no terminations.
        propensity: one name; it is read, and needed, when the spec declares propensities.
    """

    observations: tuple[str, ...]
    next_observations: tuple[str, ...]
    actions: tuple[str, ...]
    rewards: str = "reward"
    terminations: str = "termination"
    truncations: str = "truncation"
    propensity: str = "propensity"

    @classmethod
    def of(cls, spec: PublicSpec) -> Fields:
        """`observation_0 ... observation_{d-1}`, or `observation` when it is discrete, and so on."""

        def names(stem: str, space: Space) -> tuple[str, ...]:
            return (stem,) if isinstance(space, Discrete) else tuple(f"{stem}_{i}" for i in range(space.size))

        observation, action = spec.observation, spec.action
        return cls(names("observation", observation), names("next_observation", observation), names("action", action))

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


def read_csv(paths: Paths, **options: Any) -> Records:
    """See `Trajectories.from_csv`."""
    return _read_tables(paths, csv_chunks, "Trajectories.from_csv", **options)


def read_parquet(paths: Paths, **options: Any) -> Records:
    """See `Trajectories.from_parquet`."""
    return _read_tables(paths, _parquet_chunks, "Trajectories.from_parquet", **options)


def read_npz(
    paths: Paths,
    *,
    unit: str,
    spec: PublicSpec,
    episode: str | None,
    simulated: bool,
    store: str | os.PathLike[str] | None,
) -> Records:
    """See `Trajectories.from_npz`."""
    with Ingest(spec, simulated=simulated, store=store, unit=unit) as ingest:
        for path in _files(paths, "Trajectories.from_npz"):
            ingest.start(f"Trajectories.from_npz({path.name!r})")
            fields = list(dict.fromkeys((*layout(spec), "propensities")))
            arrays = _npz(path, [*fields, *_keys(unit, episode)])
            columns = {name: arrays.get(name) for name in fields}
            if not spec.terminals and columns["terminations"] is None and columns["rewards"] is not None:
                columns["terminations"] = np.zeros(columns["rewards"].shape[:1], dtype=np.bool_)
            for name in _keys(unit, episode):
                if name not in arrays:
                    raise _no_column(path, name, "unit" if name == unit else "episode")
            ingest.add(columns, arrays.get(unit, unit), None if episode is None else arrays[episode])
        return ingest.finish()


def inspect(data: Trajectories | str | os.PathLike[str]) -> dict[str, Any]:
    """Public summary of a set, or of the folder of one: its spec and fields; counts only when it is simulated.

    Args:
        data: trajectories, or a folder that `Trajectories.save` wrote.

    Returns:
        JSON values: `simulated`, `spec`, `fields` (name -> kind, dtype, width) and, for a simulated set, `counts`
        (transitions, episodes, units).

    Raises:
        FileError: the folder holds no trajectories, or they are damaged.
    """
    counted: Trajectories | None = None
    if isinstance(data, Trajectories):
        spec, simulated = data.spec, data.simulated
        counted = data
    else:
        spec, simulated, _ = read_spec(Path(data))
        if simulated:
            counted = Trajectories.open(data)
    spaces: Mapping[str, Space] = {"observations": spec.observation, "next_observations": spec.observation}
    spaces = {**spaces, "actions": spec.action, "rewards": spec.reward}
    fields = {}
    for name, (dtype, shape) in layout(spec).items():
        space = spaces.get(name)
        kind = "discrete" if isinstance(space, Discrete) else "flag" if dtype == np.bool_ else "continuous"
        fields[name] = {"kind": kind, "dtype": dtype.name, "width": shape[0] if shape else 1}
    summary: dict[str, Any] = {"simulated": simulated, "spec": spec.to_json(), "fields": fields}
    if simulated and counted is not None:
        summary["counts"] = counted.counts()
    return summary


def _read_tables(
    paths: Paths,
    chunks: Any,
    where: str,
    *,
    unit: str,
    spec: PublicSpec,
    episode: str | None,
    fields: Fields | None,
    simulated: bool,
    store: str | os.PathLike[str] | None,
) -> Records:
    with Ingest(spec, simulated=simulated, store=store, unit=unit) as ingest:
        columns = (fields or Fields.of(spec)).columns()
        ids = _keys(unit, episode)
        for path in _files(paths, where):
            ingest.start(f"{where}({path.name!r})")
            table: Mapping[str, Array]
            for table in chunks(path, [name for names in columns.values() for name in names], ids):
                part = {}
                for field, names in columns.items():
                    absent = [name for name in names if name not in table]
                    if not absent:
                        part[field] = np.stack([table[name] for name in names], axis=1)
                    elif field == "terminations" and not spec.terminals:
                        part[field] = np.zeros(len(next(iter(table.values()))), dtype=np.bool_)
                    elif field != "truncations" and (field != "propensities" or spec.propensities):
                        raise _no_column(path, absent[0], field)
                for name in ids:
                    if name not in table:
                        raise _no_column(path, name, "unit" if name == unit else "episode")
                ingest.add(part, table.get(unit, unit), None if episode is None else table[episode])
        return ingest.finish()


def csv_chunks(path: Path, names: Sequence[str], ids: Sequence[str]) -> Iterator[dict[str, Array]]:
    import pandas as pd

    wanted = {*names, *ids}
    row = 0
    reader = _opened(
        path,
        lambda: pd.read_csv(
            path,
            usecols=lambda name: name in wanted,
            dtype=dict.fromkeys(ids, "str"),
            index_col=False,
            chunksize=CHUNK,
            low_memory=False,
            encoding="utf-8",
        ),
    )
    with reader:
        while (table := _next_csv(path, reader)) is not None:
            out: dict[str, Array] = {}
            for name in table.columns:
                column = table[name]
                if name in ids:
                    out[name] = column.astype(object).where(column.notna(), None).to_numpy(dtype=object)
                    continue
                if column.dtype.kind not in "biuf":
                    numbers = pd.to_numeric(column.astype(object), errors="coerce").to_numpy(dtype=float)
                    if column.notna().all() and set(column.unique()) <= {True, False, "True", "False"}:
                        numbers = (column.astype(str) == "True").to_numpy(dtype=float)
                    bad = np.isnan(numbers)
                    if bad.any():
                        raise _not_a_number(path, name, row + int(np.argmax(bad)) + 1)
                    out[name] = numbers
                else:
                    out[name] = column.to_numpy()
            row += len(table)
            yield out


def _next_csv(path: Path, reader: Any) -> Any:
    import pandas as pd

    failed: str | None = None
    table = None
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            table = next(reader, None)
        except (pd.errors.ParserError, pd.errors.ParserWarning):
            failed = "ragged"
        except (OSError, ValueError, EOFError):
            failed = "unreadable"
    if failed == "ragged":
        raise DataError(
            "a row has more cells than the header, or a quote is not closed",
            where=str(path.name),
            expected="rows of equal length",
            remedy="correct the file",
        )
    if failed:
        raise _unreadable(path)
    return table


def _parquet_chunks(path: Path, names: Sequence[str], ids: Sequence[str]) -> Iterator[dict[str, Array]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _opened(path, lambda: pq.ParquetFile(path)) as file:
        present = [name for name in dict.fromkeys((*names, *ids)) if name in file.schema_arrow.names]
        batches = file.iter_batches(batch_size=CHUNK, columns=present)
        row = 0
        while True:
            batch, failed = None, False
            try:
                batch = next(batches, None)
            except (OSError, pa.ArrowException):
                failed = True
            if failed:
                raise _unreadable(path)
            if batch is None:
                return
            out: dict[str, Array] = {}
            for name in present:
                column = batch.column(name)
                if name not in ids:
                    kind = column.type
                    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
                        raise _not_a_number(path, name, row + 1)
                    if column.null_count:
                        first = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                        raise _not_a_number(path, name, row + first + 1)
                    out[name] = column.to_numpy(zero_copy_only=False)
                elif column.null_count or not pa.types.is_integer(column.type):
                    out[name] = np.array(column.to_pylist(), dtype=object)
                else:
                    out[name] = column.to_numpy(zero_copy_only=False)
            row += batch.num_rows
            yield out


def _npz(path: Path, names: Sequence[str]) -> dict[str, Array]:
    def load() -> dict[str, Array]:
        with open(path, "rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError
            return {name: archive[name] for name in names if name in archive.files}

    arrays: dict[str, Array] = _opened(path, load)
    return arrays


def _opened(path: Path, read: Any) -> Any:
    """What `read` returns; any complaint of a parser (which may quote a cell) becomes a `FileError` without it."""
    try:
        return read()
    except (OSError, ValueError, EOFError, KeyError, TypeError, RuntimeError, zipfile.BadZipFile):
        pass
    raise _unreadable(path)


def _keys(unit: str, episode: str | None) -> list[str]:
    if not isinstance(unit, str) or not unit:
        raise DataError(
            "there is no unit id",
            where="Trajectories",
            expected="unit= the name of the column with the protected unit",
            remedy=f"name it, or say {EACH_TRANSITION!r} or {EACH_EPISODE!r}; there is no default",
        )
    return [name for name in (unit, episode) if name is not None and name not in (EACH_TRANSITION, EACH_EPISODE)]


def _files(paths: Paths, where: str) -> list[Path]:
    found = [Path(paths)] if isinstance(paths, (str, os.PathLike)) else [Path(path) for path in paths]
    real = [path.resolve() for path in found]
    if not found or len(set(real)) != len(real):
        raise FileError(
            "there is no file, or the same file twice",
            where=where,
            expected="different files, at least one",
            remedy="correct the list of files",
        )
    return found


def _no_column(path: Path, name: str, field: str) -> DataError:
    return DataError(
        f"there is no unit id: no column {name!r}" if field == "unit" else f"there is no column {name!r} for {field}",
        where=path.name,
        expected="a column of that name",
        remedy="rename the columns of the file, or say unit=, episode= and fields= (in a command: --unit, --episode)",
    )


def _not_a_number(path: Path, name: str, row: int) -> DataError:
    return DataError(
        f"the column {name!r} has a cell that is not a number",
        where=f"{path.name}, row {row}",
        expected="a finite number in every row",
        remedy="correct the data or leave the row out",
    )


def _unreadable(path: Path) -> FileError:
    return FileError(
        "the file is missing, truncated or of another kind",
        where=path.name,
        expected="a readable file",
        remedy="check the path, or write the file again",
    )
