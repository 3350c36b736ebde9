"""Synthetic and simulated sets in the forms that other tools read, each row with its own next observation.

    to_arrow, to_pandas        named columns: observations, actions, reward, next observations, termination, truncation;
                               with shape="visits", what was observed and done alone, one row a visit
    to_parquet, to_csv         the same as a file, Parquet with its description in the file's metadata
    to_npz                     the arrays of `Trajectories.from_arrays`
    to_d3rlpy, to_torchrl      datasets of these libraries
    to_minari                  a Minari dataset of real chains of rows

Rows of trajectories have `episode` and `step`, which count from 0; `unit` stands beside them where a unit owns several
episodes. Labels are written as they are declared, and a missing cell as a null.

These functions are methods of `Trajectories`. All of them refuse records that are neither simulated nor released, whose
rows no file for others may hold.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tacit.data.columns import split_columns
from tacit.data.sources.files import Fields
from tacit.data.sources.tables import KEY
from tacit.data.spec import Discrete, PublicSpec, Space
from tacit.data.store import Array, StoredRecords, chain_ends
from tacit.errors import DataError
from tacit.plain_files import create_file
from tacit.units import RowsShape

FORMAT = {"format": "tacit.rows", "version": 1}
GROUP = 2**20
"""Rows of a row group of a Parquet file."""
SINGLE = 10_000
"""Rows that nothing follows, at most, of a Minari dataset that is not packed: each takes 3 ms and 13 kB."""


class TrajectoriesLike(Protocol):
    """What is needed of `tacit.data.trajectories.Trajectories`."""

    spec: PublicSpec
    simulated: bool
    _records: StoredRecords


def to_arrow(
    data: TrajectoriesLike, *, certificate: Mapping[str, Any] | None = None, shape: RowsShape = "pairs"
) -> Any:
    """The rows as a `pyarrow.Table` of named columns, described as JSON under "tacit" in its schema's metadata.

    Args:
        data: synthetic or simulated rows.
        certificate: of their release, as JSON values.
        shape: "pairs", each row with its own next observation; or "visits", one row a visit. An episode of n steps that
            does not terminate then has n + 1 visits: nothing was done in the last one, which is truncated.
    """
    records = _require_shareable(data, "to_arrow", shape)
    return _table(records, data, slice(0, len(records.order)), _describe(data, certificate, "to_arrow", shape), shape)


def to_pandas(data: TrajectoriesLike, *, shape: RowsShape = "pairs") -> Any:
    """The rows as a `pandas.DataFrame` of named columns, labels as categories."""
    # A column of whole numbers in which cells are missing has floating-point numbers and NaN, as pandas has it.
    return to_arrow(data, shape=shape).to_pandas()


def to_parquet(
    data: TrajectoriesLike,
    path: str | os.PathLike[str],
    *,
    certificate: Mapping[str, Any] | None = None,
    shape: RowsShape = "pairs",
) -> None:
    """Writes the table of `to_arrow` as a Parquet file; `Trajectories.from_parquet` reads it without a spec."""
    from pyarrow import parquet, types

    records = _require_shareable(data, "to_parquet", shape)
    description = _describe(data, certificate, "to_parquet", shape)
    tables = (_table(records, data, rows, description, shape) for rows in _groups(records))
    with create_file(Path(path)) as partial:
        first = next(tables)
        categorical = [field.name for field in first.schema if not types.is_floating(field.type)]
        with parquet.ParquetWriter(partial, first.schema, compression="zstd", use_dictionary=categorical) as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)


def to_csv(
    data: TrajectoriesLike,
    path: str | os.PathLike[str],
    *,
    certificate: Mapping[str, Any] | None = None,
    shape: RowsShape = "pairs",
) -> None:
    """Writes the table of `to_arrow` as a CSV file with a header, and its description beside it, as PATH.json."""
    from pyarrow import csv

    path = Path(path)
    records = _require_shareable(data, "to_csv", shape)
    description = _describe(data, certificate, "to_csv", shape)
    with create_file(path.with_name(f"{path.name}.json")) as note, create_file(path) as partial:
        note.write_text(description, encoding="utf-8")
        tables = (_decode_labels(_table(records, data, rows, description, shape)) for rows in _groups(records))
        first = next(tables)
        with csv.CSVWriter(partial, first.schema) as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)


def to_npz(
    data: TrajectoriesLike, path: str | os.PathLike[str], *, certificate: Mapping[str, Any] | None = None
) -> None:
    """Writes the arrays of `from_arrays`, `episode` and `unit` as codes, and the description as `tacit`."""
    records, description = _require_shareable(data, "to_npz"), _describe(data, certificate, "to_npz")
    arrays: dict[str, Any] = {**records.columns, KEY: np.array(description), "unit": records.owners}
    arrays["episode"] = records.episodes_of(slice(0, len(records.order)))
    with create_file(Path(path)) as partial, open(partial, "xb") as file:
        np.savez(file, **arrays)


def to_d3rlpy(data: TrajectoriesLike) -> Any:
    """The rows as a d3rlpy `MDPDataset`, each chain of rows as one episode."""
    # A chain that does not terminate ends with a row more, with its last next observation, at which d3rlpy's time-out
    # stands: of two rows [s, s'] it reads the one transition (s, a, r, s'). Action and reward of such a row are 0 and
    # belong to no transition. d3rlpy keeps no next observation of a row that terminates: it reads zeros, which count
    # for nothing.
    records, action = _require_shareable(data, "to_d3rlpy"), data.spec.action
    from d3rlpy.constants import ActionSpace
    from d3rlpy.dataset import MDPDataset

    columns = data._records.columns  # d3rlpy counts actions from 0
    last = chain_ends(records) & ~columns["terminations"]
    place = np.arange(len(last)) + np.cumsum(last) - last
    rows = len(last) + int(last.sum())
    observations = _scatter(columns["observations"], place, rows)
    observations[place[last] + 1] = _as_matrix(columns["next_observations"])[last]
    timeouts = np.zeros(rows, np.float32)
    timeouts[place[last] + 1] = 1
    discrete = isinstance(action, Discrete)
    return MDPDataset(
        observations.astype(np.float32),
        _scatter(columns["actions"], place, rows),
        _scatter(columns["rewards"], place, rows),
        _scatter(columns["terminations"], place, rows)[:, 0].astype(np.float32),
        timeouts,
        action_space=ActionSpace.DISCRETE if discrete else ActionSpace.CONTINUOUS,
        action_size=action.n if isinstance(action, Discrete) else action.size,
    )


def to_torchrl(data: TrajectoriesLike) -> Any:
    """The rows as a `tensordict.TensorDict` of batch size [T], as TorchRL's replay buffers and losses take them."""
    # `observation` [T, d] and `action` [T, k] float32, or [T] int64 of a discrete space; `episode` [T] int64, a chain
    # of rows each; under `next`, `observation`, `reward` [T, 1] float32, and `terminated`, `truncated` and `done` [T,
    # 1] bool. The last row of a chain is truncated unless it terminates, and done means either.
    records = _require_shareable(data, "to_torchrl")
    import torch
    from tensordict import TensorDict

    columns, last = records.columns, chain_ends(records)
    terminated = np.asarray(columns["terminations"])
    next_fields = {
        "observation": columns["next_observations"],
        "reward": columns["rewards"][:, None],
        "terminated": terminated[:, None],
        "truncated": (last & ~terminated)[:, None],
        "done": last[:, None],
    }
    fields = {
        "observation": columns["observations"],
        "action": columns["actions"],
        "episode": np.cumsum(last) - last,
        "next": {name: torch.tensor(array) for name, array in next_fields.items()},
    }
    tensors = {name: torch.tensor(array) if name != "next" else array for name, array in fields.items()}
    return TensorDict(tensors, batch_size=[len(last)])


