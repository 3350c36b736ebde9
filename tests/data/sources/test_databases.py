"""Queries: what a database gives is read, and nothing in it is written."""

from __future__ import annotations

import dataclasses
import os
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from visits import CANARY, ORDER, REWARD, ROWS, SORTED, SPEC, assert_quiet, rows, table

from tacit.data import Trajectories
from tacit.data.sources import databases, sorting
from tacit.data.sources.lake import SourceTable
from tacit.errors import DataError, FileError, TacitError

duckdb = pytest.importorskip("duckdb")

WANTED = sorting.TableOptions(unit="patient", episode="visit", time="minute", next="keep", reward=REWARD)
CREATE = (
    "CREATE TABLE visits (patient TEXT, visit INTEGER, minute INTEGER, pulse DOUBLE PRECISION, ward TEXT, drug TEXT)"
)
INSERT = "INSERT INTO visits VALUES ({}, {}, {}, {}, {}, {})"
QUERY = "SELECT * FROM visits"


def imported(found: SourceTable) -> Trajectories:
    return Trajectories(sorting.read(found, WANTED, SPEC, simulated=True), SPEC, simulated=True)


@pytest.fixture
def sqlite_file(tmp_path: Path) -> Path:
    path = tmp_path / "visits.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute(CREATE)
        connection.executemany(INSERT.format(*"??????"), [ROWS[i] for i in ORDER])
    connection.close()
    return path


@pytest.fixture
def duckdb_file(tmp_path: Path) -> Path:
    path = tmp_path / "visits.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("frame", table())
        connection.execute("CREATE TABLE visits AS SELECT * FROM frame")
        connection.execute("CREATE SEQUENCE numbers")
    return path


@pytest.fixture
def address(request: pytest.FixtureRequest) -> str:
    """Of a database by its kind, with the table of visits in it."""
    kind: str = request.param
    if kind == "postgresql":
        return str(request.getfixturevalue("server"))
    return f"{kind}:{request.getfixturevalue(f'{kind}_file')}"


KINDS = pytest.mark.parametrize("address", ["sqlite", "duckdb", "postgresql"], indirect=True)


@KINDS
def test_the_rows_of_a_query_are_sorted_like_any_others(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "ROWS", 2)
    found = databases.open_table(QUERY, address)
    assert found.queried
    data = imported(found)
    assert rows(data) == SORTED
    assert data._records.queried
    chosen = databases.open_table("SELECT * FROM visits WHERE patient = 'bob'", address)
    assert rows(imported(chosen)) == SORTED[4:]


@pytest.mark.parametrize(
    ("ids", "what"),
    [
        ([1, 1, "1", 2, 2, 2], "sqlite:ids.sqlite, row 3: the id 'patient' is text in one row and a whole number in"),
        (["A", b"A", "A", "B", "B", "B"], "row 2: the id 'patient' is bytes in one row and text in another"),
        ([1, 1, 1.5, 2, 2, 2], "the unit id is missing"),
        ([1, 1, "NA", 2, 2, 2], "the unit id is missing"),
        ([1, 1.0, 1, 2, 2, 2], None),
        ([None, b"A", b"A", b"\xff", b"\xff", b"\xff"], "the unit id is missing"),
        (["1.5", "1.5", "1", "2", "2", "2"], None),
    ],
)
def test_ids_of_sqlite_are_of_one_kind(
    ids: list[Any], what: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "ROWS", 2)
    with sqlite3.connect(tmp_path / "ids.sqlite") as connection:
        connection.execute("CREATE TABLE visits (patient, visit, minute, pulse, ward, drug)")
        connection.executemany(INSERT.format(*"??????"), [(one, 1, *ROWS[i][2:]) for i, one in enumerate(ids)])
    connection.close()
    found = databases.open_table("SELECT *, rowid AS place FROM visits", f"sqlite:{tmp_path / 'ids.sqlite'}")
    wanted = dataclasses.replace(WANTED, episode=None, time="place")
    if what is None:
        assert sorting.read(found, wanted, SPEC, simulated=True).names.shape == (len(set(ids)), 16)
        return
    with pytest.raises(DataError, match=what) as caught:
        sorting.read(found, wanted, SPEC, simulated=True)
    assert_quiet(caught.value)


WRITING = (
    "INSERT INTO visits SELECT * FROM visits RETURNING patient",
    "DELETE FROM visits",
    "DROP TABLE visits",
    "UPDATE visits SET pulse = 0 RETURNING *",
    "CREATE TABLE others AS SELECT * FROM visits",
    "SELECT 1 AS patient; DROP TABLE visits",
    "SELECT 1 AS patient; COMMIT; DROP TABLE visits",
    "SELECT patient, nosuch FROM visits",
    f"SELECT CAST('{CANARY}' AS INTEGER) FROM nosuch",
    "not a query",
    "",
)


