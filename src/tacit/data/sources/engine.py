"""The DuckDB that sorts and computes: it reaches nothing but what is handed to it, and its errors reach nobody."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

from tacit.data.columns import NUMBER_REMEDY
from tacit.data.sources import column_sql
from tacit.data.sources.lake import SourceTable
from tacit.data.store import CHUNK
from tacit.errors import DataError, FileError, TacitError

MEMORY = "400MB"
"""That DuckDB may take before it spills."""


@contextlib.contextmanager
def open_engine(store: str | os.PathLike[str] | None) -> Iterator[Any]:
    """A DuckDB that reaches nothing but what is handed to it, with a folder of its own to spill to."""
    import duckdb

    parent = None if store is None else Path(store).absolute().parent
    prefix = ".tacit-" if store is None else f".{Path(store).name}."
    spill = tempfile.mkdtemp(prefix=f"{prefix}spill-", dir=parent)  # with mode 0700
    try:
        with duckdb.connect(":memory:") as engine:
            for setting, value in {
                "memory_limit": MEMORY,
                "threads": "1",
                "temp_directory": spill.replace("'", "''"),
                "TimeZone": "UTC",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "enable_external_access": "false",
                "lock_configuration": "true",
            }.items():
                engine.execute(f"SET {setting} = '{value}'")
            yield engine
    finally:
        shutil.rmtree(spill, ignore_errors=True)


def query_batches(
    table: SourceTable, used: Sequence[str], query: str, engine: Any, counts: dict[str, int]
) -> Generator[Any]:
    """Arrow batches of a query over the table, which it calls `source`; to be closed before the engine is."""
    import duckdb
    import pyarrow as pa

    # counts: "all" counts the table's rows that were read
    failed: list[TacitError | KeyboardInterrupt] = []

    def batches() -> Iterator[Any]:
        try:
            for batch in table.batches(used):
                counts["all"] += batch.num_rows
                yield pa.record_batch([null_nan(column) for column in batch.columns], names=list(used))
        except (TacitError, KeyboardInterrupt) as error:  # the engine would make a text of its own of it
            failed.append(error)
            raise

    def attempt(run: Callable[[], Any], wrong: TacitError) -> Any:
        """What `run` gives; what the engine says of an error quotes cells."""
        kind: type[Exception] = Exception
        named: re.Match[str] | None = None
        try:
            return run()
        except Exception as error:
            kind, named = type(error), re.search(rf"{column_sql.PLACE}(\d{{1,6}})\b", str(error))
        if issubclass(kind, duckdb.InterruptException):
            raise KeyboardInterrupt
        full = issubclass(kind, (duckdb.OutOfMemoryException, duckdb.IOException))
        if named is not None and int(named[1]) < len(table.kinds):
            what = f"the column {list(table.kinds)[int(named[1])]!r} has a cell that is not a number"
            wrong = DataError(what, where=table.name, expected="finite numbers", remedy=NUMBER_REMEDY)
        raise failed[0] if failed else _space_error(table) if full else wrong

    schema = pa.schema([(name, table.kinds[name]) for name in used])
    engine.register("source", pa.RecordBatchReader.from_batches(schema, batches()))
    type_error = _computation_error("an expression does not fit the types of its columns", table)
    rows = attempt(lambda: engine.sql(query), type_error)
    cell_error = _computation_error("a cell cannot be computed with", table)
    reader = attempt(lambda: rows.to_arrow_reader(CHUNK), cell_error)
    try:
        while (batch := attempt(lambda: next(reader, None), cell_error)) is not None:
            yield batch
    finally:
        reader.close()  # while there are an engine and a source behind it


def null_nan(column: Any) -> Any:
    """An Arrow column without NaN, the largest number of all in SQL: it is missing, in nested columns too."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, types = column.type, pa.types
    if types.is_floating(kind):
        return pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
    if types.is_struct(kind):
        parts = [null_nan(column.field(i)) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    return column


def _space_error(table: SourceTable) -> FileError:
    what = "the rows cannot be sorted in the memory and on the disk that are free"
    expected = "free space beside the folder that is written, for all columns in use"
    remedy = "free some space, or write to another disk; nothing was left behind"
    return FileError(what, where=table.name, expected=expected, remedy=remedy)


def _computation_error(what: str, table: SourceTable) -> DataError:
    return DataError(
        what,
        where=table.name,
        expected="numbers in arithmetic, and dates as strptime has them (of CSV and SQLite, what the spec declares no "
        "number is a text)",
        remedy="correct the expression or the data; try_cast(COLUMN AS DOUBLE) and try_strptime skip such a cell",
    )