def to_minari(
    data: TrajectoriesLike,
    dataset_id: str,
    *,
    certificate: Mapping[str, Any] | None = None,
    description: str | None = None,
    packed: bool = False,
    root: str | os.PathLike[str] | None = None,
) -> Path:
    """Writes a Minari dataset (HDF5), each chain of rows as one episode, as `tacit.data.sources.minari` says."""
    # packed: put rows that do not follow one another into common episodes, whose `observations[1:]` are other rows';
    # root: folder of the datasets, None follows `MINARI_DATASETS_PATH`, as Minari does; returns: The folder of the
    # dataset
    from tacit.data.sources import minari

    records = _require_shareable(data, "to_minari")
    if certificate is not None:
        certificate = _json(certificate, "to_minari")
    ends = None if packed else _require_chain_ends(records)
    return minari.write(
        records, data.spec, dataset_id, ends=ends, certificate=certificate, description=description, root=root
    )


def require_few_episodes(rows: int, where: str) -> None:
    """Refuse (DataError) more rows that nothing follows than a Minari dataset holds as episodes, `SINGLE`."""
    if rows > SINGLE:
        what = f"the rows do not follow one another, and Minari would need {rows:,} episodes for them"
        remedy = "write a Parquet file, which has no such limit and is read by every tool"
        raise DataError(what, where=where, expected=f"at most {SINGLE:,} such episodes", remedy=remedy)


