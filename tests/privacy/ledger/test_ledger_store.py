import contextlib
import os
import shutil
import sqlite3
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ledger_cases import UNIT, edit, filled, forge, make, reserve

from tacit.cli import main
from tacit.errors import LedgerError
from tacit.privacy.ledger import store
from tacit.privacy.ledger.ledger import SUM, Entry, Ledger
from tacit.privacy.ledger.state import Terms


def test_sql_cannot_edit_a_ledger_with_its_triggers(path: Path) -> None:
    filled(path)
    connection = sqlite3.connect(path)
    for statement in (
        "UPDATE entries SET time = 'x'",
        "DELETE FROM entries WHERE seq = 8",
        "INSERT OR REPLACE INTO entries VALUES (3, 't', 'note', '{}', 'h')",
        "INSERT INTO entries VALUES (11, 't', 'note', '{}', 'h')",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("statement", "entry"),
    [
        ("UPDATE entries SET payload = replace(payload, '\"0.4\"', '\"0.3\"') WHERE seq = 2", 2),
        ("UPDATE entries SET payload = replace(payload, '\"start\":3', '\"start\":0') WHERE seq = 4", 4),
        ("UPDATE entries SET time = '2020-01-01T00:00:00Z' WHERE seq = 5", 5),
        ("UPDATE entries SET kind = 'note' WHERE seq = 6", 6),
        ("UPDATE entries SET hash = '00' WHERE seq = 6", 6),
        ("DELETE FROM entries WHERE seq = 4", 4),
        ("DELETE FROM entries WHERE seq = 1", 1),
        ("UPDATE entries SET payload = payload || ' ' WHERE seq = 3", 3),
        ("UPDATE entries SET payload = '[]' WHERE seq = 3", 3),
        ("UPDATE entries SET payload = x'ff00' WHERE seq = 3", 3),
        ("UPDATE entries SET time = x'ff' WHERE seq = 7", 7),
    ],
)
def test_an_edited_row_is_named(path: Path, statement: str, entry: int) -> None:
    filled(path)
    edit(path, statement)
    for attempt in (Ledger, Ledger.read):
        with pytest.raises(LedgerError, match=rf"entry {entry} is not valid"):
            attempt(path)


def test_dropped_or_added_triggers_are_noticed(path: Path) -> None:
    filled(path)
    for statement in (
        "DROP TRIGGER entries_stay",
        "CREATE TRIGGER more AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
        "CREATE TABLE more (x)",
    ):
        bad = path.with_name("bad.ledger")
        shutil.copy(path, bad)
        connection = sqlite3.connect(bad)
        connection.execute(statement)
        connection.commit()
        connection.close()
        with pytest.raises(LedgerError, match="triggers"):
            Ledger.read(bad)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("claim", {"plan": "p", "part": "a", "start": 0, "count": 3}),  # again
        ("claim", {"plan": "p", "part": "a", "start": 21, "count": 1}),  # a gap
        ("claim", {"plan": "p", "part": "a", "start": 18, "count": 4}),  # over 1 %
        ("claim", {"plan": "p", "part": "b", "start": 0, "count": "1"}),
        ("claim", {"plan": "p"}),
        ("claim", {"plan": "q", "part": "a", "start": 0, "count": 1}),
        ("cancel", {"plan": "p"}),  # touched
        ("create", Terms("0" * 32, UNIT, 9.0, 9.0, 1e-4, SUM).payload()),
        ("budget", {"epsilon": "9.0"}),
        ("reserve", {"plan": "q", "description": {}, "parts": {"a": 1}, "epsilon": "0.7", "delta": "0.0", "rdp": None}),
        ("reserve", {"plan": "p", "description": {}, "parts": {"a": 1}, "epsilon": "0.1", "delta": "0.0", "rdp": None}),
        ("reserve", {"plan": "q", "description": [], "parts": {"a": 1}, "epsilon": "0.1", "delta": "0.0", "rdp": None}),
        ("reserve", {"plan": "q", "description": {}, "parts": [], "epsilon": "0.1", "delta": "0.0", "rdp": None}),
    ],
)
def test_an_entry_against_the_rules_is_refused_even_with_a_right_hash(
    path: Path, kind: str, payload: dict[str, object]
) -> None:
    filled(path)
    assert len(Ledger.read(path).entries()) == 9
    forge(path, kind, payload)
    with pytest.raises(LedgerError, match="entry 10 is not valid"):
        Ledger.read(path)


def test_truncated_or_garbage_files(path: Path) -> None:
    filled(path)
    whole = path.read_bytes()
    for size in (0, 1, 50, 100, 1000, 4096, 8192, len(whole) - 4096, len(whole) - 1):
        path.write_bytes(whole[:size])
        for attempt in (Ledger, Ledger.read):
            with pytest.raises(LedgerError):
                attempt(path)
    for garbage in (b"garbage" * 1000, whole[:100] + bytes(len(whole) - 100), bytes(5000)):
        path.write_bytes(garbage)
        with pytest.raises(LedgerError):
            Ledger(path)
    path.write_bytes(whole)
    Ledger(path).close()


