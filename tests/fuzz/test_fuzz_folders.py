"""Whole folders as inputs: what an input describes is made, nothing outside is touched, and what happens is seen."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz import fuzz_records, fuzz_releases
from tests.fuzz.fuzz_bombs import gzip_bomb, parquet_bomb, tensor_bomb, zip_bomb
from tests.fuzz.fuzz_cases import EXCHANGED
from tests.fuzz.fuzz_folders import INPUT, READERS, pack, tricks, unpack
from tests.fuzz.fuzz_worker import changes, look, plant

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX files")


def made(folder: Path, tree: object) -> None:
    folder.mkdir(exist_ok=True)
    (folder / INPUT).write_text(json.dumps(tree))
    unpack(folder)


def test_a_folder_comes_back_as_it_was_packed(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    (one / "deep").mkdir(parents=True)
    (one / "deep" / "key").write_bytes(bytes(range(32)))
    (one / "deep" / "key").chmod(0o600)
    (one / "made").mkdir()
    made(two, json.loads(pack(one)))
    assert (two / "deep" / "key").read_bytes() == bytes(range(32))
    assert stat.S_IMODE((two / "deep" / "key").stat().st_mode) == 0o600
    assert [path.name for path in two.iterdir()] == ["deep"]


def test_every_kind_of_node_is_made(tmp_path: Path) -> None:
    plant(tmp_path / "outside")
    tree = {name: {"kind": name} for name in ("pipe", "socket", "folder")}
    tree |= {"hollow": {"kind": "hollow", "size": 2**40}, "link": {"kind": "link", "to": "@../outside/secret"}}
    tree |= {"name": {"kind": "name", "to": "../outside/secret"}}
    made(tmp_path / "in", tree)
    modes = {path.name: path.lstat().st_mode for path in (tmp_path / "in").iterdir()}
    assert stat.S_ISFIFO(modes["pipe"])
    assert stat.S_ISSOCK(modes["socket"])
    assert stat.S_ISDIR(modes["folder"])
    assert (tmp_path / "in" / "hollow").stat().st_size == 2**40
    assert os.readlink(tmp_path / "in" / "link") == str(tmp_path / "outside" / "secret")
    assert (tmp_path / "in" / "name").stat().st_nlink == 2


def test_unpacking_writes_nothing_outside(tmp_path: Path) -> None:
    plant(tmp_path / "outside")
    before = look(tmp_path / "outside")
    out = {"kind": "link", "to": "../outside"}
    names = ("../outside/new", "a/new", "a/secret", "/outside/new", "..", "", "b/../../outside/new")
    made(tmp_path / "in", {"a": out, "b": {"kind": "folder"}, **{name: {"kind": "file", "data": ""} for name in names}})
    assert changes(before, look(tmp_path / "outside")) == ([], [])
    made(tmp_path / "in", {"long": {"kind": "link", "to": "x" * 300}})
    made(tmp_path / "in", {})  # emptied without a step through a link
    assert changes(before, look(tmp_path / "outside")) == ([], [])


def test_a_file_is_exchanged_when_the_nth_file_is_opened(tmp_path: Path) -> None:
    later = {"kind": "file", "data": "bmV3"}
    made(tmp_path / "in", {"a": {"kind": "file", "data": "b2xk", "after": 2, "later": later}})
    path = tmp_path / "in" / "a"
    assert [path.read_bytes() for _ in range(3)] == [b"old", b"new", b"new"]
    assert {str(path)} == EXCHANGED
    made(tmp_path / "in", {"a": {"kind": "file", "data": "b2xk", "later": {"kind": "gone"}}})
    with pytest.raises(FileNotFoundError):
        path.read_bytes()
    made(tmp_path / "in", {"l": {"kind": "link", "to": "."}, "l/a": {"kind": "file", "data": "b2xk", "later": later}})
    assert path.read_bytes() == b"new"
    assert {str(path)} == EXCHANGED


def test_what_is_written_or_deleted_is_seen(tmp_path: Path) -> None:
    for name in ("a", "b", "ledger.lock"):
        (tmp_path / name).write_text(name)
    before = look(tmp_path)
    (tmp_path / "a").unlink()
    (tmp_path / "b").chmod(0o640)
    (tmp_path / "c").touch()
    (tmp_path / "ledger.lock").unlink()
    seen = [str(tmp_path / name) for name in ("b", "c", "a")]
    assert changes(before, look(tmp_path), ("ledger*",)) == (seen[:2], seen[2:])
    assert changes(before, look(tmp_path), ("ledger*", "a"), {seen[0]}) == ([seen[1]], [])


def test_a_burst_of_memory_is_seen() -> None:
    """In a process of its own, which has no freed memory to take it from."""
    script = """
from tests.fuzz.fuzz_worker import forget_peak, memory
forget_peak()
used = memory("VmRSS")
bytearray(b"\\1") * 2**26
print(memory("VmHWM") - used)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert 2**25 <= int(done.stdout) < 2**28


def test_named_files_lead_nowhere_or_in_a_circle(tmp_path: Path) -> None:
    change, rng, data = tricks(lambda data, rng: data, "logs/a", ("b",)), random.Random(0), {}
    leads = set()
    for _ in range(2_000):
        data = json.loads(
            change(b'{"logs": {"kind": "folder"}, "logs/a": {"kind": "file"}, "b": {"kind": "file"}}', rng)
        )
        leads |= {data[name]["to"] for name in ("logs", "b") if data.get(name, {}).get("kind") in ("link", "name")}
        assert "../" not in data.get("b", {}).get("to", "")
    assert "nowhere" in leads


ALONE = {reader.name: reader for reader in (*fuzz_records.READERS, *fuzz_releases.READERS)}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("name", "bomb"),
    [
        ("parquet", parquet_bomb),
        ("checkpoint", tensor_bomb),
        ("points in gzip", gzip_bomb),
        ("npz", zip_bomb),
    ],
)
def test_bombs_are_other_files_and_no_larger_than_an_input(
    name: str, bomb: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seed, rng = ALONE[name].seeds(tmp_path)[0], random.Random(3)
    found = {bomb(seed, rng) for _ in range(20)}  # type: ignore[operator]
    assert len(found - {seed}) > 3
    assert min(map(len, found)) < 2**18


def test_every_reader_has_a_name_of_its_own() -> None:
    names = [reader.name for reader in (*ALONE.values(), *READERS)]
    assert len(names) == len(set(names)) == 58