def _require_chain_ends(records: StoredRecords) -> Array:
    """Where the chains of the rows end; whole episodes may be as many as they are."""
    ends = chain_ends(records)
    chains = int(ends.sum())
    if chains == len(ends) or chains > len(records.episodes) - 1:
        require_few_episodes(chains, "Trajectories.to_minari")
    return ends


def _require_shareable(data: TrajectoriesLike, method: str, shape: RowsShape = "pairs") -> StoredRecords:
    if data.simulated:
        records = data._records if shape == "visits" else _drop_copies(data._records)
        return dataclasses.replace(records, columns=data.spec.raw(records.columns))
    what = "real records cannot be written as a dataset for others"
    expected = "a set that is simulated or came out of a vault"
    remedy = "synthesize a dataset and write that, or use save(folder) for the private records"
    raise DataError(what, where=f"Trajectories.{method}", expected=expected, remedy=remedy)


def _drop_copies(records: StoredRecords) -> StoredRecords:
    """The records without rows whose next observation is nothing but their own one."""
    if not records.copied_ends:
        return records
    columns, rows = records.columns, len(records.order)
    now, following = (_as_matrix(columns[name]) for name in ("observations", "next_observations"))
    kept = ~(columns["truncations"] & (now == following).all(axis=1))
    owners, episodes = records.owners[kept], records.episodes_of(slice(0, rows))[kept]
    left = {name: np.asarray(column)[kept] for name, column in columns.items()}
    last = np.append(np.diff(episodes) != 0, True)[: len(episodes)]
    left["truncations"] = left["truncations"] | (last & ~left["terminations"])
    return dataclasses.replace(
        records,
        columns=left,
        order=np.argsort(owners, kind="stable"),
        offsets=np.append(0, np.cumsum(np.unique(owners, return_counts=True)[1])),
        episodes=np.append(np.flatnonzero(np.diff(episodes, prepend=-1)), len(episodes)),
        copied_ends=False,
    )


def _describe(
    data: TrajectoriesLike, certificate: Mapping[str, Any] | None, method: str, shape: RowsShape = "pairs"
) -> str:
    unit_metadata = {"owner": data._records.owner, "unit": data._records.unit}
    promised = {} if certificate is None else {"certificate": _json(certificate, method)}
    shaped = {} if shape == "pairs" else {"shape": shape}
    return json.dumps({**FORMAT, "simulated": True, **unit_metadata, **shaped, "spec": data.spec.to_json(), **promised})


def _json(certificate: Mapping[str, Any], method: str) -> Mapping[str, Any]:
    try:
        values: Mapping[str, Any] = json.loads(json.dumps(dict(certificate), allow_nan=False))
        return values
    except (TypeError, ValueError):
        pass
    what, expected = "the certificate is not of JSON values", "the mapping that Certificate.to_json gives"
    raise DataError(what, where=f"Trajectories.{method}", expected=expected, remedy="pass certificate.to_json()")