@KINDS
@pytest.mark.parametrize("query", WRITING)
def test_a_query_that_writes_or_fails_is_refused(query: str, address: str) -> None:
    with pytest.raises(DataError, match="the query cannot be run, is more than one, or would write") as caught:
        databases.open_table(query, address)
    assert_quiet(caught.value)
    assert len(rows(imported(databases.open_table(QUERY, address)))) == 6


@KINDS
def test_a_query_without_the_unit_or_with_two_names_is_refused(address: str) -> None:
    with pytest.raises(DataError, match="there is no unit id: no column 'patient'"):
        imported(databases.open_table("SELECT visit, minute, pulse, ward, drug FROM visits", address))
    if not address.startswith("duckdb"):  # which renames it
        with pytest.raises(DataError, match="two columns have one name"):
            databases.open_table("SELECT visit, visit FROM visits", address)


@pytest.mark.parametrize(
    "query",
    [
        "ATTACH '{folder}/other.sqlite' AS other",
        "PRAGMA writable_schema = 1",
        "SELECT load_extension('{folder}/nosuch')",
        "VACUUM INTO '{folder}/copy.sqlite'",
    ],
)
def test_sqlite_does_nothing_but_read(query: str, sqlite_file: Path) -> None:
    with pytest.raises(DataError, match="the query cannot be run"):
        databases.open_table(query.format(folder=sqlite_file.parent), f"sqlite:{sqlite_file}")
    assert [path.name for path in sqlite_file.parent.iterdir()] == ["visits.sqlite"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('{folder}/secret.csv')",
        "SELECT * FROM '{folder}/secret.csv'",
        "COPY visits TO '{folder}/copy.csv'",
        "ATTACH '{folder}/other.duckdb'",
        "INSTALL postgres",
        "SET enable_external_access = true",
        "SELECT nextval('numbers') AS patient",
    ],
)
def test_duckdb_reaches_no_file_and_no_network(query: str, duckdb_file: Path) -> None:
    (duckdb_file.parent / "secret.csv").write_text(f"patient\n{CANARY}\n")
    with pytest.raises(TacitError) as caught:
        imported(databases.open_table(query.format(folder=duckdb_file.parent), f"duckdb:{duckdb_file}"))
    assert_quiet(caught.value)
    assert {path.name for path in duckdb_file.parent.iterdir()} == {"visits.duckdb", "secret.csv"}


@pytest.mark.parametrize(
    ("where", "what"),
    [
        (f"postgresql://ann:{CANARY}@localhost/visits", "the address holds a password"),
        (f"postgresql://ann@localhost/visits?password={CANARY}", "the address holds a password"),
        (f"postgresql://ann@localhost/visits?sslpassword={CANARY}", "the address holds a password"),
        (f"postgres://ann:{CANARY}@[::1", "the address holds a password, or cannot be read"),
        (f"mysql://ann:{CANARY}@localhost/visits", "the address is of no kind that is read"),
        ("sqlite:", "the address is of no kind that is read"),
        ("sqlite:nosuch.sqlite", "nosuch.sqlite: there is no such file"),
        ("duckdb:nosuch.duckdb", "nosuch.duckdb: there is no such file"),
    ],
)
def test_an_address_holds_no_password_and_names_a_database(where: str, what: str) -> None:
    with pytest.raises(FileError, match=what) as caught:
        databases.open_table(QUERY, where)
    assert_quiet(caught.value)