def test_any_flipped_byte_of_content_is_noticed(path: Path) -> None:
    filled(path)
    whole = path.read_bytes()
    identity = Ledger.read(path)
    at = whole.index(b'"epsilon":"0.4"')
    for offset in range(at, at + 15):
        path.write_bytes(whole[:offset] + bytes([whole[offset] ^ 1]) + whole[offset + 1 :])
        with pytest.raises(LedgerError):
            Ledger.read(path)
    path.write_bytes(whole)
    assert Ledger.read(path).head == identity.head


def test_a_restored_backup_is_noticed(path: Path, tmp_path: Path) -> None:
    with make(path) as ledger:
        reserve(ledger)
        ledger.claim("p", "a", 3)
    backup = tmp_path / "backup"
    shutil.copy(path, backup)
    with Ledger(path) as ledger:
        old = ledger.head
        ledger.claim("p", "a", 3)
        new = ledger.head
        ledger.require(old)
        ledger.require(new)
    shutil.copy(backup, path)
    with pytest.raises(LedgerError, match="older than the head recorded beside it"):
        Ledger(path)
    path.with_name("x.ledger.lock").unlink()  # restored together with everything beside it: the checkpoint tells
    with Ledger(path) as ledger:
        ledger.require(old)
        with pytest.raises(LedgerError, match="does not contain the head"):
            ledger.require(new)
        with pytest.raises(LedgerError):
            ledger.require("")


def test_branches_of_a_copy_tell_each_other_apart(path: Path, tmp_path: Path) -> None:
    with make(path) as ledger:
        reserve(ledger)
    copied = tmp_path / "copy.ledger"
    shutil.copy(path, copied)
    with Ledger(path) as first, Ledger(copied) as second:
        first.claim("p", "a", 1)
        second.claim("p", "a", 2)
        with pytest.raises(LedgerError):
            second.require(first.head)


def test_a_removed_ledger_does_not_come_back_empty(path: Path) -> None:
    make(path).close()
    path.unlink()
    with pytest.raises(LedgerError, match="gone"):
        make(path)
    assert not path.exists()


def test_a_ledger_exchanged_while_open_is_noticed(path: Path, tmp_path: Path) -> None:
    with make(path) as ledger:
        reserve(ledger)
        shutil.copy(path, tmp_path / "backup")
        ledger.claim("p", "a", 3)
        os.replace(tmp_path / "backup", path)
        for _ in range(2):
            with pytest.raises(LedgerError):
                ledger.claim("p", "a", 3)


def test_disk_full_keeps_nothing_half_written(path: Path) -> None:
    resource = pytest.importorskip("resource")
    with make(path) as ledger:
        reserve(ledger, steps=100_000)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, hard))
        taken = 0
        try:
            with pytest.raises(LedgerError, match="cannot be used"):  # noqa: PT012
                for _ in range(1000):
                    taken = ledger.claim("p", "a", 1).stop
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        ledger.verify()
        assert ledger.claimed("p", "a") == taken
        assert ledger.claim("p", "a", 1) == range(taken, taken + 1)
    Ledger(path).close()


