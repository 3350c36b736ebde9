"""The result of a query as a table: SQLite, PostgreSQL and DuckDB, each over a connection that only reads. A password
never stands in an address: PostgreSQL takes it from PGPASSWORD, PGPASSFILE or ~/.pgpass, as its own clients do. What a
database says of an error may quote a cell, so that nobody sees it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tacit.data import unit_keys
from tacit.data.sources.lake import SourceTable, cast_cells, naive_type, plain_type, replace_errors
from tacit.data.sources.tables import require_distinct_names
from tacit.data.store import CHUNK
from tacit.errors import DataError, FileError, TacitError
from tacit.plain_files import is_plain_file

ROWS = 16_384
"""That are fetched at a time."""
SCHEMES = ("postgresql", "sqlite", "duckdb")
_REMEDY = "check the query and the address in the database's own client"


def open_table(query: str, address: str) -> SourceTable:
    """The rows of one statement that reads; it runs on a connection that cannot write. The address is
    `postgresql://USER@HOST:PORT/DATABASE`, `sqlite:FILE` or `duckdb:FILE`. Raises DataError where the query writes, is
    no single one, or fails; FileError where there is no such database, the address holds a password, or nobody
    answers."""
    scheme, _, rest = address.partition(":")
    if scheme == "postgres":
        scheme = "postgresql"
    if scheme not in SCHEMES or not rest:
        what = "the address is of no kind that is read"
        expected = "postgresql://USER@HOST/DATABASE, sqlite:FILE or duckdb:FILE"
        raise FileError(what, where="--from", expected=expected, remedy="write it so, without a password")
    if scheme == "postgresql":
        _refuse_password(address)
        return _postgresql(query, address)
    path = Path(unquote(rest.removeprefix("//")))
    if not is_plain_file(path):
        raise FileError("there is no such file", where=str(path), expected="a database", remedy="check the path")
    return (_sqlite if scheme == "sqlite" else _duckdb)(query, path)


def _refuse_password(address: str) -> None:
    try:
        parts = urlsplit(address)
        secret = parts.password is not None or any("pass" in key.lower() for key, _ in parse_qsl(parts.query))
    except ValueError:
        secret = True
    if secret:
        what = "the address holds a password, or cannot be read"
        expected = "postgresql://USER@HOST:PORT/DATABASE, and the password in the environment"
        remedy = "set PGPASSWORD, or keep it in ~/.pgpass, and change a password that a command line has shown"
        raise FileError(what, where="--from", expected=expected, remedy=remedy)


def _query_error(where: str) -> DataError:
    what, expected = "the query cannot be run, is more than one, or would write", "one statement that reads"
    return DataError(what, where=where, expected=expected, remedy=_REMEDY)


def _lost_error(where: str) -> FileError:
    what = "the database went away, or could not give all rows"
    expected, remedy = "an answer to the whole query", "see that it runs, and import again: nothing was kept"
    return FileError(what, where=where, expected=expected, remedy=remedy)


# -- SQLite: its cells have types, its columns none, so that all are texts ---------------------------------------------

_READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}


def _sqlite(query: str, path: Path) -> SourceTable:
    import pyarrow as pa

    where = f"sqlite:{path.name}"
    wrong = _query_error(where)
    with replace_errors(lambda: contextlib.closing(_open_sqlite(path)), wrong) as opened:
        names = replace_errors(lambda: [str(part[0]) for part in opened.execute(query).description], wrong)
    require_distinct_names(names, where)

    def batches(wanted: Sequence[str], ids: Collection[str] = ()) -> Iterator[Any]:
        with contextlib.closing(replace_errors(lambda: _open_sqlite(path), _lost_error(where))) as connection:
            cursor = replace_errors(lambda: connection.execute(query), _lost_error(where))
            kinds = dict.fromkeys(wanted, pa.string())
            yield from _columns(lambda: cursor.fetchmany(ROWS), names, kinds, _lost_error(where), ids)

    return SourceTable(where, dict.fromkeys(names, pa.string()), batches, typed=False, queried=True, cell_types=True)


def _open_sqlite(path: Path) -> sqlite3.Connection:
    """A connection whose statements read tables and call functions, and do nothing else."""
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)

    def authorize(action: int, _: str | None, name: str | None, *__: object) -> int:
        harmless = action in _READS or (action == sqlite3.SQLITE_FUNCTION and name != "load_extension")
        return sqlite3.SQLITE_OK if harmless else sqlite3.SQLITE_DENY

    connection.set_authorizer(authorize)
    return connection


# -- PostgreSQL: a cursor of the server's in a transaction that only reads ---------------------------------------------


def _postgresql(query: str, address: str) -> SourceTable:
    where = "postgresql"
    what = "no PostgreSQL answers there, or it lets nobody in"
    expected = "postgresql://USER@HOST:PORT/DATABASE, and the password in the environment (PGPASSWORD)"
    absent = FileError(what, where="--from", expected=expected, remedy="check the address with psql")
    with _open_cursor(query, address, absent, _query_error(where)) as cursor:
        columns = cursor.description
    names = [column.name for column in columns]
    require_distinct_names(names, where)
    kinds = {column.name: _kind(column.type_code) for column in columns}

    def batches(wanted: Sequence[str]) -> Iterator[Any]:
        with _open_cursor(query, address, _lost_error(where), _lost_error(where)) as cursor:
            chosen = {name: kinds[name] for name in wanted}
            yield from _columns(lambda: cursor.fetchmany(ROWS), names, chosen, _lost_error(where))

    return SourceTable(where, {name: naive_type(kind) for name, kind in kinds.items()}, batches, queried=True)


@contextlib.contextmanager
def _open_cursor(query: str, address: str, absent: TacitError, wrong: TacitError) -> Iterator[Any]:
    """A cursor of the server's, which takes one statement that reads; whatever it does is rolled back."""
    import psycopg

    options = "-c default_transaction_read_only=on -c TimeZone=UTC"
    connection = replace_errors(lambda: psycopg.connect(address, options=options), absent)
    cursor = connection.cursor(name="tacit")
    try:
        connection.read_only = True
        replace_errors(lambda: cursor.execute(query), wrong)
        yield cursor
    finally:
        for part in (cursor, connection):
            with contextlib.suppress(Exception):  # of a server that is gone
                part.close()


