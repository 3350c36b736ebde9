"""A rank is killed at a point of a step, over gloo: nothing is released twice, and nothing without all the noise."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from shard_harness import main

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked children")
BAD = ("twice", "unclaimed", "other noise", "hung", "ended otherwise")


def test_eight_kills_of_a_rank_release_nothing_twice_and_nothing_without_its_noise(tmp_path: Path) -> None:
    found = main(tmp_path / "run", 8, 2, "as it is", seed=1)
    assert found["kills"] == 8
    assert found["released"] > 0
    assert {name: found[name] for name in BAD} == dict.fromkeys(BAD, 0)


def test_the_harness_sees_a_step_that_is_released_again(tmp_path: Path) -> None:
    assert main(tmp_path / "run", 6, 2, "forgets claims", seed=3)["twice"] > 0


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_two_hundred_kills_of_a_rank_over_two_and_three_ranks(tmp_path: Path) -> None:
    for ranks, seed in ((2, 11), (3, 12)):
        found = main(tmp_path / f"{ranks}", 100, ranks, "as it is", seed=seed)
        print(f"{ranks} ranks: {dict(found)}")
        assert found["kills"] == 100
        assert found["released"] > 100, "the ranks hardly ran"
        assert found["burnt"] > 0
        assert {name: found[name] for name in BAD} == dict.fromkeys(BAD, 0)
