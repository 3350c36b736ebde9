"""A hundred SIGKILLs: nobody is served beyond the cap, and the register opens after each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from register_harness import open_

from tacit.errors import LedgerError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked children")


def run(folder: Path, mode: str, kills: int, seed: int) -> Counter[str]:
    harness = Path(__file__).with_name("register_harness.py")
    command = [sys.executable, str(harness), str(folder / mode), str(kills), mode, str(seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    return Counter(json.loads(done.stdout))


def test_nobody_is_served_beyond_the_cap_however_often_the_process_dies(tmp_path: Path) -> None:
    found = run(tmp_path, "reserve_first", 120, seed=1)
    assert found["kills"] == 120
    assert found["served"] > 300, "the children hardly ran"
    assert found["burned"] > 0, "no kill fell between reservation and service"
    bad = ("over_cap", "over_register", "unwritten", "verify_failed", "child_failed")
    assert {name: found[name] for name in bad} == dict.fromkeys(bad, 0)


@pytest.mark.parametrize("mode", ["serve_first", "count_commits"])
def test_the_harness_catches_a_broken_order(tmp_path: Path, mode: str) -> None:
    found = run(tmp_path, mode, 50, seed=2)
    assert found["over_cap"] > 0
    assert found["unwritten"] > 0


def test_a_name_that_a_kill_tore_stops_no_child(tmp_path: Path) -> None:
    """A write of a few bytes is torn where it crosses a page."""
    root = tmp_path / "reserve_first"
    root.mkdir()
    (root / "served").write_text("person 1\nperson 2\npers")
    found = run(tmp_path, "reserve_first", 4, seed=3)
    assert (found["kills"], found["child_failed"]) == (4, 0)
    assert (root / "served").read_text().startswith("person 1\nperson 2\nperson ")


def test_killed_while_it_is_made_it_opens_or_says_what_is_missing(tmp_path: Path) -> None:
    """A register that was half made never comes up with another key or empty."""
    outcomes = list[str]()
    for writes in range(8):  # the child dies at its n-th file operation
        root = tmp_path / str(writes)
        for name in ("vault", "keys"):
            (root / name).mkdir(parents=True)
        pid = os.fork()
        if pid == 0:
            left = iter(range(writes))
            for name in ("write", "fsync", "replace"):
                setattr(os, name, _dying(getattr(os, name), left))
            try:
                open_(root)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        try:
            with open_(root) as register:
                outcomes.append(f"lets in: {register.reserve('p', ['a'], 1).tolist()}")
        except LedgerError as error:
            outcomes.append(error.what)
    assert set(outcomes) == {"lets in: [True]", "the register is gone"}


def _dying(real, left):
    def operation(*args, **kwargs):
        if next(left, None) is None:
            os._exit(9)
        return real(*args, **kwargs)

    return operation
