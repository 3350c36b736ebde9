"""PateGAIL++ that is killed within a round goes on: it costs that round, and no round is released twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

KEPT = {"after a checkpoint"}
"""Where a kill costs no round."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked children")
def test_a_kill_at_each_point_of_a_round_costs_that_round_at_most(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).with_name("imitation_harness.py")), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=True)
    found = json.loads(done.stdout)
    assert len(found) == 6
    for point, counts in found.items():
        expected = {"kills": 1, "finished": 1} | ({} if point in KEPT else {"burnt": 1})
        assert counts == expected, point