def _groups(records: StoredRecords) -> Iterator[slice]:
    rows = len(records.order)
    return (slice(start, min(start + GROUP, rows)) for start in range(0, max(rows, 1), GROUP))


def _table(records: StoredRecords, data: TrajectoriesLike, rows: slice, described: str, shape: RowsShape) -> Any:
    import pyarrow as pa

    visits, arrays = shape == "visits", dict[str, Any]()
    if records.owner != "transition":
        episode = records.episodes_of(rows)
        arrays |= {"episode": episode, "step": np.arange(rows.start, rows.stop) - records.episodes[episode]}
    if len(records.offsets) < len(records.episodes) or (visits and records.owner != "transition"):
        arrays["unit"] = records.owners[rows]
    fields = Fields.of(data.spec)
    columns = {field: np.asarray(column[rows]) for field, column in records.columns.items()}
    for field, names in fields.columns().items():
        if field in columns and not (visits and field == "next_observations"):
            arrays |= zip(names, _cells(data.spec.spaces.get(field), columns[field]), strict=True)
    table = pa.table(arrays)
    if visits and records.owner != "transition":  # a row by itself is one visit
        table = _add_last_visits(table, columns, chain_ends(records)[rows], fields, data.spec, records.copied_ends)
    return table.replace_schema_metadata({KEY: described})


def _add_last_visits(
    table: Any, columns: Mapping[str, Array], ends: Array, fields: Fields, spec: PublicSpec, copied_ends: bool
) -> Any:
    """A visit more after each chain that does not terminate: what was observed then, and nothing that was done."""
    import pyarrow as pa

    now, following = (_as_matrix(columns[name]) for name in ("observations", "next_observations"))
    copies = columns["truncations"] & (now == following).all(axis=1) & copied_ends  # which are last visits themselves
    left = ends & ~columns["terminations"] & ~copies
    last = np.flatnonzero(left)
    if not len(last):
        return table
    visits = table.take(last)
    reached = dict(zip(fields.observations, _cells(spec.observation, columns["next_observations"][last]), strict=True))
    reached |= {"step": pa.array(visits["step"].to_numpy() + 1), fields.truncations: pa.array(np.ones(len(last), bool))}
    kept = {"episode", "unit", fields.terminations, *reached}
    nothing = {name: pa.nulls(len(last), table.schema.field(name).type) for name in table.column_names}
    visits = pa.table(
        {name: reached.get(name, visits[name] if name in kept else nothing[name]) for name in table.column_names}
    )
    place = table.column_names.index(fields.truncations)
    table = table.set_column(place, fields.truncations, pa.array(columns["truncations"] & ~left))
    order = np.argsort(np.concatenate([2 * np.arange(len(left)), 2 * last + 1]), kind="stable")
    return pa.concat_tables([table, visits.cast(table.schema)]).take(order)


def _cells(space: Space | None, numbers: Array) -> list[Any]:
    """The columns of a field, as Arrow arrays with labels and nulls."""
    import pyarrow as pa

    wide = _as_matrix(numbers)
    if space is None or space.columns is None:
        return [pa.array(column) for column in np.ascontiguousarray(wide.T)]
    arrays = []
    for column, part, missing in split_columns(space.columns, wide):
        if column.kind == "category":
            codes = pa.array(column.nearest_codes(part).astype(np.int32), mask=missing)
            arrays.append(pa.DictionaryArray.from_arrays(codes, pa.array(column.labels)))
        else:
            cells = column.nearest_codes(part) if column.kind == "integer" else part
            arrays.append(pa.array(cells, mask=missing))
    return arrays


def _decode_labels(table: Any) -> Any:
    import pyarrow as pa

    plain = [field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field for field in table.schema]
    return table.cast(pa.schema(plain))


def _as_matrix(column: Array) -> Array:
    return np.asarray(column).reshape(len(column), math.prod(column.shape[1:]))


def _scatter(column: Array, place: Array, rows: int) -> Array:
    """Its rows [T, d] at their places among zeros, [rows, d]."""
    wide = _as_matrix(column)
    spread = np.zeros((rows, wide.shape[1]), wide.dtype)
    spread[place] = wide
    return spread
