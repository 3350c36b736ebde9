"""The register of contributions: caps that hold beyond the process, and files that nobody changed."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_cases import in_child

from tacit.errors import LedgerError, PlanError
from tacit.privacy.ledger.register import Register


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "vault").mkdir()
    (tmp_path / "keys").mkdir()
    return tmp_path / "vault" / "register", tmp_path / "keys" / "key"


@pytest.fixture
def register(files: tuple[Path, Path]) -> Iterator[Register]:
    with open_(files) as register:
        yield register


def open_(files: tuple[Path, Path]) -> Register:
    return Register(files[0], key=files[1])


def test_each_person_contributes_as_often_as_agreed(register: Register) -> None:
    assert register.reserve("p", ["a", "b"], 2).tolist() == [True, True]
    assert register.reserve("p", ["b", "c"], 2).tolist() == [True, True]
    assert register.reserve("p", ["b", "a", "c"], 2).tolist() == [False, True, True]
    assert register.reserve("q", ["b"], 2).tolist() == [True]


def test_nobody_twice_in_one_meeting_and_nobody_unknown(register: Register) -> None:
    assert register.reserve("p", ["a", "", "a", "", "b"], 5).tolist() == [True, False, False, False, True]
    assert register.reserve("p", [], 5).tolist() == []


def test_a_reservation_is_spent_whether_or_not_it_was_committed(files: tuple[Path, Path]) -> None:
    with open_(files) as register:
        register.reserve("p", ["a"], 1)
        register.commit()
        register.reserve("p", ["b"], 1)
    with open_(files) as register:
        assert register.reserve("p", ["a", "b", "c"], 1).tolist() == [False, False, True]


def test_commit_follows_one_reservation_of_this_process(files: tuple[Path, Path]) -> None:
    with open_(files) as register:
        with pytest.raises(LedgerError, match="no reservation"):
            register.commit()
        register.reserve("p", ["a"], 1)
        register.commit()
        with pytest.raises(LedgerError, match="no reservation"):
            register.commit()
        register.reserve("p", ["b"], 1)
    with open_(files) as register, pytest.raises(LedgerError, match="no reservation"):
        register.commit()


@pytest.mark.parametrize(("people", "most"), [(["a"], 0), (["a"], -1), ([1], 1), ([b"a"], 1), ([None], 1)])
def test_bad_arguments_write_nothing(register: Register, people: list[str], most: int) -> None:
    head = register.head
    with pytest.raises(PlanError) as caught:
        register.reserve("p", people, most)
    assert register.head == head
    assert "None" not in str(caught.value)


WHO = {"": "", "NA": "", " \t": "", "a": "a", "A": "A", "\ta\u2028": "a", " a": "a", "b": "b", "é": "é"}
WHO |= {"e\u0301": "e\u0301", "\ud800": "\ud800", "a\nb": "a\nb", "a b": "a b"}
"""Ids, and whose they are; "" is somebody unknown."""


@given(
    calls=st.lists(st.lists(st.sampled_from(sorted(WHO)), max_size=5), max_size=8),
    most=st.integers(1, 3),
)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_as_counting_by_hand(calls: list[list[str]], most: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("r")
    (folder / "k").mkdir()
    (folder / "v").mkdir()
    files, counts = (folder / "v" / "r", folder / "k" / "k"), dict[str, int]()
    for people in calls:
        with open_(files) as register:
            granted = register.reserve("p", people, most)
        people = [WHO[person] for person in people]
        for place, person in enumerate(people):
            expected = person != "" and person not in people[:place] and counts.get(person, 0) < most
            assert granted[place] == expected
        for person in {p for p, yes in zip(people, granted, strict=True) if yes}:
            counts[person] = counts.get(person, 0) + 1


def test_neither_file_nor_repr_tells_who(files: tuple[Path, Path], register: Register) -> None:
    register.reserve("p", ["somebody@example.org"], 1)
    assert b"somebody" not in files[0].read_bytes()
    assert repr(register) == f"Register({str(files[0])!r})"
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(LedgerError):
            attempt(register)


def test_the_key_is_its_owners(files: tuple[Path, Path], register: Register) -> None:
    assert register.key_folder == files[1].parent
    assert files[1].stat().st_size == 32
    assert files[1].stat().st_mode & 0o777 == 0o600
    register.close()
    files[1].chmod(0o640)
    with pytest.raises(LedgerError, match="others than its owner"):
        open_(files)


@pytest.mark.parametrize("place", ["vault/key", "vault/deep/key", "link/key"])
def test_a_key_beside_or_below_the_register_is_refused(files: tuple[Path, Path], place: str) -> None:
    root = files[0].parent.parent
    (root / "vault" / "deep").mkdir()
    (root / "link").symlink_to(root / "vault")
    with pytest.raises(LedgerError, match="in the register's folder"):
        Register(files[0], key=root / place)
    assert not files[0].exists()


@pytest.mark.parametrize("gone", [0, 1])
def test_a_lost_file_is_not_made_anew(files: tuple[Path, Path], gone: int) -> None:
    open_(files).close()
    files[gone].unlink()
    with pytest.raises(LedgerError, match=("register is gone", "key is gone")[gone]):
        open_(files)
    assert not files[gone].exists()
    files[1 - gone].unlink()
    with pytest.raises(LedgerError, match="register and key is gone"):
        open_(files)


def test_another_key_opens_nothing(files: tuple[Path, Path]) -> None:
    open_(files).close()
    files[1].write_bytes(bytes(32))
    with pytest.raises(LedgerError, match="the key is not this register's"):
        open_(files)
    files[1].write_bytes(bytes(31))
    with pytest.raises(LedgerError, match="not a key"):
        open_(files)


@pytest.mark.parametrize("change", ["edit", "swap", "drop", "repeat", "shorten", "add", "empty"])
def test_edited_lines_are_found(files: tuple[Path, Path], change: str) -> None:
    with open_(files) as register:
        for person in "abc":
            register.reserve("p", [person], 1)
    lines = files[0].read_bytes().splitlines(keepends=True)
    edited = {
        "edit": [lines[0], lines[1].replace(b'"p"', b'"q"'), *lines[2:]],
        "swap": [lines[0], lines[2], lines[1], lines[3]],
        "drop": [lines[0], *lines[2:]],
        "repeat": [*lines, lines[-1]],
        "shorten": lines[:-1],
        "add": [*lines, b'{"kind":"commit"} ' + b"0" * 64 + b"\n"],
        "empty": [],
    }[change]
    files[0].write_bytes(b"".join(edited))
    with pytest.raises(LedgerError):
        open_(files)


@pytest.mark.parametrize("torn", [b'{"kind":"res', b"\0" * 40, b'{"kind"' + b"\0" * 40 + b"ab\n"])
def test_a_torn_last_line_is_dropped(files: tuple[Path, Path], torn: bytes) -> None:
    with open_(files) as register:
        register.reserve("p", ["a"], 1)
        head = register.head
    whole = files[0].read_bytes()
    files[0].write_bytes(whole + torn)
    with open_(files) as register:
        assert register.head == head
        assert files[0].read_bytes() == whole
        assert register.reserve("p", ["a", "b"], 1).tolist() == [False, True]


def test_every_way_to_tear_the_last_line(files: tuple[Path, Path]) -> None:
    with open_(files) as register:
        head = register.head
        before = files[0].read_bytes()
        register.reserve("p", ["a"], 1)
    after = files[0].read_bytes()
    lock = files[0].with_name("register.lock")
    for cut in range(len(before), len(after)):
        files[0].write_bytes(after[:cut])
        lock.write_text(f"{head}\n")  # recorded after the line is whole
        with open_(files) as register:
            assert register.head == head


def test_an_older_copy_is_found(files: tuple[Path, Path]) -> None:
    lock = files[0].with_name("register.lock")
    with open_(files) as register:
        register.reserve("p", ["a"], 1)
        old = files[0].read_bytes(), lock.read_bytes()
        register.reserve("p", ["b"], 1)
        newest = register.head
        register.require(newest)
    files[0].write_bytes(old[0])
    with pytest.raises(LedgerError, match="older than the head recorded"):
        open_(files)
    lock.write_bytes(old[1])  # the lock as well: only who kept the head can tell
    with open_(files) as register, pytest.raises(LedgerError, match="does not contain the head"):
        register.require(newest)


def test_one_process_at_a_time(files: tuple[Path, Path], register: Register) -> None:
    with pytest.raises(LedgerError, match="the register is in use"):
        open_(files)
    code = (
        "import sys; from tacit.privacy.ledger.register import Register\n"
        "try: Register(sys.argv[1], key=sys.argv[2])\nexcept Exception as e: print(e)"
    )
    command = [sys.executable, "-c", code, *map(str, files)]
    other = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "the register is in use" in other.stdout
    register.close()
    register.close()
    with pytest.raises(LedgerError, match="the register is closed"):
        register.reserve("p", ["a"], 1)
    open_(files).close()


def test_many_processes_that_open_it_at_once_share_one_cap(files: tuple[Path, Path]) -> None:
    code = (
        "import sys; from tacit.privacy.ledger.register import Register\nfrom tacit.errors import LedgerError\n"
        "for _ in range(10000):\n"
        "    try: register = Register(sys.argv[1], key=sys.argv[2])\n"
        "    except LedgerError as e:\n"
        "        if 'in use' in str(e): continue\n"
        "        raise\n"
        "    print(int(register.reserve('p', ['a'], 1)[0])); break\n"
    )
    command = [sys.executable, "-c", code, *map(str, files)]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = sorted(child.communicate(timeout=60)[0].strip() for child in children)
    assert answers == ["0", "0", "1"]


def test_a_register_exchanged_while_open_is_refused(files: tuple[Path, Path], register: Register) -> None:
    register.reserve("p", ["a"], 1)
    other = files[0].with_name("other")
    other.write_bytes(files[0].read_bytes())
    other.replace(files[0])
    for _ in range(2):
        with pytest.raises(LedgerError):
            register.reserve("p", ["b"], 1)


def test_a_failed_write_lets_nobody_in(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    with open_(files) as register:
        with monkeypatch.context() as patch:

            def full(handle: int) -> None:
                raise OSError(28, "No space left on device")

            patch.setattr(os, "fsync", full)
            with pytest.raises(LedgerError, match="No space left"):
                register.reserve("p", ["a"], 1)
        with pytest.raises(LedgerError, match="may not have reached the disk"):
            register.reserve("p", ["b"], 1)
    with open_(files) as register:  # the line is there or not; a is refused, or let in for the first time
        assert register.reserve("p", ["b"], 1).tolist() == [True]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_is_refused(files: tuple[Path, Path], register: Register) -> None:
    assert in_child(lambda: register.reserve("p", ["a"], 1)) == 3
    assert register.reserve("p", ["a"], 1).tolist() == [True]


def test_hard_links_are_refused(files: tuple[Path, Path]) -> None:
    open_(files).close()
    os.link(files[0], files[0].with_name("other"))
    with pytest.raises(LedgerError, match="several names"):
        open_(files)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "k").mkdir()
    (tmp_path / "v").mkdir()
    with pytest.raises(LedgerError, match="cannot be written to"):
        Register(tmp_path / "none" / "register", key=tmp_path / "k" / "key")
    with pytest.raises(LedgerError, match="cannot be used"):
        Register(tmp_path / "v" / "register", key=tmp_path / "none" / "key")
    open_((tmp_path / "v" / "register", tmp_path / "k" / "key")).close()


def test_a_link_to_nothing_is_no_place_for_a_register_or_key(files: tuple[Path, Path], tmp_path: Path) -> None:
    for file in files:
        file.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(LedgerError, match="no plain file"):
            open_(files)
        file.unlink()
    assert not (tmp_path / "elsewhere").exists()


def test_a_key_or_register_of_a_terabyte_that_is_not_there_is_refused(files: tuple[Path, Path]) -> None:
    open_(files).close()
    for file in files:
        content = file.read_bytes()
        with file.open("r+b") as opened:
            opened.truncate(2**40)
        with pytest.raises(LedgerError, match="hollow"):
            open_(files)
        file.write_bytes(content)
    open_(files).close()
