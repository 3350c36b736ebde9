"""A rank is killed at a point of a step, over gloo: nothing is released twice, and nothing without all the noise."""

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
BAD = ("twice", "unclaimed", "other noise", "hung", "ended otherwise")


def run(mode: str, kills: int, ranks: int, seed: int) -> Counter[str]:
    with tempfile.TemporaryDirectory() as folder:
        harness = Path(__file__).with_name("shard_harness.py")
        command = [sys.executable, str(harness), str(Path(folder, "run")), str(kills), str(ranks), mode, str(seed)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=3_000, check=True)
    return Counter(json.loads(done.stdout))


def test_eight_kills_of_a_rank_release_nothing_twice_and_nothing_without_its_noise() -> None:
    found = run("as it is", 8, 2, seed=1)
    assert found["kills"] == 8
    assert found["released"] > 0
    assert {name: found[name] for name in BAD} == dict.fromkeys(BAD, 0)


def test_the_harness_sees_a_step_that_is_released_again() -> None:
    assert run("forgets claims", 6, 2, seed=3)["twice"] > 0


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_two_hundred_kills_of_a_rank_over_two_and_three_ranks() -> None:
    for ranks, seed in ((2, 11), (3, 12)):
        found = run("as it is", 100, ranks, seed=seed)
        print(f"{ranks} ranks: {dict(found)}")
        assert found["kills"] == 100
        assert found["released"] > 100, "the ranks hardly ran"
        assert found["burnt"] > 0
        assert {name: found[name] for name in BAD} == dict.fromkeys(BAD, 0)