def _kind(type_code: int) -> Any:
    """The Arrow type of a PostgreSQL type: texts, where there is none."""
    import pyarrow as pa
    from psycopg import postgres

    info = postgres.types.get(type_code)
    kinds: Mapping[str, Any] = {
        "bool": pa.bool_(),
        **dict.fromkeys(("int2", "int4", "int8", "oid"), pa.int64()),
        **dict.fromkeys(("float4", "float8", "numeric"), pa.float64()),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us"),
        "timestamptz": pa.timestamp("us", "UTC"),
    }
    return kinds.get("" if info is None else info.name, pa.string())


# -- DuckDB ------------------------------------------------------------------------------------------------------------


def _duckdb(query: str, path: Path) -> SourceTable:
    where = f"duckdb:{path.name}"
    wrong = _query_error(where)
    with replace_errors(lambda: contextlib.closing(_open_duckdb(path)), wrong) as connection:
        names = replace_errors(lambda: list(_relation(connection, query).columns), wrong)  # which a limit would number
        schema = replace_errors(lambda: _relation(connection, query).limit(0).to_arrow_table().schema, wrong)
    require_distinct_names(names, where)
    kinds = {name: plain_type(kind) for name, kind in zip(names, schema.types, strict=True)}

    def batches(wanted: Sequence[str]) -> Iterator[Any]:
        with contextlib.closing(replace_errors(lambda: _open_duckdb(path), _lost_error(where))) as connection:
            reader = replace_errors(lambda: _relation(connection, query).to_arrow_reader(CHUNK), _lost_error(where))
            yield from arrow_batches(reader, {name: kinds[name] for name in wanted}, _lost_error(where))

    return SourceTable(where, {name: naive_type(kind) for name, kind in kinds.items()}, batches, queried=True)


def _open_duckdb(path: Path) -> Any:
    import duckdb

    connection = duckdb.connect(os.fspath(path), read_only=True)
    connection.execute("SET temp_directory = ''")  # rows would lie beside the database
    never = ("autoinstall_known_extensions", "autoload_known_extensions", "enable_external_access")
    for setting in (*never, "enable_progress_bar"):
        connection.execute(f"SET {setting} = false")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET lock_configuration = true")
    return connection


def _relation(connection: Any, query: str) -> Any:
    import duckdb

    statements = connection.extract_statements(query)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise ValueError
    return connection.sql(query)


# -- batches -----------------------------------------------------------------------------------------------------------


def arrow_batches(reader: Any, kinds: Mapping[str, Any], wrong: FileError | DataError) -> Iterator[Any]:
    """Batches of an Arrow reader, of the columns and types that are asked for."""
    import pyarrow as pa

    def cast_batch(batch: Any) -> Any:
        arrays = [cast_cells(batch.column(name), naive_type(kind)) for name, kind in kinds.items()]
        return pa.record_batch(arrays, names=list(kinds))

    while (batch := replace_errors(lambda: next(reader, None), wrong)) is not None:
        yield replace_errors(partial(cast_batch, batch), wrong)


def _columns(
    fetch: Callable[[], Sequence[Sequence[Any]]],
    names: Sequence[str],
    kinds: Mapping[str, Any],
    wrong: FileError,
    ids: Collection[str] = (),
) -> Iterator[Any]:
    """Batches of rows that a database's driver gives as tuples; those of columns of ids must be of one kind."""
    import pyarrow as pa

    places = {name: names.index(name) for name in kinds}
    first, read = dict[str, str](), 0

    def array(rows: Sequence[Sequence[Any]], name: str) -> Any:
        kind, cells = kinds[name], [row[places[name]] for row in rows]
        for row, cell in enumerate(cells if name in ids else ()):
            found = unit_keys.kind_of(cell)
            if unit_keys.key_or_none(cell) is not None and first.setdefault(name, found) != found:
                what = f"the id {name!r} is {found} in one row and {first[name]} in another"
                expected, remedy = "ids that are all of one kind", "write all as text in the query: CAST(ID AS TEXT)"
                raise DataError(what, where=f"{wrong.where}, row {read + row + 1}", expected=expected, remedy=remedy)
        if name in ids:
            cells = [cell if isinstance(cell, str) else unit_keys.key_or_none(cell) for cell in cells]
        plain = float if kind == pa.float64() else _text if kind == pa.string() else None
        if plain is not None:
            cells = [cell if cell is None else plain(cell) for cell in cells]
        return pa.array(cells, kind).cast(naive_type(kind))

    def batch(rows: Sequence[Sequence[Any]]) -> Any:
        return pa.record_batch([array(rows, name) for name in kinds], names=list(kinds))

    while rows := replace_errors(fetch, wrong):
        yield replace_errors(partial(batch, rows), wrong)
        read += len(rows)


def _text(cell: Any) -> str:
    """A cell as a text: bytes and whole numbers as `tacit.data.unit_keys` has them, since it may be an id."""
    if isinstance(cell, bytes) or (isinstance(cell, float) and cell.is_integer()):
        return unit_keys.key_or_none(cell) or str(cell)
    return str(cell)
