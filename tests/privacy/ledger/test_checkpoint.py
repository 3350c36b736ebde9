"""Checkpoints in a folder that somebody else may have filled."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from ledger_cases import make
from tests.private_files import open_to_others

from tacit.errors import FileError
from tacit.privacy.ledger import checkpoint

WEIGHTS = {"w": torch.arange(3.0)}


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_a_planted_partial_file_is_not_written_through(
    path: Path, tmp_path: Path, link: Callable[[Path, Path], None]
) -> None:
    victim, state = tmp_path / "victim", tmp_path / "state.safetensors"
    victim.write_bytes(b"precious")
    link(victim, state.with_suffix(".partial"))
    with make(path) as ledger:
        checkpoint.save(state, WEIGHTS, plan_id="p", ledger=ledger)
        assert checkpoint.load(state, plan_id="p", ledger=ledger)["w"].tolist() == [0.0, 1.0, 2.0]
    assert victim.read_bytes() == b"precious"


def test_a_checkpoint_is_its_owners_alone(path: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with make(path) as ledger:
            for _ in range(2):
                checkpoint.save(tmp_path / "run" / "checkpoint" / "state", WEIGHTS, plan_id="p", ledger=ledger)
                assert open_to_others(tmp_path / "run" / "checkpoint") == []
    finally:
        os.umask(before)


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, seen = tmp_path / "run" / "state", list[tuple[str, int]]()
    flush, rename = os.fsync, os.replace
    with make(path) as ledger:
        checkpoint.save(state, WEIGHTS, plan_id="p", ledger=ledger)
        size = state.stat().st_size

        def fsync(handle: int) -> None:
            seen.append(("flush", os.fstat(handle).st_size))
            flush(handle)

        def replace(source: Path, target: Path) -> None:
            seen.append(("rename", os.stat(source).st_size))
            rename(source, target)

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(os, "replace", replace)
        checkpoint.save(state, WEIGHTS, plan_id="p", ledger=ledger)
    assert seen[:2] == [("flush", size), ("rename", size)]
    assert [one.name for one in state.parent.iterdir()] == ["state"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_plain_file_is_no_checkpoint(path: Path, tmp_path: Path) -> None:
    far, state = tmp_path / "far", tmp_path / "state"
    with make(path) as ledger:
        checkpoint.save(far, WEIGHTS, plan_id="p", ledger=ledger)
        content = far.read_bytes()

        def hollow() -> None:
            state.write_bytes(content)
            os.truncate(state, 2**40)

        for plant in (lambda: state.symlink_to(far), lambda: os.mkfifo(state), state.mkdir, hollow):
            plant()
            with pytest.raises(FileError, match="truncated or of another kind"):
                checkpoint.load(state, plan_id="p", ledger=ledger)
            state.rmdir() if state.is_dir() else state.unlink()
        state.write_bytes(content)
        assert checkpoint.load(state, plan_id="p", ledger=ledger)["w"].tolist() == [0.0, 1.0, 2.0]