def test_disk_full_at_creation_leaves_no_ledger(path: Path) -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        with pytest.raises(LedgerError):
            make(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not path.exists()
    make(path).close()


@contextlib.contextmanager
def nobody() -> Iterator[None]:
    """Somebody who is not root, as file permissions do not bind root."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="needs POSIX permissions")
def test_read_only_folder_and_file() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.ledger")
        make(path).close()
        path.with_name("x.ledger.lock").chmod(0o666)
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        with nobody():
            with pytest.raises(LedgerError, match="folder cannot be written"):
                make(path.with_name("new.ledger"))
            with pytest.raises(LedgerError, match="readonly"):
                Ledger(path)
            Ledger.read(path).verify()
        Path(folder).chmod(0o700)
        assert sorted(file.name for file in Path(folder).iterdir()) == ["x.ledger", "x.ledger.lock"]


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="folder"):
        make(tmp_path / "nowhere" / "x.ledger")


CRASH = """
import os, sys
from tacit.privacy.ledger.ledger import Ledger
ledger = Ledger(sys.argv[1])
(connection,) = ledger._store._connections
connection.execute("PRAGMA cache_size = 1")  # spills into the file before the commit
connection.execute("BEGIN IMMEDIATE")
for seq in range(10, 40):
    connection.execute("INSERT INTO entries VALUES (?, 't', 'note', ?, 'h')", (seq, "x" * 3000))
os._exit(0)
"""


def test_reading_writes_nothing_even_after_a_crash(path: Path) -> None:
    filled(path)
    head = Ledger.read(path).head
    subprocess.run([sys.executable, "-c", CRASH, str(path)], check=True)
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    assert len(before["x.ledger-journal"]) > 0
    assert Ledger.read(path).head == head
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before
    with Ledger(path) as ledger:
        assert ledger.head == head
        ledger.verify()


def test_view_says_what_the_ledger_says(path: Path) -> None:
    filled(path)
    view = Ledger.read(path)
    view.verify()
    with Ledger(path) as ledger:
        assert view.entries() == ledger.entries()
        assert (view.spent(), view.plans(), view.head) == (ledger.spent(), ledger.plans(), ledger.head)
        assert (view.unit, view.epsilon, view.delta, view.dataset_id) == (UNIT, 1.0, 1e-4, ledger.dataset_id)
    assert isinstance(view.entries()[0], Entry)


def hostile_journal(path: Path, victim: Path) -> None:
    """Leave a crash's journal beside the ledger, with a record that names the victim as its super-journal."""
    subprocess.run([sys.executable, "-c", CRASH, str(path)], check=True)
    name = os.fsencode(victim)
    record = struct.pack(">I", 2**30 // 4096 + 1) + name + struct.pack(">II", len(name), sum(name))
    with open(f"{path}-journal", "ab") as file:
        file.write(record + bytes.fromhex("d9d505f920a163d7"))


def test_no_journal_makes_a_reader_or_a_writer_delete_a_file(path: Path, tmp_path: Path) -> None:
    filled(path)
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    hostile_journal(path, victim)
    before = {file: file.read_bytes() for file in (victim, path, Path(f"{path}-journal"))}
    for opened in (Ledger.read, Ledger):
        with pytest.raises(LedgerError, match="journal that tacit did not write"):
            opened(path)
    assert main(["ledger", "show", str(path)]) == 3
    assert {file: file.read_bytes() for file in before} == before


def test_the_journal_of_that_test_is_a_real_attack(path: Path, tmp_path: Path) -> None:
    filled(path)
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    hostile_journal(path, victim)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT * FROM entries").fetchall()
    assert not victim.exists()


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
@pytest.mark.parametrize("name", [".lock", "-journal"])
def test_a_link_beside_a_ledger_is_never_written_through(
    path: Path, tmp_path: Path, link: Callable[[Path, str], None], name: str
) -> None:
    filled(path)
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious" * 20)
    Path(f"{path}{name}").unlink(missing_ok=True)
    link(victim, f"{path}{name}")
    with pytest.raises(LedgerError, match="link"):
        Ledger(path)
    assert victim.read_bytes() == b"precious" * 20


def test_a_write_ahead_log_is_never_made_or_read(path: Path) -> None:
    filled(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    before = sorted(file.name for file in path.parent.iterdir())
    for opened in (Ledger.read, Ledger):
        with pytest.raises(LedgerError, match="journal that tacit did not write"):
            opened(path)
    assert sorted(file.name for file in path.parent.iterdir()) == before


def test_a_ledger_and_its_lock_are_their_owners_alone(path: Path) -> None:
    filled(path)
    assert [stat.S_IMODE(os.stat(file).st_mode) for file in (path, Path(f"{path}.lock"))] == [0o600, 0o600]


def test_a_file_of_another_program_is_no_lock(path: Path) -> None:
    other = Path(f"{path}.lock")
    for content in (b"[package]\nname = 'x'\n", b"0" * 83, b"Z"):
        other.write_bytes(content)
        with pytest.raises(LedgerError, match="no lock of tacit"):
            make(path)
        assert other.read_bytes() == content
    assert not path.exists()
    for content in (b"", b"\0" * 82, b"0f" * 20):  # what a power cut may leave
        other.write_bytes(content)
        make(path).close()


def test_a_link_to_nothing_or_a_folder_is_no_place_for_a_ledger(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere")
    before = sorted(tmp_path.rglob("*"))
    for place in (path, tmp_path, Path("/")):
        with pytest.raises(LedgerError, match="no plain file"):
            make(place)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_no_ledger(path: Path) -> None:
    os.mkfifo(path)  # opening it would block for ever
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger.read(path)
    with pytest.raises(LedgerError, match="no plain file"):
        Ledger(path)


def test_a_new_ledger_is_its_owners_before_its_first_entry(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes, connect = [], store._connect

    def watched(file: Path, mode: str) -> sqlite3.Connection:
        modes.append(stat.S_IMODE(os.stat(file).st_mode))
        return connect(file, mode)

    monkeypatch.setattr(store, "_connect", watched)
    make(path).close()
    assert modes == [0o600, 0o600]


def test_a_journal_that_is_exchanged_while_it_is_copied_is_refused(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(path)
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    hostile_journal(path, victim)
    journal = Path(f"{path}-journal")
    hostile = journal.read_bytes()
    journal.write_bytes(hostile[: hostile.rindex(os.fsencode(victim)) - 4])  # without the record
    assert Ledger.read(path).head

    def exchange(source: str, to: str) -> None:
        Path(to).write_bytes(hostile if source.endswith("-journal") else Path(source).read_bytes())

    monkeypatch.setattr(shutil, "copyfile", exchange)
    with pytest.raises(LedgerError, match="journal that tacit did not write"):
        Ledger.read(path)
    assert victim.read_bytes() == b"precious"
