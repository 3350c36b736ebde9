"""The DuckDB that sorts and computes: it reaches nothing but what is handed to it, and its errors reach nobody."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.columns import NUMBER_REMEDY
from tacit.data.sources import column_sql
from tacit.data.sources.lake import SourceTable
from tacit.data.sources.tables import Misfits
from tacit.data.store import CHUNK
from tacit.errors import DataError, FileError, TacitError

MEMORY = "400MB"
"""That DuckDB may take before it spills."""
PART = 2**40
"""Rows of a part of a table, at most."""


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
                "enable_progress_bar": "false",  # it would be printed among a command's output
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
            name = list(table.kinds)[int(named[1])]
            missing, made = column_sql.number_parts(table, name)
            chosen = column_sql.quote(column_sql.NUMBER)
            query = f"SELECT {chosen} FROM source WHERE NOT ({missing}) AND {made} IS NULL"
            what = f"the column {name!r} has a cell that is not a number"
            where = find_row(number_rows(table), [name, column_sql.NUMBER], query, 0)
            wrong = DataError(what, where=where, expected="finite numbers", remedy=NUMBER_REMEDY)
        what = "the rows cannot be sorted in the memory and on the disk that are free"
        expected = "free space beside the folder that is written, for all columns in use"
        remedy = "free some space, or write to another disk; nothing was left behind"
        space = FileError(what, where=table.name, expected=expected, remedy=remedy)
        raise failed[0] if failed else space if full else wrong

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


def number_rows(table: SourceTable, misfits: Misfits | None = None) -> SourceTable:
    """The table with the number of each row, and of its part before it, as a further column."""
    # misfits: the lines that its files leave out, which have numbers too
    import pyarrow as pa

    def batches(names: Sequence[str]) -> Iterator[Any]:
        own = [name for name in names if name != column_sql.NUMBER]
        for number, (_, read) in enumerate(table.parts):
            first = 0
            for batch in read(own):
                rows = np.arange(first, first + batch.num_rows)
                for kinds in list((misfits or {}).values())[number : number + 1]:
                    lines = np.sort(np.concatenate([np.zeros(0, np.int64), *kinds.values()]))
                    rows += np.searchsorted(lines - 1 - np.arange(len(lines)), rows, side="right")
                arrays = {
                    column_sql.NUMBER: pa.array(number * PART + rows, pa.int64()),
                    **dict(zip(own, batch.columns, strict=True)),
                }
                yield pa.record_batch([arrays[name] for name in names], names=list(names))
                first += batch.num_rows

    return dataclasses.replace(table, kinds={**table.kinds, column_sql.NUMBER: pa.int64()}, batches=batches)


def find_row(table: SourceTable, used: Sequence[str], query: str, row: int) -> str:
    """File and row, counted from 1, of a row of a query's result, which has the numbers of rows; read once more."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(TacitError))  # what cannot be read again has no row
        engine = stack.enter_context(open_engine(None))
        for batch in stack.enter_context(contextlib.closing(query_batches(table, used, query, engine, {"all": 0}))):
            if row < batch.num_rows:
                part, number = divmod(batch.column(column_sql.NUMBER)[row].as_py(), PART)
                return f"{table.parts[part][0]}, row {number + 1}"
            row -= batch.num_rows
    return table.name


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


def _computation_error(what: str, table: SourceTable) -> DataError:
    return DataError(
        what,
        where=table.name,
        expected="numbers in arithmetic, and dates as strptime has them (of CSV and SQLite, what the spec declares no "
        "number is a text)",
        remedy="correct the expression or the data; try_cast(COLUMN AS DOUBLE) and try_strptime skip such a cell",
    )
