"""A thousand SIGKILLs: no step released twice, never over plan, the ledger valid after each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked children")


def run(mode: str, kills: int, seed: int) -> Counter[str]:
    with tempfile.TemporaryDirectory() as folder:
        harness = Path(__file__).with_name("kill_harness.py")
        command = [sys.executable, str(harness), str(Path(folder, "runs")), str(kills), mode, str(seed)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=280, check=True)
    return Counter(json.loads(done.stdout))


@pytest.mark.parametrize("kills", [150, pytest.param(1_000, marks=pytest.mark.slow)])
def test_a_thousand_kills_release_no_step_twice(kills: int) -> None:
    found = run("claim_first", kills, seed=1)
    assert found["kills"] >= kills
    assert found["released"] > kills / 2, "the children hardly ran"
    assert found["killed_in_transaction"] > 0, "no kill fell into a transaction"
    bad = ("twice", "unclaimed", "over_plan", "over_budget", "verify_failed", "torn_view", "child_failed")
    assert {name: found[name] for name in bad} == dict.fromkeys(bad, 0)
    assert found["burned"] >= 0


@pytest.mark.parametrize("mode", ["release_first", "write_behind"])
def test_the_harness_catches_a_broken_door(mode: str) -> None:
    found = run(mode, 150, seed=2)
    assert found["twice"] > 0
    assert found["unclaimed"] >= 0
