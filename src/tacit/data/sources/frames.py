"""Tables that other libraries hold: pandas, Polars, Arrow, DuckDB, and whatever else narwhals knows."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from typing import Any

from tacit.data.sources import sorting
from tacit.data.sources.databases import arrow_batches
from tacit.data.sources.files import Fields
from tacit.data.sources.lake import SourceTable, naive_type, plain_type, replace_errors
from tacit.data.sources.tables import require_distinct_names
from tacit.data.spec import PublicSpec
from tacit.errors import DataError
from tacit.units import UnitKey

NAME = "Trajectories.from_frame"


def from_frame(
    cls: type[Any],
    frame: Any,
    *,
    unit: str,
    spec: PublicSpec,
    episode: str | None = None,
    time: str | Sequence[str] | None = None,
    next: sorting.Next | None = None,
    where: str | None = None,
    qualify: str | None = None,
    reward: str | None = None,
    actions: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    fields: Fields | None = None,
    unit_key: UnitKey | None = None,
    simulated: bool = False,
    store: str | os.PathLike[str] | None = None,
) -> Any:
    """From a table of pandas, Polars, Arrow, DuckDB or another library that narwhals knows; its rows in any order.

    Args:
        frame: the table, or a lazy one, of which every unit's rows may lie anywhere.
        unit: column of the unit's id, or `":transition"` or `":episode"`.
        spec: public bounds; its columns are found by their names.
        episode: column of the episode's id; None takes all rows of a unit between terminations and truncations.
        time: column or SQL expression that orders the rows of an episode: numbers, or dates and times; of several,
            each orders the rows that those before it leave equal, and none may stay so. None keeps the table's order.
        next: "keep" builds the next observation from the next row of the episode, and truncates the last row, whose
            next observation is its own; "drop" leaves that row out. None reads columns that begin with `next_`.
        where: SQL expression of the rows that are read; windows see these alone.
        qualify: SQL expression of those that are kept once windows have seen them.
        reward: SQL expression of the reward; None reads its column.
        actions: name of an action in the spec -> its SQL expression; "" names the only one.
        columns: likewise of the observation's columns.
        fields: names of the columns; None takes `Fields.of(spec)`.
        unit_key: see `from_arrays`.
        simulated: whether no record is a real person's.
        store: a folder; the columns are written there in the native format and mapped, not held in memory.

    Expressions compute with one row, or with windows that are partitioned by the unit; anything else is refused, since
    one unit's rows could then change those of another.

    Returns:
        The `Trajectories`.

    Raises:
        DataError: the records break a rule of `Trajectories`, a column is missing, or an expression is refused.
        FileError: the folder exists already or cannot be written.
    """
    named: dict[str, Any] = {"actions": actions or {}, "columns": columns or {}, "fields": fields, "unit_key": unit_key}
    options = sorting.TableOptions(unit, episode, time, next, where, qualify, reward, **named)
    table = open_table(frame)
    spec = sorting.with_reward(table, options, spec)
    records = sorting.read(table, options, spec, simulated=simulated, store=store)
    return cls(records, spec, simulated=simulated)


def open_table(frame: Any) -> SourceTable:
    """A frame as a table."""
    wrong = DataError(
        "this is no table, or holds cells that Arrow has no type for",
        where=NAME,
        expected="a table of pandas, Polars, Arrow or DuckDB whose columns each hold one kind of cell",
        remedy="convert the columns that mix kinds, or pass arrays to from_arrays",
    )
    reader = replace_errors(lambda: _reader(frame), wrong)
    require_distinct_names(reader.schema.names, NAME)
    kinds = {field.name: plain_type(field.type) for field in reader.schema}
    again = [(NAME, lambda names: arrow_batches(_reader(frame), {name: kinds[name] for name in names}, wrong))]
    return SourceTable(
        NAME,
        {name: naive_type(kind) for name, kind in kinds.items()},
        lambda names: arrow_batches(reader, {name: kinds[name] for name in names}, wrong),
        parts=again if hasattr(frame, "__len__") else (),  # no stream
    )


def _reader(frame: Any) -> Any:
    """The batches of a frame, by Arrow's C interface where it has that, by narwhals where not."""
    import pandas as pd
    import pyarrow as pa

    require_distinct_names([str(name) for name in frame.columns] if isinstance(frame, pd.DataFrame) else [], NAME)
    for _, column in frame.items() if isinstance(frame, pd.DataFrame) else ():
        if column.dtype == object:  # where Arrow takes texts for bytes, and takes the hours off moments among days
            kinds = set(map(type, column.dropna()))
            these = {kind for kind in kinds if issubclass(kind, (str, datetime.datetime))}
            others = (bytes, bytearray, memoryview, datetime.date)
            if these and any(issubclass(kind, others) for kind in kinds - these):
                raise ValueError
    if not hasattr(frame, "__arrow_c_stream__"):
        import narwhals

        native = narwhals.from_native(frame)
        frame = (native.collect() if isinstance(native, narwhals.LazyFrame) else native).to_arrow()
    return pa.RecordBatchReader.from_stream(frame)
