"""PateGAIL++ that is killed within a round goes on: it costs that round, and no round is released twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from imitation_harness import POINTS, killed_and_resumed, small_plan

from tacit.privacy.vault import plan as plans

KEPT = {"after a checkpoint"}
"""Where a kill costs no round."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked children")
def test_a_kill_at_each_point_of_a_round_costs_that_round_at_most(tmp_path: Path) -> None:
    plan = small_plan()
    plans.certified_bound(plan)  # what the children would all compute again
    for point in POINTS:
        expected = {"kills": 1, "finished": 1} | ({} if point in KEPT else {"burnt": 1})
        assert killed_and_resumed(tmp_path / point, plan, point) == expected, point