def test_a_file_of_another_kind_is_refused_without_a_word_of_it(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_text(CANARY * 1000)
    for kind in ("sqlite", "duckdb"):
        with pytest.raises(DataError, match="the query cannot be run") as caught:
            databases.open_table(QUERY, f"{kind}:{tmp_path / 'a.db'}")
        assert_quiet(caught.value)


def test_a_cell_that_is_no_text_is_refused_without_a_word_of_it(sqlite_file: Path) -> None:
    query = f"SELECT patient, visit, minute, pulse, ward, CAST('{CANARY}' AS BLOB) || x'ff' AS drug FROM visits"
    with pytest.raises(TacitError, match=r"could not give all rows|has a label") as caught:
        imported(databases.open_table(query, f"sqlite:{sqlite_file}"))
    assert_quiet(caught.value)


# -- a server of the test's own ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def postgres() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address of a PostgreSQL that is started for these tests, and its process."""
    psycopg = pytest.importorskip("psycopg")
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # a socket's path is short
    try:
        with started(folder) as (address, process):
            with psycopg.connect(address) as connection:
                connection.execute(CREATE)
                connection.cursor().executemany(INSERT.format(*["%s"] * 6), [ROWS[i] for i in ORDER])
            yield address, process
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def server(postgres: tuple[str, Any]) -> str:
    return postgres[0]


class started:
    """A server in a folder, for a `with` statement; root starts it as the user postgres, since it refuses root."""

    def __init__(self, folder: Path) -> None:
        programs = [shutil.which(name) or _debian(name) for name in ("initdb", "postgres")]
        if not all(programs):
            pytest.skip("no PostgreSQL is installed")
        self._initdb, self._postgres = programs
        self._folder, self._port = folder, free_port()
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            try:
                shutil.chown(folder, "postgres", "postgres")
            except LookupError:
                pytest.skip("there is no user postgres")
            self._as = {"user": "postgres", "group": "postgres", "extra_groups": []}

    def __enter__(self) -> tuple[str, subprocess.Popen[bytes]]:
        import psycopg

        data = str(self._folder / "data")
        made = [str(self._initdb), "-D", data, "-U", "ann", "-A", "trust", "--no-sync", "-E", "UTF8", "--no-locale"]
        subprocess.run(made, check=True, capture_output=True, cwd="/", **self._as)
        options = ["-k", str(self._folder), "-p", str(self._port), "-c", "listen_addresses=", "-c", "fsync=off"]
        command = [str(self._postgres), "-D", data, *options]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/"}
        self._process = subprocess.Popen(command, **quiet, **self._as)
        address = f"postgresql://ann@/postgres?host={self._folder}&port={self._port}"
        for _ in range(200):
            try:
                psycopg.connect(address).close()
                return address, self._process
            except psycopg.OperationalError:
                time.sleep(0.1)
        raise TimeoutError

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()


def _debian(name: str) -> str | None:
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_types_of_postgresql_are_kept(server: str) -> None:
    import psycopg

    with psycopg.connect(server) as connection:
        connection.execute(
            "CREATE TABLE kinds AS SELECT 'a'::varchar AS t, 1::smallint AS i, 0.25::numeric AS n, true AS b, "
            "DATE '2024-03-01' AS d, TIMESTAMPTZ '2024-03-01 10:00+02' AS z, gen_random_uuid() AS u"
        )
    found = databases.open_table("SELECT * FROM kinds", server)
    kinds = ["string", "int64", "double", "bool", "date32[day]", "timestamp[us]", "string"]
    assert [str(kind) for kind in found.kinds.values()] == kinds
    (batch,) = found.batches(["i", "n", "b", "z"])
    (row,) = batch.to_pylist()
    assert (row["i"], row["n"], row["b"], row["z"].isoformat()) == (1, 0.25, True, "2024-03-01T08:00:00")


def test_what_a_function_of_a_query_writes_is_rolled_back(server: str) -> None:
    import psycopg

    with pytest.raises(TacitError):
        imported(databases.open_table("SELECT lo_create(4711) AS patient FROM visits", server))
    with psycopg.connect(server) as connection:
        assert connection.execute("SELECT count(*) FROM pg_largeobject_metadata").fetchall() == [(0,)]


def test_nobody_answers(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(FileError, match="no PostgreSQL answers there") as caught:
        databases.open_table(QUERY, f"postgresql://ann@/visits?host={tmp_path}&port=1")
    assert_quiet(caught.value)


def test_a_server_that_goes_away_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.setattr(databases, "ROWS", 100)
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    try:
        with started(folder) as (address, process):
            query = (
                "SELECT g % 50 AS patient, 1 AS visit, g AS minute, 60.0 AS pulse, 'A' AS ward, 'low' AS drug "
                "FROM generate_series(1, 100000) g"
            )
            found = databases.open_table(query, address)

            def batches(names: Any) -> Iterator[Any]:
                for number, batch in enumerate(found.batches(names)):
                    if number == 3:
                        process.kill()
                        process.wait()
                    yield batch

            half = SourceTable(found.name, found.kinds, batches, queried=True)
            with pytest.raises(FileError, match="the database went away, or could not give all rows") as caught:
                sorting.read(half, WANTED, SPEC, store=tmp_path / "out")
    finally:
        shutil.rmtree(folder)
    assert_quiet(caught.value)
    assert list(tmp_path.iterdir()) == []
