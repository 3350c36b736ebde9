"""The fault-injecting file layer: what a power cut may leave, and that broken files under a ledger are found by it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.faults import faults_layer as layer
from tests.faults.faults_audit import NEVER, SOUND, audit
from tests.faults.faults_layer import Disk, Kind, Operation
from tests.faults.layer_harness import TRIALS

preloading = pytest.mark.skipif(not layer.available(), reason="needs Linux and a C compiler")


def written(path: Path, place: int, data: bytes) -> Operation:
    return Operation(Kind.WRITE, str(path), place, data)


def cuts(disk: Disk, folder: Path, name: str) -> set[bytes | None]:
    """What a file may hold after a power cut; None where it is not there."""
    found = set[bytes | None]()
    for seed in range(60):
        target = folder / f"cut{seed}"
        disk.cut(target, random.Random(seed))
        path = target / name
        found.add(path.read_bytes() if path.exists() else None)
    return found


def test_what_was_flushed_stays_and_the_rest_may_or_may_not(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "a").write_bytes(b"old")
    disk = Disk(files)
    disk.apply(written(files / "a", 3, b"+new"))
    assert cuts(disk, tmp_path / "1", "a") == {b"old", b"old+new"}
    disk.apply(Operation(Kind.FLUSH, str(files / "a"), 0, b""))
    assert cuts(disk, tmp_path / "2", "a") == {b"old+new"}
    lying = Disk(files, flushed=lambda path, number: False)
    lying.apply(written(files / "a", 3, b"+new"))
    lying.apply(Operation(Kind.FLUSH, str(files / "a"), 0, b""))
    assert cuts(lying, tmp_path / "3", "a") == {b"old", b"old+new"}


def test_a_write_is_torn_at_sectors_and_a_hole_reads_as_zeros(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "a").write_bytes(b"")
    disk = Disk(files)
    disk.apply(written(files / "a", 0, b"x" * layer.SECTOR + b"y" * 3))
    whole = b"x" * layer.SECTOR
    zeros = bytes(layer.SECTOR)
    assert cuts(disk, tmp_path / "cuts", "a") == {b"", whole, zeros + b"yyy", whole + b"yyy"}


def test_folders_stay(tmp_path: Path) -> None:
    (tmp_path / "files" / "empty").mkdir(parents=True)
    Disk(tmp_path / "files").cut(tmp_path / "cut", random.Random(0))
    assert (tmp_path / "cut" / "empty").is_dir()


def test_names_are_kept_in_order_and_with_their_folder(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "a").write_bytes(b"old")
    new, name = files / "a.new", str(files / "a")
    disk = Disk(files)
    disk.apply(Operation(Kind.CREATE, str(new), 0, b""))
    disk.apply(written(new, 0, b"new"))
    disk.apply(Operation(Kind.RENAME, str(new), 0, name.encode()))
    assert cuts(disk, tmp_path / "1", "a") == {b"old", b"", b"new"}  # renamed before its bytes were flushed
    disk.apply(Operation(Kind.FLUSH, name, 0, b""))
    assert cuts(disk, tmp_path / "2", "a") == {b"old", b"new"}
    disk.apply(Operation(Kind.FLUSH, str(files), 0, b""))
    assert cuts(disk, tmp_path / "3", "a") == {b"new"}


def test_the_audit_counts_what_may_not_be(tmp_path: Path) -> None:
    lines = ["step ledger p a 0 aa", "step ledger p a 0 bb", "step ledger p a 1 bb", *["person p ann"] * 3]
    found = audit([tmp_path / "ledger"], lines, most=2)
    assert {name: found[name] for name in ("repeated", "same_noise", "over_cap", "unclaimed", "released")} == {
        "repeated": 1,
        "same_noise": 1,
        "over_cap": 1,
        "unclaimed": 2,
        "released": 2,
    }


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Counter[str]]:
    """What came of all trials, which one process makes: by their names and modes."""
    command = [sys.executable, str(Path(__file__).with_name("layer_harness.py")), str(tmp_path_factory.mktemp("runs"))]
    source = Path(__file__).parents[2]
    paths = os.pathsep.join([str(source / "src"), str(source), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "LD_PRELOAD": str(layer.library()), "PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=True, env=environment)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return {(name, mode): Counter(json.loads(line)) for (name, _, mode), line in zip(TRIALS, lines, strict=True)}


@preloading
@pytest.mark.parametrize("name", ["write", "power", "lost ledger", "full"])
def test_a_ledger_keeps_its_word(name: str, trials: dict[tuple[str, str], Counter[str]]) -> None:
    found = trials[name, "as it is"]
    assert found["faults"] >= 12
    assert found["released"] > 12
    bad = NEVER if name == "lost ledger" else (*NEVER, *SOUND)
    assert {key: found[key] for key in bad} == dict.fromkeys(bad, 0)
    assert found["messages"] > 0 or name != "full"


@preloading
@pytest.mark.parametrize(("name", "mode"), [("power", "no flush"), ("lost ledger", "no flush of the head")])
def test_the_layer_finds_files_that_are_not_flushed(
    name: str, mode: str, trials: dict[tuple[str, str], Counter[str]]
) -> None:
    assert any(trials[name, mode][key] for key in (*NEVER, *SOUND))
